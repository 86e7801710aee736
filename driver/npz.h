/* What the members of a .npz archive are, from their headers: for `build --data`. Contents are the
 * runtime's business. */
#pragma once
#include "driver/npy.h"

typedef struct NpzMember {
    const char *name; /* without .npy */
    Npy npy;          /* header only */
    int64_t first[2]; /* its first two items where it is a vector of i64, else 0 */
} NpzMember;
typedef struct Npz {
    NpzMember *members;
    uint32_t n;
} Npz;

/* NULL on success, else what is wrong (lower case, without the path). */
const char *npz_headers(Arena *a, const char *path, Npz *out);
