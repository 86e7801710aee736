/* File reading, atomic writing and process spawning; contracts in file.h. */
#include "base/file.h"
#include "runtime/replace.h"
#include <dirent.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

static const char *reason(Arena *a) { return arena_printf(a, "%s", strerror(errno)); }

/* size: of the file, as far as it is known; 0: of a pipe. NUL-terminated. */
static char *read_fd(Arena *a, int fd, size_t size, size_t max, size_t *n, const char **why)
{
    size_t cap = size + 1 > 1 << 12 ? size + 1 : 1 << 12, used = 0;
    char *buf = size > max ? NULL : arena_alloc(a, cap);
    while (buf && used <= max) {
        ssize_t got = read(fd, buf + used, cap - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) *why = reason(a);
        if (got < 0) return NULL;
        used += (size_t)got;
        if (used == cap) buf = memcpy(arena_alloc(a, cap *= 2), buf, used);
        else if (got == 0) return *n = used, buf;
    }
    *why = "the file is too large";
    return NULL;
}

char *file_read(Arena *a, const char *path, size_t max, size_t *n, const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        *why = reason(a);
        return NULL;
    }
    struct stat st;
    bool known = fstat(fd, &st) == 0;
    if (known && S_ISDIR(st.st_mode)) {
        *why = "it is a directory";
        close(fd);
        return NULL;
    }
    size_t size = known && S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    char *text = read_fd(a, fd, size, max ? max : (size_t)1 << 30, n, why);
    close(fd);
    return text;
}

bool file_same(const char *a, const char *b) { return rt_same_file(a, b); }

bool file_write(Arena *a, const char *path, const void *p, size_t n, unsigned mode, const char **why)
{
    RtReplace r;
    bool ok = rt_replace_open(&r, path, (mode_t)mode);
    if (ok && !rt_replace_write(&r, p, n)) {
        rt_replace_end(&r);
        ok = false;
    } else if (ok) {
        ok = rt_replace_commit(&r);
    }
    if (!ok) *why = r.why ? r.why : reason(a);
    return ok;
}

static void remove_files(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(path);
}

/* A process that removes the folder once this one has ended, however it ends: it waits for the other end of a pipe to
   close. */
static void guard(TempFolder *t)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return; /* then nobody guards it */
    t->guard = fork();
    if (t->guard) {
        close(ends[0]);
        t->held = ends[1];
        return;
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid(); /* what kills a group of processes is not for this one */
    int null = open("/dev/null", O_RDWR), fd = dup2(ends[0], 3);
    for (int i = 0; i < 3; i++) dup2(null, i); /* so that nobody waits for its output */
    close_range(4, ~0u, 0);
    char byte;
    while (fd == 3 && read(fd, &byte, 1) < 0 && errno == EINTR) continue;
    remove_files(t->path);
    _exit(0);
}

bool temp_folder_make(Arena *a, const char *base, TempFolder *t, const char **why)
{
    const char *tmp = getenv("TMPDIR");
    if (!base) base = tmp && *tmp ? tmp : "/tmp";
    *t = (TempFolder){.path = arena_printf(a, "%s/gnnc.XXXXXX", base), .held = -1, .guard = -1};
    if (!mkdtemp(t->path)) {
        *why = reason(a);
        return false;
    }
    guard(t);
    return true;
}

void temp_folder_remove(TempFolder *t)
{
    remove_files(t->path);
    if (t->held >= 0) close(t->held);
    if (t->guard > 0) waitpid(t->guard, NULL, 0);
    t->held = t->guard = -1;
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
    char *text = read_fd(a, fds[0], 0, (size_t)1 << 16, &n, &ignored);
    if (text) *log = text;
    close(fds[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
