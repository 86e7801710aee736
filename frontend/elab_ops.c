/* Building ops of graph IR from values: constants, broadcasting by dim, pointwise ops, products,
   moves. Everything that a wrong program can reach here is a diagnostic; the ops that come out are
   well typed. */
#include "frontend/sema.h"
#include <math.h>

/* The layer whose call is computed, the innermost one. */
static const char *layer_at_hand(const Elab *e)
{
    const Frame *f = e->frame;
    while (f && (!f->def || !f->def->decl || f->def->decl->kind != AST_DECL_LAYER)) f = f->caller;
    return f ? f->def->decl->name.text : NULL;
}

IrId op_add(Elab *e, IrOpcode op, IrType t, const IrId *args, uint32_t n, IrAttr attr, Span s)
{
    elab_spend(e, s);
    s.layer = layer_at_hand(e);
    return ir_add(e->m, e->f, op, t, args, n, attr, s);
}

static Value op_value(Elab *e, IrOpcode op, IrType t, const IrId *args, uint32_t n, IrAttr attr, Span s)
{
    return value_tensor(op_add(e, op, t, args, n, attr, s), t, s);
}

Value op_const(Elab *e, IrType t, double x, Span s)
{
    return op_value(e, IR_OP_const, t, NULL, 0, (IrAttr){.f = x}, s);
}

Value op_size(Elab *e, const Size *size, Span s)
{
    int64_t n;
    bool known = size_value(&e->z, size, &n);
    Value v = op_const(e, ir_scalar(e->real), known ? (double)n : 0, s);
    if (!known) VEC_PUSH(e->a, &e->patches, ((Patch){e->f, v.id, size}));
    return v;
}

Value to_tensor(Elab *e, Value v, IrDtype like, Span s)
{
    if (v.kind == V_TENSOR || v.kind == V_ERROR) return v;
    if (v.kind == V_WORD) return error_unknown_name(e, v.word, v.span), value_error();
    if (v.kind == V_DIM) return op_size(e, dim_size(e, v.dim), s);
    if (v.kind == V_BOOL) return op_const(e, ir_scalar(IR_BOOL), v.num, s);
    if (v.kind != V_NUMBER) {
        Diag *d = diag_error(e->d, E0212, span_or(v.span, s), "found %s, wanted a tensor or a number",
                             value_text(e, &v));
        if (v.kind == V_NONE)
            diag_help(e->d, d, "an argument that may be left out is `none` then: `if w == none { ... }`");
        return value_error();
    }
    if (like == IR_BOOL) like = v.is_int ? IR_I64 : e->real;
    if (!ir_dtype_is_float(like) && (v.num != floor(v.num) || isinf(v.num))) {
        diag_error(e->d, E0206, v.span, "%g is no integer", v.num);
        return value_error();
    }
    return op_const(e, ir_scalar(like), v.num, s);
}

/* ---- dims -------------------------------------------------------------------------------------------------------- */

static bool same_dims(const IrType *t, const IrId *dims, uint32_t n)
{
    return t->n_dims == n && (n == 0 || !memcmp(t->dims, dims, n * sizeof *dims));
}

Value op_reshape(Elab *e, Value v, const IrId *dims, uint32_t n)
{
    if (v.kind == V_ERROR || same_dims(&v.type, dims, n)) return v;
    IrType t = v.type;
    t.n_dims = (uint8_t)n;
    if (n) memcpy(t.dims, dims, n * sizeof *dims);
    return op_value(e, IR_OP_reshape, t, &v.id, 1, (IrAttr){0}, v.span);
}

Value op_transpose(Elab *e, Value v, const IrId *dims, uint32_t n)
{
    if (v.kind == V_ERROR || same_dims(&v.type, dims, n)) return v;
    IrType t = v.type;
    memcpy(t.dims, dims, n * sizeof *dims);
    return op_value(e, IR_OP_transpose, t, &v.id, 1, (IrAttr){0}, v.span);
}

static Value rename_dim(Elab *e, Value v, IrId from, IrId to)
{
    IrId dims[IR_MAX_DIMS];
    for (int i = 0; i < v.type.n_dims; i++) dims[i] = v.type.dims[i] == from ? to : v.type.dims[i];
    return op_reshape(e, v, dims, v.type.n_dims);
}

static Value drop_dim(Elab *e, Value v, IrId dim)
{
    IrId dims[IR_MAX_DIMS];
    uint32_t n = 0;
    for (int i = 0; i < v.type.n_dims; i++)
        if (v.type.dims[i] != dim) dims[n++] = v.type.dims[i];
    return op_reshape(e, v, dims, n);
}

