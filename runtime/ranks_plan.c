/* Which rows travel when a program runs (see ranks.h). From the last step to the first: a buffer's rows that later
   steps read and that a peer owns are computed here, too, where that needs no more bytes from peers than the rows
   themselves, else received from it once the step is through. What is decided depends on the program alone, so that all
   processes decide the same; which rows depends on each one's part of the graph. */
#include "runtime/ranks_part.h"
#include "runtime/weights.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "what processes exchange";

typedef struct Wanted { /* of a buffer, by the steps behind the one at hand */
    bool halo;          /* rows that peers own, too, perhaps */
    uint64_t *bits;     /* of the space's rows; NULL: none yet */
} Wanted;

typedef struct Planner {
    RtAcross *a;
    const RtModel *m;
    const RtProgram *p;
    const RtGraph *g;
    Wanted *wanted; /* [n_buffers] */
    bool *halo;     /* [n_buffers] whether some step touches rows that peers own */
    RtBlock *blocks;
    RtStatus *st;
} Planner;

static bool is_shared(const Planner *k, int64_t space) { return space >= 0 && k->a->r->spaces[space].shared; }
static int64_t count_of(const Planner *k, int64_t space) { return k->g->spaces[space].count; }
static int64_t owned_of(const Planner *k, int64_t space) { return k->a->r->spaces[space].owned; }

static RtCode refuse(const Planner *k, int64_t step, const char *why)
{
    const RtStep *s = across_def(k->a, step);
    char place[256];
    snprintf(place, sizeof place, "%s:%lld", rt_string(k->m, s->file), (long long)s->line);
    return rt_fail(k->st, RT_E_RANKS_REFUSED, s->file >= 0 ? place : rt_string(k->m, k->p->name), NULL,
                   "`%s` cannot be shared by processes: %s", rt_string(k->m, s->label), why);
}

/* ---- sets of rows ------------------------------------------------------------------------------------------------ */

static bool has(const uint64_t *bits, int64_t i) { return bits[i >> 6] >> (i & 63) & 1; }
static void put(uint64_t *bits, int64_t i) { bits[i >> 6] |= (uint64_t)1 << (i & 63); }

static RtCode bits_of(const Planner *k, int64_t buffer, uint64_t **bits)
{
    if (!k->wanted[buffer].bits) {
        RT_TRY(rt_block_alloc(&k->blocks[buffer], rt_size((count_of(k, across_space(k->a, buffer)) + 63) / 64, 8), what,
                              k->st));
        k->wanted[buffer].bits = k->blocks[buffer].p;
    }
    *bits = k->wanted[buffer].bits;
    return RT_OK;
}

/* Whether some row of [from, n) is in the set. */
static bool has_from(const uint64_t *bits, int64_t from, int64_t n)
{
    for (int64_t i = from; i < n; i = (i | 63) + 1)
        if (bits[i >> 6] >> (i & 63)) return true;
    return false;
}

typedef struct Set { /* rows of a space: the first `owned`, and those of bits */
    int64_t space, owned;
    const uint64_t *bits;
    int64_t under; /* they are the elements of owned rows under this map; -1: no */
} Set;

static bool set_has(const Set *s, int64_t i) { return i < s->owned || (s->bits && has(s->bits, i)); }

/* Adds the rows [from, n) of a set. */
static void unite(uint64_t *bits, const uint64_t *more, int64_t from, int64_t n)
{
    for (int64_t w = from >> 6; w < (n + 63) / 64; w++)
        bits[w] |= more[w] & (w == from >> 6 ? ~(uint64_t)0 << (from & 63) : ~(uint64_t)0);
}

