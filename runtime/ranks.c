/* What each process owns of every space, and rows that travel (see ranks.h). */
#include "runtime/ranks.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "rows of other processes";

/* ---- rows that travel -------------------------------------------------------------------------------------------- */

static int64_t sum_of(const int64_t *n, int ranks)
{
    int64_t sum = 0;
    for (int q = 0; q < ranks; q++) sum += n[q];
    return sum;
}

/* Sends process q n[q] numbers of 8 bytes. *got: the numbers that come in, from_n[q] of them from process q, by q. */
static RtCode trade(RtRanks *r, const int64_t *n, const int64_t *out, int64_t *from_n, RtBlock *got, RtStatus *st)
{
    int64_t *bytes;
    RT_TRY(rt_alloc(&bytes, r->n, 3 * sizeof *bytes, what, st));
    int64_t *in_bytes = bytes + r->n, *eight = in_bytes + r->n;
    for (int q = 0; q < r->n; q++) eight[q] = 8;
    RtCode code = rt_peers_exchange(r->peers, RT_SITE_SETUP, n, eight, from_n, eight, st);
    for (int q = 0; q < r->n; q++) {
        bytes[q] = 8 * n[q];
        in_bytes[q] = 8 * from_n[q];
    }
    if (!code) code = rt_block_alloc(got, rt_size_plus(8, sum_of(from_n, r->n), 8), what, st);
    if (!code) code = rt_peers_exchange(r->peers, RT_SITE_SETUP, out, bytes, got->p, in_bytes, st);
    free(bytes);
    return code;
}

static RtCode ship_alloc(const RtRanks *r, RtShip *s, int64_t n_out, int64_t n_in, RtStatus *st)
{
    RT_TRY(rt_block_alloc(&s->block, rt_size_plus(rt_size_plus(16, r->n, 16), n_out + n_in, 8), what, st));
    s->out_n = s->block.p;
    s->in_n = s->out_n + r->n;
    s->out = s->in_n + r->n;
    s->in = s->out + n_out;
    s->n_out = n_out;
    s->n_in = n_in;
    return RT_OK;
}

void rt_ship_free(RtShip *s)
{
    if (!s) return;
    rt_block_free(&s->block);
    *s = (RtShip){0};
}

int64_t rt_ship_bytes(const RtShip *s, int64_t row_bytes)
{
    return rt_size(s->n_out + s->n_in - 2 * s->n_own, row_bytes);
}

/* Pairs of numbers, by the process that each is for. */
typedef struct Dealt {
    int64_t *count, *from;  /* [ranks] how many are for each; room for how many come from each */
    int64_t *first, *other; /* [n] */
    RtBlock block;
} Dealt;

static RtCode deal(const RtRanks *r, int64_t n, const int32_t *of, const int64_t *first, const int64_t *other, Dealt *d,
                   RtStatus *st)
{
    RT_TRY(rt_block_alloc(&d->block, rt_size_plus(rt_size(r->n, 24), n, 16), what, st));
    int64_t *at = d->block.p;
    d->count = at + r->n;
    d->from = d->count + r->n;
    d->first = d->from + r->n;
    d->other = d->first + n;
    for (int64_t i = 0; i < n; i++) {
        assert(of[i] >= 0 && of[i] < r->n);
        d->count[of[i]]++;
    }
    for (int64_t q = 0, sum = 0; q < r->n; sum += d->count[q++]) at[q] = sum;
    for (int64_t i = 0; i < n; i++) {
        d->first[at[of[i]]] = first[i];
        d->other[at[of[i]]++] = other[i];
    }
    return RT_OK;
}

static int compare_pairs(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where ascending keys end: the first of [from, n) that is not above the one before it. */
static int64_t run_end(const int64_t *keys, int64_t from, int64_t n)
{
    while (++from < n && keys[from - 1] < keys[from]) {}
    return from;
}

/* by_key of two runs of ascending keys, as owned nodes are: inner ones, and the others. */
static void merge_runs(const RtRankSpace *s, int64_t second)
{
    int64_t i = 0, k = second;
    for (int64_t at = 0; at < s->owned; at++) {
        bool first = k == s->owned || (i < second && s->keys[i] < s->keys[k]);
        s->by_key[at] = (int32_t)(first ? i++ : k++);
    }
}

/* Owned rows by key, where they are not in that order. */
static RtCode space_index(RtRankSpace *s, RtStatus *st)
{
    RtBlock pairs;
    int64_t second = run_end(s->keys, 0, s->owned);
    if (second >= s->owned || s->by_key) return RT_OK;
    RT_TRY(rt_block_alloc(&s->blocks[2], rt_size(s->owned, 4), what, st));
    s->by_key = s->blocks[2].p;
    if (run_end(s->keys, second, s->owned) == s->owned) {
        merge_runs(s, second);
        return RT_OK;
    }
    RT_TRY(rt_block_alloc(&pairs, rt_size(s->owned, 16), what, st));
    int64_t *pair = pairs.p;
    for (int64_t i = 0; i < s->owned; i++) {
        pair[2 * i] = s->keys[i];
        pair[2 * i + 1] = i;
    }
    qsort(pair, (size_t)s->owned, 16, compare_pairs);
    for (int64_t i = 1; i < s->owned; i++) assert(pair[2 * i - 2] < pair[2 * i]); /* keys differ */
    for (int64_t i = 0; i < s->owned; i++) s->by_key[i] = (int32_t)pair[2 * i + 1];
    rt_block_free(&pairs);
    return RT_OK;
}

static int64_t nth_key(const RtRankSpace *s, int64_t i) { return s->keys[s->by_key ? s->by_key[i] : i]; }

/* *from: where among ascending keys to begin, as what is asked for mostly ascends; afterwards where it stands. */
static int64_t find_key(const RtRankSpace *s, int64_t key, int64_t *from)
{
    int64_t lo = *from < s->owned && nth_key(s, *from) <= key ? *from : 0, hi = lo, step = 1;
    for (; hi < s->owned && nth_key(s, hi) < key; step *= 2) lo = hi + 1, hi += step;
    if (hi > s->owned) hi = s->owned;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (nth_key(s, mid) < key) lo = mid + 1;
        else hi = mid;
    }
    *from = lo;
    int64_t row = lo < s->owned && s->by_key ? s->by_key[lo] : lo;
    return row < s->owned && s->keys[row] == key ? row : -1;
}

