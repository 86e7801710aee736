/* Sizes as polynomials with integer coefficients, and their unification by substitution. Decides
   linear equations in one unknown and products with one unknown factor; anything else waits until
   more is known. Never guesses: an unknown is bound only to what it must be. */
#include "frontend/dims.h"
#include "base/str.h"

static Size *size_alloc(Sizes *z, uint32_t n)
{
    Size *s = arena_alloc(z->arena, sizeof(Size) + n * sizeof(SizeTerm));
    s->n = (uint8_t)n;
    return s;
}

const Size *size_const(Sizes *z, int64_t k)
{
    Size *s = size_alloc(z, k != 0);
    if (k) s->t[0] = (SizeTerm){.k = k};
    return s;
}

static const Size *size_of_var(Sizes *z, SizeVar v)
{
    Size *s = size_alloc(z, 1);
    s->t[0] = (SizeTerm){.k = 1, .n = 1, .v = {v}};
    return s;
}

const Size *size_var(Sizes *z, const char *name, SizeVarKind kind, Span span)
{
    VEC_PUSH(z->arena, &z->vars, ((SizeVarInfo){.name = name, .kind = kind, .span = span}));
    return size_of_var(z, z->vars.n - 1);
}

/* Order of terms by their variables: longer products first. */
static int term_compare(const SizeTerm *a, const SizeTerm *b)
{
    if (a->n != b->n) return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++)
        if (a->v[i] != b->v[i]) return a->v[i] < b->v[i] ? -1 : 1;
    return 0;
}

static const Size *size_overflow(Sizes *z)
{
    z->overflow = true;
    return size_const(z, 1);
}

const Size *size_add(Sizes *z, const Size *a, const Size *b, int64_t k)
{
    SizeTerm t[2 * SIZE_MAX_TERMS];
    uint32_t n = 0, i = 0, j = 0;
    while (i < a->n || j < b->n) {
        int c = i == a->n ? 1 : j == b->n ? -1 : term_compare(&a->t[i], &b->t[j]);
        int64_t kb = 0, sum = 0;
        if (c >= 0 && __builtin_mul_overflow(b->t[j].k, k, &kb)) return size_overflow(z);
        if (__builtin_add_overflow(c <= 0 ? a->t[i].k : 0, kb, &sum)) return size_overflow(z);
        t[n] = c <= 0 ? a->t[i] : b->t[j];
        t[n].k = sum;
        if (sum) n++;
        i += c <= 0;
        j += c >= 0;
    }
    if (n > SIZE_MAX_TERMS) return size_overflow(z);
    Size *s = size_alloc(z, n);
    if (n) memcpy(s->t, t, n * sizeof *t);
    return s;
}

static bool term_mul(const SizeTerm *a, const SizeTerm *b, SizeTerm *out)
{
    *out = (SizeTerm){.n = 0};
    if (a->n + b->n > SIZE_MAX_FACTORS || __builtin_mul_overflow(a->k, b->k, &out->k)) return false;
    int i = 0, j = 0;
    while (i < a->n || j < b->n)
        out->v[out->n++] = j == b->n || (i < a->n && a->v[i] <= b->v[j]) ? a->v[i++] : b->v[j++];
    return true;
}

const Size *size_mul(Sizes *z, const Size *a, const Size *b)
{
    const Size *sum = size_const(z, 0);
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            Size *one = size_alloc(z, 1);
            if (!term_mul(&a->t[i], &b->t[j], &one->t[0])) return size_overflow(z);
            sum = size_add(z, sum, one, 1);
        }
    return sum;
}

/* a / b for terms, where it goes without remainder. */
static bool term_div(const SizeTerm *a, const SizeTerm *b, SizeTerm *out)
{
    if (b->k == 0 || a->k % b->k) return false;
    *out = (SizeTerm){.k = a->k / b->k};
    int j = 0;
    for (int i = 0; i < a->n; i++) {
        if (j < b->n && a->v[i] == b->v[j]) j++;
        else out->v[out->n++] = a->v[i];
    }
    return j == b->n;
}

