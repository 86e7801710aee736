/* The checker of plans (passes/plan/audit.c): programs whose plans are changed behind the passes, in one
   way at a time, each of which makes a wrong plan. A build with such a plan has to end with code
   70, and say what is wrong. */
#include "frontend/frontend.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const programs[] = {
    /* a chain, sums that rescale, rows that threads share, elements that are stored */
    "model net(x: node[F]) -> node[C] {\n  h = elu(gat(x, D = 8, H = 4))\n  return gcn(h, C)\n}\n",
    /* values written over others at the elements of a sum */
    "model net(w: edge, u: node, M: [F, C]) -> (node, node[F, C]) {\n"
    "  graph g6 = self_loops(g, replace, fill w = max)\n"
    "  v10 = over g6 {\n    mean_in(sqrt(abs(u.dst / (1 + abs(w))) + 0.1))\n  }\n"
    "  v12 = sum_in(w * v10.dst)\n  v16: node[F, C] = logsumexp_out(tanh(M * v10.src))\n  return "
    "v12, v16\n}\n",
    "model net(x: node[F], e: edge[F]) -> node[C] {\n  h = tanh(sum_in(relu(x.src + e)))\n  return "
    "gcn(h, C)\n}\n",
    /* a loss over few rows, of which a kernel that takes many rows at once computes others: they are infinite */
    "model net(x: node[F]) -> node[C] {\n  h = elu(gat(dropout(x, 0.6), D = 8, H = 4, attn_dropout = 0.6))\n"
    "  return gat(dropout(h, 0.6), H = 1, D = C, concat = false, attn_dropout = 0.6)\n}\n"
    "train net {\n  loss = cross_entropy(net(data.x), data.y) on data.train\n  optimizer adam(0.01)\n}\n"};

/* Changes a plan in its k-th place of a kind. False: it has no such place. */
typedef bool Change(HostPlan *plan, unsigned k);

/* ---- places ---- */

static PlanProgram *program(HostPlan *plan)
{
    uint32_t i = 0;
    while (strcmp(plan->programs.data[i]->name, "vjp") != 0) i++;
    return plan->programs.data[i];
}

static KirKernel *kernel(HostPlan *plan, const PlanStep *s) { return plan_kernel(plan, s->kernel, true); }

/* How step s uses a buffer: 1 reads, 2 writes. */
static unsigned use(HostPlan *plan, uint32_t s, uint32_t buffer)
{
    const PlanStep *step = &program(plan)->steps.data[s];
    unsigned found = 0;
    for (uint32_t i = 0; i < step->args.n; i++) {
        KirParamKind kind = kernel(plan, step)->params.data[i].kind;
        if (step->args.data[i].is_buffer && step->args.data[i].buffer == buffer)
            found |= (kind != KIR_OUT) + 2u * (kind != KIR_IN);
    }
    return found;
}

/* The k-th arena buffer that step s writes and a later one reads, with that step. */
static bool passed_on(HostPlan *plan, unsigned k, uint32_t *buffer, uint32_t *writer, uint32_t *reader)
{
    const PlanProgram *p = program(plan);
    for (uint32_t b = 0; b < p->buffers.n; b++)
        for (uint32_t s = 0; p->buffers.data[b].kind == PLAN_ARENA && s < p->steps.n; s++)
            for (uint32_t t = s + 1; (use(plan, s, b) & 2) && t < p->steps.n; t++) {
                if (!(use(plan, t, b) & 1)) continue;
                *buffer = b, *writer = s, *reader = t;
                if (!k--) return true;
                break;
            }
    return false;
}

static bool drop(KirBlock *b, const KirKernel *k, uint32_t buf)
{
    for (uint32_t i = b->ins.n; i-- > 0;) {
        KirIns *x = &k->ins.data[b->ins.data[i]];
        if (drop(&x->body, k, buf) || drop(&x->other, k, buf)) return true;
        if (x->op != KIR_store || x->buf != buf) continue;
        memmove(b->ins.data + i, b->ins.data + i + 1, (b->ins.n - i - 1) * sizeof *b->ins.data);
        b->ins.n--;
        return true;
    }
    return false;
}

static uint32_t param_of(const PlanStep *s, uint32_t buffer)
{
    for (uint32_t i = 0; i < s->args.n; i++)
        if (s->args.data[i].is_buffer && s->args.data[i].buffer == buffer) return i;
    return UINT32_MAX;
}

