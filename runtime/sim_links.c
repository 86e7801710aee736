/* Messages over shared links (see sim.h). A link is a queue: what it carries is through when the sum of it is, whatever
   the order inside; so an exchange takes one walk over its messages to fill the links and one to see when they
   arrive. */
#include "runtime/sim.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct RtSimBegin {
    double at;
    int rank;
    int64_t first, n; /* its messages */
} RtSimBegin;

RtCode rt_sim_links_create(const RtSimTopology *t, int n, RtSimLinks *l, RtStatus *st)
{
    int64_t each = (int64_t)t->n_levels * n;
    *l = (RtSimLinks){.topology = t, .n = n};
    int64_t numbers = rt_size_plus(t->n_levels, 4, each);
    RT_TRY(rt_block_alloc(&l->block, rt_size_plus(rt_size(numbers, sizeof(double)), n, sizeof(RtSimBegin)),
                          "simulated links", st));
    l->out_free = l->block.p;
    l->in_free = l->out_free + each;
    l->out_done = l->in_free + each;
    l->in_done = l->out_done + each;
    l->bytes = l->in_done + each;
    l->begins = (RtSimBegin *)(void *)(l->bytes + t->n_levels);
    return RT_OK;
}

void rt_sim_links_free(RtSimLinks *l)
{
    if (!l) return;
    rt_block_free(&l->block);
    *l = (RtSimLinks){0};
}

static int64_t link_of(const RtSimLinks *l, int level, int rank)
{
    return (int64_t)level * l->n + rank / l->topology->levels[level].shared_by;
}

static int earlier(const void *a, const void *b)
{
    const RtSimBegin *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void sort_begins(RtSimLinks *l, const RtSimMessage *m, int64_t n_messages, const double *start)
{
    int64_t at = 0;
    for (int r = 0; r < l->n; r++) {
        l->begins[r] = (RtSimBegin){start[r], r, at, 0};
        while (at < n_messages && m[at].from == r) at++;
        l->begins[r].n = at - l->begins[r].first;
    }
    assert(at == n_messages);
    qsort(l->begins, (size_t)l->n, sizeof *l->begins, earlier);
}

/* The link is given work at a moment; it begins when it has done what it was given before. */
static void give(double *done, double begin, double seconds)
{
    if (seconds > 0) *done = fmax(*done, begin) + seconds;
}

static void give_messages(RtSimLinks *l, const RtSimMessage *m, const RtSimBegin *b)
{
    for (int64_t i = b->first; i < b->first + b->n; i++) {
        assert(m[i].from != m[i].to && m[i].bytes >= 0);
        int j = rt_sim_level(l->topology, m[i].from, m[i].to);
        const RtSimLevel *level = &l->topology->levels[j];
        double s = m[i].bytes / level->bytes_per_s + level->message_s;
        give(&l->out_done[link_of(l, j, m[i].from)], b->at, s);
        give(&l->in_done[link_of(l, j, m[i].to)], b->at, s);
        l->bytes[j] += m[i].bytes;
    }
}

void rt_sim_exchange(RtSimLinks *l, const RtSimMessage *m, int64_t n_messages, bool waits, const double *start,
                     double *finish)
{
    size_t all = (size_t)l->topology->n_levels * (size_t)l->n * sizeof(double);
    for (int q = 0; q < l->n; q++) finish[q] = start[q];
    memcpy(l->out_done, l->out_free, all);
    memcpy(l->in_done, l->in_free, all);
    sort_begins(l, m, n_messages, start);
    for (int r = 0; r < l->n; r++) give_messages(l, m, &l->begins[r]);
    for (int64_t i = 0; i < n_messages; i++) {
        int j = rt_sim_level(l->topology, m[i].from, m[i].to);
        double sent = l->out_done[link_of(l, j, m[i].from)], came = l->in_done[link_of(l, j, m[i].to)];
        finish[m[i].to] = fmax(finish[m[i].to], fmax(sent, came) + l->topology->levels[j].alpha_s);
        if (waits) finish[m[i].from] = fmax(finish[m[i].from], sent);
    }
    memcpy(l->out_free, l->out_done, all);
    memcpy(l->in_free, l->in_done, all);
    l->messages += n_messages;
}
