/* Which part owns which node (or which graph of a batch); contracts in partition.h. Nothing here reads a clock or an
   address: the same input gives the same parts anywhere. */
#include "driver/partition.h"
#include "driver/splitmix.h"
#include <stdlib.h>

void partition_contiguous(const Units *u, int32_t parts, int64_t align, int32_t *owner)
{
    int64_t before = 0;
    int32_t r = 0;
    for (int64_t v = 0, end; v < u->n; v = end) {
        int64_t weight = 0;
        for (end = v; end < u->n && end < v + align; end++) weight += u->weight[end];
        /* The part whose share holds the middle of these units' work. */
        while (r + 1 < parts &&
               2 * before + weight >= 2 * (u->total / parts * (r + 1) + u->total % parts * (r + 1) / parts))
            r++;
        for (int64_t i = v; i < end; i++) owner[i] = r;
        before += weight;
    }
}

void partition_random(const Units *u, int32_t parts, uint64_t seed, int32_t *owner)
{
    uint64_t key = splitmix(&seed);
    for (int64_t v = 0; v < u->n; v++) {
        uint64_t state = key + (uint64_t)v;
        owner[v] = (int32_t)((splitmix(&state) >> 32) * (uint64_t)parts >> 32);
    }
}

/* Of parts that have as little of the kind, the one that has least of all. */
static int32_t least_loaded(const int64_t *load, const int64_t *all, int32_t parts)
{
    int32_t least = 0;
    for (int32_t r = 1; r < parts; r++)
        if (load[r] < load[least] || (load[r] == load[least] && all[r] < all[least])) least = r;
    return least;
}

/* The kind's units: [*from, *to). */
static void kind_range(const Units *u, int32_t kind, int64_t *from, int64_t *to)
{
    *from = u->first ? u->first[kind] : 0;
    *to = u->first ? u->first[kind + 1] : u->n;
}

static int32_t n_kinds(const Units *u) { return u->first ? u->n_kinds : 1; }

typedef struct Weighed {
    int64_t weight, unit;
} Weighed;

static int heaviest_first(const void *a, const void *b)
{
    const Weighed *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

void partition_balance(Arena *a, const Units *u, int32_t parts, int32_t *owner)
{
    Weighed *list = ARENA_ARRAY(a, Weighed, u->n);
    int64_t *load = ARENA_ARRAY(a, int64_t, parts), *all = ARENA_ARRAY(a, int64_t, parts), from, to;
    for (int64_t v = 0; v < u->n; v++) list[v] = (Weighed){u->weight[v], v};
    for (int32_t k = 0; k < n_kinds(u); k++) {
        kind_range(u, k, &from, &to);
        memset(load, 0, (size_t)parts * sizeof *load);
        qsort(list + from, (size_t)(to - from), sizeof *list, heaviest_first);
        for (int64_t i = from; i < to; i++) {
            int32_t r = least_loaded(load, all, parts);
            owner[list[i].unit] = r;
            load[r] += list[i].weight;
            all[r] += list[i].weight;
        }
    }
}

/* Linear deterministic greedy: v goes where (neighbours there) * (1 - load / capacity) is largest (Stanton, Kliot,
   KDD 2012), of its kind's load and capacity. The stream is read several times; from the second on, neighbours that it
   has not come to yet count where they were put the last time (restreaming: Nishimura, Ugander, KDD 2013). */
void partition_ldg(Arena *a, const Units *u, int32_t parts, int32_t *owner)
{
    enum { PASSES = 10 };
    int64_t *load = ARENA_ARRAY(a, int64_t, parts), *all = ARENA_ARRAY(a, int64_t, parts);
    int64_t *near = ARENA_ARRAY(a, int64_t, parts), from, to;
    for (int64_t v = 0; v < u->n; v++) owner[v] = -1;
    for (int turn = 0; turn < PASSES * n_kinds(u); turn++) {
        int32_t kind = turn % n_kinds(u);
        int64_t total = 0;
        kind_range(u, kind, &from, &to);
        for (int64_t v = from; v < to; v++) total += u->weight[v];
        const double capacity = 1.05 * (double)total / parts;
        memset(load, 0, (size_t)parts * sizeof *load);
        if (!kind) memset(all, 0, (size_t)parts * sizeof *all);
        for (int64_t v = from; v < to; v++) {
            memset(near, 0, (size_t)parts * sizeof *near);
            for (int64_t i = u->offsets[v]; i < u->offsets[v + 1]; i++)
                if (owner[u->neighbours[i]] >= 0) near[owner[u->neighbours[i]]]++;
            int32_t best = -1;
            double most = 0;
            for (int32_t r = 0; r < parts; r++) {
                double after = (double)(load[r] + u->weight[v]);
                double score = after > capacity ? 0 : (double)near[r] * (1 - (double)load[r] / capacity);
                if (score > most) best = r, most = score;
            }
            if (best < 0) best = least_loaded(load, all, parts);
            owner[v] = best;
            load[best] += u->weight[v];
            all[best] += u->weight[v];
        }
    }
}
