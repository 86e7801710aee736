/* The end of elaboration: solves what sizes are still open, drops what nothing uses, makes dims
   that a reshape only renamed into one, puts numbers into types, parameters and constants. */
#include "frontend/sema.h"
#include <math.h>

typedef struct Finish {
    Elab *e;
    uint32_t n;       /* dims of elaboration */
    uint32_t *parent; /* [n] union-find over dims */
    uint64_t **rows;  /* [n] bit set of dims that stand beside this one somewhere; NULL: unused */
    uint32_t n_words;
    IrId *final; /* [n] index in m->dims, by representative */
} Finish;

/* ---- what is used ------------------------------------------------------------------------------------------------ */

static bool *live_ops(Elab *e, const IrFunc *f)
{
    bool *live = ARENA_ARRAY(e->a, bool, f->ops.n + 1);
    for (uint32_t i = 0; i < f->results.n; i++) live[f->results.data[i].value] = true;
    for (uint32_t i = f->ops.n; i-- > 0;) {
        const IrOp *op = &f->ops.data[i];
        live[i] |= op->op == IR_OP_arg;
        for (uint32_t k = 0; live[i] && k < op->n_args; k++) live[op->args[k]] = true;
        IrId route = live[i] ? ir_route_of(e->m, f, op) : IR_NONE;
        if (route != IR_NONE) live[route] = true;
    }
    return live;
}

static void drop_dead(Elab *e, IrFunc *f)
{
    bool *live = live_ops(e, f);
    IrId *to = ARENA_ARRAY(e->a, IrId, f->ops.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->ops.n; i++) {
        to[i] = live[i] ? n : IR_NONE;
        if (!live[i]) continue;
        IrOp op = f->ops.data[i];
        for (uint32_t k = 0; k < op.n_args; k++) op.args[k] = to[op.args[k]];
        f->ops.data[n++] = op;
    }
    f->ops.n = n;
    for (uint32_t i = 0; i < f->results.n; i++) f->results.data[i].value = to[f->results.data[i].value];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->patches.n; i++) {
        Patch p = e->patches.data[i];
        if (p.f == f) p.op = to[p.op];
        if (p.f != f || p.op != IR_NONE) e->patches.data[kept++] = p;
    }
    e->patches.n = kept;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static void error_open_var(Elab *e, const Size *s, StrBuf *missing)
{
    s = size_norm(&e->z, s);
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->t[i].n; j++) {
            const SizeVarInfo *v = &e->z.vars.data[s->t[i].v[j]];
            if (v->kind == SIZE_RATIO) {
                error_open_var(e, v->num, missing);
                error_open_var(e, v->den, missing);
            } else if (v->kind == SIZE_FREE) {
                const char *seen = missing->n ? strstr(missing->data, arena_printf(e->a, "`%s`", v->name)) : NULL;
                if (!seen) strbuf_printf(missing, "%s`%s`", missing->n ? ", " : "", v->name);
            } else {
                Diag *d = diag_error(e->d, E0208, v->span, "nothing says how large dim `%s` is", v->name);
                diag_help(e->d, d, "give it in the call: `%s = 16`", v->name);
            }
        }
}

/* A positive number, or -1 where `check` may leave it open. */
static int64_t final_size(Elab *e, const Size *s, Span at, StrBuf *missing)
{
    int64_t n;
    if (!size_value(&e->z, s, &n)) {
        if (!e->opt->symbolic) error_open_var(e, s, missing);
        return -1;
    }
    if (n > 0) return n;
    diag_error(e->d, E0211, at, "a dim has size %lld", (long long)n);
    return 1;
}

/* ---- merging renamed dims ---------------------------------------------------------------------------------------- */

static uint32_t root(const Finish *f, IrId d)
{
    while (f->parent[d] != d) d = f->parent[d];
    return d;
}

static void use(Finish *f, IrId d)
{
    if (!f->rows[d]) f->rows[d] = ARENA_ARRAY(f->e->a, uint64_t, f->n_words);
}

static void set_apart(Finish *f, IrId a, IrId b)
{
    if (a == b) return;
    f->rows[a][b / 64] |= 1ull << (b % 64);
    f->rows[b][a / 64] |= 1ull << (a % 64);
}

