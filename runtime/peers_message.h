/* Messages between processes: what one is made of, the pieces in which it travels, and its checksum (see peers.c). */
#pragma once
#include "runtime/peers_transport.h"

typedef struct RtMessage { /* all of it, to one process or from it */
    char *p;               /* its bytes; or the array, of which it is rows */
    int64_t bytes;
    const int64_t *rows; /* one behind another; NULL: the bytes lie side by side */
    int64_t row_bytes;   /* 0: no rows; also where they lie side by side here, and do not at the other end */
} RtMessage;

typedef struct RtSum { /* of bytes: of their words in 8 lanes, and of these sums, so that order counts */
    uint64_t of[8][2];
    char last[64]; /* what is no block of 64 bytes */
    int64_t n;
} RtSum;

typedef struct RtPiece {
    char *p; /* [room] the rows of a piece; freed by who has it */
    int64_t room;
    int64_t at, n; /* bytes of the message behind the piece that travels; of that piece */
    RtSum sum;     /* of what came */
} RtPiece;

uint64_t rt_message_checksum(const void *bytes, int64_t n);
uint64_t rt_message_sum(const RtMessage *m); /* the checksum of a message that is sent */

/* *move: the next bytes of a message, all, or a piece of its rows, by way of memory of its own unless they lie side by
   side. Both ends cut a message at the same places. s->at is 0 before the first. */
RtCode rt_piece_next(RtPiece *s, const RtMessage *m, RtMove *move, RtStatus *st);
RtCode rt_piece_send(RtPiece *s, const RtMessage *m, RtMove *move,
                     RtStatus *st);                 /* the same, with the bytes to be sent */
void rt_piece_take(RtPiece *s, const RtMessage *m); /* the piece has come: its bytes go where they belong */
uint64_t rt_piece_sum(RtPiece *s);                  /* once the last has come: the checksum of all */
