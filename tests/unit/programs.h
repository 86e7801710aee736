/* One random program and all its readings: a module with gradients, made as IR (gir_random.h) or from text
   (gnn_random.h), the oracle (the interpreter on the module after autodiff alone; passes that ran before autodiff may
   have changed the order in which cotangents are added, so that a few elements are judged by the interpreter on the
   module after all passes, which then must agree with the first), the plan that the whole pipeline makes
   of it (some passes switched off in some), and runs of that plan by the runtime's own execution
   core over tables and a graph that it built. What is compared, and how it is counted, is here too;
   compiling kernels and processes are test_programs.c's. */
#pragma once
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/context/machine.h"
#include "passes/pipeline/pipeline.h"
#include "runtime/cpu.h"
#include "runtime/cone.h"
#include "runtime/exec.h"
#include "tests/unit/gnn_random.h"
#include "tests/unit/plan_run.h"
#include "tests/unit/typed_data.h"

/* Programs of IR by their graph, as GirKind has them, and programs from text. */
enum { PROGRAM_TEXT = GIR_SELECT + 1, PROGRAM_N_KINDS, N_WORDS = 256 };
enum { RATIO_STEPS = 4, RATIO_ZERO = 64, N_RATIOS = 512 }; /* a bin is 2^(1/4) wide */

/* What was seen; workers hand it to their parent as it is. */
typedef struct Tally {
    int64_t programs, failures, kernels, elements, undecided, loose; /* loose: the bound exceeds 1 % of the value */
    int64_t gradients, second;        /* results that are gradients; elements that the second oracle judged */
    int64_t dropped, matter, noticed; /* runs without an edge, where it shows beyond the bounds, and was seen */
    int64_t bits;                     /* pairs of runs of which one bit was changed, to see that it is noticed */
    /* held: some values are computed once */
    int64_t variants[RT_N_VARIANTS], kinds[PROGRAM_N_KINDS], families[16], disabled, held;
    int64_t ratios[N_RATIOS]; /* bound / error of elements with an error */
    int64_t ops[IR_N_OPS];    /* programs whose module has the op, before autodiff */
    int64_t words[N_WORDS];   /* programs whose text has the word of the language */
    /* programs that were compared with themselves, built without what passes plan about memory */
    int64_t apart;
    int64_t reference, cuda; /* programs that the reference run of kernel IR ran, and the shim */
    /* programs of another form that were compared; results of them that had to have the same bits */
    int64_t changes[8], exact;
    /* results whose old elements were compared, with gradients; elements that pads made infinite */
    int64_t kept[8], kept_gradients[8], not_finite[8];
    int64_t exempt[8][IR_N_OPS]; /* results that are not what they were, by the op that feels the change */
} Tally;

static inline void tally_add(Tally *to, const Tally *from)
{
    int64_t *a = (int64_t *)to;
    const int64_t *b = (const int64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *a; i++) a[i] += b[i];
}

static inline void tally_ratio(Tally *t, double bound, double error)
{
    const int most = N_RATIOS - 1;
    double at = floor(log2(bound / error) * (int)RATIO_STEPS) + (int)RATIO_ZERO;
    t->ratios[at < 0 ? 0 : at > most ? most : (int)at]++;
}

/* The upper end of the bin that holds the median of bound / error. */
static inline double tally_median(const Tally *t)
{
    int64_t all = 0, sum = 0;
    int i = 0;
    for (int k = 0; k < N_RATIOS; k++) all += t->ratios[k];
    while (i < N_RATIOS && (sum += t->ratios[i]) * 2 < all) i++;
    return exp2((double)(i + 1 - RATIO_ZERO) / (int)RATIO_STEPS);
}

/* ---- graphs ---- */

typedef struct ProgramGraph {
    EvalGraph g; /* the user's edges */
    int64_t *graph_of, n_graphs;
    /* nodes of this key and higher have zeros in weights of the loss, and, where all_blank, in all inputs; 0: none */
    int64_t blank;
    bool all_blank;
    /* what each element was called before the graph was changed, which says what values it has; NULL: its own number */
    const int64_t *node_key, *edge_key, *graph_key;
    const TypedData *typed; /* of a program with a schema, in place of all this; else NULL */
} ProgramGraph;

enum {
    FAMILY_SPARSE,
    FAMILY_ONE_NODE,
    FAMILY_ONE_NODE_LOOPS,
    FAMILY_NO_EDGES,
    FAMILY_HUB,
    FAMILY_MESH,
    FAMILY_BATCH,
    FAMILY_PARALLEL,
    FAMILY_LARGE,
    N_FAMILIES
};

typedef struct FamilySize {
    uint32_t nodes, more_nodes, edges, more_edges; /* least, and how many more at most */
} FamilySize;

static inline void program_edge(ProgramGraph *p, uint32_t family, int64_t e, GirRng *r)
{
    int64_t *src = (int64_t *)p->g.src, *dst = (int64_t *)p->g.dst, n_dst = p->g.n_dst;
    src[e] = gir_below(r, (uint32_t)p->g.n_src);
    dst[e] = gir_below(r, (uint32_t)(n_dst > 2 && family != FAMILY_MESH ? n_dst - 1 : n_dst)); /* an empty row */
    if (family == FAMILY_HUB && gir_below(r, 3)) dst[e] = n_dst / 2;
    if (family == FAMILY_HUB && gir_below(r, 3) == 0) src[e] = p->g.n_src / 3;
    if (family == FAMILY_BATCH && p->g.n_src == n_dst) { /* edges stay in their graph */
        int64_t v = dst[e] + (src[e] & 1);
        src[e] = v < n_dst && p->graph_of[v] == p->graph_of[dst[e]] ? v : dst[e];
    }
    if (gir_below(r, 6) == 0 && dst[e] < p->g.n_src) src[e] = dst[e];
    if (e && gir_below(r, family == FAMILY_PARALLEL ? 2 : 8) == 0) src[e] = src[e - 1], dst[e] = dst[e - 1];
}

