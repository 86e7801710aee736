/* Ranks of the interpreter, and the elements that have given ranks: a row's elements by value, of equal ones those
   first that the user has first, NaN behind all. A rank is undecided where bounds do not say which of two elements
   comes first. */
#include "ir/eval_sum.h"
#include "base/ice.h"
#include <math.h>
#include <stdlib.h>

typedef struct Ranked {
    Num x;
    int64_t place, row; /* in the row's list; of the operand */
    double top;         /* greatest upper end of the elements up to this one, once sorted */
    bool undecided;
} Ranked;

static int by_value(const void *left, const void *right)
{
    const Ranked *a = left, *b = right;
    bool a_nan = isnan(a->x.v), b_nan = isnan(b->x.v);
    if (a_nan != b_nan) return a_nan - b_nan;
    if (!a_nan && a->x.v != b->x.v) return a->x.v < b->x.v ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Marks pairs that may stand the other way round. */
static void mark(Ranked *s, int64_t n)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        any |= s[i].x.undecided;
        s[i].top = s[i].x.v + s[i].x.e;
        if (i && s[i - 1].top > s[i].top) s[i].top = s[i - 1].top;
        for (int64_t j = i; j-- > 0 && s[j].top >= s[i].x.v - s[i].x.e;)
            if (num_compare(s[j].x, s[i].x) == 3) s[i].undecided = s[j].undecided = true;
    }
    for (int64_t i = 0; i < n && any; i++) s[i].undecided = true;
}

/* Column k of the row's elements, in order. */
static int64_t sort_row(const EvalValue *x, const MapRows *rows, int64_t t, int64_t k, Ranked *s)
{
    int64_t n = rows->begin[t + 1] - rows->begin[t];
    for (int64_t i = 0; i < n; i++) {
        int64_t row = rows->list[rows->begin[t] + i];
        ICE_UNLESS(row >= 0 && row < x->rows);
        s[i] = (Ranked){.x = num_get(x, row * x->width + k), .place = i, .row = row};
    }
    qsort(s, (size_t)n, sizeof *s, by_value);
    mark(s, n);
    return n;
}

void eval_rule_rank(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0);
    const IrMap *map = &r->m->maps.data[op->attr.map];
    MapRows rows = eval_map_rows(r, map, r->w->maps[op->attr.map]);
    Ranked *s = ARENA_ARRAY(r->arena, Ranked, out->rows + 1);
    for (int64_t t = 0; t < r->w->counts[map->to]; t++)
        for (int64_t k = 0; k < out->width; k++) {
            int64_t n = sort_row(x, &rows, t, k, s);
            for (int64_t i = 0; i < n; i++) {
                Num rank = num_exact((double)i);
                rank.undecided = s[i].undecided;
                num_put(out, s[i].row * out->width + k, rank);
            }
        }
    const uint8_t *open = r->w->open[op->attr.map];
    if (open && memchr(open, 1, (size_t)x->rows)) memset(out->undecided, 1, (size_t)(out->rows * out->width));
}

void eval_rule_nth(const EvalRun *r, const IrOp *op, EvalValue *out)
{
    const EvalValue *x = eval_operand(r, op, 0), *wanted = eval_operand(r, op, 1);
    const IrMap *map = &r->m->maps.data[op->attr.map];
    MapRows rows = eval_map_rows(r, map, r->w->maps[op->attr.map]);
    Ranked *s = ARENA_ARRAY(r->arena, Ranked, x->rows + 1);
    int64_t n_at, *at = eval_index(r, op->type.dims, op->type.n_dims, &wanted->type, &n_at);
    for (int64_t t = 0; t < out->rows; t++)
        for (int64_t k = 0; k < out->width; k++) {
            int64_t n = sort_row(x, &rows, t, k, s);
            Num place = num_get(wanted, eval_row(wanted, t) + at[k]), id = num_exact(-1);
            if (place.v >= 0 && place.v < (double)n) {
                const Ranked *found = &s[(int64_t)place.v];
                id = num_exact((double)eval_element_id(r, map->from, found->row));
                id.undecided = found->undecided;
            }
            id.undecided |= place.undecided;
            num_put(out, t * out->width + k, id);
        }
    const uint8_t *open = r->w->open[op->attr.map];
    if (open && memchr(open, 1, (size_t)x->rows)) memset(out->undecided, 1, (size_t)(out->rows * out->width));
}
