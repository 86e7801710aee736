/* The JSON reader (see json.h). One pass; nodes and decoded text are cut from one block whose size
   is bounded by the text's length. Duplicate keys are kept: the caller decides. Never reads past
   the text, never recurses deeper than JSON_DEPTH. */
#include "runtime/json.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_DEPTH = 64 };

typedef struct Reader {
    const char *name, *text, *p, *end;
    RtJson *nodes;
    size_t n_nodes, cap_nodes;
    char *chars; /* decoded text */
    RtStatus *st;
} Reader;

static RtCode json_error(Reader *r, const char *wanted)
{
    int line = 1, column = 1;
    for (const char *q = r->text; q < r->p; q++)
        if (*q == '\n') line++, column = 1;
        else column++;
    return rt_fail(r->st, RT_E_JSON_SYNTAX, r->name, NULL, "line %d, column %d: wanted %s", line, column, wanted);
}

static void skip_space(Reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')) r->p++;
}

static bool take(Reader *r, char c)
{
    skip_space(r);
    if (r->p >= r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool take_hex(Reader *r, uint32_t *out)
{
    uint32_t v = 0;
    if (r->end - r->p < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = *r->p++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16) return false;
        v = v << 4 | digit;
    }
    *out = v;
    return true;
}

static void put_utf8(Reader *r, uint32_t c)
{
    if (c < 0x80) {
        *r->chars++ = (char)c;
    } else if (c < 0x800) {
        *r->chars++ = (char)(0xc0 | c >> 6);
        *r->chars++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *r->chars++ = (char)(0xe0 | c >> 12);
        *r->chars++ = (char)(0x80 | (c >> 6 & 63));
        *r->chars++ = (char)(0x80 | (c & 63));
    } else {
        *r->chars++ = (char)(0xf0 | c >> 18);
        *r->chars++ = (char)(0x80 | (c >> 12 & 63));
        *r->chars++ = (char)(0x80 | (c >> 6 & 63));
        *r->chars++ = (char)(0x80 | (c & 63));
    }
}

/* \uXXXX, a surrogate pair taken as one character. */
static RtCode take_unicode(Reader *r)
{
    uint32_t c, low;
    if (!take_hex(r, &c)) return json_error(r, "four hexadecimal digits");
    if (c >= 0xd800 && c < 0xdc00) {
        if (r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u') return json_error(r, "a low surrogate");
        r->p += 2;
        if (!take_hex(r, &low) || low < 0xdc00 || low > 0xdfff) return json_error(r, "a low surrogate");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c == 0 || (c >= 0xdc00 && c <= 0xdfff)) {
        return json_error(r, "a high surrogate first, and no NUL");
    }
    put_utf8(r, c);
    return RT_OK;
}

static RtCode take_escape(Reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p >= r->end) return json_error(r, "an escape");
    char c = *r->p++;
    if (c == 'u') return take_unicode(r);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at) return json_error(r, "an escape");
    *r->chars++ = to[at - from];
    return RT_OK;
}

static RtCode take_string(Reader *r, const char **out)
{
    if (!take(r, '"')) return json_error(r, "a string");
    *out = r->chars;
    for (;;) {
        if (r->p >= r->end) return json_error(r, "a closing quote");
        char c = *r->p++;
        if (c == '"') break;
        if ((unsigned char)c < 0x20) return json_error(r, "no control character in a string");
        if (c == '\\') RT_TRY(take_escape(r));
        else *r->chars++ = c;
    }
    *r->chars++ = 0;
    return RT_OK;
}

static size_t count_digits(Reader *r)
{
    const char *start = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
    return (size_t)(r->p - start);
}

static RtCode take_number(Reader *r, RtJson *v)
{
    const char *start = r->p;
    if (r->p < r->end && *r->p == '-') r->p++;
    bool zero = r->p < r->end && *r->p == '0';
    size_t whole = count_digits(r);
    if (!whole || (zero && whole > 1)) return json_error(r, "a value");
    if (r->p < r->end && *r->p == '.') {
        r->p++;
        if (!count_digits(r)) return json_error(r, "digits after the point");
    }
    if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        r->p++;
        if (r->p < r->end && (*r->p == '+' || *r->p == '-')) r->p++;
        if (!count_digits(r)) return json_error(r, "digits of the exponent");
    }
    size_t n = (size_t)(r->p - start);
    v->kind = RT_JSON_NUMBER;
    v->text = r->chars;
    memcpy(r->chars, start, n);
    r->chars[n] = 0;
    r->chars += n + 1;
    v->number = strtod(v->text, NULL);
    return RT_OK;
}

