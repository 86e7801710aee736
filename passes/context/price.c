/* Prices, by the rates of a machine; contracts in price.h. Decides nothing and counts nothing. */
#include "passes/context/price.h"
#include "base/ice.h"

static double rate_of(const Machine *m, PriceKind kind)
{
    const double rates[N_PRICE_KINDS] = {
        [PRICE_scalar] = m->scalar_flops, [PRICE_vector] = m->vector_flops,   [PRICE_inner] = m->inner_flops,
        [PRICE_dot] = m->dot_flops,       [PRICE_product] = m->product_flops, [PRICE_outer] = m->outer_flops,
        [PRICE_matmul] = m->matmul_flops};
    ICE_UNLESS(kind < N_PRICE_KINDS && rates[kind] > 0);
    return rates[kind];
}

double price_stream(const Machine *m, double bytes) { return bytes / m->dram_bytes; }

double price_write(const Machine *m, double bytes) { return 2 * bytes / m->dram_bytes; }

double price_gather(const Machine *m, double bytes) { return m->row_ns + bytes / m->cache_bytes; }

double price_listed(const Machine *m, double bytes)
{
    double line = (double)m->line_bytes;
    return m->row_ns + (bytes < line ? line : bytes) / m->dram_bytes;
}

double price_flops(const Machine *m, PriceKind kind, double flops) { return flops / rate_of(m, kind); }

double price_inner(const Machine *m, double lanes, double flops)
{
    double full = (double)m->lanes, rate = m->inner_flops * (lanes < full ? lanes : full) / full;
    return flops / (rate < m->scalar_flops ? m->scalar_flops : rate);
}

double price_flops_as_bytes(const Machine *m, PriceKind kind, double flops)
{
    return flops / (rate_of(m, kind) / m->dram_bytes);
}

double price_near_as_bytes(const Machine *m, double bytes) { return bytes * m->dram_bytes / m->near_bytes; }

double price_kernel_as_bytes(const Machine *m) { return m->kernel_ns * m->dram_bytes; }

double price_least_read(const Machine *m) { return (double)m->line_bytes / 4; }

/* A vector operation is one for each lane, and a lane has four bytes, written and read. */
static const double MOVED = 2 * sizeof(float);

double price_laid_out(const Machine *m) { return MOVED * m->vector_flops / m->dram_bytes; }

double price_turned(const Machine *m) { return MOVED * m->vector_flops / m->near_bytes; }

double price_kept(const Machine *m, double lanes, double bytes)
{
    double full = (double)m->lanes;
    return 2 * bytes / m->near_bytes * (lanes < full ? full / lanes : 1);
}

double price_of_keeping(const Machine *m) { return MOVED * m->inner_flops / m->near_bytes; }
