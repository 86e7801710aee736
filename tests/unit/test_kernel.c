/* Kernel IR itself: text form and back, what the reader and the verifier refuse and how they say
   it, what single instructions mean in kir_run, and what kir_run refuses. */
#include "ir/kernel.h"
#include "tests/unit/check.h"
#include "tests/unit/kernel_cases.h"
#include "tests/unit/kir_random.h"

static const char *print_module(Arena *a, const KirModule *m)
{
    StrBuf out = {.arena = a};
    kir_print_module(m, &out);
    return strbuf_cstr(&out);
}

static KirModule *parse_bytes(Arena *a, const char *text, size_t n, Diags *d)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"k.kir", arena_strndup(a, text, n), (uint32_t)n};
    return kir_parse(a, src, d);
}

static KirModule *parse(Arena *a, const char *text, Diags *d) { return parse_bytes(a, text, strlen(text), d); }

/* ---- text --------------------------------------------------------------------------------------- */

static const char sample[] = "# every form of the text\n"
                             "#\n"
                             "# in one kernel\n"
                             "kernel @forms(b: in i8*, x: in restrict f32*, y: inout f64*, z: out "
                             "i32*, n: i64, s: f32, t: f64) {\n"
                             "  %n.0 = param i64 n\n"
                             "  %1 = param f32 s\n"
                             "  %2 = param f64 t\n"
                             "  %3 = const f32x16 0.1\n"
                             "  %4 = const f64 0.1\n"
                             "  %5 = const f32 -0\n"
                             "  %6 = const f64 -inf\n"
                             "  %7 = const f32 nan\n"
                             "  %8 = iconst i1 1\n"
                             "  %9 = iconst i64 -9223372036854775808\n"
                             "  %10 = lanes i32x16\n"
                             "  %11 = load f32x16 x[%9] stride 4 active 9 pad -inf\n"
                             "  %12 = gather f32x16 x[%10] active 3\n"
                             "  %13 = fma f32x16 %11, %12, %3\n"
                             "  %14 = extract f32 %13, 15\n"
                             "  %15 = insert f32x16 %13, %14, 0\n"
                             "  %16 = hadd f32 %15\n"
                             "  %17 = alloc f32 64\n"
                             "  store f32 %17[%n.0] = %16\n"
                             "  %18 = load f32 %17[%n.0]\n"
                             "  %19 = load i1x2 b[%n.0] pad 1\n"
                             "  %acc.20 = var f32 %18\n"
                             "  for %k.21 = %n.0 .. %n.0 step 4 unroll {  # four rows at a time\n"
                             "    loop {\n"
                             "      %22 = lt i1 %16, %acc.20\n"
                             "      break_if %22\n"
                             "      set %acc.20 = %16\n"
                             "    }\n"
                             "    if %8 {\n"
                             "      store f64 y[%k.21] = %4\n"
                             "    } else {\n"
                             "      prefetch y[%k.21]\n"
                             "      prefetch y[%k.21] far\n"
                             "    }\n"
                             "  }\n"
                             "  if %8 {\n"
                             "    %23 = splat i32x4 %24\n"
                             "  }\n"
                             "}\n"
                             "\n"
                             "kernel @warps(y: out f32*, n: i64) {\n"
                             "  %n.0 = param i64 n\n"
                             "  %1 = iconst i64 0\n"
                             "  %2 = iconst i64 8\n"
                             "  for %b.3 = %1 .. %n.0 block {  # of eight warps\n"
                             "    %all.4 = alloc f32 128 shared\n"
                             "    for %w.5 = %1 .. %2 warp {\n"
                             "      %6 = const f32x16 1\n"
                             "      store f32x16 %all.4[%1] = %6\n"
                             "      barrier\n"
                             "      %7 = lanes i32x16\n"
                             "      %8 = shuffle f32x16 %6, %7\n"
                             "      store f32x16 y[%b.3] = %8\n"
                             "    }\n"
                             "  }\n"
                             "}\n"
                             "\n"
                             "kernel @second(n: i64) {\n"
                             "  %0 = param i64 n\n"
                             "  for %1 = %0 .. %0 threads {\n"
                             "  }\n"
                             "}\n";

static void test_text(void)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    check_begin();
    CHECK(!parse(a, sample, &d) && d.n_errors == 1 && d.list.data[0]->code == E0503); /* %24 is not defined */
    Diags d2 = {.arena = a};
    char *fixed = arena_strndup(a, sample, strlen(sample)), *at = strstr(fixed, "    %23 = splat i32x4 %24\n");
    memmove(at, at + 26, strlen(at + 26) + 1);
    at = strstr(fixed, " pad 1\n");
    memmove(at, at + 6, strlen(at + 6) + 1); /* nothing is padded: two lanes of two */
    KirModule *m = parse(a, fixed, &d2);
    StrBuf messages = {.arena = a};
    diags_print(&d2, &messages, false);
    if (check(m != NULL, "%s", strbuf_cstr(&messages))) {
        const char *text = print_module(a, m);
        check(!strcmp(text, fixed), "printed:\n%.900s", text);
        CHECK(!strcmp(m->kernels.data[0]->comment, "every form of the text\n\nin one kernel"));
    }
    check_end("text_is_read_back");
    arena_free(a);
}

/* Comments, names and numbers in other spellings end in the canonical text. */
static void test_canonical(void)
{
    static const char loose[] = "\n# dropped: a blank line follows\n\n#kept  \n# too\t\nkernel  "
                                "@k( n : i64 ,x:out f32* ){ \n\n"
                                "   %one=iconst i64 1   # what a line says beside is "
                                "dropped\n%two.words.7 = const f32 1e-1\r\n"
                                "for %i=%one .. %one step 1 seq{#  a  b\n # dropped\n store f32 x[ "
                                "%i ] = %two.words.7 active 1\n }\n}\n";
    static const char want[] =
        "# kept\n# too\nkernel @k(n: i64, x: out f32*) {\n  %one.0 = iconst i64 1\n  %two_words.1 "
        "= const f32 0.1\n"
        "  for %i.2 = %one.0 .. %one.0 {  # a  b\n    store f32 x[%i.2] = %two_words.1\n  }\n}\n";
    Arena *a = arena_new();
    Diags d = {.arena = a};
    check_begin();
    KirModule *m = parse(a, loose, &d);
    StrBuf messages = {.arena = a};
    diags_print(&d, &messages, false);
    if (check(m != NULL, "%s", strbuf_cstr(&messages)))
        check(!strcmp(print_module(a, m), want), "printed:\n%s", print_module(a, m));
    check_end("text_is_canonical");
    arena_free(a);
}

static void test_random_text(void)
{
    check_begin();
    for (uint64_t seed = 1; seed <= 300 && check_ok; seed++) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        KirModule m = {0};
        VEC_PUSH(a, &m.kernels, kir_random(a, seed, "k"));
        const char *once = print_module(a, &m);
        KirModule *back = parse(a, once, &d);
        if (check(back != NULL, "seed %llu is not read back", (unsigned long long)seed))
            check(!strcmp(once, print_module(a, back)), "seed %llu reads back differently", (unsigned long long)seed);
        arena_free(a);
    }
    check_end("random_kernels_are_read_back");
}

