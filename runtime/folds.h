/* Cross-validation: the masks of a data set made of fold.npy, a number below K for each row. */
#pragma once
#include "runtime/dataset.h"

/* 0, 1, 2: the tensor is train_mask, val_mask or test_mask; -1: something else. */
int rt_mask_role(const RtModel *m, int64_t tensor);
/* fold.npy as i64, in the user's order, in a new block. DATA_FOLDS unless each row has a fold below K. */
RtCode rt_folds_read(RtSource *s, int64_t rows, int64_t folds, RtBlock *out, RtStatus *st);
/* DATA_FOLDS unless each fold has a row, as rows[n_folds] counts them. */
RtCode rt_folds_check(const int64_t *rows, int64_t n_folds, RtStatus *st);
/* Adds the rows of each fold to rows[n_folds]. */
void rt_folds_count(const RtData *d, int64_t *rows);
