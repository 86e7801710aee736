/* Which rows of a program's steps to compute. A loss over few nodes needs few rows of each kernel; the compiler says
   them as sets (passes/plan/cone.c), this file lists their elements for one graph and turns steps into runs of rows.

     mask of 140 of 2,708 nodes      rows of the last layer's kernel: 140, in 133 runs
     rows with an edge into those    of the layer before it: 644, in 521 runs

   What is left out stays 0: such values lie in memory of their own. Sums over the rows of a list skip elements that are
   0, unless a row has more than 256: there blocks of a sum would change (docs/design.md). So no bit of a result depends
   on what is left out. It never changes a kernel, and never looks at a value that is not an input or held. */
#include "runtime/cone.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_NS = 15, MASK_SHARE = 3 }; /* a run starts without rows that were asked for ahead: RUN_NS */
static const char what[] = "rows that are needed";
static const double bytes_per_ns = 16, flops_per_ns = 24, worth = 0.05;

RtCode rt_cone_parse(const char *text, RtConeMode *mode, RtStatus *st)
{
    static const char *const names[] = {"auto", "off", "on"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *mode = (RtConeMode)i;
            return RT_OK;
        }
    return rt_fail(st, RT_E_CLI_VALUE, "--cone", NULL, "found `%.60s`, wanted auto, on or off", text);
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

typedef struct Maker {
    const RtExec *e;
    const RtGraph *g;
    const RtSet *sets;
    RtCone *c;
    uint64_t **bits; /* [n_sets] one for each row, filled when it is asked for */
    RtBlock *blocks; /* [n_sets] theirs */
    RtStatus *st;
} Maker;

static RtCode take(RtCone *c, int64_t n, int64_t each, void *out, RtStatus *st)
{
    if (c->n_blocks == c->cap_blocks) {
        int64_t cap = c->cap_blocks ? 2 * c->cap_blocks : 16;
        RT_TRY(rt_grow(&c->blocks, cap, sizeof *c->blocks, what, st));
        c->cap_blocks = cap;
    }
    RT_TRY(rt_block_alloc(&c->blocks[c->n_blocks], rt_size_plus(64, n, each), what, st));
    memcpy(out, &c->blocks[c->n_blocks++].p, sizeof(void *));
    return RT_OK;
}

static bool has(const uint64_t *bits, int64_t i) { return bits[i >> 6] >> (i & 63) & 1; }
static void put(uint64_t *bits, int64_t i) { bits[i >> 6] |= (uint64_t)1 << (i & 63); }

static int64_t count_bits(const uint64_t *bits, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < (n + 63) / 64; i++) sum += __builtin_popcountll(bits[i]);
    return sum;
}

static int64_t set_rows(const Maker *m, int64_t s) { return m->g->spaces[m->sets[s].space].count; }

/* Rows of a tensor of width 1 that are not 0. */
static RtCode fill_mask(const Maker *m, const RtSet *x, uint64_t *bits)
{
    int64_t n = m->g->spaces[x->space].count, bytes = rt_dtype_bytes(m->e->model->tensors[x->ref].dtype);
    const char *p = m->e->tensors[x->ref];
    static const char zero[8];
    for (int64_t i = 0; i < n; i++)
        if (memcmp(p + i * bytes, zero, (size_t)bytes) != 0) put(bits, i);
    return RT_OK;
}

static void fill_walk(const RtMapData *map, int64_t n_rows, uint64_t *bits)
{
    for (int64_t v = 0; v < n_rows; v++)
        for (int64_t k = map->rows[v]; map->rows[v + 1] - map->rows[v] > RT_SPLIT_BLOCK && k < map->rows[v + 1]; k++)
            put(bits, map->list ? map->list[k] : k);
}

static RtCode fill_set(Maker *m, int64_t s);

static RtCode set_of(Maker *m, int64_t s, const uint64_t **bits)
{
    *bits = NULL;
    if (s < 0) return RT_OK;
    if (!m->bits[s]) RT_TRY(fill_set(m, s));
    *bits = m->bits[s];
    return RT_OK;
}

