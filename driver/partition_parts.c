/* What each part holds once it is known who owns which node; contract in partition.h. */
#include "driver/partition.h"
#include <stdlib.h>

/* A row that another process computes takes as long as so many edges: it goes over a network that is slower than
   memory by about this factor. It only ranks partitions (`--objective both`). */
enum { EDGES_PER_HALO_ROW = 8 };

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Ids of owners' items, part after part, ascending in each; *first: where each part's begin. */
static int32_t *by_part(Arena *a, const int32_t *owner, int64_t n, int32_t n_parts, int64_t **first)
{
    int32_t *ids = ARENA_ARRAY(a, int32_t, n);
    int64_t *at = ARENA_ARRAY(a, int64_t, n_parts + 1);
    *first = ARENA_ARRAY(a, int64_t, n_parts + 1);
    for (int64_t i = 0; i < n; i++) at[owner[i] + 1]++;
    for (int32_t r = 0; r < n_parts; r++) at[r + 1] += at[r];
    memcpy(*first, at, ((size_t)n_parts + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++) ids[at[owner[i]]++] = (int32_t)i;
    return ids;
}

static void put_edges(Arena *a, const Folder *f, Split *s)
{
    int32_t **ids = ARENA_ARRAY(a, int32_t *, s->n_parts);
    for (int64_t e = 0; e < f->edges; e++) {
        int32_t from = s->owner[f->src[e]], to = s->owner[f->dst[e]];
        s->parts[from].edges_out++;
        s->parts[to].edges_in++;
        s->parts[from].edges++;
        if (from != to) s->parts[to].edges++, s->cut++;
    }
    for (int32_t r = 0; r < s->n_parts; r++) {
        s->parts[r].edge_ids = ids[r] = ARENA_ARRAY(a, int32_t, s->parts[r].edges);
    }
    for (int64_t e = 0; e < f->edges; e++) {
        int32_t from = s->owner[f->src[e]], to = s->owner[f->dst[e]];
        *ids[from]++ = (int32_t)e;
        if (from != to) *ids[to]++ = (int32_t)e;
    }
}

/* A column has an edge of each of its sources, so that what those of the halo lead to is read as well. */
static void add_columns(const Folder *f, Split *s, int32_t r, int32_t *seen, int32_t *halo)
{
    Part *p = &s->parts[r];
    for (int64_t i = 0; i < p->halo; i++)
        for (int32_t k = 0; k < f->n_relations; k++) {
            const Relation *x = &f->relations[k];
            int64_t row = halo[i] - f->kinds[x->from].first;
            if (!x->column || row < 0 || row >= f->kinds[x->from].n) continue;
            int32_t to = f->dst[x->first + row];
            if (s->owner[to] == r || seen[to] == r + 1) continue;
            seen[to] = r + 1;
            halo[p->halo++] = to;
            s->parts[s->owner[to]].sent++;
        }
}

/* Those of n ascending ids that lie in [from, to), less `from`; *count: how many. */
static void slice(const int32_t *ids, int64_t n, int64_t from, int64_t to, int32_t *out, int64_t *count)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= from && ids[i] < to) out[(*count)++] = (int32_t)(ids[i] - from);
}

/* The part's nodes by kind, its edges by relation. */
static void divide(Arena *a, const Folder *f, Part *p)
{
    PartNodes *kinds = ARENA_ARRAY(a, PartNodes, f->n_kinds);
    PartEdges *relations = ARENA_ARRAY(a, PartEdges, f->n_relations);
    int64_t done = 0;
    int32_t *ids = ARENA_ARRAY(a, int32_t, p->owned + p->halo);
    for (int32_t k = 0; k < f->n_kinds; k++) {
        int64_t from = f->kinds[k].first, to = from + f->kinds[k].n, n = 0;
        kinds[k].ids = ids + done;
        slice(p->nodes, p->inner, from, to, ids + done, &n);
        kinds[k].inner = n;
        slice(p->nodes + p->inner, p->owned - p->inner, from, to, ids + done, &n);
        kinds[k].owned = n;
        slice(p->nodes + p->owned, p->halo, from, to, ids + done, &n);
        kinds[k].halo = n - kinds[k].owned;
        done += n;
    }
    for (int32_t k = 0; k < f->n_relations; k++) {
        const Relation *x = &f->relations[k];
        const PartNodes *from = &kinds[x->from];
        int64_t n = x->column ? from->owned + from->halo : p->edges;
        int32_t *edges = ARENA_ARRAY(a, int32_t, n);
        if (!x->column) slice(p->edge_ids, n, x->first, x->first + x->n, edges, &relations[k].n);
        if (x->column && n) {
            memcpy(edges, from->ids, (size_t)n * sizeof *edges);
            qsort(edges, (size_t)n, sizeof *edges, ascending);
            relations[k].n = n;
        }
        relations[k].ids = edges;
    }
    p->kinds = kinds;
    p->relations = relations;
}

