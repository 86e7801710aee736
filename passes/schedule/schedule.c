/* schedule: one fixed rule per kind of nest. The vector runs along the last dim of what is written, and along
   more where that one does not fill it; the tile fills the registers, rows run on threads.

     group rows of edge.dst : node[F = 64]   ->  threads over nodes, 4 vectors of 16 lanes summed together
   Every number of a kernel is chosen here, or given by a text; lower spells it. No choice changes a bit of a result. */
#include "ir/kernel.h"
#include "passes/context/machine.h"
#include "base/ice.h"
#include "passes/context/rows.h"
#include "passes/group/schedule_text.h"
#include "passes/schedule/schedule.h"

/* of products */
enum { MOST_PANEL = 4, LEAST_ROWS = 2, SHORT_ROWS = 4, MOST_ROWS = 16, LEAST_BESIDE = 3, WIDE_LINES = 2 };
enum { LEAST_KEPT = 16 }; /* elements that each summed, of products whose sums wait in private arrays */
/* rows: whole tiles of 2, 3, 4, 6, 8, 12 or 16 rows, so that kernels for many registers and for few run the same
   blocks; fewer where very many threads want some */
enum { PRODUCT_BLOCK = 96 };
/* operations of a product's tile that are written one behind the other: more make code that no cache of instructions
   keeps */
enum { MOST_WRITTEN = 384 };
enum { LEAST_BLOCKS = 32 /* of a sum over all rows: for machines with more threads than the one that is assumed */ };
enum { TILES_BEFORE = 2 }; /* of a product's rows: those of the next tile come while this one is computed */
/* Of a leaf that warps read together: strips, rows of one, and warps. */
enum { LEAST_STRIPS = 4, LEAST_STRIP = 16, LEAST_READERS = 16 };
enum { LEAST_TILES = 16 };  /* of a product over all rows, as many as its threads are at least */
enum { LEAST_DEALT = 4 };   /* vectors of a row that is read by whole vectors, whose lanes are handed out */
enum { MOST_UNROLLED = 4 }; /* vectors of a sum inside a row */
enum { MOST_TOGETHER = 8 }; /* sums of a walk */
enum { LEAST_PIECE = 4 };   /* lanes: a gather costs as much as that many loads */
enum { LEAST_WIDE = 4 };    /* lines of rows that are asked for: shorter ones hardware foresees */
/* Where the sums of so many blocks as a GPU has are merged: how many loads a thread has under way at once, and how many
   warps share the merging. */
enum { NEIGHBOURS = 8, MOST_MERGERS = 32 };
enum { RANKED_ROWS = 16 }; /* that are worth a thread */
/* What a row's vectors may hold in percent of it; rows that share the lanes of one on a GPU. */
enum { MOST_FULL = 115, MOST_BESIDE = 4 };
enum { LEAST_STAGED = 16 };
enum { MOST_WINDOWS = 8 }; /* further ahead than so many windows of a core is of no use */
enum { MOST_BLOCK = 512, LEAST_TURNS = 4 /* for each thread, on the expected graph */ }; /* of rows in vectors */

/* Shares of the registers: of sums of a tile, of values of one, of sums of one walk that share it; outer products from
   so many vectors on. */
static int64_t sums_tile(const FusedFunc *f) { return f->machine->registers / 4; }
static int64_t map_tile(const FusedFunc *f) { return f->machine->registers / 8; }
static int64_t walk_sums(const FusedFunc *f) { return f->machine->registers * 7 / 16; }
static int64_t most_sums(const FusedFunc *f) { return f->machine->registers * 3 / 8; }
static int64_t outer_sums(const FusedFunc *f) { return f->machine->registers * 2; }
/* two are for what the compiler spills */
static int64_t woven_registers(const FusedFunc *f) { return f->machine->registers - 2; }

/* Registers that a vector takes. */
static int64_t vectors_each(const FusedFunc *f, const IrType *t, const Schedule *s)
{
    int64_t bytes = s->lanes * (int64_t)ir_dtype_bytes(t->dtype), each = machine_register_bytes(f->machine);
    return bytes > each ? bytes / each : 1;
}

static int64_t vectors_of(const FusedFunc *f, const IrType *t, int64_t lanes)
{
    return (ir_type_width(f->m, t) + lanes - 1) / lanes;
}

