/* SHA-256 (FIPS 180-4): checksums in meta.json, and names of what is kept by content. */
#pragma once
#include <stddef.h>
/* Writes 64 hex digits and a NUL. */
void sha256_hex(const void *p, size_t n, char out[65]);
