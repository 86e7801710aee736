/* The structs of runtime/abi.h described field by field, so that one generic writer spells them in
   any form. A unit test adds the sizes up: a field that is missing here is a failure there. */
#include "codegen/codegen.h"
#include "codegen/tables.h"
#include <stddef.h>

/* clang-format off */
#define INT(s, f)     {#f, TABLE_INT, offsetof(s, f), 1, NULL}
#define INTS(s, f, n) {#f, TABLE_INT, offsetof(s, f), n, NULL}
#define STR(s, f)     {#f, TABLE_STRING, offsetof(s, f), 1, NULL}
#define STRS(s, f, n) {#f, TABLE_STRING, offsetof(s, f), n, NULL}
#define DBL(s, f)     {#f, TABLE_DOUBLE, offsetof(s, f), 1, NULL}
#define SUB(s, f, t)  {#f, TABLE_STRUCT, offsetof(s, f), 1, &table_##t}
#define TYPE(s)                                                                                    \
    const TableType table_##s = {#s, sizeof(s), fields_##s, sizeof fields_##s / sizeof *fields_##s};
/* clang-format on */

static const TableField fields_RtCount[] = {INT(RtCount, kind), INT(RtCount, space), INT(RtCount, value),
                                            INT(RtCount, block), INT(RtCount, max)};
TYPE(RtCount)
static const TableField fields_RtPlace[] = {STR(RtPlace, file), INT(RtPlace, line)};
TYPE(RtPlace)
static const TableField fields_RtSpace[] = {STR(RtSpace, name), INT(RtSpace, is_edge), INT(RtSpace, fixed),
                                            SUB(RtSpace, declared, RtPlace)};
TYPE(RtSpace)
static const TableField fields_RtMapDef[] = {
    STR(RtMapDef, name),       INT(RtMapDef, from),     INT(RtMapDef, to),
    INT(RtMapDef, partial),    INT(RtMapDef, sorted),   INT(RtMapDef, inverse),
    INT(RtMapDef, needs_rows), INT(RtMapDef, computed), INT(RtMapDef, implied)};
TYPE(RtMapDef)
static const TableField fields_RtGraphDef[] = {STR(RtGraphDef, name),
                                               INT(RtGraphDef, kind),
                                               INT(RtGraphDef, edge),
                                               INT(RtGraphDef, src_space),
                                               INT(RtGraphDef, dst_space),
                                               INT(RtGraphDef, src),
                                               INT(RtGraphDef, dst),
                                               INT(RtGraphDef, base),
                                               INT(RtGraphDef, orig),
                                               INT(RtGraphDef, image),
                                               INT(RtGraphDef, policy),
                                               INT(RtGraphDef, n_nodes),
                                               INT(RtGraphDef, n_edges),
                                               INT(RtGraphDef, seed),
                                               INT(RtGraphDef, batch),
                                               INT(RtGraphDef, of),
                                               DBL(RtGraphDef, ratio),
                                               INT(RtGraphDef, redrawn),
                                               STR(RtGraphDef, file),
                                               STR(RtGraphDef, where),
                                               INT(RtGraphDef, equals),
                                               INT(RtGraphDef, n_path),
                                               INTS(RtGraphDef, path, RT_MAX_PATH),
                                               INT(RtGraphDef, n_keys),
                                               STRS(RtGraphDef, keys, RT_MAX_PATH + 1),
                                               SUB(RtGraphDef, declared, RtPlace)};
TYPE(RtGraphDef)
static const TableField fields_RtTensorDef[] = {STR(RtTensorDef, name),
                                                INT(RtTensorDef, kind),
                                                INT(RtTensorDef, space),
                                                INT(RtTensorDef, dtype),
                                                INT(RtTensorDef, n_dims),
                                                INT(RtTensorDef, width),
                                                INTS(RtTensorDef, dims, RT_MAX_DIMS),
                                                STRS(RtTensorDef, dim_names, RT_MAX_DIMS),
                                                INT(RtTensorDef, n_stored),
                                                INTS(RtTensorDef, stored_shape, RT_MAX_DIMS),
                                                INTS(RtTensorDef, stored_perm, RT_MAX_DIMS),
                                                INT(RtTensorDef, init),
                                                DBL(RtTensorDef, init_a),
                                                DBL(RtTensorDef, init_b),
                                                DBL(RtTensorDef, hyper_default),
                                                INT(RtTensorDef, bound),
                                                INT(RtTensorDef, allow_missing),
                                                INT(RtTensorDef, sparse),
                                                INT(RtTensorDef, nonzeros),
                                                INT(RtTensorDef, of),
                                                INT(RtTensorDef, row),
                                                INT(RtTensorDef, col),
                                                INT(RtTensorDef, is_map),
                                                INT(RtTensorDef, map),
                                                SUB(RtTensorDef, declared, RtPlace)};
TYPE(RtTensorDef)
static const TableField fields_RtBuffer[] = {INT(RtBuffer, kind),          INT(RtBuffer, ref),   INT(RtBuffer, elem),
                                             INT(RtBuffer, width),         INT(RtBuffer, slot),  STR(RtBuffer, name),
                                             SUB(RtBuffer, rows, RtCount), INT(RtBuffer, along), INT(RtBuffer, writer)};
TYPE(RtBuffer)
static const TableField fields_RtSet[] = {INT(RtSet, kind), INT(RtSet, space), INT(RtSet, ref), INT(RtSet, a),
                                          INT(RtSet, b)};
TYPE(RtSet)
static const TableField fields_RtSlot[] = {INT(RtSlot, row_bytes), INT(RtSlot, first), INT(RtSlot, last),
                                           SUB(RtSlot, rows, RtCount)};
