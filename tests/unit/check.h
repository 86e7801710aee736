/* Reporting for unit tests: one line per test, `ok NAME`, `FAIL NAME: why` or `skip NAME: why`.
   tests/run counts the lines. A program ends with check_done(). */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int check_failures;
static char check_why[1024];
static bool check_ok;

/* Starts a test; every CHECK until check_end belongs to it. */
static inline void check_begin(void)
{
    check_ok = true;
    check_why[0] = 0;
}

__attribute__((format(printf, 2, 3))) static inline bool check(bool cond, const char *fmt, ...)
{
    if (cond || !check_ok) return cond;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(check_why, sizeof check_why, fmt, ap);
    va_end(ap);
    check_ok = false;
    return false;
}
#define CHECK(cond) check((cond), "%s:%d: %s", __FILE__, __LINE__, #cond)

static inline void check_end(const char *name)
{
    if (check_ok) printf("ok %s\n", name);
    else printf("FAIL %s: %s\n", name, check_why), check_failures++;
    fflush(stdout);
}
static inline void check_skip(const char *name, const char *why) { printf("skip %s: %s\n", name, why); }
/* Whether tests/run.py was told --long; how much of a campaign runs: all with it, else the first few. */
static inline bool check_long(void) { return getenv("GNNC_LONG") != NULL; }
static inline uint32_t check_amount(uint32_t few, uint32_t all) { return check_long() ? all : few; }
static inline int check_done(void) { return check_failures ? 1 : 0; }
