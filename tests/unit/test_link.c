/* Tables, objects, executables and libraries of small models: what is described is complete, the
   same input gives the same bytes, what is linked runs, two models live in one program in C99 and
   C++17, and every way linking can fail has its code.
   Run: lesser if long */
#include "base/file.h"
#include "codegen/tables.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* out[v] = sum over edges into v of x[src] @ W; and its gradients. %d: output width. */
static const char model_text[] = "module m\n"
                                 "dim F = 3\n"
                                 "dim C = %d\n"
                                 "space node\n"
                                 "space edge : edges\n"
                                 "map edge.src : edge -> node\n"
                                 "map edge.dst : edge -> node sorted\n"
                                 "map node.all : node -> unit\n"
                                 "graph data : data edge(edge.src, edge.dst)\n"
                                 "tensor x : input node[F] f32\n"
                                 "tensor lin.weight : param [F,C] f32 stored [3,%d] perm(0,1) init const(0.5)\n"
                                 "func forward(x = @x, W = @lin.weight) {\n"
                                 "  %%0 = arg 0 : node[F] f32\n"
                                 "  %%1 = arg 1 : [F,C] f32\n"
                                 "  %%2 = contract %%0, %%1 : node[C] f32\n"
                                 "  %%3 = gather %%2 via edge.src : edge[C] f32\n"
                                 "  %%4 = reduce_sum %%3 via edge.dst : node[C] f32\n"
                                 "  return out = %%4\n"
                                 "}\n"
                                 "func vjp(x = @x, W = @lin.weight, d = cotangent 0 : node[C] f32) {\n"
                                 "  %%0 = arg 0 : node[F] f32\n"
                                 "  %%1 = arg 1 : [F,C] f32\n"
                                 "  %%2 = arg 2 : node[C] f32\n"
                                 "  %%3 = contract %%0, %%1 : node[C] f32\n"
                                 "  %%4 = gather %%3 via edge.src : edge[C] f32\n"
                                 "  %%5 = reduce_sum %%4 via edge.dst : node[C] f32\n"
                                 "  %%6 = mul %%5, %%2 : node[C] f32\n"
                                 "  %%7 = sum_dims %%6 : node[] f32\n"
                                 "  %%8 = reduce_sum %%7 via node.all : [] f32\n"
                                 "  %%9 = grad %%8, %%0 : node[F] f32\n"
                                 "  %%10 = grad %%8, %%1 : [F,C] f32\n"
                                 "  return x = %%9\n"
                                 "  return lin.weight = %%10\n"
                                 "}\n";

typedef struct World {
    Arena *arena;
    Diags diags;
    TempFolder dir;
} World;

static World world(void)
{
    Arena *a = arena_new();
    const char *why;
    World w = {.arena = a, .diags = {.arena = a}};
    temp_folder_make(a, NULL, &w.dir, &why);
    return w;
}

static void close_world(World *w)
{
    temp_folder_remove(&w->dir);
    arena_free(w->arena);
}

static const char *in(World *w, const char *name) { return arena_printf(w->arena, "%s/%s", w->dir.path, name); }

static const HostPlan *plan(World *w, int width)
{
    const char *text = arena_printf(w->arena, model_text, width, width);
    Source *s = ARENA_NEW(w->arena, Source);
    *s = (Source){"model.gir", text, (uint32_t)strlen(text)};
    const IrModule *m = ir_parse(w->arena, s, &w->diags);
    PassContext ctx = pass_context(w->arena, &w->diags);
    m = m ? pass_run_pipeline(&ctx, m) : NULL;
    const HostPlan *p = m ? lower_module(&ctx, m) : NULL;
    if (p) return p;
    StrBuf out = {.arena = w->arena};
    diags_print(&w->diags, &out, false);
    fputs(strbuf_cstr(&out), stderr);
    exit(1);
}

static const CodegenOptions options = {.name = "net", .version = "9.8.7"};

static bool has_code(const World *w, DiagCode code)
{
    for (uint32_t i = 0; i < w->diags.list.n; i++)
        if (w->diags.list.data[i]->code == code) return true;
    return false;
}

