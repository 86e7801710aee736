/* Random numbers of the interpreter, keyed as docs/design.md says. */
#pragma once
#include "ir/eval_ops.h"

typedef struct RandomKey {
    uint64_t seed, step;
    uint32_t site;
    uint64_t element; /* the user's id */
} RandomKey;
Num random_uniform(RandomKey key, uint64_t feature);
Num random_normal(RandomKey key, uint64_t feature, IrDtype t);
