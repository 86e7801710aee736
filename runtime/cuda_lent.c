/* A device for a library: the caller's thread, stream and memory on the device (see cuda.h). Nothing waits for the
   device here, but where memory is taken or filled. */
#include "runtime/cuda.h"

enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9 /* attributes of pointers */, HOST = 1, ALIGNED = 16 };

static RtCode failed(RtCuda *c, int error, const char *what, RtStatus *st)
{
    const char *why = NULL;
    if (!error) return RT_OK;
    if (c->driver.error_text(error, &why) || !why) why = "no reason is known";
    return rt_fail(st, RT_E_DEVICE_FAILED, c->name, NULL, "cannot %s: %.200s (%d)", what, why, error);
}

RtCode rt_cuda_lend(const RtModel *m, const RtGraph *g, const char *programs, int64_t ordinal, void *stream, RtCuda **c,
                    RtStatus *st)
{
    RtCudaDriver d;
    void *before = NULL;
    *c = NULL;
    if (!m->driver)
        return rt_fail(st, RT_E_DEVICE_REFUSED, rt_string(m, m->name), "build it with gnnc build --target cuda",
                       "the library was built for CPUs alone");
    RtCode code = (RtCode)m->driver(&d, st);
    if (code) return code;
    bool entered = !d.init(0) && !d.context_get(&before);
    code = rt_cuda_create(m->device, &d, ordinal, c, st);
    if (!code) {
        (*c)->stream = stream;
        code = rt_cuda_load(*c, g, programs, true, NULL, st);
    }
    if (!code) code = rt_cuda_settle(*c, st);
    if (code) {
        rt_cuda_free(*c);
        *c = NULL;
    }
    if (entered) d.context_set(before);
    return code;
}

RtCode rt_cuda_enter(RtCuda *c, void **before, RtStatus *st)
{
    int error = c->driver.context_get(before);
    if (!error) error = c->driver.context_set(c->context);
    return failed(c, error, "go to the device", st);
}

void rt_cuda_leave(RtCuda *c, void *before) { c->driver.context_set(before); }

RtCode rt_cuda_check(RtCuda *c, const void *p, const char *what, RtStatus *st)
{
    int type = 0, ordinal = -1;
    if (!p) return RT_OK;
    RtCudaPtr at = (RtCudaPtr)(uintptr_t)p;
    if (at % ALIGNED)
        return rt_fail(st, RT_E_MODEL_ARGUMENT, what, NULL, "found the address %p, wanted one aligned to %d bytes", p,
                       ALIGNED);
    int error = c->driver.pointer(&type, MEMORY_TYPE, at); /* memory that the driver does not know is an error */
    if (!error) error = c->driver.pointer(&ordinal, DEVICE_ORDINAL, at);
    if (!error && type != HOST && ordinal == c->device) return RT_OK;
    if (error || type == HOST)
        return rt_fail(st, RT_E_MODEL_ARGUMENT, what, "copy it to the device first",
                       "found memory of the host at %p, wanted memory of device %d", p, c->device);
    return rt_fail(st, RT_E_MODEL_ARGUMENT, what, "make the context on the device where the tensors are",
                   "found memory of device %d, wanted memory of device %d", ordinal, c->device);
}

RtCode rt_cuda_settle(RtCuda *c, RtStatus *st)
{
    return failed(c, c->driver.stream_wait(NULL), "copy to the device", st);
}

RtCode rt_cuda_turn_to(RtCuda *c, void *stream, RtStatus *st)
{
    int error = c->driver.event_note(c->forked, c->stream);
    if (!error) error = c->driver.stream_follow(stream, c->forked, 0);
    if (!error) c->stream = stream;
    return failed(c, error, "follow the old stream", st);
}
