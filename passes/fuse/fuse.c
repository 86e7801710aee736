/* fuse: which values get memory of their own, and which are computed inside the kernel that wants them.

     %3 = exp %2 : edge[H]                 group 0: rows of edge.dst: %4, with %3 computed at each edge
     %4 = reduce_sum edge.dst %3 : node[H]            and %5 behind the sum
     %5 = log %4 : node[H]

   Reductions, contractions and concatenations are roots of groups; so are results, and what is cheaper to store than
   to compute again (fuse_choice.c). Everything else is computed where it is used. Groups of the same rows and dims then
   merge (fuse_merge.c), and what several of them want at their elements may be computed in each (fuse_copy.c); so may
   products on edges that several walks over the edges want (fuse_clone.c). Sums over all edges may become sums over
   rows and over these (fuse_sums.c); it reorders no other sum, and clones none over rows. */
#include "passes/fuse/fuse.h"
#include "ir/plan.h"
#include "passes/fuse/cost.h"
#include "passes/group/schedule_text.h"
#include "base/ice.h"

/* ---- plain products --------------------------------------------------------------------------------- */

static bool dims_are(const IrType *t, const IrId *a, unsigned n_a, const IrId *b, unsigned n_b)
{
    if (t->n_dims != n_a + n_b) return false;
    for (unsigned k = 0; k < t->n_dims; k++)
        if (t->dims[k] != (k < n_a ? a[k] : b[k - n_a])) return false;
    return true;
}

static bool in_memory(const FusedFunc *f, IrId v)
{
    IrId s = fused_storage(f, v);
    return f->group_of.data[s] != GROUP_NONE || fused_op(f, s)->op == IR_OP_arg;
}

static bool is_gemm(const FusedFunc *f, const Group *g)
{
    const IrOp *op = fused_op(f, g->roots.data[0]);
    if (op->op != IR_OP_contract || !ir_dtype_is_float(op->type.dtype)) return false;
    if (!in_memory(f, op->args[0]) || !in_memory(f, op->args[1])) return false;
    const IrType *a = &fused_op(f, op->args[0])->type, *b = &fused_op(f, op->args[1])->type, *r = &op->type;
    if (a->dtype != r->dtype || b->dtype != r->dtype) return false;
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(f->f, op, dims);
    if (g->kind == GROUP_PRODUCT)
        return r->space != IR_UNIT && a->space == r->space && b->space == IR_UNIT && n &&
               dims_are(a, dims, n, NULL, 0) && dims_are(b, dims, n, r->dims, r->n_dims);
    return group_is_outer(f, g);
}

/* ---- the pass --------------------------------------------------------------------------------------- */

typedef struct Form { /* a way to write a function, and what it costs */
    IrFunc *f;        /* NULL: there is none */
    IrValues origin;  /* as FusedFunc */
    unsigned clones;
    double ns, edge_bytes; /* per node, once it was tried; edge_bytes: of stored values with a row per edge */
} Form;

static Form form_of(PassContext *ctx, FusedModule *fm, IrFunc *f, unsigned clones)
{
    Form x = {.f = f, .clones = clones};
    if (clones)
        x.f = ctx->disabled[PASS_fuse]
                  ? NULL
                  : fuse_clone(ctx->machine, ctx->stage, fm->m, f, (CloneBy)(clones - 1), &x.origin);
    if (clones && x.f) fuse_verify(ctx, "clone", fm->m, x.f);
    return x;
}

/* f, whose values and results may be changed while f is not. */
static IrFunc *copy_func(Arena *a, const IrFunc *f)
{
    IrFunc *copy = ARENA_NEW(a, IrFunc);
    *copy = *f;
    memset(&copy->ops, 0, sizeof copy->ops);
    memset(&copy->results, 0, sizeof copy->results);
    for (IrId v = 0; v < f->ops.n; v++) VEC_PUSH(a, &copy->ops, f->ops.data[v]);
    for (uint32_t i = 0; i < f->results.n; i++) VEC_PUSH(a, &copy->results, f->results.data[i]);
    return copy;
}

static const PlanForm *form_wanted(const PassContext *ctx, uint32_t index)
{
    ICE_UNLESS(!ctx->forms || index < ctx->forms->programs.n);
    return ctx->forms ? &ctx->forms->programs.data[index]->form : NULL;
}

/* Bytes of the vectors that products are turned and cut for: what a text or another plan says, else those of the
   machine's registers. */