/* The kernel that was read back computes what the first one did. */
static void test_random_meaning(void)
{
    static RkData x, y;
    check_begin();
    for (uint64_t seed = 1; seed <= 60 && check_ok; seed++) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        KirModule m = {0};
        VEC_PUSH(a, &m.kernels, kir_random(a, seed, "k"));
        KirModule *back = parse(a, print_module(a, &m), &d);
        KirArg args[RK_N_PARAMS];
        rk_data(&x, seed), rk_data(&y, seed);
        memcpy(args, x.args, sizeof args);
        const char *why = kir_run(a, m.kernels.data[0], args, x.n_elems, 0, RK_ROWS);
        check(!why, "seed %llu: %s", (unsigned long long)seed, why);
        memcpy(args, y.args, sizeof args);
        why = back ? kir_run(a, back->kernels.data[0], args, y.n_elems, 0, RK_ROWS) : "not read";
        check(!why, "seed %llu: %s", (unsigned long long)seed, why);
        CHECK(!rk_compare(a, &x, &y));
        arena_free(a);
    }
    check_end("random_kernels_mean_the_same_read_back");
}

/* Kernels quoted in the documentation are read and verified. */
static void test_docs(void)
{
    static const char *const pages[] = {"docs/ir.md", "docs/ir-kernel.md"};
    static const char fence[] = "```kir\n";
    Arena *a = arena_new();
    unsigned n_blocks = 0;
    check_begin();
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        size_t n;
        const char *why;
        char *page = file_read(a, pages[i], 0, &n, &why), *end;
        for (char *at = page; at && (at = strstr(at, fence)) && (end = strstr(at + 3, "```"));
             at = end + 3, n_blocks++) {
            Diags d = {.arena = a};
            at += sizeof fence - 1;
            KirModule *m = parse_bytes(a, at, (size_t)(end - at), &d);
            check(m != NULL, "%s: %s", pages[i], d.n_errors ? d.list.data[0]->text : "");
        }
    }
    CHECK(n_blocks >= 1);
    check_end("kernels_in_the_docs_are_valid");
    arena_free(a);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

typedef struct Refusal {
    const char *name, *text; /* lines of a kernel's body, or a whole text that begins with '!' */
    DiagCode code;
    const char *says; /* a part of the message */
} Refusal;

#define HEAD                                                                                                           \
    "kernel @k(a: in i32*, x: out f32*, b: in i8*, n: i64, s: f32) {\n  %n = param i64 n\n  %s = "                     \
    "param f32 s\n"

/* Lines around four warps of each block, and lines that each warp runs. */
#define BLOCK(around, warp)                                                                                            \
    "%zero = iconst i64 0\n%one = iconst i64 1\n%four = iconst i64 4\nfor %b = %zero .. %n block {\n%all = alloc i64 " \
    "64 shared\n" around "for %w = %zero .. %four warp {\n" warp "\n}\n}"
#define WARP(lines) BLOCK("", lines)
#define ODD         "%bit = and i64 %w, %one\n%odd = eq i1 %bit, %one\n"