static inline ProgramGraph program_graph(Arena *a, uint32_t family, bool bipartite, GirRng *r)
{
    static const FamilySize sizes[N_FAMILIES] = {
        [FAMILY_SPARSE] = {3, 9, 2, 20},  [FAMILY_ONE_NODE] = {1, 0, 0, 0},  [FAMILY_ONE_NODE_LOOPS] = {1, 0, 1, 4},
        [FAMILY_NO_EDGES] = {2, 6, 0, 0}, [FAMILY_HUB] = {5, 40, 30, 200},   [FAMILY_MESH] = {4, 30, 10, 90},
        [FAMILY_BATCH] = {4, 20, 5, 60},  [FAMILY_PARALLEL] = {2, 6, 4, 30}, [FAMILY_LARGE] = {520, 300, 700, 400}};
    const FamilySize *s = &sizes[family];
    int64_t n = s->nodes + gir_below(r, s->more_nodes + 1), m = s->edges + gir_below(r, s->more_edges + 1);
    int64_t *src = ARENA_ARRAY(a, int64_t, m + 1), *dst = ARENA_ARRAY(a, int64_t, m + 1);
    ProgramGraph p = {.g = {n, n, m, src, dst}};
    if (bipartite) p.g.n_src = 1 + gir_below(r, (uint32_t)n + 7);
    p.graph_of = ARENA_ARRAY(a, int64_t, n + 1);
    p.n_graphs = 1 + gir_below(r, family == FAMILY_BATCH ? 6 : 2);
    for (int64_t v = 1; v < n; v++) { /* ascending; some graphs are left out */
        bool next = gir_below(r, 3) == 0 && p.graph_of[v - 1] + 1 < p.n_graphs;
        p.graph_of[v] = p.graph_of[v - 1] + next * (1 + (p.graph_of[v - 1] + 2 < p.n_graphs && gir_below(r, 3) == 0));
    }
    for (int64_t e = 0; e < m; e++) program_edge(&p, family, e, r);
    return p;
}

static inline ProgramGraph program_graph_without(Arena *a, const ProgramGraph *p, int64_t edge)
{
    ProgramGraph q = *p;
    int64_t n = --q.g.n_edges, *src = ARENA_ARRAY(a, int64_t, n + 1), *dst = ARENA_ARRAY(a, int64_t, n + 1),
            *key = ARENA_ARRAY(a, int64_t, n + 1);
    for (int64_t e = 0; e < n; e++) key[e] = e + (e >= edge), src[e] = p->g.src[key[e]], dst[e] = p->g.dst[key[e]];
    q.g.src = src, q.g.dst = dst, q.edge_key = key;
    return q;
}

/* ---- programs ---- */

typedef struct Program {
    Arena *arena;
    uint64_t seed;
    uint32_t family;
    int kind;         /* GirKind or PROGRAM_TEXT */
    const char *file; /* where the text comes from; NULL: it is drawn */
    const char *text; /* of the language, and what results depend on (GNN_BY_..) */
    unsigned by;
    const IrModule *m, *plain, *passed; /* as written; after autodiff alone; after all graph passes */
    uint32_t from;                      /* the first of these in pass_pipeline */
    HostPlan *plan;
    const ModelTables *tables;
    IrId n_widths; /* dims that the inputs have: the first of m */
    ProgramGraph graph;
    uint32_t first_kernel;  /* of its batch */
    PassContext *context;   /* with which `passed` became the plan */
    const Machine *machine; /* not NULL: that one is assumed, and the kernel stage is all on */
    bool apart;             /* every value has memory of its own, every row is computed, every step runs alone */
} Program;

