/* A syntax tree as one line of text, for tests of the parser and the formatter: `(+ a (* b c))`. Spans are
   left out, so that trees of differently laid out texts compare equal. */
#pragma once
#include "frontend/ast.h"

static void dump_expr(StrBuf *o, const AstExpr *e);
static void dump_stmt(StrBuf *o, const AstStmt *s);

static inline void dump_list(StrBuf *o, AstExprs list)
{
    for (uint32_t i = 0; i < list.n; i++) {
        if (i) strbuf_puts(o, " ");
        dump_expr(o, list.items[i]);
    }
}

static inline void dump_type(StrBuf *o, const AstType *t)
{
    if (t->kind == AST_TYPE_TUPLE) {
        strbuf_puts(o, "(");
        for (uint32_t i = 0; i < t->n_items; i++) {
            if (i) strbuf_puts(o, ", ");
            dump_type(o, t->items[i]);
        }
        strbuf_puts(o, ")");
        return;
    }
    static const char *const dtypes[] = {"", ":int", ":bool", ":index", ":f32", ":f64"};
    strbuf_printf(o, "%s%s", t->domain_var ? "@" : "", t->space.text ? t->space.text : "");
    if (t->of.n) strbuf_puts(o, "("), dump_list(o, t->of), strbuf_puts(o, ")");
    if (t->has_dims) strbuf_puts(o, "["), dump_list(o, t->dims), strbuf_puts(o, "]");
    strbuf_puts(o, dtypes[t->dtype]);
    if (t->classes) strbuf_puts(o, "<"), dump_expr(o, t->classes), strbuf_puts(o, ">");
}

static inline void dump_block(StrBuf *o, const AstBlock *b)
{
    strbuf_puts(o, "{");
    for (uint32_t i = 0; i < b->n; i++) {
        if (i) strbuf_puts(o, "; ");
        dump_stmt(o, b->items[i]);
    }
    strbuf_puts(o, "}");
}

static inline void dump_args(StrBuf *o, const AstArg *args, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        strbuf_puts(o, " ");
        if (args[i].word.text) strbuf_printf(o, "%s ", args[i].word.text);
        if (args[i].name.text) strbuf_printf(o, "%s=", args[i].name.text);
        dump_expr(o, args[i].value);
        if (args[i].by) strbuf_puts(o, " by "), dump_expr(o, args[i].by);
        if (args[i].on) strbuf_puts(o, " on "), dump_expr(o, args[i].on);
    }
}

static inline void dump_pair(StrBuf *o, const char *op, const AstExpr *a, const AstExpr *b)
{
    strbuf_printf(o, "(%s ", op);
    dump_expr(o, a);
    strbuf_puts(o, " ");
    dump_expr(o, b);
    strbuf_puts(o, ")");
}

static void dump_expr(StrBuf *o, const AstExpr *e)
{
    switch (e->kind) {
    case AST_EXPR_NAME: strbuf_puts(o, e->as.name.text); break;
    case AST_EXPR_NUMBER:
        if (e->as.number.is_int) strbuf_printf(o, "%lld", (long long)e->as.number.int_value);
        else strbuf_printf(o, "%#.17g", e->as.number.value);
        break;
    case AST_EXPR_STRING: strbuf_json(o, e->as.string); break;
    case AST_EXPR_BOOL: strbuf_puts(o, e->as.boolean ? "true" : "false"); break;
    case AST_EXPR_NONE: strbuf_puts(o, "none"); break;
    case AST_EXPR_REST: strbuf_puts(o, "..."); break;
    case AST_EXPR_DOMAIN: strbuf_printf(o, "@%s", e->as.name.text); break;
    case AST_EXPR_LIST: strbuf_puts(o, "["), dump_list(o, e->as.list), strbuf_puts(o, "]"); break;
    case AST_EXPR_TUPLE: strbuf_puts(o, "(tuple "), dump_list(o, e->as.list), strbuf_puts(o, ")"); break;
    case AST_EXPR_UNARY:
        strbuf_puts(o, e->as.unary.op == AST_NEG ? "(neg " : "(not ");
        dump_expr(o, e->as.unary.value);
        strbuf_puts(o, ")");
        break;
    case AST_EXPR_BINARY: dump_pair(o, ast_binary_text(e->as.binary.op), e->as.binary.left, e->as.binary.right); break;
    case AST_EXPR_RANGE: dump_pair(o, "..", e->as.binary.left, e->as.binary.right); break;
    case AST_EXPR_SELECT:
        strbuf_puts(o, "(if ");
        dump_expr(o, e->as.select.cond);
        strbuf_puts(o, " ");
        dump_expr(o, e->as.select.yes);
        strbuf_puts(o, " ");
        dump_expr(o, e->as.select.no);
        strbuf_puts(o, ")");
        break;
    case AST_EXPR_CALL:
        strbuf_puts(o, "(call ");
        dump_expr(o, e->as.call.callee);
        dump_args(o, e->as.call.args, e->as.call.n_args);
        strbuf_puts(o, ")");
        break;
    case AST_EXPR_MEMBER: dump_expr(o, e->as.member.value), strbuf_printf(o, ".%s", e->as.member.name.text); break;
    case AST_EXPR_INDEX:
        strbuf_puts(o, "(at ");
        dump_expr(o, e->as.index.value);
        strbuf_puts(o, " [");
        dump_list(o, e->as.index.at);
        strbuf_puts(o, "])");
        break;
    case AST_EXPR_OVER:
        strbuf_puts(o, "(over ");
        dump_expr(o, e->as.over.graph);
        dump_block(o, &e->as.over.body);
        strbuf_puts(o, ")");
        break;
    case AST_EXPR_FOR:
        strbuf_printf(o, "(for %s ", e->as.loop.var.text);
        dump_expr(o, e->as.loop.in);
        dump_block(o, &e->as.loop.body);
        strbuf_puts(o, ")");
        break;
    case AST_EXPR_FORALL:
        strbuf_printf(o, "(forall %s ", e->as.forall.var.text);
        if (e->as.forall.at) strbuf_printf(o, "%s ", e->as.forall.word.text), dump_expr(o, e->as.forall.at);
        dump_block(o, &e->as.forall.body);
        strbuf_puts(o, ")");
        break;
    }
}

