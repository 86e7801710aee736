/* audit_split: whether threads that share a long row compute what one thread does, to the bit. Runs each kernel for
   parts of rows with numbers, block by block and walk by walk, and the step's own kernel on the same row and numbers:

     walk 0 of block 0, of block 1; walk 1 of block 0, ...; what is left of the row   the same bits as the row at once

   Where accesses go is for audit_run to say. Too many instructions or numbers: the kernel is taken to be right. */
#include "passes/plan/audit.h"
#include "base/ice.h"
#include "runtime/half.h"

enum { FUEL = 1 << 19 };

typedef struct Numbers { /* of the buffers that a step has, in two copies */
    Audit *x;
    AuditWorld *w;
    Arena *arena;
    void **plain, **shared; /* by buffer; NULL: the step has it not */
    int64_t *elems;         /* by buffer */
    int64_t fuel;
} Numbers;

/* Sums of such numbers round, and their roots and logarithms are finite. */
static void fill(KirBase t, void *p, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double v = 0.05 + (double)(seed >> 40) / 1e7;
        switch (t) {
        case KIR_F32: ((float *)p)[i] = (float)v; break;
        case KIR_F64: ((double *)p)[i] = v; break;
        case KIR_F16: ((uint16_t *)p)[i] = f16_of_float((float)v); break;
        case KIR_BF16: ((uint16_t *)p)[i] = bf16_of_float((float)v); break;
        case KIR_I32: ((int32_t *)p)[i] = (int32_t)(seed >> 62); break;
        case KIR_I64: ((int64_t *)p)[i] = (int64_t)(seed >> 62); break;
        default: ((int8_t *)p)[i] = (int8_t)(seed >> 63); break;
        }
    }
}

static int64_t elements_of(const Numbers *m, uint32_t b, int64_t blocks)
{
    const PlanBuffer *it = &m->x->p->buffers.data[b];
    int64_t n;
    if (it->kind != PLAN_STATE) return audit_elements(m->w, it);
    return __builtin_mul_overflow(blocks, it->width, &n) ? INT64_MAX : n;
}

static void make_buffer(Numbers *m, uint32_t b, int64_t blocks)
{
    const PlanBuffer *it = &m->x->p->buffers.data[b];
    bool state = it->kind == PLAN_STATE;
    if (m->plain[b]) return;
    void *known = audit_data(m->x->arena, m->w, it);
    int64_t n = elements_of(m, b, blocks);
    ICE_UNLESS(n <= AUDIT_MOST_ELEMENTS); /* make_buffers saw to it */
    m->elems[b] = n;
    m->plain[b] = m->shared[b] = known;
    if (known && it->kind != PLAN_TENSOR) return;
    size_t size = kir_base_bytes(it->elem);
    m->plain[b] = arena_array(m->arena, (size_t)n + 1, size);
    m->shared[b] = arena_array(m->arena, (size_t)n + 1, size);
    if (known) memcpy(m->plain[b], known, (size_t)n * size);
    else fill(it->elem, m->plain[b], n, b);
    if (state) memset(m->shared[b], 0xff, (size_t)n * size); /* NaN until it is written */
    else memcpy(m->shared[b], m->plain[b], (size_t)n * size);
}

/* False: they are too large. */
static bool make_buffers(Numbers *m, const PlanArg *args, uint32_t n, int64_t blocks)
{
    for (uint32_t i = 0; i < n; i++)
        if (args[i].is_buffer && elements_of(m, args[i].buffer, blocks) > AUDIT_MOST_ELEMENTS) return false;
    for (uint32_t i = 0; i < n; i++)
        if (args[i].is_buffer) make_buffer(m, args[i].buffer, blocks);
    return true;
}

static const char *touch_nothing(void *user, uint32_t param, int64_t first, int64_t stride, unsigned n, bool write)
{
    (void)user, (void)param, (void)first, (void)stride, (void)n, (void)write;
    return NULL;
}

