/* connect: steps over the same rows, each of which reads what those before it made only at its own row, run together, a
   strip of rows at a time: what passes between them is still in the cache when it is read, and what nobody else reads
   has no memory but the strip's.

     %5 = reduce_sum(gather %4 via src) via dst     for strips of 192 rows, on threads:
     %6 = contract %5, %W1                            %5, %6 and %7 of the strip's rows; %5 and %6 lie in arrays
     %7 = contract(relu %6, %W2)                      of 192 rows

   After Welder's connected tiles, ISOSceles and Graphite. Changes no kernel and no bit of a result: which rows of a
   step are computed before which of another is all that changes. Keeps steps of which rows are left out (cone.c)
   apart. */
#include "passes/plan/planning.h"
#include "passes/context/machine.h"
#include "base/ice.h"

enum { MOST_SKIPPED = 8, MOST_BLOCK = 4096 };

typedef struct Connect {
    PassContext *ctx;
    const HostPlan *plan;
    const FusedFunc *f;
    PlanProgram *p;
    const uint32_t *buffer_of;
    Arena *scratch;
    GroupReads *reads;  /* by step */
    unsigned *steps_of; /* by group */
    unsigned *users_of; /* by buffer: steps that read or write it */
} Connect;

typedef struct Chain {
    uint32_t of[PLAN_CHAIN_STEPS], n, n_args;
    IrId space;
    int64_t block; /* a strip has a multiple of it */
    int64_t bytes; /* of a row that pass on */
} Chain;

/* ---- what a step reads and writes -------------------------------------------------------------------------------- */

static const PlanStep *step_at(const Connect *c, uint32_t i) { return &c->p->steps.data[i]; }
static const Group *group_at(const Connect *c, uint32_t i) { return &c->f->groups.data[step_at(c, i)->group]; }

typedef enum { NOT, READS = 1, WRITES = 2 } Use;

static Use use_of(const Connect *c, uint32_t i, uint32_t buffer)
{
    const PlanStep *s = step_at(c, i);
    unsigned use = NOT;
    for (uint32_t k = 0; k < s->args.n; k++) {
        if (!s->args.data[k].is_buffer || s->args.data[k].buffer != buffer) continue;
        KirParamKind kind = plan_kernel(c->plan, s->kernel, true)->params.data[k].kind;
        use |= (kind == KIR_OUT ? 0 : READS) | (kind == KIR_IN ? 0 : WRITES);
    }
    return (Use)use;
}

/* Rows of one space are its iterations, or blocks of them. */
static bool runs_by_rows(const Connect *c, uint32_t i, int64_t *block)
{
    const PlanStep *s = step_at(c, i);
    const Group *g = group_at(c, i);
    if (g->kind == GROUP_BLOCKS || g->kind > GROUP_CONCAT || s->extent.space != g->space) return false;
    /* The runtime could leave rows out by strips, too, but then it writes their zeros in each run, and the few rows of
       a strip pass on little. */
    if (s->cone.rows != PLAN_SET_ALL) return false;
    ICE_UNLESS(c->steps_of[s->group] == 1); /* only sums of all rows, ranks and routes have more */
    *block = s->extent.kind == PLAN_BLOCKS ? s->extent.block : 1;
    /* only sums of all rows bound their number */
    ICE_UNLESS(s->extent.kind != PLAN_BLOCKS || s->extent.max == INT64_MAX);
    return s->extent.kind == PLAN_COUNT || s->extent.kind == PLAN_BLOCKS;
}

/* Step i reads the buffer, and only at its own row. */
static bool reads_own_row(const Connect *c, uint32_t i, uint32_t buffer)
{
    const GroupReads *r = &c->reads[i];
    bool any = false;
    for (uint32_t k = 0; k < r->reads.n; k++) {
        const GroupRead *x = &r->reads.data[k];
        IrId v = fused_storage(c->f, x->v);
        if (c->f->group_of.data[v] == step_at(c, i)->group || c->buffer_of[v] != buffer) continue;
        if (!group_reads_own_row(c->f, group_at(c, i), x)) return false;
        any = true;
    }
    return any;
}

