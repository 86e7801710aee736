/* Readers of the runtime on bytes: JSON, .npy, safetensors, .npz and edges as text. Each row is a text and what it is
   told; of every sound text each beginning is refused too. Texts lie in blocks of exactly their length, so that a
   sanitizer sees a read behind the end. */
#include "base/file.h"
#include "runtime/convert.h"
#include "runtime/safetensors.h"
#include "runtime/source.h"
#include "tests/unit/failing.h"
#include <math.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef enum { JSON, NPY, ST, NPZ, MTX, LIST } Format;

static const char *folder;

static const char *put_file(const char *name, const void *bytes, size_t n)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) check(false, "cannot write %s", path);
    if (f) fclose(f);
    return path;
}

static RtCode read_npz(const void *bytes, size_t n, RtStatus *st)
{
    RtZip z;
    RtArray a;
    RtCode code = rt_zip_open(put_file("x.npz", bytes, n), &z, st);
    if (code) return code;
    check(!rt_zip_has(&z, "y") && !rt_zip_has(&z, "x.npy"), "a member that is not there");
    code = rt_zip_read(&z, "x", "x.npz:x", &a, st);
    if (!code) check(a.count == 3 && ((float *)a.data.p)[2] == 3, "read otherwise");
    rt_array_free(&a);
    rt_zip_close(&z);
    return code;
}

static RtCode read_as(Format format, const char *text, size_t n, RtStatus *st)
{
    RtJsonDoc doc;
    RtArray a;
    RtStFile f;
    RtEdgeText edges;
    RtCode code;
    char *bytes = __real_malloc(n ? n : 1); /* of the test, which no one refuses */
    memcpy(bytes, text, n);
    switch (format) {
    /* clang-format off */
    case JSON: if (!(code = rt_json_parse("t.json", bytes, n, &doc, st))) rt_json_free(&doc); break;
    case NPY: if (!(code = rt_npy_parse("t.npy", bytes, n, &a, st))) rt_array_free(&a); break;
    case ST: if (!(code = rt_st_parse("t.st", bytes, n, &f, st))) rt_st_free(&f); break;
    /* clang-format on */
    case NPZ: code = read_npz(bytes, n, st); break;
    default:
        code = rt_edge_text_read(put_file(format == MTX ? "t.mtx" : "t.tsv", bytes, n), &edges, st);
        if (!code) rt_edge_text_free(&edges);
    }
    __real_free(bytes);
    return code;
}

static void check_told(const char *name, Format format, const char *text, size_t n, RtCode want, const char *says)
{
    RtStatus st = {0};
    check_begin();
    RtCode code = read_as(format, text, n, &st);
    check(code == want, "%s: %s, wanted %s", code ? rt_code_name(code) : "taken", st.message,
          want ? rt_code_name(want) : "taken");
    check(!want || strstr(st.message, says), "says: %s", st.message);
    check_end(name);
}

typedef struct Row {
    Format format;
    const char *text;
    RtCode code; /* RT_OK: taken */
    const char *says;
} Row;

