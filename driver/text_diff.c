/* A unified diff of two prints of graph IR (see text_diff.h). A pass that drops one operation renumbers all that
   follow it, so texts are compared in three steps: lines without value numbers are matched by a shortest edit script
   (Myers, An O(ND) Difference Algorithm, 1986); values of `after` take the numbers of their matched lines; then a
   matched line is unchanged if its text is.

     -  %7 = mul %5, %6 : node[F] f32        `mul` by 1 is gone; what read %7 reads %5
     -  %8 = exp %7 : node[F] f32
     +  %8 = exp %5 : node[F] f32            */
#include "driver/text_diff.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 3, MAX_EDITS = 4000 /* beyond, everything has changed */ };

typedef struct Line {
    const char *text;
    const char *shape; /* text with %N as % */
    uint32_t func;     /* functions before or at this line */
    int64_t defines;   /* N of "%N = ", or -1 */
    uint32_t match;    /* line of the other text; UINT32_MAX: none */
} Line;
typedef VEC(Line) Lines;

/* ---- lines ---------------------------------------------------------------------------------------------------- */

static const char *shape_of(Arena *a, const char *text)
{
    char *out = arena_strndup(a, text, strlen(text)), *to = out;
    for (const char *p = text; *p;) {
        *to++ = *p;
        if (*p++ == '%') p += strspn(p, "0123456789");
    }
    *to = 0;
    return out;
}

static Lines split(Arena *a, const char *text)
{
    Lines lines = {0};
    uint32_t func = 0;
    while (*text) {
        size_t n = strcspn(text, "\n");
        Line l = {.text = arena_strndup(a, text, n), .defines = -1, .match = UINT32_MAX};
        func += strncmp(l.text, "func ", 5) == 0;
        l.func = func;
        l.shape = shape_of(a, l.text);
        if (strncmp(l.text, "  %", 3) == 0) l.defines = strtoll(l.text + 3, NULL, 10);
        VEC_PUSH(a, &lines, l);
        text += n + (text[n] == '\n');
    }
    return lines;
}

/* ---- matching --------------------------------------------------------------------------------------------------- */

/* Follows equal lines from x on diagonal k = x - y. */
static int64_t slide(const Lines *b, const Lines *c, int64_t x, int64_t k)
{
    while (x < b->n && x - k < c->n && strcmp(b->data[x].shape, c->data[x - k].shape) == 0) x++;
    return x;
}

/* Myers' furthest points: trace[d] holds, for each diagonal of -d..d, how far d edits lead. Returns the number of
   edits, or -1 beyond MAX_EDITS. */
static int64_t forward(Arena *a, const Lines *b, const Lines *c, int64_t **trace)
{
    int64_t most = (int64_t)b->n + c->n < MAX_EDITS ? (int64_t)b->n + c->n : MAX_EDITS;
    for (int64_t d = 0; d <= most; d++) {
        int64_t *v = trace[d] = ARENA_ARRAY(a, int64_t, 2 * (size_t)d + 1);
        for (int64_t k = -d; k <= d; k += 2) {
            const int64_t *u = d ? trace[d - 1] + (d - 1) : NULL; /* u[k]: diagonal k of the step before */
            int64_t x = 0;
            if (d) x = k == -d || (k != d && u[k - 1] < u[k + 1]) ? u[k + 1] : u[k - 1] + 1;
            v[k + d] = slide(b, c, x, k);
            if (k == (int64_t)b->n - c->n && v[k + d] >= b->n) return d;
        }
    }
    return -1;
}

