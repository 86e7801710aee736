/* The verbs of gnnc data. Each returns an exit code; what is wrong goes to the session's diagnostics. */
#pragma once
#include "driver/commands.h"
#include <cjson/cJSON.h>

int data_generate(Session *s, const char *dir);
int data_info(Session *s, const char *dir);
int data_schema(Session *s, const char *dir);
int data_verify(Session *s, const char *dir);
int data_partition(Session *s, const char *dir);

/* meta.json of a folder, NULL where there is none. False with E0601 or E0614. */
bool data_meta(Session *s, const char *dir, cJSON **meta);
/* Names of a folder's files that end with `suffix`, sorted. */
char **data_list(Arena *a, const char *dir, const char *suffix, size_t *n);
/* What `gnnc data verify` checks of one folder, without a word where it is sound. */
bool data_verify_folder(Session *s, const char *dir, size_t *n_files);
