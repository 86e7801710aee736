/* Command-line parsing over options.def; contracts in options.h. Knows no command's meaning. */
#include "driver/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct OptInfo {
    const char *commands, *name, *value, *help;
    char letter;
} OptInfo;

static const OptInfo infos[N_OPTS] = {
#define OPT(id, commands, name, letter, value, help) {commands, name, value, help, letter},
#include "driver/options.def"
#undef OPT
};

static const struct {
    char letter;
    const char *usage, *text, *examples;
} commands[] = {
    {'b', "gnnc build MODEL.gnn [-o OUT] [--data DIR | --set F=1433,C=7]",
     "Compiles a model to an executable that trains, infers and measures itself, or to the forms of --emit.\n"
     "The sizes of feature dims are fixed here: --data reads them from a data folder, --set names them one by one.\n\n"
     "forms of --emit:\n"
     "  exe        an executable with the commands train, infer, eval, bench, info and plan (default)\n"
     "  lib        OUT.a and OUT.so: a C library without dependencies but libc and libm; see header\n"
     "  header     OUT.h: the library's interface for C99 and C++\n"
     "  manifest   OUT.json: inputs, parameters, results and functions, for programs that load the library\n"
     "  obj, ll    OUT.o, OUT.ll: an object file; LLVM IR\n"
     "  c          OUT.c: the same program as readable C\n"
     "  gir, kir, plan   OUT.gir, OUT.kir, OUT.plan: graph IR after the passes, kernels, the steps that call them\n"
     "  schedule   OUT.schedule: how kernels are grouped and tiled, as --schedule takes it\n"
     "  cu, ptx, cubin   OUT.cu, OUT.ptx, OUT.sm_90.cubin ..: kernels for NVIDIA GPUs, with --target=cuda",
     "  gnnc build gcn.gnn --data cora -o gcn     then: ./gcn train --data cora\n"
     "  gnnc build gcn.gnn --set F=64,C=7 --emit=lib,header,manifest -o libgcn\n"
     "  gnnc build gcn.gnn --data cora --emit=c -o gcn      readable C instead of machine code\n"},
    {'c', "gnnc check MODEL.gnn",
     "Checks names, types, domains and dims, also of layers that nothing calls.\n"
     "Needs no data: a dim without a size stands for any size. With --store it interprets the model on the graph of "
     "--data, or on\n"
     "a random one, and says how far each result lies from that of full precision.",
     "  gnnc check gcn.gnn\n  gnnc check --fix gcn.gnn\n  gnnc check --format=json gcn.gnn\n"
     "  gnnc check gcn.gnn --store f16 --data cora --weights w.safetensors\n"},
    {'i', "gnnc ir MODEL.gnn|X.gir|X.kir [--after=PASS] [--run=P1,P2]",
     "Prints graph IR: as elaborated, or after passes. Kernel IR (.kir) is read, checked and printed.\n"
     "A module of graph IR, and the kernels that `lower` prints, are legal input of this command. A pass that runs "
     "several times prints a\n"
     "module for each run, behind a line `# after PASS (run N)`. What fuse, schedule and the passes behind lower print "
     "is to be read by people.",
     "  gnnc ir gcn.gnn --set F=8,C=3\n  gnnc ir gcn.gnn --set F=8,C=3 --run=simplify,autodiff,cse,dce\n"
     "  gnnc ir x.gir --run=cse --time\n  gnnc ir gcn.gnn --set F=8,C=3 --after=all\n"},
    {'f', "gnnc fmt FILE.gnn...", "Writes files in the one canonical layout. Comments are kept.",
     "  gnnc fmt gcn.gnn\n  gnnc fmt --check src/*.gnn\n"},
    {'t', "gnnc test FILE.gnn...", "Runs the `test` blocks of files with the reference interpreter.",
     "  gnnc test gcn.gnn\n"},
    {'e', "gnnc explain CODE | [MODEL.gnn] --as-blocks=LAYER",
     "Says what the code of a message means and how to mend its cause; or shows a layer of a file or of the standard "
     "library as rounds\n"
     "of message, aggregate and update. Inputs that may be left out are left out, but for those that --data holds.",
     "  gnnc explain E0203\n  gnnc explain --as-blocks=sage\n  gnnc explain gat.gnn --as-blocks='gat(H = 8, D = 8)'\n"},
    {'d', "gnnc data generate|info|verify DIR, gnnc data partition DIR -k P -o PARTS",
     "  generate   makes a data folder: a random graph with features, labels and a split\n"
     "  info       says what a data folder or a partition holds\n"
     "  verify     checks every file of a data folder against meta.json and against each other; parts against one "
     "another\n"
     "  partition  splits a data folder into P parts, one for each process that trains",
     "  gnnc data generate toy --nodes=1000 --classes=4\n  gnnc data info cora\n  gnnc data verify cora\n"
     "  gnnc data partition cora -k 4 -o parts     then: gnnc data info parts\n"},
    {'o', "gnnc doc [NAME...] [FILE.gnn...] [--format=text|html] [-o OUT]",
     "Shows what the standard library and your files define: each layer, function and reducer with its options and "
     "their\n"
     "defaults, its comment, the parameters it stores, its place and its tests. Without a NAME it lists all, by "
     "family.\n"
     "HTML is one page that needs nothing beside it.",
     "  gnnc doc\n  gnnc doc softmax_in\n  gnnc doc attention\n  gnnc doc my.gnn\n  gnnc doc -o library.html\n"},
    {'m', "gnnc machine [--probe] [--threads=T] [-o FILE]",
     "Shows sizes, latency and bandwidth of each level of memory and the rate of arithmetic, as executables know them "
     "when\n"
     "they choose how to run on a graph. --probe measures them once and keeps them for later runs. Builds do not read "
     "them: -o writes\n"
     "a file of them for `gnnc build --machine FILE`.",
     "  gnnc machine --probe\n  gnnc machine --json\n  gnnc machine --probe -o this.machine\n"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static bool belongs(int id, char command) { return strchr(infos[id].commands, command) != NULL; }

void options_help(char command, StrBuf *out)
{
    for (int c = 0; c < N_COMMANDS; c++) {
        if (commands[c].letter != command) continue;
        strbuf_printf(out, "usage: %s\n\n%s\n\noptions:\n", commands[c].usage, commands[c].text);
        for (int i = 0; i < N_OPTS; i++) {
            if (!belongs(i, command)) continue;
            char left[64];
            snprintf(left, sizeof left, "%s%c%s--%s%s%s", infos[i].letter ? "-" : " ",
                     infos[i].letter ? infos[i].letter : ' ', infos[i].letter ? ", " : "  ", infos[i].name,
                     !infos[i].value            ? ""
                     : infos[i].value[0] == '[' ? "[="
                                                : "=",
                     !infos[i].value ? "" : infos[i].value + (infos[i].value[0] == '['));
            strbuf_printf(out, "  %-34s %s\n", left, infos[i].help);
        }
        strbuf_printf(out, "\nexamples:\n%s", commands[c].examples);
    }
}

static void unknown_option(char command, const char *word, Diags *d)
{
    const char *names[N_OPTS];
    size_t n = 0;
    for (int i = 0; i < N_OPTS; i++)
        if (belongs(i, command)) names[n++] = infos[i].name;
    char bare[64];
    snprintf(bare, sizeof bare, "%s", word + strspn(word, "-"));
    bare[strcspn(bare, "=")] = 0;
    Diag *it = diag_error(d, E0611, (Span){0}, "this command has no option `%s`", word);
    const char *near = str_nearest(bare, names, n);
    if (near) diag_help(d, it, "did you mean `--%s`?", near);
    else diag_help(d, it, "`--help` lists the options");
}

static int find_long(char command, const char *name, size_t n)
{
    for (int i = 0; i < N_OPTS; i++)
        if (belongs(i, command) && strlen(infos[i].name) == n && strncmp(infos[i].name, name, n) == 0) return i;
    return -1;
}

static int find_short(char command, char letter)
{
    for (int i = 0; i < N_OPTS; i++)
        if (belongs(i, command) && infos[i].letter == letter) return i;
    return -1;
}

static void take(Arena *a, Options *o, int id, const char *value)
{
    o->values[id] = value;
    if (id != OPT_SET) return;
    Words w = opt_words(a, value);
    for (uint32_t i = 0; i < w.n; i++) VEC_PUSH(a, &o->sets, w.data[i]);
}

/* One argument that begins with '-'. Returns how many arguments it used, 0 on error. */
static int parse_option(Arena *a, Options *o, char **argv, int left, Diags *d)
{
    const char *word = argv[0], *value = NULL;
    int id;
    if (word[1] == '-') {
        size_t n = strcspn(word + 2, "=");
        id = find_long(o->command, word + 2, n);
        if (word[2 + n]) value = word + 3 + n;
    } else {
        id = word[1] ? find_short(o->command, word[1]) : -1;
        if (word[1] && word[2]) value = word + 2;
    }
    if (id < 0) {
        unknown_option(o->command, word, d);
        return 0;
    }
    if (!infos[id].value && value) {
        diag_error(d, E0612, (Span){0}, "`--%s` takes no value, found `%s`", infos[id].name, value);
        return 0;
    }
    bool may_lack = !infos[id].value || infos[id].value[0] == '[';
    if (may_lack || value) {
        take(a, o, id, value ? value : "");
        return 1;
    }
    if (left < 2) {
        diag_error(d, E0612, (Span){0}, "`--%s` wants a value: --%s=%s", infos[id].name, infos[id].name,
                   infos[id].value);
        return 0;
    }
    take(a, o, id, argv[1]);
    return 2;
}

bool options_parse(Arena *a, char command, int argc, char **argv, Options *o, Diags *d)
{
    *o = (Options){.command = command};
    bool only_files = false;
    for (int i = 2; i < argc;) {
        if (only_files || argv[i][0] != '-' || !argv[i][1]) {
            VEC_PUSH(a, &o->files, argv[i]);
            i++;
        } else if (strcmp(argv[i], "--") == 0) {
            only_files = true;
            i++;
        } else {
            int used = parse_option(a, o, argv + i, argc - i, d);
            i += used ? used : 1;
        }
    }
    return d->n_errors == 0;
}

bool opt_has(const Options *o, OptId id) { return o->values[id] != NULL; }

const char *opt_value(const Options *o, OptId id, const char *fallback)
{
    return o->values[id] ? o->values[id] : fallback;
}

int64_t opt_int(const Options *o, OptId id, int64_t fallback, int64_t lo, int64_t hi, Diags *d)
{
    if (!o->values[id]) return fallback;
    char *end;
    errno = 0;
    long long v = strtoll(o->values[id], &end, 10);
    if (errno || end == o->values[id] || *end || v < lo || v > hi) {
        diag_error(d, E0612, (Span){0}, "`--%s` wants a whole number from %lld to %lld, found `%s`", infos[id].name,
                   (long long)lo, (long long)hi, o->values[id]);
        return fallback;
    }
    return v;
}

Words opt_words(Arena *a, const char *text)
{
    Words w = {ARENA_ARRAY(a, const char *, strlen(text) + 1), 0};
    while (*text) {
        size_t n = strcspn(text, ",");
        if (n) w.data[w.n++] = arena_strndup(a, text, n);
        text += n + (text[n] == ',');
    }
    return w;
}

bool words_have(const Words *w, const char *word)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (strcmp(w->data[i], word) == 0) return true;
    return false;
}