/* seen [nodes]: the last part, plus 1, that a node was put into the halo of, or at whose border it was found. */
static void put_nodes(Arena *a, const Folder *f, Split *s, int32_t r, const int32_t *owned, int32_t *seen,
                      int32_t *halo)
{
    Part *p = &s->parts[r];
    for (int64_t i = 0; i < p->edges; i++) {
        const int32_t ends[] = {f->src[p->edge_ids[i]], f->dst[p->edge_ids[i]]};
        for (int k = 0; k < 2; k++) {
            if (s->owner[ends[k]] == r) continue;
            seen[ends[1 - k]] = r + 1;
            if (seen[ends[k]] == r + 1) continue;
            seen[ends[k]] = r + 1;
            halo[p->halo++] = ends[k];
            s->parts[s->owner[ends[k]]].sent++;
        }
    }
    add_columns(f, s, r, seen, halo);
    qsort(halo, (size_t)p->halo, sizeof *halo, ascending);
    int32_t *nodes = ARENA_ARRAY(a, int32_t, p->owned + p->halo);
    for (int64_t i = 0; i < p->owned; i++)
        if (seen[owned[i]] != r + 1) nodes[p->inner++] = owned[i];
    for (int64_t i = 0, at = p->inner; i < p->owned; i++)
        if (seen[owned[i]] == r + 1) nodes[at++] = owned[i];
    if (p->halo) memcpy(nodes + p->owned, halo, (size_t)p->halo * sizeof *nodes);
    p->nodes = nodes;
}

/* The work of the part that has most of each kind, in all. */
static int64_t most_by_kind(Arena *a, const Folder *f, const Split *s)
{
    int64_t *work = ARENA_ARRAY(a, int64_t, (int64_t)f->n_kinds * s->n_parts), sum = 0;
    for (int32_t k = 0; k < f->n_kinds; k++)
        for (int32_t r = 0; r < s->n_parts; r++) work[k * s->n_parts + r] = s->parts[r].kinds[k].owned;
    for (int32_t k = 0; k < f->n_relations; k++) {
        const Relation *x = &f->relations[k];
        for (int64_t e = x->first; e < x->first + x->n; e++) {
            work[x->from * s->n_parts + s->owner[f->src[e]]]++;
            work[x->to * s->n_parts + s->owner[f->dst[e]]]++;
        }
    }
    for (int32_t k = 0; k < f->n_kinds; k++) {
        int64_t most = 0;
        for (int32_t r = 0; r < s->n_parts; r++)
            if (work[k * s->n_parts + r] > most) most = work[k * s->n_parts + r];
        sum += most;
    }
    return sum;
}

Split partition_split(Arena *a, const Folder *f, int32_t n_parts, const int32_t *owner, const int32_t *graph_owner)
{
    Split s = {.n_parts = n_parts, .owner = owner, .parts = ARENA_ARRAY(a, Part, n_parts), .balance = 1};
    int64_t *first, most = 0, sum = 0, by_kind;
    int32_t *owned = by_part(a, owner, f->nodes, n_parts, &first);
    int32_t *seen = ARENA_ARRAY(a, int32_t, f->nodes), *halo = ARENA_ARRAY(a, int32_t, f->nodes);
    put_edges(a, f, &s);
    for (int32_t r = 0; r < n_parts; r++) {
        s.parts[r].owned = first[r + 1] - first[r];
        put_nodes(a, f, &s, r, owned + first[r], seen, halo);
        divide(a, f, &s.parts[r]);
    }
    if (graph_owner) {
        int32_t *graphs = by_part(a, graph_owner, f->graphs, n_parts, &first);
        for (int32_t r = 0; r < n_parts; r++)
            s.parts[r].graph_ids = graphs + first[r], s.parts[r].graphs = first[r + 1] - first[r];
    }
    for (int32_t r = 0; r < n_parts; r++) {
        const Part *p = &s.parts[r];
        int64_t work = p->owned + p->edges_in + p->edges_out;
        double cost = (double)work + (double)EDGES_PER_HALO_ROW * (double)(p->halo + p->sent);
        s.halo += p->halo;
        sum += work;
        if (p->halo > s.halo_most) s.halo_most = p->halo;
        if (work > most) most = work;
        if (cost > s.cost) s.cost = cost;
    }
    by_kind = most_by_kind(a, f, &s);
    s.cost += (double)(by_kind - most); /* parts wait for one another between kinds */
    if (sum) s.balance = (double)by_kind * n_parts / (double)sum;
    return s;
}
