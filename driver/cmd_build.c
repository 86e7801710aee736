/* gnnc build: the whole pipeline as one column, then the forms that were asked for. */
#include "base/file.h"
#include "base/ice.h"
#include "codegen/codegen.h"
#include "driver/pipeline.h"
#include "driver/remarks.h"
#include "base/sha256.h"
#include "passes/context/machine.h"
#include "passes/pipeline/pipeline.h"
#include "passes/group/schedule_text.h"
#include "runtime/cpu.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Build {
    Session *s;
    PassContext ctx;
    CodegenOptions cg;
    const IrModule *elaborated, *optimised; /* graph IR before and after the passes */
    const HostPlan *plan;
    const HostPlan *device_plan;   /* for GPUs, with the bits of `plan`; NULL: --target cpu */
    const Machine *device_machine; /* that it is scheduled for */
    PassBudget budget;
    CudaCode cuda;     /* of --target cuda */
    const char *out;   /* -o, or the model file's stem */
    bool dense_inputs; /* some form takes whole tensors from its callers, any time: no pass `sparse`, no `hoist` */
    bool shim;         /* --target shim, for tests: kernels for GPUs, compiled for this CPU */
    bool for_gpus;     /* --target cuda: a schedule, and texts of plans and kernels, are those for GPUs */
    bool one_form;     /* -o is then the file itself; else what names begin with */
} Build;