/* ---- changes ---- */

static bool life_ends_early(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    if (!passed_on(plan, k, &b, &s, &t)) return false;
    PlanProgram *p = program(plan);
    p->slots.data[p->buffers.data[b].slot].last--;
    return true;
}

static bool life_begins_late(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    if (!passed_on(plan, k, &b, &s, &t)) return false;
    PlanProgram *p = program(plan);
    p->slots.data[p->buffers.data[b].slot].first++;
    return true;
}

static bool slot_is_small(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    if (!passed_on(plan, k, &b, &s, &t)) return false;
    PlanProgram *p = program(plan);
    p->slots.data[p->buffers.data[b].slot].row_bytes -= 4;
    return true;
}

static bool slot_is_shared(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t, other, u, v;
    if (!passed_on(plan, k, &b, &s, &t) || !passed_on(plan, k + 1, &other, &u, &v) || b == other) return false;
    program(plan)->buffers.data[b].slot = program(plan)->buffers.data[other].slot;
    return true;
}

static bool steps_are_swapped(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    PlanStep *steps = program(plan)->steps.data;
    for (unsigned i = 0; passed_on(plan, i, &b, &s, &t); i++) {
        if (t != s + 1 || plan_chain(program(plan), s) || plan_chain(program(plan), t) || k--) continue;
        PlanStep first = steps[s];
        steps[s] = steps[t];
        steps[t] = first;
        return true;
    }
    return false;
}

static bool step_is_dropped(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    PlanProgram *p = program(plan);
    for (unsigned i = 0; passed_on(plan, i, &b, &s, &t); i++) {
        if (plan_chain(p, s) || k--) continue;
        for (uint32_t c = 0; c < p->chains.n; c++) p->chains.data[c].first -= p->chains.data[c].first > s;
        memmove(p->steps.data + s, p->steps.data + s + 1, (p->steps.n - s - 1) * sizeof *p->steps.data);
        p->steps.n--;
        for (uint32_t j = 0; j < p->slots.n; j++) p->slots.data[j].first = 0, p->slots.data[j].last = p->steps.n;
        return true;
    }
    return false;
}

/* Of a step over rows: sums over all rows have blocks to merge on large graphs alone. */
static bool store_is_dropped(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    for (unsigned i = 0; passed_on(plan, i, &b, &s, &t); i++) {
        const PlanStep *step = &program(plan)->steps.data[s];
        if (step->extent.kind != PLAN_COUNT || k--) continue;
        return drop(&kernel(plan, step)->body, kernel(plan, step), param_of(step, b));
    }
    return false;
}

static bool lane_is_left_out(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    if (!passed_on(plan, k, &b, &s, &t)) return false;
    const PlanStep *step = &program(plan)->steps.data[s];
    KirKernel *it = kernel(plan, step);
    for (KirId i = 0; i < it->ins.n; i++) {
        KirIns *x = &it->ins.data[i];
        if (x->op != KIR_store || x->buf != param_of(step, b) || x->active < 2) continue;
        x->active--;
        return true;
    }
    return false;
}

static unsigned replace(PlanProgram *p, uint32_t from, uint32_t to)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < p->steps.n; i++)
        for (uint32_t j = 0; j < p->steps.data[i].args.n; j++) {
            PlanArg *a = &p->steps.data[i].args.data[j];
            bool fits = a->is_buffer && a->buffer == from && param_of(&p->steps.data[i], to) == UINT32_MAX;
            if (fits) a->buffer = to, n++;
        }
    return n;
}

/* One buffer in the place of another that still lives. */
static bool buffer_is_taken(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    PlanProgram *p = program(plan);
    for (unsigned i = 0; passed_on(plan, i, &b, &s, &t); i++)
        for (uint32_t c = 0; c < p->buffers.n; c++) {
            const PlanBuffer *x = &p->buffers.data[b], *y = &p->buffers.data[c];
            bool alike = y->kind == PLAN_ARENA && x->elem == y->elem && x->width == y->width &&
                         x->rows.kind == y->rows.kind && x->rows.space == y->rows.space && y->first < s && y->last > t;
            if (c == b || !alike || k--) continue;
            return replace(p, b, c) > 0;
        }
    return false;
}

