/* Kernels with blocks, warps, shuffles, shared arrays and barriers. Three of tests/kernel, written by hand (SpMM with a
   warp for each row, edge softmax in one walk, a tiled product), give the bits of the kernels that the compiler makes
   of the same program, in kir_run, in LLVM on each CPU variant that this machine has, in C, and in CUDA on a host; on
   graphs with empty rows, self-loops, parallel edges, hubs of 3,000 edges, one node and no edge. What is broken in them
   is noticed: a barrier that is missing, another lane. Random kernels with warps compare the emitters alone.
   Run: lesser if long */
#include "codegen/jit.h"
#include "codegen/serial.h"
#include "frontend/frontend.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/c_module.h"
#include "tests/unit/check.h"
#include "tests/unit/cuda_module.h"
#include "tests/unit/gir_random.h"
#include "tests/unit/kernel_cases.h"
#include "tests/unit/kir_random.h"
#include "tests/unit/plan_run.h"

enum { LANES = 16, CUDA_SIDE = 2 + RT_N_VARIANTS /* behind kir_run, C, LLVM */, N_SIDES };
static const char *const sides[N_SIDES] = {"kir_run", "C", "generic", "avx2", "avx512", "CUDA"};

/* ---- a text for each number of features ---- */

/* The text works on 7 features: for another number of lanes, `active 7` says so. The kernel's name gets the number. */
static KirModule *module_for(Arena *a, const char *text, const char *name, int active)
{
    StrBuf b = {.arena = a};
    Diags d = {.arena = a};
    size_t n = strlen(name);
    for (const char *at = text; *at;) {
        if (!strncmp(at, "active 7", 8)) strbuf_printf(&b, "active %d", active), at += 8;
        else if (*at == '@' && !strncmp(at + 1, name, n)) strbuf_printf(&b, "@%s_%d", name, active), at += 1 + n;
        else strbuf_add(&b, at++, 1);
    }
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){name, strbuf_cstr(&b), (uint32_t)b.n};
    KirModule *m = kir_parse(a, src, &d);
    check(m != NULL, "%s: %s", name, d.n_errors ? d.list.data[0]->text : "");
    return m;
}

/* One kernel for as many active lanes as the test's widths need, in every emitter. */
static const int lanes_active[] = {1, 7, 16};
enum { N_ACTIVE = sizeof lanes_active / sizeof *lanes_active };
typedef struct Family {
    const char *name;
    const KirKernel *ks[N_ACTIVE];
    JitModule *jit[RT_N_VARIANTS]; /* NULL: this machine has no such CPU */
    CModule c;
    CudaModule cuda;
} Family;

static char *read_text(Arena *a, const char *name)
{
    size_t n;
    const char *why;
    char *text = file_read(a, arena_printf(a, "tests/kernel/%s.kir", name), 0, &n, &why);
    check(text != NULL, "%s: %s (run from the root of the tree)", name, why);
    return text;
}

static bool family_make(Arena *a, Family *f, const char *name)
{
    const char *why = NULL;
    char *text = read_text(a, name);
    *f = (Family){.name = name};
    for (int i = 0; text && i < N_ACTIVE; i++) {
        KirModule *m = module_for(a, text, name, lanes_active[i]);
        if (!m) return false;
        f->ks[i] = m->kernels.data[0];
    }
    for (unsigned v = 0; text && v < RT_N_VARIANTS; v++)
        f->jit[v] = jit_compile(f->ks, N_ACTIVE, v, &(const char *){NULL});
    bool built = text && c_module_build(a, &f->c, f->ks, N_ACTIVE, "cc", "-O1", &why) &&
                 cuda_module_build(a, &f->cuda, f->ks, N_ACTIVE, false, &why);
    return text && check(built, "%s", why);
}

static void family_free(Family *f)
{
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) jit_free(f->jit[v]);
    c_module_free(&f->c);
    cuda_module_free(&f->cuda);
}

/* Runs a family's kernel for strips of 16 features until `width`; the last arguments are the width and where a strip
   begins. The later blocks first. NULL, or what went wrong. */
