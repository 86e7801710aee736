/* A model as one readable C11 file: the kernels (emit_c.c), then the tables of runtime/abi.h as
   named initialisers, then main. The structs are spelled from their descriptions in tables_types.c,
   so the file needs no header of ours; it links with libgnnrt.a like an object. Fields that are
   zero are left out. */
#include "codegen/emit_c.h"
#include "codegen/tables.h"
#include <ctype.h>
#include <stddef.h>

static const TableType *const all_types[] = {
    &table_RtCount,     &table_RtPlace,    &table_RtSpace,     &table_RtMapDef,       &table_RtGraphDef,
    &table_RtTensorDef, &table_RtBuffer,   &table_RtSlot,      &table_RtTouch,        &table_RtStepArg,
    &table_RtCost,      &table_RtSet,      &table_RtStep,      &table_RtCall,         &table_RtGemm,
    &table_RtSplitDef,  &table_RtChainDef, &table_RtResultDef, &table_RtArgDef,       &table_RtProgram,
    &table_RtMetric,    &table_RtTrain,    &table_RtImage,     &table_RtDeviceKernel, &table_RtDeviceRates};

static const char *const model_ints[] = {"abi_version", "name",      "float_dtype", "n_spaces",
                                         "n_maps",      "n_graphs",  "n_tensors",   "n_programs",
                                         "n_kernels",   "n_strings", "n_images",    "n_device_kernels"};
enum { N_MODEL_INTS = sizeof model_ints / sizeof *model_ints };

static void put_struct(const TableType *t, StrBuf *out)
{
    strbuf_puts(out, "typedef struct {\n");
    for (unsigned i = 0; i < t->n_fields; i++) {
        const TableField *f = &t->fields[i];
        const char *type = f->kind == TABLE_DOUBLE ? "double" : f->kind == TABLE_STRUCT ? f->type->name : "int64_t";
        strbuf_printf(out, "    %s %s", type, f->name);
        if (f->n > 1) strbuf_printf(out, "[%u]", f->n);
        strbuf_puts(out, f->kind == TABLE_STRING ? "; /* in strings */\n" : ";\n");
    }
    strbuf_printf(out, "} %s;\n", t->name);
}

static void put_structs(const ModelTables *t, StrBuf *out)
{
    strbuf_puts(out, "\n/* ---- tables: what the runtime does with these kernels; the layout is ABI version ");
    strbuf_printf(out, "%d ---- */\n\n", RT_ABI_VERSION);
    for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++) put_struct(all_types[i], out);
    strbuf_puts(out, "typedef void (*RtKernelFn)(const RtArg *args, int64_t lo, int64_t "
                     "hi);\ntypedef struct {\n    int64_t ");
    for (unsigned i = 0; i < N_MODEL_INTS; i++) strbuf_printf(out, "%s%s", i ? ", " : "", model_ints[i]);
    strbuf_puts(out, ";\n    const char *strings;\n");
    for (unsigned i = 0; i < N_TABLES; i++)
        strbuf_printf(out, "    const %s *%s;\n", t->tables[i].type->name, t->tables[i].field);
    strbuf_puts(
        out,
        "    const RtKernelFn *kernels;\n    const void *device_code, *shim, *driver, *device; /* none: for CPUs */\n"
        "    int64_t manifest;\n} RtModel;\n\n");
}

/* An integer literal that has no overflow in it. */
static void put_int(StrBuf *out, int64_t v)
{
    if (v == INT64_MIN) strbuf_puts(out, "INT64_MIN");
    else strbuf_printf(out, v > INT32_MAX || v < INT32_MIN ? "%lldLL" : "%lld", (long long)v);
}

/* A comment cannot end early or hold control characters. */
static void put_comment(StrBuf *out, const char *text)
{
    strbuf_puts(out, " /* ");
    for (; *text; text++) {
        char c = isprint((unsigned char)*text) ? *text : '?';
        strbuf_add(out, c == '/' && out->data[out->n - 1] == '*' ? " " : "", c == '/' && out->data[out->n - 1] == '*');
        strbuf_add(out, &c, 1);
    }
    strbuf_puts(out, " */");
}

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

static void put_row(const TableType *t, const char *row, const char *strings, StrBuf *out);

static void put_cell(const TableField *f, const char *cell, const char *strings, StrBuf *out)
{
    int64_t v;
    double d;
    memcpy(&v, cell, sizeof v);
    memcpy(&d, cell, sizeof d);
    if (f->kind == TABLE_STRUCT) {
        put_row(f->type, cell, strings, out);
    } else if (f->kind == TABLE_DOUBLE) {
        strbuf_printf(out, "%a", d);
    } else {
        put_int(out, v);
        if (f->kind == TABLE_STRING && v >= 0 && f->n == 1) put_comment(out, strings + v);
    }
}

static size_t field_bytes(const TableField *f)
{
    return f->n * (f->kind == TABLE_STRUCT ? f->type->bytes : sizeof(int64_t));
}

