/* Schedules as text: printed, read, and checked number by number.

     schedule 1
     func forward values 9
       group 2 rows vectors 4 grain 34
         root %5 reduce_sum                # node[F], stored
         inner %4 mul vectors 4            # edge[F]
   Words and numbers between blanks; a comment runs to the end of its line. The first mistake ends the reading. Which
   values may share a kernel is decided where the compiler's own choice is made (fuse_merge.c, fuse_copy.c), by the
   same rules. */
#include "ir/kernel.h"
#include "base/ice.h"
#include "passes/group/schedule_text.h"
#include "passes/schedule/schedule.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- numbers of a tile ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t least, most;
    size_t at; /* in a Schedule */
} tile_numbers[N_TILE_NUMBERS] = {
#define TILE(word, least, most, doc) {#word, least, most, offsetof(Schedule, word)},
#include "passes/group/tile.def"
#undef TILE
};
static const char *const role_names[N_ROLES] = {"", "root", "inner", "copy"};
static const char *const clone_names[] = {"", "map", "kernel"};

/* Values of a group are computed one by one, each by a tile of its own. */
static bool has_value_tiles(const FusedFunc *f, const Group *g)
{
    return g->kind == GROUP_BLOCKS || group_is_staged(f, g);
}

/* Some value of the group is a sum inside a row. */
static bool has_dims_sum(const FusedFunc *f, const Group *g)
{
    bool has = false;
    for (uint32_t i = 0; i < g->roots.n; i++) has |= group_kind_of(f->f, f->m, g->roots.data[i]) == GROUP_DIMS;
    for (uint32_t i = 0; i < g->inner.n; i++) has |= group_kind_of(f->f, f->m, g->inner.data[i]) == GROUP_DIMS;
    return has;
}

/* Sums over the rows of a map among the group's roots. */
static unsigned n_row_sums(const FusedFunc *f, const Group *g)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < g->roots.n; i++) n += group_kind_of(f->f, f->m, g->roots.data[i]) == GROUP_ROWS;
    return n;
}

/* Some value that is kept or summed has no dims: vectors may run along its rows, or the elements of one. */
static bool has_value_without_dims(const FusedFunc *f, const Group *g)
{
    bool has = false;
    for (uint32_t i = 0; i < g->inner.n; i++) has |= !fused_op(f, g->inner.data[i])->type.n_dims;
    for (uint32_t i = 0; i < g->roots.n && g->kind == GROUP_BLOCKS; i++)
        has |= !fused_op(f, g->roots.data[i])->type.n_dims;
    return has;
}

/* Some vector runs along several dims, or may have to where a sum inside a row is folded. */
static bool has_vector_of_dims(const FusedFunc *f, const Group *g)
{
    bool has = has_dims_sum(f, g) || vec_run(f->m, &g->nest, 0, KIR_MAX_LANES).n > 1;
    for (uint32_t i = 0; i < g->roots.n; i++)
        has |= vec_run(f->m, &fused_op(f, g->roots.data[i])->type, 0, KIR_MAX_LANES).n > 1;
    for (uint32_t i = 0; i < g->inner.n; i++)
        has |= vec_run(f->m, &fused_op(f, g->inner.data[i])->type, 0, KIR_MAX_LANES).n > 1;
    return has;
}

/* Whether a number says something about how group g runs. */
static bool group_uses(const FusedFunc *f, uint32_t index, TileNumber n)
{
    const Group *g = &f->groups.data[index];
    bool rows = g->nest.space != IR_UNIT, along = g->kind == GROUP_MAP && rows && !g->nest.n_dims;
    bool by_hand = g->kind == GROUP_RANK || g->kind == GROUP_NEAREST || g->kind == GROUP_ROUTE;
    switch (n) {
    case TILE_vectors:
    case TILE_lanes: return !has_value_tiles(f, g) && !by_hand && !along;
    case TILE_rows:
    case TILE_kept: return g->kind == GROUP_PRODUCT && rows;
    case TILE_block: return (g->kind == GROUP_PRODUCT && rows) || (along && f->tiles->group[0][index].along_rows > 1);
    case TILE_grain: return true;
    case TILE_second: {
        const IrOp *op = fused_op(f, g->roots.data[0]);
        return g->kind == GROUP_BLOCKS || (g->kind == GROUP_RANK && f->m->maps.data[op->attr.map].partial);
    }
    case TILE_parted: return schedule_may_part(f, g);
    case TILE_split: return g->kind == GROUP_ROWS && !f->m->maps.data[g->map].computed;
    case TILE_staged: return g->inner.n > 0;
    case TILE_along_rows: return along || g->kind == GROUP_NEAREST || has_value_without_dims(f, g);
    case TILE_gathers: return g->kind == GROUP_ROWS && has_value_without_dims(f, g);
    case TILE_together: return n_row_sums(f, g) > 1;
    case TILE_walk:
    case TILE_beside: return group_is_staged(f, g);
    case TILE_strip: return g->kind == GROUP_BLOCKS && !g->inner.n && f->tiles->group[0][index].strip;
    case TILE_blocks:
    case TILE_mergers: return g->kind == GROUP_BLOCKS;
    case TILE_warps: return g->kind == GROUP_BLOCKS && !g->inner.n;
    case TILE_unroll:
    case TILE_folded: return has_dims_sum(f, g);
    case TILE_piece: return has_vector_of_dims(f, g);
    case TILE_ahead:
    case TILE_line: return (rows || g->kind == GROUP_BLOCKS) && !by_hand && !along;
    case TILE_woven: return true;
    default: return false;
    }
}

