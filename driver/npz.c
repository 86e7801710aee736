/* Headers of the arrays in a zip archive; contract in npz.h. Walks the central directory and
   unpacks no more than a header of each member, stored or deflated. Archives beyond 4 GiB (zip64)
   are not read. */
#include "driver/npz.h"
#include "base/file.h"
#include <string.h>
#include <zlib.h>

enum { HEAD_BYTES = 4112, END_BYTES = 22, ENTRY_BYTES = 46, LOCAL_BYTES = 30, MAX_MEMBERS = 1024 };

typedef struct Zip {
    Arena *arena;
    const unsigned char *p;
    size_t n;
} Zip;

static size_t get(const unsigned char *p, int n)
{
    size_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static const unsigned char *find_end(const Zip *z)
{
    for (size_t back = END_BYTES; back <= z->n && back <= END_BYTES + 65535; back++) {
        const unsigned char *q = z->p + z->n - back;
        if (!memcmp(q, "PK\5\6", 4) && get(q + 20, 2) == back - END_BYTES) return q;
    }
    return NULL;
}

/* The first bytes of a member; their number, 0 if it cannot be unpacked. */
static size_t unpack_head(const unsigned char *packed, size_t n, bool deflated, char *out)
{
    if (!deflated) {
        size_t take = n < HEAD_BYTES ? n : HEAD_BYTES;
        memcpy(out, packed, take);
        return take;
    }
    z_stream s = {.next_in = (unsigned char *)(uintptr_t)packed,
                  .avail_in = (uInt)n,
                  .next_out = (unsigned char *)out,
                  .avail_out = HEAD_BYTES};
    if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return 0;
    inflate(&s, Z_SYNC_FLUSH); /* data that is damaged further on is the runtime's to find */
    inflateEnd(&s);
    return HEAD_BYTES - s.avail_out;
}

/* entry: the member's record in the directory, whose own bytes were checked. */
static const char *read_member(const Zip *z, const unsigned char *entry, NpzMember *m)
{
    char head[HEAD_BYTES];
    size_t packed = get(entry + 20, 4), at = get(entry + 42, 4), method = get(entry + 10, 2), data;
    if (method != 0 && method != 8) return "a member is packed by another method than deflate";
    if (z->n < LOCAL_BYTES || at > z->n - LOCAL_BYTES || memcmp(z->p + at, "PK\3\4", 4))
        return "a member lies outside the file";
    at += LOCAL_BYTES + get(z->p + at + 26, 2) + get(z->p + at + 28, 2);
    if (at > z->n || packed > z->n - at) return "a member lies outside the file";
    size_t n = unpack_head(z->p + at, packed, method == 8, head);
    const char *wrong = npy_parse_header(z->arena, head, n, &m->npy, &data);
    if (wrong) return arena_printf(z->arena, "member %s: %s", m->name, wrong);
    if (strcmp(m->npy.dtype, "<i8") == 0 && n - data >= sizeof m->first && m->npy.n >= 2)
        memcpy(m->first, head + data, sizeof m->first);
    return NULL;
}

static const char *read_directory(const Zip *z, size_t at, size_t n, Npz *out)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char *entry = z->p + at;
        if (z->n - at < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4)) return "its zip directory is malformed";
        size_t name = get(entry + 28, 2), more = get(entry + 30, 2) + get(entry + 32, 2);
        if (z->n - at - ENTRY_BYTES < name + more) return "its zip directory is malformed";
        at += ENTRY_BYTES + name + more;
        const char *text = (const char *)entry + ENTRY_BYTES;
        if (name <= 4 || memcmp(text + name - 4, ".npy", 4) || (name == 10 && !memcmp(text, "format", 6))) continue;
        NpzMember *m = &out->members[out->n];
        *m = (NpzMember){.name = arena_strndup(z->arena, text, name - 4)};
        const char *wrong = read_member(z, entry, m);
        if (wrong) return wrong;
        out->n++;
    }
    return NULL;
}

const char *npz_headers(Arena *a, const char *path, Npz *out)
{
    const char *why = NULL;
    Zip z = {.arena = a};
    *out = (Npz){0};
    z.p = (const unsigned char *)file_read(a, path, (size_t)UINT32_MAX, &z.n, &why);
    if (!z.p) return arena_printf(a, "it cannot be read: %s", why);
    const unsigned char *end = find_end(&z);
    if (!end) return "it is no .npz file, or cut short (the zip directory at its end is missing)";
    size_t n = get(end + 10, 2), at = get(end + 16, 4);
    if (at > z.n || n > MAX_MEMBERS) return "its zip directory is malformed";
    out->members = ARENA_ARRAY(a, NpzMember, n + 1);
    return read_directory(&z, at, n, out);
}
