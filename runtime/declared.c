/* Notes that name lines of the program (see declared.h). */
#include "runtime/declared.h"
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Not where a file is damaged: it is so whatever the program says. */
static bool is_of_fit(RtCode code)
{
    return rt_code_exit(code) == 3 || code == RT_E_DATA_ID || code == RT_E_DATA_MISSING || code == RT_E_MEMORY;
}

static void add(const RtModel *m, int64_t name, const RtPlace *place, RtStatus *st)
{
    size_t n = strlen(st->note);
    if (place->line < 1) return;
    assert(name >= 0 && place->file >= 0);
    snprintf(st->note + n, sizeof st->note - n, n ? ", `%s` here: %s:%lld" : "`%s` is declared here: %s:%lld",
             m->strings + name, m->strings + place->file, (long long)place->line);
}

static RtCode declared(RtCode code, const RtModel *m, int64_t name, const RtPlace *place, RtStatus *st)
{
    if (st && !st->note[0] && is_of_fit(code)) add(m, name, place, st);
    return code;
}

RtCode rt_declared_graph(RtCode code, const RtModel *m, const RtGraphDef *g, RtStatus *st)
{
    return declared(code, m, g->name, &g->declared, st);
}

RtCode rt_declared_space(RtCode code, const RtModel *m, int64_t space, RtStatus *st)
{
    return declared(code, m, m->spaces[space].name, &m->spaces[space].declared, st);
}

RtCode rt_declared_tensor(RtCode code, const RtModel *m, int64_t tensor, RtStatus *st)
{
    const RtTensorDef *t = &m->tensors[tensor];
    bool said = st && st->note[0];
    declared(code, m, t->name, &t->declared, st);
    if (st && !said && is_of_fit(code)) add(m, m->spaces[t->space].name, &m->spaces[t->space].declared, st);
    return code;
}
