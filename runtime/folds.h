/* Cross-validation: the masks of a data set made of fold.npy, a number below K for each row. */
#pragma once
#include "runtime/dataset.h"

/* 0, 1, 2: the tensor is train_mask, val_mask or test_mask; -1: something else. */
int rt_mask_role(const RtModel *m, int64_t tensor);
/* fold.npy as i64, in the user's order, in a new block. DATA_FOLDS unless each of the K folds has a row and each row a
   fold. */
RtCode rt_folds_read(RtSource *s, int64_t rows, int64_t folds, RtBlock *out, RtStatus *st);
