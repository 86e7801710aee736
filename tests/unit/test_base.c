/* What everything stands on: strings as JSON, names that are near, diagnostics as text, files and child processes, also
   where the system refuses a call. */
#include "base/diag.h"
#include "base/file.h"
#include "tests/unit/failing.h"
#include <limits.h>
#include <unistd.h>

static Arena *arena;
static const char *folder;

static const char *path_of(const char *name) { return arena_printf(arena, "%s/%s", folder, name); }

static void test_json(void)
{
    static const char *const rows[][2] = {
        {"a \"b\" \\ \n\t\x01", "\"a \\\"b\\\" \\\\ \\n\\t\\u0001\""},
        {"\u00e9 \u20ac \u0800 \ud7ff \ue000 \U0001F600 \U00010000 \U0010FFFF", "\"\u00e9 \u20ac \u0800 \ud7ff \ue000 \U0001F600 \U00010000 \U0010FFFF\""},
#define BAD "\xef\xbf\xbd"
        {"\x80|\xc1|\xf5|\xff", "\"" BAD "|" BAD "|" BAD "|" BAD "\""},
        {"\xc3|\xe2\x82|\xf0\x9f\x98|", "\"" BAD "|" BAD BAD "|" BAD BAD BAD "|\""},
        {"\xe0\x9f\x80", "\"" BAD BAD BAD "\""},         /* a shorter form says it */
        {"\xed\xa0\x80", "\"" BAD BAD BAD "\""},         /* half of a pair */
        {"\xf0\x8f\x80\x80", "\"" BAD BAD BAD BAD "\""}, /* a shorter form says it */
        {"\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""}, /* beyond the last character */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        StrBuf b = {.arena = arena};
        check_begin();
        strbuf_json(&b, rows[i][0]);
        check(!strcmp(strbuf_cstr(&b), rows[i][1]), "found %s, wanted %s", strbuf_cstr(&b), rows[i][1]);
        check_end(arena_printf(arena, "base: json %zu", i));
    }
}

static void test_names(void)
{
    char longer[100] = "", near[100] = "";
    memset(longer, 'a', 70);
    memset(near, 'a', 69);
    check_begin();
    CHECK(str_distance("relu", "rleu") == 1 && str_distance("relu", "") == 4 && str_distance("", "") == 0);
    CHECK(str_distance(longer, near) == str_distance("x", longer) && str_distance(near, "x") > 60); /* of names so long nothing is known */
    CHECK(str_nearest("gcm", (const char *const[]){"gat", "gcn"}, 2) && !str_nearest("gcm", (const char *const[]){"sage"}, 1));
    CHECK(diag_code_find("E0201") == &diag_codes[E0201] && !diag_code_find("E9999"));
    check_end("base: names");
}

static void test_diags(void)
{
    static const char text[] = "a\n\tb + c\nd\n";
    Source src = {"m.gnn", text, sizeof text - 1};
    Span b = {&src, 3, 4}, c = {&src, 7, 8}, d = {&src, 9, 10};
    Diags all = {.arena = arena, .max_errors = 2};
    StrBuf out = {.arena = arena};
    check_begin();
    Diag *it = diag_error(&all, E0203, b, "cannot add");
    diag_beside(&all, it, c, "node", "this is edge"); /* on the same line: drawn there */
    diag_beside(&all, it, d, "node", "this is graph");
    diag_note(&all, it, d, "this is graph");
    CHECK(it->notes.n == 2 && it->notes.data[0].beside && !it->notes.data[1].beside);
    diag_note(&all, it, d, "something else");
    diag_note(&all, it, (Span){0}, "of no place");
    CHECK(it->notes.n == 4 && diag_error(&all, E0203, b, "again") == it && all.n_errors == 1);
    diag_error(&all, E0201, c, "another");
    diag_error(&all, E0201, d, "one too many");
    diags_print(&all, &out, true);
    const char *wanted = "m.gnn:2:2: \033[1;31merror[E0203]\033[0m: cannot add\n    2 | \tb + c\n      | \t^   ~ node\n"
                         "m.gnn:3:1: note: this is graph\n    3 | d\n      | ^\nm.gnn:3:1: note: something else\n    3 | d\n      | ^\n"
                         "    = note: of no place\n"
                         "m.gnn:2:6: \033[1;31merror[E0201]\033[0m: another\n    2 | \tb + c\n      | \t    ^\ngnnc: 1 more errors not shown\n";
    check(!strcmp(strbuf_cstr(&out), wanted), "found %s", strbuf_cstr(&out));
    CHECK(diags_exit_code(&all) == 1 && diags_exit_code(&(Diags){0}) == 0);
    check_end("base: diagnostics as text");
}

/* ---- files ---- */

static void put(const char *path, const char *text)
{
    const char *why = "";
    check(file_write(arena, path, text, strlen(text), 0644, &why), "%s: %s", path, why);
}

static bool holds(const char *path, const char *text)
{
    const char *why;
    size_t n;
    char *found = file_read(arena, path, 0, &n, &why);
    return found && n == strlen(text) && !strcmp(found, text);
}

static void test_files(void)
{
    const char *why = "", *file = path_of("f"), *link = path_of("link"), *nowhere = path_of("no/f");
    char large[70000];
    size_t n;
    check_begin();
    put(file, "one");
    CHECK(symlink("f", link) == 0);
    put(link, "two"); /* a link stays a link */
    CHECK(holds(file, "two") && readlink(link, large, sizeof large) == 1);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    put(file, large);
    CHECK(holds(file, large));
    CHECK(!file_read(arena, file, 1000, &n, &why) && !strcmp(why, "the file is too large"));
    CHECK(!file_read(arena, folder, 0, &n, &why) && !strcmp(why, "it is a directory"));
    CHECK(!file_read(arena, nowhere, 0, &n, &why) && !strcmp(why, strerror(ENOENT)));
    CHECK(!file_write(arena, nowhere, "x", 1, 0644, &why) && !strcmp(why, strerror(ENOENT)));
    CHECK(!file_write(arena, folder, "x", 1, 0644, &why) && !strcmp(why, strerror(EISDIR)));
    CHECK(!file_write(arena, "/dev/full", "x", 1, 0644, &why) && !strcmp(why, strerror(ENOSPC)));
    CHECK(file_write(arena, "/dev/null", "x", 1, 0644, &why));
    unlink(link);
    check_end("base: files");
}

static void test_folders(void)
{
    const char *why = "", *old = getenv("TMPDIR"), *bases[] = {folder, "", NULL, "/nowhere"};
    old = old ? arena_printf(arena, "%s", old) : NULL;
    for (int i = 0; i < 4; i++) {
        if (bases[i]) setenv("TMPDIR", bases[i], 1);
        else unsetenv("TMPDIR");
        check_begin();
        const char *dir = file_temp_dir(arena, &why), *base = i ? "/tmp/" : folder;
        if (i == 3) CHECK(!dir && !strcmp(why, strerror(ENOENT)));
        else if (CHECK(dir && !strncmp(dir, base, strlen(base)))) {
            put(arena_printf(arena, "%s/a", dir), "a");
            file_remove_tree(dir);
            CHECK(access(dir, F_OK) != 0);
            file_remove_tree(dir); /* gone already */
        }
        check_end(arena_printf(arena, "base: folder of its own %d", i));
    }
    if (old) setenv("TMPDIR", old, 1);
    else unsetenv("TMPDIR");
}

static void test_spawn(void)
{
    const char *why = "";
    char *log;
    check_begin();
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "echo out; echo err >&2; exit 7", NULL}, &log, &why) == 7);
    CHECK(!strcmp(log, "out\nerr\n"));
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "kill -9 $$", NULL}, &log, &why) == 128 + 9 && !log[0]);
    CHECK(file_spawn(arena, (const char *const[]){"no-such-program-here", NULL}, &log, &why) == -1 && strstr(why, "no-such-program-here: "));
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "yes | head -c 70000", NULL}, &log, &why) >= 0 && !log[0]); /* more than a log holds */
    check_end("base: child processes");
}

