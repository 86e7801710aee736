/* Fuzzer of the front end and of the readers of graph and kernel IR. Inputs are made from the repository's programs:
   pieces are exchanged for others of their place in the grammar (gnn_pieces.h), tokens and lines of IR for others of
   their kind. Whatever comes in: no crash, no internal error, no end of patience (10 s), bounded memory, nothing left
   behind; what is refused has an error inside the text; what parses formats to a fixed point; IR that is taken prints
   to itself.

   usage: test_fuzz [COUNT [SEED [FOLDER]]]     execution i depends on SEED + i alone; faults are written to FOLDER
          test_fuzz show NUMBER | one NUMBER    the input of an execution; that execution alone, in this process

   Executions run in a child, which is started anew behind each fault. */
#include "base/file.h"
#include "base/ice.h"
#include "codegen/serial.h"
#include "frontend/frontend.h"
#include "ir/kernel.h"
#include "tests/unit/check.h"
#include "tests/unit/gnn_pieces.h"
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 14, MAX_MIB = 1024, PATIENCE_S = 10, MAX_FAULTS = 20 };
typedef enum { GNN, GIR, KIR, N_LANGUAGES } Language;

/* ---- random choices ---------------------------------------------------------------------------- */

typedef struct Rng {
    uint64_t s;
} Rng;

static uint32_t below(Rng *r, uint32_t n)
{
    r->s += 0x9e3779b97f4a7c15u; /* splitmix64: neighbouring seeds have nothing in common */
    uint64_t z = r->s;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % n);
}

/* ---- seeds -------------------------------------------------------------------------------------- */

typedef VEC(const Source *) Sources;
typedef struct Corpus {
    Arena *arena;
    const FrontendStd *std;
    Pieces pieces; /* of all that parses */
    Sources texts[N_LANGUAGES];
} Corpus;

static const Source *source_new(Arena *a, const char *path, const char *text, size_t n)
{
    Source *s = ARENA_NEW(a, Source);
    *s = (Source){path, arena_strndup(a, text, n), (uint32_t)n};
    return s;
}

static void corpus_text(Corpus *c, Language l, const char *path, const char *text, size_t n)
{
    const Source *s = source_new(c->arena, path, text, n);
    Diags d = {.arena = c->arena};
    if (l == GNN) pieces_file(&c->pieces, ast_parse(c->arena, s, &d));
    if (n < INPUT_BYTES / 2) VEC_PUSH(c->arena, &c->texts[l], s);
}

/* tests/errors: `=== title`, the program, `---`, what it is told. */
static void corpus_errors(Corpus *c, const char *path, const char *text)
{
    for (const char *p = text; (p = strstr(p, "=== "));) {
        const char *from = strchr(p, '\n'), *to = from ? strstr(from, "\n---\n") : NULL;
        if (!to) return;
        corpus_text(c, GNN, path, from + 1, (size_t)(to - from));
        p = to;
    }
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n > k && !strcmp(s + n - k, end);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void corpus_folder(Corpus *c, const char *folder)
{
    DIR *dir = opendir(folder);
    VEC(const char *) names = {0};
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *name = arena_printf(c->arena, "%s/%s", folder, e->d_name);
        VEC_PUSH(c->arena, &names, name);
    }
    if (dir) closedir(dir);
    if (names.n) qsort(names.data, names.n, sizeof *names.data, by_name);
    for (uint32_t i = 0; i < names.n; i++) {
        const char *path = names.data[i], *why;
        size_t n;
        bool errors = ends_in(path, ".txt"), gnn = ends_in(path, ".gnn"), gir = ends_in(path, ".gir");
        if (!errors && !gnn && !gir && !ends_in(path, ".kir")) continue;
        const char *text = file_read(c->arena, path, 0, &n, &why);
        if (!text) continue;
        if (errors) corpus_errors(c, path, text);
        else corpus_text(c, gnn ? GNN : gir ? GIR : KIR, path, text, n);
    }
}

/* Each declaration is a program of its own too, and what it compiles to is a seed for the reader of IR. */
static void corpus_declarations(Corpus *c)
{
    for (uint32_t i = 0; i < c->pieces.of[PIECE_DECL].n; i++) {
        Span s = c->pieces.of[PIECE_DECL].data[i];
        const Source *src = source_new(c->arena, "decl.gnn", s.source->text + s.begin, s.end - s.begin);
        VEC_PUSH(c->arena, &c->texts[GNN], src);
        Arena *a = arena_new();
        Diags d = {.arena = a};
        FrontendOptions o = {.std = c->std, .float_dtype = i % 2 ? IR_F64 : IR_F32, .tests_only = i % 3 == 0};
        const IrModule *m = frontend_compile(a, src, &o, &d);
        StrBuf text = {.arena = a};
        if (m) ir_print(m, &text);
        if (m && m->funcs.n) corpus_text(c, GIR, "decl.gir", text.data, text.n);
        arena_free(a);
    }
}

