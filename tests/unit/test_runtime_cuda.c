/* A device without a compiler: the hand-made model, whose kernels stand in for those of a GPU, by the shim's driver and
   by drivers that lack something or fail. */
#include "runtime/cli.h"
#include "runtime/cuda.h"
#include "runtime/gnnrt.h"
#include "runtime/train.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_model.h"

enum { N = 203, E = 1501, N_W = HM_F * HM_C };

/* ---- the model on a device ---- */

static const RtDeviceKernel kernels[HM_N_KERNELS] = {
    {S(s_mm), RT_BIND_THREADS, 16, 16, 1, 0, 0},    {S(s_agg), RT_BIND_THREADS, 16, 16, 1, 60 << 10, 0},
    {S(s_res), RT_BIND_NONE, 16, 1, 1, 0, 16},      {S(s_outer), RT_BIND_BLOCK, 16, 4, 1, 64, 128},
    {S(s_update), RT_BIND_THREADS, 8, 32, 1, 0, 0}, {S(s_acc), RT_BIND_NONE, 16, 1, 1, 0, 0},
    {S(s_dx), RT_BIND_THREADS, 16, 16, 1, 0, 0}};

static int run_kernel(const char *name, void **params, unsigned grid, unsigned block, size_t shared_bytes,
                      RtShimWatch *watch)
{
    (void)watch;
    static const int n_args[HM_N_KERNELS] = {3, 5, 6, 4, 4, 5, 3};
    RtArg args[6];
    int64_t range[2];
    int k = 0;
    while (k < HM_N_KERNELS && strcmp(hm_model.strings + kernels[k].name, name)) k++;
    if (k == HM_N_KERNELS || !grid || block % (unsigned)kernels[k].lanes ||
        shared_bytes < (size_t)kernels[k].block_bytes)
        return 1;
    for (int i = 0; i < n_args[k]; i++) memcpy(&args[i], params[i], sizeof *args);
    for (int i = 0; i < 2; i++) memcpy(&range[i], params[n_args[k] + i], sizeof *range);
    hm_kernels[k](args, range[0], range[1]);
    return 0;
}

static const char code[] = "sm_80\0sm_90\0compute_80\0compute_90";
static const RtImage images[] = {
    {RT_IMAGE_PTX, 80, 12, 10}, {RT_IMAGE_CUBIN, 80, 0, 5}, {RT_IMAGE_CUBIN, 90, 6, 5}, {RT_IMAGE_PTX, 90, 23, 10}};

static RtStep steps[sizeof hm_steps / sizeof *hm_steps];
static RtTouch touches[sizeof hm_steps / sizeof *hm_steps];

/* Steps that have x say that they read it row by row. */
static void touch_steps(void)
{
    memcpy(steps, hm_steps, sizeof steps);
    for (int64_t p = 0; p < hm_model.n_programs; p++)
        for (int64_t k = 0; k < hm_programs[p].n_steps; k++) {
            int64_t s = hm_programs[p].first_step + k;
            const RtCall *call = rt_step_call(&hm_model, &steps[s]);
            for (int64_t a = call->first_arg; a < call->first_arg + call->n_args; a++) {
                const RtBuffer *b = &hm_buffers[hm_programs[p].first_buffer + hm_args[a].buffer];
                if (!hm_args[a].is_buffer || b->kind != RT_BUF_TENSOR || b->ref != T_X) continue;
                touches[s] = (RtTouch){hm_args[a].buffer, 0, RT_AT_ROW, -1, RT_ANYHOW};
                steps[s].first_touch = s, steps[s].n_touches = 1, steps[s].work = RT_EACH;
            }
        }
}

static RtModel device_model(void)
{
    RtModel m = hm_model;
    touch_steps();
    m.steps = steps;
    m.touches = touches;
    m.n_device_kernels = HM_N_KERNELS;
    m.device_kernels = kernels;
    m.device_code = (const unsigned char *)code;
    m.images = images;
    m.n_images = 4;
    m.shim = run_kernel;
    return m;
}

/* ---- data ---- */

static int64_t src[E], dst[E], counts[] = {1, N, -1};
static const RtTopology topology = {.place = "edges", .n_edges = E, .src = src, .dst = dst, .counts = counts};

static bool make_data(const RtModel *m, RtData *d, RtStatus *st)
{
    *d = (RtData){0};
    for (int64_t e = 0; e < E; e++) src[e] = e * 7 % N, dst[e] = e * e % N;
    if (rt_graph_create(m, &topology, &d->graph, st) || rt_tensors_create(m, d->graph, &d->tensors, st) ||
        rt_tensors_alloc(&d->tensors, T_X, st) || rt_tensors_alloc(&d->tensors, T_Y, st) ||
        rt_tensors_alloc(&d->tensors, T_MASK, st))
        return false;
    for (int64_t v = 0; v < N; v++) {
        for (int64_t f = 0; f < HM_F; f++)
            ((float *)d->tensors.data[T_X])[v * HM_F + f] = (float)((v * 31 + f * 17) % 64) / 64 - 0.5f;
        ((int64_t *)d->tensors.data[T_Y])[v] = v % HM_C;
        ((uint8_t *)d->tensors.data[T_MASK])[v] = v % 3 != 0;
    }
    return true;
}

