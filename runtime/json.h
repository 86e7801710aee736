/* A small strict JSON reader (RFC 8259) for meta.json, safetensors headers and files of ours: bounded depth, no
   trailing text, numbers kept as text and as double. The tree lives in one block. */
#pragma once
#include "runtime/memory.h"
#include <stdio.h>

typedef enum {
    RT_JSON_NULL,
    RT_JSON_FALSE,
    RT_JSON_TRUE,
    RT_JSON_NUMBER,
    RT_JSON_STRING,
    RT_JSON_ARRAY,
    RT_JSON_OBJECT
} RtJsonKind;

typedef struct RtJson {
    RtJsonKind kind;
    const char *key;  /* in an object, else NULL */
    const char *text; /* string: decoded; number: as written */
    double number;
    int64_t n_items;             /* array, object */
    struct RtJson *first, *next; /* first item; next sibling */
} RtJson;

typedef struct RtJsonDoc {
    RtJson *root;
    RtBlock memory;
} RtJsonDoc;

/* Parses n bytes of text; JSON_SYNTAX names line and column. *doc is empty on failure. */
RtCode rt_json_parse(const char *name, const char *text, size_t n, RtJsonDoc *doc, RtStatus *st);
void rt_json_free(RtJsonDoc *doc);
const RtJson *rt_json_get(const RtJson *object, const char *key); /* NULL if absent or not an object */
/* A whole number in [0, 2^63): true if v is one. */
bool rt_json_int(const RtJson *v, int64_t *out);
/* Writes s as a JSON string, in its quotes. */
void rt_json_put_string(FILE *f, const char *s);
