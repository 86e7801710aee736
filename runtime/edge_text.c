/* Readers of edges as text (see edge_text.h). MatrixMarket: entry (i, j) is the edge i -> j, ids
   count from 1, the lower half of a symmetric matrix stands for both halves. Lists: `source target
   [weight]` per line, ids count from 0, fields apart by tabs, blanks, commas or semicolons,
   comments begin with # or %, a first line of words names the columns. Sizes that a file claims are
   checked against its length before memory is asked for. */
#include "runtime/edge_text.h"
#include "runtime/file.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_FIELDS = 8, TOKEN_BYTES = 64 };

typedef struct Text {
    const char *name, *p, *end; /* p: the next line */
    int64_t line;
    int n_fields; /* of the line at hand */
    char fields[MAX_FIELDS][TOKEN_BYTES];
    bool too_many, too_long; /* the line has more fields, or longer ones */
    RtStatus *st;
} Text;

typedef struct Banner {
    bool symmetric, weighted;
    int64_t n_nodes, n_entries;
} Banner;

/* ---- lines ---- */

__attribute__((format(printf, 3, 4))) static RtCode line_error(Text *t, RtCode code, const char *fmt, ...)
{
    char place[4200], what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(place, sizeof place, "%s:%lld", t->name, (long long)t->line);
    const char *hint = code == RT_E_DATA_ID ? "ids count from 0 in lists and from 1 in MatrixMarket files"
                                            : "docs/data.md shows the formats";
    return rt_fail(t->st, code, place, hint, "%s", what);
}

static bool is_gap(char c) { return c == ' ' || c == '\t' || c == ',' || c == ';' || c == '\r'; }

static void split(Text *t, const char *p, const char *end)
{
    t->n_fields = 0;
    t->too_many = t->too_long = false;
    while (p < end) {
        while (p < end && is_gap(*p)) p++;
        const char *start = p;
        while (p < end && !is_gap(*p)) p++;
        size_t n = (size_t)(p - start);
        if (!n) break;
        if (t->n_fields == MAX_FIELDS || n >= TOKEN_BYTES) {
            t->too_many |= t->n_fields == MAX_FIELDS;
            t->too_long |= n >= TOKEN_BYTES;
            return;
        }
        memcpy(t->fields[t->n_fields], start, n);
        t->fields[t->n_fields++][n] = 0;
    }
}

/* The next line that is neither blank nor a comment, in fields. False at the end. */
static bool next_line(Text *t)
{
    while (t->p < t->end) {
        const char *start = t->p, *stop = memchr(start, '\n', (size_t)(t->end - start));
        if (!stop) stop = t->end;
        t->p = stop < t->end ? stop + 1 : stop;
        t->line++;
        if (start < stop && (*start == '#' || *start == '%')) continue;
        split(t, start, stop);
        if (t->n_fields || t->too_many || t->too_long) return true;
    }
    return false;
}

static RtCode take_id(Text *t, int field, int64_t least, int64_t most, int64_t *out)
{
    const char *text = t->fields[field], *p = text + (*text == '-' || *text == '+');
    int64_t v = 0;
    bool fits = true;
    if (!*p) return line_error(t, RT_E_EDGE_TEXT, "found `%s`, wanted a whole number", text);
    for (; *p; p++) {
        if (*p < '0' || *p > '9') return line_error(t, RT_E_EDGE_TEXT, "found `%s`, wanted a whole number", text);
        fits = fits && rt_mul(v, 10, &v) && rt_add(v, *p - '0', &v);
    }
    if (*text == '-' && v) fits = false;
    if (!fits || v < least || v > most)
        return line_error(t, RT_E_DATA_ID, "found id %s, wanted %lld to %lld", text, (long long)least, (long long)most);
    *out = v;
    return RT_OK;
}

static RtCode take_weight(Text *t, int field, double *out)
{
    char *end;
    *out = strtod(t->fields[field], &end);
    if (end == t->fields[field] || *end)
        return line_error(t, RT_E_EDGE_TEXT, "found `%s`, wanted a number", t->fields[field]);
    return RT_OK;
}

/* ---- storage ---- */

