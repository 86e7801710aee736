/* Bump allocator. Nothing is freed one by one; a whole arena is freed at once.
   Two lifetimes exist in the compiler: session (AST, symbols, diagnostics) and stage (one IR
   generation). Not thread-safe: one arena belongs to one thread. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a); /* NULL is fine */

/* Zeroed memory of `bytes` bytes, aligned to 16 (to 64 from 64 bytes on). Never NULL: out of memory ends the process
   with exit code 4. */
void *arena_alloc(Arena *a, size_t bytes);
/* The same for n items of `size` bytes; an overflowing product is out of memory. */
void *arena_array(Arena *a, size_t n, size_t size);
/* A copy of [p, p+n) with a NUL behind it. */
char *arena_strndup(Arena *a, const char *p, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
size_t arena_bytes(const Arena *a); /* bytes asked for so far */

/* Memory of the heap for libraries that want a function for it. Never NULL. */
void *memory_take(size_t bytes);
/* E0619, exit code 4: what allocators do that cannot go on. bytes: 0 where they are not known. */
_Noreturn void memory_exhausted(size_t bytes);

#define ARENA_NEW(a, T)      ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_array((a), (size_t)(n), sizeof(T)))
