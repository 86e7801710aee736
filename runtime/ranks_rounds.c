/* Sums over edges by rounds (sar, see ranks_policy.c), so that a process never has all rows of peers that it reads, but
   those of a few. A step that sums over edges, and reads rows of peers of a value V, runs in as many rounds as there
   are processes: first over edges from rows that the process owns, then over those from rows of the process behind it,
   and so on. The rows of a round lie behind the owned ones of V, where others lie in the next round.

     memory of V, 3 processes, depth 1     | owned | rows of rank + 1 | rows of rank + 2 |
     4 processes: those of rank + 3 come to where those of rank + 1 were, once these are summed

   The kernel is that of exact training. It is given the edges of the round, of which each row may have some, and where
   the rows of V are now; from the second round on it writes rows to room of its own, which are added to those of the
   rounds before. So the step may compute nothing behind its sums (RT_ADDS): relu of a part is not a part of relu. Sums
   are taken in another order than in exact training, which depends on the parts.

   What a step reads of peers in any other way travels as in exact training. */
#include "runtime/ranks_part.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "rows that travel in rounds";
enum { BLOCK_BYTES = 1 << 20 }; /* of sums that are added to those of earlier rounds at a time */
enum { BEHIND = 64 };           /* elements that kernels may look at behind the last */

struct RtShards { /* elements that `under` leads to owned rows, by who owns their image under `image` */
    int64_t under, image;
    RtShip ship;      /* rows of peers at these images; `in` numbers each among those of its owner, from 0 on */
    int32_t *place;   /* [rows of the halo] that number; -1: no such image */
    int64_t *starts;  /* [ranks + 1] in `order` */
    int32_t *order;   /* [elements] where they stand in the walk of `under` */
    int64_t most;     /* rows of one peer */
    int64_t elements; /* of one round */
    RtBlock block;
    struct RtShards *next;
};
typedef struct RtShards Shards;

typedef struct Round { /* a step that runs in rounds */
    int64_t step;
    const Shards *shards;
    int64_t *moved; /* exchanges whose rows come in rounds */
    int64_t n_moved;
} Round;

struct RtRounds {
    int64_t depth; /* shards on their way while one is summed */
    Round *rounds; /* by step */
    int64_t n_rounds;
    bool *moves;   /* [n_exchanges] its rows come in rounds */
    int64_t *rows; /* [n_exchanges] rows that the buffer gets memory for, where its rows come in rounds */
};

/* ---- which steps ------------------------------------------------------------------------------------------------- */

static const RtTouch *touch_of(const RtAcross *a, int64_t step, int64_t buffer, bool writes)
{
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->buffer == buffer && (t->writes != RT_READS) == writes) return t;
    }
    return NULL;
}

/* Whether what comes of some elements, and of the others, makes what comes of all. */
static bool adds_up(const RtAcross *a, int64_t step)
{
    bool any = false;
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        int64_t elem = across_buffer(a, t->buffer)->elem;
        if (!t->writes || t->how == RT_ALONE) continue;
        bool number = elem == RT_K_F32 || elem == RT_K_F64;
        if (t->writes != RT_ADDS || t->at != RT_AT_ROW || !number) return false;
        any = true;
    }
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) { /* a round would read what another wrote */
        const RtTouch *t = across_touch(a, step, i);
        if (t->writes && t->at == RT_AT_ROW && touch_of(a, step, t->buffer, false)) return false;
    }
    return any;
}

/* Whether the kernel may be given some of the graph in place of this argument. */
static bool arg_is_known(const RtAcross *a, const RtStep *s, const RtBuffer *b, int64_t image)
{
    const RtMapDef *maps = a->e->model->maps;
    int64_t from = maps[s->under].from;
    switch (b->kind) {
    case RT_BUF_MAP_ROWS:
    case RT_BUF_MAP_LIST: return b->ref == s->under;
    case RT_BUF_MAP_ALONG: return b->along == s->under;
    case RT_BUF_MAP_TO: return maps[b->ref].from != from || maps[s->under].sorted || b->ref != image;
    case RT_BUF_STATE: return false;
    default: return true;
    }
}