/* Vectors of a panel of t's dims, at most so many: panels are of one width if they can be. */
static int64_t panel_of(const FusedFunc *f, const IrType *t, const Schedule *s, int64_t most)
{
    ICE_UNLESS(most >= 1 && s->lanes >= 1);
    int64_t vectors = vectors_of(f, t, s->lanes), panels = (vectors + most - 1) / most;
    return (vectors + panels - 1) / panels;
}

/* Products by rows: as many sums as registers hold beside a row of the weight and an element of the operand. The sums
   of one product leave the registers before the next one has them, as results or to private arrays. Sums that are
   wanted together share the registers, and their panels of columns the first cache, where so few elements are summed
   that a sum costs less than its way to an array and back, and on GPUs, whose arrays are far away. */
static void product_tile(const FusedFunc *f, const Group *g, bool narrow, Schedule *s)
{
    int64_t reduced, each = vectors_each(f, &g->nest, s), together = 1;
    int64_t sums = machine_sums(f->machine, narrow), panel = machine_panel(f->machine, narrow);
    unsigned products = group_products(f, g, &reduced);
    if (products > 1) together = group_products_together(f, f->group_of.data[g->roots.data[0]]);
    if (products > 1 && f->machine->warps > 1) together = products;
    s->kept = together > 1 && f->machine->warps == 1 && reduced >= LEAST_KEPT * products;
    if (s->kept || !together) together = 1;
    int64_t column = reduced * s->lanes * (int64_t)ir_dtype_bytes(g->nest.dtype);
    while (together > 1 && panel > 1 &&
           (panel * column > machine_panels_room(f->machine) || panel * together * each * LEAST_BESIDE > sums))
        panel--;
    s->vectors = panel_of(f, &g->nest, s, panel);
    s->rows = sums / each / s->vectors / together;
    /* of few columns the more threads have some rows */
    int64_t most = s->vectors == 1 && f->machine->warps > 1 ? SHORT_ROWS : MOST_ROWS;
    if (s->rows > most) s->rows = most;
    if (s->rows < LEAST_ROWS) s->rows = LEAST_ROWS;
    ICE_UNLESS(s->vectors >= 1 && s->rows >= LEAST_ROWS && s->rows <= MOST_ROWS);
    int64_t tiles = PRODUCT_BLOCK / s->rows;
    while (tiles > 1 && tiles * s->rows * LEAST_TURNS * f->machine->threads > EXPECTED_NODES) tiles /= 2;
    s->block = tiles * s->rows;
    ICE_UNLESS(s->block >= s->rows); /* a block is whole tiles, one at least */
}

/* A tile's rows of the result divide a line of the first operand where they can. */
static void outer_tile(const FusedFunc *f, const Group *g, bool narrow, Schedule *s)
{
    /* by vectors of the panel, of 24 sums: shares of what sums may fill */
    static const uint8_t rows[MOST_PANEL + 1] = {0, 16, 8, 6, 4};
    const IrOp *op = fused_op(f, g->roots.data[0]);
    const IrType *a = &fused_op(f, op->args[0])->type, *b = &fused_op(f, op->args[1])->type;
    int64_t sums = machine_sums(f->machine, narrow);
    VecRun run = vec_run(f->m, b, 0, f->machine->lanes);
    s->lanes = run_lanes(&run);
    s->vectors = panel_of(f, b, s, machine_panel(f->machine, narrow));
    s->rows = (narrow ? sums : rows[s->vectors] * sums / 24) / vectors_each(f, b, s);
    if (!s->rows) s->rows = 1;
    /* twice the sums for each load, where enough threads still have some */
    int64_t tiles = ir_type_width(f->m, a) / s->rows * (vectors_of(f, b, s->lanes) / s->vectors);
    if (f->machine->warps > 1 && s->vectors == MOST_PANEL && tiles > LEAST_TILES) s->rows *= 2;
    s->strip = machine_strip_rows(f->machine);
    s->copied = ir_type_width(f->m, b) > s->vectors * s->lanes;
    s->far = ir_type_width(f->m, a) >= WIDE_LINES * machine_line_of(f->machine, sizeof(float));
}

/* Sums of one row: all of them if they fit, so that what is gathered is gathered once. Of very many, outer products,
   what a walk takes in waits in registers and their totals in memory: the fewer walks the better. */
static int64_t rows_tile(const FusedFunc *f, const IrType *t, bool narrow, const Schedule *s)
{
    int64_t each = vectors_each(f, t, s), vectors = vectors_of(f, t, s->lanes) * each;
    if (vectors >= outer_sums(f)) return machine_sums(f->machine, narrow) * 2 / 3 / each;
    return vectors <= most_sums(f) && each == 1 && vectors > sums_tile(f) ? vectors : sums_tile(f);
}

