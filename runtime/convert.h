/* Elements from a file's dtype to the model's, checked: nothing is silently cut off. */
#pragma once
#include "runtime/array.h"

/* out[a->count] of dtype `to`. Floats convert to floats (f64 to f32 rounds once); integers to
   integers and floats if the value fits exactly; bools to anything; anything that is 0 or 1 to
   bool. Otherwise DATA_DTYPE, DATA_BOUND. */
RtCode rt_convert(const RtArray *a, int64_t to, void *out, const char *place, RtStatus *st);
/* Floats must be finite: DATA_NOT_FINITE names row and column. width >= 1 elements per row. */
RtCode rt_check_finite(const void *v, int64_t dtype, int64_t count, int64_t width, const char *place, RtStatus *st);
/* Integers lie in [0, bound), or are -1 where `missing` is allowed. bound 0: not checked. */
RtCode rt_check_bound(const void *v, int64_t dtype, int64_t count, int64_t bound, bool missing, const char *place,
                      RtStatus *st);
