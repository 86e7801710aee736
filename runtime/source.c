/* Directories of .npy files (see source.h). */
#include "runtime/source.h"
#include "runtime/file.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static RtCode read_meta(RtSource *s, RtStatus *st)
{
    char path[PATH_BYTES];
    RtBlock text;
    snprintf(path, sizeof path, "%s/meta.json", s->path);
    if (access(path, F_OK)) return RT_OK;
    RT_TRY(rt_file_read(path, &text, st));
    RtCode code = rt_json_parse(path, text.p, text.bytes, &s->meta, st);
    rt_block_free(&text);
    if (!code && s->meta.root->kind != RT_JSON_OBJECT)
        code = rt_fail(st, RT_E_DATA_META, path, NULL, "wanted an object at the top");
    return code;
}

RtCode rt_source_open(const char *path, RtSource *s, RtStatus *st)
{
    struct stat info;
    *s = (RtSource){0};
    if (stat(path, &info)) return rt_fail_errno(st, RT_E_FILE_OPEN, path);
    if (!S_ISDIR(info.st_mode))
        return rt_fail(st, RT_E_FILE_OPEN, path, "give the folder that holds edge_index.npy",
                       "is not a directory");
    if (snprintf(s->path, sizeof s->path, "%s", path) >= (int)sizeof s->path)
        return rt_fail(st, RT_E_FILE_OPEN, "--data", NULL, "the path is too long");
    RtCode code = read_meta(s, st);
    if (code) rt_source_close(s);
    return code;
}

void rt_source_close(RtSource *s)
{
    rt_json_free(&s->meta);
    *s = (RtSource){0};
}

const char *rt_source_place(const RtSource *s, const char *stem, char *out, size_t size)
{
    snprintf(out, size, "%s/%s.npy", s->path, stem);
    return out;
}

bool rt_source_has(const RtSource *s, const char *stem)
{
    char path[PATH_BYTES];
    return !access(rt_source_place(s, stem, path, sizeof path), F_OK);
}

RtCode rt_source_read(const RtSource *s, const char *stem, RtArray *a, RtStatus *st)
{
    char path[PATH_BYTES];
    return rt_npy_read(rt_source_place(s, stem, path, sizeof path), a, st);
}

RtCode rt_source_meta_int(const RtSource *s, const char *key, int64_t *out, RtStatus *st)
{
    char place[PATH_BYTES];
    const RtJson *v = rt_json_get(s->meta.root, key);
    if (!v) return RT_OK;
    if (rt_json_int(v, out)) return RT_OK;
    snprintf(place, sizeof place, "%s/meta.json", s->path);
    return rt_fail(st, RT_E_DATA_META, place, NULL, "%s: wanted a whole number, not negative", key);
}