#define HEX(a, b) "{\"a\":\"\\u" a b "\"}"
static const Row rows[] = {
    {JSON, " \t\r\n[1, -2.5e+3, 1E-2, 2e5, 0.5, true, false, null, \"\", {}, [], {\"k\": [ ] , \"k\" :1}]\r\n", RT_OK,
     ""},
    {JSON, HEX("00e9", "\\u20AC\\u0041\\uD83d\\uDE00\\uffff"), RT_OK, ""},
    {JSON, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", RT_OK, ""},
    {JSON, "", RT_E_JSON_SYNTAX, "line 1, column 1: wanted a value"},
    {JSON, "\n [1,\n  x]", RT_E_JSON_SYNTAX, "line 3, column 3: wanted a value"},
    {JSON, "[1", RT_E_JSON_SYNTAX, "`,` or `]`"},
    {JSON, "{\"a\":1", RT_E_JSON_SYNTAX, "`,` or `}`"},
    {JSON, "{\"a\" 1}", RT_E_JSON_SYNTAX, "`:`"},
    {JSON, "{1:1}", RT_E_JSON_SYNTAX, "a string"},
    {JSON, "[1 1]", RT_E_JSON_SYNTAX, "`,` or `]`"},
    {JSON, "1 1", RT_E_JSON_SYNTAX, "the end of the file"},
    {JSON, "-", RT_E_JSON_SYNTAX, "a value"},
    {JSON, "01", RT_E_JSON_SYNTAX, "a value"},
    {JSON, "1.", RT_E_JSON_SYNTAX, "digits after the point"},
    {JSON, "1.x", RT_E_JSON_SYNTAX, "digits after the point"},
    {JSON, "1e", RT_E_JSON_SYNTAX, "digits of the exponent"},
    {JSON, "1E+", RT_E_JSON_SYNTAX, "digits of the exponent"},
    {JSON, "1e-x", RT_E_JSON_SYNTAX, "digits of the exponent"},
    {JSON, "tru", RT_E_JSON_SYNTAX, "a value"},
    {JSON, "nulL", RT_E_JSON_SYNTAX, "a value"},
    {JSON, "\"a", RT_E_JSON_SYNTAX, "a closing quote"},
    {JSON, "\"a\nb\"", RT_E_JSON_SYNTAX, "no control character"},
    {JSON, "\"\\", RT_E_JSON_SYNTAX, "an escape"},
    {JSON, "\"\\x\"", RT_E_JSON_SYNTAX, "an escape"},
    {JSON, "\"\\u12", RT_E_JSON_SYNTAX, "four hexadecimal digits"},
    {JSON, HEX("00", "g0"), RT_E_JSON_SYNTAX, "four hexadecimal digits"},
    {JSON, HEX("00", "@0"), RT_E_JSON_SYNTAX, "four hexadecimal digits"},
    {JSON, HEX("00", "/0"), RT_E_JSON_SYNTAX, "four hexadecimal digits"},
    {JSON, HEX("00", "G0"), RT_E_JSON_SYNTAX, "four hexadecimal digits"},
    {JSON, HEX("0000", ""), RT_E_JSON_SYNTAX, "no NUL"},
    {JSON, HEX("dc00", ""), RT_E_JSON_SYNTAX, "a high surrogate first"},
    {JSON, HEX("d800", ""), RT_E_JSON_SYNTAX, "a low surrogate"},
    {JSON, HEX("d800", "xxxxxx"), RT_E_JSON_SYNTAX, "a low surrogate"},
    {JSON, HEX("d800", "\\nxxxx"), RT_E_JSON_SYNTAX, "a low surrogate"},
    {JSON, HEX("d800", "\\ud800"), RT_E_JSON_SYNTAX, "a low surrogate"},
    {JSON, HEX("d800", "\\ue000"), RT_E_JSON_SYNTAX, "a low surrogate"},
    {JSON, HEX("d800", "\\u00zz"), RT_E_JSON_SYNTAX, "a low surrogate"},

    {NPY, "{\"descr\": '<f4','fortran_order':False,\n\t'shape':()}", RT_E_NPY_TRUNCATED, "[] f32 wants 4 bytes"},
    {NPY, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, ), }", RT_OK, ""},
    {NPY, "{'descr': '|u1', 'fortran_order': False, 'shape': (0,2)}", RT_OK, ""},
    {NPY, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,2)}", RT_E_NPY_TRUNCATED, "[2, 2] u8 wants 4"},
    {NPY, "", RT_E_NPY_HEADER, "`{`"},
    {NPY, "[", RT_E_NPY_HEADER, "`{`"},
    {NPY, "{descr", RT_E_NPY_HEADER, "a key and `:`"},
    {NPY, "{'descr'", RT_E_NPY_HEADER, "a key and `:`"},
    {NPY, "{'descr", RT_E_NPY_HEADER, "a key and `:`"},
    {NPY, "{'a key that is much longer than any':", RT_E_NPY_HEADER, "a key and `:`"},
    {NPY, "{'descr':", RT_E_NPY_HEADER, "a dtype string"},
    {NPY, "{'fortran_order': ", RT_E_NPY_HEADER, "True or False"},
    {NPY, "{'fortran_order': Fals", RT_E_NPY_HEADER, "True or False"},
    {NPY, "{'fortran_order': False 'shape'", RT_E_NPY_HEADER, "`,` or `}`"},
    {NPY, "{'shape': ", RT_E_NPY_HEADER, "a shape tuple"},
    {NPY, "{'shape': (", RT_E_NPY_HEADER, "a dimension"},
    {NPY, "{'shape': (/", RT_E_NPY_HEADER, "a dimension"},
    {NPY, "{'shape': (:", RT_E_NPY_HEADER, "a dimension"},
    {NPY, "{'shape': (3", RT_E_NPY_HEADER, "`,` or `)`"},
    {NPY, "{'shape': (3/", RT_E_NPY_HEADER, "`,` or `)`"},
    {NPY, "{'shape': (3:", RT_E_NPY_HEADER, "`,` or `)`"},
    {NPY, "{'shape': (9223372036854775808,)", RT_E_NPY_SHAPE, "a dimension overflows"},
    {NPY, "{'shape': (92233720368547758070,)", RT_E_NPY_SHAPE, "a dimension overflows"},
    {NPY, "{'shape': (3,), 'shape': (3,)}", RT_E_NPY_HEADER, "once each"},
    {NPY, "{'shape': (3,)}", RT_E_NPY_HEADER, "and no more"},
    {NPY, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} }", RT_E_NPY_HEADER, "and no more"},

    {ST, "{\"__metadata__\":{\"a\":\"b\"},\"x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
     RT_E_WEIGHTS_TRUNCATED, "byte 1 of 0"},
    {ST,
     "{\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_"
     "offsets\":[0,0]}}",
     RT_OK, ""},
    {ST, "[]", RT_E_WEIGHTS_HEADER, "a JSON object"},
    {ST, "{\"x\":1}", RT_E_WEIGHTS_HEADER, "a dtype"},
    {ST, "{\"x\":{\"dtype\":1}}", RT_E_WEIGHTS_HEADER, "a dtype"},
    {ST, "{\"x\":{\"dtype\":\"F32\"}}", RT_E_WEIGHTS_HEADER, "a shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":1}}", RT_E_WEIGHTS_HEADER, "a shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[\"1\"]}}", RT_E_WEIGHTS_HEADER, "sizes in its shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[-1]}}", RT_E_WEIGHTS_HEADER, "sizes in its shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[1e3]}}", RT_E_WEIGHTS_HEADER, "sizes in its shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808]}}", RT_E_WEIGHTS_HEADER, "sizes in its shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[92233720368547758070]}}", RT_E_WEIGHTS_HEADER, "sizes in its shape"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0]}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":0}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0]}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[null,0]}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,null]}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[1,0]}}", RT_E_WEIGHTS_HEADER, "data_offsets"},
    {ST, "{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", RT_E_WEIGHTS_HEADER,
     "as many bytes"},

    {MTX, "", RT_E_EDGE_TEXT, "%%MatrixMarket"},
    {MTX, "%%MatrixMarket matrix coordinate real", RT_E_EDGE_TEXT, "%%MatrixMarket"},
    {MTX, "%MatrixMarket matrix coordinate real general\n", RT_E_EDGE_TEXT, "%%MatrixMarket"},
    {MTX, "%%MatrixMarket vector coordinate real general\n", RT_E_EDGE_TEXT, "%%MatrixMarket"},
    {MTX, "%%MatrixMarket matrix array real general\n", RT_E_EDGE_TEXT, "found format `array`"},
    {MTX, "%%MatrixMarket matrix coordinate complex general\n", RT_E_EDGE_TEXT, "found field `complex`"},
    {MTX, "%%MatrixMarket matrix coordinate real hermitian\n", RT_E_EDGE_TEXT, "found symmetry `hermitian`"},
    {MTX, "%%MatrixMarket matrix coordinate real general", RT_E_EDGE_TEXT, "`rows columns entries`"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3\n", RT_E_EDGE_TEXT, "`rows columns entries`"},
    {MTX, "%%MatrixMarket matrix coordinate real general\nx 3 0\n", RT_E_EDGE_TEXT, "found `x`, wanted a whole number"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3000000000 0\n", RT_E_DATA_ID, "found id 3000000000"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 4 0\n", RT_E_DATA_EDGES, "3 x 4"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 9\n", RT_E_EDGE_TEXT, "claims 9 entries"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n", RT_E_EDGE_TEXT, "found 2 fields, wanted 3"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 x\n", RT_E_EDGE_TEXT,
     "found `x`, wanted a number"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n0 2 1\n", RT_E_DATA_ID, "found id 0, wanted 1 to 3"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 1\n", RT_E_DATA_ID, "found id 4, wanted 1 to 3"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n%\n\n", RT_E_EDGE_TEXT,
     "cut short: found 1 entries"},
    {MTX, "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 1\n1 3 1\n", RT_E_EDGE_TEXT,
     "more entries than the 1"},
    {MTX,
     "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 "
     "0000000000000000000000000000000000000000000000000000000000000000000002\n",
     RT_E_EDGE_TEXT, "found 1 fields, wanted 2"},
    {MTX, "%%MatrixMarket Matrix Coordinate DOUBLE General\r\n% a comment\r\n3 3 1\r\n1 2 -1e-2", RT_OK, ""},
    {MTX, "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n1 2 1\n3 3 4\n", RT_OK, ""},
    {MTX, "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 2\n3 3\n", RT_OK, ""},

    {LIST, "", RT_OK, ""},
    {LIST, "# nothing\n\n % nothing\n", RT_E_EDGE_TEXT, "found `%`, wanted a whole number"},
    {LIST, "from,to\n", RT_OK, ""},
    {LIST, "_a\tb\n0\t1", RT_OK, ""},
    {LIST, "\"a\";\"b\"\n0;1\n1;0\n", RT_OK, ""},
    {LIST, "Source Target Weight\n+0 1 0.5\n2 -0 -1e3", RT_OK, ""},
    {LIST, "{0 1\n", RT_E_EDGE_TEXT, "found `{0`, wanted a whole number"},
    {LIST, "- 1\n", RT_E_EDGE_TEXT, "found `-`, wanted a whole number"},
    {LIST, "0 1:\n", RT_E_EDGE_TEXT, "found `1:`, wanted a whole number"},
    {LIST, "0 1.\n", RT_E_EDGE_TEXT, "found `1.`, wanted a whole number"},
    {LIST, "-1 1\n", RT_E_DATA_ID, "found id -1"},
    {LIST, "9223372036854775808 1\n", RT_E_DATA_ID, "found id 9223372036854775808"},
    {LIST, "92233720368547758070 1\n", RT_E_DATA_ID, "found id 92233720368547758070"},
    {LIST, "92233720368547758071111 1\n", RT_E_DATA_ID, "found id 92233720368547758071111"},
    {LIST, "0 2147483647\n", RT_E_DATA_ID, "found id 2147483647"},
    {LIST, "0\n", RT_E_EDGE_TEXT, "found 1 fields, wanted `source target`"},
    {LIST, "0 1 2 3\n", RT_E_EDGE_TEXT, "found 4 fields, wanted `source target`"},
    {LIST, "0 1\n0 1 2\n", RT_E_EDGE_TEXT, "found 3 fields, wanted 2"},
    {LIST, "0 1 2\n0 1\n", RT_E_EDGE_TEXT, "found 2 fields, wanted 3"},
    {LIST, "0 1 nine\n", RT_E_EDGE_TEXT, "found `nine`, wanted a number"},
    {LIST, "0 1 1x\n", RT_E_EDGE_TEXT, "found `1x`, wanted a number"},
    {LIST, "1 2 3 4 5 6 7 8 9\n", RT_E_EDGE_TEXT, "found 8 fields"},
    {LIST, "0000000000000000000000000000000000000000000000000000000000000000000 1\n", RT_E_EDGE_TEXT,
     "longer than any number"},
};