static inline uint64_t program_hash(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline const char *program_diags(Arena *a, const Diags *d)
{
    StrBuf text = {.arena = a};
    diags_print(d, &text, false);
    return strbuf_cstr(&text);
}

/* Half of the programs run without some passes: a subset drawn pass by pass, of another density in each. */
static inline bool program_is_disabled(uint64_t seed) { return seed % 2 == 1; }
static inline void program_disable(PassContext *ctx, uint64_t seed)
{
    if (!program_is_disabled(seed)) return;
    uint64_t one_in = 2 + program_hash(seed ^ 0x9d) % 3;
    for (PassId i = 0; i < N_PASSES; i++)
        ctx->disabled[i] = pass_infos[i].switchable && program_hash(seed * N_PASSES + i) % one_in == 0;
}

/* A third of the programs run as part of a loop: about half of the tensors that they do not update are inputs, which do
   not change, so that what hangs on those alone is computed once, by programs of its own. */
static inline void program_in_loop(IrModule *m, uint64_t seed)
{
    IrFunc *f = m->funcs.data[0];
    if (seed % 3 != 2) return;
    f->name = "metrics";
    for (IrId t = 0; t < m->tensors.n; t++) {
        bool updated = false;
        for (uint32_t i = 0; i < f->results.n; i++) updated |= f->results.data[i].tensor == t;
        if (!updated && program_hash(seed * 131 + t) % 2) m->tensors.data[t].kind = IR_INPUT;
    }
}

/* The largest graph that keeps the interpreter under some 50 MB. */
static inline uint32_t program_family(uint64_t seed, const IrModule *m)
{
    uint32_t family = (uint32_t)(program_hash(seed ^ 0x51ed) % 40);
    if (family >= N_FAMILIES) family %= FAMILY_LARGE;
    const IrFunc *f = m->funcs.data[0];
    int64_t width = 0;
    for (IrId v = 0; v < f->ops.n; v++)
        if (f->ops.data[v].type.space != IR_UNIT) width += ir_type_width(m, &f->ops.data[v].type);
    for (uint32_t g = 0; g < m->graphs.n; g++) /* as many edges as pairs */
        if (ir_graph_is_pairs(m->graphs.data[g].kind) && (family == FAMILY_HUB || family == FAMILY_LARGE))
            return FAMILY_BATCH;
    return family == FAMILY_LARGE && width > 2500 ? FAMILY_HUB : family;
}

/* A module of random IR. */
static inline void program_of_ir(Arena *a, Program *p)
{
    uint32_t size = (uint32_t)(program_hash(p->seed) % 12); /* arguments counted; one in 32 is long */
    GirOptions o = {
        .n_ops = p->seed % 32 ? 9 + size : 30 + 2 * size, .real = p->seed % 3 ? IR_F32 : IR_F64, .grads = true};
    p->m = gir_make(a, p->seed, o);
    p->kind = (int)gir_kind(p->m);
}

/* An input that only the loss reads: program_weighted makes them. */
static inline bool program_is_weight(const IrArg *of) { return !strncmp(of->name, "weight.", 7); }

/* The value times such an input. */
static inline IrId program_weighted(Gir *g, uint32_t k, IrId value)
{
    const char *name = arena_printf(g->b.m->arena, "weight.%u", k);
    IrType type = irb_type(&g->b, value);
    VEC_PUSH(g->b.m->arena, &g->b.m->tensors, ((IrTensor){.name = name, .kind = IR_INPUT, .type = type}));
    IrArg arg = {.name = name, .kind = IR_ARG_TENSOR, .ref = g->b.m->tensors.n - 1, .type = type};
    return irb_map2(&g->b, IR_OP_mul, value, ir_arg(g->b.m, g->b.f, arg));
}

/* A number that hangs on all float results, each with weights, and its gradients by all float arguments, as further
   results. */
static inline void program_gradients(IrModule *m, uint64_t seed, IrDtype real)
{
    Gir g = {.b = {.m = m, .f = m->funcs.data[0]}, .r = {seed}, .real = real};
    IrFunc *f = g.b.f;
    uint32_t n = f->ops.n, n_results = f->results.n;
    IrId loss = IR_NONE;
    for (uint32_t i = 0; i < n_results; i++) {
        const IrResult *r = &f->results.data[i];
        if (irb_type(&g.b, r->value).dtype != real || !strncmp(r->name, "after.", 6))
            continue; /* buffers are constants */
        IrId part = gir_total(&g, program_weighted(&g, i, r->value));
        loss = loss == IR_NONE ? part : irb_map2(&g.b, IR_OP_add, loss, part);
    }
    if (loss != IR_NONE) ir_result(m, f, "loss", loss, IR_NONE);
    for (IrId v = 0; v < n && loss != IR_NONE; v++)
        if (irb_op(&g.b, v)->op == IR_OP_arg && irb_type(&g.b, v).dtype == real)
            ir_result(m, f, arena_printf(m->arena, "grad.%u", v), gir_grad(&g, loss, v), IR_NONE);
}

/* A drawn text and its sizes. */
static inline void program_draw_text(Arena *a, Program *p, FrontendOptions *o)
{
    static const char *const names[] = {"F", "H", "D", "R"};
    GnnText g = gnn_random(a, p->seed);
    double *sizes = ARENA_ARRAY(a, double, 4);
    for (int k = 0; k < 3; k++) sizes[k] = (double)g.sizes[k];
    sizes[3] = (double)g.rels;
    o->set_names = names, o->set_values = sizes, o->n_set = 4;
    p->text = g.text, p->by = g.by, p->n_widths = 3;
}

/* The text of the program's file, whose first line says the sizes, `# F=3 G=2`, and with `seed=N` what is drawn of the
   program beside its text, as it was where the program was found. */
static inline bool program_read_text(Arena *a, Program *p, FrontendOptions *o)
{
    enum { MAX_SIZES = 16 };
    const char **names = ARENA_ARRAY(a, const char *, MAX_SIZES);
    double *sizes = ARENA_ARRAY(a, double, MAX_SIZES);
    FILE *in = fopen(p->file, "rb");
    char *text = arena_alloc(a, 1 << 16);
    size_t n = in ? fread(text, 1, (1 << 16) - 1, in) : 0;
    uint64_t given = 0;
    if (in) fclose(in);
    text[n] = 0;
    for (const char *at = text + 1; n && *at == ' ' && o->n_set < MAX_SIZES;) {
        size_t length = strcspn(++at, "= \n");
        char *end = (char *)(uintptr_t)at + length;
        if (*end != '=') break;
        bool is_seed = length == 4 && !strncmp(at, "seed", 4);
        if (is_seed) given = strtoull(end + 1, &end, 10);
        else {
            names[o->n_set] = arena_printf(a, "%.*s", (int)length, at);
            sizes[o->n_set++] = strtod(end + 1, &end);
        }
        at = end;
    }
    o->set_names = names, o->set_values = sizes;
    p->text = text, p->by = ~0u;
    for (size_t i = 0; i < n; i++) p->seed = program_hash(p->seed ^ (uint64_t)(uint8_t)text[i] << 32);
    if (given) p->seed = given;
    return n > 0;
}

/* The model of a random text, in train mode or in eval mode. */
static inline bool program_of_text(Arena *a, Program *p, Diags *d)
{
    Source *src = ARENA_NEW(a, Source);
    FrontendOptions o = {0};
    p->kind = PROGRAM_TEXT;
    if (!p->file) program_draw_text(a, p, &o);
    else if (!program_read_text(a, p, &o)) return false;
    o.float_dtype = p->seed % 3 ? IR_F32 : IR_F64, o.train_mode = program_hash(p->seed ^ 0x7a) % 2;
    *src = (Source){"random.gnn", p->text, (uint32_t)strlen(p->text)};
    IrModule *m = frontend_compile(a, src, &o, d);
    if (!m) return false;
    m->funcs.n = 1; /* forward */
    program_gradients(m, p->seed, o.float_dtype);
    p->m = m;
    return true;
}

/* A fifth of those in f32 keep what `narrow` finds in 16 bits. The oracle rounds where they do: the casts are part of
   the program. The passes that stand before `narrow` are given no 16 bits, and such a program goes without them. */
static inline void program_narrow(Arena *a, Program *p, Diags *d)
{
    uint64_t draw = program_hash(p->seed ^ 0x16);
    if (p->seed % 3 == 0 || draw % 5) return;
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *ctx = pass_context(a, d);
    ctx->store = draw % 2 ? IR_F16 : IR_BF16, ctx->store_least = 2;
    ctx->store_weights = draw / 2 % 2;
    p->m = pass_run_one(ctx, PASS_narrow, p->m);
    while (pass_pipeline[p->from++] != PASS_narrow) {}
}

/* The plan of p->m. NULL, or what went wrong. held: with the pass hoist. */
static inline const char *program_plan(Arena *a, Program *p, bool held, Diags *d)
{
    uint64_t seed = p->seed;
    PassContext *oracle = ARENA_NEW(a, PassContext), *ctx = ARENA_NEW(a, PassContext);
    *oracle = *ctx = pass_context(a, d);
    p->context = ctx;
    if (!ir_verify(p->m, d)) return program_diags(a, d);
    p->plain = pass_run_one(oracle, PASS_autodiff, p->m);
    program_disable(ctx, seed);
    if (p->machine) ctx->machine = p->machine, ctx->disabled[PASS_fuse] = ctx->disabled[PASS_schedule] = false;
    if (p->from) ctx->run = pass_pipeline + p->from, ctx->n_run = n_pass_pipeline - p->from;
    if (p->apart) ctx->disabled[PASS_memplan] = ctx->disabled[PASS_cone] = ctx->disabled[PASS_connect] = true;
    ctx->disabled[PASS_hoist] |= !held;
    /* rows are short: else none has more */
    if (program_hash(seed ^ 0x57) % 2) ctx->most_staged = 16 << program_hash(seed ^ 0x58) % 5;
    p->passed = p->plain ? pass_run_pipeline(ctx, p->m) : NULL;
    p->plan = p->passed ? lower_module(ctx, p->passed) : NULL;
    if (!p->plan || d->n_errors) return program_diags(a, d);
    p->tables = tables_build(p->plan, &(CodegenOptions){.name = "m", .version = "0"}, a);
    return NULL;
}

/* file: of a text, which is not drawn; else NULL. p->machine is read, all else of p is written */
static inline const char *program_make(Arena *a, uint64_t seed, bool text, const char *file, bool held, Program *p)
{
    Diags *d = ARENA_NEW(a, Diags);
    d->arena = a;
    *p = (Program){.arena = a, .seed = seed, .file = file, .machine = p->machine};
    if (!text) program_of_ir(a, p);
    else if (!program_of_text(a, p, d)) return program_diags(a, d);
    program_in_loop((IrModule *)(uintptr_t)p->m, p->seed);
    program_narrow(a, p, d);
    const char *why = program_plan(a, p, held, d);
    if (why) return why;
    GirRng r = {seed * 31 + 7};
    bool schema = file && p->plain->graphs.data[0].kind != IR_GRAPH_DATA;
    if (schema) p->graph.typed = typed_data(a, p->plain, p->seed * 31 + 7);
    if (schema) return NULL;
    p->family = program_family(seed, p->plain);
    p->graph = program_graph(a, p->family, p->kind == GIR_BIPARTITE, &r);
    return NULL;
}

/* ---- the oracle ---- */

static inline IrId program_graph_space(const IrModule *m)
{
    for (IrId s = 0; s < m->spaces.n; s++)
        if (!strcmp(m->spaces.data[s].name, "graph")) return s;
    return IR_NONE;
}

/* What a row was called before the graph was changed. */
static inline int64_t program_key(const IrModule *m, const EvalWorld *w, const ProgramGraph *g, IrId space, int64_t row)
{
    const IrGraph *base = &m->graphs.data[0];
    const int64_t *keys = space == base->dst_space && base->src_space == space ? g->node_key
                          : space == base->edge                                ? g->edge_key
                          : space == program_graph_space(m)                    ? g->graph_key
                                                                               : NULL;
    int64_t id = w->element_ids[space] ? w->element_ids[space][row] : row;
    return keys ? keys[id] : id;
}

/* The same for a row of any space: edges of derived graphs go by the edge that they come from, or by their node. */
static inline uint64_t program_row(const Program *p, const EvalWorld *w, const ProgramGraph *g, IrId space, int64_t row)
{
    const IrModule *m = p->plain;
    for (uint32_t i = 1; i < m->graphs.n; i++) {
        const IrGraph *derived = &m->graphs.data[i];
        if (derived->edge != space || derived->orig == IR_NONE) continue;
        int64_t orig = w->maps[derived->orig][row];
        if (orig < 0) return ((uint64_t)1 << 40) + (uint64_t)w->maps[derived->dst][row];
        return (uint64_t)program_key(m, w, g, m->graphs.data[derived->base].edge, orig);
    }
    return (uint64_t)program_key(m, w, g, space, row);
}

/* Nowhere negative. */
static inline bool program_is_variance(const Program *p, const IrArg *of)
{
    return of->kind == IR_ARG_TENSOR && strstr(p->plain->tensors.data[of->ref].name, "running_var");
}

/* A row that was added, which sums over rows are not to feel. */
static inline bool program_is_blank(const Program *p, const ProgramGraph *g, const IrArg *of, uint64_t key)
{
    bool node = of->type.space == p->plain->graphs.data[0].dst_space && g->blank && key >= (uint64_t)g->blank;
    return node && (g->all_blank || program_is_weight(of));
}

/* Values by the names of rows; integers of a range lie in it. */
static inline void program_fill(const Program *p, const EvalWorld *w, const ProgramGraph *g, uint32_t arg, EvalValue *v)
{
    const IrArg *of = &p->plain->funcs.data[0]->args.data[arg];
    int64_t bound = of->kind == IR_ARG_TENSOR ? p->plain->tensors.data[of->ref].bound : 0;
    for (int64_t row = 0; row < v->rows; row++) {
        GirRng r = {program_hash(program_row(p, w, g, v->type.space, row) * 64 + arg) + p->seed};
        gir_below(&r, 2);
        EvalValue part = *v;
        part.v += row * v->width, part.rows = 1;
        gir_fill(&part, &r);
        for (int64_t k = 0; k < v->width && bound > 0; k++) part.v[k] = (double)gir_below(&r, (uint32_t)bound);
        for (int64_t k = 0; k < v->width && program_is_variance(p, of); k++) part.v[k] = fabs(part.v[k]);
        bool blank = program_is_blank(p, g, of, program_row(p, w, g, v->type.space, row));
        for (int64_t k = 0; k < v->width && blank; k++) part.v[k] = 0;
    }
}

typedef struct Oracle {
    EvalWorld *w;
    EvalValue **args, **results;
} Oracle;

static inline EvalWorld *program_world(Arena *a, const IrModule *m, const ProgramGraph *g, const char **why)
{
    return g->typed ? typed_world(a, g->typed, m, why) : eval_world(a, m, &g->g, g->graph_of, g->n_graphs, why);
}

static inline const char *program_oracle(Arena *a, const Program *p, const ProgramGraph *g, Oracle *o)
{
    const char *why = NULL;
    const IrFunc *f = p->plain->funcs.data[0];
    o->w = program_world(a, p->plain, g, &why);
    if (!o->w) return why;
    o->args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        o->args[i] = eval_value_new(a, p->plain, o->w, f->args.data[i].type);
        if (!o->args[i]) return "an argument is too large";
        program_fill(p, o->w, g, i, o->args[i]);
        if (f->args.data[i].kind == IR_ARG_SEED) o->args[i]->v[0] = 123456789123.0;
        if (f->args.data[i].kind == IR_ARG_STEP) o->args[i]->v[0] = 17;
    }
    o->results = eval_func(a, p->plain, o->w, f, o->args, &why);
    return o->results ? NULL : why;
}