static const Refusal refusals[] = {
    {"empty_text", "!", E0503, "'kernel', found the end of the text"},
    {"junk", "!\xff\x01", E0503, "byte 0xff"},
    {"no_name", "!kernel @ () {\n}\n", E0503, "the kernel's name, found '('"},
    {"number_as_name", "!kernel @1x() {\n}\n", E0503, "the kernel's name"},
    {"same_kernel_twice", "!kernel @k() {\n}\nkernel @k() {\n}\n", E0503, "kernel 'k' stands above"},
    {"unclosed", "!kernel @k() {\n", E0503, "found the end of the text"},
    {"same_parameter", "!kernel @k(n: i64, n: f32) {\n}\n", E0503, "parameters differ"},
    {"buffer_without_star", "!kernel @k(n: in i64) {\n}\n", E0503, "'*'"},
    {"vector_parameter", "!kernel @k(n: f32x4) {\n}\n", E0503, "one lane"},
    {"i32_scalar", "!kernel @k(n: i32) {\n}\n", E0504, "a scalar parameter is i64, f32 or f64: n"},
    {"i1_buffer", "!kernel @k(n: in i1*) {\n}\n", E0504, "elements i8: n"},
    {"unknown_instruction", "%1 = frob i64 %n", E0503, "an instruction with a value, found 'frob'"},
    {"unknown_statement", "frob %n", E0503, "an instruction, found 'frob'"},
    {"unknown_type", "%1 = add i64x3 %n, %n", E0503, "a type such as"},
    {"unknown_value", "%1 = add i64 %n, %m", E0503, "a value defined above, found '%m'"},
    {"defined_twice", "%n = iconst i64 1", E0503, "defined once"},
    {"unknown_buffer", "%1 = load f32 q[%n]", E0503, "a parameter or an array, found 'q'"},
    {"too_few_operands", "%1 = add i64 %n", E0503, "',', found the end of the line"},
    {"rest_of_line", "%1 = neg i64 %n %n", E0503, "the end of the line, found '%'"},
    {"number_too_large", "%1 = iconst i64 9223372036854775808", E0503, "an integer"},
    {"not_a_number", "%1 = const f32 1.x", E0503, "a number, found '1.x'"},
    {"too_many_active", "store f32 x[%n] = %s active 2", E0503, "at most the type's"},
    {"no_step", "for %i = %n .. %n step 0 {\n}", E0503, "a step of 1 or more"},
    {"stray_brace", "}\n}", E0503, "'kernel'"},
    {"types_differ", "%1 = add i64 %n, %s", E0504, "`%2 = add i64 %n.0, %s.1`: operands and result need the same type"},
    {"const_of_ints", "%1 = const i64 1", E0504, "`iconst` for integers"},
    {"iconst_of_floats", "%1 = iconst f32 1", E0504, "`const` for floats"},
    {"lanes_of_floats", "%1 = lanes f32x4", E0504, "an integer type"},
    {"buffer_as_scalar", "%1 = param i64 x", E0504, "a buffer, not a scalar"},
    {"parameter_of_another_type", "%1 = param f64 s", E0504, "another type"},
    {"rem_of_floats", "%1 = rem f32 %s, %s", E0504, "wants integers"},
    {"mulhu_of_i64", "%1 = mulhu i64 %n, %n", E0504, "wants i32"},
    {"sqrt_of_ints", "%1 = sqrt i64 %n", E0504, "wants floats"},
    {"and_of_floats", "%1 = and f32 %s, %s", E0504, "wants integers or i1"},
    {"add_of_i1", "%1 = eq i1 %n, %n\n%2 = add i1 %1, %1", E0504, "wants numbers"},
    {"comparison_of_two_types", "%1 = lt i1 %n, %s", E0504, "operands need the same type"},
    {"comparison_to_i64", "%1 = lt i64 %n, %n", E0504, "the result is i1"},
    {"order_of_i1", "%1 = eq i1 %n, %n\n%2 = lt i1 %1, %1", E0504, "i1 has no order"},
    {"ult_of_floats", "%1 = ult i1 %s, %s", E0504, "`ult` wants integers"},
    {"select_by_number", "%1 = select f32 %n, %s, %s", E0504, "the condition is i1"},
    {"select_of_two_types", "%1 = eq i1 %n, %n\n%2 = select f32 %1, %s, %n", E0504, "the result's type"},
    {"convert_to_i1", "%1 = convert i1 %n", E0504, "compare with 0"},
    {"convert_lanes", "%1 = convert f32x4 %n", E0504, "lanes changes"},
    {"zext_of_i64", "%1 = zext i64 %n", E0504, "from i32 to i64"},
    {"bitcast_of_sizes", "%1 = bitcast f32 %n", E0504, "between f32 and i32"},
    {"splat_of_another", "%1 = splat f32x4 %n", E0504, "base type"},
    {"extract_beyond", "%1 = splat f32x4 %s\n%2 = extract f32 %1, 4", E0504, "no such lane"},
    {"insert_beyond", "%1 = splat f32x4 %s\n%2 = insert f32x4 %1, %s, -1", E0504, "no such lane"},
    {"insert_another", "%1 = splat f32x4 %s\n%2 = insert f32x4 %1, %n, 0", E0504, "the vector's base type"},
    {"repeat_another", "%1 = splat f32x4 %s\n%2 = repeat i32x8 %1, 2", E0504, "the base type changes"},
    {"repeat_a_scalar", "%1 = repeat f32x8 %s, 2", E0504, "wants vectors"},
    {"repeat_never", "%1 = splat f32x4 %s\n%2 = repeat f32x8 %1, 0", E0504, "1 to 16 times"},
    {"part_beyond", "%1 = splat f32x4 %s\n%2 = part f32x2 %1, 3", E0504, "no such lanes"},
    {"part_of_less", "%1 = splat f32x4 %s\n%2 = part f32x8 %1, 0", E0504, "no such lanes"},
    {"halves_of_three", "%1 = splat f32x4 %s\n%2 = lower f32x4 %1, %1, 3", E0504, "a power of two"},
    {"halves_beyond", "%1 = splat f32x4 %s\n%2 = upper f32x4 %1, %1, 16", E0504, "twice as many lanes"},
    {"halves_of_another", "%1 = splat f32x4 %s\n%2 = splat f32x2 %s\n%3 = upper f32x4 %1, %2, 2", E0504,
     "operands and result need the same type"},
    {"fold_to_vector", "%1 = splat f32x4 %s\n%2 = hadd f64 %1", E0504, "to its scalar"},
    {"load_of_another", "%1 = load f32 a[%n]", E0504, "other elements"},
    {"load_of_i8", "%1 = load i8 b[%n]", E0504, "no value has such a type"},
    {"load_scalar", "%1 = load i64 n[%n]", E0504, "a scalar, not a buffer"},
    {"index_of_floats", "%1 = load i32 a[%s]", E0504, "an index is an i64"},
    {"pad_of_ints", "%1 = lanes i64x2\n%2 = load i32x2 a[%n] active 1 pad 0.5", E0504, "`pad` is a number"},
    {"gather_scalar_index", "%1 = gather i32x2 a[%n]", E0504, "one per lane"},
    {"store_to_in", "%1 = load i32 a[%n]\nstore i32 a[%n] = %1", E0504, "never written"},
    {"store_of_another", "store f32 x[%n] = %n", E0504, "the value has another type"},
    {"prefetch_by_float", "prefetch x[%s]", E0504, "an index is an i64"},
    {"alloc_too_large", "%1 = alloc f32 16385", E0504, "64 KiB"},
    {"alloc_of_vectors", "%1 = alloc f32x4 16", E0504, "scalar numbers"},
    {"allocs_too_large",
     "%1 = alloc f32 16384\n%2 = alloc f32 16384\n%3 = alloc f32 16384\n%4 = alloc f32 16384\n%5 = "
     "alloc f32 1",
     E0504, "together exceed"},
    {"array_as_value", "%1 = alloc f32 16\n%2 = neg f32 %1", E0504, "an array is not a value"},
    {"value_as_array", "%1 = load f32 %s[%n]", E0504, "wants an array"},
    {"var_of_another", "%1 = var f64 %s", E0504, "same type"},
    {"set_of_value", "set %s = %s", E0504, "only a `var` can be set"},
    {"set_to_another", "%1 = var f32 %s\nset %1 = %n", E0504, "another type than the var"},
    {"for_of_floats", "for %i = %s .. %s {\n}", E0504, "between two i64"},
    {"endless_loop", "loop {\n}", E0504, "never ends"},
    {"break_outside", "%1 = eq i1 %n, %n\nbreak_if %1", E0504, "directly in a `loop`"},
    {"break_in_if", "%1 = eq i1 %n, %n\nloop {\nbreak_if %1\nif %1 {\nbreak_if %1\n}\n}", E0504,
     "directly in a `loop`"},
    {"break_by_number", "loop {\nbreak_if %n\n}", E0504, "wants a scalar i1"},
    {"if_by_number", "if %n {\n}", E0504, "wants a scalar i1"},
    {"out_of_scope", "for %i = %n .. %n {\n%1 = neg i64 %n\n}\n%2 = neg i64 %1", E0504, "not defined above"},
    {"induction_after_loop", "for %i = %n .. %n {\n}\n%2 = neg i64 %i", E0504, "not defined above"},
    {"threads_inside", "for %i = %n .. %n {\nfor %j = %n .. %n threads {\n}\n}", E0504,
     "the kernel's last instruction"},
    {"threads_not_last", "for %j = %n .. %n threads {\n}\n%1 = neg i64 %n", E0504, "the kernel's last instruction"},
    {"threads_with_step", "for %j = %n .. %n step 2 threads {\n}", E0504, "has step 1"},
    {"impure_prelude", "for %i = %n .. %n {\nstore f32 x[%i] = %s\n}\nfor %j = %n .. %n threads {\n}", E0504,
     "may not write to a buffer"},
    {"i1_of_two", "%1 = iconst i1 2", E0503, "0 or 1"},
    {"i32_too_large", "%1 = iconst i32 2147483648", E0503, "an integer of 32 bits"},
    {"i32_too_small", "%1 = iconst i32 -2147483649", E0503, "an integer of 32 bits"},
    {"comparison_of_lanes", "%1 = splat f32x4 %s\n%2 = lt i1 %1, %1", E0504, "as many lanes"},
    {"zext_to_i32", "%1 = load i32 a[%n]\n%2 = zext i32 %1", E0504, "from i32 to i64"},
    {"bitcast_lanes", "%1 = bitcast i32x4 %s", E0504, "lanes changes"},
    {"bitcast_to_wide", "%1 = bitcast i64 %s", E0504, "between f32 and i32"},
    {"bitcast_i32_wide", "%1 = load i32 a[%n]\n%2 = bitcast i64 %1", E0504, "between f32 and i32"},
    {"bitcast_f64_narrow", "%1 = convert f64 %s\n%2 = bitcast i32 %1", E0504, "between f32 and i32"},
    {"bitcast_i64_narrow", "%1 = bitcast i32 %n", E0504, "between f32 and i32"},
    {"extract_before", "%1 = splat f32x4 %s\n%2 = extract f32 %1, -1", E0504, "no such lane"},
    {"insert_behind", "%1 = splat f32x4 %s\n%2 = insert f32x4 %1, %s, 4", E0504, "no such lane"},
    {"repeat_to_scalar", "%1 = splat f32x4 %s\n%2 = repeat f32 %1, 2", E0504, "wants vectors"},
    {"repeat_too_often", "%1 = splat f32x4 %s\n%2 = repeat f32x8 %1, 17", E0504, "1 to 16 times"},
    {"part_another", "%1 = splat f32x4 %s\n%2 = part i32x2 %1, 0", E0504, "the base type changes"},
    {"part_to_scalar", "%1 = splat f32x4 %s\n%2 = part f32 %1, 0", E0504, "`extract` gives one lane"},
    {"part_before", "%1 = splat f32x4 %s\n%2 = part f32x2 %1, -1", E0504, "no such lanes"},
    {"halves_of_scalars", "%1 = lower f32 %s, %s, 2", E0504, "wants vectors"},
    {"halves_of_one", "%1 = splat f32x4 %s\n%2 = lower f32x4 %1, %1, 1", E0504, "a power of two"},
    {"fold_of_bools", "%1 = splat f32x4 %s\n%2 = lt i1x4 %1, %1\n%3 = hadd i1 %2", E0504, "to its scalar"},
    {"pad_too_large", "%1 = load i32x2 a[%n] active 1 pad 3000000000", E0504, "`pad` is a number"},
    {"pad_too_small", "%1 = load i32x2 a[%n] active 1 pad -3000000000", E0504, "`pad` is a number"},
    {"pad_of_bools", "%1 = load i1x2 b[%n] active 1 pad 2", E0504, "`pad` is a number"},
    {"gather_by_floats", "%1 = splat f32x2 %s\n%2 = gather f32x2 x[%1]", E0504, "the indices are i32 or i64"},
    {"store_at_float", "store f32 x[%s] = %s", E0504, "an index is an i64"},
    {"alloc_of_bools", "%1 = alloc i1 4", E0504, "scalar numbers"},
    {"alloc_of_nothing", "%1 = alloc f32 0", E0504, "1 element to 64 KiB"},
    {"prefetch_of_scalar", "prefetch s[%n]", E0504, "a scalar, not a buffer"},
    {"allocs_too_large_early",
     "%1 = alloc f32 16384\n%2 = alloc f32 16384\n%3 = alloc f32 16384\n%4 = alloc f32 16384\n%5 = alloc f32 1\n%6 = "
     "alloc f32 1",
     E0504, "together exceed"},
    {"impure_prelude_early", "store f32 x[%n] = %s\n%1 = neg i64 %n\nfor %j = %n .. %n threads {\n}", E0504,
     "may not write to a buffer"},
    {"lane_binding", "for %i = %n .. %n lane {\n}", E0503, "'{', found 'lane'"},
    {"block_inside", "for %i = %n .. %n {\nfor %j = %n .. %n block {\n}\n}", E0504,
     "bound to block is the kernel's last"},
    {"block_not_last", "for %j = %n .. %n block {\n}\n%1 = neg i64 %n", E0504, "bound to block is the kernel's last"},
    {"block_with_step",
     "%0 = iconst i64 0\n%1 = iconst i64 1\nfor %j = %n .. %n step 2 block {\nfor %w = %0 .. %1 warp {\n}\n}", E0504,
     "bound to block has step 1"},
    {"block_of_nothing", "for %j = %n .. %n block {\n}", E0504, "ends with a loop bound to warp"},
    {"block_without_warps", "for %j = %n .. %n block {\n%1 = neg i64 %j\n}", E0504, "ends with a loop bound to warp"},
    {"warp_outside", "%0 = iconst i64 0\n%1 = iconst i64 1\nfor %j = %0 .. %1 warp {\n}", E0504,
     "the last instruction of a loop bound to block"},
    {"warp_twice", BLOCK("for %v = %zero .. %four warp {\n}\n", ""), E0504,
     "the last instruction of a loop bound to block"},
    {"warp_in_warp", WARP("for %v = %zero .. %four warp {\n}"), E0504, "the last instruction of a loop bound to block"},
    /* clang-format off */
    {"warps_by_parameter", "%0 = iconst i64 0\nfor %j = %n .. %n block {\nfor %w = %0 .. %n warp {\n}\n}", E0504,
        "from 0 to a constant of 1 to 64"},
    {"warps_from_one",
        "%0 = iconst i64 1\n%1 = iconst i64 4\nfor %j = %n .. %n block {\nfor %w = %0 .. %1 warp {\n}\n}", E0504,
        "from 0 to a constant"},
    {"warps_with_step",
        "%0 = iconst i64 0\n%1 = iconst i64 4\nfor %j = %n .. %n block {\nfor %w = %0 .. %1 step 2 warp {\n}\n}",
        E0504, "with step 1"},
    {"too_many_warps",
        "%0 = iconst i64 0\n%1 = iconst i64 65\nfor %j = %n .. %n block {\nfor %w = %0 .. %1 warp {\n}\n}", E0504,
        "a constant of 1 to 64"},
    {"no_warps", "%0 = iconst i64 0\nfor %j = %n .. %n block {\nfor %w = %0 .. %0 warp {\n}\n}", E0504,
        "a constant of 1 to 64"},
    /* clang-format on */
    {"shared_outside", "%1 = alloc f32 4 shared", E0504, "directly in a loop bound to block"},
    {"shared_in_warp", WARP("%1 = alloc f32 4 shared"), E0504, "directly in a loop bound to block"},
    {"shared_in_branch", BLOCK("%bit = lt i1 %b, %one\nif %bit {\n%1 = alloc f32 4 shared\n}\n", ""), E0504,
     "directly in a loop bound to block"},
    {"private_in_block", BLOCK("%1 = alloc f32 4\n", ""), E0504, "an array outside the warps of a block is shared"},
    {"private_of_all_warps", WARP("%1 = alloc f32 4097"), E0504, "64 KiB in all warps together"},
    {"frame_of_all_warps", WARP("%1 = alloc f32 4096\n%2 = alloc f32 4096\n%3 = alloc f32 4096\n%4 = alloc f32 4096"),
     E0504, "together exceed"},
    {"block_writes", BLOCK("store f32 x[%b] = %s\n", ""), E0504, "before a loop bound to warp may not write"},
    {"block_writes_shared", BLOCK("store i64 %all[%zero] = %b\n", ""), E0504,
     "before a loop bound to warp may not write"},
    {"impure_prelude_of_block", "store f32 x[%n] = %s\n" WARP(""), E0504, "before a loop bound to block may not write"},
    {"register_of_block", BLOCK("%v = var i64 %b\n", "set %v = %w"), E0504, "a warp sets its own registers"},
    {"register_of_kernel", "%v = var i64 %n\n" BLOCK("set %v = %b\n", ""), E0504, "a warp sets its own registers"},
    {"array_of_kernel", "%a = alloc i64 4\n" WARP("store i64 %a[%zero] = %w"), E0504,
     "writes to its own private arrays"},
    {"barrier_outside", "barrier", E0504, "in a loop bound to warp only"},
    {"barrier_of_block", BLOCK("barrier\n", ""), E0504, "in a loop bound to warp only"},
    {"barrier_in_threads", "for %j = %n .. %n threads {\nbarrier\n}", E0504, "in a loop bound to warp only"},
    {"barrier_with_type", WARP("barrier i64"), E0503, "the end of the line"},
    {"barrier_of_odd_warps", WARP(ODD "if %odd {\nbarrier\n}"), E0504, "the warps of a block part"},
    {"barrier_of_even_warps", WARP(ODD "if %odd {\n} else {\nbarrier\n}"), E0504, "the warps of a block part"},
    {"barrier_w_times", WARP("for %i = %zero .. %w {\nbarrier\n}"), E0504, "the warps of a block part"},
    {"barrier_from_w", WARP("for %i = %w .. %four step 4 {\nbarrier\n}"), E0504, "the warps of a block part"},
    {"barrier_inside_w_times", WARP("for %i = %zero .. %w {\nfor %j = %zero .. %n {\nbarrier\n}\n}"), E0504,
     "the warps of a block part"},
    {"barrier_by_induction",
     WARP("for %i = %w .. %four {\n}\nfor %j = %zero .. %four {\n%m = mul i64 %j, %w\n%c = lt i1 %m, %n\nif %c "
          "{\nbarrier\n}\n}"),
     E0504, "the warps of a block part"},
    {"barrier_until_w",
     WARP("%v = var i64 %zero\nloop {\n%c = lt i1 %w, %v\nbreak_if %c\nbarrier\n%next = add i64 %v, %one\nset %v = "
          "%next\n}"),
     E0504, "the warps of a block part"},
    {"barrier_by_register",
     WARP(ODD "%v = var i64 %zero\nif %odd {\nset %v = %one\n}\n%c = eq i1 %v, %one\nif %c {\nbarrier\n}"), E0504,
     "the warps of a block part"},
    {"barrier_by_count",
     WARP("%v = var i64 %zero\nfor %i = %zero .. %w {\nset %v = %one\n}\nfor %j = %zero .. %v {\nbarrier\n}"), E0504,
     "the warps of a block part"},
    {"barrier_by_turns", /* the register differs in the second turn */
     WARP("%u = var i64 %zero\n%v = var i64 %zero\nfor %i = %zero .. %n {\nfor %j = %zero .. %v {\nbarrier\n}\nset %v "
          "= %u\nset %u = %w\n}"),
     E0504, "the warps of a block part"},
    {"barrier_by_own_array",
     WARP("%a = alloc i64 4\nstore i64 %a[%zero] = %w\n%v = load i64 %a[%zero]\nfor %i = %zero .. %v {\nbarrier\n}"),
     E0504, "the warps of a block part"},
    {"barrier_by_own_element", WARP("%v = load i64 %all[%w]\nfor %i = %zero .. %v {\nbarrier\n}"), E0504,
     "the warps of a block part"},
    {"shuffle_of_scalar", "%1 = iconst i32 1\n%2 = shuffle f32 %s, %1", E0504, "wants a vector"},
    {"shuffle_another", "%1 = splat f32x4 %s\n%2 = lanes i32x4\n%3 = shuffle i32x4 %1, %2", E0504,
     "the base type changes"},
    {"shuffle_by_i64", "%1 = splat f32x4 %s\n%2 = lanes i64x4\n%3 = shuffle f32x4 %1, %2", E0504,
     "the lane numbers are i32"},
    {"shuffle_by_fewer", "%1 = splat f32x4 %s\n%2 = lanes i32x2\n%3 = shuffle f32x4 %1, %2", E0504,
     "one per lane of the result"},
    {"two_bad_parameters", "!kernel @k(n: i32, m: i32) {\n}\n", E0504, "f64: n"},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const Refusal *r = &refusals[i];
        Arena *a = arena_new();
        Diags d = {.arena = a};
        bool whole = r->text[0] == '!';
        const char *text = whole ? r->text + 1 : arena_printf(a, "%s%s\n}\n", HEAD, r->text);
        check_begin();
        if (CHECK(!parse(a, text, &d)) && CHECK(d.n_errors == 1)) {
            const Diag *e = d.list.data[0];
            check(e->code == r->code, "code %s", diag_codes[e->code].id);
            check(strstr(e->text, r->says) != NULL, "says: %s", e->text);
            CHECK(e->span.source && e->span.begin <= e->span.end && e->span.end <= strlen(text));
        }
        check_end(arena_printf(a, "refuses_%s", r->name));
        arena_free(a);
    }
}

