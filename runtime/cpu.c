/* CPU features by cpuid, caches by what the system says (see cpu.h). The compiler's builtins also ask the system
   whether it saves wide registers. */
#include "runtime/cpu.h"
#include <assert.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
/* Conversions to and from f16, which all CPUs with AVX2 have; not every compiler knows the name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

int rt_cpu_best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && has_f16c())
        return RT_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) return RT_AVX2;
#endif
    return RT_GENERIC;
}

const char *rt_cpu_name(int variant)
{
    static const char *const names[] = {"generic", "avx2", "avx512"};
    return variant >= 0 && variant < RT_N_VARIANTS ? names[variant] : "?";
}

/* Virtual machines answer sysconf with the host's sum, so the cache folder of sysfs goes first. */
double rt_cpu_cache_bytes(int level)
{
    assert(level >= 1 && level <= 3);
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    static const double otherwise[] = {32 << 10, 1 << 20, 32 << 20};
    for (int i = 0; i < 8; i++) {
        char path[96];
        int found, kib;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        FILE *f = fopen(path, "r");
        bool is = f && fscanf(f, "%d", &found) == 1 && found == level;
        if (f) fclose(f);
        if (!is || (level == 1 && i == 1)) continue; /* 1: instructions */
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        f = fopen(path, "r");
        is = f && fscanf(f, "%dK", &kib) == 1 && kib > 0;
        if (f) fclose(f);
        if (is) return 1024.0 * kib;
    }
    long n = sysconf(names[level - 1]);
    return n > 0 ? (double)n : otherwise[level - 1];
}

static double first_cache;

static void find_first_cache(void) { first_cache = rt_cpu_cache_bytes(1); }

int64_t rt_cpu_ahead(int64_t planned)
{
    enum { LEAST = 16, MOST = 128, PLANNED_FOR = 48 << 10 };
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_first_cache);
    double n = (double)planned * first_cache / PLANNED_FOR;
    return n < LEAST ? LEAST : n > MOST ? MOST : (int64_t)n;
}
