/* Files of topologies (docs/distributed.md, "Time that is computed"). */
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/sim.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

void rt_sim_topology_default(RtSimTopology *t)
{
    *t = (RtSimTopology){.n_levels = 1};
    t->levels[0] = (RtSimLevel){
        .name = "network", .ranks = INT32_MAX, .alpha_s = 5e-6, .bytes_per_s = 12.5e9, .shared_by = 1};
}

int rt_sim_level(const RtSimTopology *t, int a, int b)
{
    int j = 0;
    assert(a != b);
    while (j < t->n_levels - 1 && a / t->levels[j].ranks != b / t->levels[j].ranks) j++;
    return j;
}

typedef struct Reader {
    const char *path;
    RtStatus *st;
} Reader;

static RtCode bad(const Reader *r, int64_t level, const char *field, const char *wanted)
{
    if (level < 0) return rt_fail(r->st, RT_E_SIM_TOPOLOGY, r->path, NULL, "`%s`: wanted %s", field, wanted);
    return rt_fail(r->st, RT_E_SIM_TOPOLOGY, r->path, NULL, "level %lld, `%s`: wanted %s", (long long)level, field,
                   wanted);
}

/* A number of at least `least`; *out keeps its default where there is none. */
static RtCode read_number(const Reader *r, const RtJson *o, int64_t level, const char *field, double least, double *out)
{
    const RtJson *v = rt_json_get(o, field);
    if (v && v->kind == RT_JSON_NUMBER && v->number >= least && v->number <= 1e18) *out = v->number;
    else if (v || *out < 0) return bad(r, level, field, least > 0 ? "a number above 0" : "a number of at least 0");
    return RT_OK;
}

static RtCode read_ranks(const Reader *r, const RtJson *o, int64_t level, const char *field, int64_t *out)
{
    const RtJson *v = rt_json_get(o, field);
    if (v && !(rt_json_int(v, out) && *out >= 1 && *out <= INT32_MAX)) return bad(r, level, field, "a number of ranks");
    return RT_OK;
}

static RtCode check_fields(const Reader *r, const RtJson *o, int64_t level)
{
    static const char *const known[] = {"name", "ranks", "alpha_s", "bytes_per_s", "shared_by", "message_s"};
    for (const RtJson *f = o->first; f; f = f->next) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= !strcmp(f->key, known[i]);
        if (!found) return bad(r, level, f->key, "name, ranks, alpha_s, bytes_per_s, shared_by or message_s");
    }
    return RT_OK;
}

static RtCode read_level(const Reader *r, const RtJson *o, int64_t i, RtSimTopology *t)
{
    RtSimLevel *l = &t->levels[i];
    const RtJson *name = rt_json_get(o, "name");
    bool last = i == t->n_levels - 1;
    *l = (RtSimLevel){.alpha_s = -1, .bytes_per_s = -1, .shared_by = 1};
    if (o->kind != RT_JSON_OBJECT) return bad(r, i, "levels", "an object for each");
    RT_TRY(check_fields(r, o, i));
    if (!name || name->kind != RT_JSON_STRING || !name->text[0]) return bad(r, i, "name", "a word");
    snprintf(l->name, sizeof l->name, "%s", name->text);
    RT_TRY(read_ranks(r, o, i, "ranks", &l->ranks));
    RT_TRY(read_ranks(r, o, i, "shared_by", &l->shared_by));
    RT_TRY(read_number(r, o, i, "alpha_s", 0, &l->alpha_s));
    RT_TRY(read_number(r, o, i, "bytes_per_s", 1e-9, &l->bytes_per_s));
    RT_TRY(read_number(r, o, i, "message_s", 0, &l->message_s));
    if (last && l->ranks) return bad(r, i, "ranks", "none: the last level holds all ranks");
    if (last) l->ranks = INT32_MAX;
    int64_t inner = i ? t->levels[i - 1].ranks : 1;
    if (!last && (l->ranks <= inner || l->ranks % inner))
        return bad(r, i, "ranks", "more ranks than the level before has, and a multiple of them");
    if (!last && l->ranks % l->shared_by) return bad(r, i, "shared_by", "a number that divides `ranks`");
    return RT_OK;
}

static RtCode read_levels(const Reader *r, const RtJson *root, RtSimTopology *t)
{
    const RtJson *levels = rt_json_get(root, "levels");
    if (!levels || levels->kind != RT_JSON_ARRAY || levels->n_items < 1 || levels->n_items > RT_SIM_LEVELS)
        return bad(r, -1, "levels", "1 to 8 levels");
    t->n_levels = (int)levels->n_items;
    int64_t i = 0;
    for (const RtJson *o = levels->first; o; o = o->next) RT_TRY(read_level(r, o, i++, t));
    return RT_OK;
}

RtCode rt_sim_topology_load(const char *path, RtSimTopology *t, RtStatus *st)
{
    RtBlock text;
    RtJsonDoc doc = {0};
    RT_TRY(rt_file_read(path, &text, st));
    RtCode code = rt_json_parse(path, text.p, text.bytes, &doc, st);
    if (!code) code = read_levels(&(Reader){path, st}, doc.root, t);
    rt_json_free(&doc);
    rt_block_free(&text);
    return code;
}