static void tile_of(const FusedFunc *f, const Group *g, bool narrow, Schedule *s)
{
    unsigned n_sums = 0;
    for (uint32_t i = 0; i < g->roots.n; i++)
        n_sums += !group_root_is_narrow(f, g, g->roots.data[i]) &&
                  group_kind_of(f->f, f->m, g->roots.data[i]) == GROUP_ROWS;
    /* arrays of a GPU are registers where no loop goes over them */
    s->vectors = f->machine->warps > 1 ? sums_tile(f) : map_tile(f);
    if (g->kind == GROUP_ROWS) s->vectors = n_sums > 1 ? sums_tile(f) / 2 : rows_tile(f, &g->nest, narrow, s);
    if (g->kind == GROUP_NTH) s->vectors = g->roots.n < map_tile(f) ? map_tile(f) / g->roots.n : 1;
    if (g->kind == GROUP_BLOCKS || g->kind == GROUP_PRODUCT) s->vectors = sums_tile(f);
    if (group_is_outer(f, g) && s->lanes > 1) outer_tile(f, g, narrow, s);
    if (g->kind == GROUP_DIMS) s->vectors = s->lanes == 1 ? 4 : 1;
    if (g->kind != GROUP_PRODUCT || g->nest.space == IR_UNIT) return;
    product_tile(f, g, narrow, s);
}

/* Rows of a turn of a kernel whose vectors run along rows. */
static int64_t along_rows_block(const FusedFunc *f)
{
    int64_t rows = MOST_BLOCK;
    while (rows > KIR_MAX_LANES && rows * LEAST_TURNS * f->machine->threads > EXPECTED_NODES) rows /= 2;
    return rows;
}

/* Lines of memory that one element of a walk brings, of rows that it gathers in no order. In a group whose values are
   computed one by one most of them have a walk of their own: what the one brings that reads the widest rows. */
static int64_t gathered_lines(const FusedFunc *f, uint32_t index)
{
    const Group *g = &f->groups.data[index];
    const IrMap *map = g->map == IR_NONE ? NULL : &f->m->maps.data[g->map];
    int64_t lines = 0, line = f->machine->line_bytes;
    Arena *scratch = arena_new();
    GroupReads reads = {0};
    group_reads(f, index, scratch, &reads);
    for (uint32_t i = 0; i < reads.reads.n; i++) {
        const GroupRead *r = &reads.reads.data[i];
        const IrType *t = &fused_op(f, r->v)->type;
        if (t->space == IR_UNIT || r->space == IR_UNIT || f->group_of.data[r->v] == index) continue;
        if (map && r->space != map->from) continue;
        bool listed = map && !map->sorted && r->map == IR_NONE && t->space == map->from;
        if (!listed &&
            (r->map == IR_NONE || r->map == g->map || ((!map || map->sorted) && f->m->maps.data[r->map].sorted)))
            continue;
        ICE_UNLESS(r->part > 0);
        int64_t bytes = ir_type_width(f->m, t) * (int64_t)ir_dtype_bytes(t->dtype) / r->part;
        if (!listed && bytes < line / 2) continue;
        int64_t more = (bytes + line - 1) / line;
        lines = !group_is_staged(f, g) ? lines + more : more > lines ? more : lines;
    }
    arena_free(scratch);
    return lines;
}

/* What the window of a core's out-of-order execution reaches needs no hint. Beyond it, as much as a quarter of the
   first cache holds. */
static int64_t ahead_of(const FusedFunc *f, uint32_t g)
{
    int64_t lines = gathered_lines(f, g), least = f->machine->window, most = MOST_WINDOWS * least;
    if (!lines) return 0;
    int64_t n = machine_walk_room(f->machine) / (lines * f->machine->line_bytes);
    return n < least ? least : n > most ? most : n;
}

/* Numbers of a row that are summed up to one of the result; 0: very many. */
static int64_t summed_elements(const FusedFunc *f, const IrOp *op)
{
    IrId dims[2 * IR_MAX_DIMS];
    int64_t n = 1;
    bool sums = op->op == IR_OP_contract || (ir_ops[op->op].traits & T_DIMS);
    unsigned n_dims = sums ? reduced_dims(f->f, op, dims) : 0;
    for (unsigned k = 0; k < n_dims; k++)
        if (__builtin_mul_overflow(n, f->m->dims.data[dims[k]].size, &n)) return 0;
    return n;
}