static int64_t row_bytes(const PlanBuffer *b)
{
    int64_t bytes;
    return __builtin_mul_overflow(b->width, (int64_t)kir_base_bytes(b->elem), &bytes) ? INT64_MAX / 2 : bytes;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

/* What step j and the chain have to do with each other. */
typedef struct Ties {
    bool feeds;    /* j reads what the chain makes */
    bool in_order; /* row by row: strips keep it */
    bool apart;    /* nothing: j may as well run before */
    int64_t bytes;
} Ties;

static Ties ties_of(const Connect *c, const Chain *x, uint32_t j)
{
    Ties t = {.in_order = true, .apart = true};
    const PlanStep *s = step_at(c, j);
    for (uint32_t k = 0; k < s->args.n; k++) {
        uint32_t b = s->args.data[k].buffer;
        if (!s->args.data[k].is_buffer) continue;
        Use own = use_of(c, j, b);
        bool made = false;
        for (uint32_t i = 0; i < x->n; i++) {
            Use use = use_of(c, x->of[i], b);
            if (!use || (use == READS && own == READS)) continue;
            t.apart = false;
            made |= (use & WRITES) != 0;
            if (use & WRITES && own & WRITES) t.in_order = false;
            if (use & READS && own & WRITES && !reads_own_row(c, x->of[i], b)) t.in_order = false;
        }
        if (!made) continue;
        t.in_order &= reads_own_row(c, j, b);
        t.feeds |= (own & READS) != 0;
        t.bytes += row_bytes(&c->p->buffers.data[b]);
    }
    return t;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    ICE_UNLESS(a > 0 && b > 0);
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static bool may_join(const Connect *c, const Chain *x, uint32_t j, const Ties *t, Chain *longer)
{
    int64_t block;
    *longer = *x;
    if (x->n == PLAN_CHAIN_STEPS || !t->feeds || !t->in_order || !runs_by_rows(c, j, &block) ||
        group_at(c, j)->space != x->space)
        return false;
    ICE_UNLESS(x->of[x->n - 1] < j); /* steps of a chain stay in order */
    longer->of[longer->n++] = j;
    longer->n_args += step_at(c, j)->args.n;
    longer->block = common_multiple(x->block, block);
    longer->bytes += t->bytes;
    return longer->n_args <= PLAN_CHAIN_ARGS && longer->block <= MOST_BLOCK &&
           longer->bytes <= machine_longest_strip_room(c->f->machine) / longer->block;
}

/* The chain that begins with step i; last: behind its last step, before which those that are not in it can run. */
static Chain chain_from(const Connect *c, uint32_t i, uint32_t *last)
{
    Chain x = {.of = {i}, .n = 1, .n_args = step_at(c, i)->args.n, .space = group_at(c, i)->space}, longer;
    unsigned skipped = 0;
    *last = i + 1;
    if (!runs_by_rows(c, i, &x.block)) return x;
    for (uint32_t j = i + 1; j < c->p->steps.n && skipped <= MOST_SKIPPED; j++) {
        Ties t = ties_of(c, &x, j);
        if (may_join(c, &x, j, &t, &longer)) {
            x = longer;
            *last = j + 1;
        } else if (t.apart) {
            skipped++;
        } else {
            break;
        }
    }
    return x;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool is_in(const Chain *x, uint32_t i)
{
    for (uint32_t k = 0; k < x->n; k++)
        if (x->of[k] == i) return true;
    return false;
}

/* Planned memory that one step of the chain writes and only others of it read. */
static bool is_passed_on(const Connect *c, const Chain *x, uint32_t b)
{
    const PlanBuffer *it = &c->p->buffers.data[b];
    unsigned writers = 0, readers = 0;
    if (it->kind != PLAN_ARENA || it->rows.kind != PLAN_COUNT || it->rows.space != x->space) return false;
    for (uint32_t k = 0; k < x->n; k++) {
        Use use = use_of(c, x->of[k], b);
        writers += use == WRITES;
        readers += use == READS;
    }
    return writers == 1 && readers > 0 && writers + readers == c->users_of[b];
}

/* What steps of the chain read and write, each once. */
static IrValues buffers_of(const Connect *c, const Chain *x, Arena *a)
{
    IrValues buffers = {0};
    for (uint32_t k = 0; k < x->n; k++) {
        const PlanStep *s = step_at(c, x->of[k]);
        for (uint32_t i = 0; i < s->args.n; i++)
            if (s->args.data[i].is_buffer && !values_have(&buffers, s->args.data[i].buffer))
                values_insert(a, &buffers, s->args.data[i].buffer);
    }
    return buffers;
}

/* What stays in the cache is no traffic. */
static void spare(const Connect *c, uint32_t i, IrId space, int64_t bytes)
{
    PlanStep *s = &c->p->steps.data[i];
    for (uint32_t k = 0; k < s->cost.n; k++) {
        PlanCost *cost = &s->cost.data[k];
        if (cost->count.kind == PLAN_COUNT && cost->count.space == space && cost->table == IR_NONE)
            cost->bytes = cost->bytes > bytes ? cost->bytes - bytes : 0;
    }
}

/* Bytes per row that no longer move. */
static int64_t place_buffers(Connect *c, const Chain *x, const IrValues *buffers)
{
    int64_t saved = 0;
    for (uint32_t i = 0; i < buffers->n; i++) {
        uint32_t b = buffers->data[i];
        bool gone = is_passed_on(c, x, b), made = false;
        int64_t bytes = row_bytes(&c->p->buffers.data[b]);
        for (uint32_t k = 0; k < x->n; k++) {
            Use use = use_of(c, x->of[k], b);
            if ((use & WRITES && gone) || (use & READS && made)) {
                spare(c, x->of[k], x->space, bytes);
                saved += bytes;
            }
            made |= (use & WRITES) != 0;
        }
        if (gone) c->p->buffers.data[b].kind = PLAN_STRIP;
    }
    return saved;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* Steps [first, last): those that are not in the chain, then the chain. */
static void put_in_order(Connect *c, const Chain *x, uint32_t first, uint32_t last)
{
    Arena *scratch = arena_new();
    uint32_t n = 0, *from = ARENA_ARRAY(scratch, uint32_t, last - first),
             *to = ARENA_ARRAY(scratch, uint32_t, last - first);
    PlanStep *old = ARENA_ARRAY(scratch, PlanStep, last - first);
    GroupReads *reads = ARENA_ARRAY(scratch, GroupReads, last - first);
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = first; i < last; i++)
            if (is_in(x, i) == (turn == 1)) from[n++] = i;
    ICE_UNLESS(n == last - first); /* every step, once */
    for (uint32_t k = 0; k < n; k++) {
        old[k] = *step_at(c, from[k]);
        reads[k] = c->reads[from[k]];
        to[from[k] - first] = first + k;
    }
    memcpy(c->p->steps.data + first, old, n * sizeof *old);
    memcpy(c->reads + first, reads, n * sizeof *reads);
    for (uint32_t b = 0; b < c->p->buffers.n; b++) {
        uint32_t *w = &c->p->buffers.data[b].writer;
        if (*w >= first && *w < last) *w = to[*w - first];
    }
    arena_free(scratch);
}

/* Threads share a row before the strips run: what its walks want must not be made in them, nor what they write be read
   before. */
static bool wants_of(const Connect *c, uint32_t i, uint32_t earlier)
{
    ICE_UNLESS(earlier < i);
    const PlanStep *s = step_at(c, i);
    for (uint32_t k = 0; k < s->split->reads.n; k++)
        if (use_of(c, earlier, s->split->reads.data[k]) & WRITES) return true;
    for (uint32_t k = 0; k < s->args.n; k++) {
        const PlanArg *a = &s->args.data[k];
        if (a->is_buffer && (use_of(c, i, a->buffer) & WRITES) && use_of(c, earlier, a->buffer)) return true;
    }
    return false;
}

static void keep_splits(Connect *c, uint32_t head, uint32_t last)
{
    for (uint32_t i = head + 1; i < last; i++) {
        PlanStep *s = &c->p->steps.data[i];
        bool wants = false;
        for (uint32_t k = head; k < i && plan_split(s); k++) wants |= wants_of(c, i, k);
        if (!wants) continue;
        s->split = NULL;
        pass_remark(c->ctx, PASS_connect, false, s->span,
                    "%s: threads do not share rows of `%s`: its walks want what earlier kernels of the strip make",
                    c->p->name, s->label);
    }
}

static uint32_t connect_from(Connect *c, uint32_t i)
{
    uint32_t last;
    Chain x = chain_from(c, i, &last);
    /* a read of the second cache instead of memory alone gains nothing where products wait for arithmetic */
    bool pays = false;
    IrValues buffers = {0};
    if (x.n > 1) buffers = buffers_of(c, &x, c->scratch);
    for (uint32_t k = 0; k < buffers.n; k++) pays |= is_passed_on(c, &x, buffers.data[k]);
    if (!pays) return i + 1;
    ICE_UNLESS(x.n <= PLAN_CHAIN_STEPS && x.block > 0 && x.bytes > 0);
    int64_t n_blocks = machine_strip_room(c->f->machine) / (x.block * x.bytes), saved = place_buffers(c, &x, &buffers);
    int64_t strip = x.block * (n_blocks > 1 ? n_blocks : 1);
    put_in_order(c, &x, i, last);
    uint32_t head = last - x.n;
    VEC_PUSH(c->ctx->stage, &c->p->chains, ((PlanChain){head, x.n, strip, x.block}));
    keep_splits(c, head, last);
    const PlanStep *s = step_at(c, head);
    pass_remark(c->ctx, PASS_connect, true, s->span,
                "%s: `%s` and %u more kernel%s run by strips of %lld rows: %lld bytes less per row of `%s`", c->p->name,
                s->label, x.n - 1, x.n > 2 ? "s" : "", (long long)strip, (long long)saved,
                c->f->m->spaces.data[x.space].name);
    return last;
}

void connect_program(PassContext *ctx, const HostPlan *plan, const FusedFunc *f, PlanProgram *p,
                     const uint32_t *buffer_of)
{
    Arena *scratch = arena_new();
    Connect c = {ctx,
                 plan,
                 f,
                 p,
                 buffer_of,
                 scratch,
                 ARENA_ARRAY(scratch, GroupReads, p->steps.n + 1),
                 ARENA_ARRAY(scratch, unsigned, f->groups.n + 1),
                 ARENA_ARRAY(scratch, unsigned, p->buffers.n + 1)};
    for (uint32_t i = 0; i < p->steps.n; i++) {
        Chain alone = {.of = {i}, .n = 1};
        IrValues buffers = buffers_of(&c, &alone, scratch);
        for (uint32_t k = 0; k < buffers.n; k++) c.users_of[buffers.data[k]]++;
        c.steps_of[p->steps.data[i].group]++;
        group_reads(f, p->steps.data[i].group, scratch, &c.reads[i]);
    }
    for (uint32_t i = 0; i < p->steps.n;) i = connect_from(&c, i);
    arena_free(scratch);
}
