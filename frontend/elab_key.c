/* Integer values as places: rows of a table, `T[i]`, and groups of a reduction, `sum_in(m, by = rel)`:

     T[i]                   at T, i : the op, which has an adjoint
     sum_in(m, by = rel)    sum_in of select(rel == iota R, m, 0), which is node[R, ...]

   The range of an index is part of its type, index[N], and is checked when data is loaded; an index that lies outside
   reads 0 and belongs to no group. Never looks at what a table or a key means. */
#include "frontend/sema.h"
#include <math.h>

/* ---- which place ------------------------------------------------------------------------------ */

static bool check_index(Elab *e, const Value *i, Span s)
{
    if (i->kind == V_ERROR) return false;
    if (i->kind != V_TENSOR || i->type.dtype != IR_I64) {
        diag_error(e->d, E0206, s, "found %s, wanted an integer value as an index", value_text(e, i));
        return false;
    }
    if (i->classes) return true;
    Diag *d = diag_error(e->d, E0213, s, "nothing says how large this %s may be", value_text(e, i));
    diag_help(e->d, d, "declare its range where it comes from: `index[N]`, the integers in [0, N)");
    return false;
}

/* bool [..., dim]: the index is this place. */
static Value place_hit(Elab *e, const Value *i, IrId dim, Span s)
{
    IrType places = {.dtype = IR_I64, .n_dims = 1, .dims = {dim}}, t = i->type;
    if (t.n_dims == IR_MAX_DIMS) {
        diag_error(e->d, E0202, s, "a value has at most %d dims", IR_MAX_DIMS);
        return value_error();
    }
    IrId iota = op_add(e, IR_OP_iota, places, NULL, 0, (IrAttr){.dim = dim}, s);
    t.dtype = IR_BOOL;
    t.dims[t.n_dims++] = dim;
    return value_tensor(op_add(e, IR_OP_eq, t, (IrId[]){i->id, iota}, 2, (IrAttr){0}, s), t, s);
}

/* ---- T[i] ------------------------------------------------------------------------------------- */

Value table_rows(Elab *e, Value table, IrId dim, Value index, Span s)
{
    if (table.kind == V_ERROR || !check_index(e, &index, s)) return value_error();
    if (table.type.dtype == IR_BOOL) {
        diag_error(e->d, E0206, s, "a table of bools has no rows by value; `float(...)` makes numbers of it");
        return value_error();
    }
    if (table.type.space && index.type.space && table.type.space != index.type.space) {
        diag_error(e->d, E0203, s, "cannot read %s at %s", value_text(e, &table), value_text(e, &index));
        return value_error();
    }
    if (!size_unify(&e->z, dim_size(e, dim), index.classes, s)) {
        diag_error(e->d, E0213, s, "the index lies in [0, %s), the dim it reads has size %s",
                   size_text(&e->z, index.classes), size_text(&e->z, dim_size(e, dim)));
        return value_error();
    }
    IrId place = dim_new(e, e->dims.data[dim].label, dim_size(e, dim), s), dims[IR_MAX_DIMS];
    for (int k = 0; k < table.type.n_dims; k++) dims[k] = table.type.dims[k] == dim ? place : table.type.dims[k];
    table = op_reshape(e, table, dims, table.type.n_dims);
    IrType want;
    if (!ir_type_at(&table.type, place, &index.type, &want)) {
        diag_error(e->d, E0202, s, "a value has at most %d dims", IR_MAX_DIMS);
        return value_error();
    }
    IrId v = op_add(e, IR_OP_at, want, (IrId[]){table.id, index.id}, 2, (IrAttr){.dim = place}, s);
    return value_tensor(v, want, s);
}

/* ---- by = rel --------------------------------------------------------------------------------- */

/* The dim of a key's groups: that which the index's range was declared with, in this function or in one that called it,
   so that results keep its name. A new dim where there is none, or where it is a caller's and the reduced value has it
   already: inside, its name means nothing. Dims that happen to be of one known size are two. */
