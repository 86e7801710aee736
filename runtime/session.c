/* Opens what a running command needs (see cli.h): data, threads, kernels for this CPU, BLAS. */
#include "runtime/cli.h"
#include "runtime/cone.h"
#include "runtime/nccl.h"
#include "runtime/setup.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

static RtCode parse_blas(const RtCli *c, RtBlasMode *mode)
{
    static const char *const names[] = {"off", "auto", "on"};
    const char *text = c->values[OPT_BLAS] ? c->values[OPT_BLAS] : "auto";
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *mode = (RtBlasMode)i;
            return RT_OK;
        }
    return rt_fail(c->st, RT_E_CLI_VALUE, "--blas", NULL, "found `%.60s`, wanted on, off or auto", text);
}

/* Steps that leave rows out need memory of their own (cone.h): with a budget they leave out none unless --cone says
   so. */
static RtCode parse_cone(const RtCli *c, int *cone)
{
    RtConeMode mode = c->values[OPT_BUDGET] ? RT_CONE_OFF : RT_CONE_AUTO;
    if (c->values[OPT_CONE]) RT_TRY(rt_cone_parse(c->values[OPT_CONE], &mode, c->st));
    *cone = (int)mode;
    return RT_OK;
}

/* Threads that share a row need memory of their own, too: with a budget they share none unless --share says so. */
static RtCode parse_share(const RtCli *c, int64_t *split)
{
    RT_TRY(rt_cli_int(c, OPT_SHARE, 0, INT64_MAX, split));
    if (!*split && (c->values[OPT_SHARE] || c->values[OPT_BUDGET])) *split = -1;
    return RT_OK;
}

/* 4096, 512K, 300M, 2G: powers of 1024. */
static RtCode parse_bytes(const RtCli *c, int option, const char *flag, int64_t *bytes)
{
    static const char units[] = "KMG";
    const char *text = c->values[option], *unit;
    char *end;
    if (!text) return RT_OK;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    *bytes = v;
    bool good = !errno && end != text && v >= 0;
    if (good && *end && (unit = strchr(units, *end)) && !end[1]) {
        for (const char *u = units; good && u <= unit; u++) good = rt_mul(*bytes, 1024, bytes);
        end++;
    }
    if (good && !*end) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, flag, NULL, "found `%.60s`, wanted bytes as in 4096, 512K, 300M or 2G", text);
}

/* Refuses what needs more planned memory than it may use, or than there is, before any of it is taken. */
static RtCode check_budget(const RtCli *c, const RtSession *s, const char *programs)
{
    int64_t budget = INT64_MAX, bytes, program = -1;
    RT_TRY(parse_bytes(c, OPT_BUDGET, "--memory-budget", &budget));
    RT_TRY(rt_planned_bytes(c->model, s->data.graph, s->batches.graph, programs, &bytes, &program, c->st));
    if (bytes > budget)
        return rt_fail(c->st, RT_E_BUDGET, rt_string(c->model, program < 0 ? -1 : c->model->programs[program].name),
                       NULL, "the budget is %lld bytes, this program needs at least %lld", (long long)budget,
                       (long long)bytes);
    return c->command == CMD_PLAN || s->on_device ? RT_OK : rt_memory_check(bytes, "the planned memory", c->st);
}

RtCode rt_cli_folds(const RtCli *c, int64_t *folds, int64_t *fold)
{
    RT_TRY(rt_cli_int(c, OPT_FOLDS, 2, 1000000, folds));
    if (c->values[OPT_FOLD] && !c->values[OPT_FOLDS])
        return rt_fail(c->st, RT_E_CLI_MISSING, "--fold", "add --folds K", "--folds is missing");
    return rt_cli_int(c, OPT_FOLD, 0, *folds - 1, fold);
}

/* --batch, or what the model's file says; only to train and to plan, since other commands run on all data. */
static RtCode open_batches(const RtCli *c, RtSession *s)
{
    int64_t size = c->model->train->batch, built = size;
    RT_TRY(rt_cli_int(c, OPT_BATCH, 1, INT32_MAX, &size));
    if (c->values[OPT_BATCH] && !built)
        return rt_fail(c->st, RT_E_CLI_NOT_BUILT, "--batch", "say `batch 64 of graphs` in its train block",
                       "the model is not trained by batches");
    if (!size || (c->command != CMD_TRAIN && c->command != CMD_PLAN)) return RT_OK;
    return rt_batches_create(c->model, &s->data, size, &s->batches, c->st);
}

/* Without cuBLAS --device auto means the CPU. */
static RtCode open_cublas(const RtCli *c, RtSession *s)
{
    RtStatus none = {0};
    RtCode code = rt_cuda_blas_open(s->device, c->device == RT_ON_AUTO ? &none : c->st);
    if (!code || c->device != RT_ON_AUTO) return code;
    rt_cuda_free(s->device);
    s->device = NULL;
    return RT_OK;
}

/* Steps run on a device as exec.h says; it takes no batches, so that --device auto means the CPU then. */
static RtCode check_device(const RtCli *c, RtSession *s)
{
    s->on_device = s->device || (c->command == CMD_PLAN && (c->device == RT_ON_CUDA || c->device == RT_ON_SHIM));
    if (s->on_device && s->batches.graph && c->command == CMD_TRAIN) {
        if (c->device != RT_ON_AUTO)
            return rt_fail(c->st, RT_E_DEVICE_REFUSED, "--device", NULL,
                           "batches of graphs are made on the CPU, and each step takes another");
        rt_cuda_free(s->device);
        s->device = NULL;
        s->on_device = false;
    }
    if (!s->on_device) return RT_OK;
    s->exec.cone = RT_CONE_OFF;
    s->exec.split = -1;
    return RT_OK;
}

