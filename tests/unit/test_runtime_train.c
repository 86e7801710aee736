/* The runtime end to end without a compiler: a hand-made model trained from files it wrote itself. */
#include "runtime/array.h"
#include "runtime/checkpoint.h"
#include "runtime/file.h"
#include "runtime/random.h"
#include "runtime/train.h"
#include "runtime/weights.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 203, E = 1501 };
static char folder[64];
static const RtModel *tested = &hm_model;

static const char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

/* A random graph whose labels a linear model can learn. */
static void write_data(void)
{
    static int64_t edges[2][E], y[N];
    static float x[N][HM_F];
    static uint8_t mask[N];
    for (int e = 0; e < E; e++)
        for (int i = 0; i < 2; i++) edges[i][e] = (int64_t)(rt_philox(7, 0, 1, (uint64_t)e, (uint64_t)i) % N);
    for (int v = 0; v < N; v++) {
        mask[v] = v % 3 != 0;
        for (int f = 0; f < HM_F; f++) x[v][f] = (float)rt_random_uniform(7, 0, 2, (uint64_t)v, (uint64_t)f) - 0.5f;
    }
    for (int v = 0; v < N; v++) {
        float sum[HM_C] = {0};
        for (int e = 0; e < E; e++)
            for (int c = 0; edges[1][e] == v && c < HM_C; c++) sum[c] += x[edges[0][e]][c];
        for (int c = 0; c < HM_C; c++)
            if (sum[c] > sum[y[v]]) y[v] = c;
    }
    mkdir(folder, 0777);
    rt_npy_write(path_of("edge_index.npy"), RT_I64, 2, (int64_t[]){2, E}, edges, NULL);
    rt_npy_write(path_of("x.npy"), RT_F32, 2, (int64_t[]){N, HM_F}, x, NULL);
    rt_npy_write(path_of("y.npy"), RT_I64, 1, (int64_t[]){N}, y, NULL);
    rt_npy_write(path_of("train_mask.npy"), RT_BOOL, 1, (int64_t[]){N}, mask, NULL);
}

/* Trains and returns W; false on failure. */
static bool train(RtTrainOptions o, int threads, float *W, RtTrainResult *r, RtStatus *st)
{
    RtData d;
    RtPool *pool = NULL;
    if (rt_data_load(tested, folder, &(RtDataOptions){0}, &d, st)) return false;
    rt_pool_create(threads, &pool, st);
    o.exec.pool = pool;
    RtCode code = rt_train(tested, &d, &o, r, st);
    if (W) memcpy(W, d.tensors.data[T_W], sizeof(float) * HM_F * HM_C);
    rt_pool_free(pool);
    rt_data_free(&d);
    return code == RT_OK;
}

static void test_learns(float *W)
{
    RtTrainResult r;
    RtStatus st = {0};
    check_begin();
    RtTrainOptions o = {
        .epochs = 60, .seed = 3, .every = 7, .metrics = path_of("m.jsonl"), .save = path_of("w.safetensors")};
    check(train(o, 1, W, &r, &st), "%s", st.message);
    check(r.n_epochs == 60 && r.metrics[0] > 0.8, "accuracy %f after %lld epochs", r.metrics[0], (long long)r.n_epochs);
    check_end("runtime_train_learns");
}

static void test_threads(const float *W)
{
    check_begin();
    for (int threads = 2; threads <= 8; threads += 3) {
        float other[HM_F * HM_C];
        RtTrainResult r;
        RtStatus st = {0};
        check(train((RtTrainOptions){.epochs = 60, .seed = 3}, threads, other, &r, &st), "%s", st.message);
        check(!memcmp(W, other, sizeof other), "weights differ with %d threads", threads);
    }
    check_end("runtime_train_threads_bit_equal");
}

static void test_resume(const float *W)
{
    check_begin();
    for (int stop = 0; stop <= 60; stop += 17) {
        float other[HM_F * HM_C];
        RtTrainResult r;
        RtStatus st = {0};
        const char *ck = path_of("ck");
        check(train((RtTrainOptions){.epochs = stop, .seed = 3, .checkpoint = ck, .every = 5}, 1, other, &r, &st), "%s",
              st.message);
        check(train((RtTrainOptions){.epochs = 60, .seed = 0, .resume = ck}, 2, other, &r, &st), "%s", st.message);
        check(!memcmp(W, other, sizeof other), "weights differ when resumed after %d epochs", stop);
    }
    check_end("runtime_train_resume_bit_equal");
}