/* Barriers where all warps come: the conditions around them are computed from what is the same in all. */
static const char *const meeting[] = {
    WARP("barrier"),
    BLOCK("%half = div i64 %b, %four\n", "for %i = %zero .. %half {\nbarrier\n}"),
    WARP("%v = load i64 %all[%zero]\nfor %i = %zero .. %v {\n%c = lt i1 %i, %b\nif %c {\n} else {\nbarrier\n}\n}"),
    WARP("%v = var i64 %zero\nloop {\n%c = lt i1 %b, %v\nbreak_if %c\nbarrier\n%next = add i64 %v, %one\nset %v = "
         "%next\n}"),
    WARP(ODD "%v = var i64 %zero\n%o = var i64 %zero\nif %odd {\nset %o = %one\n}\nset %v = %b\nfor %i = %zero .. %v "
             "{\nbarrier\n}"),
    WARP(ODD "if %odd {\nfor %i = %zero .. %w {\n}\n}\nbarrier"),
};

static void test_meeting(void)
{
    for (size_t i = 0; i < sizeof meeting / sizeof *meeting; i++) {
        Arena *a = arena_new();
        Diags d = {.arena = a};
        check_begin();
        const KirModule *m = parse(a, arena_printf(a, "%s%s\n}\n", HEAD, meeting[i]), &d);
        check(m != NULL, "%s", d.n_errors ? d.list.data[0]->text : "");
        check_end(arena_printf(a, "takes_barrier_%zu", i));
        arena_free(a);
    }
}

