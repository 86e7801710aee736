/* Folds (see folds.h). Which rows are of which set is a function of fold.npy and the number of the fold alone. */
#include "runtime/folds.h"
#include "runtime/convert.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TRAIN, VAL, TEST, N_ROLES };

int rt_mask_role(const RtModel *m, int64_t tensor)
{
    static const char *const names[N_ROLES] = {"train_mask", "val_mask", "test_mask"};
    const RtTensorDef *t = &m->tensors[tensor];
    for (int i = 0; i < N_ROLES; i++)
        if (t->kind == RT_INPUT && t->dtype == RT_BOOL && t->width == 1 && !strcmp(m->strings + t->name, names[i]))
            return i;
    return -1;
}

static RtCode check_rows(const int64_t *fold, int64_t rows, int64_t folds, const char *place, RtStatus *st)
{
    for (int64_t v = 0; v < rows; v++)
        if (fold[v] < 0 || fold[v] >= folds)
            return rt_fail(st, RT_E_DATA_FOLDS, place, NULL, "row %lld is %lld, wanted 0 <= fold < %lld", (long long)v,
                           (long long)fold[v], (long long)folds);
    return RT_OK;
}

RtCode rt_folds_check(const int64_t *rows, int64_t n_folds, RtStatus *st)
{
    for (int64_t k = 0; k < n_folds; k++)
        if (!rows[k])
            return rt_fail(st, RT_E_DATA_FOLDS, "fold.npy", NULL,
                           "no row is of fold %lld, wanted rows of each of %lld folds", (long long)k,
                           (long long)n_folds);
    return RT_OK;
}

void rt_folds_count(const RtData *d, int64_t *rows)
{
    for (int64_t v = 0; v < d->graph->spaces[d->fold_space].count; v++) rows[d->fold_of[v]]++;
}

static RtCode convert(const RtArray *a, int64_t rows, int64_t folds, const char *place, RtBlock *out, RtStatus *st)
{
    if (a->n_dims != 1 || a->shape[0] != rows)
        return rt_fail(st, RT_E_DATA_ROWS, place, NULL, "found %lld rows, wanted %lld: one per row of the masks",
                       (long long)(a->n_dims ? a->shape[0] : 1), (long long)rows);
    RT_TRY(rt_block_alloc(out, rt_size(rows, 8), place, st));
    RT_TRY(rt_convert(a, RT_I64, out->p, place, st));
    return check_rows(out->p, rows, folds, place, st);
}

RtCode rt_folds_read(RtSource *s, int64_t rows, int64_t folds, RtBlock *out, RtStatus *st)
{
    char place[4096];
    RtArray a = {0};
    rt_source_place(s, "fold", place, sizeof place);
    if (!rt_source_has(s, "fold"))
        return rt_fail(st, RT_E_DATA_MISSING, place, "save the number of each row's fold, from 0",
                       "--folds wants fold.npy");
    RT_TRY(rt_source_read(s, "fold", &a, st));
    RtCode code = convert(&a, rows, folds, place, out, st);
    rt_array_free(&a);
    if (code) rt_block_free(out);
    return code;
}

void rt_data_fold(const RtModel *m, RtData *d, int64_t fold)
{
    assert(d->fold_of && fold >= 0 && fold < d->n_folds);
    uint8_t *masks[N_ROLES] = {0};
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (rt_mask_role(m, i) >= 0) masks[rt_mask_role(m, i)] = d->tensors.data[i];
    int64_t val = masks[VAL] ? (fold + 1) % d->n_folds : -1;
    for (int64_t v = 0; v < d->graph->spaces[d->fold_space].count; v++) {
        int role = d->fold_of[v] == fold ? TEST : d->fold_of[v] == val ? VAL : TRAIN;
        for (int i = 0; i < N_ROLES; i++)
            if (masks[i]) masks[i][v] = i == role;
    }
}