/* Dims of values that meet in one op must stay as different as they are. */
static void meet(Finish *f, const IrType *a, const IrType *b)
{
    for (int i = 0; i < a->n_dims; i++)
        for (int k = 0; k < b->n_dims; k++) set_apart(f, a->dims[i], b->dims[k]);
}

static void collect(Finish *f)
{
    const IrModule *m = f->e->m;
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrType *t = &m->tensors.data[i].type;
        for (int k = 0; k < t->n_dims; k++) use(f, t->dims[k]);
        meet(f, t, t);
    }
    for (uint32_t j = 0; j < m->funcs.n; j++)
        for (uint32_t i = 0; i < m->funcs.data[j]->ops.n; i++) {
            const IrOp *op = &m->funcs.data[j]->ops.data[i];
            for (int k = 0; k < op->type.n_dims; k++) use(f, op->type.dims[k]);
            meet(f, &op->type, &op->type);
            if (ir_ops[op->op].attrs & A_DIM) use(f, op->attr.dim);
            bool mixes = (ir_ops[op->op].traits & T_MAP) || op->op == IR_OP_contract;
            for (uint32_t a = 0; mixes && a < op->n_args; a++)
                for (uint32_t b = 0; b < a; b++)
                    meet(f, &m->funcs.data[j]->ops.data[op->args[a]].type,
                         &m->funcs.data[j]->ops.data[op->args[b]].type);
        }
}

static void unite(Finish *f, IrId x, IrId y)
{
    uint32_t a = root(f, x), b = root(f, y);
    if (a == b || (f->rows[a][b / 64] >> (b % 64) & 1)) return;
    if (b < a) {
        uint32_t swap = a;
        a = b, b = swap;
    }
    f->parent[b] = a;
    for (uint32_t w = 0; w < f->n_words; w++) f->rows[a][w] |= f->rows[b][w];
    for (uint32_t c = 0; c < f->n; c++)
        if (f->rows[b][c / 64] >> (c % 64) & 1) f->rows[c][a / 64] |= 1ull << (a % 64);
}

static void unite_renamed(Finish *f)
{
    Elab *e = f->e;
    for (uint32_t j = 0; j < e->m->funcs.n; j++)
        for (uint32_t i = 0; i < e->m->funcs.data[j]->ops.n; i++) {
            const IrOp *op = &e->m->funcs.data[j]->ops.data[i];
            if (op->op != IR_OP_reshape) continue;
            const IrType *x = &e->m->funcs.data[j]->ops.data[op->args[0]].type, *y = &op->type;
            bool rename = x->n_dims == y->n_dims;
            for (int k = 0; rename && k < x->n_dims; k++)
                rename = size_equal(&e->z, dim_size(e, x->dims[k]), dim_size(e, y->dims[k]));
            for (int k = 0; rename && k < x->n_dims; k++) unite(f, x->dims[k], y->dims[k]);
        }
}

/* ---- the final dims ---------------------------------------------------------------------------------------------- */

/* A label as an identifier of the text form. */
static const char *final_name(Elab *e, const char *label)
{
    if (!label) return "d";
    char *s = arena_strndup(e->a, label, strlen(label));
    for (char *p = s; *p; p++) {
        bool ok = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_';
        if (!ok) *p = '_';
    }
    return s[0] >= '0' && s[0] <= '9' ? "d" : s;
}

/* `name`, or name.2, name.3, ...: the first that no dim has. taken: name -> the last number tried behind it. */
static const char *dim_name(Elab *e, StrMap *taken, const char *name)
{
    uintptr_t k = (uintptr_t)strmap_get(taken, name);
    const char *own = name;
    while (strmap_has(taken, own)) own = arena_printf(e->a, "%s.%u", name, (unsigned)++k);
    strmap_put(taken, own, (void *)(uintptr_t)1);
    if (own != name) strmap_put(taken, name, (void *)k);
    return own;
}

static bool label_is_program(const Elab *e, const char *label) { return label && strmap_has(&e->free_dims, label); }

