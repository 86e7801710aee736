/* audit: holds a finished plan against the function that it computes, after all passes. It knows
   nothing of how memory was planned: what a step reads and writes is worked out anew, from the
   function's operations and from the kernels.

     step 9 `add node [64]` reads b7, where %20 is meant and %28 was written     ends the compiler
   with code 70

   First the rules that hold whatever the graph (here): a slot for each buffer, which lives as long
   as anybody touches the buffer; chains of steps that could be a chain; parts of long rows that use
   what their step has. Then all kernels run on a small graph for where they read and write
   (audit_run.c): each element knows which value it holds and who wrote and read it. Kernels for
   parts of rows run with numbers, too (audit_split.c). Never changes a plan. */
#include "passes/plan/audit.h"
#include "base/ice.h"
#include <stdarg.h>

bool audit_fail(Audit *x, uint32_t s, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    if (x->why) return false;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (s < x->p->steps.n)
        x->why = arena_printf(x->arena, "plan of %s: step %u `%s` %s", x->p->name, s, x->p->steps.data[s].label, text);
    else x->why = arena_printf(x->arena, "plan of %s: %s", x->p->name, text);
    return false;
}

const char *audit_buffer(const Audit *x, uint32_t b)
{
    ICE_UNLESS(b < x->p->buffers.n);
    const char *name = x->p->buffers.data[b].name;
    return arena_printf(x->arena, "b%u (%s)", b, name ? name : "");
}

void audit_chain(const PlanProgram *p, uint32_t s, uint32_t *first, uint32_t *last)
{
    const PlanChain *chain = plan_chain(p, s);
    *first = chain ? chain->first : s;
    *last = chain ? chain->first + chain->n - 1 : s;
}

static void add_leaves(Audit *x, uint32_t g, IrId v, uint32_t *seen)
{
    const IrOp *op = fused_op(x->f, v);
    for (uint32_t k = 0; k < op->n_args; k++) {
        IrId arg = op->args[k];
        uint32_t own = x->f->group_of.data[arg];
        bool stored = own != GROUP_NONE && own != g && !group_has_inner(&x->f->groups.data[g], arg);
        if (seen[arg] == g + 1) continue;
        seen[arg] = g + 1;
        if (stored || fused_op(x->f, arg)->op == IR_OP_arg) VEC_PUSH(x->arena, &x->reads[g], arg);
        else add_leaves(x, g, arg, seen);
    }
}