static const char *run_strips(Arena *a, const Family *f, unsigned side, RtArg *args, const int64_t *sizes,
                              int64_t width, int64_t n_blocks)
{
    const char *why = NULL;
    int64_t cuts[] = {0, n_blocks / 3, n_blocks};
    for (int64_t first = 0; first < width; first += LANES) {
        uint32_t i = 0;
        while (lanes_active[i] != (width - first < LANES ? width - first : LANES)) i++;
        const KirKernel *k = f->ks[i];
        KirArg copy[16];
        args[k->params.n - 2].i = width, args[k->params.n - 1].i = first;
        memcpy(copy, args, k->params.n * sizeof *args);
        for (int part = 1; part >= 0 && !why; part--) {
            if (side == 0) why = kir_run(a, k, copy, sizes, cuts[part], cuts[part + 1]);
            else if (side == CUDA_SIDE) why = cuda_module_run(a, &f->cuda, k, args, cuts[part], cuts[part + 1], 2, 0);
            else
                (side == 1 ? c_module_kernel(&f->c, k->name) : jit_kernel(f->jit[side - 2], i))(args, cuts[part],
                                                                                                cuts[part + 1]);
        }
    }
    return why;
}

/* ---- programs of the compiler ---- */

static const char *const spmm_program = "model net(x: node[F], w: edge) -> node[F] = sum_in(w * x.src)";
static const char *const softmax_program = "model net(x: node[F], w: edge) -> node[F] {\n  p = exp(w - "
                                           "max_in(w).dst)\n  return sum_in(p * x.src) / sum_in(p)\n}";
static const char *const product_program =
    "model net(x: node[K]) -> node[F] {\n  param W: [K, F] = glorot\n  return x @ W\n}";

typedef struct Reference { /* a program on a graph, run by kir_run with the kernels that the compiler makes */
    int64_t n, m;
    int64_t *rows;
    int32_t *col;
    const EvalValue *x, *w; /* w: of edges, or the parameter */
    const float *y;
} Reference;

static const EvalValue *argument(const IrModule *m, const IrFunc *f, EvalValue *const *args, const char *name)
{
    for (uint32_t i = 0; i < f->args.n; i++)
        if (f->args.data[i].kind == IR_ARG_TENSOR && !strcasecmp(m->tensors.data[f->args.data[i].ref].name, name))
            return args[i];
    return NULL;
}

static bool reference_run(Arena *a, const char *text, int64_t width, int64_t depth, const EvalGraph *g, double scale,
                          Reference *r)
{
    Diags d = {.arena = a};
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"net.gnn", text, (uint32_t)strlen(text)};
    const char *names[] = {"F", "K"}, *why = NULL;
    double values[] = {(double)width, (double)depth};
    FrontendOptions o = {.set_names = names, .set_values = values, .n_set = depth ? 2 : 1};
    PassContext ctx = pass_context(a, &d);
    IrModule *m = frontend_compile(a, src, &o, &d);
    const IrModule *passed = m ? pass_run_pipeline(&ctx, m) : NULL;
    HostPlan *plan = passed ? lower_module(&ctx, passed) : NULL;
    if (!check(plan && !d.n_errors, "%s", d.n_errors ? d.list.data[0]->text : "no plan")) return false;
    const IrFunc *f = passed->funcs.data[0];
    EvalWorld *w = eval_world(a, passed, g, NULL, 1, &why);
    if (!check(w != NULL, "%s", why)) return false;
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    GirRng rng = {77};
    for (uint32_t i = 0; i < f->args.n; i++) {
        args[i] = eval_value_new(a, passed, w, f->args.data[i].type);
        gir_fill(args[i], &rng);
    }
    *r = (Reference){
        .n = g->n_dst, .m = g->n_edges, .x = argument(passed, f, args, "x"), .w = argument(passed, f, args, "w")};
    if (!CHECK(r->x && r->w)) return false;
    for (int64_t i = 0; i < r->w->rows * r->w->width; i++) r->w->v[i] = (double)(float)(scale * r->w->v[i]);
    PlanRun run = {.arena = a, .plan = plan, .prog = plan->programs.data[0], .w = w, .args = args};
    why = plan_run(&run);
    if (!check(!why, "%s", why)) return false;
    r->y = run.data[plan_run_result(&run, 0)];
    r->rows = ARENA_ARRAY(a, int64_t, r->n + 1), r->col = ARENA_ARRAY(a, int32_t, r->m + 1);
    for (uint32_t i = 0; i < passed->maps.n; i++) {
        const IrMap *map = &passed->maps.data[i];
        for (int64_t e = 0; !strcmp(map->name, "edge.dst") && e < r->m; e++) r->rows[w->maps[i][e] + 1]++;
        for (int64_t e = 0; !strcmp(map->name, "edge.src") && e < r->m; e++) r->col[e] = (int32_t)w->maps[i][e];
    }
    for (int64_t v = 0; v < r->n; v++) r->rows[v + 1] += r->rows[v];
    return true;
}