static bool value_uses(const FusedFunc *f, uint32_t index, IrId v, TileNumber n)
{
    const Group *g = &f->groups.data[index];
    bool outer = g->kind == GROUP_BLOCKS && value_tile(f, 0, index, v)->strip;
    if (n == TILE_vectors || n == TILE_lanes) return has_value_tiles(f, g);
    if (n == TILE_kept) return g->kind == GROUP_ROWS && group_is_staged(f, g) && fused_op(f, v)->op == IR_OP_reduce_sum;
    if (n == TILE_merged || n == TILE_neighbours) return g->kind == GROUP_BLOCKS && !group_has_inner(g, v);
    if (n == TILE_stream || n == TILE_elements)
        return g->kind == GROUP_PRODUCT && g->nest.space != IR_UNIT && group_kind_of(f->f, f->m, v) == GROUP_PRODUCT;
    if (n == TILE_rows && group_has_inner(g, v)) return group_kind_of(f->f, f->m, v) == GROUP_PRODUCT;
    bool alone = f->tiles->group[0][index].warps == 1;
    return outer && (n == TILE_rows || ((n == TILE_copied || n == TILE_far) && alone));
}

static bool uses(const FusedFunc *f, uint32_t g, IrId v, TileNumber n)
{
    return v == IR_NONE ? group_uses(f, g, n) : value_uses(f, g, v, n);
}