/* ---- a system that refuses ---- */

static const char *kept, *large_file;

static int write_file(void)
{
    Arena *a = arena_new();
    const char *why = NULL;
    bool done = file_write(a, kept, "new", 3, 0644, &why);
    failing_kind = FAILING_NOTHING; /* what follows only looks */
    check(holds(kept, done ? "new" : "old") && done == !why, "the file holds something else, or nothing is said: %s", why ? why : "");
    arena_free(a);
    return !done;
}

static int read_file(void)
{
    Arena *a = arena_new();
    const char *why = NULL;
    size_t n;
    char *text = file_read(a, large_file, 0, &n, &why);
    check(text ? n == 69999 && !why : why != NULL, "read in part, or nothing is said");
    arena_free(a);
    return !text;
}

static int spawn(void)
{
    Arena *a = arena_new();
    const char *why = NULL;
    char *log;
    int status = file_spawn(a, (const char *const[]){"true", NULL}, &log, &why);
    check(status == 0 || (status == -1 && why), "status %d", status);
    arena_free(a);
    return status;
}

static void test_refused(void)
{
    char large[70000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    check_begin();
    put(large_file = path_of("large"), large);
    put(kept = path_of("kept"), "old");
    CHECK(failing_each("reading", FAILING_SYSTEM, read_file, 0) >= 3);
    CHECK(failing_each("writing", FAILING_SYSTEM, write_file, 0) >= 4);
    CHECK(failing_each("running", FAILING_SYSTEM, spawn, 0) >= 1);
    unlink(large_file);
    unlink(kept);
    CHECK(unlink(path_of("f")) == 0 && rmdir(folder) == 0); /* nothing else was left there */
    check_end("base: refused calls");
}

int main(void)
{
    const char *why = "";
    arena = arena_new();
    folder = file_temp_dir(arena, &why);
    if (!folder) return printf("FAIL base: %s\n", why), 1;
    test_json();
    test_names();
    test_diags();
    test_files();
    test_folders();
    test_spawn();
    test_refused();
    arena_free(arena);
    return check_done();
}
