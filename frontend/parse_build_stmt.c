/* Constructors of statements and declarations, as the grammar calls them, and what the grammar
   leaves open: what may be assigned to, which words begin an item of a body, what may stand only
   once. */
#include "frontend/parser.h"
#include <string.h>

/* ---- depth ---- */

static uint32_t depth_of(const AstExpr *e) { return e ? e->depth : 0; }

static uint32_t max_depth(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t deeper(Parser *p, uint32_t depth, Span span)
{
    if (depth < AST_MAX_DEPTH) return depth + 1;
    if (!p->too_deep) diag_error(p->diags, E0106, span, "this is nested deeper than %d levels", AST_MAX_DEPTH);
    p->too_deep = true;
    return AST_MAX_DEPTH;
}

static AstStmt *stmt_new(Parser *p, AstStmtKind kind, uint32_t depth, Span span)
{
    AstStmt *s = ARENA_NEW(p->arena, AstStmt);
    s->kind = kind;
    s->span = span;
    s->depth = deeper(p, depth, span);
    return s;
}

/* ---- statements ---- */

AstBlock *ast_build_block(Parser *p, const StmtVec *items, Span span)
{
    AstBlock *b = ARENA_NEW(p->arena, AstBlock);
    *b = (AstBlock){.span = span, .items = items->data, .n = items->n};
    for (uint32_t i = 0; i < items->n; i++) {
        const AstStmt *s = items->data[i];
        b->depth = max_depth(b->depth, s->depth);
        if (!i || s->kind != AST_STMT_EXPR || span.source->text[s->span.begin] != '-') continue;
        Diag *e = diag_error(p->diags, E0110, s->span, "a statement begins with `-`");
        diag_help(p->diags, e, "to go on with the line before, end that line with `-`");
    }
    return b;
}

static void check_target(Parser *p, const AstExpr *t)
{
    if (t->kind == AST_EXPR_NAME || t->kind == AST_EXPR_MEMBER || t->kind == AST_EXPR_INDEX) return;
    Diag *e = diag_error(p->diags, E0107, t->span, "this cannot be assigned to");
    diag_help(p->diags, e, "a name stands left of `=`; `==` compares");
}

AstStmt *ast_build_assign(Parser *p, const ExprVec *targets, const AstType *type, AstAssignOp op, AstExpr *value,
                          Span span)
{
    uint32_t depth = depth_of(value);
    for (uint32_t i = 0; i < targets->n; i++) {
        check_target(p, targets->data[i]);
        depth = max_depth(depth, targets->data[i]->depth);
    }
    if (targets->n > 1 && (type || op != AST_SET))
        diag_error(p->diags, E0107, targets->data[1]->span,
                   type ? "a type belongs to one name" : "only `=` assigns to several names");
    AstStmt *s = stmt_new(p, AST_STMT_ASSIGN, depth, span);
    s->as.assign.targets = (AstExprs){targets->data, targets->n};
    s->as.assign.op = op;
    s->as.assign.type = type;
    s->as.assign.value = value;
    return s;
}

AstStmt *ast_build_slot_stmt(Parser *p, AstStmtKind kind, const AstSlot *slot, Span span)
{
    AstStmt *s = stmt_new(p, kind, depth_of(slot->init), span);
    s->as.slot = *slot;
    if (slot->type || slot->init) return s;
    Diag *e = diag_error(p->diags, E0113, span, "`%s` has neither a type nor a value", slot->names.items[0].text);
    diag_help(p->diags, e, "write `%s: [F] = zeros`", slot->names.items[0].text);
    return s;
}

AstStmt *ast_build_bind(Parser *p, AstStmtKind kind, AstName name, AstExpr *value, Span span)
{
    AstStmt *s = stmt_new(p, kind, value->depth, span);
    s->as.bind.name = name;
    s->as.bind.value = value;
    return s;
}

AstStmt *ast_build_if(Parser *p, AstExpr *cond, const AstBlock *yes, const AstBlock *no, Span span)
{
    uint32_t depth = max_depth(cond->depth, max_depth(yes->depth, no ? no->depth : 0));
    AstStmt *s = stmt_new(p, AST_STMT_IF, depth, span);
    s->as.branch.cond = cond;
    s->as.branch.yes = *yes;
    s->as.branch.has_no = no;
    if (no) s->as.branch.no = *no;
    return s;
}

AstStmt *ast_build_value_stmt(Parser *p, AstStmtKind kind, AstExpr *value, Span span)
{
    AstStmt *s = stmt_new(p, kind, depth_of(value), span);
    s->as.value = value;
    return s;
}

AstStmt *ast_build_assert(Parser *p, AstExpr *cond, AstExpr *where, Span span)
{
    AstStmt *s = stmt_new(p, AST_STMT_ASSERT, max_depth(cond->depth, depth_of(where)), span);
    s->as.check.cond = cond;
    s->as.check.where = where;
    return s;
}

AstStmt *ast_build_adjoint(Parser *p, const AstBlock *body, Span span)
{
    AstStmt *s = stmt_new(p, AST_STMT_ADJOINT, body->depth, span);
    s->as.adjoint = *body;
    return s;
}

AstSlot *ast_build_slot(Parser *p, const NameVec *names, const AstType *type, AstExpr *init, AstSlot *stored)
{
    AstSlot *s = stored ? stored : ARENA_NEW(p->arena, AstSlot);
    s->names = (AstNames){names->data, names->n};
    s->type = type;
    s->init = init;
    if (stored && names->n > 1)
        diag_error(p->diags, E0113, s->stored_as_span, "a stored name belongs to one parameter, here are %u", names->n);
    return s;
}

AstSlot *ast_build_stored(Parser *p, const char *text, const Brackets *dims, Span span)
{
    AstSlot *s = ARENA_NEW(p->arena, AstSlot);
    s->stored_as = text;
    s->stored_as_span = span;
    s->has_stored_dims = dims;
    if (dims) s->stored_dims = (AstExprs){dims->items.data, dims->items.n};
    return s;
}

/* `aggr = sum as "aggr_module"`: what is passed has no layout, and tensors no stored name. */
AstParam ast_build_param(Parser *p, AstName name, const AstType *type, const AstExpr *init, const AstSlot *stored,
                         Span span)
{
    AstParam a = {.span = span, .name = name, .type = type, .init = init};
    if (!stored) return a;
    a.stored_as = stored->stored_as;
    if (type || stored->has_stored_dims)
        diag_error(p->diags, E0310, stored->stored_as_span,
                   type ? "a stored name belongs to a layer that is passed, `%s` is a value"
                        : "a layer that is passed has no layout: `%s` has a stored name only",
                   name.text);
    return a;
}

AstSignature *ast_build_signature(Parser *p, const ParamVec *params, const AstType *result)
{
    AstSignature *s = ARENA_NEW(p->arena, AstSignature);
    *s = (AstSignature){params->data, params->n, result};
    for (uint32_t i = 0; i < params->n; i++)
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(params->data[i].name.text, params->data[j].name.text)) continue;
            Diag *e = diag_error(p->diags, E0112, params->data[i].name.span, "two parameters `%s`",
                                 params->data[i].name.text);
            diag_note(p->diags, e, params->data[j].name.span, "the first is here");
            break;
        }
    return s;
}