/* x @ W from left to right: a product with one column is a dot product for the compiler, and those have 16 partial
   sums. */
static void one_column(Arena *a, Reference *r, int64_t depth)
{
    float *y = ARENA_ARRAY(a, float, r->n + 1);
    for (int64_t v = 0; v < r->n; v++)
        for (int64_t k = 0; k < depth; k++) y[v] = fmaf((float)r->x->v[v * depth + k], (float)r->w->v[k], y[v]);
    r->y = y;
}

static float *floats(Arena *a, const EvalValue *v)
{
    float *x = ARENA_ARRAY(a, float, v->rows * v->width + 1);
    for (int64_t i = 0; i < v->rows * v->width; i++) x[i] = (float)v->v[i];
    return x;
}

/* ---- graphs ---- */

typedef enum { HUBS, BORDERS, ONE_NODE, ONE_LOOP, NO_EDGES, SPARSE, N_GRAPHS } GraphKind;

/* hubs: one row of 3,000 edges and one of 700, others short, some empty, loops and parallel edges. borders: rows of
   just below and above
   256 and 2,048 edges. */
static EvalGraph make_graph(Arena *a, GraphKind kind)
{
    static const int64_t degrees[] = {255, 0, 256, 257, 1, 511, 512, 2048, 2049, 15, 16, 17};
    static const int64_t nodes[N_GRAPHS] = {61, 12, 1, 1, 9, 33}, most[N_GRAPHS] = {3900, 6000, 0, 5, 0, 90};
    int64_t n = nodes[kind], m = 0, *src = ARENA_ARRAY(a, int64_t, most[kind] + 1),
            *dst = ARENA_ARRAY(a, int64_t, most[kind] + 1);
    GirRng r = {kind + 5u};
    for (int64_t v = 0; kind == BORDERS && v < n; v++)
        for (int64_t i = 0; i < degrees[v]; i++, m++) src[m] = gir_below(&r, (uint32_t)n), dst[m] = v;
    for (; kind != BORDERS && m < most[kind]; m++) {
        dst[m] = kind == HUBS && m < 3000 ? 7 : kind == HUBS && m < 3700 ? 60 : gir_below(&r, (uint32_t)n);
        if (dst[m] % 5 == 3) dst[m] = 0;
        src[m] = m % 11 == 0 ? dst[m] : gir_below(&r, (uint32_t)n);
        if (m && m % 13 == 0) src[m] = src[m - 1], dst[m] = dst[m - 1];
    }
    for (int64_t e = m - 1; e > 0; e--) { /* in any order */
        int64_t other = gir_below(&r, (uint32_t)e + 1), s = src[e], t = dst[e];
        src[e] = src[other], dst[e] = dst[other], src[other] = s, dst[other] = t;
    }
    return (EvalGraph){n, n, m, src, dst};
}

/* ---- the three ---- */

static bool same_bits(const float *got, const float *want, int64_t n, int64_t *at)
{
    for (int64_t i = 0; i < n; i++) {
        bool nan = got[i] != got[i] && want[i] != want[i];
        if (memcmp(&got[i], &want[i], sizeof *got) && !nan) return *at = i, false;
    }
    return true;
}

typedef struct Case {
    const char *kernel, *program;
    int64_t depth, per_block; /* of a product; rows that a block has */
    double scale;             /* of w */
} Case;
static const Case cases[] = {
    {"spmm_warps", spmm_program, 0, 8, 1},         {"online_softmax_warps", softmax_program, 0, 8, 6},
    {"product_warps", product_program, 20, 32, 1}, {"product_warps", product_program, 1, 32, 1},
    {"product_warps", product_program, 48, 32, 1},
};

/* NULL, or what went wrong on one side. */
static const char *run_case(Arena *a, const Case *c, const Family *f, const Reference *r, unsigned side, int64_t width)
{
    int64_t total = r->n * width, at = 0;
    float *x = floats(a, r->x), *w = floats(a, r->w), *y = ARENA_ARRAY(a, float, total + 1);
    for (int64_t i = 0; i <= total; i++) y[i] = -77;
    RtArg graph[] = {{.p = r->rows}, {.p = r->col}, {.p = w}, {.p = x}, {.p = y}, {.i = r->n}, {0}, {0}};
    int64_t graph_sizes[] = {r->n + 1, r->m, r->m, total, total, 0, 0, 0};
    RtArg dense[] = {{.p = x}, {.p = w}, {.p = y}, {.i = r->n}, {.i = c->depth}, {0}, {0}};
    int64_t dense_sizes[] = {r->n * c->depth, c->depth * width, total, 0, 0, 0, 0};
    int64_t n_blocks = (r->n + c->per_block - 1) / c->per_block;
    const char *why = run_strips(a, f, side, c->depth ? dense : graph, c->depth ? dense_sizes : graph_sizes, width,
                                 n_blocks);
    if (why) return why;
    if (y[total] != -77) return "writes behind the result";
    if (same_bits(y, r->y, total, &at)) return NULL;
    return arena_printf(a, "element %lld is %.9g, wanted %.9g", (long long)at, (double)y[at], (double)r->y[at]);
}