static RtCode fill_set(Maker *m, int64_t s)
{
    const RtSet *x = &m->sets[s];
    assert(x->a < s && x->b < s); /* a formula is of sets before it: it ends */
    int64_t n = set_rows(m, s), words = (n + 63) / 64;
    const uint64_t *a = NULL, *b = NULL;
    RT_TRY(rt_block_alloc(&m->blocks[s], rt_size(words, 8), what, m->st));
    uint64_t *bits = m->blocks[s].p;
    if (x->kind != RT_SET_MASK && x->kind != RT_SET_EMPTY) RT_TRY(set_of(m, x->a, &a));
    if (x->kind == RT_SET_EITHER || x->kind == RT_SET_BOTH) RT_TRY(set_of(m, x->b, &b));
    const RtMapData *map = x->ref >= 0 && x->kind != RT_SET_MASK ? &m->g->maps[x->ref] : NULL;
    int64_t n_from = map ? m->g->spaces[m->e->model->maps[x->ref].from].count : 0;
    switch (x->kind) {
    case RT_SET_MASK: RT_TRY(fill_mask(m, x, bits)); break;
    case RT_SET_IMAGE:
        for (int64_t i = 0; i < n_from; i++)
            if (has(a, i) && map->to[i] >= 0) put(bits, map->to[i]);
        break;
    case RT_SET_ORIGIN:
        for (int64_t i = 0; i < n; i++)
            if (map->to[i] >= 0 && has(a, map->to[i])) put(bits, i);
        break;
    case RT_SET_EITHER:
        for (int64_t i = 0; i < words; i++) bits[i] = a[i] | b[i];
        break;
    case RT_SET_BOTH:
        for (int64_t i = 0; i < words; i++) bits[i] = a[i] & b[i];
        break;
    case RT_SET_WALK:
        memcpy(bits, a, (size_t)words * 8);
        fill_walk(map, m->g->spaces[m->e->model->maps[x->ref].to].count, bits);
        break;
    default: break;
    }
    m->bits[s] = bits;
    return RT_OK;
}

