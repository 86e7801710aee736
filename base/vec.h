/* Growable arrays on an arena. `VEC(T)` declares the type; the old block stays in the arena. */
#pragma once
#include "base/arena.h"
#include <string.h>

#define VEC(T)                                                                                                         \
    struct {                                                                                                           \
        T *data;                                                                                                       \
        uint32_t n, cap;                                                                                               \
    }

/* Appends item (an expression of the element type). */
#define VEC_PUSH(arena, v, item)                                                                                       \
    do {                                                                                                               \
        (v)->data = vec_room((arena), (v)->data, (v)->n, &(v)->cap, sizeof *(v)->data);                                \
        (v)->data[(v)->n++] = (item);                                                                                  \
    } while (0)

/* The block itself where it has room for one more item, else a larger copy. */
static inline void *vec_room(Arena *a, void *old, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return old;
    *cap = *cap ? *cap * 2 : 8;
    void *p = arena_array(a, *cap, size);
    if (n) memcpy(p, old, n * size);
    return p;
}
