/* gnnc: picks the command and prints what it has to say. */
#include "driver/commands.h"
#include "base/file.h"
#include "runtime/cpu.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    char letter;
    int (*run)(Session *);
    const char *help;
} commands[] = {
    {"build", 'b', cmd_build, "compile a model to an executable, a library, C or IR"},
    {"check", 'c', cmd_check, "check a model without data"},
    {"ir", 'i', cmd_ir, "print graph IR, before and after passes"},
    {"fmt", 'f', cmd_fmt, "lay files out in the canonical form"},
    {"test", 't', cmd_test, "run the test blocks of files"},
    {"explain", 'e', cmd_explain, "explain an error code, or a layer as message, aggregate, update"},
    {"doc", 'o', cmd_doc, "show or write the documentation of layers and functions"},
    {"data", 'd', cmd_data, "generate, describe, verify or split a data directory"},
    {"machine", 'm', cmd_machine, "show or measure what this machine can do"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *out)
{
    fputs("gnnc compiles graph neural networks ahead of time.\n\nusage: gnnc COMMAND [OPTIONS] FILE...\n\n", out);
    for (int i = 0; i < N_COMMANDS; i++) fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
    fputs("\n`gnnc COMMAND --help` says more, with examples. A first run:\n\n"
          "  gnnc data generate toy                        a small graph with features and labels\n"
          "  gnnc build model.gnn --data toy -o model      compile for its dims\n"
          "  ./model train --data toy --save w.safetensors\n",
          out);
}

static bool want_colour(const Session *s)
{
    const char *how = opt_value(&s->opt, OPT_COLOUR, "auto");
    if (strcmp(how, "auto") != 0) return strcmp(how, "always") == 0;
    return isatty(STDERR_FILENO) && !getenv("NO_COLOR");
}

/* What to do next, for errors that know nothing better. */
static void add_help(Session *s)
{
    for (uint32_t i = 0; i < s->diags.list.n; i++) {
        Diag *it = s->diags.list.data[i];
        const char *id = diag_codes[it->code].id;
        if (it->help) continue;
        if (it->code == E0612 || it->code == E0613)
            diag_help(&s->diags, it, "`gnnc %s --help` shows how it is used", s->command);
        else diag_help(&s->diags, it, "`gnnc explain %s` says more", id);
    }
}

static void print_diags(Session *s, bool json)
{
    StrBuf text = {.arena = s->arena};
    add_help(s);
    if (json) {
        diags_print_json(&s->diags, &text);
        fputs(strbuf_cstr(&text), stdout);
    } else {
        diags_print(&s->diags, &text, want_colour(s));
        fputs(strbuf_cstr(&text), stderr);
    }
}

static int unknown_command(Session *s, const char *word)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
    Diag *it = diag_error(&s->diags, E0610, (Span){0}, "there is no command `%s`", word);
    const char *near = str_nearest(word, names, N_COMMANDS);
    if (near) diag_help(&s->diags, it, "did you mean `gnnc %s`?", near);
    else diag_help(&s->diags, it, "`gnnc --help` lists the commands");
    return 1;
}

static int run_command(Session *s, int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? 1 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("gnnc " GNNC_VERSION);
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        if (!options_parse(s->arena, commands[i].letter, argc, argv, &s->opt, &s->diags)) return 1;
        if (opt_has(&s->opt, OPT_HELP)) {
            StrBuf text = {.arena = s->arena};
            options_help(commands[i].letter, &text);
            fputs(strbuf_cstr(&text), stdout);
            return 0;
        }
        return commands[i].run(s);
    }
    return unknown_command(s, argv[1]);
}

/* Devices and pipes keep nothing that could be lost. */
static bool file_id(const char *path, struct FileId *id)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    *id = (struct FileId){info.st_dev, info.st_ino};
    return true;
}

void session_reads(Session *s, const char *path)
{
    struct FileId id;
    if (file_id(path, &id)) VEC_PUSH(s->arena, &s->read, id);
}

bool session_spares(Session *s, const char *path)
{
    struct FileId id;
    for (uint32_t i = 0; i < s->written.n; i++) {
        const char *other = s->written.data[i];
        if (!strcmp(other, path) || !file_same(other, path)) continue;
        diag_help(&s->diags,
                  diag_error(&s->diags, E0620, (Span){0}, "the outputs `%s` and `%s` are one file", other, path),
                  "give another name with `-o`, or remove the link");
        return false;
    }
    VEC_PUSH(s->arena, &s->written, path);
    if (!file_id(path, &id)) return true;
    for (uint32_t i = 0; i < s->read.n; i++) {
        if (s->read.data[i].device != id.device || s->read.data[i].inode != id.inode) continue;
        Diag *it = diag_error(&s->diags, E0620, (Span){0}, "the output `%s` is a file that this command reads", path);
        diag_help(&s->diags, it, "give another name with `-o`");
        return false;
    }
    return true;
}

const Source *session_source(Session *s, const char *path)
{
    const char *why = NULL;
    size_t n = 0;
    if (!*path && s->opt.files.n == 0) {
        Source *none = ARENA_NEW(s->arena, Source);
        *none = (Source){"--export", "", 0};
        return none;
    }
    char *text = file_read(s->arena, strcmp(path, "-") == 0 ? "/dev/stdin" : path, (size_t)1 << 28, &n, &why);
    if (!text) {
        diag_error(&s->diags, E0601, (Span){0}, "cannot read `%s`: %s", path, why);
        return NULL;
    }
    session_reads(s, path);
    Source *src = ARENA_NEW(s->arena, Source);
    *src = (Source){path, text, (uint32_t)n};
    return src;
}

bool session_native_cpu(Session *s, int *variant)
{
    RtStatus st = {0};
    if (rt_cpu_allowed(variant, &st) == RT_OK) return true;
    diag_help(&s->diags, diag_error(&s->diags, E0612, (Span){0}, "%s: %s", st.place, st.message), "%s", st.hint);
    return false;
}

const char *session_one_file(Session *s, const char *what)
{
    if (s->opt.files.n == 1) return s->opt.files.data[0];
    if (s->opt.files.n == 0 && opt_has(&s->opt, OPT_EXPORT)) return "";
    diag_error(&s->diags, E0613, (Span){0}, "one %s is wanted, found %u", what, s->opt.files.n);
    return NULL;
}

/* What the command has to say, and whether all that it printed arrived. Returns the exit code; code: the command's
   own. */
static int finish(Session *s, int code)
{
    if (!s->printed_json) print_diags(s, strcmp(opt_value(&s->opt, OPT_FORMAT, "text"), "json") == 0);
    int worst = diags_exit_code(&s->diags);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        s->diags = (Diags){.arena = s->arena};
        diag_error(&s->diags, E0602, (Span){0}, "cannot write to standard output");
        print_diags(s, false);
        if (!worst) worst = diags_exit_code(&s->diags);
    }
    return worst ? worst : code;
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, not a kill */
    Session s = {.command = argc > 1 ? argv[1] : "", .arena = arena_new(), .n_edges = -1};
    s.diags.arena = s.arena;
    int code = finish(&s, run_command(&s, argc, argv));
    arena_free(s.arena);
    return code;
}
