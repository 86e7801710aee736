/* Memory (see memory.h). Large blocks are mapped at 2 MiB boundaries and advised to
   use huge pages. Never returns uninitialised memory: a kernel that reads what nobody wrote reads
   zeros. */
#include "runtime/memory.h"
#include "runtime/abi.h"
#include "runtime/available.h"
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20, PAGE = 4096, MAP_FROM = 4 << 20, ASK_FROM = 64 << 20 };

int64_t rt_size(int64_t n, int64_t each) { return rt_size_plus(0, n, each); }

int64_t rt_size_plus(int64_t bytes, int64_t n, int64_t each)
{
    int64_t more;
    return rt_mul(n, each, &more) && rt_add(bytes, more, &bytes) ? bytes : -1;
}

/* ---- what is there ---- */

/* Bytes of all mapped blocks. The one thing that calls share: memory that was granted and not written yet is still
   called available, so it has to be remembered what was asked for. */
static _Atomic int64_t mapped_bytes;

/* How many bytes of the mapped blocks were not written yet, at least: all but what the process has in memory. */
static int64_t unwritten(void)
{
    long long size, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    int n = f ? fscanf(f, "%lld %lld %lld", &size, &resident, &shared) : 0;
    if (f) fclose(f);
    int64_t left = atomic_load(&mapped_bytes) - (n == 3 ? (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE) : 0);
    return left > 0 ? left : 0;
}

/* To ask the system means reading ten files or more. What it had to spare when it was last asked, and what was granted
   since then without asking: at most a 64th of that. */
static _Atomic int64_t spare, granted;

static bool is_little(int64_t bytes)
{
    if (bytes > atomic_load(&spare) / 64 - atomic_load(&granted)) return false;
    atomic_fetch_add(&granted, bytes);
    return true;
}

RtCode rt_memory_check(int64_t bytes, const char *what, RtStatus *st)
{
    if (bytes < 0) return rt_fail(st, RT_E_OVERFLOW, NULL, NULL, "the size of %s overflows 64 bits", what);
    if (bytes > INT64_MAX / 4) return rt_fail_memory(st, (size_t)bytes, what);
    if (bytes + atomic_load(&mapped_bytes) < ASK_FROM || is_little(bytes)) return RT_OK;
    int64_t wanted = bytes + unwritten(), available = rt_available();
    atomic_store(&granted, 0);
    atomic_store(&spare, available - wanted);
    if (wanted <= available) return RT_OK;
    return rt_fail(st, RT_E_MEMORY, NULL, NULL,
                   "cannot allocate %lld bytes (%.1f MiB) for %s: the machine has %lld left", (long long)bytes,
                   (double)bytes / 1048576.0, what, (long long)available);
}

/* ---- blocks ---- */

static bool block_map(RtBlock *b, size_t bytes)
{
    size_t total = bytes + HUGE_PAGE;
    char *base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return false;
    size_t lead = (HUGE_PAGE - (uintptr_t)base % HUGE_PAGE) % HUGE_PAGE;
    size_t keep = (bytes + PAGE - 1) / PAGE * PAGE;
    if (lead) munmap(base, lead);
    if (total > lead + keep) munmap(base + lead + keep, total - lead - keep);
    b->p = base + lead;
    assert((uintptr_t)b->p % HUGE_PAGE == 0 && lead + keep <= total);
    b->bytes = bytes;
    b->mapped = keep;
    atomic_fetch_add(&mapped_bytes, (int64_t)keep);
    madvise(b->p, keep, MADV_HUGEPAGE); /* advice: no harm where it is refused */
    return true;
}

RtCode rt_block_alloc(RtBlock *b, int64_t bytes, const char *what, RtStatus *st)
{
    *b = (RtBlock){0};
    RT_TRY(rt_memory_check(bytes, what, st));
    if (bytes >= MAP_FROM) {
        if (!block_map(b, (size_t)bytes)) return rt_fail_memory(st, (size_t)bytes, what);
        return RT_OK;
    }
    size_t rounded = ((size_t)bytes + 127) / 64 * 64; /* one spare line: vector prefetches stay inside */
    b->p = aligned_alloc(64, rounded);
    if (!b->p) return rt_fail_memory(st, (size_t)bytes, what);
    memset(b->p, 0, rounded);
    b->bytes = (size_t)bytes;
    assert((uintptr_t)b->p % 64 == 0);
    return RT_OK;
}

void rt_block_free(RtBlock *b)
{
    if (!b) return;
    if (b->mapped) {
        assert(atomic_load(&mapped_bytes) >= (int64_t)b->mapped);
        munmap(b->p, b->mapped);
        atomic_fetch_sub(&mapped_bytes, (int64_t)b->mapped);
    } else {
        free(b->p);
    }
    *b = (RtBlock){0};
}

/* ---- arrays ---- */

RtCode rt_alloc(void *out, int64_t n, int64_t each, const char *what, RtStatus *st)
{
    int64_t bytes = rt_size(n, each);
    void *p = NULL;
    memcpy(out, &p, sizeof p);
    RT_TRY(rt_memory_check(bytes, what, st));
    p = malloc(bytes ? (size_t)bytes : 1);
    if (!p) return rt_fail_memory(st, (size_t)bytes, what);
    memset(p, 0, (size_t)bytes); /* written at once, so that what is left is known when the next is asked for */
    memcpy(out, &p, sizeof p);
    return RT_OK;
}

RtCode rt_grow(void *at, int64_t n, int64_t each, const char *what, RtStatus *st)
{
    int64_t bytes = rt_size(n, each);
    void *p;
    memcpy(&p, at, sizeof p);
    RT_TRY(rt_memory_check(bytes, what, st));
    p = realloc(p, bytes ? (size_t)bytes : 1);
    if (!p) return rt_fail_memory(st, (size_t)bytes, what);
    memcpy(at, &p, sizeof p);
    return RT_OK;
}

bool rt_mul(int64_t a, int64_t b, int64_t *out) { return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, out); }

bool rt_add(int64_t a, int64_t b, int64_t *out) { return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, out); }

int64_t rt_elem_bytes(int64_t elem)
{
    assert(elem >= RT_K_I1 && elem <= RT_K_BF16);
    if (elem >= RT_K_F16) return 2;
    return elem == RT_K_F64 || elem == RT_K_I64 ? 8 : elem <= RT_K_I8 ? 1 : 4;
}

int64_t rt_dtype_bytes(int64_t dtype)
{
    assert(dtype >= RT_F32 && dtype <= RT_BF16);
    if (dtype >= RT_F16) return 2;
    return dtype == RT_BOOL ? 1 : dtype == RT_F32 || dtype == RT_I32 ? 4 : 8;
}

bool rt_is_16_bits(int64_t dtype) { return dtype == RT_F16 || dtype == RT_BF16; }
int64_t rt_dtype_read(int64_t dtype) { return rt_is_16_bits(dtype) ? RT_F32 : dtype; }

const char *rt_dtype_name(int64_t dtype)
{
    static const char *const names[] = {"f32", "f64", "i32", "i64", "bool", "f16", "bf16"};
    return dtype >= RT_F32 && dtype <= RT_BF16 ? names[dtype] : "?";
}
