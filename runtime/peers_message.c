/* What messages between processes are made of (see peers_message.h): bytes that lie side by side, or rows of an array,
   which travel in pieces by way of memory of their own, so that no message of rows is ever laid out as a whole. */
#include "runtime/peers_message.h"
#include <assert.h>
#include <string.h>

enum { STAGE = 256 << 10 }; /* bytes of a message of rows that travel at a time; a multiple of 64 */

typedef uint64_t Lanes __attribute__((vector_size(16)));

/* ---- checksums ---- */

static Lanes lanes(const char *p)
{
    Lanes w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* As fast as memory is read. Pieces of a message but the last are blocks of 64 bytes. */
static void sum_add(RtSum *s, const char *p, int64_t n)
{
    Lanes of[8];
    memcpy(of, s->of, sizeof of);
    Lanes a = of[0], b = of[1], c = of[2], d = of[3], aa = of[4], bb = of[5], cc = of[6], dd = of[7];
    assert(s->n % 64 == 0);
    s->n += n;
    for (; n >= 64; n -= 64, p += 64) {
        a += lanes(p), b += lanes(p + 16), c += lanes(p + 32), d += lanes(p + 48);
        aa += a, bb += b, cc += c, dd += d;
    }
    if (n) memcpy(s->last, p, (size_t)n);
    memcpy(s->of, (Lanes[]){a, b, c, d, aa, bb, cc, dd}, sizeof s->of);
}

static uint64_t sum_end(RtSum *s)
{
    uint64_t words[16], all = (uint64_t)s->n;
    s->n = 0;
    sum_add(s, s->last, 64);
    memcpy(words, s->of, sizeof words);
    for (int i = 0; i < 16; i++) all = (all ^ words[i]) * 0x9e3779b97f4a7c15 + (all >> 29);
    return all;
}

uint64_t rt_message_checksum(const void *bytes, int64_t n)
{
    RtSum s = {0};
    sum_add(&s, bytes, n);
    return sum_end(&s);
}

/* ---- rows ---- */

/* Bytes [from, from + n) of rows one behind another: from their array to a stage, or back. */
static void rows_copy(const RtMessage *m, int64_t from, int64_t n, char *stage, bool out)
{
    int64_t k = from / m->row_bytes, skip = from % m->row_bytes;
    assert(from >= 0 && from + n <= m->bytes);
    for (; n; k++, skip = 0) {
        char *row = m->p + m->rows[k] * m->row_bytes + skip;
        int64_t some = m->row_bytes - skip < n ? m->row_bytes - skip : n;
        memcpy(out ? stage : row, out ? row : stage, (size_t)some);
        stage += some;
        n -= some;
    }
}

uint64_t rt_message_sum(const RtMessage *m)
{
    char piece[4096];
    RtSum s = {0};
    if (!m->rows) return rt_message_checksum(m->p, m->bytes);
    for (int64_t at = 0, n; at < m->bytes; at += n) {
        n = m->bytes - at < (int64_t)sizeof piece ? m->bytes - at : (int64_t)sizeof piece;
        rows_copy(m, at, n, piece, true);
        sum_add(&s, piece, n);
    }
    return sum_end(&s);
}

/* ---- pieces ---- */

int64_t rt_peers_stage_bytes(int64_t message_bytes) { return message_bytes < STAGE ? message_bytes : STAGE; }

RtCode rt_piece_next(RtPiece *s, const RtMessage *m, RtMove *move, RtStatus *st)
{
    int64_t left = m->bytes - s->at;
    assert(left > 0);
    if (!s->at) s->sum = (RtSum){0};
    s->n = m->row_bytes ? rt_peers_stage_bytes(left) : left;
    if (m->rows && s->n > s->room) {
        RT_TRY(rt_grow(&s->p, s->n, 1, "messages between processes", st));
        s->room = s->n;
    }
    *move = (RtMove){m->rows ? s->p : m->p + s->at, s->n};
    s->at += s->n;
    return RT_OK;
}

RtCode rt_piece_send(RtPiece *s, const RtMessage *m, RtMove *move, RtStatus *st)
{
    RT_TRY(rt_piece_next(s, m, move, st));
    if (m->rows) rows_copy(m, s->at - s->n, s->n, s->p, true);
    return RT_OK;
}

void rt_piece_take(RtPiece *s, const RtMessage *m)
{
    assert(s->n > 0 && s->at <= m->bytes);
    sum_add(&s->sum, m->rows ? s->p : m->p + s->at - s->n, s->n);
    if (m->rows) rows_copy(m, s->at - s->n, s->n, s->p, false);
}

uint64_t rt_piece_sum(RtPiece *s) { return sum_end(&s->sum); }
