/* Reads the folder (see cora.h): .npy version 1.0, little endian, of the element sizes that are expected. */
#include "cora.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The elements of FOLDER/NAME.npy, which are `size` bytes each; NULL after a message. */
static void *read_npy(const char *folder, const char *name, size_t size, int64_t *n)
{
    char path[1024];
    unsigned char head[10];
    long bytes = -1, header = 0;
    void *data = NULL;
    FILE *f;
    snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    f = fopen(path, "rb");
    if (f && fread(head, 1, 10, f) == 10 && !memcmp(head, "\x93NUMPY\x01", 7)) {
        header = 10 + head[8] + 256 * head[9];
        if (!fseek(f, 0, SEEK_END)) bytes = ftell(f) - header;
    }
    if (bytes > 0 && bytes % (long)size == 0 && !fseek(f, header, SEEK_SET)) data = malloc((size_t)bytes);
    if (data && fread(data, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(data);
        data = NULL;
    }
    if (f) fclose(f);
    if (!data) fprintf(stderr, "cannot read %s\n", path);
    else *n = bytes / (long)size;
    return data;
}

/* Features come as a CSR matrix: row v has the entries indptr[v] .. indptr[v + 1]. */
static int read_features(const char *folder, Cora *c)
{
    int64_t n_ptr = 0, n_ids = 0, n_values = 0, v, i;
    int64_t *ptr = (int64_t *)read_npy(folder, "x_indptr", 8, &n_ptr);
    int32_t *ids = (int32_t *)read_npy(folder, "x_indices", 4, &n_ids);
    float *values = (float *)read_npy(folder, "x_data", 4, &n_values);
    int ok = ptr && ids && values && n_ptr == c->n_nodes + 1 && n_ids == n_values;
    if (ok) c->x = (float *)calloc((size_t)c->n_nodes * CORA_FEATURES, sizeof *c->x);
    ok = ok && c->x;
    for (v = 0; ok && v < c->n_nodes; v++) {
        ok = ptr[v] >= 0 && ptr[v] <= ptr[v + 1] && ptr[v + 1] <= n_ids;
        for (i = ok ? ptr[v] : 0; ok && i < ptr[v + 1]; i++) {
            ok = ids[i] >= 0 && ids[i] < CORA_FEATURES;
            if (ok) c->x[v * CORA_FEATURES + ids[i]] = values[i];
        }
    }
    free(ptr);
    free(ids);
    free(values);
    return ok ? 0 : -1;
}

int cora_load(const char *folder, Cora *c)
{
    int64_t n_ids = 0, n_test = 0;
    memset(c, 0, sizeof *c);
    c->y = (int64_t *)read_npy(folder, "y", 8, &c->n_nodes);
    c->test = (unsigned char *)read_npy(folder, "test_mask", 1, &n_test);
    c->src = (int64_t *)read_npy(folder, "edge_index", 8, &n_ids); /* [2][n_edges] */
    if (!c->y || !c->test || !c->src || n_test != c->n_nodes || n_ids % 2 || read_features(folder, c)) {
        fprintf(stderr, "%s is no folder of the form of examples/data/cora\n", folder);
        return -1;
    }
    c->n_edges = n_ids / 2;
    c->dst = c->src + c->n_edges;
    return 0;
}

void cora_free(Cora *c)
{
    free(c->src);
    free(c->x);
    free(c->y);
    free(c->test);
    memset(c, 0, sizeof *c);
}