/* a / b for a one-term b, or NULL where it does not divide as polynomials. */
static const Size *size_div_term(Sizes *z, const Size *a, const SizeTerm *b)
{
    const Size *sum = size_const(z, 0);
    for (int i = 0; i < a->n; i++) {
        Size *one = size_alloc(z, 1);
        if (!term_div(&a->t[i], b, &one->t[0])) return NULL;
        sum = size_add(z, sum, one, 1);
    }
    return sum;
}

const Size *size_div(Sizes *z, const Size *a, const Size *b)
{
    a = size_norm(z, a);
    b = size_norm(z, b);
    if (b->n == 0) return NULL;
    const Size *q = b->n == 1 ? size_div_term(z, a, &b->t[0]) : NULL;
    int64_t x, y;
    if (q || (size_value(z, a, &x) && size_value(z, b, &y))) return q;
    for (uint32_t i = 0; i < z->vars.n; i++) {
        const SizeVarInfo *v = &z->vars.data[i];
        if (v->kind == SIZE_RATIO && size_equal(z, v->num, a) && size_equal(z, v->den, b)) return size_of_var(z, i);
    }
    const char *name = arena_printf(z->arena, "(%s)/(%s)", size_text(z, a), size_text(z, b));
    const Size *s = size_var(z, name, SIZE_RATIO, (Span){0});
    z->vars.data[z->vars.n - 1].num = a;
    z->vars.data[z->vars.n - 1].den = b;
    return s;
}

/* What a variable stands for by now, or NULL. */
static const Size *var_meaning(Sizes *z, SizeVar v)
{
    const SizeVarInfo info = z->vars.data[v];
    if (info.binding) return info.binding;
    if (info.kind != SIZE_RATIO) return NULL;
    const Size *num = size_norm(z, info.num), *den = size_norm(z, info.den);
    const Size *q = den->n == 1 ? size_div_term(z, num, &den->t[0]) : NULL;
    if (q) z->vars.data[v].binding = q;
    return q;
}

const Size *size_norm(Sizes *z, const Size *s)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->t[i].n; j++) {
            const Size *b = var_meaning(z, s->t[i].v[j]);
            if (!b) continue;
            Size *term = size_alloc(z, 1), *rest = size_alloc(z, 1);
            term->t[0] = s->t[i];
            rest->t[0] = (SizeTerm){.k = s->t[i].k};
            for (int k = 0; k < s->t[i].n; k++)
                if (k != j) rest->t[0].v[rest->t[0].n++] = s->t[i].v[k];
            const Size *sum = size_add(z, s, term, -1);
            return size_norm(z, size_add(z, sum, size_mul(z, rest, b), 1));
        }
    return s;
}

bool size_value(Sizes *z, const Size *s, int64_t *out)
{
    s = size_norm(z, s);
    *out = s->n ? s->t[0].k : 0;
    return s->n == 0 || (s->n == 1 && s->t[0].n == 0);
}

bool size_equal(Sizes *z, const Size *a, const Size *b) { return size_norm(z, size_add(z, a, b, -1))->n == 0; }

/* Also inside what a ratio divides: F = 8 * (F/8) must bind nothing. */
static bool size_mentions(Sizes *z, const Size *s, SizeVar v)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < s->t[i].n; j++) {
            const SizeVarInfo *of = &z->vars.data[s->t[i].v[j]];
            if (s->t[i].v[j] == v) return true;
            if (of->kind != SIZE_RATIO || of->binding) continue;
            if (size_mentions(z, size_norm(z, of->num), v) || size_mentions(z, size_norm(z, of->den), v)) return true;
        }
    return false;
}

