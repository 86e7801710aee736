/* prefetch: while a kernel walks elements one after another, the rows that it gathers at one of them are asked for some
   elements before, so that they are in the cache when their turn comes.

     for %p = %lo .. %hi {                           for %p = %lo .. %hi {
       %u = load i32 src[%p]                           %u = load i32 src[%p]
       %x = load f32x16 h[%u * 16]                     %x = load f32x16 h[%u * 16]
                                                       if %ahead != 0 {
                                                         %q = min(%p + %ahead, %last)
                                                         prefetch h[src[%q] * 16]
   A row is gathered where an index array says its number at the loop's variable, or a list and then an index array. How
   far ahead is an argument of the kernel; 0 is not at all. It is a hint: no bit of a result depends on it. Never reads
   an index outside of its array, and asks for nothing that is read in order, nor for rows below half a line: of these a
   line holds several, and their table is small. */
#include "base/ice.h"
#include "passes/kernel/kernel_passes.h"
#include "passes/lower/emit.h"

enum { MAX_LINES = 32 };

typedef struct Line {             /* of a gathered row: elements from in_row + line * per_line on */
    uint32_t buffer, index, list; /* parameters: row = index[p], or index[list[p]]; list: KIR_NONE */
    Lin in_row;                   /* of the kernel as it was */
    int64_t line, width, per_line;
} Line;

typedef struct Load {
    Line at;
    int64_t first, last; /* elements of the row; last -1: all of them */
} Load;

typedef struct Walk { /* an open loop */
    KirId loop;       /* of the kernel as it was */
    bool over_rows;   /* elements of its rows are walked in it */
    VEC(Load) loads;
} Walk;

typedef struct Prefetch {
    Arena *arena;
    const HostPlan *plan;
    const PlanProgram *prog;
    const KirKernel *old;
    VEC(PlanArg) args; /* of the new kernel */
    const Schedule *tile;
    bool parts;           /* the kernel is for parts of rows */
    Emit e;               /* the new kernel */
    KirId *now;           /* by value of the old one */
    uint32_t *ifs, n_ifs; /* by value of the old one: branches that are open there; now */
    VEC(Walk) walks;
    VEC(Line) asked; /* by this walk and earlier ones, which went over the same elements */
} Prefetch;

static const KirIns *old_ins(const Prefetch *x, KirId id) { return &x->old->ins.data[id]; }

static const PlanBuffer *buffer_of(const Prefetch *x, uint32_t param)
{
    return &x->prog->buffers.data[x->args.data[param].buffer];
}

/* ---- gathered rows ---------------------------------------------------------------------------------------------- */

/* An i64 as a sum of scaled values. */
static void add_terms(const Prefetch *x, KirId id, int64_t scale, Lin *out)
{
    const KirIns *i = old_ins(x, id);
    const KirIns *by = i->op == KIR_mul ? old_ins(x, i->args[1]) : NULL;
    if (i->op == KIR_iconst) {
        out->konst += i->i * scale;
    } else if (i->op == KIR_add && out->n < LIN_MAX - 1) {
        add_terms(x, i->args[0], scale, out);
        add_terms(x, i->args[1], scale, out);
    } else if (by && by->op == KIR_iconst) {
        add_terms(x, i->args[0], scale * by->i, out);
    } else {
        lin_add(out, id, scale);
    }
}

/* The index that i32 array `*param` holds, as an i64; NULL: id is something else. */
static const KirIns *indexed(const Prefetch *x, KirId id, uint32_t *param)
{
    const KirIns *i = old_ins(x, id);
    if (i->op == KIR_convert) i = old_ins(x, i->args[0]);
    if (i->op != KIR_load || i->buf == KIR_NONE || i->type.base != KIR_I32 || i->type.lanes != 1) return NULL;
    *param = i->buf;
    return i;
}

static Walk *walk_of(Prefetch *x, KirId loop)
{
    for (uint32_t i = 0; i < x->walks.n; i++)
        if (x->walks.data[i].loop == loop) return &x->walks.data[i];
    return NULL;
}

/* Whether id is the number of a row that a walk gathers; in what order the walk takes such rows is no order of the
   memory. */
