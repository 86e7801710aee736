/* gnnc data partition --paths: the pairs of nodes that metapaths join, as relations of the parts, since a process has too few
   edges to find those of its nodes. Each pair stands once, by target, then by source, as `compose` makes them where one
   process has all edges (runtime/graph_path.c). Counts first, so that too many are refused before memory is asked for. */
#include "driver/partition.h"
#include "ir/graph.h"
#include <ctype.h>
#include <stdlib.h>

/* The edges that one step of a path may be, and the sources that the walk from the target at hand has reached by them. */
typedef struct Step {
    int32_t from, to; /* kinds */
    int64_t *rows;    /* [targets + 1] */
    int32_t *sources; /* by target */
    int32_t *seen;    /* [sources] 1 + the last target whose walk reached it */
    int32_t *reached; /* [n] */
    int64_t n;
} Step;

static bool refuse(Session *s, const char *what)
{
    Diag *it = diag_error(&s->diags, E0612, (Span){0}, "`--paths`: %s", what);
    diag_help(&s->diags, it,
              "--paths 'same=about,reverse(about); cited=cites,cites': names, and the relations of their steps");
    return false;
}

/* By its name or its array. */
static const Relation *relation_of(const Folder *f, const char *name)
{
    for (int32_t k = 0; k < f->n_relations; k++)
        if (f->relations[k].name && !strcmp(f->relations[k].name, name)) return &f->relations[k];
    return partition_relation(f, name);
}

static void open_step(Arena *a, const Folder *f, const Relation *x, bool reversed, Step *s)
{
    const int32_t *src = reversed ? f->dst : f->src, *dst = reversed ? f->src : f->dst;
    s->from = reversed ? x->to : x->from;
    s->to = reversed ? x->from : x->to;
    int64_t n_src = f->kinds[s->from].n, n_dst = f->kinds[s->to].n;
    int64_t *at = ARENA_ARRAY(a, int64_t, n_dst + 1);
    s->rows = ARENA_ARRAY(a, int64_t, n_dst + 1);
    s->sources = ARENA_ARRAY(a, int32_t, x->n);
    s->seen = ARENA_ARRAY(a, int32_t, n_src);
    s->reached = ARENA_ARRAY(a, int32_t, n_src);
    for (int64_t e = x->first; e < x->first + x->n; e++) s->rows[dst[e] - f->kinds[s->to].first + 1]++;
    for (int64_t v = 0; v < n_dst; v++) s->rows[v + 1] += s->rows[v];
    memcpy(at, s->rows, (size_t)(n_dst + 1) * sizeof *at);
    for (int64_t e = x->first; e < x->first + x->n; e++)
        s->sources[at[dst[e] - f->kinds[s->to].first]++] = (int32_t)(src[e] - f->kinds[s->from].first);
}

static void reach(Step *s, int32_t node, int32_t target)
{
    for (int64_t i = s->rows[node]; i < s->rows[node + 1]; i++) {
        if (s->seen[s->sources[i]] == target + 1) continue;
        s->seen[s->sources[i]] = target + 1;
        s->reached[s->n++] = s->sources[i];
    }
}

/* steps[0] then holds the sources that paths to the target begin at. */
static void walk(Step *steps, uint32_t n_steps, int32_t target)
{
    for (uint32_t k = 0; k < n_steps; k++) steps[k].n = 0;
    reach(&steps[n_steps - 1], target, target);
    for (uint32_t k = n_steps - 1; k > 0; k--)
        for (int64_t i = 0; i < steps[k].n; i++) reach(&steps[k - 1], steps[k].reached[i], target);
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool add_pairs(Session *s, Folder *f, Relation x, Step *steps, uint32_t n_steps)
{
    const Kind *from = &f->kinds[x.from], *to = &f->kinds[x.to];
    for (int32_t v = 0; v < to->n; v++) walk(steps, n_steps, v), x.n += steps[0].n;
    if (x.n >= INT32_MAX - f->edges)
        return refuse(s,
                      arena_printf(s->arena, "paths of `%s` join %lld pairs, with which there are 2^31 edges or more",
                                   x.name, (long long)x.n));
    x.first = f->edges;
    int32_t *src = ARENA_ARRAY(s->arena, int32_t, f->edges + x.n),
            *dst = ARENA_ARRAY(s->arena, int32_t, f->edges + x.n);
    for (int64_t e = 0; e < f->edges; e++) src[e] = f->src[e], dst[e] = f->dst[e];
    for (uint32_t k = 0; k < n_steps; k++)
        for (int64_t u = 0; u < f->kinds[steps[k].from].n; u++) steps[k].seen[u] = 0;
    for (int32_t v = 0; v < to->n; v++) {
        walk(steps, n_steps, v);
        if (steps[0].n) qsort(steps[0].reached, (size_t)steps[0].n, sizeof *steps[0].reached, ascending);
        for (int64_t i = 0; i < steps[0].n; i++, f->edges++) {
            src[f->edges] = (int32_t)from->first + steps[0].reached[i];
            dst[f->edges] = (int32_t)to->first + v;
        }
    }
    f->src = src;
    f->dst = dst;
    f->relations[f->n_relations++] = x;
    return true;
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]);) text[--n] = 0;
    return text;
}