/* Whether the step may run in rounds by who owns the images of its elements. */
static bool may_run(const RtAcross *a, int64_t step, int64_t image)
{
    const RtModel *m = a->e->model;
    const RtStep *s = across_def(a, step);
    if (s->work != RT_SUMS || !a->r->spaces[s->over].shared || a->rows[step] != RT_OWNED || !adds_up(a, step))
        return false;
    int64_t from = m->maps[s->under].from;
    if (!a->r->spaces[from].shared || from == s->over || m->maps[image].partial) return false;
    const RtCall *c = rt_step_call(m, s);
    if (c->extent.kind != RT_COUNT_SPACE || c->extent.space != s->over) return false;
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &m->step_args[c->first_arg + k];
        if (arg->is_buffer && !arg_is_known(a, s, across_buffer(a, arg->buffer), image)) return false;
    }
    return true;
}

/* How a step reads rows of peers of a buffer: -1: it reads none; the map whose images of elements they are, where it
   may run in rounds; else -2. */
static int64_t way_of(const RtAcross *a, int64_t step, int64_t buffer)
{
    int64_t image = -1;
    for (int64_t i = 0; i < across_def(a, step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, step, i);
        if (t->buffer != buffer || t->writes || rt_across_reads_owned(a, step, t)) continue;
        bool by_image = t->at == RT_AT_ELEMENT && t->image >= 0 && across_def(a, step)->work == RT_SUMS;
        if (!by_image || (image >= 0 && t->image != image) || !may_run(a, step, t->image)) return -2;
        image = t->image;
    }
    return image;
}

static bool has_slot_alone(const RtAcross *a, int64_t buffer)
{
    for (int64_t b = 0; b < a->e->program->n_buffers; b++)
        if (b != buffer && across_buffer(a, b)->kind == RT_BUF_ARENA &&
            across_buffer(a, b)->slot == across_buffer(a, buffer)->slot)
            return false;
    return across_buffer(a, buffer)->kind == RT_BUF_ARENA;
}

static Round *round_of(const struct RtRounds *p, int64_t step)
{
    for (int64_t i = 0; i < p->n_rounds; i++)
        if (p->rounds[i].step == step) return &p->rounds[i];
    return NULL;
}

/* Whether all steps that read rows of peers of an exchange's buffer may run in rounds, each by one map. */
static bool may_move(const RtAcross *a, const struct RtRounds *p, const RtExchange *x)
{
    bool any = false;
    if (x->after < 0 || !has_slot_alone(a, x->buffer)) return false;
    for (int64_t i = x->after + 1; i < a->e->program->n_steps; i++) {
        int64_t way = way_of(a, i, x->buffer);
        const Round *r = round_of(p, i);
        if (way == -2 || (way >= 0 && r && r->shards->image != way)) return false;
        any |= way >= 0;
        if (across_writes(a, i, x->buffer)) break;
    }
    return any;
}

/* ---- elements by owner ------------------------------------------------------------------------------------------- */

static int owner_of(const RtRankSpace *s, int rank, int64_t row)
{
    return row < s->owned ? rank : s->owner[row - s->owned];
}

/* Rows of peers that the elements lead to, by owner. */
static RtCode ask_rows(RtAcross *a, Shards *x, int64_t *count, RtStatus *st)
{
    RtRanks *r = a->r;
    int64_t space = a->e->model->maps[x->image].to, n = r->graph->spaces[space].count, n_rows = 0;
    const RtRankSpace *s = &r->spaces[space];
    const uint64_t *bits;
    RtBlock scratch;
    RT_TRY(rt_space_keys(r, space, st));
    RT_TRY(rt_reach_rows(r, x->under, x->image, &bits, st));
    RT_TRY(rt_block_alloc(&scratch, rt_size_plus(8, n - s->owned, 20), what, st));
    int64_t *keys = scratch.p, *to = keys + (n - s->owned);
    int32_t *owners = (int32_t *)(to + (n - s->owned));
    for (int64_t i = s->owned; i < n; i++) {
        if (!(bits[i >> 6] >> (i & 63) & 1)) continue;
        int q = s->owner[i - s->owned];
        keys[n_rows] = s->keys[i];
        owners[n_rows] = q;
        to[n_rows++] = count[q];
        x->place[i - s->owned] = (int32_t)count[q]++;
        x->most = count[q] > x->most ? count[q] : x->most;
    }
    RtCode code = rt_ship_ask(r, space, n_rows, keys, owners, to, &x->ship, st);
    rt_block_free(&scratch);
    return code;
}

