/* Opens what a running command needs (see cli.h): data, threads, kernels for this CPU, BLAS. */
#include "runtime/cli.h"
#include "runtime/setup.h"
#include <sched.h>
#include <string.h>

enum { SELECT_FROM = 1 << 16 }; /* elements of a space */

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

/* What the flags say of how steps run; the rest is chosen. */
static RtCode parse_choice(const RtCli *c, RtChoice *choice)
{
    const char *cut = c->values[OPT_CUT];
    RT_TRY(rt_cli_int(c, OPT_AHEAD, 0, 1 << 20, &choice->ahead));
    RT_TRY(rt_cli_int(c, OPT_CHUNKS, 1, RT_MAX_CHUNKS, &choice->chunks));
    if (c->values[OPT_AHEAD] && !choice->ahead) choice->ahead = -1;
    if (!cut) return RT_OK;
    choice->cut = !strcmp(cut, "rows") ? RT_CUT_ROWS : !strcmp(cut, "elements") ? RT_CUT_ELEMENTS : 0;
    if (choice->cut) return RT_OK;
    return rt_fail(c->st, RT_E_CLI_VALUE, "--cut", NULL, "found `%.60s`, wanted rows or elements", cut);
}

static bool is_large(const RtGraph *g)
{
    for (int64_t i = 0; i < g->model->n_spaces; i++)
        if (g->spaces[i].count >= SELECT_FROM) return true;
    return false;
}

/* A machine that was probed, and a graph that takes longer than choosing: steps are chosen for both. */
static RtCode start_selector(const RtCli *c, RtSession *s)
{
    rt_machine_load(s->threads, &s->machine);
    if (c->command != CMD_PLAN && !(s->machine.probed && is_large(s->data.graph))) return RT_OK;
    RT_TRY(rt_cost_create(s->data.graph, &s->machine, &s->selector.cost, c->st));
    if (!s->machine.probed || !is_large(s->data.graph)) return RT_OK;
    s->exec.choose = rt_select;
    s->exec.choose_user = &s->selector;
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
    if (!code) code = parse_choice(c, &s->exec.choice);
    if (!code)
        code =
            rt_cpu_parse(c->values[OPT_CPU] ? c->values[OPT_CPU] : "auto", &s->exec.variant, c->st);
    if (!code) code = rt_data_load(c->model, c->values[OPT_DATA], o, &s->data, c->st);
    if (!code) code = rt_blas_open(mode, c->model, &s->blas, c->st);
    if (!code) code = rt_pool_create(s->threads, &s->pool, c->st);
    if (!code) code = start_selector(c, s);
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
    rt_cost_free(s->selector.cost);
    rt_data_free(&s->data);
    rt_blas_close(&s->blas);
    *s = (RtSession){0};
}