RtCode rt_ship_ask(RtRanks *r, int64_t space, int64_t n, const int64_t *keys, const int32_t *owners, const int64_t *to,
                   RtShip *s, RtStatus *st)
{
    Dealt d = {0};
    RtBlock asked = {0};
    *s = (RtShip){0};
    RtCode code = rt_space_keys(r, space, st);
    if (!code) code = space_index(&r->spaces[space], st);
    if (!code) code = deal(r, n, owners, keys, to, &d, st);
    if (!code) code = trade(r, d.count, d.first, d.from, &asked, st);
    int64_t n_out = code ? 0 : sum_of(d.from, r->n);
    if (!code) code = ship_alloc(r, s, n_out, n, st);
    if (!code) {
        memcpy(s->in_n, d.count, (size_t)r->n * 8);
        memcpy(s->out_n, d.from, (size_t)r->n * 8);
        memcpy(s->in, d.other, (size_t)n * 8);
        s->n_own = s->in_n[r->rank];
    }
    for (int64_t i = 0, from = 0; !code && i < n_out; i++) {
        int64_t key = ((int64_t *)asked.p)[i];
        s->out[i] = find_key(&r->spaces[space], key, &from);
        if (s->out[i] < 0)
            code = rt_fail(st, RT_E_INTERNAL, rt_string(r->model, r->model->spaces[space].name), NULL,
                           "a peer wants row %lld, which this process does not own", (long long)key);
    }
    rt_block_free(&d.block);
    rt_block_free(&asked);
    return code;
}

RtCode rt_ship_push(RtRanks *r, int64_t n, const int64_t *rows, const int32_t *receivers, const int64_t *to, RtShip *s,
                    RtStatus *st)
{
    Dealt d = {0};
    RtBlock got = {0};
    *s = (RtShip){0};
    RtCode code = deal(r, n, receivers, rows, to, &d, st);
    if (!code) code = trade(r, d.count, d.other, d.from, &got, st);
    if (!code) code = ship_alloc(r, s, n, sum_of(d.from, r->n), st);
    if (!code) {
        memcpy(s->out_n, d.count, (size_t)r->n * 8);
        memcpy(s->in_n, d.from, (size_t)r->n * 8);
        memcpy(s->out, d.first, (size_t)n * 8);
        memcpy(s->in, got.p, (size_t)s->n_in * 8);
        s->n_own = s->out_n[r->rank];
    }
    rt_block_free(&d.block);
    rt_block_free(&got);
    return code;
}

int64_t rt_ship_rows_out(const RtRanks *r, const RtShip *s) { return s->n_out - s->out_n[r->rank]; }

RtCode rt_ship_begin(RtRanks *r, const RtShip *s, int site, const void *from, void *to, int64_t row_bytes, void *room,
                     int *flight, RtStatus *st)
{
    RtPeersRows out = {(char *)(uintptr_t)from, s->out, s->out_n},
                in = {room ? room : to, room ? NULL : s->in, s->in_n};
    assert(s->n_out == sum_of(s->out_n, r->n) && s->n_in == sum_of(s->in_n, r->n));
    return rt_peers_rows_begin(r->peers, site, row_bytes, &out, &in, flight, st);
}

RtCode rt_ship_finish(RtRanks *r, const RtShip *s, int flight, const void *from, void *to, int64_t row_bytes,
                      const void *room, RtStatus *st)
{
    const int64_t *out = s->out + sum_of(s->out_n, r->rank), *in = s->in;
    const char *came = room;
    size_t w = (size_t)row_bytes;
    assert(s->n_own == s->out_n[r->rank] && s->n_own == s->in_n[r->rank] && (from != to || !s->n_own));
    RT_TRY(rt_peers_finish(r->peers, flight, st));
    for (int q = 0; q < r->n; in += s->in_n[q++])
        for (int64_t i = 0; i < s->in_n[q] && (room || q == r->rank); i++) {
            memcpy((char *)to + in[i] * row_bytes, q == r->rank ? (const char *)from + out[i] * row_bytes : came, w);
            if (q != r->rank) came += w;
        }
    return RT_OK;
}