static bool write_text(Build *b, const char *path, const char *text, size_t n)
{
    const char *why = NULL;
    if (file_write(b->s->arena, path, text, n, 0644, &why)) return true;
    diag_error(&b->s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
    return false;
}

static const char *name_with(Build *b, const char *suffix) { return arena_printf(b->s->arena, "%s%s", b->out, suffix); }

/* Where a form of one file goes: OUT itself if it is the only form and has been named, else OUT + suffix. */
static const char *form_path(Build *b, const char *suffix)
{
    bool named = opt_has(&b->s->opt, OPT_OUTPUT);
    size_t n = strlen(b->out), m = strlen(suffix);
    if (b->one_form && named && n > m && strcmp(b->out + n - m, suffix) == 0) return b->out;
    return name_with(b, suffix);
}

static bool form_exe(Build *b) { return build_exe(b->plan, &b->cg, b->out, b->s->arena, &b->s->diags); }
static bool form_lib(Build *b) { return build_lib(b->plan, &b->cg, b->out, b->s->arena, &b->s->diags); }
static bool form_obj(Build *b) { return build_object(b->plan, &b->cg, form_path(b, ".o"), b->s->arena, &b->s->diags); }

static const HostPlan *shown_plan(const Build *b) { return b->for_gpus ? b->device_plan : b->plan; }

static void text_header(Build *b, StrBuf *t) { emit_header(b->plan, &b->cg, t); }
static void text_manifest(Build *b, StrBuf *t) { emit_manifest(b->plan, &b->cg, t); }
static void text_c(Build *b, StrBuf *t) { emit_c(b->plan, &b->cg, t); }
static void text_ll(Build *b, StrBuf *t) { emit_ll(b->plan, &b->cg, b->s->arena, t); }
static void text_cu(Build *b, StrBuf *t) { emit_cuda(b->device_plan, &b->cg, t); }
static void text_ptx(Build *b, StrBuf *t) { strbuf_add(t, b->cuda.ptx.bytes, b->cuda.ptx.n); }
static void text_gir(Build *b, StrBuf *t) { ir_print(b->optimised, t); }
static void text_schedule(Build *b, StrBuf *t) { strbuf_puts(t, shown_plan(b)->schedule); }
static void text_plan(Build *b, StrBuf *t) { plan_print(shown_plan(b), t); }
static void text_kir(Build *b, StrBuf *t) { plan_print_kernels(shown_plan(b), t); }

static const char *cubin_path(Build *b, uint32_t i)
{
    const char *suffix = arena_printf(b->s->arena, ".%s.cubin", b->cuda.archs[i].name);
    return b->cuda.n == 1 ? form_path(b, suffix) : name_with(b, suffix);
}

static bool form_cubin(Build *b)
{
    for (uint32_t i = 0; i < b->cuda.n; i++)
        if (!write_text(b, cubin_path(b, i), b->cuda.archs[i].code.bytes, b->cuda.archs[i].code.n)) return false;
    return true;
}

typedef enum { FOR_CPU = 1, FOR_CUDA = 2, FOR_ALL = 3 } Target;
typedef struct Form {
    const char *name, *suffix;
    bool (*file)(Build *);           /* writes by itself, or */
    void (*text)(Build *, StrBuf *); /* a text that goes to OUT + suffix */
    bool dense_inputs;               /* callers give whole tensors */
    Target target;                   /* for which it is built */
} Form;

static const Form forms[] = {
    {"exe", "", form_exe, NULL, false, FOR_ALL},
    {"lib", "", form_lib, NULL, true, FOR_ALL},
    {"obj", ".o", form_obj, NULL, true, FOR_CPU},
    {"header", ".h", NULL, text_header, true, FOR_ALL},
    {"manifest", ".json", NULL, text_manifest, false, FOR_ALL},
    {"c", ".c", NULL, text_c, false, FOR_CPU},
    {"ll", ".ll", NULL, text_ll, false, FOR_CPU},
    {"cu", ".cu", NULL, text_cu, false, FOR_CUDA},
    {"ptx", ".ptx", NULL, text_ptx, false, FOR_CUDA},
    {"cubin", ".cubin", form_cubin, NULL, false, FOR_CUDA},
    {"gir", ".gir", NULL, text_gir, false, FOR_ALL},
    {"kir", ".kir", NULL, text_kir, false, FOR_ALL},
    {"plan", ".plan", NULL, text_plan, false, FOR_ALL},
    {"schedule", ".schedule", NULL, text_schedule, false, FOR_ALL},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static const Form *find_form(Session *s, const char *name)
{
    const char *names[N_FORMS];
    for (int i = 0; i < N_FORMS; i++) {
        if (strcmp(forms[i].name, name) == 0) return &forms[i];
        names[i] = forms[i].name;
    }
    Diag *it = diag_error(&s->diags, E0612, (Span){0}, "`--emit` knows no form `%s`", name);
    const char *near = str_nearest(name, names, N_FORMS);
    if (near) diag_help(&s->diags, it, "did you mean `%s`?", near);
    else
        diag_help(&s->diags, it,
                  "forms: exe, lib, obj, header, manifest, c, ll, cu, ptx, cubin, gir, kir, plan, schedule");
    return NULL;
}

static bool target_is_cuda(const char *target) { return !strcmp(target, "cuda") || !strcmp(target, "all"); }

static bool target_has(Session *s, const Form *f, const char *target)
{
    if (f->target & (target_is_cuda(target) ? FOR_CUDA : FOR_CPU)) return true;
    if (f->target == FOR_CUDA) diag_error(&s->diags, E0612, (Span){0}, "`--emit=%s` wants `--target cuda`", f->name);
    else
        diag_error(&s->diags, E0910, (Span){0},
                   "`--target %s` with `--emit=%s` is not built yet; exe, lib, header, cu, ptx, cubin and manifest are",
                   target, f->name);
    return false;
}

static bool write_form(Build *b, const Form *f)
{
    if (f->file) return f->file(b);
    StrBuf text = {.arena = b->s->arena};
    f->text(b, &text);
    return write_text(b, form_path(b, f->suffix), strbuf_cstr(&text), text.n);
}

/* The file's stem as a C identifier. */
static const char *stem_name(Arena *a, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    size_t n = strcspn(base, ".");
    char *name = arena_printf(a, "m%.*s", (int)n, base);
    for (char *p = name; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *p)) *p = '_';
    bool letter = n && (name[1] < '0' || name[1] > '9');
    return letter ? name + 1 : name;
}

static bool read_cpu(Build *b)
{
    const char *text = opt_value(&b->s->opt, OPT_CPU, NULL);
    int native;
    if (!text) return true;
    if (!session_native_cpu(b->s, &native)) return false;
    Words w = opt_words(b->s->arena, text);
    for (uint32_t i = 0; i < w.n; i++) {
        unsigned bit = 0;
        for (int v = 0; v < RT_N_VARIANTS; v++)
            if (strcmp(w.data[i], rt_cpu_name(v)) == 0 || (v == native && strcmp(w.data[i], "native") == 0))
                bit = 1u << v;
        if (!bit) {
            diag_error(&b->s->diags, E0612, (Span){0}, "`--cpu` wants generic, avx2, avx512 or native, found `%s`",
                       w.data[i]);
            return false;
        }
        b->cg.variants |= bit;
    }
    return true;
}

/* sm_ and a number, which the GPU's kind may follow: sm_90a. In order: the last is the newest. */
static void read_archs(Build *b)
{
    Words w = opt_words(b->s->arena, opt_value(&b->s->opt, OPT_ARCH, "sm_80,sm_90,sm_100"));
    b->cuda = (CudaCode){.archs = ARENA_ARRAY(b->s->arena, struct CudaArch, w.n + 1), .n = w.n};
    b->cg.cuda = &b->cuda;
    for (uint32_t i = 0; i < w.n; i++) {
        const char *number = w.data[i] + 3;
        size_t digits = strncmp(w.data[i], "sm_", 3) ? 0 : strspn(number, "0123456789"),
               rest = digits ? strlen(number + digits) : 2;
        b->cuda.archs[i].name = w.data[i];
        if (digits < 2 || digits > 3 || rest > 1 || strspn(number + digits, "abcdefghijklmnopqrstuvwxyz") != rest)
            diag_error(&b->s->diags, E0612, (Span){0}, "`--arch` wants GPUs as sm_90, found `%s`", w.data[i]);
    }
    if (!w.n) diag_error(&b->s->diags, E0612, (Span){0}, "`--arch` wants GPUs as sm_90, found none");
}

/* Machines of the same numbers have the same digest, whatever they are called. */
static CodegenMachine named_machine(Build *b, const Machine *m)
{
    char hex[65];
    const char *rows = machine_rows_text(m, b->s->arena);
    sha256_hex(rows, strlen(rows), hex);
    return (CodegenMachine){m->name, arena_strndup(b->s->arena, hex, 16)};
}

static bool read_options(Build *b, const char *path)
{
    Session *s = b->s;
    const char *exported = opt_value(&s->opt, OPT_EXPORT, "");
    if (!*path) path = arena_strndup(s->arena, exported, strcspn(exported, "("));
    const char *stem = stem_name(s->arena, path), *target = opt_value(&s->opt, OPT_TARGET, "cpu");
    b->cg = (CodegenOptions){.name = opt_value(&s->opt, OPT_PREFIX, stem),
                             .version = GNNC_VERSION,
                             .time = opt_has(&s->opt, OPT_TIME),
                             .quick = opt_has(&s->opt, OPT_QUICK)};
    b->cg.machine = named_machine(b, b->ctx.machine);
    b->out = opt_value(&s->opt, OPT_OUTPUT, stem);
    if (strcmp(stem_name(s->arena, b->cg.name), b->cg.name) != 0)
        diag_error(&s->diags, E0612, (Span){0}, "`--prefix` wants a C identifier, found `%s`", b->cg.name);
    if (target_is_cuda(target)) read_archs(b);
    else if (opt_has(&s->opt, OPT_ARCH)) diag_error(&s->diags, E0612, (Span){0}, "`--arch` wants `--target cuda`");
    b->for_gpus = strcmp(target, "cuda") == 0;
    b->shim = strcmp(target, "shim") == 0;
    if (!target_is_cuda(target) && !b->shim && strcmp(target, "cpu") != 0)
        diag_error(&s->diags, E0612, (Span){0}, "`--target` wants cpu, cuda or all, found `%s`", target);
    if (!b->cg.cuda && !b->shim && opt_has(&s->opt, OPT_DEVICE_MACHINE))
        diag_error(&s->diags, E0612, (Span){0}, "`--device-machine` wants `--target cuda` or `all`");
    return read_cpu(b) && s->diags.n_errors == 0;
}

/* 4096, 512K, 300M, 2G: powers of 1024. */
static bool parse_bytes(const char *text, int64_t *bytes)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    *bytes = strtoll(text, &end, 10);
    if (errno || end == text || *bytes < 0) return false;
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (const char *u = units; unit && u <= unit; u++)
        if (__builtin_mul_overflow(*bytes, 1024, bytes)) return false;
    return !end[unit != NULL];
}