static Walk *gathered_by(Prefetch *x, KirId id, Line *out)
{
    const KirIns *i = indexed(x, id, &out->index);
    if (!i) return NULL;
    out->list = KIR_NONE;
    Walk *w = walk_of(x, i->args[0]);
    const PlanBuffer *b = buffer_of(x, out->index);
    if (w) return b->kind == PLAN_MAP_TO && x->plan->module->maps.data[b->ref].sorted ? NULL : w;
    const KirIns *list = indexed(x, i->args[0], &out->list);
    w = list ? walk_of(x, list->args[0]) : NULL;
    return w && x->ifs[i - x->old->ins.data] == x->ifs[w->loop] ? w : NULL; /* in a branch: a map may lead nowhere */
}

static void note_load(Prefetch *x, const KirIns *load)
{
    const PlanBuffer *b = buffer_of(x, load->buf);
    Load l = {.at.buffer = load->buf};
    Lin all = {0};
    KirId first = load->args[0];
    Walk *w = NULL;
    if (b->kind == PLAN_MAP_ROWS && (w = walk_of(x, load->args[0]))) w->over_rows = true;
    if (b->kind == PLAN_IDS || (b->kind >= PLAN_MAP_TO && b->kind <= PLAN_MAP_LIST) || b->kind == PLAN_MAP_ALONG)
        return;
    if (load->op == KIR_gather) { /* offsets from one place: they may be anywhere in the row */
        const KirIns *sum = old_ins(x, first), *from = sum->op == KIR_add ? old_ins(x, sum->args[0]) : sum;
        if (from->op != KIR_splat) return;
        first = from->args[0];
    }
    add_terms(x, first, 1, &all);
    w = NULL;
    for (uint32_t i = 0; i < all.n; i++) {
        Walk *by = w ? NULL : gathered_by(x, all.var[i], &l.at);
        if (!by) lin_add(&l.at.in_row, all.var[i], all.scale[i]);
        else w = by, l.at.width = all.scale[i];
    }
    if (!w) return;
    int64_t size = (int64_t)kir_base_bytes(x->old->params.data[load->buf].elem);
    bool listed = buffer_of(x, l.at.index)->kind == PLAN_MAP_LIST;
    if (!listed && l.at.width * size < x->tile->line / 2) return;
    l.first = all.konst;
    l.last = load->op == KIR_gather  ? -1
             : load->type.lanes == 1 ? l.first
                                     : l.first + load->stride * (load->active - 1);
    l.at.per_line = x->tile->line / size;
    VEC_PUSH(x->arena, &w->loads, l);
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static bool same_line(const Line *a, const Line *b)
{
    if (a->buffer != b->buffer || a->index != b->index || a->list != b->list || a->line != b->line ||
        a->in_row.n != b->in_row.n)
        return false;
    for (uint32_t i = 0; i < a->in_row.n; i++)
        if (a->in_row.var[i] != b->in_row.var[i] || a->in_row.scale[i] != b->in_row.scale[i]) return false;
    return true;
}

/* The lines of a load that no walk has asked for: first to last element inside the row; the whole row if it lies in a
   loop that is closed. They are the last of x->asked. */
static void add_lines(Prefetch *x, const Load *l, uint32_t before)
{
    ICE_UNLESS(l->at.per_line > 0);
    bool visible = true;
    Line at = l->at;
    for (uint32_t i = 0; i < at.in_row.n; i++) visible &= emit_visible(&x->e, x->now[at.in_row.var[i]]);
    int64_t first = l->first, last = l->last;
    if (!visible || last < 0) at.in_row.n = 0, first = 0, last = at.width - 1;
    for (at.line = first / at.per_line; at.line <= last / at.per_line && x->asked.n < before + MAX_LINES; at.line++) {
        bool known = false;
        for (uint32_t i = 0; i < x->asked.n && !known; i++) known = same_line(&x->asked.data[i], &at);
        if (!known) VEC_PUSH(x->arena, &x->asked, at);
    }
}

/* ---- prefetches ------------------------------------------------------------------------------------------------- */

/* k with a parameter for each argument. */
static KirKernel *with_params(Prefetch *x, KirKernel *k)
{
    for (uint32_t i = k->params.n; i < x->args.n; i++)
        kir_param(x->arena, k,
                  (KirParam){.name = arena_printf(x->arena, "%s%u",
                                                  x->args.data[i].count.kind == PLAN_AHEAD ? "ahead" : "n", i),
                             .kind = KIR_SCALAR,
                             .elem = KIR_I64});
    return k;
}

/* A scalar argument, which the kernel gets if it has it not. */
static KirId scalar(Prefetch *x, const PlanCount *c)
{
    uint32_t p = 0;
    if (c->kind == PLAN_CONST) return emit_index(&x->e, c->value);
    for (; p < x->args.n; p++) {
        const PlanArg *a = &x->args.data[p];
        if (!a->is_buffer && a->count.kind == c->kind && (c->kind == PLAN_AHEAD || a->count.space == c->space)) break;
    }
    if (p == x->args.n) VEC_PUSH(x->arena, &x->args, ((PlanArg){.count = *c}));
    with_params(x, x->e.b.k);
    return emit_ins(&x->e, (KirIns){.op = KIR_param, .type = kir_type(KIR_I64, 1), .i = p});
}

static KirId index_at(Prefetch *x, uint32_t param, KirId at)
{
    return emit_convert(&x->e, KIR_I64, emit_load(&x->e, param, kir_type(KIR_I32, 1), at, 1, 1));
}

static void ask(Prefetch *x, const Line *l, KirId q)
{
    Lin at = l->in_row;
    for (uint32_t i = 0; i < at.n; i++) at.var[i] = x->now[at.var[i]];
    at.konst = l->line * l->per_line;
    if (l->list != KIR_NONE) q = index_at(x, l->list, q);
    lin_add(&at, index_at(x, l->index, q), l->width);
    emit_prefetch(&x->e, l->buffer, lin_emit(&x->e, &at));
}

/* Before the end of the loop that was opened last. */
static void close_walk(Prefetch *x)
{
    ICE_UNLESS(x->walks.n);
    Emit *e = &x->e;
    const Walk *w = &x->walks.data[--x->walks.n];
    uint32_t before = x->asked.n;
    for (uint32_t i = 0; i < w->loads.n && !w->over_rows; i++) add_lines(x, &w->loads.data[i], before);
    if (x->asked.n == before) return;
    const Line *first = &x->asked.data[before];
    KirId distance = scalar(x, &(PlanCount){.kind = PLAN_AHEAD, .value = x->tile->ahead});
    KirId end = scalar(x, &buffer_of(x, first->list != KIR_NONE ? first->list : first->index)->rows);
    emit_if(e, emit_op2(e, KIR_ne, distance, emit_index(e, 0)));
    KirId last = emit_op2(e, KIR_sub, end, emit_index(e, 1)), from = emit_op2(e, KIR_add, x->now[w->loop], distance);
    for (int64_t k = 0; k < old_ins(x, w->loop)->i; k++) { /* elements that are walked together and read alike */
        KirId q = emit_op2(e, KIR_min, emit_op2(e, KIR_add, from, emit_index(e, k)), last);
        for (uint32_t i = before; i < x->asked.n; i++) ask(x, &x->asked.data[i], q);
    }
    emit_end(e);
}

/* ---- the new kernel ---------------------------------------------------------------------------------------------- */

static void copy_block(Prefetch *x, const KirBlock *b);

static void copy_blocks(Prefetch *x, KirId id)
{
    Emit *e = &x->e;
    const KirIns *o = old_ins(x, id);
    if (o->op == KIR_for) {
        const KirIns *lo = old_ins(x, o->args[0]);
        Walk *rows = lo->op == KIR_load ? walk_of(x, lo->args[0]) : NULL;
        if (rows) rows->over_rows = true;
        if (x->parts && x->walks.n == 1) x->asked.n = 0; /* a walk of its own: too long ago to be in the cache */
        x->now[id] = emit_for(e, x->now[o->args[0]], x->now[o->args[1]], o->i, o->bind, o->comment);
        VEC_PUSH(x->arena, &x->walks, ((Walk){.loop = id}));
        x->ifs[id] = x->n_ifs;
    } else if (o->op == KIR_if) {
        emit_if(e, x->now[o->args[0]]);
    } else {
        emit_loop(e);
    }
    x->n_ifs += o->op != KIR_for;
    copy_block(x, &o->body);
    if (o->op == KIR_for) close_walk(x);
    if (o->other.ins.n) {
        emit_else(e);
        copy_block(x, &o->other);
    }
    x->n_ifs -= o->op != KIR_for;
    emit_end(e);
}

static void copy_block(Prefetch *x, const KirBlock *b)
{
    for (uint32_t i = 0; i < b->ins.n; i++) {
        KirId id = b->ins.data[i];
        KirIns o = *old_ins(x, id);
        if (kir_ops[o.op].kind == KIND_B || kir_ops[o.op].kind == KIND_BB) {
            copy_blocks(x, id);
            continue;
        }
        if ((o.op == KIR_load || o.op == KIR_gather) && o.buf != KIR_NONE) note_load(x, &o);
        for (unsigned k = 0; k < kir_ops[o.op].n_args; k++) o.args[k] = x->now[o.args[k]];
        if (o.alloc != KIR_NONE) o.alloc = x->now[o.alloc];
        x->ifs[id] = x->n_ifs;
        x->now[id] = emit_keep(&x->e, o);
    }
}

/* k with hints, and with parameters for all of x->args, of which it has the first already. */
static KirKernel *prefetch(Prefetch *x, const KirKernel *k)
{
    KirKernel *next = kir_kernel_new(x->arena, k->name);
    next->comment = k->comment;
    x->old = k;
    x->e = emit_begin(x->arena, next);
    x->now = ARENA_ARRAY(x->arena, KirId, k->ins.n + 1);
    x->ifs = ARENA_ARRAY(x->arena, uint32_t, k->ins.n + 1);
    x->asked.n = 0;
    for (uint32_t i = 0; i < k->params.n; i++) emit_param(&x->e, k->params.data[i]);
    copy_block(x, &k->body);
    return next;
}

/* Whether k reads an index at all. */
static bool has_index(const KirKernel *k)
{
    bool has = false;
    for (uint32_t i = 0; i < k->ins.n; i++)
        has |= k->ins.data[i].op == KIR_load && k->ins.data[i].type.base == KIR_I32 && k->ins.data[i].buf != KIR_NONE;
    return has;
}

/* Kernels that stand for one another, or one for parts of rows (narrow is NULL), called with these n arguments; returns
   them with those that hints want. The second kernel is made with what the first wanted, so both have the same
   parameters. */
static Prefetch prefetch_kernels(PassContext *ctx, const HostPlan *plan, const PlanProgram *prog, const PlanArg *args,
                                 uint32_t n, const Schedule *tile, KirKernel **k, KirKernel **narrow)
{
    Prefetch x = {.arena = ctx->stage, .plan = plan, .prog = prog, .tile = tile, .parts = !narrow};
    for (uint32_t i = 0; i < n; i++) VEC_PUSH(ctx->stage, &x.args, args[i]);
    KirKernel *next = prefetch(&x, *k), *next_narrow = narrow && *narrow ? prefetch(&x, *narrow) : NULL;
    if (x.args.n == n) return x;
    *k = with_params(&x, next);
    if (next_narrow) *narrow = with_params(&x, next_narrow);
    return x;
}

static void prefetch_step(PassContext *ctx, HostPlan *plan, const PlanProgram *prog, PlanStep *s, const Schedule *tile)
{
    KirKernel **k = &plan->kernels.data[s->kernel].variants[PLAN_WIDE],
              **narrow = &plan->kernels.data[s->kernel].variants[PLAN_NARROW];
    if (!has_index(*k)) return;
    Prefetch x = prefetch_kernels(ctx, plan, prog, s->args.data, s->args.n, tile, k, narrow);
    for (uint32_t i = s->args.n; i < x.args.n; i++) VEC_PUSH(ctx->stage, &s->args, x.args.data[i]);
    PlanSplit *split = plan_split(s);
    if (!split || split->args.n + 2 > PLAN_SPLIT_ARGS) return;
    x = prefetch_kernels(ctx, plan, prog, split->args.data, split->args.n, tile, &plan->splits.data[split->kernel],
                         NULL);
    for (uint32_t i = split->args.n; i < x.args.n; i++) VEC_PUSH(ctx->stage, &split->args, x.args.data[i]);
}

void prefetch_plan(PassContext *ctx, const FusedModule *fm, HostPlan *plan)
{
    for (uint32_t i = 0; i < plan->programs.n; i++) {
        const PlanProgram *p = plan->programs.data[i];
        for (uint32_t s = 0; s < p->steps.n; s++) {
            const FusedFunc *f = fm->funcs.data[i];
            uint32_t g = p->steps.data[s].group;
            const Schedule *tile = &f->tiles->group[0][g];
            /* lower asks for a product's rows */
            if (tile->ahead && f->groups.data[g].kind != GROUP_PRODUCT)
                prefetch_step(ctx, plan, p, &p->steps.data[s], tile);
        }
    }
}