static char *contents(World *w, const char *path, size_t *n)
{
    const char *why;
    return file_read(w->arena, path, 0, n, &why);
}

static int run(World *w, const char *const *argv, char **log)
{
    const char *why;
    int status = file_spawn(w->arena, argv, log, &why);
    if (status && getenv("GNNC_TEST_VERBOSE")) printf("# %s: %s\n", argv[0], *log);
    return status;
}

/* A field that the description of a struct lacks would be a hole. */
static void test_types(void)
{
    check_begin();
    static const TableType *const all[] = {
        &table_RtCount,  &table_RtSpace,   &table_RtMapDef,   &table_RtGraphDef, &table_RtTensorDef, &table_RtBuffer,
        &table_RtSlot,   &table_RtStepArg, &table_RtCost,     &table_RtGemm,     &table_RtStep,      &table_RtResultDef,
        &table_RtSet,    &table_RtCall,    &table_RtSplitDef, &table_RtChainDef, &table_RtArgDef,    &table_RtProgram,
        &table_RtMetric, &table_RtTrain,   &table_RtPlace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t at = 0;
        for (unsigned k = 0; k < all[i]->n_fields; k++) {
            const TableField *f = &all[i]->fields[k];
            check(f->offset == at, "%s.%s stands at %zu, expected %zu", all[i]->name, f->name, f->offset, at);
            at += f->n * (f->kind == TABLE_STRUCT ? f->type->bytes : 8);
        }
        check(at == all[i]->bytes, "%s: described %zu of %zu bytes", all[i]->name, at, all[i]->bytes);
    }
    check_end("tables_describe_every_field");
}

static void test_tables(void)
{
    check_begin();
    World w = world();
    const ModelTables *t = tables_build(plan(&w, 2), &options, w.arena);
    const RtModel *m = &t->model;
    CHECK(m->abi_version == RT_ABI_VERSION && !strcmp(m->strings + m->name, "net"));
    CHECK(m->n_tensors == 2 && !strcmp(m->strings + m->tensors[1].name, "lin.weight"));
    CHECK(m->tensors[1].width == 6 && m->tensors[1].dims[1] == 2 && m->tensors[1].init_a == 0.5);
    CHECK(m->tensors[1].stored_shape[0] == 3 && m->tensors[1].n_stored == 2);
    CHECK(m->n_programs == 2 && m->programs[1].n_results == 2 && m->results[m->programs[0].first_result].width == 2);
    CHECK(m->maps[1].sorted == 1 && m->maps[1].needs_rows == 1 && m->maps[0].inverse == -1);
    CHECK(m->train[0].present == 0);
    CHECK(strstr(m->strings + m->manifest, "\"compiler\": \"gnnc 9.8.7\""));
    CHECK(strstr(m->strings + m->manifest, "\"stored_shape\": [3, 2]"));
    close_world(&w);
    check_end("tables_hold_the_plan");
}

static void test_same_bytes(void)
{
    check_begin();
    World w = world(), v = world();
    size_t n[2] = {0}, m[2] = {0};
    CHECK(build_exe(plan(&w, 2), &options, in(&w, "exe"), w.arena, &w.diags));
    CHECK(build_exe(plan(&v, 2), &options, in(&v, "other_name"), v.arena, &v.diags));
    char *a = contents(&w, in(&w, "exe"), &n[0]), *b = contents(&v, in(&v, "other_name"), &n[1]);
    CHECK(a && b && n[0] == n[1] && !memcmp(a, b, n[0]));
    CHECK(build_lib(plan(&w, 2), &options, in(&w, "net"), w.arena, &w.diags));
    CHECK(build_lib(plan(&v, 2), &options, in(&v, "net"), v.arena, &v.diags));
    static const char *const ends[] = {".a", ".so"};
    for (int i = 0; i < 2; i++) {
        char *x = contents(&w, arena_printf(w.arena, "%s%s", in(&w, "net"), ends[i]), &m[0]);
        char *y = contents(&v, arena_printf(v.arena, "%s%s", in(&v, "net"), ends[i]), &m[1]);
        check(x && y && m[0] == m[1] && !memcmp(x, y, m[0]), "%s differs between two folders", ends[i]);
    }
    close_world(&w);
    close_world(&v);
    check_end("link_same_bytes_in_two_folders");
}

