/* gnnc data info DIR --schema: the kinds of nodes and the relations of a folder as a schema of the language, and only
   that. Looks at meta.json and at the headers of arrays. A folder says its relations in one of two ways:

     "relations": {"writes": ["author", "paper"]}        edges of writes in writes.edge_index.npy or author.writes.npy
     "num_relations": 3, edge_index.npy, edge_type.npy   one kind `node`, a relation for each integer of edge_type */
#include "driver/data.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct Writer {
    Session *s;
    const char *dir;
    FrontendOptions found;
    const cJSON *meta;
    VEC(const char *) kinds;
    StrBuf edges;
} Writer;

static const FrontendFact *fact(const Writer *w, const char *name)
{
    for (uint32_t i = 0; i < w->found.n_facts; i++)
        if (!strcmp(w->found.facts[i].name, name)) return &w->found.facts[i];
    return NULL;
}

static bool is_name(const char *text)
{
    static const char *const taken[] = {"all", "unit", "data", "column"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(text, taken[i])) return false;
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

static bool refuse(Writer *w, const char *what, const char *help)
{
    Diag *d = diag_error(&w->s->diags, E0615, (Span){0}, "%s: %s", w->dir, what);
    if (help) diag_help(&w->s->diags, d, "%s", help);
    return false;
}

static void add_kind(Writer *w, const char *kind)
{
    for (uint32_t i = 0; i < w->kinds.n; i++)
        if (!strcmp(w->kinds.data[i], kind)) return;
    VEC_PUSH(w->s->arena, &w->kinds, kind);
}

/* ---- relations that meta.json names ---------------------------------------------------------------------------- */

static bool add_relation(Writer *w, const cJSON *it)
{
    Arena *a = w->s->arena;
    const cJSON *from = cJSON_GetArrayItem(it, 0), *to = cJSON_GetArrayItem(it, 1);
    if (!cJSON_IsString(from) || !cJSON_IsString(to) || cJSON_GetArraySize(it) != 2)
        return refuse(w, arena_printf(a, "meta.json names no two kinds that relation `%s` joins", it->string),
                      "\"relations\": {\"writes\": [\"author\", \"paper\"]}");
    const char *names[] = {it->string, from->valuestring, to->valuestring};
    for (int i = 0; i < 3; i++)
        if (!is_name(names[i])) return refuse(w, arena_printf(a, "`%s` cannot be a name of a program", names[i]), NULL);
    add_kind(w, names[1]);
    add_kind(w, names[2]);
    bool list = fact(w, arena_printf(a, "%s.edge_index", names[0])) != NULL;
    if (!list && !fact(w, arena_printf(a, "%s.%s", names[1], names[0])))
        return refuse(w, arena_printf(a, "no array has the edges of `%s`", names[0]),
                      arena_printf(a, "save them as %s.edge_index.npy, or one integer for each row as %s.%s.npy",
                                   names[0], names[1], names[0]));
    strbuf_printf(&w->edges, "  edge %s: %s -> %s%s\n", names[0], names[1], names[2], list ? "" : " = column");
    return true;
}

/* Arrays of edges that meta.json says nothing of, and kinds of nodes that no relation joins. */
static bool add_rest(Writer *w, const cJSON *relations)
{
    for (uint32_t i = 0; i < w->found.n_facts; i++) {
        const char *name = w->found.facts[i].name, *dot = strchr(name, '.');
        if (!dot) continue;
        const char *head = arena_strndup(w->s->arena, name, (size_t)(dot - name));
        bool known = cJSON_GetObjectItemCaseSensitive(relations, head) != NULL;
        if (!strcmp(dot, ".edge_index") && !known)
            return refuse(w, arena_printf(w->s->arena, "meta.json does not say which kinds of nodes `%s` joins", head),
                          arena_printf(w->s->arena, "\"relations\": {\"%s\": [\"KIND\", \"KIND\"]}", head));
        if (!strcmp(dot, ".x") && !known && is_name(head)) add_kind(w, head);
    }
    return true;
}

static bool named_relations(Writer *w, const cJSON *relations)
{
    for (const cJSON *it = relations->child; it; it = it->next)
        if (!add_relation(w, it)) return false;
    return add_rest(w, relations);
}

/* ---- relations by number ----------------------------------------------------------------------------------------- */

/* The name that meta.json gives the relation, as a name of a program, else its number. */
static const char *number_name(const Writer *w, int64_t k)
{
    const cJSON *name = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(w->meta, "relation_names"), (int)k);
    if (!cJSON_IsString(name)) return arena_printf(w->s->arena, "relation_%lld", (long long)k);
    char *text = arena_strndup(w->s->arena, name->valuestring, strlen(name->valuestring));
    for (char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return is_name(text) ? text : arena_printf(w->s->arena, "relation_%s", text);
}

static int64_t number_of(const cJSON *meta, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(meta, key);
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 1e6 ? (int64_t)it->valuedouble : -1;
}

/* An integer of each node below num_NAMEs: a kind of its own, and an edge to it from each node. */
static void add_columns(Writer *w)
{
    for (uint32_t i = 0; i < w->found.n_facts; i++) {
        const FrontendFact *f = &w->found.facts[i];
        bool integers = (f->dtype == IR_I64 || f->dtype == IR_I32) && f->n_dims == 0 && f->rows &&
                        !strcmp(f->rows, "node");
        if (!integers || !is_name(f->name) || number_of(w->meta, arena_printf(w->s->arena, "num_%ss", f->name)) < 0)
            continue;
        add_kind(w, f->name);
        strbuf_printf(&w->edges, "  edge has_%s: node -> %s = data.%s\n", f->name, f->name, f->name);
    }
}

static bool numbered_relations(Writer *w)
{
    int64_t n = number_of(w->meta, "num_relations");
    StrMap names = {.arena = w->s->arena};
    add_kind(w, "node");
    if (n < 0) return refuse(w, "meta.json does not say how many types edge_type.npy has", "\"num_relations\": 3");
    for (int64_t k = 0; k < n; k++) {
        const char *name = number_name(w, k);
        if (strmap_has(&names, name) || !strcmp(name, "node"))
            return refuse(w, arena_printf(w->s->arena, "two relations would have the name `%s`", name), NULL);
        strmap_put(&names, name, (void *)name);
        strbuf_printf(&w->edges, "  edge %s: node -> node = data.edge_index where data.edge_type == %lld\n", name,
                      (long long)k);
    }
    add_columns(w);
    return true;
}

/* ---- whole ------------------------------------------------------------------------------------------------------- */

static const char *schema_name(const Writer *w)
{
    const cJSON *name = w->meta ? cJSON_GetObjectItemCaseSensitive(w->meta, "name") : NULL;
    const char *said = cJSON_IsString(name) ? name->valuestring : "dataset";
    char *text = arena_strndup(w->s->arena, said, strlen(said));
    for (char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return is_name(text) ? text : "dataset";
}

static void print(const Writer *w)
{
    printf("schema %s {\n  node", schema_name(w));
    for (uint32_t i = 0; i < w->kinds.n; i++) {
        const char *kind = w->kinds.data[i];
        bool one = !strcmp(kind, "node");
        const FrontendFact *x = fact(w, one ? "x" : arena_printf(w->s->arena, "%s.x", kind));
        printf("%s %s", i ? "," : "", kind);
        if (x && x->n_dims == 1) printf("[%lld]", (long long)x->dims[0]);
    }
    printf("\n%.*s}\n", (int)w->edges.n, w->edges.n ? w->edges.data : "");
}

int data_schema(Session *s, const char *dir)
{
    Writer w = {.s = s, .dir = dir, .edges = {.arena = s->arena}};
    cJSON *meta = NULL;
    if (!data_meta(s, dir, &meta) || !facts_read(s, dir, &w.found)) return 6;
    w.meta = meta;
    const cJSON *relations = meta ? cJSON_GetObjectItemCaseSensitive(meta, "relations") : NULL;
    bool ok = cJSON_IsObject(relations) ? named_relations(&w, relations)
              : fact(&w, "edge_index") && fact(&w, "edge_type")
                  ? numbered_relations(&w)
                  : refuse(&w, "it has one kind of nodes and one of edges",
                           "relations are named in meta.json, or numbered in edge_type.npy");
    if (ok) print(&w);
    cJSON_Delete(meta);
    return ok ? 0 : 6;
}
