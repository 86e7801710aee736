/* Stands in for the driver of NVIDIA GPUs as far as the load of a program's kernels, which it always refuses: 209, for
   machine code of a GPU, or 218, for PTX, so that a test sees what the program chose; 200 for anything else. */
#include <string.h>

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int n, int device) { return (void)device, strncpy(name, "fake", (unsigned)n), 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }

int cuDeviceGetCount(int *n) { return *n = 1, 0; }

/* 75: of the compute capability 8.0, which any build is for by default; else large */
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    return (void)device, *value = attribute == 75 ? 8 : attribute == 76 ? 0 : 1 << 17, 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    const char *text = image;
    *module = 0;
    if (!memcmp(text, "\177ELF", 4)) return 209;
    return !memcmp(text, "//", 2) ? 218 : 200;
}

#define NOTHING(name)                                                                                                  \
    int name(void) { return 0; }
NOTHING(cuInit)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxSetCurrent)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuDevicePrimaryCtxRetain)
NOTHING(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventQuery)
NOTHING(cuEventRecord)
NOTHING(cuFuncSetAttribute)
NOTHING(cuGetErrorString)
NOTHING(cuGraphDestroy)
NOTHING(cuGraphExecDestroy)
NOTHING(cuGraphInstantiateWithFlags)
NOTHING(cuGraphLaunch)
NOTHING(cuLaunchKernel)
NOTHING(cuMemAllocHost_v2)
NOTHING(cuMemAlloc_v2)
NOTHING(cuMemFreeHost)
NOTHING(cuMemFree_v2)
NOTHING(cuMemGetInfo_v2)
NOTHING(cuMemcpyDtoDAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyDtoH_v2)
NOTHING(cuMemcpyHtoD_v2)
NOTHING(cuMemsetD32Async)
NOTHING(cuMemsetD8_v2)
NOTHING(cuModuleGetFunction)
NOTHING(cuModuleUnload)
NOTHING(cuPointerGetAttribute)
NOTHING(cuStreamBeginCapture_v2)
NOTHING(cuStreamCreate)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamEndCapture)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamWaitEvent)
