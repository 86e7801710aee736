/* A piece is a file `KEY.code`: a line with the SHA-256 of all that follows it, a line for each kernel's figures, an
   empty line, the code. A file is replaced as a whole, so who reads sees all of it or none; who uses one gives it the
   time of now, and the oldest go first. */
#include "codegen/code_cache.h"
#include "base/file.h"
#include "base/ice.h"
#include "base/sha256.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[] = "gnnc code 1 ", ENDS[] = ".code";
enum { DIGEST = 64, HEAD = sizeof MAGIC - 1 + DIGEST + 1 };
static const int64_t MOST_BYTES = INT64_C(1) << 30;

CodeCache code_cache_open(Arena *a)
{
    const char *said = getenv("GNNC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    CodeCache c = {.most_bytes = MOST_BYTES};
    if (said && said[0]) c.folder = strcmp(said, "off") ? arena_printf(a, "%s", said) : NULL;
    else if (xdg && xdg[0] == '/') c.folder = arena_printf(a, "%s/gnnc/cuda", xdg);
    else if (home && home[0] == '/') c.folder = arena_printf(a, "%s/.cache/gnnc/cuda", home);
    return c;
}

void code_cache_key(const char *what, const char *identity, const char *text, char key[65])
{
    Arena *a = arena_new();
    const char *all = arena_printf(a, "%s\n%s\n%s", what, identity, text);
    sha256_hex(all, strlen(all), key);
    arena_free(a);
}

static const char *piece_path(Arena *a, const CodeCache *c, const char *key)
{
    return arena_printf(a, "%s/%s%s", c->folder, key, ENDS);
}

/* One line of a kernel's figures; NULL where it is none. */
static const char *read_kernel(Arena *a, const char *line, NvrtcCode *code)
{
    char name[256];
    NvrtcUsage u = {0};
    const char *end = strchr(line, '\n');
    int used = 0;
    if (!end ||
        sscanf(line, "%255s %" SCNu32 " %" SCNu32 " %" SCNu32 "%n", name, &u.registers, &u.spill_bytes, &u.static_bytes,
               &used) != 4 ||
        line + used != end)
        return NULL;
    u.kernel = arena_strndup(a, name, strlen(name));
    VEC_PUSH(a, &code->usage, u);
    return end + 1;
}

bool code_cache_get(Arena *a, const CodeCache *c, const char *key, NvrtcCode *code)
{
    const char *why, *path = c->folder ? piece_path(a, c, key) : NULL;
    char digest[DIGEST + 1];
    size_t n = 0;
    const char *file = path ? file_read(a, path, 0, &n, &why) : NULL;
    *code = (NvrtcCode){0};
    if (!file || n <= HEAD || strncmp(file, MAGIC, sizeof MAGIC - 1) || file[HEAD - 1] != '\n') return false;
    sha256_hex(file + HEAD, n - HEAD, digest);
    if (strncmp(file + HEAD - DIGEST - 1, digest, DIGEST)) return false;
    const char *at = file + HEAD;
    while (at && *at != '\n') at = read_kernel(a, at, code);
    if (!at) return false;
    code->bytes = at + 1, code->n = (size_t)(file + n - code->bytes);
    utimensat(AT_FDCWD, path, NULL, 0); /* it was used now; where that fails, it only goes earlier */
    return code->n > 0;
}

/* ---- the bound ---- */

typedef struct Piece {
    const char *name;
    int64_t bytes;
    struct timespec used;
} Piece;

static int by_age(const void *a, const void *b)
{
    const Piece *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void remove_oldest(Arena *a, const CodeCache *c)
{
    VEC(Piece) pieces = {0};
    int64_t bytes = 0;
    DIR *folder = opendir(c->folder);
    if (!folder) return;
    for (struct dirent *e; (e = readdir(folder));) {
        struct stat info;
        size_t n = strlen(e->d_name);
        if (n != DIGEST + sizeof ENDS - 1 || strcmp(e->d_name + DIGEST, ENDS)) continue; /* not ours */
        if (fstatat(dirfd(folder), e->d_name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode)) continue;
        VEC_PUSH(a, &pieces, ((Piece){arena_strndup(a, e->d_name, n), info.st_size, info.st_mtim}));
        bytes += info.st_size;
    }
    if (pieces.n) qsort(pieces.data, pieces.n, sizeof *pieces.data, by_age);
    for (uint32_t i = 0; i < pieces.n && bytes > c->most_bytes; i++) { /* another process may have been faster */
        unlinkat(dirfd(folder), pieces.data[i].name, 0);
        bytes -= pieces.data[i].bytes;
    }
    closedir(folder);
}

/* Makes a folder and those above it, for this user alone. */
static void make_folders(Arena *a, const char *path)
{
    char *part = arena_strndup(a, path, strlen(path));
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(part, 0700); /* what is there stays; what cannot be made is noticed by who writes */
        *p = '/';
    }
    mkdir(part, 0700);
}

void code_cache_put(Arena *a, CodeCache *c, const char *key, const NvrtcCode *code)
{
    StrBuf body = {.arena = a}, file = {.arena = a};
    char digest[DIGEST + 1];
    const char *why = NULL;
    ICE_UNLESS(code->bytes && code->n && strlen(key) == DIGEST);
    if (!c->folder) return;
    for (uint32_t i = 0; i < code->usage.n; i++) {
        const NvrtcUsage *u = &code->usage.data[i];
        strbuf_printf(&body, "%s %u %u %u\n", u->kernel, u->registers, u->spill_bytes, u->static_bytes);
    }
    strbuf_puts(&body, "\n");
    strbuf_add(&body, code->bytes, code->n);
    sha256_hex(body.data, body.n, digest);
    strbuf_printf(&file, "%s%s\n", MAGIC, digest);
    strbuf_add(&file, body.data, body.n);
    make_folders(a, c->folder);
    if (file_write(a, piece_path(a, c, key), file.data, file.n, 0600, &why)) remove_oldest(a, c);
    else c->why = arena_printf(a, "machine code is not kept in `%s`: %s", c->folder, why);
}
