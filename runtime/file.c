/* Whole files (see file.h). Replacing a regular file writes PATH.tmp.PID, syncs it, renames it over
   PATH and syncs the folder, so that a kill or a full disk at any moment leaves the old file or the
   new one. */
#include "runtime/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static RtCode read_all(int fd, RtBlock *b, const char *path, RtStatus *st)
{
    size_t got = 0;
    while (got < b->bytes) {
        ssize_t n = read(fd, (char *)b->p + got, b->bytes - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rt_fail_errno(st, RT_E_FILE_READ, path);
        if (n == 0) break; /* shrank meanwhile: the reader of the format sees a short file */
        got += (size_t)n;
    }
    b->bytes = got;
    return RT_OK;
}

static RtCode read_fd(int fd, const char *path, RtBlock *b, RtStatus *st)
{
    struct stat info;
    if (fstat(fd, &info)) return rt_fail_errno(st, RT_E_FILE_READ, path);
    if (!S_ISREG(info.st_mode))
        return rt_fail(st, RT_E_FILE_READ, path, "give the path of a file",
                       "is not a regular file");
    RT_TRY(rt_block_alloc(b, (size_t)info.st_size, path, st));
    RtCode code = read_all(fd, b, path, st);
    if (code) rt_block_free(b);
    return code;
}

RtCode rt_file_read(const char *path, RtBlock *b, RtStatus *st)
{
    *b = (RtBlock){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang it */
    if (fd < 0) return rt_fail_errno(st, RT_E_FILE_OPEN, path);
    RtCode code = read_fd(fd, path, b, st);
    close(fd);
    return code;
}

static bool write_all(int fd, const RtFilePart *part)
{
    const char *p = part->p;
    for (size_t left = part->bytes; left;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        left -= (size_t)n;
    }
    return true;
}

static void folder_of(const char *path, char *dir, size_t size)
{
    snprintf(dir, size, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        snprintf(dir, size, ".");
    else
        slash[slash == dir] = 0;
}

/* Makes the rename itself durable. Folders that cannot be synced (some network file systems) are
   accepted. */
static void sync_folder(const char *path)
{
    char dir[4096];
    folder_of(path, dir, sizeof dir);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static bool write_tmp(const char *tmp, const RtFilePart *parts, size_t n_parts)
{
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < n_parts; i++) ok = write_all(fd, &parts[i]);
    if (ok) ok = fsync(fd) == 0;
    int kept = errno;
    if (close(fd) && ok) return false;
    errno = kept;
    return ok;
}

/* Devices and pipes are written to, never replaced. */
static RtCode write_special(const char *path, const RtFilePart *parts, size_t n_parts, RtStatus *st)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0;
    for (size_t i = 0; ok && i < n_parts; i++) ok = write_all(fd, &parts[i]);
    int kept = errno;
    if (fd >= 0 && close(fd) && ok) return rt_fail_errno(st, RT_E_FILE_WRITE, path);
    errno = kept;
    return ok ? RT_OK : rt_fail_errno(st, RT_E_FILE_WRITE, path);
}

static RtCode replace_regular(const char *path, const RtFilePart *parts, size_t n_parts,
                              RtStatus *st)
{
    char tmp[PATH_MAX + 32];
    snprintf(tmp, sizeof tmp, "%s.tmp.%ld", path, (long)getpid());
    if (!write_tmp(tmp, parts, n_parts) || rename(tmp, path)) {
        int kept = errno;
        unlink(tmp);
        errno = kept;
        return rt_fail_errno(st, RT_E_FILE_WRITE, path);
    }
    sync_folder(path);
    return RT_OK;
}

RtCode rt_file_replace(const char *path, const RtFilePart *parts, size_t n_parts, RtStatus *st)
{
    struct stat info;
    char target[PATH_MAX];
    bool exists = stat(path, &info) == 0;
    if (exists && !S_ISREG(info.st_mode)) return write_special(path, parts, n_parts, st);
    if (exists && realpath(path, target)) path = target; /* a link stays a link */
    return replace_regular(path, parts, n_parts, st);
}

RtCode rt_file_writable(const char *path, RtStatus *st)
{
    struct stat info;
    char dir[PATH_MAX];
    if (stat(path, &info) == 0) {
        errno = EISDIR;
        if (S_ISDIR(info.st_mode) || access(path, W_OK))
            return rt_fail_errno(st, RT_E_FILE_WRITE, path);
        if (!S_ISREG(info.st_mode)) return RT_OK;
    }
    folder_of(path, dir, sizeof dir);
    if (access(dir, W_OK | X_OK)) return rt_fail_errno(st, RT_E_FILE_WRITE, path);
    return RT_OK;
}
