/* Looking ahead: while a kernel walks elements one after another, the rows that it gathers at one of them are asked for
   some elements before, so that they are in the cache when their turn comes.

     for %p = %lo .. %hi {                           for %p = %lo .. %hi {
       %u = load i32 src[%p]                           %u = load i32 src[%p]
       %x = load f32x16 h[%u * 16]                     %x = load f32x16 h[%u * 16]
                                                       if %ahead != 0 {
                                                         %q = min(%p + %ahead, %last)
                                                         prefetch h[src[%q] * 16]
   How far is an argument of the kernel; 0 is not at all. It is a hint: no bit of a result depends on it. Never reads an
   index outside of its array, and asks for nothing that is read in order, nor for gathered rows below half a line: of these a
   line holds several, and their table is small. */
#include "base/ice.h"
#include "passes/lower/lower_kernel.h"

enum { MAX_LINES = 32, MOST_WINDOWS = 8 /* further ahead is of no use */ };

void walk_open(Lower *l, IrId space, IrId list, KirId element, KirId position, unsigned n)
{
    l->walk = (Walk){.on = l->lf->vectors, .space = space, .list = list, .element = element, .position = position, .n_elements = n,
                     .asked = l->walk.asked};
}

void walk_image(Lower *l, IrId map, KirId element, KirId image)
{
    bool in_order = l->f->m->maps.data[map].sorted && l->walk.list == IR_NONE;
    if (!l->walk.on || element != l->walk.element || in_order) return;
    WalkImage x = {image, map};
    VEC_PUSH(l->arena, &l->walk.images, x);
}

/* The map that leads to the row; IR_NONE for the walked element itself where a list gives it. */
static bool leads_to(const Lower *l, KirId row, IrId *map)
{
    *map = IR_NONE;
    if (row == l->walk.element) return l->walk.list != IR_NONE;
    for (uint32_t i = 0; i < l->walk.images.n; i++)
        if (l->walk.images.data[i].image == row) {
            *map = l->walk.images.data[i].map;
            return true;
        }
    return false;
}

static int64_t type_bytes(const Lower *l, const IrType *t)
{
    int64_t bytes;
    if (__builtin_mul_overflow(ir_type_width(l->f->m, t), (int64_t)ir_dtype_bytes(t->dtype), &bytes)) return INT64_MAX;
    return bytes;
}

void walk_load(Lower *l, uint32_t buffer, const IrType *t, KirId row, const Env *env)
{
    IrId map;
    if (!l->walk.on || t->space == IR_UNIT || !leads_to(l, row, &map)) return;
    if (map != IR_NONE && type_bytes(l, t) < l->f->machine->line_bytes / 2) return;
    WalkLoad x = {.buffer = buffer, .map = map, .type = *t, .env = *env};
    VEC_PUSH(l->arena, &l->walk.loads, x);
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static bool same_line(const WalkLine *a, const WalkLine *b)
{
    if (a->buffer != b->buffer || a->map != b->map || a->line != b->line || a->in_row.n != b->in_row.n) return false;
    for (uint32_t i = 0; i < a->in_row.n; i++)
        if (a->in_row.var[i] != b->in_row.var[i] || a->in_row.scale[i] != b->in_row.scale[i]) return false;
    return true;
}

static void add_line(Lower *l, WalkLine x)
{
    for (uint32_t i = 0; i < l->walk.asked.n; i++)
        if (same_line(&l->walk.asked.data[i], &x)) return;
    VEC_PUSH(l->arena, &l->walk.lines, x);
    VEC_PUSH(l->arena, &l->walk.asked, x);
}

/* The lines of a load: first to last element inside the row; the whole row if it lies in a loop that is closed. */
static void add_lines(Lower *l, const WalkLoad *x)
{
    int64_t size = (int64_t)ir_dtype_bytes(x->type.dtype), bytes = l->f->machine->line_bytes, width = type_bytes(l, &x->type) / size;
    Lin in = point_offset(l, &x->type, &x->env);
    bool visible = true;
    for (uint32_t i = 0; i < in.n; i++) visible &= emit_visible(&l->e, in.var[i]);
    int64_t first = in.konst, last = first + lanes_reach(l, &x->type, &x->env);
    if (!visible) in.n = 0, first = 0, last = width - 1;
    in.konst = 0;
    WalkLine line = {.buffer = x->buffer, .map = x->map, .in_row = in, .width = width, .per_line = bytes / size};
    for (line.line = first * size / bytes; line.line <= last * size / bytes && l->walk.lines.n < MAX_LINES; line.line++) add_line(l, line);
}

/* ---- prefetches -------------------------------------------------------------------------------------------------- */

static KirId load_index(Lower *l, uint32_t buffer, KirId at)
{
    return emit_convert(&l->e, KIR_I64, emit_load(&l->e, lower_in(l, buffer), kir_type(KIR_I32, 1), at, 1, 1));
}

/* The row that the walk comes to at position q of its list. */
static KirId row_at(Lower *l, IrId map, KirId q)
{
    const Walk *w = &l->walk;
    if (map == IR_NONE) return load_index(l, lower_map_buffer(l, PLAN_MAP_LIST, w->list), q);
    bool apart = w->list != IR_NONE && (lower_is_computed(l, map) || lower_is_computed(l, w->list));
    if (apart) q = load_index(l, lower_map_buffer(l, PLAN_MAP_LIST, w->list), q);
    else if (w->list != IR_NONE) return load_index(l, lower_along_buffer(l, map, w->list), q);
    return load_index(l, lower_map_buffer(l, PLAN_MAP_TO, map), q);
}

static void ask(Lower *l, const WalkLine *x, KirId q)
{
    Lin at = x->in_row;
    at.konst = x->line * x->per_line;
    lin_add(&at, row_at(l, x->map, q), x->width);
    emit_prefetch(&l->e, lower_in(l, x->buffer), lin_emit(&l->e, &at));
}

void walk_close(Lower *l)
{
    Emit *e = &l->e;
    Walk *w = &l->walk;
    for (uint32_t i = 0; i < w->loads.n; i++) add_lines(l, &w->loads.data[i]);
    if (w->lines.n) {
        KirId distance = lower_count(l, (PlanCount){.kind = PLAN_AHEAD});
        KirId end = lower_count(l, plan_count(l->f->m, w->space));
        emit_if(e, emit_op2(e, KIR_ne, distance, emit_index(e, 0)));
        KirId last = emit_op2(e, KIR_sub, end, emit_index(e, 1));
        for (unsigned k = 0; k < w->n_elements; k++) {
            KirId at = emit_op2(e, KIR_add, emit_op2(e, KIR_add, w->position, distance), emit_index(e, k));
            KirId q = emit_op2(e, KIR_min, at, last);
            for (uint32_t i = 0; i < w->lines.n; i++) ask(l, &w->lines.data[i], q);
        }
        emit_end(e);
        int64_t bytes = (int64_t)w->lines.n * l->f->machine->line_bytes;
        if (l->ahead_bytes < bytes) l->ahead_bytes = bytes;
    }
    w->on = false;
}

/* What the window of a core's out-of-order execution reaches needs no hint. Beyond it, as much as a quarter of the first cache holds. */
int64_t ahead_default(const Machine *machine, int64_t bytes)
{
    int64_t n = bytes ? machine_walk_room(machine) / bytes : 0, least = machine->window, most = MOST_WINDOWS * least;
    return n < least ? least : n > most ? most : n;
}