static bool link_is_added(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    PlanProgram *p = program(plan);
    for (unsigned i = 0; passed_on(plan, i, &b, &s, &t); i++) {
        const PlanStep *x = &p->steps.data[s], *y = &p->steps.data[t];
        if (t != s + 1 || plan_chain(p, s) || plan_chain(p, t) || y->cut == IR_NONE || x->extent.kind != PLAN_COUNT ||
            y->extent.kind != PLAN_COUNT || x->extent.space != y->extent.space || k--)
            continue;
        static PlanChain chains[64];
        uint32_t n = 0, at = 0;
        while (at < p->chains.n && p->chains.data[at].first < s) chains[n++] = p->chains.data[at++];
        chains[n++] = (PlanChain){s, 2, 96, 1};
        while (at < p->chains.n) chains[n++] = p->chains.data[at++];
        p->chains.data = chains;
        p->chains.n = n;
        return true;
    }
    return false;
}

static bool strip_is_memory(HostPlan *plan, unsigned k)
{
    PlanProgram *p = program(plan);
    for (uint32_t b = 0; b < p->buffers.n; b++) {
        if (p->buffers.data[b].kind != PLAN_ARENA || k--) continue;
        p->buffers.data[b].kind = PLAN_STRIP;
        return true;
    }
    return false;
}

/* The k-th step of any program with parts of rows, and its program. */
static PlanStep *with_walks(HostPlan *plan, unsigned k, uint32_t least, PlanProgram **p)
{
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->steps.n; s++) {
            *p = plan->programs.data[i];
            const PlanSplit *split = plan_split(&(*p)->steps.data[s]);
            if (split && split->walks >= least && !k--) return &(*p)->steps.data[s];
        }
    return NULL;
}

static bool walk_is_dropped(HostPlan *plan, unsigned k)
{
    PlanProgram *p;
    PlanStep *s = with_walks(plan, k, 2, &p); /* without any, rows are not split: right */
    if (s) s->split->walks--;
    return s != NULL;
}

static bool state_is_not_kept(HostPlan *plan, unsigned k)
{
    PlanProgram *p;
    PlanStep *s = with_walks(plan, k, 1, &p);
    if (!s) return false;
    KirKernel *it = plan->splits.data[s->split->kernel];
    for (uint32_t i = 0; i < it->params.n; i++) {
        const PlanArg *a = &s->split->args.data[i];
        if (a->is_buffer && p->buffers.data[a->buffer].kind == PLAN_STATE) return drop(&it->body, it, i);
    }
    return false;
}

/* Blocks are joined by the walks that had no turn yet, instead of those that had one. */
static bool joined_too_early(HostPlan *plan, unsigned k)
{
    PlanProgram *p;
    PlanStep *s = with_walks(plan, k, 1, &p);
    KirKernel *it = s ? plan->splits.data[s->split->kernel] : NULL;
    for (KirId i = 0; it && i < it->ins.n; i++) {
        KirIns *x = &it->ins.data[i];
        if (x->op != KIR_lt || it->ins.data[x->args[0]].op != KIR_iconst || it->ins.data[x->args[1]].op != KIR_param)
            continue;
        KirId walk = x->args[0];
        x->args[0] = x->args[1];
        x->args[1] = walk;
        return true;
    }
    return false;
}

/* All blocks of a sum over all rows are the first. */
static bool blocks_are_one(HostPlan *plan, unsigned k)
{
    PlanProgram *p = program(plan);
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const PlanCount *e = &p->steps.data[s].extent;
        if (e->kind != PLAN_BLOCKS || e->max == INT64_MAX || k--) continue;
        KirKernel *it = kernel(plan, &p->steps.data[s]);
        for (KirId i = 0; i < it->ins.n; i++) {
            KirIns *x = &it->ins.data[i];
            const KirIns *loop = x->op == KIR_mul ? &it->ins.data[x->args[0]] : NULL;
            if (loop && loop->op == KIR_for && loop->bind == KIR_THREADS) x->args[0] = loop->args[0];
        }
        return true;
    }
    return false;
}

static bool parts_overlap(HostPlan *plan, unsigned k)
{
    PlanProgram *p;
    PlanStep *s = with_walks(plan, k, 1, &p);
    for (uint32_t i = 0; s && i < s->split->args.n; i++) {
        PlanArg *a = &s->split->args.data[i];
        if (a->is_buffer || a->count.kind != PLAN_SPLIT || a->count.value != PLAN_SPLIT_FIRST) continue;
        a->count = (PlanCount){.kind = PLAN_CONST, .value = 0};
        return true;
    }
    return false;
}

