/* Text: a growable buffer and a string-keyed map. */
#pragma once
#include "base/arena.h"
#include <stdbool.h>
#include <stdio.h>

/* A growable text buffer. Zero-initialise with an arena; `data` is always NUL-terminated once
   something was added, and NULL before. */
typedef struct StrBuf {
    Arena *arena;
    char *data;
    size_t n, cap;
} StrBuf;

void strbuf_add(StrBuf *b, const char *p, size_t n);
void strbuf_puts(StrBuf *b, const char *s);
void strbuf_printf(StrBuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* s as a JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD. */
void strbuf_json(StrBuf *b, const char *s);
const char *strbuf_cstr(const StrBuf *b); /* "" when empty */

/* Map from string to pointer. Keys are copied into the arena. Iteration order is insertion order
   (entries[0..n)). Zero-initialise with an arena. */
typedef struct StrMapEntry {
    const char *key;
    void *value;
} StrMapEntry;
typedef struct StrMap {
    Arena *arena;
    StrMapEntry *entries;
    uint32_t n, cap;
    uint32_t *slots; /* open addressing, index + 1 into entries */
    uint32_t n_slots;
} StrMap;

void *strmap_get(const StrMap *m, const char *key); /* NULL if absent */
bool strmap_has(const StrMap *m, const char *key);
void strmap_put(StrMap *m, const char *key, void *value); /* replaces */

/* Edit distance (insert, delete, substitute, swap of neighbours), for "did you mean". */
unsigned str_distance(const char *a, const char *b);
/* The nearest of n candidates within a third of the length of s, or NULL. */
const char *str_nearest(const char *s, const char *const *candidates, size_t n);
uint64_t str_hash(const char *p, size_t n); /* FNV-1a */