/* ---- runs ---- */

typedef struct Reading { /* of a plan: kernels, and who walks the chunks */
    const RtModel *model;
    int variant;
    RtPool *pool;
    RtConeMode cone; /* changes no bit, as little as the next */
    int64_t split;   /* least elements of a row that threads share, -1: none are shared */
} Reading;

/* Every step is cut as finely as the pool takes it, and rows are asked for `far` elements before their turn: no bit
   changes. */
static inline void program_vary(const Program *p, RtModel *m, int64_t far)
{
    int64_t n = 0, n_args = 0; /* steps of all programs: each calls a kernel */
    for (int64_t i = 0; i < m->n_programs; i++) n += m->programs[i].n_steps;
    RtCall *calls = ARENA_ARRAY(p->arena, RtCall, n + 1);
    memcpy(calls, m->calls, (size_t)n * sizeof *calls);
    for (int64_t i = 0; i < n; i++) {
        const RtSplitDef *split = calls[i].split < 0 ? NULL : &m->splits[calls[i].split];
        int64_t end = calls[i].first_arg + calls[i].n_args, of_split = split ? split->first_arg + split->n_args : 0;
        n_args = end > n_args ? end : n_args;
        n_args = of_split > n_args ? of_split : n_args;
        calls[i].grain = 1;
    }
    RtStepArg *args = ARENA_ARRAY(p->arena, RtStepArg, n_args + 1);
    memcpy(args, m->step_args, (size_t)n_args * sizeof *args);
    for (int64_t i = 0; i < n_args; i++)
        if (!args[i].is_buffer && args[i].count.kind == RT_COUNT_AHEAD)
            args[i].count = (RtCount){.kind = RT_COUNT_CONST, .value = far};
    m->calls = calls;
    m->step_args = args;
}

