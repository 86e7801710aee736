/* Random well-typed programs with their gradients: the interpreter, LLVM and C say the same. Each program goes through
   the whole pipeline (some passes off in some) and runs in the runtime's execution core over its tables, on a graph
   that the runtime built: kernels of one CPU variant through LLVM, alone and on 2, 3 or 8 threads with every step cut
   as finely as can be, and the emitted C. Compilers take nearly all of the time: of many programs one batch in six
   goes through C and LLVM's optimiser. Every element must lie within the interpreter's bound of the module that was
   written, and the three runs must have the same bits; a bit of one run is changed, and the comparison has to notice.
   In some, an edge is dropped behind the oracle's back: wherever the oracle tells the two graphs apart, the comparison
   has to notice. 200 programs run once more with kernels under the address and undefined behaviour sanitizers, in
   buffers of just their size, in a child process. A third is built once more with each value in memory of its own, all
   rows computed and each step
   alone: the same bits.

   Programs from text go through the front end first, and run once more on graphs of another form, and with a wider dim
   (metamorphic.h).

   As on a lesser CPU (GNNC_CPU) the first programs run alone, with kernels of its variants: C and the sanitizers know
   no CPU.

   Programs with a schema are texts that others draw (tests/drawn/draw_typed.py).

   usage: test_programs files FILE...             those of these files; of one alone all that is made of it is printed
   usage: test_programs [text] [N [FIRST [all|quick|targets]]]   N programs from seed FIRST with progress; all: each of
   them through C too; quick: and through the reference run of kernel IR, none through LLVM's optimiser; targets: and
   each, by its plan for GPUs, as CUDA text in the shim (`test_programs targets FILE...` likewise); `test_programs 1
   SEED` prints a failure.
   Run: lesser if long */
#include "base/ice.h"
#include "codegen/jit.h"
#include "tests/unit/c_module.h"
#include "tests/unit/check.h"
#include "tests/unit/metamorphic.h"
#include "tests/unit/program_targets.h"
#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PER_BATCH = 50, N_SUITE = 300, N_TEXTS = 300, N_SANITISED = 50, MAX_WORKERS = 16, MAX_SAID = 3 };
enum { N_FEW = 300, N_FEW_TEXTS = 100, N_FEW_SANITISED = 50 }; /* without --long */
enum { N_LESSER = 60, N_LESSER_TEXTS = 30 };

/* What a compiler is given: of kernels with equal code the first. */
typedef struct Kernels {
    VEC(const KirKernel *) list;
    StrMap known; /* code -> index + 1 */
} Kernels;

typedef struct Batch {
    Arena *arena;
    /* wide: m NULL where a program has no wider form; apart likewise */
    Program programs[PER_BATCH], wide[PER_BATCH], apart[PER_BATCH];
    Growth growth[PER_BATCH]; /* of the wider forms */
    bool bad[PER_BATCH];
    unsigned n, n_said;
    bool with_c, optimised;
    Kernels of_c, of_cuda, of_variant[RT_N_VARIANTS];
    VEC(const KirKernel *) ks; /* of all programs: the kernel with this one's code that was compiled */
    VEC(uint32_t) place;       /* of each in its variant's module */
    bool behind;               /* what is added are wider forms and those apart, which run through LLVM alone */
    CModule c;
    CudaModule cuda;
    HostPlan *device_plan[PER_BATCH];          /* for GPUs */
    const KirKernel *const *device[PER_BATCH]; /* of its kernels, those that were compiled */
    JitModule *jit[RT_N_VARIANTS];
    Tally tally;
} Batch;

/* Through what a batch goes beside LLVM without its optimiser: one in six through C and the optimiser (SOME), the
   others through C too (ALL) or with all of it (FULL), each through C and the reference run of kernel IR (QUICK), or
   through these and the shim (TARGETS). */
typedef enum Effort { SOME, ALL, FULL, QUICK, TARGETS } Effort;
static Effort effort;
static char **files; /* texts with schemas that the command line names, one for each seed; NULL: texts are drawn */

static void say(Batch *b, unsigned i, const char *why)
{
    b->bad[i] = true;
    b->tally.failures++;
    if (b->n_said++ >= MAX_SAID) return;
    const char *file = b->programs[i].file;
    printf("seed %llu%s%s: %s\n", (unsigned long long)b->programs[i].seed, file ? ", " : "", file ? file : "", why);
    fflush(stdout);
}

/* ---- building a batch ---- */

static unsigned best_variant(void)
{
    int best;
    ICE_UNLESS(rt_cpu_allowed(&best, &(RtStatus){0}) == RT_OK);
    return (unsigned)best;
}

static bool is_lesser(void) { return best_variant() < (unsigned)rt_cpu_best(); }

static unsigned variant_of(uint64_t seed)
{
    unsigned v = (unsigned)(program_hash(seed ^ 0xc9u) % RT_N_VARIANTS), best = best_variant();
    return v <= best ? v : best;
}

/* Where a kernel with this one's code stands in the list, which has one then. */
static uint32_t kernel_place(Arena *a, Kernels *of, const KirKernel *k)
{
    StrBuf code = {.arena = a};
    kir_print_code(k, &code);
    uintptr_t known = (uintptr_t)strmap_get(&of->known, strbuf_cstr(&code));
    if (known) return (uint32_t)known - 1;
    of->known.arena = a;
    strmap_put(&of->known, strbuf_cstr(&code), (void *)(uintptr_t)(of->list.n + 1)); /* NOLINT: an index as a pointer */
    VEC_PUSH(a, &of->list, k);
    return of->list.n - 1;
}