/* Masks are there, and hold few enough rows that the rest is worth looking at. */
static RtCode masks_are_small(Maker *m, int64_t n_sets, bool any_share, bool *small)
{
    *small = true;
    for (int64_t s = 0; s < n_sets && *small; s++) {
        const uint64_t *bits;
        if (m->sets[s].kind != RT_SET_MASK) continue;
        if (!m->e->tensors[m->sets[s].ref]) *small = false;
        if (!*small) break;
        RT_TRY(set_of(m, s, &bits));
        *small = any_share || count_bits(bits, set_rows(m, s)) * MASK_SHARE <= set_rows(m, s);
    }
    return RT_OK;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Marks units (a row or a block of rows each) that hold a row of the set; how many, and in how many runs. */
static int64_t mark_units(const uint64_t *bits, int64_t n, int64_t block, char *live, int64_t *n_runs)
{
    int64_t n_live = 0;
    for (int64_t i = 0; i < n; i++) live[i / block] |= (char)has(bits, i);
    *n_runs = 0;
    for (int64_t i = 0; i * block < n; i++) {
        n_live += live[i];
        *n_runs += live[i] && !(i && live[i - 1]);
    }
    return n_live;
}

/* Lists the runs of units that hold a row of the set; none where all units do, as the whole step runs then. */
static RtCode list_runs(Maker *m, RtConeStep *y, const RtExecStep *x, const uint64_t *bits, int64_t n)
{
    int64_t n_units = (n + x->block - 1) / x->block, n_runs, needed = 0;
    const int64_t *rows = y->rows ? y->rows : x->rows;
    char *live;
    RT_TRY(take(m->c, n_units + 1, 1, &live, m->st)); /* the last stays 0 */
    if (mark_units(bits, n, x->block, live, &n_runs) == n_units && n_units) return RT_OK;
    RT_TRY(take(m->c, n_runs, 16, &y->runs, m->st));
    RT_TRY(take(m->c, n_runs + 1, 8, &y->weight, m->st));
    for (int64_t i = 0; i < n_units;) {
        if (!live[i]) {
            i++;
            continue;
        }
        int64_t *run = y->runs + 2 * y->n_runs++;
        for (run[0] = i; live[i]; i++) run[1] = i + 1;
        needed += run[1] - run[0] + (rows && x->block == 1 ? rows[run[1]] - rows[run[0]] : 0);
    }
    assert(y->n_runs == n_runs);
    y->n_rows = count_bits(bits, n);
    double all = (double)(n_units + (x->rows && x->block == 1 ? x->rows[n] : 0));
    y->share = all > 0 ? (double)needed / all : 1;
    return RT_OK;
}

/* The k-th argument of a step if it is images along the step's own map, or NULL. */
static const RtBuffer *along_arg(const RtExec *e, const RtCall *s, int64_t k)
{
    const RtStepArg *a = &e->model->step_args[s->first_arg + k];
    const RtBuffer *b = a->is_buffer ? &e->model->buffers[e->program->first_buffer + a->buffer] : NULL;
    return b && b->kind == RT_BUF_MAP_ALONG && b->along == s->cut ? b : NULL;
}

/* Images along the thinned list, for each map that the step reads along it. */
static RtCode thin_alongs(Maker *m, RtConeStep *x, const RtCall *s, int64_t n_list, int64_t n_from)
{
    int64_t n = 0;
    for (int64_t k = 0; k < s->n_args; k++) n += along_arg(m->e, s, k) != NULL;
    RT_TRY(take(m->c, n, sizeof *x->along, &x->along, m->st));
    for (int64_t k = 0; k < s->n_args; k++) {
        const RtBuffer *b = along_arg(m->e, s, k);
        if (!b) continue;
        struct RtConeAlong *y = &x->along[x->n_along++];
        y->map = b->ref;
        RT_TRY(take(m->c, n_from, 4, &y->to, m->st));
        for (int64_t i = 0; i < n_list; i++) y->to[i] = m->g->maps[b->ref].to[x->list[i]];
    }
    return RT_OK;
}

/* The map's rows without the elements that are not in `bits`; a long row is whole there. */
static RtCode thin_map(Maker *m, RtConeStep *x, const RtCall *s, const uint64_t *bits)
{
    const RtMapDef *def = &m->e->model->maps[s->cut];
    const RtMapData *map = &m->g->maps[s->cut];
    int64_t n_rows = m->g->spaces[def->to].count, n_from = m->g->spaces[def->from].count, n = 0;
    RT_TRY(take(m->c, n_rows + 1, 8, &x->rows, m->st));
    RT_TRY(take(m->c, n_from, 4, &x->list, m->st));
    for (int64_t v = 0; v < n_rows; v++) {
        for (int64_t k = map->rows[v]; k < map->rows[v + 1]; k++)
            if (has(bits, map->list[k])) x->list[n++] = map->list[k];
        x->rows[v + 1] = n;
    }
    assert(n <= n_from);
    return thin_alongs(m, x, s, n, n_from);
}

static RtCode make_step(Maker *m, int64_t i)
{
    const RtExecStep *x = &m->e->steps[i];
    const RtCall *s = x->call;
    RtConeStep *y = &m->c->steps[i];
    const uint64_t *bits, *walk;
    y->share = 1;
    if (!s || s->rows < 0 || x->backend) return RT_OK;
    RT_TRY(set_of(m, s->rows, &bits));
    RT_TRY(set_of(m, s->walk, &walk));
    if (walk) RT_TRY(thin_map(m, y, s, walk));
    return list_runs(m, y, x, bits, set_rows(m, s->rows));
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static double predicted_ns(const RtExec *e, int64_t step)
{
    double bytes, flops;
    rt_step_cost(e, step, &bytes, &flops);
    return bytes / bytes_per_ns > flops / flops_per_ns ? bytes / bytes_per_ns : flops / flops_per_ns;
}

static void find_savings(const RtExec *e, RtCone *c)
{
    double all = 0, saved = 0;
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        assert(c->steps[i].share >= 0 && c->steps[i].share <= 1);
        double ns = predicted_ns(e, i);
        all += ns;
        if (c->steps[i].runs) saved += ns * (1 - c->steps[i].share) - (double)(RUN_NS * c->steps[i].n_runs);
    }
    c->saved = all > 0 ? saved / all : 0;
}

static RtCode make_buffers(Maker *m)
{
    const RtExec *e = m->e;
    for (int64_t i = 0; i < e->program->n_buffers; i++) {
        const RtBuffer *b = &e->model->buffers[e->program->first_buffer + i];
        int64_t bytes;
        if (b->kind != RT_BUF_ARENA || b->writer < 0 || !m->c->steps[b->writer].runs) continue;
        const RtSlot *slot = &e->model->slots[e->program->first_slot + b->slot];
        if (!rt_mul(rt_count_value(e->graph, &slot->rows, RT_READ), slot->row_bytes, &bytes))
            return rt_fail(m->st, RT_E_OVERFLOW, "--cone", NULL, "the memory of what is left out overflows 64 bits");
        if (!e->options.plan_only) RT_TRY(take(m->c, bytes, 1, &m->c->buffers[i], m->st));
        m->c->bytes += bytes;
    }
    return RT_OK;
}

static RtCode make_all(Maker *m, RtConeMode mode, bool *pays)
{
    RtCone *c = m->c;
    int64_t n_sets = m->e->program->n_sets;
    RT_TRY(rt_alloc(&m->bits, n_sets, sizeof *m->bits, what, m->st));
    RT_TRY(rt_alloc(&m->blocks, n_sets, sizeof *m->blocks, what, m->st));
    RT_TRY(rt_alloc(&c->steps, m->e->program->n_steps, sizeof *c->steps, what, m->st));
    RT_TRY(rt_alloc(&c->buffers, m->e->program->n_buffers, sizeof *c->buffers, what, m->st));
    RT_TRY(masks_are_small(m, n_sets, mode == RT_CONE_ON, pays));
    if (!*pays) return RT_OK;
    for (int64_t i = 0; i < m->e->program->n_steps; i++) RT_TRY(make_step(m, i));
    find_savings(m->e, c);
    *pays = mode == RT_CONE_ON || c->saved > worth;
    return *pays ? make_buffers(m) : RT_OK;
}

RtCode rt_cone_make(const RtExec *e, RtConeMode mode, RtCone **out, RtStatus *st)
{
    bool pays = false;
    int64_t n_sets = e->program->n_sets;
    *out = NULL;
    if (mode == RT_CONE_OFF || !n_sets) return RT_OK;
    Maker m = {.e = e, .g = e->graph, .sets = e->model->sets + e->program->first_set, .st = st};
    RT_TRY(rt_alloc(&m.c, 1, sizeof *m.c, what, st));
    RtCode code = make_all(&m, mode, &pays);
    for (int64_t s = 0; m.blocks && s < n_sets; s++) rt_block_free(&m.blocks[s]);
    free(m.blocks);
    free(m.bits);
    if (code || !pays) rt_cone_free(m.c);
    else *out = m.c;
    return code;
}

void rt_cone_free(RtCone *c)
{
    if (!c) return;
    for (int64_t i = 0; i < c->n_blocks; i++) rt_block_free(&c->blocks[i]);
    free(c->blocks);
    free(c->steps);
    free(c->buffers);
    free(c);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int64_t rt_cone_run_at(const RtConeStep *s, int64_t i)
{
    int64_t lo = 0, hi = s->n_runs;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (s->runs[2 * mid + 1] <= i) lo = mid + 1;
        else hi = mid;
    }
    assert((!lo || s->runs[2 * lo - 1] <= i) && (lo == s->n_runs || s->runs[2 * lo + 1] > i));
    return lo;
}

void *rt_cone_buffer(const RtExec *e, const RtExecStep *x, int64_t buffer)
{
    const RtConeStep *c = x->cone;
    const RtBuffer *b = &e->model->buffers[e->program->first_buffer + buffer];
    if (!c->rows) return NULL;
    if (b->ref == x->call->cut && b->kind == RT_BUF_MAP_ROWS) return c->rows;
    if (b->ref == x->call->cut && b->kind == RT_BUF_MAP_LIST) return c->list;
    if (b->kind == RT_BUF_MAP_ALONG && b->along == x->call->cut)
        for (int64_t k = 0; k < c->n_along; k++)
            if (c->along[k].map == b->ref) return c->along[k].to;
    return NULL;
}