RtCode rt_ship_run(RtRanks *r, const RtShip *s, int site, const void *from, void *to, int64_t row_bytes, RtStatus *st)
{
    int flight;
    RT_TRY(rt_ship_begin(r, s, site, from, to, row_bytes, NULL, &flight, st));
    return rt_ship_finish(r, s, flight, from, to, row_bytes, NULL, st);
}

/* ---- what is owned ----------------------------------------------------------------------------------------------- */

typedef struct Maker {
    RtRanks *r;
    const RtModel *m;
    RtGraph *g;
    const RtPart *part;
    RtStatus *st;
} Maker;

static RtCode take(RtRankSpace *s, int which, int64_t n, int64_t each, void *out, RtStatus *st)
{
    RT_TRY(rt_block_alloc(&s->blocks[which], rt_size_plus(8, n, each), what, st));
    memcpy(out, &s->blocks[which].p, sizeof(void *));
    return RT_OK;
}

/* Room for the owners of rows behind the owned ones, once it is known which are. */
static RtCode space_take(const Maker *k, int64_t space, int32_t **owner)
{
    RtRankSpace *s = &k->r->spaces[space];
    int64_t n = k->g->spaces[space].count;
    assert(s->owned >= 0 && s->owned <= n);
    s->shared = s->known = true;
    RT_TRY(take(s, 1, n - s->owned, 4, owner, k->st));
    s->owner = *owner;
    return RT_OK;
}

/* Whether an array of the data says the graph's edges, or one of the parts its pairs. */
static bool is_given(const RtGraphDef *d)
{
    return d->kind == RT_GRAPH_DATA || rt_graph_is_read(d) || d->kind == RT_GRAPH_COMPOSE;
}

static const RtPartEdges *edges_of(const Maker *k, const RtGraphDef *d)
{
    if (d->kind == RT_GRAPH_COMPOSE) return rt_part_path(k->part, k->m, d, NULL);
    return rt_part_edges(k->part, d->kind == RT_GRAPH_DATA ? "edge_index" : rt_string(k->m, d->file));
}

/* The kind of nodes whose rows the space has, NULL: of none. Kinds that the data name are called as the model calls
   them. Where one has no name, it is what edge_index joins and where columns begin; a column leads to the kind of its
   name. */
static const RtPartNodes *nodes_of(const Maker *k, int64_t space)
{
    const RtPartNodes *unnamed = rt_part_nodes(k->part, "");
    if (k->m->spaces[space].is_edge) return NULL;
    if (!unnamed) return rt_part_nodes(k->part, rt_string(k->m, k->m->spaces[space].name));
    for (int64_t i = 0; i < k->m->n_graphs; i++) {
        const RtGraphDef *d = &k->m->graphs[i];
        const RtPartEdges *x = is_given(d) && d->kind != RT_GRAPH_COMPOSE ? edges_of(k, d) : NULL;
        if (x && d->src_space == space) return unnamed;
        if (x && d->dst_space == space) return x->id ? unnamed : rt_part_nodes(k->part, x->name);
    }
    return NULL;
}

static RtCode make_nodes(const Maker *k, int64_t space, const RtPartNodes *p)
{
    RtRankSpace *s = &k->r->spaces[space];
    int64_t n = k->g->spaces[space].count;
    if (n != p->n)
        return rt_fail(k->st, RT_E_DATA_META, "node_id.npy", "make the parts again: gnnc data partition",
                       "the part has %lld ids and %lld nodes%s%s", (long long)p->n, (long long)n,
                       *p->name ? " of " : "", p->name);
    s->owned = p->owned;
    s->total = p->all;
    s->shared = s->known = true;
    s->keys = p->id;
    s->owner = p->halo_owner;
    return RT_OK;
}

/* Graphs, where there are many: each with all its nodes, so all that are here are owned. */
static RtCode make_graphs(const Maker *k, int64_t space)
{
    RtRankSpace *s = &k->r->spaces[space];
    const RtPart *p = k->part;
    int64_t n = k->g->spaces[space].count;
    if (!p->graph_id) {
        s->known = true;
        s->owned = s->total = n;
        return RT_OK;
    }
    if (n != p->n_graphs)
        return rt_fail(k->st, RT_E_DATA_META, "graph_id.npy", "make the parts again: gnnc data partition",
                       "the part has %lld ids and %lld graphs", (long long)p->n_graphs, (long long)n);
    s->owned = n;
    s->total = p->graphs;
    s->whole = true;
    s->shared = s->known = true;
    s->keys = p->graph_id;
    return RT_OK;
}

/* Edges are sorted by target, so that those into owned nodes come first. */
static RtCode make_edges(const Maker *k, const RtGraphDef *d)
{
    RtRankSpace *s = &k->r->spaces[d->edge], *nodes = &k->r->spaces[d->dst_space];
    const int32_t *dst = k->g->maps[d->dst].to;
    int64_t n = k->g->spaces[d->edge].count;
    int32_t *owner;
    for (s->owned = 0; s->owned < n && dst[s->owned] < nodes->owned;) s->owned++;
    RT_TRY(space_take(k, d->edge, &owner));
    for (int64_t e = s->owned; e < n; e++) owner[e - s->owned] = nodes->owner[dst[e] - nodes->owned];
    return RT_OK;
}

