/* A model's tensors in safetensors files, under the names and layouts that PyTorch users have
   (IrTensor.stored_*). */
#pragma once
#include "runtime/safetensors.h"
#include "runtime/tensors.h"

/* Whether tensor i belongs in a weights file: parameters, and state that the forward function or a
   metric reads. */
bool rt_weights_has(const RtModel *m, int64_t tensor);

/* Entries of tensors in stored layout, packed into one block: what rt_st_write takes. */
typedef struct RtStored {
    RtStEntry *entries;
    int64_t n;
    RtBlock data;
} RtStored;
/* all: parameters and all state (a checkpoint), else rt_weights_has. prefix goes before each name.
   values: NULL, or a snapshot (rt_tensors_snapshot) to take the values from. */
RtCode rt_stored_add(RtStored *s, const RtTensors *t, bool all, const char *prefix, const RtBlock *values,
                     RtStatus *st);
void rt_stored_free(RtStored *s);
/* What a process does that another's rt_stored_add waits for: it gives the rows that it has. */
RtCode rt_stored_give(const RtTensors *t, bool all, const RtBlock *values, RtStatus *st);

/* Tensors whose data is NULL (rows of a graph that is not there) are passed over, both ways. path NULL:
   another process writes the file, with rows that this one gives it. */
RtCode rt_weights_save(const RtTensors *t, const char *path, RtStatus *st);
/* Reads every tensor of rt_weights_has; missing, extra, wrong shape or dtype are errors. Nothing is
   changed then. */
RtCode rt_weights_load(RtTensors *t, const char *path, RtStatus *st);
RtCode rt_weights_load_memory(RtTensors *t, const void *bytes, size_t n_bytes, RtStatus *st);
/* The value of one tensor alone, into out, whose contents are undefined on failure: as many rows as t counts. */
RtCode rt_weights_read(const RtTensors *t, int64_t tensor, const char *path, void *out, RtStatus *st);
/* Value of tensor i from an open file's entry PREFIXNAME, into out (value layout). */
RtCode rt_stored_get(const RtStFile *f, const char *place, const RtTensors *t, int64_t tensor, const char *prefix,
                     void *out, RtStatus *st);