static inline void dump_slot(StrBuf *o, const char *word, const AstSlot *s)
{
    strbuf_printf(o, "(%s", word);
    for (uint32_t i = 0; i < s->names.n; i++) strbuf_printf(o, " %s", s->names.items[i].text);
    if (s->type) strbuf_puts(o, " : "), dump_type(o, s->type);
    if (s->init) strbuf_puts(o, " = "), dump_expr(o, s->init);
    if (s->stored_as) strbuf_printf(o, " as %s", s->stored_as);
    if (s->has_stored_dims) strbuf_puts(o, " ["), dump_list(o, s->stored_dims), strbuf_puts(o, "]");
    strbuf_puts(o, ")");
}

static inline void dump_if(StrBuf *o, const AstStmt *s)
{
    strbuf_puts(o, "(if ");
    dump_expr(o, s->as.branch.cond);
    dump_block(o, &s->as.branch.yes);
    if (s->as.branch.has_no) strbuf_puts(o, " else "), dump_block(o, &s->as.branch.no);
    strbuf_puts(o, ")");
}

static inline void dump_assign(StrBuf *o, const AstStmt *s)
{
    static const char *const ops[] = {"=", "+=", "-=", "*=", "/="};
    strbuf_printf(o, "(%s ", ops[s->as.assign.op]);
    dump_list(o, s->as.assign.targets);
    if (s->as.assign.type) strbuf_puts(o, " : "), dump_type(o, s->as.assign.type);
    strbuf_puts(o, " ");
    dump_expr(o, s->as.assign.value);
    strbuf_puts(o, ")");
}

static void dump_stmt(StrBuf *o, const AstStmt *s)
{
    switch (s->kind) {
    case AST_STMT_ASSIGN: dump_assign(o, s); break;
    case AST_STMT_PARAM: dump_slot(o, "param", &s->as.slot); break;
    case AST_STMT_BUFFER: dump_slot(o, "buffer", &s->as.slot); break;
    case AST_STMT_CONST: dump_slot(o, "const", &s->as.slot); break;
    case AST_STMT_GRAPH:
    case AST_STMT_PAIRS:
        strbuf_printf(o, "(%s %s ", s->kind == AST_STMT_GRAPH ? "graph" : "pairs", s->as.bind.name.text);
        dump_expr(o, s->as.bind.value);
        strbuf_puts(o, ")");
        break;
    case AST_STMT_IF: dump_if(o, s); break;
    case AST_STMT_RETURN:
        strbuf_puts(o, "(return ");
        if (s->as.value) dump_expr(o, s->as.value);
        strbuf_puts(o, ")");
        break;
    case AST_STMT_ASSERT:
        strbuf_puts(o, "(assert ");
        dump_expr(o, s->as.check.cond);
        if (s->as.check.where) strbuf_puts(o, " where "), dump_expr(o, s->as.check.where);
        strbuf_puts(o, ")");
        break;
    case AST_STMT_ADJOINT: strbuf_puts(o, "(adjoint "), dump_block(o, &s->as.adjoint), strbuf_puts(o, ")"); break;
    case AST_STMT_EXPR: dump_expr(o, s->as.value); break;
    }
}

