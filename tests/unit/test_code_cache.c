/* Machine code that is kept by content: what was put is what is found, a damaged piece is none, the oldest make room,
   and a folder that nobody can write to is said and no error. Needs neither NVRTC nor a GPU. */
#include "base/file.h"
#include "codegen/code_cache.h"
#include "tests/unit/check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static Arena *arena;
static const char *folder;

static const char *piece(const CodeCache *c, const char *key)
{
    return arena_printf(arena, "%s/%s.code", c->folder, key);
}

static NvrtcCode sample(size_t n, char fill)
{
    char *bytes = arena_alloc(arena, n + 1);
    memset(bytes, fill, n);
    bytes[0] = '\n', bytes[n / 2] = 0;
    NvrtcCode code = {.bytes = bytes, .n = n};
    VEC_PUSH(arena, &code.usage, ((NvrtcUsage){"k0_rows", 64, 8, 1024}));
    VEC_PUSH(arena, &code.usage, ((NvrtcUsage){"k1_map", 32, 0, 0}));
    return code;
}

static bool same(const NvrtcCode *a, const NvrtcCode *b)
{
    if (a->n != b->n || memcmp(a->bytes, b->bytes, a->n) || a->usage.n != b->usage.n) return false;
    for (uint32_t i = 0; i < a->usage.n; i++) {
        const NvrtcUsage *x = &a->usage.data[i], *y = &b->usage.data[i];
        if (strcmp(x->kernel, y->kernel) || x->registers != y->registers || x->spill_bytes != y->spill_bytes ||
            x->static_bytes != y->static_bytes)
            return false;
    }
    return true;
}

static void test_found(void)
{
    check_begin();
    CodeCache c = {.folder = arena_printf(arena, "%s/a/b", folder), .most_bytes = 1 << 20};
    NvrtcCode code = sample(1000, 'x'), other = sample(10, 'y'), none = {.bytes = "ptx", .n = 3}, found;
    char keys[4][65];
    code_cache_key("sm_90", "NVRTC 13.0", "text", keys[0]);
    code_cache_key("sm_80", "NVRTC 13.0", "text", keys[1]);
    code_cache_key("sm_90", "NVRTC 13.1", "text", keys[2]);
    code_cache_key("sm_90", "NVRTC 13.0", "texts", keys[3]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++) CHECK(strcmp(keys[i], keys[j]));
    CHECK(!code_cache_get(arena, &c, keys[0], &found));
    code_cache_put(arena, &c, keys[0], &code);
    code_cache_put(arena, &c, keys[1], &none);
    CHECK(!c.why && code_cache_get(arena, &c, keys[0], &found) && same(&code, &found));
    CHECK(code_cache_get(arena, &c, keys[1], &found) && same(&none, &found) && found.bytes[3] == 0);
    CHECK(!code_cache_get(arena, &c, keys[2], &found));
    code_cache_put(arena, &c, keys[0], &other);
    CHECK(code_cache_get(arena, &c, keys[0], &found) && same(&other, &found));
    c.folder = NULL;
    code_cache_put(arena, &c, keys[0], &code);
    CHECK(!c.why && !code_cache_get(arena, &c, keys[0], &found));
    check_end("code cache: what was put is found by its key");
}

/* A file that is cut, longer, or has one byte changed is none, and a build replaces it. */
static void test_damaged(void)
{
    check_begin();
    CodeCache c = {.folder = folder, .most_bytes = 1 << 20};
    NvrtcCode code = sample(100, 'x'), found;
    char key[65];
    const char *why;
    size_t n;
    code_cache_key("sm_90", "", "damaged", key);
    code_cache_put(arena, &c, key, &code);
    char *file = file_read(arena, piece(&c, key), 0, &n, &why);
    for (size_t i = 0; i < n; i++) {
        file[i] ^= 1;
        CHECK(file_write(arena, piece(&c, key), file, n, 0600, &why) && !code_cache_get(arena, &c, key, &found));
        file[i] ^= 1;
    }
    for (size_t m = 0; m < n; m++)
        CHECK(file_write(arena, piece(&c, key), file, m, 0600, &why) && !code_cache_get(arena, &c, key, &found));
    code_cache_put(arena, &c, key, &code);
    CHECK(code_cache_get(arena, &c, key, &found) && same(&code, &found));
    check_end("code cache: a damaged piece is none");
}

/* Five pieces of about 1,100 bytes where 3,500 fit: the three that were put or used last stay, and files of others. */
static void test_bound(void)
{
    check_begin();
    CodeCache c = {.folder = arena_printf(arena, "%s/bound", folder), .most_bytes = 3500};
    NvrtcCode code = sample(1000, 'x'), found;
    const char *why, *other = arena_printf(arena, "%s/other.code", c.folder);
    char keys[5][65];
    for (int i = 0; i < 5; i++) code_cache_key("sm_90", "", arena_printf(arena, "%d", i), keys[i]);
    for (int i = 0; i < 3; i++) {
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        code_cache_put(arena, &c, keys[i], &code);
        CHECK(utimensat(AT_FDCWD, piece(&c, keys[i]), times, 0) == 0);
    }
    CHECK(file_write(arena, other, code.bytes, code.n, 0600, &why));
    CHECK(code_cache_get(arena, &c, keys[0], &found)); /* used: now 1 and 2 are the oldest */
    for (int i = 3; i < 5; i++) code_cache_put(arena, &c, keys[i], &code);
    for (int i = 0; i < 5; i++) CHECK((access(piece(&c, keys[i]), F_OK) == 0) == (i == 0 || i >= 3));
    CHECK(access(other, F_OK) == 0);
    check_end("code cache: the oldest make room");
}

static void test_places(void)
{
    check_begin();
    NvrtcCode code = sample(10, 'x');
    CodeCache c = {.folder = arena_printf(arena, "%s/plain/folder", folder), .most_bytes = 1 << 20};
    const char *why;
    char key[65];
    code_cache_key("sm_90", "", "", key);
    CHECK(file_write(arena, arena_printf(arena, "%s/plain", folder), "", 0, 0600, &why));
    code_cache_put(arena, &c, key, &code);
    CHECK(c.why && strstr(c.why, c.folder));
    setenv("GNNC_CACHE", "off", 1);
    CHECK(!code_cache_open(arena).folder);
    setenv("GNNC_CACHE", "here", 1);
    CHECK(!strcmp(code_cache_open(arena).folder, "here"));
    unsetenv("GNNC_CACHE");
    setenv("XDG_CACHE_HOME", "/x", 1);
    CHECK(!strcmp(code_cache_open(arena).folder, "/x/gnnc/cuda"));
    setenv("XDG_CACHE_HOME", "x", 1); /* not a whole path: the XDG rules want it left out */
    setenv("HOME", "/h", 1);
    CHECK(!strcmp(code_cache_open(arena).folder, "/h/.cache/gnnc/cuda"));
    unsetenv("HOME");
    CHECK(!code_cache_open(arena).folder);
    check_end("code cache: where it lies, and a place that is none");
}

int main(void)
{
    arena = arena_new();
    TempFolder temp;
    const char *why;
    if (!temp_folder_make(arena, NULL, &temp, &why)) return 1;
    folder = temp.path;
    test_found();
    test_damaged();
    test_bound();
    test_places();
    const char *const clean[] = {"rm", "-rf", arena_printf(arena, "%s/a", folder),
                                 arena_printf(arena, "%s/bound", folder), NULL};
    char *log;
    file_spawn(arena, clean, &log, &why); /* temp_folder_remove removes plain files alone */
    temp_folder_remove(&temp);
    arena_free(arena);
    return check_done();
}
