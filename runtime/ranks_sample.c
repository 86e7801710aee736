/* Boundary sampling (bns, see ranks_policy.c): in a run each process sums over some of the rows of peers that it reads,
   which the counters of docs/design.md draw, so that sender and receiver know them and no ids travel. It is exact
   training on a graph in which edges weigh n / s where the source is one of s drawn out of the n rows that the target's
   owner reads of the source's owner, and 0 where it is another row of peers.

     sums over edges into owned nodes      drawn rows of sources come, times n / s; the others are 0
     sums over edges out of owned nodes    rows of targets that peers own are 0. The step runs for sources that peers
                                           own, too; what it sums for the drawn ones is sent to their owners times
                                           n / s, who add it up, by rank

   Each is the adjoint of the other, whichever of them the program computes first. What is read in another way, or not
   linearly (RtTouch.how), is refused. So that no gradient meets rows that were not drawn in a value, what steps
   compute for nodes is received and never computed where it is read; inputs, and what is computed before the run, are
   not sampled. */
#include "runtime/random.h"
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "rows that are drawn";

typedef struct Border { /* rows of a space that peers own and that sums read, and owned ones that peers read */
    int64_t space;
    RtShip ship;
    bool *in, *out;               /* [n_in], [n_out] drawn in this run */
    double *times_in, *times_out; /* [ranks] n / s of the rows from and to each */
    int64_t *at;                  /* [rows of the space] scratch: place of a row in the ship */
    RtBlock block;
} Border;

typedef struct Pull {  /* of an exchange */
    bool zero;         /* nothing travels: steps sum for those who would */
    int64_t *in, *out; /* [n_in], [n_out] of its rows: places in the ship of the border */
    Border *border;
    RtBlock block;
} Pull;

typedef struct Push { /* what a step sums for rows of peers */
    int64_t step, buffer;
    int site;
    Border *border;
} Push;

struct RtSample {
    double share;
    Border *borders; /* [n_spaces]; space -1: none */
    Pull *pulls;     /* [n_exchanges] */
    Push *pushes;
    int64_t n_spaces, n_pulls, n_pushes;
};

static RtCode refuse(const RtAcross *a, int64_t step, const char *why, RtStatus *st)
{
    const RtModel *m = a->e->model;
    const RtStep *s = across_def(a, step);
    char place[256];
    snprintf(place, sizeof place, "%s:%lld", rt_string(m, s->file), (long long)s->line);
    return rt_fail(st, RT_E_RANKS_POLICY, s->file >= 0 ? place : rt_string(m, m->name), NULL,
                   "`%s` cannot sum over rows that are drawn: %s", rt_string(m, s->label), why);
}

static bool is_number(const RtAcross *a, int64_t buffer)
{
    int64_t elem = across_buffer(a, buffer)->elem;
    return elem == RT_K_F32 || elem == RT_K_F64;
}

bool rt_sample_trains(const RtAcross *a, int64_t step)
{
    const RtModel *m = a->e->model;
    const RtStep *s = across_def(a, step);
    const RtCall *c = rt_step_call(m, s);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (!t->writes && across_buffer(a, t->buffer)->kind != RT_BUF_TENSOR) return true;
    }
    for (int64_t i = 0; i < c->n_args; i++) {
        const RtStepArg *arg = &m->step_args[c->first_arg + i];
        if (!arg->is_buffer || across_buffer(a, arg->buffer)->rows.kind != RT_COUNT_CONST) continue;
        const RtBuffer *b = across_buffer(a, arg->buffer); /* of one row */
        int64_t kind = b->kind == RT_BUF_TENSOR ? m->tensors[b->ref].kind : RT_PARAM;
        bool random = b->kind == RT_BUF_SEED || b->kind == RT_BUF_STEP;
        if (!random && kind != RT_INPUT && kind != RT_HYPER && kind != RT_HELD) return true;
    }
    return false;
}

/* ---- what the program reads of peers ----------------------------------------------------------------------------- */

enum { READS_NONE = 0, READS_SOURCES = 1, READS_TARGETS = 2 };

/* Whether a step sums over edges for shared nodes (not for pairs of these and keys), and over those out of them. */
static bool sums_edges(const RtAcross *a, int64_t step, bool *out)
{
    const RtStep *s = across_def(a, step);
    if (s->work != RT_SUMS || !a->r->spaces[s->over].shared || a->e->model->spaces[s->over].is_edge) return false;
    *out = !a->e->model->maps[s->under].sorted;
    return true;
}

