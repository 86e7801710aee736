/* The pairs of a row and a key that elements have: the edges of a graph `keyed`, by key, then by row. Made when an
   input says the keys. Elements are sorted twice by counting, stable: by row, then by key; equal ones stand side by
   side. Of a process that owns the first rows, pairs of these come before the others. */
#include "runtime/graph_list.h"
#include <assert.h>
#include <string.h>

/* out: the elements of `order` by what `of` says of each, stable; those of which it says -1 are left out. n_out: how
   many stay. at: [n_values + 1] zeros. */
static int64_t sort_by(const int32_t *of, const int32_t *order, int64_t n, int64_t n_values, int64_t *at, int32_t *out)
{
    int64_t n_out = 0;
    for (int64_t i = 0; i < n; i++)
        if (of[i] >= 0) at[of[i] + 1]++, n_out++;
    for (int64_t v = 0; v < n_values; v++) at[v + 1] += at[v];
    for (int64_t i = 0; i < n; i++) {
        int32_t e = order ? order[i] : (int32_t)i;
        if (of[e] >= 0) out[at[of[e]]++] = e;
    }
    return n_out;
}

/* Numbers the pairs in `image`, from n_pairs on, of rows from `least` to below `end`; from: [pairs] an element of
   each. */
static int64_t number_pairs(const int32_t *row, const int32_t *key, const int32_t *order, int64_t n, int64_t least,
                            int64_t end, int64_t n_pairs, int32_t *image, int32_t *from)
{
    for (int64_t i = 0, before = -1; i < n; i++) {
        int32_t e = order[i];
        if (row[e] < least || row[e] >= end) continue;
        if (before < 0 || row[e] != row[before] || key[e] != key[before]) from[n_pairs++] = e;
        image[e] = (int32_t)(n_pairs - 1);
        before = e;
    }
    return n_pairs;
}

RtCode rt_graph_build_keyed(RtGraph *g, const RtGraphDef *d, int64_t n_owned, RtStatus *st)
{
    const int32_t *row = g->maps[d->batch].to, *key = g->maps[d->of].to;
    int64_t n = g->spaces[g->model->maps[d->of].from].count, n_rows = g->spaces[d->src_space].count,
            n_keys = g->spaces[d->dst_space].count;
    RtBlock block;
    assert(row && key && n_owned <= n_rows);
    RT_TRY(
        rt_block_alloc(&block, rt_size_plus(rt_size_plus(16, n_rows + n_keys, 8), n, 8), "pairs of rows and keys", st));
    int64_t *by_row = block.p, *by_key = by_row + n_rows + 1;
    int32_t *first = (int32_t *)(by_key + n_keys + 1), *second = first + n;
    RtCode code = rt_graph_alloc(g, n, 4, &g->maps[d->image].to, st);
    if (!code) {
        int32_t *image = g->maps[d->image].to;
        for (int64_t e = 0; e < n; e++) image[e] = -1;
        sort_by(row, NULL, n, n_rows, by_row, first);
        int64_t n_said = sort_by(key, first, n, n_keys, by_key, second);
        int64_t n_pairs = number_pairs(row, key, second, n_said, 0, n_owned, 0, image, first);
        n_pairs = number_pairs(row, key, second, n_said, n_owned, n_rows, n_pairs, image, first);
        code = rt_graph_set_count(g, d->edge, n_pairs, st);
        if (!code) code = rt_graph_alloc(g, n_pairs, 4, &g->maps[d->src].to, st);
        if (!code) code = rt_graph_alloc(g, n_pairs, 4, &g->maps[d->dst].to, st);
        for (int64_t i = 0; i < n_pairs && !code; i++) {
            g->maps[d->src].to[i] = row[first[i]];
            g->maps[d->dst].to[i] = key[first[i]];
        }
    }
    rt_block_free(&block);
    return code;
}
