/* frontend_compile: reads the program and the standard library, finds the entry, elaborates every
   function of the module, and checks the definitions that nobody called. */
#include "base/ice.h"
#include "frontend/sema.h"
#include "frontend/std_text.h"

/* What an endless program may cost; a long one, in proportion to its length. */
enum { OP_BUDGET = 1 << 20, OPS_PER_BYTE = 64, MEMORY = 512 << 20, MEMORY_PER_BYTE = 4096 };

typedef struct Program {
    const AstDecl *train, *model, *schema;
    VEC(const AstDecl *) tests;
    StrMap test_names;
} Program;

/* ---- definitions ------------------------------------------------------------------------------------------------- */

static void define(Elab *e, DefTable *table, const AstDecl *decl, bool is_std)
{
    Def *old = strmap_get(&table->all, decl->name.text);
    const AstSlot *constant = is_std ? NULL : strmap_get(&e->constants, decl->name.text);
    if ((old && old->is_std == is_std) || constant) {
        Diag *d = diag_error(e->d, E0303, decl->name.span, "`%s` is defined twice", decl->name.text);
        diag_note(e->d, d, constant ? constant->names.items[0].span : old->decl->name.span, "the other definition");
        return;
    }
    Def *def = ARENA_NEW(e->a, Def);
    *def = (Def){.name = decl->name.text, .decl = decl, .is_std = is_std};
    strmap_put(&table->all, def->name, def);
    if (is_std) strmap_put(&table->std, def->name, def);
    VEC_PUSH(e->a, &e->defs, def);
}

static void define_constant(Elab *e, const AstDecl *decl)
{
    const AstSlot *slot = &decl->as.constant;
    const AstSlot *old = strmap_get(&e->constants, decl->name.text);
    const Def *def = strmap_get(&e->functions.all, decl->name.text);
    if (slot->names.n != 1 || !slot->init) diag_error(e->d, E0302, decl->span, "wanted `const name = value`");
    else if (old || (def && !def->is_std)) {
        Diag *d = diag_error(e->d, E0303, decl->name.span, "`%s` is defined twice", decl->name.text);
        diag_note(e->d, d, old ? old->names.items[0].span : def->decl->name.span, "the other definition");
    } else strmap_put(&e->constants, decl->name.text, (void *)(uintptr_t)slot);
}

static void one_more(Elab *e, const AstDecl **slot, const AstDecl *decl, const char *what)
{
    if (*slot) {
        Diag *d = diag_error(e->d, E0408, decl->span, "a second %s", what);
        diag_note(e->d, d, (*slot)->span, "the first one");
    } else *slot = decl;
}

static void collect_test(Elab *e, Program *p, const AstDecl *decl)
{
    const AstDecl *old = strmap_get(&p->test_names, decl->name.text);
    if (old) {
        Diag *d = diag_error(e->d, E0303, decl->name.span, "two tests are named `%s`", decl->name.text);
        diag_note(e->d, d, old->name.span, "the other test");
        return;
    }
    strmap_put(&p->test_names, decl->name.text, (void *)(uintptr_t)decl);
    VEC_PUSH(e->a, &p->tests, decl);
}

static void collect(Elab *e, const AstFile *file, bool is_std, Program *p)
{
    for (uint32_t i = 0; i < file->n_decls; i++) {
        const AstDecl *decl = file->decls[i];
        switch (decl->kind) {
        case AST_DECL_MODEL: one_more(e, &p->model, decl, "model"); /* fall through */
        case AST_DECL_MESSAGE:
        case AST_DECL_FN:
        case AST_DECL_LAYER: define(e, &e->functions, decl, is_std); break;
        case AST_DECL_REDUCE: define(e, &e->folds, decl, is_std); break;
        case AST_DECL_SCHEDULE:
        case AST_DECL_OPTIMIZER: define(e, &e->optimizers, decl, is_std); break;
        case AST_DECL_TRAIN: one_more(e, &p->train, decl, "train block"); break;
        case AST_DECL_TEST: collect_test(e, p, decl); break;
        case AST_DECL_SCHEMA: one_more(e, &p->schema, decl, "schema"); break;
        case AST_DECL_CONST: define_constant(e, decl); break;
        }
    }
}

