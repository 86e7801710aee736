/* Tensor storage and initialisation (see tensors.h). */
#include "runtime/tensors.h"
#include "runtime/half.h"
#include "runtime/random.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool is_trained(const RtTensorDef *d) { return d->kind == RT_PARAM || d->kind == RT_STATE; }

static int64_t tensor_bytes(const RtTensors *t, int64_t i)
{
    return t->counts[i] * rt_dtype_bytes(t->model->tensors[i].dtype);
}

RtCode rt_tensors_alloc(RtTensors *t, int64_t i, RtStatus *st)
{
    const char *name = t->model->strings + t->model->tensors[i].name;
    int64_t bytes;
    assert(!t->blocks[i].p); /* a tensor's place never changes: programs are bound to it */
    if (t->counts[i] < 0 || !rt_mul(t->counts[i], rt_dtype_bytes(t->model->tensors[i].dtype), &bytes))
        return rt_fail(st, RT_E_OVERFLOW, name, NULL, "the tensor's size overflows 64 bits");
    RT_TRY(rt_block_alloc(&t->blocks[i], rt_size_plus(bytes, 1, RT_ARRAY_SPARE), name, st));
    t->data[i] = t->blocks[i].p;
    return RT_OK;
}

void rt_tensors_take(RtTensors *t, int64_t i, RtArray *a)
{
    assert(!t->blocks[i].p && a->spare && a->count == t->counts[i] && a->dtype == t->model->tensors[i].dtype);
    t->blocks[i] = a->data;
    t->data[i] = a->data.p;
    a->data = (RtBlock){0};
}

void rt_tensors_count(RtTensors *t, const RtGraph *g)
{
    const RtModel *m = t->model;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (!rt_mul(g ? g->spaces[m->tensors[i].space].count : 1, m->tensors[i].width, &t->counts[i]))
            t->counts[i] = -1;
}

static RtCode count_and_alloc(RtTensors *t, const RtGraph *g, RtStatus *st)
{
    const RtModel *m = t->model;
    rt_tensors_count(t, g);
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind != RT_INPUT && m->tensors[i].kind != RT_HELD && (g || m->tensors[i].space == 0))
            RT_TRY(rt_tensors_alloc(t, i, st));
    return RT_OK;
}

RtCode rt_tensors_create(const RtModel *m, const RtGraph *g, RtTensors *t, RtStatus *st)
{
    *t = (RtTensors){.model = m, .graph = g};
    RtCode code = rt_alloc(&t->data, m->n_tensors, sizeof *t->data, "tensors", st);
    if (!code) code = rt_alloc(&t->counts, m->n_tensors, sizeof *t->counts, "tensors", st);
    if (!code) code = rt_alloc(&t->blocks, m->n_tensors, sizeof *t->blocks, "tensors", st);
    if (!code) code = count_and_alloc(t, g, st);
    if (code) rt_tensors_free(t);
    return code;
}

void rt_tensors_free(RtTensors *t)
{
    if (!t) return;
    for (int64_t i = 0; t->blocks && i < t->model->n_tensors; i++) rt_block_free(&t->blocks[i]);
    free(t->data);
    free(t->counts);
    free(t->blocks);
    *t = (RtTensors){0};
}

static void put(void *data, int64_t dtype, int64_t i, double v)
{
    switch (dtype) {
    case RT_F32: ((float *)data)[i] = (float)v; break;
    case RT_F64: ((double *)data)[i] = v; break;
    case RT_I32: ((int32_t *)data)[i] = (int32_t)v; break;
    case RT_I64: ((int64_t *)data)[i] = (int64_t)v; break;
    default: ((uint8_t *)data)[i] = v != 0;
    }
}

double rt_element(const void *data, int64_t dtype, int64_t i)
{
    switch (dtype) {
    case RT_F32: return (double)((const float *)data)[i];
    case RT_F16: return (double)f16_to_float(((const uint16_t *)data)[i]);
    case RT_BF16: return (double)bf16_to_float(((const uint16_t *)data)[i]);
    case RT_F64: return ((const double *)data)[i];
    case RT_I32: return ((const int32_t *)data)[i];
    case RT_I64: return (double)((const int64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

/* Element i of a tensor's initial value. The name's hash stands in the step, so that parameters are
   independent and do not depend on their number. */
static double initial(const RtTensorDef *d, const int64_t *rows, uint64_t seed, uint32_t hash, int64_t i)
{
    assert(d->width > 0);
    uint64_t row = (uint64_t)(rows ? rows[i / d->width] : i / d->width), k = (uint64_t)(i % d->width);
    if (d->init == RT_INIT_UNIFORM)
        return d->init_a + (d->init_b - d->init_a) * rt_random_uniform(seed, hash, RT_SITE_INIT, row, k);
    if (d->init == RT_INIT_NORMAL) return d->init_a + d->init_b * rt_random_normal(seed, hash, RT_SITE_INIT, row, k);
    return d->init_a;
}

void rt_tensors_init(RtTensors *t, int64_t seed)
{
    for (int64_t i = 0; i < t->model->n_tensors; i++) {
        const RtTensorDef *d = &t->model->tensors[i];
        if (!t->data[i] || d->kind == RT_INPUT || d->kind == RT_HELD) continue;
        uint32_t hash = rt_name_hash(t->model->strings + d->name);
        const int64_t *rows = rt_tensor_ids(t, i);
        for (int64_t k = 0; k < t->counts[i]; k++)
            put(t->data[i], d->dtype, k,
                d->kind == RT_HYPER ? d->hyper_default : initial(d, rows, (uint64_t)seed, hash, k));
    }
}

bool rt_hyper_is_run(const RtModel *m, int64_t i)
{
    return m->tensors[i].kind == RT_HYPER && !strncmp(m->strings + m->tensors[i].name, "run.", 4);
}

int64_t rt_tensor_find(const RtModel *m, int64_t kind, const char *name)
{
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind == kind && !strcmp(m->strings + m->tensors[i].name, name)) return i;
    return -1;
}

void rt_tensors_set_hyper(RtTensors *t, int64_t tensor, double value)
{
    assert(t->model->tensors[tensor].kind == RT_HYPER && t->data[tensor]);
    put(t->data[tensor], t->model->tensors[tensor].dtype, 0, value);
}

double rt_tensors_hyper(const RtTensors *t, int64_t tensor)
{
    return rt_element(t->data[tensor], t->model->tensors[tensor].dtype, 0);
}

RtCode rt_tensors_snapshot(const RtTensors *t, RtBlock *copy, RtStatus *st)
{
    int64_t total = 0;
    for (int64_t i = 0; i < t->model->n_tensors; i++)
        if (is_trained(&t->model->tensors[i])) total += tensor_bytes(t, i);
    if (!copy->p) RT_TRY(rt_block_alloc(copy, total, "a copy of the weights", st));
    assert(copy->bytes == (size_t)total);
    char *at = copy->p;
    for (int64_t i = 0; i < t->model->n_tensors; i++) {
        if (!is_trained(&t->model->tensors[i])) continue;
        memcpy(at, t->data[i], (size_t)tensor_bytes(t, i));
        at += tensor_bytes(t, i);
    }
    return RT_OK;
}

void rt_tensors_restore(RtTensors *t, const RtBlock *copy)
{
    const char *at = copy->p;
    assert(at);
    for (int64_t i = 0; i < t->model->n_tensors; i++) {
        if (!is_trained(&t->model->tensors[i])) continue;
        memcpy(t->data[i], at, (size_t)tensor_bytes(t, i));
        at += tensor_bytes(t, i);
    }
}
