/* Private to codegen: descriptions of the structs of runtime/abi.h (tables_types.c). */
#pragma once
#include "codegen/codegen.h"

extern const TableType table_RtCount, table_RtPlace, table_RtSpace, table_RtMapDef, table_RtGraphDef, table_RtTensorDef,
    table_RtBuffer, table_RtSlot, table_RtStepArg, table_RtTouch, table_RtCost, table_RtGemm, table_RtSet, table_RtStep,
    table_RtCall, table_RtSplitDef, table_RtChainDef, table_RtResultDef, table_RtArgDef, table_RtProgram,
    table_RtMetric, table_RtTrain, table_RtImage, table_RtDeviceKernel, table_RtDeviceRates;
