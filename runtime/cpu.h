/* Which kernel variants this CPU can run. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"

int rt_cpu_best(void);                /* RT_GENERIC, RT_AVX2 or RT_AVX512 */
const char *rt_cpu_name(int variant); /* "generic", "avx2", "avx512" */
/* By name, "auto" for the best. CLI_VALUE if unknown or more than this CPU has. */
RtCode rt_cpu_parse(const char *name, int *variant, RtStatus *st);
