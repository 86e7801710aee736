/* Measured times of steps, and the file that keeps them (see cli_sim.h). */
#include "runtime/cli_sim.h"
#include "runtime/clock.h"
#include "runtime/cone.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "runtime/setup.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_RUNS = 3, MOST_RUNS = 20, TABLE_ROWS = 1 << 17, ROW_BYTES = 64 };
static const double ENOUGH_NS = 2e8; /* of runs of a program */
static const char what[] = "times of steps";

static RtCode take(const RtCli *c, RtStepTimes *t)
{
    const RtModel *m = c->model;
    int64_t n = 0;
    *t = (RtStepTimes){0};
    for (int64_t p = 0; p < m->n_programs; p++) n += m->programs[p].n_steps;
    RT_TRY(rt_block_alloc(&t->block, rt_size_plus(rt_size(m->n_programs + 1, 8), n, 16), what, c->st));
    t->first = t->block.p;
    t->s = (double *)(void *)(t->first + m->n_programs + 1);
    t->work = t->s + n;
    for (int64_t p = 0; p < m->n_programs; p++) t->first[p + 1] = t->first[p] + m->programs[p].n_steps;
    return RT_OK;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

/* Rows of 64 bytes from places in no order, one after the other, as they are packed. */
static RtCode time_copying(RtStepTimes *t, RtStatus *st)
{
    RtBlock b;
    RT_TRY(rt_block_alloc(&b, rt_size(TABLE_ROWS, 2 * ROW_BYTES), what, st));
    char *from = b.p, *to = from + (int64_t)TABLE_ROWS * ROW_BYTES;
    memset(b.p, 1, b.bytes);
    t->copy_s = INFINITY;
    for (int run = 0; run < MOST_RUNS; run++) {
        uint32_t at = 1;
        double before = rt_now_ns();
        for (int i = 0; i < TABLE_ROWS; i++) {
            at = at * 1664525u + 1013904223u;
            memcpy(to + (int64_t)i * ROW_BYTES, from + (int64_t)(at >> 15) * ROW_BYTES, ROW_BYTES);
        }
        t->copy_s = fmin(t->copy_s, (rt_now_ns() - before) * 1e-9 / TABLE_ROWS / ROW_BYTES);
    }
    rt_block_free(&b);
    return RT_OK;
}

/* Steps that run strip by strip are timed together; each gets the share that it has of their work. */
static void share_out(const RtExec *e, const double *ns, double *s, const double *work)
{
    for (int64_t i = 0; i < e->program->n_steps; i++) {
        const RtChainDef *chain = rt_step_chain(e, i);
        double all = 0;
        if (!chain) s[i] = fmin(s[i], ns[i] * 1e-9);
        for (int64_t k = 0; chain && k < chain->n; k++) all += work[chain->first + k];
        if (chain) s[i] = fmin(s[i], ns[chain->first] * 1e-9 * (all > 0 ? work[i] / all : 1.0 / (double)chain->n));
    }
}

static RtCode time_program(const RtCli *c, const RtSession *s, int64_t program, double *seconds, double *work)
{
    RtExec *e = NULL;
    RtBlock ns = {0}, cotangents = {0};
    RtCode code = rt_exec_create(c->model, program, s->data.graph, &s->exec, &e, c->st);
    int64_t n = c->model->programs[program].n_steps, given = 0;
    for (int64_t i = 0; !code && i < c->model->n_tensors; i++) e->tensors[i] = s->data.tensors.data[i];
    if (!code) code = rt_exec_own_results(e, c->st);
    for (int64_t i = 0; !code && i < e->n_cotangents; i++) { /* zeros: no step looks at them */
        const RtResultDef *r =
            &c->model->results[c->model->programs[rt_program_find(c->model, "forward")].first_result + i];
        int64_t bytes = rt_size(rt_size(e->graph->spaces[r->space].count, r->width), 8);
        given = bytes > given ? bytes : given;
    }
    if (!code) code = rt_block_alloc(&cotangents, rt_size_plus(64, given, 1), what, c->st);
    for (int64_t i = 0; !code && i < e->n_cotangents; i++) e->cotangents[i] = cotangents.p;
    if (!code) code = rt_exec_bind(e, c->st);
    if (!code) code = rt_block_alloc(&ns, rt_size_plus(8, n, sizeof(double)), what, c->st);
    for (int64_t i = 0; !code && i < n; i++) {
        seconds[i] = INFINITY;
        work[i] = rt_exec_work(e, i);
    }
    double begun = rt_now_ns();
    for (int64_t run = 0; !code && (run <= LEAST_RUNS || (run <= MOST_RUNS && rt_now_ns() - begun < ENOUGH_NS));
         run++) {
        memset(ns.p, 0, (size_t)n * sizeof(double));
        rt_exec_run_timed(e, 0, run, ns.p);
        if (run) share_out(e, ns.p, seconds, work); /* the first finds cold memory */
    }
    rt_block_free(&ns);
    rt_exec_free(e);
    rt_block_free(&cotangents);
    return code;
}

static RtCode measure(const RtCli *c, RtStepTimes *t)
{
    char dir[4200];
    RtCli one = *c;
    RtSession s;
    snprintf(dir, sizeof dir, "%.4100s/part-0", c->values[OPT_DATA]);
    one.values[OPT_DATA] = dir;
    one.values[OPT_THREADS] = "1";
    one.values[OPT_BLAS] = "off";
    RT_TRY(rt_session_open(&one, &(RtDataOptions){.draw = true}, &s));
    s.exec.cone = RT_CONE_OFF;
    s.exec.split = -1;
    RtCode code = rt_setup_run(c->model, s.data.graph, &s.data.tensors, &s.exec, NULL, c->st);
    for (int64_t p = 0; p < c->model->n_programs && !code; p++)
        code = time_program(&one, &s, p, t->s + t->first[p], t->work + t->first[p]);
    rt_session_close(&s);
    return code ? code : time_copying(t, c->st);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static const char *label_of(const RtModel *m, int64_t p, int64_t i)
{
    return rt_string(m, m->steps[m->programs[p].first_step + i].label);
}

static RtCode write_times(const RtCli *c, const RtStepTimes *t)
{
    const RtModel *m = c->model;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return rt_fail_memory(c->st, 4096, what);
    fprintf(f, "{\"copy_s\": %.17g, \"programs\": {", t->copy_s);
    for (int64_t p = 0; p < m->n_programs; p++) {
        fprintf(f, "%s\n  ", p ? "," : "");
        rt_json_put_string(f, rt_string(m, m->programs[p].name));
        fprintf(f, ": [");
        for (int64_t i = 0; i < m->programs[p].n_steps; i++) {
            fprintf(f, "%s\n    {\"step\": ", i ? "," : "");
            rt_json_put_string(f, label_of(m, p, i));
            fprintf(f, ", \"s\": %.17g, \"work\": %.17g}", t->s[t->first[p] + i], t->work[t->first[p] + i]);
        }
        fputc(']', f);
    }
    fprintf(f, "\n}}\n");
    bool ok = !ferror(f) && fclose(f) == 0;
    RtCode code = ok ? rt_file_replace(c->values[OPT_TIMES], &(RtFilePart){text, size}, 1, c->st)
                     : rt_fail_memory(c->st, size, what);
    free(text);
    return code;
}

static bool read_number(const RtJson *o, const char *key, double *out)
{
    const RtJson *v = rt_json_get(o, key);
    bool good = v && v->kind == RT_JSON_NUMBER && v->number >= 0;
    if (good) *out = v->number;
    return good;
}

static RtCode other_program(const RtCli *c, const char *name)
{
    return rt_fail(c->st, RT_E_SIM_TIMES, c->values[OPT_TIMES], NULL, "it has not the steps of `%s`", name);
}

static RtCode read_program(const RtCli *c, const RtJson *programs, int64_t p, RtStepTimes *t)
{
    const RtModel *m = c->model;
    const char *name = rt_string(m, m->programs[p].name);
    const RtJson *list = rt_json_get(programs, name);
    int64_t i = 0;
    if (!list || list->kind != RT_JSON_ARRAY || list->n_items != m->programs[p].n_steps) return other_program(c, name);
    for (const RtJson *o = list->first; o; o = o->next, i++) {
        const RtJson *label = rt_json_get(o, "step");
        bool same = label && label->kind == RT_JSON_STRING && !strcmp(label->text, label_of(m, p, i));
        if (!same || !read_number(o, "s", &t->s[t->first[p] + i]) || !read_number(o, "work", &t->work[t->first[p] + i]))
            return other_program(c, name);
    }
    return RT_OK;
}

static RtCode read_times(const RtCli *c, RtStepTimes *t)
{
    const char *path = c->values[OPT_TIMES];
    RtBlock text;
    RtJsonDoc doc = {0};
    RT_TRY(rt_file_read(path, &text, c->st));
    RtCode code = rt_json_parse(path, text.p, text.bytes, &doc, c->st);
    if (!code && !read_number(doc.root, "copy_s", &t->copy_s)) code = other_program(c, "copy_s");
    for (int64_t p = 0; p < c->model->n_programs && !code; p++)
        code = read_program(c, rt_json_get(doc.root, "programs"), p, t);
    rt_json_free(&doc);
    rt_block_free(&text);
    return code;
}

RtCode rt_cli_sim_times(const RtCli *c, RtStepTimes *t, bool *measured)
{
    const char *path = c->values[OPT_TIMES];
    *measured = !path || access(path, F_OK) != 0;
    RT_TRY(take(c, t));
    RtCode code = !*measured ? read_times(c, t) : path ? rt_file_writable(path, c->st) : RT_OK;
    if (!code && *measured) code = measure(c, t);
    if (!code && *measured && path) code = write_times(c, t);
    if (code) rt_block_free(&t->block);
    return code;
}
