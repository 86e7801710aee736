/* Text buffer, string map and edit distance; contracts in str.h. */
#include "base/str.h"
#include "base/ice.h"
#include <stdlib.h>
#include <string.h>

static void reserve(StrBuf *b, size_t extra)
{
    if (b->n + extra + 1 <= b->cap) return;
    ICE_UNLESS(b->arena && b->n <= b->cap);
    size_t cap = b->cap ? b->cap : 128;
    while (cap < b->n + extra + 1) cap *= 2;
    char *p = arena_alloc(b->arena, cap);
    if (b->n) memcpy(p, b->data, b->n);
    b->data = p;
    b->cap = cap;
}

void strbuf_add(StrBuf *b, const char *p, size_t n)
{
    reserve(b, n);
    if (n) memcpy(b->data + b->n, p, n);
    b->n += n;
    b->data[b->n] = 0;
}

void strbuf_puts(StrBuf *b, const char *s) { strbuf_add(b, s, strlen(s)); }

void strbuf_printf(StrBuf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    ICE_UNLESS(n >= 0);
    reserve(b, (size_t)n);
    vsnprintf(b->data + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

/* Length of the valid UTF-8 sequence at p, or 0. */
static size_t utf8_len(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0))) return 0;
    if (n == 4 && ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))) return 0;
    return n;
}

void strbuf_json(StrBuf *b, const char *s)
{
    strbuf_puts(b, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        size_t n = utf8_len(p);
        if (*p == '"' || *p == '\\') strbuf_printf(b, "\\%c", *p);
        else if (*p == '\n') strbuf_puts(b, "\\n");
        else if (*p == '\t') strbuf_puts(b, "\\t");
        else if (*p < 0x20) strbuf_printf(b, "\\u%04x", *p);
        else if (n) strbuf_add(b, (const char *)p, n);
        else strbuf_puts(b, "\xef\xbf\xbd");
        p += n ? n : 1;
    }
    strbuf_puts(b, "\"");
}

const char *strbuf_cstr(const StrBuf *b) { return b->data ? b->data : ""; }

uint64_t str_hash(const char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 1099511628211u;
    return h;
}

/* Slot that holds key, or the empty slot where it belongs. */
static uint32_t find_slot(const StrMap *m, const char *key)
{
    /* a slot is free, or the search would not end */
    ICE_UNLESS(m->n < m->n_slots && !(m->n_slots & (m->n_slots - 1)));
    uint32_t i = (uint32_t)str_hash(key, strlen(key)) & (m->n_slots - 1);
    while (m->slots[i] && strcmp(m->entries[m->slots[i] - 1].key, key) != 0) i = (i + 1) & (m->n_slots - 1);
    return i;
}

static StrMapEntry *find(const StrMap *m, const char *key)
{
    if (!m->n) return NULL;
    uint32_t s = m->slots[find_slot(m, key)];
    return s ? &m->entries[s - 1] : NULL;
}

void *strmap_get(const StrMap *m, const char *key)
{
    StrMapEntry *e = find(m, key);
    return e ? e->value : NULL;
}

bool strmap_has(const StrMap *m, const char *key) { return find(m, key) != NULL; }

static void grow_map(StrMap *m)
{
    uint32_t cap = m->cap ? m->cap * 2 : 16;
    StrMapEntry *entries = ARENA_ARRAY(m->arena, StrMapEntry, cap);
    if (m->n) memcpy(entries, m->entries, m->n * sizeof *entries);
    m->entries = entries;
    m->cap = cap;
    m->n_slots = cap * 2;
    m->slots = ARENA_ARRAY(m->arena, uint32_t, m->n_slots);
    for (uint32_t i = 0; i < m->n; i++) m->slots[find_slot(m, entries[i].key)] = i + 1;
}

void strmap_put(StrMap *m, const char *key, void *value)
{
    StrMapEntry *e = find(m, key);
    if (e) {
        e->value = value;
        return;
    }
    if (m->n == m->cap) grow_map(m);
    m->entries[m->n] = (StrMapEntry){arena_strndup(m->arena, key, strlen(key)), value};
    m->slots[find_slot(m, key)] = m->n + 1;
    m->n++;
}

enum { DISTANCE_MAX_LEN = 64 };

unsigned str_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > DISTANCE_MAX_LEN || nb > DISTANCE_MAX_LEN) return DISTANCE_MAX_LEN;
    unsigned row[3][DISTANCE_MAX_LEN + 1];
    for (size_t j = 0; j <= nb; j++) row[1][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *prev2 = row[(i + 2) % 3], *prev = row[i % 3], *cur = row[(i + 1) % 3];
        cur[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned cost = a[i - 1] != b[j - 1];
            unsigned best = prev[j - 1] + cost;
            if (prev[j] + 1 < best) best = prev[j] + 1;
            if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && prev2[j - 2] + 1 < best)
                best = prev2[j - 2] + 1;
            cur[j] = best;
        }
    }
    return row[(na + 1) % 3][nb];
}

const char *str_nearest(const char *s, const char *const *candidates, size_t n)
{
    unsigned limit = (unsigned)(strlen(s) + 2) / 3, best = limit + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned d = str_distance(s, candidates[i]);
        if (d < best) best = d, found = candidates[i];
    }
    return found;
}
