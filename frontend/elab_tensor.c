/* Named tensors of the module: inputs, parameters, states and hypers; and what is known of the
 * data. */
#include "frontend/sema.h"

const FrontendFact *fact_find(const Elab *e, const char *name)
{
    for (uint32_t i = 0; i < e->opt->n_facts; i++)
        if (!strcmp(e->opt->facts[i].name, name)) return &e->opt->facts[i];
    return NULL;
}

bool set_find(Elab *e, const char *name, double *out)
{
    for (uint32_t i = 0; i < e->opt->n_set; i++) {
        if (strcmp(e->opt->set_names[i], name)) continue;
        strmap_put(&e->used_sets, name, e);
        return *out = e->opt->set_values[i], true;
    }
    return false;
}

IrId tensor_find(const Elab *e, const char *name)
{
    uintptr_t at = (uintptr_t)strmap_get(&e->tensor_names, name);
    if (!at) return IR_NONE;
    if (at <= e->m->tensors.n && !strcmp(e->m->tensors.data[at - 1].name, name)) return (IrId)(at - 1);
    for (uint32_t i = 0; i < e->m->tensors.n; i++) /* a later one of that name was forgotten */
        if (!strcmp(e->m->tensors.data[i].name, name)) return i;
    return IR_NONE;
}

IrId tensor_new(Elab *e, const char *name, IrTensorKind kind, IrType t, Span s)
{
    IrTensor tensor = {.name = name, .kind = kind, .type = t, .span = s};
    VEC_PUSH(e->a, &e->m->tensors, tensor);
    VEC_PUSH(e->a, &e->tensors, ((TensorInfo){0}));
    strmap_put(&e->tensor_names, name, (void *)(uintptr_t)e->m->tensors.n);
    return e->m->tensors.n - 1;
}

Value tensor_value(Elab *e, IrId tensor, Span s)
{
    const IrTensor *t = &e->m->tensors.data[tensor];
    TensorInfo *info = &e->tensors.data[tensor];
    IrId id = info->reader == e->f ? info->value : IR_NONE;
    if (id == IR_NONE) {
        id = ir_arg(e->m, e->f, (IrArg){.name = t->name, .kind = IR_ARG_TENSOR, .ref = tensor, .type = t->type});
        VEC_PUSH(e->a, &e->func_args, ((FuncArg){tensor, id}));
        info->reader = e->f;
        info->value = id;
    }
    Value v = value_tensor(id, t->type, s);
    v.classes = e->tensors.data[tensor].classes;
    return v;
}

static Value run_number(Elab *e, const char *name, IrArgKind kind, IrId *cache, Span s)
{
    IrType t = ir_scalar(IR_I64);
    if (*cache == IR_NONE) *cache = ir_arg(e->m, e->f, (IrArg){.name = name, .kind = kind, .ref = IR_NONE, .type = t});
    return value_tensor(*cache, t, s);
}

Value seed_value(Elab *e, Span s) { return run_number(e, "seed", IR_ARG_SEED, &e->seed, s); }
Value step_value(Elab *e, Span s) { return run_number(e, "step", IR_ARG_STEP, &e->step, s); }

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Whether the rows are as many as the edges of a list of the data: of the graph at hand, else of any. */
static bool is_of_list(Elab *e, const FrontendFact *f, IrId *out)
{
    IrId here = e->frame->graph->id, n = e->m->graphs.n;
    for (uint32_t k = graph_is_none(e->frame->graph); k <= n; k++) {
        const IrGraph *g = &e->m->graphs.data[k ? k - 1 : here];
        const FrontendFact *list = g->kind == IR_GRAPH_FILE && (!k || !f->rows) ? fact_find(e, g->name) : NULL;
        if (list && list->dims[0] == f->count) return *out = g->edge, true;
    }
    return false;
}

static bool fact_space(Elab *e, const FrontendFact *f, Span s, IrId *out)
{
    if (is_of_list(e, f, out)) return true;
    const char *rows = f->rows ? f->rows : "node";
    if (e->bipartite && !strcmp(rows, "node")) rows = "dst";
    if (!strcmp(rows, "unit")) return *out = IR_UNIT, true;
    return space_find(e, rows, s, graph_data(e), out);
}

/* The dims of a file, for an input without domain its rows among them. */
static uint32_t fact_dims(const FrontendFact *f, bool unit, int64_t dims[IR_MAX_DIMS + 1])
{
    if (unit) dims[0] = f->count;
    memcpy(dims + unit, f->dims, f->n_dims * sizeof *dims);
    return unit + f->n_dims;
}

