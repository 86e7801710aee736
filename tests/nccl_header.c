/* Holds what runtime/nccl.h says of NCCL against NCCL's own header: each call is made with its types, and numbers and
   fields are compared. Compiled where there is such a header; what it returns is how many differ. It calls nothing. */
#include "runtime/nccl.h"
#include <nccl.h>
#include <string.h>

static int version(int *v) { return ncclGetVersion(v); }
static const char *error_text(int e) { return ncclGetErrorString((ncclResult_t)e); }
static int unique_id(RtNcclId *id) { return ncclGetUniqueId((ncclUniqueId *)id); }
static int init(void **comm, int n, RtNcclId id, int rank, RtNcclConfig *config)
{
    ncclUniqueId own;
    memcpy(&own, &id, sizeof own);
    return ncclCommInitRankConfig((ncclComm_t *)comm, n, own, rank, (ncclConfig_t *)config);
}
static int async_error(void *comm, int *e) { return ncclCommGetAsyncError(comm, (ncclResult_t *)e); }
static int finalize(void *comm) { return ncclCommFinalize(comm); }
static int destroy(void *comm) { return ncclCommDestroy(comm); }
static int abort_comm(void *comm) { return ncclCommAbort(comm); }
static int group_start(void) { return ncclGroupStart(); }
static int group_end(void) { return ncclGroupEnd(); }
static int send(const void *p, size_t n, int type, int peer, void *comm, void *stream)
{
    return ncclSend(p, n, (ncclDataType_t)type, peer, comm, stream);
}
static int receive(void *p, size_t n, int type, int peer, void *comm, void *stream)
{
    return ncclRecv(p, n, (ncclDataType_t)type, peer, comm, stream);
}

_Static_assert(sizeof(RtNcclId) == sizeof(ncclUniqueId), "the id");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int), "numbers");
_Static_assert((int)RT_NCCL_IN_PROGRESS == (int)ncclInProgress && (int)RT_NCCL_BYTES == (int)ncclUint8 && !ncclSuccess,
               "numbers");
_Static_assert(offsetof(RtNcclConfig, magic) == offsetof(ncclConfig_t, magic), "magic");
_Static_assert(offsetof(RtNcclConfig, version) == offsetof(ncclConfig_t, version), "version");
_Static_assert(offsetof(RtNcclConfig, blocking) == offsetof(ncclConfig_t, blocking), "blocking");
_Static_assert(sizeof(RtNcclConfig) <= sizeof(ncclConfig_t), "NCCL has what we name");

int main(void)
{
    /* in the order of nccl_calls.def */
    static const RtNcclCalls calls = {version, error_text, unique_id,   init,      async_error, finalize,
                                      destroy, abort_comm, group_start, group_end, send,        receive};
    ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
    RtNcclConfig ours = rt_nccl_config();
    return !calls.version + (ours.magic != theirs.magic) + (ours.version > theirs.version);
}
