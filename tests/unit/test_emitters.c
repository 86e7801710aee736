/* Every emitter against the slow interpreter of kernel IR, bit for bit: the hand-written and the
   random kernels through LLVM on each CPU variant this machine has (test_emit_c.c does C), and
   every kernel of lowered random programs through C, LLVM and CUDA alike.
   Run: lesser */
#include "codegen/jit.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/c_module.h"
#include "tests/unit/check.h"
#include "tests/unit/cuda_module.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/kernel_cases.h"
#include "tests/unit/kir_random.h"
#include "tests/unit/plan_run.h"

static const char *const variants[] = {"generic", "avx2", "avx512"};

/* ---- hand-written kernels ---------------------------------------------------------------------------------------- */

typedef struct Compiled {
    const KirModule *module;
    const JitModule *jit;
} Compiled;

static const char *run_compiled(void *ctx, const char *name, const RtArg *args, const int64_t *n_elems, int64_t lo,
                                int64_t hi)
{
    const Compiled *c = ctx;
    (void)n_elems;
    jit_kernel(c->jit, case_kernel(c->module, name))(args, lo, hi);
    return NULL;
}

static CaseOut slow_out, llvm_out;

static void test_case(const char *path, const char *(*run)(const CaseRunner *r, CaseOut *out), const char *name)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, path);
    const char *why = m ? run(&(CaseRunner){case_run_slowly, &(CaseSlow){a, m}}, &slow_out) : "not read";
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) {
        const char *title = arena_printf(a, "%s_llvm_%s", name, variants[v]), *no_jit = NULL;
        JitModule *jit = m ? jit_compile((const KirKernel *const *)m->kernels.data, m->kernels.n, v, &no_jit) : NULL;
        if (m && !jit) {
            check_skip(title, no_jit);
            continue;
        }
        check_begin();
        check(!why, "%s", why);
        if (jit) {
            const char *wrong = run(&(CaseRunner){run_compiled, &(Compiled){m, jit}}, &llvm_out);
            check(!wrong, "%s", wrong);
            check(llvm_out.n == slow_out.n && !memcmp(llvm_out.data, slow_out.data, slow_out.n * sizeof(float)),
                  "other bits than kir_run");
            jit_free(jit);
        }
        check_end(title);
    }
    arena_free(a);
}

/* ---- random kernels ---------------------------------------------------------------------------------------------- */

enum { PER_MODULE = 50 };
static RkData slow_data, llvm_data;

static bool random_agrees(Arena *a, const KirKernel *k, RtKernelFn f, uint64_t seed)
{
    KirArg args[RK_N_PARAMS];
    rk_data(&slow_data, seed), rk_data(&llvm_data, seed);
    memcpy(args, slow_data.args, sizeof args);
    const char *why = kir_run(a, k, args, slow_data.n_elems, 0, RK_ROWS);
    f(llvm_data.args, 0, RK_ROWS);
    if (!why) why = rk_compare(a, &slow_data, &llvm_data);
    return check(!why, "seed %llu: %s", (unsigned long long)seed, why);
}

static void test_random(unsigned variant, uint64_t first, unsigned n_modules)
{
    Arena *names = arena_new();
    const char *title = arena_printf(names, "random_kernels_llvm_%s", variants[variant]), *why = NULL;
    bool skipped = false;
    check_begin();
    for (unsigned i = 0; i < n_modules && check_ok && !skipped; i++) {
        Arena *a = arena_new();
        const KirKernel *ks[PER_MODULE];
        for (unsigned k = 0; k < PER_MODULE; k++)
            ks[k] = kir_random(a, first + i * PER_MODULE + k, arena_printf(a, "random_%u", k));
        JitModule *jit = jit_compile(ks, PER_MODULE, variant, &why);
        skipped = !jit;
        for (unsigned k = 0; jit && k < PER_MODULE; k++)
            if (!random_agrees(a, ks[k], jit_kernel(jit, k), first + i * PER_MODULE + k)) break;
        jit_free(jit);
        arena_free(a);
    }
    if (skipped) check_skip(title, why);
    else check_end(title);
    arena_free(names);
}

