/* Data sets, weights and checkpoints on a machine that fails: every call for memory and every system call of a load or
   a save is refused in turn. Each time a status says so, nothing is kept, and a file is the old one or the new one.
   Also data of the dtypes and forms that models made by the compiler seldom have. */
#include "runtime/array.h"
#include "runtime/checkpoint.h"
#include "runtime/dataset.h"
#include "runtime/weights.h"
#include "tests/unit/failing.h"
#include "tests/unit/runtime_model.h"
#include <unistd.h>

enum { MORE_SPACES = 8, MORE_MAPS = 8, MORE_TENSORS = HM_N_TENSORS + 4 };

/* The hand-made model's names, and more. */
typedef struct Names {
    struct hm_blob old;
    char nz[8], cols[8], graph[8], row[8], col[8], node_graph[16], train[16], test[16], wide[8], list[16];
} Names;
/* clang-format off */
static Names names = {.nz = "nz", .cols = "cols", .graph = "graph", .row = "row", .col = "col",
    .node_graph = "node.graph",
                      .train = "train_mask", .test = "test_mask", .wide = "wide", .list = "more_index"};
/* clang-format on */
#define NAME(id) ((int64_t)offsetof(Names, id))

static RtModel model; /* the hand-made one, and what a test adds to its tables */
static RtSpace spaces[MORE_SPACES];
static RtMapDef maps[MORE_MAPS];
static RtGraphDef graphs[2];
static RtTensorDef tensors[MORE_TENSORS];
static RtDataOptions options;
static char folder[64];

static int64_t add_space(RtSpace s) { return spaces[model.n_spaces] = s, model.n_spaces++; }
static int64_t add_map(int64_t name, int64_t from, int64_t to, int64_t sorted)
{
    maps[model.n_maps] = (RtMapDef){name, from, to, 0, sorted, -1, 1, 0, 0};
    return model.n_maps++;
}
static int64_t add_tensor(RtTensorDef t) { return tensors[model.n_tensors] = t, model.n_tensors++; }
static int64_t add_input(int64_t name, int64_t space, int64_t dtype)
{
    return add_tensor((RtTensorDef){.name = name, .kind = RT_INPUT, .space = space, .dtype = dtype, .width = 1});
}

static void make(void)
{
    names.old = hm_blob;
    model = hm_model;
    options = (RtDataOptions){0};
    memcpy(spaces, hm_spaces, sizeof hm_spaces);
    memcpy(maps, hm_maps, sizeof hm_maps);
    memcpy(graphs, hm_graphs, sizeof hm_graphs);
    memcpy(tensors, hm_tensors, sizeof hm_tensors);
    model.strings = (const char *)&names;
    model.n_strings = sizeof names;
    model.spaces = spaces;
    model.maps = maps;
    model.graphs = graphs;
    model.tensors = tensors;
}

/* x is read by its nonzero elements. */
static void read_nonzeros(void)
{
    int64_t list = add_space((RtSpace){.name = NAME(nz)}),
            columns = add_space((RtSpace){.name = NAME(cols), .fixed = HM_F});
    int64_t row = add_map(NAME(row), list, SP_NODE, 1), col = add_map(NAME(col), list, columns, 0);
    tensors[T_X].sparse = 1;
    tensors[T_X].kind = RT_HELD;
    /* clang-format off */
    add_tensor((RtTensorDef){.name = NAME(nz), .kind = RT_INPUT, .space = list, .dtype = tensors[T_X].dtype,
        .width = 1,
                             .nonzeros = 1, .of = T_X, .row = row, .col = col});
    /* clang-format on */
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, int64_t dtype, int64_t n_dims, const int64_t *shape, const void *data)
{
    check(!rt_npy_write(path_of(name), dtype, n_dims, shape, data, NULL), "cannot write %s", name);
}
#define SHAPE(...)                                                                                                     \
    sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]) { __VA_ARGS__ }

static void put_text(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    check(f && fputs(text, f) >= 0, "cannot write %s", name);
    if (f) fclose(f);
}

static const char *const files[] = {"x_indptr.npy",   "x_indices.npy", "x_data.npy", "x.npy",     "edge_index.npy",
                                    "y.npy",          "train.npy",     "meta.json",  "fold.npy",  "batch.npy",
                                    "wide.npy",       "src.npy",       "dst.npy",    "edges.tsv", "graph.mtx",
                                    "more_index.npy", "w.st",          "c.ckpt"};