/* The model with its kernels; far, if not NULL: see program_vary. */
static inline const RtModel *program_model(const Program *p, int variant, RtKernelFn (*kernel)(void *, uint32_t),
                                           void *user, const int64_t *far)
{
    RtModel *m = ARENA_NEW(p->arena, RtModel);
    *m = p->tables->model;
    RtKernelFn *fns = ARENA_ARRAY(p->arena, RtKernelFn, RT_N_VARIANTS * m->n_kernels + 1);
    for (uint32_t k = 0; k < m->n_kernels; k++) fns[variant * m->n_kernels + k] = kernel(user, p->first_kernel + k);
    m->kernels = fns;
    if (far) program_vary(p, m, *far);
    return m;
}

static inline const char *program_status(Arena *a, const RtStatus *st)
{
    return arena_printf(a, "runtime: %s: %s", st->place, st->message);
}

/* Memory of just a tensor's size before a poisoned margin. */
static inline void *program_tensor(Arena *a, IrDtype dtype, int64_t n, const EvalValue *v)
{
    static const KirBase base[] = {KIR_F32, KIR_F64, KIR_I32, KIR_I64, KIR_I8, KIR_F16, KIR_BF16};
    size_t bytes = (size_t)n * kir_base_bytes(base[dtype]) + 64;
    char *p = arena_alloc(a, bytes);
    memset(p, 0xff, bytes);
    for (int64_t k = 0; v && k < n; k++) plan_put(base[dtype], p, k, v->v[k]);
    return p;
}