/* The text of a row as a file: headers of .npy and safetensors get what stands before them. */
static size_t as_file(const Row *r, char *out)
{
    size_t n = strlen(r->text), at = r->format == NPY ? 10 : r->format == ST ? 8 : 0;
    memcpy(out, r->format == NPY ? "\x93NUMPY\1\0\0\0" : "\0\0\0\0\0\0\0\0\0\0", at);
    for (int i = 0; at && i < 2; i++) out[r->format == NPY ? 8 + i : i] = (char)(n >> (8 * i));
    memcpy(out + at, r->text, n);
    return at + n;
}

static void test_rows(void)
{
    static const char *const names[] = {"json", "npy", "safetensors", "npz", "mtx", "list"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[100], bytes[1000];
        size_t n = as_file(&rows[i], bytes);
        snprintf(name, sizeof name, "%s %zu: %s", names[rows[i].format], i, rows[i].code ? rows[i].says : "taken");
        check_told(name, rows[i].format, bytes, n, rows[i].code, rows[i].says);
    }
}

/* Each beginning of what is taken is cut short. Of a list it may be a list, of a number a shorter one. */
static void test_beginnings(void)
{
    check_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char bytes[1000], text[1000];
        size_t n = rows[i].code || rows[i].format == LIST ? 0 : strlen(rows[i].text);
        while (n && strchr(rows[i].format == MTX ? "\r\n 0123456789.-e" : "\r\n ", rows[i].text[n - 1])) n--;
        for (size_t cut = 0; cut < n; cut++) {
            Row row = {rows[i].format, text, RT_OK, ""};
            RtStatus st = {0};
            snprintf(text, sizeof text, "%.*s", (int)cut, rows[i].text);
            check(read_as(row.format, bytes, as_file(&row, bytes), &st) != RT_OK && st.message[0],
                  "row %zu, %zu bytes: taken", i, cut);
        }
    }
    check_end("beginnings are refused");
}