static bool same_file(const char *a, const char *b)
{
    RtBlock x, y;
    if (rt_file_read(a, &x, NULL) || rt_file_read(b, &y, NULL)) return false;
    bool same = x.bytes == y.bytes && !memcmp(x.p, y.p, x.bytes);
    rt_block_free(&x);
    rt_block_free(&y);
    return same;
}

/* The log of a resumed run is that of the unbroken one, whatever the broken one wrote last. */
static void test_resume_log(void)
{
    RtTrainResult r;
    RtStatus st = {0};
    const char *whole = path_of("m.jsonl"), *broken = path_of("m2"), *ck = path_of("ck");
    RtTrainOptions o = {.epochs = 20, .seed = 3, .metrics = whole};
    check_begin();
    check(train(o, 1, NULL, &r, &st), "%s", st.message);
    o = (RtTrainOptions){.epochs = 9, .seed = 3, .metrics = broken, .checkpoint = ck, .every = 100};
    check(train(o, 1, NULL, &r, &st), "%s", st.message);
    o = (RtTrainOptions){.epochs = 14, .seed = 3, .metrics = broken};
    check(train(o, 1, NULL, &r, &st), "%s", st.message); /* five epochs and a final line too many */
    o = (RtTrainOptions){.epochs = 20, .metrics = broken, .resume = ck};
    check(train(o, 1, NULL, &r, &st), "%s", st.message);
    CHECK(same_file(whole, broken));
    check_end("runtime_resume_log");
}

static void test_weights(const float *W)
{
    RtData d;
    RtStatus st = {0};
    RtStFile f;
    check_begin();
    check(!rt_data_load(&hm_model, folder, &(RtDataOptions){0}, &d, &st), "%s", st.message);
    check(!rt_weights_load(&d.tensors, path_of("w.safetensors"), &st), "%s", st.message);
    CHECK(!memcmp(d.tensors.data[T_W], W, sizeof(float) * HM_F * HM_C));
    check(!rt_st_read(path_of("w.safetensors"), &f, &st), "%s", st.message);
    const RtStEntry *e = rt_st_find(&f, "lin.weight");
    CHECK(e && e->n_dims == 2 && e->shape[0] == HM_C && e->shape[1] == HM_F);
    CHECK(f.n_entries == 1 && ((const float *)e->data)[1] == W[HM_C]); /* stored [C][F] */
    rt_st_free(&f);
    rt_data_free(&d);
    check_end("runtime_weights_layout");
}

/* The last line of a file, and its number of lines. */
static int read_last(const char *path, char *last, size_t size)
{
    int n = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(last, (int)size, f)) n++;
    if (f) fclose(f);
    return n;
}

/* Stops `patience` epochs after the best; keeps and reports the best weights; a resumed run does
 * the same. */
static void test_early_stop(void)
{
    RtTrain train_table = hm_train;
    RtModel m = hm_model;
    char last[512] = "", want[64];
    check_begin();
    for (int minimise = 0; minimise <= 1; minimise++) {
        float kept[HM_F * HM_C], plain[HM_F * HM_C], again[HM_F * HM_C];
        RtTrainResult r, r2;
        RtStatus st = {0};
        const char *ck = path_of("ck");
        train_table.patience = 6;
        train_table.stop_minimise = minimise;
        m.train = &train_table;
        tested = &m;
        RtTrainOptions o = {.epochs = 500, .seed = 3, .metrics = path_of("m.jsonl")};
        check(train(o, 1, kept, &r, &st), "%s", st.message);
        CHECK(r.stopped_early && r.n_epochs == r.best_epoch + 1 + 6);
        CHECK(read_last(path_of("m.jsonl"), last, sizeof last) == r.n_epochs + 1);
        snprintf(want, sizeof want, "\"train_acc\":%.9g", r.metrics[0]);
        check(strstr(last, "\"final\": true") && strstr(last, want), "last line %s, wanted %s", last, want);
        train_table.stop_metric = -1;
        o = (RtTrainOptions){.epochs = r.best_epoch + 1, .seed = 3};
        check(train(o, 1, plain, &r2, &st), "%s", st.message);
        check(!memcmp(kept, plain, sizeof kept), "kept weights are not those of epoch %lld", (long long)r.best_epoch);
        CHECK(r.metrics[0] == r2.metrics[0]);
        train_table.stop_metric = 0;
        o = (RtTrainOptions){.epochs = r.best_epoch + 3, .seed = 3, .checkpoint = ck};
        check(train(o, 1, again, &r2, &st), "%s", st.message);
        o = (RtTrainOptions){.epochs = 500, .resume = ck};
        check(train(o, 1, again, &r2, &st), "%s", st.message);
        CHECK(r2.best_epoch == r.best_epoch && !memcmp(kept, again, sizeof kept));
    }
    tested = &hm_model;
    check_end("runtime_early_stop");
}

