/* Statuses of the runtime that no input of a sound program can cause: models whose tables lie. Also the form of every
   row of codes.def, and of the text that a status becomes. */
#include "runtime/dataset.h"
#include "runtime/exec.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"

static int64_t counts[] = {1, 4, -1};
static const int64_t src[] = {0, 1, 2}, dst[] = {1, 2, 3};
static const RtTopology topology = {.place = "edges", .n_edges = 3, .src = src, .dst = dst, .counts = counts};

static void test_overflow(void)
{
    RtTensorDef tensors[HM_N_TENSORS];
    RtModel m = hm_model;
    RtGraph *g = NULL;
    RtTensors t;
    RtStatus st = {0};
    check_begin();
    memcpy(tensors, hm_tensors, sizeof tensors);
    tensors[T_W].width = INT64_MAX / 2;
    m.tensors = tensors;
    CHECK(rt_graph_create(&m, &topology, &g, &st) == RT_OK);
    CHECK(rt_tensors_create(&m, g, &t, &st) == RT_E_OVERFLOW && rt_code_exit(st.code) == 4);
    CHECK(strstr(st.place, "lin.weight") && st.hint[0]);
    rt_tensors_free(&t);
    rt_graph_free(g);
    check_end("runtime_codes_overflow");
}

static void test_unknown_graph(void)
{
    RtGraphDef graph = hm_graphs[0];
    RtModel m = hm_model;
    RtGraph *g = NULL;
    RtStatus st = {0};
    check_begin();
    graph.kind = 99;
    m.graphs = &graph;
    CHECK(rt_graph_create(&m, &topology, &g, &st) == RT_E_INTERNAL && !g && rt_code_exit(st.code) == 70);
    CHECK(strstr(st.message, "99") && st.hint[0]);
    check_end("runtime_codes_unknown_graph_kind");
}

static void test_no_kernels(void)
{
    static const RtKernelFn none[RT_N_VARIANTS * HM_N_KERNELS];
    RtModel m = hm_model;
    RtGraph *g = NULL;
    RtExec *e = NULL;
    RtStatus st = {0};
    check_begin();
    m.kernels = none;
    CHECK(rt_graph_create(&m, &topology, &g, &st) == RT_OK);
    RtCode code = rt_exec_create(&m, rt_program_find(&m, "forward"), g, &(RtExecOptions){0}, &e, &st);
    if (!code) code = rt_exec_bind(e, &st);
    CHECK(code == RT_E_MODEL_VARIANT && rt_code_exit(code) == 1 && strstr(st.place, "matmul"));
    rt_exec_free(e);
    rt_graph_free(g);
    check_end("runtime_codes_no_kernels");
}

/* An error about data that do not fit gets a note with the line of the program, from whoever adds it first; the next
   error starts without one. */
static void test_declared(void)
{
    RtSpace spaces[] = {hm_spaces[0], hm_spaces[1], hm_spaces[2]};
    RtModel m = hm_model;
    RtStatus st = {0};
    char text[1536], longest[2000] = "", wanted[200];
    const char *file = m.strings + m.steps[0].file;
    check_begin();
    snprintf(wanted, sizeof wanted, "`x` is declared here: %s:2, `node` here: %s:1", file, file);
    rt_fail(&st, RT_E_DATA_ROWS, "x.npy", NULL, "why");
    CHECK(rt_declared_tensor(st.code, &m, T_X, &st) == RT_E_DATA_ROWS && !strcmp(st.note, wanted));
    CHECK(rt_declared_space(st.code, &m, SP_NODE, &st) == RT_E_DATA_ROWS && !strcmp(st.note, wanted));
    rt_status_text(&st, text, sizeof text);
    CHECK(strstr(text, ": why\n  = note: `x` is") && strstr(text, ":1\n  = help: "));
    rt_fail(&st, RT_E_DATA_ROWS, "y.npy", NULL, "why");
    CHECK(!st.note[0] && rt_declared_space(st.code, &m, SP_EDGE, &st) == RT_E_DATA_ROWS && !st.note[0]);
    rt_fail(&st, RT_E_NPY_MAGIC, "x.npy", NULL, "why"); /* a damaged file is damaged for any program */
    CHECK(rt_declared_tensor(st.code, &m, T_X, &st) == RT_E_NPY_MAGIC && !st.note[0]);
    CHECK(rt_declared_tensor(RT_OK, &m, T_X, &st) == RT_OK && !st.note[0]);
    CHECK(rt_declared_tensor(RT_E_DATA_ROWS, &m, T_X, NULL) == RT_E_DATA_ROWS);
    memset(longest, 'n', sizeof longest - 1); /* all texts as long as they can be */
    m.strings = longest;
    m.spaces = spaces;
    spaces[SP_NODE] = (RtSpace){.declared = {1, 1}};
    rt_fail(&st, RT_E_DATA_ROWS, longest, longest, "%s", longest);
    CHECK(rt_declared_space(st.code, &m, SP_NODE, &st) == RT_E_DATA_ROWS && strlen(st.note) == sizeof st.note - 1);
    CHECK(rt_status_text(&st, text, sizeof text) < (int)sizeof text);
    check_end("runtime_codes_declared");
}

static void test_rows(void)
{
    static const RtCode codes[] = {
#define RT_CODE(name, number, exit, title, hint) RT_E_##name,
#include "runtime/codes.def"
#undef RT_CODE
    };
    static const int exits[] = {1, 2, 3, 4, 5, 6, 7, 8, 70, 75};
    char text[1536];
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        RtStatus st = {0};
        bool known = false;
        check_begin();
        CHECK(rt_fail(&st, codes[i], NULL, NULL, "why") == codes[i] && st.hint[0]);
        for (size_t k = 0; k < sizeof exits / sizeof *exits; k++) known |= rt_code_exit(codes[i]) == exits[k];
        CHECK(known && rt_code_title(codes[i])[0]);
        CHECK(rt_status_text(&st, text, sizeof text) > 0 && strstr(text, ": why\n  = help: "));
        check_end(rt_code_name(codes[i]));
    }
}

int main(void)
{
    test_overflow();
    test_unknown_graph();
    test_no_kernels();
    test_declared();
    test_rows();
    return check_done();
}
