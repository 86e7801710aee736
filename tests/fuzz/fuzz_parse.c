/* Fuzz target (libFuzzer) of the parser and the formatter: no bytes crash them, and what parses keeps the
   formatter's promises. Build with clang -fsanitize=fuzzer,address,undefined and the sources of base/ and of
   the parser; run with a folder of .gnn files as corpus. */
#include "base/ice.h"
#include "frontend/ast.h"
#include "frontend/frontend.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Arena *a = arena_new();
    Source s = {"fuzz.gnn", arena_strndup(a, (const char *)data, n), (uint32_t)n};
    Diags d = {.arena = a};
    AstFile *f = ast_parse(a, &s, &d);
    ICE_UNLESS(f || d.n_errors);
    for (uint32_t i = 0; i < d.list.n; i++) ICE_UNLESS(d.list.data[i]->span.end <= n);
    StrBuf text = {.arena = a};
    diags_print(&d, &text, false);
    if (!d.n_errors) {
        const char *once = frontend_format(a, &s, &d);
        ICE_UNLESS(once);
        Source again = {"once.gnn", once, (uint32_t)strlen(once)};
        const char *twice = frontend_format(a, &again, &d);
        ICE_UNLESS(twice && !strcmp(once, twice));
    }
    arena_free(a);
    return 0;
}
