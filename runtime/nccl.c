/* Exchanges between devices by NCCL (see nccl.h). */
#include "runtime/nccl.h"
#include "runtime/clock.h"
#include "runtime/ranks.h"
#include <assert.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct RtNccl {
    RtNcclCalls calls;
    RtPeers *peers;
    RtCuda *device;
    void *comm, *done; /* an event behind the last exchange */
    bool flying;
    double most_s; /* of a wait */
    const RtStatus *run;
};

enum { NOT_READY = 600 /* of the driver: an event's work is not done */ };
static const double END_S = 5;

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void abort_all(RtNccl *x)
{
    if (x->comm) x->calls.abort(x->comm); /* ends what it runs on the device */
    x->comm = NULL;
    x->flying = false;
}

static RtCode failed(RtNccl *x, int error, const char *what, RtStatus *st)
{
    const char *why = x->calls.error_text(error);
    int rank = rt_peers_rank(x->peers);
    abort_all(x);
    return rt_fail(st, RT_E_NCCL_FAILED, NULL, NULL, "rank %d cannot %s: NCCL says %.200s (%d)", rank, what,
                   why ? why : "nothing", error);
}

/* A turn of a wait: whether all peers are there, and the deadline is not over. */
static RtCode look(RtNccl *x, double since, const char *what, RtStatus *st)
{
    RtCode code = rt_peers_look(x->peers, st);
    if (!code && rt_now_ns() - since > x->most_s * 1e9)
        code = rt_fail(st, RT_E_PEER_LATE, NULL, NULL, "rank %d cannot %s by NCCL within %g s: another does not answer",
                       rt_peers_rank(x->peers), what, x->most_s);
    if (code) abort_all(x);
    if (!code) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return code;
}

/* A call of NCCL that returned `error`, which may mean that it is not through. */
static RtCode finish(RtNccl *x, int error, const char *what, RtStatus *st)
{
    double since = rt_now_ns();
    while (error == RT_NCCL_IN_PROGRESS && x->comm) {
        RT_TRY(look(x, since, what, st));
        int asked = x->calls.async_error(x->comm, &error);
        if (asked) error = asked;
    }
    return error ? failed(x, error, what, st) : RT_OK;
}

RtCode rt_nccl_settle(RtNccl *x, RtStatus *st)
{
    double since = rt_now_ns();
    if (!x || !x->flying) return RT_OK;
    for (int ready; (ready = x->device->driver.event_query(x->done)) != 0;) {
        int error = 0, asked = x->calls.async_error(x->comm, &error);
        if (ready != NOT_READY)
            return rt_fail(st, RT_E_DEVICE_FAILED, x->device->name, NULL, "cannot exchange rows (%d)", ready);
        if (asked || (error && error != RT_NCCL_IN_PROGRESS))
            return failed(x, asked ? asked : error, "exchange rows", st);
        RT_TRY(look(x, since, "exchange rows", st));
    }
    x->flying = false;
    return RT_OK;
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

static RtCode load(RtNccl *x, RtStatus *st)
{
    static const struct {
        const char *name;
        size_t at; /* in RtNcclCalls */
    } calls[] = {
#define NCCL_CALL(type, field, symbol, parameters) {symbol, offsetof(RtNcclCalls, field)},
#include "runtime/nccl_calls.def"
#undef NCCL_CALL
    };
    const char *named = getenv("GNNC_NCCL"), *file = named ? named : "libnccl.so.2";
    int version = 0;
    if (x->device->driver.shim && !named)
        return rt_fail(st, RT_E_NCCL_OPEN, "--exchange", "run with --exchange host", "the shim is no device of NCCL's");
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL); /* it stays open until the program ends */
    if (!library) {
        const char *why = dlerror();
        return rt_fail(st, RT_E_NCCL_OPEN, file, NULL, "cannot be opened: %.200s", why ? why : "not found");
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(library, calls[i].name);
        memcpy((char *)&x->calls + calls[i].at, &call, sizeof call);
        if (!call) return rt_fail(st, RT_E_NCCL_OPEN, file, NULL, "it has no function %s", calls[i].name);
    }
    if (!x->calls.version(&version) && version >= RT_NCCL_OLDEST) return RT_OK;
    return rt_fail(st, RT_E_NCCL_OPEN, file, NULL, "it is version %d, wanted %d or newer", version, RT_NCCL_OLDEST);
}

