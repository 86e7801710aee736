/* audit_run: runs all kernels of a program on a small graph and looks only at where they read and write (kir_watch).
   The audit keeps for each element of a written buffer which value the element holds, and which step and row touched it
   last:

     step 3 writes b7[12]     it holds %28, by row 3
     step 4 reads b7[12]      right where %28 is what the function's operations want there
     step 4, row 5, too       wrong if row 3 of step 4 wrote it: threads run rows in any order, and
   so do strips

   Parts of a long row run as threads would run them, then the rows. Numbers are computed only where
   accesses depend on them. A step for which too many instructions would run, or whose accesses depend on too
   many numbers, is taken to do what it should. */
#include "passes/plan/audit.h"
#include "base/ice.h"

enum { FUEL = 6 << 20, STRIPS = 4 };

typedef struct Tag { /* of an element */
    uint32_t holds;  /* what was written last: see value_of; 0: nothing */
    uint32_t writer; /* the turn that did */
    uint32_t reader; /* a turn that read it; the round's number: several of the round did */
} Tag;

typedef struct Run {
    Audit *x;
    AuditWorld *w;
    Arena *arena;    /* of tags and numbers */
    int64_t all;     /* elements that have them */
    Tag **tags;      /* by buffer; NULL: nobody writes it, or it is too large */
    int64_t *elems;  /* by buffer */
    void **data;     /* by buffer; NULL: its numbers do not matter */
    uint32_t *meant; /* by what an element holds: 1 + the step that may read it */
    uint32_t round;  /* turns of what may run side by side begin behind it */
    int64_t fuel;
    /* of the step at hand */
    uint32_t s;
    const PlanArg *args;
    uint32_t *holds; /* by argument: what elements hold that it writes */
    bool by_unit;    /* the turn is `unit`, not an iteration */
    uint32_t unit;
    int64_t first_row, last_row; /* of the strip */
    bool in_walk;                /* parts of rows run: they may read in vain what is not there yet */
    KirWatch watch;
} Run;

/* ---- what runs --------------------------------------------------------------------------------------------------- */

static const KirKernel *kernel_of(const Audit *x, uint32_t s, unsigned which)
{
    const PlanStep *step = &x->p->steps.data[s];
    if (which < PLAN_N_VARIANTS) return x->plan->kernels.data[step->kernel].variants[which];
    return plan_split(step) ? x->plan->splits.data[step->split->kernel] : NULL;
}

static const PlanArg *args_of(const Audit *x, uint32_t s, unsigned which)
{
    const PlanStep *step = &x->p->steps.data[s];
    return which == AUDIT_PARTS && plan_split(step) ? step->split->args.data : step->args.data;
}

/* True where another buffer's numbers are wanted. */
static bool plan_kernel_run(Audit *x, uint32_t s, unsigned which)
{
    const KirKernel *k = kernel_of(x, s, which);
    if (!k) return false;
    bool *wants = ARENA_ARRAY(x->arena, bool, k->params.n + 1), more = false;
    const PlanArg *args = args_of(x, s, which);
    uint8_t **how = &x->how[AUDIT_KERNELS * s + which];
    if (!*how) *how = ARENA_ARRAY(x->arena, uint8_t, k->ins.n + 1);
    for (uint32_t i = 0; i < k->params.n; i++) wants[i] = args[i].is_buffer && x->wants[args[i].buffer];
    kir_watch_plan(k, wants, *how);
    for (uint32_t i = 0; i < k->params.n; i++) {
        if (!wants[i] || !args[i].is_buffer || x->wants[args[i].buffer]) continue;
        x->wants[args[i].buffer] = more = true;
    }
    return more;
}