/* The buffer is read at these rows of its space, or where the map leads from them. */
static RtCode want(Planner *k, int64_t step, int64_t buffer, int64_t image, const Set *rows)
{
    int64_t space = across_space(k->a, buffer), n = count_of(k, rows->space),
            from = image < 0 ? space : k->m->maps[image].from;
    if (!is_shared(k, space)) return RT_OK; /* every process has all of it */
    if (from != rows->space || (image >= 0 && k->m->maps[image].to != space))
        return refuse(k, step, "it reads rows in a way that is not known");
    uint64_t *bits;
    const uint64_t *more = NULL;
    RT_TRY(bits_of(k, buffer, &bits));
    if (image >= 0 && (rows->under >= 0 || !rows->bits))
        RT_TRY(rt_reach_rows(k->a->r, rows->under, image, &more, k->st));
    else if (image >= 0) {
        const int32_t *to = k->g->maps[image].to;
        int64_t owned = owned_of(k, space);
        for (int64_t i = 0; i < n; i++) { /* without a branch for each, since nobody foretells them */
            int64_t row = to[i] < 0 ? 0 : to[i];
            bits[row >> 6] |= (uint64_t)((row >= owned) & set_has(rows, i)) << (row & 63);
        }
    } else more = rows->bits;
    if (more) unite(bits, more, image < 0 ? owned_of(k, space) : 0, count_of(k, space));
    k->halo[buffer] |= has_from(bits, owned_of(k, space), count_of(k, space));
    return RT_OK;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

/* Whether owned rows of a space, or the elements of owned rows, may lead to rows that peers own. Edges are owned with
   their targets, pairs of rows and keys with their rows. */
static bool may_leave(const Planner *k, int64_t map)
{
    for (int64_t i = 0; i < k->m->n_graphs; i++) {
        const RtGraphDef *d = &k->m->graphs[i];
        if (d->kind == RT_GRAPH_KEYED && (d->src == map || (d->image == map && k->m->maps[d->batch].sorted)))
            return false;
    }
    return !k->m->maps[map].sorted;
}

/* The parameter or state whose rows the buffer has; NULL: none's. A result takes its place when the program ends. */
static const RtTensorDef *weight_of(const Planner *k, int64_t buffer)
{
    const RtBuffer *x = across_buffer(k->a, buffer);
    int64_t tensor = x->kind == RT_BUF_TENSOR   ? x->ref
                     : x->kind == RT_BUF_RESULT ? k->m->results[k->p->first_result + x->ref].tensor
                                                : -1;
    const RtTensorDef *t = tensor < 0 ? NULL : &k->m->tensors[tensor];
    return t && (t->kind == RT_PARAM || t->kind == RT_STATE) ? t : NULL;
}

/* Whether processes have its rows of the halo, too, as they are now: not of state that only its own updates read. */
static bool is_kept_there(const Planner *k, const RtTensorDef *t) { return rt_weights_has(k->m, t - k->m->tensors); }

/* Bytes of a row that the step would have to get from peers to compute rows that they own; -1: it cannot. */
static int64_t cost_of_computing(const Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    int64_t bytes = 0;
    if (s->work != RT_EACH) return -1;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        const RtBuffer *b = across_buffer(k->a, t->buffer);
        /* what the step overwrites is wanted behind it, not what it reads there */
        bool there = b->kind == RT_BUF_TENSOR || (k->wanted[t->buffer].halo && !across_writes(k->a, step, t->buffer));
        if (t->at != RT_AT_ROW || b->kind == RT_BUF_COTANGENT) return -1;
        const RtTensorDef *weight = weight_of(k, t->buffer);
        /* owners alone update rows, and only they have the state of the optimizer */
        if (weight && weight->space && (t->writes || !is_kept_there(k, weight))) return -1;
        if (t->writes || !is_shared(k, across_space(k->a, t->buffer))) continue;
        /* every edge has both its ends here; what nodes lead to need not be */
        if (t->image >= 0 && !k->m->spaces[s->over].is_edge) return -1;
        if (!there && t->image < 0) bytes += across_row_bytes(k->a, t->buffer);
    }
    return bytes;
}

static int64_t cost_of_receiving(const Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    int64_t bytes = 0;
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        if (t->writes && k->wanted[t->buffer].halo) bytes += across_row_bytes(k->a, t->buffer);
    }
    return bytes;
}

