/* What both programs serve: a citation graph from a folder of .npy files, as plain arrays. Example code: it knows the
   files of examples/data/cora and refuses all others. */
#ifndef CORA_H
#define CORA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Cora {
    int64_t n_nodes, n_edges;
    int64_t *src, *dst;  /* [n_edges] */
    float *x;            /* [n_nodes][CORA_FEATURES] */
    int64_t *y;          /* [n_nodes] classes */
    unsigned char *test; /* [n_nodes] 1: in the test split */
} Cora;

enum { CORA_FEATURES = 1433, CORA_CLASSES = 7 };

/* 0, or -1 after a message on stderr; cora_free is due either way. */
int cora_load(const char *folder, Cora *c);
void cora_free(Cora *c);

#ifdef __cplusplus
}
#endif
#endif
