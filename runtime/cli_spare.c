/* Refuses to write over what a command reads, by whatever name or link (see cli.h): before anything is read or
   computed. */
#include "runtime/cli.h"
#include "runtime/replace.h"
#include <stdio.h>
#include <string.h>

/* Whether path is one of the forms in which the folder may hold this array. */
static bool is_array(const char *path, const char *folder, const char *stem)
{
    static const char *const ends[] = {".npy", ".npz", "_mask.npy", "_indptr.npy", "_indices.npy", "_data.npy"};
    char file[4096];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (snprintf(file, sizeof file, "%s/%s%s", folder, stem, ends[i]) < (int)sizeof file &&
            rt_same_file(path, file))
            return true;
    return false;
}

/* Whether path is a file of the data set: what any program of the model reads, and what docs/data.md gives a name. */
static bool is_data(const RtModel *m, const char *path, const char *data)
{
    static const char *const files[] = {"meta.json", "graph.mtx", "edges.tsv", "edges.csv"};
    static const char *const stems[] = {"edge_index", "src", "dst",     "graph", "edge_weight", "batch", "fold",
                                        "x",          "y",   "graph_y", "train", "val",         "test"};
    char file[4096];
    bool is = rt_same_file(path, data);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        is |= snprintf(file, sizeof file, "%s/%s", data, files[i]) < (int)sizeof file && rt_same_file(path, file);
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) is |= is_array(path, data, stems[i]);
    for (int64_t i = 0; i < m->n_tensors; i++)
        is |= m->tensors[i].kind == RT_INPUT && is_array(path, data, rt_string(m, m->tensors[i].name));
    for (int64_t i = 0; i < m->n_graphs; i++)
        if (rt_graph_is_read(&m->graphs[i])) {
            is |= is_array(path, data, rt_string(m, m->graphs[i].file));
            is |= m->graphs[i].where >= 0 && is_array(path, data, rt_string(m, m->graphs[i].where));
        }
    for (int64_t s = 1; s < m->n_spaces; s++) {
        snprintf(file, sizeof file, "%s.batch", rt_string(m, m->spaces[s].name));
        is |= is_array(path, data, file);
    }
    for (int64_t i = 0; i < m->n_graphs; i++)
        for (int64_t k = 0; k < m->graphs[i].n_keys; k++)
            is |= is_array(path, data, rt_string(m, m->graphs[i].keys[k]));
    return is;
}

static RtCode spare(const RtCli *c, int option, const char *flag, const char *path)
{
    const char *data = c->values[OPT_DATA], *weights = c->values[OPT_WEIGHTS], *resume = c->values[OPT_RESUME],
               *what = NULL;
    if (data && is_data(c->model, path, data)) what = "a file of the data set";
    if (weights && rt_same_file(path, weights)) what = "the weights";
    if (resume && option != OPT_CHECKPOINT && rt_same_file(path, resume))
        what = "the checkpoint that the run goes on from";
    if (rt_same_file(path, "/proc/self/exe")) what = "this program";
    return what ? rt_fail(c->st, RT_E_CLI_LOST, path, NULL, "%s would write over %s", flag, what) : RT_OK;
}

RtCode rt_cli_spare(const RtCli *c)
{
    static const struct {
        int option;
        const char *flag;
    } outputs[] = {
        {OPT_SAVE, "--save"}, {OPT_CHECKPOINT, "--checkpoint"}, {OPT_METRICS, "--metrics"}, {OPT_OUT, "--out"}};
    int64_t forward = rt_program_find(c->model, "forward");
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const char *value = c->values[outputs[i].option];
        if (value) RT_TRY(spare(c, outputs[i].option, outputs[i].flag, value));
        for (size_t k = 0; value && k < i; k++) {
            const char *other = c->values[outputs[k].option];
            if (other && rt_same_file(value, other))
                return rt_fail(c->st, RT_E_CLI_LOST, value, NULL, "%s and %s name one file", outputs[k].flag,
                               outputs[i].flag);
        }
    }
    for (int64_t i = 1; c->values[OPT_OUT] && forward >= 0 && i < c->model->programs[forward].n_results; i++) {
        char path[4096];
        rt_cli_out_path(c, &c->model->programs[forward], i, path, sizeof path);
        RT_TRY(spare(c, OPT_OUT, "--out", path));
        for (int64_t k = 0; k < i; k++) {
            char other[4096];
            rt_cli_out_path(c, &c->model->programs[forward], k, other, sizeof other);
            if (rt_same_file(path, other))
                return rt_fail(c->st, RT_E_CLI_LOST, path, NULL, "%s is the same file, for another result", other);
        }
    }
    return RT_OK;
}
