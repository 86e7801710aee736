/* Which kernel variants this CPU can run. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"

int rt_cpu_best(void);                /* RT_GENERIC, RT_AVX2 or RT_AVX512 */
const char *rt_cpu_name(int variant); /* "generic", "avx2", "avx512" */
/* By name, "auto" for the best. CLI_VALUE if unknown or more than this CPU has. */
RtCode rt_cpu_parse(const char *name, int *variant, RtStatus *st);
/* Bytes of the first core's cache of level 1 (data), 2 or 3: what the system says, or else what is usual. */
double rt_cpu_cache_bytes(int level);
/* Elements before their turn that gathered rows are asked for: as many as the plan says where the first cache has 48 KiB, in
   proportion to its size elsewhere, 16 to 128. Thread-safe. */
int64_t rt_cpu_ahead(int64_t planned);