static void test_three(void)
{
    static const int64_t widths[] = {1, 7, 16, 33, 64};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_new();
        const Case *c = &cases[i];
        Family f;
        check_begin();
        bool made = family_make(a, &f, c->kernel);
        for (int kind = 0; made && kind < N_GRAPHS; kind++)
            for (size_t k = 0; k < sizeof widths / sizeof *widths && check_ok; k++) {
                Arena *b = arena_new();
                EvalGraph g = make_graph(b, (GraphKind)kind);
                Reference r;
                bool ran = reference_run(b, c->program, widths[k], c->depth, &g, c->scale, &r);
                if (ran && c->depth && widths[k] == 1) one_column(b, &r, c->depth);
                for (unsigned side = 0; ran && side < N_SIDES; side++) {
                    if (side >= 2 && side < CUDA_SIDE && !f.jit[side - 2]) continue;
                    const char *why = run_case(b, c, &f, &r, side, widths[k]);
                    check(!why, "graph %d, %lld features, %s: %s", kind, (long long)widths[k], sides[side], why);
                }
                arena_free(b);
            }
        check_end(arena_printf(a, "%s%s has the bits of the compiler's kernels", c->kernel,
                               c->depth ? arena_printf(a, "_%lld", (long long)c->depth) : ""));
        for (unsigned v = 0; v < RT_N_VARIANTS; v++)
            if (!f.jit[v]) check_skip(arena_printf(a, "%s in %s", c->kernel, sides[2 + v]), "no such CPU");
        family_free(&f);
        arena_free(a);
    }
}

/* ---- what is broken is noticed ---- */

typedef struct Fault {
    const char *what;
    size_t which; /* of cases */
    const char *from, *to;
    int nth;          /* occurrence of `from`, the first is 0 */
    const char *says; /* NULL: other bits */
} Fault;

static const Fault faults[] = {
    {"sums are read before they are there", 0, "barrier\n", "\n", 0, "races, or reads"},
    {"sums are written while others read", 0, "barrier\n", "\n", 1, "races: warp"},
    {"another warp's part of the shared array", 0, "%mine = mul i64 %warp, %lanes", "%mine = mul i64 %zero, %lanes", 0,
     "races: warp"},
    {"every warp writes the row", 0, "%writes = eq i1 %row_of_warp, %warp", "%writes = le i1 %row_of_warp, %warp", 0,
     "races: warp"},
    {"two blocks have a row", 0, "%row_0 = mul i64 %b, %warps", "%row_0 = mul i64 %b, %one", 0, "another block"},
    {"the blocks of a row merge in another order", 0, "%there = mul i64 %i, %lanes",
     "%mirror = sub i64 %blocks, %i\n%mirror_1 = sub i64 %mirror, %one\n%there = mul i64 %mirror_1, %lanes", 0, NULL},
    {"the weight of another edge", 0, "%we = shuffle f32x16 %w_16, %j_16",
     "%j_2 = iconst i32x16 1\n%j_x = xor i32x16 %j_16, %j_2\n%we = shuffle f32x16 %w_16, %j_x", 0, NULL},
    {"another edge", 1, "%u = shuffle i32 %u_16, %j_32",
     "%j_1 = iconst i32 1\n%j_x = xor i32 %j_32, %j_1\n%u = shuffle i32 %u_16, %j_x", 0, NULL},
    {"panels are read before they are full", 2, "barrier\n", "\n", 0, "races, or reads"},
    {"panels are filled while others read", 2, "barrier\n", "\n", 1, "races: warp"},
};

