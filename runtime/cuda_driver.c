/* Opens the driver of NVIDIA GPUs, and cuBLAS, where a run asks for them (see cuda.h). Libraries are linked without
   this file. */
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
        bool optional;
    } calls[] = {
#define CUDA_CALL(field, symbol, parameters)     {symbol, offsetof(RtCudaDriver, field), false},
#define CUDA_MAY_CALL(field, symbol, parameters) {symbol, offsetof(RtCudaDriver, field), true},
#include "runtime/cuda_calls.def"
#undef CUDA_CALL
    };
    void *library = NULL;
    *d = (RtCudaDriver){0};
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return rt_fail(st, RT_E_DEVICE_DRIVER, files[0], NULL, "cannot be opened: %.200s", why ? why : "not found");
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) { /* the library stays open until the program ends */
        void *call = dlsym(library, calls[i].name);
        if (!call && !calls[i].optional)
            return rt_fail(st, RT_E_DEVICE_OLD, files[0], NULL, "the driver has no function %s", calls[i].name);
        memcpy((char *)d + calls[i].at, &call, sizeof call);
    }
    return RT_OK;
}

RtCode rt_cuda_blas_open(RtCuda *c, RtStatus *st)
{
    static const char *const files[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    static const struct {
        const char *name;
        size_t at; /* in RtCudaBlas */
    } calls[] = {{"cublasCreate_v2", offsetof(RtCudaBlas, create)},
                 {"cublasDestroy_v2", offsetof(RtCudaBlas, destroy)},
                 {"cublasSetStream_v2", offsetof(RtCudaBlas, set_stream)},
                 {"cublasGemmStridedBatchedEx", offsetof(RtCudaBlas, gemm)}};
    void *library = NULL;
    int error = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files && !library; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && whole; i++) { /* it stays open until the program ends */
        void *call = dlsym(library, calls[i].name);
        memcpy((char *)&c->blas + calls[i].at, &call, sizeof call);
        whole = call != NULL;
    }
    if (!whole)
        return rt_fail(st, RT_E_CLI_VALUE, "--blas on",
                       "install cuBLAS, which the CUDA toolkit brings, or leave the flag out",
                       "libcublas.so.13 and .12 cannot be opened");
    if (!(error = c->blas.create(&c->blas.handle))) error = c->blas.set_stream(c->blas.handle, c->stream);
    if (!error) return RT_OK;
    return rt_fail(st, RT_E_DEVICE_FAILED, c->name, NULL, "cuBLAS does not start: its status is %d", error);
}