static inline void dump_signature(StrBuf *o, const AstSignature *s)
{
    strbuf_puts(o, "(");
    for (uint32_t i = 0; i < s->n_params; i++) {
        const AstParam *p = &s->params[i];
        strbuf_printf(o, "%s%s", i ? ", " : "", p->name.text);
        if (p->type) strbuf_puts(o, ": "), dump_type(o, p->type);
        if (p->init) strbuf_puts(o, " = "), dump_expr(o, p->init);
    }
    strbuf_puts(o, ")");
    if (s->result) strbuf_puts(o, " -> "), dump_type(o, s->result);
    strbuf_puts(o, " ");
}

static inline void dump_fold(StrBuf *o, const AstFold *f)
{
    dump_signature(o, &f->sig);
    for (uint32_t i = 0; i < f->n_states; i++) {
        strbuf_printf(o, "state %s", f->states[i].name.text);
        if (f->states[i].type) strbuf_puts(o, ": "), dump_type(o, f->states[i].type);
        strbuf_puts(o, " = ");
        dump_expr(o, f->states[i].init);
        strbuf_puts(o, "; ");
    }
    for (uint32_t i = 0; i < f->n_params; i++) dump_slot(o, "param", &f->params[i]);
    if (f->has_step) strbuf_puts(o, "step "), dump_block(o, &f->step);
    if (f->has_merge) strbuf_puts(o, " merge "), dump_block(o, &f->merge);
    if (f->has_adjoint) strbuf_puts(o, " adjoint "), dump_block(o, &f->adjoint);
    if (f->has_done_block) strbuf_puts(o, " done "), dump_block(o, &f->done_block);
    if (f->done) strbuf_puts(o, " done "), dump_expr(o, f->done);
    if (f->empty) strbuf_puts(o, " empty "), dump_expr(o, f->empty);
}

static inline void dump_train(StrBuf *o, const AstDecl *d)
{
    static const char *const kinds[] = {"let", "loss", "metric", "hyper", "optimizer", "set", "call"};
    dump_expr(o, d->as.train.target);
    for (uint32_t i = 0; i < d->as.train.n_items; i++) {
        const AstTrainItem *t = &d->as.train.items[i];
        strbuf_printf(o, "; %s %s ", kinds[t->kind], t->name.text);
        dump_expr(o, t->value);
        if (t->on) strbuf_puts(o, " on "), dump_expr(o, t->on);
    }
}

static inline void dump_schema(StrBuf *o, const AstDecl *d)
{
    for (uint32_t i = 0; i < d->as.schema.n_items; i++) {
        const AstSchemaItem *t = &d->as.schema.items[i];
        strbuf_printf(o, "%s %s", t->word.text, t->name.text);
        if (t->from.text) strbuf_printf(o, ": %s -> %s", t->from.text, t->to.text);
        if (t->dims.n) strbuf_puts(o, "["), dump_list(o, t->dims), strbuf_puts(o, "]");
        if (t->edges) strbuf_puts(o, " = "), dump_expr(o, t->edges);
        if (t->where) strbuf_puts(o, " where "), dump_expr(o, t->where);
        strbuf_puts(o, "; ");
    }
}

static inline void dump_decl(StrBuf *o, const AstDecl *d)
{
    if (d->doc) strbuf_printf(o, "# %s\n", d->doc);
    if (d->kind != AST_DECL_CONST) strbuf_printf(o, "%s %s", ast_decl_text(d->kind), d->name.text ? d->name.text : "");
    switch (d->kind) {
    case AST_DECL_MESSAGE:
    case AST_DECL_FN:
    case AST_DECL_LAYER:
    case AST_DECL_MODEL:
        dump_signature(o, &d->as.function.sig);
        if (d->as.function.expr) dump_expr(o, d->as.function.expr);
        else dump_block(o, &d->as.function.body);
        break;
    case AST_DECL_REDUCE:
    case AST_DECL_OPTIMIZER:
    case AST_DECL_SCHEDULE: dump_fold(o, &d->as.fold); break;
    case AST_DECL_TRAIN: dump_train(o, d); break;
    case AST_DECL_TEST: dump_block(o, &d->as.test); break;
    case AST_DECL_SCHEMA: dump_schema(o, d); break;
    case AST_DECL_CONST: dump_slot(o, "const", &d->as.constant); break;
    }
    strbuf_puts(o, "\n");
}

static inline const char *dump_file(Arena *a, const AstFile *f)
{
    StrBuf o = {.arena = a};
    for (uint32_t i = 0; i < f->n_decls; i++) dump_decl(&o, f->decls[i]);
    return strbuf_cstr(&o);
}