static void order_elements(const RtAcross *a, Shards *x, int64_t *at)
{
    const RtRanks *r = a->r;
    const RtMapData *under = &r->graph->maps[x->under];
    const int32_t *to = r->graph->maps[x->image].to, *list = a->e->model->maps[x->under].sorted ? NULL : under->list;
    const RtRankSpace *s = &r->spaces[a->e->model->maps[x->image].to];
    int64_t n = under->rows[r->spaces[a->e->model->maps[x->under].to].owned];
    for (int64_t k = 0; k < n; k++) x->starts[owner_of(s, r->rank, to[list ? list[k] : k]) + 1]++;
    for (int q = 0; q < r->n; q++) {
        x->elements = x->starts[q + 1] > x->elements ? x->starts[q + 1] : x->elements;
        x->starts[q + 1] += x->starts[q];
        at[q] = x->starts[q];
    }
    for (int64_t k = 0; k < n; k++) x->order[at[owner_of(s, r->rank, to[list ? list[k] : k])]++] = (int32_t)k;
}

static RtCode make_shards(RtAcross *a, Shards *x, RtStatus *st)
{
    const RtMapDef *maps = a->e->model->maps;
    const RtRanks *r = a->r;
    int64_t halo = r->graph->spaces[maps[x->image].to].count - r->spaces[maps[x->image].to].owned,
            n = r->graph->maps[x->under].rows[r->spaces[maps[x->under].to].owned];
    RtBlock scratch;
    RT_TRY(rt_block_alloc(&x->block, rt_size_plus(rt_size_plus(16, r->n + 1, 8), n + halo, 4), what, st));
    x->starts = x->block.p;
    x->place = (int32_t *)(x->starts + r->n + 1);
    x->order = x->place + halo;
    for (int64_t i = 0; i < halo; i++) x->place[i] = -1;
    RT_TRY(rt_block_alloc(&scratch, rt_size(r->n, 16), what, st));
    RtCode code = ask_rows(a, x, scratch.p, st);
    if (!code) order_elements(a, x, (int64_t *)scratch.p + r->n);
    rt_block_free(&scratch);
    return code;
}

/* Programs ask for the same few: each is made once, and kept. */
static RtCode find_shards(RtAcross *a, int64_t under, int64_t image, const Shards **out, RtStatus *st)
{
    Shards *x = a->r->shards;
    while (x && (x->under != under || x->image != image)) x = x->next;
    if (!x) {
        RT_TRY(rt_alloc(&x, 1, sizeof *x, what, st));
        *x = (Shards){.under = under, .image = image, .next = a->r->shards};
        a->r->shards = x;
        RT_TRY(make_shards(a, x, st));
    }
    *out = x;
    return RT_OK;
}

int64_t rt_shards_bytes(const RtRanks *r)
{
    int64_t bytes = 0;
    for (const Shards *x = r->shards; x; x = x->next) bytes += (int64_t)x->block.bytes + (int64_t)x->ship.block.bytes;
    return bytes;
}

void rt_shards_free(RtRanks *r)
{
    if (!r) return;
    for (Shards *x = r->shards, *next; x; x = next) {
        next = x->next;
        rt_ship_free(&x->ship);
        rt_block_free(&x->block);
        free(x);
    }
    r->shards = NULL;
}

/* ---- memory of a step's rounds ----------------------------------------------------------------------------------- */

static int64_t round_rows(const struct RtRounds *p, const Shards *x) { return (1 + p->depth) * x->most; }

/* A buffer of elements, or array of a map of theirs, that the kernel reads element by element: it gets those of the
   round, side by side. Where `under` is not sorted it finds them by a list. each: bytes of one; 0: no such buffer. */
static int64_t element_bytes(const RtAcross *a, const RtStep *s, int64_t buffer)
{
    const RtMapDef *maps = a->e->model->maps;
    const RtBuffer *b = across_buffer(a, buffer);
    int64_t from = maps[s->under].from;
    bool sorted = maps[s->under].sorted;
    switch (b->kind) {
    case RT_BUF_MAP_ALONG: return 4;
    case RT_BUF_MAP_LIST: return sorted ? 0 : 4;
    case RT_BUF_MAP_TO: return sorted && maps[b->ref].from == from ? 4 : 0;
    case RT_BUF_IDS: return sorted && b->ref == from ? 8 : 0;
    case RT_BUF_MAP_ROWS: return 0;
    default: return sorted && b->rows.kind == RT_COUNT_SPACE && b->rows.space == from ? across_row_bytes(a, buffer) : 0;
    }
}

