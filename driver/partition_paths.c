/* gnnc data partition --paths: finds the pairs of nodes that metapaths join, and adds them to the folder as relations,
   so that its parts hold them: a process has too few edges to find those of its own nodes. */
#include "driver/partition.h"
#include "ir/graph.h"
#include "runtime/graph_path.h"
#include <ctype.h>

typedef struct Step {
    int32_t from, to; /* kinds */
    RtPathStep edges; /* numbers of nodes among those of their kind */
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

/* Numbers among the nodes of their kind. */
static const int32_t *of_kind(Arena *a, const int32_t *nodes, int64_t n, const Kind *kind)
{
    int32_t *out = ARENA_ARRAY(a, int32_t, n);
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)(nodes[i] - kind->first);
    return out;
}

static Step step_of(Arena *a, const Folder *f, const Relation *x, bool reversed)
{
    const int32_t *src = (reversed ? f->dst : f->src) + x->first, *dst = (reversed ? f->src : f->dst) + x->first;
    Step s = {.from = reversed ? x->to : x->from, .to = reversed ? x->from : x->to};
    const Kind *from = &f->kinds[s.from], *to = &f->kinds[s.to];
    s.edges = (RtPathStep){of_kind(a, src, x->n, from), of_kind(a, dst, x->n, to), x->n, from->n, to->n};
    return s;
}

/* The pairs behind the folder's edges. */
static bool add_pairs(Session *s, Folder *f, Relation x, const Step *steps, uint32_t n_steps)
{
    RtPathStep edges[IR_MAX_PATH];
    RtPathWalk *w;
    RtStatus st = {0};
    for (uint32_t k = 0; k < n_steps; k++) edges[k] = steps[k].edges;
    if (rt_path_open(x.name, edges, n_steps, &w, &x.n, &st)) return refuse(s, st.message);
    if (x.n >= INT32_MAX - f->edges) {
        rt_path_free(w);
        return refuse(s,
                      arena_printf(s->arena, "paths of `%s` join %lld pairs, with which there are 2^31 edges or more",
                                   x.name, (long long)x.n));
    }
    x.first = f->edges;
    int32_t *src = ARENA_ARRAY(s->arena, int32_t, f->edges + x.n),
            *dst = ARENA_ARRAY(s->arena, int32_t, f->edges + x.n);
    for (int64_t e = 0; e < f->edges; e++) src[e] = f->src[e], dst[e] = f->dst[e];
    rt_path_pairs(w, src + x.first, dst + x.first);
    rt_path_free(w);
    f->edges += x.n;
    for (int64_t e = x.first; e < f->edges; e++) {
        src[e] += (int32_t)f->kinds[x.from].first;
        dst[e] += (int32_t)f->kinds[x.to].first;
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
    *step = step_of(a, f, x, reversed);
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
