/* Pieces of .gnn programs by their place in the grammar, and programs made of them: a declaration, statement,
   expression, type or name is exchanged for another of its kind, so that most of what comes out parses. Used by the
   fuzzer. */
#pragma once
#include "frontend/ast.h"

typedef enum { PIECE_DECL, PIECE_STMT, PIECE_EXPR, PIECE_TYPE, PIECE_NAME, N_PIECES } PieceKind;
typedef VEC(Span) Spans;
typedef struct Pieces {
    Arena *arena;
    Spans of[N_PIECES];
} Pieces;

static inline void piece_add(Pieces *p, PieceKind kind, Span s)
{
    if (s.source && s.end > s.begin) VEC_PUSH(p->arena, &p->of[kind], s);
}

static inline void pieces_expr(Pieces *p, const AstExpr *x);
static inline void pieces_block(Pieces *p, const AstBlock *b);

static inline void pieces_exprs(Pieces *p, const AstExprs *x)
{
    for (uint32_t i = 0; i < x->n; i++) pieces_expr(p, x->items[i]);
}

static inline void pieces_type(Pieces *p, const AstType *t)
{
    if (!t) return;
    piece_add(p, PIECE_TYPE, t->span);
    piece_add(p, PIECE_NAME, t->space.span);
    pieces_exprs(p, &t->dims);
    pieces_expr(p, t->classes);
    for (uint32_t i = 0; i < t->n_items; i++) pieces_type(p, t->items[i]);
}

static inline void pieces_call(Pieces *p, const AstExpr *x)
{
    pieces_expr(p, x->as.call.callee);
    for (uint32_t i = 0; i < x->as.call.n_args; i++) {
        piece_add(p, PIECE_NAME, x->as.call.args[i].name.span);
        pieces_expr(p, x->as.call.args[i].value);
        pieces_expr(p, x->as.call.args[i].by);
        pieces_expr(p, x->as.call.args[i].on);
    }
}

/* A switch over the kinds of expressions. */
static inline void pieces_expr(Pieces *p, const AstExpr *x)
{
    if (!x) return;
    piece_add(p, PIECE_EXPR, x->span);
    switch (x->kind) {
    case AST_EXPR_NAME: piece_add(p, PIECE_NAME, x->span); break;
    case AST_EXPR_LIST:
    case AST_EXPR_TUPLE: pieces_exprs(p, &x->as.list); break;
    case AST_EXPR_UNARY: pieces_expr(p, x->as.unary.value); break;
    case AST_EXPR_BINARY:
    case AST_EXPR_RANGE:
        pieces_expr(p, x->as.binary.left);
        pieces_expr(p, x->as.binary.right);
        break;
    case AST_EXPR_SELECT:
        pieces_expr(p, x->as.select.cond);
        pieces_expr(p, x->as.select.yes);
        pieces_expr(p, x->as.select.no);
        break;
    case AST_EXPR_CALL: pieces_call(p, x); break;
    case AST_EXPR_MEMBER:
        pieces_expr(p, x->as.member.value);
        piece_add(p, PIECE_NAME, x->as.member.name.span);
        break;
    case AST_EXPR_INDEX:
        pieces_expr(p, x->as.index.value);
        pieces_exprs(p, &x->as.index.at);
        break;
    case AST_EXPR_OVER:
        pieces_expr(p, x->as.over.graph);
        pieces_block(p, &x->as.over.body);
        break;
    case AST_EXPR_FOR:
        pieces_expr(p, x->as.loop.in);
        pieces_block(p, &x->as.loop.body);
        break;
    case AST_EXPR_FORALL:
        if (x->as.forall.at) pieces_expr(p, x->as.forall.at);
        pieces_block(p, &x->as.forall.body);
        break;
    default: break;
    }
}

