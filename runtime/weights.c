/* Weights files (see weights.h): the permutation between value and stored layout, names checked
   both ways. */
#include "runtime/weights.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *tensor_name(const RtModel *m, int64_t tensor) { return m->strings + m->tensors[tensor].name; }

/* Whether a function that only reads it, forward or metrics, takes the tensor. */
static bool is_read_by(const RtModel *m, int64_t tensor, const char *function)
{
    for (int64_t p = 0; p < m->n_programs; p++) {
        const RtProgram *prog = &m->programs[p];
        if (strcmp(m->strings + prog->name, function)) continue;
        for (int64_t i = 0; i < prog->n_argdefs; i++) {
            const RtArgDef *a = &m->argdefs[prog->first_argdef + i];
            if (a->kind == RT_ARG_TENSOR && a->ref == tensor) return true;
        }
    }
    return false;
}

bool rt_weights_has(const RtModel *m, int64_t tensor)
{
    int64_t kind = m->tensors[tensor].kind;
    if (kind != RT_STATE) return kind == RT_PARAM;
    return is_read_by(m, tensor, "forward") || is_read_by(m, tensor, "metrics");
}

/* ---- layout ---- */

/* The value's strides in the order of the stored dims. */
static void stored_strides(const RtTensorDef *d, int64_t *sizes, int64_t *strides)
{
    int64_t value[RT_MAX_DIMS], step = 1;
    for (int64_t i = d->n_dims - 1; i >= 0; i--) {
        value[i] = step;
        step *= d->dims[i];
    }
    for (int64_t i = 0; i < d->n_dims; i++) {
        int64_t from = d->n_stored ? d->stored_perm[i] : i;
        assert(from >= 0 && from < d->n_dims);
        sizes[i] = d->dims[from];
        strides[i] = value[from];
    }
}

/* Copies one row between layouts; to_value: from stored to value. */
static void copy_row(const RtTensorDef *d, char *value, char *stored, bool to_value)
{
    int64_t sizes[RT_MAX_DIMS], strides[RT_MAX_DIMS], at[RT_MAX_DIMS] = {0};
    size_t size = (size_t)rt_dtype_bytes(d->dtype);
    stored_strides(d, sizes, strides);
    for (int64_t i = 0, offset = 0; i < d->width; i++) {
        char *v = value + (size_t)offset * size, *s = stored + (size_t)i * size;
        memcpy(to_value ? v : s, to_value ? s : v, size);
        for (int64_t k = d->n_dims - 1; k >= 0; k--) {
            offset += strides[k];
            if (++at[k] < sizes[k]) break;
            offset -= strides[k] * sizes[k];
            at[k] = 0;
        }
    }
}

/* ids: the places of the value's rows in the stored tensor; NULL: their own. */
static void copy_layout(const RtTensorDef *d, int64_t count, const int64_t *ids, char *value, char *stored,
                        bool to_value)
{
    int64_t row = d->width * rt_dtype_bytes(d->dtype), rows = d->width ? count / d->width : 0;
    for (int64_t i = 0; i < rows; i++) copy_row(d, value + i * row, stored + (ids ? ids[i] : i) * row, to_value);
}

/* Elements of all processes together. */
static int64_t whole_count(const RtTensors *t, int64_t i)
{
    return rt_tensor_rows(t, i) ? t->shared->of[i].total * t->model->tensors[i].width : t->counts[i];
}

static void stored_shape(const RtTensors *t, int64_t tensor, RtStEntry *e)
{
    const RtTensorDef *d = &t->model->tensors[tensor];
    e->n_dims = 0;
    if (d->space != 0) e->shape[e->n_dims++] = d->width ? whole_count(t, tensor) / d->width : 0;
    int64_t n = d->n_stored ? d->n_stored : d->n_dims;
    for (int64_t i = 0; i < n; i++) e->shape[e->n_dims++] = d->n_stored ? d->stored_shape[i] : d->dims[i];
}

/* ---- writing ---- */

static bool is_wanted(const RtModel *m, int64_t i, bool all)
{
    return all ? m->tensors[i].kind == RT_PARAM || m->tensors[i].kind == RT_STATE : rt_weights_has(m, i);
}

static RtCode grow(RtStored *s, int64_t more, int64_t bytes, RtStatus *st)
{
    RtBlock data;
    RT_TRY(rt_block_alloc(&data, rt_size_plus((int64_t)s->data.bytes, bytes, 1), "the weights", st));
    if (s->data.bytes) memcpy(data.p, s->data.p, s->data.bytes);
    for (int64_t i = 0; i < s->n; i++)
        s->entries[i].data = (char *)data.p + ((const char *)s->entries[i].data - (char *)s->data.p);
    rt_block_free(&s->data);
    s->data = data;
    return rt_grow(&s->entries, s->n + more, sizeof *s->entries, "the weights", st);
}

