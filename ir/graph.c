/* Graph IR in memory: the op table, builders and the algebra of types. Contracts are in graph.h.
   Nothing here checks types: a builder takes what it is given, ir/verify.c judges it. */
#include "ir/graph.h"
#include "base/ice.h"
#include <stdlib.h>
#include <string.h>

const IrOpInfo ir_ops[IR_N_OPS] = {
#define OP(name, args, attrs, traits, shape, adjoint, eval, flops) [IR_OP_##name] = {#name, args, attrs, traits, flops},
#include "ir/ops.def"
#undef OP
};

const char *const ir_dtype_names[IR_N_DTYPES] = {
    [IR_F32] = "f32",   [IR_F64] = "f64", [IR_I32] = "i32",  [IR_I64] = "i64",
    [IR_BOOL] = "bool", [IR_F16] = "f16", [IR_BF16] = "bf16"};

bool ir_dtype_is_float(IrDtype t) { return t == IR_F32 || t == IR_F64 || ir_dtype_is_16_bits(t); }

size_t ir_dtype_bytes(IrDtype t)
{
    static const size_t bytes[] = {
        [IR_F32] = 4, [IR_F64] = 8, [IR_I32] = 4, [IR_I64] = 8, [IR_BOOL] = 1, [IR_F16] = 2, [IR_BF16] = 2};
    return bytes[t];
}

/* ---- modules --------------------------------------------------------------------------------- */

IrModule *ir_module_new(Arena *a, const char *name)
{
    IrModule *m = ARENA_NEW(a, IrModule);
    m->arena = a;
    m->name = name;
    m->train.stop_metric = IR_NONE;
    IrSpace unit = {.name = "unit"};
    VEC_PUSH(a, &m->spaces, unit);
    return m;
}

/* A private copy of a vector's block: a push on the copy must not write behind the original's end. */
#define COPY_VEC(arena, v) ((v)->data = copy_block((arena), (v)->data, (v)->n, &(v)->cap, sizeof *(v)->data))

static void *copy_block(Arena *a, const void *old, uint32_t n, uint32_t *cap, size_t size)
{
    *cap = n;
    if (!n) return NULL;
    void *p = arena_array(a, n, size);
    memcpy(p, old, n * size);
    return p;
}

IrModule *ir_module_clone(Arena *a, const IrModule *m)
{
    IrModule *c = ARENA_NEW(a, IrModule);
    *c = *m;
    c->arena = a;
    COPY_VEC(a, &c->dims);
    COPY_VEC(a, &c->spaces);
    COPY_VEC(a, &c->maps);
    COPY_VEC(a, &c->graphs);
    COPY_VEC(a, &c->tensors);
    COPY_VEC(a, &c->funcs);
    COPY_VEC(a, &c->train.metrics);
    COPY_VEC(a, &c->tests);
    return c;
}

IrFunc *ir_func_new(IrModule *m, const char *name)
{
    IrFunc *f = ARENA_NEW(m->arena, IrFunc);
    f->name = name;
    VEC_PUSH(m->arena, &m->funcs, f);
    return f;
}

IrFunc *ir_func_find(const IrModule *m, const char *name)
{
    for (uint32_t i = 0; i < m->funcs.n; i++)
        if (!strcmp(m->funcs.data[i]->name, name)) return m->funcs.data[i];
    return NULL;
}

/* The number k of name.k, 1 of `name` itself, 0 of any other text. */
static uint64_t number_of(const char *text, const char *name, size_t length)
{
    char *end;
    if (strncmp(text, name, length)) return 0;
    if (!text[length]) return 1;
    if (text[length] != '.' || text[length + 1] < '0' || text[length + 1] > '9') return 0;
    uint64_t k = strtoull(text + length + 1, &end, 10);
    return *end || k >= UINT32_MAX ? 0 : k;
}

/* `name` if no row of a table has it, else name.k behind all that are there. Rows begin with their name. */
static const char *unique_name(Arena *a, const char *name, const void *rows, uint32_t n, size_t size)
{
    uint64_t last = 1, k;
    bool taken = false;
    for (uint32_t i = 0, length = (uint32_t)strlen(name); i < n; i++) {
        k = number_of(*(const char *const *)((const char *)rows + i * size), name, length);
        taken |= k == 1;
        last = k > last ? k : last;
    }
    return taken ? arena_printf(a, "%s.%llu", name, (unsigned long long)last + 1) : name;
}
#define UNIQUE(m, table, name) unique_name((m)->arena, (name), (m)->table.data, (m)->table.n, sizeof *(m)->table.data)
_Static_assert(!offsetof(IrDim, name) && !offsetof(IrSpace, name) && !offsetof(IrMap, name), "names come first");

IrId ir_dim_new(IrModule *m, const char *name, int64_t size)
{
    IrDim dim = {UNIQUE(m, dims, name), size};
    VEC_PUSH(m->arena, &m->dims, dim);
    return m->dims.n - 1;
}

IrId ir_space_new(IrModule *m, const char *name, bool is_edge)
{
    IrSpace space = {.name = UNIQUE(m, spaces, name), .is_edge = is_edge};
    VEC_PUSH(m->arena, &m->spaces, space);
    return m->spaces.n - 1;
}

bool ir_space_keeps_order(const IrModule *m, IrId space) { return !m->spaces.data[space].is_edge; }

IrId ir_map_new(IrModule *m, const char *name, IrId from, IrId to)
{
    IrMap map = {.name = UNIQUE(m, maps, name), .from = from, .to = to, .inverse = IR_NONE};
    VEC_PUSH(m->arena, &m->maps, map);
    return m->maps.n - 1;
}