static bool dim_is_own(const Frame *f, IrId dim)
{
    for (const Symbol *s = f->dims; s; s = s->next)
        if (s->id == dim) return true;
    return false;
}

static bool same_label(const Elab *e, IrId x, IrId y)
{
    const char *a = e->dims.data[x].label, *b = e->dims.data[y].label;
    return a && b && !strcmp(a, b);
}

/* Renames y of b to x of a, or the other way where b's is the frame's own. */
static void join_dims(Elab *e, Value *a, IrId x, Value *b, IrId y)
{
    if (dim_is_own(e->frame, y) && !dim_is_own(e->frame, x)) *a = rename_dim(e, *a, x, y);
    else *b = rename_dim(e, *b, y, x);
}

static bool error_sizes(Elab *e, const Value *a, IrId x, const Value *b, IrId y, const char *verb, Span s)
{
    Diag *d = diag_error(e->d, E0201, s, "cannot %s %s and %s: sizes %s and %s", verb, value_text(e, a),
                         value_text(e, b), size_text(&e->z, dim_size(e, x)), size_text(&e->z, dim_size(e, y)));
    diag_note(e->d, d, e->dims.data[x].span, "size %s comes from here", size_text(&e->z, dim_size(e, x)));
    diag_note(e->d, d, e->dims.data[y].span, "size %s comes from here", size_text(&e->z, dim_size(e, y)));
    return false;
}

static uint32_t unmatched(const IrType *t, const IrType *other, IrId *out)
{
    uint32_t n = 0;
    for (int i = 0; i < t->n_dims; i++)
        if (!ir_type_has_dim(other, t->dims[i])) out[n++] = t->dims[i];
    return n;
}

bool dims_named_apart(const Elab *e, IrId x, IrId y)
{
    for (const Frame *f = e->frame; f && x != y; f = f->caller)
        if (dim_is_own(f, x) && dim_is_own(f, y)) return true;
    return false;
}

static bool match_labels(Elab *e, Value *a, Value *b, const char *verb, Span s)
{
    IrId xs[IR_MAX_DIMS], ys[IR_MAX_DIMS];
    uint32_t n = unmatched(&a->type, &b->type, xs), m = unmatched(&b->type, &a->type, ys);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < m; j++) {
            if (!same_label(e, xs[i], ys[j]) || dims_named_apart(e, xs[i], ys[j])) continue;
            if (ir_type_has_dim(&a->type, ys[j]) || ir_type_has_dim(&b->type, xs[i])) continue;
            if (!ir_type_has_dim(&a->type, xs[i]) || !ir_type_has_dim(&b->type, ys[j])) continue; /* dropped */
            bool one_x = dim_is_one(e, xs[i]), one_y = dim_is_one(e, ys[j]);
            if (one_x != one_y) {
                if (one_x) *a = drop_dim(e, *a, xs[i]);
                else *b = drop_dim(e, *b, ys[j]);
                continue;
            }
            if (!size_unify(&e->z, dim_size(e, xs[i]), dim_size(e, ys[j]), s))
                return error_sizes(e, a, xs[i], b, ys[j], verb, s);
            join_dims(e, a, xs[i], b, ys[j]);
        }
    return true;
}

bool match_dims(Elab *e, Value *a, Value *b, const char *verb, Span s)
{
    if (!match_labels(e, a, b, verb, s)) return false;
    IrId xs[IR_MAX_DIMS], ys[IR_MAX_DIMS];
    uint32_t n = unmatched(&a->type, &b->type, xs), m = unmatched(&b->type, &a->type, ys);
    while (n && m) { /* right to left */
        IrId x = xs[n - 1], y = ys[m - 1];
        if (dims_named_apart(e, x, y)) {
            if (n >= m) n--;
            else m--;
        } else if (dim_is_one(e, y) && !dim_is_one(e, x)) {
            *b = drop_dim(e, *b, y);
            m--;
        } else if (dim_is_one(e, x) && !dim_is_one(e, y)) {
            *a = drop_dim(e, *a, x);
            n--;
        } else if (size_unify(&e->z, dim_size(e, x), dim_size(e, y), s)) {
            join_dims(e, a, x, b, y);
            n--, m--;
        } else {
            return error_sizes(e, a, x, b, y, verb, s);
        }
    }
    return true;
}

/* ---- pointwise --------------------------------------------------------------------------------------------------- */

