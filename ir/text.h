/* What the printer and the reader of graph IR share: the letters of names, implied types. */
#pragma once
#include "ir/graph.h"

static inline bool ir_text_starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool ir_text_in_name(char c)
{
    return ir_text_starts_name(c) || (c >= '0' && c <= '9') || c == '.' || c == '\'';
}
/* Whether a name stands in the text without quotes. */
bool ir_name_is_plain(const char *s);
/* The type an argument has when the text names none: its tensor's, or an i64 scalar. False for
   cotangents, which always name theirs. */
bool ir_arg_implied_type(const IrModule *m, const IrArg *arg, IrType *type);
