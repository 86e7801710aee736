/* What changed between two prints of graph IR, as a unified diff. */
#pragma once
#include "base/str.h"

/* Lines of `after` are matched with those of `before` by what they do, not by the numbers of values: a value keeps the
   number of the line it is matched with, and new values get numbers that are free. */
void gir_diff(Arena *a, const char *before, const char *after, const char *before_name, const char *after_name,
              StrBuf *out);