struct FrontendStd {
    VEC(const AstFile *) files;
};

FrontendStd *frontend_std_new(Arena *a)
{
    FrontendStd *std = ARENA_NEW(a, FrontendStd);
    Diags d = {.arena = a};
    for (const struct GnnStdFile *f = gnn_std_files; f->name; f++) {
        Source *s = ARENA_NEW(a, Source);
        *s = (Source){f->name, f->text, (uint32_t)strlen(f->text)};
        const AstFile *file = ast_parse(a, s, &d);
        ICE_UNLESS(d.n_errors == 0);
        VEC_PUSH(a, &std->files, file);
    }
    return std;
}

static void read_std(Elab *e, Program *p)
{
    const FrontendStd *std = e->opt->std ? e->opt->std : frontend_std_new(e->a);
    for (uint32_t i = 0; i < std->files.n; i++) collect(e, std->files.data[i], true, p);
}

/* ---- the entry --------------------------------------------------------------------------------------------------- */

typedef struct Mark { /* lengths of all tables, to forget what was written */
    IrModule m;
    uint32_t tensors, patches, later;
    const GraphValue *data_graph;
    IrId graph_space;
} Mark;

static Mark mark(const Elab *e)
{
    return (Mark){*e->m, e->tensors.n, e->patches.n, e->z.later.n, e->data_graph, e->graph_space};
}

static void forget(Elab *e, const Mark *k)
{
    *e->m = k->m;
    e->tensors.n = k->tensors;
    e->patches.n = k->patches;
    e->z.later.n = k->later;
    e->data_graph = k->data_graph;
    e->graph_space = k->graph_space;
}

typedef struct Entry {
    const Def *def; /* NULL: only tests and definitions */
    const BoundArg *bound;
    uint32_t n_bound;
    Value target;
} Entry;

static bool type_uses(const AstType *t, const char *a, const char *b)
{
    if (!t) return false;
    for (uint32_t i = 0; i < t->n_items; i++)
        if (type_uses(t->items[i], a, b)) return true;
    return t->space.text && !t->domain_var && (!strcmp(t->space.text, a) || !strcmp(t->space.text, b));
}

static bool signature_uses(const AstSignature *sig, const char *a, const char *b)
{
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (type_uses(sig->params[i].type, a, b)) return true;
    return type_uses(sig->result, a, b);
}

/* The value of an expression that belongs to no function: whatever it computes is forgotten, so it must be static. */
static Value static_value(Elab *e, const AstExpr *x)
{
    Mark k = mark(e);
    func_begin(e, "static", false);
    Frame *f = frame_push(e, NULL, x->span);
    f->graph = graph_data(e);
    Value v = elab_expr(e, x);
    bool computes = e->f->ops.n || e->m->graphs.n > k.m.graphs.n + 1;
    frame_pop(e);
    forget(e, &k);
    if (!computes || v.kind == V_ERROR) return v;
    diag_error(e->d, E0304, x->span, "this reads tensors or makes graphs; it stands where no graph is loaded yet");
    return value_error();
}

/* What is trained or exported: a definition, or a call of it that gives static arguments. */
static bool entry_target(Elab *e, const AstExpr *x, const char *wanted, Entry *entry)
{
    Value v = static_value(e, x);
    if (v.kind == V_INSTANCE && !v.instance->path) {
        v.instance->path = "";
        e->top_def = v.instance->def;
        *entry = (Entry){v.instance->def, v.instance->args, v.instance->n_args, v};
        return true;
    }
    bool fn = v.kind == V_DEF && v.def && (v.def->decl->kind == AST_DECL_MODEL || v.def->decl->kind == AST_DECL_LAYER);
    if (fn) *entry = (Entry){.def = v.def, .target = v};
    if (fn) e->top_def = v.def;
    else if (v.kind == V_WORD) error_unknown_name(e, v.word, x->span);
    else if (v.kind != V_ERROR) diag_error(e->d, E0408, x->span, "found %s, wanted %s", value_text(e, &v), wanted);
    return fn;
}