/* How many elements one iteration of the parallel loop of group g reads or writes, roughly. */
static int64_t work_of(const FusedFunc *f, const Group *g)
{
    int64_t work = ir_type_width(f->m, &g->nest);
    for (uint32_t i = 0; i < g->roots.n; i++) {
        int64_t summed = summed_elements(f, fused_op(f, g->roots.data[i]));
        if (!summed || __builtin_mul_overflow(work, summed, &work)) return INT64_MAX / 2;
    }
    return work < 1 ? 1 : work;
}

/* Numbers that a row of a group's values is computed from, of the one that has most. INT64_MAX / 4: very many. */
static int64_t widest_of(const FusedFunc *f, const Group *g)
{
    int64_t widest = 1;
    for (uint32_t i = 0; i < g->roots.n + g->inner.n; i++) {
        IrId v = i < g->roots.n ? g->roots.data[i] : g->inner.data[i - g->roots.n];
        int64_t n = ir_type_width(f->m, &fused_op(f, v)->type), summed = summed_elements(f, fused_op(f, v));
        if (!summed || __builtin_mul_overflow(n, summed, &n) || n > INT64_MAX / 4) return INT64_MAX / 4;
        if (n > widest) widest = n;
    }
    return widest;
}

/* Numbers of the value with dims that has fewest; INT64_MAX: none has dims. */
static int64_t narrowest_of(const FusedFunc *f, const Group *g)
{
    int64_t narrowest = INT64_MAX;
    for (uint32_t i = 0; i < g->roots.n + g->inner.n; i++) {
        IrId v = i < g->roots.n ? g->roots.data[i] : g->inner.data[i - g->roots.n];
        int64_t n = ir_type_width(f->m, &fused_op(f, v)->type);
        if (n > 1 && n < narrowest) narrowest = n;
    }
    return narrowest;
}

/* Lanes of a group's vectors at most. The warps of a GPU that compute a row each have as many lanes as their vectors
   (codegen/cuda_memory.c): as few as read the row as quickly, by 16 bytes each, or leave none without work. What is
   computed once for a row is then computed for more rows at once. A walk along a long row takes longer with fewer lanes
   than what they save elsewhere, so that it has some without work where a value is narrow. */
static int64_t most_lanes(const FusedFunc *f, const Group *g)
{
    int64_t lanes = f->machine->lanes, width = widest_of(f, g);
    int64_t each = f->machine->scalars * (int64_t)sizeof(float) / (int64_t)ir_dtype_bytes(g->nest.dtype);
    bool rows = g->kind == GROUP_ROWS || g->kind == GROUP_MAP || g->kind == GROUP_DIMS;
    if (f->machine->warps == 1 || !rows || g->nest.space == IR_UNIT || width == 1) return lanes;
    for (; lanes > f->machine->lanes / MOST_BESIDE; lanes /= 2) {
        int64_t full = (width + lanes - 1) / lanes * lanes, vectors = (2 * width + lanes - 1) / lanes;
        bool idle = 100 * full > MOST_FULL * width || (g->kind != GROUP_ROWS && narrowest_of(f, g) <= lanes / 2);
        if (vectors > each && !(idle && vectors <= sums_tile(f))) break;
    }
    return lanes;
}

static Schedule lanes_and_tile(const FusedFunc *f, const Group *g, int64_t most, bool vectors, bool narrow)
{
    Schedule s = {.lanes = 1,
                  .vectors = 1,
                  .rows = 1,
                  .block = 1,
                  .beside = map_tile(f),
                  .along_rows = 1,
                  .warps = 1,
                  .mergers = 1,
                  .merged = 1,
                  .neighbours = 1,
                  .elements = 1};
    if (vectors && g->nest.n_dims && !group_is_scalar(f, g)) {
        VecRun run = vec_run(f->m, &g->nest, 0, most);
        s.lanes = run_lanes(&run);
    }
    if (vectors) tile_of(f, g, narrow, &s);
    ICE_UNLESS(s.lanes >= 1 && s.lanes <= KIR_MAX_LANES && !(s.lanes & (s.lanes - 1)) && s.vectors >= 1 && s.rows >= 1);
    return s;
}

/* Of a product of rows that a kernel keeps in private arrays: the sums of narrow ones fill the registers only with more
   rows, of which a strip has enough; the elements of a row may be few. */