static void remove_first(int n)
{
    for (int i = 0; i < n; i++) unlink(path_of(files[i]));
}
static void clear(void) { remove_first(sizeof files / sizeof *files); }

static const int32_t edges[2][4] = {{0, 1, 2, 0}, {2, 0, 2, 1}};
static const float zeros[64];

/* Three nodes and four edges; x by its nonzeros: node 0 has 1.5 in column 4, node 2 has 2 and 3 in columns 1 and 0. */
static void put_data(void)
{
    static const int64_t y[3] = {0, -1, 2}, indptr[] = {0, 1, 1, 3}, indices[] = {4, 1, 0};
    static const uint8_t train[3] = {1, 0, 1};
    static const double data[] = {1.5, 2, 3};
    clear();
    put("edge_index.npy", RT_I32, SHAPE(2, 4), edges);
    put("y.npy", RT_I64, SHAPE(3), y);
    put("train.npy", RT_BOOL, SHAPE(3), train);
    put("x_indptr.npy", RT_I64, SHAPE(4), indptr);
    put("x_indices.npy", RT_I64, SHAPE(3), indices);
    put("x_data.npy", RT_F64, SHAPE(3), data);
    put_text("meta.json", "{\"num_nodes\": 3}");
}

static void put_dense(void)
{
    double x[3 * HM_F] = {0};
    x[4] = 1.5, x[2 * HM_F] = 3, x[2 * HM_F + 1] = 2;
    remove_first(3);
    put("x.npy", RT_F64, SHAPE(3, HM_F), x);
}

static bool has_three(const RtTensors *t, int64_t tensor)
{
    for (int64_t i = 0; i < t->counts[tensor]; i++)
        if (rt_element(t->data[tensor], tensors[tensor].dtype, i) == 3) return true;
    return false;
}

/* Loads and looks for what x holds, whichever way it is held. */
static int load(void)
{
    RtData d;
    RtStatus st = {0};
    RtCode code = rt_data_load(&model, folder, &options, &d, &st);
    failing_kind = FAILING_NOTHING;
    check(!code || st.message[0], "nothing is said of %s", rt_code_name(code));
    if (code) return (int)code;
    bool held = d.tensors.data[T_X] != NULL;
    check(options.draw || has_three(&d.tensors, held ? T_X : model.n_tensors - 1), "read otherwise");
    rt_data_free(&d);
    return 0;
}

static void refuse_each(const char *name, int (*work)(void))
{
    CHECK(failing_each(name, FAILING_MEMORY, work, RT_E_MEMORY) > 3);
    CHECK(failing_each(name, FAILING_SYSTEM, work, 0) >= 3);
    check_end(name);
}

/* Each way to hold x, in either dtype, with and without an order, read and drawn. */
static void test_forms(void)
{
    for (int i = 0; i < 32; i++) {
        char name[100];
        make();
        check_begin();
        put_data();
        if (i & 1) put_dense();
        if (i & 2) tensors[T_X].dtype = RT_F64;
        if (i & 4) read_nonzeros();
        if (i & 8) options.order = i & 1 ? RT_ORDER_BFS : RT_ORDER_DEGREE;
        if (i & 16) options.draw = true, remove_first(4);
        snprintf(name, sizeof name, "failures: x in form %d", i);
        refuse_each(name, load);
    }
}

/* ---- other files ---- */