/* ---- declarations ---- */

/* The line that ends right before `end`, without its newline; false at the start of the text. */
static bool line_before(const char *text, uint32_t end, uint32_t *begin)
{
    if (!end) return false;
    uint32_t i = end - 1;
    while (i && text[i - 1] != '\n') i--;
    *begin = i;
    return true;
}

/* The comment lines directly above byte `at`. */
static const char *doc_above(Parser *p, uint32_t at)
{
    const char *text = p->source->text;
    VEC(uint32_t) begins = {0};
    uint32_t end = at, begin;
    while (end && text[end - 1] != '\n') end--;
    while (line_before(text, end, &begin)) {
        uint32_t i = begin;
        while (text[i] == ' ' || text[i] == '\t') i++;
        if (text[i] != '#') break;
        VEC_PUSH(p->arena, &begins, i + 1);
        end = begin;
    }
    if (!begins.n) return NULL;
    StrBuf out = {.arena = p->arena};
    for (uint32_t k = begins.n; k > 0; k--) {
        const char *line = text + begins.data[k - 1];
        if (*line == ' ') line++;
        size_t n = strcspn(line, "\r\n");
        while (n && (line[n - 1] == ' ' || line[n - 1] == '\t')) n--;
        strbuf_add(&out, line, n);
        if (k > 1) strbuf_puts(&out, "\n");
    }
    return strbuf_cstr(&out);
}

