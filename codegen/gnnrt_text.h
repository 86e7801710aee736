/* Private to codegen: the public header of the runtime, runtime/gnnrt.h, as text inside the
   compiler. The library form of a model is that interface under the model's own prefix. */
#pragma once
#include "base/str.h"

/* The keys: every function that runtime/gnnrt.h declares, in order. */
void gnnrt_functions(StrMap *out);
/* Text with the prefix replaced: gnnrt_ and PREFIX_ by <name>_, Gnnrt by <Name>, GNNRT_ by <NAME>_. */
const char *gnnrt_renamed(Arena *a, const char *text, const char *name);
