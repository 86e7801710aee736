/* gnnc machine: what the load-time selector of executables knows of this machine. Without --probe it shows the figures of
   the last probe, or the built-in ones; with it, it measures and keeps them. Compilation does not read them. */
#include "driver/commands.h"
#include "runtime/machine.h"
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

int cmd_machine(Session *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = (int)opt_int(&s->opt, OPT_THREADS, cores > 0 ? cores : 1, 1, 256, &s->diags);
    if (s->opt.files.n) diag_error(&s->diags, E0613, (Span){0}, "no file is wanted, found `%s`", s->opt.files.data[0]);
    if (s->diags.n_errors) return 1;
    RtMachine m;
    int variant;
    if (!session_native_cpu(s, &variant)) return 1;
    if (opt_has(&s->opt, OPT_PROBE)) {
        int code = probe(s, threads, &m);
        if (code) return code;
    } else {
        rt_machine_load(threads, &m);
    }
    rt_machine_print(&m, opt_has(&s->opt, OPT_JSON), stdout);
    return 0;
}