/* Whether lists of edges say which nodes there are. */
static bool is_typed(const IrModule *m)
{
    bool read = false, whole = false;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        read |= ir_graph_is_read(m->graphs.data[i].kind);
        whole |= m->graphs.data[i].kind == IR_GRAPH_DATA;
    }
    return read && !whole;
}

/* Rows of each kind of nodes and edges of --data. */
static bool read_rows(Build *b)
{
    Session *s = b->s;
    const IrModule *m = b->elaborated;
    const IrSpace *unknown = NULL;
    int64_t *rows = opt_has(&s->opt, OPT_DATA) ? facts_rows(s, m, opt_value(&s->opt, OPT_DATA, "")) : NULL;
    if (s->diags.n_errors) return false;
    for (uint32_t i = 0; i < m->graphs.n; i++) {
        const IrGraph *g = &m->graphs.data[i];
        IrId spaces[] = {g->src_space, g->dst_space, g->kind == IR_GRAPH_FILE ? g->edge : g->src_space};
        for (int k = 0; k < 3 && ir_graph_is_read(g->kind); k++)
            if (!rows || rows[spaces[k]] < 0) unknown = &m->spaces.data[spaces[k]];
    }
    b->budget.rows = rows;
    b->budget.n_rows = m->spaces.n;
    if (!unknown) return true;
    Diag *it = diag_error(&s->diags, E0612, unknown->span, "`--memory-budget` wants to know how many rows `%s` has",
                          unknown->name);
    diag_help(&s->diags, it, "give --data DIR with the arrays of the model's relations, and num_%ss in meta.json",
              unknown->name);
    return false;
}