static void test_nan(void)
{
    RtTrainResult r;
    RtStatus st = {0};
    RtHyperValue lr = {T_LR, 1e30};
    check_begin();
    CHECK(!train((RtTrainOptions){.epochs = 60, .hypers = &lr, .n_hypers = 1}, 1, NULL, &r, &st));
    CHECK(st.code == RT_E_NAN && rt_code_exit(st.code) == 5);
    check(strstr(st.message, "epoch ") && strstr(st.message, "`"), "%s", st.message);
    CHECK(strstr(st.place, "hand.gnn:") != NULL);
    check_end("runtime_nan_names_op_and_epoch");
}

/* Runs the command line with stdout and stderr in a file; returns the exit code. */
static int run_cli(const char *line)
{
    char text[1024], *argv[32];
    int argc = 0, out = open(path_of("log"), O_WRONLY | O_CREAT | O_TRUNC, 0666), kept[2] = {dup(1), dup(2)};
    snprintf(text, sizeof text, "%s", line);
    for (char *rest = text, *word; (word = strtok_r(rest, " ", &rest)) && argc < 32;) argv[argc++] = word;
    fflush(stdout);
    dup2(out, 1);
    dup2(out, 2);
    int code = gnnrt_main(&hm_model, argc, argv);
    fflush(stdout);
    for (int i = 0; i < 2; i++) dup2(kept[i], i + 1), close(kept[i]);
    close(out);
    return code;
}

static bool log_has(const char *text)
{
    RtBlock b;
    if (rt_file_read(path_of("log"), &b, NULL)) return false;
    char *copy = calloc(1, b.bytes + 1);
    memcpy(copy, b.p, b.bytes);
    bool found = strstr(copy, text) != NULL;
    free(copy);
    rt_block_free(&b);
    return found;
}

static void test_cli(void)
{
    char line[512];
    check_begin();
    snprintf(line, sizeof line, "p train --data %s --epochs 5 --set lr=0.02 --save %s/w2 --metrics=%s/m2", folder,
             folder, folder);
    CHECK(run_cli(line) == 0 && log_has("epoch 5/5") && log_has("final  train_acc"));
    snprintf(line, sizeof line, "p infer --data %s --weights %s/w2 --out %s/out.npy", folder, folder, folder);
    CHECK(run_cli(line) == 0);
    snprintf(line, sizeof line, "p eval --data %s --weights %s/w2", folder, folder);
    CHECK(run_cli(line) == 0 && log_has("train_acc"));
    snprintf(line, sizeof line, "p bench --data %s --iters 3 --json --threads 2", folder);
    CHECK(run_cli(line) == 0 && log_has("\"grad\"") && log_has("\"train_step\"") && log_has("\"peak_bytes\""));
    snprintf(line, sizeof line, "p plan --data %s", folder);
    CHECK(run_cli(line) == 0 && log_has("peak memory"));
    CHECK(run_cli("p info") == 0 && log_has("lin.weight"));
    CHECK(run_cli("p info --json") == 0 && log_has("\"name\":\"hand\""));
    CHECK(run_cli("p train --help") == 0 && log_has("--set lr=0.01"));
    check_end("runtime_cli_commands");

    check_begin();
    CHECK(run_cli("p train --dta x") == 1 && log_has("did you mean --data?"));
    CHECK(run_cli("p trian --data x") == 1 && log_has("did you mean `train`?"));
    CHECK(run_cli("p train") == 1 && log_has("--data is missing"));
    CHECK(run_cli("p train --data x --device cuda") == 1 && log_has("is not built"));
    CHECK(run_cli("p train --data x --epochs ten") == 1 && log_has("R403"));
    CHECK(run_cli("p train --data x --set lx=1") == 1 && log_has("did you mean `lr`?"));
    CHECK(run_cli("p train --data /nonexistent") == 6 && log_has("R601"));
    check_end("runtime_cli_mistakes");
}

static void remove_data(void)
{
    static const char *const names[] = {
        "edge_index.npy", "x.npy", "y.npy", "train_mask.npy", "m.jsonl", "w.safetensors", "ck", "log", "w2", "m2",
        "out.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
    rmdir(folder);
}

int main(void)
{
    float W[HM_F * HM_C];
    snprintf(folder, sizeof folder, "rt_train_%ld", (long)getpid());
    write_data();
    test_learns(W);
    test_threads(W);
    test_resume(W);
    test_resume_log();
    test_weights(W);
    test_early_stop();
    test_nan();
    test_cli();
    remove_data();
    return check_done();
}
