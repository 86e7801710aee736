/* Where values lie in the one block of memory of a program: no two that live at the same step overlap. The largest
   first or the longest-lived first, whichever needs less, each in the smallest gap that holds it, ties by number: the
   same sizes and lives give the same places on every machine. The runtime packs at load, when counts are known; the
   compiler does the same to say what a load will need. */
#pragma once
#include <stdint.h>

enum { RT_PACK_ALIGN = 64 };

typedef struct RtPack {
    int64_t bytes;       /* a multiple of RT_PACK_ALIGN */
    int64_t first, last; /* steps, inclusive */
    int64_t at;          /* out: offset */
    int64_t next;        /* private: placed ones by offset; -2: not placed */
} RtPack;

/* Lowest end of a gap among those placed that hold `bytes` during the steps of x; after all of them if none does. */
static inline int64_t rt_pack_gap(const RtPack *p, int64_t head, const RtPack *x)
{
    int64_t free_from = 0, best = -1, best_room = INT64_MAX;
    for (int64_t i = head; i >= 0; i = p[i].next) {
        if (p[i].last < x->first || p[i].first > x->last) continue;
        int64_t room = p[i].at - free_from;
        if (room >= x->bytes && room < best_room) {
            best = free_from;
            best_room = room;
        }
        if (p[i].at + p[i].bytes > free_from) free_from = p[i].at + p[i].bytes;
    }
    return best >= 0 ? best : free_from;
}

static inline int64_t rt_pack_key(const RtPack *p, int longest) { return longest ? p->last - p->first : p->bytes; }

static inline int64_t rt_pack_in_order(RtPack *p, int64_t n, int longest)
{
    int64_t head = -1, total = 0;
    for (int64_t i = 0; i < n; i++) p[i].next = -2;
    for (int64_t round = 0; round < n; round++) {
        int64_t x = -1, *link = &head;
        for (int64_t i = 0; i < n; i++)
            if (p[i].next == -2 && (x < 0 || rt_pack_key(&p[i], longest) > rt_pack_key(&p[x], longest))) x = i;
        p[x].at = rt_pack_gap(p, head, &p[x]);
        if (p[x].bytes > INT64_MAX - p[x].at) return -1;
        if (p[x].at + p[x].bytes > total) total = p[x].at + p[x].bytes;
        while (*link >= 0 && p[*link].at <= p[x].at) link = &p[*link].next;
        p[x].next = *link;
        *link = x;
    }
    return total;
}

/* Bytes of the whole block, or -1 where they overflow. */
static inline int64_t rt_pack(RtPack *p, int64_t n)
{
    int64_t longest = rt_pack_in_order(p, n, 1), largest = rt_pack_in_order(p, n, 0);
    if (longest >= 0 && (largest < 0 || longest < largest)) return rt_pack_in_order(p, n, 1);
    return largest;
}
