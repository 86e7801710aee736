/* Groups that a text gives (schedule_text.h): what each value is to which group, and whether groups came out as the
   text has them.

     group 2 rows               %5, %6 and %4 are to be one kernel: fuse_merge.c puts them together by the rules that
       root %5 reduce_sum       it has for its own choice, whether or not that pays. What it cannot put together is
       root %6 reduce_max       refused here, with the line.
       inner %4 mul
   It changes nothing in the FusedFunc but target and role. */
#include "base/ice.h"
#include "passes/fuse/fuse.h"
#include "passes/group/schedule_text.h"

static const char *name_of(const FusedFunc *f, IrId v) { return ir_ops[fused_op(f, v)->op].name; }

static bool refuse(PassContext *ctx, Span span, const char *text, const char *help)
{
    Diag *it = diag_error(ctx->diags, E0506, span, "%s", text);
    if (help) diag_help(ctx->diags, it, "%s", help);
    return false;
}

/* A value that the function has, made by that operation, and in memory or an array once. */
static bool note_value(PassContext *ctx, FusedFunc *f, uint32_t group, const ValueText *x)
{
    static const char stale[] = "the schedule of the program as it is now is printed by `gnnc build --emit=schedule`";
    Arena *a = ctx->stage;
    if (x->v >= f->f->ops.n)
        return refuse(ctx, x->span, arena_printf(a, "`%s` has no value %%%u", f->f->name, x->v), stale);
    if (strcmp(name_of(f, x->v), x->op))
        return refuse(ctx, x->span, arena_printf(a, "%%%u is made by `%s`, found `%s`", x->v, name_of(f, x->v), x->op),
                      stale);
    if (fused_op(f, x->v)->op == IR_OP_arg)
        return refuse(ctx, x->span,
                      arena_printf(a, "%%%u is an argument: it lies in memory and no kernel computes it", x->v), NULL);
    if (x->role == ROLE_COPY) return true;
    if (f->target[x->v])
        return refuse(ctx, x->span, arena_printf(a, "%%%u is a root or an inner value of two groups", x->v),
                      "a second group may have it as a `copy`");
    f->target[x->v] = group + 1;
    f->role[x->v] = (uint8_t)x->role;
    return true;
}

bool fuse_given_begin(PassContext *ctx, FusedFunc *f)
{
    const FuncText *t = f->text;
    f->target = ARENA_ARRAY(ctx->stage, uint32_t, f->f->ops.n + 1);
    f->role = ARENA_ARRAY(ctx->stage, uint8_t, f->f->ops.n + 1);
    if (t->n_values != f->f->ops.n)
        return refuse(ctx, t->span,
                      arena_printf(ctx->stage, "`%s` has %u values here, found %lld", t->name, f->f->ops.n,
                                   (long long)t->n_values),
                      "a schedule belongs to one program, its sizes and its options");
    for (uint32_t g = 0; g < t->groups.n; g++)
        for (uint32_t i = 0; i < t->groups.data[g].values.n; i++)
            if (!note_value(ctx, f, g, &t->groups.data[g].values.data[i])) return false;
    return true;
}

bool fuse_given_must(PassContext *ctx, const FusedFunc *f, IrId v)
{
    return refuse(ctx, f->text->span, arena_printf(ctx->stage, "%%%u = %s belongs to no group", v, name_of(f, v)),
                  "sums, products and results are roots or inner values of some group");
}

bool fuse_given_copy(const FusedFunc *f, uint32_t g, IrId v)
{
    uint32_t target = f->target[f->groups.data[g].roots.data[0]];
    ICE_UNLESS(target >= 1 && target <= f->text->groups.n);
    const GroupText *t = &f->text->groups.data[target - 1];
    for (uint32_t i = 0; i < t->values.n; i++)
        if (t->values.data[i].v == v && t->values.data[i].role == ROLE_COPY) return true;
    return false;
}

static bool has_root(const Group *g, IrId v)
{
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.data[i] == v) return true;
    return false;
}

static bool check_group(PassContext *ctx, const FusedFunc *f, const GroupText *t)
{
    uint32_t index = f->group_of.data[t->values.data[0].v];
    const Group *g = &f->groups.data[index];
    for (uint32_t i = 0; i < t->values.n; i++) {
        const ValueText *x = &t->values.data[i];
        bool is = x->role == ROLE_ROOT
                      ? has_root(g, x->v)
                      : group_has_inner(g, x->v) && group_has_copy(f, index, x->v) == (x->role == ROLE_COPY);
        if (!is)
            return refuse(ctx, x->span,
                          arena_printf(ctx->stage, "%%%u cannot be computed like this by the kernel of %%%u", x->v,
                                       t->values.data[0].v),
                          "values share a kernel that have the same rows, where no other kernel has to run between; "
                          "inner values are at the "
                          "elements that the kernel sums, and few enough for private arrays");
    }
    if (g->kind != t->kind)
        return refuse(ctx, t->span,
                      arena_printf(ctx->stage, "group %u is of the kind `%s`, found `%s`", t->label,
                                   group_kind_names[g->kind], group_kind_names[t->kind]),
                      NULL);
    return true;
}

bool fuse_given_end(PassContext *ctx, const FusedFunc *f)
{
    for (uint32_t i = 0; i < f->text->groups.n; i++)
        if (!check_group(ctx, f, &f->text->groups.data[i])) return false;
    return true;
}

bool fuse_given_order(PassContext *ctx, const FusedFunc *f)
{
    ICE_UNLESS(f->order.n >= f->text->groups.n); /* each is a group, by fuse_given_end */
    for (uint32_t i = 0, at = 0; i < f->text->groups.n; i++, at++) {
        const GroupText *t = &f->text->groups.data[i];
        while (group_is_copy_back(f, f->order.data[at])) at++;
        if (f->order.data[at] == f->group_of.data[t->values.data[0].v]) continue;
        return refuse(ctx, t->span, arena_printf(ctx->stage, "group %u cannot run at this place", t->label),
                      "it reads what a later group computes, or updates a tensor that a later group reads");
    }
    return true;
}