static void number_dims(Finish *f, StrBuf *missing)
{
    Elab *e = f->e;
    StrMap taken = {.arena = e->a};
    const char **labels = ARENA_ARRAY(e->a, const char *, f->n + 1);
    for (uint32_t d = 0; d < f->n; d++) {
        const char *label = e->dims.data[d].label;
        const char **best = &labels[root(f, d)];
        if (f->rows[d] && label && (!*best || (label_is_program(e, label) && !label_is_program(e, *best))))
            *best = label;
    }
    for (uint32_t d = 0; d < f->n; d++) {
        if (!f->rows[d]) continue;
        uint32_t r = root(f, d);
        int64_t size = final_size(e, dim_size(e, d), e->dims.data[d].span, missing);
        if (d != r) continue;
        f->final[d] = e->m->dims.n;
        VEC_PUSH(e->a, &e->m->dims, ((IrDim){dim_name(e, &taken, final_name(e, labels[d])), size}));
    }
}

static void final_type(const Finish *f, IrType *t)
{
    for (int i = 0; i < t->n_dims; i++) t->dims[i] = f->final[root(f, t->dims[i])];
}

/* Types with final dims; reshapes and transposes that change nothing now are read through. */
static void final_func(const Finish *f, IrFunc *fn)
{
    Elab *e = f->e;
    IrId *to = ARENA_ARRAY(e->a, IrId, fn->ops.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < fn->args.n; i++) final_type(f, &fn->args.data[i].type);
    for (uint32_t i = 0; i < fn->ops.n; i++) {
        IrOp op = fn->ops.data[i];
        final_type(f, &op.type);
        if (ir_ops[op.op].attrs & A_DIM) op.attr.dim = f->final[root(f, op.attr.dim)];
        for (uint32_t k = 0; k < op.n_args; k++) op.args[k] = to[op.args[k]];
        bool view = op.op == IR_OP_reshape || op.op == IR_OP_transpose;
        bool same = view && ir_type_eq(&fn->ops.data[op.args[0]].type, &op.type);
        to[i] = same ? op.args[0] : n;
        if (!same) fn->ops.data[n++] = op;
    }
    for (uint32_t i = 0; i < e->patches.n; i++)
        if (e->patches.data[i].f == fn) e->patches.data[i].op = to[e->patches.data[i].op];
    fn->ops.n = n;
    for (uint32_t i = 0; i < fn->results.n; i++) fn->results.data[i].value = to[fn->results.data[i].value];
}

/* ---- tensors
 * ----------------------------------------------------------------------------------------------------
 */

static void final_init(IrTensor *t, const TensorInfo *info, double fan)
{
    const int64_t *s = t->stored_shape;
    uint32_t n = t->n_stored;
    double in = n ? (double)s[n - 1] : 1, out = n > 1 ? (double)s[n - 2] : 1;
    t->init = IR_INIT_CONST;
    t->init_a = info->init_a;
    t->init_b = info->init_b;
    bool known = true; /* `check` leaves sizes open */
    for (uint32_t k = 0; k < n; k++) known &= s[k] > 0;
    if (!info->init || !known) return;
    double bound = !strcmp(info->init, "glorot")    ? sqrt(6 / (in + out))
                   : !strcmp(info->init, "kaiming") ? 1 / sqrt(fan > 0 ? fan : in)
                                                    : 0;
    if (bound > 0 || !strcmp(info->init, "uniform")) t->init = IR_INIT_UNIFORM;
    if (bound > 0) t->init_a = -bound, t->init_b = bound;
    if (!strcmp(info->init, "normal")) t->init = IR_INIT_NORMAL;
    if (!strcmp(info->init, "ones")) t->init_a = 1;
    if (!strcmp(info->init, "zeros")) t->init_a = 0;
}