/* An entry off the diagonal of a symmetric matrix stands for two edges, one on it for one. */
static void test_symmetric(void)
{
    static const char text[] = "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n2 1 0.5\n3 3 4\n3 1 2\n";
    static const int64_t ends[] = {1, 0, 2, 2, 0, 0, 1, 2, 0, 2};
    static const double weights[] = {0.5, 0.5, 4, 2, 2};
    RtEdgeText t;
    RtStatus st = {0};
    check_begin();
    if (CHECK(!rt_edge_text_read(put_file("t.mtx", text, sizeof text - 1), &t, &st))) {
        CHECK(t.n_nodes == 3 && t.edges.count == 10 && !memcmp(t.edges.data.p, ends, sizeof ends));
        CHECK(t.weights.count == 5 && !memcmp(t.weights.data.p, weights, sizeof weights));
        rt_edge_text_free(&t);
    }
    check_end("a symmetric matrix");
}

static void test_json_values(void)
{
    RtJsonDoc d;
    RtStatus st = {0};
    static const char text[] =
        "{\"s\": \"\\u00e9\\u20AC\\uD83d\\uDE00\\n\", \"n\": 12, \"f\": 1.5, \"s\": 3, \"b\": true}";
    int64_t n = 7;
    check_begin();
    if (CHECK(!rt_json_parse("t", text, sizeof text - 1, &d, &st))) {
        CHECK(d.root->n_items == 5 && !strcmp(rt_json_get(d.root, "s")->text, "\u00e9\u20ac\U0001f600\n"));
        CHECK(rt_json_int(rt_json_get(d.root, "n"), &n) && n == 12);
        CHECK(!rt_json_int(rt_json_get(d.root, "f"), &n) && !rt_json_int(rt_json_get(d.root, "b"), &n) && n == 12);
        CHECK(!rt_json_get(d.root, "x") && !rt_json_int(NULL, &n) && !rt_json_get(NULL, "s") &&
              !rt_json_get(d.root->first, "s"));
        rt_json_free(&d);
    }
    check_end("json: values");
}