static void add_kernels(Batch *b, Program *p, const char *name, unsigned i)
{
    unsigned v = variant_of(p->seed);
    p->first_kernel = b->ks.n;
    for (uint32_t k = 0; k < plan_n_kernels(p->plan); k++) {
        KirKernel *kernel = plan_kernel(p->plan, k, v == RT_AVX512);
        kernel->name = arena_printf(b->arena, "%s%u_%s", name, i, kernel->name);
        VEC_PUSH(b->arena, &b->place, kernel_place(b->arena, &b->of_variant[v], kernel));
        uint32_t at = b->behind ? 0 : kernel_place(b->arena, &b->of_c, kernel);
        VEC_PUSH(b->arena, &b->ks, b->behind ? kernel : b->of_c.list.data[at]);
    }
}

/* The program's plan for GPUs. */
static void add_device(Batch *b, unsigned i)
{
    Diags d = {.arena = b->arena};
    HostPlan *plan = b->device_plan[i] = program_device_plan(b->arena, &b->programs[i], &d);
    if (!plan) {
        say(b, i, arena_printf(b->arena, "for GPUs: %s", program_diags(b->arena, &d)));
        return;
    }
    const KirKernel **kernels = ARENA_ARRAY(b->arena, const KirKernel *, plan->kernels.n + 1);
    for (uint32_t k = 0; k < plan->kernels.n; k++) {
        KirKernel *kernel = plan_kernel(plan, k, true);
        kernel->name = arena_printf(b->arena, "d%u_%s", i, kernel->name);
        uint32_t at = kernel_place(b->arena, &b->of_cuda, kernel);
        kernels[k] = b->of_cuda.list.data[at];
    }
    b->device[i] = kernels;
}

static void add_program(Batch *b, unsigned i)
{
    add_kernels(b, &b->programs[i], "p", i);
    b->tally.variants[variant_of(b->programs[i].seed)]++;
    program_tally(&b->programs[i], &b->tally);
}

static void add_wide(Batch *b, unsigned i, bool held)
{
    const char *why = change_width(b->arena, &b->programs[i], held, &b->wide[i], &b->growth[i]);
    if (why) say(b, i, arena_printf(b->arena, "wider: %s", why));
    else if (b->wide[i].m) add_kernels(b, &b->wide[i], "w", i);
}

/* A third of the programs once more, without what passes plan about memory. */
static void add_apart(Batch *b, unsigned i, bool held)
{
    Diags d = {.arena = b->arena};
    if (b->programs[i].seed % 3) return;
    b->apart[i] = b->programs[i];
    b->apart[i].apart = true;
    const char *why = program_plan(b->arena, &b->apart[i], held, &d);
    if (why) say(b, i, arena_printf(b->arena, "apart: %s", why));
    else add_kernels(b, &b->apart[i], "a", i);
}

static void make_programs(Batch *b, uint64_t first, unsigned n, bool text, bool held)
{
    *b = (Batch){.arena = arena_new(), .n = n};
    for (unsigned i = 0; i < n; i++) {
        const char *why = program_make(b->arena, first + i, text, files ? files[first + i] : NULL, held,
                                       &b->programs[i]);
        if (why) say(b, i, why);
        else add_program(b, i);
    }
    b->behind = true;
    for (unsigned i = 0; i < n && effort == TARGETS; i++)
        if (!b->bad[i]) add_device(b, i);
    for (unsigned i = 0; i < n && text && held && !files; i++)
        if (!b->bad[i]) add_wide(b, i, held);
    for (unsigned i = 0; i < n && held; i++)
        if (!b->bad[i]) add_apart(b, i, held);
}

static bool compile_llvm(Batch *b)
{
    const char *why = NULL;
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) {
        const Kernels *of = &b->of_variant[v];
        if (!of->list.n) continue;
        b->jit[v] = (b->optimised ? jit_compile : jit_compile_quickly)(of->list.data, of->list.n, v, &why);
        if (!b->jit[v]) return false;
    }
    return true;
}

static void free_batch(Batch *b)
{
    c_module_free(&b->c);
    cuda_module_free(&b->cuda);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        if (b->jit[v]) jit_free(b->jit[v]);
    arena_free(b->arena);
}

/* The CPU's own vectors spare the C compiler most of its work; bits do not depend on them. */
static const char *c_march(void)
{
    static const char *const march[RT_N_VARIANTS] = {"-march=x86-64", "-march=x86-64-v3", "-march=x86-64-v4"};
    return march[best_variant()];
}

/* gcc 12 fails on conversions to more than 64 bytes where it does not optimise: there, lane by lane. */
#define CONVERT_BY_LANE                                                                                                \
    "-D__builtin_convertvector(v,T)=__extension__({const __typeof__(v) a_=(v);T r_;"                                   \
    "for(unsigned l_=0;l_<sizeof(T)/sizeof(r_[0]);l_++)r_[l_]=(__typeof__(r_[0]))a_[l_];r_;})"

/* gcc moves a vector of 128 bytes by eight bytes at a time where it is not told otherwise, which are nine of ten
   instructions that it writes without optimising. NULL: `cc` does not know the option. */
