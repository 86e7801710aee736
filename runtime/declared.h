/* The program's side of an error about data that do not fit it: where its source declares what they contradict. */
#pragma once
#include "runtime/abi.h"
#include "runtime/status.h"

/* Each returns code, and adds a note to st (which may be NULL) where the failure is about what data or weights hold,
   nothing has said the place yet, and the source declares it. */
RtCode rt_declared_tensor(RtCode code, const RtModel *m, int64_t tensor, RtStatus *st); /* and whose rows it has */
RtCode rt_declared_graph(RtCode code, const RtModel *m, const RtGraphDef *g, RtStatus *st);
RtCode rt_declared_space(RtCode code, const RtModel *m, int64_t space, RtStatus *st);