static void free_data(RtData *d)
{
    rt_tensors_free(&d->tensors);
    rt_graph_free(d->graph);
}

static const RtCudaRoom *room; /* that a run may take; NULL: all there is */

/* Trains on the CPU (driver NULL) or a device; W gets the weights. */
static RtCode train(const RtCudaDriver *driver, RtTrainOptions o, float *W, RtTrainResult *r, RtStatus *st)
{
    RtModel m = device_model();
    RtData d;
    RtCuda *c = NULL;
    *st = (RtStatus){0};
    if (!make_data(&m, &d, st)) return st->code;
    RtCode result = driver ? rt_cuda_create(&m, driver, 0, &c, st) : RT_OK;
    if (!result && c) result = rt_cuda_load(c, d.graph, "train_step metrics", false, room, st);
    o.exec.device = c;
    o.exec.split = -1;
    if (!result) result = rt_train(&m, &d, &o, r, st);
    if (W) memcpy(W, d.tensors.data[T_W], N_W * sizeof *W);
    rt_cuda_free(c);
    free_data(&d);
    return result;
}

static void test_same_bits(void)
{
    float here[N_W], there[N_W];
    RtTrainResult a, b;
    RtStatus st;
    RtTrainOptions o = {.epochs = 25, .seed = 3};
    check_begin();
    check(!train(NULL, o, here, &a, &st), "%s", st.message);
    check(!train(&rt_cuda_shim, o, there, &b, &st), "%s", st.message);
    CHECK(!memcmp(here, there, sizeof here) && !memcmp(a.metrics, b.metrics, sizeof *a.metrics) && a.loss == b.loss);
    check_end("runtime_cuda_same_bits");
}

/* A loss that is no number is found again on the CPU, from the weights before the step. */
static void test_nan(void)
{
    float W[N_W], W_there[N_W];
    RtTrainResult r;
    RtStatus here, there;
    RtTrainOptions o = {.epochs = 400, .seed = 3, .hypers = (RtHyperValue[]){{T_LR, 1e38}}, .n_hypers = 1};
    check_begin();
    CHECK(train(NULL, o, W, &r, &here) == RT_E_NAN && train(&rt_cuda_shim, o, W_there, &r, &there) == RT_E_NAN);
    /* those before the step, which makes them NaN; each became infinite before */
    CHECK(!memcmp(W, W_there, sizeof W) && !isnan(W[0]) && !isnan(W[N_W - 1]));
    check(!strcmp(here.message, there.message) && !strcmp(here.place, there.place), "%s: %s", there.place,
          there.message);
    CHECK(strstr(here.message, "the first NaN is made by"));
    check_end("runtime_cuda_nan");
}

/* ---- memory ---- */

static size_t asked, left_bytes;

static int count_bytes(RtCudaPtr *p, size_t bytes)
{
    asked += bytes;
    return rt_cuda_shim.memory_take(p, bytes);
}

static int little_memory(size_t *left, size_t *total)
{
    *left = left_bytes;
    *total = 1 << 30;
    return 0;
}

static void test_memory(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtModel m = device_model();
    RtCudaLayout l = {0};
    RtTrainResult r;
    RtStatus st;
    RtData d;
    char wanted[40];
    driver.memory_take = count_bytes;
    driver.memory_info = little_memory;
    check_begin();
    if (!CHECK(make_data(&m, &d, &st)) ||
        !CHECK(!rt_cuda_layout(&m, d.graph, "train_step metrics", false, NULL, &l, &st)))
        return;
    left_bytes = (size_t)l.bytes - 1;
    CHECK(train(&driver, (RtTrainOptions){.epochs = 1}, NULL, &r, &st) == RT_E_DEVICE_MEMORY && !asked);
    snprintf(wanted, sizeof wanted, "wanted %lld bytes", (long long)l.bytes);
    check(strstr(st.message, wanted) && rt_code_exit(st.code) == 4, "%s", st.message);
    left_bytes++;
    check(!train(&driver, (RtTrainOptions){.epochs = 1}, NULL, &r, &st), "%s", st.message);
    check(asked == (size_t)l.bytes, "asked for %zu bytes, the layout has %lld", asked, (long long)l.bytes);
    for (int64_t i = 0; i < l.n; i++) {
        const RtCudaRegion *x = &l.regions[i];
        CHECK(x->at + x->bytes <= l.arena_at && (i + 1 == l.n || x->at + x->bytes <= l.regions[i + 1].at));
    }
    CHECK(l.trained_bytes >= 2 * N_W * 4 && l.kept_at[RT_CUDA_BEFORE] >= l.trained_bytes && l.regions[0].at == 0);
    CHECK(l.said_bytes > 0 && l.numbers_bytes >= 2 * 8); /* lr; loss and accuracy */
    rt_cuda_layout_free(&l);
    free_data(&d);
    check_end("runtime_cuda_memory");
}