/* Keys of rows that peers own, and the ship that brings them. */
static RtCode add_exchange(Planner *k, int64_t step, int64_t buffer)
{
    int64_t space = across_space(k->a, buffer), n = count_of(k, space), owned = owned_of(k, space), n_rows = 0;
    const RtRankSpace *s = &k->a->r->spaces[space];
    RtExchange *x = &k->a->exchanges[k->a->n_exchanges++];
    assert(s->shared && owned <= n);
    RtBlock scratch;
    uint64_t *bits;
    RT_TRY(rt_space_keys(k->a->r, space, k->st));
    *x = (RtExchange){
        .after = step, .buffer = buffer, .row_bytes = across_row_bytes(k->a, buffer), .site = k->a->r->next_site++};
    RT_TRY(bits_of(k, buffer, &bits));
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(8, n - owned, 20), what, k->st));
    int64_t *keys = scratch.p, *to = keys + (n - owned);
    int32_t *owners = (int32_t *)(to + (n - owned));
    for (int64_t i = owned; i < n; i++) {
        if (!has(bits, i)) continue;
        keys[n_rows] = s->keys[i];
        owners[n_rows] = s->owner[i - owned];
        to[n_rows++] = i;
    }
    RtCode code = rt_ship_ask(k->a->r, space, n_rows, keys, owners, to, &x->ship, k->st);
    rt_block_free(&scratch);
    return code;
}

/* What the step writes is made here: nobody before it makes it. */
static void forget_writes(Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        Wanted *w = &k->wanted[t->buffer];
        if (!t->writes) continue;
        w->halo = false;
        w->bits = NULL;
        rt_block_free(&k->blocks[t->buffer]);
    }
}

static RtCode receive_writes(Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        if (!t->writes || !k->wanted[t->buffer].halo || !is_shared(k, across_space(k->a, t->buffer))) continue;
        if (t->at == RT_AT_ELEMENT && may_leave(k, s->under))
            return refuse(k, step, "its values of edges are made by their sources");
        RT_TRY(add_exchange(k, step, t->buffer));
    }
    return RT_OK;
}

/* Rows of `over` that the step has to compute behind the owned ones: those that somebody wants of what it writes. */
static RtCode unite_writes(Planner *k, int64_t step, RtBlock *bits)
{
    const RtStep *s = across_def(k->a, step);
    int64_t words = (count_of(k, s->over) + 63) / 64;
    RT_TRY(rt_block_alloc(bits, rt_size_plus(8, words, 8), what, k->st));
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        const uint64_t *from = k->wanted[t->buffer].bits;
        for (int64_t w = 0; t->writes && from && w < words; w++) ((uint64_t *)bits->p)[w] |= from[w];
    }
    return RT_OK;
}

static RtCode want_reads(Planner *k, int64_t step, const Set *rows, const Set *elements, bool beyond)
{
    const RtStep *s = across_def(k->a, step);
    bool by_rows = (s->work == RT_EACH || s->work == RT_SUMS) && is_shared(k, s->over);
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        const Set *at = t->at == RT_AT_ELEMENT ? elements : rows;
        int64_t space = across_space(k->a, t->buffer);
        if (space >= 0 && !k->a->r->spaces[space].known)
            return refuse(k, step, "it reads rows of a graph whose edges no process owns");
        if (t->writes || !is_shared(k, space)) continue;
        if (t->at == RT_AT_ALL && by_rows && k->a->r->spaces[space].whole) continue;
        if (t->at == RT_AT_ALL || !at) return refuse(k, step, "it reads rows of the whole graph");
        RT_TRY(want(k, step, t->buffer, t->image, at));
        bool leaves = t->image >= 0 ? may_leave(k, t->image) || beyond : false;
        if (t->at == RT_AT_ELEMENT) leaves |= may_leave(k, s->under);
        else leaves |= beyond;
        k->wanted[t->buffer].halo |= leaves;
    }
    return RT_OK;
}

/* Rows of a shared space, each by itself. */
static RtCode plan_each(Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    int64_t receive = cost_of_receiving(k, step), compute = cost_of_computing(k, step);
    Set rows = {s->over, owned_of(k, s->over), NULL, -1};
    bool edges = k->m->spaces[s->over].is_edge;
    bool here = receive && compute >= 0 && (edges || (compute <= receive && !rt_policy_receives(k->a, step)));
    RtBlock bits = {0};
    if (here) {
        k->a->rows[step] = RT_READ;
        RT_TRY(unite_writes(k, step, &bits));
        rows.bits = bits.p;
    } else {
        RT_TRY(receive_writes(k, step));
    }
    forget_writes(k, step);
    RtCode code = want_reads(k, step, &rows, NULL, here);
    rt_block_free(&bits);
    return code;
}