static int64_t inner_rows(const FusedFunc *f, const Group *g, const IrType *t)
{
    int64_t rows = MOST_ROWS;
    while (rows > SHORT_ROWS && rows * vectors_of(f, t, f->machine->lanes) > f->machine->registers / 2) rows /= 2;
    return g->kind == GROUP_BLOCKS ? rows : SHORT_ROWS;
}

/* Of a product: the distance, in elements, at which rows of the first operand are asked for that are wide enough. */
static int64_t stream_of(const FusedFunc *f, IrId v)
{
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(f->f, fused_op(f, v), dims);
    int64_t line = machine_line_of(f->machine, sizeof(float));
    bool wide = n && f->m->dims.data[dims[n - 1]].size >= LEAST_WIDE * line;
    return wide ? machine_fetch_room(f->machine) / (int64_t)sizeof(float) : 0;
}

/* Of a product: elements of a row that one load brings, where rows are whole loads; of other long rows as many as lanes
   hand to one another (codegen/cuda_wide.c). */
static int64_t elements_of(const FusedFunc *f, IrId v)
{
    IrId dims[2 * IR_MAX_DIMS];
    unsigned n = reduced_dims(f->f, fused_op(f, v), dims);
    int64_t each = f->machine->scalars * (int64_t)sizeof(float) / (int64_t)ir_dtype_bytes(fused_op(f, v)->type.dtype);
    if (each <= 1 || !n) return 1;
    int64_t size = f->m->dims.data[dims[n - 1]].size;
    return size % each == 0 ? each : size >= LEAST_DEALT * f->machine->lanes ? f->machine->lanes : 1;
}

/* Sums of a row that take several tiles, of something that is staged: once for all tiles, while the sums of a block
   wait in a private array. */
static bool keeps_sums(const FusedFunc *f, const Group *of, IrId v, const Schedule *s)
{
    const IrOp *op = fused_op(f, v);
    return of->kind == GROUP_ROWS && of->inner.n && op->op == IR_OP_reduce_sum && f->machine->warps == 1 &&
           vectors_of(f, &op->type, s->lanes) > s->vectors;
}

static Schedule schedule_value(const FusedFunc *f, const Group *of, IrId v, bool vectors, bool narrow)
{
    Group g = {.kind = group_kind_of(f->f, f->m, v),
               .nest = fused_op(f, v)->type,
               .space = fused_op(f, v)->type.space,
               .map = IR_NONE,
               .roots = {.data = &v, .n = 1}};
    Schedule s = lanes_and_tile(f, &g, most_lanes(f, of), vectors, narrow);
    s.kept = vectors && keeps_sums(f, of, v, &s);
    while (vectors && s.merged < f->machine->lanes && s.merged < ir_type_width(f->m, &g.nest)) s.merged *= 2;
    if (vectors && f->machine->warps > 1) s.neighbours = NEIGHBOURS;
    if (!vectors || g.kind != GROUP_PRODUCT) return s;
    if (!group_has_inner(of, v)) {
        s.elements = elements_of(f, v);
        s.stream = s.elements > 1 ? 0 : stream_of(f, v);
        return s;
    }
    s.vectors = narrow ? machine_panel(f->machine, true) : map_tile(f);
    s.rows = narrow ? SHORT_ROWS : inner_rows(f, of, &g.nest);
    return s;
}

int64_t nearest_most(const FusedFunc *f, const Group *g)
{
    const IrGraph *graph = group_nearest(f, g);
    return KIR_MAX_ALLOC_BYTES / (int64_t)sizeof(double) / (graph->n_edges * graph->step);
}

/* Rows, or elements of a row, that a vector has of values without dims. */
static int64_t rows_along(const FusedFunc *f, uint32_t index, int64_t lanes)
{
    const Group *g = &f->groups.data[index];
    int64_t n = lanes, most = n;
    if (g->kind == GROUP_NEAREST) { /* whose points lie beside the lists, too */
        int64_t width = ir_type_width(f->m, &fused_op(f, fused_op(f, g->roots.data[0])->args[1])->type);
        most = KIR_MAX_ALLOC_BYTES / (int64_t)sizeof(double) / (width ? width : 1);
        if (nearest_most(f, g) < most) most = nearest_most(f, g);
    }
    while (n > 1 && n > most) n /= 2;
    return g->kind == GROUP_MAP && !rows_fit(f, index) ? 1 : n;
}