/* The number of value v of group g, or of the group: v is IR_NONE. */
static int64_t *number_of(const FusedFunc *f, unsigned narrow, uint32_t g, IrId v, TileNumber n)
{
    ICE_UNLESS(narrow < 2 && n < N_TILE_NUMBERS);
    Schedule *s = v == IR_NONE ? &f->tiles->group[narrow][g] : value_tile(f, narrow, g, v);
    return (int64_t *)(void *)((char *)s + tile_numbers[n].at);
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

static void print_numbers(const FusedFunc *f, uint32_t g, IrId v, StrBuf *out)
{
    bool both = f->tiles->narrow[g] && uses(f, g, v, TILE_vectors) &&
                (v == IR_NONE || has_value_tiles(f, &f->groups.data[g]));
    for (unsigned narrow = 0; narrow < 1u + both; narrow++) {
        if (narrow) strbuf_puts(out, " narrow");
        for (TileNumber n = 0; n < (narrow ? N_NARROW_NUMBERS : N_TILE_NUMBERS); n++)
            if (uses(f, g, v, n))
                strbuf_printf(out, " %s %lld", tile_numbers[n].name, (long long)*number_of(f, narrow, g, v, n));
    }
}

static void print_value(const FusedFunc *f, uint32_t index, Role role, IrId v, StrBuf *out)
{
    const IrOp *op = fused_op(f, v);
    strbuf_printf(out, "    %s %%%u %s", role_names[role], v, ir_ops[op->op].name);
    print_numbers(f, index, v, out);
    strbuf_printf(out, "  # %s%s", ir_type_text(f->m, &op->type, out->arena),
                  f->stored.data[v] && role != ROLE_COPY ? ", stored" : "");
    for (uint32_t k = 0; k < op->n_args; k++) strbuf_printf(out, "%s%%%u", k ? ", " : ", of ", op->args[k]);
    strbuf_puts(out, "\n");
}

static void print_group(const FusedFunc *f, uint32_t index, StrBuf *out)
{
    const Group *g = &f->groups.data[index];
    strbuf_printf(out, "  group %u %s", index, group_kind_names[g->kind]);
    print_numbers(f, index, IR_NONE, out);
    if (g->map != IR_NONE) strbuf_printf(out, "  # of %s", f->m->maps.data[g->map].name);
    else strbuf_printf(out, "  # over %s", f->m->spaces.data[g->space].name);
    VecRun run = vec_run(f->m, &g->nest, 0, f->tiles->group[0][index].lanes);
    if (run.n && group_uses(f, index, TILE_lanes)) {
        strbuf_printf(out, ", %u lanes of ", run_lanes(&run));
        for (unsigned i = run.n; i-- > 0;)
            strbuf_printf(out, "%s%s", f->m->dims.data[run.vec[i].dim].name, i ? ", " : "");
    }
    strbuf_puts(out, "\n");
    for (uint32_t i = 0; i < g->roots.n; i++) print_value(f, index, ROLE_ROOT, g->roots.data[i], out);
    for (uint32_t i = 0; i < g->inner.n; i++)
        print_value(f, index, group_has_copy(f, index, g->inner.data[i]) ? ROLE_COPY : ROLE_INNER, g->inner.data[i],
                    out);
}

void schedule_print(const void *fused_module, StrBuf *out)
{
    const FusedModule *fm = fused_module;
    strbuf_puts(out, "schedule 1\n");
    for (uint32_t i = 0; i < fm->funcs.n; i++) {
        const FusedFunc *f = fm->funcs.data[i];
        strbuf_printf(out, "\nfunc %s values %u\n", f->f->name, f->n_values);
        strbuf_printf(out, "  filled %lld\n", (long long)f->filled);
        if (f->sums != IR_NONE) strbuf_printf(out, "  sums %s\n", fm->m->maps.data[f->sums].name);
        if (f->clones) strbuf_printf(out, "  clones %s\n", clone_names[f->clones]);
        for (uint32_t k = 0; k < f->order.n; k++) {
            uint32_t g = f->order.data[k];
            /* else a copy back into a tensor */
            if (f->groups.data[g].roots.data[0] < f->n_values) print_group(f, g, out);
        }
    }
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

typedef struct Reader {
    Arena *arena;
    const Source *src;
    Diags *d;
    const char *word; /* the next one; "" at the end */
    Span at;          /* where it stands */
    bool failed;
} Reader;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void advance(Reader *r)
{
    const Source *s = r->src;
    uint32_t i = r->at.end;
    while (i < s->n && (is_blank(s->text[i]) || s->text[i] == '#'))
        if (s->text[i++] == '#')
            while (i < s->n && s->text[i] != '\n') i++;
    uint32_t end = i;
    while (end < s->n && !is_blank(s->text[end]) && s->text[end] != '#') end++;
    r->at = span_at(s, i, end);
    r->word = arena_strndup(r->arena, s->text + i, end - i);
}

__attribute__((format(printf, 2, 3))) static void fail(Reader *r, const char *fmt, ...)
{
    if (!r->failed) {
        va_list ap;
        va_start(ap, fmt);
        const char *found = *r->word ? arena_printf(r->arena, "`%.40s`", r->word) : "the end of the file";
        diag_error(r->d, E0505, r->at, "%s, found %s", arena_vprintf(r->arena, fmt, ap), found);
        va_end(ap);
    }
    r->failed = true;
    r->word = "";
    r->at = span_at(r->src, r->src->n, r->src->n);
}

static bool is_word(const Reader *r, const char *word) { return strcmp(r->word, word) == 0; }

static bool take_word(Reader *r, const char *word)
{
    bool is = is_word(r, word);
    if (is) advance(r);
    return is;
}

static int64_t read_number(Reader *r, int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long x = strtoll(r->word, &end, 10);
    if (errno || end == r->word || *end || x < least || x > most) {
        fail(r, "wanted a whole number from %lld to %lld", (long long)least, (long long)most);
        return least;
    }
    advance(r);
    return x;
}

static unsigned read_choice(Reader *r, const char *const *names, unsigned first, unsigned n)
{
    StrBuf all = {.arena = r->arena};
    for (unsigned i = first; i < n; i++) {
        if (take_word(r, names[i])) return i;
        strbuf_printf(&all, "%s%s", i > first ? ", " : "", names[i]);
    }
    fail(r, "wanted one of: %s", strbuf_cstr(&all));
    return first;
}

static void read_tile(Reader *r, TileText tile[2])
{
    for (unsigned narrow = 0;;) {
        TileNumber n = 0;
        if (!narrow && take_word(r, "narrow")) narrow = 1;
        while (n < N_TILE_NUMBERS && !is_word(r, tile_numbers[n].name)) n++;
        if (n == N_TILE_NUMBERS) return;
        Span name = r->at;
        advance(r);
        Span number = r->at;
        tile[narrow].number[n] = read_number(r, tile_numbers[n].least, tile_numbers[n].most);
        tile[narrow].has[n] = true;
        tile[narrow].span[n] = span_join(name, number);
    }
}

static bool read_value(Reader *r, GroupText *g)
{
    ValueText x = {.span = r->at};
    for (Role role = ROLE_ROOT; role < N_ROLES && x.role == ROLE_NONE; role++)
        if (take_word(r, role_names[role])) x.role = role;
    if (x.role == ROLE_NONE) return false;
    if (*r->word != '%') fail(r, "wanted a value, as %%7");
    Span value = r->at;
    if (*r->word) r->word++;
    x.v = (IrId)read_number(r, 0, UINT32_MAX - 1);
    x.span = span_join(x.span, value);
    x.op = r->word;
    if (!*r->word) fail(r, "wanted the name of the operation that makes the value");
    advance(r);
    read_tile(r, x.tile);
    VEC_PUSH(r->arena, &g->values, x);
    return true;
}

static bool read_group(Reader *r, FuncText *f)
{
    GroupText g = {.span = r->at};
    if (!take_word(r, "group")) return false;
    g.label = (uint32_t)read_number(r, 0, UINT32_MAX);
    g.kind = read_choice(r, group_kind_names, 0, N_GROUP_KINDS);
    read_tile(r, g.tile);
    while (!r->failed && read_value(r, &g)) {}
    bool has_root = g.values.n && g.values.data[0].role == ROLE_ROOT;
    if (!has_root) fail(r, "wanted a root of group %u", g.label);
    VEC_PUSH(r->arena, &f->groups, g);
    return true;
}

static bool read_func(Reader *r, ScheduleText *t)
{
    enum { LEAST_FILLED = sizeof(double), MOST_FILLED = 4096 }; /* bytes */
    FuncText f = {.span = r->at};
    if (!take_word(r, "func")) return false;
    f.name = r->word;
    if (!*f.name) fail(r, "wanted the name of a function");
    if (schedule_text_find(t, f.name)) fail(r, "wanted a function that was not told yet");
    advance(r);
    if (!take_word(r, "values")) fail(r, "wanted `values` and their number");
    f.n_values = read_number(r, 0, UINT32_MAX);
    if (take_word(r, "filled")) f.filled = read_number(r, LEAST_FILLED, MOST_FILLED);
    f.sums_span = r->at;
    if (take_word(r, "sums")) {
        f.sums = r->word;
        advance(r);
    }
    f.clones_span = r->at;
    if (take_word(r, "clones")) f.clones = read_choice(r, clone_names, 1, 1 + N_CLONE_BY);
    while (!r->failed && read_group(r, &f)) {}
    VEC_PUSH(r->arena, &t->funcs, f);
    return true;
}

const ScheduleText *schedule_parse(Arena *a, const Source *src, Diags *d)
{
    Reader r = {.arena = a, .src = src, .d = d, .at = {src, 0, 0}};
    ScheduleText *t = ARENA_NEW(a, ScheduleText);
    advance(&r);
    if (!take_word(&r, "schedule")) fail(&r, "wanted `schedule 1`");
    read_number(&r, 1, 1);
    while (!r.failed && read_func(&r, t)) {}
    if (*r.word) fail(&r, "wanted a function, a group, a value or a number of its tile");
    t->head = span_at(src, 0, src->n ? 1 : 0);
    return r.failed ? NULL : t;
}

/* ---- tiles of a text ------------------------------------------------------------------------------------------- */

/* Why value v of group g, or the group, cannot have the number; NULL: it can. */
static const char *why_not(const FusedFunc *f, uint32_t index, IrId v, TileNumber n, int64_t x)
{
    const Group *g = &f->groups.data[index];
    bool shared = g->kind == GROUP_BLOCKS && f->tiles->group[0][index].warps > 1;
    if (shared && v != IR_NONE && (n == TILE_copied || n == TILE_far))
        return x ? "is not possible: the warps of a block share a leaf and work without copies" : NULL;
    if (!uses(f, index, v, n))
        return v == IR_NONE ? "says nothing about a kernel of this kind"
                            : "says nothing about this value: its group has the tile";
    if (n == TILE_rows && v == IR_NONE && x < 2) return "is too few: products take at least 2 rows together";
    if (n == TILE_rows && v != IR_NONE && group_has_inner(g, v) && x > 16)
        return "is too many: a product in private arrays takes 16 rows together at most";
    bool power = n == TILE_lanes || n == TILE_staged || n == TILE_along_rows || n == TILE_merged ||
                 n == TILE_neighbours || n == TILE_mergers || n == TILE_line;
    if (power && x & (x - 1)) return "is no power of two";
    if (n == TILE_along_rows && x > 1 && g->kind == GROUP_MAP && !rows_fit(f, index))
        return "is not possible: some value cannot be computed for several rows at once";
    if (n == TILE_along_rows && g->kind == GROUP_NEAREST && x > nearest_most(f, g))
        return "is more than private arrays hold";
    if (n == TILE_staged && x > stage_most(f, g)) return "is more than private arrays hold";
    if (n == TILE_strip && shared && x < ORDER_LEAF && x > shared_strip_most(f, g))
        return "is more than warps can share: so many rows do not lie in their memory";
    return n == TILE_strip && !x ? "is too few: a strip has rows" : NULL;
}

/* narrow: 1 for the numbers of CPUs with few registers. */
static bool apply_numbers(FusedFunc *f, uint32_t g, IrId v, const TileText *t, unsigned narrow, Diags *d)
{
    bool one = v != IR_NONE && !has_value_tiles(f, &f->groups.data[g]);
    for (TileNumber n = 0; n < N_TILE_NUMBERS; n++) {
        if (!t->has[n]) continue;
        const char *why = why_not(f, g, v, n, t->number[n]);
        if (!why && narrow && (one || n >= N_NARROW_NUMBERS)) why = "is the same for CPUs with few registers";
        if (why) {
            diag_error(d, E0506, t->span[n], "`%s %lld` %s", tile_numbers[n].name, (long long)t->number[n], why);
            return false;
        }
        *number_of(f, narrow, g, v, n) = *number_of(f, 1, g, v, n) = t->number[n]; /* a `narrow` one follows */
    }
    return true;
}

/* Private arrays of a product's tile, of a panel and of merging warps, which numbers make that are each legal. */
static bool arrays_fit(const FusedFunc *f, uint32_t index, unsigned narrow)
{
    const Group *g = &f->groups.data[index];
    const Schedule *s = &f->tiles->group[narrow][index];
    int64_t all = 0;
    if (g->kind == GROUP_BLOCKS && s->mergers > 1 && s->blocks > 1 << SCHEDULE_MERGER_LEVELS) return false;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        IrId v = g->roots.data[i];
        const Schedule *own = value_tile(f, narrow, index, v);
        int64_t bytes = (int64_t)ir_dtype_bytes(fused_op(f, v)->type.dtype), array = 0;
        bool sum = g->kind == GROUP_PRODUCT && s->kept && group_kind_of(f->f, f->m, v) == GROUP_PRODUCT &&
                   !group_root_is_narrow(f, g, v);
        if (sum) array = s->rows * s->vectors * s->lanes * bytes;
        if (g->kind == GROUP_BLOCKS && own->strip && own->copied)
            array = own->strip * own->vectors * own->lanes * bytes;
        if (array > KIR_MAX_ALLOC_BYTES) return false;
        all += array;
    }
    return all <= KIR_MAX_FRAME_BYTES;
}

static bool apply_group_text(FusedFunc *f, uint32_t g, const GroupText *x, Diags *d)
{
    for (unsigned narrow = 0; narrow < 2; narrow++) {
        if (!apply_numbers(f, g, IR_NONE, &x->tile[narrow], narrow, d)) return false;
        for (uint32_t k = 0; k < x->values.n; k++)
            if (!apply_numbers(f, g, x->values.data[k].v, &x->values.data[k].tile[narrow], narrow, d)) return false;
    }
    for (uint32_t k = 0; k < x->values.n && x->tile[0].has[TILE_strip]; k++)
        for (unsigned narrow = 0; narrow < 2; narrow++) {
            Schedule *own = value_tile(f, narrow, g, x->values.data[k].v);
            if (own->strip) own->strip = x->tile[0].number[TILE_strip];
        }
    if (arrays_fit(f, g, 0) && arrays_fit(f, g, 1)) return true;
    diag_error(d, E0506, x->span, "the tiles of this kernel take more than private arrays hold");
    return false;
}

bool schedule_apply(FusedFunc *f, Diags *d)
{
    for (uint32_t i = 0; i < f->text->groups.n; i++) {
        ICE_UNLESS(f->text->groups.data[i].values.n); /* read_group wanted a root */
        const GroupText *x = &f->text->groups.data[i];
        if (!apply_group_text(f, f->group_of.data[x->values.data[0].v], x, d)) return false;
    }
    return true;
}
