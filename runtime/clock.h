/* The clock that runs are timed by. */
#pragma once
#include <time.h>

/* Nanoseconds since some fixed moment; never goes back. */
static inline double rt_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
