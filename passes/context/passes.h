/* Passes: the table, and the context that every pass is given. What a pass did and refused it leaves as remarks.
   Each pass of the kernel stage brackets its work with pass_begin and pass_end, as the runner does for those on graph
   IR (passes/pipeline). */
#pragma once
#include "base/diag.h"
#include "ir/graph.h"

typedef enum {
#define PASS(name, ...) PASS_##name,
#include "passes/context/passes.def"
#undef PASS
    N_PASSES
} PassId;

typedef enum { PASS_STAGE_GRAPH, PASS_STAGE_KERNEL } PassStage;

typedef struct PassInfo {
    const char *name;
    PassStage stage;
    bool switchable, refuses_grad;
    const char *doc;
} PassInfo;
extern const PassInfo pass_infos[N_PASSES];

typedef enum { PASS_VERIFY_OFF, PASS_VERIFY_ON, PASS_VERIFY_ROUNDTRIP } PassVerify;

typedef struct PassRemark { /* why something was done or not */
    PassId pass;
    bool taken;           /* false: refused */
    const char *function; /* NULL: of the whole module */
    IrId value;           /* of that function, as the pass was given it; IR_NONE: of no one value */
    const char *op;       /* which makes the value, or NULL */
    Span span;
    const char *text;
    double bytes_saved, flops_saved; /* per run of the function, for expected rows (rows.h); 0: not counted */
} PassRemark;

typedef struct PassTiming { /* one row per run of a pass */
    PassId pass;
    double seconds;
    uint32_t ops_before, ops_after; /* graph stage: over all functions */
} PassTiming;

/* Prints a stage's program (graph IR, groups, kernels, plan) for a dump. */
typedef void PassPrint(const void *program, StrBuf *out);
/* Called before (after = false) and after each run of a pass. `index`: how many passes ran before
   it. It prints only if it wants to: print(program, out). */
typedef void PassDump(void *user, PassId pass, uint32_t index, bool after, PassPrint *print, const void *program);

/* How many pairs of a row and a key the data have: of their edges, whose keys an integer input says. */
typedef struct PassPairs {
    const char *input;
    double edges, src_rows, dst_rows, src_pairs, dst_pairs;
} PassPairs;

/* Planned memory that a function may use, on a graph of so many nodes, edges and graphs of a batch; rows: [n_rows] of
   single spaces, -1: as the others say; NULL: none; pairs: [n_pairs] of inputs whose pairs were counted. */
typedef struct PassBudget {
    int64_t bytes, nodes, edges, graphs;
    const int64_t *rows;
    uint32_t n_rows;
    const PassPairs *pairs;
    uint32_t n_pairs;
} PassBudget;

struct Machine; /* passes/context/machine.h */

typedef struct PassContext {
    Arena *stage; /* everything that passes make */
    Diags *diags;
    /* options */
    bool disabled[N_PASSES];
    const PassId *run; /* --run: instead of pass_pipeline; NULL: the pipeline */
    uint32_t n_run;
    PassVerify verify;
    const struct Machine *machine; /* that the build assumes; the only place where passes find numbers of one */
    const PassBudget *budget;      /* or NULL */
    const PassPairs *pairs; /* [n_pairs] of inputs whose pairs were counted; of others the pass `pairs` expects some */
    uint32_t n_pairs;
    /* inputs that are known once the graph is, which the pass `pairs` may read: [n_graph_inputs] their names; NULL:
       all */
    const char *const *graph_inputs;
    uint32_t n_graph_inputs;
    /* what fuse and schedule choose (passes/group/schedule_text.h), or NULL: what pays */
    const struct ScheduleText *schedule;
    /* a plan of the same module for another machine, whose forms this one is to have (PlanForm), so that both give the
       same bits; or NULL */
    const struct HostPlan *forms;
    /* elements of a row that private arrays hold at most, a power of 2 from 16; 0: what pays. For tests */
    int64_t most_staged;
    /* f16 or bf16: what narrow keeps in memory so. f32: nothing, and the passes narrow and narrow_rest do nothing */
    IrDtype store;
    bool sums_apart;     /* in train_step and metrics kernels of sums over edges compute nothing behind them */
    bool store_weights;  /* products read parameters so, too */
    int64_t store_least; /* numbers that a row of such a value has at least; 0: 16. For tests */
    bool store_inputs;   /* the runtime converts inputs when it loads them; else each function does */
    bool keep_remarks;   /* else pass_remark does nothing */
    PassDump *dump;      /* or NULL */
    void *dump_user;
    /* what the runs left */
    VEC(PassRemark) remarks;
    VEC(PassTiming) timings;
    uint32_t n_begun;
    double began;         /* seconds; of the pass that runs now */
    const char *function; /* the one a pass is at, for remarks; NULL: none */
    PassRemark unkept;    /* what pass_remark returns when remarks are not kept */
} PassContext;

/* A context with verification on, the first machine of the table, and everything else off. */
PassContext pass_context(Arena *stage, Diags *diags);

/* Option --run=a,b. False with E0612 for an unknown name. */
bool pass_option_run(PassContext *ctx, const char *list);
/* Option --disable=a,b. False with E0612, or E0616 for a pass that cannot be switched off. */
bool pass_option_disable(PassContext *ctx, const char *list);
/* N_PASSES if there is none of that name; with E0612. */
PassId pass_find(const char *name);
PassId pass_find_or_error(PassContext *ctx, const char *name);

/* False, with E0616, if m has a `grad` and the pass refuses it, or if m has a `grad` and values of 16 bits and the pass
   is not autodiff. lower_module asks for PASS_fuse, behind which the others stand. */
bool pass_ready(PassContext *ctx, PassId pass, const IrModule *m);

/* Ends the compiler where the verifier (ctx->verify) refuses what a pass made, with the pass's name and its step's;
   step: NULL of a whole pass. */
void pass_verify(PassContext *ctx, PassId pass, const char *step, const IrModule *m);
/* The same of m with f in place of its function of that name: for rewrites of graph IR inside a pass of the kernel
   stage. */
void pass_verify_step(PassContext *ctx, PassId pass, const char *step, const IrModule *m, IrFunc *f);

/* Brackets of one run: dump, clock. `print`/`program` as for PassDump. pass_end takes what the pass
 * made. */
void pass_begin(PassContext *ctx, PassId pass, PassPrint *print, const void *program);
void pass_end(PassContext *ctx, PassId pass, PassPrint *print, const void *program);

/* A remark, to which savings may be added; never NULL, valid until the next. Its function is ctx->function. */
PassRemark *pass_remark(PassContext *ctx, PassId pass, bool taken, Span span, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same about value v of f, at its place. */
PassRemark *pass_remark_at(PassContext *ctx, PassId pass, bool taken, const IrFunc *f, IrId v, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