static void test_deep(void)
{
    Arena *a = arena_new();
    Diags d = {.arena = a};
    StrBuf b = {.arena = a};
    check_begin();
    strbuf_puts(&b, HEAD "%c = eq i1 %n, %n\n");
    for (int i = 0; i < 100000; i++) strbuf_puts(&b, "if %c {\n");
    CHECK(!parse(a, b.data, &d));
    CHECK(d.n_errors == 1 && strstr(d.list.data[0]->text, "64 blocks"));
    check_end("refuses_deep_nesting");
    arena_free(a);
}

/* What only a program can build: breaks a kernel that has a parameter, `%0 = iconst i64 1` and a loop around a `neg` of
   it. */
typedef struct Built {
    const char *says;
    void (*breaks)(Arena *a, KirKernel *k);
} Built;

enum { ONE, LOOP, NEG, FLOAT };
#define BREAK(name) static void name(Arena *a, KirKernel *k)
BREAK(two_words) { (void)a, k->name = "two words"; }
BREAK(empty_name) { (void)a, k->name = ""; }
BREAK(digit_first) { (void)a, k->name = "1k"; }
BREAK(no_name) { (void)a, k->name = NULL; }
BREAK(long_name) { (void)a, k->name = "k23456789012345678901234567890123456789012345678901234567890123456789"; }
BREAK(no_parameter_name) { (void)a, k->params.data[0].name = NULL; }
BREAK(same_parameters) { VEC_PUSH(a, &k->params, k->params.data[0]); }
BREAK(listed_twice) { VEC_PUSH(a, &k->body.ins, ONE); }
BREAK(not_there) { VEC_PUSH(a, &k->body.ins, 99); }
BREAK(no_op) { (void)a, k->ins.data[NEG].op = KIR_N_OPS; }
BREAK(no_operand) { (void)a, k->ins.data[NEG].args[0] = 77; }
BREAK(three_lanes) { (void)a, k->ins.data[ONE].type.lanes = 3; }
BREAK(no_base) { (void)a, k->ins.data[ONE].type.base = (KirBase)99; }
BREAK(no_binding) { (void)a, k->ins.data[LOOP].bind = (KirBinding)(KIR_WARP + 1); }
BREAK(no_step) { (void)a, k->ins.data[LOOP].i = 0; }
BREAK(not_f32) { (void)a, k->ins.data[FLOAT].f = 0.1; }
BREAK(no_i1) { (void)a, k->ins.data[ONE].type.base = KIR_I1, k->ins.data[ONE].i = 2; }
BREAK(above_i32) { (void)a, k->ins.data[ONE].type.base = KIR_I32, k->ins.data[ONE].i = 1LL << 31; }
BREAK(below_i32) { (void)a, k->ins.data[ONE].type.base = KIR_I32, k->ins.data[ONE].i = -(1LL << 31) - 1; }
BREAK(param_before) { (void)a, k->ins.data[ONE].op = KIR_param, k->ins.data[ONE].i = -1; }
BREAK(param_behind) { (void)a, k->ins.data[ONE].op = KIR_param, k->ins.data[ONE].i = 1; }
BREAK(no_buffer) { (void)a, k->ins.data[NEG].op = KIR_load, k->ins.data[NEG].buf = 7; }
BREAK(none_active) { (void)a, k->ins.data[NEG].op = KIR_load, k->ins.data[NEG].buf = 0, k->ins.data[NEG].active = 0; }
BREAK(back_stride)
{
    (void)a, k->ins.data[NEG].op = KIR_load, k->ins.data[NEG].buf = 0, k->ins.data[NEG].active = 1,
             k->ins.data[NEG].stride = -1;
}
static const Built built[] = {
    /* clang-format off */
    {"its name is not an identifier", two_words}, {"its name is not an identifier", empty_name},
    {"its name is not an identifier", digit_first}, {"its name is not an identifier", no_name},
    {"its name is not an identifier", long_name}, {"a parameter's name is not an identifier", no_parameter_name},
    {"two parameters have the name p", same_parameters}, {"lists what does not exist, or twice", listed_twice},
    {"lists what does not exist, or twice", not_there}, {"lists what does not exist, or twice", no_op},
    {"an operand is not defined above", no_operand}, {"no value has such a type", three_lanes},
    {"no value has such a type", no_base}, {"there is no such binding", no_binding}, {"a step is at least 1",
        no_step},
    {"an i1 is 0 or 1", no_i1}, {"the number does not fit i32", above_i32}, {"the number does not fit i32",
        below_i32},
    {"the number is not an f32", not_f32}, {"there is no such parameter", param_before},
    {"there is no such parameter", param_behind}, {"there is no such parameter", no_buffer},
    {"`active` is 1 to the number of lanes", none_active}, {"a stride is not negative", back_stride},
    /* clang-format on */
};

