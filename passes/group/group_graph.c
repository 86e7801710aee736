/* The graph of groups: new ones, and which must run before which. */
#include "base/ice.h"
#include "passes/group/group.h"

uint32_t group_new(FusedFunc *f, Arena *a, IrId v)
{
    const IrOp *op = fused_op(f, v);
    Group g = {.kind = group_kind_of(f->f, f->m, v), .nest = op->type, .space = op->type.space, .map = IR_NONE};
    if (g.kind == GROUP_ROWS || g.kind == GROUP_NTH) g.map = op->attr.map;
    if (g.kind == GROUP_BLOCKS)
        for (uint32_t k = 0; k < op->n_args; k++)
            if (fused_op(f, op->args[k])->type.space != IR_UNIT) g.space = fused_op(f, op->args[k])->type.space;
    VEC_PUSH(a, &g.roots, v);
    VEC_PUSH(a, &f->groups, g);
    while (f->group_of.n < f->f->ops.n) {
        VEC_PUSH(a, &f->group_of, GROUP_NONE);
        VEC_PUSH(a, &f->stored, false);
    }
    ICE_UNLESS(f->group_of.data[v] == GROUP_NONE); /* a value is computed by one group */
    f->group_of.data[v] = f->groups.n - 1;
    return f->groups.n - 1;
}

typedef struct Deps {
    FusedFunc *f;
    uint32_t g;
    Arena *arena;
} Deps;

static void add_dep(Deps *x, IrId v)
{
    ICE_UNLESS(v < x->f->group_of.n);
    Group *g = &x->f->groups.data[x->g];
    uint32_t d = x->f->group_of.data[v];
    bool seen = d == GROUP_NONE || d == x->g;
    for (uint32_t k = 0; k < g->deps.n; k++) seen |= g->deps.data[k] == d;
    if (!seen) VEC_PUSH(x->arena, &g->deps, d);
}

/* What goes through a computed map runs after the step that says what the map is. */
static void add_route(void *user, const GroupOp *op)
{
    Deps *x = user;
    IrId route = ir_route_of(x->f->m, x->f->f, fused_op(x->f, op->v));
    if (route != IR_NONE) add_dep(x, route);
}

void group_find_deps(FusedFunc *f, uint32_t g, Arena *a)
{
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(f, g, scratch, &reads);
    f->groups.data[g].deps.n = 0;
    Deps deps = {f, g, a};
    for (uint32_t i = 0; i < reads.reads.n; i++) add_dep(&deps, reads.reads.data[i].v);
    group_ops(f, g, scratch, add_route, &deps);
    arena_free(scratch);
}

static bool reaches(const FusedFunc *f, uint32_t from, uint32_t to, bool *seen)
{
    if (from == to) return true;
    if (seen[from]) return false;
    seen[from] = true;
    const Group *g = &f->groups.data[from];
    for (uint32_t i = 0; i < g->deps.n; i++)
        if (reaches(f, g->deps.data[i], to, seen)) return true;
    for (uint32_t i = 0; i < g->after.n; i++)
        if (reaches(f, g->after.data[i], to, seen)) return true;
    return false;
}

bool group_reaches(const FusedFunc *f, uint32_t from, uint32_t to)
{
    Arena *scratch = arena_new();
    bool yes = reaches(f, from, to, ARENA_ARRAY(scratch, bool, f->groups.n + 1));
    arena_free(scratch);
    return yes;
}