/* ---- devices that are not as wanted ---- */

static int wrong(void) { return 1; }
static int old_version(int *v)
{
    *v = 10020;
    return 0;
}
static int no_devices(int *n)
{
    *n = 0;
    return 0;
}

static int capability;
static const char *loaded;
static int attribute(int *value, int which, int device)
{
    *value = which == 75 ? capability / 10 : which == 76 ? capability % 10 : 48 << 10;
    return device;
}
static int note_image(void **module, const void *image)
{
    loaded = image;
    *module = NULL;
    return 1;
}

static RtCode open_with(const RtCudaDriver *driver, int64_t ordinal, RtStatus *st)
{
    RtModel m = device_model();
    RtCuda *c = NULL;
    *st = (RtStatus){0};
    RtCode result = rt_cuda_create(&m, driver, ordinal, &c, st);
    if (result == RT_OK) rt_cuda_free(c);
    return result;
}

static void test_devices(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtStatus st;
    check_begin();
    CHECK(open_with(&rt_cuda_shim, 0, &st) == RT_OK);
    CHECK(open_with(&rt_cuda_shim, 1, &st) == RT_E_DEVICE_NONE &&
          strstr(st.message, "finds 1 device, wanted number 1"));
    driver.device_count = no_devices;
    CHECK(open_with(&driver, 0, &st) == RT_E_DEVICE_NONE && st.hint[0]);
    driver = rt_cuda_shim;
    driver.version = old_version;
    CHECK(open_with(&driver, 0, &st) == RT_E_DEVICE_OLD && strstr(st.message, "10.2"));
    driver = rt_cuda_shim;
    memcpy(&driver.context_set, &(int (*)(void)){wrong}, sizeof driver.context_set);
    CHECK(open_with(&driver, 0, &st) == RT_E_DEVICE_FAILED && strstr(st.message, "invalid value (1)"));
    check_end("runtime_cuda_devices");
}

/* The device's own kernels, else the newest text that is no newer than it. */
static void test_images(void)
{
    static const struct {
        int capability;
        const char *image; /* NULL: none fits */
    } rows[] = {{80, "sm_80"},       {86, "sm_80"},       {89, "sm_80"}, {90, "sm_90"},
                {100, "compute_90"}, {120, "compute_90"}, {75, NULL}};
    RtCudaDriver driver = rt_cuda_shim;
    RtStatus st;
    driver.device_attribute = attribute;
    driver.module_load = note_image;
    driver.shim = false;
    check_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        capability = rows[i].capability;
        loaded = NULL;
        RtCode got = open_with(&driver, 0, &st);
        check(got == (rows[i].image ? RT_E_DEVICE_FAILED : RT_E_DEVICE_OLD) &&
                  (loaded ? rows[i].image && !strcmp(loaded, rows[i].image) : !rows[i].image),
              "capability %d: %s, %s", capability, loaded ? loaded : "no image", st.message);
    }
    check_end("runtime_cuda_images");
}

/* ---- launches ---- */

static void test_launches(void)
{
    static const struct {
        int64_t kernel, extent, most;
        RtLaunch want;
    } rows[] = {{K_MM, 203, 1 << 20, {102, 32, 0}},
                {K_MM, 1500, 1 << 20, {375, 64, 0}}, /* few rows on many multiprocessors */
                {K_MM, 4096, 1 << 20, {512, 128, 0}},
                {K_MM, 1, 1 << 20, {1, 32, 0}},
                {K_MM, 1LL << 40, 1 << 20, {INT32_MAX, 128, 0}},
                {K_RES, 1, 1 << 20, {1, 16, 16}},
                {K_OUTER, 5, 1 << 20, {5, 64, 128 + 4 * 64}},
                {K_SUM, 203, 227 << 10, {102, 32, 120 << 10}},
                {K_SUM, 203, 100 << 10, {203, 16, 60 << 10}}};
    RtModel m = device_model();
    RtStatus st = {0};
    RtLaunch l;
    check_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(rt_cuda_launch(&m, rows[i].kernel, rows[i].extent, rows[i].most, &l, &st) == RT_OK);
        check(l.grid == rows[i].want.grid && l.block == rows[i].want.block &&
                  l.shared_bytes == rows[i].want.shared_bytes,
              "row %zu: %lld x %lld, %lld bytes", i, (long long)l.grid, (long long)l.block, (long long)l.shared_bytes);
    }
    CHECK(rt_cuda_launch(&m, K_SUM, 203, 48 << 10, &l, &st) == RT_E_DEVICE_REFUSED && strstr(st.message, "61440"));
    /* a block of warps that wait for one another has all of them or does not run */
    CHECK(rt_cuda_launch(&m, K_OUTER, 5, 300, &l, &st) == RT_E_DEVICE_REFUSED);
    check_end("runtime_cuda_launches");
}

/* ---- runs as graphs ---- */

enum { CAPTURE_BEGIN = 1, CAPTURE_END, REPLAY_MAKE, N_REFUSALS };
static int n_launches, n_replays, n_waits, refused;