static RtCode set_name(RtStEntry *e, const char *prefix, const char *name, RtStatus *st)
{
    size_t n = strlen(prefix) + strlen(name) + 1;
    char *text;
    RT_TRY(rt_alloc(&text, (int64_t)n, 1, "the weights", st));
    snprintf(text, n, "%s%s", prefix, name);
    e->name = text;
    return RT_OK;
}

RtCode rt_stored_add(RtStored *s, const RtTensors *t, bool all, const char *prefix, const RtBlock *values, RtStatus *st)
{
    const RtModel *m = t->model;
    int64_t bytes = 0, old = (int64_t)s->data.bytes;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (is_wanted(m, i, all) && t->data[i]) bytes += whole_count(t, i) * rt_dtype_bytes(m->tensors[i].dtype);
    RT_TRY(grow(s, m->n_tensors, bytes, st));
    char *at = (char *)s->data.p + old, *value = values ? values->p : NULL;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        int64_t size = t->counts[i] * rt_dtype_bytes(m->tensors[i].dtype);
        char *from = values ? value : t->data[i];
        if (is_wanted(m, i, true)) value += values ? size : 0;
        if (!is_wanted(m, i, all) || !t->data[i]) continue;
        RtStEntry *e = &s->entries[s->n];
        RtBlock whole = {0};
        int64_t bytes_all = whole_count(t, i) * rt_dtype_bytes(m->tensors[i].dtype);
        *e = (RtStEntry){.dtype = m->tensors[i].dtype, .data = at, .bytes = bytes_all};
        RT_TRY(set_name(e, prefix, tensor_name(m, i), st));
        s->n++;
        stored_shape(t, i, e);
        if (rt_tensor_rows(t, i)) RT_TRY(t->shared->collect(t->shared->ranks, i, from, &whole, st));
        bool some = rt_tensor_rows(t, i) != NULL;
        copy_layout(&m->tensors[i], whole_count(t, i), some ? NULL : rt_tensor_ids(t, i), some ? whole.p : from, at,
                    false);
        rt_block_free(&whole);
        at += bytes_all;
        assert(at <= (char *)s->data.p + s->data.bytes);
    }
    return RT_OK;
}

RtCode rt_stored_give(const RtTensors *t, bool all, const RtBlock *values, RtStatus *st)
{
    const RtModel *m = t->model;
    const char *value = values ? values->p : NULL;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        RtBlock none = {0};
        const char *from = values ? value : t->data[i];
        if (is_wanted(m, i, true)) value += values ? t->counts[i] * rt_dtype_bytes(m->tensors[i].dtype) : 0;
        if (!is_wanted(m, i, all) || !t->data[i] || !rt_tensor_rows(t, i)) continue;
        RT_TRY(t->shared->collect(t->shared->ranks, i, from, &none, st));
        rt_block_free(&none);
    }
    return RT_OK;
}

void rt_stored_free(RtStored *s)
{
    if (!s) return;
    for (int64_t i = 0; i < s->n; i++) free((char *)(uintptr_t)s->entries[i].name);
    free(s->entries);
    rt_block_free(&s->data);
    *s = (RtStored){0};
}

RtCode rt_weights_save(const RtTensors *t, const char *path, RtStatus *st)
{
    RtStored s = {0};
    if (!path) return rt_stored_give(t, false, NULL, st);
    RtStPair meta[] = {{"format", "pt"}, {"gnnc.model", t->model->strings + t->model->name}};
    RtCode code = rt_stored_add(&s, t, false, "", NULL, st);
    if (!code) code = rt_st_write(path, s.entries, s.n, meta, 2, st);
    rt_stored_free(&s);
    return code;
}

/* ---- reading ---- */

static const char *shape_text(const RtStEntry *e, char *out, size_t size)
{
    RtArray a = {.dtype = e->dtype, .n_dims = e->n_dims};
    memcpy(a.shape, e->shape, sizeof a.shape);
    return rt_array_text(&a, out, size);
}

RtCode rt_stored_get(const RtStFile *f, const char *place, const RtTensors *t, int64_t tensor, const char *prefix,
                     void *out, RtStatus *st)
{
    const RtTensorDef *d = &t->model->tensors[tensor];
    char name[600], found[160], wanted[160];
    RtStEntry want = {.dtype = d->dtype};
    stored_shape(t, tensor, &want);
    snprintf(name, sizeof name, "%s%s", prefix, tensor_name(t->model, tensor));
    const RtStEntry *e = rt_st_find(f, name);
    shape_text(&want, wanted, sizeof wanted);
    if (!e)
        return rt_declared_tensor(rt_fail(st, RT_E_WEIGHTS_NAME, place,
                                          "`info` lists the names, shapes and dtypes the model wants",
                                          "tensor %s is missing, wanted %s", name, wanted),
                                  t->model, tensor, st);
    bool same = e->n_dims == want.n_dims;
    for (int64_t i = 0; same && i < want.n_dims; i++) same = e->shape[i] == want.shape[i];
    shape_text(e, found, sizeof found);
    if (!same || e->dtype != want.dtype)
        return rt_declared_tensor(rt_fail(st, same ? RT_E_WEIGHTS_DTYPE : RT_E_WEIGHTS_SHAPE, place,
                                          "was the model built with other sizes, or for other data?",
                                          "tensor %s: found %s, wanted %s", name, found, wanted),
                                  t->model, tensor, st);
    copy_layout(d, t->counts[tensor], rt_tensor_ids(t, tensor), out, (char *)(uintptr_t)e->data, true);
    return RT_OK;
}