static void as_edge_list(void)
{
    unlink(path_of("edge_index.npy")), put_text("edges.tsv", "0 2 0.5\n1 0 1\n2 2 1\n0 1 1\n");
}
static void as_matrix(void)
{
    unlink(path_of("edge_index.npy"));
    put_text("graph.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 3 0.5\n2 1 1\n3 3 1\n1 2 1\n");
}
static void as_pair(void)
{
    unlink(path_of("edge_index.npy"));
    put("src.npy", RT_I32, SHAPE(4), edges[0]);
    put("dst.npy", RT_I32, SHAPE(4), edges[1]);
}
static void with_batch(void)
{
    add_map(NAME(node_graph), SP_NODE, add_space((RtSpace){.name = NAME(graph)}), 1);
    put("batch.npy", RT_I32, SHAPE(3), (int32_t[]){0, 0, 1});
    options.order = RT_ORDER_DEGREE; /* which it keeps from being taken */
}
static void with_list(void)
{
    int64_t edge = add_space((RtSpace){.name = NAME(list), .is_edge = 1}), from = add_map(NAME(row), edge, SP_NODE, 0),
            to = add_map(NAME(col), edge, SP_NODE, 1);
    graphs[1] = hm_graphs[0];
    graphs[1].name = NAME(list);
    graphs[1].kind = RT_GRAPH_FILE;
    graphs[1].file = NAME(list);
    graphs[1].edge = edge;
    graphs[1].src = from;
    graphs[1].dst = to;
    model.n_graphs = 2;
    put("more_index.npy", RT_I32, SHAPE(2, 4), edges);
}
static void with_folds(void)
{
    add_input(NAME(train), SP_NODE, RT_BOOL);
    add_input(NAME(test), SP_NODE, RT_BOOL);
    put("fold.npy", RT_I64, SHAPE(3), (int64_t[]){0, 1, 0});
    options.folds = 2;
}
static void with_others(void)
{
    int64_t drawn = add_input(NAME(wide), SP_NODE, RT_I32);
    tensors[drawn].bound = 3;
    options.draw = true;
    remove_first(4);
    unlink(path_of("y.npy"));
    unlink(path_of("train.npy"));
}

typedef struct Case {
    const char *name;
    void (*change)(void);
    RtCode code;
    const char *says;
} Case;

static const Case cases[] = {
    {"edges as a list", as_edge_list, RT_OK, ""},        {"edges as a matrix", as_matrix, RT_OK, ""},
    {"edges as two arrays", as_pair, RT_OK, ""},         {"graphs of a batch", with_batch, RT_OK, ""},
    {"another list of edges", with_list, RT_OK, ""},     {"folds", with_folds, RT_OK, ""},
    {"integers and bools drawn", with_others, RT_OK, ""}};

static void test_files(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[100];
        make();
        check_begin();
        put_data();
        put_dense();
        cases[i].change();
        snprintf(name, sizeof name, "failures: %s", cases[i].name);
        refuse_each(name, load);
    }
}

/* ---- data that do not fit ---- */

static void batch_of_two_dims(void) { with_batch(), put("batch.npy", RT_I64, SHAPE(3, 1), (int64_t[]){0, 0, 1}); }
static void batch_of_two(void) { with_batch(), put("batch.npy", RT_I64, SHAPE(2), (int64_t[]){0, 1}); }
static void batch_of_floats(void) { with_batch(), put("batch.npy", RT_F32, SHAPE(3), zeros); }
static void list_of_one_dim(void) { with_list(), put("more_index.npy", RT_I32, SHAPE(4), edges); }
static void pair_of_lengths(void) { as_pair(), put("dst.npy", RT_I32, SHAPE(3), edges[1]); }
static void pair_of_floats(void) { as_pair(), put("dst.npy", RT_F32, SHAPE(4), zeros); }
static void csr_of_floats(void) { put("x_indices.npy", RT_F32, SHAPE(3), zeros); }
static void csr_of_integers(void) { put("x_data.npy", RT_I32, SHAPE(3), edges); }
static void csr_not_finite(void) { put("x_data.npy", RT_F64, SHAPE(3), (double[]){1, INFINITY, 2}); }
static void list_not_finite(void) { csr_not_finite(), read_nonzeros(); }
static void rows_not_finite(void)
{
    double x[3 * HM_F] = {[7] = NAN};
    put_dense(), put("x.npy", RT_F64, SHAPE(3, HM_F), x), read_nonzeros();
}
static void csr_for_labels(void) { tensors[T_X].dtype = RT_I64; }
static void folds_of_edges(void) { with_folds(), tensors[model.n_tensors - 1].space = SP_EDGE; }
/* clang-format off */
static void end_beyond(void) { options.order = RT_ORDER_DEGREE, put("edge_index.npy", RT_I32, SHAPE(2, 4),
    (int32_t[2][4]){{0, 1, 2, 3}, {0, 0, 0, 0}}); }
