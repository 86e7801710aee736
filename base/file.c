/* File reading, atomic writing and process spawning; contracts in file.h. */
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *reason(Arena *a) { return arena_printf(a, "%s", strerror(errno)); }

static char *read_fd(Arena *a, int fd, size_t max, size_t *n, const char **why)
{
    size_t cap = 1 << 16, used = 0;
    char *buf = malloc(cap);
    for (;;) {
        if (!buf) {
            *why = "out of memory";
            return NULL;
        }
        ssize_t got = read(fd, buf + used, cap - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (got < 0) *why = reason(a);
            char *text = got < 0 ? NULL : arena_strndup(a, buf, used);
            *n = used;
            free(buf);
            return text;
        }
        used += (size_t)got;
        if (used > max) {
            *why = "the file is too large";
            free(buf);
            return NULL;
        }
        if (used == cap) {
            char *more = realloc(buf, cap *= 2);
            if (!more) free(buf);
            buf = more;
        }
    }
}

char *file_read(Arena *a, const char *path, size_t max, size_t *n, const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *why = reason(a);
        return NULL;
    }
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        *why = "it is a directory";
        close(fd);
        return NULL;
    }
    char *text = read_fd(a, fd, max ? max : (size_t)1 << 30, n, why);
    close(fd);
    return text;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Devices and pipes are written to, never replaced. */
static bool write_special(Arena *a, const char *path, const void *p, size_t n, const char **why)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write_all(fd, p, n);
    if (!ok) *why = reason(a);
    if (fd >= 0 && close(fd) != 0 && ok) *why = reason(a), ok = false;
    return ok;
}

bool file_write(Arena *a, const char *path, const void *p, size_t n, unsigned mode, const char **why)
{
    struct stat st;
    char target[PATH_MAX];
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) return write_special(a, path, p, n, why);
    if (exists && realpath(path, target)) path = target; /* a link stays a link */
    char *tmp = arena_printf(a, "%s.tmp.%ld", path, (long)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) {
        *why = reason(a);
        return false;
    }
    bool ok = write_all(fd, p, n) && fsync(fd) == 0;
    if (!ok) *why = reason(a);
    if (close(fd) != 0 && ok) *why = reason(a), ok = false;
    if (ok && rename(tmp, path) != 0) *why = reason(a), ok = false;
    if (!ok) unlink(tmp);
    return ok;
}

char *file_temp_dir(Arena *a, const char **why)
{
    const char *base = getenv("TMPDIR");
    char *dir = arena_printf(a, "%s/gnnc.XXXXXX", base && *base ? base : "/tmp");
    if (mkdtemp(dir)) return dir;
    *why = reason(a);
    return NULL;
}

void file_remove_tree(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(path);
}

int file_spawn(Arena *a, const char *const *argv, char **log, const char **why)
{
    int fds[2];
    *log = arena_strndup(a, "", 0);
    if (pipe2(fds, O_CLOEXEC) != 0) {
        *why = reason(a);
        return -1;
    }
    posix_spawn_file_actions_t acts;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, fds[1], 1);
    posix_spawn_file_actions_adddup2(&acts, fds[1], 2);
    pid_t pid;
    int err = posix_spawnp(&pid, argv[0], &acts, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    close(fds[1]);
    if (err) {
        close(fds[0]);
        *why = arena_printf(a, "%s: %s", argv[0], strerror(err));
        return -1;
    }
    size_t n = 0;
    const char *ignored;
    char *text = read_fd(a, fds[0], (size_t)1 << 16, &n, &ignored);
    if (text) *log = text;
    close(fds[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