/* The data's file against the declared input. */
static void fact_check(Elab *e, const char *name, const IrType *t, Span s)
{
    const FrontendFact *f = fact_find(e, name);
    if (!f) return;
    if (ir_dtype_is_float(t->dtype) != ir_dtype_is_float(f->dtype) || (t->dtype == IR_BOOL) != (f->dtype == IR_BOOL))
        diag_error(e->d, E0206, s, "input `%s` is %s, but the data holds %s", name, type_text(e, t),
                   f->dtype == IR_BOOL           ? "bools"
                   : ir_dtype_is_float(f->dtype) ? "floats"
                                                 : "integers");
    int64_t dims[IR_MAX_DIMS + 1];
    uint32_t n = 0, n_dims = fact_dims(f, t->space == IR_UNIT, dims);
    for (uint32_t i = 0; i < n_dims; i++) n += dims[i] != 1 || n_dims == t->n_dims;
    if (n != t->n_dims) {
        diag_error(e->d, E0202, s, "input `%s` has %u dims, the data's has %u", name, t->n_dims, n_dims);
        return;
    }
    for (uint32_t i = 0, k = 0; i < n_dims; i++) {
        if (n_dims != t->n_dims && dims[i] == 1) continue;
        IrId dim = t->dims[k++];
        if (size_unify(&e->z, dim_size(e, dim), size_const(&e->z, dims[i]), s)) continue;
        diag_error(e->d, E0201, s, "input `%s`: dim %u is %s, the data's is %lld", name, k,
                   size_text(&e->z, dim_size(e, dim)), (long long)dims[i]);
    }
}

static void input_bound(Elab *e, IrId tensor, const Size *classes)
{
    const FrontendFact *f = fact_find(e, e->m->tensors.data[tensor].name);
    e->m->tensors.data[tensor].allow_missing = !f || f->allow_missing;
    e->tensors.data[tensor].classes = classes;
}

const Size *input_range(Elab *e, const Value *v, const Size *classes)
{
    if (v->kind != V_TENSOR || v->classes) return v->classes;
    for (uint32_t i = 0; i < e->func_args.n; i++) {
        IrId tensor = e->func_args.data[i].tensor;
        const TensorInfo *info = &e->tensors.data[tensor];
        if (info->reader != e->f || info->value != v->id || info->classes ||
            e->m->tensors.data[tensor].kind != IR_INPUT)
            continue;
        input_bound(e, tensor, classes);
        return classes;
    }
    return NULL;
}

static void input_sparse(Elab *e, IrId tensor)
{
    IrTensor *t = &e->m->tensors.data[tensor];
    const FrontendFact *f = fact_find(e, t->name);
    t->sparse = f && f->sparse && ir_dtype_is_float(t->type.dtype) && t->type.n_dims == 1 && t->type.space != IR_UNIT;
}

/* The width that the schema gives to a type's features. */
static void schema_width(Elab *e, const char *name, const IrType *t, Span s)
{
    for (uint32_t i = 0; e->schema && i < e->schema->types.n; i++) {
        const NodeType *type = &e->schema->types.data[i];
        bool features = !strcmp(name, "x") || !strcmp(name, arena_printf(e->a, "%s.x", type->name));
        if (!type->width || !features || strcmp(space_text(e, t->space), type->name)) continue;
        const Size *width = size_of_expr(e, type->width);
        if (!width || (t->n_dims == 1 && size_unify(&e->z, dim_size(e, t->dims[0]), width, s))) continue;
        const char *found = t->n_dims == 1
                                ? arena_printf(e->a, "%s[%s]", type->name, size_text(&e->z, dim_size(e, t->dims[0])))
                                : type_text(e, t);
        Diag *d = diag_error(e->d, E0201, s, "input `%s` is %s, the schema says %s[%s]", name, found, type->name,
                             size_text(&e->z, width));
        diag_note(e->d, d, type->span, "`%s` is declared here", type->name);
    }
}

