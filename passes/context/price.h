/* What bytes, operations and gathered rows cost on the machine of a build: the one place that reads its rates. Passes
   differ in what they count; whatever they count is priced here, in ns of all threads together, or by what the machine
   does meanwhile. */
#pragma once
#include "passes/context/machine.h"

/* clang-format off */
typedef enum PriceKind { /* of operations: the row of the table with their rate */
    PRICE_scalar, PRICE_vector, PRICE_inner, PRICE_dot, PRICE_product, PRICE_outer, PRICE_matmul, N_PRICE_KINDS
} PriceKind;
/* clang-format on */

double price_stream(const Machine *m, double bytes); /* read in order from memory */
double price_write(const Machine *m, double bytes);  /* to memory, with the read that a write allocates */
double price_gather(const Machine *m, double bytes); /* a row of so many bytes at a place that an index says */
/* a row of elements that a list leads to: in no order, no cache has it */
double price_listed(const Machine *m, double bytes);
double price_flops(const Machine *m, PriceKind kind, double flops);
/* Of values in private arrays, whose vectors have so many numbers. */
double price_inner(const Machine *m, double lanes, double flops);

/* Bytes that stream from memory meanwhile. */
double price_flops_as_bytes(const Machine *m, PriceKind kind, double flops);
double price_near_as_bytes(const Machine *m, double bytes); /* bytes that the second cache gives */
double price_kernel_as_bytes(const Machine *m);             /* starting one */
/* Least bytes that a row at a random place counts as: a line is brought, of which neighbours may want the rest. */
double price_least_read(const Machine *m);

/* Vector operations meanwhile, for each vector that is written in one order and read in another. */
double price_laid_out(const Machine *m); /* through memory */
double price_turned(const Machine *m);   /* where a kernel reads it from a cache */
/* Bytes written to the second cache and read back, by vectors of so many numbers. */
double price_kept(const Machine *m, double lanes, double bytes);
/* Operations for an element that take as long as writing it to the second cache and reading it back. */
double price_of_keeping(const Machine *m);