static bool is_word(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == 0;
}

static bool export_named(Elab *e, Entry *entry)
{
    Def *def = def_find(e, &e->functions, e->opt->export_layer);
    entry->def = def;
    e->top_def = def;
    if (def) return true;
    VEC(const char *) names = {0};
    for (uint32_t i = 0; i < e->functions.all.n; i++) VEC_PUSH(e->a, &names, e->functions.all.entries[i].key);
    Diag *d = diag_error(e->d, E0309, (Span){0}, "no layer `%s` to export", e->opt->export_layer);
    diag_suggest(e->d, d, d->span, e->opt->export_layer, names.data, names.n);
    return false;
}

/* --export='layer(H = 8)' is read as the target of a train block would be. */
static bool entry_export(Elab *e, Entry *entry)
{
    if (is_word(e->opt->export_layer)) return export_named(e, entry);
    const char *text = arena_printf(e->a, "train %s {}", e->opt->export_layer);
    Source *s = ARENA_NEW(e->a, Source);
    *s = (Source){"--export", text, (uint32_t)strlen(text)};
    const AstFile *file = ast_parse(e->a, s, e->d);
    if (!file || e->d->n_errors) return false;
    bool one = file->n_decls == 1 && file->decls[0]->kind == AST_DECL_TRAIN;
    if (!one)
        diag_error(e->d, E0612, (Span){0}, "`--export` wants a layer or a call of one, found `%s`",
                   e->opt->export_layer);
    return one && entry_target(e, file->decls[0]->as.train.target, "a layer to export", entry);
}

static bool find_entry(Elab *e, const Program *p, Entry *entry)
{
    *entry = (Entry){.target = value_none((Span){0})};
    if (e->opt->export_layer) return entry_export(e, entry);
    if (p->train) return entry_target(e, p->train->as.train.target, "the model to train", entry);
    if (p->model) entry->def = def_find(e, &e->functions, p->model->name.text);
    return true;
}

static void prepare_entry(Elab *e, const Entry *entry)
{
    const AstSignature *sig = &entry->def->decl->as.function.sig;
    e->entry_span = entry->def->decl->name.span;
    e->bipartite = signature_uses(sig, "src", "dst") && !entry->def->is_std;
    if (sig->result && sig->result->space.text && !strcmp(sig->result->space.text, "graph")) {
        if (!e->schema) map_graph(e, graph_ir(e, graph_data(e))->src_space);
        e->label_space = e->schema ? graph_space(e) : e->graph_space;
    }
}

/* The instance that trains under the entry's name. */
static void elab_entry(Elab *e, const Program *p, Entry *entry)
{
    ((Def *)(uintptr_t)entry->def)->used = true;
    prepare_entry(e, entry);
    if (!entry_inputs(e, entry->def, entry->bound, entry->n_bound)) return;
    uint32_t before = e->m->n_sites;
    elab_forward(e, entry->def, entry->bound, entry->n_bound);
    if (e->d->n_errors) return;
    uint32_t behind = e->m->n_sites;
    e->m->n_sites = before; /* `vjp` draws the numbers that `forward` draws */
    elab_vjp(e, entry->def, entry->bound, entry->n_bound);
    ICE_UNLESS(e->d->n_errors || e->m->n_sites == behind);
    if (!p->train || e->opt->export_layer) return;
    if (entry->target.kind == V_DEF) {
        Instance *it = ARENA_NEW(e->a, Instance);
        *it = (Instance){.def = entry->def, .path = "", .span = p->train->span};
        entry->target = (Value){.kind = V_INSTANCE, .instance = it, .span = p->train->span, .dim = IR_NONE};
    }
    elab_train(e, p->train, &entry->target, entry->def->name);
}

/* ---- definitions that nobody calls ------------------------------------------------------------------------------- */

static bool sample_value(Elab *e, const AstType *t, Value *out);