/* What the function takes, and room for what is computed once. */
static inline void **program_tensors(Arena *a, const Program *p, const RtModel *m, const RtGraph *g,
                                     EvalValue *const *args)
{
    const IrFunc *f = p->plain->funcs.data[0];
    void **tensors = ARENA_ARRAY(a, void *, m->n_tensors + 1);
    for (uint32_t i = 0; i < f->args.n; i++)
        if (f->args.data[i].kind == IR_ARG_TENSOR)
            tensors[f->args.data[i].ref] = program_tensor(a, args[i]->type.dtype, args[i]->rows * args[i]->width,
                                                          args[i]);
    for (int64_t t = 0; t < m->n_tensors; t++)
        if (m->tensors[t].kind == RT_HELD)
            tensors[t] = program_tensor(a, (IrDtype)m->tensors[t].dtype, rt_tensor_count(m, g, t), NULL);
    return tensors;
}

static inline RtTopology program_topology(Arena *a, const Program *p, const ProgramGraph *g, const RtModel *m)
{
    if (g->typed)
        return (RtTopology){.counts = typed_rows(a, g->typed, m->n_spaces),
                            .files = typed_files(a, g->typed, m->n_graphs)};
    int64_t *counts = ARENA_ARRAY(a, int64_t, m->n_spaces);
    for (int64_t s = 0; s < m->n_spaces; s++) counts[s] = -1;
    const IrGraph *base = &p->plain->graphs.data[0];
    IrId graphs = program_graph_space(p->plain);
    counts[base->dst_space] = g->g.n_dst, counts[base->src_space] = g->g.n_src;
    if (graphs != IR_NONE) counts[graphs] = g->n_graphs;
    return (RtTopology){.place = "edges",
                        .n_edges = g->g.n_edges,
                        .src = g->g.src,
                        .dst = g->g.dst,
                        .graph_of = g->graph_of,
                        .counts = counts};
}

/* The runtime's graph of the user's edges, with maps that arguments say; NULL with *why. Free with rt_graph_free. */
static inline RtGraph *program_rt_graph(Arena *a, const Program *p, const ProgramGraph *g, const RtModel *m,
                                        EvalValue *const *args, const char **why)
{
    RtStatus st = {0};
    RtGraph *graph = NULL;
    RtTopology t = program_topology(a, p, g, m);
    RtCode code = rt_graph_create(m, &t, &graph, &st);
    void **tensors = code ? NULL : program_tensors(a, p, m, graph, args);
    for (int64_t i = 0; i < m->n_tensors && !code; i++) {
        const RtTensorDef *d = &m->tensors[i];
        if (d->is_map) code = rt_graph_say_map(graph, d->map, d->dtype, tensors[i], &st);
    }
    if (code) *why = program_status(a, &st);
    return graph;
}

/* Runs one program of the plan on these tensors; results[i], where wanted, is a copy of result i. NULL, or what went
   wrong. */
static inline const char *program_run_one(Arena *a, const Program *p, const Reading *how, const RtGraph *g,
                                          uint32_t index, void **tensors, void **results)
{
    const IrFunc *f = p->plan->module->funcs.data[p->plan->programs.data[index]->func];
    RtStatus st = {0};
    RtExec *e = NULL;
    RtExecOptions o = {.variant = how->variant, .pool = how->pool, .split = how->split, .cone = (int)how->cone};
    RtCode code = rt_exec_create(how->model, index, g, &o, &e, &st);
    if (!code) code = rt_exec_own_results(e, &st);
    if (!code) {
        memcpy(e->tensors, tensors, (size_t)how->model->n_tensors * sizeof *tensors);
        memset(e->own_results.p, 0xff, e->own_results.bytes);
        memset(e->base, 0xff, (size_t)e->arena_bytes);
        code = rt_exec_bind(e, &st);
    }
    if (!code) rt_exec_run(e, 123456789123, 17);
    for (uint32_t i = 0; i < f->results.n && results && !code; i++) {
        IrId tensor = f->results.data[i].tensor;
        size_t n = (size_t)rt_result_bytes(e, i);
        results[i] = arena_alloc(a, n + 1);
        memcpy(results[i], tensor == IR_NONE ? e->results[i] : e->tensors[tensor], n);
    }
    rt_exec_free(e);
    return code ? program_status(a, &st) : NULL;
}

