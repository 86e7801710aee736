/* The files of the standard library as text inside the compiler, in the order of their names; made from frontend/std by
   the build. */
#pragma once

struct GnnStdFile {
    const char *name, *text; /* "std/conv.gnn"; NULL behind the last */
};
extern const struct GnnStdFile gnn_std_files[];