static Corpus *corpus_new(void)
{
    Arena *a = arena_new();
    Corpus *c = ARENA_NEW(a, Corpus);
    *c = (Corpus){.arena = a, .std = frontend_std_new(a), .pieces = {.arena = a}};
    const char *folders[] = {"frontend/std", "examples",     "tests/lang",  "tests/errors",
                             "tests/ir",     "tests/passes", "tests/kernel"};
    for (uint32_t i = 0; i < sizeof folders / sizeof *folders; i++) corpus_folder(c, folders[i]);
    corpus_declarations(c);
    return c;
}

/* ---- inputs: programs ---------------------------------------------------------------------------- */

typedef struct Input {
    Language language;
    FrontendOptions options;
    uint32_t n;
    char text[INPUT_BYTES + 1];
} Input;

/* Bytes [from, to) become p[0, n); what would grow beyond the room is left alone. */
static void replace(Input *in, uint32_t from, uint32_t to, const char *p, uint32_t n)
{
    if (in->n - (to - from) + n > INPUT_BYTES) return;
    memmove(in->text + from + n, in->text + to, in->n - to);
    if (n) memcpy(in->text + from, p, n);
    in->n = in->n - (to - from) + n;
    in->text[in->n] = 0;
}

static void append(Input *in, const char *p, uint32_t n)
{
    replace(in, in->n, in->n, "\n", in->n > 0);
    replace(in, in->n, in->n, p, n);
}

static const char *const words[] = {
    /* clang-format off */
    "0", "1", "-1", "2147483648", "9223372036854775807", "65536", "1e308", "0.0", "5e-324", "none", "true", "node",
        "edge", "src",
    "dst", "graph", "data", "(", ")", "[", "]", "{", "}", "@", "**", "..", "...", "->", "=", "+=", ":", ",", ".",
        "\n", "if", "else",
    "for", "in", "over", "param", "buffer", "const", "state", "step", "merge", "done", "empty", "return", "adjoint",
        "grad", "fill",
    "by", "on", "as", "\"w\"", "#", "D'", "@d", "index[C]", "int", "bool", "f64", "schema", "forall", "train",
        "test", "and", "not", "<=",
    "x", "F", "H", "4*F", "F/H", "é", "'", "\"", "\\", "\t", "`", "reverse(g)", "line(g)", "self_loops(g)",
        "edge.src", "unit",
    /* clang-format on */
};
enum { N_WORDS = sizeof words / sizeof *words };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool in_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && strchr("_.%'", c));
}

/* A token or a run of blanks around a random byte. */
static Span token_at(const Input *in, uint32_t at)
{
    Span s = {.begin = at, .end = at + (at < in->n)};
    while (s.begin > 0 && in_word(in->text[at]) && in_word(in->text[s.begin - 1])) s.begin--;
    while (s.end < in->n && in_word(in->text[at]) && in_word(in->text[s.end])) s.end++;
    return s;
}

/* Grammar is left: a token is dropped, doubled, exchanged or cut. */
static void break_token(Input *in, Rng *r)
{
    if (!in->n) return;
    Span s = token_at(in, below(r, in->n)), other = token_at(in, below(r, in->n));
    const char *word = words[below(r, N_WORDS)];
    char copy[64];
    uint32_t n = other.end - other.begin;
    n = n < sizeof copy ? n : sizeof copy;
    switch (below(r, 6)) {
    case 0: replace(in, s.begin, s.end, "", 0); break;
    case 1: replace(in, s.begin, s.end, word, (uint32_t)strlen(word)); break;
    case 2: replace(in, s.end, s.end, word, (uint32_t)strlen(word)); break;
    case 3: memcpy(copy, in->text + other.begin, n), replace(in, s.begin, s.end, copy, n); break;
    case 4: memcpy(copy, in->text + other.begin, n), replace(in, s.end, s.end, copy, n); break;
    default: in->text[s.begin] = (char)below(r, 256); break;
    }
}

