/* The safetensors format (see safetensors.h; github:huggingface/safetensors, Format). Nothing of
   the header is believed before it was checked against the bytes that are there. */
#include "runtime/safetensors.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t dtype;
} st_dtypes[] = {{"F32", RT_F32}, {"F64", RT_F64}, {"I32", RT_I32}, {"I64", RT_I64}, {"BOOL", RT_BOOL}, {"U8", RT_U8}};
enum { N_DTYPES = sizeof st_dtypes / sizeof *st_dtypes };

static int64_t item_bytes(int64_t dtype) { return dtype == RT_U8 ? 1 : rt_dtype_bytes(dtype); }

/* ---- reading ---- */

static RtCode header_error(const char *place, const char *tensor, const char *wanted, RtStatus *st)
{
    return rt_fail(st, RT_E_WEIGHTS_HEADER, place, NULL, "tensor %s: wanted %s", tensor, wanted);
}

static RtCode read_shape(const char *place, const RtJson *v, RtStEntry *e, int64_t *count, RtStatus *st)
{
    const RtJson *shape = rt_json_get(v, "shape");
    if (!shape || shape->kind != RT_JSON_ARRAY) return header_error(place, e->name, "a shape", st);
    if (shape->n_items > RT_ARRAY_DIMS) return header_error(place, e->name, "at most 8 dimensions", st);
    *count = 1;
    for (const RtJson *d = shape->first; d; d = d->next) {
        if (!rt_json_int(d, &e->shape[e->n_dims])) return header_error(place, e->name, "sizes in its shape", st);
        if (!rt_mul(*count, e->shape[e->n_dims], count))
            return header_error(place, e->name, "a size that fits in 64 bits", st);
        e->n_dims++;
    }
    return RT_OK;
}

static RtCode read_dtype(const char *place, const RtJson *v, RtStEntry *e, RtStatus *st)
{
    const RtJson *dtype = rt_json_get(v, "dtype");
    if (!dtype || dtype->kind != RT_JSON_STRING) return header_error(place, e->name, "a dtype", st);
    for (int i = 0; i < N_DTYPES; i++)
        if (!strcmp(dtype->text, st_dtypes[i].name)) {
            e->dtype = st_dtypes[i].dtype;
            return RT_OK;
        }
    return rt_fail(st, RT_E_WEIGHTS_DTYPE, place, "convert the weights before saving them",
                   "tensor %s has dtype %s, wanted F32, F64, I32, I64, BOOL or U8", e->name, dtype->text);
}

static RtCode read_entry(const char *place, const RtJson *v, const char *data, int64_t n_data, RtStEntry *e,
                         RtStatus *st)
{
    int64_t count, bytes, begin, end;
    *e = (RtStEntry){.name = v->key};
    RT_TRY(read_dtype(place, v, e, st));
    RT_TRY(read_shape(place, v, e, &count, st));
    const RtJson *at = rt_json_get(v, "data_offsets");
    if (!at || at->kind != RT_JSON_ARRAY || at->n_items != 2 || !rt_json_int(at->first, &begin) ||
        !rt_json_int(at->first->next, &end) || end < begin)
        return header_error(place, e->name, "data_offsets [begin, end]", st);
    if (end > n_data)
        return rt_fail(st, RT_E_WEIGHTS_TRUNCATED, place, "copy or download the file again",
                       "tensor %s ends at byte %lld of %lld", e->name, (long long)end, (long long)n_data);
    if (!rt_mul(count, item_bytes(e->dtype), &bytes) || bytes != end - begin)
        return header_error(place, e->name, "as many bytes as its shape and dtype say", st);
    e->data = data + begin;
    e->bytes = bytes;
    return RT_OK;
}

static int by_place(const void *a, const void *b)
{
    const RtStEntry *const *x = a, *const *y = b;
    if ((*x)->data != (*y)->data) return (*x)->data < (*y)->data ? -1 : 1;
    return (*x)->bytes < (*y)->bytes ? -1 : (*x)->bytes > (*y)->bytes;
}