static void find_values(Audit *x)
{
    const FusedFunc *f = x->f;
    uint32_t *seen = ARENA_ARRAY(x->arena, uint32_t, f->f->ops.n + 1); /* by value: 1 + the last group that met it */
    x->reads = ARENA_ARRAY(x->arena, IrValues, f->groups.n + 1);
    x->stores = ARENA_ARRAY(x->arena, IrValues, f->groups.n + 1);
    for (uint32_t g = 0; g < f->groups.n; g++) {
        const Group *group = &f->groups.data[g];
        for (uint32_t i = 0; i < group->roots.n; i++) add_leaves(x, g, group->roots.data[i], seen);
        for (uint32_t i = 0; i < group->inner.n; i++) add_leaves(x, g, group->inner.data[i], seen);
    }
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (f->group_of.data[v] != GROUP_NONE && f->stored.data[v])
            VEC_PUSH(x->arena, &x->stores[f->group_of.data[v]], v);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool check_slot(Audit *x, uint32_t s, uint32_t b)
{
    const PlanBuffer *it = &x->p->buffers.data[b];
    uint32_t first, last;
    if (it->kind != PLAN_ARENA) return true;
    if (it->slot >= x->p->slots.n) return audit_fail(x, s, "uses %s, which has no slot", audit_buffer(x, b));
    const PlanSlot *slot = &x->p->slots.data[it->slot];
    int64_t rows = it->rows.kind == PLAN_CONST ? it->rows.value : 1, width, bytes;
    bool huge = __builtin_mul_overflow(it->width, rows, &width) ||
                __builtin_mul_overflow(width, (int64_t)kir_base_bytes(it->elem), &bytes);
    bool alike = it->rows.kind == PLAN_CONST ? slot->rows.kind == PLAN_CONST && slot->rows.value == 1
                                             : slot->rows.kind == it->rows.kind && slot->rows.space == it->rows.space &&
                                                   slot->rows.block == it->rows.block && slot->rows.max == it->rows.max;
    if (!huge && (!alike || slot->row_bytes < bytes))
        return audit_fail(x, s, "uses %s, whose slot is too small", audit_buffer(x, b));
    audit_chain(x->p, s, &first, &last);
    if (slot->first > first || slot->last < last)
        return audit_fail(x, s, "uses %s, whose slot lives during steps %u to %u only", audit_buffer(x, b), slot->first,
                          slot->last);
    return true;
}

static bool check_slots_differ(Audit *x)
{
    for (uint32_t b = 0; b < x->p->buffers.n; b++)
        for (uint32_t c = 0; c < b; c++) {
            const PlanBuffer *p = &x->p->buffers.data[b], *q = &x->p->buffers.data[c];
            if (p->kind != q->kind) continue;
            if (p->kind == PLAN_ARENA && p->slot == q->slot && p->slot != UINT32_MAX)
                return audit_fail(x, UINT32_MAX, "%s and %s have one slot", audit_buffer(x, b), audit_buffer(x, c));
            if ((p->kind == PLAN_RESULT || p->kind == PLAN_TENSOR) && p->ref == q->ref)
                return audit_fail(x, UINT32_MAX, "%s and %s lie in one place", audit_buffer(x, b), audit_buffer(x, c));
        }
    return true;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static bool can_be_written(PlanBufferKind k)
{
    return k == PLAN_ARENA || k == PLAN_TENSOR || k == PLAN_RESULT || k == PLAN_STRIP || k == PLAN_STATE;
}

/* args belong to the kernel's parameters. */
static bool check_args(Audit *x, uint32_t s, const KirKernel *k, const PlanArg *args, uint32_t n, bool split)
{
    if (k->params.n != n) return audit_fail(x, s, "has %u arguments for %u parameters", n, k->params.n);
    for (uint32_t i = 0; i < n; i++) {
        const KirParam *p = &k->params.data[i];
        if (args[i].is_buffer != (p->kind != KIR_SCALAR))
            return audit_fail(x, s, "has a buffer for a number, or a number for a buffer");
        if (!args[i].is_buffer) continue;
        if (args[i].buffer >= x->p->buffers.n) return audit_fail(x, s, "has a buffer that is not there");
        const PlanBuffer *b = &x->p->buffers.data[args[i].buffer];
        if (b->elem != p->elem)
            return audit_fail(x, s, "has %s for elements of another type", audit_buffer(x, args[i].buffer));
        if (p->kind != KIR_IN && !can_be_written(b->kind))
            return audit_fail(x, s, "writes %s", audit_buffer(x, args[i].buffer));
        if (b->kind == PLAN_STATE && !split)
            return audit_fail(x, s, "uses %s outside parts of rows", audit_buffer(x, args[i].buffer));
        for (uint32_t j = 0; j < i; j++)
            if (args[j].is_buffer && args[j].buffer == args[i].buffer)
                return audit_fail(x, s, "has %s for two parameters", audit_buffer(x, args[i].buffer));
        if (!check_slot(x, s, args[i].buffer)) return false;
    }
    return true;
}

static bool has_arg(const PlanStep *s, uint32_t buffer)
{
    for (uint32_t i = 0; i < s->args.n; i++)
        if (s->args.data[i].is_buffer && s->args.data[i].buffer == buffer) return true;
    return false;
}

static bool check_split(Audit *x, uint32_t s)
{
    const PlanStep *step = &x->p->steps.data[s];
    const PlanSplit *split = plan_split(step);
    if (!split) return true;
    if (split->kernel >= x->plan->splits.n || !split->walks || split->walks > PLAN_SPLIT_WALKS)
        return audit_fail(x, s, "has no kernel for parts of rows");
    if (step->cut == IR_NONE || step->extent.kind != PLAN_COUNT ||
        step->extent.space != x->plan->module->maps.data[step->cut].to)
        return audit_fail(x, s, "has parts of rows of another map");
    for (uint32_t i = 0; i < split->args.n; i++) {
        const PlanArg *a = &split->args.data[i];
        if (a->is_buffer && x->p->buffers.data[a->buffer].kind != PLAN_STATE && !has_arg(step, a->buffer))
            return audit_fail(x, s, "uses %s for parts of rows alone", audit_buffer(x, a->buffer));
    }
    return check_args(x, s, x->plan->splits.data[split->kernel], split->args.data, split->args.n, true);
}

static bool check_gemm(Audit *x, uint32_t s)
{
    const PlanStep *step = &x->p->steps.data[s];
    const PlanGemm *g = &step->gemm;
    if (step->kind != PLAN_STEP_PRODUCT) return true;
    for (uint32_t i = 0; i < step->args.n; i++) {
        const PlanArg *a = &step->args.data[i];
        KirParamKind kind = plan_kernel(x->plan, step->kernel, true)->params.data[i].kind;
        if (!a->is_buffer) continue;
        bool fits = kind == KIR_IN ? a->buffer == g->a || a->buffer == g->b
                                   : a->buffer == g->c && g->c != g->a && g->c != g->b;
        if (!fits)
            return audit_fail(x, s, "is more than the product that may stand for it: %s", audit_buffer(x, a->buffer));
    }
    return has_arg(step, g->a) && has_arg(step, g->b) && has_arg(step, g->c)
               ? true
               : audit_fail(x, s, "is not the product that may stand for it");
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

/* Iterations are rows of a space, or blocks of them. */
static bool is_by_rows(const PlanCount *e)
{
    return e->kind == PLAN_COUNT || (e->kind == PLAN_BLOCKS && e->max == INT64_MAX);
}

static bool check_link(Audit *x, uint32_t s, const PlanChain *chain)
{
    const PlanStep *step = &x->p->steps.data[s];
    const PlanCount *e = &step->extent;
    int64_t block = e->kind == PLAN_BLOCKS ? e->block : 1;
    if (e->space != x->p->steps.data[chain->first].extent.space || !is_by_rows(e))
        return audit_fail(x, s, "runs by strips of rows that are not its own");
    if (chain->strip < 1 || chain->strip % block)
        return audit_fail(x, s, "runs by strips of %lld rows, which are no whole blocks", (long long)chain->strip);
    return true;
}

static bool check_chain(Audit *x, uint32_t i)
{
    const PlanChain *c = &x->p->chains.data[i];
    uint32_t args = 0, free_from = i ? c[-1].first + c[-1].n : 0;
    if (c->first >= x->p->steps.n || c->n > x->p->steps.n - c->first)
        return audit_fail(x, UINT32_MAX, "chain %u has steps that are not there", i);
    if (c->first < free_from) return audit_fail(x, c->first, "runs in two chains");
    if (c->n < 2 || c->n > PLAN_CHAIN_STEPS) return audit_fail(x, c->first, "runs with too many others, or with none");
    for (uint32_t s = c->first; s < c->first + c->n; s++) {
        args += x->p->steps.data[s].args.n;
        if (!check_link(x, s, c)) return false;
    }
    return args <= PLAN_CHAIN_ARGS ? true : audit_fail(x, c->first, "runs with too many arguments");
}

/* What lies in strips is touched by one chain alone. */
static bool check_strips(Audit *x)
{
    for (uint32_t b = 0; b < x->p->buffers.n; b++) {
        uint32_t chain = UINT32_MAX, first, last;
        if (x->p->buffers.data[b].kind != PLAN_STRIP) continue;
        for (uint32_t s = 0; s < x->p->steps.n; s++) {
            if (!has_arg(&x->p->steps.data[s], b)) continue;
            audit_chain(x->p, s, &first, &last);
            if (first == last || (chain != UINT32_MAX && chain != first))
                return audit_fail(x, s, "uses %s, which another chain has", audit_buffer(x, b));
            chain = first;
        }
    }
    return true;
}

/* ---- rows that are left out -------------------------------------------------------------------------------------- */

/* No step of training draws or computes what the map leads along: rows are listed when a graph is loaded. */
static bool is_known(const IrModule *m, IrId map)
{
    bool known = !m->maps.data[map].computed;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        known &= !g->redrawn || (g->edge != m->maps.data[map].from && g->edge != m->maps.data[map].to);
    }
    return known;
}

static bool is_of(const Audit *x, uint32_t s, uint32_t whole, IrId space)
{
    return s < whole && (x->p->sets.data[s].kind == PLAN_SET_EMPTY || x->p->sets.data[s].space == space);
}

/* A set is made of sets before it, of maps and of inputs or what is computed once: of nothing that changes while a
   program runs. */
static bool check_set(Audit *x, uint32_t s)
{
    const IrModule *m = x->plan->module;
    const PlanSet *set = &x->p->sets.data[s];
    const IrMap *map = set->kind == PLAN_SET_IMAGE || set->kind == PLAN_SET_ORIGIN || set->kind == PLAN_SET_WALK
                           ? &m->maps.data[set->ref]
                           : NULL;
    if (set->kind == PLAN_SET_MASK) {
        const IrTensor *t = &m->tensors.data[set->ref];
        bool mask = (t->kind == IR_INPUT || t->kind == IR_HELD) && t->type.dtype == IR_BOOL &&
                    ir_type_width(m, &t->type) == 1 && t->type.space == set->space;
        return mask || audit_fail(x, UINT32_MAX, "set %u of rows: `%s` is no mask that stays", s, t->name);
    }
    if (map && !is_known(m, set->ref))
        return audit_fail(x, UINT32_MAX, "set %u of rows: `%s` leads elsewhere in each run", s, map->name);
    bool fits = !map || set->space == (set->kind == PLAN_SET_IMAGE ? map->to : map->from);
    if (map) fits &= is_of(x, set->a, s, set->kind == PLAN_SET_ORIGIN ? map->to : map->from);
    if (set->kind == PLAN_SET_EITHER || set->kind == PLAN_SET_BOTH)
        fits &= is_of(x, set->a, s, set->space) && is_of(x, set->b, s, set->space);
    return fits || audit_fail(x, UINT32_MAX, "set %u of rows is made of rows of another space", s);
}

/* What a step leaves out are rows of its own, which no other step of its group helps to compute, and elements that its
   map's list names. */
static bool check_cone(Audit *x, uint32_t s)
{
    const IrModule *m = x->plan->module;
    const PlanStep *step = &x->p->steps.data[s];
    const PlanCone *c = &step->cone;
    if (c->rows == PLAN_SET_ALL && c->walk == PLAN_SET_ALL) return true;
    for (uint32_t k = 0; k < x->p->steps.n; k++)
        if (k != s && x->p->steps.data[k].group == step->group)
            return audit_fail(x, s, "leaves out rows of which step %u computes a part", k);
    if (!is_by_rows(&step->extent) || !is_of(x, c->rows, x->p->sets.n, step->extent.space))
        return audit_fail(x, s, "leaves out rows that are not its own");
    if (c->walk == PLAN_SET_ALL) return true;
    bool thin = step->cut != IR_NONE && !m->maps.data[step->cut].sorted &&
                is_of(x, c->walk, x->p->sets.n, m->maps.data[step->cut].from);
    return thin || audit_fail(x, s, "leaves out elements of a map that has no list of them");
}

static bool check_writers(Audit *x, uint32_t s)
{
    const PlanStep *step = &x->p->steps.data[s];
    for (uint32_t i = 0; i < step->args.n; i++) {
        const PlanArg *a = &step->args.data[i];
        if (!a->is_buffer || plan_kernel(x->plan, step->kernel, true)->params.data[i].kind == KIR_IN) continue;
        const PlanBuffer *b = &x->p->buffers.data[a->buffer];
        if (b->writer != UINT32_MAX && b->writer != s)
            return audit_fail(x, s, "writes %s, of which step %u alone leaves rows 0", audit_buffer(x, a->buffer),
                              b->writer);
        if (step->cone.rows == PLAN_SET_ALL) continue;
        if ((b->kind != PLAN_ARENA && b->kind != PLAN_STRIP) || b->writer != s)
            return audit_fail(x, s, "leaves rows of %s out, which are not 0", audit_buffer(x, a->buffer));
    }
    return true;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* The buffer is where the caller reads the result, or the tensor that it updates. */
static bool is_of_result(const Audit *x, const PlanBuffer *b, uint32_t i)
{
    IrId tensor = x->f->f->results.data[i].tensor;
    return tensor == IR_NONE ? b->kind == PLAN_RESULT && b->ref == i : b->kind == PLAN_TENSOR && b->ref == tensor;
}

static bool check_result(Audit *x, uint32_t i)
{
    const IrResult *r = &x->f->f->results.data[i];
    uint32_t b = x->buffer_of[r->value];
    if (b == UINT32_MAX) return audit_fail(x, UINT32_MAX, "nobody writes result `%s`", r->name);
    return is_of_result(x, &x->p->buffers.data[b], i) ||
           audit_fail(x, UINT32_MAX, "result `%s` lies in %s, where nobody looks for it", r->name, audit_buffer(x, b));
}

/* Step s stores a value where the plan says that it lies, before the result is there. */
static bool lies_in_result(const Audit *x, uint32_t s, uint32_t buffer, uint32_t result)
{
    const PlanBuffer *b = &x->p->buffers.data[buffer];
    IrId v = x->f->f->results.data[result].value;
    bool lies = false, first = b->kind == PLAN_RESULT;
    for (uint32_t k = 0; k <= s; k++) first &= x->p->steps.data[k].group != x->f->group_of.data[v];
    for (IrId u = 0; u < x->f->f->ops.n && first; u++)
        lies |= u != v && x->buffer_of[u] == buffer && x->f->group_of.data[u] == x->p->steps.data[s].group;
    return lies;
}

/* What the caller owns is written by those alone who compute the result that goes there, or what the result is written
   over: audit_run finds that it is all there when it is read. */
static bool check_owned(Audit *x, uint32_t s)
{
    const PlanStep *step = &x->p->steps.data[s];
    for (uint32_t i = 0; i < step->args.n; i++) {
        const PlanArg *a = &step->args.data[i];
        if (!a->is_buffer || plan_kernel(x->plan, step->kernel, true)->params.data[i].kind == KIR_IN) continue;
        const PlanBuffer *b = &x->p->buffers.data[a->buffer];
        bool own = b->kind != PLAN_TENSOR && b->kind != PLAN_RESULT;
        for (uint32_t r = 0; r < x->f->f->results.n && !own; r++)
            own = is_of_result(x, b, r) && (x->f->group_of.data[x->f->f->results.data[r].value] == step->group ||
                                            lies_in_result(x, s, a->buffer, r));
        if (!own) return audit_fail(x, s, "writes over %s, which is the caller's", audit_buffer(x, a->buffer));
    }
    return true;
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

static uint32_t lies_in(const Audit *x, IrId v)
{
    const IrOp *op = fused_op(x->f, v);
    const IrArg *arg = op->op == IR_OP_arg ? &x->f->f->args.data[op->attr.i] : NULL;
    if (!arg) return x->buffer_of[v];
    for (uint32_t b = 0; b < x->p->buffers.n && arg->kind == IR_ARG_TENSOR; b++)
        if (x->p->buffers.data[b].kind == PLAN_TENSOR && x->p->buffers.data[b].ref == arg->ref) return b;
    return UINT32_MAX;
}

/* A group reads no two values that lie in one place: one of them is gone. Which of them a load means audit_run does not
   know. */
static bool check_reads(Audit *x, uint32_t s)
{
    Arena *scratch = arena_new();
    const IrValues *reads = &x->reads[x->p->steps.data[s].group];
    IrId *there = ARENA_ARRAY(scratch, IrId, x->p->buffers.n + 1); /* by buffer: 1 + the value that the group reads */
    for (uint32_t i = 0; i < reads->n; i++) {
        IrId v = reads->data[i];
        uint32_t b = lies_in(x, v);
        if (b == UINT32_MAX) continue;
        if (there[b])
            audit_fail(x, s, "reads %%%u and %%%u, which both lie in %s", there[b] - 1, v, audit_buffer(x, b));
        there[b] = v + 1;
    }
    arena_free(scratch);
    return !x->why;
}

/* ---- a program --------------------------------------------------------------------------------------------------- */

static bool check_step(Audit *x, uint32_t s)
{
    const PlanStep *step = &x->p->steps.data[s];
    if (step->kernel >= x->plan->kernels.n || step->group >= x->f->groups.n) return audit_fail(x, s, "has no kernel");
    for (unsigned v = 0; v < PLAN_N_VARIANTS; v++) {
        const KirKernel *k = x->plan->kernels.data[step->kernel].variants[v];
        if (k && !check_args(x, s, k, step->args.data, step->args.n, false)) return false;
    }
    return check_gemm(x, s) && check_split(x, s) && check_cone(x, s) && check_writers(x, s) && check_owned(x, s) &&
           check_reads(x, s);
}

static bool check_rules(Audit *x)
{
    if (!check_slots_differ(x) || !check_strips(x)) return false;
    for (uint32_t i = 0; i < x->p->chains.n; i++)
        if (!check_chain(x, i)) return false;
    for (uint32_t i = 0; i < x->f->f->results.n; i++)
        if (!check_result(x, i)) return false;
    for (uint32_t s = 0; s < x->p->sets.n; s++)
        if (!check_set(x, s)) return false;
    for (uint32_t s = 0; s < x->p->steps.n; s++)
        if (!check_step(x, s)) return false;
    return true;
}

enum { FEW_NODES = 40, MORE_NODES = 40, MOST_NODES = 600 };

/* Two strips at least of each chain, and a part of one. */
static int64_t nodes_for(const HostPlan *plan)
{
    int64_t n = FEW_NODES;
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->steps.n; s++) {
            const PlanStep *step = &plan->programs.data[i]->steps.data[s];
            const PlanCount *e = &step->extent;
            if (plan_chain(plan->programs.data[i], s) && e->kind == PLAN_BLOCKS && e->block + MORE_NODES > n)
                n = e->block + MORE_NODES;
        }
    return n < MOST_NODES ? n : MOST_NODES;
}

/* What is computed once comes first. */
static bool is_setup(const PlanProgram *p) { return !strncmp(p->name, "setup.", 6); }

static void run_all(Arena *scratch, const HostPlan *plan, Audit *all, uint32_t n, AuditWorld *w)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < n; i++) more |= audit_wants(&all[i], w);
    }
    bool *seen = ARENA_ARRAY(scratch, bool, plan->splits.n + 1);
    for (uint32_t i = 0; i < n; i++) audit_cone(&all[i], w);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < n; i++)
            if (is_setup(all[i].p) == (turn == 0)) audit_run(&all[i], w);
    for (uint32_t i = 0; i < n; i++) audit_split(&all[i], w, seen);
}

const char *audit_plan(Arena *a, const HostPlan *plan, const FusedModule *fm, uint32_t *const *buffer_of)
{
    Arena *scratch = arena_new();
    uint32_t n = plan->programs.n;
    Audit *all = ARENA_ARRAY(scratch, Audit, n + 1);
    const char *why = NULL;
    AuditWorld w;
    for (uint32_t i = 0; i < n; i++) {
        const PlanProgram *p = plan->programs.data[i];
        all[i] = (Audit){scratch,
                         plan,
                         p,
                         fm->funcs.data[i],
                         buffer_of[i],
                         ARENA_ARRAY(scratch, bool, p->buffers.n + 1),
                         ARENA_ARRAY(scratch, uint8_t *, AUDIT_KERNELS * p->steps.n + 1),
                         NULL,
                         NULL,
                         NULL};
        find_values(&all[i]);
        check_rules(&all[i]);
        if (!why) why = all[i].why;
    }
    if (!why && audit_world(scratch, plan, nodes_for(plan), &w)) run_all(scratch, plan, all, n, &w);
    for (uint32_t i = 0; i < n && !why; i++) why = all[i].why;
    if (why) why = arena_printf(a, "%s", why);
    arena_free(scratch);
    return why;
}
