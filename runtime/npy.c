/* The .npy format, versions 1 and 2 (numpy/lib/format.py): magic, version, header length, a Python
   dict literal with descr, fortran_order and shape, then the elements. Reads <f4 <f8 <i4 <i8 |b1
   |u1 in C order; anything else is an error with a name. Trusts nothing: a shape is checked against
   the bytes that are there before it is used. */
#include "runtime/array.h"
#include "runtime/file.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Npy {
    const char *name;    /* place in errors */
    const char *p, *end; /* unread header text */
    RtStatus *st;
} Npy;

void rt_array_free(RtArray *a)
{
    if (!a) return;
    rt_block_free(&a->data);
    *a = (RtArray){0};
}

int64_t rt_array_item_bytes(const RtArray *a) { return a->dtype == RT_U8 ? 1 : rt_dtype_bytes(a->dtype); }

const char *rt_array_text(const RtArray *a, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (int64_t i = 0; i < a->n_dims && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, i ? ", %lld" : "%lld", (long long)a->shape[i]);
    if (at < size) snprintf(out + at, size - at, "] %s", a->dtype == RT_U8 ? "u8" : rt_dtype_name(a->dtype));
    return out;
}

/* ---- the header dict ---- */

static RtCode header_error(Npy *h, const char *wanted)
{
    return rt_fail(h->st, RT_E_NPY_HEADER, h->name, "write the file again with numpy.save",
                   "the header is malformed: wanted %s", wanted);
}

static void skip_space(Npy *h)
{
    while (h->p < h->end && (*h->p == ' ' || *h->p == '\n' || *h->p == '\t')) h->p++;
}

static bool take(Npy *h, char c)
{
    skip_space(h);
    if (h->p >= h->end || *h->p != c) return false;
    h->p++;
    return true;
}

/* A quoted string without escapes. */
static bool take_string(Npy *h, char *out, size_t size)
{
    skip_space(h);
    if (h->p >= h->end || (*h->p != '\'' && *h->p != '"')) return false;
    char quote = *h->p++;
    const char *start = h->p;
    while (h->p < h->end && *h->p != quote) h->p++;
    if (h->p >= h->end) return false;
    int n = (int)(h->p++ - start);
    return snprintf(out, size, "%.*s", n, start) < (int)size;
}

static bool take_word(Npy *h, const char *word)
{
    size_t n = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->p) < n || memcmp(h->p, word, n)) return false;
    h->p += n;
    return true;
}

static RtCode take_size(Npy *h, int64_t *out)
{
    skip_space(h);
    if (h->p < h->end && *h->p == '-')
        return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, NULL, "the shape has a negative dimension");
    if (h->p >= h->end || *h->p < '0' || *h->p > '9') return header_error(h, "a dimension");
    int64_t v = 0;
    for (; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
        if (!rt_mul(v, 10, &v) || !rt_add(v, *h->p - '0', &v))
            return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, NULL, "a dimension overflows 64 bits");
    *out = v;
    return RT_OK;
}

static RtCode take_shape(Npy *h, RtArray *a)
{
    if (!take(h, '(')) return header_error(h, "a shape tuple");
    a->n_dims = 0;
    a->count = 1;
    while (!take(h, ')')) {
        if (a->n_dims == RT_ARRAY_DIMS)
            return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, NULL, "more than %d dimensions", RT_ARRAY_DIMS);
        int64_t *dim = &a->shape[a->n_dims++];
        RT_TRY(take_size(h, dim));
        if (!rt_mul(a->count, *dim, &a->count))
            return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, NULL, "the number of elements overflows 64 bits");
        if (take(h, ',')) continue;
        if (!take(h, ')')) return header_error(h, "`,` or `)` in the shape");
        break;
    }
    return RT_OK;
}

static RtCode take_descr(Npy *h, RtArray *a)
{
    static const struct {
        const char *text;
        int64_t dtype;
    } known[] = {{"<f4", RT_F32}, {"<f8", RT_F64}, {"<i4", RT_I32}, {"<i8", RT_I64}, {"|b1", RT_BOOL}, {"|u1", RT_U8}};
    char text[32];
    skip_space(h);
    if (h->p < h->end && *h->p == '[')
        return rt_fail(h->st, RT_E_NPY_DTYPE, h->name, "save each field as its own file",
                       "the array has a structured dtype");
    if (!take_string(h, text, sizeof text)) return header_error(h, "a dtype string");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i].text)) {
            a->dtype = known[i].dtype;
            return RT_OK;
        }
    return rt_fail(h->st, RT_E_NPY_DTYPE, h->name, "convert it with .astype() and save it again",
                   "found dtype '%s', wanted one of <f4, <f8, <i4, <i8, |b1, |u1", text);
}

