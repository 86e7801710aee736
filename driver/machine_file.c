/* From measured figures to the rows of passes/context/machine.def. What the probe does not measure is that of the first
   machine of the table: rates of operations in the same proportion to fused multiply-adds. */
#include "driver/machine_file.h"
#include "runtime/gnnrt.h"
#include <unistd.h>

/* Rows of 64 and of 256 bytes take row_ns + bytes / cache_bytes: two equations. Where bytes alone explain both, a row
   costs nothing beside them. */
static void fit_gather(const RtMachine *figures, Machine *m)
{
    double fast = figures->gather[RT_ROW_256][RT_L3], few = 64 / figures->gather[RT_ROW_64][RT_L3], many = 256 / fast;
    double each = (many - few) / (256 - 64);
    if (each <= 0) each = 1 / fast;
    m->cache_bytes = 1 / each;
    m->row_ns = few - 64 * each;
}

static void set_registers(const RtMachine *figures, Machine *m)
{
    Machine avx2 = {0};
    if (figures->variant == GNNRT_AVX512 || !machine_named("avx2-2", &avx2)) return;
    m->lanes = figures->variant == GNNRT_AVX2 ? avx2.lanes : avx2.lanes / 2;
    m->registers = avx2.registers;
}

static void scale_flops(double factor, Machine *m)
{
    m->scalar_flops *= factor;
    m->vector_flops *= factor;
    m->inner_flops *= factor;
    m->dot_flops *= factor;
    m->product_flops *= factor;
    m->outer_flops *= factor;
    m->matmul_flops *= factor;
    m->fma_flops *= factor;
}

Machine machine_of_figures(const RtMachine *figures)
{
    Machine m = machine_default();
    long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
    m.name = figures->probed ? "measured" : "not-measured";
    set_registers(figures, &m);
    if (line > 0 && !(line & (line - 1))) m.line_bytes = line;
    m.l1_bytes = (int64_t)figures->bytes[RT_L1];
    m.l2_bytes = (int64_t)figures->bytes[RT_L2];
    m.last_bytes = (int64_t)figures->bytes[RT_L3];
    m.threads = figures->threads;
    m.dram_bytes = figures->copy[RT_MEMORY];
    m.near_bytes = figures->copy[RT_L2];
    fit_gather(figures, &m);
    scale_flops(figures->flops / m.fma_flops, &m);
    machine_clamp(&m);
    return m;
}