/* The k-th step that leaves rows out, and a set of none. */
static PlanStep *leaves_out(HostPlan *plan, unsigned k, bool walks, uint32_t *none)
{
    for (uint32_t i = 0; i < plan->programs.n; i++) {
        PlanProgram *p = plan->programs.data[i];
        for (*none = 0; *none < p->sets.n && p->sets.data[*none].kind != PLAN_SET_EMPTY;) ++*none;
        for (uint32_t s = 0; s < p->steps.n; s++)
            if ((walks ? p->steps.data[s].cone.walk : p->steps.data[s].cone.rows) != PLAN_SET_ALL && !k--)
                return &p->steps.data[s];
    }
    return NULL;
}

static bool rows_are_left_out(HostPlan *plan, unsigned k)
{
    uint32_t none;
    PlanStep *s = leaves_out(plan, k, false, &none);
    if (s) s->cone.rows = none;
    return s != NULL;
}

static bool elements_are_left_out(HostPlan *plan, unsigned k)
{
    uint32_t none;
    PlanStep *s = leaves_out(plan, k, true, &none);
    if (s) s->cone.walk = none;
    return s != NULL;
}

/* A long row, too, is summed without the elements that are 0. */
static bool long_row_is_thinned(HostPlan *plan, unsigned k)
{
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->steps.n; s++) {
            PlanCone *x = &plan->programs.data[i]->steps.data[s].cone;
            const PlanSet *set = x->walk == PLAN_SET_ALL ? NULL : &plan->programs.data[i]->sets.data[x->walk];
            if (!set || set->kind != PLAN_SET_WALK || k--) continue;
            x->walk = set->a;
            return true;
        }
    return false;
}

/* Where the caller looks for another result. */
static bool result_is_elsewhere(HostPlan *plan, unsigned k)
{
    PlanProgram *p = program(plan);
    for (uint32_t b = 0; b < p->buffers.n; b++) {
        if (p->buffers.data[b].kind != PLAN_RESULT || k--) continue;
        p->buffers.data[b].ref++;
        return true;
    }
    return false;
}

/* A value lies in the memory of a result, of which its steps know nothing. */
static bool two_lie_in_a_result(HostPlan *plan, unsigned k)
{
    PlanProgram *p = program(plan);
    for (uint32_t b = 0; b < p->buffers.n; b++)
        for (uint32_t c = 0; c < p->buffers.n; c++) {
            PlanBuffer *x = &p->buffers.data[b], *y = &p->buffers.data[c];
            if (x->kind != PLAN_ARENA || y->kind != PLAN_RESULT || x->elem != y->elem || k--) continue;
            x->kind = PLAN_RESULT;
            x->ref = y->ref;
            return true;
        }
    return false;
}

/* What passes between two steps lies in a tensor of the caller's. */
static bool tensor_is_written_over(HostPlan *plan, unsigned k)
{
    uint32_t b, s, t;
    if (!passed_on(plan, k, &b, &s, &t)) return false;
    program(plan)->buffers.data[b].kind = PLAN_TENSOR;
    program(plan)->buffers.data[b].ref = 0;
    return true;
}

/* The edges along which rows are listed are others in each step. */
static bool set_is_of_drawn_edges(HostPlan *plan, unsigned k)
{
    for (uint32_t i = 0; i < plan->programs.n; i++)
        for (uint32_t s = 0; s < plan->programs.data[i]->sets.n; s++) {
            const PlanSet *x = &plan->programs.data[i]->sets.data[s];
            for (uint32_t g = 0; x->kind == PLAN_SET_ORIGIN && g < plan->module->graphs.n; g++) {
                if (plan->module->graphs.data[g].edge != x->space || k--) continue;
                plan->module->graphs.data[g].redrawn = true;
                return true;
            }
        }
    return false;
}

/* Rows of a set are those of another space. */
static bool set_is_of_other_rows(HostPlan *plan, unsigned k)
{
    uint32_t none;
    PlanStep *s = leaves_out(plan, k, true, &none);
    if (s) s->cone.rows = s->cone.walk;
    return s != NULL;
}

