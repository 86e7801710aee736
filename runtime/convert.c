/* Checked conversions and range checks (see convert.h). */
#include "runtime/convert.h"
#include "runtime/half.h"
#include "runtime/tensors.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static bool is_float(int64_t dtype) { return dtype == RT_F32 || dtype == RT_F64 || rt_is_16_bits(dtype); }

static void put_float(void *out, int64_t to, int64_t i, float v)
{
    switch (to) {
    case RT_F16: ((uint16_t *)out)[i] = f16_of_float(v); break;
    case RT_BF16: ((uint16_t *)out)[i] = bf16_of_float(v); break;
    default: ((float *)out)[i] = v; break;
    }
}

static int64_t get_int(const void *v, int64_t dtype, int64_t i)
{
    switch (dtype) {
    case RT_I32: return ((const int32_t *)v)[i];
    case RT_I64: return ((const int64_t *)v)[i];
    default: return ((const uint8_t *)v)[i]; /* bool, u8 */
    }
}

static const char *dtype_text(int64_t dtype) { return dtype == RT_U8 ? "u8" : rt_dtype_name(dtype); }

/* Writes v as dtype `to`; false if it does not fit exactly. */
static bool put_int(void *out, int64_t to, int64_t i, int64_t v)
{
    switch (to) {
    case RT_I32: ((int32_t *)out)[i] = (int32_t)v; return v == (int32_t)v;
    case RT_I64: ((int64_t *)out)[i] = v; return true;
    case RT_F16:
    case RT_BF16:
    case RT_F32: put_float(out, to, i, (float)v); return v >= -(1 << 24) && v <= 1 << 24;
    case RT_F64: ((double *)out)[i] = (double)v; return v >= -(1LL << 53) && v <= 1LL << 53;
    default: ((uint8_t *)out)[i] = v != 0; return v == 0 || v == 1;
    }
}

static RtCode convert_ints(const RtArray *a, int64_t to, void *out, const char *place, RtStatus *st)
{
    for (int64_t i = 0; i < a->count; i++) {
        int64_t v = get_int(a->data.p, a->dtype, i);
        if (!put_int(out, to, i, v))
            return rt_fail(st, RT_E_DATA_BOUND, place, NULL, "element %lld is %lld, which %s cannot hold", (long long)i,
                           (long long)v, dtype_text(to));
    }
    return RT_OK;
}

static void convert_floats(const RtArray *a, int64_t to, void *out)
{
    const float *f = a->data.p;
    const double *d = a->data.p;
    for (int64_t i = 0; i < a->count; i++)
        if (to == RT_F64) ((double *)out)[i] = f[i];
        else put_float(out, to, i, a->dtype == RT_F64 ? (float)d[i] : f[i]);
}

RtCode rt_convert(const RtArray *a, int64_t to, void *out, const char *place, RtStatus *st)
{
    if (a->dtype == to) {
        if (a->count) memcpy(out, a->data.p, (size_t)(a->count * rt_dtype_bytes(to)));
        return RT_OK;
    }
    if (!is_float(a->dtype)) return convert_ints(a, to, out, place, st);
    if (!is_float(to))
        return rt_fail(st, RT_E_DATA_DTYPE, place, "save the array with an integer dtype", "found %s, wanted %s",
                       dtype_text(a->dtype), dtype_text(to));
    convert_floats(a, to, out);
    return RT_OK;
}

/* Index up to which blocks hold finite numbers alone, without a branch for each of them. */
static int64_t skip_finite(const float *f, int64_t count)
{
    enum { BLOCK = 1024 };
    int64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        uint32_t any = 0;
        for (int k = 0; k < BLOCK; k++) {
            uint32_t bits;
            memcpy(&bits, f + i + k, sizeof bits);
            any |= ((bits & 0x7f800000) + 0x00800000) & 0x80000000; /* an exponent of ones */
        }
        if (any) break;
    }
    return i;
}

/* First index that is not finite, or count. */
static int64_t find_not_finite(const void *v, int64_t dtype, int64_t count)
{
    const float *f = v;
    const double *d = v;
    int64_t i = dtype == RT_F32 ? skip_finite(f, count) : 0;
    if (rt_is_16_bits(dtype))
        while (i < count && isfinite(rt_element(v, dtype, i))) i++;
    else if (dtype == RT_F32)
        while (i < count && isfinite(f[i])) i++;
    else
        while (i < count && isfinite(d[i])) i++;
    return i;
}

RtCode rt_check_finite(const void *v, int64_t dtype, int64_t count, int64_t width, const char *place, RtStatus *st)
{
    if (!is_float(dtype)) return RT_OK;
    assert(width > 0);
    int64_t i = find_not_finite(v, dtype, count);
    if (i == count) return RT_OK;
    bool narrow = rt_is_16_bits(dtype);
    return rt_fail(st, RT_E_DATA_NOT_FINITE, place,
                   narrow ? "replace missing values before saving; --store f16 has nothing above 65504"
                          : "replace missing values before saving",
                   "row %lld, column %lld is %f%s%s, wanted a finite number", (long long)(i / width),
                   (long long)(i % width), rt_element(v, dtype, i), narrow ? " as " : "",
                   narrow ? rt_dtype_name(dtype) : "");
}

RtCode rt_check_bound(const void *v, int64_t dtype, int64_t count, int64_t bound, bool missing, const char *place,
                      RtStatus *st)
{
    if (bound <= 0 || is_float(dtype) || dtype == RT_BOOL) return RT_OK;
    for (int64_t i = 0; i < count; i++) {
        int64_t x = get_int(v, dtype, i);
        if ((x >= 0 && x < bound) || (missing && x == -1)) continue;
        return rt_fail(st, RT_E_DATA_BOUND, place, "was the model built for another data set?",
                       "element %lld is %lld, wanted 0 <= value < %lld%s", (long long)i, (long long)x, (long long)bound,
                       missing ? " or -1 for none" : "");
    }
    return RT_OK;
}
