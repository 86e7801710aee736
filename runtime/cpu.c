/* CPU features by cpuid (see cpu.h). The compiler's builtins also ask the system whether it saves
   wide registers. */
#include "runtime/cpu.h"
#include <string.h>

int rt_cpu_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return RT_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RT_AVX2;
#endif
    return RT_GENERIC;
}

const char *rt_cpu_name(int variant)
{
    static const char *const names[] = {"generic", "avx2", "avx512"};
    return variant >= 0 && variant < RT_N_VARIANTS ? names[variant] : "?";
}

RtCode rt_cpu_parse(const char *name, int *variant, RtStatus *st)
{
    int best = rt_cpu_best();
    *variant = best;
    if (!strcmp(name, "auto")) return RT_OK;
    for (int v = 0; v < RT_N_VARIANTS; v++) {
        if (strcmp(name, rt_cpu_name(v))) continue;
        *variant = v;
        if (v <= best) return RT_OK;
        return rt_fail(st, RT_E_CLI_VALUE, "--cpu", "leave the flag out",
                       "this CPU has no %s, at best %s", name, rt_cpu_name(best));
    }
    return rt_fail(st, RT_E_CLI_VALUE, "--cpu", NULL,
                   "found `%s`, wanted auto, generic, avx2 or avx512", name);
}
