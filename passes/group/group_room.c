/* Room for inner values: how many elements of a row, or rows of a strip, a kernel's private arrays hold at once. */
#include "ir/kernel.h"
#include "base/ice.h"
#include "passes/group/group.h"
#include "passes/context/price.h"

enum { LEAST_ELEMENTS = 16 };

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* What a kernel's private arrays hold, and what of it pays on the machine. A text decides by itself what pays. */
static int64_t room(const FusedFunc *f, int64_t pays, int64_t most) { return f->text ? most : at_most(pays, most); }

/* Bytes in the second cache, of all inner values and of one, and of the row's own: long rows come round several times,
   or hold there what was staged. */
static int64_t all_bytes(const FusedFunc *f)
{
    return room(f, machine_staged_room(f->machine), KIR_MAX_FRAME_BYTES / 4 * 3);
}
static int64_t value_bytes(const FusedFunc *f)
{
    return room(f, machine_staged_value_room(f->machine), KIR_MAX_ALLOC_BYTES);
}
static int64_t row_bytes(const FusedFunc *f)
{
    return room(f, machine_stage_room(f->machine), KIR_MAX_FRAME_BYTES / 8);
}
/* In the first cache: what elements are staged together by. */
static int64_t stage_bytes(const FusedFunc *f) { return at_most(machine_stage_room(f->machine), all_bytes(f)); }

static bool add_bytes(const FusedFunc *f, IrId v, int64_t *bytes, int64_t *widest)
{
    const IrType *t = &fused_op(f, v)->type;
    int64_t width = ir_type_width(f->m, t), add;
    IrDtype dtype = ir_dtype_is_16_bits(t->dtype) ? IR_F32 : t->dtype; /* in an array */
    if (__builtin_mul_overflow(width, (int64_t)ir_dtype_bytes(dtype), &add)) return false;
    if (add > *widest) *widest = add;
    return !__builtin_add_overflow(*bytes, add, bytes);
}

static bool add_values(const FusedFunc *f, const IrValues *values, int64_t *bytes, int64_t *widest)
{
    for (uint32_t i = 0; i < values->n; i++)
        if (!add_bytes(f, values->data[i], bytes, widest)) return false;
    return true;
}

/* Of a strip of rows; the sums are not in arrays. */
static int64_t strip_elements(const FusedFunc *f, const Group *g, const Group *more)
{
    int64_t bytes = 0, n = machine_strip_rows(f->machine), widest = 0;
    if (!add_values(f, &g->inner, &bytes, &widest)) return 0;
    if (more && !add_values(f, &more->inner, &bytes, &widest)) return 0;
    if (more && more->kind != GROUP_BLOCKS && !add_values(f, &more->roots, &bytes, &widest)) return 0;
    while (n > LEAST_ELEMENTS && bytes > stage_bytes(f) / n) n /= 2;
    /* few rows in the second cache are still better than all in memory */
    return bytes > all_bytes(f) / n || widest >= value_bytes(f) / n ? 0 : n;
}

int64_t stage_most(const FusedFunc *f, const Group *g)
{
    int64_t bytes = 0, widest = 0, n = LEAST_ELEMENTS;
    if (!add_values(f, &g->inner, &bytes, &widest)) return 0;
    int64_t most = g->kind == GROUP_BLOCKS ? ORDER_LEAF : all_bytes(f);
    while (2 * n <= most && 2 * n * widest < value_bytes(f) && 2 * n * bytes <= all_bytes(f)) n *= 2;
    ICE_UNLESS(n >= LEAST_ELEMENTS && !(n & (n - 1)));
    return n;
}

bool value_may_be_kept(const FusedFunc *f, IrId v)
{
    unsigned traits = ir_ops[fused_op(f, v)->op].traits;
    return (traits & T_MAP) && !(traits & T_RANDOM) && ir_dtype_is_float(fused_op(f, v)->type.dtype);
}

bool value_is_dear(const FusedFunc *f, IrId v)
{
    const IrOp *op = fused_op(f, v);
    return value_may_be_kept(f, v) && ir_ops[op->op].flops >= price_of_keeping(f->machine) &&
           ir_type_width(f->m, &op->type) >= f->machine->lanes;
}

/* A product of the elements, or what is dear, is wanted again when sums of the row are known: computing it twice costs
   more than the second cache, which holds rows that the first does not. */
static bool walks_again(const FusedFunc *f, const Group *g)
{
    bool dear = false, again = false;
    uint32_t index = (uint32_t)(g - f->groups.data);
    for (uint32_t i = 0; i < g->inner.n; i++)
        dear |= group_kind_of(f->f, f->m, g->inner.data[i]) == GROUP_PRODUCT || value_is_dear(f, g->inner.data[i]);
    for (IrId v = 0; v < f->f->ops.n && dear && !again; v++) {
        const IrOp *op = fused_op(f, v);
        again = op->op == IR_OP_gather && op->attr.map == g->map && f->group_of.data[op->args[0]] == index;
    }
    return again;
}

int64_t stage_elements(const FusedFunc *f, const Group *g, const Group *more)
{
    if (g->kind == GROUP_BLOCKS) return strip_elements(f, g, more);
    int64_t bytes = 0, row = 0, n = ORDER_ROW_BLOCK, widest = 0, ignored = 0;
    bool inner = more && more->nest.space != g->nest.space;
    if (!add_values(f, &g->inner, &bytes, &widest) || !add_values(f, &g->roots, &row, &ignored)) return 0;
    if (more && !add_values(f, &more->inner, &bytes, &widest)) return 0;
    if (more && !add_values(f, &more->roots, inner ? &bytes : &row, inner ? &widest : &ignored)) return 0;
    if (row > row_bytes(f)) return 0;
    while (n > LEAST_ELEMENTS && bytes > stage_bytes(f) / n) n /= 2;
    if (bytes > all_bytes(f) / n || widest >= value_bytes(f) / n) return 0;
    if (!more && n < ORDER_ROW_BLOCK && walks_again(f, g))
        while (n < ORDER_ROW_BLOCK && 2 * n * bytes <= all_bytes(f) && 2 * n * widest < value_bytes(f)) n *= 2;
    if (n == ORDER_ROW_BLOCK && bytes)
        while (2 * n * widest < value_bytes(f) && 2 * n * bytes <= all_bytes(f)) n *= 2;
    while (n > LEAST_ELEMENTS && n * bytes > f->machine->own_bytes) n /= 2;
    return f->most_staged && f->most_staged < n ? f->most_staged : n;
}