static int count_launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared_bytes, void *stream, void **params, void **extra)
{
    n_launches++;
    return rt_cuda_shim.launch(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}
static int count_replay(void *replay, void *stream)
{
    n_replays++;
    return rt_cuda_shim.replay(replay, stream);
}
static int count_wait(void *stream)
{
    n_waits++;
    return rt_cuda_shim.stream_wait(stream);
}
static int begin_or_not(void *stream, int mode)
{
    return refused == CAPTURE_BEGIN ? 1 : rt_cuda_shim.capture_begin(stream, mode);
}
static int end_or_not(void *stream, void **graph)
{
    int error = rt_cuda_shim.capture_end(stream, graph);
    if (error || refused != CAPTURE_END) return error;
    rt_cuda_shim.graph_free(*graph);
    *graph = NULL;
    return 1;
}
static int make_or_not(void **replay, void *graph, unsigned long long flags)
{
    return refused == REPLAY_MAKE ? 1 : rt_cuda_shim.replay_make(replay, graph, flags);
}

/* The second run of each program is captured, all from then on are replayed, and the host waits once an epoch. A driver
   that refuses any of that has each run started step by step. Numbers that change while it runs reach it either way. */
static void test_replays(void)
{
    enum { EPOCHS = 12, STEPS = 6 /* of a training step */, METRIC_STEPS = 3 };
    RtCudaDriver driver = rt_cuda_shim;
    float here[N_W], there[N_W];
    RtTrainResult r;
    RtStatus st;
    RtTrainOptions o = {.epochs = EPOCHS, .seed = 3};
    driver.launch = count_launch, driver.replay = count_replay, driver.stream_wait = count_wait;
    driver.capture_begin = begin_or_not, driver.capture_end = end_or_not, driver.replay_make = make_or_not;
    check_begin();
    check(!train(NULL, o, here, &r, &st), "%s", st.message);
    for (refused = 0; refused < N_REFUSALS; refused++) {
        n_launches = n_replays = n_waits = 0;
        check(!train(&driver, o, there, &r, &st), "%s", st.message);
        CHECK(!memcmp(here, there, sizeof here));
        int replays = refused ? 0 : 2 * (EPOCHS - 1) + 1; /* the metrics run once more at the end */
        int begun = refused ? EPOCHS + (refused > CAPTURE_BEGIN) : 2;
        int launches = begun * (STEPS + METRIC_STEPS) + (refused ? METRIC_STEPS : 0);
        check(n_replays == replays && n_launches == launches && n_waits == EPOCHS + 1,
              "refused %d: %d replays, wanted %d; %d launches, wanted %d; %d waits", refused, n_replays, replays,
              n_launches, launches, n_waits);
    }
    refused = 0;
    check_end("runtime_cuda_replays");
}

static RtExec *bound(const RtModel *m, RtData *d, RtCuda *c, const char *program, RtStatus *st)
{
    RtExec *e = NULL;
    RtExecOptions o = {.split = -1, .device = c};
    check(!rt_exec_create(m, rt_program_find(m, program), d->graph, &o, &e, st), "%s", st->message);
    memcpy(e->tensors, d->tensors.data, (size_t)m->n_tensors * sizeof *e->tensors);
    check(!rt_exec_own_results(e, st) && !rt_exec_bind(e, st) && !rt_cuda_push(c, d->tensors.data, st), "%s",
          st->message);
    return e;
}

/* Runs that nobody waits for have each the numbers that were said when it was begun; after binding again a program is
   captured anew. */
static void test_begun(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtModel m = device_model();
    RtStatus st = {0};
    float found[2][N_W];
    driver.launch = count_launch, driver.replay = count_replay;
    check_begin();
    for (int there = 0; there < 2; there++) {
        RtData d;
        RtCuda *c = NULL;
        if (!CHECK(make_data(&m, &d, &st))) return;
        if (there)
            CHECK(!rt_cuda_create(&m, &driver, 0, &c, &st) &&
                  !rt_cuda_load(c, d.graph, "train_step metrics", false, NULL, &st));
        rt_tensors_init(&d.tensors, 7);
        RtExec *e = bound(&m, &d, c, "train_step", &st);
        n_launches = n_replays = 0;
        for (int i = 0; i < 6; i++) {
            rt_tensors_set_hyper(&d.tensors, T_LR, 0.1 * (i + 1));
            if (i == 4) CHECK(!rt_exec_bind(e, &st));
            rt_exec_run(e, 1, i);
        }
        CHECK(!rt_exec_results(e, &st) && !rt_cuda_pull(c, d.tensors.data, &st));
        if (there) CHECK(n_replays == 4 && n_launches == 4 * e->program->n_steps);
        memcpy(found[there], d.tensors.data[T_W], sizeof found[there]);
        rt_exec_free(e);
        rt_cuda_free(c);
        free_data(&d);
    }
    CHECK(!memcmp(found[0], found[1], sizeof *found));
    check_end("runtime_cuda_begun");
}

/* The shim's streams: nothing is done before somebody waits for it, and what no wait orders is done in this order and
   in that. */
static void test_streams(void)
{
    const RtCudaDriver *d = &rt_cuda_shim;
    void *a, *b, *forked, *joined, *graph, *replay, *context;
    char got[2] = {0};
    RtCudaPtr at;
    check_begin();
    CHECK(!d->context_retain(&context, 0) && !d->stream_make(&a, 0) && !d->stream_make(&b, 0) &&
          !d->event_make(&forked, 2) && !d->event_make(&joined, 2) && !d->memory_take(&at, 4));
    bool found[4] = {0};
    for (int i = 0; i < 4; i++) { /* a place that two streams write, joined or not */
        bool join = i % 2;
        for (int k = 0; k < 2; k++) {
            CHECK(!d->memory_fill(at, 9, 4));
            CHECK(!d->say_words(at, 1, 1, a));
            CHECK(!d->event_note(forked, a) && !d->stream_follow(b, forked, 0));
            CHECK(!d->say_words(at, 2, 1, b));
            CHECK(!d->event_note(joined, b));
            if (join) CHECK(!d->stream_follow(a, joined, 0));
            got[0] = 0;
            CHECK(!d->to_host_later(got, at, 1, a) && !got[0]);
            CHECK(!d->stream_wait(a));
            if (join) CHECK(got[0] == 2);
            else found[(unsigned char)got[0] % 4] = true;
        }
    }
    CHECK(found[1]); /* what b does was not waited for */
    /* of a capture: not joined, and a wait inside it */
    for (int join = 0; join < 2; join++) {
        CHECK(!d->capture_begin(a, 2) && d->stream_wait(a) && d->to_host(got, at, 1));
        CHECK(!d->event_note(forked, a) && !d->stream_follow(b, forked, 0));
        CHECK(!d->move(at + 1, at, 1, b) && !d->event_note(joined, b) && !d->move(at + 3, at, 1, a));
        if (join) CHECK(!d->stream_follow(a, joined, 0));
        CHECK(!d->move(at + 2, at + (join ? 1 : 0), 1, a));
        check(d->capture_end(a, &graph) == (join ? 0 : 904) && !graph == !join, "join %d", join);
    }
    CHECK(!d->replay_make(&replay, graph, 0) && !d->graph_free(graph));
    for (char k = 5; k < 8; k++) { /* as often as one wants, with what is there then */
        CHECK(!d->to_device(at, &k, 1) && !d->replay(replay, a) && !d->stream_wait(a) && !d->to_host(got, at + 2, 1));
        CHECK(got[0] == k);
    }
    CHECK(!d->replay_free(replay) && !d->stream_free(a) && !d->stream_free(b) && !d->event_free(forked) &&
          !d->event_free(joined) && !d->memory_free(at));
    check_end("runtime_cuda_streams");
}

static int until_failure;
static int fail_later(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void *stream, void **params, void **extra)
{
    if (until_failure-- <= 0) return 1;
    return rt_cuda_shim.launch(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}

/* Whichever launch fails, of a run or of a capture, and all that follow: the run ends with the step's name and nothing
   else. */
static void test_failures(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtTrainResult r;
    RtStatus st;
    driver.launch = fail_later;
    check_begin();
    for (int i = 0; i < 18; i++) {
        until_failure = i;
        CHECK(train(&driver, (RtTrainOptions){.epochs = 5}, NULL, &r, &st) == RT_E_DEVICE_FAILED);
        check(rt_code_exit(st.code) == 6 && strstr(st.message, "cannot run ") &&
                  strstr(st.message, "invalid value (1)"),
              "%s", st.message);
    }
    check_end("runtime_cuda_failures");
}

static int spoil; /* launches until one whose last buffer gets a wrong byte; -1: none */
static char *spoilt;
static int spoil_one(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared_bytes, void *stream, void **params, void **extra)
{
    if (spoil-- == 0) spoilt = *(char **)params[2]; /* a product: x, W, h */
    return rt_cuda_shim.launch(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
}
static int spoil_now(void *stream)
{
    int error = rt_cuda_shim.stream_wait(stream);
    if (spoilt) spoilt[5] ^= 1;
    spoilt = NULL;
    return error;
}

/* The step that goes wrong, and not those that read what it wrote. */
static void test_compare(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtModel m = device_model();
    RtSession s = {.exec = {.split = -1}};
    RtData d;
    RtCuda *c = NULL;
    RtStatus st = {0};
    driver.launch = spoil_one;
    driver.stream_wait = spoil_now;
    check_begin();
    if (!CHECK(make_data(&m, &d, &st)) || !CHECK(!rt_cuda_create(&m, &driver, 0, &c, &st)) ||
        !CHECK(!rt_cuda_load(c, d.graph, "forward", false, NULL, &st)))
        return;
    for (int right = 1; right >= 0; right--) {
        spoil = right ? -1 : 0;
        int64_t differ = 0, want = right ? 0 : 1;
        RtExec *e = bound(&m, &d, c, "forward", &st);
        check(!rt_cli_compare(&s, e, 3, &differ, &st), "%s", st.message);
        check(differ == want, "%lld steps differ, wanted %lld", (long long)differ, (long long)want);
        rt_exec_free(e);
    }
    rt_cuda_free(c);
    free_data(&d);
    check_end("runtime_cuda_compare");
}

/* ---- a library's contexts ---- */

static RtCudaPtr foreign, host_memory; /* addresses of another device, of the host */
static int whose(void *value, int attribute, RtCudaPtr p)
{
    if (p == host_memory) return 1;
    int error = rt_cuda_shim.pointer(value, attribute, p);
    if (!error && p == foreign && attribute == 9) *(int *)value = 1;
    return error;
}
static int open_library(void *driver, void *status)
{
    int error = rt_open_shim(driver, status);
    RtCudaDriver *d = driver;
    d->launch = count_launch, d->replay = count_replay, d->stream_wait = count_wait, d->pointer = whose;
    return error;
}

typedef struct World { /* of one call, and what it gives */
    _Alignas(16) float x[N][HM_F], cot[N][HM_C], out[N][HM_C], dx[N][HM_F], W[HM_F][HM_C], dW[HM_F][HM_C];
} World;

static int32_t forward_and_back(GnnrtContext *c, World *w, GnnrtStatus *st)
{
    int32_t code = gnnrt_forward(c, (const void *[]){w->x}, (void *[]){w->out}, st);
    return code ? code : gnnrt_vjp(c, (const void *[]){w->x}, (const void *[]){w->cot}, (void *[]){w->dx, w->dW}, st);
}

/* Forward and back have the CPU's bytes: in a plain run, captured and replayed, after parameters were changed, with the
   caller's own, with other memory, in two contexts and two streams. No call waits. */
static void test_library(void)
{
    static World here, there, other;
    RtModel m = device_model();
    const RtCudaDriver *d = &rt_cuda_shim;
    GnnrtModel *model = NULL;
    GnnrtGraph *graph = NULL;
    GnnrtContext *cpu = NULL, *gpu[2] = {NULL};
    GnnrtStatus st = {0};
    RtData data;
    RtStatus rt;
    void *streams[2], *now;
    m.driver = open_library;
    m.device = &m; /* one plan */
    check_begin();
    d->context_set(&here);
    if (!CHECK(make_data(&m, &data, &rt))) return;
    memcpy(here.x, data.tensors.data[T_X], sizeof here.x);
    for (int v = 0; v < N; v++)
        for (int k = 0; k < HM_C; k++) here.cot[v][k] = (float)((v * 7 + k * 3) % 32) / 32 - 0.5f;
    there = other = here;
    GnnrtGraphDesc desc = {.n_src = N, .n_dst = N, .n_edges = E, .src = src, .dst = dst};
    CHECK(!gnnrt_model_create(&m, 3, GNNRT_BEST_CPU, &model, &st) && !gnnrt_graph_create(model, &desc, &graph, &st) &&
          !gnnrt_context_create(model, graph, 1, NULL, 0, &cpu, &st) && !d->stream_make(&streams[0], 0) &&
          !d->stream_make(&streams[1], 0));
    for (int i = 0; i < 2; i++)
        check(!gnnrt_context_cuda(model, graph, 1, 0, streams[i], &gpu[i], &st), "%s", st.message);
    n_replays = n_waits = 0;
    for (int i = 0; i < 8; i++) {
        World *w = i == 6 ? &other : &there;
        float W[N_W];
        for (int k = 0; k < N_W; k++) W[k] = (float)((i + 1) * k % 16) / 8 - 1;
        if (i == 4) CHECK(!gnnrt_param_set(model, 0, W, &st));
        if (i == 5) {
            memcpy(there.W, W, sizeof W), memcpy(here.W, W, sizeof W);
            CHECK(!gnnrt_context_bind_param(gpu[0], 0, there.W, &st));
            CHECK(!gnnrt_context_bind_param(gpu[1], 0, there.W, &st));
            CHECK(!gnnrt_context_bind_param(cpu, 0, here.W, &st));
        }
        if (i == 7) { /* what was begun before in the other stream is done first, and is written over */
            for (int k = 0; k < HM_F; k++) other.x[7][k] += 1; /* a node with edges out of it */
            CHECK(!gnnrt_forward(gpu[0], (const void *[]){other.x}, (void *[]){there.out}, &st));
            CHECK(!gnnrt_context_set_stream(gpu[0], streams[1], &st));
        }
        check(!forward_and_back(cpu, &here, &st), "%s", st.message);
        int waits = n_waits;
        memset(w->dW, 0, sizeof w->dW);
        check(!forward_and_back(gpu[i == 3], w, &st), "%s", st.message);
        CHECK(w->dW[0][0] == 0 && w->dW[1][1] == 0);                /* not done yet */
        CHECK(n_waits == waits + 2 * (i == 0 || i == 3 || i == 4)); /* parameters were copied */
        CHECK(!d->stream_wait(streams[i == 3 || i == 7]) && (i != 7 || !d->stream_wait(streams[0])));
        CHECK(!memcmp(w->out, here.out, sizeof w->out) && !memcmp(w->dx, here.dx, sizeof w->dx) &&
              !memcmp(w->dW, here.dW, sizeof w->dW));
        CHECK(here.dW[0][0] != 0 && here.dW[1][1] != 0);
    }
    CHECK(!d->context_get(&now) && now == &here);   /* the caller's */
    check(n_replays == 6, "%d replays", n_replays); /* the 2nd, 3rd and 5th; the others are bound anew */
    /* what is refused changes nothing */
    foreign = (RtCudaPtr)(uintptr_t)other.out, host_memory = (RtCudaPtr)(uintptr_t)other.x;
    int32_t code = gnnrt_forward(gpu[0], (const void *[]){there.x}, (void *[]){other.out}, &st);
    check(code == GNNRT_BAD_ARGUMENT && strstr(st.message, "out: found memory of device 1, wanted"), "%s", st.message);
    code = gnnrt_forward(gpu[0], (const void *[]){other.x}, (void *[]){there.out}, &st);
    check(code == GNNRT_BAD_ARGUMENT && strstr(st.message, "x: found memory of the host"), "%s", st.message);
    code = gnnrt_forward(gpu[0], (const void *[]){&there.x[0][1]}, (void *[]){there.out}, &st);
    check(code == GNNRT_BAD_ARGUMENT && strstr(st.message, "aligned to 16"), "%s", st.message);
    code = gnnrt_forward(gpu[0], (const void *[]){NULL}, (void *[]){there.out}, &st);
    check(code == GNNRT_BAD_ARGUMENT && strstr(st.message, "x"), "%s", st.message);
    CHECK(gnnrt_context_set_parallel(gpu[0], NULL, NULL, 1, &st) == GNNRT_BAD_ARGUMENT);
    CHECK(gnnrt_context_set_stream(cpu, NULL, &st) == GNNRT_BAD_ARGUMENT);
    memset(there.out, 0, sizeof there.out);
    CHECK(!gnnrt_forward(gpu[0], (const void *[]){there.x}, (void *[]){there.out}, &st));
    CHECK(!d->stream_wait(streams[1]) && !memcmp(there.out, here.out, sizeof there.out));
    for (int i = 0; i < 2; i++) gnnrt_context_free(gpu[i]);
    GnnrtContext *none = NULL;
    CHECK(gnnrt_context_cuda(model, graph, 1, 1, NULL, &none, &st) == GNNRT_DEVICE_NONE && !none);
    CHECK(gnnrt_context_cuda(model, graph, 1, -1, NULL, &none, &st) == GNNRT_BAD_ARGUMENT);
    m.driver = NULL;
    CHECK(gnnrt_context_cuda(model, graph, 1, 0, NULL, &none, &st) == GNNRT_DEVICE_REFUSED &&
          strstr(st.message, "--target cuda"));
    gnnrt_context_free(cpu), gnnrt_graph_free(graph), gnnrt_model_free(model);
    CHECK(!d->stream_free(streams[0]) && !d->stream_free(streams[1]));
    free_data(&data);
    check_end("runtime_cuda_library");
}

/* ---- inputs that stay on the host ---- */

static int n_advices, n_fetched, advices[8][2], takes_refused;

static int note_advice(RtCudaPtr p, size_t bytes, int advice, int device)
{
    if (n_advices < 8) advices[n_advices][0] = advice, advices[n_advices][1] = device;
    n_advices++;
    return rt_cuda_shim.advise(p, bytes, advice, device);
}
static int note_fetch(RtCudaPtr p, size_t bytes, int device, void *stream)
{
    n_fetched += (int)bytes;
    return rt_cuda_shim.prefetch(p, bytes, device, stream);
}
static int take_or_not(RtCudaPtr *p, size_t bytes, unsigned flags)
{
    return takes_refused ? 2 : rt_cuda_shim.take_managed(p, bytes, flags);
}
static int n_locked, n_unlocked, locks_refused;
static int note_unlock(void *p)
{
    n_unlocked++;
    return rt_cuda_shim.host_free(p);
}
static int lock_or_not(void **p, size_t bytes)
{
    bool large = bytes >= 1 << 16;
    n_locked += large ? (int)bytes : 0;
    return large && locks_refused ? 2 : rt_cuda_shim.host_take(p, bytes);
}
static int not_concurrent(int *value, int which, int device)
{
    int error = rt_cuda_shim.device_attribute(value, which, device);
    if (which == 89) *value = 0;
    return error;
}

static void test_host(void)
{
    enum { GRANULE = 64 << 10, PREFER = 3, ACCESSED_BY = 5 };
    RtCudaDriver driver = rt_cuda_shim;
    RtCudaRoom named = {.bytes = INT64_MAX, .spare = INT64_MAX, .names = "x"};
    float here[N_W], there[N_W];
    RtTrainResult r;
    RtStatus st;
    RtTrainOptions o = {.epochs = 6, .seed = 3};
    driver.advise = note_advice, driver.prefetch = note_fetch, driver.take_managed = take_or_not;
    check_begin();
    check(!train(NULL, o, here, &r, &st), "%s", st.message);
    room = &named;
    check(!train(&driver, o, there, &r, &st), "%s", st.message);
    CHECK(!memcmp(here, there, sizeof here) && !n_fetched && n_advices == 2);
    CHECK(advices[0][0] == PREFER && advices[0][1] == -1 && advices[1][0] == ACCESSED_BY && advices[1][1] == 0);
    named.spare = 0; /* all of it fits */
    n_advices = 0;
    check(!train(&driver, o, there, &r, &st), "%s", st.message);
    CHECK(!memcmp(here, there, sizeof here) && n_advices == 3 && advices[2][0] == PREFER && advices[2][1] == 0);
    check(n_fetched > 0 && n_fetched % GRANULE == 0, "%d bytes are fetched", n_fetched);
    /* what a machine may lack */
    takes_refused = 1;
    CHECK(train(&driver, o, NULL, &r, &st) == RT_E_DEVICE_HOST && rt_code_exit(st.code) == 4);
    check(strstr(st.message, "wanted 65536 bytes") && strstr(st.message, "out of memory (2)"), "%s", st.message);
    takes_refused = 0;
    for (int i = 0; i < 4; i++) {
        RtCudaDriver lacks = rt_cuda_shim;
        if (i == 0) lacks.take_managed = NULL;
        if (i == 1) lacks.advise = NULL;
        if (i == 2) lacks.prefetch = NULL;
        if (i == 3) lacks.device_attribute = not_concurrent;
        lacks.host_take = lock_or_not, lacks.host_free = note_unlock;
        locks_refused = 0, n_locked = 0, n_unlocked = 0;
        check(!train(&lacks, o, there, &r, &st), "%s", st.message);
        CHECK(!memcmp(here, there, sizeof here) && n_locked == GRANULE && n_unlocked == 2); /* x; numbers */
        locks_refused = 1;
        CHECK(train(&lacks, o, NULL, &r, &st) == RT_E_DEVICE_HOST && strstr(st.message, "wanted 65536 bytes"));
    }
    /* a step that has x and does not say what it reads of it */
    RtModel silent = device_model();
    RtCudaLayout l = {0};
    RtData d;
    silent.steps = hm_steps;
    if (!CHECK(make_data(&silent, &d, &st))) return;
    CHECK(rt_cuda_layout(&silent, d.graph, "forward", false, &named, &l, &st) == RT_E_CLI_VALUE);
    rt_cuda_layout_free(&l);
    free_data(&d);
    check_end("runtime_cuda_host");
}

static int copy_at_once(RtCudaPtr to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

/* A run that was begun has the rows that were there then, also where nothing else waits for it. */
static void test_host_push(void)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtModel m = device_model();
    RtStatus st = {0};
    RtCudaRoom named = {.bytes = INT64_MAX, .names = "x"};
    float found[2][N * HM_C];
    driver.to_device = copy_at_once;
    check_begin();
    for (int there = 0; there < 2; there++) {
        RtData d;
        RtCuda *c = NULL;
        if (!CHECK(make_data(&m, &d, &st))) return;
        rt_tensors_init(&d.tensors, 7);
        if (there)
            CHECK(!rt_cuda_create(&m, &driver, 0, &c, &st) &&
                  !rt_cuda_load(c, d.graph, "forward", false, &named, &st) && c->host);
        RtExec *e = bound(&m, &d, c, "forward", &st);
        rt_exec_run(e, 1, 0);
        for (int64_t i = 0; i < N * HM_F; i++) ((float *)d.tensors.data[T_X])[i] += 1;
        CHECK(!rt_cuda_push(c, d.tensors.data, &st) && !rt_exec_results(e, &st));
        memcpy(found[there], e->results[0], sizeof *found);
        rt_exec_free(e);
        rt_cuda_free(c);
        free_data(&d);
    }
    CHECK(!memcmp(found[0], found[1], sizeof *found));
    check_end("runtime_cuda_host_push");
}

/* However large an input is, there are few granules, and none holds rows of two inputs. */
static void test_granules(void)
{
    RtCudaRegion regions[] = {
        {.host_at = 0, .bytes = 100}, {.host_at = -1, .bytes = 1 << 20}, {.host_at = 0, .bytes = 1LL << 37}};
    RtCudaLayout l = {.regions = regions, .n = 3};
    check_begin();
    rt_cuda_host_place(&l);
    CHECK(l.host.granule == 64 << 20 && l.host.bytes == (1LL << 37) + l.host.granule);
    CHECK(regions[0].host_at == 0 && regions[1].host_at == -1 && regions[2].host_at == l.host.granule);
    l.host = (RtCudaHost){0};
    regions[2].bytes = 65537;
    rt_cuda_host_place(&l);
    CHECK(l.host.granule == 65536 && l.host.bytes == 3 * 65536);
    check_end("runtime_cuda_granules");
}

int main(void)
{
    test_same_bits();
    test_nan();
    test_memory();
    test_devices();
    test_images();
    test_launches();
    test_replays();
    test_begun();
    test_streams();
    test_failures();
    test_compare();
    test_library();
    test_host();
    test_host_push();
    test_granules();
    return check_done();
}