/* The executable from LLVM and the one from the emitted C say the same of themselves. */
static void test_exe(void)
{
    check_begin();
    World w = world();
    const HostPlan *p = plan(&w, 2);
    char *log = "", *log_c = "", *errors = "";
    CHECK(build_exe(p, &options, in(&w, "exe"), w.arena, &w.diags));
    CHECK(!run(&w, (const char *const[]){in(&w, "exe"), "info", "--json", NULL}, &log));
    CHECK(strstr(log, "lin.weight"));
    StrBuf text = {.arena = w.arena};
    emit_c(p, &options, &text);
    const char *why, *source = in(&w, "model.c"), *exe = in(&w, "exe_c");
    CHECK(file_write(w.arena, source, strbuf_cstr(&text), text.n, 0644, &why));
    char self[4096] = {0};
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    *strrchr(self, '/') = 0;
    const char *runtime = arena_printf(w.arena, "%s/libgnnrt.a", self);
#ifdef __SANITIZE_ADDRESS__
    const char *extra = "-fsanitize=address,undefined";
#else
    const char *extra = "-O1";
#endif
    const char *const cc[] = {"cc",      "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-psabi", "-ffp-contract=off",
                              "-fwrapv", extra,        "-o",    exe,       source,    runtime,      "-lz",
                              "-lm",     "-lpthread",  "-ldl",  NULL};
    check(!run(&w, cc, &errors), "cc: %.300s", errors);
    CHECK(!run(&w, (const char *const[]){exe, "info", "--json", NULL}, &log_c));
    CHECK(!strcmp(log, log_c));
    close_world(&w);
    check_end("link_executable_from_llvm_and_from_c");
}

/* Uses models `one` (width 2) and `two` (width 3): 3 nodes, edges 0->1, 0->2, 1->2, x = node number
 * + 1. */
static const char user_text[] = "#include \"one.h\"\n#include \"two.h\"\n#include <stdio.h>\n"
                                "#define RUN(P, T, B, W)                                           "
                                "                             \\\n"
                                "    static int run_##P(void) {                                    "
                                "                             \\\n"
                                "        static const int64_t src[] = {0, 0, 1}, dst[] = {1, 2, "
                                "2};                             \\\n"
                                "        static const float x[9] = {1, 1, 1, 2, 2, 2, 3, 3, 3};    "
                                "                             \\\n"
                                "        float out[3 * W], ct[3 * W], dx[9], dw[3 * W];            "
                                "                             \\\n"
                                "        const void *inputs[1], *cts[1];                           "
                                "                             \\\n"
                                "        void *outs[1], *grads[2];                                 "
                                "                             \\\n"
                                "        T##Model *model; T##Graph *graph; T##Context *context; "
                                "T##Status status; int i;        \\\n"
                                "        T##GraphDesc desc = {3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};"
                                "                             \\\n"
                                "        desc.src = src; desc.dst = dst;                           "
                                "                             \\\n"
                                "        if (P##_model_create(P##_tables(), 0, B##_BEST_CPU, "
                                "&model, &status)) return 1;        \\\n"
                                "        if (P##_graph_create(model, &desc, &graph, &status)) "
                                "return 2;                         \\\n"
                                "        if (P##_context_create(model, graph, 1, NULL, 0, "
                                "&context, &status)) return 3;         \\\n"
                                "        for (i = 0; i < 3 * W; i++) ct[i] = 1;                    "
                                "                             \\\n"
                                "        inputs[B##_INPUT_X] = x; outs[B##_RESULT_OUT] = out; "
                                "cts[0] = ct;                      \\\n"
                                "        grads[B##_GRADIENT_X] = dx; "
                                "grads[B##_GRADIENT_LIN_WEIGHT] = dw;                       \\\n"
                                "        if (P##_forward(context, inputs, outs, &status)) return "
                                "4;                             \\\n"
                                "        for (i = 0; i < W; i++) if (out[i] != 0 || out[W + i] != "
                                "1.5f || out[2 * W + i] != 4.5f) return 5; \\\n"
                                "        if (P##_vjp(context, inputs, cts, grads, &status)) return "
                                "6;                           \\\n"
                                "        for (i = 0; i < 3 * W; i++) if (dw[i] != 4) return 7;     "
                                "                             \\\n"
                                "        if (dx[0] != W || dx[3] != 0.5f * W || dx[6] != 0) return "
                                "8;                           \\\n"
                                "        P##_context_free(context); P##_graph_free(graph); "
                                "P##_model_free(model);               \\\n"
                                "        return 0;                                                 "
                                "                             \\\n"
                                "    }\n"
                                "RUN(one, One, ONE, 2)\nRUN(two, Two, TWO, 3)\n"
                                "int main(void) { int a = run_one(), b = run_two(); printf(\"%d "
                                "%d\\n\", a, b); return a || b; }\n";