/* Inputs that are named have a cache only where it is said how much memory may be used. */
static RtCode parse_room(const RtCli *c, RtCudaRoom *room)
{
    const char *names = c->values[OPT_HOST_ROWS];
    *room = (RtCudaRoom){.bytes = INT64_MAX};
    RT_TRY(parse_bytes(c, OPT_DEVICE_MEMORY, "--device-memory", &room->bytes));
    if (names && strcmp(names, "auto")) room->names = strcmp(names, "none") ? names : "";
    if (room->names && !c->values[OPT_DEVICE_MEMORY]) room->spare = INT64_MAX;
    return RT_OK;
}

/* Memory on the device for what the command runs there. */
static RtCode load_device(const RtCli *c, RtSession *s, const char *programs)
{
    if (!s->device || c->command == CMD_PLAN) return RT_OK;
    s->exec.device = s->device;
    if (c->command == CMD_BENCH) programs = RT_BENCH_PROGRAMS;
    return rt_cli_ranks_agree(c, rt_cuda_load(s->device, s->data.graph, programs, false, &s->room, c->st));
}

const RtGraph *rt_session_graph(const RtSession *s, int64_t program)
{
    const RtModel *m = s->data.graph->model;
    return s->batches.graph && program == rt_program_find(m, "train_step") ? s->batches.graph : s->data.graph;
}

RtCode rt_session_open(const RtCli *c, const RtDataOptions *o, RtSession *s)
{
    int64_t threads = count_cores();
    RtBlasMode mode = RT_BLAS_AUTO;
    int best = RT_GENERIC;
    *s = (RtSession){0};
    RtCode code = rt_cli_int(c, OPT_THREADS, 1, 1024, &threads);
    s->threads = (int)threads;
    if (!code) code = parse_blas(c, &mode);
    if (!code) code = parse_cone(c, &s->exec.cone);
    if (!code) code = parse_share(c, &s->exec.split);
    if (!code) code = rt_cpu_parse(c->values[OPT_CPU] ? c->values[OPT_CPU] : "auto", &s->exec.variant, c->st);
    if (!code) code = parse_room(c, &s->room);
    if (!code) code = rt_cli_device_open(c, &s->device);
    RtDataOptions data = *o;
    int64_t fold = 0;
    if (!code) code = rt_cli_folds(c, &data.folds, &fold);
    if (!code) code = rt_order_parse(c->values[OPT_REORDER] ? c->values[OPT_REORDER] : "none", &data.order, c->st);
    const char *dir = NULL;
    if (!code) code = rt_cli_ranks_part(c, s, &dir);
    data.part = s->part.n_parts ? &s->part : NULL;
    if (!code) code = rt_cli_ranks_agree(c, rt_data_load(c->model, dir, &data, &s->data, c->st));
    if (!code && data.folds && !s->data.fold_of)
        code = rt_fail(c->st, RT_E_CLI_VALUE, "--folds",
                       "leave it out, or train and measure `on data.train` and `on data.test`",
                       "what this command runs reads none of the masks that folds make");
    if (!code && data.folds) code = rt_cli_ranks_folds(c, &s->data);
    if (!code && data.folds) rt_data_fold(c->model, &s->data, fold);
    if (!code) code = open_batches(c, s);
    if (!code) code = rt_cli_ranks_start(c, s);
    if (!code && s->device && mode == RT_BLAS_ON) code = open_cublas(c, s);
    if (!code) code = check_device(c, s);
    if (!code) code = check_budget(c, s, o->programs);
    if (!code) code = rt_cpu_allowed(&best, c->st);
    if (!code && !s->on_device) code = rt_blas_open(mode, best, c->model, &s->blas, c->st);
    if (!code) code = rt_pool_create(s->threads, &s->pool, c->st);
    s->exec.pool = s->pool;
    s->exec.gemm = s->ranks             ? NULL
                   : !s->on_device      ? rt_blas_backend(&s->blas)
                   : mode == RT_BLAS_ON ? &rt_cuda_blas
                                        : NULL;
    if (!code) code = load_device(c, s, o->programs);
    if (!code) code = rt_cli_ranks_nccl(c, s);
    if (!code && c->command != CMD_PLAN)
        code = rt_setup_run(c->model, s->data.graph, &s->data.tensors, &s->exec, o->programs, c->st);
    bool again = data.folds || s->device || c->command == CMD_BENCH; /* what is computed once may be so once more */
    if (!code && c->command != CMD_PLAN && !again) rt_setup_release(c->model, &s->data.tensors, o->programs, !s->ranks);
    if (code) rt_session_close(s);
    return code;
}

void rt_session_close(RtSession *s)
{
    if (!s) return;
    rt_pool_free(s->pool);
    rt_batches_free(&s->batches);
    rt_ranks_free(s->ranks);
    rt_data_free(&s->data);
    rt_part_free(&s->part);
    rt_blas_close(&s->blas);
    rt_nccl_close(s->nccl);
    rt_cuda_free(s->device);
    *s = (RtSession){0};
}
