/* Data sets: CSR and dense features, dtypes, counts, the user's order of edge inputs, drawn inputs,
   real data. */
#include "runtime/array.h"
#include "runtime/dataset.h"
#include "runtime/json.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static const char *const files[] = {"edge_index.npy", "x.npy",     "x_indptr.npy", "x_indices.npy", "x_data.npy",
                                    "y.npy",          "train.npy", "w.npy",        "meta.json"};

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void clear(void)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(path_of(files[i]));
}

static void put(const char *name, int64_t dtype, int64_t n_dims, int64_t a, int64_t b, const void *data)
{
    rt_npy_write(path_of(name), dtype, n_dims, (int64_t[]){a, b}, data, NULL);
}

static void put_graph(void)
{
    static const int64_t edges[2][4] = {{0, 1, 2, 0}, {2, 0, 2, 1}}, y[3] = {0, -1, 2};
    static const uint8_t train[3] = {1, 0, 1};
    clear();
    put("edge_index.npy", RT_I64, 2, 2, 4, edges);
    put("y.npy", RT_I64, 1, 3, 0, y);
    put("train.npy", RT_BOOL, 1, 3, 0, train);
}

/* x as [F = HM_F] columns: node 0 has 1.5 in column 4, node 2 has 2 and 3 in columns 0 and 1. */
static void put_csr(void)
{
    static const int64_t indptr[] = {0, 1, 1, 3};
    static const int32_t indices[] = {4, 0, 1};
    static const double data[] = {1.5, 2, 3};
    put("x_indptr.npy", RT_I64, 1, 4, 0, indptr);
    put("x_indices.npy", RT_I32, 1, 3, 0, indices);
    put("x_data.npy", RT_F64, 1, 3, 0, data);
}

static RtCode load(const RtModel *m, bool draw, RtData *d, int64_t *drawn, RtStatus *st)
{
    return rt_data_load(m, folder, &(RtDataOptions){.draw = draw, .drawn = drawn}, d, st);
}

static void test_csr(void)
{
    RtData d;
    RtStatus st = {0};
    put_graph();
    put_csr();
    check_begin();
    check(!load(&hm_model, false, &d, NULL, &st), "%s %s", st.place, st.message);
    if (check_ok) {
        const float *x = d.tensors.data[T_X];
        CHECK(d.graph->spaces[SP_NODE].count == 3 && d.graph->spaces[SP_EDGE].count == 4);
        CHECK(x[4] == 1.5f && x[2 * HM_F] == 2 && x[2 * HM_F + 1] == 3 && x[HM_F] == 0);
        CHECK(((int64_t *)d.tensors.data[T_Y])[1] == -1);
        rt_data_free(&d);
    }
    check_end("runtime_data_csr");
}

static void test_dtypes(void)
{
    static const int32_t y[3] = {2, 1, 0};
    static const uint8_t train[3] = {1, 0, 2}; /* a bool is any byte but 0 */
    double x[3 * HM_F] = {0.1};
    RtData d;
    RtStatus st = {0};
    put_graph();
    put("x.npy", RT_F64, 2, 3, HM_F, x);
    put("y.npy", RT_I32, 1, 3, 0, y);
    put("train.npy", RT_BOOL, 1, 3, 0, train);
    check_begin();
    check(!load(&hm_model, false, &d, NULL, &st), "%s %s", st.place, st.message);
    if (check_ok) {
        CHECK(((float *)d.tensors.data[T_X])[0] == 0.1f && ((int64_t *)d.tensors.data[T_Y])[0] == 2);
        CHECK(!memcmp(d.tensors.data[T_MASK], (uint8_t[]){1, 0, 1}, 3));
        rt_data_free(&d);
    }
    put("y.npy", RT_F64, 1, 3, 0, x);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_DTYPE && rt_code_exit(st.code) == 3);
    check_end("runtime_data_dtypes");
}

