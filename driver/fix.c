/* `gnnc check --fix`: a fix counts as sure where the compiler is content with it.

     h = rleu(x)           h = relu(x)
     if a = b { ... }      if a == b { ... }

   All fixes of a run that do not overlap are tried at once, then one by one; a trial that does not bring the text
   nearer to a right one, or leaves an error on a line that it edits, is dropped. Never touches a place that no
   diagnostic names. */
#include "driver/fix.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 50 };
typedef VEC(FixEdit) Edits;

/* How far from right a text is: texts that do not parse come last, as their other errors are not known. */
typedef struct Verdict {
    uint32_t n_syntax, n_errors;
    VEC(uint32_t) lines; /* of errors */
    Edits edits;
} Verdict;

static int by_place(const void *a, const void *b)
{
    const FixEdit *x = a, *y = b;
    return (x->span.begin > y->span.begin) - (x->span.begin < y->span.begin);
}

/* In the order of places; of two that overlap the first. */
static void drop_overlaps(Edits *v)
{
    if (v->n) qsort(v->data, v->n, sizeof *v->data, by_place);
    uint32_t n = 0, end = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (n && v->data[i].span.begin < end + (v->data[n - 1].span.begin == v->data[i].span.begin)) continue;
        end = v->data[i].span.end;
        v->data[n++] = v->data[i];
    }
    v->n = n;
}

static uint32_t line_of(Span at)
{
    uint32_t line, col;
    source_line_col(at.source, at.begin, &line, &col);
    return line;
}

static Verdict judge(Arena *a, const Source *src, const FrontendOptions *opt)
{
    Diags d = {.arena = a, .max_errors = 1000};
    Verdict v = {0};
    frontend_compile(a, src, opt, &d);
    v.n_errors = d.n_errors;
    for (uint32_t i = 0; i < d.list.n; i++) {
        const Diag *it = d.list.data[i];
        if (it->span.source == src) VEC_PUSH(a, &v.lines, line_of(it->span));
        v.n_syntax += it->code < E0201;
        if (it->fix && it->fix_span.source == src) VEC_PUSH(a, &v.edits, ((FixEdit){it->fix_span, it->fix, it->code}));
    }
    drop_overlaps(&v.edits);
    return v;
}

/* No fix holds a line break, so lines keep their numbers. */
static bool better(const Verdict *now, const Verdict *before, const FixEdit *edits, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t line = line_of(edits[i].span);
        for (uint32_t k = 0; k < now->lines.n; k++)
            if (now->lines.data[k] == line) return false;
    }
    if (now->n_syntax != before->n_syntax) return now->n_syntax < before->n_syntax;
    return now->n_errors + now->edits.n < before->n_errors + before->edits.n;
}

static const Source *edited(Arena *a, const Source *src, const FixEdit *edits, uint32_t n)
{
    StrBuf b = {.arena = a};
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        strbuf_add(&b, src->text + at, edits[i].span.begin - at);
        strbuf_puts(&b, edits[i].text);
        at = edits[i].span.end;
    }
    strbuf_add(&b, src->text + at, src->n - at);
    Source *s = ARENA_NEW(a, Source);
    *s = (Source){src->path, strbuf_cstr(&b), (uint32_t)b.n};
    return s;
}

/* Edits [from, from + n) if they help. */
static bool try_edits(Arena *a, Fixes *f, Verdict *v, const FrontendOptions *opt, uint32_t from, uint32_t n)
{
    const FixEdit *edits = v->edits.data + from;
    const Source *s = edited(a, f->result, edits, n);
    Verdict now = judge(a, s, opt);
    if (!better(&now, v, edits, n)) return false;
    for (uint32_t i = 0; i < n; i++) VEC_PUSH(a, &f->applied, edits[i]);
    f->result = s;
    *v = now;
    return true;
}

static bool one_round(Arena *a, Fixes *f, Verdict *v, const FrontendOptions *opt)
{
    if (!v->edits.n) return false;
    if (try_edits(a, f, v, opt, 0, v->edits.n)) return true;
    for (uint32_t i = 0; i < v->edits.n && v->edits.n > 1; i++)
        if (try_edits(a, f, v, opt, i, 1)) return true;
    return false;
}

Fixes fixes_apply(Arena *a, const Source *src, const FrontendOptions *opt)
{
    Fixes f = {.result = src};
    Verdict v = judge(a, src, opt);
    for (int i = 0; i < MAX_ROUNDS && one_round(a, &f, &v, opt); i++) {}
    return f;
}