static const char *c_moves(Arena *a)
{
    static const char *const moves[RT_N_VARIANTS] = {NULL, "-mmove-max=256", "-mmove-max=512"};
    const char *argv[] = {"cc", moves[best_variant()], "-E", "-x", "c", "/dev/null", NULL}, *why;
    char *log;
    return argv[1] && file_spawn(a, argv, &log, &why) == 0 ? argv[1] : NULL;
}

/* Compiles all kernels of a batch. */
static bool compile_c(Batch *b, const char *sanitize, const char **why)
{
    const char *moves = c_moves(b->arena);
    const char *const command[] = {"cc",
                                   "-O0",
                                   c_march(),
                                   moves ? moves : "-O0",
                                   "-fno-asynchronous-unwind-tables",
                                   sanitize,
                                   "-fno-sanitize-recover=all",
                                   CONVERT_BY_LANE,
                                   NULL};
    return c_module_build_with(b->arena, &b->c, b->of_c.list.data, b->of_c.list.n, command, why);
}

/* ---- one program ---- */

typedef struct Which {
    const Batch *batch;
    unsigned variant;
} Which;

static RtKernelFn kernel_llvm(void *user, uint32_t k)
{
    const Which *w = user;
    return jit_kernel(w->batch->jit[w->variant], w->batch->place.data[k]);
}
static RtKernelFn kernel_c(void *user, uint32_t k)
{
    const Which *w = user;
    return c_module_kernel(&w->batch->c, w->batch->ks.data[k]->name);
}

static int threads_of(uint64_t seed)
{
    static const int threads[] = {2, 3, 8};
    return threads[program_hash(seed ^ 0x7e) % 3];
}

typedef struct Runs {            /* one program's readings on one graph */
    void **llvm, **threads, **c; /* c: NULL in a batch without C */
} Runs;

static const char *run_all(Arena *a, Batch *b, const Program *p, const ProgramGraph *g, RtPool *pool,
                           EvalValue *const *args, Runs *r)
{
    Which which = {b, variant_of(p->seed)};
    int v = (int)which.variant;
    static const int64_t far[] = {0, 1, 7, 100000}, shared[] = {1, 1, 3, 257, -1};
    const Reading llvm = {program_model(p, v, kernel_llvm, &which, NULL), v, NULL, RT_CONE_OFF, -1},
                  threads = {program_model(p, v, kernel_llvm, &which, &far[p->seed % 4]), v, pool, RT_CONE_ON,
                             shared[p->seed % 5]};
    uint32_t n = p->plan->module->funcs.data[0]->results.n + 1;
    *r = (Runs){ARENA_ARRAY(a, void *, n), ARENA_ARRAY(a, void *, n), b->with_c ? ARENA_ARRAY(a, void *, n) : NULL};
    const char *why = NULL;
    RtGraph *graph = program_rt_graph(a, p, g, llvm.model, args, &why);
    if (!why) why = program_run(a, p, &llvm, graph, args, r->llvm);
    if (!why) why = program_run(a, p, &threads, graph, args, r->threads);
    if (!why && b->with_c) {
        const Reading c = {program_model(p, RT_GENERIC, kernel_c, &which, NULL), RT_GENERIC, NULL, RT_CONE_OFF, 1};
        why = program_run(a, p, &c, graph, args, r->c);
    }
    rt_graph_free(graph);
    return why;
}

/* What differs between two runs, which is nothing; and that a bit of one element more or less is a difference. */
static const char *compare_runs(Arena *a, Batch *b, const Program *p, const Oracle *o, void *const *x, void **y)
{
    const IrFunc *f = p->plain->funcs.data[0];
    const char *why = program_same(a, f, o->results, x, y);
    uint64_t drawn = program_hash(p->seed ^ 0xb17);
    uint32_t i = (uint32_t)(drawn % f->results.n);
    const EvalValue *v = o->results[i];
    int64_t n = v->rows * v->width, k = n ? (int64_t)(drawn / f->results.n % (uint64_t)n) : 0;
    if (why || !n || isnan(program_element(v, x[i], k))) return why;
    uint8_t *low = (uint8_t *)y[i] + (size_t)k * ir_dtype_bytes(v->type.dtype);
    *low ^= 1;
    bool noticed = program_same(a, f, o->results, x, y) != NULL;
    *low ^= 1;
    b->tally.bits++;
    return noticed ? NULL : arena_printf(a, "another bit in result %u element %lld is not noticed", i, (long long)k);
}

static const char *check_runs(Arena *a, Batch *b, const Program *p, const Oracle *o, const Runs *r)
{
    const char *why = program_compare(a, p, &p->graph, o, r->llvm, &b->tally);
    if (why) return arena_printf(a, "llvm (%s): %s", rt_cpu_name((int)variant_of(p->seed)), why);
    why = compare_runs(a, b, p, o, r->llvm, r->threads);
    if (why) return arena_printf(a, "one thread and %d: %s", threads_of(p->seed), why);
    why = r->c ? compare_runs(a, b, p, o, r->llvm, r->c) : NULL;
    return why ? arena_printf(a, "llvm and C: %s", why) : NULL;
}