/* Adds to *reads how a step reads rows of peers of a buffer. */
static RtCode add_reads(const RtAcross *a, int64_t step, int64_t buffer, int *reads, RtStatus *st)
{
    const RtStep *s = across_def(a, step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        bool out;
        if (t->buffer != buffer || t->writes || rt_across_reads_owned(a, step, t)) continue;
        if (t->at != RT_AT_ELEMENT || t->image < 0 || !sums_edges(a, step, &out))
            return refuse(a, step, "it reads them in another way than by a sum over edges", st);
        if (t->how != RT_LINEAR) return refuse(a, step, "the sum is not linear in them", st);
        *reads |= out ? READS_TARGETS : READS_SOURCES;
    }
    return RT_OK;
}

static RtCode find_reads(const RtAcross *a, const RtExchange *x, int *reads, RtStatus *st)
{
    *reads = READS_NONE;
    for (int64_t i = x->after + 1; i < a->e->program->n_steps; i++) {
        RT_TRY(add_reads(a, i, x->buffer, reads, st));
        if (across_writes(a, i, x->buffer)) break;
    }
    if (x->after < 0 || !is_number(a, x->buffer) || a->e->model->spaces[across_space(a, x->buffer)].is_edge)
        return refuse(a, x->after < 0 ? 0 : x->after, "they are no floating-point numbers of nodes", st);
    if (*reads == (READS_SOURCES | READS_TARGETS))
        return refuse(a, x->after, "they are read over edges in both directions", st);
    return RT_OK;
}

/* A step over edges out of nodes whose targets are rows of peers that are 0: what it sums is pushed. */
static RtCode add_pushes(RtAcross *a, struct RtSample *p, int64_t step, RtStatus *st)
{
    const RtStep *s = across_def(a, step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        bool computed = across_buffer(a, t->buffer)->kind != RT_BUF_TENSOR;
        if (!t->writes && t->at == RT_AT_ROW && t->how != RT_WITHOUT && computed)
            return refuse(a, step, "what it sums is joined with values of the row, which peers do not have", st);
        if (!t->writes || t->how == RT_WITHOUT || (t->how == RT_ALONE && t->at == RT_AT_ROW)) continue;
        if (t->how != RT_LINEAR || t->at != RT_AT_ROW || !is_number(a, t->buffer))
            return refuse(a, step, "what it computes is not linear in them", st);
        p->pushes[p->n_pushes++] = (Push){step, t->buffer, a->r->next_site++, &p->borders[s->over]};
    }
    a->rows[step] = RT_READ;
    return RT_OK;
}

static bool reads_zeros(const RtAcross *a, const struct RtSample *p, int64_t step)
{
    bool out;
    if (!sums_edges(a, step, &out) || !out) return false;
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        for (int64_t k = 0; k < p->n_pulls && !t->writes && t->image >= 0; k++)
            if (p->pulls[k].zero && a->exchanges[k].buffer == t->buffer) return true;
    }
    return false;
}

/* ---- borders ----------------------------------------------------------------------------------------------------- */

/* Rows that a step sums owned targets for. */
static void want_sources(const RtAcross *a, int64_t step, bool *wanted)
{
    const RtStep *s = across_def(a, step);
    const RtMapData *maps = a->r->graph->maps;
    int64_t n = a->r->graph->spaces[a->e->model->maps[s->under].from].count;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->at != RT_AT_ELEMENT || t->image < 0) continue;
        int64_t owned = a->r->spaces[a->e->model->maps[t->image].to].owned;
        for (int64_t e = 0; e < n; e++)
            if (maps[s->under].to[e] >= 0 && maps[t->image].to[e] < owned) wanted[maps[s->under].to[e]] = true;
    }
}