/* --memory-budget wants counts: those of --data. */
static bool read_budget(Build *b)
{
    Session *s = b->s;
    const char *text = opt_value(&s->opt, OPT_BUDGET, NULL);
    if (!text) return true;
    if (!parse_bytes(text, &b->budget.bytes)) {
        diag_error(&s->diags, E0612, (Span){0},
                   "`--memory-budget` wants bytes as in 4096, 512K, 300M or 2G, found `%s`", text);
        return false;
    }
    b->budget.nodes = s->n_nodes;
    b->budget.edges = s->n_edges;
    b->budget.graphs = s->n_graphs;
    b->ctx.budget = &b->budget;
    if (is_typed(b->elaborated)) return read_rows(b);
    if (s->n_nodes && s->n_edges >= 0) return true;
    Diag *it = diag_error(&s->diags, E0612, (Span){0},
                          "`--memory-budget` wants to know how many nodes and edges there are");
    diag_help(&s->diags, it, "give --data DIR with edge_index.npy and x.npy or meta.json");
    return false;
}

/* --schedule says what fuse and schedule, and a memory budget, would choose. */
static bool read_schedule(Build *b)
{
    Session *s = b->s;
    if (!opt_has(&s->opt, OPT_SCHEDULE)) return true;
    const char *other = b->ctx.budget                    ? "--memory-budget"
                        : b->ctx.disabled[PASS_fuse]     ? "--disable=fuse"
                        : b->ctx.disabled[PASS_schedule] ? "--disable=schedule"
                                                         : NULL;
    if (other) {
        diag_error(&s->diags, E0612, (Span){0},
                   "`%s` and `--schedule` both say what is stored and how kernels run: give one of them", other);
        return false;
    }
    const Source *src = session_source(s, opt_value(&s->opt, OPT_SCHEDULE, ""));
    b->ctx.schedule = src ? schedule_parse(s->arena, src, &s->diags) : NULL;
    return b->ctx.schedule != NULL;
}

/* A .gir file may hold what the passes `sparse` and `hoist` made: only executables know where that comes from. */
static bool inputs_fit(Build *b)
{
    for (uint32_t i = 0; i < b->elaborated->tensors.n && b->dense_inputs; i++) {
        const IrTensor *t = &b->elaborated->tensors.data[i];
        if (ir_dtype_is_16_bits(t->type.dtype) && t->kind == IR_INPUT) {
            diag_error(&b->s->diags, E0910, t->span,
                       "a library with an input that its callers give in 16 bits, as `%s`, is not built yet", t->name);
            return false;
        }
        if (!t->nonzeros.present && !t->is_map && t->kind != IR_HELD) continue;
        Diag *it = diag_error(&b->s->diags, E0910, t->span,
                              t->kind == IR_HELD
                                  ? "a library computes nothing before its callers give inputs, as `%s` is"
                              : t->is_map ? "a library makes no map of an input before its callers give it, as of `%s`"
                                          : "a library does not take inputs by their nonzeros, as `%s` is",
                              t->name);
        diag_help(&b->s->diags, it, "build it from the model file, or from graph IR without the pass `%s`",
                  t->nonzeros.present ? "sparse" : "hoist");
        return false;
    }
    return true;
}