/* Sums for the owned rows of a shared space: all their elements are here. */
static RtCode plan_sums(Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    int64_t from = k->m->maps[s->under].from;
    const uint64_t *elements;
    if (!is_shared(k, from)) return refuse(k, step, "its elements are not shared out as its rows are");
    RT_TRY(receive_writes(k, step));
    forget_writes(k, step);
    RT_TRY(rt_reach_elements(k->a->r, s->under, &elements, k->st));
    return want_reads(k, step, &(Set){s->over, owned_of(k, s->over), NULL, -1}, &(Set){from, 0, elements, s->under},
                      false);
}

/* Sums over all rows of a shared space, or for rows that every process has: owned rows are sent to whom they belong,
   and what the step makes for each of them comes back. */
static RtCode plan_divided(Planner *k, int64_t step, int64_t space)
{
    const RtStep *s = across_def(k->a, step);
    Set owned = {space, owned_of(k, space), NULL, -1};
    for (int64_t i = 0; i < s->n_touches; i++) {
        const RtTouch *t = across_touch(k->a, step, i);
        if (!t->writes || !is_shared(k, across_space(k->a, t->buffer))) continue;
        if (t->at != RT_AT_ELEMENT) return refuse(k, step, "it stores values of rows beside their sum");
        if (k->wanted[t->buffer].halo) RT_TRY(add_exchange(k, step, t->buffer));
    }
    forget_writes(k, step);
    RT_TRY(want_reads(k, step, &owned, &owned, false));
    k->a->divided[k->a->n_divided++].step = step;
    return RT_OK;
}

