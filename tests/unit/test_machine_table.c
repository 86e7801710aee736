/* passes/context/machine.def: each column lies within the bounds of its rows and comes back from a file; what follows
   from the numbers of the first, by which all kernels so far are scheduled and priced; and texts that are cut or
   changed at any byte are refused or read, never more. */
#include "passes/context/machine.h"
#include "passes/context/price.h"
#include "tests/unit/check.h"
#include <string.h>

static const char *const names[] = {
#define NAMED(column, name, doc) name,
#include "passes/context/machine.def"
#undef NAMED
};
enum { N_NAMES = sizeof names / sizeof *names };

static bool parse(Arena *a, const char *text, size_t n, Machine *m)
{
    Diags d = {.arena = a};
    Source src = {"x.machine", text, (uint32_t)n};
    bool read = machine_parse(&src, &d, m);
    check(read == (d.n_errors == 0), "read %d with %u errors", read, d.n_errors);
    return read;
}

static void test_columns(void)
{
    check_begin();
    for (int i = 0; i < N_NAMES; i++) {
        Arena *a = arena_new();
        Machine m, back;
        StrBuf text = {.arena = a};
        CHECK(machine_named(names[i], &m));
        machine_print(&m, &text);
        check(parse(a, strbuf_cstr(&text), text.n, &back), "%s is out of bounds", names[i]);
        check(!strcmp(back.name, m.name) && !strcmp(machine_rows_text(&back, a), machine_rows_text(&m, a)),
              "%s is another", names[i]);
        arena_free(a);
    }
    check_end("columns_come_back");
}

static void test_first(void)
{
    Machine m = machine_default();
    check_begin();
    CHECK(!strcmp(m.name, names[0]));
    CHECK(machine_sums(&m, false) == 24 && machine_sums(&m, true) == 6 && machine_panel(&m, false) == 4 &&
          machine_panel(&m, true) == 1);
    CHECK(machine_panels_room(&m) == 40960 && machine_stage_room(&m) == 32768 && machine_walk_room(&m) == 12288 &&
          machine_fetch_room(&m) == 4096);
    CHECK(machine_staged_room(&m) == 196608 && machine_staged_value_room(&m) == 65536);
    CHECK(machine_strip_room(&m) == 131072 && machine_longest_strip_room(&m) == 524288 && machine_strip_rows(&m) == 64);
    CHECK(price_laid_out(&m) == 16 && price_turned(&m) == 4 && price_of_keeping(&m) == 12);
    CHECK(price_kept(&m, 16, 100) == 1 && price_kept(&m, 4, 100) == 4);
    CHECK(price_kernel_as_bytes(&m) == 4096 && price_least_read(&m) == 16);
    CHECK(price_write(&m, 50) == 2 && price_stream(&m, 50) == 1);
    CHECK(price_flops_as_bytes(&m, PRICE_inner, 6) == 1 && price_flops_as_bytes(&m, PRICE_dot, 4) == 1);
    CHECK(price_flops_as_bytes(&m, PRICE_outer, 7) == 1 && price_flops_as_bytes(&m, PRICE_matmul, 8) == 1);
    check_end("what_follows_from_the_first");
}

/* Each prefix, and each byte replaced by some others. */
static void test_damaged(void)
{
    static const char others[] = {0, '\n', '#', '-', '9', 'z', (char)0xff};
    Machine m = machine_default(), read;
    Arena *a = arena_new();
    StrBuf text = {.arena = a};
    machine_print(&m, &text);
    size_t last = text.n - 1; /* of its digits some may be missing */
    while (text.data[last - 1] != '\n') last--;
    check_begin();
    for (size_t n = 0; n < text.n; n++) {
        char *cut = arena_strndup(a, text.data, n);
        bool whole = parse(a, cut, n, &read);
        check(!whole || n > last, "the first %zu bytes are a machine", n);
        for (size_t k = 0; k < sizeof others; k++) {
            char *changed = arena_strndup(a, text.data, text.n);
            changed[n] = others[k];
            Arena *one = arena_new();
            if (parse(one, changed, text.n, &read)) {
                CHECK(read.lanes >= 4 && read.lanes <= 16 && read.registers >= 16 && read.registers <= 32 &&
                      read.dram_bytes > 0);
            }
            arena_free(one);
        }
    }
    check_end("damaged_files");
    arena_free(a);
}

int main(void)
{
    test_columns();
    test_first();
    test_damaged();
    return check_done();
}