static int64_t filled_bytes(const PassContext *ctx, uint32_t index, const char *function)
{
    const FuncText *t = ctx->schedule ? schedule_text_find(ctx->schedule, function) : NULL;
    if (t && t->filled) return t->filled;
    return ctx->forms ? form_wanted(ctx, index)->filled : machine_register_bytes(ctx->machine);
}

/* NULL where a given schedule does not fit. */
static FusedFunc *fuse_form(PassContext *ctx, FusedModule *fm, uint32_t index, Form *form, const bool *again)
{
    ICE_UNLESS(form->f && (!form->clones || form->origin.n >= form->f->ops.n));
    FusedFunc *f = ARENA_NEW(ctx->stage, FusedFunc);
    uint32_t n = form->f->ops.n;
    *f = (FusedFunc){.m = fm->m,
                     .index = index,
                     .f = copy_func(fm->m->arena, form->f),
                     .origin = form->origin,
                     .clones = form->clones,
                     .filled = filled_bytes(ctx, index, form->f->name),
                     .form = form_wanted(ctx, index),
                     .n_values = n,
                     .machine = ctx->machine,
                     .most_staged = ctx->most_staged,
                     .text = ctx->schedule ? schedule_text_find(ctx->schedule, form->f->name) : NULL,
                     .sums = fm->sums.data[index]};
    f->seen = ARENA_ARRAY(ctx->stage, uint32_t, n + f->f->results.n + 1); /* updates may add a copy per result */
    for (IrId v = 0; v < n; v++) {
        VEC_PUSH(ctx->stage, &f->group_of, GROUP_NONE);
        VEC_PUSH(ctx->stage, &f->stored, false);
    }
    if ((f->text && !fuse_given_begin(ctx, f)) || !fuse_choose(ctx, f, again)) return NULL;
    for (uint32_t g = 0; g < f->groups.n; g++) {
        if (f->groups.data[g].dead) continue;
        f->groups.data[g].gemm = is_gemm(f, &f->groups.data[g]);
        group_find_deps(f, g, ctx->stage);
    }
    if (!ctx->disabled[PASS_fuse]) {
        fuse_merge(ctx, f);
        fuse_copy(ctx, f);
    }
    if (f->text && !fuse_given_end(ctx, f)) return NULL;
    fuse_place_updates(ctx, fm, f);
    if (f->f->ops.n > n) fuse_verify(ctx, "update", fm->m, f->f);
    Arena *scratch = arena_new();
    Price price = cost_groups(f, scratch);
    form->ns = cost_function(&price);
    form->edge_bytes = cost_edge_bytes(&price);
    for (IrId v = 0; v < f->f->ops.n; v++) f->stored.data[v] = cost_stores(&price, v);
    arena_free(scratch);
    ICE_UNLESS(group_order(f, ctx->stage));
    return f->text && !fuse_given_order(ctx, f) ? NULL : f;
}

/* ---- one form of a function, or one with clones ------------------------------------------------------------- */

static void try_form(PassContext *ctx, FusedModule *fm, uint32_t index, Form *form, const bool *again)
{
    PassContext quiet = *ctx;
    quiet.keep_remarks = false;
    quiet.stage = arena_new();
    fuse_form(&quiet, fm, index, form, again);
    arena_free(quiet.stage);
}

static Span first_clone(const Form *x)
{
    for (IrId v = 1; v < x->f->ops.n; v++)
        if (x->origin.data[v] == x->origin.data[v - 1]) return x->f->ops.data[v].span;
    return (Span){0};
}

/* Another form of a function costs at most so many times as much: prices are no more exact than that. */
static const double FORM_FACTOR = 0.96;

typedef struct Chosen {
    Form form; /* tried where there were several, or where it was asked for */
    uint32_t n_refused;
    FuseChoice refused[N_CLONE_BY];
} Chosen;

