/* gnnc check --store: what it costs each result of a program that numbers are kept in 16 bits. */
#pragma once
#include "driver/commands.h"

/* Runs every function of the model in the interpreter twice, as it is and as --store keeps it, on the data of --data or
   on random ones, and prints how far the results lie apart. Returns an exit code; what is wrong goes to the session's
   diagnostics. */
int store_error_report(Session *s, const char *path);
