/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011),
   and what is drawn from it. The definition that runtime and kernels implement again. */
#include "ir/eval_random.h"
#include "base/ice.h"
#include <math.h>

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1],
                        (uint32_t)p0};
    memcpy(c, next, sizeof next);
}

/* The four words of the counter that holds `feature`. */
static void philox_block(RandomKey key, uint64_t feature, uint32_t c[4])
{
    uint32_t k[2] = {(uint32_t)key.seed, (uint32_t)(key.seed >> 32)};
    c[0] = (uint32_t)key.element;
    c[1] = (uint32_t)(key.element >> 32 & 0xffff) | key.site << 16;
    c[2] = (uint32_t)(feature / 64 * 16 + feature % 16);
    c[3] = (uint32_t)key.step;
    for (int round = 0; round < 10; round++) {
        if (round) k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
        philox_round(c, k);
    }
}

uint32_t eval_philox(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature)
{
    uint32_t c[4];
    philox_block((RandomKey){seed, step, site, element}, feature, c);
    return c[feature / 16 % 4];
}

void eval_random_edges(int64_t n_src, int64_t n_dst, int64_t n_edges, int64_t seed, int64_t *src, int64_t *dst)
{
    ICE_UNLESS(n_edges <= 0 || (n_src > 0 && n_dst > 0));
    for (int64_t e = 0; e < n_edges; e++) {
        src[e] = (int64_t)(eval_philox((uint64_t)seed, 0, 0, (uint64_t)e, 0) % (uint64_t)n_src);
        dst[e] = (int64_t)(eval_philox((uint64_t)seed, 0, 0, (uint64_t)e, 16) % (uint64_t)n_dst);
    }
}

Num random_uniform(RandomKey key, uint64_t feature)
{
    uint32_t c[4];
    philox_block(key, feature, c);
    return num_exact((double)(c[feature / 16 % 4] >> 8) * 0x1p-24);
}

double eval_normal(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature)
{
    return random_normal((RandomKey){seed, step, site, element}, feature, IR_F64).v;
}

/* Box-Muller. The angle 2 pi u2 is rounded twice, which cos turns into an absolute error; log,
   square root and the products add a few roundings of the result. */
Num random_normal(RandomKey key, uint64_t feature, IrDtype t)
{
    uint32_t c[4];
    philox_block(key, feature, c);
    uint32_t word = (uint32_t)(feature / 16 % 4);
    double u1 = (double)((c[word] >> 8) + 1) * 0x1p-24, u2 = (double)(c[word ^ 1] >> 8) * 0x1p-24;
    double u = t == IR_F32 ? 0x1p-24 : 0x1p-53, angle = 2 * 3.14159265358979323846 * u2;
    double radius = sqrt(-2 * log(u1));
    Num n = num_round(t, radius * cos(angle), radius * fabs(sin(angle)) * angle * 4 * u, 16);
    n.origin = num_mix(num_hash(u1), num_hash(u2));
    return n;
}