static bool write_header(World *w, const HostPlan *p, const CodegenOptions *o)
{
    StrBuf text = {.arena = w->arena};
    const char *why;
    emit_header(p, o, &text);
    return file_write(w->arena, arena_printf(w->arena, "%s/%s.h", w->dir.path, o->name), strbuf_cstr(&text), text.n,
                      0644, &why);
}

/* Compiles user_text with the two libraries and runs it. */
static void use(World *w, const char *cc, const char *std, const char *source, const char *one, const char *two)
{
    char *log = "";
    const char *include = arena_printf(w->arena, "-I%s", w->dir.path),
               *path = arena_printf(w->arena, "-Wl,-rpath,%s", w->dir.path);
#ifdef __SANITIZE_ADDRESS__
    const char *extra = "-fsanitize=address,undefined";
#else
    const char *extra = "-O1";
#endif
    const char *const argv[] = {cc,      std,   "-pedantic",   "-Wall",       "-Wextra",  "-Werror",  extra,
                                include, "-o",  in(w, "user"), in(w, source), in(w, one), in(w, two), path,
                                "-lz",   "-lm", "-lpthread",   "-ldl",        NULL};
    check(!run(w, argv, &log), "%s %s: %.300s", cc, std, log);
    check(!run(w, (const char *const[]){in(w, "user"), NULL}, &log), "%s %s: %.200s", std, one, log);
}

static void test_two_models(void)
{
    check_begin();
    World w = world();
    const CodegenOptions one = {.name = "one", .version = "1"}, two = {.name = "two", .version = "1"};
    const HostPlan *p = plan(&w, 2), *q = plan(&w, 3);
    const char *why;
    CHECK(build_lib(p, &one, in(&w, "one"), w.arena, &w.diags) && build_lib(q, &two, in(&w, "two"), w.arena, &w.diags));
    CHECK(write_header(&w, p, &one) && write_header(&w, q, &two));
    CHECK(file_write(w.arena, in(&w, "user.c"), user_text, strlen(user_text), 0644, &why));
    CHECK(file_write(w.arena, in(&w, "user.cc"), user_text, strlen(user_text), 0644, &why));
    if (check_ok) {
        use(&w, "cc", "-std=c99", "user.c", "one.a", "two.a");
        use(&w, "cc", "-std=c99", "user.c", "one.so", "two.so");
        use(&w, "c++", "-std=c++17", "user.cc", "one.a", "two.so");
    }
    close_world(&w);
    check_end("link_two_models_in_one_program");
}

