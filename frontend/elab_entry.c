/* The functions of the module that run the model or an exported layer: "forward" and "vjp". */
#include "frontend/sema.h"

void func_begin(Elab *e, const char *name, bool training)
{
    e->f = ir_func_new(e->m, name);
    e->f->train_mode = training;
    e->training = training;
    e->func_args.n = 0;
    e->after.n = 0;
    e->seed = e->step = IR_NONE;
}

static const BoundArg *bound_find(const BoundArg *bound, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(bound[i].name, name)) return &bound[i];
    return NULL;
}

/* The i-th value of an argument that is a tuple, an input of its own: x0, x1, ... */
static AstParam part_of(Elab *e, const AstParam *p, uint32_t i)
{
    AstParam part = *p;
    part.name.text = arena_printf(e->a, "%s%u", p->name.text, i);
    part.type = p->type->items[i];
    return part;
}

/* The value of an argument by type that one type or relation has, an input of its own: paper.x, author.x, ... */
static AstParam part_of_record(Elab *e, const AstParam *p, const char *key)
{
    AstParam part = *p;
    part.name.text = arena_printf(e->a, "%s.%s", key, p->name.text);
    part.type = type_of_part(e, p->type, key);
    return part;
}

/* Which types or relations give argument p a value: all that p's type names, or, where the data folder is known, those
   of which it holds a file. keys: room for as many as the schema has. */
static uint32_t keys_of(Elab *e, const AstParam *p, const char **keys)
{
    uint32_t all = by_type_keys(e, p->type, keys), n = 0;
    for (uint32_t i = 0; i < all; i++)
        if (!e->opt->n_facts || fact_find(e, arena_printf(e->a, "%s.%s", keys[i], p->name.text))) keys[n++] = keys[i];
    return n;
}

static const char **key_room(Elab *e, const AstParam *p)
{
    return ARENA_ARRAY(e->a, const char *, by_type_keys(e, p->type, NULL) + 1);
}

static bool is_tuple(const AstParam *p) { return p->type && p->type->kind == AST_TYPE_TUPLE; }

/* An argument with a domain is an input; one with a default only where the data holds it. */
static bool is_input(Elab *e, const AstParam *p)
{
    bool all = true;
    if (type_is_by_type(p->type)) return !p->init || (e->opt->n_facts && keys_of(e, p, key_room(e, p)));
    for (uint32_t i = 0; is_tuple(p) && i < p->type->n_items; i++) {
        AstParam part = part_of(e, p, i);
        all &= is_input(e, &part);
    }
    return is_tuple(p) ? all : p->type && (!p->init || fact_find(e, p->name.text));
}

static bool declare_record(Elab *e, const AstParam *p)
{
    const char **keys = key_room(e, p);
    uint32_t n = keys_of(e, p, keys);
    bool ok = n > 0;
    if (!n && by_type_keys(e, p->type, NULL)) {
        Diag *d = diag_error(e->d, E0307, p->span, "the data hold `%s` for no type", p->name.text);
        diag_help(e->d, d, "file %s.%s.npy has a row for each", keys[0], p->name.text);
    } else if (!n) diag_error(e->d, E0209, p->type->span, "`%s` is of each type, and there is no schema", p->name.text);
    for (uint32_t i = 0; i < n; i++) {
        AstParam part = part_of_record(e, p, keys[i]);
        ok &= input_declare(e, &part) != IR_NONE;
    }
    return ok;
}

static bool declare_input(Elab *e, const AstParam *p)
{
    if (type_is_by_type(p->type)) return declare_record(e, p);
    bool ok = is_tuple(p) || input_declare(e, p) != IR_NONE;
    for (uint32_t i = 0; is_tuple(p) && i < p->type->n_items; i++) {
        AstParam part = part_of(e, p, i);
        ok &= declare_input(e, &part);
    }
    return ok;
}

static Value input_value(Elab *e, const AstParam *p)
{
    if (type_is_by_type(p->type)) {
        const char **keys = key_room(e, p);
        uint32_t n = keys_of(e, p, keys);
        Value *values = ARENA_ARRAY(e->a, Value, n + 1);
        for (uint32_t i = 0; i < n; i++)
            values[i] = tensor_value(e, tensor_find(e, part_of_record(e, p, keys[i]).name.text), p->span);
        return value_record(keys, values, n, p->span);
    }
    if (!is_tuple(p)) return tensor_value(e, tensor_find(e, p->name.text), p->span);
    Value *items = ARENA_ARRAY(e->a, Value, p->type->n_items + 1);
    for (uint32_t i = 0; i < p->type->n_items; i++) {
        AstParam part = part_of(e, p, i);
        items[i] = input_value(e, &part);
    }
    return (Value){.kind = V_TUPLE, .items = items, .n = p->type->n_items, .span = p->span, .dim = IR_NONE};
}