static int64_t list_place(const RtSpaceData *s, int64_t row) { return s->ids ? s->ids[row] : row; }

static RtCode make_given_edges(const Maker *k, const RtGraphDef *d)
{
    const RtPartEdges *p = edges_of(k, d);
    int64_t n = k->g->spaces[d->edge].count;
    if (!p) return RT_OK; /* not known */

    /* which of the array's edges these are, ascending */
    const int64_t *rows = d->where < 0 ? NULL : k->r->data->edge_rows[d - k->m->graphs].p;
    bool fits = rows ? !n || rows[n - 1] < p->n : n == p->n;
    if (p->id && !fits)
        return rt_fail(k->st, RT_E_DATA_META, "edge_id.npy", "make the parts again: gnnc data partition",
                       "the part has %lld ids and %lld edges", (long long)p->n, (long long)n);
    return make_edges(k, d);
}

/* As the array numbers them that says them; those of a column as their sources. */
static void given_edge_keys(const Maker *k, const RtGraphDef *d, int64_t *keys)
{
    const RtSpaceData *s = &k->g->spaces[d->edge];
    const int64_t *id = edges_of(k, d)->id, *nodes = k->r->spaces[d->src_space].keys;
    const int64_t *rows = d->where < 0 ? NULL : k->r->data->edge_rows[d - k->m->graphs].p;
    for (int64_t e = 0; e < s->count; e++) {
        int64_t i = list_place(s, e);
        keys[e] = id ? id[rows ? rows[i] : i] : nodes[k->g->maps[d->src].to[e]];
    }
}

/* The edges of a list with loops are those of its base that stay, by their keys, then loops by their nodes. */
#define LOOP_KEY ((int64_t)1 << 62)

/* Of a graph with loops: which edges of its base stay, by their places in the user's list, and which nodes get no new
   loop; graph_list.c says both. */
typedef struct Loops {
    int64_t *stored; /* [n] the base's edge at each place of the user's list */
    bool *stays;     /* [n] by place */
    bool *skips;     /* [n_nodes] */
    int64_t n, n_nodes;
    RtBlock block;
} Loops;

static RtCode find_loops(const Maker *k, const RtGraphDef *d, Loops *l)
{
    const RtGraphDef *base = &k->m->graphs[d->base];
    const RtSpaceData *edges = &k->g->spaces[base->edge];
    const int32_t *src = k->g->maps[base->src].to, *dst = k->g->maps[base->dst].to;
    int64_t n = edges->count, n_nodes = k->g->spaces[d->dst_space].count;
    *l = (Loops){.n = n, .n_nodes = n_nodes};
    RT_TRY(rt_block_alloc(&l->block, rt_size_plus(rt_size(n, 9), n_nodes, 9), what, k->st));
    int64_t *last = l->stored = l->block.p; /* of loops, by node */
    last += n;
    l->stays = (bool *)(last + n_nodes);
    l->skips = l->stays + n;
    for (int64_t e = 0; e < n; e++) l->stored[list_place(edges, e)] = e;
    for (int64_t v = 0; v < n_nodes; v++) last[v] = -1;
    for (int64_t u = 0; u < n; u++)
        if (src[l->stored[u]] == dst[l->stored[u]]) last[src[l->stored[u]]] = u;
    for (int64_t u = 0; u < n; u++) {
        int64_t e = l->stored[u];
        l->stays[u] = src[e] != dst[e] || d->policy == RT_LOOPS_ADD ||
                      (d->policy == RT_LOOPS_KEEP && last[src[e]] == u);
    }
    for (int64_t v = 0; v < n_nodes; v++)
        l->skips[v] = d->policy == RT_LOOPS_REMOVE || (d->policy == RT_LOOPS_KEEP && last[v] >= 0);
    return RT_OK;
}

static RtCode loop_edge_keys(const Maker *k, const RtGraphDef *d, int64_t *keys)
{
    const RtGraphDef *base = &k->m->graphs[d->base];
    int64_t n = k->g->spaces[d->edge].count, n_kept = 0, *kept;
    Loops l = {0};
    RT_TRY(rt_space_keys(k->r, base->edge, k->st));
    RT_TRY(rt_alloc(&kept, k->g->spaces[base->edge].count, sizeof *kept, what, k->st));
    RtCode code = find_loops(k, d, &l);
    for (int64_t u = 0; u < l.n && !code; u++)
        if (l.stays[u]) kept[n_kept++] = k->r->spaces[base->edge].keys[l.stored[u]];
    rt_block_free(&l.block);
    for (int64_t e = 0; e < n && !code; e++) {
        int64_t u = list_place(&k->g->spaces[d->edge], e);
        keys[e] = u < n_kept ? kept[u] : LOOP_KEY + k->r->spaces[d->dst_space].keys[k->g->maps[d->dst].to[e]];
    }
    free(kept);
    return code;
}

