/* Runs graph passes in order: checks what each needs, dumps before and after, verifies what it
   made, times it. The pipeline of the whole compiler is the array below. Never changes a module
   itself. */
#include "passes/pipeline/pipeline.h"
#include "base/ice.h"
#include "passes/rewrite/rewrite.h"

/* simplify runs again behind autodiff: adjoints are written plainly and rely on it. */
const PassId pass_pipeline[] = {
    PASS_simplify,    PASS_cse,    PASS_dce,     PASS_stack,   PASS_dce,      PASS_parts,    PASS_pairs,    PASS_keys,
    PASS_table,       PASS_dce,    PASS_parts,   PASS_reorder, PASS_narrow,   PASS_autodiff, PASS_simplify, PASS_cse,
    PASS_dce,         PASS_parts,  PASS_reorder, PASS_pick,    PASS_table,    PASS_cse,      PASS_dce,      PASS_layout,
    PASS_narrow_rest, PASS_sparse, PASS_hoist,   PASS_fuse,    PASS_schedule, PASS_lower,    PASS_prefetch, PASS_share,
    PASS_weave,       PASS_cone,   PASS_connect, PASS_memplan,
};
const uint32_t n_pass_pipeline = sizeof pass_pipeline / sizeof *pass_pipeline;

typedef IrModule *GraphPass(PassContext *ctx, const IrModule *m);
#define FUNCTION_GRAPH(name)  pass_##name
#define FUNCTION_KERNEL(name) NULL
static GraphPass *const graph_passes[N_PASSES] = {
#define PASS(name, stage, ...) [PASS_##name] = FUNCTION_##stage(name),
#include "passes/context/passes.def"
#undef PASS
};

static void print_module(const void *program, StrBuf *out) { ir_print(program, out); }

/* What the runner is given: a reader or the front end vouches for it. */
static void verify_input(PassContext *ctx, const IrModule *m)
{
    if (ctx->verify == PASS_VERIFY_OFF || ir_verify(m, ctx->diags)) return;
    StrBuf why = {.arena = ctx->stage};
    diags_print(ctx->diags, &why, false);
    ICE(arena_printf(ctx->stage, "the module is broken before any pass ran; replay: gnnc ir MODEL\n%s",
                     strbuf_cstr(&why)));
}

IrModule *pass_run_one(PassContext *ctx, PassId pass, const IrModule *m)
{
    ICE_UNLESS(graph_passes[pass]);
    if (!pass_ready(ctx, pass, m)) return NULL;
    pass_begin(ctx, pass, print_module, m);
    IrModule *next = graph_passes[pass](ctx, m);
    if (!next) return NULL;
    pass_end(ctx, pass, print_module, next);
    ICE_UNLESS(ctx->timings.n && ctx->timings.data[ctx->timings.n - 1].pass == pass);
    PassTiming *row = &ctx->timings.data[ctx->timings.n - 1];
    row->ops_before = module_n_ops(m);
    row->ops_after = module_n_ops(next);
    pass_verify(ctx, pass, NULL, next);
    return next;
}

/* Without --store the pipeline goes past what it asks for. */
static bool is_asked(const PassContext *ctx, PassId pass)
{
    return ctx->run || ctx->store != IR_F32 || (pass != PASS_narrow && pass != PASS_narrow_rest);
}

IrModule *pass_run_pipeline(PassContext *ctx, const IrModule *m)
{
    const PassId *list = ctx->run ? ctx->run : pass_pipeline;
    uint32_t n = ctx->run ? ctx->n_run : n_pass_pipeline;
    verify_input(ctx, m);
    IrModule *now = ir_module_clone(ctx->stage, m);
    for (uint32_t i = 0; i < n && now; i++)
        if (pass_infos[list[i]].stage == PASS_STAGE_GRAPH && !ctx->disabled[list[i]] && is_asked(ctx, list[i]))
            now = pass_run_one(ctx, list[i], now);
    return now;
}
