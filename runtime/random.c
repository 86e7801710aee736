/* Philox4x32-10 (Salmon et al., SC 2011) and what is drawn with it (see random.h, docs/design.md). */
#include "runtime/random.h"
#include <assert.h>
#include <math.h>

/* Ten rounds over counter c with key k. */
static void philox_rounds(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[0] = n0;
        c[1] = (uint32_t)b;
        c[2] = n2;
        c[3] = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The four words that share a counter. */
static void philox_block(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature, uint32_t c[4])
{
    assert(site < 1u << 16 && !(element >> 48)); /* else two sites, or elements, have the same numbers */
    c[0] = (uint32_t)element;
    c[1] = (uint32_t)(element >> 32 & 0xffff) | site << 16;
    c[2] = (uint32_t)(feature / 64 * 16 + feature % 16);
    c[3] = (uint32_t)step;
    philox_rounds(c, (uint32_t)seed, (uint32_t)(seed >> 32));
}

uint32_t rt_philox(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature)
{
    uint32_t c[4];
    philox_block(seed, step, site, element, feature, c);
    return c[feature / 16 % 4];
}

double rt_random_uniform(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature)
{
    return (double)(rt_philox(seed, step, site, element, feature) >> 8) * 0x1p-24;
}

double rt_random_normal(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature)
{
    uint32_t c[4];
    philox_block(seed, step, site, element, feature, c);
    uint32_t w = (uint32_t)(feature / 16 % 4);
    double u1 = (double)((c[w] >> 8) + 1) * 0x1p-24, u2 = (double)(c[w ^ 1] >> 8) * 0x1p-24;
    return sqrt(-2 * log(u1)) * cos(2 * 3.14159265358979323846 * u2);
}

uint32_t rt_name_hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}
