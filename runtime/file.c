/* Whole files (see file.h); how one is replaced says replace.h. */
#include "runtime/file.h"
#include "runtime/replace.h"

RtCode rt_file_open(const char *path, int *fd, int64_t *bytes, RtStatus *st)
{
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang it */
    if (*fd < 0) return rt_fail_errno(st, RT_E_FILE_OPEN, path);
    RtCode code = RT_OK;
    if (fstat(*fd, &info)) code = rt_fail_errno(st, RT_E_FILE_READ, path);
    else if (!S_ISREG(info.st_mode))
        code = rt_fail(st, RT_E_FILE_READ, path, "give the path of a file", "is not a regular file");
    if (code) close(*fd);
    else *bytes = info.st_size;
    return code;
}

RtCode rt_file_read_part(int fd, const char *path, int64_t from, int64_t bytes, int64_t spare, RtBlock *b, RtStatus *st)
{
    size_t got = 0;
    RT_TRY(rt_block_alloc(b, rt_size_plus(bytes, spare, 1), path, st));
    b->bytes = (size_t)bytes;
    while (got < b->bytes) {
        ssize_t n = pread(fd, (char *)b->p + got, b->bytes - got, from + (off_t)got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            RtCode code = rt_fail_errno(st, RT_E_FILE_READ, path);
            rt_block_free(b);
            return code;
        }
        if (n == 0) break; /* shrank meanwhile: the reader of the format sees a short file */
        got += (size_t)n;
    }
    b->bytes = got;
    return RT_OK;
}

RtCode rt_file_read(const char *path, RtBlock *b, RtStatus *st)
{
    int fd;
    int64_t bytes;
    *b = (RtBlock){0};
    RT_TRY(rt_file_open(path, &fd, &bytes, st));
    RtCode code = rt_file_read_part(fd, path, 0, bytes, 0, b, st);
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
