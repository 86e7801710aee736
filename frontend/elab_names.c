/* Names in definitions that are never run: a function without types that nobody calls cannot be
   elaborated, but what it calls must exist. Walks the tree; looks at names in front of parentheses
   only, because other words may be dims or options. */
#include "frontend/sema.h"

typedef struct Names {
    Elab *e;
    StrMap known; /* parameters, and what is assigned anywhere in the definition */
} Names;

typedef void Visit(Names *n, const AstExpr *x);

static void walk_block(Names *n, const AstBlock *b, Visit *visit);

static void walk(Names *n, const AstExpr *x, Visit *visit)
{
    if (!x) return;
    visit(n, x);
    switch (x->kind) {
    case AST_EXPR_LIST:
    case AST_EXPR_TUPLE:
        for (uint32_t i = 0; i < x->as.list.n; i++) walk(n, x->as.list.items[i], visit);
        break;
    case AST_EXPR_UNARY: walk(n, x->as.unary.value, visit); break;
    case AST_EXPR_BINARY:
    case AST_EXPR_RANGE:
        walk(n, x->as.binary.left, visit);
        walk(n, x->as.binary.right, visit);
        break;
    case AST_EXPR_SELECT:
        walk(n, x->as.select.cond, visit);
        walk(n, x->as.select.yes, visit);
        walk(n, x->as.select.no, visit);
        break;
    case AST_EXPR_CALL:
        walk(n, x->as.call.callee, visit);
        for (uint32_t i = 0; i < x->as.call.n_args; i++) walk(n, x->as.call.args[i].value, visit);
        break;
    case AST_EXPR_MEMBER: walk(n, x->as.member.value, visit); break;
    case AST_EXPR_INDEX:
        walk(n, x->as.index.value, visit);
        for (uint32_t i = 0; i < x->as.index.at.n; i++) walk(n, x->as.index.at.items[i], visit);
        break;
    case AST_EXPR_OVER:
        walk(n, x->as.over.graph, visit);
        walk_block(n, &x->as.over.body, visit);
        break;
    case AST_EXPR_FOR:
        walk(n, x->as.loop.in, visit);
        walk_block(n, &x->as.loop.body, visit);
        break;
    default: break;
    }
}

static void learn(Names *n, const AstExpr *x)
{
    if (x->kind == AST_EXPR_FOR) strmap_put(&n->known, x->as.loop.var.text, n);
}

static void walk_stmt(Names *n, const AstStmt *s, Visit *visit)
{
    switch (s->kind) {
    case AST_STMT_ASSIGN:
        for (uint32_t i = 0; i < s->as.assign.targets.n; i++) {
            const AstExpr *t = s->as.assign.targets.items[i];
            if (t->kind == AST_EXPR_NAME) strmap_put(&n->known, t->as.name.text, n);
        }
        walk(n, s->as.assign.value, visit);
        break;
    case AST_STMT_GRAPH:
        strmap_put(&n->known, s->as.bind.name.text, n);
        walk(n, s->as.bind.value, visit);
        break;
    case AST_STMT_IF:
        walk(n, s->as.branch.cond, visit);
        walk_block(n, &s->as.branch.yes, visit);
        if (s->as.branch.has_no) walk_block(n, &s->as.branch.no, visit);
        break;
    case AST_STMT_RETURN:
    case AST_STMT_EXPR: walk(n, s->as.value, visit); break;
    default: break;
    }
}

static void walk_block(Names *n, const AstBlock *b, Visit *visit)
{
    for (uint32_t i = 0; i < b->n; i++) walk_stmt(n, b->items[i], visit);
}

/* `aggr_in` of an argument `aggr`. */
static bool reduces_known(Names *n, const char *name)
{
    static const char *const suffixes[] = {"_in", "_out", "_all"};
    if (!strncmp(name, "readout_", 8)) return strmap_has(&n->known, name + 8);
    size_t len = strlen(name);
    for (int i = 0; i < 3; i++) {
        size_t k = strlen(suffixes[i]);
        if (len > k && !strcmp(name + len - k, suffixes[i]))
            return strmap_has(&n->known, arena_strndup(n->e->a, name, len - k));
    }
    return false;
}

static void judge(Names *n, const AstExpr *x)
{
    if (x->kind != AST_EXPR_CALL || x->as.call.callee->kind != AST_EXPR_NAME) return;
    const AstName *name = &x->as.call.callee->as.name;
    bool space = !strcmp(name->text, "node") || !strcmp(name->text, "edge");
    if (space || strmap_has(&n->known, name->text) || reduces_known(n, name->text)) return;
    if (scope_lookup(n->e, name->text, name->span).kind == V_WORD) error_unknown_name(n->e, name->text, name->span);
}

void elab_names(Elab *e, const Def *def)
{
    const AstFunction *f = &def->decl->as.function;
    Names n = {.e = e, .known = {.arena = e->a}};
    for (uint32_t i = 0; i < f->sig.n_params; i++) strmap_put(&n.known, f->sig.params[i].name.text, e);
    Visit *const passes[] = {learn, judge};
    for (int i = 0; i < 2; i++) {
        walk(&n, f->expr, passes[i]);
        if (!f->expr) walk_block(&n, &f->body, passes[i]);
    }
}