static RtCode plan_step(Planner *k, int64_t step)
{
    const RtStep *s = across_def(k->a, step);
    const RtRankSpace *over = s->over < 0 ? NULL : &k->a->r->spaces[s->over];
    k->a->rows[step] = RT_OWNED;
    assert(s->work == RT_SAME || over || s->work == RT_APART);
    if (over && !over->known) return refuse(k, step, "its rows are of a graph whose edges no process owns");
    switch (s->work) {
    case RT_EACH:
        if (over->shared) return plan_each(k, step);
        break;
    case RT_SUMS:
        if (over->shared) return plan_sums(k, step);
        if (is_shared(k, k->m->maps[s->under].from)) return plan_divided(k, step, k->m->maps[s->under].from);
        break;
    case RT_TOTALS:
        if (over->shared) return plan_divided(k, step, s->over);
        break;
    case RT_APART:
        for (int64_t i = 0; i < s->n_touches; i++)
            if (is_shared(k, across_space(k->a, across_touch(k->a, step, i)->buffer)))
                return refuse(k, step, "it ranks, sorts or finds rows of the whole graph");
        break;
    default: break;
    }
    forget_writes(k, step);
    return want_reads(k, step, NULL, NULL, false);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* Of a space of edges, the map to their sources; -1: it is none. */
static int64_t source_map(const Planner *k, int64_t space)
{
    for (int64_t i = 0; i < k->m->n_graphs; i++)
        if (k->m->graphs[i].edge == space && k->m->graphs[i].kind != RT_GRAPH_KEYED) return k->m->graphs[i].src;
    return -1;
}

static const int32_t *sources_of(const Planner *k, int64_t space)
{
    int64_t map = source_map(k, space);
    return map < 0 ? NULL : k->g->maps[map].to;
}

/* What is computed once before a run is read at any row later, and so are parameters in the next run; of edges that
   peers own, at those out of owned nodes. */
static RtCode want_held(Planner *k)
{
    for (int64_t b = 0; b < k->p->n_buffers; b++) {
        const RtBuffer *x = across_buffer(k->a, b);
        int64_t space = across_space(k->a, b), n = space < 0 ? 0 : count_of(k, space);
        int64_t tensor = x->kind == RT_BUF_TENSOR   ? x->ref
                         : x->kind == RT_BUF_RESULT ? k->m->results[k->p->first_result + x->ref].tensor
                                                    : -1;
        if (tensor < 0 || !is_shared(k, space)) continue;
        const RtTensorDef *weight = weight_of(k, b);
        bool updated = false;
        for (int64_t i = 0; i < k->p->n_steps && weight && is_kept_there(k, weight); i++)
            updated |= across_writes(k->a, i, b);
        if (k->m->tensors[tensor].kind != RT_HELD && !updated) continue;
        uint64_t *bits;
        RT_TRY(bits_of(k, b, &bits));
        k->wanted[b].halo = true;
        const int32_t *src = sources_of(k, space);
        int64_t n_src = src ? owned_of(k, k->m->maps[source_map(k, space)].to) : 0;
        for (int64_t i = owned_of(k, space); i < n; i++)
            if (!src || src[i] < n_src) put(bits, i);
    }
    return RT_OK;
}

static RtCode plan_all(Planner *k)
{
    RtAcross *a = k->a;
    RT_TRY(rt_alloc(&k->wanted, k->p->n_buffers, sizeof *k->wanted, what, k->st));
    RT_TRY(rt_alloc(&k->blocks, k->p->n_buffers, sizeof *k->blocks, what, k->st));
    RT_TRY(rt_alloc(&k->halo, k->p->n_buffers, sizeof *k->halo, what, k->st));
    RT_TRY(want_held(k));
    for (int64_t i = k->p->n_steps; i-- > 0;) RT_TRY(plan_step(k, i));
    for (int64_t b = 0; b < k->p->n_buffers; b++)
        if (across_buffer(a, b)->kind == RT_BUF_COTANGENT && k->wanted[b].halo) RT_TRY(add_exchange(k, -1, b));
    for (int64_t i = 0; i < a->n_divided / 2; i++) {
        RtDivided x = a->divided[i];
        a->divided[i] = a->divided[a->n_divided - 1 - i];
        a->divided[a->n_divided - 1 - i] = x;
    }
    for (int64_t i = 0; i < a->n_divided; i++) RT_TRY(rt_divided_make(a, a->divided[i].step, &a->divided[i], k->st));
    return RT_OK;
}

/* Whether a step names the buffer as one whose owned rows it touches, and computes no others. */
static bool touches_owned(const RtAcross *a, int64_t step, int64_t buffer)
{
    bool named = false;
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->buffer != buffer) continue;
        if (t->at == RT_AT_ALL || a->rows[step] == RT_READ) return false;
        named = true;
    }
    return named;
}

static int64_t slot_space(const Planner *k, int64_t slot)
{
    const RtCount *rows = &k->m->slots[k->p->first_slot + slot].rows;
    return rows->kind == RT_COUNT_SPACE ? rows->space : -1;
}

/* A slot holds rows of the halo if some step may touch those of a buffer that lies there: by what it is known to read
   (k->halo), or by computing them. */
static RtCode choose_slots(Planner *k)
{
    RtAcross *a = k->a;
    RT_TRY(rt_alloc(&a->slots, k->p->n_slots, sizeof *a->slots, what, k->st));
    for (int64_t i = 0; i < k->p->n_steps; i++) {
        const RtCall *c = rt_step_call(k->m, across_def(a, i));
        for (int64_t n = 0; n < c->n_args; n++) {
            const RtStepArg *arg = &k->m->step_args[c->first_arg + n];
            if (arg->is_buffer && !touches_owned(a, i, arg->buffer)) k->halo[arg->buffer] = true;
        }
    }
    for (int64_t b = 0; b < k->p->n_buffers; b++) {
        const RtBuffer *x = across_buffer(a, b);
        int64_t space = across_space(a, b), rows = rt_policy_room(a, b);
        if (x->kind != RT_BUF_ARENA || !is_shared(k, space)) continue;
        if (rows < 0) rows = k->halo[b] ? count_of(k, space) : owned_of(k, space);
        if (rows > a->slots[x->slot]) a->slots[x->slot] = rows;
    }
    for (int64_t i = 0; i < k->p->n_slots; i++)
        if (!is_shared(k, slot_space(k, i))) a->slots[i] = -1;
    return RT_OK;
}