/* A piece is exchanged for one of its kind, of the same program or of any. */
static void exchange_piece(const Corpus *c, Arena *a, Input *in, Rng *r)
{
    Diags d = {.arena = a};
    Pieces own = {.arena = a};
    const Source *src = source_new(a, "p", in->text, in->n);
    pieces_file(&own, ast_parse(a, src, &d));
    static const PieceKind kinds[] = {PIECE_STMT, PIECE_EXPR, PIECE_EXPR, PIECE_TYPE,
                                      PIECE_NAME, PIECE_NAME, PIECE_DECL};
    PieceKind k = kinds[below(r, 7)];
    if (!own.of[k].n || !c->pieces.of[k].n) return break_token(in, r);
    Span at = own.of[k].data[below(r, own.of[k].n)];
    const Spans *from = below(r, 2) ? &own.of[k] : &c->pieces.of[k];
    Span by = from->data[below(r, from->n)];
    if (k == PIECE_STMT && below(r, 4) == 0) return replace(in, at.begin, at.end, "", 0);
    if (k == PIECE_STMT && below(r, 3) == 0) {
        replace(in, at.begin, at.begin, "\n", 1);
        at.end = at.begin;
    }
    replace(in, at.begin, at.end, by.source->text + by.begin, by.end - by.begin);
}

static void make_program(const Corpus *c, Arena *a, Input *in, Rng *r)
{
    const Sources *seeds = &c->texts[GNN];
    for (uint32_t i = 0, n = 1 + below(r, 2) * below(r, 3); i < n && seeds->n; i++) {
        const Source *s = seeds->data[below(r, seeds->n)];
        append(in, s->text, s->n);
    }
    for (uint32_t i = 0, n = below(r, 5); i < n; i++) exchange_piece(c, a, in, r);
    for (uint32_t i = 0, n = below(r, 8) ? 0 : 1 + below(r, 3); i < n; i++) break_token(in, r);
}

/* What a data folder would say, sizes that were set, and the modes. */
static void make_options(Input *in, Rng *r)
{
    static const FrontendFact facts[] = {
        {.name = "x", .rows = "node", .dtype = IR_F32, .n_dims = 1, .dims = {16}},
        {.name = "y", .rows = "node", .dtype = IR_I64, .classes = 7},
        {.name = "train_mask", .rows = "node", .dtype = IR_BOOL},
        {.name = "edge_attr", .rows = "edge", .dtype = IR_F32, .n_dims = 1, .dims = {4}},
    };
    static const char *const names[] = {"F", "H", "D"};
    static const double sizes[] = {8, 2, 4};
    in->options = (FrontendOptions){
        .symbolic = below(r, 3) > 0, .tests_only = below(r, 8) == 0, .train_mode = below(r, 8) == 0};
    in->options.float_dtype = below(r, 3) ? IR_F32 : IR_F64;
    if (below(r, 3) == 0) in->options.facts = facts, in->options.n_facts = 4;
    if (below(r, 3) == 0)
        in->options.set_names = names, in->options.set_values = sizes, in->options.n_set = below(r, 4);
}

/* ---- inputs: IR ----------------------------------------------------------------------------------- */

static Span line_at(const char *text, uint32_t n, uint32_t at)
{
    Span s = {.begin = at, .end = at};
    while (s.begin > 0 && text[s.begin - 1] != '\n') s.begin--;
    while (s.end < n && text[s.end] != '\n') s.end++;
    s.end += s.end < n;
    return s;
}

/* A line is dropped, doubled, or taken from another text. */
static void exchange_line(Input *in, const Source *other, Rng *r)
{
    if (!in->n) return;
    Span s = line_at(in->text, in->n, below(r, in->n));
    Span o = line_at(other->text, other->n, below(r, other->n + 1));
    if (below(r, 3) == 0) replace(in, s.begin, s.end, "", 0);
    else replace(in, s.begin, below(r, 2) ? s.begin : s.end, other->text + o.begin, o.end - o.begin);
}

/* A token is exchanged for one that begins alike: a value for a value, a number for a number, a word for a word. */
static void exchange_token(Input *in, Rng *r)
{
    if (!in->n) return;
    Span s = token_at(in, below(r, in->n));
    for (uint32_t i = 0; i < 50; i++) {
        Span o = token_at(in, below(r, in->n));
        char x = in->text[s.begin], y = in->text[o.begin], copy[64];
        if ((x == '%') != (y == '%') || is_digit(x) != is_digit(y) || in_word(x) != in_word(y)) continue;
        uint32_t n = o.end - o.begin;
        if (n > sizeof copy) continue;
        memcpy(copy, in->text + o.begin, n);
        return replace(in, s.begin, s.end, copy, n);
    }
}

