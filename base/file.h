/* Whole files in, whole files out, and child processes without a shell. */
#pragma once
#include "base/arena.h"
#include <stdbool.h>

/* Reads a whole file (at most max bytes; 0: 1 GiB). NUL-terminated. Returns NULL with *why set. */
char *file_read(Arena *a, const char *path, size_t max, size_t *n, const char **why);
/* Replaces `path` as a whole (runtime/replace.h); writes into it where it is a device or a pipe. False with *why set;
   the old file is unchanged then and nothing is left behind. mode: permission bits of a new file, less the umask; an
   old one keeps its own, and can be run where `mode` says so. */
bool file_write(Arena *a, const char *path, const void *p, size_t n, unsigned mode, const char **why);
/* Whether two paths name one regular file, or one place for a file that is not there yet. */
bool file_same(const char *a, const char *b);
/* A folder of plain files that only this user can enter. It is gone when the process has ended, whether it is killed or
   ends by
   itself: a second process waits for that. */
typedef struct TempFolder {
    char *path;
    int held, guard; /* private: a pipe, and who waits for its end */
} TempFolder;
/* Inside `base`; NULL: inside TMPDIR, or /tmp. False with *why set. */
bool temp_folder_make(Arena *a, const char *base, TempFolder *t, const char **why);
void temp_folder_remove(TempFolder *t);
/* Runs argv[0] (searched in PATH) without a shell; stdout and stderr of the child go to `log`
   (at most 64 KiB). Returns the exit status, or -1 with *why set. */
int file_spawn(Arena *a, const char *const *argv, char **log, const char **why);
