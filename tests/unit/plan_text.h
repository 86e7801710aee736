/* A host plan from graph IR as text, for tests of the kernel stage. */
#pragma once
#include "passes/context/machine.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <string.h>

/* What is not as in a plain build: `without` is names of passes that are left out, or `machine NAME`, or NULL. */
static inline bool plan_without(Arena *a, PassContext *ctx, const char *without)
{
    if (!without || strncmp(without, "machine ", 8) != 0) return !without || pass_option_disable(ctx, without);
    Machine *m = ARENA_NEW(a, Machine);
    ctx->machine = m;
    return machine_named(without + 8, m);
}

/* The plan of a module; *module: before the kernel stage. NULL, and the test that is open fails, where something is
   refused. */
static inline HostPlan *plan_of_text(Arena *a, const char *text, const char *without, const IrModule **module)
{
    Diags *d = ARENA_NEW(a, Diags);
    Source *src = ARENA_NEW(a, Source);
    *d = (Diags){.arena = a};
    *src = (Source){"case.gir", text, (uint32_t)strlen(text)};
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    const IrModule *m = ir_parse(a, src, d);
    HostPlan *plan = NULL;
    if (m && ir_verify(m, d) && plan_without(a, ctx, without)) plan = lower_module(ctx, m);
    StrBuf say = {.arena = a};
    diags_print(d, &say, false);
    check(plan && !d->n_errors, "%s", strbuf_cstr(&say));
    *module = m;
    return check_ok ? plan : NULL;
}
