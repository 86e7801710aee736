/* Every kind of value in every place. tests/kinds.txt holds expressions with places, `= v = pow(«x», «2»)`, and says
   below each which values a place takes and by which codes the others are refused. An undefined name in a layer is told
   at most once, nothing ends the compiler, and what is told lies in the program. A form without places is a program of
   its own.

   A line `= ! ...` is a program by itself, others stand in the layer below.

   usage: test_kinds [--record]      rewrites what the file says; read the difference before it is kept */
#include "base/file.h"
#include "frontend/frontend.h"
#include "tests/unit/check.h"

static const char PATH[] = "tests/kinds.txt", OPEN[] = "«", CLOSE[] = "»";
static const char HEAD[] =
    "message say(x: src[F]) -> src[F] = x\n"
    "fn twice(a) = a + a\n"
    "reduce plain(m: edge[F]) -> node[F] {\n  state total: [F] = 0\n  step { total += m }\n  merge { total += "
    "other.total }\n  done = total\n}\n"
    "layer l(x: node[F], y: node[F], e: edge[F], b: node bool, i: node int, k: node index[3], r: edge index[3], z: "
    "graph[F]) -> node[F] {\n"
    "  param w: [F, D] = glorot\n  param T: [3, F] = glorot\n  param c: [] = 0\n  graph h = reverse(g)\n  ";
static const char TAIL[] = "\n  return x\n}\n";
static const char *const values[] = {"nothing", "3",      "2.5", "0",    "-1",     "1e30",   "\"up\"",  "true", "none",
                                     "F",       "[1, 2]", "[F]", "[]",   "(x, y)", "x",      "e",       "b",    "i",
                                     "k",       "c",      "w",   "T",    "z",      "node",   "edge[F]", "g",    "gcn",
                                     "say",     "twice",  "exp", "keep", "x.src",  "data.x", "lr",      "acc"};
enum { N_VALUES = sizeof values / sizeof *values, MAX_ROWS = 400 };

/* Values of one place that are told the same. */
typedef struct Row {
    int place;
    const char *codes;
    StrBuf values;
} Row;

typedef struct Kinds {
    Arena *arena;
    const FrontendStd *std;
    StrBuf out; /* the file as it should be */
} Kinds;

/* The program of a line: within the layer of HEAD, or the line itself, behind `! `, with ⏎ for ends of line. */
static const char *program_of(Arena *a, const char *line)
{
    StrBuf b = {.arena = a};
    if (strncmp(line, "! ", 2)) return arena_printf(a, "%s%s%s", HEAD, line, TAIL);
    line += 2;
    for (const char *eol; (eol = strstr(line, "⏎")); line = eol + strlen("⏎"))
        strbuf_printf(&b, "%.*s\n", (int)(eol - line), line);
    strbuf_printf(&b, "%s\n", line);
    return strbuf_cstr(&b);
}

/* The codes of a program's errors, "taken" without one; NULL if a place lies outside. */
static const char *told(const Kinds *k, Arena *a, const char *line)
{
    Source *src = ARENA_NEW(a, Source);
    const char *text = program_of(a, line);
    *src = (Source){"kinds.gnn", text, (uint32_t)strlen(text)};
    Diags d = {.arena = a};
    FrontendOptions o = {.std = k->std, .symbolic = true};
    const IrModule *m = frontend_compile(a, src, &o, &d);
    StrBuf codes = {.arena = a};
    for (uint32_t i = 0; i < d.list.n; i++) {
        const Diag *it = d.list.data[i];
        if (!it->span.source || it->span.end > it->span.source->n) return NULL;
        strbuf_printf(&codes, "%s%s", i ? " " : "", diag_codes[it->code].id);
    }
    if (!m == !d.n_errors) return NULL;
    return arena_strndup(k->arena, d.list.n ? strbuf_cstr(&codes) : "taken", d.list.n ? codes.n : 5);
}