static void test_faults(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        Arena *a = arena_new();
        const Fault *t = &faults[i];
        const Case *c = &cases[t->which];
        Family f = {.name = c->kernel};
        EvalGraph g = make_graph(a, HUBS);
        Reference r;
        check_begin();
        char *text = read_text(a, c->kernel), *at = text;
        for (int n = 0; at && (at = strstr(at, t->from)) && n < t->nth; n++) at++;
        if (CHECK(at != NULL)) {
            text = arena_printf(a, "%.*s%s%s", (int)(at - text), text, t->to, at + strlen(t->from));
            KirModule *m = module_for(a, text, c->kernel, LANES);
            if (m && reference_run(a, c->program, LANES, c->depth, &g, c->scale, &r)) {
                f.ks[N_ACTIVE - 1] = m->kernels.data[0];
                const char *why = run_case(a, c, &f, &r, 0, LANES);
                check(why && strstr(why, t->says ? t->says : "wanted"), "says: %s", why ? why : "nothing");
            }
        }
        check_end(arena_printf(a, "notices: %s", t->what));
        arena_free(a);
    }
}

/* ---- what warps keep at barriers ---- */

/* 64 warps have n vectors of 16 doubles in registers, 8 KiB together, meet, and store them. */
static KirKernel *keeping(Arena *a, int n)
{
    KirKernel *k = kir_kernel_new(a, "keeping");
    KirType i64 = kir_type(KIR_I64, 1), vector = kir_type(KIR_F64, LANES);
    kir_param(a, k, (KirParam){.name = "y", .kind = KIR_OUT, .elem = KIR_F64, .restrict_ = true});
    KirBuilder b = kir_builder(a, k);
    KirId zero = kir_int(&b, i64, 0), one = kir_int(&b, i64, 1), warps = kir_int(&b, i64, KIR_MAX_WARPS),
          *kept = ARENA_ARRAY(a, KirId, n);
    kir_for(&b, zero, one, 1, KIR_BLOCK, NULL);
    KirId warp = kir_for(&b, zero, warps, 1, KIR_WARP, NULL);
    KirId x = kir_op(&b, KIR_splat, vector, kir_op(&b, KIR_convert, kir_type(KIR_F64, 1), warp, KIR_NONE, KIR_NONE),
                     KIR_NONE, KIR_NONE);
    for (int i = 0; i < n; i++) kept[i] = x = kir_op(&b, KIR_add, vector, x, kir_const(&b, vector, 1), KIR_NONE);
    kir_ins(&b, (KirIns){.op = KIR_barrier});
    for (int i = 0; i < n; i++)
        kir_store(&b, 0, vector, kir_op(&b, KIR_mul, i64, warp, kir_int(&b, i64, LANES), KIR_NONE), kept[i], LANES);
    kir_end(&b), kir_end(&b);
    return k;
}

/* One warp after another, what is kept lies in arrays: what is legal has room there. */
static void test_kept(void)
{
    Arena *a = arena_new();
    check_begin();
    for (int n = 1; n <= 64; n++) {
        Diags d = {.arena = a}, later = {.arena = a};
        const KirKernel *k = keeping(a, n);
        bool fits = n * 8 << 10 <= KIR_MAX_FRAME_BYTES;
        check(kir_verify(k, &d) == fits, "%d vectors: %s", n, d.n_errors ? d.list.data[0]->text : "legal");
        if (!fits) CHECK(d.n_errors && strstr(d.list.data[0]->text, "256 KiB"));
        else check(kir_verify(kir_serial(a, k), &later), "%s", later.n_errors ? later.list.data[0]->text : "");
    }
    check_end("what warps keep at barriers counts to the 256 KiB of a block");
    arena_free(a);
}

/* ---- what a kernel touches ---- */

typedef struct Touched {
    uint32_t y;
    int64_t n, written[128]; /* how often each row of y is written, by 16 lanes */
} Touched;

static const char *touch(void *user, uint32_t buf, int64_t first, int64_t stride, unsigned n, bool write)
{
    Touched *t = user;
    if (write && (buf != t->y || n != LANES || stride != 1 || first % LANES || first / LANES >= t->n))
        return "writes elsewhere";
    if (write) t->written[first / LANES]++;
    return NULL;
}

/* kir_watch goes through warps and barriers as kir_run does: each row is written once, rows of all lengths. Values are
   tainted by warp. */
