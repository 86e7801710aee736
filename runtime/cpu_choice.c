/* Which of a program's kernels run: --cpu and GNNC_CPU (see cpu.h). Never part of a library. */
#include "runtime/cpu.h"
#include <stdlib.h>
#include <string.h>

/* RT_N_VARIANTS if unknown. */
static int variant_named(const char *name)
{
    int v = 0;
    while (v < RT_N_VARIANTS && strcmp(name, rt_cpu_name(v)) != 0) v++;
    return v;
}

RtCode rt_cpu_allowed(int *variant, RtStatus *st)
{
    const char *most = getenv("GNNC_CPU");
    *variant = rt_cpu_best();
    if (!most || !*most) return RT_OK;
    int v = variant_named(most);
    if (v == RT_N_VARIANTS)
        return rt_fail(st, RT_E_CLI_VALUE, "GNNC_CPU", "unset the variable",
                       "found `%s`, wanted generic, avx2 or avx512", most);
    if (v < *variant) *variant = v;
    return RT_OK;
}

RtCode rt_cpu_parse(const char *name, int *variant, RtStatus *st)
{
    int best;
    RT_TRY(rt_cpu_allowed(&best, st));
    *variant = best;
    if (!strcmp(name, "auto")) return RT_OK;
    int v = variant_named(name);
    if (v == RT_N_VARIANTS)
        return rt_fail(st, RT_E_CLI_VALUE, "--cpu", NULL, "found `%s`, wanted auto, generic, avx2 or avx512", name);
    *variant = v;
    if (v <= best) return RT_OK;
    if (v <= rt_cpu_best())
        return rt_fail(st, RT_E_CLI_VALUE, "--cpu", "unset the variable", "GNNC_CPU allows at best %s, not %s",
                       rt_cpu_name(best), name);
    return rt_fail(st, RT_E_CLI_VALUE, "--cpu", "leave the flag out", "this CPU has no %s, at best %s", name,
                   rt_cpu_name(best));
}
