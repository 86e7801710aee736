/* From a file to optimised graph IR: what `build`, `ir` and `test` share. */
#pragma once
#include "driver/commands.h"
#include "passes/pipeline/pipeline.h"

/* Options --run, --disable, --verify, --machine into a context whose stage is the session's arena. */
bool pipeline_context(Session *s, PassContext *ctx);
/* Sets ctx->machine to the machine of the table, or of the file, that `what` names, and leaves it where `what` is NULL.
   False with a diagnostic. */
bool pipeline_machine(Session *s, const char *what, PassContext *ctx);
/* The module of a .gnn or .gir file, before any pass. NULL with diagnostics. */
IrModule *pipeline_load(Session *s, const char *path);
/* Counts the pairs of rows and keys that the data of --data have, for the pass `pairs` and for memory budgets. */
void pipeline_pairs(Session *s, const IrModule *m, PassContext *ctx);
/* --time: one line per pass run. */
void pipeline_print_times(const PassContext *ctx, FILE *out);