/* part: [PlanSplitArg], or NULL. False: it has no numbers. */
static bool run(Numbers *m, const KirKernel *k, const PlanArg *args, void **data, int64_t row, const int64_t *part)
{
    uint32_t n = k->params.n;
    KirArg *own = ARENA_ARRAY(m->arena, KirArg, n + 1);
    int64_t *elems = ARENA_ARRAY(m->arena, int64_t, n + 1);
    uint8_t *how = ARENA_ARRAY(m->arena, uint8_t, k->ins.n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const PlanArg *a = &args[i];
        ICE_UNLESS(a->is_buffer || a->count.kind != PLAN_SPLIT || a->count.value <= PLAN_SPLIT_FIRST);
        if (a->is_buffer) own[i].p = data[a->buffer], elems[i] = m->elems[a->buffer];
        else own[i].i = part && a->count.kind == PLAN_SPLIT ? part[a->count.value] : audit_count(m->w, &a->count);
    }
    memset(how, KIR_WATCH_RUN, k->ins.n);
    KirWatch w = {.touch = touch_nothing, .how = how, .fuel = m->fuel};
    bool done = !kir_watch(m->arena, k, own, elems, row, row + 1, &w);
    m->fuel = w.fuel;
    return done && m->fuel > 0;
}

static bool run_shared(Numbers *m, const PlanStep *s, int64_t row, int64_t lo, int64_t hi)
{
    const KirKernel *k = m->x->plan->splits.data[s->split->kernel];
    int64_t part[] = {[PLAN_SPLIT_PHASE] = 0, [PLAN_SPLIT_FROM] = lo, [PLAN_SPLIT_TO] = hi, [PLAN_SPLIT_FIRST] = 0};
    for (; part[PLAN_SPLIT_PHASE] < s->split->walks; part[PLAN_SPLIT_PHASE]++)
        for (int64_t from = lo; from < hi; from += ORDER_ROW_BLOCK) {
            part[PLAN_SPLIT_FROM] = from;
            part[PLAN_SPLIT_TO] = from + ORDER_ROW_BLOCK < hi ? from + ORDER_ROW_BLOCK : hi;
            if (!run(m, k, s->split->args.data, m->shared, row, part)) return false;
        }
    part[PLAN_SPLIT_PHASE] = PLAN_SPLIT_LAST;
    part[PLAN_SPLIT_FROM] = part[PLAN_SPLIT_TO] = 0;
    return run(m, k, s->split->args.data, m->shared, row, part);
}

static void check_step(Numbers *m, uint32_t s, int64_t row, int64_t lo, int64_t hi)
{
    const PlanStep *step = &m->x->p->steps.data[s];
    const KirKernel *k = plan_kernel(m->x->plan, step->kernel, true);
    int64_t blocks = (hi - lo + ORDER_ROW_BLOCK - 1) / ORDER_ROW_BLOCK;
    if (!make_buffers(m, step->args.data, step->args.n, 0)) return;
    if (!make_buffers(m, step->split->args.data, step->split->args.n, blocks)) return;
    if (!run(m, k, step->args.data, m->plain, row, NULL) || !run_shared(m, step, row, lo, hi)) return;
    for (uint32_t i = 0; i < step->args.n; i++) {
        uint32_t b = step->args.data[i].buffer;
        if (!step->args.data[i].is_buffer || k->params.data[i].kind == KIR_IN) continue;
        size_t size = (size_t)m->elems[b] * kir_base_bytes(m->x->p->buffers.data[b].elem);
        if (memcmp(m->plain[b], m->shared[b], size) != 0)
            audit_fail(m->x, s, "gives other bits of %s where threads share a row", audit_buffer(m->x, b));
    }
}

void audit_split(Audit *x, AuditWorld *w, bool *seen)
{
    for (uint32_t s = 0; s < x->p->steps.n && !x->why; s++) {
        const PlanStep *step = &x->p->steps.data[s];
        if (!plan_split(step) || seen[step->split->kernel] || !w->rows[step->cut]) continue;
        const int64_t *rows = w->rows[step->cut];
        int64_t n = audit_count(w, &step->extent), v = 0;
        while (v < n && rows[v + 1] - rows[v] <= ORDER_ROW_BLOCK) v++;
        if (v == n) continue;
        Arena *scratch = arena_new();
        uint32_t n_buffers = x->p->buffers.n + 1;
        Numbers m = {x,
                     w,
                     scratch,
                     ARENA_ARRAY(scratch, void *, n_buffers),
                     ARENA_ARRAY(scratch, void *, n_buffers),
                     ARENA_ARRAY(scratch, int64_t, n_buffers),
                     FUEL};
        seen[step->split->kernel] = true;
        check_step(&m, s, v, rows[v], rows[v + 1]);
        arena_free(scratch);
    }
}