static int by_name(const void *a, const void *b)
{
    const RtStEntry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Ranges in order of place follow each other from 0 to the end; names differ. `order` [n] is
   scratch. */
static RtCode check_tiling(const char *place, const RtStFile *f, const char *data, int64_t n_data,
                           const RtStEntry **order, RtStatus *st)
{
    const char *at = data;
    for (int64_t i = 0; i < f->n_entries; i++) order[i] = &f->entries[i];
    qsort(order, (size_t)f->n_entries, sizeof *order, by_place);
    for (int64_t i = 0; i < f->n_entries; i++) {
        if ((const char *)order[i]->data != at)
            return rt_fail(st, RT_E_WEIGHTS_TILING, place, NULL, "tensor %s begins at byte %lld, wanted %lld",
                           order[i]->name, (long long)((const char *)order[i]->data - data), (long long)(at - data));
        at += order[i]->bytes;
    }
    if (at != data + n_data)
        return rt_fail(st, RT_E_WEIGHTS_TILING, place, NULL, "%lld bytes behind the last tensor",
                       (long long)(data + n_data - at));
    qsort(order, (size_t)f->n_entries, sizeof *order, by_name);
    for (int64_t i = 1; i < f->n_entries; i++)
        if (!strcmp(order[i]->name, order[i - 1]->name))
            return rt_fail(st, RT_E_WEIGHTS_DUPLICATE, place, NULL, "tensor %s is given twice", order[i]->name);
    return RT_OK;
}

static RtCode read_entries(const char *place, RtStFile *f, const char *data, int64_t n_data, RtStatus *st)
{
    const RtStEntry **order;
    bool meta = false;
    RT_TRY(rt_alloc(&f->entries, f->header.root->n_items, sizeof *f->entries, place, st));
    RtCode code = rt_alloc(&order, f->header.root->n_items, sizeof *order, place, st);
    for (const RtJson *v = f->header.root->first; v && !code; v = v->next) {
        if (strcmp(v->key, "__metadata__")) code = read_entry(place, v, data, n_data, &f->entries[f->n_entries++], st);
        else if (meta) code = rt_fail(st, RT_E_WEIGHTS_DUPLICATE, place, NULL, "__metadata__ is given twice");
        else meta = true;
    }
    assert(f->n_entries <= f->header.root->n_items);
    if (!code) code = check_tiling(place, f, data, n_data, order, st);
    free(order);
    return code;
}

static RtCode parse_file(const char *place, RtStFile *f, RtStatus *st)
{
    const unsigned char *b = f->file.p;
    uint64_t n_header = 0;
    if (f->file.bytes < 8)
        return rt_fail(st, RT_E_WEIGHTS_TRUNCATED, place, NULL, "found %zu bytes, wanted at least 8", f->file.bytes);
    for (int i = 7; i >= 0; i--) n_header = n_header << 8 | b[i];
    if (n_header > 100000000)
        return rt_fail(st, RT_E_WEIGHTS_HEADER, place, "is this a safetensors file?",
                       "the header would have %llu bytes, wanted at most 100000000", (unsigned long long)n_header);
    if (n_header > f->file.bytes - 8)
        return rt_fail(st, RT_E_WEIGHTS_TRUNCATED, place, "copy or download the file again",
                       "the header has %llu bytes, the file %zu", (unsigned long long)n_header, f->file.bytes);
    const char *text = (const char *)b + 8;
    RT_TRY(rt_json_parse(place, text, n_header, &f->header, st));
    if (f->header.root->kind != RT_JSON_OBJECT)
        return rt_fail(st, RT_E_WEIGHTS_HEADER, place, NULL, "wanted a JSON object as header");
    return read_entries(place, f, text + n_header, (int64_t)(f->file.bytes - 8 - n_header), st);
}

RtCode rt_st_read(const char *path, RtStFile *f, RtStatus *st)
{
    *f = (RtStFile){0};
    RT_TRY(rt_file_read(path, &f->file, st));
    RtCode code = parse_file(path, f, st);
    if (code) rt_st_free(f);
    return code;
}

RtCode rt_st_parse(const char *name, const void *bytes, size_t n_bytes, RtStFile *f, RtStatus *st)
{
    *f = (RtStFile){0};
    RT_TRY(rt_block_alloc(&f->file, (int64_t)n_bytes, name, st));
    if (n_bytes) memcpy(f->file.p, bytes, n_bytes);
    RtCode code = parse_file(name, f, st);
    if (code) rt_st_free(f);
    return code;
}

void rt_st_free(RtStFile *f)
{
    if (!f) return;
    rt_block_free(&f->file);
    rt_json_free(&f->header);
    free(f->entries);
    *f = (RtStFile){0};
}

const RtStEntry *rt_st_find(const RtStFile *f, const char *name)
{
    for (int64_t i = 0; i < f->n_entries; i++)
        if (!strcmp(f->entries[i].name, name)) return &f->entries[i];
    return NULL;
}

const char *rt_st_meta(const RtStFile *f, const char *key)
{
    const RtJson *v = rt_json_get(rt_json_get(f->header.root, "__metadata__"), key);
    return v && v->kind == RT_JSON_STRING ? v->text : NULL;
}

/* ---- writing ---- */

static const char *st_dtype_name(int64_t dtype)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (st_dtypes[i].dtype == dtype) return st_dtypes[i].name;
    return "?";
}