static RtCode make_border(RtAcross *a, const struct RtSample *p, Border *b, RtStatus *st)
{
    RtRanks *r = a->r;
    const RtRankSpace *s = &r->spaces[b->space];
    int64_t n = r->graph->spaces[b->space].count, n_rows = 0;
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(8, n, 21), what, st));
    int64_t *keys = scratch.p, *to = keys + n;
    int32_t *owners = (int32_t *)(to + n);
    bool *wanted = (bool *)(owners + n);
    for (int64_t k = 0; k < a->n_exchanges; k++)
        for (int64_t i = 0; !p->pulls[k].zero && i < a->exchanges[k].ship.n_in; i++)
            if (across_space(a, a->exchanges[k].buffer) == b->space) wanted[a->exchanges[k].ship.in[i]] = true;
    for (int64_t k = 0; k < p->n_pushes; k++)
        if (p->pushes[k].border == b) want_sources(a, p->pushes[k].step, wanted);
    for (int64_t i = s->owned; i < n; i++) {
        if (!wanted[i]) continue;
        keys[n_rows] = s->keys[i];
        owners[n_rows] = s->owner[i - s->owned];
        to[n_rows++] = i;
    }
    RtCode code = rt_ship_ask(r, b->space, n_rows, keys, owners, to, &b->ship, st);
    rt_block_free(&scratch);
    int64_t bytes = rt_size_plus(rt_size_plus(rt_size(n, 8), r->n, 16), b->ship.n_in + b->ship.n_out + 8, 1);
    if (!code) code = rt_block_alloc(&b->block, bytes, what, st);
    if (code) return code;
    b->at = b->block.p;
    b->times_in = (double *)(b->at + n);
    b->times_out = b->times_in + r->n;
    b->in = (bool *)(b->times_out + r->n);
    b->out = b->in + b->ship.n_in;
    return RT_OK;
}

/* Where rows of a ship, n[q] for each process, are in that of a border, which has them all. */
static void find_places(const RtRanks *r, Border *b, const int64_t *n, const int64_t *rows, const int64_t *all_n,
                        const int64_t *all, int64_t *places)
{
    for (int64_t q = 0, i = 0, k = 0; q < r->n; q++) {
        for (int64_t end = k + all_n[q]; k < end; k++) b->at[all[k]] = k;
        for (int64_t end = i + n[q]; i < end; i++) {
            places[i] = b->at[rows[i]];
            assert(all[places[i]] == rows[i]);
        }
    }
}

static RtCode make_pull(RtAcross *a, const RtExchange *x, Pull *p, RtStatus *st)
{
    const RtShip *s = &x->ship, *all = &p->border->ship;
    RT_TRY(rt_block_alloc(&p->block, rt_size_plus(8, s->n_in + s->n_out, 8), what, st));
    p->in = p->block.p;
    p->out = p->in + s->n_in;
    find_places(a->r, p->border, s->in_n, s->in, all->in_n, all->in, p->in);
    find_places(a->r, p->border, s->out_n, s->out, all->out_n, all->out, p->out);
    return RT_OK;
}

RtCode rt_sample_make(RtAcross *a, double share, struct RtSample **out, RtStatus *st)
{
    struct RtSample *p;
    int64_t n_steps = a->e->program->n_steps, n_touches = 0;
    RT_TRY(rt_alloc(&p, 1, sizeof *p, what, st));
    *out = p;
    p->share = share;
    p->n_spaces = a->e->model->n_spaces;
    p->n_pulls = a->n_exchanges;
    for (int64_t i = 0; i < n_steps; i++) n_touches += across_def(a, i)->n_touches;
    RT_TRY(rt_alloc(&p->borders, p->n_spaces, sizeof *p->borders, what, st));
    RT_TRY(rt_alloc(&p->pulls, p->n_pulls, sizeof *p->pulls, what, st));
    RT_TRY(rt_alloc(&p->pushes, n_touches, sizeof *p->pushes, what, st));
    for (int64_t s = 0; s < p->n_spaces; s++) p->borders[s].space = -1;
    for (int64_t k = 0; k < p->n_pulls; k++) {
        int reads;
        RT_TRY(find_reads(a, &a->exchanges[k], &reads, st));
        p->pulls[k].zero = reads == READS_TARGETS;
        p->pulls[k].border = &p->borders[across_space(a, a->exchanges[k].buffer)];
        p->pulls[k].border->space = across_space(a, a->exchanges[k].buffer);
    }
    for (int64_t i = 0; i < n_steps; i++)
        if (reads_zeros(a, p, i)) RT_TRY(add_pushes(a, p, i, st));
    for (int64_t s = 0; s < p->n_spaces; s++)
        if (p->borders[s].space >= 0) RT_TRY(make_border(a, p, &p->borders[s], st));
    for (int64_t k = 0; k < p->n_pulls; k++)
        if (!p->pulls[k].zero) RT_TRY(make_pull(a, &a->exchanges[k], &p->pulls[k], st));
    for (int64_t k = 0; k < p->n_pushes; k++) {
        const Push *x = &p->pushes[k];
        char name[200];
        int64_t bytes = rt_ship_bytes(&x->border->ship, across_row_bytes(a, x->buffer));
        if (bytes > a->room_bytes) a->room_bytes = bytes;
        snprintf(name, sizeof name, "%s: sums %s", rt_string(a->e->model, a->e->program->name),
                 rt_string(a->e->model, across_buffer(a, x->buffer)->name));
        RT_TRY(rt_peers_name_site(a->r->peers, x->site, name, st));
    }
    return RT_OK;
}