static void end_below(void) { options.order = RT_ORDER_DEGREE, put("edge_index.npy", RT_I32, SHAPE(2, 4),
    (int32_t[2][4]){{0}, {0, 0, -1, 0}}); }
static void head_beyond(void) { options.order = RT_ORDER_DEGREE, put("edge_index.npy", RT_I32, SHAPE(2, 4),
    (int32_t[2][4]){{0}, {0, 0, 3, 0}}); }
/* clang-format on */
static void nodes_unknown(void) { read_nonzeros(), put_text("meta.json", "{\"num_nodes\": 1.5}"); }
static void nodes_plural(void) { put_text("meta.json", "{\"num_nodes\": -1}"); }
static void wide(int64_t n_dims, const int64_t *shape)
{
    int64_t t = add_input(NAME(wide), SP_NODE, RT_F32);
    /* clang-format off */
    tensors[t] = (RtTensorDef){.name = NAME(wide), .kind = RT_INPUT, .space = SP_NODE, .dtype = RT_F32, .width = 6,
        .n_dims = 2, .dims = {2, 3}};
    /* clang-format on */
    put("wide.npy", RT_F32, n_dims, shape, zeros);
}
static void dims_turned(void) { wide(SHAPE(3, 3, 2)); }
static void dims_more(void) { wide(SHAPE(3, 2, 3, 1)); }
static void dims_fewer(void) { wide(SHAPE(3)); }
static void dims_none(void) { wide(0, NULL); }
static void matrix_too_large(void)
{
    options.draw = true;
    remove_first(4);
    read_nonzeros();
    tensors[T_X].width = INT64_MAX / 2;
}

static const Case misfits[] = {
    {"batch of two dims", batch_of_two_dims, RT_E_DATA_ROWS, "wanted one dimension"},
    {"batch of other nodes", batch_of_two, RT_E_DATA_ROWS, "found 2 rows, wanted 3"},
    {"batch of floats", batch_of_floats, RT_E_DATA_DTYPE, "f32"},
    {"another list of one dim", list_of_one_dim, RT_E_DATA_EDGES, "wanted [2, E]"},
    {"two lengths", pair_of_lengths, RT_E_DATA_EDGES, "found 4 and 3 elements"},
    {"ids as floats", pair_of_floats, RT_E_DATA_DTYPE, "f32"},
    {"columns as floats", csr_of_floats, RT_E_DATA_CSR, "one dimension of integers"},
    {"values as integers", csr_of_integers, RT_E_DATA_CSR, "one dimension of floats"},
    {"an infinite value", csr_not_finite, RT_E_DATA_NOT_FINITE, "inf"},
    {"an infinite value in a list", list_not_finite, RT_E_DATA_NOT_FINITE, "inf"},
    {"no number in a dense array", rows_not_finite, RT_E_DATA_NOT_FINITE, "row 1, column 2"},
    {"labels as a matrix", csr_for_labels, RT_E_DATA_DTYPE, "a CSR triplet of floats"},
    {"folds of two kinds of rows", folds_of_edges, RT_E_DATA_FOLDS, "masks are of node and of edge"},
    {"an edge from nowhere", end_beyond, RT_E_DATA_ID, "3"},
    {"an edge below", end_below, RT_E_DATA_ID, "-1"},
    {"an edge to nowhere", head_beyond, RT_E_DATA_ID, "3"},
    {"a fraction of a node", nodes_unknown, RT_E_DATA_META, "num_nodes"},
    {"fewer than no nodes", nodes_plural, RT_E_DATA_META, "num_nodes"},
    {"dims in another order", dims_turned, RT_E_DATA_WIDTH, "whose dims are not"},
    {"a dim more", dims_more, RT_E_DATA_WIDTH, "whose dims are not"},
    {"no dims", dims_fewer, RT_E_DATA_WIDTH, "found 1 columns, wanted 6"},
    {"a single number", dims_none, RT_E_DATA_ROWS, "found a single number"},
    {"a matrix beyond all memory", matrix_too_large, RT_E_OVERFLOW, "overflows"},
};

