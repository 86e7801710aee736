/* Private to the parser: the words of its error messages. */
#pragma once
#include "frontend/parser.h"

typedef struct ParseExpected { /* what could have stood there */
    const char *names[160];    /* "`(`", "a name", ...: the grammar's aliases */
    uint32_t n;
    bool expression; /* an expression could begin there */
} ParseExpected;

/* Reports the parser's last token, at `span`, as unexpected (E0101), and prepares recovery. at_end:
   it is the end of the text. junk: it was reported before, nothing more is said. */
void parse_error_report(Parser *p, Span span, bool at_end, bool junk, const ParseExpected *want);
void parse_error_depth(Parser *p, Span span);