void rt_sample_free(struct RtSample *p)
{
    if (!p) return;
    for (int64_t s = 0; p->borders && s < p->n_spaces; s++) {
        rt_ship_free(&p->borders[s].ship);
        rt_block_free(&p->borders[s].block);
    }
    for (int64_t k = 0; p->pulls && k < p->n_pulls; k++) rt_block_free(&p->pulls[k].block);
    free(p->borders);
    free(p->pulls);
    free(p->pushes);
    free(p);
}

static int64_t drawn_of(double share, int64_t n)
{
    int64_t s = (int64_t)(share * (double)n);
    return n && !s ? 1 : s;
}

int64_t rt_sample_pushes(const struct RtSample *p) { return p->n_pushes; }

int64_t rt_sample_push_step(const RtAcross *a, const struct RtSample *p, int64_t exchange, int64_t *buffer)
{
    const Push *x = &p->pushes[exchange - a->n_exchanges];
    *buffer = x->buffer;
    return x->step;
}

bool rt_sample_travels(const struct RtSample *p, int64_t exchange)
{
    return exchange >= p->n_pulls || !p->pulls[exchange].zero;
}

double rt_sample_bytes(const RtAcross *a, const struct RtSample *p, int64_t exchange, int to)
{
    if (exchange >= p->n_pulls) {
        const Push *x = &p->pushes[exchange - p->n_pulls];
        return (double)(drawn_of(p->share, x->border->ship.in_n[to]) * across_row_bytes(a, x->buffer));
    }
    const RtExchange *x = &a->exchanges[exchange];
    int64_t border = p->pulls[exchange].border->ship.out_n[to]; /* its rows are some of those that are drawn from */
    if (p->pulls[exchange].zero || !border) return 0;
    return (double)(drawn_of(p->share, border) * x->ship.out_n[to] * x->row_bytes) / (double)border;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* s of n rows that `to` reads of `from`, each with the same probability, without drawing one twice: row i is among them
   with probability (left to draw) / (left). Returns n / s. */
static double draw(const RtAcross *a, double share, int64_t space, int from, int to, int64_t n, bool *drawn)
{
    uint64_t pair = ((uint64_t)space * RT_PEERS_MOST + (uint64_t)from) * RT_PEERS_MOST + (uint64_t)to;
    int64_t s = drawn_of(share, n), left = s;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = rt_philox((uint64_t)a->e->seed, (uint64_t)a->e->step, RT_SITE_SAMPLE, pair, (uint64_t)i);
        drawn[i] = (int64_t)((uint64_t)word * (uint64_t)(n - i) >> 32) < left;
        left -= drawn[i];
    }
    assert(!left);
    return n ? (double)n / (double)s : 1;
}

void rt_sample_begin(const RtAcross *a, struct RtSample *p)
{
    int me = a->r->rank;
    for (int64_t s = 0; s < p->n_spaces; s++) {
        Border *b = &p->borders[s];
        if (b->space < 0) continue;
        bool *in = b->in, *out = b->out;
        for (int q = 0; q < a->r->n; q++) {
            b->times_in[q] = draw(a, p->share, s, q, me, b->ship.in_n[q], in);
            b->times_out[q] = draw(a, p->share, s, me, q, b->ship.out_n[q], out);
            in += b->ship.in_n[q];
            out += b->ship.out_n[q];
        }
    }
}

