/* Fills held tensors (see setup.h). A setup program is known by what it writes, not by its name. */
#include "runtime/setup.h"
#include "runtime/convert.h"
#include <assert.h>
#include <string.h>

bool rt_program_is_listed(const RtModel *m, const char *list, int64_t program)
{
    const char *name = m->strings + m->programs[program].name, *at = list;
    size_t n = strlen(name);
    if (!list) return true;
    while ((at = strstr(at, name)) && ((at > list && at[-1] != ' ') || (at[n] && at[n] != ' '))) at += n;
    return at != NULL;
}

static bool takes(const RtModel *m, int64_t program, int64_t tensor)
{
    const RtProgram *p = &m->programs[program];
    for (int64_t i = 0; i < p->n_argdefs; i++) {
        const RtArgDef *a = &m->argdefs[p->first_argdef + i];
        if (a->kind == RT_ARG_TENSOR && a->ref == tensor) return true;
    }
    return false;
}

bool rt_setup_is_needed(const RtModel *m, const char *list, int64_t program)
{
    const RtProgram *p = &m->programs[program];
    for (int64_t i = 0; i < p->n_results; i++) {
        int64_t tensor = m->results[p->first_result + i].tensor;
        if (tensor < 0 || m->tensors[tensor].kind != RT_HELD) continue;
        for (int64_t q = 0; q < m->n_programs; q++)
            if (rt_program_is_listed(m, list, q) && takes(m, q, tensor)) return true;
    }
    return false;
}

bool rt_programs_take(const RtModel *m, const char *programs, int64_t tensor)
{
    for (int64_t p = 0; p < m->n_programs; p++)
        if (takes(m, p, tensor) && (rt_program_is_listed(m, programs, p) || rt_setup_is_needed(m, programs, p)))
            return true;
    return !programs;
}

/* Whether some step has to do with the tensor, which a function that a program is made of may take for nothing. */
static bool has_buffer(const RtModel *m, int64_t program, int64_t tensor)
{
    const RtProgram *p = &m->programs[program];
    for (int64_t i = 0; i < p->n_buffers; i++) {
        const RtBuffer *b = &m->buffers[p->first_buffer + i];
        if (b->kind == RT_BUF_TENSOR && b->ref == tensor) return true;
    }
    return false;
}

bool rt_setup_alone_takes(const RtModel *m, const char *programs, int64_t tensor)
{
    if (m->tensors[tensor].kind != RT_INPUT || !programs) return false;
    for (int64_t p = 0; p < m->n_programs; p++)
        if (rt_program_is_listed(m, programs, p) && has_buffer(m, p, tensor)) return false;
    return rt_programs_take(m, programs, tensor);
}

void rt_setup_release(const RtModel *m, RtTensors *t, const char *programs, bool blames)
{
    for (int64_t i = 0; i < m->n_tensors && blames; i++) {
        const RtTensorDef *d = &m->tensors[i];
        bool made = d->kind == RT_HELD && t->data[i] && t->counts[i];
        if (made && rt_check_finite(t->data[i], d->dtype, t->counts[i], d->width, "", NULL)) return;
    }
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (!rt_setup_alone_takes(m, programs, i)) continue;
        rt_block_free(&t->blocks[i]);
        t->data[i] = NULL;
    }
}

static RtCode bind(RtExec *e, RtTensors *t, RtStatus *st)
{
    const RtModel *m = e->model;
    for (int64_t i = 0; i < e->program->n_results; i++) {
        int64_t tensor = m->results[e->program->first_result + i].tensor;
        assert(tensor >= 0); /* what a setup program makes is held */
        if (!t->data[tensor]) RT_TRY(rt_tensors_alloc(t, tensor, st));
    }
    for (int64_t i = 0; i < m->n_tensors; i++) e->tensors[i] = t->data[i];
    return rt_exec_bind(e, st);
}

/* Runs what is needed, on this CPU; with `nan`, up to the first step that leaves a NaN. */
static RtCode run_all(const RtModel *m, const RtGraph *g, RtTensors *t, const RtExecOptions *o, const char *programs,
                      const RtStep **nan, RtStatus *st)
{
    RtExecOptions here = *o;
    here.device = NULL;
    for (int64_t p = 0; p < m->n_programs && !(nan && *nan); p++) {
        RtExec *e = NULL;
        if (!rt_setup_is_needed(m, programs, p)) continue;
        RtCode code = rt_exec_create(m, p, g, &here, &e, st);
        if (!code) code = bind(e, t, st);
        int64_t step = !code && nan ? rt_exec_run_until_nan(e, 0, 0) : -1;
        if (step >= 0) *nan = &m->steps[e->program->first_step + step];
        if (!code && !nan) rt_exec_run(e, 0, 0);
        if (!code && !nan) code = rt_exec_results(e, st);
        rt_exec_free(e);
        RT_TRY(code);
    }
    return RT_OK;
}

RtCode rt_setup_run(const RtModel *m, const RtGraph *g, RtTensors *t, const RtExecOptions *o, const char *programs,
                    RtStatus *st)
{
    return run_all(m, g, t, o, programs, NULL, st);
}

const RtStep *rt_setup_until_nan(const RtModel *m, const RtGraph *g, RtTensors *t, const RtExecOptions *o,
                                 const char *programs)
{
    const RtStep *step = NULL;
    run_all(m, g, t, o, programs, &step, NULL);
    return step;
}

int64_t rt_held_bytes(const RtModel *m, const RtGraph *g, int64_t program)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind == RT_HELD && takes(m, program, i))
            bytes = rt_size_plus(bytes, rt_tensor_count(m, g, i), rt_dtype_bytes(m->tensors[i].dtype));
    return bytes;
}

RtCode rt_planned_bytes(const RtModel *m, const RtGraph *g, const RtGraph *step, const char *programs, int64_t *bytes,
                        int64_t *program, RtStatus *st)
{
    int64_t most = -1, arena;
    for (int64_t p = 0; p < m->n_programs; p++) {
        if (!rt_program_is_listed(m, programs, p) && !rt_setup_is_needed(m, programs, p)) continue;
        RT_TRY(rt_arena_bytes(m, p, step && p == rt_program_find(m, "train_step") ? step : g, &arena, st));
        if (arena <= most) continue;
        most = arena;
        *program = p;
    }
    *bytes = most < 0 ? 0 : most;
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind == RT_HELD && rt_programs_take(m, programs, i))
            *bytes = rt_size_plus(*bytes, rt_tensor_count(m, g, i), rt_dtype_bytes(m->tensors[i].dtype));
    return RT_OK;
}