IrId input_declare(Elab *e, const AstParam *p)
{
    IrId known = tensor_find(e, p->name.text);
    if (known != IR_NONE) return known;
    IrType t;
    if (!type_resolve(e, p->type, &t)) return IR_NONE;
    IrId id = tensor_new(e, p->name.text, IR_INPUT, t, p->span);
    fact_check(e, p->name.text, &t, p->span);
    schema_width(e, p->name.text, &t, p->span);
    input_sparse(e, id);
    if (p->type->dtype != AST_INDEX || !p->type->classes) return id;
    const Size *c = size_of_expr(e, p->type->classes);
    const FrontendFact *f = fact_find(e, p->name.text);
    if (c) input_bound(e, id, c);
    if (c && f && f->classes > 0 && !size_unify(&e->z, c, size_const(&e->z, f->classes), p->span))
        diag_error(e->d, E0201, p->span, "input `%s` has %s classes, the data's has %lld", p->name.text,
                   size_text(&e->z, c), (long long)f->classes);
    return id;
}

/* space: of its rows. */
static IrId input_from_fact(Elab *e, const FrontendFact *f, IrId space, Span s)
{
    IrType t = ir_scalar(ir_dtype_is_float(f->dtype) ? e->real : f->dtype == IR_BOOL ? IR_BOOL : IR_I64);
    t.space = space;
    for (uint32_t i = 0; i < f->n_dims; i++) t.dims[t.n_dims++] = dim_new(e, f->name, size_const(&e->z, f->dims[i]), s);
    IrId id = tensor_new(e, f->name, IR_INPUT, t, s);
    input_sparse(e, id);
    if (t.dtype != IR_I64) return id;
    if (f->classes > 0) input_bound(e, id, size_const(&e->z, f->classes));
    else if (f->allow_missing)
        input_bound(e, id,
                    size_var(&e->z, "classes", SIZE_HOLE, s)); /* labels: who takes them says how many there are */
    return id;
}

static bool is_mask(const char *name)
{
    return !strcmp(name, "train_mask") || !strcmp(name, "val_mask") || !strcmp(name, "test_mask");
}

/* With a schema: files that have a row for each graph of a batch. Masks have one where the model's result has. */
static bool is_of_graphs(const Elab *e, const char *name)
{
    return !strncmp(name, "graph_", 6) || (e->label_space != IR_NONE && is_mask(name));
}

/* Without a data folder: labels and masks have the rows of the model's result. With one that holds `fold`: masks that
   --folds makes have its rows. */
static IrId input_guess(Elab *e, const char *name, Span s)
{
    bool mask = is_mask(name);
    const FrontendFact *fold = mask ? fact_find(e, "fold") : NULL;
    if (e->schema && !is_of_graphs(e, name)) return IR_NONE;
    bool of_graphs = !strcmp(name, "graph_y");
    if ((!mask && strcmp(name, "y") && !of_graphs) || (e->opt->n_facts && !fold)) return IR_NONE;
    IrType t = ir_scalar(mask ? IR_BOOL : IR_I64);
    t.space = e->label_space != IR_NONE ? e->label_space : graph_ir(e, graph_data(e))->dst_space;
    if (fold && !e->schema && !fact_space(e, fold, s, &t.space)) return IR_NONE;
    if (of_graphs && !space_find(e, "graph", s, graph_data(e), &t.space)) return IR_NONE;
    IrId id = tensor_new(e, name, IR_INPUT, t, s);
    if (!mask) input_bound(e, id, size_var(&e->z, "classes", SIZE_HOLE, s));
    return id;
}

/* data.NAME_index: a graph between the nodes of the data's, whose edges are that file. */
static bool names_list(Elab *e, const char *name)
{
    size_t n = strlen(name);
    const FrontendFact *f = fact_find(e, name);
    bool edges = f && f->count == 2 && f->n_dims == 1 && (f->dtype == IR_I64 || f->dtype == IR_I32);
    return edges && n > 6 && !strcmp(name + n - 6, "_index");
}

static const char *file_word(const char *name)
{
    static const char *const masks[][2] = {{"train", "train_mask"}, {"val", "val_mask"}, {"test", "test_mask"}};
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, masks[i][0])) return masks[i][1];
    return name;
}

