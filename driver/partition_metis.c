/* METIS (Karypis, Kumar, SISC 1998) as a method of `gnnc data partition`. The library is opened at run time, so that
   gnnc builds and runs without it; what is declared here is the interface of metis.h 5.1 with indices of 32 bits. */
#include "driver/partition.h"
#include <dlfcn.h>

enum {
    METIS_OPTIONS = 40, /* METIS_NOPTIONS */
    OPTION_OBJECTIVE = 1,
    OPTION_SEED = 8,
    OBJECTIVE_CUT = 0,
    OBJECTIVE_VOLUME = 1,
    METIS_DONE = 1,
    METIS_NO_MEMORY = -3,
};

struct Metis {
    int (*set_defaults)(int32_t *options);
    int (*part_kway)(int32_t *nvtxs, int32_t *ncon, int32_t *xadj, int32_t *adjncy, int32_t *vwgt, int32_t *vsize,
                     int32_t *adjwgt, int32_t *nparts, float *tpwgts, float *ubvec, int32_t *options, int32_t *objval,
                     int32_t *part);
};

/* Whether METIS was built with an idx_t of 64 bits: METIS_SetDefaultOptions then fills twice as many bytes. */
static bool is_wide(const Metis *m)
{
    int32_t options[2 * METIS_OPTIONS];
    memset(options, 0x55, sizeof options);
    m->set_defaults(options);
    return options[2 * METIS_OPTIONS - 1] != 0x55555555;
}

Metis *metis_open(Arena *a, const char **why)
{
    static const char *const names[] = {"libmetis.so.5", "libmetis.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    *why = "libmetis.so.5 is not on this computer";
    if (!library) return NULL;
    Metis *m = ARENA_NEW(a, Metis);
    *(void **)&m->set_defaults = dlsym(library, "METIS_SetDefaultOptions");
    *(void **)&m->part_kway = dlsym(library, "METIS_PartGraphKway");
    *why = "libmetis lacks METIS_SetDefaultOptions or METIS_PartGraphKway";
    if (!m->set_defaults || !m->part_kway) return NULL;
    *why = "libmetis was built for indices of 64 bits, wanted 32";
    return is_wide(m) ? NULL : m;
}

/* The constraint of each kind: its own, so that each part has its share of the kind. METIS finds poor parts where a
   constraint cannot be met; so a kind one of whose nodes is more than half of a part's share, or that is hardly any of
   the work, shares that of the kind with most. *n: how many there are. */
static int32_t *list_constraints(Arena *a, const Units *u, int32_t parts, int32_t *n)
{
    int32_t n_kinds = u->first ? u->n_kinds : 1, most = 0;
    int32_t *of_kind = ARENA_ARRAY(a, int32_t, n_kinds);
    int64_t *total = ARENA_ARRAY(a, int64_t, n_kinds), *heaviest = ARENA_ARRAY(a, int64_t, n_kinds);
    *n = 1;
    for (int32_t k = 0; u->first && k < n_kinds; k++) {
        for (int64_t v = u->first[k]; v < u->first[k + 1]; v++) {
            total[k] += u->weight[v];
            if (u->weight[v] > heaviest[k]) heaviest[k] = u->weight[v];
        }
        if (total[k] > total[most]) most = k;
    }
    for (int32_t k = 0; k < n_kinds; k++)
        if (k != most && total[k] >= u->total / 100 && heaviest[k] <= total[k] / parts / 2) of_kind[k] = (*n)++;
    return of_kind;
}

const char *partition_metis(Arena *a, const Metis *m, const Units *u, int32_t parts, bool volume, uint64_t seed,
                            int32_t *owner)
{
    int32_t options[METIS_OPTIONS], n = (int32_t)u->n, constraints, value = 0;
    const int32_t *of_kind = list_constraints(a, u, parts, &constraints);
    if (u->offsets[u->n] > INT32_MAX) return "the graph has more neighbours than METIS can count in 32 bits";
    int32_t *offsets = ARENA_ARRAY(a, int32_t, u->n + 1), *weight = ARENA_ARRAY(a, int32_t, u->n * constraints);
    int32_t *neighbours = ARENA_ARRAY(a, int32_t, u->offsets[u->n]);
    int shift = 0;
    while (u->total >> shift > INT32_MAX / 2) shift++; /* METIS adds them up in 32 bits */
    for (int64_t v = 0, kind = 0; v < u->n; v++) {     /* a node weighs in one constraint alone */
        while (u->first && v >= u->first[kind + 1]) kind++;
        offsets[v + 1] = (int32_t)u->offsets[v + 1];
        weight[v * constraints + of_kind[kind]] = (int32_t)(u->weight[v] >> shift) + (shift != 0);
    }
    if (u->offsets[u->n]) memcpy(neighbours, u->neighbours, (size_t)u->offsets[u->n] * sizeof *neighbours);
    m->set_defaults(options);
    options[OPTION_OBJECTIVE] = volume ? OBJECTIVE_VOLUME : OBJECTIVE_CUT;
    options[OPTION_SEED] = (int32_t)(seed & INT32_MAX);
    int status = m->part_kway(&n, &constraints, offsets, neighbours, weight, NULL, NULL, &parts, NULL, NULL, options,
                              &value, owner);
    if (status != METIS_DONE)
        return status == METIS_NO_MEMORY ? "METIS ran out of memory"
                                         : arena_printf(a, "METIS gave up, code %d", status);
    for (int64_t v = 0; v < u->n; v++)
        if (owner[v] < 0 || owner[v] >= parts) return "METIS named a part that does not exist";
    return NULL;
}
