/* Reads a data folder of several kinds of nodes, which meta.json names (docs/data.md): its kinds, how many nodes each
   has, and the edges of all relations, which are numbered one kind and one relation after another. */
#include "driver/data.h"
#include "driver/partition.h"
#include <ctype.h>
#include <unistd.h>

static const char *const where = "\"relations\": {\"writes\": [\"author\", \"paper\"]}";

static bool has(Session *s, const Folder *f, const char *stem)
{
    return access(arena_printf(s->arena, "%s/%s.npy", f->path, stem), F_OK) == 0;
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    while (isalnum((unsigned char)*text) || *text == '_') text++;
    return !*text;
}

/* The kind's number, once it is known; -1: there is none of that name. */
static int32_t kind_of(const Folder *f, const char *name)
{
    for (int32_t k = 0; k < f->n_kinds; k++)
        if (!strcmp(f->kinds[k].name, name)) return k;
    return -1;
}

static int32_t add_kind(Folder *f, const char *name)
{
    int32_t k = kind_of(f, name);
    if (k >= 0) return k;
    f->kinds[f->n_kinds].name = name;
    return f->n_kinds++;
}

static bool add_relation(Session *s, Folder *f, const cJSON *it)
{
    Arena *a = s->arena;
    const cJSON *from = cJSON_GetArrayItem(it, 0), *to = cJSON_GetArrayItem(it, 1);
    if (!cJSON_IsString(from) || !cJSON_IsString(to) || cJSON_GetArraySize(it) != 2 || !is_name(it->string) ||
        !is_name(from->valuestring) || !is_name(to->valuestring))
        return partition_unfit(s, f, "meta.json",
                               arena_printf(a, "it names no two kinds of nodes that `%s` joins", it->string), where);
    const char *list = arena_printf(a, "%s.edge_index", it->string),
               *column = arena_printf(a, "%s.%s", from->valuestring, it->string);
    if (!has(s, f, list) && !has(s, f, column))
        return partition_unfit(
            s, f, "meta.json", arena_printf(a, "no array has the edges of `%s`", it->string),
            arena_printf(a, "save them as %s.npy, or one integer for each row as %s.npy", list, column));
    f->relations[f->n_relations++] = (Relation){.name = it->string,
                                                .array = has(s, f, list) ? list : column,
                                                .column = !has(s, f, list),
                                                .from = add_kind(f, from->valuestring),
                                                .to = add_kind(f, to->valuestring)};
    return true;
}

static int64_t meta_count(const Folder *f, const char *key)
{
    const cJSON *it = cJSON_GetObjectItemCaseSensitive(f->meta, key);
    return cJSON_IsNumber(it) && it->valuedouble >= 0 && it->valuedouble < 9e15 ? (int64_t)it->valuedouble : -1;
}

/* As many as meta.json says, else as an array of the kind has rows. */
static bool count_kind(Session *s, const Folder *f, Kind *k)
{
    static const char *const tell[] = {"x", "x_indptr", "y"};
    Arena *a = s->arena;
    int64_t plural = meta_count(f, arena_printf(a, "num_%ss", k->name));
    k->n = plural >= 0 ? plural : meta_count(f, arena_printf(a, "num_%s", k->name));
    for (int i = 0; i < 3 && k->n < 0; i++) {
        Npy npy;
        const char *path = arena_printf(a, "%s/%s.%s.npy", f->path, k->name, tell[i]);
        if (access(path, F_OK) == 0 && !npy_header(a, path, &npy) && npy.n_dims) k->n = npy.shape[0] - (i == 1);
    }
    if (k->n >= 0) return true;
    return partition_unfit(s, f, "meta.json", arena_printf(a, "nothing says how many nodes `%s` has", k->name),
                           arena_printf(a, "say it: \"num_%s\": N", k->name));
}