/* A buffer that is read at images, and is all here: rows of the round are copied to where those of V come. */
static bool is_copied(const RtAcross *a, const Round *r, int64_t buffer)
{
    bool by_image = false;
    for (int64_t i = 0; i < across_def(a, r->step)->n_touches; i++) {
        const RtTouch *t = across_touch(a, r->step, i);
        by_image |= t->buffer == buffer && t->at == RT_AT_ELEMENT && t->image == r->shards->image;
    }
    for (int64_t i = 0; i < r->n_moved; i++) by_image &= a->exchanges[r->moved[i]].buffer != buffer;
    return by_image;
}

static bool is_sum(const RtAcross *a, int64_t step, int64_t buffer)
{
    const RtTouch *t = touch_of(a, step, buffer, true);
    return t && t->writes == RT_ADDS && t->at == RT_AT_ROW && t->how != RT_ALONE;
}

static int64_t sum_bytes(const RtAcross *a, int64_t step) /* of a row of all sums */
{
    const RtCall *c = rt_step_call(a->e->model, across_def(a, step));
    int64_t bytes = 0;
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
        if (arg->is_buffer && is_sum(a, step, arg->buffer)) bytes += across_row_bytes(a, arg->buffer);
    }
    return bytes;
}

static int64_t block_rows(const RtAcross *a, int64_t step)
{
    int64_t rows = BLOCK_BYTES / sum_bytes(a, step);
    return rows > 64 ? rows : 64;
}

typedef struct Room { /* of a step: what its kernel is given, by argument */
    int64_t *rows;    /* offsets of the round */
    RtArg *args;
    char **at; /* in place of a buffer: elements, copies, sums; NULL: none */
    int64_t bytes;
} Room;

static char *take_room(char *base, int64_t *at, int64_t bytes)
{
    char *p = base ? base + *at : NULL;
    *at = rt_size_plus(*at, bytes < 0 ? -1 : (bytes + 63) / 64 * 64, 1);
    return p;
}