bool audit_wants(Audit *x, AuditWorld *w)
{
    bool again = true, found = false;
    for (uint32_t b = 0; b < x->p->buffers.n; b++) {
        const PlanBuffer *it = &x->p->buffers.data[b];
        x->wants[b] |= it->kind == PLAN_TENSOR && w->wanted[it->ref];
    }
    while (again) {
        again = false;
        for (uint32_t s = 0; s < x->p->steps.n; s++)
            for (unsigned which = 0; which < AUDIT_KERNELS; which++) again |= plan_kernel_run(x, s, which);
    }
    for (uint32_t b = 0; b < x->p->buffers.n; b++) {
        const PlanBuffer *it = &x->p->buffers.data[b];
        if (it->kind != PLAN_TENSOR || !x->wants[b] || w->wanted[it->ref]) continue;
        w->wanted[it->ref] = found = true;
    }
    return found;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* What an element holds: a value of the function, or something that a group needs on its way. */
static uint32_t holds_value(IrId v) { return v + 1; }
static uint32_t holds_other(const Run *r, uint32_t group) { return r->x->f->f->ops.n + 1 + group; }

static const char *name_of(const Run *r, uint32_t holds)
{
    uint32_t n = r->x->f->f->ops.n;
    if (!holds) return "nothing";
    if (holds <= n) return arena_printf(r->x->arena, "%%%u", holds - 1);
    return arena_printf(r->x->arena, "what group %u needs on its way", holds - n - 1);
}

/* What the step's group stores in a buffer. */
static uint32_t stores_in(Run *r, uint32_t s, uint32_t buffer)
{
    ICE_UNLESS(s < r->x->p->steps.n);
    uint32_t g = r->x->p->steps.data[s].group, found = 0;
    const IrValues *stores = &r->x->stores[g];
    for (uint32_t i = 0; i < stores->n; i++) {
        IrId v = stores->data[i];
        if (r->x->buffer_of[v] != buffer) continue;
        if (found) audit_fail(r->x, s, "writes two values to %s", audit_buffer(r->x, buffer));
        found = holds_value(v);
    }
    return found ? found : holds_other(r, g);
}

static void find_meant(Run *r, uint32_t s)
{
    uint32_t g = r->x->p->steps.data[s].group;
    const IrValues *reads = &r->x->reads[g];
    for (uint32_t i = 0; i < reads->n; i++) r->meant[holds_value(reads->data[i])] = s + 1;
    if (r->x->f->groups.data[g].kind != GROUP_ROUTE) r->meant[holds_other(r, g)] = s + 1;
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

static bool is_beside(const Run *r, uint32_t turn, uint32_t own) { return turn >= r->round && turn != own; }

static const char *read_element(Run *r, uint32_t buffer, Tag *t, uint32_t own)
{
    if (is_beside(r, t->writer, own)) return "reads what another turn of the step writes";
    if (!t->holds) return arena_printf(r->x->arena, "reads %s where nobody wrote it", audit_buffer(r->x, buffer));
    uint32_t meant = r->meant[t->holds];
    if (meant != r->s + 1 && meant != UINT32_MAX)
        return arena_printf(r->x->arena, "reads %s, which holds %s there: not what is meant",
                            audit_buffer(r->x, buffer), name_of(r, t->holds));
    t->reader = t->reader < r->round || t->reader == own ? own : r->round;
    return NULL;
}

static const char *write_element(Run *r, uint32_t holds, Tag *t, uint32_t own)
{
    ICE_UNLESS(holds);
    if (is_beside(r, t->writer, own)) return "writes what another turn of the step writes";
    if (is_beside(r, t->reader, own)) return "writes what another turn of the step reads";
    t->holds = holds;
    t->writer = own;
    return NULL;
}

static const char *touch(void *user, uint32_t param, int64_t first, int64_t stride, unsigned n, bool write)
{
    Run *r = user;
    uint32_t buffer = r->args[param].buffer, own = r->by_unit ? r->unit : r->round + 1 + (uint32_t)r->watch.at;
    const PlanBuffer *b = &r->x->p->buffers.data[buffer];
    Tag *tags = r->tags[buffer];
    const char *why = NULL;
    if (!tags) return NULL;
    for (unsigned i = 0; i < n && !why; i++) {
        int64_t at = first + i * stride, row = at / b->width;
        if (b->kind == PLAN_STRIP &&
            (row < r->first_row || row >= r->last_row || (!write && tags[at].writer < r->round)))
            why = arena_printf(r->x->arena, "touches %s outside the strip", audit_buffer(r->x, buffer));
        else why = write ? write_element(r, r->holds[param], &tags[at], own) : read_element(r, buffer, &tags[at], own);
    }
    if (write || !r->in_walk) return why;
    r->watch.vain = why != NULL;
    return NULL;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

typedef struct Part { /* of a long row */
    int64_t phase, from, to, first;
} Part;

static int64_t split_value(const Part *p, int64_t which)
{
    const int64_t values[] = {[PLAN_SPLIT_PHASE] = p->phase,
                              [PLAN_SPLIT_FROM] = p->from,
                              [PLAN_SPLIT_TO] = p->to,
                              [PLAN_SPLIT_FIRST] = p->first};
    return values[which];
}

/* Iterations [lo, hi) of a kernel of step s. part: NULL but for parts of rows. */
static void call(Run *r, uint32_t s, unsigned which, int64_t lo, int64_t hi, const Part *part)
{
    const KirKernel *k = kernel_of(r->x, s, which);
    if (r->x->why || r->fuel <= 0 || lo >= hi) return;
    Arena *scratch = arena_new();
    KirArg *args = ARENA_ARRAY(scratch, KirArg, k->params.n + 1);
    int64_t *elems = ARENA_ARRAY(scratch, int64_t, k->params.n + 1);
    r->s = s;
    r->args = args_of(r->x, s, which);
    r->holds = ARENA_ARRAY(scratch, uint32_t, k->params.n + 1);
    find_meant(r, s);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const PlanArg *a = &r->args[i];
        if (!a->is_buffer) {
            args[i].i = part && a->count.kind == PLAN_SPLIT ? split_value(part, a->count.value)
                                                            : audit_count(r->w, &a->count);
            continue;
        }
        if (r->x->wants[a->buffer] && !r->data[a->buffer]) r->fuel = 0; /* too many numbers */
        args[i].p = r->data[a->buffer];
        elems[i] = r->elems[a->buffer];
        r->holds[i] = stores_in(r, s, a->buffer);
    }
    r->watch = (KirWatch){.touch = touch,
                          .user = r,
                          .how = r->x->how[AUDIT_KERNELS * s + which],
                          .fuel = r->fuel,
                          .taint = r->in_walk ? ARENA_ARRAY(scratch, bool, k->ins.n + 1) : NULL};
    const char *why = r->fuel > 0 ? kir_watch(scratch, k, args, elems, lo, hi, &r->watch) : NULL;
    r->fuel = r->fuel > 0 ? r->watch.fuel : 0;
    if (why) audit_fail(r->x, s, "goes wrong: %s", why);
    arena_free(scratch);
}

static unsigned variant(const Run *r, uint32_t s, bool narrow)
{
    return narrow && kernel_of(r->x, s, PLAN_NARROW) ? PLAN_NARROW : PLAN_WIDE;
}

/* ---- parts of rows ----------------------------------------------------------------------------------------------- */

static const int64_t *split_rows(const Run *r, uint32_t s)
{
    const PlanStep *step = &r->x->p->steps.data[s];
    return plan_split(step) ? r->w->rows[step->cut] : NULL;
}

static int64_t blocks_of(const int64_t *rows, int64_t row)
{
    int64_t n = rows[row + 1] - rows[row];
    return n > ORDER_ROW_BLOCK ? (n + ORDER_ROW_BLOCK - 1) / ORDER_ROW_BLOCK : 0;
}

/* Tags and, where they are wanted, numbers, if they are not too many. */
static void make_buffer(Run *r, uint32_t b, bool tracked)
{
    int64_t n = r->elems[b];
    if (n > AUDIT_MOST_ELEMENTS || n > AUDIT_MOST_ALL - r->all) return;
    ICE_UNLESS(n >= 0 && r->all <= AUDIT_MOST_ALL - n);
    if (tracked) r->tags[b] = ARENA_ARRAY(r->arena, Tag, n + 1);
    if (!r->data[b] && r->x->wants[b]) r->data[b] = ARENA_ARRAY(r->arena, int64_t, n + 1);
    r->all += tracked || r->data[b] ? n : 0;
}

/* Room for what blocks sum up to. */
static void make_states(Run *r, uint32_t s, int64_t blocks)
{
    const PlanSplit *split = r->x->p->steps.data[s].split;
    for (uint32_t i = 0; i < split->args.n; i++) {
        uint32_t b = split->args.data[i].buffer;
        if (!split->args.data[i].is_buffer || r->x->p->buffers.data[b].kind != PLAN_STATE) continue;
        if (__builtin_mul_overflow(blocks, r->x->p->buffers.data[b].width, &r->elems[b])) r->elems[b] = INT64_MAX;
        make_buffer(r, b, true);
    }
}

/* Each block of a long row by a thread of its own, walk by walk. */
static void run_walks(Run *r, uint32_t s)
{
    const int64_t *rows = split_rows(r, s);
    int64_t n = audit_count(r->w, &r->x->p->steps.data[s].extent), blocks = 0;
    for (int64_t v = 0; rows && v < n; v++) blocks += blocks_of(rows, v);
    if (!blocks) return;
    make_states(r, s, blocks);
    r->by_unit = r->in_walk = true;
    r->first_row = r->last_row = 0;
    for (Part p = {0}; p.phase < r->x->p->steps.data[s].split->walks; p.phase++) {
        p.first = 0;
        for (int64_t v = 0, unit = 0; v < n; p.first += blocks_of(rows, v++))
            for (int64_t k = 0; k < blocks_of(rows, v); k++) {
                p.from = rows[v] + k * ORDER_ROW_BLOCK;
                p.to = p.from + ORDER_ROW_BLOCK < rows[v + 1] ? p.from + ORDER_ROW_BLOCK : rows[v + 1];
                r->unit = r->round + 1 + (uint32_t)unit++;
                call(r, s, AUDIT_PARTS, v, v + 1, &p);
            }
        r->round += (uint32_t)blocks + 2;
    }
    r->in_walk = false;
}

/* Iterations [lo, hi), of long rows what is left of them. */
static void call_rows(Run *r, uint32_t s, unsigned which, int64_t lo, int64_t hi)
{
    const int64_t *rows = split_rows(r, s);
    Part p = {.phase = PLAN_SPLIT_LAST};
    for (int64_t v = 0; rows && v < hi; p.first += blocks_of(rows, v++)) {
        if (v < lo || !blocks_of(rows, v)) continue;
        call(r, s, which, lo, v, NULL);
        call(r, s, AUDIT_PARTS, v, v + 1, &p);
        lo = v + 1;
    }
    call(r, s, which, lo, hi, NULL);
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

static void run_alone(Run *r, uint32_t s, bool narrow)
{
    int64_t n = audit_count(r->w, &r->x->p->steps.data[s].extent);
    if (n > FUEL) r->fuel = 0; /* each has an instruction */
    if (r->fuel <= 0) return;
    run_walks(r, s);
    r->by_unit = false;
    call_rows(r, s, variant(r, s, narrow), 0, n);
    r->round += (uint32_t)n + 2;
}

static int64_t block_of(const PlanStep *s) { return s->extent.kind == PLAN_BLOCKS ? s->extent.block : 1; }

static int64_t strip_rows(const Run *r, uint32_t first, uint32_t last, int64_t rows)
{
    int64_t unit = 1, share = (rows + STRIPS - 1) / STRIPS;
    for (uint32_t s = first; s <= last; s++) {
        int64_t block = block_of(&r->x->p->steps.data[s]), x = unit, y = block;
        while (y) {
            int64_t rest = x % y;
            x = y;
            y = rest;
        }
        unit = unit / x * block;
    }
    return (share + unit - 1) / unit * unit;
}

static void run_strips(Run *r, uint32_t first, uint32_t last, bool narrow)
{
    const PlanStep *steps = r->x->p->steps.data;
    int64_t rows = r->w->w->counts[steps[first].extent.space], strip = strip_rows(r, first, last, rows), turn = 0;
    for (uint32_t s = first; s <= last; s++) run_walks(r, s);
    r->by_unit = true;
    for (r->first_row = 0; r->first_row < rows; r->first_row = r->last_row, turn++) {
        r->last_row = r->first_row + strip < rows ? r->first_row + strip : rows;
        r->unit = r->round + 1 + (uint32_t)turn;
        for (uint32_t s = first; s <= last; s++) {
            int64_t block = block_of(&steps[s]);
            call_rows(r, s, variant(r, s, narrow), r->first_row / block, (r->last_row + block - 1) / block);
        }
    }
    r->round += (uint32_t)turn + 2;
}

/* Accesses of step s depend on numbers that are too many. */
static bool is_blind(const Run *r, uint32_t s)
{
    for (unsigned which = 0; which < AUDIT_KERNELS; which++) {
        const KirKernel *k = kernel_of(r->x, s, which);
        const PlanArg *args = args_of(r->x, s, which);
        for (uint32_t i = 0; k && i < k->params.n; i++) {
            uint32_t b = args[i].is_buffer ? args[i].buffer : 0;
            if (args[i].is_buffer && r->x->wants[b] && !r->data[b] && r->x->p->buffers.data[b].kind != PLAN_STATE)
                return true;
        }
    }
    return false;
}

/* The step was not run, or not to its end: it has written what it should. */
static void assume(Run *r, uint32_t s)
{
    const PlanStep *step = &r->x->p->steps.data[s];
    const KirKernel *k = kernel_of(r->x, s, PLAN_WIDE);
    for (uint32_t i = 0; i < step->args.n; i++) {
        uint32_t b = step->args.data[i].buffer;
        if (!step->args.data[i].is_buffer || k->params.data[i].kind == KIR_IN || !r->tags[b]) continue;
        uint32_t holds = stores_in(r, s, b);
        for (int64_t e = 0; e < r->elems[b]; e++) r->tags[b][e] = (Tag){holds, 0, 0};
    }
}

/* What steps [first, last] write, as it is before them. */
static Tag **saved(Run *r, uint32_t first, uint32_t last, Arena *scratch)
{
    Tag **all = ARENA_ARRAY(scratch, Tag *, r->x->p->buffers.n + 1);
    for (uint32_t s = first; s <= last; s++)
        for (uint32_t i = 0; i < r->x->p->steps.data[s].args.n; i++) {
            const PlanArg *a = &r->x->p->steps.data[s].args.data[i];
            bool written = a->is_buffer && kernel_of(r->x, s, PLAN_WIDE)->params.data[i].kind != KIR_IN;
            if (!written || !r->tags[a->buffer] || all[a->buffer]) continue;
            size_t n = (size_t)r->elems[a->buffer];
            all[a->buffer] = ARENA_ARRAY(scratch, Tag, n + 1);
            memcpy(all[a->buffer], r->tags[a->buffer], n * sizeof(Tag));
        }
    return all;
}

static void run_link(Run *r, uint32_t first, uint32_t last, bool narrow)
{
    if (first == last) run_alone(r, first, narrow);
    else run_strips(r, first, last, narrow);
}

/* With the narrow kernels first, where there are some, as if nothing had run. */
static void run_steps(Run *r)
{
    for (uint32_t s = 0, first, last; s < r->x->p->steps.n && !r->x->why; s = last + 1) {
        bool narrow = false, blind = false;
        audit_chain(r->x->p, s, &first, &last);
        for (uint32_t k = first; k <= last; k++) {
            narrow |= kernel_of(r->x, k, PLAN_NARROW) != NULL;
            blind |= is_blind(r, k);
        }
        if (narrow && !blind) {
            Arena *scratch = arena_new();
            Tag **before = saved(r, first, last, scratch);
            run_link(r, first, last, true);
            for (uint32_t b = 0; b < r->x->p->buffers.n; b++)
                if (before[b]) memcpy(r->tags[b], before[b], (size_t)r->elems[b] * sizeof(Tag));
            arena_free(scratch);
        }
        if (!blind) run_link(r, first, last, false);
        for (uint32_t k = first; k <= last && (blind || r->fuel <= 0); k++) assume(r, k);
    }
}

/* ---- a program --------------------------------------------------------------------------------------------------- */

static void find_written(const Audit *x, bool *written)
{
    for (uint32_t s = 0; s < x->p->steps.n; s++)
        for (unsigned which = PLAN_WIDE; which <= AUDIT_PARTS; which += AUDIT_PARTS) {
            const KirKernel *k = kernel_of(x, s, which);
            const PlanArg *args = args_of(x, s, which);
            for (uint32_t i = 0; k && i < k->params.n; i++)
                if (args[i].is_buffer && k->params.data[i].kind != KIR_IN) written[args[i].buffer] = true;
        }
}

/* Nobody but a step can write it. */
static bool is_planned(PlanBufferKind k) { return k == PLAN_ARENA || k == PLAN_STRIP || k == PLAN_RESULT; }

/* The argument that a tensor is. */
static uint32_t held_at_first(const Audit *x, IrId tensor)
{
    const IrFunc *f = x->f->f;
    for (IrId v = 0; v < f->ops.n; v++) {
        const IrArg *arg = f->ops.data[v].op == IR_OP_arg ? &f->args.data[f->ops.data[v].attr.i] : NULL;
        if (arg && arg->kind == IR_ARG_TENSOR && arg->ref == tensor) return holds_value(v);
    }
    return 0;
}

static void make_buffers(Run *r)
{
    Audit *x = r->x;
    bool *written = ARENA_ARRAY(x->arena, bool, x->p->buffers.n + 1);
    find_written(x, written);
    for (uint32_t b = 0; b < x->p->buffers.n; b++) {
        const PlanBuffer *it = &x->p->buffers.data[b];
        r->elems[b] = audit_elements(r->w, it);
        if (it->kind == PLAN_STATE) continue; /* make_states */
        r->data[b] = audit_data(x->arena, r->w, it);
        make_buffer(r, b, is_planned(it->kind) || written[b]);
        uint32_t holds = it->kind == PLAN_TENSOR ? held_at_first(x, it->ref) : 0;
        for (int64_t e = 0; r->tags[b] && e < r->elems[b] && holds; e++) r->tags[b][e].holds = holds;
    }
}

static void check_results(Run *r)
{
    const IrFunc *f = r->x->f->f;
    for (uint32_t i = 0; i < f->results.n && !r->x->why; i++) {
        IrId v = f->results.data[i].value;
        uint32_t b = r->x->buffer_of[v];
        for (int64_t e = 0; r->tags[b] && e < r->elems[b] && !r->x->why; e++)
            if (r->tags[b][e].holds != holds_value(v))
                audit_fail(r->x, UINT32_MAX, "result `%s`: element %lld of %s holds %s, not %s",
                           f->results.data[i].name, (long long)e, audit_buffer(r->x, b),
                           name_of(r, r->tags[b][e].holds), name_of(r, holds_value(v)));
    }
}

void audit_run(Audit *x, AuditWorld *w)
{
    uint32_t n = x->p->buffers.n + 1, n_holds = x->f->f->ops.n + x->f->groups.n + 2;
    Run r = {.x = x,
             .w = w,
             .arena = arena_new(),
             .tags = ARENA_ARRAY(x->arena, Tag *, n),
             .elems = ARENA_ARRAY(x->arena, int64_t, n),
             .data = ARENA_ARRAY(x->arena, void *, n),
             .meant = ARENA_ARRAY(x->arena, uint32_t, n_holds),
             .round = 1,
             .fuel = FUEL};
    for (uint32_t g = 0; g < x->f->groups.n; g++)
        if (x->f->groups.data[g].kind == GROUP_ROUTE)
            r.meant[holds_other(&r, g)] = UINT32_MAX; /* a map's arrays: for all that go through it */
    make_buffers(&r);
    run_steps(&r);
    if (!x->why) check_results(&r);
    arena_free(r.arena);
}
