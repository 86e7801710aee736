/* What a process takes besides planned memory, tensors and the graph, so that it has its part of them (see ranks.h). */
#include "runtime/ranks_part.h"

static int64_t ship_bytes(const RtShip *s) { return (int64_t)s->block.bytes; }

int64_t rt_ranks_bytes(const RtRanks *r)
{
    int64_t bytes = 0;
    for (int64_t s = 0; s < r->model->n_spaces; s++) {
        for (int i = 0; i < 4; i++) bytes += (int64_t)r->spaces[s].blocks[i].bytes;
        bytes += (int64_t)r->ids[s].bytes;
    }
    bytes += rt_part_bytes(r->part) + rt_reach_bytes(r) + rt_shards_bytes(r);
    for (const RtTotalShip *t = r->totals; t; t = t->next) bytes += ship_bytes(&t->ship);
    return bytes;
}

static void add_divided(const RtAcross *a, const RtDivided *d, RtAcrossBytes *out)
{
    out->tables += ship_bytes(&d->rows);
    for (int64_t i = 0; d->images && i < a->e->model->n_maps; i++) out->tables += ship_bytes(&d->images[i]);
    for (int64_t i = 0; i < d->n_blocks; i++) out->tables += (int64_t)d->blocks[i].bytes;
    for (int64_t i = 0; i < d->n_sent; i++)
        out->once += d->sent[i].once && !d->sent[i].of ? rt_sent_bytes(&d->sent[i]) : 0;
    for (int64_t i = 0; i < d->n_returned; i++) out->once += d->returned[i].of ? 0 : rt_sent_bytes(&d->returned[i]);
}

/* most[]: bytes of the largest message to process q, and from it. */
static void add_message(const RtShip *s, int64_t row_bytes, int q, int64_t most[2])
{
    int64_t bytes[] = {rt_size(s->out_n[q], row_bytes), rt_size(s->in_n[q], row_bytes)};
    for (int i = 0; i < 2; i++) most[i] = bytes[i] > most[i] ? bytes[i] : most[i];
}

/* By way of which rows travel, to each process and from each. */
static int64_t stages(const RtAcross *a)
{
    int64_t sum = 0;
    for (int q = 0; q < a->r->n; q++) {
        int64_t most[2] = {0};
        if (q == a->r->rank) continue;
        for (int64_t i = 0; i < a->n_exchanges; i++)
            add_message(&a->exchanges[i].ship, a->exchanges[i].row_bytes, q, most);
        for (int64_t i = 0; i < a->n_divided; i++) {
            const RtDivided *d = &a->divided[i];
            for (int64_t k = 0; k < d->n_sent; k++)
                if (!d->sent[k].of) add_message(d->sent[k].ship, d->sent[k].row_bytes, q, most);
            for (int64_t k = 0; k < d->n_returned; k++) add_message(&d->back, d->returned[k].row_bytes, q, most);
        }
        sum += rt_peers_stage_bytes(most[0]) + rt_peers_stage_bytes(most[1]);
    }
    return sum;
}

void rt_across_bytes(const RtAcross *a, RtAcrossBytes *out)
{
    *out = (RtAcrossBytes){.room = a->room_bytes + stages(a), .operands = a->operand_bytes};
    rt_staging_bytes(a, &out->staged, &out->device);
    for (int64_t i = 0; i < a->n_exchanges; i++) out->tables += ship_bytes(&a->exchanges[i].ship);
    for (int64_t i = 0; i < a->n_divided; i++) add_divided(a, &a->divided[i], out);
    for (int64_t b = 0; b < a->e->program->n_buffers; b++) {
        const RtBuffer *x = across_buffer(a, b);
        if (x->kind != RT_BUF_STRIP || a->staging) continue;
        out->tables += rt_count_value(a->e->graph, &x->rows, RT_READ) * across_row_bytes(a, b);
    }
}
