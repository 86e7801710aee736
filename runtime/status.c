/* Status codes and their texts (see status.h). Never prints, never exits. */
#include "runtime/status.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct CodeRow {
    RtCode code;
    int exit;
    const char *name, *title, *hint;
} CodeRow;

static const CodeRow code_rows[] = {
#define RT_CODE(name, number, exit, title, hint) {RT_E_##name, exit, #name, title, hint},
#include "runtime/codes.def"
#undef RT_CODE
};

static const CodeRow *code_row(RtCode code)
{
    for (size_t i = 0; i < sizeof code_rows / sizeof *code_rows; i++)
        if (code_rows[i].code == code) return &code_rows[i];
    return NULL;
}

RtCode rt_fail(RtStatus *st, RtCode code, const char *place, const char *hint, const char *fmt, ...)
{
    assert(code != RT_OK && code_row(code)); /* codes.def has it */
    if (!st) return code;
    const CodeRow *row = code_row(code);
    if (!hint) hint = row ? row->hint : "";
    st->code = code;
    st->note[0] = 0;
    snprintf(st->place, sizeof st->place, "%s", place ? place : "");
    snprintf(st->hint, sizeof st->hint, "%s", hint);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(st->message, sizeof st->message, fmt, ap);
    va_end(ap);
    return code;
}

RtCode rt_fail_memory(RtStatus *st, size_t bytes, const char *what)
{
    return rt_fail(st, RT_E_MEMORY, NULL, "use a smaller graph or narrower layers, or free memory",
                   "cannot allocate %zu bytes (%.1f MiB) for %s", bytes, (double)bytes / 1048576.0, what);
}

RtCode rt_fail_errno(RtStatus *st, RtCode code, const char *path)
{
    const char *hint = NULL;
    int e = errno;
    if (e == ENOENT) hint = "check the spelling of the path";
    if (e == EACCES || e == EPERM) hint = "check the permissions of the path";
    if (e == ENOSPC) hint = "free some space; what was there before is untouched";
    return rt_fail(st, code, path, hint, "%s: %s", rt_code_title(code), e ? strerror(e) : "the system refused");
}

int rt_code_exit(RtCode code)
{
    const CodeRow *row = code_row(code);
    if (code == RT_OK) return 0;
    return row ? row->exit : 70;
}

const char *rt_code_title(RtCode code)
{
    const CodeRow *row = code_row(code);
    if (code == RT_OK) return "ok";
    return row ? row->title : "unknown code";
}

const char *rt_code_name(RtCode code)
{
    const CodeRow *row = code_row(code);
    if (code == RT_OK) return "OK";
    return row ? row->name : "UNKNOWN";
}

int rt_status_text(const RtStatus *st, char *out, size_t size)
{
    const char *sep = st->place[0] ? ": " : "";
    const char *note = st->note[0] ? "  = note: " : "", *help = st->hint[0] ? "  = help: " : "";
    return snprintf(out, size, "error[R%d]: %s%s%s\n%s%s%s%s%s%s", (int)st->code, st->place, sep, st->message, note,
                    st->note, st->note[0] ? "\n" : "", help, st->hint, st->hint[0] ? "\n" : "");
}