/* An edge less in the graph that compiled code is given. */
static const char *drop_edge(Arena *a, Batch *b, const Program *p, const Oracle *o, RtPool *pool)
{
    const IrFunc *f = p->plain->funcs.data[0];
    int64_t edge = (int64_t)(program_hash(p->seed ^ 0xd00f) % (uint64_t)p->graph.g.n_edges);
    ProgramGraph g = program_graph_without(a, &p->graph, edge);
    Oracle without;
    Runs r;
    const char *why = program_oracle(a, p, &g, &without);
    if (!why) why = run_all(a, b, p, &g, pool, without.args, &r);
    if (why) return why;
    bool matter = program_differs(p, f, o->results, without.results);
    b->tally.dropped++;
    b->tally.matter += matter;
    b->tally.noticed += matter && program_notices(p, f, o->results, r.llvm);
    why = program_compare(a, p, &g, &without, r.llvm, NULL);
    return why ? arena_printf(a, "without edge %lld: %s", (long long)edge, why) : NULL;
}

/* In another form: within the bound there, and for each element what it was. */
static const char *check_changed(Arena *a, Batch *b, Changed *c, const Runs *r, Change how)
{
    const Program *p = c->p[1];
    Which which = {b, variant_of(p->seed)};
    const Reading llvm = {program_model(p, (int)which.variant, kernel_llvm, &which, NULL), (int)which.variant, NULL,
                          RT_CONE_OFF, -1};
    const char *why = NULL;
    RtGraph *graph = program_rt_graph(a, p, c->graph[1], llvm.model, c->oracle[1]->args, &why);
    void **got = ARENA_ARRAY(a, void *, p->plan->module->funcs.data[0]->results.n + 1);
    if (!why) why = program_run(a, p, &llvm, graph, c->oracle[1]->args, got);
    rt_graph_free(graph);
    if (!why) why = program_compare(a, p, c->graph[1], c->oracle[1], got, NULL);
    if (why) return arena_printf(a, "change %d: %s", how, why);
    c->got[0] = r->llvm, c->got[1] = got;
    return change_compare(a, c, how, &b->tally);
}

static const char *check_graph(Arena *a, Batch *b, const Program *p, const Oracle *o, const Runs *r, Change how)
{
    GirRng rng = {p->seed * 3 + (uint64_t)how};
    Growth growth = {0};
    if (how == CHANGE_NODE_MORE) growth = change_growth_of_nodes(a, p);
    ProgramGraph g = change_graph(a, &p->graph, how, &growth, &rng);
    Oracle after;
    const char *why = program_oracle(a, p, &g, &after);
    if (why) return arena_printf(a, "change %d: %s", how, why);
    Changed c = {.p = {p, p}, .growth = growth.facts ? &growth : NULL, .graph = {&p->graph, &g}, .oracle = {o, &after}};
    return check_changed(a, b, &c, r, how);
}

static const char *check_wide(Arena *a, Batch *b, unsigned i, const Oracle *o, const Runs *r)
{
    const Program *p = &b->programs[i], *wide = &b->wide[i];
    Oracle after;
    if (!wide->m) return NULL;
    const char *why = change_oracle_wide(a, wide, &b->growth[i], o, &after);
    if (why) return arena_printf(a, "wider: %s", why);
    Changed c = {.p = {p, wide}, .growth = &b->growth[i], .graph = {&p->graph, &p->graph}, .oracle = {o, &after}};
    return check_changed(a, b, &c, r, CHANGE_WIDTH);
}

/* The same bits, without what passes plan about memory. */
static const char *check_apart(Arena *a, Batch *b, unsigned i, const Oracle *o, const Runs *r)
{
    const Program *p = &b->apart[i];
    if (!p->m) return NULL;
    int v = (int)variant_of(p->seed);
    Which which = {b, (unsigned)v};
    const Reading llvm = {program_model(p, v, kernel_llvm, &which, NULL), v, NULL, RT_CONE_OFF, -1};
    const char *why = NULL;
    RtGraph *graph = program_rt_graph(a, p, &p->graph, llvm.model, o->args, &why);
    void **got = ARENA_ARRAY(a, void *, p->plan->module->funcs.data[0]->results.n + 1);
    if (!why) why = program_run(a, p, &llvm, graph, o->args, got);
    rt_graph_free(graph);
    if (!why) why = compare_runs(a, b, p, o, r->llvm, got);
    b->tally.apart++;
    return why ? arena_printf(a, "with memory shared and apart: %s", why) : NULL;
}

/* The same bits from a walk over a plan's steps. */
static const char *check_walk(Arena *a, Batch *b, const Program *p, PlanRun run, const Oracle *o, const Runs *r)
{
    const char *why;
    void **got = program_results(a, p, run, o, &why);
    return got ? compare_runs(a, b, p, o, r->llvm, got) : why;
}

static const char *check_reference(Arena *a, Batch *b, const Program *p, const Oracle *o, const Runs *r)
{
    const PlanRun run = {.plan = p->plan, .narrow = variant_of(p->seed) != RT_AVX512};
    const char *why = check_walk(a, b, p, run, o, r);
    b->tally.reference++;
    return why ? arena_printf(a, "llvm and the reference run: %s", why) : NULL;
}

static const char *check_cuda(Arena *a, Batch *b, unsigned i, const Oracle *o, const Runs *r)
{
    const Program *p = &b->programs[i];
    Device device = {&b->cuda, b->device[i], p->seed};
    const PlanRun run = {.plan = b->device_plan[i], .call = device_call, .user = &device};
    const char *why = check_walk(a, b, p, run, o, r);
    b->tally.cuda++;
    return why ? arena_printf(a, "llvm and CUDA: %s", why) : NULL;
}