/* base NULL: only how much it is. */
static void lay_out(const RtAcross *a, const struct RtRounds *p, const Round *r, char *base, Room *room)
{
    const RtStep *s = across_def(a, r->step);
    const RtCall *c = rt_step_call(a->e->model, s);
    const Shards *x = r->shards;
    int64_t at = 0, owned = a->r->spaces[s->over].owned, elements = x->elements + BEHIND,
            there = a->r->spaces[a->e->model->maps[x->image].to].owned + round_rows(p, x);
    room->rows = (int64_t *)(void *)take_room(base, &at, rt_size(owned + 1, 8));
    room->args = (RtArg *)(void *)take_room(base, &at, rt_size(c->n_args, sizeof(RtArg)));
    room->at = (char **)(void *)take_room(base, &at, rt_size(c->n_args, sizeof(char *)));
    for (int64_t k = 0; k < c->n_args; k++) {
        const RtStepArg *arg = &a->e->model->step_args[c->first_arg + k];
        if (!arg->is_buffer) continue;
        int64_t each = element_bytes(a, s, arg->buffer), bytes = 0;
        if (each) bytes = rt_size(elements, each);
        else if (is_copied(a, r, arg->buffer)) bytes = rt_size(there, across_row_bytes(a, arg->buffer));
        else if (is_sum(a, r->step, arg->buffer))
            bytes = rt_size(block_rows(a, r->step), across_row_bytes(a, arg->buffer));
        char *mine = bytes ? take_room(base, &at, bytes) : NULL;
        if (base) room->at[k] = mine;
    }
    room->bytes = at;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* The steps that read rows of an exchange, which come in rounds. */
static RtCode add_rounds(RtAcross *a, struct RtRounds *p, int64_t exchange, RtStatus *st)
{
    const RtExchange *x = &a->exchanges[exchange];
    p->moves[exchange] = true;
    for (int64_t i = x->after + 1; i < a->e->program->n_steps; i++) {
        int64_t way = way_of(a, i, x->buffer);
        Round *r = round_of(p, i);
        if (way >= 0 && !r) {
            r = &p->rounds[p->n_rounds++];
            r->step = i;
            RT_TRY(rt_alloc(&r->moved, a->n_exchanges, sizeof *r->moved, what, st));
            RT_TRY(find_shards(a, across_def(a, i)->under, way, &r->shards, st));
        }
        if (way >= 0) {
            int64_t rows = a->r->spaces[across_space(a, x->buffer)].owned + round_rows(p, r->shards);
            r->moved[r->n_moved++] = exchange;
            p->rows[exchange] = rows > p->rows[exchange] ? rows : p->rows[exchange];
        }
        if (across_writes(a, i, x->buffer)) break;
    }
    return RT_OK;
}

/* How many rows of an exchange go where remains known; which, the shards say. */
static RtCode forget_rows(const RtAcross *a, RtShip *s, RtStatus *st)
{
    RtBlock counts;
    RT_TRY(rt_block_alloc(&counts, rt_size(a->r->n, 16), what, st));
    memcpy(counts.p, s->out_n, (size_t)a->r->n * 8);
    memcpy((int64_t *)counts.p + a->r->n, s->in_n, (size_t)a->r->n * 8);
    rt_block_free(&s->block);
    s->block = counts;
    s->out_n = counts.p;
    s->in_n = s->out_n + a->r->n;
    s->out = s->in = NULL;
    return RT_OK;
}

static RtCode refuse_all(const RtAcross *a, RtStatus *st)
{
    return rt_fail(st, RT_E_RANKS_POLICY, rt_string(a->e->model, a->e->model->name),
                   "gnnc build --sums-apart, where it was left out",
                   "no rows of other processes are read by kernels that do nothing but sum over edges");
}

RtCode rt_rounds_make(RtAcross *a, int64_t depth, struct RtRounds **out, RtStatus *st)
{
    struct RtRounds *p;
    int64_t n_steps = a->e->program->n_steps;
    bool any = false;
    RT_TRY(rt_alloc(&p, 1, sizeof *p, what, st));
    *out = p;
    p->depth = depth < a->r->n - 1 ? depth : a->r->n > 1 ? a->r->n - 2 : 0; /* there are n - 1 rounds */
    RT_TRY(rt_alloc(&p->rounds, n_steps, sizeof *p->rounds, what, st));
    RT_TRY(rt_alloc(&p->moves, a->n_exchanges, sizeof *p->moves, what, st));
    RT_TRY(rt_alloc(&p->rows, a->n_exchanges, sizeof *p->rows, what, st));
    for (int64_t i = 0; i < a->n_exchanges; i++)
        if (may_move(a, p, &a->exchanges[i])) {
            RT_TRY(add_rounds(a, p, i, st));
            RT_TRY(forget_rows(a, &a->exchanges[i].ship, st));
            any = true;
        }
    if (a->n_exchanges && !any && !strcmp(rt_string(a->e->model, a->e->program->name), "train_step"))
        return refuse_all(a, st);
    for (int64_t i = 0; i < p->n_rounds; i++) {
        Room room;
        lay_out(a, p, &p->rounds[i], NULL, &room);
        if (room.bytes < 0) return rt_memory_check(-1, what, st);
        if (room.bytes > a->room_bytes) a->room_bytes = room.bytes;
    }
    return RT_OK;
}

void rt_rounds_free(struct RtRounds *p)
{
    if (!p) return;
    for (int64_t i = 0; p->rounds && i < p->n_rounds; i++) free(p->rounds[i].moved);
    free(p->rounds);
    free(p->moves);
    free(p->rows);
    free(p);
}

bool rt_rounds_moves(const struct RtRounds *p, int64_t exchange) { return p->moves[exchange]; }
int64_t rt_rounds_rows(const struct RtRounds *p, int64_t exchange) { return p->rows[exchange]; }
bool rt_rounds_runs(const struct RtRounds *p, int64_t step) { return round_of(p, step) != NULL; }

/* The i-th round in which rows of the exchange travel: which step's, and of which of the others. */
static const Round *nth_round(const RtAcross *a, const struct RtRounds *p, int64_t exchange, int64_t *i)
{
    for (int64_t k = 0; k < p->n_rounds; k++)
        for (int64_t m = 0; m < p->rounds[k].n_moved; m++) {
            if (p->rounds[k].moved[m] != exchange) continue;
            if (*i < a->r->n - 1) return &p->rounds[k];
            *i -= a->r->n - 1;
        }
    return NULL;
}

int64_t rt_rounds_of(const RtAcross *a, const struct RtRounds *p, int64_t exchange)
{
    int64_t n = 0;
    for (int64_t k = 0; k < p->n_rounds; k++)
        for (int64_t m = 0; m < p->rounds[k].n_moved; m++) n += p->rounds[k].moved[m] == exchange;
    return n * (a->r->n - 1);
}

/* In round k a process gets rows of the k-th behind it, and sends to the k-th before it. */
static int behind(const RtAcross *a, int64_t k) { return (int)((a->r->rank + k) % a->r->n); }
static int before(const RtAcross *a, int64_t k) { return (int)((a->r->rank + a->r->n - k) % a->r->n); }

int64_t rt_rounds_rows_to(const RtAcross *a, const struct RtRounds *p, int64_t exchange, int64_t round, int to)
{
    const Round *r = nth_round(a, p, exchange, &round);
    return to == before(a, round + 1) ? r->shards->ship.out_n[to] : 0;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

typedef struct Run {
    RtAcross *a;
    const struct RtRounds *p;
    const Round *r;
    const Shards *x;
    const RtStep *s;
    const RtExecStep *step;
    Room room;
    int64_t owned, there; /* rows of the step; rows of V that this process owns */
    int *flights;         /* [depth + 1][n_moved] */
} Run;

static int64_t slot_of(const Run *u, int64_t k) { return u->there + k % (1 + u->p->depth) * u->x->most; }

static RtCode begin_round(const Run *u, int64_t k, RtStatus *st)
{
    const RtRanks *r = u->a->r;
    const RtShip *s = &u->x->ship;
    int from = behind(u->a, k), to = before(u->a, k);
    int64_t n[2][RT_PEERS_MOST] = {{0}};
    const int64_t *out = s->out;
    for (int q = 0; q < to; q++) out += s->out_n[q];
    n[0][to] = s->out_n[to];
    n[1][from] = s->in_n[from];
    for (int64_t m = 0; m < u->r->n_moved; m++) {
        const RtExchange *x = &u->a->exchanges[u->r->moved[m]];
        char *rows = u->a->e->buffers[x->buffer];
        RtPeersRows o = {rows, out, n[0]}, i = {rows + slot_of(u, k) * x->row_bytes, NULL, n[1]};
        RT_TRY(rt_peers_predict(r->peers, x->site, n[0][to] * x->row_bytes, 1, st));
        int *flight = &u->flights[k % (1 + u->p->depth) * u->r->n_moved + m];
        RT_TRY(rt_peers_rows_begin(r->peers, x->site, x->row_bytes, &o, &i, flight, st));
    }
    return RT_OK;
}

static RtCode finish_round(const Run *u, int64_t k, RtStatus *st)
{
    for (int64_t m = 0; m < u->r->n_moved; m++)
        RT_TRY(rt_peers_finish(u->a->r->peers, u->flights[k % (1 + u->p->depth) * u->r->n_moved + m], st));
    return RT_OK;
}

/* Elements of the round, in the order of the walk: where they stand in it. */
static const int32_t *round_elements(const Run *u, int64_t k, int64_t *n)
{
    const int64_t *at = u->x->starts + behind(u->a, k);
    *n = at[1] - at[0];
    return u->x->order + at[0];
}

static void fill_rows(const Run *u, int64_t k)
{
    const int64_t *rows = u->a->r->graph->maps[u->s->under].rows;
    int64_t n, e = 0;
    const int32_t *at = round_elements(u, k, &n);
    for (int64_t i = 0; i <= u->owned; i++) {
        while (e < n && at[e] < rows[i]) e++;
        u->room.rows[i] = e;
    }
    assert(e == n);
}

/* Where the kernel finds the image of an element in this round. */
static int32_t image_at(const Run *u, int64_t k, int64_t element)
{
    int64_t row = u->a->r->graph->maps[u->x->image].to[element];
    return (int32_t)(row < u->there ? row : slot_of(u, k) + u->x->place[row - u->there]);
}

/* One array of elements of the round. */
static void fill_elements(const Run *u, int64_t k, int64_t buffer, int64_t each, char *out)
{
    const RtGraph *g = u->a->r->graph;
    const RtBuffer *b = across_buffer(u->a, buffer);
    const int32_t *list = u->a->e->model->maps[u->s->under].sorted ? NULL : g->maps[u->s->under].list;
    bool map = b->kind == RT_BUF_MAP_TO || b->kind == RT_BUF_MAP_ALONG;
    const char *from = u->a->e->buffers[buffer];
    int32_t *to = (int32_t *)(void *)out;
    int64_t n;
    const int32_t *at = round_elements(u, k, &n);
    for (int64_t i = 0; i < n; i++) {
        int64_t e = list ? list[at[i]] : at[i];
        if (b->kind == RT_BUF_MAP_LIST) to[i] = (int32_t)e;
        else if (map) to[i] = b->ref == u->x->image ? image_at(u, k, e) : g->maps[b->ref].to[e];
        else memcpy(out + i * each, from + e * each, (size_t)each);
    }
    if (map) memset(to + n, 0, BEHIND * sizeof *to);
}

/* What the kernel wrote of elements goes to where they lie. */
static void store_elements(const Run *u, int64_t k, int64_t buffer, int64_t each, const char *from)
{
    char *to = u->a->e->buffers[buffer];
    int64_t n;
    const int32_t *at = round_elements(u, k, &n);
    for (int64_t i = 0; i < n; i++) memcpy(to + at[i] * each, from + i * each, (size_t)each);
}

/* Owned rows of buffers that are copied, once. */
static void copy_owned(const Run *u)
{
    const RtCall *c = u->step->call;
    for (int64_t i = 0; i < c->n_args; i++) {
        const RtStepArg *arg = &u->a->e->model->step_args[c->first_arg + i];
        if (!arg->is_buffer || !is_copied(u->a, u->r, arg->buffer)) continue;
        int64_t bytes = u->there * across_row_bytes(u->a, arg->buffer);
        if (bytes) memcpy(u->room.at[i], u->a->e->buffers[arg->buffer], (size_t)bytes);
    }
}

/* Rows of the round, of a buffer that is all here. */
static void copy_rows(const Run *u, int64_t k, int64_t buffer, char *out)
{
    const RtRankSpace *s = &u->a->r->spaces[across_space(u->a, buffer)];
    int64_t w = across_row_bytes(u->a, buffer), n = u->a->r->graph->spaces[across_space(u->a, buffer)].count;
    const char *from = u->a->e->buffers[buffer];
    int q = behind(u->a, k);
    for (int64_t i = s->owned; i < n; i++)
        if (s->owner[i - s->owned] == q && u->x->place[i - s->owned] >= 0)
            memcpy(out + (slot_of(u, k) + u->x->place[i - s->owned]) * w, from + i * w, (size_t)w);
}

/* Arguments of the kernel in round k. */
static void fill_args(const Run *u, int64_t k)
{
    const RtModel *m = u->a->e->model;
    const RtCall *c = u->step->call;
    int64_t n;
    round_elements(u, k, &n);
    fill_rows(u, k);
    for (int64_t i = 0; i < c->n_args; i++) {
        const RtStepArg *arg = &m->step_args[c->first_arg + i];
        u->room.args[i] = u->step->args[i];
        bool elements = !arg->is_buffer && arg->count.kind == RT_COUNT_SPACE &&
                        arg->count.space == m->maps[u->s->under].from && arg->count.space != u->s->over;
        if (elements) u->room.args[i].i = n;
        if (!arg->is_buffer) continue;
        int64_t each = element_bytes(u->a, u->s, arg->buffer);
        if (across_buffer(u->a, arg->buffer)->kind == RT_BUF_MAP_ROWS) u->room.args[i].p = u->room.rows;
        if (each) fill_elements(u, k, arg->buffer, each, u->room.at[i]);
        else if (k && is_copied(u->a, u->r, arg->buffer)) copy_rows(u, k, arg->buffer, u->room.at[i]);
        else continue;
        u->room.args[i].p = u->room.at[i];
    }
}

static void run_rows(const RtArg *args, int64_t lo, int64_t hi)
{
    const RtExecStep *x = args[0].p;
    if (lo < hi) x->fn(args[1].p, lo, hi);
}

static void add_numbers(int64_t elem, int64_t n, const char *from, char *to)
{
    assert(elem == RT_K_F32 || elem == RT_K_F64);
    if (elem == RT_K_F32) {
        const float *x = (const float *)(const void *)from;
        float *sum = (float *)(void *)to;
        for (int64_t i = 0; i < n; i++) sum[i] += x[i];
        return;
    }
    const double *x = (const double *)(const void *)from;
    double *sum = (double *)(void *)to;
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* Sums of rows [lo, hi) from the room to those of the rounds before; or where the kernel writes them there. */
static void each_sum(const Run *u, int64_t lo, int64_t hi, bool add)
{
    const RtCall *c = u->step->call;
    for (int64_t i = 0; i < c->n_args; i++) {
        const RtStepArg *arg = &u->a->e->model->step_args[c->first_arg + i];
        if (!arg->is_buffer || !is_sum(u->a, u->r->step, arg->buffer)) continue;
        int64_t w = across_row_bytes(u->a, arg->buffer);
        const RtBuffer *b = across_buffer(u->a, arg->buffer);
        char *to = u->a->e->buffers[arg->buffer];
        if (add) add_numbers(b->elem, (hi - lo) * b->width, u->room.at[i], to + lo * w);
        else u->room.args[i].p = (void *)((uintptr_t)u->room.at[i] - (uintptr_t)(lo * w));
    }
}

static void run_block(const Run *u, int64_t lo, int64_t hi)
{
    enum { MOST = 64 };
    const RtArg args[2] = {{.p = (void *)(uintptr_t)u->step}, {.p = u->room.args}};
    RtPool *pool = u->a->e->options.pool;
    int64_t bounds[MOST + 1], n = 4 * (int64_t)rt_pool_threads(pool);
    n = n > MOST ? MOST : rt_pool_threads(pool) == 1 ? 1 : n;
    for (int64_t i = 0; i <= n; i++) bounds[i] = lo + (hi - lo) * i / n;
    rt_pool_run(pool, run_rows, args, bounds, NULL, n);
    rt_peers_progress(u->a->r->peers);
}

static void compute_round(const Run *u, int64_t k)
{
    int64_t n, most = block_rows(u->a, u->r->step);
    const RtCall *c = u->step->call;
    round_elements(u, k, &n);
    if (k && !n) return;
    fill_args(u, k);
    for (int64_t lo = 0; lo < u->owned; lo += most) {
        int64_t hi = lo + most < u->owned ? lo + most : u->owned;
        if (k && u->room.rows[hi] == u->room.rows[lo]) continue;
        if (k) each_sum(u, lo, hi, false);
        run_block(u, lo, hi);
        if (k) each_sum(u, lo, hi, true);
    }
    for (int64_t i = 0; i < c->n_args; i++) {
        const RtStepArg *arg = &u->a->e->model->step_args[c->first_arg + i];
        int64_t each = arg->is_buffer ? element_bytes(u->a, u->s, arg->buffer) : 0;
        if (each && touch_of(u->a, u->r->step, arg->buffer, true))
            store_elements(u, k, arg->buffer, each, u->room.at[i]);
    }
}

RtCode rt_rounds_run(RtAcross *a, const struct RtRounds *p, int64_t step, RtStatus *st)
{
    const Round *r = round_of(p, step);
    const Shards *x = r->shards;
    Run u = {.a = a, .p = p, .r = r, .x = x, .s = across_def(a, step), .step = &a->e->steps[step]};
    u.owned = a->r->spaces[u.s->over].owned;
    u.there = a->r->spaces[a->e->model->maps[x->image].to].owned;
    lay_out(a, p, r, across_room(a), &u.room);
    RT_TRY(rt_alloc(&u.flights, (1 + p->depth) * r->n_moved, sizeof *u.flights, what, st));
    RtCode code = RT_OK;
    for (int64_t k = 1; k <= 1 + p->depth && k < a->r->n && !code; k++) code = begin_round(&u, k, st);
    if (!code) {
        compute_round(&u, 0);
        copy_owned(&u);
    }
    for (int64_t k = 1; k < a->r->n && !code; k++) {
        code = finish_round(&u, k, st);
        if (!code) compute_round(&u, k);
        if (!code && k + 1 + p->depth < a->r->n) code = begin_round(&u, k + 1 + p->depth, st);
    }
    free(u.flights);
    return code;
}