TYPE(RtSlot)
static const TableField fields_RtStepArg[] = {INT(RtStepArg, is_buffer), INT(RtStepArg, buffer),
                                              INT(RtStepArg, written), SUB(RtStepArg, count, RtCount)};
TYPE(RtStepArg)
static const TableField fields_RtCost[] = {INT(RtCost, bytes), INT(RtCost, flops), SUB(RtCost, count, RtCount),
                                           INT(RtCost, table)};
TYPE(RtCost)
static const TableField fields_RtStep[] = {INT(RtStep, kind),   INT(RtStep, part),        INT(RtStep, first_cost),
                                           INT(RtStep, n_cost), STR(RtStep, label),       STR(RtStep, file),
                                           INT(RtStep, line),   INT(RtStep, work),        INT(RtStep, over),
                                           INT(RtStep, under),  INT(RtStep, first_touch), INT(RtStep, n_touches)};
TYPE(RtStep)
static const TableField fields_RtTouch[] = {INT(RtTouch, buffer), INT(RtTouch, writes), INT(RtTouch, at),
                                            INT(RtTouch, image), INT(RtTouch, how)};
TYPE(RtTouch)
static const TableField fields_RtCall[] = {INT(RtCall, kernel), INT(RtCall, first_arg), INT(RtCall, n_args),
                                           INT(RtCall, grain),  INT(RtCall, cut),       INT(RtCall, rows),
                                           INT(RtCall, walk),   INT(RtCall, split),     SUB(RtCall, extent, RtCount)};
TYPE(RtCall)
static const TableField fields_RtGemm[] = {INT(RtGemm, call),
                                           INT(RtGemm, transposed_a),
                                           INT(RtGemm, a),
                                           INT(RtGemm, b),
                                           INT(RtGemm, c),
                                           INT(RtGemm, m),
                                           INT(RtGemm, n),
                                           INT(RtGemm, k),
                                           INT(RtGemm, elem),
                                           SUB(RtGemm, rows, RtCount),
                                           SUB(RtGemm, blocks, RtCount),
                                           SUB(RtGemm, block_rows, RtCount)};
TYPE(RtGemm)
static const TableField fields_RtSplitDef[] = {INT(RtSplitDef, walks), INT(RtSplitDef, kernel),
                                               INT(RtSplitDef, first_arg), INT(RtSplitDef, n_args)};
TYPE(RtSplitDef)
static const TableField fields_RtChainDef[] = {INT(RtChainDef, first), INT(RtChainDef, n), INT(RtChainDef, strip),
                                               INT(RtChainDef, block)};
TYPE(RtChainDef)
static const TableField fields_RtResultDef[] = {STR(RtResultDef, name),
                                                INT(RtResultDef, space),
                                                INT(RtResultDef, dtype),
                                                INT(RtResultDef, n_dims),
                                                INT(RtResultDef, width),
                                                INT(RtResultDef, tensor),
                                                INTS(RtResultDef, dims, RT_MAX_DIMS),
                                                STRS(RtResultDef, dim_names, RT_MAX_DIMS)};
TYPE(RtResultDef)
static const TableField fields_RtArgDef[] = {STR(RtArgDef, name), INT(RtArgDef, kind), INT(RtArgDef, ref)};
TYPE(RtArgDef)
static const TableField fields_RtProgram[] = {
    STR(RtProgram, name),      INT(RtProgram, first_buffer), INT(RtProgram, n_buffers), INT(RtProgram, first_slot),
    INT(RtProgram, n_slots),   INT(RtProgram, first_step),   INT(RtProgram, n_steps),   INT(RtProgram, first_argdef),
    INT(RtProgram, n_argdefs), INT(RtProgram, first_result), INT(RtProgram, n_results), INT(RtProgram, first_set),
    INT(RtProgram, n_sets),    INT(RtProgram, first_chain),  INT(RtProgram, n_chains)};
TYPE(RtProgram)
static const TableField fields_RtMetric[] = {STR(RtMetric, name), INT(RtMetric, result)};
TYPE(RtMetric)
static const TableField fields_RtTrain[] = {
    INT(RtTrain, present),     INT(RtTrain, epochs),        INT(RtTrain, seed),
    INT(RtTrain, stop_metric), INT(RtTrain, stop_minimise), INT(RtTrain, patience),
    INT(RtTrain, n_metrics),   INT(RtTrain, steps),         INT(RtTrain, batch)};
TYPE(RtTrain)
static const TableField fields_RtImage[] = {INT(RtImage, kind), INT(RtImage, capability), INT(RtImage, at),
                                            INT(RtImage, bytes)};
TYPE(RtImage)
static const TableField fields_RtDeviceKernel[] = {STR(RtDeviceKernel, name),       INT(RtDeviceKernel, binding),
                                                   INT(RtDeviceKernel, lanes),      INT(RtDeviceKernel, warps),
                                                   INT(RtDeviceKernel, parts),      INT(RtDeviceKernel, warp_bytes),
                                                   INT(RtDeviceKernel, block_bytes)};
TYPE(RtDeviceKernel)
static const TableField fields_RtDeviceRates[] = {DBL(RtDeviceRates, last_bytes),  DBL(RtDeviceRates, dram_bytes),
                                                  DBL(RtDeviceRates, cache_bytes), DBL(RtDeviceRates, line_loads),
                                                  DBL(RtDeviceRates, issues),      DBL(RtDeviceRates, step_ns),
                                                  DBL(RtDeviceRates, load_ns),     DBL(RtDeviceRates, kernel_ns)};
TYPE(RtDeviceRates)