static void test_watch(void)
{
    Arena *a = arena_new();
    char *text = read_text(a, "spmm_warps");
    EvalGraph g = make_graph(a, HUBS);
    Reference r;
    check_begin();
    KirModule *m = text ? module_for(a, text, "spmm_warps", LANES) : NULL;
    if (m && reference_run(a, spmm_program, LANES, 0, &g, 1, &r)) {
        const KirKernel *k = m->kernels.data[0];
        bool *wants = ARENA_ARRAY(a, bool, k->params.n), *taint = ARENA_ARRAY(a, bool, k->ins.n);
        uint8_t *how = ARENA_ARRAY(a, uint8_t, k->ins.n);
        kir_watch_plan(k, wants, how);
        /* rows and columns say where, numbers do not */
        CHECK(wants[0] && wants[1] && !wants[2] && !wants[3] && !wants[4]);
        Touched t = {.y = 4, .n = r.n};
        KirWatch w = {.touch = touch, .user = &t, .how = how, .taint = taint, .fuel = INT64_MAX};
        KirArg args[] = {{.p = r.rows}, {.p = r.col}, {0}, {0}, {0}, {.i = r.n}, {.i = LANES}, {.i = 0}};
        int64_t sizes[] = {r.n + 1, r.m, r.m, r.n * LANES, r.n * LANES, 0, 0, 0};
        const char *why = kir_watch(a, k, args, sizes, 0, INT64_MAX, &w);
        check(!why, "%s", why);
        for (int64_t v = 0; v < r.n; v++)
            check(t.written[v] == 1, "row %lld is written %lld times", (long long)v, (long long)t.written[v]);
    }
    check_end("kir_watch sees each row written once");
    arena_free(a);
}

/* ---- random kernels ---- */

enum { MOST_WARPS = 5, PLACES = 8 /* of each buffer that a warp writes */, PER_MODULE = 16 };

typedef struct Rw { /* warps that hand numbers to each other at barriers */
    Rk r;
    KirId warp, block, n_warps, shared;
    KirId sum; /* of what the warp finds in its arrays behind barriers */
} Rw;

static KirId i64_op(Rw *w, KirOpcode op, KirId x, KirId y)
{
    return kir_op(&w->r.b, op, kir_type(KIR_I64, 1), x, y, KIR_NONE);
}
static KirId i64_of(Rw *w, int64_t v) { return kir_int(&w->r.b, kir_type(KIR_I64, 1), v); }

/* A vector for another warp: stored, met, read, met again before anybody stores the next one. */
static void rw_exchange(Rw *w)
{
    Rk *r = &w->r;
    KirType t = kir_type(KIR_F32, 1u << rk_below(r, 5));
    /* clang-format off */
    KirId lanes = i64_of(w, LANES), other = i64_op(w, KIR_rem, i64_op(w, KIR_add, w->warp, i64_of(w, 1 + rk_below(r,
        3))), w->n_warps);
    KirIns store = {.op = KIR_store, .type = t, .args = {i64_op(w, KIR_mul, w->warp, lanes), rk_value(r, t)},
        .buf = KIR_NONE, .alloc = w->shared, .stride = 1};
    /* clang-format on */
    kir_ins(&r->b, store);
    kir_ins(&r->b, (KirIns){.op = KIR_barrier});
    KirIns load = {.op = KIR_load,
                   .type = t,
                   .args = {i64_op(w, KIR_mul, other, lanes)},
                   .buf = KIR_NONE,
                   .alloc = w->shared,
                   .stride = 1};
    rk_keep(r, kir_ins(&r->b, load));
    kir_ins(&r->b, (KirIns){.op = KIR_barrier});
}

enum { OWN = 8 };

/* A private array of each warp: 10 w, 10 w + 1, ... */
static KirId rw_own(Rw *w)
{
    Rk *r = &w->r;
    KirType t = kir_type(KIR_I64, 1);
    KirId array = kir_ins(&r->b, (KirIns){.op = KIR_alloc, .type = t, .i = OWN}),
          begin = i64_op(w, KIR_mul, w->warp, i64_of(w, 10));
    KirId i = kir_for(&r->b, i64_of(w, 0), i64_of(w, OWN), 1, KIR_SEQ, NULL);
    kir_ins(
        &r->b,
        (KirIns){
            .op = KIR_store, .type = t, .args = {i, i64_op(w, KIR_add, begin, i)}, .buf = KIR_NONE, .alloc = array});
    kir_end(&r->b);
    return array;
}

