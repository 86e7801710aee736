/* Which rows maps lead to, as bits of a space's rows: they follow from what a process has of the graph, and steps of
   all programs ask for the same few, so each is found once and kept (see ranks_part.h). Loops over elements are without
   a branch for each, since nobody foretells them. */
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdlib.h>

static const char what[] = "rows that maps lead to";

typedef enum { ELEMENTS, ROWS, READERS } Kind;

struct RtReach {
    Kind kind;
    int64_t under, image;
    RtBlock bits;
    struct RtReach *next;
};

static void put_if(uint64_t *bits, int64_t i, bool yes) { bits[i >> 6] |= (uint64_t)yes << (i & 63); }

static void fill_elements(const RtRanks *r, int64_t under, uint64_t *bits)
{
    const RtMapDef *m = &r->model->maps[under];
    const int32_t *to = r->graph->maps[under].to;
    int64_t n = r->graph->spaces[m->from].count, owned = r->spaces[m->to].owned;
    for (int64_t e = 0; e < n; e += 64) {
        uint64_t word = 0;
        for (int64_t i = e; i < n && i < e + 64; i++) word |= (uint64_t)((to[i] >= 0) & (to[i] < owned)) << (i & 63);
        bits[e >> 6] = word;
    }
}

static void fill_rows(const RtRanks *r, int64_t under, int64_t image, uint64_t *bits)
{
    const RtMapDef *m = &r->model->maps[image];
    const int32_t *of = under < 0 ? NULL : r->graph->maps[under].to, *to = r->graph->maps[image].to;
    int64_t n = of ? r->graph->spaces[m->from].count : r->spaces[m->from].owned, owned = r->spaces[m->to].owned,
            most = of ? r->spaces[r->model->maps[under].to].owned : 0;
    for (int64_t e = 0; e < n; e++)
        put_if(bits, to[e] < 0 ? 0 : to[e], (to[e] >= owned) & (!of || ((of[e] >= 0) & (of[e] < most))));
}

static void fill_readers(const RtRanks *r, int64_t under, int64_t image, uint64_t *bits)
{
    const RtMapDef *m = &r->model->maps[under];
    const int32_t *of = r->graph->maps[under].to, *to = image < 0 ? NULL : r->graph->maps[image].to;
    int64_t n = r->graph->spaces[m->from].count,
            owned = r->spaces[image < 0 ? m->from : r->model->maps[image].to].owned;
    for (int64_t e = 0; e < n; e++) put_if(bits, of[e] < 0 ? 0 : of[e], (of[e] >= 0) & ((to ? to[e] : e) >= owned));
}

static RtCode reach(RtRanks *r, Kind kind, int64_t under, int64_t image, const uint64_t **bits, RtStatus *st)
{
    const RtMapDef *maps = r->model->maps;
    struct RtReach *x = r->reached;
    while (x && (x->kind != kind || x->under != under || x->image != image)) x = x->next;
    if (!x) {
        int64_t space = kind == ELEMENTS ? maps[under].from : kind == ROWS ? maps[image].to : maps[under].to;
        RT_TRY(rt_alloc(&x, 1, sizeof *x, what, st));
        *x = (struct RtReach){.kind = kind, .under = under, .image = image, .next = r->reached};
        RtCode code = rt_block_alloc(&x->bits, rt_size(r->graph->spaces[space].count / 64 + 1, 8), what, st);
        if (code) free(x);
        if (code) return code;
        r->reached = x;
        if (kind == ELEMENTS) fill_elements(r, under, x->bits.p);
        else if (kind == ROWS) fill_rows(r, under, image, x->bits.p);
        else fill_readers(r, under, image, x->bits.p);
    }
    *bits = x->bits.p;
    return RT_OK;
}

RtCode rt_reach_elements(RtRanks *r, int64_t under, const uint64_t **bits, RtStatus *st)
{
    assert(r->spaces[r->model->maps[under].to].shared);
    return reach(r, ELEMENTS, under, -1, bits, st);
}

RtCode rt_reach_rows(RtRanks *r, int64_t under, int64_t image, const uint64_t **bits, RtStatus *st)
{
    assert(under < 0 || r->model->maps[under].from == r->model->maps[image].from);
    return reach(r, ROWS, under, image, bits, st);
}

RtCode rt_reach_readers(RtRanks *r, int64_t under, int64_t image, const uint64_t **bits, RtStatus *st)
{
    assert(image < 0 || r->model->maps[under].from == r->model->maps[image].from);
    return reach(r, READERS, under, image, bits, st);
}

int64_t rt_reach_bytes(const RtRanks *r)
{
    int64_t bytes = 0;
    for (const struct RtReach *x = r->reached; x; x = x->next) bytes += (int64_t)x->bits.bytes;
    return bytes;
}

void rt_reach_free(RtRanks *r)
{
    if (!r) return;
    for (struct RtReach *x = r->reached, *next; x; x = next) {
        next = x->next;
        rt_block_free(&x->bits);
        free(x);
    }
    r->reached = NULL;
}
