/* What everything stands on: strings as JSON, names that are near, diagnostics as text, files and child processes, also
   where the system refuses a call. */
#include "base/diag.h"
#include "base/file.h"
#include "runtime/available.h"
#include "tests/unit/failing.h"
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static Arena *arena;
static const char *folder;

static const char *path_of(const char *name) { return arena_printf(arena, "%s/%s", folder, name); }

/* Under AddressSanitizer what an arena gave out ends where it was asked to, and bytes that nobody may touch follow. */
static void test_arena_red_zones(void)
{
#ifdef __SANITIZE_ADDRESS__
    Arena *a = arena_new();
    for (size_t bytes = 1; bytes < 400; bytes++) {
        char *p = arena_alloc(a, bytes), *q = arena_alloc(a, bytes % 40 + 1);
        CHECK(!__asan_region_is_poisoned(p, bytes) && __asan_address_is_poisoned(p + bytes) &&
              __asan_address_is_poisoned(p + bytes + 15));
        CHECK(!__asan_region_is_poisoned(q, bytes % 40 + 1) && __asan_address_is_poisoned(q - 1));
    }
    arena_free(a);
    check_end("base: an overrun inside an arena is seen");
#endif
}

static void test_json(void)
{
    static const char *const rows[][2] = {
        {"a \"b\" \\ \n\t\x01", "\"a \\\"b\\\" \\\\ \\n\\t\\u0001\""},
        {"\u00e9 \u20ac \u0800 \ud7ff \ue000 \U0001F600 \U00010000 \U0010FFFF",
         "\"\u00e9 \u20ac \u0800 \ud7ff \ue000 \U0001F600 \U00010000 \U0010FFFF\""},
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
    CHECK(str_distance(longer, near) == str_distance("x", longer) &&
          str_distance(near, "x") > 60); /* of names so long nothing is known */
    CHECK(str_nearest("gcm", (const char *const[]){"gat", "gcn"}, 2) &&
          !str_nearest("gcm", (const char *const[]){"sage"}, 1));
    CHECK(diag_code_find("E0201") == &diag_codes[E0201] && !diag_code_find("E9999"));
    check_end("base: names");
}

static void test_diags(void)
{
    static const char text[] = "a\n\tb + c\nd\n";
    Source src = {"m.gnn", text, sizeof text - 1};
    Span b = span_at(&src, 3, 4), c = span_at(&src, 7, 8), d = span_at(&src, 9, 10);
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
    const char *wanted =
        "m.gnn:2:2: \033[1;31merror[E0203]\033[0m: cannot add\n    2 | \tb + c\n      | \t^   ~ node\n"
        "m.gnn:3:1: note: this is graph\n    3 | d\n      | ^\nm.gnn:3:1: note: something else\n    3 | d\n      | ^\n"
        "    = note: of no place\n"
        "m.gnn:2:6: \033[1;31merror[E0201]\033[0m: another\n    2 | \tb + c\n      | \t    ^\ngnnc: 1 more errors not "
        "shown\n";
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
    Arena *a = arena_new();
    const char *why;
    size_t n;
    char *found = file_read(a, path, 0, &n, &why);
    bool same = found && n == strlen(text) && !strcmp(found, text);
    arena_free(a);
    return same;
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

static unsigned mode_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? info.st_mode & 0777 : 0;
}

static bool writes(const char *path, unsigned mode, const char **why)
{
    return file_write(arena, path, "new", 3, mode, why);
}

/* What is written keeps the permissions of what it replaces, and never goes where somebody else's link leads. */
static void test_replaced(void)
{
    const char *why = "", *file = path_of("f"), *link = path_of("link"), *other = path_of("other"),
               *pipe = path_of("pipe");
    mode_t old = umask(022);
    check_begin();
    put(file, "one");
    CHECK(chmod(file, 0600) == 0 && writes(file, 0644, &why) && mode_of(file) == 0600);
    CHECK(writes(file, 0755, &why) && mode_of(file) == 0700); /* what is to be run can be */
    CHECK(chmod(file, 0664) == 0 && writes(file, 0644, &why) && mode_of(file) == 0664);
    CHECK(writes(other, 0666, &why) && mode_of(other) == 0644 && unlink(other) == 0); /* less the umask */
    umask(077);
    CHECK(writes(other, 0666, &why) && mode_of(other) == 0600 && unlink(other) == 0);
    CHECK(symlink("other", link) == 0 && writes(link, 0644, &why) &&
          holds(other, "new")); /* a link to what is not there yet */
    CHECK(unlink(other) == 0 && unlink(link) == 0 && symlink(arena_printf(arena, "%s", other), link) == 0);
    CHECK(writes(link, 0644, &why) && holds(other, "new") && unlink(link) == 0);
    CHECK(symlink("link", link) == 0 && !writes(link, 0644, &why) && !strcmp(why, strerror(ELOOP)) &&
          unlink(link) == 0);
    CHECK(mkfifo(pipe, 0600) == 0 && !writes(pipe, 0644, &why) && !strcmp(why, "nobody reads the pipe") &&
          unlink(pipe) == 0);
    if (geteuid() == 0) {
        put(other, "kept");
        CHECK(symlink("other", link) == 0 && lchown(link, 65534, 65534) == 0);
        CHECK(!writes(link, 0644, &why) && !strcmp(why, "it is a link that another user made") && holds(other, "kept"));
        CHECK(unlink(link) == 0 && chown(other, 65534, 65534) == 0 && writes(other, 0644, &why));
        struct stat info;
        CHECK(stat(other, &info) == 0 && info.st_uid == 65534 && info.st_gid == 65534);
    }
    CHECK(unlink(other) == 0 && chmod(file, 0644) == 0);
    umask(old);
    check_end("base: what is replaced");
}

/* What is left is the least that any group on the way up leaves; what lies idle in caches counts as left. */
static void test_available(void)
{
    const char *top = path_of("groups"), *inner = path_of("groups/inner");
    char path[64];
    check_begin();
    CHECK(rt_available() > 0);
    CHECK(mkdir(top, 0700) == 0 && mkdir(inner, 0700) == 0);
    put(path_of("groups/inner/memory.max"), "5000\n");
    put(path_of("groups/inner/memory.current"), "4000\n");
    put(path_of("groups/memory.max"), "max\n");
    put(path_of("groups/memory.current"), "9000\n");
    strcpy(path, "/inner");
    CHECK(rt_groups_leave(top, path, "memory.max", "memory.current", "inactive_file ") == 1000);
    put(path_of("groups/inner/memory.stat"), "anon 7\ninactive_file 300\n");
    strcpy(path, "/inner");
    CHECK(rt_groups_leave(top, path, "memory.max", "memory.current", "inactive_file ") == 1300);
    put(path_of("groups/memory.max"), "9200\n");
    strcpy(path, "/inner");
    CHECK(rt_groups_leave(top, path, "memory.max", "memory.current", "inactive_file ") == 200);
    put(path_of("groups/memory.current"), "9300\n"); /* a limit may be lowered below what is used */
    strcpy(path, "/inner");
    CHECK(rt_groups_leave(top, path, "memory.max", "memory.current", "inactive_file ") == 0);
    strcpy(path, "/nowhere");
    CHECK(rt_groups_leave(inner, path, "memory.limit_in_bytes", "memory.current", "inactive_file ") == INT64_MAX);
    static const char *const files[] = {"inner/memory.max", "inner/memory.current", "inner/memory.stat", "memory.max",
                                        "memory.current"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(arena_printf(arena, "%s/%s", top, files[i]));
    CHECK(rmdir(inner) == 0 && rmdir(top) == 0);
    check_end("base: memory that is left");
}

static void test_folders(void)
{
    const char *why = "", *old = getenv("TMPDIR"), *bases[] = {folder, "", NULL, "/nowhere"};
    old = old ? arena_printf(arena, "%s", old) : NULL;
    for (int i = 0; i < 4; i++) {
        if (bases[i]) setenv("TMPDIR", bases[i], 1);
        else unsetenv("TMPDIR");
        check_begin();
        const char *base = i ? "/tmp/" : folder;
        TempFolder t;
        bool made = temp_folder_make(arena, NULL, &t, &why);
        if (i == 3) CHECK(!made && !strcmp(why, strerror(ENOENT)));
        else if (CHECK(made && !strncmp(t.path, base, strlen(base)))) {
            put(arena_printf(arena, "%s/a", t.path), "a");
            temp_folder_remove(&t);
            CHECK(access(t.path, F_OK) != 0);
            temp_folder_remove(&t); /* gone already */
        }
        check_end(arena_printf(arena, "base: folder of its own %d", i));
    }
    if (old) setenv("TMPDIR", old, 1);
    else unsetenv("TMPDIR");
}

/* A process that is killed leaves no folder behind. */
static void test_killed(void)
{
    const char *why = "";
    int ends[2], status;
    char path[PATH_MAX] = "";
    check_begin();
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        TempFolder t;
        if (!temp_folder_make(arena, folder, &t, &why)) _exit(1);
        put(arena_printf(arena, "%s/a", t.path), "a");
        if (write(ends[1], t.path, strlen(t.path)) > 0) raise(SIGKILL);
        _exit(1);
    }
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && read(ends[0], path, sizeof path - 1) > 0);
    close(ends[0]);
    for (int i = 0; i < 500 && access(path, F_OK) == 0; i++) usleep(10000);
    CHECK(path[0] && access(path, F_OK) != 0);
    check_end("base: a killed process's folder");
}

