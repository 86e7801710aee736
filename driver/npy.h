/* .npy files for the compiler's own commands: headers for `build --data`, whole arrays for `data`. */
#pragma once
#include "ir/graph.h"

enum { NPY_MAX_DIMS = IR_MAX_DIMS + 1 };

typedef struct Npy {
    char dtype[8]; /* "<f4", "<f8", "<i4", "<i8", "|b1", "|u1" */
    int n_dims;
    int64_t shape[NPY_MAX_DIMS];
    int64_t n;         /* product of shape */
    const void *data;  /* npy_read only: n items, C order */
    size_t bytes_file; /* npy_read only */
    const char *file;  /* npy_read only: the file's bytes */
} Npy;

/* Header only. NULL on success, else what is wrong (lower case, without the path). */
const char *npy_header(Arena *a, const char *path, Npy *out);
/* Header and data; the size must fit the header exactly. */
const char *npy_read(Arena *a, const char *path, Npy *out);
/* The header in the first n bytes of a file (of 4112, if it is that long); *at is where the data begins. */
const char *npy_parse_header(Arena *a, const char *bytes, size_t n, Npy *out, size_t *at);
bool npy_dtype(const Npy *npy, IrDtype *t);
size_t npy_item_bytes(const Npy *npy); /* 0 for an unknown dtype */
double npy_at(const Npy *npy, int64_t i);
/* The bytes of a file of version 1.0; their number in *n. */
char *npy_image(Arena *a, const char *dtype, const int64_t *shape, int n_dims, const void *data, size_t *n);
/* Writes them. False with *why; nothing half-written is left. */
bool npy_write(Arena *a, const char *path, const char *dtype, const int64_t *shape, int n_dims, const void *data,
               const char **why);