/* TYPE.NAME.npy, or NAME.npy where there is no such file. Without a data folder labels and masks are known. */
Value data_of_type(Elab *e, const char *type, const AstName *name)
{
    const NodeType *nodes = schema_type(e, type);
    const char *word = file_word(name->text), *full = arena_printf(e->a, "%s.%s", type, word);
    Value edges = nodes ? value_none(name->span) : relation_value(e, schema_relation(e, type), name->span);
    const FrontendFact *own = fact_find(e, full), *f = own ? own : fact_find(e, word);
    IrId id = tensor_find(e, f && !own ? word : full), space;
    if (edges.kind == V_ERROR || (nodes && !type_space(e, nodes, name->span, &space))) return value_error();
    if (!nodes) space = graph_ir(e, edges.graph)->edge;
    if (id == IR_NONE && f) id = input_from_fact(e, f, space, name->span);
    bool label = !strcmp(word, "y"), mask = word != name->text;
    if (id == IR_NONE && !e->opt->n_facts && (label || mask)) {
        IrType t = ir_scalar(mask ? IR_BOOL : IR_I64);
        t.space = space;
        id = tensor_new(e, full, IR_INPUT, t, name->span);
        if (label) input_bound(e, id, size_var(&e->z, "classes", SIZE_HOLE, name->span));
    }
    if (id != IR_NONE && e->m->tensors.data[id].type.space == space) return tensor_value(e, id, name->span);
    if (id != IR_NONE)
        diag_error(e->d, E0307, name->span, "`%s` has a row for each %s, not for each %s", e->m->tensors.data[id].name,
                   space_text(e, e->m->tensors.data[id].type.space), type);
    else
        diag_error(e->d, E0307, name->span, "no file %s.npy or %s.npy %s", full, word,
                   e->opt->n_facts ? "in the data folder" : "is known without one: `--data DIR`");
    return value_error();
}

/* data.x, where x is an argument by type. */
static bool data_record(Elab *e, const char *name, Span s, Value *out)
{
    const Schema *schema = e->schema;
    VEC(const char *) keys = {0};
    VEC(Value) items = {0};
    for (uint32_t i = 0; schema && i < schema->types.n + schema->relations.n; i++) {
        const char *key = i < schema->types.n ? schema->types.data[i].name
                                              : schema->relations.data[i - schema->types.n].name;
        IrId id = tensor_find(e, arena_printf(e->a, "%s.%s", key, name));
        if (id == IR_NONE || e->m->tensors.data[id].kind != IR_INPUT) continue;
        VEC_PUSH(e->a, &keys, key);
        VEC_PUSH(e->a, &items, tensor_value(e, id, s));
    }
    *out = value_record(keys.data, items.data, items.n, s);
    return items.n;
}

/* A file of the data as an input; with a schema, nothing says of what there is a row. */
static IrId input_of_file(Elab *e, const FrontendFact *f, Span s)
{
    IrId space;
    if (!e->schema) return fact_space(e, f, s, &space) ? input_from_fact(e, f, space, s) : IR_NONE;
    if (is_of_graphs(e, f->name)) return input_from_fact(e, f, graph_space(e), s);
    Diag *d = diag_error(e->d, E0307, s, "`%s` does not say whose rows it has", f->name);
    if (e->schema->types.n) diag_help(e->d, d, "`data.%s.%s`", e->schema->types.data[0].name, f->name);
    return IR_NONE;
}

Value data_member(Elab *e, const char *name, Span s)
{
    Value record;
    if (!e->schema && names_list(e, name)) return graph_of_file(e, name, s);
    name = file_word(name);
    IrId id = tensor_find(e, name);
    if (id != IR_NONE && e->m->tensors.data[id].kind != IR_INPUT) id = IR_NONE;
    if (id == IR_NONE && data_record(e, name, s, &record)) return record;
    const FrontendFact *f = fact_find(e, name);
    uint32_t errors = e->d->n_errors;
    if (id == IR_NONE) id = f ? input_of_file(e, f, s) : input_guess(e, name, s);
    if (id != IR_NONE) return tensor_value(e, id, s);
    if (e->d->n_errors != errors) return value_error();
    VEC(const char *) names = {0};
    for (uint32_t i = 0; i < e->opt->n_facts; i++) VEC_PUSH(e->a, &names, e->opt->facts[i].name);
    for (uint32_t i = 0; i < e->m->tensors.n; i++)
        if (e->m->tensors.data[i].kind == IR_INPUT) VEC_PUSH(e->a, &names, e->m->tensors.data[i].name);
    Diag *d = diag_error(e->d, E0307, s, "no input `%s`: neither an argument of the model nor %s", name,
                         e->opt->n_facts ? "a file of the data folder" : "known without a data folder");
    if (!diag_suggest(e->d, d, s, name, names.data, names.n) && !e->opt->n_facts)
        diag_help(e->d, d, "give the folder: `--data DIR`");
    return value_error();
}