static RtCode join(RtNccl *x, RtStatus *st)
{
    RtNcclId id = {{0}};
    int64_t bytes[RT_PEERS_MOST] = {sizeof id};
    int n = rt_peers_count(x->peers), rank = rt_peers_rank(x->peers);
    int error = rank ? 0 : x->calls.unique_id(&id);
    RtCode code = error ? failed(x, error, "begin", st) : RT_OK;
    RT_TRY(rt_peers_agree(x->peers, code, st));
    RT_TRY(rt_peers_gather(x->peers, RT_SITE_SETUP, &id, bytes, &id, st));
    RtNcclConfig config = rt_nccl_config();
    return finish(x, x->calls.init(&x->comm, n, id, rank, &config), "begin", st);
}

RtCode rt_nccl_open(RtPeers *peers, RtCuda *device, RtNccl **out, RtStatus *st)
{
    RtNccl *x;
    *out = NULL;
    RT_TRY(rt_alloc(&x, 1, sizeof *x, "exchanges between devices", st));
    *x = (RtNccl){.peers = peers, .device = device, .most_s = rt_peers_deadline(peers), .run = st};
    RtCode code = load(x, st);
    if (!code && device->driver.event_make(&x->done, 2)) /* without a time */
        code = rt_fail(st, RT_E_DEVICE_FAILED, device->name, NULL, "cannot make an event");
    code = rt_peers_agree(peers, code, st);
    if (!code) code = join(x, st);
    if (code) rt_nccl_close(x);
    else *out = x;
    return code;
}

void rt_nccl_close(RtNccl *x)
{
    RtStatus none = {0};
    if (!x) return;
    if (x->most_s > END_S) x->most_s = END_S;
    if (x->comm && !x->run->code && !rt_nccl_settle(x, &none) && !finish(x, x->calls.finalize(x->comm), "end", &none)) {
        x->calls.destroy(x->comm);
        x->comm = NULL;
    }
    abort_all(x);
    if (x->done) x->device->driver.event_free(x->done);
    free(x);
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

/* Calls inside of a group may be under way; its end says when all are through. */
static int not_yet_wrong(int error) { return error == RT_NCCL_IN_PROGRESS ? 0 : error; }

RtCode rt_nccl_exchange(RtNccl *x, RtCudaPtr out, const int64_t *out_bytes, RtCudaPtr in, const int64_t *in_bytes,
                        RtStatus *st)
{
    const RtCudaDriver *d = &x->device->driver;
    void *stream = x->device->stream;
    int n = rt_peers_count(x->peers);
    assert(x->comm && !out_bytes[rt_peers_rank(x->peers)] && !in_bytes[rt_peers_rank(x->peers)]);
    if (d->shim && d->stream_wait(stream)) /* what tests have in NCCL's place knows no streams */
        return rt_fail(st, RT_E_DEVICE_FAILED, x->device->name, NULL, "cannot run what was begun");
    int error = not_yet_wrong(x->calls.group_start());
    for (int q = 0; q < n && !error; out += (RtCudaPtr)out_bytes[q], in += (RtCudaPtr)in_bytes[q], q++) {
        void *from = (void *)(uintptr_t)out, *to = (void *)(uintptr_t)in;
        if (out_bytes[q])
            error = not_yet_wrong(x->calls.send(from, (size_t)out_bytes[q], RT_NCCL_BYTES, q, x->comm, stream));
        if (in_bytes[q] && !error)
            error = not_yet_wrong(x->calls.receive(to, (size_t)in_bytes[q], RT_NCCL_BYTES, q, x->comm, stream));
    }
    if (error) return failed(x, error, "exchange rows", st);
    RT_TRY(finish(x, x->calls.group_end(), "exchange rows", st));
    x->flying = true;
    if (!d->event_note(x->done, stream)) return RT_OK;
    return rt_fail(st, RT_E_DEVICE_FAILED, x->device->name, NULL, "cannot note what was begun");
}
