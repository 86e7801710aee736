/* A driver whose device is this CPU (see cuda.h): what tests run the emitted CUDA text with. Its memory is not the
   host's, so that a copy that was forgotten shows. One device, and one model at a time. */
#include "runtime/available.h"
#include "runtime/cuda.h"
#include "runtime/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500 }; /* as in the driver's header */
enum { VERSION = 13000, MAJOR = 75, MINOR = 76, SHARED = 97 };
enum { MOST_THREADS = 1024, SHARED_UNASKED = 48 << 10, DYNAMIC_SHARED = 8 };

static struct {
    const RtModel *model;
    int64_t *shared; /* [n_device_kernels] bytes that each may have */
    RtBlock memory;
} shim;

static int init(unsigned flags) { return flags ? INVALID_VALUE : OK; }

static int version(int *v)
{
    *v = VERSION;
    return OK;
}

static int device_count(int *n)
{
    *n = 1;
    return OK;
}

static int device_get(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? INVALID_VALUE : OK;
}

static int device_name(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "shim");
    return device ? INVALID_VALUE : OK;
}

static int device_attribute(int *value, int attribute, int device)
{
    *value = attribute == MAJOR ? 9 : attribute == MINOR ? 0 : attribute == SHARED ? RT_CUDA_SHARED : -1;
    return device || *value < 0 ? INVALID_VALUE : OK;
}

static int context_retain(void **context, int device)
{
    *context = &shim;
    return device ? INVALID_VALUE : OK;
}

static int context_release(int device) { return device ? INVALID_VALUE : OK; }

static int context_set(void *context) { return context == &shim ? OK : INVALID_VALUE; }

static int memory_info(size_t *left, size_t *total)
{
    *left = *total = (size_t)rt_available();
    return OK;
}

static int memory_take(RtCudaPtr *p, size_t bytes)
{
    if (shim.memory.p || rt_block_alloc(&shim.memory, (int64_t)bytes, "the memory of the shim", NULL))
        return OUT_OF_MEMORY;
    *p = (RtCudaPtr)(uintptr_t)shim.memory.p;
    return OK;
}

static int memory_free(RtCudaPtr p)
{
    if (!p || p != (RtCudaPtr)(uintptr_t)shim.memory.p) return INVALID_VALUE;
    rt_block_free(&shim.memory);
    return OK;
}

/* Where so many bytes of the device's memory lie here; NULL: they are not all in it. */
static void *inside(RtCudaPtr p, size_t bytes)
{
    RtCudaPtr first = (RtCudaPtr)(uintptr_t)shim.memory.p;
    bool good = first && p >= first && bytes <= shim.memory.bytes && p - first <= shim.memory.bytes - bytes;
    return good ? (char *)shim.memory.p + (p - first) : NULL;
}

static int memory_fill(RtCudaPtr p, unsigned char value, size_t bytes)
{
    void *at = inside(p, bytes);
    if (at) memset(at, value, bytes);
    return at ? OK : INVALID_VALUE;
}

static int to_device(RtCudaPtr to, const void *from, size_t bytes)
{
    void *at = inside(to, bytes);
    if (at) memcpy(at, from, bytes);
    return at ? OK : INVALID_VALUE;
}

static int to_host(void *to, RtCudaPtr from, size_t bytes)
{
    const void *at = inside(from, bytes);
    if (at) memcpy(to, at, bytes);
    return at ? OK : INVALID_VALUE;
}

static int move(RtCudaPtr to, RtCudaPtr from, size_t bytes, void *stream)
{
    void *a = inside(to, bytes), *b = inside(from, bytes);
    if (!a || !b || stream != &shim) return INVALID_VALUE;
    memmove(a, b, bytes);
    return OK;
}

static int module_load(void **module, const void *image)
{
    shim.model = image; /* the model: its kernels are linked in */
    *module = &shim;
    return rt_alloc(&shim.shared, shim.model->n_device_kernels, sizeof *shim.shared, "the shim", NULL) ? OUT_OF_MEMORY
                                                                                                       : OK;
}

static int module_free(void *module)
{
    free(shim.shared);
    shim.shared = NULL;
    return module == &shim ? OK : INVALID_VALUE;
}

static int function(void **f, void *module, const char *name)
{
    const RtModel *m = shim.model;
    for (int64_t i = 0; module == &shim && i < m->n_device_kernels; i++)
        if (!strcmp(name, rt_string(m, m->device_kernels[i].name))) {
            *f = &shim.shared[i];
            shim.shared[i] = SHARED_UNASKED;
            return OK;
        }
    return NOT_FOUND;
}

static int function_attribute(void *f, int attribute, int value)
{
    if (attribute != DYNAMIC_SHARED || value > RT_CUDA_SHARED) return INVALID_VALUE;
    *(int64_t *)f = value;
    return OK;
}

static int stream_make(void **stream, unsigned flags)
{
    *stream = &shim;
    return flags ? INVALID_VALUE : OK;
}

static int stream_free(void *stream) { return stream == &shim ? OK : INVALID_VALUE; }

static int stream_wait(void *stream) { return stream == &shim ? OK : INVALID_VALUE; }

static int launch(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared_bytes, void *stream, void **params, void **extra)
{
    bool flat = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
    if (!f || !flat || !grid_x || !block_x || block_x > MOST_THREADS || stream != &shim || extra ||
        shared_bytes > *(int64_t *)f)
        return INVALID_VALUE;
    const RtDeviceKernel *k = &shim.model->device_kernels[(int64_t *)f - shim.shared];
    return shim.model->shim(rt_string(shim.model, k->name), params, grid_x, block_x, shared_bytes) ? NOT_FOUND : OK;
}

static int error_text(int error, const char **text)
{
    *text = error == OUT_OF_MEMORY ? "out of memory" : error == NOT_FOUND ? "not found" : "invalid value";
    return OK;
}

const RtCudaDriver rt_cuda_shim = {
#define CUDA_CALL(field, symbol, parameters) .field = field,
#include "runtime/cuda_calls.def"
#undef CUDA_CALL
};