/* Runs what is computed once, then the function itself. */
static inline const char *program_run(Arena *a, const Program *p, const Reading *how, const RtGraph *g,
                                      EvalValue *const *args, void **results)
{
    void **tensors = program_tensors(a, p, how->model, g, args);
    const char *why = NULL;
    for (uint32_t i = 1; i < p->plan->programs.n && !why; i++) why = program_run_one(a, p, how, g, i, tensors, NULL);
    return why ? why : program_run_one(a, p, how, g, 0, tensors, results);
}

/* Arguments of a function behind the passes: those of the first oracle, and what was computed once. */
static inline EvalValue **program_args_behind(Arena *a, const Program *p, const IrFunc *f, const Oracle *o,
                                              EvalValue **held)
{
    const IrFunc *plain = p->plain->funcs.data[0];
    EvalValue **args = ARENA_ARRAY(a, EvalValue *, f->args.n + 1);
    for (uint32_t i = 0; i < f->args.n; i++) {
        const IrArg *arg = &f->args.data[i];
        bool is_held = arg->kind == IR_ARG_TENSOR && p->passed->tensors.data[arg->ref].kind == IR_HELD;
        if (is_held) args[i] = held[arg->ref];
        for (uint32_t k = 0; k < plain->args.n && !is_held; k++)
            if (plain->args.data[k].kind == arg->kind && plain->args.data[k].ref == arg->ref) args[i] = o->args[k];
    }
    return args;
}

/* The world of a module that passes made, with the maps that inputs say; NULL with *why. */
static inline EvalWorld *program_world_behind(Arena *a, const Program *p, const IrModule *m, const ProgramGraph *g,
                                              const Oracle *o, const char **why)
{
    EvalWorld *w = program_world(a, m, g, why);
    const IrFunc *plain = p->plain->funcs.data[0];
    for (uint32_t k = 0; k < plain->args.n && w; k++) {
        const IrArg *arg = &plain->args.data[k];
        if (arg->kind == IR_ARG_TENSOR && m->tensors.data[arg->ref].is_map) eval_said_map(w, m, arg->ref, o->args[k]);
    }
    return w;
}

/* What a run left in the buffer of a result. */
static inline EvalValue *program_value(const PlanRun *r, const IrType *type, uint32_t buffer)
{
    EvalValue *v = eval_value_new(r->arena, r->plan->module, r->w, *type);
    for (int64_t k = 0; v && k < v->rows * v->width; k++)
        v->v[k] = plan_get(r->prog->buffers.data[buffer].elem, r->data[buffer], k);
    return v;
}

/* Results of the plan's first function, behind the functions of what is computed once, as r's runner of kernels has
   them (r: what is not said here), or NULL with *why. */
static inline void **program_results(Arena *a, const Program *p, PlanRun r, const Oracle *o, const char **why)
{
    const IrModule *m = r.plan->module;
    EvalValue **held = ARENA_ARRAY(a, EvalValue *, m->tensors.n + 1);
    void **got = NULL;
    *why = NULL;
    r.arena = a, r.ahead = (int64_t)(p->seed % 40);
    r.w = program_world_behind(a, p, m, &p->graph, o, why);
    for (uint32_t i = 1; i <= r.plan->programs.n && !*why; i++) { /* the first is run last */
        r.prog = r.plan->programs.data[i % r.plan->programs.n];
        const IrFunc *f = m->funcs.data[r.prog->func];
        r.args = program_args_behind(a, p, f, o, held);
        *why = plan_run(&r);
        got = ARENA_ARRAY(a, void *, f->results.n + 1);
        for (uint32_t k = 0; k < f->results.n && !*why; k++) {
            uint32_t at = plan_run_result(&r, k);
            if (at == UINT32_MAX) *why = "a result is never written";
            else got[k] = r.data[at];
            const IrResult *result = &f->results.data[k];
            if (!*why && i < r.plan->programs.n)
                held[result->tensor] = program_value(&r, &f->ops.data[result->value].type, at);
        }
    }
    return *why ? NULL : got;
}

/* ---- comparing ---- */

static inline double program_element(const EvalValue *like, const void *p, int64_t i)
{
    static const KirBase base[] = {KIR_F32, KIR_F64, KIR_I32, KIR_I64, KIR_I8, KIR_F16, KIR_BF16};
    return plan_get(base[like->type.dtype], p, i);
}

static inline void program_count(Tally *t, const EvalValue *want, int64_t i, double got)
{
    double v = want->v[i], e = want->err[i], error = fabs(got - v);
    t->elements++;
    t->undecided += want->undecided[i] != 0;
    if (want->undecided[i] || !isfinite(v) || !isfinite(got)) return;
    t->loose += e > 0.01 * fmax(fabs(v), 1e-3);
    if (error > 0 && e > 0 && isfinite(e)) tally_ratio(t, e, error);
}