bool schedule_may_part(const FusedFunc *f, const Group *g)
{
    bool plain = g->kind == GROUP_MAP || g->kind == GROUP_DIMS || g->kind == GROUP_PRODUCT;
    return plain && g->nest.space == IR_UNIT && g->nest.n_dims >= 2 && f->m->dims.data[g->nest.dims[0]].size > 1 &&
           !group_has_narrow(f, g);
}

/* Threads share a first dim along which no vector runs. */
static bool is_parted(const FusedFunc *f, const Group *g, const Schedule *s)
{
    VecRun run = vec_run(f->m, &g->nest, 0, s->lanes);
    return schedule_may_part(f, g) && !(run.n && g->nest.dims[0] == run.vec[0].dim);
}

/* Turns that are worth a thread: of the group's loop, and of the one behind or before it. A column takes in a number of
   each block, which costs half as much as an element elsewhere. */
static void find_grains(const FusedFunc *f, const Group *g, Schedule *s)
{
    int64_t work = work_of(f, g), worth = f->machine->thread_work;
    if (g->kind == GROUP_ROWS || g->kind == GROUP_NTH) work = work > INT64_MAX / 8 ? work : work * 8;
    if (s->block > 1 && work < INT64_MAX / 64) work *= s->block;
    s->grain = work >= worth ? 1 : worth / work;
    s->second = worth;
    if (g->kind == GROUP_RANK) s->grain = RANKED_ROWS;
    if (g->kind == GROUP_ROUTE) s->grain = worth;
    if (g->kind == GROUP_NEAREST) s->grain = 1;
    if (g->kind != GROUP_BLOCKS) return;
    s->grain = 1;
    s->blocks = f->machine->threads > LEAST_BLOCKS / 2 ? 2 * f->machine->threads : LEAST_BLOCKS;
    int64_t column = s->blocks * f->machine->lanes / 2;
    s->second = column >= worth ? 1 : worth / column;
}

static Schedule schedule_for(const FusedFunc *f, uint32_t index, bool vectors, bool narrow)
{
    const Group *g = &f->groups.data[index];
    int64_t lanes = most_lanes(f, g);
    Schedule s = lanes_and_tile(f, g, lanes, vectors, narrow);
    bool along = vectors && rows_fit(f, index);
    if (vectors) s.along_rows = rows_along(f, index, lanes);
    if (along) s.block = along_rows_block(f);
    find_grains(f, g, &s);
    s.parted = is_parted(f, g, &s);
    s.split = vectors && g->kind == GROUP_ROWS;
    s.gathers = vectors && f->machine->warps > 1;
    s.together = MOST_TOGETHER;
    s.folded = !vectors ? 0 : lanes < f->machine->lanes ? lanes : ORDER_PARTIALS;
    s.piece = LEAST_PIECE;
    s.line = f->machine->line_bytes;
    if (g->kind == GROUP_BLOCKS && g->roots.n > 1) s.strip = machine_strip_rows(f->machine);
    if (group_is_staged(f, g) && vectors) s.walk = walk_sums(f);
    if (g->inner.n || group_is_staged(f, g)) s.staged = stage_elements(f, g, NULL);
    while (s.staged > LEAST_STAGED && lanes < f->machine->lanes) s.staged /= 2, lanes *= 2; /* more rows at once */
    ICE_UNLESS(s.grain >= 1 && !(s.staged & (s.staged - 1)));
    s.kept |= s.rows > 1 && group_flops(f, index) * s.rows * s.vectors > MOST_WRITTEN;
    s.woven = vectors ? woven_registers(f) : 0;
    s.unroll = MOST_UNROLLED;
    /* whose tiles go over the same few rows */
    bool again = g->kind == GROUP_BLOCKS && g->roots.n == 1 && !g->inner.n && s.strip;
    if (vectors && !along && !again) s.ahead = g->kind == GROUP_PRODUCT ? TILES_BEFORE : ahead_of(f, index);
    return s;
}

/* Tiles that a sum over all rows has. */
static int64_t tiles_of(const FusedFunc *f, IrId v, const Schedule *s)
{
    const IrOp *op = fused_op(f, v);
    int64_t rows = s->strip ? ir_type_width(f->m, &fused_op(f, op->args[0])->type) : 1;
    const IrType *columns = s->strip ? &fused_op(f, op->args[1])->type : &op->type;
    return (rows + s->rows - 1) / s->rows * ((vectors_of(f, columns, s->lanes) + s->vectors - 1) / s->vectors);
}