static IrId key_dim(Elab *e, const Size *classes, const IrType *value, Span s)
{
    int64_t n;
    for (const Frame *f = e->frame; f; f = f->caller)
        for (const Symbol *sym = f->dims; sym; sym = sym->next)
            if (dim_size(e, sym->id) == classes && (f == e->frame || !ir_type_has_dim(value, sym->id))) return sym->id;
    for (const Symbol *sym = e->frame->dims; sym && !size_value(&e->z, classes, &n); sym = sym->next)
        if (size_equal(&e->z, dim_size(e, sym->id), classes)) return sym->id;
    return dim_new(e, NULL, classes, s);
}

static bool key_add(Elab *e, Key *key, const Value *v, const IrType *value, Span s)
{
    if (!check_index(e, v, s)) return false;
    if (v->type.n_dims || (v->type.space != value->space && v->type.space != IR_UNIT)) {
        IrType one = {.space = value->space, .dtype = IR_I64};
        diag_error(e->d, E0205, s, "a key is one integer per element: found %s, wanted %s", value_text(e, v),
                   type_text(e, &one));
        return false;
    }
    IrId dim = key_dim(e, v->classes, value, s);
    if (key->n && ir_type_has_dim(&key->hit.type, dim)) dim = dim_new(e, NULL, v->classes, s);
    Value hit = place_hit(e, v, dim, s);
    if (key->n == IR_MAX_DIMS - 1 || hit.kind == V_ERROR) return false;
    key->dims[key->n++] = dim;
    if (key->n == 1) return key->hit = op_spread(e, hit, value->space), true;
    IrType t = ir_type_join(&key->hit.type, &hit.type);
    key->hit = value_tensor(op_add(e, IR_OP_and, t, (IrId[]){key->hit.id, hit.id}, 2, (IrAttr){0}, s), t, s);
    return true;
}

/* `dst` in `by = (dst, rel)`. */
static bool is_rows_word(const Value *v, const char *word)
{
    size_t n = strlen(word);
    return v->kind == V_TYPE && v->span.source && v->span.end - v->span.begin == n &&
           !memcmp(v->span.source->text + v->span.begin, word, n);
}

bool key_read(Elab *e, const Value *by, ReduceWhere where, const IrType *value, Span s, Key *key)
{
    static const char *const rows[] = {"dst", "src", "", "graph"};
    *key = (Key){.span = s};
    if (by->kind == V_NONE) return true;
    if (by->kind != V_TUPLE) return key_add(e, key, by, value, s);
    bool ok = by->n > 1 && is_rows_word(&by->items[0], rows[where]);
    if (!ok)
        diag_error(e->d, E0302, s, "wanted a key, or `(%s, key)`: this reducer's rows are those of `%s`", rows[where],
                   rows[where]);
    for (uint32_t i = 1; ok && i < by->n; i++) ok = key_add(e, key, &by->items[i], value, s);
    return ok;
}

bool key_masks(const Key *key) { return key->hit.kind == V_TENSOR; }

bool key_there(Elab *e, Key *key, ReduceWhere where, IrId from, Span s)
{
    Value there = found_there(e, from, s);
    if (there.kind == V_NONE || where == REDUCE_IN || where == REDUCE_OUT) return true;
    key->span = s;
    key->hit = key->n ? op_binary(e, IR_OP_and, "combine", key->hit, there, s) : there;
    return key->hit.kind == V_TENSOR;
}

Value key_spread(Elab *e, const Key *key, Value v, double other, Span s)
{
    if (!key_masks(key) || v.kind == V_ERROR) return v;
    IrType t = v.type;
    bool fits = t.n_dims + key->n <= IR_MAX_DIMS;
    for (uint32_t i = 0; i < key->n; i++) fits &= !ir_type_has_dim(&t, key->dims[i]);
    if (!fits) {
        diag_error(e->d, E0202, key->span, "%s cannot be reduced by this key", value_text(e, &v));
        return value_error();
    }
    memmove(t.dims + key->n, t.dims, t.n_dims * sizeof *t.dims);
    memcpy(t.dims, key->dims, key->n * sizeof *key->dims);
    t.n_dims = (uint8_t)(t.n_dims + key->n);
    Value none = op_const(e, ir_scalar(t.dtype), other, s);
    return value_tensor(op_add(e, IR_OP_select, t, (IrId[]){key->hit.id, v.id, none.id}, 3, (IrAttr){0}, s), t, s);
}
