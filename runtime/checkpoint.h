/* Checkpoints: everything a training run needs to go on bit for bit, in one safetensors file
   replaced atomically. Parameters carry their usual names, so that a checkpoint can be read as
   weights too. */
#pragma once
#include "runtime/tensors.h"

/* Where a run stands between two epochs. */
typedef struct RtProgress {
    int64_t epoch; /* the next one */
    int64_t seed;
    bool has_best;
    double best; /* stop metric */
    int64_t best_epoch;
    int64_t since; /* epochs without improvement */
} RtProgress;

/* best: a snapshot (rt_tensors_snapshot), read when p->has_best. */
RtCode rt_checkpoint_save(const char *path, const RtTensors *t, const RtProgress *p, const RtBlock *best, RtStatus *st);
/* Restores tensors (hypers too), progress and best. Nothing is changed on failure; best is
   allocated if need be. */
RtCode rt_checkpoint_load(const char *path, RtTensors *t, RtProgress *p, RtBlock *best, RtStatus *st);