/* Of the forms of f that need less memory for edges the last one that pays, or that `again` asks for. */
static Chosen choose_clones(PassContext *ctx, FusedModule *fm, uint32_t index, IrFunc *f, const bool *again,
                            bool want_cost)
{
    Chosen x = {.form = form_of(ctx, fm, f, 0)};
    uint32_t n = f->ops.n, n_ops = 0;
    if (want_cost) try_form(ctx, fm, index, &x.form, again);
    Form stored = x.form;
    for (unsigned i = 1; i <= N_CLONE_BY; i++) {
        Form many = form_of(ctx, fm, f, i);
        if (!many.f || many.f->ops.n == n_ops) continue; /* both ways are one, where no kernel waits for another */
        if (!n_ops && !want_cost) {
            try_form(ctx, fm, index, &x.form, again);
            stored = x.form;
        }
        n_ops = many.f->ops.n;
        try_form(ctx, fm, index, &many, again);
        if (many.edge_bytes >= x.form.edge_bytes) continue;
        bool pays = (again && again[n + i - 1]) || many.ns < FORM_FACTOR * stored.ns;
        pass_remark(ctx, PASS_fuse, pays, first_clone(&many),
                    "wide values of edges are %s: %.4g ns per node stored, %.4g again",
                    pays ? "computed in each walk over the edges that wants them"
                         : "stored for all walks over the edges",
                    stored.ns, many.ns);
        if (pays) x.form = many;
        else
            x.refused[x.n_refused++] = (FuseChoice){n + i - 1, many.ns - stored.ns,
                                                    stored.edge_bytes - many.edge_bytes};
    }
    return x;
}

/* The form that a text names, or NULL with E0506. */
static IrFunc *given_sums(PassContext *ctx, FusedModule *fm, const FuncText *t, IrFunc *f, IrId *sums)
{
    *sums = IR_NONE;
    if (!t->sums) return f;
    for (IrId map = 0; map < fm->m->maps.n; map++)
        if (!strcmp(fm->m->maps.data[map].name, t->sums)) *sums = map;
    IrFunc *rows = *sums == IR_NONE ? NULL : fuse_sums_by_rows(fm->m, f, *sums);
    if (!rows)
        diag_error(ctx->diags, E0506, t->sums_span,
                   "`%s` has no sums over all edges that could be taken by the rows of `%s`", t->name, t->sums);
    else fuse_verify(ctx, "sums", fm->m, rows);
    return rows;
}

/* f, or f with sums over all edges by the rows of that map (*sums) which makes it cheapest and needs no more memory for
   edges. */
static IrFunc *choose_sums(PassContext *ctx, FusedModule *fm, uint32_t index, IrFunc *f, IrId *sums)
{
    *sums = IR_NONE;
    PassContext quiet = *ctx;
    quiet.keep_remarks = false;
    Form best = {.ns = -1};
    IrFunc *taken = f;
    uint32_t n_maps = ctx->disabled[PASS_fuse] ? 0 : fm->m->maps.n;
    for (uint32_t i = 0; i < 2 * n_maps; i++) { /* what streams comes first: others must spare something */
        IrId map = i % n_maps;
        bool now = fm->m->maps.data[map].sorted == (i < n_maps);
        IrFunc *rows = now ? fuse_sums_by_rows(fm->m, f, map) : NULL;
        if (!rows) continue;
        fuse_verify(ctx, "sums", fm->m, rows);
        if (best.ns < 0) best = choose_clones(&quiet, fm, index, f, NULL, true).form;
        Form form = choose_clones(&quiet, fm, index, rows, NULL, true).form;
        bool pays = form.ns < FORM_FACTOR * best.ns && form.edge_bytes <= best.edge_bytes;
        pass_remark(ctx, PASS_fuse, pays, (Span){0},
                    "sums over all edges are %s over the rows of %s: %.4g ns per node, %.4g so",
                    pays ? "sums" : "no sums", fm->m->maps.data[map].name, best.ns, form.ns);
        if (pays) best = form, taken = rows, *sums = map;
    }
    return taken;
}

/* Every function that a text tells is one of the module. */
static bool text_fits(PassContext *ctx, const IrModule *m)
{
    for (uint32_t i = 0; ctx->schedule && i < ctx->schedule->funcs.n; i++) {
        const FuncText *t = &ctx->schedule->funcs.data[i];
        bool has = false;
        for (uint32_t k = 0; k < m->funcs.n; k++) has |= !strcmp(m->funcs.data[k]->name, t->name);
        if (has) continue;
        diag_error(ctx->diags, E0506, t->span, "the program has no function `%s`", t->name);
        return false;
    }
    return true;
}

FusedModule *fuse_begin(PassContext *ctx, const IrModule *m)
{
    if (!text_fits(ctx, m)) return NULL;
    FusedModule *fm = ARENA_NEW(ctx->stage, FusedModule);
    fm->m = ir_module_clone(ctx->stage, m);
    return fm;
}

