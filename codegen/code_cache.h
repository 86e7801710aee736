/* Machine code for GPUs, kept by content: a file for each piece, whose name is the SHA-256 of all that it was made
   from. */
#pragma once
#include "codegen/nvrtc.h"

typedef struct CodeCache {
    const char *folder; /* NULL: nothing is kept */
    int64_t most_bytes; /* of all pieces together */
    const char *why;    /* the last piece that could not be kept, as a sentence; or NULL */
} CodeCache;

/* Where GNNC_CACHE says (a folder, or "off"), else `gnnc/cuda` in XDG_CACHE_HOME or ~/.cache; strings are from the
   arena. */
CodeCache code_cache_open(Arena *a);
/* Writes the key of a piece: of `what` it is ("sm_90"), of the compilers (nvrtc_identity) and of the text. */
void code_cache_key(const char *what, const char *identity, const char *text, char key[65]);
/* Finds a piece. False: none is there, or it is damaged, and is as good as none. */
bool code_cache_get(Arena *a, const CodeCache *c, const char *key, NvrtcCode *code);
/* Keeps a piece, replacing one of that key as a whole, and removes those that were used least lately until the rest
   fits. A failure leaves c->why and is no error. Several processes may do so at once. */
void code_cache_put(Arena *a, CodeCache *c, const char *key, const NvrtcCode *code);
