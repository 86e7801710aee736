/* gnnc machine: what is known of this machine, from which `plan` of executables predicts times. Without --probe it
   shows the figures of the last probe, or the built-in ones; with it, it measures and keeps them. Compilation does not
   read them; -o writes them as a file that a build may be given. */
#include "base/file.h"
#include "driver/commands.h"
#include "driver/machine_file.h"
#include <stdlib.h>
#include <unistd.h>

/* A status of the runtime as a diagnostic of the compiler. */
static int report(Session *s, const RtStatus *st)
{
    Diag *it = diag_error(&s->diags, E0602, (Span){0}, "%s: %s", st->place, st->message);
    if (st->hint[0]) diag_help(&s->diags, it, "%s", st->hint);
    return rt_code_exit(st->code);
}

static int probe(Session *s, int threads, RtMachine *m)
{
    RtStatus st = {0};
    char *path = NULL;
    RtCode code = rt_machine_probe(threads, m, &st);
    if (!code) code = rt_machine_save(m, &path, &st);
    free(path);
    return code ? report(s, &st) : 0;
}

/* For `gnnc build --machine`. */
static int write_machine(Session *s, const RtMachine *figures, const char *path)
{
    Machine m = machine_of_figures(figures);
    StrBuf text = {.arena = s->arena};
    const char *why = NULL;
    strbuf_printf(&text, "# %s by `gnnc machine`; rows: docs/passes.md, \"The machine\"\n",
                  figures->probed ? "measured" : "built-in figures, not measured,");
    machine_print(&m, &text);
    if (file_write(s->arena, path, strbuf_cstr(&text), text.n, 0644, &why)) return 0;
    diag_error(&s->diags, E0602, (Span){0}, "cannot write `%s`: %s", path, why);
    return 1;
}

static const char of_gpus[] =
    "\nThe time of a kernel on a GPU is predicted as kernel_ns for each launch, and the longest of\n"
    "  memory  bytes of memory, each once, and again what 0.6 of last_bytes do not hold, over dram_bytes\n"
    "  cache   sectors that blocks ask the second cache for, over cache_bytes\n"
    "  lines   lines that accesses of warps touch in the first cache and in shared memory, over line_loads\n"
    "  issue   instructions of warps, over issues\n"
    "  path    of the team of lanes that takes longest: step_ns for each instruction and ten times that for each load, "
    "and "
    "load_ns\n"
    "          for each load that its block's first cache has not\n"
    "by the column of `gnnc build --device-machine` (h200): `bench --device shim --count` counts these, `plan --device "
    "cuda` estimates them from sizes.\n";

static int explain(Session *s)
{
    StrBuf text = {.arena = s->arena};
    machine_explain(&text);
    printf("%s%s", strbuf_cstr(&text), of_gpus);
    return 0;
}

int cmd_machine(Session *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = (int)opt_int(&s->opt, OPT_THREADS, cores > 0 ? cores : 1, 1, 256, &s->diags);
    if (s->opt.files.n) diag_error(&s->diags, E0613, (Span){0}, "no file is wanted, found `%s`", s->opt.files.data[0]);
    if (s->diags.n_errors) return 1;
    if (opt_has(&s->opt, OPT_EXPLAIN)) return explain(s);
    RtMachine m;
    int variant;
    if (!session_native_cpu(s, &variant)) return 1;
    if (opt_has(&s->opt, OPT_PROBE)) {
        int code = probe(s, threads, &m);
        if (code) return code;
    } else {
        rt_machine_load(threads, &m);
    }
    if (opt_has(&s->opt, OPT_OUTPUT)) return write_machine(s, &m, opt_value(&s->opt, OPT_OUTPUT, ""));
    rt_machine_print(&m, opt_has(&s->opt, OPT_JSON), stdout);
    return 0;
}