static void put_entry(FILE *out, const RtStEntry *e, int64_t begin)
{
    rt_json_put_string(out, e->name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", st_dtype_name(e->dtype));
    for (int64_t i = 0; i < e->n_dims; i++) fprintf(out, i ? ",%lld" : "%lld", (long long)e->shape[i]);
    fprintf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)(begin + e->bytes));
}

static void put_header(FILE *out, const RtStEntry *entries, int64_t n_entries, const RtStPair *meta, int64_t n_meta)
{
    int64_t at = 0;
    fputc('{', out);
    if (n_meta) fputs("\"__metadata__\":{", out);
    for (int64_t i = 0; i < n_meta; i++) {
        if (i) fputc(',', out);
        rt_json_put_string(out, meta[i].key);
        fputc(':', out);
        rt_json_put_string(out, meta[i].value);
    }
    if (n_meta) fputs(n_entries ? "}," : "}", out);
    for (int64_t i = 0; i < n_entries; i++) {
        if (i) fputc(',', out);
        put_entry(out, &entries[i], at);
        at += entries[i].bytes;
    }
    fputc('}', out);
    long n = ftell(out);
    for (; n % 8; n++) fputc(' ', out); /* the data begins aligned */
}

RtCode rt_st_write(const char *path, const RtStEntry *entries, int64_t n_entries, const RtStPair *meta, int64_t n_meta,
                   RtStatus *st)
{
    char *text = NULL;
    size_t n_text = 0;
    unsigned char length[8];
    FILE *out = open_memstream(&text, &n_text);
    RtFilePart *parts = NULL;
    RtCode code = rt_alloc(&parts, n_entries + 2, sizeof *parts, path, st);
    if (out) put_header(out, entries, n_entries, meta, n_meta);
    bool ok = out && !ferror(out);
    if (out && fclose(out)) ok = false;
    if (!ok && !code) code = rt_fail_memory(st, n_text, path);
    if (code) {
        free(text);
        free(parts);
        return code;
    }
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)n_text >> (8 * i));
    parts[0] = (RtFilePart){length, 8};
    parts[1] = (RtFilePart){text, n_text};
    for (int64_t i = 0; i < n_entries; i++) parts[i + 2] = (RtFilePart){entries[i].data, (size_t)entries[i].bytes};
    code = rt_file_replace(path, parts, (size_t)n_entries + 2, st);
    free(text);
    free(parts);
    return code;
}