/* The form with the value in that place, and what stood there in the others; NULL: it has no such place. */
static const char *filled(Arena *a, const char *form, int place, const char *value)
{
    StrBuf b = {.arena = a};
    int at = 0;
    for (const char *open; (open = strstr(form, OPEN)); at++) {
        const char *text = open + strlen(OPEN), *close = strstr(text, CLOSE);
        strbuf_printf(&b, "%.*s", (int)(open - form), form);
        if (at == place) strbuf_puts(&b, value);
        else strbuf_printf(&b, "%.*s", (int)(close - text), text);
        form = close + strlen(CLOSE);
    }
    strbuf_puts(&b, form);
    return place < at ? strbuf_cstr(&b) : NULL;
}

static void put_value(Kinds *k, Row *rows, int *n, int place, const char *codes, const char *value)
{
    int i = 0;
    while (i < *n && (rows[i].place != place || strcmp(rows[i].codes, codes))) i++;
    if (i == *n) rows[(*n)++] = (Row){place, codes, {.arena = k->arena}};
    strbuf_printf(&rows[i].values, "%s%s", rows[i].values.n ? " · " : "", value);
}

/* What the file should say of a form. */
static const char *rows_of(Kinds *k, const char *form)
{
    StrBuf b = {.arena = k->arena};
    Row *rows = ARENA_ARRAY(k->arena, Row, MAX_ROWS);
    int n = 0;
    if (!strstr(form, OPEN)) return arena_printf(k->arena, "  %s\n", told(k, k->arena, form));
    for (int place = 0;; place++) {
        for (int i = 0; i < N_VALUES; i++) {
            Arena *a = arena_new();
            const char *line = filled(a, form, place, values[i]), *codes = line ? told(k, a, line) : "";
            if (line && check(codes != NULL, "%s: a place outside, or nothing said", line)) {
                check(i || strlen(codes) == 5 || form[0] == '!', "%s: an undefined name is told %s", line, codes);
                put_value(k, rows, &n, place + 1, codes, values[i]);
            }
            arena_free(a);
            if (line) continue;
            for (int r = 0; r < n; r++)
                strbuf_printf(&b, "  %d %s: %s\n", rows[r].place, rows[r].codes, strbuf_cstr(&rows[r].values));
            return strbuf_cstr(&b);
        }
    }
}

/* A form and what stands below it; returns what follows. */
static const char *check_form(Kinds *k, const char *at)
{
    size_t n = strcspn(at, "\n");
    const char *form = arena_strndup(k->arena, at + 2, n - 2), *below = at + n + (at[n] == '\n'), *end = below;
    while (*end == ' ') end += strcspn(end, "\n"), end += *end == '\n';
    check_begin();
    const char *rows = rows_of(k, form);
    size_t same = 0;
    while (below + same < end && below[same] == rows[same]) same++;
    while (same && rows[same - 1] != '\n') same--;
    bool fits = below + same == end && !rows[same];
    check(fits, "now `%.*s`", (int)strcspn(rows + same, "\n"), rows + same);
    check_end(arena_printf(k->arena, "kinds: %s", form));
    strbuf_printf(&k->out, "= %s\n%s", form, rows);
    return end;
}

int main(int argc, char **argv)
{
    Kinds k = {.arena = arena_new()};
    const char *why, *text;
    size_t n;
    k.std = frontend_std_new(k.arena);
    k.out.arena = k.arena;
    text = file_read(k.arena, PATH, 0, &n, &why);
    check_begin();
    check(text && n > 1000, "%s: %s", PATH, text ? "too short" : why);
    check_end("tests/kinds.txt is there");
    for (const char *at = text ? text : ""; *at;) at = check_form(&k, at);
    if (argc > 1 && !strcmp(argv[1], "--record") && !file_write(k.arena, PATH, k.out.data, k.out.n, 0644, &why))
        printf("FAIL record: %s\n", why);
    arena_free(k.arena);
    return check_done();
}