static RtCode take_field(Npy *h, RtArray *a, unsigned *seen)
{
    char key[32];
    if (!take_string(h, key, sizeof key) || !take(h, ':')) return header_error(h, "a key and `:`");
    unsigned bit = !strcmp(key, "descr") ? 1 : !strcmp(key, "fortran_order") ? 2 : !strcmp(key, "shape") ? 4 : 0;
    if (!bit || (*seen & bit)) return header_error(h, "descr, fortran_order and shape, once each");
    *seen |= bit;
    if (bit == 1) return take_descr(h, a);
    if (bit == 4) return take_shape(h, a);
    if (take_word(h, "False")) return RT_OK;
    if (!take_word(h, "True")) return header_error(h, "True or False");
    return rt_fail(h->st, RT_E_NPY_FORTRAN, h->name, "save numpy.ascontiguousarray(a)",
                   "found Fortran order, wanted C order");
}

static RtCode take_header(Npy *h, RtArray *a)
{
    unsigned seen = 0;
    if (!take(h, '{')) return header_error(h, "`{`");
    while (!take(h, '}')) {
        RT_TRY(take_field(h, a, &seen));
        if (take(h, ',')) continue;
        if (!take(h, '}')) return header_error(h, "`,` or `}`");
        break;
    }
    skip_space(h);
    if (seen != 7 || h->p != h->end) return header_error(h, "descr, fortran_order and shape, and no more");
    return RT_OK;
}

/* ---- the file ---- */

/* Where the header text begins and ends. */
static RtCode find_header(const unsigned char *b, size_t n, Npy *h)
{
    if (n < 6 || memcmp(b, "\x93NUMPY", 6))
        return rt_fail(h->st, RT_E_NPY_MAGIC, h->name, "write the file with numpy.save",
                       "does not begin with the npy magic");
    if (n < 10) return rt_fail(h->st, RT_E_NPY_TRUNCATED, h->name, NULL, "ends inside the header");
    if (b[6] != 1 && b[6] != 2)
        return rt_fail(h->st, RT_E_NPY_HEADER, h->name, NULL, "found format version %d.%d, wanted 1.0 or 2.0", b[6],
                       b[7]);
    size_t at = b[6] == 1 ? 10 : 12, length = b[8] | (size_t)b[9] << 8;
    if (b[6] == 2 && n >= 12) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (n < at || n - at < length)
        return rt_fail(h->st, RT_E_NPY_TRUNCATED, h->name, NULL,
                       "ends inside the header: %zu bytes, the header alone wants %zu", n, at + length);
    h->p = (const char *)b + at;
    h->end = h->p + length;
    return RT_OK;
}

static RtCode check_bytes(Npy *h, const RtArray *a, size_t have)
{
    int64_t want;
    char text[160];
    if (!rt_mul(a->count, rt_array_item_bytes(a), &want))
        return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, NULL, "the size in bytes overflows 64 bits");
    rt_array_text(a, text, sizeof text);
    if ((uint64_t)want > have)
        return rt_fail(h->st, RT_E_NPY_TRUNCATED, h->name, "write or copy the file again",
                       "cut short: %s wants %lld bytes of data, found %zu", text, (long long)want, have);
    if ((uint64_t)want < have)
        return rt_fail(h->st, RT_E_NPY_SHAPE, h->name, "write or copy the file again",
                       "%s wants %lld bytes of data, found %zu", text, (long long)want, have);
    return RT_OK;
}

/* numpy reads any non-zero byte as true; kernels rely on 0 and 1. */
static void normalise_bools(RtArray *a)
{
    uint8_t *v = a->data.p;
    for (int64_t i = 0; a->dtype == RT_BOOL && i < a->count; i++) v[i] = v[i] != 0;
}

