/* Aligned, zeroed blocks (see memory.h). Large ones are mapped at 2 MiB boundaries and advised to
   use huge pages. Never returns uninitialised memory: a kernel that reads what nobody wrote reads
   zeros. */
#include "runtime/memory.h"
#include "runtime/abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, MAP_FROM = 4 << 20, ASK_FROM = 256 << 20 };

/* What the system could still give, SIZE_MAX if it does not say. Linux grants what it does not have
   and kills later; asking first turns that into a status. */
static size_t memory_available(void)
{
    char line[128];
    unsigned long long kib;
    size_t bytes = SIZE_MAX;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) bytes = (size_t)kib << 10;
    if (f) fclose(f);
    return bytes;
}

static bool block_map(RtBlock *b, size_t bytes)
{
    size_t total = bytes + HUGE_PAGE;
    char *base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return false;
    size_t lead = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    size_t page = 4096, keep = (bytes + page - 1) / page * page;
    if (lead) munmap(base, lead);
    if (total > lead + keep) munmap(base + lead + keep, total - lead - keep);
    b->p = base + lead;
    b->bytes = bytes;
    b->mapped = keep;
    madvise(b->p, keep, MADV_HUGEPAGE); /* advice: no harm where it is refused */
    return true;
}

RtCode rt_block_alloc(RtBlock *b, size_t bytes, const char *what, RtStatus *st)
{
    *b = (RtBlock){0};
    if (bytes > SIZE_MAX / 4 || (bytes >= ASK_FROM && bytes > memory_available()))
        return rt_fail_memory(st, bytes, what);
    if (bytes >= MAP_FROM) {
        if (!block_map(b, bytes)) return rt_fail_memory(st, bytes, what);
        return RT_OK;
    }
    size_t rounded = (bytes + 127) / 64 * 64; /* one spare line: vector prefetches stay inside */
    b->p = aligned_alloc(64, rounded);
    if (!b->p) return rt_fail_memory(st, bytes, what);
    memset(b->p, 0, rounded);
    b->bytes = bytes;
    return RT_OK;
}

void rt_block_free(RtBlock *b)
{
    if (!b) return;
    if (b->mapped)
        munmap(b->p, b->mapped);
    else
        free(b->p);
    *b = (RtBlock){0};
}

bool rt_mul(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out);
}

bool rt_add(int64_t a, int64_t b, int64_t *out)
{
    return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, out);
}

int64_t rt_dtype_bytes(int64_t dtype)
{
    return dtype == RT_BOOL ? 1 : dtype == RT_F32 || dtype == RT_I32 ? 4 : 8;
}

const char *rt_dtype_name(int64_t dtype)
{
    static const char *const names[] = {"f32", "f64", "i32", "i64", "bool"};
    return dtype >= 0 && dtype < 5 ? names[dtype] : "?";
}
