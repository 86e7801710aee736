/* Reading .npz archives (see zip.h; APPNOTE.TXT 6.3, sections 4.3 to 4.5). Every offset and length
   is checked against the file before it is used. A deflated member cannot grow more than 1032-fold,
   so one that claims more is refused before memory is asked for. */
#include "runtime/zip.h"
#include "runtime/file.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56, ENTRY_BYTES = 46, LOCAL_BYTES = 30 };
enum { DEFLATE_MOST = 1032, STORED = 0, DEFLATED = 8 };

typedef struct Member {
    const unsigned char *name;
    size_t name_bytes;
    uint64_t flags, method, crc, packed, size, at; /* at: of the local header */
} Member;

static uint64_t get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static RtCode broken(const char *place, const char *what, RtStatus *st)
{
    return rt_fail(st, RT_E_ZIP_FORM, place, "write the archive again with numpy.savez", "%s", what);
}

/* ---- the directory ---- */

/* The end record lies in the last 64 KiB, before a comment that ends with the file. */
static const unsigned char *find_end(const RtZip *z)
{
    const unsigned char *p = z->file.p;
    size_t n = z->file.bytes;
    for (size_t back = END_BYTES; back <= n && back <= END_BYTES + 65535; back++) {
        const unsigned char *q = p + n - back;
        if (!memcmp(q, "PK\5\6", 4) && get(q + 20, 2) == back - END_BYTES) return q;
    }
    return NULL;
}

/* Large archives: the end record is preceded by a locator of a wider one. NULL if there is none. */
static const unsigned char *find_end64(const RtZip *z, const unsigned char *end)
{
    const unsigned char *p = z->file.p, *locator = end - LOCATOR_BYTES;
    size_t n = z->file.bytes;
    if (end - p < LOCATOR_BYTES || memcmp(locator, "PK\6\7", 4)) return NULL;
    uint64_t at = get(locator + 8, 8);
    if (n < END64_BYTES || at > n - END64_BYTES || memcmp(p + at, "PK\6\6", 4)) return NULL;
    return p + at;
}

static RtCode find_directory(RtZip *z, RtStatus *st)
{
    const unsigned char *p = z->file.p, *end = find_end(z), *wide;
    if (z->file.bytes < 4 || memcmp(p, "PK", 2)) return broken(z->path, "does not begin with the zip magic", st);
    if (!end) return broken(z->path, "cut short: the zip directory at its end is missing", st);
    uint64_t n = get(end + 10, 2), bytes = get(end + 12, 4), at = get(end + 16, 4);
    if ((wide = find_end64(z, end))) n = get(wide + 32, 8), bytes = get(wide + 40, 8), at = get(wide + 48, 8);
    uint64_t room = (uint64_t)(end - p);
    if (at > room || bytes > room - at || n > bytes / ENTRY_BYTES)
        return broken(z->path, "the zip directory lies outside the file", st);
    z->directory = p + at;
    z->directory_bytes = (size_t)bytes;
    z->n_members = (int64_t)n;
    return RT_OK;
}

/* Values of 2^32 - 1 stand in the zip64 extra field, in this order. */
static bool widen(Member *m, const unsigned char *extra, size_t n)
{
    uint64_t *fields[] = {&m->size, &m->packed, &m->at};
    size_t at = 0, left = 0;
    while (n - at >= 4) {
        size_t id = get(extra + at, 2), bytes = get(extra + at + 2, 2);
        at += 4;
        if (bytes > n - at) return false;
        left = id == 1 ? bytes : 0;
        if (id == 1) break;
        at += bytes;
    }
    for (int i = 0; i < 3; i++) {
        if (*fields[i] != UINT32_MAX) continue;
        if (left < 8) return false;
        *fields[i] = get(extra + at, 8);
        at += 8;
        left -= 8;
    }
    return true;
}

/* The member at *at of the directory; moves *at behind it. False where the directory is malformed. */
static bool next_member(const RtZip *z, size_t *at, Member *m)
{
    assert(*at <= z->directory_bytes);
    const unsigned char *p = z->directory + *at;
    size_t room = z->directory_bytes - *at;
    if (room < ENTRY_BYTES || memcmp(p, "PK\1\2", 4)) return false;
    size_t name = get(p + 28, 2), extra = get(p + 30, 2), comment = get(p + 32, 2);
    if (room - ENTRY_BYTES < name + extra + comment) return false;
    *m = (Member){p + ENTRY_BYTES, name,           get(p + 8, 2),  get(p + 10, 2),
                  get(p + 16, 4),  get(p + 20, 4), get(p + 24, 4), get(p + 42, 4)};
    *at += ENTRY_BYTES + name + extra + comment;
    return widen(m, p + ENTRY_BYTES + name, extra);
}

static bool is_named(const Member *m, const char *name)
{
    size_t n = strlen(name);
    return m->name_bytes == n + 4 && !memcmp(m->name, name, n) && !memcmp(m->name + n, ".npy", 4);
}