/* Edges that are turned around keep their keys. */
static RtCode reversed_edge_keys(const Maker *k, const RtGraphDef *d, int64_t *keys)
{
    const RtGraphDef *base = &k->m->graphs[d->base];
    const RtSpaceData *edges = &k->g->spaces[base->edge];
    int64_t n = edges->count, *by_list;
    RT_TRY(rt_space_keys(k->r, base->edge, k->st));
    RT_TRY(rt_alloc(&by_list, n, sizeof *by_list, what, k->st));
    for (int64_t e = 0; e < n; e++) by_list[list_place(edges, e)] = k->r->spaces[base->edge].keys[e];
    for (int64_t e = 0; e < n; e++) keys[e] = by_list[list_place(&k->g->spaces[d->edge], e)];
    free(by_list);
    return RT_OK;
}

/* Stored elements of a matrix that has a row for each row of a shared space: row by row, so owned ones come first. */
static RtCode make_elements(const Maker *k, const RtTensorDef *t)
{
    const RtRankSpace *rows = &k->r->spaces[k->m->maps[t->row].to];
    RtRankSpace *s = &k->r->spaces[t->space];
    const int32_t *row = k->g->maps[t->row].to;
    int32_t *owner;
    int64_t n = k->g->spaces[t->space].count;
    if (!rows->shared) return RT_OK;
    for (s->owned = 0; s->owned < n && row[s->owned] < rows->owned;) s->owned++;
    RT_TRY(space_take(k, t->space, &owner));
    for (int64_t e = s->owned; e < n; e++) owner[e - s->owned] = rows->owner[row[e] - rows->owned];
    return RT_OK;
}

/* Pairs are owned with their rows, all of whose elements are here, and stand by key, then by row: so are they
   numbered. */
static RtCode make_pairs(const Maker *k, const RtGraphDef *d)
{
    const RtRankSpace *rows = &k->r->spaces[d->src_space];
    RtRankSpace *s = &k->r->spaces[d->edge];
    const int32_t *row = k->g->maps[d->src].to;
    int32_t *owner;
    if (!row) return RT_OK; /* no program that runs here reads them */
    RT_TRY(rt_graph_pair_up(k->g, d, rows->owned, k->st));
    int64_t n = k->g->spaces[d->edge].count;
    for (s->owned = 0; s->owned < n && row[s->owned] < rows->owned;) s->owned++;
    RT_TRY(space_take(k, d->edge, &owner));
    for (int64_t i = s->owned; i < n; i++) owner[i - s->owned] = rows->owner[row[i] - rows->owned];
    return RT_OK;
}

static RtCode pair_keys(const Maker *k, const RtGraphDef *d, int64_t *keys)
{
    const RtRankSpace *rows = &k->r->spaces[d->src_space];
    const int32_t *row = k->g->maps[d->src].to, *key = k->g->maps[d->dst].to;
    for (int64_t i = 0; i < k->g->spaces[d->edge].count; i++)
        if (!rt_mul(key[i], rows->total, &keys[i]) || !rt_add(keys[i], rows->keys[row[i]], &keys[i]))
            return rt_fail(k->st, RT_E_OVERFLOW, rt_string(k->m, d->name), NULL, "its pairs overflow 63 bits");
    return RT_OK;
}

static RtCode element_keys(const Maker *k, const RtTensorDef *t, int64_t *keys)
{
    const RtRankSpace *rows = &k->r->spaces[k->m->maps[t->row].to];
    const int32_t *row = k->g->maps[t->row].to, *col = k->g->maps[t->col].to;
    int64_t n_cols = k->g->spaces[k->m->maps[t->col].to].count;
    for (int64_t e = 0; e < k->g->spaces[t->space].count; e++)
        if (!rt_mul(rows->keys[row[e]], n_cols, &keys[e]) || !rt_add(keys[e], col[e], &keys[e]))
            return rt_fail(k->st, RT_E_OVERFLOW, rt_string(k->m, t->name), NULL, "its elements overflow 63 bits");
    return RT_OK;
}

static RtCode make_graph(const Maker *k, const RtGraphDef *d)
{
    bool base = d->base >= 0 && k->r->spaces[k->m->graphs[d->base].edge].known;
    if (is_given(d)) return make_given_edges(k, d);
    if (d->kind == RT_GRAPH_KEYED && base && k->r->spaces[d->src_space].shared) return make_pairs(k, d);
    if ((d->kind == RT_GRAPH_SELF_LOOPS || d->kind == RT_GRAPH_REVERSE) && base) return make_edges(k, d);
    return RT_OK; /* not known */
}

static RtCode find_keys(const Maker *k, int64_t space, int64_t *keys)
{
    for (int64_t i = 0; i < k->m->n_graphs; i++) {
        const RtGraphDef *d = &k->m->graphs[i];
        if (d->edge != space) continue;
        if (d->kind == RT_GRAPH_SELF_LOOPS) return loop_edge_keys(k, d, keys);
        if (d->kind == RT_GRAPH_REVERSE) return reversed_edge_keys(k, d, keys);
        if (d->kind == RT_GRAPH_KEYED) return pair_keys(k, d, keys);
        given_edge_keys(k, d, keys);
        return RT_OK;
    }
    int64_t i = 0;
    while (!k->m->tensors[i].nonzeros || k->m->tensors[i].space != space) i++;
    return element_keys(k, &k->m->tensors[i], keys);
}