/* ---- archives ---- */

/* Where the records of an archive of one or two members begin. */
typedef struct Zip {
    unsigned char bytes[2000];
    size_t n, local, central, extra, end64, locator, end;
} Zip;

static void add(Zip *z, const void *p, size_t n) { memcpy(z->bytes + z->n, p, n), z->n += n; }
static void num(Zip *z, uint64_t v, int n)
{
    for (; n--; v >>= 8) z->bytes[z->n++] = (unsigned char)v;
}

/* x.npy of three floats; wide: sizes in 64 bits; deflated; more: bytes of a comment at the end. */
static Zip make_zip(bool wide, bool deflated, unsigned more)
{
    Zip z = {0};
    unsigned char data[200] = "\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
                  packed[300];
    float values[] = {1, 2, 3};
    memset(data + strlen((char *)data + 10) + 10, ' ', 80 - strlen((char *)data + 10) - 10);
    memcpy(data + 80, values, sizeof values);
    const uint64_t size = 80 + sizeof values, crc = crc32_z(0, data, size);
    uint64_t n_packed = size;
    memcpy(packed, data, size);
    if (deflated) {
        z_stream s = {.next_in = data, .avail_in = (uInt)size, .next_out = packed, .avail_out = sizeof packed};
        deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
        deflate(&s, Z_FINISH);
        n_packed = s.total_out;
        deflateEnd(&s);
    }
    z.local = z.n;
    add(&z, "PK\3\4", 4), num(&z, 45, 2), num(&z, 0, 2), num(&z, deflated ? 8 : 0, 2), num(&z, 0, 4), num(&z, crc, 4);
    num(&z, n_packed, 4), num(&z, size, 4), num(&z, 5, 2), num(&z, 0, 2), add(&z, "x.npy", 5),
        add(&z, packed, n_packed);
    z.central = z.n;
    add(&z, "PK\1\2", 4), num(&z, 45, 4), num(&z, 0, 2), num(&z, deflated ? 8 : 0, 2), num(&z, 0, 4), num(&z, crc, 4);
    num(&z, wide ? UINT32_MAX : n_packed, 4), num(&z, wide ? UINT32_MAX : size, 4), num(&z, 5, 2),
        num(&z, wide ? 34 : 0, 2);
    num(&z, 0, 8), num(&z, 0, 2), num(&z, wide ? UINT32_MAX : z.local, 4), add(&z, "x.npy", 5);
    z.extra = z.n;
    if (wide)
        num(&z, 7, 2), num(&z, 2, 2), num(&z, 0, 2), num(&z, 1, 2), num(&z, 24, 2), num(&z, size, 8),
            num(&z, n_packed, 8), num(&z, z.local, 8);
    size_t bytes = z.n - z.central;
    z.end64 = z.n;
    if (wide)
        add(&z, "PK\6\6", 4), num(&z, 44, 8), num(&z, 45, 4), num(&z, 0, 8), num(&z, 1, 8), num(&z, 1, 8),
            num(&z, bytes, 8), num(&z, z.central, 8);
    z.locator = z.n;
    if (wide) add(&z, "PK\6\7", 4), num(&z, 0, 4), num(&z, z.end64, 8), num(&z, 1, 4);
    z.end = z.n;
    add(&z, "PK\5\6", 4), num(&z, 0, 4), num(&z, wide ? 0xffff : 1, 2), num(&z, wide ? 0xffff : 1, 2);
    num(&z, wide ? UINT32_MAX : bytes, 4), num(&z, wide ? UINT32_MAX : z.central, 4), num(&z, more, 2);
    for (; more; more--) num(&z, 'P', 1);
    return z;
}

typedef struct Patch {
    const char *name;
    bool wide;
    size_t record; /* offset of its place in Zip */
    int at, n;
    uint64_t value;
    RtCode code;
    const char *says;
} Patch;