/* Whether a sum before root i, or operand 0 of it, shares what its operand k is. */
static bool is_shared_before(const FusedFunc *f, const Group *g, uint32_t i, unsigned k)
{
    IrId v = fused_op(f, g->roots.data[i])->args[k];
    for (uint32_t j = 0; j <= i; j++)
        for (unsigned n = 0; n < (j < i ? 2 : k); n++)
            if (group_may_share(f, g->roots.data[j], n) && fused_op(f, g->roots.data[j])->args[n] == v) return true;
    return false;
}

/* Bytes that a row of all operands takes in memory that warps share; *widest: of the largest. */
static int64_t shared_bytes(const FusedFunc *f, const Group *g, int64_t *widest)
{
    int64_t bytes = 0;
    *widest = 0;
    for (uint32_t i = 0; i < g->roots.n; i++)
        for (unsigned k = 0; k < 2; k++) {
            if (!group_may_share(f, g->roots.data[i], k) || is_shared_before(f, g, i, k)) continue;
            const IrType *t = &fused_op(f, fused_op(f, g->roots.data[i])->args[k])->type;
            int64_t row = ir_type_width(f->m, t) * (int64_t)ir_dtype_bytes(t->dtype);
            bytes += row;
            if (row > *widest) *widest = row;
        }
    return bytes;
}

/* Rows that the warps of a block put together into near memory; a whole leaf: each reads for itself. */
static int64_t shared_strip(const FusedFunc *f, const Group *g, int64_t warps)
{
    int64_t widest, bytes = shared_bytes(f, g, &widest), n = ORDER_LEAF / LEAST_STRIPS;
    while (n >= LEAST_STRIP && (n * bytes > machine_shared_room(f->machine, warps) || n * widest > KIR_MAX_ALLOC_BYTES))
        n /= 2;
    return bytes && n >= LEAST_STRIP ? n : ORDER_LEAF;
}

int64_t shared_strip_most(const FusedFunc *f, const Group *g)
{
    int64_t widest, bytes = shared_bytes(f, g, &widest), most = bytes ? KIR_MAX_FRAME_BYTES / 2 / bytes : ORDER_LEAF;
    return widest && most > KIR_MAX_ALLOC_BYTES / widest ? KIR_MAX_ALLOC_BYTES / widest : most;
}

/* Warps, `most` at most, of which each has as many tiles but the last ones. */
static int64_t equal_shares(int64_t tiles, int64_t most)
{
    int64_t rounds = (tiles + most - 1) / most;
    return (tiles + rounds - 1) / rounds;
}

/* Warps of a block that share a leaf of sums over all rows: one for each tile, or for as many as make all equally
   long, and some more where they read strips of rows together. A tile else waits in registers for all rows of the
   leaf. */
static void share_leaves(const FusedFunc *f, uint32_t index)
{
    const Group *g = &f->groups.data[index];
    int64_t most = f->machine->warps, tiles = 0;
    bool outer = false;
    if (g->kind != GROUP_BLOCKS || g->inner.n || most == 1) return;
    for (uint32_t i = 0; i < g->roots.n; i++) outer |= f->tiles->value[0][index][i].strip > 0;
    for (uint32_t i = 0; i < g->roots.n; i++)
        for (unsigned narrow = 0; narrow < 2; narrow++) {
            Schedule *s = &f->tiles->value[narrow][index][i];
            if (!s->strip) s->vectors = outer ? panel_of(f, &fused_op(f, g->roots.data[i])->type, s, MOST_PANEL) : 1;
            if (!narrow) tiles += tiles_of(f, g->roots.data[i], s);
        }
    int64_t warps = equal_shares(tiles, most), full = machine_full_warps(f->machine),
            readers = equal_shares(tiles, full);
    if (readers < LEAST_READERS && LEAST_READERS <= most) readers = LEAST_READERS;
    int64_t strip = shared_strip(f, g, readers);
    if (strip < ORDER_LEAF) warps = readers;
    if (warps == 1) warps = 2; /* of which one has none: the sums wait in registers all the same */
    int64_t mergers = f->tiles->group[0][index].blocks > 1 << SCHEDULE_MERGER_LEVELS ? 1 : MOST_MERGERS;
    while (mergers > full) mergers /= 2;
    for (unsigned narrow = 0; narrow < 2; narrow++) {
        Schedule *all = &f->tiles->group[narrow][index];
        all->warps = warps, all->strip = strip, all->mergers = mergers;
        for (uint32_t i = 0; i < g->roots.n; i++) {
            Schedule *s = &f->tiles->value[narrow][index][i];
            s->copied = s->far = 0;
            if (s->strip) s->strip = strip;
        }
    }
}

