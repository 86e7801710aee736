/* Status of a runtime call: a stable code, the place, what was found and wanted, one hint. The
   runtime never exits and never aborts, but by an assert in builds that have them (README.md); every
   function that can fail returns a code and fills the status it was given. */
#pragma once
#include <stddef.h>

typedef enum {
    RT_OK = 0,
#define RT_CODE(name, number, exit, title, hint) RT_E_##name = number,
#include "runtime/codes.def"
#undef RT_CODE
} RtCode;

typedef struct RtStatus {
    RtCode code;
    char place[256];   /* file, flag or function; may be empty */
    char message[512]; /* found and wanted, lower case */
    char note[256];    /* where the program declares what was wanted (declared.h); may be empty */
    char hint[256];    /* may be empty */
} RtStatus;

/* Returns the code of a failed call at once. */
#define RT_TRY(call)                                                                                                   \
    do {                                                                                                               \
        RtCode rt_try_code_ = (call);                                                                                  \
        if (rt_try_code_ != RT_OK) return rt_try_code_;                                                                \
    } while (0)

/* Fills st (which may be NULL) and returns code. place and hint may be NULL;
   the hint is then that of codes.def. */
__attribute__((format(printf, 5, 6))) RtCode rt_fail(RtStatus *st, RtCode code, const char *place, const char *hint,
                                                     const char *fmt, ...);
/* Out of memory: what was asked for, and for what. */
RtCode rt_fail_memory(RtStatus *st, size_t bytes, const char *what);
/* A file operation failed; errno says why. */
RtCode rt_fail_errno(RtStatus *st, RtCode code, const char *path);

int rt_code_exit(RtCode code);          /* the process exit code */
const char *rt_code_title(RtCode code); /* "not an npy file" */
const char *rt_code_name(RtCode code);  /* "NPY_MAGIC" */
/* "error[R101]: place: message\n  = note: note\n  = help: hint\n"; returns the length as snprintf does. */
int rt_status_text(const RtStatus *st, char *out, size_t size);
