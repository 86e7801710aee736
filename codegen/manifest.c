/* The manifest: what a program must know of a compiled model without running it, as JSON. Names,
   types, stored shapes, functions, determinism, CPU variants. One line per item, keys in a fixed
   order. */
#include "codegen/codegen.h"

static const char *const variant_names[] = {[RT_GENERIC] = "generic", [RT_AVX2] = "avx2", [RT_AVX512] = "avx512"};

/* `"name": .., "space": .., "dtype": .., "dims": [{"name": .., "size": ..}]` */
static void put_type(const IrModule *m, const char *name, const IrType *t, StrBuf *out)
{
    strbuf_puts(out, "\"name\": ");
    strbuf_json(out, name);
    strbuf_puts(out, ", \"space\": ");
    strbuf_json(out, m->spaces.data[t->space].name);
    strbuf_printf(out, ", \"dtype\": \"%s\", \"dims\": [", ir_dtype_names[t->dtype]);
    for (unsigned i = 0; i < t->n_dims; i++) {
        const IrDim *d = &m->dims.data[t->dims[i]];
        strbuf_puts(out, i ? ", {\"name\": " : "{\"name\": ");
        strbuf_json(out, d->name);
        strbuf_printf(out, ", \"size\": %lld}", (long long)d->size);
    }
    strbuf_puts(out, "]");
}

static void put_tensor(const IrModule *m, const IrTensor *t, StrBuf *out)
{
    put_type(m, t->name, &t->type, out);
    if (t->kind == IR_PARAM || t->kind == IR_STATE) {
        strbuf_puts(out, ", \"stored_shape\": [");
        for (unsigned i = 0; i < t->n_stored; i++)
            strbuf_printf(out, "%s%lld", i ? ", " : "", (long long)t->stored_shape[i]);
        strbuf_puts(out, "]");
    }
    if (t->kind == IR_HYPER) strbuf_printf(out, ", \"default\": %.17g", t->hyper_default);
    if (t->bound > 0)
        strbuf_printf(out, ", \"bound\": %lld, \"missing_allowed\": %s", (long long)t->bound,
                      t->allow_missing ? "true" : "false");
}

static void put_tensors(const IrModule *m, const char *key, IrTensorKind kind, StrBuf *out)
{
    strbuf_printf(out, "  \"%s\": [", key);
    const char *before = "\n    {";
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        if (m->tensors.data[i].kind != kind || m->tensors.data[i].nonzeros.present) continue;
        strbuf_puts(out, before);
        put_tensor(m, &m->tensors.data[i], out);
        strbuf_puts(out, "}");
        before = ",\n    {";
    }
    strbuf_puts(out, "],\n");
}

static void put_function(const IrModule *m, const IrFunc *f, StrBuf *out)
{
    strbuf_puts(out, "{\"name\": ");
    strbuf_json(out, f->name);
    strbuf_puts(out, ", \"args\": [");
    for (uint32_t i = 0; i < f->args.n; i++) {
        if (i) strbuf_puts(out, ", ");
        strbuf_json(out, f->args.data[i].name);
    }
    strbuf_puts(out, "], \"results\": [");
    for (uint32_t i = 0; i < f->results.n; i++) {
        const IrResult *r = &f->results.data[i];
        strbuf_puts(out, i ? ", {" : "{");
        put_type(m, r->name, &f->ops.data[r->value].type, out);
        strbuf_puts(out, "}");
    }
    strbuf_puts(out, "]}");
}

static void put_train(const IrModule *m, StrBuf *out)
{
    const IrTrain *t = &m->train;
    if (!t->present) return;
    strbuf_printf(out, "  \"train\": {\"epochs\": %lld, \"seed\": %lld, \"metrics\": [", (long long)t->epochs,
                  (long long)t->seed);
    for (uint32_t i = 0; i < t->metrics.n; i++) {
        if (i) strbuf_puts(out, ", ");
        strbuf_json(out, t->metrics.data[i].name);
    }
    strbuf_puts(out, "]");
    if (t->stop_metric != IR_NONE) {
        strbuf_puts(out, ", \"stop_early\": ");
        strbuf_json(out, t->metrics.data[t->stop_metric].name);
        strbuf_printf(out, ", \"patience\": %lld", (long long)t->patience);
    }
    if (t->batch) strbuf_printf(out, ", \"batch\": %lld", (long long)t->batch);
    strbuf_puts(out, "},\n");
}

static void put_machine(const char *key, const CodegenMachine *m, StrBuf *out)
{
    if (m->name) strbuf_printf(out, ",\n  \"%s\": {\"name\": \"%s\", \"digest\": \"%s\"}", key, m->name, m->digest);
}

void emit_manifest(const HostPlan *plan, const CodegenOptions *o, StrBuf *out)
{
    const IrModule *m = plan->module;
    strbuf_puts(out, "{\n  \"compiler\": \"gnnc ");
    strbuf_puts(out, o->version);
    strbuf_printf(out, "\",\n  \"abi\": %d,\n  \"model\": ", RT_ABI_VERSION);
    strbuf_json(out, o->name);
    put_machine("machine", &o->machine, out);
    put_machine("device_machine", &o->device_machine, out);
    strbuf_puts(out, ",\n");
    put_tensors(m, "inputs", IR_INPUT, out);
    put_tensors(m, "params", IR_PARAM, out);
    put_tensors(m, "state", IR_STATE, out);
    put_tensors(m, "hypers", IR_HYPER, out);
    put_tensors(m, "held", IR_HELD, out);
    strbuf_puts(out, "  \"functions\": [");
    for (uint32_t i = 0; i < plan->programs.n; i++) {
        strbuf_puts(out, i ? ",\n    " : "\n    ");
        put_function(m, m->funcs.data[plan->programs.data[i]->func], out);
    }
    strbuf_puts(out, "],\n");
    put_train(m, out);
    if (o->cuda) cuda_manifest(o->device ? o->device->plan : plan, o->cuda, out);
    strbuf_puts(out, "  \"determinism\": {\"threads\": \"bit-equal\", \"cpu\": \"bit-equal\", "
                     "\"blas\": \"within the error bound\"");
    strbuf_puts(out, o->cuda ? ", \"device\": \"bit-equal\"" : "");
    strbuf_puts(out, "},\n  \"cpu\": [");
    const char *before = "\"";
    for (unsigned v = 0; v < RT_N_VARIANTS; v++) {
        if (!(codegen_variants(o) >> v & 1)) continue;
        strbuf_printf(out, "%s%s\"", before, variant_names[v]);
        before = ", \"";
    }
    strbuf_puts(out, "]\n}\n");
}
