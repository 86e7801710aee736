/* A machine that fails: of all calls that ask for memory, or of all system calls, one after another is refused, and the
   program under test must say so, free what it has and leave no half of a file. Programs that include this are linked
   so that the calls below come here first (CMakeLists.txt). Never refuses a call outside `failing_each`. */
#pragma once
#include "tests/unit/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

typedef enum { FAILING_NOTHING, FAILING_MEMORY, FAILING_SYSTEM } Failing;

static Failing failing_kind;
static int64_t failing_after, failing_live; /* calls to go; blocks of memory that are held */

static bool failing_now(Failing kind)
{
    if (kind != failing_kind || failing_after < 0 || failing_after-- > 0) return false;
    errno = kind == FAILING_MEMORY ? ENOMEM : EIO;
    return true;
}

static void *failing_count(void *p)
{
    failing_live += p != NULL;
    return p;
}

#define WRAP(type, name, parameters, arguments, refused, kind)                                                         \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return failing_now(kind) ? refused : __real_##name arguments; }
#define WRAP_MEMORY(name, parameters, arguments)                                                                       \
    void *__real_##name parameters;                                                                                    \
    void *__wrap_##name parameters;                                                                                    \
    void *__wrap_##name parameters                                                                                     \
    {                                                                                                                  \
        return failing_now(FAILING_MEMORY) ? NULL : failing_count(__real_##name arguments);                            \
    }
WRAP_MEMORY(malloc, (size_t n), (n))
WRAP_MEMORY(calloc, (size_t n, size_t size), (n, size))
WRAP_MEMORY(aligned_alloc, (size_t to, size_t n), (to, n))
WRAP(int, inflateInit2_, (z_streamp s, int bits, const char *version, int size), (s, bits, version, size), Z_MEM_ERROR,
     FAILING_MEMORY)
WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), -1, FAILING_SYSTEM)
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t from), (fd, p, n, from), -1, FAILING_SYSTEM)
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), -1, FAILING_SYSTEM)
WRAP(int, fstat, (int fd, struct stat *info), (fd, info), -1, FAILING_SYSTEM)
WRAP(int, fsync, (int fd), (fd), -1, FAILING_SYSTEM)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, FAILING_SYSTEM)
WRAP(int, linkat, (int from, const char *a, int to, const char *b, int flags), (from, a, to, b, flags), -1,
     FAILING_SYSTEM)
WRAP(int, renameat, (int from, const char *a, int to, const char *b), (from, a, to, b), -1, FAILING_SYSTEM)
WRAP(int, rename, (const char *from, const char *to), (from, to), -1, FAILING_SYSTEM)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, FAILING_SYSTEM)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, FAILING_SYSTEM)
WRAP(long, sysconf, (int name), (name), -1, FAILING_SYSTEM)
WRAP(int, pipe2, (int *fds, int flags), (fds, flags), -1, FAILING_SYSTEM)

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
    if (failing_now(FAILING_MEMORY)) return NULL;
    return p ? __real_realloc(p, n) : failing_count(__real_realloc(p, n));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    failing_live -= p != NULL;
    __real_free(p);
}

FILE *__real_open_memstream(char **text, size_t *n);
FILE *__wrap_open_memstream(char **text, size_t *n);
FILE *__wrap_open_memstream(char **text, size_t *n)
{
    FILE *f = failing_now(FAILING_MEMORY) ? NULL : __real_open_memstream(text, n);
    failing_live += f != NULL; /* its buffer, which the caller frees */
    return f;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, unsigned mode);
int __wrap_open(const char *path, int flags, unsigned mode)
{
    return failing_now(FAILING_SYSTEM) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, unsigned mode);
int __wrap_openat(int folder, const char *path, int flags, unsigned mode)
{
    return failing_now(FAILING_SYSTEM) ? -1 : __real_openat(folder, path, flags, mode);
}

/* Runs `work` with its first call of that kind refused, its second ... until none is. It returns 0 only where it did
   all it should, else a code: `memory` where memory was refused (0: any); it may set failing_kind to FAILING_NOTHING
   and look at what it did. Returns how many calls there were. */
__attribute__((unused)) static int64_t failing_each(const char *name, Failing kind, int (*work)(void), int memory)
{
    for (int64_t n = 0;; n++) {
        int64_t before = failing_live;
        failing_kind = kind;
        failing_after = n;
        int code = work();
        bool refused = failing_after < 0;
        failing_kind = FAILING_NOTHING;
        check(failing_live == before, "%s: %d blocks kept after call %d failed", name, (int)(failing_live - before),
              (int)n);
        check(refused || !code, "%s: code %d although nothing failed", name, code);
        check(!refused || kind != FAILING_MEMORY || !memory || code == memory,
              "%s: code %d when memory ended at call %d", name, code, (int)n);
        if (!refused || !check_ok) return n;
    }
}