static void test_misfits(void)
{
    float x[4 * HM_F] = {0};
    int64_t y[3] = {0, 3, 0}, drawn[HM_N_TENSORS] = {0};
    RtData d;
    RtStatus st = {0};
    check_begin();
    put_graph();
    put("x.npy", RT_F32, 2, 4, HM_F, x);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_ROWS && strstr(st.place, "y.npy"));
    put("x.npy", RT_F32, 2, 3, HM_F - 1, x);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_WIDTH && strstr(st.message, "found 4 columns, wanted 5"));
    check(!load(&hm_model, true, &d, drawn, &st), "%s", st.message);
    CHECK(drawn[T_X] && !drawn[T_Y] && ((float *)d.tensors.data[T_X])[3] != 0);
    rt_data_free(&d);
    unlink(path_of("x.npy"));
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_MISSING && rt_code_exit(st.code) == 6);
    put("x.npy", RT_F32, 2, 3, HM_F, x);
    put("y.npy", RT_I64, 1, 3, 0, y);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_BOUND && strstr(st.message, "element 1 is 3"));
    put_graph();
    x[7] = NAN;
    put("x.npy", RT_F32, 2, 3, HM_F, x);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_NOT_FINITE && strstr(st.message, "row 1, column 2"));
    check_end("runtime_data_misfits");
}

/* An edge input comes in the user's order and is stored by destination. */
static void test_edge_order(void)
{
    static const float w[4] = {10, 11, 12, 13}, x[3 * HM_F];
    RtTensorDef tensors[HM_N_TENSORS];
    RtModel m = hm_model;
    RtData d;
    RtStatus st = {0};
    memcpy(tensors, hm_tensors, sizeof tensors);
    tensors[T_Y] = (RtTensorDef){.name = S(s_mm), .kind = RT_INPUT, .space = SP_EDGE, .dtype = RT_F32, .width = 1};
    m.tensors = tensors;
    put_graph();
    put("x.npy", RT_F32, 2, 3, HM_F, x);
    put("matmul.npy", RT_F32, 1, 4, 0, w);
    check_begin();
    check(!load(&m, false, &d, NULL, &st), "%s %s", st.place, st.message);
    if (check_ok) {
        const float *stored = d.tensors.data[T_Y], want[4] = {11, 13, 10, 12}; /* dst 0, 1, 2, 2 */
        CHECK(!memcmp(stored, want, sizeof want));
        rt_data_free(&d);
    }
    unlink(path_of("matmul.npy"));
    check_end("runtime_data_edge_order");
}

static void test_meta(void)
{
    static const float x[4 * HM_F];
    RtData d;
    RtStatus st = {0};
    put_graph();
    put("x.npy", RT_F32, 2, 3, HM_F, x);
    check_begin();
    FILE *f = fopen(path_of("meta.json"), "w");
    fputs("{\"num_nodes\": 4}", f);
    fclose(f);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_DATA_ROWS && strstr(st.hint, "meta.json"));
    f = fopen(path_of("meta.json"), "w");
    fputs("{\"num_nodes\": ", f);
    fclose(f);
    CHECK(load(&hm_model, false, &d, NULL, &st) == RT_E_JSON_SYNTAX && rt_code_exit(st.code) == 2);
    check_end("runtime_data_meta");
}

static void test_json(void)
{
    static const char *const bad[] = {"",      "{",   "[1,]",       "{\"a\" 1}", "01", "1.", "\"\\x\"", "\"\\ud800\"",
                                      "[1] 2", "nul", "{\"a\":1,}", "\"\n\"",    "-",  "1e", "[1 2]"};
    RtJsonDoc doc;
    RtStatus st = {0};
    static char deep[3000];
    check_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(rt_json_parse("t", bad[i], strlen(bad[i]), &doc, &st) == RT_E_JSON_SYNTAX, "accepted %s", bad[i]);
    memset(deep, '[', sizeof deep);
    CHECK(rt_json_parse("t", deep, sizeof deep, &doc, &st) == RT_E_JSON_SYNTAX);
    const char *good = " {\"a\": [1, -2.5e3, true, null], \"b\\u00e9\\ud83d\\ude00\": {\"c\": \"x\\n\"}} ";
    check(!rt_json_parse("t", good, strlen(good), &doc, &st), "%s", st.message);
    const RtJson *b = rt_json_get(doc.root, "b\u00e9\U0001F600"), *a = rt_json_get(doc.root, "a");
    CHECK(a && a->n_items == 4 && a->first->next->number == -2500 && b && !strcmp(rt_json_get(b, "c")->text, "x\n"));
    rt_json_free(&doc);
    check_end("runtime_json");
}

int main(void)
{
    snprintf(folder, sizeof folder, "rt_data_%ld", (long)getpid());
    mkdir(folder, 0777);
    test_csr();
    test_dtypes();
    test_misfits();
    test_edge_order();
    test_meta();
    test_json();
    clear();
    rmdir(folder);
    return check_done();
}