/* Nothing but <name>_* leaves a library. */
static void test_exports(void)
{
    check_begin();
    World w = world();
    char *log = "";
    CHECK(build_lib(plan(&w, 2), &options, in(&w, "net"), w.arena, &w.diags));
    for (int shared = 0; shared < 2; shared++) {
        const char *const nm[] = {
            "nm", "-g", "--defined-only", shared ? "-D" : "-P", "-P", in(&w, shared ? "net.so" : "net.a"), NULL};
        CHECK(!run(&w, nm, &log));
        int names = 0;
        for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
            bool title = strchr(line, '[') || line[strlen(line) - 1] == ':';
            check(title || !strncmp(line, "net_", 4), "exports %s", line);
            names += !title;
        }
        check(names >= 20, "exports %d names", names);
    }
    close_world(&w);
    check_end("link_exports_only_the_prefix");
}

static void test_missing_tools(void)
{
    check_begin();
    World w = world();
    const HostPlan *p = plan(&w, 2);
    const char *why, *path = getenv("PATH") ? getenv("PATH") : "";
    char *old = strdup(path);
    CHECK(file_write(w.arena, in(&w, "exe"), "old", 3, 0644, &why));
    setenv("PATH", in(&w, "nothing"), 1);
    CHECK(!build_exe(p, &options, in(&w, "exe"), w.arena, &w.diags) && has_code(&w, E0632));
    CHECK(file_write(w.arena, in(&w, "cc"), "#!/bin/sh\necho broken linker\nexit 3\n", 35, 0755, &why));
    setenv("PATH", arena_printf(w.arena, "%s:%s", w.dir.path, old), 1);
    CHECK(!build_exe(p, &options, in(&w, "exe"), w.arena, &w.diags) && has_code(&w, E0633));
    CHECK(strstr(w.diags.list.data[w.diags.list.n - 1]->text, "broken linker"));
    setenv("PATH", old, 1);
    CHECK(!build_exe(p, &options, in(&w, "no/such/folder/exe"), w.arena, &w.diags) && has_code(&w, E0602));
    size_t n = 0;
    char *kept = contents(&w, in(&w, "exe"), &n);
    CHECK(kept && n == 3 && !memcmp(kept, "old", 3));
    free(old);
    close_world(&w);
    check_end("link_failures_have_codes_and_keep_the_old_file");
}

/* A copy of this program in a folder of its own finds no runtime. */
static int without_runtime(void)
{
    World w = world();
    bool good = !build_exe(plan(&w, 2), &options, in(&w, "exe"), w.arena, &w.diags) && has_code(&w, E0631);
    close_world(&w);
    return good ? 0 : 1;
}

static void test_missing_runtime(void)
{
    check_begin();
    World w = world();
    size_t n;
    const char *why;
    char *log = "", *self = contents(&w, "/proc/self/exe", &n);
    CHECK(self && file_write(w.arena, in(&w, "copy"), self, n, 0755, &why));
    CHECK(!run(&w, (const char *const[]){in(&w, "copy"), "without-runtime", NULL}, &log));
    close_world(&w);
    check_end("link_without_runtime_library");
}

/* Two names that differ in what a C constant cannot hold. */
static void test_header_names(void)
{
    check_begin();
    World w = world();
    const HostPlan *p = plan(&w, 2);
    IrTensor *tensors = p->module->tensors.data;
    IrFunc *f = p->module->funcs.data[1];
    f->results.data[0].name = "a.b", f->results.data[1].name = "a_b";
    tensors[0].name = "a-b";
    StrBuf text = {.arena = w.arena};
    emit_header(p, &options, &text);
    CHECK(strstr(text.data, "NET_GRADIENT_A_B = 0,") && strstr(text.data, "NET_GRADIENT_A_B_1 = 1,"));
    CHECK(strstr(text.data, "NET_INPUT_A_B = 0,") && strstr(text.data, "int32_t net_forward(NetContext *context"));
    CHECK(!strstr(text.data, "gnnrt_") && !strstr(text.data, "Gnnrt") && !strstr(text.data, "GNNRT"));
    close_world(&w);
    check_end("header_names_never_clash");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "without-runtime")) return without_runtime();
    test_types();
    test_tables();
    test_exe();
    test_same_bytes();
    test_exports();
    test_header_names();
    test_two_models();
    test_missing_tools();
    test_missing_runtime();
    return check_done();
}
