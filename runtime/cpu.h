/* Which kernel variants this CPU can run. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"

int rt_cpu_best(void);                /* RT_GENERIC, RT_AVX2 or RT_AVX512 */
const char *rt_cpu_name(int variant); /* "generic", "avx2", "avx512" */
/* For executables and the compiler; a library never reads the environment (runtime/cpu_choice.c). The best variant of
   this CPU, at most what the variable GNNC_CPU names, so that a better machine can be taken for a lesser one. CLI_VALUE
   if it names none. */
RtCode rt_cpu_allowed(int *variant, RtStatus *st);
/* By name, "auto" for the best that is allowed. CLI_VALUE if unknown or more than that. */
RtCode rt_cpu_parse(const char *name, int *variant, RtStatus *st);
/* Bytes of the first core's cache of level 1 (data), 2 or 3: what the system says, or else what is usual. */
double rt_cpu_cache_bytes(int level);
/* Elements before their turn that gathered rows are asked for: as many as the plan says where the first cache has 48
   KiB, in proportion to its size elsewhere, 16 to 128. Thread-safe. */
int64_t rt_cpu_ahead(int64_t planned);