static void test_built(void)
{
    Arena *a = arena_new();
    KirType l = kir_type(KIR_I64, 1);
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        Diags d = {.arena = a};
        KirKernel *k = kir_kernel_new(a, "k");
        VEC_PUSH(a, &k->params, ((KirParam){.name = "p", .kind = KIR_OUT, .elem = KIR_I64}));
        KirBuilder b = kir_builder(a, k);
        KirId one = kir_int(&b, l, 1);
        kir_for(&b, one, one, 1, KIR_SEQ, NULL);
        kir_op(&b, KIR_neg, l, one, KIR_NONE, KIR_NONE);
        kir_end(&b);
        kir_const(&b, kir_type(KIR_F32, 1), 0.5);
        check_begin();
        CHECK(kir_verify(k, &d));
        built[i].breaks(a, k);
        check(!kir_verify(k, &d) && d.n_errors == 1 && d.list.data[0]->code == E0504, "taken");
        check(d.n_errors && strstr(d.list.data[0]->text, built[i].says), "says: %s",
              d.n_errors ? d.list.data[0]->text : "nothing");
        check_end(arena_printf(a, "refuses_built %zu: %s", i, built[i].says));
    }
    arena_free(a);
}

/* Changed bytes of a good text: an error or a kernel, never a crash. Sanitized builds look closer. */
static void test_damaged(void)
{
    Arena *a = arena_new();
    const KirModule *m = case_module(a, "tests/kernel/merge_path_spmm.kir");
    unsigned refused = 0;
    check_begin();
    if (CHECK(m != NULL)) {
        const char *text = print_module(a, m);
        size_t n = strlen(text);
        Rk r = {.state = 12345};
        for (int i = 0; i < 2000; i++) {
            Arena *b = arena_new();
            Diags d = {.arena = b};
            char *copy = arena_strndup(b, text, n);
            for (unsigned k = 1 + rk_below(&r, 3); k; k--)
                copy[rk_below(&r, (uint32_t)n)] = rk_below(&r, 3) ? text[rk_below(&r, (uint32_t)n)]
                                                                  : (char)rk_below(&r, 256);
            KirModule *back = parse_bytes(b, copy, rk_below(&r, 8) ? n : rk_below(&r, (uint32_t)n), &d);
            CHECK((back == NULL) == (d.n_errors > 0));
            refused += back == NULL;
            if (back) print_module(b, back);
            arena_free(b);
        }
    }
    CHECK(refused > 500);
    check_end("damaged_text_is_refused_or_read");
    arena_free(a);
}

/* ---- meaning ------------------------------------------------------------------------------------ */

static float f_out[64];
static int64_t l_out[64];

/* Runs lines that may store to f: f32[64] and l: i64[64]; s and n are scalars. */
static const char *run_lines(Arena *a, const char *lines, double s, int64_t n)
{
    Diags d = {.arena = a};
    const char *text = arena_printf(a,
                                    "kernel @k(f: inout f32*, l: inout i64*, s: f32, n: i64) {\n  %%s = param f32 s\n"
                                    "  %%n = param i64 n\n  %%0 = iconst i64 0\n%s\n}\n",
                                    lines);
    KirModule *m = parse(a, text, &d);
    if (!m) return d.list.data[0]->text;
    KirArg args[] = {{.p = f_out}, {.p = l_out}, {.f = s}, {.i = n}};
    int64_t n_elems[] = {64, 64, 0, 0};
    return kir_run(a, m->kernels.data[0], args, n_elems, 0, 64);
}

typedef struct Meaning {
    const char *name, *lines;
    double s;
    int64_t n;
    double f; /* wanted in f[0], or the integer in l[0] */
    int64_t l;
    bool is_float;
} Meaning;

