/* What each of several processes takes to train, or to infer where a model is not trained: what all programs of that
   share is counted once, room in which rows travel and planned memory for the program that needs most. */
#include "runtime/cli.h"
#include "runtime/setup.h"
#include <stdio.h>

static const char *programs_of(const RtModel *m) { return m->train->present ? RT_TRAIN_PROGRAMS : "forward"; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void rt_cli_memory_add(RtCliMemory *t, const RtExec *e)
{
    const char *programs = programs_of(e->model);
    int64_t program = e->program - e->model->programs;
    RtAcrossBytes x;
    if (!e->across) return;
    rt_across_bytes(e->across, &x);
    if (rt_setup_is_needed(e->model, programs, program))
        t->before = larger(t->before, x.tables + e->arena_bytes + x.room + x.operands + x.once); /* on this CPU */
    if (!rt_program_is_listed(e->model, programs, program)) return;
    if (!e->options.on_device) t->arena = larger(t->arena, e->arena_bytes);
    t->room = larger(t->room, x.room);
    t->operands = larger(t->operands, x.operands);
    t->once += x.once;
    t->staged += x.staged;
    t->tables += x.tables;
    for (int64_t i = 0; i < e->program->n_results; i++)
        if (e->model->results[e->program->first_result + i].tensor < 0) t->results += rt_result_bytes(e, i);
}

/* released: of inputs that are free once what is computed once is there; else of the others. */
static int64_t tensor_bytes(const RtModel *m, const RtGraph *g, bool released)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        int64_t kind = m->tensors[i].kind;
        if (((kind == RT_INPUT || kind == RT_HELD) && !rt_programs_take(m, programs_of(m), i))) continue;
        if (rt_setup_alone_takes(m, programs_of(m), i) != released) continue;
        bytes = rt_size_plus(bytes, rt_tensor_count(m, g, i), rt_dtype_bytes(m->tensors[i].dtype));
    }
    return bytes;
}

RtCode rt_cli_plan_memory(const RtCli *c, const RtSession *s, const RtCliMemory *t, bool json)
{
    int64_t least, sum, most;
    if (!s->ranks) return RT_OK;
    int64_t tensors = tensor_bytes(c->model, s->data.graph, false), graph = s->data.graph->bytes,
            before = t->before + tensor_bytes(c->model, s->data.graph, true), owned = rt_ranks_bytes(s->ranks),
            tables = t->tables + owned,
            all = tensors + graph + owned +
                  larger(before, t->tables + t->arena + t->results + t->room + t->operands + t->once + t->staged);
    RT_TRY(rt_cli_ranks_gather(c, all, &least, &sum, &most));
    if (json)
        printf(
            ",\n  \"process_bytes\": {\"least\": %lld, \"most\": %lld, \"first\": {\"tensors\": %lld, \"graph\": %lld, "
            "\"tables\": %lld, \"planned\": %lld, \"results\": %lld, \"room\": %lld, \"operands\": %lld, "
            "\"sent_once\": %lld, \"staged\": %lld, \"before\": %lld}}",
            (long long)least, (long long)most, (long long)tensors, (long long)graph, (long long)tables,
            (long long)t->arena, (long long)t->results, (long long)t->room, (long long)t->operands, (long long)t->once,
            (long long)t->staged, (long long)before);
    else
        printf("\na process that %s takes %lld to %lld bytes, beside its code; the first one:\n"
               "  %lld tensors, %lld graph, %lld tables of rows that travel, %lld planned memory, %lld results,\n"
               "  %lld room in which rows travel, %lld operands of sums, %lld that were sent once;\n"
               "  before the first run, values that are computed once and inputs of these alone take %lld beside "
               "tensors, graph and its part\n",
               c->model->train->present ? "trains" : "infers", (long long)least, (long long)most, (long long)tensors,
               (long long)graph, (long long)tables, (long long)t->arena, (long long)t->results, (long long)t->room,
               (long long)t->operands, (long long)t->once, (long long)before);
    if (t->staged && !json)
        printf("  of the first, %lld bytes are page-locked, in which rows from and to its device are staged\n",
               (long long)t->staged);
    return RT_OK;
}
