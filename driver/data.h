/* The verbs of gnnc data. Each returns an exit code; what is wrong goes to the session's diagnostics. */
#pragma once
#include "driver/commands.h"

int data_generate(Session *s, const char *dir);
int data_info(Session *s, const char *dir);
int data_verify(Session *s, const char *dir);