static void rw_read(Rw *w, KirId array)
{
    Rk *r = &w->r;
    KirType one = kir_type(KIR_I64, 1), four = kir_type(KIR_I64, 4);
    KirId at = i64_of(w, rk_below(r, OWN - 4)),
          in_four = kir_ins(&r->b, (KirIns){.op = KIR_lanes, .type = kir_type(rk_below(r, 2) ? KIR_I32 : KIR_I64, 4)});
    KirId a = kir_ins(&r->b, (KirIns){.op = KIR_load, .type = one, .args = {at}, .buf = KIR_NONE, .alloc = array});
    KirId b = kir_ins(
        &r->b, (KirIns){.op = KIR_load, .type = four, .args = {at}, .buf = KIR_NONE, .alloc = array, .stride = 1});
    KirId c = kir_ins(&r->b,
                      (KirIns){.op = KIR_gather, .type = four, .args = {in_four}, .buf = KIR_NONE, .alloc = array});
    KirId found = i64_op(
        w, KIR_add, a, kir_op(&r->b, KIR_hadd, four, kir_op(&r->b, KIR_mul, four, b, c, KIR_NONE), KIR_NONE, KIR_NONE));
    kir_set(&r->b, w->sum, i64_op(w, KIR_add, i64_op(w, KIR_mul, w->sum, i64_of(w, 3)), found));
}

/* Instructions of each warp, and exchanges between them in loops and branches that are the same for all. */
static void rw_block(Rw *w, unsigned depth)
{
    Rk *r = &w->r;
    for (unsigned n = 1 + rk_below(r, 3); n; n--) {
        uint32_t pool = r->pool.n, arrays = r->n_arrays;
        rk_block(r, 2);
        KirId own = rw_own(w);
        rw_exchange(w);
        rw_read(w, own);
        if (depth == 2) continue;
        KirId one = i64_of(w, 1), b = i64_op(w, KIR_and, w->block, one),
              odd = kir_op(&r->b, KIR_eq, kir_type(KIR_I1, 1), b, one, KIR_NONE);
        KirId count = kir_var(&r->b, "turn", kir_type(KIR_I64, 1), b);
        pool = r->pool.n, arrays = r->n_arrays;
        switch (rk_below(r, 3)) {
        case 0: rk_keep(r, kir_for(&r->b, b, i64_of(w, 3), 1, rk_below(r, 2) ? KIR_SEQ : KIR_UNROLL, NULL)); break;
        case 1: kir_if(&r->b, odd); break;
        default:
            kir_loop(&r->b);
            kir_ins(&r->b, (KirIns){.op = KIR_break_if,
                                    .args = {kir_op(&r->b, KIR_lt, kir_type(KIR_I1, 1), one, count, KIR_NONE)}});
            kir_set(&r->b, count, i64_op(w, KIR_add, count, one));
        }
        KirOpcode owner = r->b.k->ins.data[r->b.owners.data[r->b.owners.n - 1]].op;
        rw_block(w, depth + 1);
        r->pool.n = pool, r->n_arrays = arrays;
        if (owner == KIR_if && rk_below(r, 2)) {
            kir_else(&r->b);
            rw_block(w, depth + 1);
            r->pool.n = pool, r->n_arrays = arrays;
        }
        kir_end(&r->b);
    }
}

static const KirKernel *random_warps(Arena *a, uint64_t seed, const char *name)
{
    KirKernel *k = kir_kernel_new(a, name);
    for (unsigned i = 0; i < RK_N_PARAMS; i++) kir_param(a, k, rk_params[i]);
    Rw w = {.r = {.b = kir_builder(a, k), .state = seed * 0x9e3779b97f4a7c15u + 3, .budget = 150, .in_warps = true}};
    Rk *r = &w.r;
    for (unsigned i = 0; i < 2; i++)
        rk_keep(r, kir_ins(&r->b, (KirIns){.op = KIR_param,
                                           .type = kir_type(i ? KIR_F64 : KIR_F32, 1),
                                           .i = RK_N_BUFFERS + 1 + i}));
    KirId zero = i64_of(&w, 0);
    w.n_warps = i64_of(&w, 1 + rk_below(r, MOST_WARPS));
    w.block = rk_keep(r, kir_for(&r->b, zero, i64_of(&w, 2), 1, KIR_BLOCK, "blocks"));
    w.shared = kir_ins(
        &r->b, (KirIns){.op = KIR_alloc, .type = kir_type(KIR_F32, 1), .i = MOST_WARPS * LANES, .shared = true});
    for (int i = 0; i < 4; i++) rk_arith(r, rk_type(r)), rk_load(r, rk_type(r));
    w.warp = rk_keep(r, kir_for(&r->b, zero, w.n_warps, 1, KIR_WARP, NULL));
    w.sum = kir_var(&r->b, "sum", kir_type(KIR_I64, 1), zero);
    rw_block(&w, 0);
    KirId place = i64_op(&w, KIR_mul, i64_op(&w, KIR_add, i64_op(&w, KIR_mul, w.block, i64_of(&w, MOST_WARPS)), w.warp),
                         i64_of(&w, PLACES));
    for (int i = 0; i < 16; i++) {
        KirType t = kir_result_type(k, r->pool.id[rk_below(r, r->pool.n)]);
        if (t.lanes > PLACES) continue;
        KirIns store = rk_place(r, KIR_store, t, true);
        store.args[0] = i64_op(&w, KIR_add, place, i64_of(&w, rk_below(r, 1u + PLACES - t.lanes))),
        store.args[1] = rk_value(r, t);
        store.stride = 1, store.alloc = KIR_NONE, store.active = t.lanes;
        static const uint8_t slot[] = {[KIR_I1] = 0, [KIR_I32] = 1, [KIR_I64] = 2, [KIR_F32] = 3, [KIR_F64] = 4};
        store.buf = RK_KINDS + slot[t.base] + (t.base == KIR_F32 ? rk_below(r, 2) * (2 + rk_below(r, 2)) : 0u);
        kir_ins(&r->b, store);
    }
    kir_ins(&r->b, (KirIns){.op = KIR_store,
                            .type = kir_type(KIR_I64, 1),
                            .args = {place, w.sum},
                            .buf = RK_KINDS + 2,
                            .alloc = KIR_NONE});
    kir_end(&r->b), kir_end(&r->b);
    return k;
}