static RtCode alloc(RtEdgeText *out, int64_t n, bool weighted, const char *name, RtStatus *st)
{
    out->edges = (RtArray){.dtype = RT_I64, .n_dims = 2, .shape = {2, n}, .count = 2 * n};
    RT_TRY(rt_block_alloc(&out->edges.data, rt_size(n, 16), name, st));
    if (!weighted) return RT_OK;
    out->weights = (RtArray){.dtype = RT_F64, .n_dims = 1, .shape = {n}, .count = n};
    return rt_block_alloc(&out->weights.data, rt_size(n, 8), name, st);
}

static void put(RtEdgeText *out, int64_t e, int64_t src, int64_t dst, double weight)
{
    assert(e < out->edges.shape[1]);
    int64_t *ids = out->edges.data.p;
    ids[e] = src;
    ids[out->edges.shape[1] + e] = dst;
    if (out->weights.data.p) ((double *)out->weights.data.p)[e] = weight;
}

/* Mirrored entries leave the count open until the end: moves the targets down and says the true
 * length. */
static void shrink(RtEdgeText *out, int64_t n)
{
    assert(n <= out->edges.shape[1]);
    int64_t *ids = out->edges.data.p;
    memmove(ids + n, ids + out->edges.shape[1], (size_t)n * 8);
    out->edges.shape[1] = n;
    out->edges.count = 2 * n;
    if (out->weights.data.p) out->weights.shape[0] = out->weights.count = n;
}

/* ---- MatrixMarket ---- */

static bool is_word(const Text *t, int field, const char *word) { return !strcasecmp(t->fields[field], word); }

static RtCode read_banner(Text *t, Banner *b)
{
    const char *stop = memchr(t->p, '\n', (size_t)(t->end - t->p));
    if (!stop) stop = t->end;
    split(t, t->p, stop);
    t->p = stop < t->end ? stop + 1 : stop;
    t->line = 1;
    if (t->n_fields != 5 || strcmp(t->fields[0], "%%MatrixMarket") || !is_word(t, 1, "matrix"))
        return line_error(t, RT_E_EDGE_TEXT, "wanted `%%%%MatrixMarket matrix coordinate FIELD SYMMETRY`");
    if (!is_word(t, 2, "coordinate"))
        return line_error(t, RT_E_EDGE_TEXT, "found format `%s`, wanted coordinate", t->fields[2]);
    b->weighted = !is_word(t, 3, "pattern");
    if (b->weighted && !is_word(t, 3, "real") && !is_word(t, 3, "double") && !is_word(t, 3, "integer"))
        return line_error(t, RT_E_EDGE_TEXT, "found field `%s`, wanted real, integer or pattern", t->fields[3]);
    b->symmetric = is_word(t, 4, "symmetric");
    if (!b->symmetric && !is_word(t, 4, "general"))
        return line_error(t, RT_E_EDGE_TEXT, "found symmetry `%s`, wanted general or symmetric", t->fields[4]);
    return RT_OK;
}

static RtCode read_sizes(Text *t, Banner *b)
{
    int64_t cols;
    if (!next_line(t) || t->n_fields != 3) return line_error(t, RT_E_EDGE_TEXT, "wanted `rows columns entries`");
    RT_TRY(take_id(t, 0, 0, INT32_MAX, &b->n_nodes));
    RT_TRY(take_id(t, 1, 0, INT32_MAX, &cols));
    RT_TRY(take_id(t, 2, 0, INT64_MAX / 64, &b->n_entries));
    if (b->n_nodes != cols)
        return line_error(t, RT_E_DATA_EDGES, "found a matrix of %lld x %lld, wanted a square one",
                          (long long)b->n_nodes, (long long)cols);
    if (b->n_entries > (t->end - t->p + 1) / 4) /* "1 1\n" */
        return line_error(t, RT_E_EDGE_TEXT, "claims %lld entries, more than the file has room for",
                          (long long)b->n_entries);
    return RT_OK;
}

