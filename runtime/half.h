/* Numbers of 16 bits in memory: f16 (IEEE 754 binary16) and bf16 (the upper half of an f32). Rounding is to nearest,
   ties to even, as the conversions of CPUs and GPUs do it; what is too large becomes infinite, denormals are kept, NaN
   stays NaN. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint32_t half_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t f16_of_float(float x)
{
    uint32_t bits = half_float_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff, r;
    if (size > 0x7f800000) r = 0x7e00 | (size >> 13 & 0x1ff);
    else if (size >= 0x477ff000) r = 0x7c00; /* from 65520 on */
    else if (size >= 0x38800000) r = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    else
        r = half_float_bits(half_bits_float(size) + 0.5f) -
            0x3f000000; /* below 2^-14: as multiples of 2^-24, which the sum rounds to */
    return (uint16_t)(sign | r);
}

static inline float f16_to_float(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = (uint32_t)(x & 0x7fff) << 13;
    if (size >= 0x0f800000) return half_bits_float(sign | 0x7f800000 | size);
    return half_bits_float(sign |
                           half_float_bits(half_bits_float(size) * 0x1p112f)); /* 2^112: the exponents' other bias */
}

static inline uint16_t bf16_of_float(float x)
{
    uint32_t bits = half_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_to_float(uint16_t x) { return half_bits_float((uint32_t)x << 16); }