#define F(expr) expr "\nstore f32 f[%0] = %r"
#define L(expr) expr "\nstore i64 l[%0] = %r"
static const Meaning meanings[] = {
    {"max_of_nan", F("%r = max f32 %s, %s"), NAN, 0, NAN, 0, true},
    {"max_with_nan_right", F("%1 = const f32 1\n%r = max f32 %1, %s"), NAN, 0, NAN, 0, true},
    {"min_with_nan_left", F("%1 = const f32 1\n%r = min f32 %s, %1"), NAN, 0, NAN, 0, true},
    {"min_takes_the_second_zero", F("%1 = const f32 0\n%2 = min f32 %1, %s\n%3 = const f32 1\n%r = div f32 %3, %2"),
     -0.0, 0, -INFINITY, 0, true},
    {"f32_is_rounded", F("%1 = const f32 16777216\n%2 = add f32 %1, %s\n%r = sub f32 %2, %1"), 1, 0, 0, 0, true},
    {"fma_is_rounded_once", F("%1 = const f32 1.0000001\n%2 = const f32 -1.0000002\n%r = fma f32 %1, %1, %2"), 0, 0,
     1.4210854715202004e-14, 0, true},
    {"rint_to_even", F("%r = rint f32 %s"), 2.5, 0, 2, 0, true},
    {"floor_of_negative", F("%r = floor f32 %s"), -0.5, 0, -1, 0, true},
    {"hadd_halves",
     F("%1 = const f32x4 1\n%2 = insert f32x4 %1, %s, 0\n%3 = neg f32 %s\n%4 = insert f32x4 %2, "
       "%3, 1\n%r = hadd f32 %4"),
     1e8, 0, 0, 0, true}, /* (1e8 + 1) + (-1e8 + 1), each rounded */
    {"i32_wraps", L("%1 = iconst i32 2147483647\n%2 = add i32 %1, %1\n%r = convert i64 %2"), 0, 0, 0, -2, false},
    {"mul_wraps_i64", L("%r = mul i64 %n, %n"), 0, INT64_MAX, 0, 1, false},
    {"div_truncates", L("%1 = iconst i64 2\n%r = div i64 %n, %1"), 0, -7, 0, -3, false},
    {"rem_has_the_sign_of_the_left", L("%1 = iconst i64 2\n%r = rem i64 %n, %1"), 0, -7, 0, -1, false},
    {"shift_modulo_width", L("%1 = iconst i64 65\n%r = shl i64 %n, %1"), 0, 3, 0, 6, false},
    {"lshr_of_i32", L("%1 = iconst i32 -1\n%2 = iconst i32 28\n%3 = lshr i32 %1, %2\n%r = convert i64 %3"), 0, 0, 0, 15,
     false},
    {"ashr_of_i32", L("%1 = iconst i32 -16\n%2 = iconst i32 2\n%3 = ashr i32 %1, %2\n%r = convert i64 %3"), 0, 0, 0, -4,
     false},
    {"mulhu_is_unsigned", L("%1 = iconst i32 -1\n%2 = mulhu i32 %1, %1\n%r = zext i64 %2"), 0, 0, 0, 0xfffffffe, false},
    {"zext_is_unsigned", L("%1 = iconst i32 -1\n%r = zext i64 %1"), 0, 0, 0, 0xffffffff, false},
    {"ult_is_unsigned", L("%1 = iconst i64 -1\n%2 = ult i1 %n, %1\n%r = convert i64 %2"), 0, 5, 0, 1, false},
    {"convert_truncates", L("%r = convert i64 %s"), -2.75, 0, 0, -2, false},
    {"convert_of_nan", L("%1 = convert i32 %s\n%r = convert i64 %1"), NAN, 0, 0, INT32_MIN, false},
    {"convert_of_too_large", L("%r = convert i64 %s"), 1e30, 0, 0, INT64_MIN, false},
    {"ne_of_nan", L("%1 = ne i1 %s, %s\n%r = convert i64 %1"), NAN, 0, 0, 1, false},
    {"eq_of_nan", L("%1 = eq i1 %s, %s\n%r = convert i64 %1"), NAN, 0, 0, 0, false},
    {"bits_of_float", L("%1 = bitcast i32 %s\n%r = convert i64 %1"), 1, 0, 0, 0x3f800000, false},
    {"var_is_read_when_used", L("%v = var i64 %n\n%1 = add i64 %v, %n\nset %v = %1\n%r = add i64 %v, %v"), 0, 3, 0, 12,
     false},
    {"for_bound_is_read_once",
     L("%v = var i64 %n\n%r = var i64 %0\nfor %i = %0 .. %v {\nset %v = %0\n%1 = add i64 %r, "
       "%n\nset %r = %1\n}"),
     0, 3, 0, 9, false},
    {"for_steps", L("%r = var i64 %0\nfor %i = %0 .. %n step 4 {\n%1 = add i64 %r, %i\nset %r = %1\n}"), 0, 10, 0, 12,
     false},
    {"loop_breaks_in_the_middle",
     L("%r = var i64 %0\n%one = iconst i64 1\nloop {\n%1 = add i64 %r, %one\nset %r = %1\n%2 = le "
       "i1 %n, %r\nbreak_if %2\n}"),
     0, 5, 0, 5, false},
    {"repeat_each", L("%1 = lanes i64x4\n%2 = repeat i64x8 %1, 2\n%r = extract i64 %2, 5"), 0, 0, 0, 2, false},
    {"repeat_again", L("%1 = lanes i64x4\n%2 = repeat i64x16 %1, 2\n%r = extract i64 %2, 13"), 0, 0, 0, 2, false},
    {"repeat_fewer", L("%1 = lanes i64x8\n%2 = repeat i64x2 %1, 1\n%r = extract i64 %2, 1"), 0, 0, 0, 1, false},
    {"part_from", L("%1 = lanes i64x8\n%2 = part i64x4 %1, 3\n%r = extract i64 %2, 2"), 0, 0, 0, 5, false},
    {"lower_of_the_second", /* 0 1 . . 4 5 . . of 0 1 2 3 4 5 6 7: lane 2 */
     L("%1 = lanes i64x4\n%2 = splat i64x4 %n\n%3 = add i64x4 %1, %2\n%4 = lower i64x4 %1, %3, 4\n"
       "%r = extract i64 %4, 2"),
     0, 4, 0, 4, false},
    {"upper_of_pairs", /* . 1 . 3 . 5 . 7: lane 1 */
     L("%1 = lanes i64x4\n%2 = splat i64x4 %n\n%3 = add i64x4 %1, %2\n%4 = upper i64x4 %1, %3, 2\n"
       "%r = extract i64 %4, 1"),
     0, 4, 0, 3, false},
    {"upper_of_all",
     L("%1 = lanes i64x4\n%2 = splat i64x4 %n\n%4 = upper i64x4 %1, %2, 8\n"
       "%r = extract i64 %4, 0"),
     0, 4, 0, 4, false},
    {"shuffle_modulo_lanes", /* the lanes two further on, and around */
     L("%1 = lanes i32x4\n%two = iconst i32x4 2\n%2 = add i32x4 %1, %two\n%3 = lanes i64x4\n%4 = shuffle i64x4 %3, "
       "%2\n%r = extract i64 %4, 3"),
     0, 0, 0, 1, false},
    {"shuffle_to_more", L("%1 = lanes i32x8\n%2 = lanes i64x2\n%3 = shuffle i64x8 %2, %1\n%r = extract i64 %3, 5"), 0,
     0, 0, 1, false},
    {"shuffle_one_lane", L("%1 = convert i32 %n\n%2 = lanes i64x16\n%r = shuffle i64 %2, %1"), 0, -3, 0, 13, false},
    {"warps_exchange", /* each reads what the next one has: 0 + 1 1 + 2 2 ... */
     "%1 = iconst i64 1\n%4 = iconst i64 4\n%3 = iconst i64 3\nfor %b = %0 .. %1 block {\n%all = alloc i64 8 "
     "shared\nfor %w = %0 .. %4 warp {\n"
     "store i64 %all[%w] = %w\nbarrier\n%next = add i64 %w, %1\n%mod = and i64 %next, %3\n%got = load i64 "
     "%all[%mod]\n%term = mul i64 %got, %w\n"
     "%place = add i64 %w, %4\nstore i64 %all[%place] = %term\nbarrier\n%sum = var i64 %0\n%8 = iconst i64 8\nfor %i = "
     "%4 .. %8 {\n%t = load i64 %all[%i]\n"
     "%u = add i64 %sum, %t\nset %sum = %u\n}\n%mine = eq i1 %w, %3\nif %mine {\nstore i64 l[%0] = %sum\n}\n}\n}",
     0, 0, 0, 0 * 1 + 1 * 2 + 2 * 3 + 3 * 0, false},
    {"pad_fills", F("%1 = load f32x4 f[%n] active 2 pad 7\n%r = extract f32 %1, 3"), 0, 62, 7, 0, true},
    {"stride_steps", L("%1 = load i64x4 l[%0] stride 3\n%r = extract i64 %1, 3"), 0, 0, 0, 109, false},
};