static inline EvalValue **program_second_oracle(Arena *a, const Program *p, const ProgramGraph *g, const Oracle *o)
{
    const char *why = NULL;
    const IrModule *m = p->passed;
    EvalWorld *w = program_world_behind(a, p, m, g, o, &why);
    EvalValue **held = ARENA_ARRAY(a, EvalValue *, m->tensors.n + 1);
    for (uint32_t i = 1; i < m->funcs.n && w; i++) {
        const IrFunc *f = m->funcs.data[i];
        EvalValue **results = eval_func(a, m, w, f, program_args_behind(a, p, f, o, held), &why);
        if (!results) return NULL;
        for (uint32_t k = 0; k < f->results.n; k++) held[f->results.data[k].tensor] = results[k];
    }
    const IrFunc *f = m->funcs.data[0];
    return w ? eval_func(a, m, w, f, program_args_behind(a, p, f, o, held), &why) : NULL;
}

/* Within the bound of the module after all passes, and that within both bounds of the first. Where the first is NaN
   (inf - inf times 0, the root of a variance that rounding made negative) passes may have left out what made it so. */
static inline bool program_accepts_second(const EvalValue *first, const EvalValue *second, int64_t k, double got)
{
    if (second->undecided[k] || !plan_accepts(second, k, got)) return second->undecided[k];
    double x = first->v[k], y = second->v[k];
    return x == y || x != x || fabs(x - y) <= first->err[k] + second->err[k];
}

/* Every element within its bound? NULL, or the first that is not. `t` may be NULL. */
static inline const char *program_compare(Arena *a, const Program *p, const ProgramGraph *g, const Oracle *o,
                                          void *const *got, Tally *t)
{
    const IrFunc *f = p->plain->funcs.data[0];
    EvalValue **second = NULL;
    for (uint32_t i = 0; i < f->results.n; i++) {
        const EvalValue *want = o->results[i];
        for (int64_t k = 0; k < want->rows * want->width; k++) {
            double x = program_element(want, got[i], k);
            if (t) program_count(t, want, k, x);
            if (plan_accepts(want, k, x)) continue;
            if (!second) second = program_second_oracle(a, p, g, o);
            if (second && program_accepts_second(want, second[i], k, x)) {
                if (t) t->second++;
                continue;
            }
            return arena_printf(a,
                                "result %u (%s = %%%u) element %lld: %.17g, wanted %.17g +- %.3g, "
                                "behind the passes "
                                "%.17g +- %.3g",
                                i, f->results.data[i].name, f->results.data[i].value, (long long)k, x, want->v[k],
                                want->err[k], second ? second[i]->v[k] : NAN, second ? second[i]->err[k] : NAN);
        }
    }
    return NULL;
}

/* The same bits everywhere, NaNs alike? NULL, or the first that differ. */
static inline const char *program_same(Arena *a, const IrFunc *f, EvalValue *const *like, void *const *x,
                                       void *const *y)
{
    for (uint32_t i = 0; i < f->results.n; i++)
        for (int64_t k = 0; k < like[i]->rows * like[i]->width; k++) {
            double p = program_element(like[i], x[i], k), q = program_element(like[i], y[i], k);
            if (memcmp(&p, &q, sizeof p) && !(p != p && q != q))
                return arena_printf(a, "result %u element %lld: %.17g and %.17g", i, (long long)k, p, q);
        }
    return NULL;
}

/* Results whose rows are not edges, which a dropped edge leaves in place. */
static inline bool program_has_rows_of(const Program *p, const EvalValue *v)
{
    return !p->plain->spaces.data[v->type.space].is_edge;
}

/* Does the oracle itself tell the two graphs apart, beyond both bounds? */
static inline bool program_differs(const Program *p, const IrFunc *f, EvalValue *const *x, EvalValue *const *y)
{
    for (uint32_t i = 0; i < f->results.n; i++)
        for (int64_t k = 0; program_has_rows_of(p, x[i]) && k < x[i]->rows * x[i]->width; k++) {
            double d = fabs(x[i]->v[k] - y[i]->v[k]);
            bool decided = !x[i]->undecided[k] && !y[i]->undecided[k];
            if (decided && d > x[i]->err[k] + y[i]->err[k] && fabs(x[i]->v[k]) < 1e30) return true;
        }
    return false;
}

/* Does comparing what was computed with `want` notice? */
static inline bool program_notices(const Program *p, const IrFunc *f, EvalValue *const *want, void *const *got)
{
    for (uint32_t i = 0; i < f->results.n; i++)
        for (int64_t k = 0; program_has_rows_of(p, want[i]) && k < want[i]->rows * want[i]->width; k++)
            if (!plan_accepts(want[i], k, program_element(want[i], got[i], k))) return true;
    return false;
}

static inline void program_tally(const Program *p, Tally *t)
{
    bool seen[IR_N_OPS] = {false};
    const IrFunc *f = p->m->funcs.data[0];
    t->programs++;
    t->kernels += p->plan->kernels.n;
    t->kinds[p->kind]++;
    t->families[p->family]++;
    t->disabled += program_is_disabled(p->seed);
    t->held += p->plan->programs.n > 1;
    for (IrId v = 0; v < f->ops.n; v++) seen[f->ops.data[v].op] = true;
    for (uint32_t i = 0; i < f->results.n; i++) t->gradients += f->ops.data[f->results.data[i].value].op == IR_OP_grad;
    for (int op = 0; op < IR_N_OPS; op++) t->ops[op] += seen[op];
    const char *words[N_WORDS];
    uint32_t n_words = p->text ? gnn_words(p->arena, words, N_WORDS) : 0;
    for (uint32_t k = 0; k < n_words; k++) t->words[k] += gnn_has_word(p->text, words[k]);
}
