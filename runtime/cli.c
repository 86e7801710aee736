/* gnnrt_main: from argv to a command and an exit code (see cli.h). The only place that prints
   errors. */
#include "runtime/cli.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *needs, *summary, *example;
} commands[] = {
#define COMMAND(id, name, needs, summary, example) {name, needs, summary, example},
#include "runtime/commands.def"
#undef COMMAND
};
static RtCode (*const command_run[])(RtCli *) = {rt_cli_train, rt_cli_infer, rt_cli_eval,
                                                 rt_cli_bench, rt_cli_info,  rt_cli_plan};
_Static_assert(sizeof command_run / sizeof *command_run == N_COMMANDS, "one function per command");

void rt_cli_usage(const RtModel *m, const char *program)
{
    printf("%s: the graph neural network `%s`, compiled\n\nusage: %s COMMAND [flags]\n\n", program,
           rt_string(m, m->name), program);
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-7s %s\n", commands[i].name, commands[i].summary);
    printf("\n%s COMMAND --help explains a command and shows its flags.\n", program);
}

static int command_find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return i;
    return -1;
}

static RtCode unknown_command(RtStatus *st, const char *name)
{
    const char *names[N_COMMANDS];
    char hint[128];
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    const char *near = rt_cli_nearest(name, names, N_COMMANDS);
    snprintf(hint, sizeof hint, near ? "did you mean `%s`?" : "--help lists the commands", near ? near : "");
    return rt_fail(st, RT_E_CLI_COMMAND, NULL, hint, "unknown command `%s`", name);
}

static RtCode check_abi(const RtModel *m, RtStatus *st)
{
    if (m->abi_version == RT_ABI_VERSION) return RT_OK;
    return rt_fail(st, RT_E_MODEL_ABI, NULL, "build the model again with the compiler of this runtime",
                   "the model has ABI version %lld, the runtime %d", (long long)m->abi_version, RT_ABI_VERSION);
}

static void print_hypers(const RtModel *m)
{
    bool first = true;
    for (int64_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].kind != RT_HYPER || rt_hyper_is_run(m, i)) continue;
        printf("%s  --set %s=%g\n", first ? "\nhypers of this model, with their defaults:\n" : "",
               rt_string(m, m->tensors[i].name), m->tensors[i].hyper_default);
        first = false;
    }
}

void rt_cli_help(const RtCli *c)
{
    static const struct {
        const char *flag, *argument, *help;
        int commands;
    } options[] = {
#define OPTION(id, flag, argument, commands, help) {flag, argument, help, commands},
#include "runtime/options.def"
#undef OPTION
    };
    printf("%s %s: %s\n\nexample:\n  %s %s\n\nflags:\n", c->program, commands[c->command].name,
           commands[c->command].summary, c->program, commands[c->command].example);
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[64];
        if (!(options[i].commands & 1 << c->command)) continue;
        snprintf(left, sizeof left, "--%s %s", options[i].flag, options[i].argument);
        printf("  %-18s %s\n", left, options[i].help);
    }
    if (c->command == CMD_TRAIN) print_hypers(c->model);
    printf("\nexit codes: 0 ok, 1 usage, 2 malformed file, 3 file that does not fit the model, 4 "
           "out of memory,\n"
           "5 not a number, 6 input or output, 7 a process of the run is lost, 8 processes differ,\n"
           "75 interrupted and resumable\n");
}

static bool has_params(const RtModel *m)
{
    for (int64_t i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].kind == RT_PARAM) return true;
    return false;
}

static RtCode check_needs(RtCli *c)
{
    char needs[128];
    snprintf(needs, sizeof needs, "%s", commands[c->command].needs);
    for (char *rest = needs, *flag; (flag = strtok_r(rest, " ", &rest));) {
        int option = !strcmp(flag, "data") ? OPT_DATA : !strcmp(flag, "weights") ? OPT_WEIGHTS : OPT_OUT;
        char hint[300];
        if (c->values[option] || (option == OPT_WEIGHTS && !has_params(c->model))) continue;
        snprintf(hint, sizeof hint, "for example: %.80s %s", c->program, commands[c->command].example);
        return rt_fail(c->st, RT_E_CLI_MISSING, commands[c->command].name, hint, "--%s is missing", flag);
    }
    return RT_OK;
}

static RtCode run_command(RtCli *c, int argc, char **argv)
{
    RT_TRY(rt_cli_parse(c, argc, argv));
    if (c->values[OPT_HELP]) {
        rt_cli_help(c);
        return RT_OK;
    }
    RT_TRY(check_needs(c));
    RT_TRY(rt_cli_device(c));
    RT_TRY(rt_cli_spare(c));
    if (rt_cli_is_sim(c)) return rt_cli_sim(c);
    bool shared = c->command == CMD_TRAIN || c->command == CMD_EVAL || c->command == CMD_INFER ||
                  c->command == CMD_PLAN;
    RtCode code = shared ? rt_cli_ranks_open(c, argv - 2) : RT_OK;
    if (!code) code = command_run[c->command](c);
    if (shared) rt_cli_ranks_close(c, code);
    return code;
}

static RtCode run_main(const RtModel *m, int argc, char **argv, bool *silent, RtStatus *st)
{
    const char *name = argc > 0 ? argv[0] : "program";
    RT_TRY(check_abi(m, st));
    if (argc < 2) {
        rt_cli_usage(m, name);
        return rt_fail(st, RT_E_CLI_MISSING, NULL, "--help lists the commands", "no command was given");
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        rt_cli_usage(m, name);
        return RT_OK;
    }
    RtCli c = {.model = m, .program = name, .command = command_find(argv[1]), .st = st};
    c.terminal = isatty(1);
    if (c.command < 0) return unknown_command(st, argv[1]);
    RtCode code = run_command(&c, argc - 2, argv + 2);
    *silent = c.silent;
    return code;
}

int gnnrt_main(const RtModel *model, int argc, char **argv)
{
    char text[1536];
    RtStatus st = {0};
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, not a kill */
    bool silent = false;
    RtCode code = run_main(model, argc, argv, &silent, &st);
    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && !code) code = rt_fail_errno(&st, RT_E_FILE_WRITE, "standard output");
    if (!code) return 0;
    rt_status_text(&st, text, sizeof text);
    if (!silent) fputs(text, stderr);
    return rt_code_exit(code);
}