static bool sample_tuple(Elab *e, const AstType *t, Value *out)
{
    Value *items = ARENA_ARRAY(e->a, Value, t->n_items + 1);
    for (uint32_t i = 0; i < t->n_items; i++)
        if (!sample_value(e, t->items[i], &items[i])) return false;
    *out = (Value){.kind = V_TUPLE, .items = items, .n = t->n_items, .span = t->span, .dim = IR_NONE};
    return true;
}

static bool sample_record(Elab *e, const AstType *t, Value *out)
{
    uint32_t n = by_type_keys(e, t, NULL);
    const char **keys = ARENA_ARRAY(e->a, const char *, n + 1);
    Value *items = ARENA_ARRAY(e->a, Value, n + 1);
    by_type_keys(e, t, keys);
    for (uint32_t i = 0; i < n; i++)
        if (!sample_value(e, type_of_part(e, t, keys[i]), &items[i])) return false;
    *out = value_record(keys, items, n, t->span);
    return true;
}

static bool sample_value(Elab *e, const AstType *t, Value *out)
{
    IrType type;
    if (t->kind == AST_TYPE_TUPLE) return sample_tuple(e, t, out);
    if (type_is_by_type(t)) return sample_record(e, t, out);
    if (t->domain_var) domain_bind(e, t->space.text, graph_ir(e, graph_data(e))->src_space);
    if (!type_resolve(e, t, &type)) return false;
    *out = op_const(e, type, 0, t->span);
    if (t->dtype == AST_INDEX && t->classes) out->classes = size_of_expr(e, t->classes);
    return true;
}

/* Values of the declared types, with dims that stand for any size. False: not enough is declared. */
static bool sample_args(Elab *e, const AstSignature *sig, CallArg *args, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const AstParam *p = &sig->params[i];
        if (p->init && !p->type) scope_set(e, p->name.text, elab_expr(e, p->init));
    }
    for (uint32_t i = 0; i < sig->n_params && !e->frame->has_rest; i++) {
        e->frame->has_rest = type_has_rest(sig->params[i].type);
        if (e->frame->has_rest) e->frame->rest[e->frame->n_rest++] = dim_symbol(e, "rest", sig->params[i].span);
    }
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const AstParam *p = &sig->params[i];
        if (p->init) continue;
        if (!p->type) return false;
        Value v;
        if (!sample_value(e, p->type, &v)) return false;
        args[(*n)++] = (CallArg){.name = p->name.text, .value = v};
    }
    return true;
}

static void check_unused(Elab *e, Def *def)
{
    bool fold = def->decl->kind == AST_DECL_REDUCE;
    if (def->decl->kind == AST_DECL_OPTIMIZER || def->decl->kind == AST_DECL_SCHEDULE) return;
    const AstSignature *sig = fold ? &def->decl->as.fold.sig : &def->decl->as.function.sig;
    Mark k = mark(e);
    if (signature_uses(sig, "src", "dst")) e->data_graph = NULL, e->graph_space = IR_NONE;
    bool bipartite = e->bipartite;
    e->bipartite = signature_uses(sig, "src", "dst");
    e->alone = true;
    func_begin(e, "check", false);
    Frame *f = frame_push(e, def, def->decl->name.span);
    f->graph = graph_data(e);
    f->new_dims = DIMS_RIGID;
    f->path = "check.";
    declare_signature(e, sig);
    CallArg *args = ARENA_ARRAY(e->a, CallArg, sig->n_params + 1);
    uint32_t n;
    if (fold) f->reduce_from = graph_ir(e, f->graph)->edge, f->reduce_to = graph_ir(e, f->graph)->dst_space;
    if (sample_args(e, sig, args, &n)) {
        Call c = {.span = def->decl->name.span, .args = args, .n = n};
        if (fold && n) args[0].name = NULL;
        Value r = {.kind = V_DEF, .def = def, .word = def->name, .dim = IR_NONE};
        if (fold) call_reduce(e, &r, REDUCE_IN, &c);
        else call_def(e, def, NULL, 0, &c, "check.");
    } else if (!fold) {
        elab_names(e, def);
    }
    frame_pop(e);
    forget(e, &k);
    e->alone = false;
    e->bipartite = bipartite;
}

