/* Tensors that a function updates: written in place where all other readers of the old value can run
   before, else through memory of their own and a copy at the end.

     p' = sub %p, %step -> tensor p      the kernel of p' stores into p itself, element by element
   The kernel that writes in place reads the old tensor only at the element that it writes. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"

/* Does group x read the tensor? Then *safe: only at its own element. */
static bool reads_tensor(const FusedFunc *f, uint32_t x, IrId tensor, const IrType *nest, bool *safe)
{
    bool any = false;
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(f, x, scratch, &reads);
    for (uint32_t i = 0; i < reads.reads.n; i++) {
        const GroupRead *r = &reads.reads.data[i];
        const IrOp *op = fused_op(f, r->v);
        if (op->op != IR_OP_arg) continue;
        const IrArg *arg = &f->f->args.data[op->attr.i];
        if (arg->kind != IR_ARG_TENSOR || arg->ref != tensor) continue;
        any = true;
        bool same = op->type.space == nest->space && op->type.n_dims == nest->n_dims &&
                    !memcmp(op->type.dims, nest->dims, nest->n_dims * sizeof *nest->dims);
        *safe &= r->identity && same;
    }
    arena_free(scratch);
    return any;
}

/* Tries to let group g write the tensor in place: every other reader must run before it. */
static bool order_readers(PassContext *ctx, FusedFunc *f, uint32_t g, IrId tensor)
{
    Group *writer = &f->groups.data[g];
    uint32_t before = writer->after.n;
    ICE_UNLESS(!writer->dead);
    bool possible = writer->kind == GROUP_MAP || writer->kind == GROUP_ROWS || writer->kind == GROUP_PRODUCT ||
                    writer->kind == GROUP_DIMS || writer->kind == GROUP_BLOCKS;
    for (uint32_t x = 0; x < f->groups.n && possible; x++) {
        if (f->groups.data[x].dead) continue;
        bool safe = true;
        if (!reads_tensor(f, x, tensor, &writer->nest, &safe)) continue;
        if (x == g) possible = (safe && !group_is_staged(f, writer)) || writer->kind == GROUP_BLOCKS;
        else if (group_reaches(f, x, g)) possible = false;
        else VEC_PUSH(ctx->stage, &writer->after, x);
    }
    if (!possible) writer->after.n = before;
    return possible;
}

/* The result becomes a copy of what it was. */
static uint32_t copy_result(PassContext *ctx, FusedModule *fm, FusedFunc *f, IrResult *result)
{
    const IrOp *op = fused_op(f, result->value);
    IrId old = result->value, v = ir_add(fm->m, f->f, IR_OP_detach, op->type, &old, 1, (IrAttr){0}, op->span);
    result->value = v;
    uint32_t g = group_new(f, ctx->stage, v);
    group_find_deps(f, g, ctx->stage);
    return g;
}

void fuse_place_updates(PassContext *ctx, FusedModule *fm, FusedFunc *f)
{
    for (uint32_t i = 0; i < f->f->results.n; i++) {
        IrResult *result = &f->f->results.data[i];
        VEC_PUSH(ctx->stage, &f->in_place, false);
        if (result->tensor == IR_NONE) continue;
        uint32_t g = f->group_of.data[result->value];
        ICE_UNLESS(g != GROUP_NONE); /* results have memory */
        bool direct = order_readers(ctx, f, g, result->tensor);
        Span span = fused_op(f, result->value)->span;
        pass_remark(ctx, PASS_fuse, direct, span, "tensor `%s` is updated in place",
                    fm->m->tensors.data[result->tensor].name);
        if (!direct) {
            g = copy_result(ctx, fm, f, result);
            direct = order_readers(ctx, f, g, result->tensor);
        }
        f->in_place.data[i] = direct;
    }
}