static const char *check_program(Arena *a, Batch *b, unsigned i, RtPool *pool)
{
    const Program *p = &b->programs[i];
    Oracle o;
    Runs r;
    const char *why = program_oracle(a, p, &p->graph, &o);
    if (why) return arena_printf(a, "oracle: %s", why);
    why = run_all(a, b, p, &p->graph, pool, o.args, &r);
    if (!why) why = check_runs(a, b, p, &o, &r);
    if (!why && effort >= QUICK) why = check_reference(a, b, p, &o, &r);
    if (!why && b->cuda.handle) why = check_cuda(a, b, i, &o, &r);
    bool drop = p->seed % 4 == 3 && p->kind != GIR_DRAWN && p->graph.g.n_edges > 0;
    if (!why && drop) why = drop_edge(a, b, p, &o, pool);
    for (int how = 0; how < CHANGE_WIDTH && !why && p->text && !p->file; how++)
        if (!change_is_seen(p, (Change)how)) why = check_graph(a, b, p, &o, &r, (Change)how);
    if (!why) why = check_apart(a, b, i, &o, &r);
    return why ? why : check_wide(a, b, i, &o, &r);
}

static void check_one(Batch *b, unsigned i)
{
    Arena *a = arena_new();
    RtPool *pool = NULL;
    const char *wrong = "no threads";
    if (!rt_pool_create(threads_of(b->programs[i].seed), &pool, NULL)) wrong = check_program(a, b, i, pool);
    if (wrong) say(b, i, wrong);
    rt_pool_free(pool);
    arena_free(a);
}

static void check_programs(uint64_t first, unsigned n, bool text, Tally *t)
{
    Batch b;
    const char *why = NULL;
    bool sixth = first / PER_BATCH % 6 == 0;
    make_programs(&b, first, n, text, true);
    b.with_c = effort == SOME ? sixth && !is_lesser() : true;
    b.optimised = effort == FULL || (effort < QUICK && sixth);
    if (b.with_c && !compile_c(&b, "-fno-sanitize=all", &why)) why = arena_printf(b.arena, "C: %s", why);
    if (!why && effort == TARGETS &&
        !cuda_module_build(b.arena, &b.cuda, b.of_cuda.list.data, b.of_cuda.list.n, false, &why))
        why = arena_printf(b.arena, "CUDA: %s", why);
    if (!why && !compile_llvm(&b)) why = "no variant";
    if (why) say(&b, 0, why);
    for (unsigned i = 0; i < n && !why; i++)
        if (!b.bad[i]) check_one(&b, i);
    *t = b.tally;
    free_batch(&b);
}

static void check_batch(uint64_t first, unsigned n, Tally *t) { check_programs(first, n, false, t); }
static void check_texts(uint64_t first, unsigned n, Tally *t) { check_programs(first, n, true, t); }

/* ---- under the sanitizers ---- */

typedef struct Exact { /* buffers of a run, each its own */
    void **p;
    size_t n, cap;
    const Batch *batch;
    const Program *program;
} Exact;

static void *exact_alloc(void *user, size_t n)
{
    Exact *x = user;
    if (x->n == x->cap) {
        x->cap = x->cap * 2 + 64;
        x->p = realloc(x->p, x->cap * sizeof *x->p);
        if (!x->p) exit(4);
    }
    void *p = malloc(n);
    if (!p && n) exit(4);
    return x->p[x->n++] = p;
}

static const char *exact_call(PlanRun *r, uint32_t k, const KirArg *args, const int64_t *n_elems, int64_t lo,
                              int64_t hi)
{
    const Exact *x = r->user;
    RtArg copy[64];
    uint32_t n = plan_kernel(r->plan, k, true)->params.n;
    (void)n_elems;
    if (n > 64) return "too many parameters";
    memcpy(copy, args, n * sizeof *copy);
    c_module_kernel(&x->batch->c, x->batch->ks.data[x->program->first_kernel + k]->name)(copy, lo, hi);
    return NULL;
}

static const char *check_exact(Arena *a, Batch *b, const Program *p)
{
    Oracle o;
    const char *why = program_oracle(a, p, &p->graph, &o);
    if (why) return why;
    Exact exact = {.batch = b, .program = p};
    const PlanRun r = {.plan = p->plan, .call = exact_call, .alloc = exact_alloc, .user = &exact};
    void **got = program_results(a, p, r, &o, &why);
    if (!why) why = program_compare(a, p, &p->graph, &o, got, &b->tally);
    for (size_t i = 0; i < exact.n; i++) free(exact.p[i]);
    free(exact.p);
    return why;
}

static void check_sanitised(uint64_t first, unsigned n, Tally *t)
{
    Batch b;
    const char *why = NULL;
    unsetenv("LD_PRELOAD"); /* not for the C compiler */
    make_programs(&b, first, n, first / PER_BATCH % 2 == 1, false);
    if (!compile_c(&b, "-fsanitize=address,undefined", &why)) say(&b, 0, why);
    for (unsigned i = 0; i < n && b.c.handle; i++) {
        if (b.bad[i]) continue;
        Arena *a = arena_new();
        const char *wrong = check_exact(a, &b, &b.programs[i]);
        if (wrong) say(&b, i, wrong);
        arena_free(a);
    }
    *t = b.tally;
    free_batch(&b);
}

/* ---- processes ---- */

typedef void CheckBatch(uint64_t first, unsigned n, Tally *t);

typedef struct Worker {
    pid_t pid;
    int fd;
    uint64_t first;
} Worker;