bool fuse_prepare(PassContext *ctx, FusedModule *fm, uint32_t index)
{
    ICE_UNLESS(index < fm->m->funcs.n && index == fm->sums.n); /* one after another */
    ctx->function = fm->m->funcs.data[index]->name;
    IrFunc *plain = prepare_func(ctx, fm->m, fm->m->funcs.data[index], filled_bytes(ctx, index, ctx->function)), *rows;
    IrId sums = IR_NONE;
    VEC_PUSH(ctx->stage, &fm->sums, IR_NONE);
    if (ctx->schedule) {
        const FuncText *t = schedule_text_find(ctx->schedule, plain->name);
        if (!t) diag_error(ctx->diags, E0506, ctx->schedule->head, "the schedule has no function `%s`", plain->name);
        rows = t ? given_sums(ctx, fm, t, plain, &sums) : NULL;
    } else if (ctx->forms) {
        sums = form_wanted(ctx, index)->sums;
        rows = sums == IR_NONE ? plain : fuse_sums_by_rows(fm->m, plain, sums);
        ICE_UNLESS(rows); /* one module was prepared by the same rules */
    } else {
        rows = choose_sums(ctx, fm, index, plain, &sums);
    }
    VEC_PUSH(ctx->stage, &fm->plain, plain);
    VEC_PUSH(ctx->stage, &fm->prepared, rows);
    fm->sums.data[index] = sums;
    return rows;
}

FusedFunc *fuse_func(PassContext *ctx, FusedModule *fm, uint32_t index, const bool *again)
{
    ICE_UNLESS(index < fm->prepared.n && fm->prepared.data[index]);
    IrFunc *prepared = fm->prepared.data[index];
    if (ctx->schedule) {
        const FuncText *t = schedule_text_find(ctx->schedule, prepared->name);
        Form form = form_of(ctx, fm, prepared, t->clones);
        if (form.f) return fuse_form(ctx, fm, index, &form, NULL);
        diag_error(ctx->diags, E0506, t->clones_span,
                   "`%s` has no values of edges that several walks want, to be cloned", t->name);
        return NULL;
    }
    Chosen x = choose_clones(ctx, fm, index, prepared, again, false);
    FusedFunc *f = fuse_form(ctx, fm, index, &x.form, again);
    for (uint32_t i = 0; i < x.n_refused; i++) VEC_PUSH(ctx->stage, &f->choices, x.refused[i]);
    return f;
}

/* ---- text ------------------------------------------------------------------------------------------- */

static void print_op(const FusedFunc *f, IrId v, bool root, StrBuf *out)
{
    const IrOp *op = fused_op(f, v);
    strbuf_printf(out, "    %s%%%u = %s", root ? "" : "  ", v, ir_ops[op->op].name);
    for (uint32_t k = 0; k < op->n_args; k++) strbuf_printf(out, "%s %%%u", k ? "," : "", op->args[k]);
    strbuf_printf(out, " : %s%s\n", ir_type_text(f->m, &op->type, out->arena),
                  root && f->stored.data[v] ? "  stored" : "");
}

typedef struct PrintOps {
    const FusedFunc *f;
    StrBuf *out;
    bool *seen;
} PrintOps;

static void note_op(void *user, const GroupOp *op) { ((PrintOps *)user)->seen[op->v] = true; }

static void print_group(const FusedFunc *f, uint32_t g, StrBuf *out)
{
    const Group *x = &f->groups.data[g];
    strbuf_printf(out, "  group %u %s", g, group_kind_names[x->kind]);
    if (x->map != IR_NONE) strbuf_printf(out, " of %s", f->m->maps.data[x->map].name);
    else strbuf_printf(out, " over %s", f->m->spaces.data[x->space].name);
    strbuf_puts(out, x->gemm ? ", plain product\n" : "\n");
    PrintOps p = {f, out, ARENA_ARRAY(out->arena, bool, f->f->ops.n + 1)};
    group_ops(f, g, out->arena, note_op, &p);
    for (IrId v = 0; v < f->f->ops.n; v++)
        if (p.seen[v]) print_op(f, v, f->group_of.data[v] == g, out);
}

void fuse_print(const void *fused_module, StrBuf *out)
{
    const FusedModule *fm = fused_module;
    for (uint32_t i = 0; i < fm->funcs.n; i++) {
        const FusedFunc *f = fm->funcs.data[i];
        strbuf_printf(out, "%sfunc %s\n", i ? "\n" : "", f->f->name);
        for (uint32_t k = 0; k < f->order.n; k++) print_group(f, f->order.data[k], out);
    }
}