static inline void pieces_slot(Pieces *p, const AstSlot *s)
{
    for (uint32_t i = 0; i < s->names.n; i++) piece_add(p, PIECE_NAME, s->names.items[i].span);
    pieces_type(p, s->type);
    pieces_expr(p, s->init);
    pieces_exprs(p, &s->stored_dims);
}

static inline void pieces_stmt(Pieces *p, const AstStmt *s)
{
    piece_add(p, PIECE_STMT, s->span);
    switch (s->kind) {
    case AST_STMT_ASSIGN:
        pieces_exprs(p, &s->as.assign.targets);
        pieces_type(p, s->as.assign.type);
        pieces_expr(p, s->as.assign.value);
        break;
    case AST_STMT_PARAM:
    case AST_STMT_BUFFER:
    case AST_STMT_CONST: pieces_slot(p, &s->as.slot); break;
    case AST_STMT_GRAPH:
    case AST_STMT_PAIRS: pieces_expr(p, s->as.bind.value); break;
    case AST_STMT_IF:
        pieces_expr(p, s->as.branch.cond);
        pieces_block(p, &s->as.branch.yes);
        pieces_block(p, &s->as.branch.no);
        break;
    case AST_STMT_ASSERT:
        pieces_expr(p, s->as.check.cond);
        pieces_expr(p, s->as.check.where);
        break;
    case AST_STMT_ADJOINT: pieces_block(p, &s->as.adjoint); break;
    case AST_STMT_RETURN:
    case AST_STMT_EXPR: pieces_expr(p, s->as.value); break;
    }
}

static inline void pieces_block(Pieces *p, const AstBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) pieces_stmt(p, b->items[i]);
}

static inline void pieces_signature(Pieces *p, const AstSignature *sig)
{
    for (uint32_t i = 0; i < sig->n_params; i++) {
        piece_add(p, PIECE_NAME, sig->params[i].name.span);
        pieces_type(p, sig->params[i].type);
        pieces_expr(p, sig->params[i].init);
    }
    pieces_type(p, sig->result);
}

static inline void pieces_fold(Pieces *p, const AstFold *f)
{
    pieces_signature(p, &f->sig);
    for (uint32_t i = 0; i < f->n_states; i++) pieces_type(p, f->states[i].type), pieces_expr(p, f->states[i].init);
    for (uint32_t i = 0; i < f->n_params; i++) pieces_slot(p, &f->params[i]);
    const AstBlock *blocks[] = {&f->step, &f->merge, &f->adjoint, &f->done_block};
    for (uint32_t i = 0; i < 4; i++) pieces_block(p, blocks[i]);
    pieces_expr(p, f->done);
    pieces_expr(p, f->empty);
}

static inline void pieces_decl(Pieces *p, const AstDecl *d)
{
    piece_add(p, PIECE_DECL, d->span);
    if (d->kind <= AST_DECL_MODEL) {
        pieces_signature(p, &d->as.function.sig);
        pieces_expr(p, d->as.function.expr);
        pieces_block(p, &d->as.function.body);
    } else if (d->kind == AST_DECL_REDUCE || d->kind == AST_DECL_OPTIMIZER) {
        pieces_fold(p, &d->as.fold);
    } else if (d->kind == AST_DECL_TRAIN) {
        pieces_expr(p, d->as.train.target);
        for (uint32_t i = 0; i < d->as.train.n_items; i++) {
            piece_add(p, PIECE_STMT, d->as.train.items[i].span);
            pieces_expr(p, d->as.train.items[i].value);
            pieces_expr(p, d->as.train.items[i].on);
        }
    } else if (d->kind == AST_DECL_TEST) {
        pieces_block(p, &d->as.test);
    } else if (d->kind == AST_DECL_CONST) {
        pieces_slot(p, &d->as.constant);
    }
}

static inline void pieces_file(Pieces *p, const AstFile *f)
{
    for (uint32_t i = 0; f && i < f->n_decls; i++) pieces_decl(p, f->decls[i]);
}