static const struct {
    const char *name;
    Change *change;
} changes[] = {{"a life ends early", life_ends_early},
               {"a life begins late", life_begins_late},
               {"a slot is too small", slot_is_small},
               {"two have one slot", slot_is_shared},
               {"steps are swapped", steps_are_swapped},
               {"a step is dropped", step_is_dropped},
               {"a store is dropped", store_is_dropped},
               {"a lane is left out", lane_is_left_out},
               {"a buffer is taken", buffer_is_taken},
               {"a sum over neighbours runs by strips", link_is_added},
               {"memory becomes a strip", strip_is_memory},
               {"a walk is dropped", walk_is_dropped},
               {"what blocks sum up to is not kept", state_is_not_kept},
               {"blocks of a row are joined too early", joined_too_early},
               {"blocks of all rows are one", blocks_are_one},
               {"blocks of rows lie in one place", parts_overlap},
               {"rows are left out", rows_are_left_out},
               {"elements of sums are left out", elements_are_left_out},
               {"a long row is thinned", long_row_is_thinned},
               {"a result is elsewhere", result_is_elsewhere},
               {"two lie in the memory of a result", two_lie_in_a_result},
               {"a tensor is written over", tensor_is_written_over},
               {"a set is of edges that are drawn", set_is_of_drawn_edges},
               {"a set is of other rows", set_is_of_other_rows}};
enum { N_CHANGES = sizeof changes / sizeof *changes, N_PROGRAMS = sizeof programs / sizeof *programs, MOST_PLACES = 3 };

/* ---- builds ---- */

typedef struct Planted {
    Change *change; /* NULL: none */
    unsigned place;
} Planted;

static void plant(void *user, PassId pass, uint32_t index, bool after, PassPrint *print, const void *made)
{
    const Planted *x = user;
    (void)index, (void)print;
    if (pass == PASS_memplan && after && x->change && !x->change((HostPlan *)(uintptr_t)made, x->place))
        _exit(3); /* no such place */
}

/* In a process of its own. Its exit code: 0, 70, 3 where there is no such place; 4: no plan. */
static int build(uint32_t which, Planted x, char *said, size_t most)
{
    int ends[2], status;
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        Source src = {"plan.gnn", programs[which], (uint32_t)strlen(programs[which])};
        static const char *const names[] = {"F", "C"};
        static const double sizes[] = {20, 5};
        FrontendOptions o = {.set_names = names, .set_values = sizes, .n_set = 2};
        dup2(ends[1], STDERR_FILENO);
        PassContext ctx = pass_context(a, &d);
        ctx.dump = plant;
        ctx.dump_user = &x;
        IrModule *m = frontend_compile(a, &src, &o, &d);
        m = m ? pass_run_pipeline(&ctx, m) : NULL;
        HostPlan *plan = m ? lower_module(&ctx, m) : NULL;
        StrBuf text = {.arena = a};
        diags_print(&d, &text, false);
        fputs(strbuf_cstr(&text), stderr);
        fflush(stderr);
        _exit(plan ? 0 : 4);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < most; n += (size_t)got) {
        got = read(ends[0], said + n, most - n - 1);
        if (got < 0) got = 0;
    }
    said[n] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
    static const char *const names[N_PROGRAMS] = {"audit: a right plan, attention", "audit: a right plan, written over",
                                                  "audit: a right plan, products",
                                                  "audit: a right plan, rows left out"};
    char said[4096];
    for (uint32_t p = 0; p < N_PROGRAMS; p++) {
        check_begin();
        int code = build(p, (Planted){0}, said, sizeof said);
        check(code == 0, "exit %d: %s", code, said);
        check_end(names[p]);
    }
    for (uint32_t c = 0; c < N_CHANGES; c++) {
        unsigned planted = 0;
        check_begin();
        for (uint32_t p = 0; p < N_PROGRAMS; p++)
            for (unsigned place = 0; place < MOST_PLACES; place++) {
                int code = build(p, (Planted){changes[c].change, place}, said, sizeof said);
                if (code == 3) break;
                planted++;
                check(code == 70 && strstr(said, "plan of "), "program %u, place %u: exit %d: %s", p, place, code,
                      said);
            }
        check(planted > 0, "there is no such place");
        char name[100];
        snprintf(name, sizeof name, "audit: %s", changes[c].name);
        check_end(name);
    }
    return check_done();
}
