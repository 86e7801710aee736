/* Frames (one per instantiation of a definition), the names in them, and how much a program may unfold to. */
#include "frontend/sema.h"

enum { MAX_CALL_DEPTH = 100, MANY_VARS = 16 };

Frame *frame_push(Elab *e, const Def *def, Span call)
{
    Frame *f = ARENA_NEW(e->a, Frame);
    *f = (Frame){.caller = e->frame,
                 .def = def,
                 .call = call,
                 .depth = e->frame ? e->frame->depth + 1 : 0,
                 .path = e->frame ? e->frame->path : "",
                 .turn = e->frame ? e->frame->turn : "",
                 .graph = e->frame ? e->frame->graph : NULL,
                 .reduce_from = IR_NONE,
                 .reduce_to = IR_NONE,
                 .result = value_none(call)};
    f->var_names.arena = f->declared.arena = f->children.arena = f->fresh.arena = f->slots.arena = e->a;
    e->frame = f;
    if (f->depth > MAX_CALL_DEPTH) {
        Diag *d = diag_error(e->d, E0305, call, "%s without end",
                             def ? arena_printf(e->a, "`%s` calls itself", def->name) : "constants name each other");
        if (def) diag_help(e->d, d, "calls are expanded at compile time; write a loop `for i in 0..K { ... }`");
        f->returned = true;
        f->result = value_error();
    }
    return f;
}

void frame_pop(Elab *e) { e->frame = e->frame->caller; }

Binding *scope_find(const Frame *f, const char *name)
{
    if (f->n_vars > MANY_VARS) return strmap_get(&f->var_names, name);
    for (Binding *b = f->vars; b; b = b->next)
        if (!strcmp(b->name, name)) return b;
    return NULL;
}

void scope_set(Elab *e, const char *name, Value v)
{
    Binding *b = scope_find(e->frame, name);
    if (!b) {
        b = ARENA_NEW(e->a, Binding);
        *b = (Binding){.name = name, .next = e->frame->vars};
        e->frame->vars = b;
        if (++e->frame->n_vars > MANY_VARS)
            for (; b && !strmap_has(&e->frame->var_names, b->name); b = b->next)
                strmap_put(&e->frame->var_names, b->name, b);
        b = e->frame->vars;
    }
    b->value = v;
}

Def *def_find(const Elab *e, const DefTable *table, const char *name)
{
    bool std = e->frame && e->frame->def && e->frame->def->is_std;
    return strmap_get(std ? &table->std : &table->all, name);
}

bool elab_spend(Elab *e, Span s)
{
    if (e->budget > 1 && arena_bytes(e->a) > e->memory) e->budget = 1;
    if (e->budget == 1)
        diag_error(e->d, E0305, span_or(e->loop, s),
                   "the program unfolds to more than a million operations, or half a gigabyte");
    if (e->budget) e->budget--;
    return e->budget > 0;
}