#define AT(record) offsetof(Zip, record)
static const Patch patches[] = {
    {"magic", false, AT(local), 0, 1, 'Q', RT_E_ZIP_FORM, "the zip magic"},
    {"no end", false, AT(end), 0, 1, 'Q', RT_E_ZIP_FORM, "directory at its end is missing"},
    {"comment longer", false, AT(end), 20, 2, 1, RT_E_ZIP_FORM, "directory at its end is missing"},
    {"directory behind", false, AT(end), 16, 4, 5000, RT_E_ZIP_FORM, "lies outside"},
    {"directory too long", false, AT(end), 12, 4, 5000, RT_E_ZIP_FORM, "lies outside"},
    {"more members than room", false, AT(end), 10, 2, 2, RT_E_ZIP_FORM, "lies outside"},
    {"entry magic", false, AT(central), 0, 1, 'Q', RT_E_ZIP_FORM, "the zip directory is malformed"},
    {"long name", false, AT(central), 28, 2, 600, RT_E_ZIP_FORM, "the zip directory is malformed"},
    {"another name", false, AT(central), 46, 1, 'w', RT_E_FILE_OPEN, "no member x.npy"},
    {"another suffix", false, AT(central), 48, 1, 'q', RT_E_FILE_OPEN, "no member x.npy"},
    {"encrypted", false, AT(central), 8, 2, 1, RT_E_ZIP_FORM, "encrypted"},
    {"another method", false, AT(central), 10, 2, 12, RT_E_ZIP_FORM, "another method"},
    {"header elsewhere", false, AT(central), 42, 4, 3, RT_E_ZIP_FORM, "not where the directory says"},
    {"header behind", false, AT(central), 42, 4, 5000, RT_E_ZIP_FORM, "not where the directory says"},
    {"name of header too long", false, AT(local), 26, 2, 5000, RT_E_ZIP_FORM, "ends outside the file"},
    {"packed too long", false, AT(central), 20, 4, 5000, RT_E_ZIP_FORM, "ends outside the file"},
    {"stored in less", false, AT(central), 24, 4, 40, RT_E_ZIP_FORM, "cannot have the size"},
    {"checksum", false, AT(central), 16, 4, 1, RT_E_ZIP_DATA, "checksum"},
    {"no locator", true, AT(locator), 0, 1, 'Q', RT_E_ZIP_FORM, "lies outside"},
    {"locator to nowhere", true, AT(locator), 8, 8, 5000, RT_E_ZIP_FORM, "lies outside"},
    {"locator to another", true, AT(locator), 8, 8, 3, RT_E_ZIP_FORM, "lies outside"},
    {"extra too long", true, AT(extra), 2, 2, 5000, RT_E_ZIP_FORM, "the zip directory is malformed"},
    {"extra of others", true, AT(extra), 6, 2, 9, RT_E_ZIP_FORM, "the zip directory is malformed"},
    {"extra too short", true, AT(extra), 8, 2, 7, RT_E_ZIP_FORM, "the zip directory is malformed"},
    {"packed narrow", true, AT(central), 20, 4, 92, RT_E_ZIP_FORM, "not where the directory says"},
};

static void test_zip(void)
{
    for (int i = 0; i < 5; i++) {
        Zip z = make_zip(i & 1, i & 2, i == 4 ? 300 : 0);
        char name[100];
        snprintf(name, sizeof name, "npz: taken %d", i);
        check_told(name, NPZ, (const char *)z.bytes, z.n, RT_OK, "");
        check_begin();
        for (size_t cut = 0; cut < z.n; cut += 7) {
            RtStatus st = {0};
            RtCode code = read_as(NPZ, (const char *)z.bytes, cut, &st);
            check(code == RT_E_ZIP_FORM, "%zu of %zu bytes: %s", cut, z.n, st.message);
        }
        snprintf(name, sizeof name, "npz: beginnings %d", i);
        check_end(name);
    }
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        const Patch *p = &patches[i];
        Zip z = make_zip(p->wide, false, 0);
        size_t at = *(const size_t *)((const char *)&z + p->record) + (size_t)p->at;
        for (int k = 0; k < p->n; k++) z.bytes[at + (size_t)k] = (unsigned char)(p->value >> (8 * k));
        char name[100];
        snprintf(name, sizeof name, "npz: %s", p->name);
        check_told(name, NPZ, (const char *)z.bytes, z.n, p->code, p->says);
    }
}

/* A damaged stream: every byte of it changed in turn is an error, or a checksum that differs. */
static void test_deflated(void)
{
    Zip z = make_zip(false, true, 0);
    check_begin();
    for (size_t at = z.local + 35; at < z.central; at++) {
        RtStatus st = {0};
        z.bytes[at] ^= 0x55;
        check(read_as(NPZ, (const char *)z.bytes, z.n, &st) == RT_E_ZIP_DATA, "byte %zu: %s", at, st.message);
        z.bytes[at] ^= 0x55;
    }
    static const int places[] = {20, 24}; /* packed and whole size, one more and one less */
    for (int i = 0; i < 4; i++) {
        RtStatus st = {0};
        unsigned char *p = &z.bytes[z.central + (size_t)places[i / 2]];
        *p = (unsigned char)(*p + (i % 2 ? 1 : -1));
        check(read_as(NPZ, (const char *)z.bytes, z.n, &st) != RT_OK, "size %d: taken", i);
        *p = (unsigned char)(*p - (i % 2 ? 1 : -1));
    }
    check_end("npz: damaged streams");
}