static void copy_times(char *to, const char *from, int64_t elem, int64_t width, double times)
{
    for (int64_t k = 0; k < width && elem == RT_K_F32; k++) ((float *)to)[k] = (float)times * ((const float *)from)[k];
    for (int64_t k = 0; k < width && elem == RT_K_F64; k++) ((double *)to)[k] = times * ((const double *)from)[k];
}

static void add_row(char *to, const char *from, int64_t elem, int64_t width)
{
    for (int64_t k = 0; k < width && elem == RT_K_F32; k++) ((float *)to)[k] += ((const float *)from)[k];
    for (int64_t k = 0; k < width && elem == RT_K_F64; k++) ((double *)to)[k] += ((const double *)from)[k];
}

/* Sends drawn rows of `rows`, times[q] each to process q, and receives others; *in: those, packed. */
static RtCode send_drawn(RtAcross *a, int64_t buffer, int site, const int64_t *n, const int64_t *rows,
                         const int64_t *places, const bool *drawn, const double *times, const int64_t *in_bytes,
                         char **in, RtStatus *st)
{
    const RtBuffer *b = across_buffer(a, buffer);
    int64_t w = across_row_bytes(a, buffer), bytes[RT_PEERS_MOST] = {0}, sum = 0, i = 0;
    char *out = across_room(a);
    for (int q = 0; q < a->r->n; q++) {
        for (int64_t end = i + n[q]; i < end; i++) {
            if (!drawn[places ? places[i] : i]) continue;
            copy_times(out + sum, (const char *)a->e->buffers[buffer] + rows[i] * w, b->elem, b->width, times[q]);
            sum += w;
            bytes[q] += w;
        }
    }
    *in = out + sum;
    RT_TRY(rt_peers_predict(a->r->peers, site, sum, 1, st));
    return rt_peers_exchange(a->r->peers, site, out, bytes, *in, in_bytes, st);
}

static void count_drawn(const RtRanks *r, const int64_t *n, const int64_t *places, const bool *drawn, int64_t w,
                        int64_t *bytes)
{
    for (int64_t q = 0, i = 0; q < r->n; q++) {
        bytes[q] = 0;
        for (int64_t end = i + n[q]; i < end; i++) bytes[q] += drawn[places ? places[i] : i] ? w : 0;
    }
}

RtCode rt_sample_run(RtAcross *a, const struct RtSample *p, int64_t exchange, RtStatus *st)
{
    const RtExchange *x = &a->exchanges[exchange];
    const Pull *y = &p->pulls[exchange];
    const RtShip *s = &x->ship;
    int64_t w = x->row_bytes, space = across_space(a, x->buffer), bytes[RT_PEERS_MOST];
    char *rows = a->e->buffers[x->buffer], *in;
    int64_t owned = a->r->spaces[space].owned, n = a->r->graph->spaces[space].count;
    memset(rows + owned * w, 0, (size_t)((n - owned) * w));
    if (y->zero) return RT_OK;
    count_drawn(a->r, s->in_n, y->in, y->border->in, w, bytes);
    RT_TRY(send_drawn(a, x->buffer, x->site, s->out_n, s->out, y->out, y->border->out, y->border->times_out, bytes, &in,
                      st));
    for (int64_t i = 0; i < s->n_in; i++) {
        if (!y->border->in[y->in[i]]) continue;
        memcpy(rows + s->in[i] * w, in, (size_t)w);
        in += w;
    }
    return RT_OK;
}

RtCode rt_sample_push(RtAcross *a, const struct RtSample *p, int64_t step, RtStatus *st)
{
    for (int64_t k = 0; k < p->n_pushes; k++) {
        const Push *x = &p->pushes[k];
        if (x->step != step) continue;
        const Border *b = x->border;
        const RtBuffer *buffer = across_buffer(a, x->buffer);
        int64_t w = across_row_bytes(a, x->buffer), bytes[RT_PEERS_MOST];
        char *rows = a->e->buffers[x->buffer], *in;
        count_drawn(a->r, b->ship.out_n, NULL, b->out, w, bytes);
        RT_TRY(send_drawn(a, x->buffer, x->site, b->ship.in_n, b->ship.in, NULL, b->in, b->times_in, bytes, &in, st));
        for (int64_t i = 0; i < b->ship.n_out; i++) {
            if (!b->out[i]) continue;
            add_row(rows + b->ship.out[i] * w, in, buffer->elem, buffer->width);
            in += w;
        }
    }
    return RT_OK;
}