/* Two domains, neither of edges. */
static void help_nodes(Elab *e, Diag *d, IrId a, IrId b)
{
    bool graph = !strcmp(space_text(e, a), "graph") || !strcmp(space_text(e, b), "graph");
    if (graph) diag_help(e->d, d, "`.graph` is the value of each node's graph");
    else diag_help(e->d, d, "two kinds of nodes meet at the edges between them, with `.src` and `.dst`");
}

static bool error_spaces(Elab *e, const Value *a, const Value *b, const char *verb, Span s)
{
    bool edge_a = e->m->spaces.data[a->type.space].is_edge, edge_b = e->m->spaces.data[b->type.space].is_edge;
    const Value *at = edge_b && !edge_a ? a : b, *other = at == a ? b : a;
    Diag *d = diag_error(e->d, E0203, span_or(at->span, s), "cannot %s %s and %s", verb, value_text(e, a),
                         value_text(e, b));
    if (other->span.source)
        diag_beside(e->d, d, other->span, value_text(e, at), arena_printf(e->a, "this is %s", value_text(e, other)));
    note_value(e, d, at);
    note_value(e, d, other);
    if (edge_a != edge_b) diag_help(e->d, d, "take the value at one end of each edge: `.src` or `.dst`");
    else if (edge_a)
        diag_help(e->d, d, "these are edges of two graphs; carry one with `fill`: `self_loops(g, fill e = 0)`");
    else help_nodes(e, d, a->type.space, b->type.space);
    return false;
}

static bool join_check(Elab *e, Value *a, Value *b, const char *verb, Span s)
{
    if (a->kind == V_ERROR || b->kind == V_ERROR) return false;
    if (a->type.space && b->type.space && a->type.space != b->type.space) return error_spaces(e, a, b, verb, s);
    return match_dims(e, a, b, verb, s);
}

static IrType join_type(const Value *a, const Value *b)
{
    bool inside = true; /* all of a's dims are b's: keep b's order */
    for (int i = 0; i < a->type.n_dims; i++) inside &= ir_type_has_dim(&b->type, a->type.dims[i]);
    IrType t = inside ? ir_type_join(&b->type, &a->type) : ir_type_join(&a->type, &b->type);
    return t;
}

static bool want_dtype(Elab *e, const Value *v, bool ok, const char *wanted, Span s)
{
    if (ok) return true;
    Diag *d = diag_error(e->d, E0206, span_or(v->span, s), "found %s, wanted %s", value_text(e, v), wanted);
    if (!strcmp(wanted, "a float")) diag_help(e->d, d, "nothing is converted by itself: `float(x)`");
    else if (!strcmp(wanted, "a bool")) diag_help(e->d, d, "compare: `x != 0`");
    return false;
}

Value op_unary(Elab *e, IrOpcode op, Value a, Span s)
{
    a = to_tensor(e, a, e->real, s);
    if (a.kind == V_ERROR) return a;
    if (op == IR_OP_not ? !want_dtype(e, &a, a.type.dtype == IR_BOOL, "a bool", s)
                        : op != IR_OP_detach && !want_dtype(e, &a, ir_dtype_is_float(a.type.dtype), "a float", s))
        return value_error();
    return op_value(e, op, a.type, &a.id, 1, (IrAttr){0}, s);
}

static bool is_compare(IrOpcode op) { return op == IR_OP_eq || op == IR_OP_ne || op == IR_OP_lt || op == IR_OP_le; }

static bool binary_dtypes(Elab *e, IrOpcode op, const char *verb, const Value *a, const Value *b, Span s)
{
    bool logic = op == IR_OP_and || op == IR_OP_or;
    if (a->type.dtype != b->type.dtype) {
        Diag *d = diag_error(e->d, E0206, s, "cannot %s %s and %s", verb, value_text(e, a), value_text(e, b));
        diag_help(e->d, d, "nothing is converted by itself: `float(x)` or `int(x)`");
        return false;
    }
    if (logic) return want_dtype(e, a, a->type.dtype == IR_BOOL, "a bool", s);
    if (op == IR_OP_pow) return want_dtype(e, a, ir_dtype_is_float(a->type.dtype), "a float", s);
    return want_dtype(e, a, a->type.dtype != IR_BOOL, "a number", s);
}

Value op_binary(Elab *e, IrOpcode op, const char *verb, Value a, Value b, Span s)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    a = to_tensor(e, a, b.kind == V_TENSOR ? b.type.dtype : e->real, s);
    b = to_tensor(e, b, a.kind == V_TENSOR ? a.type.dtype : e->real, s);
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    if (!binary_dtypes(e, op, verb, &a, &b, s) || !join_check(e, &a, &b, verb, s)) return value_error();
    IrType t = join_type(&a, &b);
    t.dtype = is_compare(op) ? IR_BOOL : a.type.dtype;
    return op_value(e, op, t, (IrId[]){a.id, b.id}, 2, (IrAttr){0}, s);
}