static void make_ir(const Corpus *c, Input *in, Rng *r)
{
    const Sources *seeds = &c->texts[in->language];
    if (!seeds->n) return;
    const Source *s = seeds->data[below(r, seeds->n)], *other = seeds->data[below(r, seeds->n)];
    append(in, s->text, s->n);
    for (uint32_t i = 0, n = 1 + below(r, 3); i < n; i++) switch (below(r, 4)) {
        case 0: exchange_line(in, below(r, 2) ? s : other, r); break;
        case 1: break_token(in, r); break;
        default: exchange_token(in, r);
        }
}

static void make_input(const Corpus *c, Input *in, uint64_t number)
{
    Rng r = {number};
    Arena *a = arena_new();
    uint32_t which = below(&r, 10);
    in->language = which < 7 ? GNN : which < 9 ? GIR : KIR;
    in->n = 0;
    in->text[0] = 0;
    in->options = (FrontendOptions){0};
    if (in->language == GNN) make_program(c, a, in, &r), make_options(in, &r);
    else make_ir(c, in, &r);
    arena_free(a);
}

/* ---- what must hold -------------------------------------------------------------------------------- */

typedef struct Counts {
    uint64_t done, parsed, compiled, read;
} Counts;

static void spans_in_text(const Diags *d, uint32_t n)
{
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *it = d->list.data[i];
        ICE_UNLESS(it->span.begin <= it->span.end);
        ICE_UNLESS(!it->span.source || it->span.end <= it->span.source->n);
        ICE_UNLESS(!it->fix || (it->fix_span.source && it->fix_span.end <= it->fix_span.source->n));
    }
    StrBuf text = {.arena = d->arena};
    diags_print(d, &text, n % 2);
    diags_print_json(d, &text);
}

static bool formats_to_fixed_point(Arena *a, const Source *src)
{
    Diags d = {.arena = a};
    const char *once = frontend_format(a, src, &d);
    if (!once) return false;
    const char *twice = frontend_format(a, source_new(a, "once.gnn", once, strlen(once)), &d);
    ICE_UNLESS(twice && !strcmp(once, twice));
    return true;
}

static const char *module_text(Arena *a, const IrModule *m)
{
    StrBuf b = {.arena = a};
    ir_print(m, &b);
    return strbuf_cstr(&b);
}

static void run_program(const Corpus *c, Arena *a, const Input *in, const Source *src, Counts *n)
{
    Diags d = {.arena = a};
    FrontendOptions o = in->options;
    o.std = c->std;
    n->parsed += formats_to_fixed_point(a, src);
    const IrModule *m = frontend_compile(a, src, &o, &d);
    spans_in_text(&d, src->n);
    ICE_UNLESS(m || d.n_errors);
    n->compiled += m != NULL;
    if (!m || o.symbolic) return;
    ICE_UNLESS(ir_verify(m, &d));
    const char *text = module_text(a, m);
    const IrModule *again = ir_parse(a, source_new(a, "m.gir", text, strlen(text)), &d);
    ICE_UNLESS(again && !strcmp(module_text(a, again), text));
}

static void run_gir(Arena *a, const Source *src, Counts *n)
{
    Diags d = {.arena = a};
    const IrModule *m = ir_parse(a, src, &d);
    spans_in_text(&d, src->n);
    ICE_UNLESS(m || d.n_errors);
    n->read += m != NULL;
    if (!m) return;
    const char *text = module_text(a, m);
    const IrModule *again = ir_parse(a, source_new(a, "m.gir", text, strlen(text)), &d);
    ICE_UNLESS(again && !strcmp(module_text(a, again), text));
}

static void run_kir(Arena *a, const Source *src, Counts *n)
{
    Diags d = {.arena = a};
    const KirModule *m = kir_parse(a, src, &d);
    spans_in_text(&d, src->n);
    ICE_UNLESS(m || d.n_errors);
    n->read += m != NULL;
    if (!m) return;
    StrBuf once = {.arena = a}, twice = {.arena = a};
    kir_print_module(m, &once);
    m = kir_parse(a, source_new(a, "k.kir", strbuf_cstr(&once), once.n), &d);
    ICE_UNLESS(m);
    kir_print_module(m, &twice);
    ICE_UNLESS(!strcmp(once.data, twice.data));
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const KirKernel *serial = kir_serial(a, m->kernels.data[i]);
        ICE_UNLESS(!kir_has_block(serial) && kir_verify(serial, &d));
    }
}