static bool spares_inputs(Build *b, const Form *f)
{
    if (f->file == form_lib)
        return session_spares(b->s, name_with(b, ".a")) && session_spares(b->s, name_with(b, ".so"));
    for (uint32_t i = 0; f->file == form_cubin && i < b->cuda.n; i++)
        if (!session_spares(b->s, cubin_path(b, i))) return false;
    return f->file == form_cubin || session_spares(b->s, form_path(b, f->suffix));
}

/* The plan for GPUs. Which rows are left out and which steps run strip by strip is of CPUs alone. */
static bool plan_device(Build *b, const struct ScheduleText *schedule)
{
    PassContext ctx = pass_context(b->s->arena, &b->s->diags);
    ctx.verify = b->ctx.verify;
    ctx.budget = b->ctx.budget;
    ctx.schedule = schedule;
    memcpy(ctx.disabled, b->ctx.disabled, sizeof ctx.disabled);
    ctx.disabled[PASS_cone] = ctx.disabled[PASS_connect] = true;
    if (!pipeline_machine(b->s, opt_value(&b->s->opt, OPT_DEVICE_MACHINE, "h200"), &ctx)) return false;
    b->device_machine = ctx.machine;
    b->cg.device_machine = named_machine(b, ctx.machine);
    bool same = !strcmp(b->cg.device_machine.digest, b->cg.machine.digest);
    b->device_plan = same && !schedule ? b->plan : lower_module_like(&ctx, b->optimised, b->plan);
    if (b->device_plan || b->s->diags.n_errors) return b->device_plan;
    if (schedule) {
        diag_error(&b->s->diags, E0506, (Span){0},
                   "with the schedule kernels for GPUs would have other bits than those for CPUs");
        return false;
    }
    pass_remark(&b->ctx, PASS_fuse, false, (Span){0},
                "kernels for GPUs are those for CPUs: of %s they would rescale other sums", ctx.machine->name);
    b->device_plan = b->plan;
    return true;
}

/* How kernels for GPUs are started, their code, and the rates by which programs predict their times. */
static const CodegenDevice *device_of(Build *b)
{
    const Machine *m = b->device_machine;
    RtDeviceRates rates = {.last_bytes = (double)m->last_bytes,
                           .dram_bytes = m->dram_bytes,
                           .cache_bytes = m->cache_bytes,
                           .line_loads = m->line_loads,
                           .issues = m->issues,
                           .step_ns = m->step_ns,
                           .load_ns = m->load_ns,
                           .kernel_ns = m->kernel_ns};
    return cuda_device(b->device_plan, b->cg.cuda, b->shim, rates, b->s->arena);
}

/* --graph-inputs: of a library; executables know all inputs. */
static bool read_graph_inputs(Build *b)
{
    Session *s = b->s;
    const IrModule *m = b->elaborated;
    Words names = opt_words(s->arena, opt_value(&s->opt, OPT_GRAPH_INPUTS, ""));
    const char **inputs = ARENA_ARRAY(s->arena, const char *, m->tensors.n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->tensors.n; i++) {
        const IrTensor *t = &m->tensors.data[i];
        bool index = t->kind == IR_INPUT && !t->type.n_dims && (t->type.dtype == IR_I64 || t->type.dtype == IR_I32);
        if (index) inputs[n++] = t->name;
    }
    const Words all = {inputs, n};
    if (names.n && !b->dense_inputs)
        diag_error(&s->diags, E0612, (Span){0}, "`--graph-inputs` wants one of `--emit=lib`, `obj` and `header`");
    for (uint32_t i = 0; i < names.n; i++) {
        if (words_have(&all, names.data[i])) continue;
        Diag *it = diag_error(&s->diags, E0612, (Span){0},
                              "`--graph-inputs`: the model has no input `%s` of one integer for each row",
                              names.data[i]);
        const char *near = str_nearest(names.data[i], inputs, n);
        if (near) diag_help(&s->diags, it, "did you mean `%s`?", near);
    }
    if (b->dense_inputs) b->ctx.graph_inputs = names.data, b->ctx.n_graph_inputs = names.n;
    return s->diags.n_errors == 0;
}