/* Records where nobody puts them; each is refused. */
static void test_odd(void)
{
    static const char *const names[] = {"no end in 70000 bytes", "a wide end for which there is no room",
                                        "a wide end beside the file", "members before their headers"};
    static unsigned char large[70000] = "PK\3\4";
    for (int i = 0; i < 4; i++) {
        Zip z = {0}, good = make_zip(false, false, 0);
        add(&z, "PK\3\4", 4);
        if (i == 2) add(&z, "PK\6\7", 4), num(&z, 0, 4), num(&z, 0, 8), num(&z, 1, 4);
        if (i == 3) add(&z, good.bytes + good.central, good.end - good.central);
        size_t bytes = z.n - 4;
        add(&z, "PK\5\6", 4), num(&z, 0, 4), num(&z, i == 3 ? 1 : 0xffff, 2), num(&z, i == 3 ? 1 : 0xffff, 2);
        num(&z, i == 3 ? bytes : UINT32_MAX, 4), num(&z, i == 3 ? 4 : UINT32_MAX, 4), num(&z, 0, 2);
        check_told(names[i], NPZ, i ? (const char *)z.bytes : (const char *)large, i ? z.n : sizeof large,
                   RT_E_ZIP_FORM,
                   i == 0   ? "at its end is missing"
                   : i == 3 ? "not where the directory says"
                            : "lies outside");
    }
}

/* ---- a machine that fails ---- */

static struct {
    Format format;
    const char *bytes;
    size_t n;
} at_work;

static int read_at_work(void)
{
    RtStatus st = {0};
    RtCode code = read_as(at_work.format, at_work.bytes, at_work.n, &st);
    check(!code || st.message[0], "nothing is said of %s", rt_code_name(code));
    return (int)code;
}

/* Every sound text and archive, with each call for memory refused in turn. */
static void test_no_memory(void)
{
    check_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char bytes[1000];
        at_work.format = rows[i].format, at_work.bytes = bytes, at_work.n = as_file(&rows[i], bytes);
        if (rows[i].code == RT_OK) failing_each(rows[i].text, FAILING_MEMORY, read_at_work, RT_E_MEMORY);
    }
    for (int i = 0; i < 4; i++) {
        Zip z = make_zip(i & 1, i & 2, 0);
        at_work.format = NPZ, at_work.bytes = (const char *)z.bytes, at_work.n = z.n;
        failing_each("an archive", FAILING_MEMORY, read_at_work, RT_E_MEMORY);
    }
    check_end("no memory");
}

/* ---- conversions ---- */

typedef struct Convert {
    int64_t from, to;
    double value;
    RtCode code;
} Convert;

static const Convert conversions[] = {
    /* clang-format off */
    {RT_U8, RT_F32, 255, RT_OK}, {RT_U8, RT_I64, 255, RT_OK}, {RT_U8, RT_BOOL, 2, RT_E_DATA_BOUND}, {RT_BOOL, RT_F64,
        1, RT_OK},
    {RT_BOOL, RT_BOOL, 1, RT_OK}, {RT_I32, RT_F32, -16777216, RT_OK}, {RT_I32, RT_F32, -16777217, RT_E_DATA_BOUND},
    {RT_I32, RT_F32, 16777217, RT_E_DATA_BOUND}, {RT_I64, RT_F64, -9007199254740992.0, RT_OK},
    {RT_I64, RT_F64, -9007199254740994.0, RT_E_DATA_BOUND}, {RT_I64, RT_F64, 9007199254740994.0, RT_E_DATA_BOUND},
    {RT_I64, RT_I32, 2147483647, RT_OK}, {RT_I64, RT_I32, 2147483648.0, RT_E_DATA_BOUND}, {RT_I64, RT_U8, 1, RT_OK},
    {RT_I32, RT_BOOL, 0, RT_OK}, {RT_I32, RT_BOOL, -1, RT_E_DATA_BOUND}, {RT_F32, RT_F64, 0.5, RT_OK}, {RT_F64,
        RT_F32, 0.5, RT_OK},
    {RT_F64, RT_I64, 1, RT_E_DATA_DTYPE}, {RT_F32, RT_BOOL, 1, RT_E_DATA_DTYPE}, {RT_F64, RT_U8, 1, RT_E_DATA_DTYPE},
    /* clang-format on */
};

static void put_value(void *out, int64_t dtype, double v)
{
    switch (dtype) {
    case RT_F32: *(float *)out = (float)v; break;
    case RT_F64: *(double *)out = v; break;
    case RT_I32: *(int32_t *)out = (int32_t)v; break;
    case RT_I64: *(int64_t *)out = (int64_t)v; break;
    default: *(uint8_t *)out = (uint8_t)v;
    }
}

