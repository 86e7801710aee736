/* The command line: one table (options.def), one parser, one help printer. */
#pragma once
#include "base/diag.h"
#include <stdbool.h>

typedef enum {
#define OPT(id, ...) OPT_##id,
#include "driver/options.def"
#undef OPT
    N_OPTS
} OptId;

typedef struct Options {
    char command;               /* letter of options.def */
    const char *values[N_OPTS]; /* last one given; "" for flags; NULL if absent */
    VEC(const char *) sets;     /* every --set, split at commas: "F=1433" */
    VEC(const char *) files;    /* what is not an option */
} Options;

/* Parses argv[2..] for a command letter. False with diagnostics in d. */
bool options_parse(Arena *a, char command, int argc, char **argv, Options *o, Diags *d);
/* Usage, options and examples of a command. */
void options_help(char command, StrBuf *out);
bool opt_has(const Options *o, OptId id);
const char *opt_value(const Options *o, OptId id, const char *fallback);
/* A whole number in [lo, hi], or fallback when absent. Adds E0612 to d otherwise. */
int64_t opt_int(const Options *o, OptId id, int64_t fallback, int64_t lo, int64_t hi, Diags *d);
/* Splits "a,b,c" at commas. */
typedef struct Words {
    const char **data;
    uint32_t n;
} Words;
Words opt_words(Arena *a, const char *text);
bool words_have(const Words *w, const char *word);
