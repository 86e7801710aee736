/* How many pairs of a row and a key the data of --data have, for the pass `pairs` and for memory budgets: of their
   edges, whose keys an integer input says. Counts what lies in .npy files of a directory, by a bit for each row and
   key; of the rest, and of what takes too many bits, a usual number is expected, or the most there can be. The runtime
   checks what the files hold when it loads them. */
#include "driver/npy.h"
#include "driver/pipeline.h"
#include <string.h>
#include <unistd.h>

static const int64_t MOST_BITS = (int64_t)1 << 31;

static bool read_integers(Session *s, const char *name, Npy *out)
{
    const char *path = arena_printf(s->arena, "%s/%s.npy", opt_value(&s->opt, OPT_DATA, ""), name);
    IrDtype t;
    if (access(path, F_OK) != 0 || npy_read(s->arena, path, out) || !npy_dtype(out, &t)) return false;
    session_reads(s, path);
    return t == IR_I64 || t == IR_I32;
}

static int64_t count_of(const Npy *x, int64_t first, int64_t n)
{
    double most = -1;
    for (int64_t i = first; i < first + n; i++) most = npy_at(x, i) > most ? npy_at(x, i) : most;
    return most < (double)MOST_BITS ? (int64_t)most + 1 : MOST_BITS;
}

/* How many different pairs of a row and a key n edges have: edge i leads to row edges[first + i] and has the key
   keys[i].
   0: too many to be counted. n_rows: the greatest row and one. */
static double pairs_of(const Npy *edges, int64_t first, int64_t n, const Npy *keys, double *n_rows)
{
    int64_t rows = count_of(edges, first, n), n_keys = count_of(keys, 0, n), found = 0;
    *n_rows = (double)rows;
    if (rows < 1 || n_keys < 1 || n_keys > MOST_BITS / rows) return 0;
    Arena *a = arena_new();
    unsigned char *seen = ARENA_ARRAY(a, unsigned char, (rows * n_keys) / 8 + 1);
    for (int64_t i = 0; i < n; i++) {
        double key = npy_at(keys, i), row = npy_at(edges, first + i);
        if (key < 0 || row < 0) continue;
        int64_t at = (int64_t)key * rows + (int64_t)row;
        unsigned char bit = (unsigned char)(1u << at % 8);
        found += !(seen[at / 8] & bit);
        seen[at / 8] |= bit;
    }
    arena_free(a);
    return (double)found;
}

static bool is_key(const IrModule *m, const IrTensor *t)
{
    if (t->kind != IR_INPUT || t->type.n_dims || (t->type.dtype != IR_I32 && t->type.dtype != IR_I64)) return false;
    for (uint32_t i = 0; i < m->graphs.n; i++)
        if (m->graphs.data[i].kind == IR_GRAPH_DATA && m->graphs.data[i].edge == t->type.space) return true;
    return false;
}

void pipeline_pairs(Session *s, const IrModule *m, PassContext *ctx)
{
    PassPairs *pairs = ARENA_ARRAY(s->arena, PassPairs, m->tensors.n + 1);
    Npy edges = {0}, keys;
    ctx->pairs = pairs;
    if (!opt_has(&s->opt, OPT_DATA)) return;
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        if (!is_key(m, t) || (!edges.data && !read_integers(s, "edge_index", &edges))) continue;
        if (edges.n_dims != 2 || edges.shape[0] != 2 || !read_integers(s, t->name, &keys)) continue;
        PassPairs x = {.input = t->name, .edges = (double)edges.shape[1]};
        if (keys.n_dims != 1 || keys.n != edges.shape[1] || !keys.n) continue;
        x.src_pairs = pairs_of(&edges, 0, keys.n, &keys, &x.src_rows);
        x.dst_pairs = pairs_of(&edges, keys.n, keys.n, &keys, &x.dst_rows);
        if (x.src_pairs && x.dst_pairs) pairs[ctx->n_pairs++] = x;
    }
}