static void test_misfits(void)
{
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
        const Case *c = &misfits[i];
        char name[100];
        RtData d;
        RtStatus st = {0};
        make();
        check_begin();
        put_data();
        c->change();
        RtCode code = rt_data_load(&model, folder, &options, &d, &st);
        check(code == c->code && strstr(st.message, c->says), "%s: %s", rt_code_name(code), st.message);
        if (!code) rt_data_free(&d);
        snprintf(name, sizeof name, "misfits: %s", c->name);
        check_end(name);
    }
}

/* ---- what counts the nodes ---- */

static int64_t count_of(const RtData *d, int64_t space) { return d->graph->spaces[space].count; }

static void test_counts(void)
{
    RtData d;
    RtStatus st = {0};
    check_begin();
    make();
    put_data();
    options.programs = "none"; /* no input is read: the ids alone tell */
    unlink(path_of("meta.json"));
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message))
        CHECK(count_of(&d, SP_NODE) == 3), rt_data_free(&d);
    graphs[0].src_space = maps[M_SRC].to = add_space((RtSpace){.name = NAME(cols)});
    put("edge_index.npy", RT_I32, SHAPE(2, 2), (int32_t[2][2]){{6, 1}, {2, 0}});
    options.order = RT_ORDER_DEGREE; /* of two kinds of nodes each has one */
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message)) {
        CHECK(count_of(&d, SP_NODE) == 3 && count_of(&d, graphs[0].src_space) == 7 && !d.order.why);
        const int64_t *ids = d.graph->spaces[graphs[0].src_space].ids;
        CHECK(ids && ids[0] == 1 && ids[1] == 6 && d.graph->spaces[SP_NODE].ids);
        rt_data_free(&d);
    }
    put_text("meta.json", "{\"num_cols\": 9}");
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message)) {
        CHECK(count_of(&d, SP_NODE) == 3 && count_of(&d, graphs[0].src_space) == 9);
        rt_data_free(&d);
    }
    check_end("counts: of the ids");
    check_begin();
    make();
    put_data();
    put_dense();
    unlink(path_of("edge_index.npy"));
    model.n_graphs = model.n_maps = 0; /* no step reads an edge */
    model.n_spaces = SP_EDGE;
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message))
        CHECK(count_of(&d, SP_NODE) == 3), rt_data_free(&d);
    check_end("counts: without a graph");
    check_begin();
    make();
    put_data();
    put_dense();
    tensors[T_M].space = SP_NODE; /* a parameter has a row per node, which stands where the node does */
    options.order = RT_ORDER_DEGREE;
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message))
        CHECK(!d.order.why && rt_tensor_ids(&d.tensors, T_M) == d.graph->spaces[SP_NODE].ids), rt_data_free(&d);
    put("x.npy", RT_F32, SHAPE(3, HM_F), zeros);
    tensors[T_M].space = SP_UNIT;
    read_nonzeros();
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message))
        CHECK(d.tensors.counts[model.n_tensors - 1] == 0), rt_data_free(&d);
    wide(SHAPE(3, 6)); /* a flat array stands for one with dims */
    if (check(!rt_data_load(&model, folder, &options, &d, &st), "%s", st.message)) rt_data_free(&d);
    check_end("counts: rows of parameters, no nonzeros");
}

/* ---- weights and checkpoints ---- */

static RtTensors kept;
static double wanted;

/* A parameter of normally distributed doubles, state of integers and a hyper of doubles. */
static void make_weights(void)
{
    make();
    tensors[T_W].dtype = RT_F64;
    tensors[T_W].init = RT_INIT_NORMAL;
    tensors[T_M].dtype = RT_I32;
    tensors[T_LR].dtype = RT_F64;
}

static int save_weights(void)
{
    RtStatus st = {0};
    RtCode code = rt_weights_save(&kept, path_of("w.st"), &st);
    failing_kind = FAILING_NOTHING;
    check(!rt_weights_load(&kept, path_of("w.st"), NULL), "what is there is no weights file");
    return (int)code;
}

static int load_weights(void)
{
    RtStatus st = {0};
    double *w = kept.data[T_W];
    w[3] = 1;
    RtCode code = rt_weights_load(&kept, path_of("w.st"), &st);
    failing_kind = FAILING_NOTHING;
    check(w[3] == (code ? 1 : wanted), "weights changed, or not read");
    return (int)code;
}