typedef struct Crew {
    const char *self, *preload; /* not NULL: children run this program anew under that library */
    uint64_t next, end;
    Worker workers[MAX_WORKERS];
    unsigned n;
    Tally tally;
} Crew;

/* Writes a batch's tally to fd. */
static void work(CheckBatch *check, uint64_t first, unsigned n, int fd)
{
    Tally t = {0};
    check(first, n, &t);
    fflush(stdout);
    if (write(fd, &t, sizeof t) != (ssize_t)sizeof t) _exit(1);
    _exit(0);
}

static void work_anew(const Crew *c, uint64_t first, unsigned n, int fd)
{
    char numbers[3][24];
    snprintf(numbers[0], sizeof *numbers, "%llu", (unsigned long long)first);
    snprintf(numbers[1], sizeof *numbers, "%u", n);
    snprintf(numbers[2], sizeof *numbers, "%d", fd);
    setenv("LD_PRELOAD", c->preload, 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    execl(c->self, c->self, "--sanitised", numbers[0], numbers[1], numbers[2], (char *)NULL);
    _exit(127);
}

static bool start(Crew *c, CheckBatch *check, Worker *w)
{
    uint64_t left = c->end - c->next;
    unsigned n = left < PER_BATCH ? (unsigned)left : PER_BATCH;
    int fds[2];
    if (pipe(fds)) return false;
    *w = (Worker){.first = c->next, .fd = fds[0]};
    c->next += n;
    fflush(stdout);
    w->pid = fork();
    if (w->pid == 0) {
        close(fds[0]);
        if (c->preload) work_anew(c, w->first, n, fds[1]);
        work(check, w->first, n, fds[1]);
    }
    close(fds[1]);
    return w->pid > 0;
}

/* What the worker at `slot` left; its place is free again. */
static void finish(Crew *c, unsigned slot)
{
    Worker w = c->workers[slot];
    Tally t = {0};
    int status = 0;
    bool whole = read(w.fd, &t, sizeof t) == (ssize_t)sizeof t;
    close(w.fd);
    while (waitpid(w.pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!whole || status) {
        printf("the batch from seed %llu ended badly (status %d)\n", (unsigned long long)w.first, status);
        c->tally.failures++;
    }
    tally_add(&c->tally, &t);
    memmove(&c->workers[slot], &c->workers[slot + 1], (--c->n - slot) * sizeof w);
}

static void progress(const Crew *c, uint64_t first, time_t began)
{
    const Tally *t = &c->tally;
    printf("%lld of %llu programs, %lld failures, %lld elements, %.3f %% undecided, %lld s\n", (long long)t->programs,
           (unsigned long long)(c->end - first), (long long)t->failures, (long long)t->elements,
           100.0 * (double)t->undecided / (double)(t->elements + !t->elements), (long long)(time(NULL) - began));
    fflush(stdout);
}

static void run_crew(Crew *c, CheckBatch *check, bool verbose)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned size = cores < 1 ? 1 : cores > MAX_WORKERS ? MAX_WORKERS : (unsigned)cores;
    time_t began = time(NULL), told = began;
    uint64_t first = c->next;
    while (c->next < c->end || c->n) {
        while (c->n < size && c->next < c->end) {
            if (start(c, check, &c->workers[c->n])) c->n++;
            else c->tally.failures++, c->next = c->end;
        }
        if (c->n) finish(c, 0);
        if (verbose && time(NULL) - told >= 20) progress(c, first, began), told = time(NULL);
    }
}

/* ---- tests ---- */

/* What a further node or a wider dim leaves as it is, and the ops by which it does not. */
static void say_exempt(const Tally *t, Change how)
{
    printf("%s %lld: %lld results compared that have something new behind them, %lld of them gradients; %lld elements "
           "beside an "
           "overflow; exempt by op:",
           how == CHANGE_WIDTH ? "with a wider dim" : "with a node more", (long long)t->changes[how],
           (long long)t->kept[how], (long long)t->kept_gradients[how], (long long)t->not_finite[how]);
    for (int op = 0; op < IR_N_OPS; op++)
        if (t->exempt[how][op]) printf(" %s %lld", ir_ops[op].name, (long long)t->exempt[how][op]);
    printf("\n");
}

static void say_figures(const Tally *t)
{
    printf("%lld programs (%lld with passes off, %lld with values computed once), %lld kernels, %lld gradients; "
           "variants %lld %lld "
           "%lld; kinds %lld %lld %lld %lld "
           "%lld %lld, from text %lld\n",
           (long long)t->programs, (long long)t->disabled, (long long)t->held, (long long)t->kernels,
           (long long)t->gradients, (long long)t->variants[0], (long long)t->variants[1], (long long)t->variants[2],
           (long long)t->kinds[0], (long long)t->kinds[1], (long long)t->kinds[2], (long long)t->kinds[3],
           (long long)t->kinds[4], (long long)t->kinds[5], (long long)t->kinds[PROGRAM_TEXT]);
    double all = (double)(t->elements + !t->elements);
    printf("%lld elements: %.3f %% undecided, %.3f %% with a bound over 1 %%, %lld judged behind "
           "the passes; median "
           "bound/error %.3g\n",
           (long long)t->elements, 100 * (double)t->undecided / all, 100 * (double)t->loose / all, (long long)t->second,
           tally_median(t));
    printf("an edge dropped from %lld: shows beyond the bounds in %lld, noticed in %lld\n", (long long)t->dropped,
           (long long)t->matter, (long long)t->noticed);
    printf("%lld programs once more with memory apart, %lld by the reference run, %lld as CUDA\n", (long long)t->apart,
           (long long)t->reference, (long long)t->cuda);
    printf("renumbered %lld, reordered %lld, in a larger batch %lld; %lld results to have the same bits\n",
           (long long)t->changes[0], (long long)t->changes[1], (long long)t->changes[2], (long long)t->exact);
    for (int how = CHANGE_NODE_MORE; how < N_CHANGES && t->changes[how]; how++) say_exempt(t, (Change)how);
}

/* A cotangent that a program states itself, and a place of a table, are drawn in text. */
static bool is_of_text(int op) { return op == IR_OP_incoming || op == IR_OP_with_adjoint || op == IR_OP_at; }

/* All that programs must be made of, if the test is to mean anything. */
static void test_coverage(const Tally *t)
{
    check_begin();
    for (int op = 0; op < IR_N_OPS; op++)
        check(is_of_text(op) || t->ops[op] * 200 >= t->programs, "op %s is in %lld of %lld programs", ir_ops[op].name,
              (long long)t->ops[op], (long long)t->programs);
    for (int k = 0; k < 6; k++) check(t->kinds[k] > 0, "no program of kind %d", k);
    for (int k = 0; k < N_FAMILIES; k++) check(t->families[k] > 0, "no graph of family %d", k);
    check_end("programs: every op, kind of module and family of graphs occurs");
}

static void test_figures(const Tally *t)
{
    check_begin();
    check(t->undecided * 50 <= t->elements, "%lld of %lld elements are undecided", (long long)t->undecided,
          (long long)t->elements);
    check(t->second * 1000 <= t->elements, "%lld of %lld elements are judged behind the passes", (long long)t->second,
          (long long)t->elements);
    check_end("programs: at most 2 % undecided");
    check_begin();
    check(tally_median(t) <= 1e3, "median of bound/error: %.3g", tally_median(t));
    check_end("programs: bounds are sharp");
    check_begin();
    check(t->matter > 0 && t->noticed * 20 >= t->matter * 19, "a dropped edge was noticed in %lld of %lld",
          (long long)t->noticed, (long long)t->matter);
    check_end("programs: a dropped edge is noticed");
    check_begin();
    check(t->bits * 10 >= t->programs * 9, "a changed bit was looked for in %lld runs", (long long)t->bits);
    check_end("programs: between runs, a changed bit is noticed");
}

static void check_apart_ran(const Tally *t)
{
    check_begin();
    check(t->apart * 4 >= t->programs || t->programs < 3, "%lld of %lld programs", (long long)t->apart,
          (long long)t->programs);
    check_end("programs: with memory planned and not, the same bits");
}

static void test_programs(uint64_t first, uint64_t n, bool suite)
{
    static Crew c;
    c = (Crew){.next = first, .end = first + n};
    run_crew(&c, check_batch, !suite);
    say_figures(&c.tally);
    check_begin();
    check(c.tally.failures == 0 && c.tally.programs == (int64_t)n, "%lld of %llu programs fail",
          (long long)c.tally.failures, (unsigned long long)n);
    check_end("programs: interpreter, LLVM and C agree, on one thread and on 2, 3 or 8");
    check_apart_ran(&c.tally);
    if (!suite && n < N_SUITE) return;
    if (n >= N_FEW) test_coverage(&c.tally);
    test_figures(&c.tally);
}

/* All words of the language, and the ops that only a text has. */
static void test_words(const Tally *t)
{
    /* Words of tests and of static values, losses over labels, ranks and counts under further names, words of a schema,
       which tests/lang/typed.gnn and frontend/std/hetero.gnn have, graphs whose targets are edges (tests/test_kg.py),
       and functions that make a dim, `*_encoding` (tests of frontend/std/base.gnn). */
    static const char *const not_drawn[] = {
        "require",  "close",    "random_graph", "size",          "ones",          "eye",
        "at_key",   "beside",   "outer",        "chain",         "cross_entropy", "accuracy",
        "rank_out", "rank_all", "readout_sort", "count_out",     "count_all",     "readout_count",
        "knn",      "select",   "permutation",  "random_schema", "source",        "target",
        "ordinal",  "has",      "fresh",        "combine",       "candidates",    "answers",
        "compose",  NULL};
    Arena *a = arena_new();
    const char *words[N_WORDS];
    uint32_t n = gnn_words(a, words, N_WORDS);
    check_begin();
    for (uint32_t k = 0; k < n; k++) {
        bool drawn = !strstr(words[k], "_encoding");
        for (int i = 0; not_drawn[i]; i++) drawn &= strcmp(words[k], not_drawn[i]) != 0;
        check(!drawn || t->words[k] > 0, "`%s` is in no program", words[k]);
    }
    for (int op = 0; op < IR_N_OPS; op++)
        if (is_of_text(op)) check(t->ops[op] > 0, "op %s is in no program", ir_ops[op].name);
    check_end("programs from text: every function and reducer of the language occurs");
    arena_free(a);
}

static void test_texts(uint64_t first, uint64_t n, bool suite)
{
    static Crew c;
    c = (Crew){.next = first, .end = first + n};
    run_crew(&c, check_texts, !suite);
    say_figures(&c.tally);
    check_begin();
    check(c.tally.failures == 0 && c.tally.programs == (int64_t)n, "%lld of %llu programs fail",
          (long long)c.tally.failures, (unsigned long long)n);
    check_end("programs from text: interpreter, LLVM and C agree, also on graphs of another form");
    check_apart_ran(&c.tally);
    if (!suite && n < N_TEXTS) return;
    if (n >= N_TEXTS) test_words(&c.tally);
    check_begin();
    check(c.tally.undecided * 50 <= c.tally.elements, "%lld of %lld elements are undecided",
          (long long)c.tally.undecided, (long long)c.tally.elements);
    for (int how = 0; how < N_CHANGES; how++)
        check(c.tally.changes[how] * 20 >= (int64_t)n, "few programs of form %d", how);
    for (int how = CHANGE_NODE_MORE; how < N_CHANGES; how++) {
        check(c.tally.kept[how] >= (int64_t)n && c.tally.kept_gradients[how] > 0, "few results compared of form %d",
              how);
        check(c.tally.not_finite[how] * 1000 <= c.tally.elements, "form %d: %lld elements beside an overflow", how,
              (long long)c.tally.not_finite[how]);
    }
    check_end("programs from text: at most 2 % undecided");
}

/* One program in full, for a look at a failure. */
static void show(uint64_t seed, bool is_text)
{
    Arena *a = arena_new();
    Program p = {0};
    StrBuf text = {.arena = a};
    const char *why = program_make(a, seed, is_text, files ? files[seed] : NULL, true, &p);
    if (p.text) puts(p.text);
    if (p.m) ir_print(p.m, &text);
    if (p.plain) ir_print(p.plain, &text);
    if (p.plan) ir_print(p.plan->module, &text), plan_print(p.plan, &text);
    for (uint32_t i = 0; p.plan && i < plan_n_kernels(p.plan); i++) kir_print(plan_kernel(p.plan, i, true), &text);
    fputs(strbuf_cstr(&text), stdout);
    if (why) printf("%s\n", why);
    arena_free(a);
}

static void test_files(uint64_t n)
{
    static Crew c;
    c = (Crew){.end = n};
    if (n == 1) show(0, true);
    run_crew(&c, check_texts, true);
    say_figures(&c.tally);
    check_begin();
    check(c.tally.failures == 0 && c.tally.programs == (int64_t)n, "%lld of %llu programs fail",
          (long long)c.tally.failures, (unsigned long long)n);
    check(c.tally.undecided * 50 <= c.tally.elements, "%lld of %lld elements are undecided",
          (long long)c.tally.undecided, (long long)c.tally.elements);
    check_end("programs with schemas: interpreter, LLVM and C agree, on one thread and on 2, 3 or 8");
}

/* The shared library that a process needs from its start to load sanitised code; NULL if there is
 * none. */
static const char *sanitizer_library(Arena *a)
{
    const char *argv[] = {"cc", "-print-file-name=libasan.so", NULL}, *why;
    char *log = NULL;
    if (file_spawn(a, argv, &log, &why) || log[0] != '/') return NULL;
    log[strcspn(log, "\n")] = 0;
    return log;
}

static void test_sanitised(const char *self, uint64_t first, uint64_t n)
{
    static const char name[] = "programs: emitted C is clean under the sanitizers";
    static Crew c;
    Arena *a = arena_new();
    c = (Crew){.self = self, .preload = sanitizer_library(a), .next = first, .end = first + n};
    if (!c.preload) {
        check_skip(name, "cc has no libasan.so");
    } else {
        check_begin();
        run_crew(&c, check_sanitised, false);
        check(c.tally.failures == 0 && c.tally.programs == (int64_t)n, "%lld of %llu programs fail",
              (long long)c.tally.failures, (unsigned long long)n);
        check_end(name);
    }
    arena_free(a);
}

static Effort effort_of(const char *word)
{
    return !strcmp(word, "quick") ? QUICK : !strcmp(word, "targets") ? TARGETS : ALL;
}

int main(int argc, char **argv)
{
    const char *self = "/proc/self/exe";
    bool text = argc > 1 && !strcmp(argv[1], "text"), suite = argc == 1;
    if (argc == 5 && !strcmp(argv[1], "--sanitised"))
        work(check_sanitised, strtoull(argv[2], NULL, 10), (unsigned)atoi(argv[3]), atoi(argv[4]));
    if (argc > 2 && !strcmp(argv[1], "--sanitised")) {
        test_sanitised(self, strtoull(argv[2], NULL, 10), PER_BATCH);
        return check_done();
    }
    if (text) argc--, argv++;
    if (argc > 2 && (!strcmp(argv[1], "files") || !strcmp(argv[1], "targets"))) {
        files = argv + 2, effort = argv[1][0] == 'f' ? QUICK : TARGETS;
        test_files((uint64_t)argc - 2);
        return check_done();
    }
    bool lesser = is_lesser();
    uint64_t programs = lesser ? N_LESSER : check_amount(N_FEW, N_SUITE),
             texts = lesser ? N_LESSER_TEXTS : check_amount(N_FEW_TEXTS, N_TEXTS);
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10)
                 : text   ? N_TEXTS
                          : programs,
             first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc > 2 && n == 1) show(first, text);
    effort = argc > 3 ? effort_of(argv[3]) : !suite && n < N_SUITE ? FULL : SOME;
    if (!text) test_programs(first, n, suite);
    if (text || suite) test_texts(first, suite ? texts : n, suite);
    if (suite && !lesser) test_sanitised(self, 1, check_amount(N_FEW_SANITISED, N_SANITISED));
    return check_done();
}
