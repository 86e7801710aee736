/* Checkpoints (see checkpoint.h). Numbers that must come back bit for bit are written as the
   hexadecimal form of their 64 bits. */
#include "runtime/checkpoint.h"
#include "runtime/weights.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROGRESS = 8, TEXT_BYTES = 17 }; /* entries before those of hypers; 16 hexadecimal digits and a NUL */
static const char version_text[] = "1";

typedef struct Meta {
    RtStPair *pairs; /* [n], room for all */
    char *texts;     /* room for keys and values, one behind the other */
    int64_t n, used;
} Meta;

static void meta_add(Meta *m, const char *key, const char *name, uint64_t bits)
{
    char *at = m->texts + m->used, *value = at + sprintf(at, "%s%s", key, name) + 1;
    m->used = value + sprintf(value, "%016" PRIx64, bits) + 1 - m->texts;
    m->pairs[m->n++] = (RtStPair){at, value};
}

static uint64_t double_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double bits_double(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static const char hyper_prefix[] = "hyper.";

static const char *name_of(const RtModel *m, int64_t tensor) { return m->strings + m->tensors[tensor].name; }

/* The longest key of a hyper, with its NUL. */
static int64_t key_bytes(const RtModel *m)
{
    size_t most = 0;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind == RT_HYPER && strlen(name_of(m, i)) > most) most = strlen(name_of(m, i));
    return (int64_t)(most + sizeof hyper_prefix);
}

/* Room for the entries of a checkpoint. Whoever calls frees both arrays, also after a failure. */
static RtCode take_meta(Meta *meta, const RtModel *m, RtStatus *st)
{
    int64_t n = N_PROGRESS, bytes = N_PROGRESS * (TEXT_BYTES + 16);
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].kind != RT_HYPER) continue;
        n++;
        bytes += (int64_t)(sizeof hyper_prefix + strlen(name_of(m, i))) + TEXT_BYTES;
    }
    RT_TRY(rt_alloc(&meta->pairs, n, sizeof *meta->pairs, "a checkpoint", st));
    return rt_alloc(&meta->texts, bytes, 1, "a checkpoint", st);
}

static void fill_meta(Meta *meta, const RtTensors *t, const RtProgress *p)
{
    assert(p->has_best ? p->since == p->epoch - 1 - p->best_epoch
                       : !p->since && !p->best_epoch); /* as read_progress wants it */
    meta->pairs[meta->n++] = (RtStPair){"gnnc.checkpoint", version_text};
    meta->pairs[meta->n++] = (RtStPair){"gnnc.model", t->model->strings + t->model->name};
    meta_add(meta, "epoch", "", (uint64_t)p->epoch);
    meta_add(meta, "seed", "", (uint64_t)p->seed);
    meta_add(meta, "has_best", "", p->has_best);
    meta_add(meta, "best", "", double_bits(p->best));
    meta_add(meta, "best_epoch", "", (uint64_t)p->best_epoch);
    meta_add(meta, "since", "", (uint64_t)p->since);
    assert(meta->n == N_PROGRESS);
    for (int64_t i = 0; i < t->model->n_tensors; i++)
        if (t->model->tensors[i].kind == RT_HYPER)
            meta_add(meta, hyper_prefix, name_of(t->model, i), double_bits(rt_tensors_hyper(t, i)));
}

RtCode rt_checkpoint_save(const char *path, const RtTensors *t, const RtProgress *p, const RtBlock *best, RtStatus *st)
{
    RtStored s = {0};
    Meta meta = {0};
    if (!path) {
        RT_TRY(rt_stored_give(t, true, NULL, st));
        return p->has_best ? rt_stored_give(t, true, best, st) : RT_OK;
    }
    RtCode code = take_meta(&meta, t->model, st);
    if (!code) fill_meta(&meta, t, p);
    if (!code) code = rt_stored_add(&s, t, true, "", NULL, st);
    if (!code && p->has_best) code = rt_stored_add(&s, t, true, "best/", best, st);
    if (!code) code = rt_st_write(path, s.entries, s.n, meta.pairs, meta.n, st);
    rt_stored_free(&s);
    free(meta.pairs);
    free(meta.texts);
    return code;
}

/* ---- reading ---- */

static RtCode get_bits(const RtStFile *f, const char *path, const char *key, uint64_t *bits, RtStatus *st)
{
    const char *text = rt_st_meta(f, key);
    if (text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16) *bits = strtoull(text, NULL, 16);
    else
        return rt_fail(st, RT_E_CHECKPOINT_FORM, path, NULL, "%s: found %s, wanted 16 hexadecimal digits", key,
                       text ? text : "nothing");
    return RT_OK;
}

static RtCode check_kind(const RtStFile *f, const char *path, const RtModel *m, RtStatus *st)
{
    const char *version = rt_st_meta(f, "gnnc.checkpoint"), *model = rt_st_meta(f, "gnnc.model");
    const char *name = m->strings + m->name;
    if (!version || strcmp(version, version_text))
        return rt_fail(st, RT_E_CHECKPOINT_FORM, path, "give a file that --checkpoint wrote",
                       "found %s, wanted a checkpoint of version 1", version ? version : "no checkpoint");
    if (!model || strcmp(model, name))
        return rt_fail(st, RT_E_CHECKPOINT_FIT, path, NULL, "found a checkpoint of model %s, wanted %s",
                       model ? model : "(none)", name);
    return RT_OK;
}