RtCode rt_space_keys(RtRanks *r, int64_t space, RtStatus *st)
{
    RtRankSpace *s = &r->spaces[space];
    int64_t *keys;
    assert(s->shared);
    if (s->keys) return RT_OK;
    RT_TRY(take(s, 0, r->graph->spaces[space].count, 8, &keys, st));
    RtCode code = find_keys(&(Maker){r, r->model, r->graph, r->part, st}, space, keys);
    s->keys = code ? NULL : keys;
    return code;
}

static RtCode make_spaces(const Maker *k)
{
    const RtModel *m = k->m;
    for (int64_t s = 0; s < m->n_spaces; s++) {
        RtRankSpace *x = &k->r->spaces[s];
        const RtPartNodes *nodes = nodes_of(k, s);
        if (nodes) RT_TRY(make_nodes(k, s, nodes));
        else if (!s || m->spaces[s].fixed) /* unit, and rows that the model counts: every process has all */
            x->known = true, x->owned = x->total = k->g->spaces[s].count;
    }
    for (int64_t i = 0; i < m->n_maps; i++) { /* node.graph */
        int64_t to = m->maps[i].to;
        bool graphs = nodes_of(k, m->maps[i].from) && !k->r->spaces[to].known && !m->maps[i].computed;
        if (graphs && !m->spaces[to].is_edge) RT_TRY(make_graphs(k, to));
    }
    for (int64_t i = 0; i < m->n_graphs; i++) RT_TRY(make_graph(k, &m->graphs[i]));
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].nonzeros && k->g->maps[m->tensors[i].row].to) RT_TRY(make_elements(k, &m->tensors[i]));
    return RT_OK;
}

/* How many rows of each space there are in all, of those whose number follows from what each process has. */
static RtCode count_totals(const Maker *k)
{
    RtRanks *r = k->r;
    int64_t *all, bytes[RT_PEERS_MOST];
    RT_TRY(rt_alloc(&all, r->n, (int64_t)sizeof *all, what, k->st));
    RtCode code = RT_OK;
    for (int q = 0; q < r->n; q++) bytes[q] = 8;
    for (int64_t s = 0; s < k->m->n_spaces && !code; s++) {
        RtRankSpace *x = &r->spaces[s];
        if (!x->shared || x->total) continue;
        code = rt_peers_gather(r->peers, RT_SITE_SETUP, &x->owned, bytes, all, k->st);
        if (!code) x->total = sum_of(all, r->n);
    }
    free(all);
    return code;
}

static void tell_graph(const Maker *k)
{
    for (int64_t s = 0; s < k->m->n_spaces; s++) {
        const RtRankSpace *x = &k->r->spaces[s];
        if (!x->shared) continue;
        assert(x->total >= x->owned);
        k->g->spaces[s].only_read = k->g->spaces[s].count - x->owned;
        k->g->spaces[s].elsewhere = x->total - x->owned;
    }
}

/* Numbers of all processes, n of this one, ascending. */
static RtCode gather_numbers(const Maker *k, int64_t n, const int64_t *mine, RtBlock *all, int64_t *n_all)
{
    RtRanks *r = k->r;
    int64_t bytes[RT_PEERS_MOST], each[RT_PEERS_MOST], own = 8 * n;
    for (int q = 0; q < r->n; q++) each[q] = 8;
    RT_TRY(rt_peers_gather(r->peers, RT_SITE_SETUP, &own, each, bytes, k->st));
    *n_all = sum_of(bytes, r->n) / 8;
    RT_TRY(rt_block_alloc(all, rt_size_plus(8, *n_all, 8), what, k->st));
    RT_TRY(rt_peers_gather(r->peers, RT_SITE_SETUP, mine, bytes, all->p, k->st));
    qsort(all->p, (size_t)*n_all, 8, compare_pairs);
    return RT_OK;
}

static int64_t count_below(const int64_t *list, int64_t n, int64_t key)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (list[mid] < key) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* The number that one process gives each edge of a graph with loops: edges of the data that stay come first, then new
   loops, by node. What does not stay, and who gets no new loop, is few or all. */
