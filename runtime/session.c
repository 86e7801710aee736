/* Opens what a running command needs (see cli.h): data, threads, kernels for this CPU, BLAS. */
#include "runtime/cli.h"
#include "runtime/setup.h"
#include <sched.h>
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
    return rt_fail(c->st, RT_E_CLI_VALUE, "--blas", NULL, "found `%.60s`, wanted on, off or auto",
                   text);
}

/* 0 stands for what the plan says, -1 for never. */
static RtCode parse_ahead(const RtCli *c, int64_t *ahead)
{
    *ahead = 0;
    if (!c->values[OPT_AHEAD]) return RT_OK;
    RT_TRY(rt_cli_int(c, OPT_AHEAD, 0, 1 << 20, ahead));
    if (!*ahead) *ahead = -1;
    return RT_OK;
}

RtCode rt_session_open(const RtCli *c, const RtDataOptions *o, RtSession *s)
{
    int64_t threads = count_cores();
    RtBlasMode mode = RT_BLAS_AUTO;
    *s = (RtSession){0};
    RtCode code = rt_cli_int(c, OPT_THREADS, 1, 1024, &threads);
    s->threads = (int)threads;
    if (!code) code = parse_blas(c, &mode);
    if (!code) code = parse_ahead(c, &s->exec.ahead);
    if (!code)
        code =
            rt_cpu_parse(c->values[OPT_CPU] ? c->values[OPT_CPU] : "auto", &s->exec.variant, c->st);
    if (!code) code = rt_data_load(c->model, c->values[OPT_DATA], o, &s->data, c->st);
    if (!code) code = rt_blas_open(mode, c->model, &s->blas, c->st);
    if (!code) code = rt_pool_create(s->threads, &s->pool, c->st);
    s->exec.pool = s->pool;
    s->exec.gemm = rt_blas_backend(&s->blas);
    if (!code && c->command != CMD_PLAN)
        code = rt_setup_run(c->model, s->data.graph, &s->data.tensors, &s->exec, o->programs, c->st);
    if (code) rt_session_close(s);
    return code;
}

void rt_session_close(RtSession *s)
{
    rt_pool_free(s->pool);
    rt_data_free(&s->data);
    rt_blas_close(&s->blas);
    *s = (RtSession){0};
}
