/* Modules of graph IR that are taken as they stand and refused when one place is changed. Each file of tests/ir/refused
   is a module, a line `---`, then a change a line: `old | new | part of the message`, where the message `taken` stands
   for none. `old` is exchanged where it comes first; ⏎ is an end of line. */
#include "base/file.h"
#include "ir/graph.h"
#include "tests/unit/check.h"
#include <dirent.h>

/* NULL if the text is taken, else the first message. What was refused prints nothing else. */
static const char *refusal(Arena *a, const char *text)
{
    Source *src = ARENA_NEW(a, Source);
    *src = (Source){"t.gir", text, (uint32_t)strlen(text)};
    Diags d = {.arena = a};
    return ir_parse(a, src, &d) ? NULL : d.list.data[0]->text;
}

static const char *exchanged(Arena *a, const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    return at ? arena_printf(a, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old)) : NULL;
}

/* The next field of a line of changes, its ends of line written out; *p moves behind the bar. */
static const char *field(Arena *a, const char **p)
{
    const char *end = strstr(*p, " | "), *eol = *p + strcspn(*p, "\n"), *text;
    if (!end || end > eol) end = eol;
    text = arena_strndup(a, *p, (size_t)(end - *p));
    for (const char *next; (next = exchanged(a, text, "⏎", "\n")); text = next) {}
    *p = end == eol ? eol : end + 3;
    return text;
}

static void check_change(const char *file, const char *module, const char *line, int number)
{
    Arena *a = arena_new();
    const char *old = field(a, &line), *new = field(a, &line), *want = field(a, &line),
               *text = exchanged(a, module, old, new);
    check_begin();
    if (check(text != NULL, "`%s` is not in the module", old)) {
        const char *message = refusal(a, text);
        if (!strcmp(want, "taken")) check(!message, "refused: %s", message);
        else check(message && strstr(message, want), "found `%s`, wanted `%s`", message ? message : "taken", want);
    }
    check_end(arena_printf(a, "%s: change %d: %s", file, number, want));
    arena_free(a);
}

static void check_file(const char *file)
{
    Arena *a = arena_new();
    const char *why, *path = arena_printf(a, "tests/ir/refused/%s", file), *message;
    size_t n;
    char *text = file_read(a, path, 0, &n, &why), *line = text ? strstr(text, "\n---\n") : NULL;
    check_begin();
    if (check(line != NULL, "%s: no module and changes", path)) {
        *line = 0;
        text = arena_printf(a, "%s\n", text);
        message = refusal(a, text);
        check(!message, "%s: %s", path, message);
    }
    check_end(arena_printf(a, "%s is taken", path));
    line = line ? line + 5 : NULL;
    for (int number = 1; line && *line; number++) {
        check_change(file, text, line, number);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    arena_free(a);
}

int main(void)
{
    DIR *dir = opendir("tests/ir/refused");
    check_begin();
    CHECK(dir != NULL);
    check_end("tests/ir/refused is there");
    for (struct dirent *it; dir && (it = readdir(dir));)
        if (it->d_name[0] != '.') check_file(it->d_name);
    if (dir) closedir(dir);
    return check_done();
}
