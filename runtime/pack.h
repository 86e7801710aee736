/* Where values lie in the one block of memory of a program, or in rooms: results' memory, which the caller gives and
   which holds nothing until the result is written. No two values that live at the same step overlap. First each lies in
   a room that has place for it, then the others in the block; the largest first, the longest-lived first, or those of
   the step first at which most bytes live (greedy by breadth: Pisarchyk, Lee, "Efficient memory management for deep
   neural net inference", 2020), whichever makes the block smaller, each in the smallest gap that holds it, ties by
   number: the same sizes and lives give the same places on every machine. The runtime packs at load, when counts are
   known; the compiler does the same to say what a load will need. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { RT_PACK_ALIGN = 64 };
/* Who is given a place first. RT_PACK_WIDEST: of the same step the larger ones. */
typedef enum RtPackOrder { RT_PACK_LARGEST, RT_PACK_LONGEST, RT_PACK_WIDEST, RT_PACK_ORDERS } RtPackOrder;

typedef struct RtPack {
    int64_t bytes;       /* a multiple of RT_PACK_ALIGN */
    int64_t first, last; /* steps, inclusive */
    int64_t used;        /* so many of the bytes hold something, of what may lie in a room; 0: it may not */
    int64_t room;        /* out: 1 + the room that it lies in; 0: the block */
    int64_t at;          /* out: offset there */
    int64_t next;        /* private: placed ones by offset; -2: not placed */
    int64_t widest;      /* private: bytes that live at the widest step of its life */
} RtPack;

typedef struct RtPackRoom {
    int64_t bytes; /* any number */
    int64_t until; /* the first step that wants the memory for itself */
    int64_t head;  /* private */
} RtPackRoom;

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

/* Of those that lie in no room: the most bytes that live at one step. They grow only where a life begins, so no other
   step is the widest one. */
static inline int64_t rt_pack_widths(RtPack *p, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) p[i].widest = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t step = p[i].first, width = 0;
        if (p[i].room) continue;
        for (int64_t k = 0; k < n; k++)
            if (!p[k].room && p[k].first <= step && step <= p[k].last)
                width = p[k].bytes > INT64_MAX - width ? INT64_MAX : width + p[k].bytes;
        for (int64_t k = 0; k < n; k++)
            if (p[k].first <= step && step <= p[k].last && p[k].widest < width) p[k].widest = width;
        if (most < width) most = width;
    }
    return most;
}

static inline int rt_pack_before(const RtPack *a, const RtPack *b, RtPackOrder order)
{
    if (order == RT_PACK_LONGEST) return a->last - a->first > b->last - b->first;
    if (order == RT_PACK_WIDEST && a->widest != b->widest) return a->widest > b->widest;
    return a->bytes > b->bytes;
}

/* The next one that has no place; -1: all have one. */
static inline int64_t rt_pack_next(const RtPack *p, int64_t n, RtPackOrder order)
{
    int64_t x = -1;
    for (int64_t i = 0; i < n; i++)
        if (p[i].next == -2 && (x < 0 || rt_pack_before(&p[i], &p[x], order))) x = i;
    return x;
}

static inline void rt_pack_link(RtPack *p, int64_t *head, int64_t x)
{
    while (*head >= 0 && p[*head].at <= p[x].at) head = &p[*head].next;
    p[x].next = *head;
    *head = x;
}

/* Of the rooms that have place the one that is wanted first: the others take in what lives longer. */
static inline void rt_pack_in_rooms(RtPack *p, int64_t n, RtPackRoom *rooms, int64_t n_rooms, RtPackOrder order)
{
    for (int64_t i = 0; i < n; i++) p[i].room = 0, p[i].next = p[i].used ? -2 : -1;
    for (int64_t r = 0; r < n_rooms; r++) rooms[r].head = -1;
    rt_pack_widths(p, n);
    for (int64_t x; (x = rt_pack_next(p, n, order)) >= 0;) {
        int64_t best = -1;
        for (int64_t r = 0; r < n_rooms; r++) {
            if (rooms[r].until <= p[x].last || rooms[r].bytes < p[x].used) continue;
            if (best >= 0 && rooms[r].until >= rooms[best].until) continue;
            int64_t at = rt_pack_gap(p, rooms[r].head, &p[x]);
            if (at > rooms[r].bytes - p[x].used) continue;
            best = r;
            p[x].at = at;
        }
        p[x].next = -1;
        if (best < 0) continue;
        p[x].room = best + 1;
        rt_pack_link(p, &rooms[best].head, x);
    }
}

/* Those that lie in no room. */
static inline int64_t rt_pack_in_order(RtPack *p, int64_t n, RtPackOrder order)
{
    int64_t head = -1, total = 0;
    for (int64_t i = 0; i < n; i++) p[i].next = p[i].room ? -1 : -2;
    for (int64_t x; (x = rt_pack_next(p, n, order)) >= 0;) {
        p[x].at = rt_pack_gap(p, head, &p[x]);
        if (p[x].bytes > INT64_MAX - p[x].at) return -1;
        if (p[x].at + p[x].bytes > total) total = p[x].at + p[x].bytes;
        rt_pack_link(p, &head, x);
    }
    return total;
}

/* Bytes of the whole block, or -1 where they overflow. */
static inline int64_t rt_pack(RtPack *p, int64_t n, RtPackRoom *rooms, int64_t n_rooms)
{
    int64_t least = -1;
    RtPackOrder in_rooms = RT_PACK_LARGEST, in_block = RT_PACK_LARGEST;
    for (int r = 0; r < (n_rooms ? RT_PACK_ORDERS : 1); r++) {
        rt_pack_in_rooms(p, n, rooms, n_rooms, (RtPackOrder)r);
        int64_t bound = rt_pack_widths(p, n), total = -1;
        for (int k = 0; k < RT_PACK_ORDERS && total != bound; k++) {
            total = rt_pack_in_order(p, n, (RtPackOrder)k);
            if (total < 0 || (least >= 0 && total >= least)) continue;
            least = total, in_rooms = (RtPackOrder)r, in_block = (RtPackOrder)k;
        }
    }
    rt_pack_in_rooms(p, n, rooms, n_rooms, in_rooms);
    rt_pack_widths(p, n);
    return rt_pack_in_order(p, n, in_block);
}