static bool read_edges(Session *s, Arena *a, const Folder *f, Relation *x, Npy *npy)
{
    const char *file = arena_printf(s->arena, "%s.npy", x->array);
    if (!partition_array(s, a, f, file, npy)) return false;
    if (npy->dtype[1] != 'i' || npy->n_dims != 2 - x->column || (!x->column && npy->shape[0] != 2))
        return partition_unfit(
            s, f, file, x->column ? "it is no vector of integers" : "it is no array of integers of 2 rows", NULL);
    x->n = x->column ? npy->n : npy->shape[1];
    memcpy(x->dtype, npy->dtype, sizeof x->dtype);
    if (x->column && x->n != f->kinds[x->from].n)
        return partition_unfit(s, f, file,
                               arena_printf(s->arena, "it has %lld integers, and there are %lld nodes of `%s`",
                                            (long long)x->n, (long long)f->kinds[x->from].n, f->kinds[x->from].name),
                               NULL);
    return true;
}

/* The ends of the relation's edges, as nodes of all kinds. */
static bool put_ends(Session *s, const Folder *f, const Relation *x, const Npy *npy, int32_t *src, int32_t *dst)
{
    const char *file = arena_printf(s->arena, "%s.npy", x->array);
    const Kind *from = &f->kinds[x->from], *to = &f->kinds[x->to];
    const int32_t *at = x->column ? NULL : partition_ids(s, f, file, npy, 0, x->n, from->n);
    const int32_t *leads = x->column || at ? partition_ids(s, f, file, npy, x->column ? 0 : x->n, x->n, to->n) : NULL;
    if (!leads) return false;
    for (int64_t e = 0; e < x->n; e++) {
        src[x->first + e] = (int32_t)(from->first + (at ? at[e] : e));
        dst[x->first + e] = (int32_t)(to->first + leads[e]);
    }
    return true;
}

/* Kinds that no relation joins have features. */
static void add_lone_kinds(Session *s, Folder *f)
{
    for (size_t i = 0; i < f->n_names; i++) {
        const char *dot = strchr(f->names[i], '.');
        const char *head = arena_strndup(s->arena, f->names[i], (size_t)(dot - f->names[i]));
        if (!strcmp(dot, ".x.npy") && is_name(head)) add_kind(f, head);
    }
}

bool partition_read_relations(Session *s, Arena *a, Folder *f)
{
    const cJSON *relations = cJSON_GetObjectItemCaseSensitive(f->meta, "relations");
    int64_t n = cJSON_GetArraySize(relations);
    Npy *arrays = ARENA_ARRAY(a, Npy, n);
    f->kinds = ARENA_ARRAY(s->arena, Kind, 2 * n + (int64_t)f->n_names);
    f->relations = ARENA_ARRAY(s->arena, Relation, n);
    for (const cJSON *it = relations->child; it; it = it->next)
        if (!add_relation(s, f, it)) return false;
    add_lone_kinds(s, f);
    for (int32_t k = 0; k < f->n_kinds; k++) {
        if (!count_kind(s, f, &f->kinds[k])) return false;
        f->kinds[k].first = f->nodes;
        f->nodes += f->kinds[k].n < INT32_MAX ? f->kinds[k].n : INT32_MAX;
        if (f->nodes >= INT32_MAX) return partition_unfit(s, f, "meta.json", "it has 2^31 nodes or more", NULL);
    }
    for (int32_t k = 0; k < f->n_relations; k++) {
        Relation *x = &f->relations[k];
        if (!read_edges(s, a, f, x, &arrays[k])) return false;
        x->first = f->edges;
        f->edges += x->n < INT32_MAX ? x->n : INT32_MAX;
        if (f->edges >= INT32_MAX) return partition_unfit(s, f, "meta.json", "it has 2^31 edges or more", NULL);
    }
    int32_t *src = ARENA_ARRAY(s->arena, int32_t, f->edges), *dst = ARENA_ARRAY(s->arena, int32_t, f->edges);
    for (int32_t k = 0; k < f->n_relations; k++)
        if (!put_ends(s, f, &f->relations[k], &arrays[k], src, dst)) return false;
    f->src = src;
    f->dst = dst;
    return true;
}