static RkData random_data[N_SIDES], before;

static bool random_agrees(Arena *a, const KirKernel *k, const RtKernelFn *run, const CudaModule *cuda, uint64_t seed,
                          unsigned *active)
{
    KirArg args[RK_N_PARAMS];
    rk_data(&before, seed);
    for (unsigned side = 0; side < N_SIDES; side++) rk_data(&random_data[side], seed);
    memcpy(args, random_data[0].args, sizeof args);
    const char *why = kir_run(a, k, args, random_data[0].n_elems, 0, 2);
    for (unsigned side = 1; side < N_SIDES && !why; side++) {
        if (side != CUDA_SIDE && !run[side]) continue;
        if (side == CUDA_SIDE) why = cuda_module_run(a, cuda, k, random_data[side].args, 0, 2, 2, 0);
        else run[side](random_data[side].args, 0, 2);
        const char *differs = rk_compare(a, &random_data[0], &random_data[side]);
        if (differs) why = arena_printf(a, "%s: %s", sides[side], differs);
    }
    *active += rk_compare(a, &random_data[0], &before) != NULL;
    return check(!why, "seed %llu: %s", (unsigned long long)seed, why);
}

static void test_random(uint64_t first)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    const KirKernel *ks[PER_MODULE];
    const char *why = NULL;
    JitModule *jit[RT_N_VARIANTS];
    CModule c;
    CudaModule cuda = {0};
    unsigned active = 0;
    check_begin();
    for (unsigned i = 0; i < PER_MODULE; i++) {
        ks[i] = random_warps(a, first + i, arena_printf(a, "random_%u", i));
        check(kir_verify(ks[i], &d), "seed %llu: %s", (unsigned long long)(first + i),
              d.n_errors ? d.list.data[0]->text : "");
    }
    bool built = check_ok && c_module_build(a, &c, ks, PER_MODULE, "cc", "-O1", &why) &&
                 cuda_module_build(a, &cuda, ks, PER_MODULE, false, &why);
    check(built, "%s", why);
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        jit[v] = built ? jit_compile_quickly(ks, PER_MODULE, v, &(const char *){NULL}) : NULL;
    for (unsigned i = 0; built && i < PER_MODULE; i++) {
        RtKernelFn run[N_SIDES] = {NULL, c_module_kernel(&c, ks[i]->name)};
        for (unsigned v = 0; v < RT_N_VARIANTS; v++) run[2 + v] = jit[v] ? jit_kernel(jit[v], i) : NULL;
        if (!random_agrees(a, ks[i], run, &cuda, first + i, &active)) break;
    }
    CHECK(active > PER_MODULE * 9 / 10);
    check_end(arena_printf(a, "random_warps_from_%llu", (unsigned long long)first));
    for (unsigned v = 0; v < RT_N_VARIANTS; v++)
        if (built) jit_free(jit[v]);
    if (built) c_module_free(&c);
    cuda_module_free(&cuda);
    arena_free(a);
}

int main(void)
{
    for (unsigned i = 0; i < check_amount(1, 4); i++) test_random(1 + i * PER_MODULE);
    test_three();
    test_faults();
    test_watch();
    test_kept();
    return check_done();
}