static RtCode read_entry(Text *t, const Banner *b, RtEdgeText *out, int64_t *n)
{
    int64_t i, j;
    double weight = 1;
    int want = b->weighted ? 3 : 2;
    if (t->n_fields != want || t->too_long)
        return line_error(t, RT_E_EDGE_TEXT, "found %d fields, wanted %d", t->n_fields, want);
    RT_TRY(take_id(t, 0, 1, b->n_nodes, &i));
    RT_TRY(take_id(t, 1, 1, b->n_nodes, &j));
    if (b->weighted) RT_TRY(take_weight(t, 2, &weight));
    put(out, (*n)++, i - 1, j - 1, weight);
    if (b->symmetric && i != j) put(out, (*n)++, j - 1, i - 1, weight);
    return RT_OK;
}

static RtCode read_matrix(Text *t, RtEdgeText *out)
{
    Banner b;
    int64_t n = 0;
    RT_TRY(read_banner(t, &b));
    RT_TRY(read_sizes(t, &b));
    out->n_nodes = b.n_nodes;
    RT_TRY(alloc(out, b.symmetric ? 2 * b.n_entries : b.n_entries, b.weighted, t->name, t->st));
    for (int64_t k = 0; k < b.n_entries; k++) {
        if (!next_line(t))
            return line_error(t, RT_E_EDGE_TEXT, "cut short: found %lld entries, wanted %lld", (long long)k,
                              (long long)b.n_entries);
        RT_TRY(read_entry(t, &b, out, &n));
    }
    if (next_line(t))
        return line_error(t, RT_E_EDGE_TEXT, "more entries than the %lld it claims", (long long)b.n_entries);
    shrink(out, n);
    return RT_OK;
}

/* ---- lists ---- */

/* Passes over a first line that names the columns. */
static void skip_names(Text *t)
{
    Text ahead = *t;
    if (!next_line(&ahead) || !ahead.n_fields) return;
    char c = ahead.fields[0][0];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '"' || c == '_') *t = ahead;
}

static int64_t count_lines(const Text *t)
{
    int64_t n = 1;
    for (const char *p = t->p; (p = memchr(p, '\n', (size_t)(t->end - p))); p++) n++;
    return n;
}

static RtCode read_list(Text *t, RtEdgeText *out)
{
    int columns = 0;
    int64_t n = 0, src, dst;
    double weight = 1;
    skip_names(t);
    int64_t most = count_lines(t);
    while (next_line(t)) {
        if (t->too_long) return line_error(t, RT_E_EDGE_TEXT, "a field is longer than any number");
        if (!n) columns = t->n_fields;
        if (t->n_fields != columns || t->too_many || columns < 2 || columns > 3)
            return line_error(t, RT_E_EDGE_TEXT, "found %d fields, wanted %s", t->n_fields,
                              columns == 2   ? "2"
                              : columns == 3 ? "3"
                                             : "`source target` or `source target weight`");
        if (!n) RT_TRY(alloc(out, most, columns == 3, t->name, t->st));
        RT_TRY(take_id(t, 0, 0, INT32_MAX - 1, &src));
        RT_TRY(take_id(t, 1, 0, INT32_MAX - 1, &dst));
        if (columns == 3) RT_TRY(take_weight(t, 2, &weight));
        put(out, n++, src, dst, weight);
    }
    if (!n) RT_TRY(alloc(out, 0, false, t->name, t->st));
    shrink(out, n);
    return RT_OK;
}

/* ---- whole ---- */

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n >= m && !strcmp(path + n - m, suffix);
}

RtCode rt_edge_text_read(const char *path, RtEdgeText *out, RtStatus *st)
{
    RtBlock file;
    *out = (RtEdgeText){.n_nodes = -1};
    RT_TRY(rt_file_read(path, &file, st));
    Text t = {.name = path, .p = file.p, .end = (const char *)file.p + file.bytes, .st = st};
    RtCode code = ends_with(path, ".mtx") ? read_matrix(&t, out) : read_list(&t, out);
    rt_block_free(&file);
    if (code) rt_edge_text_free(out);
    return code;
}

void rt_edge_text_free(RtEdgeText *t)
{
    if (!t) return;
    rt_array_free(&t->edges);
    rt_array_free(&t->weights);
    *t = (RtEdgeText){.n_nodes = -1};
}