/* ---- lowered programs -------------------------------------------------------------------------------------------- */

enum { MAX_PROGRAMS = 64, CUDA_EMITTER = 1 + RT_N_VARIANTS, N_EMITTERS };
static const char *const emitters[N_EMITTERS] = {"C", "generic", "avx2", "avx512", "CUDA"};

typedef struct Batch {
    Arena *arena;
    uint64_t first;
    unsigned n;
    IrModule *modules[MAX_PROGRAMS];
    HostPlan *plans[MAX_PROGRAMS];
    uint32_t base[MAX_PROGRAMS]; /* its first kernel in ks */
    VEC(const KirKernel *) ks;
    CModule c;
    CudaModule cuda;
    JitModule *jit[RT_N_VARIANTS]; /* NULL: this machine has no such CPU */
    uint64_t checked;              /* kernel runs compared */
} Batch;

typedef struct CallContext {
    Batch *batch;
    unsigned program;
} CallContext;

static RtKernelFn emitted(const Batch *b, unsigned emitter, uint32_t kernel)
{
    if (emitter == 0) return c_module_kernel(&b->c, b->ks.data[kernel]->name);
    return b->jit[emitter - 1] ? jit_kernel(b->jit[emitter - 1], kernel) : NULL;
}

static bool is_written(const KirParam *p) { return p->kind == KIR_OUT || p->kind == KIR_INOUT; }

/* The arguments with a copy of each buffer the kernel writes. */
static RtArg *private_args(Arena *a, const KirKernel *k, const KirArg *args, const int64_t *n_elems)
{
    RtArg *copy = ARENA_ARRAY(a, RtArg, k->params.n + 1);
    memcpy(copy, args, k->params.n * sizeof *copy);
    for (uint32_t i = 0; i < k->params.n; i++) {
        if (!is_written(&k->params.data[i])) continue;
        size_t bytes = (size_t)n_elems[i] * kir_base_bytes(k->params.data[i].elem);
        copy[i].p = arena_alloc(a, bytes + 64);
        if (bytes) memcpy(copy[i].p, args[i].p, bytes);
    }
    return copy;
}

static const char *compare_buffers(Arena *a, const KirKernel *k, const RtArg *got, const KirArg *want,
                                   const int64_t *n_elems)
{
    for (uint32_t i = 0; i < k->params.n; i++)
        for (int64_t e = 0; is_written(&k->params.data[i]) && e < n_elems[i]; e++)
            if (!rk_equal(k->params.data[i].elem, got[i].p, want[i].p, (unsigned)e))
                return arena_printf(a, "@%s: %s[%lld] differs", k->name, k->params.data[i].name, (long long)e);
    return NULL;
}

/* A step through every emitter on copies, then through kir_run, which the program goes on with. */
static const char *call_all(PlanRun *r, uint32_t k, const KirArg *args, const int64_t *n_elems, int64_t lo, int64_t hi)
{
    CallContext *c = r->user;
    Batch *b = c->batch;
    uint32_t at = b->base[c->program] + k;
    const KirKernel *kernel = b->ks.data[at];
    RtArg *copies[N_EMITTERS] = {NULL};
    for (unsigned e = 0; e < N_EMITTERS; e++) {
        RtKernelFn f = e == CUDA_EMITTER ? NULL : emitted(b, e, at);
        if (!f && e != CUDA_EMITTER) continue;
        copies[e] = private_args(r->arena, kernel, args, n_elems);
        if (f) f(copies[e], lo, hi);
        const char *wrong = f ? NULL : cuda_module_run(r->arena, &b->cuda, kernel, copies[e], lo, hi, 3, 2 + at % 5);
        if (wrong) return wrong;
    }
    const char *why = kir_run(r->arena, kernel, args, n_elems, lo, hi);
    for (unsigned e = 0; e < N_EMITTERS && !why; e++) {
        if (!copies[e]) continue;
        why = compare_buffers(r->arena, kernel, copies[e], args, n_elems);
        if (why) why = arena_printf(r->arena, "%s: %s", emitters[e], why);
        b->checked++;
    }
    return why;
}

