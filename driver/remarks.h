/* --remarks: what passes left (passes/context/passes.h), as text or JSON. */
#pragma once
#include "driver/commands.h"
#include "passes/pipeline/pipeline.h"

/* Reads --remarks and --remarks-format into ctx. False with E0612. */
bool remarks_read(Session *s, PassContext *ctx);
/* Prints those that were asked for, in the order in which passes left them; nothing without --remarks. */
void remarks_print(Session *s, const PassContext *ctx, FILE *out);