static void test_meanings(void)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const Meaning *m = &meanings[i];
        Arena *a = arena_new();
        for (unsigned k = 0; k < 64; k++) f_out[k] = (float)k, l_out[k] = 100 + k;
        check_begin();
        const char *why = run_lines(a, m->lines, m->s, m->n);
        if (check(!why, "%s", why)) {
            bool both_nan = isnan(m->f) && isnan(f_out[0]);
            if (m->is_float) check(both_nan || (double)f_out[0] == m->f, "f[0] is %.9g", (double)f_out[0]);
            else check(l_out[0] == m->l, "l[0] is %lld", (long long)l_out[0]);
        }
        check_end(arena_printf(a, "means_%s", m->name));
        arena_free(a);
    }
}

/* Two blocks of two warps with a shared array. */
#define RACE(around, warp)                                                                                             \
    "%1 = iconst i64 1\n%2 = iconst i64 2\nfor %b = %0 .. %2 block {\n%all = alloc i64 8 shared\n" around              \
    "for %w = %0 .. %2 warp {\n" warp "\n}\n}"

static const struct {
    const char *name, *lines;
    int64_t n;
    const char *says;
} run_errors[] = {
    {"load_beyond", "%1 = load f32 f[%n]", 64, "`%4 = load f32 f[%n.1]`"},
    {"load_before", "%1 = load f32 f[%n]", -1, "element -1 of 64"},
    {"vector_beyond", "%1 = load f32x16 f[%n]", 49, "element 64 of 64"},
    {"store_beyond", "store f32 f[%n] = %s", 64, "element 64 of 64"},
    {"gather_beyond", "%1 = splat i64x4 %n\n%2 = gather f32x4 f[%1]", 64, "element 64 of 64"},
    {"index_overflow", "%1 = load f32x2 f[%n]", INT64_MAX, "of 64"},
    {"array_not_stored", "%1 = alloc f32 4\n%2 = load f32 %1[%n]", 2, "not stored"},
    {"array_beyond", "%1 = alloc f32 4\n%2 = load f32 %1[%n]", 4, "element 4 of 4"},
    {"race_of_writers", RACE("", "store i64 %all[%0] = %w"), 0,
     "races: warp 1 writes element 0, and so does another warp"},
    {"race_of_reader_and_writer",
     RACE("", "store i64 %all[%w] = %w\nbarrier\n%x = load i64 %all[%0]\nstore i64 %all[%w] = %x"), 0,
     "races: warp 1 reads element 0"},
    {"race_of_writer_and_reader",
     RACE("", "store i64 %all[%w] = %w\nbarrier\n%x = load i64 %all[%1]\nbarrier\n%y = load i64 %all[%w]\n%z = load "
              "i64 %all[%1]\nstore i64 %all[%w] = %z"),
     0, "races: warp 1 writes element 1"},
    {"race_in_a_buffer", RACE("", "store i64 l[%0] = %w"), 0, "`: races: warp 1 writes element 0"},
    {"race_with_the_block",
     RACE("%x = load i64 l[%b]\n", "%first = eq i1 %w, %0\nif %first {\nstore i64 l[%b] = %x\n}"), 0,
     "races: warp 0 writes element 0"},
    {"race_of_blocks", RACE("", "store i64 l[%w] = %w"), 0,
     "races: warp 0 writes element 0, and so does another block"},
    {"race_of_a_blocks_reader",
     RACE("", "%4 = iconst i64 4\n%at = mul i64 %b, %4\n%own = add i64 %at, %w\nstore i64 l[%own] = %w\n%x = load i64 "
              "l[%own]\n%y = load i64 l[%w]\nstore f32 f[%own] = %s"),
     0, "another block"},
    {"shared_not_stored", RACE("", "%x = load i64 %all[%w]\nstore i64 l[%w] = %x"), 0,
     "no warp has stored the element"},
    {"shared_of_the_block_before",
     RACE("", "%first = eq i1 %b, %0\nif %first {\nstore i64 %all[%w] = %w\n}\n%x = load i64 %all[%w]\n"), 0,
     "no warp has stored the element"},
    {"div_by_zero", "%1 = div i64 %n, %0", 1, "divides by zero"},
};

static void test_run_errors(void)
{
    for (size_t i = 0; i < sizeof run_errors / sizeof *run_errors; i++) {
        Arena *a = arena_new();
        check_begin();
        const char *why = run_lines(a, run_errors[i].lines, 0, run_errors[i].n);
        bool named = why && (strstr(why, run_errors[i].says) || (i == 0 && strstr(why, "load f32 f[")));
        check(named, "%s", why ? why : "it ran");
        check_end(arena_printf(a, "run_refuses_%s", run_errors[i].name));
        arena_free(a);
    }
}

static void test_lo_hi(void)
{
    Arena *a = arena_new();
    for (int i = 0; i < 64; i++) l_out[i] = 0;
    Diags d = {.arena = a};
    KirModule *m = parse(a,
                         "kernel @k(l: out i64*, n: i64) {\n%a = iconst i64 2\n%n = param i64 "
                         "n\nfor %i = %a .. %n threads {\n"
                         "store i64 l[%i] = %i\n}\n}\n",
                         &d);
    check_begin();
    if (CHECK(m != NULL)) {
        KirArg args[] = {{.p = l_out}, {.i = 10}};
        int64_t n_elems[] = {64, 0};
        CHECK(!kir_run(a, m->kernels.data[0], args, n_elems, 0, 4));
        CHECK(l_out[0] == 0 && l_out[1] == 0 && l_out[2] == 2 && l_out[3] == 3 && l_out[4] == 0);
        CHECK(!kir_run(a, m->kernels.data[0], args, n_elems, 8, 99));
        CHECK(l_out[7] == 0 && l_out[8] == 8 && l_out[9] == 9 && l_out[10] == 0);
    }
    check_end("threads_loop_runs_lo_to_hi");
    arena_free(a);
}

int main(void)
{
    test_text();
    test_canonical();
    test_random_text();
    test_random_meaning();
    test_docs();
    test_refusals();
    test_meeting();
    test_deep();
    test_built();
    test_damaged();
    test_meanings();
    test_run_errors();
    test_lo_hi();
    return check_done();
}
