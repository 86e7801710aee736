/* Whole files in, whole files out, and child processes without a shell. */
#pragma once
#include "base/arena.h"
#include <stdbool.h>

/* Reads a whole file (at most max bytes; 0: 1 GiB). NUL-terminated. Returns NULL with *why set. */
char *file_read(Arena *a, const char *path, size_t max, size_t *n, const char **why);
/* Writes beside `path` (O_EXCL), syncs, renames; into it, where it is a device or a pipe. False with *why set; the old file is unchanged
   then and nothing is left behind. mode: permission bits such as 0644. */
bool file_write(Arena *a, const char *path, const void *p, size_t n, unsigned mode, const char **why);
/* Makes a directory only this user can enter, under TMPDIR or /tmp. NULL with *why set. */
char *file_temp_dir(Arena *a, const char **why);
void file_remove_tree(const char *path); /* a directory of plain files, one level deep */
/* Runs argv[0] (searched in PATH) without a shell; stdout and stderr of the child go to `log`
   (at most 64 KiB). Returns the exit status, or -1 with *why set. */
int file_spawn(Arena *a, const char *const *argv, char **log, const char **why);
