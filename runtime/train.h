/* The training loop: one train_step and one evaluation of the metrics per epoch, early stopping
   with the best weights kept, checkpoints, a JSON line per epoch. */
#pragma once
#include "runtime/batch.h"
#include "runtime/exec.h"

enum { RT_MAX_METRICS = 32 };

typedef struct RtEpoch {
    int64_t epoch, epochs; /* 0-based; how many there will be */
    double loss;
    const double *metrics; /* [n_metrics] */
    double seconds;        /* since training began */
    bool best;
} RtEpoch;

typedef struct RtHyperValue {
    int64_t tensor;
    double value;
} RtHyperValue;

typedef struct RtTrainOptions {
    int64_t epochs, seed;
    bool seed_given;            /* then a checkpoint of another seed is refused */
    const RtHyperValue *hypers; /* [n_hypers] applied last */
    int64_t n_hypers;
    const char *metrics, *save, *checkpoint, *resume; /* paths or NULL */
    bool gives;         /* another process writes save and checkpoint, with rows that this one gives it */
    const char *label;  /* of one run among several, `,"fold":3,"seed":1`, in each line of metrics; NULL: none */
    bool append;        /* metrics go behind those of the runs before */
    RtBatches *batches; /* of the data, a step for each; NULL: all data at once */
    int64_t every;      /* epochs between checkpoints */
    RtExecOptions exec;
    void (*on_epoch)(void *user, const RtEpoch *e); /* or NULL */
    void *user;
} RtTrainOptions;

typedef struct RtTrainResult {
    int64_t first_epoch, n_epochs; /* run: [first_epoch, first_epoch + n_epochs) */
    int64_t best_epoch;            /* -1 without a stop metric */
    bool stopped_early;
    double loss, seconds;
    double metrics[RT_MAX_METRICS]; /* of the weights that were kept */
} RtTrainResult;

/* SIGINT and SIGTERM between epochs write a checkpoint and the weights to keep (where paths are given) and return
   INTERRUPTED. A loss that is not a number returns NAN with epoch, step and source line. Leaves the kept weights
   in d->tensors. */
RtCode rt_train(const RtModel *m, RtData *d, const RtTrainOptions *o, RtTrainResult *r, RtStatus *st);

/* Writes metric values as `,"name":value` pairs; NaN becomes null. */
void rt_metrics_json(const RtModel *m, const double *values, char *out, size_t size);
/* Runs the program "metrics" on present tensors. */
RtCode rt_evaluate(const RtModel *m, RtData *d, const RtExecOptions *o, double *values, RtStatus *st);
