/* The table of machines, and machines from files; contracts in machine.h. */
#include "passes/context/machine.h"
#include "base/ice.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------------------------ */

typedef enum Column {
#define NAMED(column, ...) COLUMN_##column,
#include "passes/context/machine.def"
#undef NAMED
    N_COLUMNS
} Column;

static const char *const names[N_COLUMNS] = {
#define NAMED(column, name, doc) [COLUMN_##column] = name,
#include "passes/context/machine.def"
#undef NAMED
};

typedef struct Row {
    const char *name, *doc;
    size_t at; /* in Machine */
    bool whole;
    double least, most, value[N_COLUMNS];
} Row;

static const Row rows[] = {
#define LIST(...)                                                                                                      \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define COUNT(row, least, most, values, doc) {#row, doc, offsetof(Machine, row), true, least, most, LIST values},
#define RATE(row, least, most, values, doc)  {#row, doc, offsetof(Machine, row), false, least, most, LIST values},
#include "passes/context/machine.def"
#undef COUNT
#undef RATE
#undef LIST
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static void set_row(Machine *m, const Row *r, double value)
{
    ICE_UNLESS(value >= r->least && value <= r->most);
    char *at = (char *)m + r->at;
    if (r->whole) *(int64_t *)(void *)at = (int64_t)value;
    else *(double *)(void *)at = value;
}

static double row_value(const Machine *m, const Row *r)
{
    const char *at = (const char *)m + r->at;
    return r->whole ? (double)*(const int64_t *)(const void *)at : *(const double *)(const void *)at;
}

static Machine column(Column c)
{
    Machine m = {.name = names[c]};
    for (unsigned i = 0; i < N_ROWS; i++) set_row(&m, &rows[i], rows[i].value[c]);
    return m;
}

Machine machine_default(void) { return column((Column)0); }

bool machine_named(const char *name, Machine *m)
{
    for (Column c = 0; c < N_COLUMNS; c++)
        if (!strcmp(names[c], name)) return *m = column(c), true;
    return false;
}

bool machine_find(Diags *d, const char *name, Machine *m)
{
    if (machine_named(name, m)) return true;
    Diag *it = diag_error(d, E0640, (Span){0}, "there is no machine `%s`", name);
    const char *near = str_nearest(name, names, N_COLUMNS);
    StrBuf all = {.arena = d->arena};
    for (Column c = 0; c < N_COLUMNS; c++) strbuf_printf(&all, "%s%s", c ? ", " : "", names[c]);
    if (near) diag_help(d, it, "did you mean `%s`?", near);
    else diag_help(d, it, "machines: %s; or a file, as `gnnc machine -o FILE` writes it", strbuf_cstr(&all));
    return false;
}

/* ---- what follows from the numbers ---------------------------------------------------------------------------- */

/* The registers of avx2-2 in vectors of m's lanes; all of m's if it has no more. */
static int64_t registers_of(const Machine *m, bool narrow)
{
    if (!narrow) return m->registers;
    Machine few = column(COLUMN_avx2_2);
    int64_t registers = few.registers * few.lanes / m->lanes;
    ICE_UNLESS(registers > 0);
    return registers < m->registers ? registers : m->registers;
}

int64_t machine_sums(const Machine *m, bool narrow) { return registers_of(m, narrow) * 3 / 4; }

int64_t machine_panel(const Machine *m, bool narrow) { return registers_of(m, narrow) / 8; }

int64_t machine_strip_rows(const Machine *m)
{
    int64_t rows = 64, panel = machine_panel(m, false) * machine_register_bytes(m);
    while (rows > m->lanes && rows * panel > m->l1_bytes / 3) rows /= 2;
    ICE_UNLESS(rows > 0);
    return rows;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

typedef struct Reader {
    Diags *d;
    const Source *src;
    uint32_t at;
    Machine m;
    Span given[N_ROWS]; /* where each row was */
} Reader;

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next word of this line; empty at its end. */
static Span next_word(Reader *r)
{
    const char *text = r->src->text;
    while (is_space(text[r->at])) r->at++;
    uint32_t begin = r->at;
    while (r->at < r->src->n && text[r->at] != '\n' && text[r->at] != '#' && !is_space(text[r->at])) r->at++;
    return span_at(r->src, begin, r->at);
}

static const char *word_text(const Reader *r, Span w)
{
    return arena_strndup(r->d->arena, r->src->text + w.begin, w.end - w.begin);
}

/* Behind the line; false where something is left of it. */
static bool end_line(Reader *r)
{
    Span more = next_word(r);
    if (more.begin != more.end) {
        diag_error(r->d, E0641, more, "a line of a machine file is a row and a number, found `%s` behind them",
                   word_text(r, more));
        return false;
    }
    while (r->at < r->src->n && r->src->text[r->at] != '\n') r->at++;
    if (r->at < r->src->n) r->at++;
    return true;
}

/* The next line's first word; empty at the end of the file. */
static Span next_line(Reader *r)
{
    while (r->at < r->src->n) {
        Span w = next_word(r);
        if (w.begin != w.end) return w;
        end_line(r);
    }
    return span_at(r->src, r->at, r->at);
}

static bool read_name(Reader *r)
{
    Span first = next_line(r), name = next_word(r);
    const char *text = word_text(r, name);
    bool plain = *text && strlen(text) <= 64;
    for (const char *c = text; *c; c++) plain &= isalnum((unsigned char)*c) || strchr("-_.", *c) != NULL;
    if (strcmp(word_text(r, first), "machine") == 0 && plain) {
        r->m.name = text;
        return end_line(r);
    }
    Diag *it = diag_error(r->d, E0641, first,
                          "a machine file begins with `machine NAME`, a name of letters, digits, `-`, `_` and `.`");
    diag_help(r->d, it, "`gnnc machine -o FILE` writes one");
    return false;
}

static bool is_power_of_two(const Row *row)
{
    return row->at == offsetof(Machine, lanes) || row->at == offsetof(Machine, line_bytes);
}

static bool read_value(Reader *r, const Row *row, Span w)
{
    const char *text = word_text(r, w);
    char *end;
    double x = strtod(text, &end);
    bool whole = !row->whole || x == floor(x), fits = *text && !*end && x >= row->least && x <= row->most && whole;
    int64_t bits = fits ? (int64_t)x : 0;
    if (fits && !(is_power_of_two(row) && bits & (bits - 1))) {
        set_row(&r->m, row, x);
        return true;
    }
    diag_error(r->d, E0641, w, "`%s` wants %s from %.10g to %.10g, found `%s`", row->name,
               is_power_of_two(row) ? "a power of two"
               : row->whole         ? "a whole number"
                                    : "a number",
               row->least, row->most, *text ? text : "nothing");
    return false;
}

static bool read_row(Reader *r, Span name)
{
    const char *text = word_text(r, name), *known[N_ROWS];
    for (unsigned i = 0; i < N_ROWS; i++) {
        known[i] = rows[i].name;
        if (strcmp(text, rows[i].name) != 0) continue;
        if (r->given[i].source) {
            Diag *it = diag_error(r->d, E0641, name, "`%s` is given twice", text);
            diag_note(r->d, it, r->given[i], "here for the first time");
            return false;
        }
        r->given[i] = name;
        return read_value(r, &rows[i], next_word(r)) && end_line(r);
    }
    Diag *it = diag_error(r->d, E0641, name, "a machine has no row `%s`", text);
    diag_suggest(r->d, it, name, text, known, N_ROWS);
    return false;
}

static bool is_whole_machine(Reader *r)
{
    Span end = span_at(r->src, r->src->n, r->src->n);
    for (unsigned i = 0; i < N_ROWS; i++) {
        if (r->given[i].source) continue;
        diag_error(r->d, E0641, end, "machine `%s` lacks the row `%s`: a number from %.10g to %.10g", r->m.name,
                   rows[i].name, rows[i].least, rows[i].most);
        return false;
    }
    if (r->m.l1_bytes <= r->m.l2_bytes) return true;
    diag_error(r->d, E0641, end, "machine `%s` has a second cache of %lld bytes, which is less than its first of %lld",
               r->m.name, (long long)r->m.l2_bytes, (long long)r->m.l1_bytes);
    return false;
}

bool machine_parse(const Source *src, Diags *d, Machine *m)
{
    Reader r = {.d = d, .src = src};
    const char *zero = memchr(src->text, 0, src->n);
    if (zero) {
        uint32_t at = (uint32_t)(zero - src->text);
        diag_error(d, E0641, span_at(src, at, at + 1), "a machine file is text, found a byte 0");
        return false;
    }
    if (!read_name(&r)) return false;
    for (Span w = next_line(&r); w.begin != w.end; w = next_line(&r))
        if (!read_row(&r, w)) return false;
    if (!is_whole_machine(&r)) return false;
    *m = r.m;
    return true;
}

void machine_print(const Machine *m, StrBuf *out)
{
    strbuf_printf(out, "machine %s\n", m->name);
    for (unsigned i = 0; i < N_ROWS; i++) {
        double x = row_value(m, &rows[i]);
        char text[40];
        snprintf(text, sizeof text, "%.15g", x);
        if (strtod(text, NULL) != x) snprintf(text, sizeof text, "%.17g", x);
        strbuf_printf(out, "%s %s\n", rows[i].name, text);
    }
}

const char *machine_rows_text(const Machine *m, Arena *a)
{
    StrBuf text = {.arena = a};
    machine_print(m, &text);
    return strchr(strbuf_cstr(&text), '\n') + 1;
}

void machine_clamp(Machine *m)
{
    for (unsigned i = 0; i < N_ROWS; i++) {
        double x = row_value(m, &rows[i]);
        if (!(x >= rows[i].least)) x = rows[i].least;
        if (x > rows[i].most) x = rows[i].most;
        char digits[32];
        snprintf(digits, sizeof digits, "%.4g", x);
        if (!rows[i].whole) x = strtod(digits, NULL);
        set_row(m, &rows[i], x);
    }
    if (m->l2_bytes < m->l1_bytes) m->l2_bytes = m->l1_bytes;
}

void machine_explain(StrBuf *out)
{
    strbuf_printf(out, "%-14s", "");
    for (Column c = 0; c < N_COLUMNS; c++) strbuf_printf(out, " %13s", names[c]);
    strbuf_puts(out, "\n");
    for (unsigned i = 0; i < N_ROWS; i++) {
        strbuf_printf(out, "%-14s", rows[i].name);
        for (Column c = 0; c < N_COLUMNS; c++) strbuf_printf(out, " %13.10g", rows[i].value[c]);
        strbuf_printf(out, "  %s\n", rows[i].doc);
    }
}
