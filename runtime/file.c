/* Whole files (see file.h); how one is replaced says replace.h. */
#include "runtime/file.h"
#include "runtime/replace.h"

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
        return rt_fail(st, RT_E_FILE_READ, path, "give the path of a file", "is not a regular file");
    RT_TRY(rt_block_alloc(b, info.st_size, path, st));
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

static RtCode write_error(const RtReplace *r, const char *path, RtStatus *st)
{
    if (r->why) return rt_fail(st, RT_E_FILE_WRITE, path, NULL, "%s: %s", rt_code_title(RT_E_FILE_WRITE), r->why);
    return rt_fail_errno(st, RT_E_FILE_WRITE, path);
}

RtCode rt_file_replace(const char *path, const RtFilePart *parts, size_t n_parts, RtStatus *st)
{
    RtReplace r;
    if (!rt_replace_open(&r, path, 0666)) return write_error(&r, path, st);
    for (size_t i = 0; i < n_parts; i++)
        if (!rt_replace_write(&r, parts[i].p, parts[i].bytes)) {
            rt_replace_end(&r);
            return write_error(&r, path, st);
        }
    return rt_replace_commit(&r) ? RT_OK : write_error(&r, path, st);
}

/* Tried as it will be done, up to the writing; who reads a pipe must not see that it was opened. */
RtCode rt_file_writable(const char *path, RtStatus *st)
{
    RtReplace r;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return access(path, W_OK) ? rt_fail_errno(st, RT_E_FILE_WRITE, path) : RT_OK;
    if (!rt_replace_open(&r, path, 0666)) return write_error(&r, path, st);
    rt_replace_end(&r);
    return RT_OK;
}