const IrGraph *ir_graph_of_all(const IrModule *m, IrId map)
{
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (g->kind != IR_GRAPH_CANDIDATES || (g->src != map && g->dst != map)) continue;
        ICE_UNLESS(g->src_space != g->dst_space); /* nodes and edges */
        return g;
    }
    return NULL;
}

bool ir_map_stays(const IrModule *m, IrId map)
{
    const IrMap *x = &m->maps.data[map];
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        if (g->redrawn && (g->edge == x->from || g->edge == x->to)) return false;
    }
    return !x->computed;
}

IrId ir_route_of(const IrModule *m, const IrFunc *f, const IrOp *op)
{
    if (!(ir_ops[op->op].attrs & A_MAP) || op->op == IR_OP_route || op->op == IR_OP_nearest) return IR_NONE;
    ICE_UNLESS(op->attr.map < m->maps.n);
    if (!m->maps.data[op->attr.map].computed) return IR_NONE;
    for (uint32_t v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].op == IR_OP_route && f->ops.data[v].attr.map == op->attr.map) return v;
    return IR_NONE;
}

/* ---- functions ------------------------------------------------------------------------------- */

IrId ir_arg(IrModule *m, IrFunc *f, IrArg arg)
{
    VEC_PUSH(m->arena, &f->args, arg);
    return ir_add(m, f, IR_OP_arg, arg.type, NULL, 0, (IrAttr){.i = f->args.n - 1}, (Span){0});
}

/* What the op does not carry has one value, so that equal ops are equal field by field. */
static IrAttr attr_of(IrOpcode op, IrAttr given)
{
    ICE_UNLESS(op < IR_N_OPS);
    uint8_t has = ir_ops[op].attrs;
    return (IrAttr){
        .f = has & A_F ? given.f : 0,
        .i = has & A_I ? given.i : 0,
        .map = has & A_MAP ? given.map : IR_NONE,
        .dim = has & A_DIM ? given.dim : IR_NONE,
        .site = has & A_SITE ? given.site : 0,
    };
}

IrId ir_add(IrModule *m, IrFunc *f, IrOpcode op, IrType type, const IrId *args, uint32_t n_args, IrAttr attr, Span span)
{
    ICE_UNLESS(type.n_dims <= IR_MAX_DIMS);
    IrOp it = {.op = op, .type = type, .n_args = n_args, .attr = attr_of(op, attr), .span = span};
    for (uint32_t i = type.n_dims; i < IR_MAX_DIMS; i++) it.type.dims[i] = 0;
    if (n_args) {
        it.args = ARENA_ARRAY(m->arena, IrId, n_args);
        memcpy(it.args, args, n_args * sizeof *args);
    }
    VEC_PUSH(m->arena, &f->ops, it);
    return f->ops.n - 1;
}

void ir_result(IrModule *m, IrFunc *f, const char *name, IrId value, IrId tensor)
{
    IrResult result = {name, value, tensor};
    VEC_PUSH(m->arena, &f->results, result);
}

/* ---- types ----------------------------------------------------------------------------------- */

bool ir_op_narrows(const IrFunc *f, const IrOp *op)
{
    return op->op == IR_OP_cast && ir_dtype_is_16_bits(op->type.dtype) &&
           !ir_dtype_is_16_bits(f->ops.data[op->args[0]].type.dtype);
}

bool ir_op_widens(const IrFunc *f, const IrOp *op)
{
    return op->op == IR_OP_cast && op->type.dtype == IR_F32 && ir_dtype_is_16_bits(f->ops.data[op->args[0]].type.dtype);
}

IrType ir_scalar(IrDtype t) { return (IrType){.space = IR_UNIT, .dtype = t}; }

bool ir_type_eq(const IrType *a, const IrType *b)
{
    return a->space == b->space && a->dtype == b->dtype && a->n_dims == b->n_dims &&
           !memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims);
}

bool ir_type_has_dim(const IrType *t, IrId dim)
{
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] == dim) return true;
    return false;
}

int64_t ir_type_width(const IrModule *m, const IrType *t)
{
    int64_t width = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(width, m->dims.data[t->dims[i]].size, &width)) return -1;
    return width;
}

bool ir_row_fits(const IrModule *m, const IrType *t)
{
    int64_t bytes = sizeof(double);
    for (uint32_t i = 0; i < t->n_dims; i++) {
        int64_t size = m->dims.data[t->dims[i]].size;
        if (size < 0) return true;
        if (__builtin_mul_overflow(bytes, size, &bytes)) return false;
    }
    return true;
}

IrType ir_type_join(const IrType *a, const IrType *b)
{
    IrType join = *a;
    if (a->space == IR_UNIT) join.space = b->space;
    for (uint32_t i = 0; i < b->n_dims && join.n_dims < IR_MAX_DIMS; i++)
        if (!ir_type_has_dim(a, b->dims[i])) join.dims[join.n_dims++] = b->dims[i];
    return join;
}

bool ir_type_at(const IrType *x, IrId dim, const IrType *index, IrType *out)
{
    if (x->n_dims + index->n_dims > IR_MAX_DIMS) return false;
    *out = (IrType){.space = x->space ? x->space : index->space, .dtype = x->dtype};
    for (uint32_t k = 0; k < x->n_dims; k++) {
        if (x->dims[k] != dim && !ir_type_has_dim(index, x->dims[k])) out->dims[out->n_dims++] = x->dims[k];
        for (uint32_t j = 0; x->dims[k] == dim && j < index->n_dims; j++) out->dims[out->n_dims++] = index->dims[j];
    }
    return true;
}
