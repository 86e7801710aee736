/* The figures that `gnnc machine` measures (runtime/machine.h) as a machine that builds may assume
   (passes/context/machine.h). */
#pragma once
#include "passes/context/machine.h"
#include "runtime/machine.h"

Machine machine_of_figures(const RtMachine *m);