static RtCode take_value(Reader *r, RtJson **out, int depth);

/* Items of an array (close ']') or an object ('}'). */
static RtCode take_items(Reader *r, RtJson *v, char close, int depth)
{
    RtJson **tail = &v->first;
    if (take(r, close)) return RT_OK;
    do {
        const char *key = NULL;
        RtJson *item;
        if (close == '}') {
            RT_TRY(take_string(r, &key));
            if (!take(r, ':')) return json_error(r, "`:`");
        }
        RT_TRY(take_value(r, &item, depth + 1));
        item->key = key;
        *tail = item;
        tail = &item->next;
        v->n_items++;
    } while (take(r, ','));
    return take(r, close) ? RT_OK : json_error(r, close == '}' ? "`,` or `}`" : "`,` or `]`");
}

static bool take_word(Reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n)) return false;
    r->p += n;
    return true;
}

static RtCode take_value(Reader *r, RtJson **out, int depth)
{
    if (depth > JSON_DEPTH) return json_error(r, "less than 64 levels of nesting");
    skip_space(r);
    if (r->n_nodes == r->cap_nodes) return json_error(r, "less text");
    RtJson *v = *out = &r->nodes[r->n_nodes++];
    char c = r->p < r->end ? *r->p : 0;
    if (c == '{' || c == '[') {
        r->p++;
        v->kind = c == '{' ? RT_JSON_OBJECT : RT_JSON_ARRAY;
        return take_items(r, v, c == '{' ? '}' : ']', depth);
    }
    if (c == '"') {
        v->kind = RT_JSON_STRING;
        return take_string(r, &v->text);
    }
    v->kind = RT_JSON_TRUE;
    if (take_word(r, "true")) return RT_OK;
    v->kind = RT_JSON_FALSE;
    if (take_word(r, "false")) return RT_OK;
    v->kind = RT_JSON_NULL;
    if (take_word(r, "null")) return RT_OK;
    return take_number(r, v);
}

/* Every value but the first stands behind one of these. */
static size_t count_values(const char *text, size_t n)
{
    size_t count = 2;
    for (size_t i = 0; i < n; i++) count += text[i] == ',' || text[i] == '[' || text[i] == ':' || text[i] == '{';
    return count;
}

RtCode rt_json_parse(const char *name, const char *text, size_t n, RtJsonDoc *doc, RtStatus *st)
{
    *doc = (RtJsonDoc){0};
    Reader r = {.name = name, .text = text, .p = text, .end = text + n, .st = st};
    r.cap_nodes = count_values(text, n);
    /* a decoded string is at most as long as its source, a number one byte longer per value */
    RT_TRY(rt_block_alloc(&doc->memory,
                          rt_size_plus(rt_size_plus(64, (int64_t)n, 1), (int64_t)r.cap_nodes, sizeof(RtJson) + 1), name,
                          st));
    r.nodes = doc->memory.p;
    r.chars = (char *)(r.nodes + r.cap_nodes);
    RtCode code = take_value(&r, &doc->root, 0);
    skip_space(&r);
    assert(r.chars <= (char *)doc->memory.p + doc->memory.bytes);
    if (!code && r.p != r.end) code = json_error(&r, "the end of the file");
    if (code) rt_json_free(doc);
    return code;
}

void rt_json_free(RtJsonDoc *doc)
{
    if (!doc) return;
    rt_block_free(&doc->memory);
    *doc = (RtJsonDoc){0};
}

const RtJson *rt_json_get(const RtJson *object, const char *key)
{
    if (!object || object->kind != RT_JSON_OBJECT) return NULL;
    for (const RtJson *v = object->first; v; v = v->next)
        if (!strcmp(v->key, key)) return v;
    return NULL;
}

bool rt_json_int(const RtJson *v, int64_t *out)
{
    if (!v || v->kind != RT_JSON_NUMBER) return false;
    int64_t n = 0;
    for (const char *p = v->text; *p; p++)
        if (*p < '0' || *p > '9' || !rt_mul(n, 10, &n) || !rt_add(n, *p - '0', &n)) return false;
    *out = n;
    return true;
}

void rt_json_put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        if (*s == '"' || *s == '\\') fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20) fprintf(f, "\\u%04x", *s);
        else fputc(*s, f);
    fputc('"', f);
}