static int save_checkpoint(void)
{
    RtStatus st = {0};
    RtBlock best = {0};
    RtProgress p = {.epoch = 4, .seed = 7, .has_best = true, .best = 0.1, .since = 3};
    RtCode code = rt_tensors_snapshot(&kept, &best, &st);
    if (!code) code = rt_checkpoint_save(path_of("c.ckpt"), &kept, &p, &best, &st);
    failing_kind = FAILING_NOTHING;
    rt_block_free(&best);
    return (int)code;
}

static int load_checkpoint(void)
{
    RtStatus st = {0};
    RtBlock best = {0};
    RtProgress p = {.epoch = -5};
    double *w = kept.data[T_W], *lr = kept.data[T_LR];
    w[3] = 1, lr[0] = 5;
    RtCode code = rt_checkpoint_load(path_of("c.ckpt"), &kept, &p, &best, &st);
    failing_kind = FAILING_NOTHING;
    check(w[3] == (code ? 1 : wanted) && lr[0] == (code ? 5 : 0.01) && p.epoch == (code ? -5 : 4),
          "changed, or not read");
    check(code || ((double *)best.p)[3] == wanted, "the best weights are others");
    rt_block_free(&best);
    return (int)code;
}

static void test_weights(void)
{
    RtStatus st = {0};
    make_weights();
    check_begin();
    CHECK(!rt_tensors_create(&model, NULL, &kept, &st));
    rt_tensors_init(&kept, 3);
    wanted = ((double *)kept.data[T_W])[3];
    CHECK(wanted != 0 && rt_tensors_hyper(&kept, T_LR) == 0.01);
    CHECK(!rt_weights_save(&kept, path_of("w.st"), &st));
    refuse_each("failures: weights saved", save_weights);
    check_begin();
    refuse_each("failures: weights loaded", load_weights);
    check_begin();
    refuse_each("failures: a checkpoint saved", save_checkpoint);
    check_begin();
    ((double *)kept.data[T_W])[3] = wanted;
    CHECK(!save_checkpoint());
    refuse_each("failures: a checkpoint loaded", load_checkpoint);
    rt_tensors_free(&kept);
    check_begin();
    CHECK(failing_live == 0);
    check_end("failures: nothing is kept");
}

/* A parameter with a row per node has no values where there is no graph: it is passed over, both ways. */
static void test_without_graph(void)
{
    RtStatus st = {0};
    char *bytes;
    size_t n;
    make();
    int64_t rows = add_tensor(
        (RtTensorDef){.name = NAME(wide), .kind = RT_PARAM, .space = SP_NODE, .dtype = RT_F32, .width = 1});
    check_begin();
    CHECK(!rt_tensors_create(&model, NULL, &kept, &st) && !kept.data[rows]);
    ((float *)kept.data[T_W])[1] = 5;
    CHECK(!rt_weights_save(&kept, path_of("w.st"), &st));
    ((float *)kept.data[T_W])[1] = 6;
    CHECK(!rt_weights_load(&kept, path_of("w.st"), &st) && ((float *)kept.data[T_W])[1] == 5);
    FILE *f = fopen(path_of("w.st"), "r");
    bytes = malloc(9000);
    n = f ? fread(bytes, 1, 9000, f) : 0;
    if (f) fclose(f);
    ((float *)kept.data[T_W])[1] = 6;
    CHECK(!rt_weights_load_memory(&kept, bytes, n, &st) && ((float *)kept.data[T_W])[1] == 5);
    CHECK(rt_weights_load_memory(&kept, bytes, n - 1, &st) == RT_E_WEIGHTS_TRUNCATED &&
          rt_weights_load_memory(&kept, bytes, 0, &st) == RT_E_WEIGHTS_TRUNCATED);
    free(bytes);
    rt_tensors_free(&kept);
    check_end("weights: without a graph");
}

int main(void)
{
    snprintf(folder, sizeof folder, "rt_failures_%ld", (long)getpid());
    mkdir(folder, 0777);
    test_forms();
    test_files();
    test_misfits();
    test_counts();
    test_weights();
    test_without_graph();
    clear();
    check_begin();
    CHECK(rmdir(folder) == 0); /* nothing else was left there */
    check_end("failures: no file is left");
    return check_done();
}