bool entry_inputs(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound)
{
    const AstSignature *sig = &entry->decl->as.function.sig;
    Frame *f = frame_push(e, entry, entry->decl->name.span);
    f->graph = graph_data(e);
    f->new_dims = DIMS_FREE;
    f->has_rest = entry->decl->kind == AST_DECL_LAYER; /* exported: `...` is no further dims */
    declare_signature(e, sig);
    bool ok = true;
    for (uint32_t i = 0; i < n_bound; i++) scope_set(e, bound[i].name, *bound[i].value);
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const AstParam *p = &sig->params[i];
        bool given = bound_find(bound, n_bound, p->name.text) != NULL;
        if (!p->type && p->init && !given) scope_set(e, p->name.text, elab_expr(e, p->init));
        if (p->type || p->init || given) continue;
        diag_error(e->d, E0302, p->span, "%s `%s` needs a value for `%s` to be built", def_kind(entry), entry->name,
                   p->name.text);
        ok = false;
    }
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (is_input(e, &sig->params[i]) && sig->params[i].type->domain_var) /* exported: over the nodes */
            domain_bind(e, sig->params[i].type->space.text, graph_ir(e, f->graph)->src_space);
    for (uint32_t i = 0; i < sig->n_params; i++)
        if (is_input(e, &sig->params[i])) ok &= declare_input(e, &sig->params[i]);
    frame_pop(e);
    return ok;
}

/* Calls the entry with its inputs as arguments of the current function. */
Value call_entry(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound)
{
    const AstSignature *sig = &entry->decl->as.function.sig;
    CallArg *args = ARENA_ARRAY(e->a, CallArg, sig->n_params + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < sig->n_params; i++) {
        const AstParam *p = &sig->params[i];
        if (!is_input(e, p)) continue;
        args[n++] = (CallArg){.name = p->name.text, .value = input_value(e, p)};
    }
    return call_def(e, entry, bound, n_bound, &(Call){.span = entry->decl->name.span, .args = args, .n = n}, "");
}

typedef struct Outputs {
    const Value *items;
    const char *const *keys; /* of a record: whose they are; else NULL */
    uint32_t n;
} Outputs;

static bool entry_outputs(Elab *e, const Def *entry, Value v, Outputs *out)
{
    bool several = v.kind == V_TUPLE || v.kind == V_RECORD;
    Value *items = ARENA_ARRAY(e->a, Value, several ? v.n + 1 : 1);
    *out = (Outputs){items, v.keys, several ? v.n : 1};
    bool ok = true;
    for (uint32_t i = 0; i < out->n; i++) {
        items[i] = to_tensor(e, several ? v.items[i] : v, e->real, entry->decl->name.span);
        ok &= items[i].kind == V_TENSOR;
    }
    return ok;
}

static const char *output_name(Elab *e, const Outputs *out, uint32_t i)
{
    if (out->keys) return arena_printf(e->a, "out.%s", out->keys[i]);
    return out->n == 1 ? "out" : arena_printf(e->a, "out%u", i);
}

void elab_forward(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound)
{
    Outputs out;
    func_begin(e, "forward", e->opt->train_mode);
    Frame *f = frame_push(e, NULL, entry->decl->name.span);
    f->graph = graph_data(e);
    if (entry_outputs(e, entry, call_entry(e, entry, bound, n_bound), &out))
        for (uint32_t i = 0; i < out.n; i++) {
            ir_result(e->m, e->f, output_name(e, &out, i), out.items[i].id, IR_NONE);
            VEC_PUSH(e->a, &e->outputs, out.items[i].type);
        }
    buffer_results(e, "after.");
    frame_pop(e);
}

void elab_vjp(Elab *e, const Def *entry, const BoundArg *bound, uint32_t n_bound)
{
    Outputs out;
    Span s = entry->decl->name.span;
    func_begin(e, "vjp", e->opt->train_mode);
    Frame *f = frame_push(e, NULL, s);
    f->graph = graph_data(e);
    bool ok = entry_outputs(e, entry, call_entry(e, entry, bound, n_bound), &out);
    Value sum = value_error();
    if (ok && e->opt->joint) {
        for (uint32_t i = 0; i < out.n; i++) {
            IrType t = e->outputs.data[i];
            ir_result(e->m, e->f, output_name(e, &out, i), op_reshape(e, out.items[i], t.dims, t.n_dims).id, IR_NONE);
        }
        buffer_results(e, "after.");
    }
    for (uint32_t i = 0; ok && i < out.n; i++) {
        if (!ir_dtype_is_float(out.items[i].type.dtype)) continue;
        IrArg arg = {.name = arena_printf(e->a, "cot.%s", output_name(e, &out, i)),
                     .kind = IR_ARG_COTANGENT,
                     .ref = i,
                     .type = e->outputs.data[i]};
        Value cot = value_tensor(ir_arg(e->m, e->f, arg), arg.type, s);
        cot = op_reshape(e, cot, out.items[i].type.dims, out.items[i].type.n_dims);
        Value term = sum_everything(e, op_binary(e, IR_OP_mul, "multiply", out.items[i], cot, s), s);
        sum = sum.kind == V_TENSOR ? op_binary(e, IR_OP_add, "add", sum, term, s) : term;
    }
    for (uint32_t i = 0; sum.kind == V_TENSOR && i < e->func_args.n; i++) {
        const IrTensor *t = &e->m->tensors.data[e->func_args.data[i].tensor];
        if (!ir_dtype_is_float(t->type.dtype) || t->kind == IR_HYPER) continue;
        Value g = op_grad(e, sum, value_tensor(e->func_args.data[i].value, t->type, s), s);
        if (g.kind == V_TENSOR) ir_result(e->m, e->f, arena_printf(e->a, "grad.%s", t->name), g.id, IR_NONE);
    }
    frame_pop(e);
}
