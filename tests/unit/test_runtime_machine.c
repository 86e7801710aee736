/* The machine's figures: where their file lies, files that are damaged at each word, figures that no probe measures,
   and a system that says nothing of itself. test_machine.py runs the command. */
#include "runtime/machine.h"
#include "tests/unit/failing.h"
#include <unistd.h>

static char folder[200];

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Figures that no machine has, saved; its file's path, or NULL. */
static char *save(RtMachine *m)
{
    char *path = NULL;
    RtStatus st = {0};
    rt_machine_default(2, m);
    m->latency[RT_L1] = 0.125;
    if (check(!rt_machine_save(m, &path, &st), "%s: %s", st.place, st.message)) return path;
    free(path);
    return NULL;
}

static void test_damaged(void)
{
    RtMachine m, found;
    char text[8000], cut[8000];
    check_begin();
    char *path = save(&m);
    FILE *f = path ? fopen(path, "r") : NULL;
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    CHECK(n > 100 && rt_machine_load(2, &found) && found.latency[RT_L1] == 0.125 && !rt_machine_load(3, &found));
    static const char *const wrong[] = {"", "x", "0", "-1", "inf", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) /* at each word of the file */
        for (char *word = text; path && *word; word += strcspn(word, " \n"), word += strspn(word, " \n")) {
            snprintf(cut, sizeof cut, "%.*s%s%s", (int)(word - text), text, wrong[i],
                     i ? word + strcspn(word, " \n") : "");
            f = fopen(path, "w");
            check(f && fputs(cut, f) >= 0, "cannot write");
            if (f) fclose(f);
            if (word == text && wrong[i][0] == 0) check(!rt_machine_load(2, &found), "an empty file was believed");
            check(!rt_machine_load(2, &found) && !found.probed && found.latency[RT_L1] != 0.125, "believed: %.300s",
                  cut);
        }
    if (path) unlink(path);
    free(path);
    check_end("machine: a file that is damaged anywhere is not believed");
}

static void test_places(void)
{
    RtMachine m;
    RtStatus st = {0};
    char *path = NULL, longer[4500];
    check_begin();
    setenv("HOME", folder, 1);
    setenv("XDG_CACHE_HOME", "relative", 1); /* which the rules forbid */
    path = save(&m);
    CHECK(path && !strncmp(path, folder, strlen(folder)) && strstr(path, "/.cache/gnnc/machine-"));
    if (path) unlink(path);
    free(path);
    rmdir(path_of(".cache/gnnc"));
    rmdir(path_of(".cache"));
    memset(longer, 'x', sizeof longer);
    longer[0] = '/', longer[sizeof longer - 1] = 0;
    const char *homes[] = {NULL, "", "relative", longer};
    unsetenv("XDG_CACHE_HOME");
    for (int i = 0; i < 4; i++) {
        if (homes[i]) setenv("HOME", homes[i], 1);
        else unsetenv("HOME");
        CHECK(rt_machine_save(&m, &path, &st) == RT_E_FILE_WRITE && st.hint[0] && !rt_machine_load(2, &m));
        free(path);
    }
    setenv("XDG_CACHE_HOME", folder, 1);
    check_end("machine: where its file lies");
}

static int save_refused(void)
{
    RtMachine m, found;
    char *path = NULL;
    RtStatus st = {0};
    rt_machine_default(2, &m);
    RtCode code = rt_machine_save(&m, &path, &st);
    bool loaded = !code && rt_machine_load(2, &found);
    failing_kind = FAILING_NOTHING;
    check(!code || st.message[0], "nothing is said");
    if (path) unlink(path);
    free(path);
    return code ? (int)code : !loaded;
}

/* A system that says nothing: the built-in figures. */
static int default_refused(void)
{
    RtMachine m;
    rt_machine_default(4, &m);
    check(m.bytes[RT_L1] > 0 && m.bytes[RT_L3] >= m.bytes[RT_L2] && m.cpu[0] && m.copy[RT_MEMORY] > 0 && !m.probed,
          "figures are missing");
    return failing_after < 0;
}

static void test_refused(void)
{
    check_begin();
    failing_each("saving", FAILING_SYSTEM, save_refused, 0);
    failing_each("saving", FAILING_MEMORY, save_refused, RT_E_MEMORY);
    CHECK(failing_each("asking", FAILING_SYSTEM, default_refused, 0) > 3);
    rmdir(path_of("gnnc"));
    CHECK(rmdir(folder) == 0);
    check_end("machine: refused calls");
}

static void test_print(void)
{
    RtMachine m;
    char *text = NULL;
    size_t n;
    rt_machine_default(1, &m);
    check_begin();
    m.probed = true;
    snprintf(m.cpu, sizeof m.cpu, "a \"b\" \\ \t c");
    FILE *f = open_memstream(&text, &n);
    rt_machine_print(&m, true, f);
    fclose(f);
    CHECK(strstr(text, "{\"cpu\": \"a b   c\", \"probed\": true"));
    free(text);
    f = open_memstream(&text, &n);
    rt_machine_print(&m, false, f);
    fclose(f);
    CHECK(strstr(text, "1 threads, measured\n") && !strstr(text, "built-in"));
    free(text);
    check_end("machine: printed");
}

int main(void)
{
    char here[100];
    snprintf(folder, sizeof folder, "%s/rt_machine_%ld", getcwd(here, sizeof here) ? here : "", (long)getpid());
    mkdir(folder, 0777);
    setenv("XDG_CACHE_HOME", folder, 1);
    test_damaged();
    test_places();
    test_print();
    test_refused();
    return check_done();
}