/* A run that failed leaves NaN; an infinity may be a mask. */
static RtCode check_numbers(const RtTensors *t, int64_t tensor, const void *value, const char *place, RtStatus *st)
{
    const RtTensorDef *d = &t->model->tensors[tensor];
    bool f32 = d->dtype == RT_F32;
    if (!f32 && d->dtype != RT_F64) return RT_OK;
    for (int64_t i = 0; i < t->counts[tensor]; i++) {
        double x = f32 ? (double)((const float *)value)[i] : ((const double *)value)[i];
        if (isnan(x))
            return rt_fail(st, RT_E_WEIGHTS_NAN, place, "take the weights of an earlier epoch", "tensor %s holds a NaN",
                           tensor_name(t->model, tensor));
    }
    return RT_OK;
}

/* A checkpoint may be read as weights: what belongs to the run, not the model, is passed over. */
static RtCode check_extra(const RtStFile *f, const char *place, const RtModel *m, RtStatus *st)
{
    if (rt_st_meta(f, "gnnc.checkpoint")) return RT_OK;
    for (int64_t k = 0; k < f->n_entries; k++) {
        bool known = false;
        for (int64_t i = 0; i < m->n_tensors && !known; i++)
            known = rt_weights_has(m, i) && !strcmp(tensor_name(m, i), f->entries[k].name);
        if (!known)
            return rt_fail(st, RT_E_WEIGHTS_NAME, place, "`info` lists the names, shapes and dtypes the model wants",
                           "tensor %s is not one of the model's", f->entries[k].name);
    }
    return RT_OK;
}

/* Everything is read into `fresh` first, so that a failure changes nothing. */
static RtCode load_all(RtTensors *t, const RtStFile *f, const char *place, RtBlock *fresh, RtStatus *st)
{
    const RtModel *m = t->model;
    int64_t total = 0, at = 0;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (rt_weights_has(m, i) && t->data[i]) total += t->counts[i] * rt_dtype_bytes(m->tensors[i].dtype);
    RT_TRY(rt_block_alloc(fresh, total, place, st));
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (!rt_weights_has(m, i) || !t->data[i]) continue;
        RT_TRY(rt_stored_get(f, place, t, i, "", (char *)fresh->p + at, st));
        RT_TRY(check_numbers(t, i, (char *)fresh->p + at, place, st));
        at += t->counts[i] * rt_dtype_bytes(m->tensors[i].dtype);
    }
    assert(at == total);
    RT_TRY(check_extra(f, place, m, st));
    at = 0;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (!rt_weights_has(m, i) || !t->data[i]) continue;
        int64_t bytes = t->counts[i] * rt_dtype_bytes(m->tensors[i].dtype);
        memcpy(t->data[i], (char *)fresh->p + at, (size_t)bytes);
        at += bytes;
    }
    return RT_OK;
}

static RtCode load_file(RtTensors *t, RtStFile *f, const char *place, RtStatus *st)
{
    RtBlock fresh = {0};
    RtCode code = load_all(t, f, place, &fresh, st);
    rt_block_free(&fresh);
    rt_st_free(f);
    return code;
}

RtCode rt_weights_load(RtTensors *t, const char *path, RtStatus *st)
{
    RtStFile f;
    RT_TRY(rt_st_read(path, &f, st));
    return load_file(t, &f, path, st);
}

RtCode rt_weights_load_memory(RtTensors *t, const void *bytes, size_t n_bytes, RtStatus *st)
{
    RtStFile f;
    RT_TRY(rt_st_parse("weights in memory", bytes, n_bytes, &f, st));
    return load_file(t, &f, "weights in memory", st);
}

RtCode rt_weights_read(const RtTensors *t, int64_t tensor, const char *path, void *out, RtStatus *st)
{
    RtStFile f;
    RT_TRY(rt_st_read(path, &f, st));
    RtCode code = rt_stored_get(&f, path, t, tensor, "", out, st);
    if (!code) code = check_numbers(t, tensor, out, path, st);
    rt_st_free(&f);
    return code;
}