static AstDecl *decl_new(Parser *p, AstDeclKind kind, AstName name, Span span)
{
    AstDecl *d = ARENA_NEW(p->arena, AstDecl);
    d->kind = kind;
    d->span = span;
    d->name = name;
    d->doc = doc_above(p, span.begin);
    VEC_PUSH(p->arena, &p->decls, d);
    return d;
}

void ast_build_function(Parser *p, AstDeclKind kind, AstName name, const AstSignature *sig, const AstExpr *expr,
                        const AstBlock *body, Span span)
{
    AstDecl *d = decl_new(p, kind, name, span);
    d->as.function.sig = *sig;
    d->as.function.expr = expr;
    if (body) d->as.function.body = *body;
}

static bool error_within(const Parser *p, Span span)
{
    for (uint32_t i = 0; i < p->diags->list.n; i++) {
        const Diag *d = p->diags->list.data[i];
        if (d->span.source == span.source && d->span.begin >= span.begin && d->span.end <= span.end) return true;
    }
    return false;
}

void ast_build_fold(Parser *p, AstDeclKind kind, AstName name, const AstSignature *sig, FoldBuilder *fold, Span span)
{
    AstDecl *d = decl_new(p, kind, name, span);
    d->as.fold = fold->fold;
    d->as.fold.sig = *sig;
    d->as.fold.states = fold->states.data;
    d->as.fold.n_states = fold->states.n;
    d->as.fold.params = fold->params.data;
    d->as.fold.n_params = fold->params.n;
    bool done = fold->fold.done || fold->fold.has_done_block;
    if (error_within(p, span)) return; /* what lacks may be what was wrong */
    if (kind == AST_DECL_REDUCE && !fold->fold.has_step) {
        Diag *e = diag_error(p->diags, E0113, name.span, "reduce `%s` has no `step { ... }`", name.text);
        diag_help(p->diags, e, "`step` says how one element is taken into the state");
    }
    if (kind == AST_DECL_OPTIMIZER && !fold->fold.has_step && !done) {
        Diag *e = diag_error(p->diags, E0113, name.span, "optimizer `%s` has neither `step` nor `done`", name.text);
        diag_help(p->diags, e, "`done = param - lr * grad` is the new parameter; `step { ... }` changes the state");
    }
    if (kind == AST_DECL_REDUCE && !done) {
        Diag *e = diag_error(p->diags, E0113, name.span, "reduce `%s` has no `done = ...`", name.text);
        diag_help(p->diags, e, "`done` says which value the state stands for");
    }
}

void ast_build_train(Parser *p, const AstExpr *target, const TrainVec *items, Span span)
{
    AstDecl *d = decl_new(p, AST_DECL_TRAIN, (AstName){.span = target->span}, span);
    d->as.train.target = target;
    d->as.train.items = items->data;
    d->as.train.n_items = items->n;
}

void ast_build_test(Parser *p, AstName name, const AstBlock *body, Span span)
{
    decl_new(p, AST_DECL_TEST, name, span)->as.test = *body;
}

void ast_build_schema(Parser *p, AstName name, const SchemaVec *items, Span span)
{
    AstDecl *d = decl_new(p, AST_DECL_SCHEMA, name, span);
    d->as.schema.items = items->data;
    d->as.schema.n_items = items->n;
}

void ast_build_const(Parser *p, const AstSlot *slot, Span span)
{
    decl_new(p, AST_DECL_CONST, slot->names.items[0], span)->as.constant = *slot;
    if (!slot->init) diag_error(p->diags, E0113, span, "`%s` has no value", slot->names.items[0].text);
}

/* ---- items of a body ---- */

