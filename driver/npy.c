/* Reading and writing .npy; contracts in npy.h. Little endian, C order, versions 1 and 2. */
#include "driver/npy.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_MAX = 4096, MAGIC = 6 };

/* The value behind 'key': in the header's dictionary, or NULL. */
static const char *find_key(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    if (!p) return NULL;
    p += strlen(key);
    p += strspn(p, " :");
    return p;
}

static const char *parse_shape(const char *p, Npy *out)
{
    if (!p || *p != '(') return "the header's 'shape' is not a tuple";
    out->n = 1;
    for (p++; *p && *p != ')';) {
        if (*p == ' ' || *p == ',') {
            p++;
            continue;
        }
        char *end;
        errno = 0;
        long long v = strtoll(p, &end, 10);
        if (end == p || errno || v < 0) return "the header's 'shape' holds something that is no size";
        if (out->n_dims == NPY_MAX_DIMS) return "the header's 'shape' has too many dims";
        if (__builtin_mul_overflow(out->n, v, &out->n)) return "the header's 'shape' overflows";
        out->shape[out->n_dims++] = v;
        p = end;
    }
    return *p ? NULL : "the header's 'shape' does not end";
}

static const char *parse_dict(const char *text, Npy *out)
{
    const char *descr = find_key(text, "'descr'"), *order = find_key(text, "'fortran_order'");
    size_t n = descr && *descr == '\'' ? strcspn(descr + 1, "'") : 0;
    if (n == 0 || n >= sizeof out->dtype) return "the header's 'descr' is not a simple type";
    memcpy(out->dtype, descr + 1, n);
    if (!order || strncmp(order, "False", 5) != 0)
        return "it is in Fortran order (save it with numpy.ascontiguousarray)";
    return parse_shape(find_key(text, "'shape'"), out);
}

const char *npy_parse_header(Arena *a, const char *p, size_t n, Npy *out, size_t *at)
{
    const unsigned char *u = (const unsigned char *)p;
    *out = (Npy){0};
    if (n < 12 || memcmp(p, "\x93NUMPY", MAGIC) != 0) return "it is no .npy file (the magic bytes are missing)";
    if (u[6] < 1 || u[6] > 2) return "its .npy version is not 1 or 2";
    size_t length = u[8] | (size_t)u[9] << 8, start = 10;
    if (u[6] == 2) length |= (size_t)u[10] << 16 | (size_t)u[11] << 24, start = 12;
    if (length > HEAD_MAX || start + length > n) return "the header is cut off or absurdly long";
    *at = start + length;
    return parse_dict(arena_strndup(a, p + start, length), out);
}

const char *npy_header(Arena *a, const char *path, Npy *out)
{
    char head[HEAD_MAX + 16];
    size_t at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hang it */
    if (fd < 0) return arena_printf(a, "it cannot be opened: %s", strerror(errno));
    ssize_t got = read(fd, head, sizeof head);
    close(fd);
    return npy_parse_header(a, head, got > 0 ? (size_t)got : 0, out, &at);
}

const char *npy_read(Arena *a, const char *path, Npy *out)
{
    const char *why = NULL;
    size_t n = 0, at = 0, bytes;
    char *file = file_read(a, path, (size_t)1 << 36, &n, &why);
    if (!file) return arena_printf(a, "it cannot be read: %s", why);
    const char *wrong = npy_parse_header(a, file, n, out, &at);
    if (wrong) return wrong;
    size_t item = npy_item_bytes(out);
    if (!item) return arena_printf(a, "its type `%s` is not one of <f4 <f8 <i4 <i8 |b1 |u1", out->dtype);
    if (__builtin_mul_overflow((size_t)out->n, item, &bytes)) return "the header's 'shape' overflows";
    if (n - at != bytes) return arena_printf(a, "%zu bytes of data found, %zu wanted by its header", n - at, bytes);
    char *data = arena_alloc(a, bytes);
    memcpy(data, file + at, bytes);
    out->data = data;
    out->file = file;
    out->bytes_file = n;
    return NULL;
}

static const struct {
    const char *name;
    IrDtype t;
    size_t bytes;
} dtypes[] = {{"<f4", IR_F32, 4}, {"<f8", IR_F64, 8},  {"<i4", IR_I32, 4},
              {"<i8", IR_I64, 8}, {"|b1", IR_BOOL, 1}, {"|u1", IR_BOOL, 1}};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

bool npy_dtype(const Npy *npy, IrDtype *t)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, npy->dtype) == 0) return *t = dtypes[i].t, true;
    return false;
}

size_t npy_item_bytes(const Npy *npy)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, npy->dtype) == 0) return dtypes[i].bytes;
    return 0;
}

double npy_at(const Npy *npy, int64_t i)
{
    switch (npy->dtype[1] == 'f' ? 10 * (npy->dtype[2] - '0') : npy->dtype[2] - '0') {
    case 40: return (double)((const float *)npy->data)[i];
    case 80: return ((const double *)npy->data)[i];
    case 4: return (double)((const int32_t *)npy->data)[i];
    case 8: return (double)((const int64_t *)npy->data)[i];
    default: return (double)((const unsigned char *)npy->data)[i];
    }
}

char *npy_image(Arena *a, const char *dtype, const int64_t *shape, int n_dims, const void *data, size_t *n)
{
    StrBuf b = {.arena = a};
    Npy npy = {.n = 1};
    memcpy(npy.dtype, dtype, strlen(dtype) + 1);
    strbuf_printf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': (", dtype);
    for (int i = 0; i < n_dims; i++) {
        strbuf_printf(&b, n_dims == 1 ? "%lld," : i ? ", %lld" : "%lld", (long long)shape[i]);
        npy.n *= shape[i];
    }
    strbuf_puts(&b, "), }");
    size_t pad = 64 - (10 + b.n + 1) % 64;
    for (size_t i = 0; i < pad; i++) strbuf_puts(&b, " ");
    strbuf_puts(&b, "\n");
    size_t bytes = (size_t)npy.n * npy_item_bytes(&npy);
    *n = 10 + b.n + bytes;
    char *file = arena_alloc(a, *n);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)(b.n & 255);
    file[9] = (char)(b.n >> 8);
    memcpy(file + 10, b.data, b.n);
    if (bytes) memcpy(file + 10 + b.n, data, bytes);
    return file;
}

bool npy_write(Arena *a, const char *path, const char *dtype, const int64_t *shape, int n_dims, const void *data,
               const char **why)
{
    size_t n = 0;
    const char *file = npy_image(a, dtype, shape, n_dims, data, &n);
    return file_write(a, path, file, n, 0644, why);
}