static void check_all_unused(Elab *e)
{
    e->top_def = NULL; /* the exported layer, where it is called, is one like others */
    for (uint32_t i = 0; i < e->defs.n; i++)
        if (!e->defs.data[i]->is_std && !e->defs.data[i]->used) check_unused(e, e->defs.data[i]);
}

/* Constants that nobody reads are worked out too. */
static void check_constants(Elab *e)
{
    Frame *f = frame_push(e, NULL, e->entry_span);
    f->graph = graph_data(e);
    for (uint32_t i = 0; i < e->constants.n; i++) {
        const AstSlot *slot = strmap_get(&e->constants, e->constants.entries[i].key);
        uint32_t errors = e->d->n_errors;
        Value v = scope_lookup(e, slot->names.items[0].text, slot->names.items[0].span);
        if (e->d->n_errors == errors && !value_is_static(&v)) break;
    }
    frame_pop(e);
}

static void check_sets(Elab *e)
{
    for (uint32_t i = 0; i < e->opt->n_set; i++) {
        const char *name = e->opt->set_names[i];
        if (strmap_has(&e->used_sets, name)) continue;
        VEC(const char *) names = {0};
        for (uint32_t k = 0; k < e->free_dims.n; k++) VEC_PUSH(e->a, &names, e->free_dims.entries[k].key);
        for (uint32_t k = 0; k < e->m->tensors.n; k++)
            if (e->m->tensors.data[k].kind == IR_HYPER) VEC_PUSH(e->a, &names, e->m->tensors.data[k].name);
        Diag *d = diag_error(e->d, E0309, (Span){0}, "`--set %s`: the program has no dim or hyper of that name", name);
        diag_suggest(e->d, d, d->span, name, names.data, names.n);
    }
}

IrModule *frontend_compile(Arena *a, const Source *src, const FrontendOptions *opt, Diags *d)
{
    Elab *e = ARENA_NEW(a, Elab);
    *e = (Elab){.a = a,
                .d = d,
                .opt = opt,
                .z = {.arena = a},
                .graph_space = IR_NONE,
                .label_space = IR_NONE,
                .reduce_from = IR_NONE,
                .reduce_to = IR_NONE,
                .memory = arena_bytes(a) + MEMORY + MEMORY_PER_BYTE * (size_t)src->n,
                .budget = OP_BUDGET + OPS_PER_BYTE * (src->n < 1 << 24 ? src->n : 1 << 24)};
    const char *slash = strrchr(src->path, '/'); /* the folder would make equal models differ */
    e->m = ir_module_new(a, slash ? slash + 1 : src->path);
    e->real = opt->float_dtype == IR_F64 ? IR_F64 : IR_F32;
    StrMap *maps[] = {&e->functions.all,  &e->functions.std, &e->folds.all, &e->folds.std, &e->optimizers.all,
                      &e->optimizers.std, &e->free_dims,     &e->used_sets, &e->constants, &e->tensor_names};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) maps[i]->arena = a;
    func_begin(e, "static", false); /* of no module: takes what is computed where nothing may be */
    e->m->funcs.n = 0;
    Program std = {.test_names.arena = a}, program = {.test_names.arena = a};
    read_std(e, &std);
    const AstFile *file = ast_parse(a, src, d);
    if (!file || d->n_errors) return NULL;
    collect(e, file, false, &program);
    if (program.schema && !d->n_errors) schema_read(e, program.schema);
    Entry entry;
    e->entry_span = span_at(src, 0, 0);
    if (d->n_errors || !find_entry(e, &program, &entry)) return NULL;
    if (entry.def && !opt->tests_only) elab_entry(e, &program, &entry);
    Mark k = mark(e);
    for (uint32_t i = 0; i < program.tests.n; i++) elab_test(e, program.tests.data[i], i);
    if (opt->without_tests) forget(e, &k); /* graphs and parameters that they made, too */
    if (!opt->tests_only) {
        check_all_unused(e);
        check_constants(e);
        check_sets(e);
    }
    return d->n_errors == 0 && elab_finish(e) ? e->m : NULL;
}