static void run_input(const Corpus *c, const Input *in, Counts *n)
{
    Arena *a = arena_new();
    const Source *src = source_new(a, "fuzz", in->text, in->n);
    struct itimerval patience = {.it_value.tv_sec = PATIENCE_S};
    setitimer(ITIMER_VIRTUAL, &patience, NULL);
    if (in->language == GNN) run_program(c, a, in, src, n);
    else if (in->language == GIR) run_gir(a, src, n);
    else run_kir(a, src, n);
    ICE_UNLESS(arena_bytes(a) < (size_t)MAX_MIB << 20);
    arena_free(a);
    n->done++;
}

/* ---- children ---------------------------------------------------------------------------------------- */

typedef struct Shared { /* with the child */
    uint64_t next;      /* the execution that runs or comes next */
    Counts counts;
    Input input;
} Shared;

/* Memory beside the arenas must not grow: what is in use is compared in a steady state. */
static _Noreturn void child(const Corpus *c, Shared *s, uint64_t end)
{
    size_t first = 0;
    for (uint64_t i = 0; s->next < end; s->next++, i++) {
        make_input(c, &s->input, s->next);
        run_input(c, &s->input, &s->counts);
        if (i == 100) first = mallinfo2().uordblks;
        if (i > 100 && i % 1000 == 0) ICE_UNLESS(mallinfo2().uordblks <= first + (1 << 20));
    }
    exit(0);
}

static const char *last_line(Arena *a, FILE *log)
{
    static char text[1 << 16];
    rewind(log);
    size_t n = fread(text, 1, sizeof text - 1, log);
    text[n] = 0;
    const char *at = strstr(text, "internal error at ");
    if (!at) at = strstr(text, "SUMMARY: ");
    if (!at) at = strstr(text, "runtime error: ");
    return at ? arena_strndup(a, at, strcspn(at, "\n")) : "";
}

static void save(const char *folder, const Shared *s)
{
    static const char *const ends[] = {"gnn", "gir", "kir"};
    char path[4096];
    snprintf(path, sizeof path, "%s/%llu.%s", folder, (unsigned long long)s->next, ends[s->input.language]);
    FILE *f = folder ? fopen(path, "wb") : NULL;
    if (!f) return;
    fwrite(s->input.text, 1, s->input.n, f);
    fclose(f);
}

/* Runs executions [seed, seed + count); returns how many ended badly. */
static int campaign(const Corpus *c, Shared *s, uint64_t seed, uint64_t count, const char *folder)
{
    int faults = 0;
    FILE *log = tmpfile();
    s->next = seed;
    while (s->next < seed + count && faults < MAX_FAULTS && log) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(fileno(log), 2);
            child(c, s, seed + count);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        const char *how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                              : arena_printf(c->arena, "exit %d", WEXITSTATUS(status));
        printf("execution %llu: %s %s\n", (unsigned long long)s->next, how, last_line(c->arena, log));
        fflush(stdout);
        save(folder, s);
        if (ftruncate(fileno(log), 0)) break;
        rewind(log);
        s->next++;
        faults++;
    }
    if (log) fclose(log);
    return faults;
}

static int show(const Corpus *c, Shared *s, const char *what, uint64_t number)
{
    make_input(c, &s->input, number);
    if (!strcmp(what, "show")) fwrite(s->input.text, 1, s->input.n, stdout);
    else run_input(c, &s->input, &s->counts);
    return 0;
}

int main(int argc, char **argv)
{
    const Corpus *c = corpus_new();
    Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) return 1;
    if (argc > 2 && (!strcmp(argv[1], "show") || !strcmp(argv[1], "one")))
        return show(c, s, argv[1], strtoull(argv[2], NULL, 10));
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : check_amount(10000, 100000),
             seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    check_begin();
    int faults = campaign(c, s, seed, count, argc > 3 ? argv[3] : NULL);
    Counts n = s->counts;
    check(faults == 0, "%d of %llu executions ended badly", faults, (unsigned long long)n.done);
    check(n.parsed * 5 > n.done, "only %llu of %llu programs parse", (unsigned long long)n.parsed,
          (unsigned long long)n.done);
    check(n.compiled * 20 > n.done, "only %llu of %llu programs compile", (unsigned long long)n.compiled,
          (unsigned long long)n.done);
    check(n.read * 50 > n.done, "only %llu of %llu texts of IR are taken", (unsigned long long)n.read,
          (unsigned long long)n.done);
    char name[200];
    snprintf(name, sizeof name, "fuzz: %llu executions, %llu parse, %llu compile, %llu of IR are taken",
             (unsigned long long)n.done, (unsigned long long)n.parsed, (unsigned long long)n.compiled,
             (unsigned long long)n.read);
    check_end(name);
    arena_free(c->arena);
    munmap(s, sizeof *s);
    return check_done();
}