static bool build_batch(Batch *b)
{
    const char *why = NULL;
    for (unsigned i = 0; i < b->n; i++) {
        Diags *d = ARENA_NEW(b->arena, Diags);
        d->arena = b->arena;
        PassContext *ctx = ARENA_NEW(b->arena, PassContext);
        *ctx = pass_context(b->arena, d);
        b->modules[i] = gir_random(b->arena, b->first + i, 16 + (uint32_t)i % 20, i % 3 ? IR_F32 : IR_F64, false);
        b->plans[i] = lower_module(ctx, b->modules[i]);
        if (!check(b->plans[i] != NULL, "seed %llu is not lowered", (unsigned long long)(b->first + i))) return false;
        b->base[i] = b->ks.n;
        for (uint32_t k = 0; k < b->plans[i]->kernels.n; k++) {
            KirKernel *kernel = plan_kernel(b->plans[i], k, true);
            kernel->name = arena_printf(b->arena, "p%u_%s", i, kernel->name);
            VEC_PUSH(b->arena, &b->ks, kernel);
        }
    }
    bool built = c_module_build(b->arena, &b->c, b->ks.data, b->ks.n, "cc", "-O1", &why) &&
                 cuda_module_build(b->arena, &b->cuda, b->ks.data, b->ks.n, false, &why);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) b->jit[v] = jit_compile(b->ks.data, b->ks.n, v, &(const char *){NULL});
    return check(built, "%s", why) && CHECK(b->jit[RT_GENERIC] != NULL);
}

static bool run_program(Batch *b, unsigned i)
{
    Arena *a = arena_new();
    IrModule *m = b->modules[i];
    const IrFunc *f = m->funcs.data[0];
    int64_t *graph_of, n_graphs;
    const char *why = NULL;
    uint64_t seed = b->first + i;
    EvalGraph g = gir_graph(a, (uint32_t)(seed % GIR_N_GRAPHS), &graph_of, &n_graphs);
    EvalWorld *w = eval_world(a, m, &g, graph_of, n_graphs, &why);
    if (!check(w != NULL, "seed %llu: %s", (unsigned long long)seed, why)) return false;
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    GirRng rng = {seed};
    for (uint32_t k = 0; k < f->args.n; k++) {
        args[k] = eval_value_new(a, m, w, f->args.data[k].type);
        gir_fill(args[k], &rng);
    }
    CallContext ctx = {b, i};
    PlanRun r = {.arena = a,
                 .plan = b->plans[i],
                 .prog = b->plans[i]->programs.data[0],
                 .w = w,
                 .args = args,
                 .call = call_all,
                 .user = &ctx};
    why = plan_run(&r);
    check(!why, "seed %llu: %s", (unsigned long long)seed, why);
    arena_free(a);
    return why == NULL;
}

static void test_lowered(uint64_t first, unsigned n)
{
    Batch b = {.arena = arena_new(), .first = first, .n = n};
    check_begin();
    if (build_batch(&b))
        for (unsigned i = 0; i < n && run_program(&b, i); i++) {}
    CHECK(b.checked > 4 * n);
    check_end(arena_printf(b.arena, "lowered_programs_from_%llu", (unsigned long long)first));
    c_module_free(&b.c);
    cuda_module_free(&b.cuda);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) jit_free(b.jit[v]);
    arena_free(b.arena);
}

int main(int argc, char **argv)
{
    unsigned scale = argc > 1 ? (unsigned)atoi(argv[1]) : check_amount(1, 5);
    test_case("tests/kernel/merge_path_spmm.kir", case_merge_path, "merge_path_spmm");
    test_case("tests/kernel/extremes.kir", case_extremes, "extremes");
    test_case("tests/kernel/lane_moves.kir", case_lane_moves, "lane_moves");
    test_case("tests/kernel/turns.kir", case_turns, "turns");
    test_case("tests/kernel/edge_softmax.kir", case_edge_softmax, "edge_softmax");
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) test_random(v, 300001 + v * 100000, 2 * scale);
    for (unsigned i = 0; i < scale; i++) test_lowered(1 + i * 6, 6);
    return check_done();
}
