/* Opens the driver of NVIDIA GPUs where a run asks for one (see cuda.h). */
#include "runtime/cuda.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int rt_open_cuda(void *driver, void *status) { return (int)rt_cuda_driver(driver, status); }

RtCode rt_cuda_driver(RtCudaDriver *d, RtStatus *st)
{
    static const char *const files[] = {"libcuda.so.1", "libcuda.so"};
    static const struct {
        const char *name;
        size_t at; /* in RtCudaDriver */
    } calls[] = {
#define CUDA_CALL(field, symbol, parameters) {symbol, offsetof(RtCudaDriver, field)},
#include "runtime/cuda_calls.def"
#undef CUDA_CALL
    };
    void *library = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return rt_fail(st, RT_E_DEVICE_DRIVER, files[0], NULL, "cannot be opened: %.200s", why ? why : "not found");
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) { /* the library stays open until the program ends */
        void *call = dlsym(library, calls[i].name);
        if (!call) return rt_fail(st, RT_E_DEVICE_OLD, files[0], NULL, "the driver has no function %s", calls[i].name);
        memcpy((char *)d + calls[i].at, &call, sizeof call);
    }
    return RT_OK;
}