/* "about", or "reverse(about)". */
static bool read_step(Session *s, Arena *a, const Folder *f, char *text, Step *step, StrBuf *path)
{
    static const char word[] = "reverse(";
    size_t n = strlen(text), begin = sizeof word - 1;
    bool reversed = n > begin && !strncmp(text, word, begin) && text[n - 1] == ')';
    if (reversed) text[n - 1] = 0, text = trimmed(text + begin);
    const Relation *x = relation_of(f, text);
    if (!x || x->path) return refuse(s, arena_printf(s->arena, "the data have no relation `%s`", text));
    open_step(a, f, x, reversed, step);
    strbuf_printf(path, reversed ? "%sreverse(%s)" : "%s%s", path->n ? "," : "", x->array);
    return true;
}

static bool is_free_name(const Folder *f, const char *name)
{
    const char *c = name;
    while (isalnum((unsigned char)*c) || *c == '_') c++;
    bool is_free = *name && !*c && !isdigit((unsigned char)*name) && !relation_of(f, name);
    for (int32_t k = 0; k < f->n_kinds && is_free; k++) is_free = !f->kinds[k].name || strcmp(f->kinds[k].name, name);
    return is_free;
}

/* "same=about,reverse(about)" */
static bool add_path(Session *s, Arena *a, Folder *f, char *text)
{
    Step steps[IR_MAX_PATH] = {0};
    StrBuf path = {.arena = s->arena};
    uint32_t n = 0;
    char *is = strchr(text, '='), *save = NULL;
    if (!is) return refuse(s, arena_printf(s->arena, "`%s` says no path", text));
    *is = 0;
    const char *name = trimmed(text);
    if (!is_free_name(f, name))
        return refuse(s, arena_printf(s->arena, "`%s` is no name, or is one of the data", name));
    for (char *step = strtok_r(is + 1, ",", &save); step; step = strtok_r(NULL, ",", &save)) {
        if (n == IR_MAX_PATH)
            return refuse(s, arena_printf(s->arena, "`%s` has more than %d steps", name, IR_MAX_PATH));
        if (!read_step(s, a, f, trimmed(step), &steps[n], &path)) return false;
        if (n && steps[n - 1].to != steps[n].from)
            return refuse(
                s, arena_printf(s->arena, "step %u of `%s` does not begin where the one before ends", n + 1, name));
        n++;
    }
    if (n < 2) return refuse(s, arena_printf(s->arena, "`%s` has less than 2 steps", name));
    Relation x = {
        .name = name, .path = strbuf_cstr(&path), .from = steps[0].from, .to = steps[n - 1].to, .dtype = "<i8"};
    x.array = arena_printf(s->arena, "%s.edge_index", name);
    return add_pairs(s, f, x, steps, n);
}

bool partition_add_paths(Session *s, Folder *f, const char *text)
{
    char *copy = arena_strndup(s->arena, text, strlen(text)), *save = NULL;
    uint32_t n = 1;
    if (f->batch) return refuse(s, "the folder has many graphs (batch.npy), whose parts hold no metapaths");
    for (const char *c = text; *c; c++) n += *c == ';';
    Relation *relations = ARENA_ARRAY(s->arena, Relation, f->n_relations + (int64_t)n);
    for (int32_t k = 0; k < f->n_relations; k++) relations[k] = f->relations[k];
    f->relations = relations;
    for (char *path = strtok_r(copy, ";", &save); path; path = strtok_r(NULL, ";", &save)) {
        Arena *a = arena_new();
        bool ok = add_path(s, a, f, trimmed(path));
        arena_free(a);
        if (!ok) return false;
    }
    return true;
}