static void test_conversions(void)
{
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        const Convert *c = &conversions[i];
        char in[8] = {0}, out[8] = {0}, want[8] = {0}, name[60];
        RtArray a = {.dtype = c->from, .n_dims = 1, .shape = {1}, .count = 1, .data = {.p = in}};
        RtStatus st = {0};
        check_begin();
        put_value(in, c->from, c->value);
        put_value(want, c->to, c->value);
        RtCode code = rt_convert(&a, c->to, out, "t", &st);
        check(code == c->code, "%s", code ? st.message : "taken");
        check(code || !memcmp(out, want, sizeof out), "another value");
        snprintf(name, sizeof name, "convert %zu", i);
        check_end(name);
    }
}

static void test_ranges(void)
{
    RtStatus st = {0};
    float f[] = {1, 2, 3, NAN}, one = 1;
    double d[] = {1, INFINITY};
    int32_t w[] = {0, -1, 3};
    uint8_t b = 1;
    check_begin();
    CHECK(!rt_check_finite(f, RT_F32, 3, 2, "t", &st) && !rt_check_finite(d, RT_F64, 1, 1, "t", &st) &&
          !rt_check_finite(w, RT_I32, 3, 1, "t", &st));
    CHECK(rt_check_finite(f, RT_F32, 4, 2, "t", &st) == RT_E_DATA_NOT_FINITE && strstr(st.message, "row 1, column 1"));
    CHECK(rt_check_finite(d, RT_F64, 2, 1, "t", &st) == RT_E_DATA_NOT_FINITE &&
          strstr(st.message, "row 1, column 0 is inf"));
    CHECK(!rt_check_bound(w, RT_I32, 3, 0, false, "t", &st) && !rt_check_bound(&one, RT_F32, 1, 1, false, "t", &st));
    CHECK(!rt_check_bound(&b, RT_BOOL, 1, 1, false, "t", &st) && !rt_check_bound(w, RT_I32, 3, 4, true, "t", &st));
    CHECK(rt_check_bound(w, RT_I32, 3, 4, false, "t", &st) == RT_E_DATA_BOUND && strstr(st.message, "element 1 is -1"));
    CHECK(rt_check_bound(w, RT_I32, 3, 3, true, "t", &st) == RT_E_DATA_BOUND && strstr(st.message, "or -1 for none"));
    w[0] = -2;
    CHECK(rt_check_bound(w, RT_I32, 3, 4, true, "t", &st) == RT_E_DATA_BOUND && strstr(st.message, "element 0 is -2"));
    check_end("ranges");
}

/* What is written is read back: names that need escapes, no tensors, no pairs. */
static void test_weights_written(void)
{
    float v[] = {1, 2};
    RtStEntry e[] = {{.name = "a\"\\\n\t", .dtype = RT_F32, .n_dims = 2, .shape = {2, 1}, .data = v, .bytes = 8},
                     {.name = "b", .dtype = RT_U8, .data = "x", .bytes = 1}};
    RtStPair meta[] = {{"k\"", "v\\"}, {"l", ""}};
    for (int i = 0; i < 4; i++) {
        char path[200], name[60];
        snprintf(path, sizeof path, "%s/w%d.safetensors", folder, i);
        RtStFile f;
        RtStatus st = {0};
        check_begin();
        check(!rt_st_write(path, e, i & 1 ? 2 : 0, meta, i & 2 ? 2 : 0, &st), "%s", st.message);
        if (check(!rt_st_read(path, &f, &st), "%s", st.message)) {
            const RtStEntry *a = rt_st_find(&f, e[0].name);
            CHECK(f.n_entries == (i & 1 ? 2 : 0) && !rt_st_find(&f, "c"));
            CHECK(!(i & 1) || (a && a->n_dims == 2 && a->shape[0] == 2 && !memcmp(a->data, v, 8)));
            CHECK(!(i & 2) ? !rt_st_meta(&f, "l") : !strcmp(rt_st_meta(&f, "k\""), "v\\"));
            rt_st_free(&f);
        }
        snprintf(name, sizeof name, "safetensors: written %d", i);
        check_end(name);
    }
}

int main(void)
{
    Arena *a = arena_new();
    const char *why;
    TempFolder own;
    if (!temp_folder_make(a, NULL, &own, &why)) return printf("FAIL readers: no folder: %s\n", why), 1;
    folder = own.path;
    test_rows();
    test_beginnings();
    test_symmetric();
    test_json_values();
    test_zip();
    test_deflated();
    test_odd();
    test_no_memory();
    test_conversions();
    test_ranges();
    test_weights_written();
    temp_folder_remove(&own);
    arena_free(a);
    return check_done();
}