/* The best epoch lies before the next one, and `since` counts from it: what judge() in train.c leaves. A model without
   a stop metric has no best. */
static RtCode read_progress(const RtStFile *f, const char *path, const RtModel *m, RtProgress *p, RtStatus *st)
{
    enum { SEED = 1, BEST = 3 };
    static const char *const keys[] = {"epoch", "seed", "has_best", "best", "best_epoch", "since"};
    static const int64_t most[] = {INT32_MAX, 0, 1, 0, INT32_MAX, INT32_MAX}; /* so that no sum of them overflows */
    uint64_t v[6];
    for (int i = 0; i < 6; i++) RT_TRY(get_bits(f, path, keys[i], &v[i], st));
    *p = (RtProgress){(int64_t)v[0], (int64_t)v[1], v[2] != 0, bits_double(v[3]), (int64_t)v[4], (int64_t)v[5]};
    for (int i = 0; i < 6; i++)
        if (i != SEED && i != BEST && v[i] > (uint64_t)most[i])
            return rt_fail(st, RT_E_CHECKPOINT_FORM, path, NULL, "%s: found %" PRIu64 ", wanted at most %" PRId64,
                           keys[i], v[i], most[i]);
    if (p->has_best ? p->since != p->epoch - 1 - p->best_epoch : p->since || p->best_epoch)
        return rt_fail(st, RT_E_CHECKPOINT_FORM, path, NULL,
                       "epoch %" PRId64 ", best_epoch %" PRId64 " and since %" PRId64 " contradict each other",
                       p->epoch, p->best_epoch, p->since);
    if (p->has_best && m->train->stop_metric < 0)
        return rt_fail(st, RT_E_CHECKPOINT_FIT, path, NULL,
                       "found the weights of a best epoch, but the model stops by no metric");
    return RT_OK;
}

/* All parameters and state under `prefix`, in the order of a snapshot. */
static RtCode read_tensors(const RtStFile *f, const char *path, const RtTensors *t, const char *prefix, RtBlock *out,
                           RtStatus *st)
{
    char *at = out->p;
    for (int64_t i = 0; i < t->model->n_tensors; i++) {
        const RtTensorDef *d = &t->model->tensors[i];
        if (d->kind != RT_PARAM && d->kind != RT_STATE) continue;
        RT_TRY(rt_stored_get(f, path, t, i, prefix, at, st));
        at += t->counts[i] * rt_dtype_bytes(d->dtype);
    }
    return RT_OK;
}

/* key: room for the longest one. */
static RtCode read_hypers(const RtStFile *f, const char *path, RtTensors *t, bool apply, char *key, RtStatus *st)
{
    uint64_t bits = 0;
    for (int64_t i = 0; i < t->model->n_tensors; i++) {
        if (t->model->tensors[i].kind != RT_HYPER) continue;
        sprintf(key, "%s%s", hyper_prefix, name_of(t->model, i));
        RT_TRY(get_bits(f, path, key, &bits, st));
        if (!isfinite(bits_double(bits)) && !rt_hyper_is_run(t->model, i))
            return rt_fail(st, RT_E_CHECKPOINT_FORM, path, NULL, "%s: found %g, wanted a finite number", key,
                           bits_double(bits));
        if (apply) rt_tensors_set_hyper(t, i, bits_double(bits));
    }
    return RT_OK;
}

static RtCode load(const RtStFile *f, const char *path, RtTensors *t, RtProgress *p, RtBlock *best, RtBlock *fresh,
                   char *key, RtStatus *st)
{
    RtProgress got;
    RT_TRY(check_kind(f, path, t->model, st));
    RT_TRY(read_progress(f, path, t->model, &got, st));
    RT_TRY(read_hypers(f, path, t, false, key, st));
    RT_TRY(rt_tensors_snapshot(t, fresh, st));
    RT_TRY(rt_tensors_snapshot(t, best, st));
    if (got.has_best) RT_TRY(read_tensors(f, path, t, "best/", best, st));
    RT_TRY(read_tensors(f, path, t, "", fresh, st));
    rt_tensors_restore(t, fresh);
    RT_TRY(read_hypers(f, path, t, true, key, st));
    *p = got;
    return RT_OK;
}

RtCode rt_checkpoint_load(const char *path, RtTensors *t, RtProgress *p, RtBlock *best, RtStatus *st)
{
    RtStFile f;
    RtBlock fresh = {0};
    RT_TRY(rt_st_read(path, &f, st));
    char *key = NULL;
    RtCode code = rt_alloc(&key, key_bytes(t->model), 1, "a checkpoint", st);
    if (!code) code = load(&f, path, t, p, best, &fresh, key, st);
    free(key);
    rt_block_free(&fresh);
    rt_st_free(&f);
    return code;
}
