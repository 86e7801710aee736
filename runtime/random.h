/* Random numbers of the runtime: Philox4x32-10 keyed as docs/design.md says, the same function that
   kernels compute. Parameter initialisation and drawn inputs are pure functions of (seed, name,
   element). */
#pragma once
#include <stdint.h>

enum { RT_SITE_DRAW = 65001, RT_SITE_SAMPLE = 65002, RT_SITE_INIT = 60000 };

/* One word for (seed, step, site, element, feature). */
uint32_t rt_philox(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature);
double rt_random_uniform(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature); /* [0,1) */
double rt_random_normal(uint64_t seed, uint64_t step, uint32_t site, uint64_t element, uint64_t feature);
/* A stable 32-bit hash of a name. */
uint32_t rt_name_hash(const char *name);
