/* Bump allocator over a list of malloc'ed chunks; see arena.h for the contract. Under AddressSanitizer each allocation
   has bytes behind it that nobody may touch, and what was not handed out yet is poisoned as well: an overrun ends the
   program. */
#include "base/arena.h"
#include "base/ice.h"
#include "runtime/available.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED)
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 32 };
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
enum { RED_ZONE = 0 };
#endif

enum { CHUNK_BYTES = 1 << 16, ALIGN = 64, ASK_EACH = 64 << 20 };

typedef struct Chunk {
    struct Chunk *next;
    size_t cap, used;
    char *data;
} Chunk;

struct Arena {
    Chunk *head;
    size_t total;
    size_t unasked; /* bytes taken since the machine was asked what it has left */
};

/* Says so in one write and ends the process at once, from whichever thread. */
_Noreturn void memory_exhausted(size_t bytes)
{
    char how_many[64] = "";
    if (bytes) snprintf(how_many, sizeof how_many, ": cannot allocate %zu bytes", bytes);
    fprintf(stderr,
            "gnnc: error[E0619]: out of memory%s\n  = help: use smaller sizes or a smaller file, or free memory\n",
            how_many);
    _Exit(4);
}

void *memory_take(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) memory_exhausted(bytes);
    return p;
}

Arena *arena_new(void)
{
    Arena *a = memory_take(sizeof *a);
    *a = (Arena){0};
    return a;
}

void arena_free(Arena *a)
{
    if (!a) return;
    for (Chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        ASAN_UNPOISON_MEMORY_REGION(c->data, c->cap);
        free(c->data);
        free(c);
    }
    free(a);
}

static Chunk *chunk_new(Arena *a, size_t bytes)
{
    Chunk *c = memory_take(sizeof *c);
    c->used = 0;
    c->cap = (bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES) + ALIGN;
    c->cap = (c->cap + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    a->unasked += c->cap;
    /* what is granted here is written at once: what the machine has left is true each time */
    if (a->unasked >= ASK_EACH) {
        if ((int64_t)c->cap > rt_available()) memory_exhausted(c->cap);
        a->unasked = 0;
    }
    c->data = aligned_alloc(ALIGN, c->cap);
    if (!c->data) memory_exhausted(c->cap);
    ASAN_POISON_MEMORY_REGION(c->data, c->cap);
    c->next = a->head;
    a->head = c;
    return c;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) memory_exhausted(bytes);
    size_t rounded = ((bytes + 15) & ~(size_t)15) + RED_ZONE;
    Chunk *c = a->head;
    size_t at = 0;
    if (c) at = bytes >= ALIGN ? (c->used + ALIGN - 1) & ~(size_t)(ALIGN - 1) : c->used;
    if (!c || at + rounded > c->cap) {
        c = chunk_new(a, rounded);
        at = 0;
    }
    ICE_UNLESS(at % 16 == 0 && at + rounded <= c->cap);
    c->used = at + rounded;
    a->total += bytes;
    ASAN_UNPOISON_MEMORY_REGION(c->data + at, bytes);
    return memset(c->data + at, 0, bytes);
}

void *arena_array(Arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) memory_exhausted(SIZE_MAX);
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
    _Exit(70); /* other threads may be at work: nothing of theirs is torn down */
}