static void test_spawn(void)
{
    const char *why = "";
    char *log;
    check_begin();
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "echo out; echo err >&2; exit 7", NULL}, &log, &why) ==
          7);
    CHECK(!strcmp(log, "out\nerr\n"));
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "kill -9 $$", NULL}, &log, &why) == 128 + 9 && !log[0]);
    CHECK(file_spawn(arena, (const char *const[]){"no-such-program-here", NULL}, &log, &why) == -1 &&
          strstr(why, "no-such-program-here: "));
    CHECK(file_spawn(arena, (const char *const[]){"sh", "-c", "yes | head -c 70000", NULL}, &log, &why) >= 0 &&
          !log[0]); /* more than a log holds */
    check_end("base: child processes");
}

/* ---- a system that refuses ---- */

static const char *kept, *large_file;

static int write_file(void)
{
    Arena *a = arena_new();
    const char *why = NULL;
    Failing kind = failing_kind;
    failing_kind = FAILING_NOTHING;
    put(kept, "old"); /* it may be new although a call was refused: there is another way */
    failing_kind = kind;
    bool done = file_write(a, kept, "new", 3, 0644, &why);
    failing_kind = FAILING_NOTHING; /* what follows only looks */
    check(holds(kept, done ? "new" : "old") && done == !why, "the file holds something else, or nothing is said: %s",
          why ? why : "");
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
    TempFolder own;
    if (!temp_folder_make(arena, NULL, &own, &why)) return 1;
    folder = own.path;
    if (!folder) return printf("FAIL base: %s\n", why), 1;
    test_arena_red_zones();
    test_json();
    test_names();
    test_diags();
    test_files();
    test_replaced();
    test_available();
    test_folders();
    test_killed();
    test_spawn();
    test_refused();
    arena_free(arena);
    return check_done();
}