/* A sum alone that is no product has strips where warps share them, and there alone: a text may give it fewer warps
   than the machine would. */
static void forget_strip(const FusedFunc *f, uint32_t index)
{
    const Group *g = &f->groups.data[index];
    if (g->kind != GROUP_BLOCKS || g->inner.n || g->roots.n > 1 || f->tiles->group[0][index].warps > 1) return;
    if (!f->tiles->value[0][index][0].strip) f->tiles->group[0][index].strip = f->tiles->group[1][index].strip = 0;
}

static bool same_tile(const Schedule *x, const Schedule *y)
{
    return x->vectors == y->vectors && x->rows == y->rows && x->kept == y->kept && x->copied == y->copied;
}

/* Whether group g has a kernel of its own for CPUs with few registers: other numbers than for those with many. */
static bool is_narrow(const FusedFunc *f, const Tiles *t, uint32_t index)
{
    const Group *g = &f->groups.data[index];
    bool same = same_tile(&t->group[0][index], &t->group[1][index]);
    if (group_is_staged(f, g)) same = true; /* each value has a tile of its own */
    uint32_t n = g->kind == GROUP_BLOCKS || group_is_staged(f, g) ? g->roots.n + g->inner.n : 0;
    for (uint32_t i = 0; i < n; i++) same &= same_tile(&t->value[0][index][i], &t->value[1][index][i]);
    return !same;
}

Schedule *value_tile(const FusedFunc *f, unsigned narrow, uint32_t g, IrId v)
{
    const Group *group = &f->groups.data[g];
    Schedule *tiles = f->tiles->value[narrow][g];
    for (uint32_t i = 0; i < group->roots.n; i++)
        if (group->roots.data[i] == v) return &tiles[i];
    uint32_t i = 0;
    while (i < group->inner.n && group->inner.data[i] != v) i++;
    ICE_UNLESS(i < group->inner.n);
    return &tiles[group->roots.n + i];
}

bool schedule_func(FusedFunc *f, Arena *a, bool vectors, Diags *d)
{
    uint32_t n_groups = f->groups.n + 1;
    Tiles *t = ARENA_NEW(a, Tiles);
    bool few = f->machine->warps == 1; /* some CPUs have few registers; all GPUs that it is written for have as many */
    for (unsigned narrow = 0; narrow < 2; narrow++) {
        t->group[narrow] = ARENA_ARRAY(a, Schedule, n_groups);
        t->value[narrow] = ARENA_ARRAY(a, Schedule *, n_groups);
    }
    t->narrow = ARENA_ARRAY(a, bool, n_groups);
    for (uint32_t i = 0; i < f->order.n; i++) {
        uint32_t g = f->order.data[i];
        const Group *group = &f->groups.data[g];
        for (unsigned narrow = 0; narrow < 2; narrow++)
            t->group[narrow][g] = schedule_for(f, g, vectors, narrow && few);
        bool same_blocks = t->group[0][g].block == t->group[1][g].block; /* both kernels run by the same */
        if (same_blocks) t->group[1][g].grain = t->group[0][g].grain;
        else t->group[1][g] = t->group[0][g];
        uint32_t n_roots = group->roots.n, n = n_roots + group->inner.n;
        for (unsigned narrow = 0; narrow < 2; narrow++) {
            Schedule *tiles = t->value[narrow][g] = ARENA_ARRAY(a, Schedule, n);
            for (uint32_t k = 0; k < n; k++)
                tiles[k] = schedule_value(f, group, k < n_roots ? group->roots.data[k] : group->inner.data[k - n_roots],
                                          vectors, narrow && few);
        }
    }
    f->tiles = t;
    for (uint32_t i = 0; i < f->order.n && vectors; i++) share_leaves(f, f->order.data[i]);
    if (f->text && !schedule_apply(f, d)) return false;
    for (uint32_t i = 0; i < f->order.n; i++) forget_strip(f, f->order.data[i]);
    for (uint32_t i = 0; i < f->order.n; i++) t->narrow[f->order.data[i]] = is_narrow(f, t, f->order.data[i]);
    return true;
}