static void unknown_item(Parser *p, AstName word, const char *where, const char *const *known, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(known[i], word.text)) continue;
        Diag *e = diag_error(p->diags, E0111, word.span, "this `%s` is not written as an item of %s", word.text, where);
        diag_help(
            p->diags, e,
            "`gnnc explain E0111` shows the forms: `loss = e on mask`, `metric m = e on mask`, `hyper lr = 0.01`");
        return;
    }
    Diag *e = diag_error(p->diags, E0111, word.span, "`%s` begins no item of %s", word.text, where);
    StrBuf list = {.arena = p->arena};
    for (uint32_t i = 0; i < n; i++) strbuf_printf(&list, "%s`%s`", i ? ", " : "", known[i]);
    if (!diag_suggest(p->diags, e, word.span, word.text, known, n))
        diag_help(p->diags, e, "its items are %s", strbuf_cstr(&list));
}

enum { FOLD_STEP, FOLD_MERGE, FOLD_DONE, FOLD_ADJOINT, FOLD_EMPTY, FOLD_STATE, FOLD_PARAM, N_FOLD_WORDS };
static const char *const fold_words[N_FOLD_WORDS] = {"step", "merge", "done", "adjoint", "empty", "state", "param"};

static int fold_word(Parser *p, AstName word)
{
    for (int i = 0; i < N_FOLD_WORDS; i++)
        if (!strcmp(word.text, fold_words[i])) return i;
    unknown_item(p, word, "a reduce or an optimizer", fold_words, N_FOLD_WORDS);
    return -1;
}

/* The word's index if it may stand here once more and has this form; else -1, reported. */
static int fold_once(Parser *p, FoldBuilder *f, AstName word, unsigned allowed, const char *form)
{
    int i = fold_word(p, word);
    if (i < 0) return -1;
    if (!(allowed >> i & 1)) {
        diag_error(p->diags, E0111, word.span, "`%s` is written %s", word.text, form);
        return -1;
    }
    if (f->seen[i].source) {
        Diag *e = diag_error(p->diags, E0112, word.span, "a second `%s`", word.text);
        diag_note(p->diags, e, f->seen[i], "the first is here");
        return -1;
    }
    f->seen[i] = word.span;
    return i;
}

void fold_add_block(Parser *p, FoldBuilder *f, AstName word, const AstBlock *body)
{
    const unsigned blocks = 1u << FOLD_STEP | 1u << FOLD_MERGE | 1u << FOLD_DONE | 1u << FOLD_ADJOINT;
    switch (fold_once(p, f, word, blocks, "with a value, not a block")) {
    case FOLD_STEP:
        f->fold.has_step = true;
        f->fold.step = *body;
        break;
    case FOLD_MERGE:
        f->fold.has_merge = true;
        f->fold.merge = *body;
        break;
    case FOLD_DONE:
        f->fold.has_done_block = true;
        f->fold.done_block = *body;
        break;
    case FOLD_ADJOINT:
        f->fold.has_adjoint = true;
        f->fold.adjoint = *body;
        break;
    default: break;
    }
}

void fold_add_value(Parser *p, FoldBuilder *f, AstName word, const AstExpr *value)
{
    switch (fold_once(p, f, word, 1u << FOLD_DONE | 1u << FOLD_EMPTY, "with a block or with names, not `=`")) {
    case FOLD_DONE: f->fold.done = value; break;
    case FOLD_EMPTY: f->fold.empty = value; break;
    default: break;
    }
}

/* Names before an entry that has a type or a value share both. */
static void add_shared(Parser *p, SlotVec *out, const SlotVec *entries)
{
    NameVec names = {0};
    for (uint32_t i = 0; i < entries->n; i++) {
        AstSlot s = entries->data[i];
        VEC_PUSH(p->arena, &names, s.names.items[0]);
        if (!s.init) continue;
        s.names = (AstNames){names.data, names.n};
        VEC_PUSH(p->arena, out, s);
        names = (NameVec){0};
    }
    if (!names.n) return;
    const AstName *last = &names.data[names.n - 1];
    diag_error(p->diags, E0113, last->span, "`%s` has no first value: write `%s = 0`", last->text, last->text);
}