/* A variable that may be bound: holes before free symbols (so that a symbol's name survives). */
static int var_rank(const Sizes *z, SizeVar v)
{
    SizeVarKind k = z->vars.data[v].kind;
    return k == SIZE_HOLE ? 2 : k == SIZE_FREE ? 1 : 0;
}

/* Finds the term of d == 0 that is k * v or k * v * (rest) and nothing else mentions v; binds v. */
static bool bind_in(Sizes *z, const Size *d, int rank)
{
    for (int i = d->n - 1; i >= 0; i--)
        for (int j = 0; j < d->t[i].n; j++) {
            SizeVar v = d->t[i].v[j];
            if (var_rank(z, v) != rank) continue;
            Size *own = size_alloc(z, 1);
            own->t[0] = d->t[i];
            const Size *rest = size_add(z, d, own, -1);
            SizeTerm divisor = {.k = -d->t[i].k};
            for (int k = 0; k < d->t[i].n; k++)
                if (k != j) divisor.v[divisor.n++] = d->t[i].v[k];
            const Size *value = size_mentions(z, rest, v) ? NULL : size_div_term(z, rest, &divisor);
            int64_t number;
            if (!value || size_mentions(z, value, v)) continue;
            if (size_value(z, value, &number) && number <= 0) continue;
            z->vars.data[v].binding = value;
            return true;
        }
    return false;
}

typedef enum { NO, YES, LATER } Answer;

static Answer unify(Sizes *z, const Size *a, const Size *b)
{
    const Size *d = size_norm(z, size_add(z, a, b, -1));
    if (d->n == 0) return YES;
    if (bind_in(z, d, 2) || bind_in(z, d, 1)) return YES;
    int open = 0;
    for (int i = 0; i < d->n; i++)
        for (int j = 0; j < d->t[i].n; j++)
            open |= var_rank(z, d->t[i].v[j]) || z->vars.data[d->t[i].v[j]].kind == SIZE_RATIO;
    if (!open) return NO;
    if (d->n > 2 || (d->n == 2 && d->t[1].n)) return LATER;
    /* k * product == number, with the number no multiple of k: never */
    int64_t k = d->t[0].k, c = d->n == 2 ? d->t[1].k : 0;
    return c == 0 || c % k != 0 || -c / k <= 0 ? NO : LATER;
}

bool size_unify(Sizes *z, const Size *a, const Size *b, Span span)
{
    Answer r = unify(z, a, b);
    if (r == LATER) VEC_PUSH(z->arena, &z->later, ((SizeEquation){a, b, span}));
    return r != NO;
}

const SizeEquation *sizes_solve(Sizes *z)
{
    for (bool changed = true; changed;) {
        changed = false;
        uint32_t n = z->later.n;
        z->later.n = 0;
        for (uint32_t i = 0; i < n; i++) {
            SizeEquation e = z->later.data[i];
            Answer r = unify(z, e.a, e.b);
            if (r == NO) return z->later.data[i] = e, &z->later.data[i];
            if (r == YES) changed = true;
            else z->later.data[z->later.n++] = e;
        }
    }
    return NULL;
}

const char *size_text(Sizes *z, const Size *s)
{
    StrBuf b = {.arena = z->arena};
    s = size_norm(z, s);
    if (s->n == 0) return "0";
    for (int i = 0; i < s->n; i++) {
        const SizeTerm *t = &s->t[i];
        int64_t k = t->k;
        if (i) strbuf_puts(&b, k < 0 ? " - " : " + ");
        if (i && k < 0) k = -k;
        bool shown = k != 1 || t->n == 0;
        if (shown) strbuf_printf(&b, "%lld", (long long)k);
        for (int j = 0; j < t->n; j++) {
            const SizeVarInfo *v = &z->vars.data[t->v[j]];
            strbuf_printf(&b, "%s%s", shown ? "*" : "", v->name ? v->name : "?");
            shown = true;
        }
    }
    return strbuf_cstr(&b);
}