static RtCode number_loops(const Maker *k, const RtGraphDef *d, int64_t *ids)
{
    const RtGraphDef *base = &k->m->graphs[d->base];
    const RtRankSpace *edges = &k->r->spaces[base->edge], *nodes = &k->r->spaces[d->dst_space];
    const RtRankSpace *s = &k->r->spaces[d->edge];
    Loops l = {0};
    assert(s->keys && edges->keys);
    RtBlock lists[3] = {{0}};
    int64_t n_dropped = 0, n_skipped = 0, n_all[2] = {0};
    RtCode code = find_loops(k, d, &l);
    if (!code) code = rt_block_alloc(&lists[0], rt_size_plus(8, l.n + l.n_nodes, 8), what, k->st);
    int64_t *dropped = lists[0].p, *skipped = dropped + l.n;
    for (int64_t u = 0; !code && u < l.n; u++)
        if (!l.stays[u] && l.stored[u] < edges->owned) dropped[n_dropped++] = edges->keys[l.stored[u]];
    for (int64_t v = 0; !code && v < nodes->owned; v++)
        if (l.skips[v]) skipped[n_skipped++] = nodes->keys[v];
    if (!code) code = gather_numbers(k, n_dropped, dropped, &lists[1], &n_all[0]);
    if (!code) code = gather_numbers(k, n_skipped, skipped, &lists[2], &n_all[1]);
    for (int64_t e = 0; !code && e < k->g->spaces[d->edge].count; e++) {
        int64_t key = s->keys[e], v = key - LOOP_KEY;
        ids[e] = key < LOOP_KEY ? key - count_below(lists[1].p, n_all[0], key)
                                : edges->total - n_all[0] + v - count_below(lists[2].p, n_all[1], v);
    }
    for (int i = 0; i < 3; i++) rt_block_free(&lists[i]);
    rt_block_free(&l.block);
    return code;
}

/* The same of other graphs, whose keys ascend as the user's numbers do: how many edges come before each. */
static RtCode number_some(const Maker *k, const RtRankSpace *s, int64_t n, int64_t *ids)
{
    RtBlock own, all = {0};
    int64_t n_all = 0;
    RT_TRY(rt_block_alloc(&own, rt_size(s->owned, 8), what, k->st));
    if (s->owned) memcpy(own.p, s->keys, (size_t)s->owned * 8);
    RtCode code = gather_numbers(k, s->owned, own.p, &all, &n_all);
    for (int64_t e = 0; !code && e < n; e++) ids[e] = count_below(all.p, n_all, s->keys[e]);
    rt_block_free(&own);
    rt_block_free(&all);
    return code;
}

/* Whether the keys of a graph's edges are the user's numbers of them. */
static bool keys_are_numbers(const RtModel *m, const RtGraphDef *d)
{
    while (d->kind == RT_GRAPH_REVERSE) d = &m->graphs[d->base];
    return is_given(d) && d->where < 0;
}

/* The number that one process gives each row of the space. */
static RtCode number_rows(const Maker *k, int64_t space, int64_t *ids)
{
    const RtRankSpace *s = &k->r->spaces[space];
    int64_t n = k->g->spaces[space].count;
    RT_TRY(rt_space_keys(k->r, space, k->st));
    memcpy(ids, s->keys, (size_t)n * 8);
    for (int64_t i = 0; i < k->m->n_graphs; i++) {
        const RtGraphDef *d = &k->m->graphs[i];
        if (d->edge != space || keys_are_numbers(k->m, d)) continue;
        if (d->kind == RT_GRAPH_KEYED)
            return rt_fail(k->st, RT_E_RANKS_REFUSED, rt_string(k->m, d->name), NULL,
                           "random numbers for its edges are keyed by numbers that no process knows");
        bool few = d->kind == RT_GRAPH_SELF_LOOPS && keys_are_numbers(k->m, &k->m->graphs[d->base]);
        return few ? number_loops(k, d, ids) : number_some(k, s, n, ids);
    }
    return RT_OK;
}

/* Random numbers are keyed by the user's ids: those that one process gives its rows. */
static RtCode tell_ids(const Maker *k)
{
    for (int64_t s = 0; s < k->m->n_spaces; s++) {
        RtSpaceData *x = &k->g->spaces[s];
        if (!k->r->spaces[s].shared || !rt_space_needs_ids(k->m, s)) continue;
        RT_TRY(rt_block_alloc(&k->r->ids[s], rt_size_plus(8, x->count, 8), what, k->st));
        x->ids_all = k->r->ids[s].p;
        RT_TRY(number_rows(k, s, x->ids_all));
    }
    return RT_OK;
}

RtCode rt_ranks_collect(RtRanks *r, int64_t space, int64_t row_bytes, const void *rows, RtBlock *all, RtStatus *st)
{
    const RtRankSpace *s = &r->spaces[space];
    int64_t n = r->graph->spaces[space].count;
    RtBlock scratch;
    RtShip ship = {0};
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(rt_size(s->owned, 12), n, 8), "results", st));
    int64_t *to = scratch.p, *from = to + n;
    int32_t *first = (int32_t *)(from + s->owned); /* all go to rank 0 */
    for (int64_t i = 0; i < s->owned; i++) from[i] = i;
    RtCode code = number_rows(&(Maker){r, r->model, r->graph, r->part, st}, space, to);
    if (!code) code = rt_block_alloc(all, rt_size(r->rank ? 0 : s->total, row_bytes), "results", st);
    if (!code) code = rt_ship_push(r, s->owned, from, first, to, &ship, st);
    if (!code) code = rt_ship_run(r, &ship, RT_SITE_SETUP, rows, all->p, row_bytes, st);
    rt_ship_free(&ship);
    rt_block_free(&scratch);
    if (code) rt_block_free(all);
    return code;
}