static void put_row(const TableType *t, const char *row, const char *strings, StrBuf *out)
{
    const char *before = "";
    strbuf_puts(out, "{");
    for (unsigned i = 0; i < t->n_fields; i++) {
        const TableField *f = &t->fields[i];
        if (all_zero(row + f->offset, field_bytes(f))) continue;
        strbuf_printf(out, "%s.%s = ", before, f->name);
        if (f->n > 1) strbuf_puts(out, "{");
        for (unsigned k = 0; k < f->n; k++) {
            if (k) strbuf_puts(out, ", ");
            put_cell(f, row + f->offset + k * sizeof(int64_t), strings, out);
        }
        if (f->n > 1) strbuf_puts(out, "}");
        before = ", ";
    }
    strbuf_puts(out, *before ? "}" : "0}");
}

static void put_table(const Table *t, const char *strings, StrBuf *out)
{
    if (!t->n) return;
    strbuf_printf(out, "static const %s model_%s[] = {\n", t->type->name, t->field);
    for (uint32_t i = 0; i < t->n; i++) {
        strbuf_puts(out, "    ");
        put_row(t->type, (const char *)t->rows + i * t->type->bytes, strings, out);
        strbuf_puts(out, ",\n");
    }
    strbuf_puts(out, "};\n");
}

static void put_char(StrBuf *out, char c)
{
    if (c == '"' || c == '\\') strbuf_printf(out, "\\%c", c);
    else if (c == '\n') strbuf_puts(out, "\\n");
    else if (isprint((unsigned char)c) && c != '?') strbuf_add(out, &c, 1);
    else strbuf_printf(out, "\\%03o", (unsigned char)c);
}

/* One line per string; each ends with its NUL. */
static void put_strings(const ModelTables *t, StrBuf *out)
{
    strbuf_puts(out, "static const char model_strings[] =\n");
    for (size_t at = 0; at < t->n_strings;) {
        strbuf_puts(out, "    \"");
        for (; t->strings[at]; at++) {
            put_char(out, t->strings[at]);
            if (t->strings[at] == '\n') strbuf_puts(out, "\"\n    \"");
        }
        at++;
        strbuf_puts(out, at < t->n_strings ? "\\000\"\n" : "\"");
    }
    strbuf_puts(out, ";\n");
}

static void put_kernels(const HostPlan *plan, StrBuf *out)
{
    if (!plan_n_kernels(plan)) return;
    strbuf_printf(out,
                  "static const RtKernelFn model_kernels[%d * %u] = { /* this file holds the "
                  "generic variant */\n",
                  RT_N_VARIANTS, plan_n_kernels(plan));
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++)
        strbuf_printf(out, "    %s,\n", plan_kernel(plan, i, false)->name);
    strbuf_puts(out, "};\n");
}

static void put_model(const HostPlan *plan, const ModelTables *t, StrBuf *out)
{
    const char *p = (const char *)&t->model;
    strbuf_puts(out, "static const RtModel model = {\n");
    for (unsigned i = 0; i < N_MODEL_INTS; i++) {
        int64_t v;
        memcpy(&v, p + i * sizeof v, sizeof v);
        strbuf_printf(out, "    .%s = %lld,\n", model_ints[i], (long long)v);
    }
    strbuf_puts(out, "    .strings = model_strings,\n");
    for (unsigned i = 0; i < N_TABLES; i++)
        if (t->tables[i].n) strbuf_printf(out, "    .%s = model_%s,\n", t->tables[i].field, t->tables[i].field);
    if (plan_n_kernels(plan)) strbuf_puts(out, "    .kernels = model_kernels,\n");
    strbuf_printf(out, "    .manifest = %lld,\n};\n", (long long)t->model.manifest);
}

void emit_c(const HostPlan *plan, const CodegenOptions *o, StrBuf *out)
{
    _Static_assert(offsetof(RtModel, strings) == N_MODEL_INTS * sizeof(int64_t), "RtModel has other integers");
    const ModelTables *t = tables_build(plan, o, out->arena);
    strbuf_printf(out,
                  "/* Model `%s`, written by gnnc %s. Build an executable with\n"
                  "   cc -O2 -ffp-contract=off -fwrapv THIS.c libgnnrt.a -lz -lm -lpthread -ldl */\n",
                  o->name, o->version);
    const KirKernel **kernels = ARENA_ARRAY(out->arena, const KirKernel *, plan_n_kernels(plan) + 1);
    for (uint32_t i = 0; i < plan_n_kernels(plan); i++) kernels[i] = plan_kernel(plan, i, false);
    emit_c_kernels(kernels, plan_n_kernels(plan), out);
    put_structs(t, out);
    put_strings(t, out);
    for (unsigned i = 0; i < N_TABLES; i++) put_table(&t->tables[i], t->strings, out);
    put_kernels(plan, out);
    put_model(plan, t, out);
    strbuf_puts(out, "\nint gnnrt_main(const RtModel *model, int argc, char **argv); /* in libgnnrt.a */\n\n"
                     "int main(int argc, char **argv) { return gnnrt_main(&model, argc, argv); }\n");
}