bool rt_across_reads_owned(const RtAcross *a, int64_t step, const RtTouch *t)
{
    const RtStep *s = across_def(a, step);
    const RtMapDef *maps = a->e->model->maps;
    bool elements = s->work == RT_SUMS && (!a->r->spaces[s->over].shared || maps[s->under].sorted);
    bool from = t->at == RT_AT_ROW ? a->rows[step] == RT_OWNED : t->at == RT_AT_ELEMENT && elements;
    return from && (t->image < 0 || maps[t->image].sorted);
}

static RtCode take_strips(RtAcross *a, RtStatus *st)
{
    const RtProgram *p = a->e->program;
    RT_TRY(rt_alloc(&a->strips, p->n_buffers, sizeof *a->strips, what, st));
    for (int64_t b = 0; b < p->n_buffers; b++) {
        const RtBuffer *x = across_buffer(a, b);
        if (x->kind != RT_BUF_STRIP || a->e->options.plan_only || across_is_there(a)) continue;
        int64_t rows = rt_count_value(a->e->graph, &x->rows, RT_READ);
        RT_TRY(rt_block_alloc(&a->strips[b], rt_size_plus(64, rows, across_row_bytes(a, b)), what, st));
    }
    return RT_OK;
}

RtCode rt_across_make(RtExec *e, struct RtAcross **out, RtStatus *st)
{
    RtAcross *a;
    const RtProgram *p = e->program;
    int64_t n_touches = 0;
    *out = NULL;
    for (int64_t i = 0; i < p->n_steps; i++) n_touches += e->model->steps[p->first_step + i].n_touches;
    RT_TRY(rt_alloc(&a, 1, sizeof *a, what, st));
    a->e = e;
    a->r = e->options.ranks;
    a->results_site = a->r->next_site++;
    a->operands_site = a->r->next_site++;
    Planner k = {.a = a, .m = e->model, .p = p, .g = e->graph, .st = st};
    RtCode code = rt_alloc(&a->rows, p->n_steps, sizeof *a->rows, what, st);
    if (!code) code = rt_alloc(&a->exchanges, n_touches, sizeof *a->exchanges, what, st);
    if (!code) code = rt_alloc(&a->divided, p->n_steps, sizeof *a->divided, what, st);
    if (!code) code = take_strips(a, st);
    if (!code) code = plan_all(&k);
    if (!code) code = rt_policy_make(a, st);
    if (!code) code = choose_slots(&k);
    for (int64_t b = 0; k.blocks && b < p->n_buffers; b++) rt_block_free(&k.blocks[b]);
    free(k.blocks);
    free(k.wanted);
    free(k.halo);
    if (code) rt_across_free(a);
    else *out = a;
    return code;
}

RtCode rt_across_place(RtAcross *a, RtStatus *st)
{
    RT_TRY(rt_divided_place(a, st));
    for (int64_t i = 0; a->policy && i < a->n_exchanges; i++) { /* at once */
        if (rt_policy_room(a, a->exchanges[i].buffer) >= 0) continue;
        int64_t bytes = rt_ship_bytes(&a->exchanges[i].ship, a->exchanges[i].row_bytes);
        if (bytes > a->room_bytes) a->room_bytes = bytes;
    }
    RT_TRY(rt_overlap_make(a, st));
    return rt_staging_make(a, st);
}

void rt_across_free(RtAcross *a)
{
    if (!a) return;
    rt_policy_free(a);
    rt_staging_free(a);
    rt_overlap_free(a->overlap);
    rt_block_free(&a->r->room); /* what runs before training needs more of it than training, perhaps */
    rt_block_free(&a->r->operands);
    for (int64_t i = 0; i < a->n_exchanges; i++) rt_ship_free(&a->exchanges[i].ship);
    for (int64_t i = 0; i < a->n_divided; i++) rt_divided_free(a, &a->divided[i]);
    for (int64_t b = 0; a->strips && b < a->e->program->n_buffers; b++) rt_block_free(&a->strips[b]);
    free(a->strips);
    free(a->rows);
    free(a->slots);
    free(a->exchanges);
    free(a->divided);
    free(a->travels);
    free(a);
}