static void final_tensor(const Finish *f, uint32_t i, StrBuf *missing)
{
    Elab *e = f->e;
    IrTensor *t = &e->m->tensors.data[i];
    const TensorInfo *info = &e->tensors.data[i];
    int64_t n = 0;
    final_type(f, &t->type);
    if (t->kind == IR_STATE || t->kind == IR_HYPER) { /* stored as they are */
        t->n_stored = t->type.n_dims;
        for (uint8_t k = 0; k < t->type.n_dims; k++) {
            t->stored_perm[k] = k;
            t->stored_shape[k] = e->m->dims.data[t->type.dims[k]].size;
        }
    }
    if (t->kind == IR_PARAM)
        for (uint8_t k = 0; k < t->n_stored; k++)
            t->stored_shape[k] = info->stored[k] ? final_size(e, info->stored[k], t->span, missing) : 1;
    if (info->fan && !size_value(&e->z, info->fan, &n)) n = 1;
    if (t->kind == IR_PARAM || t->kind == IR_STATE) final_init(t, info, (double)n);
    if (info->classes && size_value(&e->z, info->classes, &n) && n > 0) t->bound = n;
    t->allow_missing &= t->bound > 0;
}

static void final_patches(Elab *e, StrBuf *missing)
{
    for (uint32_t i = 0; i < e->patches.n; i++) {
        const Patch *p = &e->patches.data[i];
        IrOp *op = &p->f->ops.data[p->op];
        op->attr.f = (double)final_size(e, p->size, op->span, missing);
    }
}

/* The first value a row of which has more bytes than can be counted. What is read of a table may be computed with a
   one-hot, which has all dims. */
static void final_rows(Elab *e)
{
    const IrModule *m = e->m;
    IrType t = {.space = IR_UNIT};
    Span at = {0};
    bool fits = true;
    for (uint32_t i = 0; i < m->tensors.n && fits; i++) {
        t = m->tensors.data[i].type, at = m->tensors.data[i].span;
        fits = ir_row_fits(m, &t);
    }
    for (uint32_t i = 0; i < m->funcs.n; i++)
        for (uint32_t k = 0; k < m->funcs.data[i]->ops.n && fits; k++) {
            const IrOp *ops = m->funcs.data[i]->ops.data, *op = &ops[k];
            t = op->op == IR_OP_at ? ir_type_join(&ops[op->args[0]].type, &ops[op->args[1]].type) : op->type;
            at = op->span;
            fits = ir_row_fits(m, &t);
        }
    if (!fits)
        diag_error(e->d, E0211, at, "this value is %s, one row of it is larger than memory", ir_type_text(m, &t, e->a));
}

static bool final_report(Elab *e, const StrBuf *missing)
{
    final_rows(e);
    if (missing->n) {
        Diag *d = diag_error(e->d, E0208, e->entry_span, "these dims have no size yet: %s", strbuf_cstr(missing));
        diag_help(e->d, d, "give a data folder (`--data DIR`) or sizes (`--set F=1433,C=7`)");
    }
    if (e->z.overflow) diag_error(e->d, E0211, e->entry_span, "sizes of dims are too large or too involved");
    return e->d->n_errors == 0;
}

bool elab_finish(Elab *e)
{
    const SizeEquation *bad = sizes_solve(&e->z);
    if (bad) {
        diag_error(e->d, E0201, bad->span, "sizes %s and %s are not the same", size_text(&e->z, bad->a),
                   size_text(&e->z, bad->b));
        return false;
    }
    StrBuf missing = {.arena = e->a};
    Finish f = {.e = e, .n = e->dims.n, .n_words = e->dims.n / 64 + 1};
    f.parent = ARENA_ARRAY(e->a, uint32_t, f.n + 1);
    f.rows = ARENA_ARRAY(e->a, uint64_t *, f.n + 1);
    f.final = ARENA_ARRAY(e->a, IrId, f.n + 1);
    for (uint32_t i = 0; i < f.n; i++) f.parent[i] = i;
    for (uint32_t i = 0; i < e->m->funcs.n; i++) drop_dead(e, e->m->funcs.data[i]);
    collect(&f);
    unite_renamed(&f);
    number_dims(&f, &missing);
    for (uint32_t i = 0; i < e->m->funcs.n; i++) final_func(&f, e->m->funcs.data[i]);
    for (uint32_t i = 0; i < e->m->tensors.n; i++) final_tensor(&f, i, &missing);
    final_patches(e, &missing);
    return final_report(e, &missing);
}
