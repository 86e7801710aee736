/* NCCL: bytes from one process's device to another's, without the host's memory between. Its library is opened while
   the program runs, as the driver is (cuda.h), and nothing of it is needed to build. Processes that compute together
   (peers.h) find each other as they do anyway, and send the number by which NCCL knows them over what they talk by. No
   wait is without an end: NCCL is asked to return at once, and is aborted where a process is lost or nothing comes
   until the deadline. */
#pragma once
#include "runtime/cuda.h"
#include "runtime/peers.h"

typedef struct RtNcclId {
    char bytes[128];
} RtNcclId;
typedef struct RtNcclConfig { /* its first fields, those that NCCL 2.14 has */
    size_t size;
    unsigned magic, version;
    int blocking;
} RtNcclConfig;
enum { RT_NCCL_OLDEST = 21400, RT_NCCL_IN_PROGRESS = 7, RT_NCCL_BYTES = 1 /* its type uint8 */ };
/* Calls return before they are through. */
static inline RtNcclConfig rt_nccl_config(void)
{
    return (RtNcclConfig){sizeof(RtNcclConfig), 0xcafebeef, RT_NCCL_OLDEST, 0};
}

typedef struct RtNcclCalls {
#define NCCL_CALL(type, field, symbol, parameters) type(*field) parameters;
#include "runtime/nccl_calls.def"
#undef NCCL_CALL
} RtNcclCalls;

typedef struct RtNccl RtNccl;
/* All processes call it, each with its device, which is no other's. *st is that of the whole run, and is asked for at
   the end.
   NCCL_OPEN: there is no library, or an old one; NCCL_FAILED. */
RtCode rt_nccl_open(RtPeers *peers, RtCuda *device, RtNccl **x, RtStatus *st);
/* Behind what the device's stream has: out_bytes[q] bytes to each process q, from `out` at the running sum, in_bytes[q]
   from each. All call it together, each pair with the same number of bytes. Nothing is copied for the process
   itself. */
RtCode rt_nccl_exchange(RtNccl *x, RtCudaPtr out, const int64_t *out_bytes, RtCudaPtr in, const int64_t *in_bytes,
                        RtStatus *st);
/* Until exchanges are over: who waits for the device in another way might wait for ever. Does nothing for NULL.
   PEER_LOST, PEER_LATE, NCCL_FAILED. */
RtCode rt_nccl_settle(RtNccl *x, RtStatus *st);
/* Ends the communicator. After a run without failure all processes call it together, and it waits for exchanges under
   way; after a failure it aborts them. */
void rt_nccl_close(RtNccl *x);
