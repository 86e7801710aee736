/* The door of the parser: checks that the text is text, runs the grammar, and answers questions
   about syntax trees that need no names resolved. */
#include "frontend/ast.h"
#include "frontend/parse.h"
#include <string.h>

/* Length of the UTF-8 character at s (n bytes left), 0 if it is none (overlong forms, surrogates,
 * junk). */
static uint32_t utf8_length(const unsigned char *s, uint32_t n)
{
    if (s[0] < 0x80) return 1;
    uint32_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len > n) return 0;
    for (uint32_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    return s[1] >= low && s[1] <= high ? len : 0;
}

static bool is_text(const Source *src, Diags *d)
{
    const unsigned char *s = (const unsigned char *)src->text;
    for (uint32_t i = 0, len; i < src->n; i += len) {
        len = s[i] ? utf8_length(s + i, src->n - i) : 0;
        if (len) continue;
        Diag *e = diag_error(d, E0105, span_at(src, i, i + 1),
                             s[i] ? "this byte, 0x%02x, is not UTF-8" : "the file holds a NUL byte (0x%02x)", s[i]);
        diag_help(d, e, "a model file is UTF-8 text; is this another kind of file?");
        return false;
    }
    return true;
}

AstFile *ast_parse(Arena *a, const Source *src, Diags *d)
{
    if (!is_text(src, d)) return NULL;
    Parser p = {.arena = a, .source = src, .diags = d};
    if (src->n >= 3 && !memcmp(src->text, "\xef\xbb\xbf", 3)) p.at = 3;
    scan_begin(&p);
    gnn_parse(&p); /* its result says nothing that the diagnostics do not */
    scan_end(&p);
    AstFile *f = ARENA_NEW(a, AstFile);
    *f = (AstFile){src, p.decls.data, p.decls.n};
    return f;
}

/* ---- types where values stand ---- */

/* Fills t's space from `edge`, `edge(g1)` or `@d`. */
static bool space_of_expr(Arena *a, const AstExpr *e, AstType *t)
{
    if (e->kind == AST_EXPR_NAME || e->kind == AST_EXPR_DOMAIN) {
        t->space = e->as.name;
        t->domain_var = e->kind == AST_EXPR_DOMAIN;
        return true;
    }
    if (e->kind != AST_EXPR_CALL || e->as.call.callee->kind != AST_EXPR_NAME || !e->as.call.n_args) return false;
    const AstExpr **of = ARENA_ARRAY(a, const AstExpr *, e->as.call.n_args);
    for (uint32_t i = 0; i < e->as.call.n_args; i++) {
        const AstArg *arg = &e->as.call.args[i];
        if (arg->name.text || arg->by || arg->on) return false;
        of[i] = arg->value;
    }
    t->space = e->as.call.callee->as.name;
    t->of = (AstExprs){of, e->as.call.n_args};
    return true;
}

const AstType *ast_type_of_expr(Arena *a, const AstExpr *e)
{
    AstType *t = ARENA_NEW(a, AstType);
    t->span = e->span;
    if (e->kind == AST_EXPR_LIST) {
        t->has_dims = true;
        t->dims = e->as.list;
        return t;
    }
    if (e->kind == AST_EXPR_INDEX) {
        t->has_dims = true;
        t->dims = e->as.index.at;
        return space_of_expr(a, e->as.index.value, t) ? t : NULL;
    }
    return space_of_expr(a, e, t) ? t : NULL;
}

/* ---- words ---- */

const char *ast_binary_text(AstBinaryOp op)
{
    static const char *const texts[] = {
        [AST_ADD] = "+",  [AST_SUB] = "-", [AST_MUL] = "*",   [AST_DIV] = "/", [AST_MATMUL] = "@",
        [AST_POW] = "**", [AST_EQ] = "==", [AST_NE] = "!=",   [AST_LT] = "<",  [AST_LE] = "<=",
        [AST_GT] = ">",   [AST_GE] = ">=", [AST_AND] = "and", [AST_OR] = "or",
    };
    return texts[op];
}

const char *ast_decl_text(AstDeclKind kind)
{
    static const char *const texts[] = {
        [AST_DECL_MESSAGE] = "message",   [AST_DECL_FN] = "fn",         [AST_DECL_LAYER] = "layer",
        [AST_DECL_MODEL] = "model",       [AST_DECL_REDUCE] = "reduce", [AST_DECL_OPTIMIZER] = "optimizer",
        [AST_DECL_SCHEDULE] = "schedule", [AST_DECL_TRAIN] = "train",   [AST_DECL_TEST] = "test",
        [AST_DECL_SCHEMA] = "schema",     [AST_DECL_CONST] = "const",
    };
    return texts[kind];
}
