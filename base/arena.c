/* Bump allocator over a list of malloc'ed chunks; see arena.h for the contract. */
#include "base/arena.h"
#include "base/ice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 16, ALIGN = 64 };

typedef struct Chunk {
    struct Chunk *next;
    size_t cap, used;
    char *data;
} Chunk;

struct Arena {
    Chunk *head;
    size_t total;
};

static _Noreturn void out_of_memory(void)
{
    fputs("gnnc: error: out of memory\n", stderr);
    exit(4);
}

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a) out_of_memory();
    return a;
}

void arena_free(Arena *a)
{
    if (!a) return;
    for (Chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        free(c->data);
        free(c);
    }
    free(a);
}

static Chunk *chunk_new(Arena *a, size_t bytes)
{
    Chunk *c = calloc(1, sizeof *c);
    if (!c) out_of_memory();
    c->cap = (bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES) + ALIGN;
    c->cap = (c->cap + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    c->data = aligned_alloc(ALIGN, c->cap);
    if (!c->data) out_of_memory();
    c->next = a->head;
    a->head = c;
    return c;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) out_of_memory();
    size_t rounded = (bytes + 15) & ~(size_t)15;
    Chunk *c = a->head;
    size_t at = 0;
    if (c) at = bytes >= ALIGN ? (c->used + ALIGN - 1) & ~(size_t)(ALIGN - 1) : c->used;
    if (!c || at + rounded > c->cap) {
        c = chunk_new(a, rounded);
        at = 0;
    }
    c->used = at + rounded;
    a->total += bytes;
    return memset(c->data + at, 0, rounded);
}

void *arena_array(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) out_of_memory();
    return arena_alloc(a, bytes);
}

char *arena_strndup(Arena *a, const char *p, size_t n)
{
    char *s = arena_alloc(a, n + 1);
    if (n) memcpy(s, p, n);
    return s;
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    ICE_UNLESS(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

size_t arena_bytes(const Arena *a) { return a->total; }

_Noreturn void ice_fail(const char *file, int line, const char *what)
{
    fprintf(stderr,
            "gnnc: internal error at %s:%d: %s\n"
            "  this is a bug in gnnc, not in your program; to replay it, keep the input files and\n"
            "  the command line, and run the same command with --verify=roundtrip\n",
            file, line, what);
    exit(70);
}