Value op_select(Elab *e, Value c, Value a, Value b, Span s)
{
    if (c.kind == V_ERROR || a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    c = to_tensor(e, c, IR_BOOL, s);
    a = to_tensor(e, a, b.kind == V_TENSOR ? b.type.dtype : e->real, s);
    b = to_tensor(e, b, a.kind == V_TENSOR ? a.type.dtype : e->real, s);
    if (c.kind == V_ERROR || a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    if (!want_dtype(e, &c, c.type.dtype == IR_BOOL, "a bool", s)) return value_error();
    if (a.type.dtype != b.type.dtype) {
        diag_error(e->d, E0206, s, "cannot choose between %s and %s", value_text(e, &a), value_text(e, &b));
        return value_error();
    }
    if (!join_check(e, &a, &b, "choose between", s) || !join_check(e, &a, &c, "choose by condition", s) ||
        !join_check(e, &b, &c, "choose by condition", s))
        return value_error();
    Value ab = a;
    ab.type = join_type(&a, &b);
    IrType t = join_type(&ab, &c);
    t.dtype = a.type.dtype;
    return op_value(e, IR_OP_select, t, (IrId[]){c.id, a.id, b.id}, 3, (IrAttr){0}, s);
}

Value op_cast(Elab *e, Value v, IrDtype to, Span s)
{
    v = to_tensor(e, v, to, s);
    if (v.kind == V_ERROR || v.type.dtype == to) return v;
    IrType t = v.type;
    t.dtype = to;
    return op_value(e, IR_OP_cast, t, &v.id, 1, (IrAttr){0}, s);
}

Value op_spread(Elab *e, Value v, IrId space)
{
    if (v.kind == V_ERROR || v.type.space == space) return v;
    IrType t = v.type;
    t.space = space;
    const IrOp *op = &e->f->ops.data[v.id];
    if (op->op == IR_OP_const) return op_const(e, t, op->attr.f, v.span);
    if (v.type.dtype != IR_BOOL) { /* v + (-0), which changes no number */
        IrType zero = ir_scalar(v.type.dtype);
        zero.space = space;
        Value z = op_const(e, zero, -0.0, v.span);
        return op_value(e, IR_OP_add, t, (IrId[]){v.id, z.id}, 2, (IrAttr){0}, v.span);
    }
    IrType yes = ir_scalar(IR_BOOL);
    yes.space = space;
    Value y = op_const(e, yes, 1, v.span);
    return op_value(e, IR_OP_and, t, (IrId[]){v.id, y.id}, 2, (IrAttr){0}, v.span);
}

/* ---- dims away --------------------------------------------------------------------------------------------------- */

static IrType without_dim(IrType t, IrId dim)
{
    uint32_t n = 0;
    for (int i = 0; i < t.n_dims; i++)
        if (t.dims[i] != dim) t.dims[n++] = t.dims[i];
    t.n_dims = (uint8_t)n;
    return t;
}

Value op_reduce_dims(Elab *e, IrOpcode op, Value v, IrId dim, Span s)
{
    if (v.kind == V_ERROR) return v;
    if (!want_dtype(e, &v, v.type.dtype != IR_BOOL, "a number", s)) return value_error();
    return op_value(e, op, without_dim(v.type, dim), &v.id, 1, (IrAttr){0}, s);
}

Value op_contract(Elab *e, Value a, Value b, IrId dim, Span s)
{
    if (!binary_dtypes(e, IR_OP_mul, "multiply", &a, &b, s) || !join_check(e, &a, &b, "multiply", s))
        return value_error();
    IrType t = without_dim(ir_type_join(&a.type, &b.type), dim);
    return op_value(e, IR_OP_contract, t, (IrId[]){a.id, b.id}, 2, (IrAttr){0}, s);
}

/* The dim of b that a's last dim runs over: the same, one of its label, else the first that a has not and that may be
   the same. */
static IrId matmul_dim(const Elab *e, const Value *a, const Value *b, IrId last)
{
    for (int i = 0; i < b->type.n_dims; i++)
        if (b->type.dims[i] == last) return last;
    for (int i = 0; i < b->type.n_dims; i++)
        if (same_label(e, b->type.dims[i], last) && !ir_type_has_dim(&a->type, b->type.dims[i])) return b->type.dims[i];
    for (int i = 0; i < b->type.n_dims; i++)
        if (!ir_type_has_dim(&a->type, b->type.dims[i]) && !dims_named_apart(e, last, b->type.dims[i]))
            return b->type.dims[i];
    return IR_NONE;
}

Value op_matmul(Elab *e, Value a, Value b, Span s)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
    if (a.kind != V_TENSOR || b.kind != V_TENSOR || !a.type.n_dims || !b.type.n_dims) {
        diag_error(e->d, E0202, s, "`@` multiplies values with dims, found %s and %s", value_text(e, &a),
                   value_text(e, &b));
        return value_error();
    }
    if (a.type.space && b.type.space && a.type.space != b.type.space)
        return error_spaces(e, &a, &b, "multiply", s), value_error();
    if (!binary_dtypes(e, IR_OP_mul, "multiply", &a, &b, s)) return value_error();
    IrId last = a.type.dims[a.type.n_dims - 1], other = matmul_dim(e, &a, &b, last);
    if (other == IR_NONE) {
        Diag *d = diag_error(e->d, E0201, s, "cannot multiply %s and %s: the second has no dim `%s`", value_text(e, &a),
                             value_text(e, &b), dim_text(e, last));
        diag_note(e->d, d, e->dims.data[last].span, "`%s` comes from here", dim_text(e, last));
        diag_help(e->d, d,
                  "`@` sums over the last dim of the first, which stands in the second by the same name: `x @ W` with "
                  "`W: [%s, O]`",
                  dim_text(e, last));
        return value_error();
    }
    if (!size_unify(&e->z, dim_size(e, last), dim_size(e, other), s))
        return error_sizes(e, &a, last, &b, other, "multiply", s), value_error();
    b = rename_dim(e, b, other, last);
    if (!match_labels(e, &a, &b, "multiply", s)) return value_error();
    IrType t = without_dim(ir_type_join(&a.type, &b.type), last);
    return op_value(e, IR_OP_contract, t, (IrId[]){a.id, b.id}, 2, (IrAttr){0}, s);
}

/* ---- between spaces ---------------------------------------------------------------------------------------------- */

Value op_gather(Elab *e, Value v, IrId map, IrId to, Span s)
{
    IrType t = v.type;
    t.space = to;
    Value r = op_value(e, IR_OP_gather, t, &v.id, 1, (IrAttr){.map = map}, s);
    r.classes = v.classes;
    return r;
}

Value op_reduce(Elab *e, IrOpcode op, Value v, IrId map, double empty, Span s)
{
    if (v.kind == V_ERROR) return v;
    if (!want_dtype(e, &v, v.type.dtype != IR_BOOL, "a number", s)) return value_error();
    IrType t = v.type;
    t.space = e->m->maps.data[map].to;
    return op_value(e, op, t, &v.id, 1, (IrAttr){.map = map, .f = empty}, s);
}

Value op_grad(Elab *e, Value of, Value x, Span s)
{
    if (x.kind == V_WORD) return error_unknown_name(e, x.word, x.span), value_error();
    if (of.kind == V_ERROR || x.kind == V_ERROR) return value_error();
    bool scalar = of.kind == V_TENSOR && of.type.space == IR_UNIT && of.type.n_dims == 0 &&
                  ir_dtype_is_float(of.type.dtype);
    if (!scalar || x.kind != V_TENSOR || x.type.dtype != of.type.dtype) {
        Diag *d = diag_error(e->d, E0406, s, "cannot differentiate %s by %s", value_text(e, &of), value_text(e, &x));
        bool dims = of.kind == V_TENSOR && of.type.space == IR_UNIT && of.type.n_dims; /* and rows no more */
        if (!scalar)
            diag_help(e->d, d, "the first must be one number: sum it with `%s(...)`", dims ? "sum" : "sum_all");
        return value_error();
    }
    return op_value(e, IR_OP_grad, x.type, (IrId[]){of.id, x.id}, 2, (IrAttr){0}, s);
}

/* Everything summed to one number. */
Value sum_everything(Elab *e, Value v, Span s)
{
    IrType t = v.type;
    for (int i = 0; i < t.n_dims && v.kind == V_TENSOR; i++) v = op_reduce_dims(e, IR_OP_sum_dims, v, t.dims[i], s);
    return v.kind == V_TENSOR && t.space != IR_UNIT ? op_reduce(e, IR_OP_reduce_sum, v, map_all(e, t.space), 0, s) : v;
}