static void add_states(Parser *p, FoldBuilder *f, const SlotVec *slots)
{
    for (uint32_t i = 0; i < slots->n; i++) {
        const AstSlot *s = &slots->data[i];
        for (uint32_t k = 0; k < s->names.n; k++) {
            AstState state = {s->names.items[k].span, s->names.items[k], s->type, s->init};
            VEC_PUSH(p->arena, &f->states, state);
        }
        if (s->stored_as)
            diag_error(p->diags, E0113, s->stored_as_span, "a state is not stored: `as` belongs to `param`");
    }
}

void fold_add_slots(Parser *p, FoldBuilder *f, AstName word, const SlotVec *entries)
{
    int kind = fold_word(p, word);
    if (kind < 0) return;
    if (kind != FOLD_STATE && kind != FOLD_PARAM) {
        diag_error(p->diags, E0111, word.span, "`%s` is written with `=` or a block, not with a name", word.text);
        return;
    }
    SlotVec slots = {0};
    add_shared(p, &slots, entries);
    if (kind == FOLD_STATE) {
        add_states(p, f, &slots);
        return;
    }
    for (uint32_t i = 0; i < slots.n; i++) VEC_PUSH(p->arena, &f->params, slots.data[i]);
}

static const char *const train_words[] = {"loss",       "metric",    "hyper",      "optimizer", "epochs", "seed",
                                          "stop_early", "clip_norm", "clip_value", "batch",     "steps"};

static void train_unknown(Parser *p, AstName word)
{
    unknown_item(p, word, "a train block", train_words, sizeof train_words / sizeof *train_words);
}

void train_add_let(Parser *p, TrainVec *v, Binding b, const AstExpr *on, Span span)
{
    AstTrainKind kind = strcmp(b.name.text, "loss") ? AST_TRAIN_LET : AST_TRAIN_LOSS;
    if (kind == AST_TRAIN_LET && on) {
        Diag *e = diag_error(p->diags, E0111, b.name.span, "`on` belongs to `loss` and `metric`, `%s` is neither",
                             b.name.text);
        if (!strcmp(b.name.text, "metric")) diag_help(p->diags, e, "a metric has a name: `metric val_acc = ...`");
        else diag_suggest(p->diags, e, b.name.span, b.name.text, &(const char *){"loss"}, 1);
    }
    VEC_PUSH(p->arena, v, ((AstTrainItem){kind, span, b.name, b.value, on}));
}

void train_add_bindings(Parser *p, TrainVec *v, AstName word, const BindingVec *list, const AstExpr *on, Span span)
{
    bool metric = !strcmp(word.text, "metric");
    if (!metric && strcmp(word.text, "hyper")) {
        train_unknown(p, word);
        return;
    }
    if (!metric && on) diag_error(p->diags, E0111, on->span, "`on` belongs to `loss` and `metric`, not to `hyper`");
    for (uint32_t i = 0; i < list->n; i++) {
        Binding b = list->data[i];
        Span at = list->n == 1 ? span : span_join(b.name.span, b.value->span);
        AstTrainItem item = {metric ? AST_TRAIN_METRIC : AST_TRAIN_HYPER, at, b.name, b.value, on};
        VEC_PUSH(p->arena, v, item);
    }
}

void train_add_setting(Parser *p, TrainVec *v, AstName word, const AstExpr *value, Span span)
{
    bool optimizer = !strcmp(word.text, "optimizer");
    if (!optimizer && (value->kind == AST_EXPR_CALL || !strcmp(word.text, "metric") || !strcmp(word.text, "hyper") ||
                       !strcmp(word.text, "loss"))) {
        train_unknown(p, word);
        return;
    }
    AstTrainKind kind = optimizer ? AST_TRAIN_OPTIMIZER : AST_TRAIN_SETTING;
    VEC_PUSH(p->arena, v, ((AstTrainItem){.kind = kind, .span = span, .name = word, .value = value}));
}

void train_add_call(Parser *p, TrainVec *v, AstName word, const ArgVec *args, Span span)
{
    AstExpr *call = ast_build_call(p, ast_build_name_expr(p, word), args, span);
    VEC_PUSH(p->arena, v, ((AstTrainItem){.kind = AST_TRAIN_CALL, .span = span, .name = word, .value = call}));
}