static RtCode collect_tensor(RtRanks *r, int64_t tensor, const void *rows, RtBlock *all, RtStatus *st)
{
    const RtTensorDef *t = &r->model->tensors[tensor];
    return rt_ranks_collect(r, t->space, t->width * rt_dtype_bytes(t->dtype), rows, all, st);
}

/* Finds the parameters and states that have a row for each node of a shared space: a process updates the rows of nodes
   that it owns, and reads those of its halo, which it gets from their owners. */
static RtCode share_tensors(const Maker *k)
{
    RtSharedRows *x = &k->r->weights;
    x->ranks = k->r;
    x->collect = collect_tensor;
    RT_TRY(rt_alloc(&x->of, k->m->n_tensors, sizeof *x->of, what, k->st));
    for (int64_t i = 0; i < k->m->n_tensors; i++) {
        const RtTensorDef *t = &k->m->tensors[i];
        const RtRankSpace *s = &k->r->spaces[t->space];
        if ((t->kind != RT_PARAM && t->kind != RT_STATE) || !s->shared) continue;
        if (k->m->spaces[t->space].is_edge)
            return rt_fail(k->st, RT_E_RANKS_REFUSED, rt_string(k->m, t->name), NULL,
                           "a parameter or state with a row for each edge cannot be shared by processes");
        x->of[i].ids = s->keys;
        x->of[i].total = s->total;
    }
    return RT_OK;
}

static RtCode refuse_graph(const RtModel *m, const RtGraphDef *d, const RtPart *part, RtStatus *st)
{
    const char *name = rt_string(m, d->name);
    char path[1024], hint[1200];
    if (d->kind == RT_GRAPH_CANDIDATES || d->kind == RT_GRAPH_ANSWERS)
        return rt_fail(st, RT_E_RANKS_REFUSED, name, NULL,
                       "all nodes are candidates, and a process has its own and its halo");
    if (d->kind == RT_GRAPH_COMPOSE && !rt_part_path(part, m, d, path)) {
        snprintf(hint, sizeof hint, "make the parts again: gnnc data partition --paths '%.100s=%s'", name, path);
        return rt_fail(st, RT_E_RANKS_REFUSED, name, *path ? hint : "save the pairs that it joins as edges of the data",
                       "a process has the edges at its nodes, and paths of several lead farther");
    }
    if (d->kind == RT_GRAPH_SELF_LOOPS && d->src_space != d->dst_space)
        return rt_fail(st, RT_E_RANKS_REFUSED, name, NULL,
                       "loops join nodes of two kinds by their numbers, which differ from process to process");
    if (d->kind == RT_GRAPH_COLUMN && !rt_part_edges(part, rt_string(m, d->file)))
        return rt_fail(st, RT_E_RANKS_REFUSED, name,
                       "say in \"relations\" of meta.json which kinds it joins, and make the parts again",
                       "the parts hold %s.npy as numbers, not as edges", rt_string(m, d->file));
    return RT_OK;
}

RtCode rt_ranks_check(const RtModel *m, const RtPart *part, RtStatus *st)
{
    for (int64_t i = 0; i < m->n_graphs; i++) RT_TRY(refuse_graph(m, &m->graphs[i], part, st));
    return RT_OK;
}

static RtCode fill(const Maker *k)
{
    RtRanks *r = k->r;
    RT_TRY(rt_alloc(&r->spaces, k->m->n_spaces, sizeof *r->spaces, what, k->st));
    RT_TRY(rt_alloc(&r->ids, k->m->n_spaces, sizeof *r->ids, what, k->st));
    RT_TRY(make_spaces(k));
    RT_TRY(count_totals(k));
    tell_graph(k);
    RT_TRY(share_tensors(k));
    return tell_ids(k);
}

RtCode rt_ranks_create(const RtModel *m, const RtData *d, const RtPart *part, RtPeers *peers, RtRanks **out,
                       RtStatus *st)
{
    RtRanks *r;
    *out = NULL;
    RT_TRY(rt_alloc(&r, 1, sizeof *r, what, st));
    *r = (RtRanks){.peers = peers,
                   .rank = rt_peers_rank(peers),
                   .n = rt_peers_count(peers),
                   .model = m,
                   .data = d,
                   .graph = d->graph,
                   .part = part,
                   .next_site = RT_SITE_FIRST,
                   .overlap = true,
                   .across = &rt_across};
    RtCode code = fill(&(Maker){r, m, d->graph, part, st});
    if (code) rt_ranks_free(r);
    else *out = r;
    return code;
}

void rt_ranks_free(RtRanks *r)
{
    if (!r) return;
    for (int64_t s = 0; r->spaces && s < r->model->n_spaces; s++)
        for (int i = 0; i < 4; i++) rt_block_free(&r->spaces[s].blocks[i]);
    for (int64_t s = 0; r->ids && s < r->model->n_spaces; s++) rt_block_free(&r->ids[s]);
    for (RtTotalShip *t = r->totals, *next; t; t = next) {
        next = t->next;
        rt_ship_free(&t->ship);
        free(t);
    }
    rt_reach_free(r);
    rt_shards_free(r);
    rt_block_free(&r->room);
    rt_block_free(&r->operands);
    free(r->spaces);
    free(r->ids);
    free(r->weights.of);
    free(r);
}