static void match(Lines *b, Lines *c)
{
    Arena *scratch = arena_new();
    int64_t **trace = ARENA_ARRAY(scratch, int64_t *, (size_t)b->n + c->n + 1);
    int64_t d = forward(scratch, b, c, trace), x = b->n, y = c->n;
    for (; d >= 0; d--) {
        int64_t k = x - y, from = 0, k_from = 0;
        if (d) {
            const int64_t *u = trace[d - 1] + (d - 1);
            k_from = k == -d || (k != d && u[k - 1] < u[k + 1]) ? k + 1 : k - 1;
            from = u[k_from];
        }
        int64_t start = d ? (k_from > k ? from : from + 1) : 0;
        for (; x > start; x--, y--) b->data[x - 1].match = (uint32_t)(y - 1), c->data[y - 1].match = (uint32_t)(x - 1);
        x = from, y = from - k_from;
    }
    arena_free(scratch);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Gives the values of one function of `after`, lines [first, last), the numbers of the lines they match. */
static void renumber(Arena *a, const Lines *before, Lines *after, uint32_t first, uint32_t last, int64_t *next)
{
    int64_t *to = ARENA_ARRAY(a, int64_t, last - first + 1);
    for (uint32_t i = first; i < last; i++) {
        Line *l = &after->data[i];
        StrBuf text = {.arena = a};
        bool matched = l->match != UINT32_MAX && before->data[l->match].defines >= 0;
        if (l->defines >= 0 && l->defines < last - first)
            to[l->defines] = matched ? before->data[l->match].defines : (*next)++;
        for (const char *p = l->text; *p;) {
            strbuf_add(&text, p, 1);
            if (*p++ != '%') continue;
            size_t n = strspn(p, "0123456789");
            int64_t v = strtoll(p, NULL, 10);
            if (n) strbuf_printf(&text, "%lld", (long long)(v < last - first ? to[v] : v));
            p += n;
        }
        l->text = strbuf_cstr(&text);
    }
}

static void renumber_all(Arena *a, const Lines *before, Lines *after)
{
    for (uint32_t i = 0; i < after->n;) {
        uint32_t last = i;
        int64_t next = 0;
        while (last < after->n && after->data[last].func == after->data[i].func) last++;
        for (uint32_t k = 0; k < before->n; k++) /* above every number of any function: no value is taken for another */
            if (before->data[k].defines >= next) next = before->data[k].defines + 1;
        if (after->data[i].func) renumber(a, before, after, i, last, &next);
        i = last;
    }
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

typedef struct Edit {
    char sign; /* ' ', '-', '+' */
    const char *text;
    const Line *line;
} Edit;
typedef VEC(Edit) Edits;

static void take_back(Arena *a, Edits *edits, const Lines *before, uint32_t *i, uint32_t stop)
{
    for (; *i < stop; ++*i) VEC_PUSH(a, edits, ((Edit){'-', before->data[*i].text, &before->data[*i]}));
}

static Edits edits_of(Arena *a, const Lines *before, const Lines *after)
{
    Edits edits = {0};
    uint32_t i = 0;
    for (uint32_t k = 0; k < after->n; k++) {
        const Line *l = &after->data[k];
        bool same = l->match != UINT32_MAX && strcmp(before->data[l->match].text, l->text) == 0;
        uint32_t stop = l->match != UINT32_MAX ? l->match + !same : i;
        while (l->match == UINT32_MAX && stop < before->n && before->data[stop].match == UINT32_MAX) stop++;
        take_back(a, &edits, before, &i, stop);
        VEC_PUSH(a, &edits, ((Edit){same ? ' ' : '+', l->text, l}));
        i += same;
    }
    take_back(a, &edits, before, &i, before->n);
    return edits;
}

/* Whether a change lies within CONTEXT lines of edit i. */
static bool is_near(const Edits *e, uint32_t i)
{
    uint32_t lo = i > CONTEXT ? i - CONTEXT : 0, hi = i + CONTEXT < e->n ? i + CONTEXT : e->n - 1;
    for (uint32_t k = lo; k <= hi; k++)
        if (e->data[k].sign != ' ') return true;
    return false;
}

static const char *function_at(const Edits *e, uint32_t i)
{
    for (; i > 0; i--)
        if (strncmp(e->data[i].text, "func ", 5) == 0) return e->data[i].text;
    return "";
}

static void print_hunk(const Edits *e, uint32_t first, uint32_t last, uint32_t at[2], StrBuf *out)
{
    uint32_t n[2] = {0};
    for (uint32_t i = first; i < last; i++) n[0] += e->data[i].sign != '+', n[1] += e->data[i].sign != '-';
    const char *func = function_at(e, first);
    strbuf_printf(out, "@@ -%u,%u +%u,%u @@%s%.*s\n", at[0] + (n[0] > 0), n[0], at[1] + (n[1] > 0), n[1],
                  *func ? " " : "", (int)strcspn(func, "("), func);
    for (uint32_t i = first; i < last; i++) strbuf_printf(out, "%c%s\n", e->data[i].sign, e->data[i].text);
    at[0] += n[0], at[1] += n[1];
}

void gir_diff(Arena *a, const char *before, const char *after, const char *before_name, const char *after_name,
              StrBuf *out)
{
    Lines b = split(a, before), c = split(a, after);
    match(&b, &c);
    renumber_all(a, &b, &c);
    Edits e = edits_of(a, &b, &c);
    uint32_t at[2] = {0};
    bool any = false;
    for (uint32_t i = 0; i < e.n;) {
        if (!is_near(&e, i)) {
            i++, at[0]++, at[1]++;
            continue;
        }
        uint32_t last = i;
        while (last < e.n && is_near(&e, last)) last++;
        if (!any) strbuf_printf(out, "--- %s\n+++ %s\n", before_name, after_name);
        print_hunk(&e, i, last, at, out);
        any = true;
        i = last;
    }
}