/* n: bytes of the file, whose header is there. */
static RtCode parse_header(Npy *h, const void *bytes, size_t n, RtArray *a, size_t *data_at)
{
    *a = (RtArray){0};
    RT_TRY(find_header(bytes, n, h));
    *data_at = (size_t)(h->end - (const char *)bytes);
    RT_TRY(take_header(h, a));
    assert(*data_at <= n);
    return check_bytes(h, a, n - *data_at);
}

RtCode rt_npy_parse(const char *name, const void *bytes, size_t n_bytes, RtArray *a, RtStatus *st)
{
    Npy h = {.name = name, .st = st};
    size_t at;
    RtCode code = parse_header(&h, bytes, n_bytes, a, &at);
    if (!code) code = rt_block_alloc(&a->data, rt_size_plus((int64_t)(n_bytes - at), RT_ARRAY_SPARE, 1), name, st);
    if (code) {
        *a = (RtArray){0};
        return code;
    }
    a->data.bytes = n_bytes - at;
    a->spare = true;
    memcpy(a->data.p, (const char *)bytes + at, n_bytes - at);
    normalise_bools(a);
    return RT_OK;
}

/* The first bytes of a file of *n, which is less afterwards where it has become short. */
static RtCode read_first(int fd, const char *path, int64_t bytes, int64_t *n, RtBlock *head, RtStatus *st)
{
    RT_TRY(rt_file_read_part(fd, path, 0, bytes, 0, head, st));
    if ((int64_t)head->bytes < bytes) *n = (int64_t)head->bytes;
    return RT_OK;
}

/* The beginning of a file, at least its header. */
static RtCode read_head(int fd, const char *path, int64_t *n, RtBlock *head, RtStatus *st)
{
    enum { MOST = 4096 };
    Npy h = {.name = path};
    RT_TRY(read_first(fd, path, *n < MOST ? *n : MOST, n, head, st));
    if (*n <= MOST || find_header(head->p, (size_t)*n, &h)) return RT_OK;
    int64_t end = h.end - (const char *)head->p;
    if (end <= MOST) return RT_OK;
    rt_block_free(head);
    return read_first(fd, path, end, n, head, st);
}

static RtCode read_array(int fd, const char *path, int64_t n, RtArray *a, RtStatus *st)
{
    Npy h = {.name = path, .st = st};
    RtBlock head;
    size_t at;
    RT_TRY(read_head(fd, path, &n, &head, st));
    RtCode code = parse_header(&h, head.p, (size_t)n, a, &at);
    rt_block_free(&head);
    if (!code) code = rt_file_read_part(fd, path, (int64_t)at, n - (int64_t)at, RT_ARRAY_SPARE, &a->data, st);
    return code ? code : check_bytes(&h, a, a->data.bytes);
}

RtCode rt_npy_read(const char *path, RtArray *a, RtStatus *st)
{
    int fd;
    int64_t n;
    *a = (RtArray){0};
    RT_TRY(rt_file_open(path, &fd, &n, st));
    RtCode code = read_array(fd, path, n, a, st);
    close(fd);
    a->spare = true;
    if (code) rt_array_free(a);
    else normalise_bools(a);
    return code;
}

RtCode rt_npy_write(const char *path, int64_t dtype, int64_t n_dims, const int64_t *shape, const void *data,
                    RtStatus *st)
{
    static const char *const descr[] = {"<f4", "<f8", "<i4", "<i8", "|b1"};
    char head[512], dims[256] = "";
    int64_t count = 1;
    assert(dtype >= RT_F32 && dtype <= RT_BOOL && n_dims <= RT_ARRAY_DIMS);
    size_t at = 0;
    for (int64_t i = 0; i < n_dims; i++) {
        at += (size_t)snprintf(dims + at, sizeof dims - at, "%lld, ", (long long)shape[i]);
        count *= shape[i];
    }
    if (n_dims > 1) dims[at - 2] = 0; /* a tuple of one keeps its comma */
    int n = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                     descr[dtype], dims);
    size_t total = (size_t)(10 + n + 1 + 63) / 64 * 64;
    assert(total <= sizeof head);
    memset(head + 10 + n, ' ', total - 10 - (size_t)n);
    head[total - 1] = '\n';
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((total - 10) & 255);
    head[9] = (char)((total - 10) >> 8);
    RtFilePart parts[] = {{head, total}, {data, (size_t)(count * rt_dtype_bytes(dtype))}};
    return rt_file_replace(path, parts, 2, st);
}