/* How many members are NAME.npy; the last of them in *m. */
static int64_t find(const RtZip *z, const char *name, Member *m)
{
    int64_t found = 0;
    size_t at = 0;
    for (int64_t i = 0; i < z->n_members; i++) {
        Member it = {0};
        next_member(z, &at, &it); /* is there: the directory was walked when it was opened */
        if (!is_named(&it, name)) continue;
        *m = it;
        found++;
    }
    return found;
}

static RtCode open_file(RtZip *z, RtStatus *st)
{
    size_t at = 0;
    Member m;
    RT_TRY(rt_file_read(z->path, &z->file, st));
    RT_TRY(find_directory(z, st));
    for (int64_t i = 0; i < z->n_members; i++)
        if (!next_member(z, &at, &m)) return broken(z->path, "the zip directory is malformed", st);
    return RT_OK;
}

RtCode rt_zip_open(const char *path, RtZip *z, RtStatus *st)
{
    *z = (RtZip){0};
    if (snprintf(z->path, sizeof z->path, "%s", path) >= (int)sizeof z->path)
        return rt_fail(st, RT_E_FILE_OPEN, path, NULL, "the path is too long");
    RtCode code = open_file(z, st);
    if (code) rt_zip_close(z);
    return code;
}

void rt_zip_close(RtZip *z)
{
    if (!z) return;
    rt_block_free(&z->file);
    *z = (RtZip){0};
}

bool rt_zip_has(const RtZip *z, const char *name)
{
    Member m;
    return find(z, name, &m) > 0;
}

/* ---- members ---- */

/* Where the packed bytes begin. */
static RtCode find_packed(const RtZip *z, const Member *m, const char *place, const unsigned char **out, RtStatus *st)
{
    const unsigned char *p = z->file.p;
    assert(z->directory >= p && z->directory <= p + z->file.bytes);
    uint64_t room = (uint64_t)(z->directory - p);
    if (m->flags & 1) return broken(place, "the member is encrypted", st);
    if (m->method != STORED && m->method != DEFLATED)
        return broken(place, "the member is packed by another method than deflate", st);
    if (room < LOCAL_BYTES || m->at > room - LOCAL_BYTES || memcmp(p + m->at, "PK\3\4", 4))
        return broken(place, "the member's header is not where the directory says", st);
    uint64_t at = m->at + LOCAL_BYTES + get(p + m->at + 26, 2) + get(p + m->at + 28, 2);
    if (at > room || m->packed > room - at) return broken(place, "cut short: the member ends outside the file", st);
    if (m->method == STORED ? m->size != m->packed : m->size / DEFLATE_MOST > m->packed)
        return broken(place, "the member cannot have the size that the directory says", st);
    *out = p + at;
    return RT_OK;
}

static uInt some(uint64_t n) { return n > INT_MAX ? INT_MAX : (uInt)n; }

/* Unpacks into out[m->size], which must be exactly as long. */
static RtCode unpack(const Member *m, const unsigned char *packed, const char *place, unsigned char *out, RtStatus *st)
{
    z_stream s = {0};
    uint64_t in_left = m->packed, out_left = m->size;
    int code = Z_OK;
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return rt_fail_memory(st, 1 << 15, place);
    s.next_in = (unsigned char *)(uintptr_t)packed;
    s.next_out = out;
    while (code == Z_OK) {
        uInt in = s.avail_in = some(in_left), room = s.avail_out = some(out_left);
        code = inflate(&s, Z_NO_FLUSH);
        in_left -= in - s.avail_in;
        out_left -= room - s.avail_out;
    } /* Z_BUF_ERROR where nothing moves */
    inflateEnd(&s);
    if (code == Z_STREAM_END && !in_left && !out_left) return RT_OK;
    return rt_fail(st, RT_E_ZIP_DATA, place, "copy or write the archive again",
                   "the member cannot be unpacked: its data is damaged");
}

static RtCode parse(const Member *m, const unsigned char *bytes, const char *place, RtArray *a, RtStatus *st)
{
    if (crc32_z(0, bytes, (size_t)m->size) != m->crc)
        return rt_fail(st, RT_E_ZIP_DATA, place, "copy or write the archive again",
                       "the member's checksum differs from the directory's");
    return rt_npy_parse(place, bytes, (size_t)m->size, a, st);
}

RtCode rt_zip_read(const RtZip *z, const char *name, const char *place, RtArray *a, RtStatus *st)
{
    Member m = {0};
    const unsigned char *packed = NULL; /* set whenever find_packed succeeds */
    RtBlock out;
    *a = (RtArray){0};
    int64_t found = find(z, name, &m);
    if (!found) return rt_fail(st, RT_E_FILE_OPEN, place, NULL, "the archive has no member %s.npy", name);
    if (found > 1) return broken(place, "the archive has the member twice", st);
    RT_TRY(find_packed(z, &m, place, &packed, st));
    if (m.method == STORED) return parse(&m, packed, place, a, st);
    RT_TRY(rt_block_alloc(&out, m.size > INT64_MAX ? -1 : (int64_t)m.size, place, st));
    RtCode code = unpack(&m, packed, place, out.p, st);
    if (!code) code = parse(&m, out.p, place, a, st);
    rt_block_free(&out);
    return code;
}