static bool compile(Build *b, const char *path, const Form *const *forms_asked, uint32_t n)
{
    b->elaborated = pipeline_load(b->s, path);
    if (b->elaborated && (!inputs_fit(b) || !read_graph_inputs(b) || !read_budget(b) || !read_schedule(b)))
        return false;
    for (uint32_t i = 0; i < n && b->elaborated; i++)
        if (!spares_inputs(b, forms_asked[i])) return false;
    if (b->elaborated) b->elaborated = ir_without_tests(b->s->arena, b->elaborated);
    if (b->elaborated && !b->ctx.disabled[PASS_pairs]) pipeline_pairs(b->s, b->elaborated, &b->ctx);
    b->budget.pairs = b->ctx.pairs;
    b->budget.n_pairs = b->ctx.n_pairs;
    b->optimised = b->elaborated ? pass_run_pipeline(&b->ctx, b->elaborated) : NULL;
    const struct ScheduleText *schedule = b->ctx.schedule;
    if (b->for_gpus) b->ctx.schedule = NULL;
    b->plan = b->optimised ? lower_module(&b->ctx, b->optimised) : NULL;
    if (!b->plan || ((b->cg.cuda || b->shim) && !plan_device(b, b->for_gpus ? schedule : NULL))) return false;
    if (b->plan->programs.n) return true;
    Diag *it = diag_error(&b->s->diags, E0408, (Span){0}, "%s: there is no model to build", path);
    diag_help(&b->s->diags, it, "`--export LAYER` compiles one layer of a file without a model");
    return false;
}

static void print_times(const Build *b, double front)
{
    fprintf(stderr, "time %-10s %8.3f ms\n", "to plan", front);
    pipeline_print_times(&b->ctx, stderr);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int cmd_build(Session *s)
{
    Build b = {.s = s};
    const Form *chosen[N_FORMS];
    const char *path = session_one_file(s, "model file");
    if (!path || !pipeline_context(s, &b.ctx) || !remarks_read(s, &b.ctx) || !read_options(&b, path)) return 1;
    const char *target = opt_value(&s->opt, OPT_TARGET, "cpu");
    Words emit = opt_words(s->arena, opt_value(&s->opt, OPT_EMIT, "exe"));
    if (emit.n > N_FORMS) emit.n = N_FORMS;
    for (uint32_t i = 0; i < emit.n; i++)
        if (!(chosen[i] = find_form(s, emit.data[i])) || !target_has(s, chosen[i], target)) return 1;
    bool cubin = false, ptx = false;
    for (uint32_t i = 0; i < emit.n; i++) {
        bool runs = b.cg.cuda && (chosen[i]->file == form_exe || chosen[i]->file == form_lib);
        cubin |= runs || chosen[i]->file == form_cubin;
        ptx |= runs || chosen[i]->text == text_ptx;
    }
    b.one_form = emit.n == 1;
    for (uint32_t i = 0; i < emit.n; i++) b.dense_inputs |= chosen[i]->dense_inputs;
    if (!b.dense_inputs && !opt_has(&s->opt, OPT_VJP)) s->opt.values[OPT_VJP] = "joint";
    b.ctx.disabled[PASS_sparse] |= b.dense_inputs;
    b.ctx.disabled[PASS_hoist] |= b.dense_inputs;
    b.ctx.disabled[PASS_cone] |= b.dense_inputs;
    b.ctx.store_inputs = !b.dense_inputs;
    double start = now_ms();
    if (!compile(&b, path, chosen, emit.n)) return 1;
    remarks_print(s, &b.ctx, stderr);
    double compiled = now_ms();
    if (opt_has(&s->opt, OPT_TIME)) print_times(&b, compiled - start);
    CodeCache cache = opt_has(&s->opt, OPT_NO_CACHE) ? (CodeCache){0} : code_cache_open(s->arena);
    if ((cubin || ptx) && !cuda_compile(b.device_plan, &b.cg, &b.cuda, cubin, ptx, &cache, s->arena, &s->diags))
        return 1;
    if (b.device_plan) b.cg.device = device_of(&b);
    if (cache.why) fprintf(stderr, "gnnc: remark: %s\n", cache.why);
    if (opt_has(&s->opt, OPT_TIME) && (cubin || ptx))
        fprintf(stderr, "time %-10s %8.3f ms\n", "for GPUs", now_ms() - compiled);
    for (uint32_t i = 0; i < emit.n; i++)
        if (!write_form(&b, chosen[i])) return 1;
    return 0;
}
