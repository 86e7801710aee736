/* The grammar of .gnn files. Actions only call constructors (parser.h); what a word means, which types fit
   and what is not built yet is decided later. Statements end at TOK_NL (tokens.c says which newlines are
   one); items of reduce, optimizer, train and schema bodies may also follow one another on a line.
   Recovery: after an error the rest of the statement or item is skipped. */
%code top {
#include "base/arena.h"
#include <stdlib.h>
#define YYMALLOC memory_take
#define YYFREE free
#define YYMAXDEPTH 10000 /* brackets are limited before this; it bounds chains such as `- - - x` */
}
%code requires {
#include "frontend/parser.h"
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                    \
    ((cur) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))                                       \
                 : span_at(YYRHSLOC(rhs, 0).source, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end))
}
%code provides {
/* Tokens for the parser, from raw ones (tokens.c). */
int gnn_lex(GNN_STYPE *value, Span *span, Parser *p);
}
%code {
#include "frontend/parse_error.h"
static void gnn_error(const Span *span, Parser *p, const char *why);
#define NEW(T) ARENA_NEW(p->arena, T)
#define PUSH(vec, item) VEC_PUSH(p->arena, vec, item)

static NameVec *one_name(Parser *p, AstName name)
{
    NameVec *v = NEW(NameVec);
    PUSH(v, name);
    return v;
}
}

%define api.prefix {gnn_}
%define api.pure full
%define api.location.type {Span}
%define api.token.prefix {TOK_}
%define parse.error custom
%define parse.lac full
%locations
%param {Parser *p}
%initial-action { @$ = span_at(p->source, 0, 0); }

%union {
    const char *text;
    Number number;
    AstName name;
    AstExpr *expr;
    AstType *type;
    AstStmt *stmt;
    AstBlock *block;
    AstSlot *slot;
    AstSignature *sig;
    AstArg arg;
    AstParam param;
    AstSchemaItem schema_item;
    Binding binding;
    Brackets *brackets;
    NameVec *names;
    ExprVec *exprs;
    TypeVec *types;
    StmtVec *stmts;
    ArgVec *args;
    ParamVec *params;
    SlotVec *slots;
    BindingVec *bindings;
    TrainVec *train;
    SchemaVec *schema;
    FoldBuilder *fold;
}

%token YYEOF 0 "the end of the file"
%token <text> IDENT "a name" STRING "a string"
%token <number> NUMBER "a number"
%token NL "the end of the line"
%token NEWLINE COMMENT JUNK "unknown text"
%token MESSAGE "`message`" FN "`fn`" LAYER "`layer`" MODEL "`model`" REDUCE "`reduce`" OPTIMIZER "`optimizer`" SCHEDULE "`schedule`"
%token TRAIN "`train`" TEST "`test`" SCHEMA "`schema`" CONST "`const`"
%token PARAM "`param`" BUFFER "`buffer`" GRAPH "`graph`" PAIRS "`pairs`" ADJOINT "`adjoint`" FILL "`fill`"
%token OVER "`over`" FOR "`for`" FORALL "`forall`" IN "`in`" INTO "`into`" IF "`if`" THEN "`then`" ELSE "`else`"
%token RETURN "`return`" ASSERT "`assert`" WHERE "`where`" ON "`on`" BY "`by`" AS "`as`"
%token AND "`and`" OR "`or`" NOT "`not`" TRUE "`true`" FALSE "`false`" NONE "`none`"
%token ARROW "`->`" RANGE "`..`" REST "`...`" ANY_MEMBER "`.*`" POW "`**`"
%token EQ "`==`" NE "`!=`" LE "`<=`" GE "`>=`"
%token SET_ADD "`+=`" SET_SUB "`-=`" SET_MUL "`*=`" SET_DIV "`/=`"
%token '(' "`(`" ')' "`)`" '[' "`[`" ']' "`]`" '{' "`{`" '}' "`}`"
%token ',' "`,`" ':' "`:`" '=' "`=`" '.' "`.`" ';' "`;`"
%token '+' "`+`" '-' "`-`" '*' "`*`" '/' "`/`" '@' "`@`" '<' "`<`" '>' "`>`"

%precedence ELSE
%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' LE '>' GE
%left '+' '-'
%left '*' '/' '@'
%precedence NEGATE
%right POW

%type <name> name word
%type <names> names
%type <expr> expr primary range_or_expr item value on_opt init_opt where_opt
%type <exprs> exprs items
%type <brackets> brackets brackets_opt
%type <args> args arg_list
%type <arg> arg
%type <type> type typed_opt plain_type
%type <types> types
%type <params> params param_list
%type <param> param
%type <sig> signature
%type <stmt> stmt stmt_opt if_stmt
%type <stmts> stmts
%type <block> block
%type <slot> slot stored_opt slot_entry
%type <slots> slot_entries
%type <fold> fold_items fold_body
%type <train> train_items train_body
%type <binding> binding
%type <bindings> bindings
%type <schema> schema_items schema_body schema_list
%type <schema_item> schema_elem

%start file
%%

file: lines

lines:
    %empty
  | lines NL
  | lines decl
  | lines error

/* ---- declarations ---- */

decl:
    MESSAGE name signature '=' expr { ast_build_function(p, AST_DECL_MESSAGE, $2, $3, $5, NULL, @$); }
  | MESSAGE name signature block    { ast_build_function(p, AST_DECL_MESSAGE, $2, $3, NULL, $4, @$); }
  | FN name signature '=' expr      { ast_build_function(p, AST_DECL_FN, $2, $3, $5, NULL, @$); }
  | FN name signature block         { ast_build_function(p, AST_DECL_FN, $2, $3, NULL, $4, @$); }
  | LAYER name signature '=' expr   { ast_build_function(p, AST_DECL_LAYER, $2, $3, $5, NULL, @$); }
  | LAYER name signature block      { ast_build_function(p, AST_DECL_LAYER, $2, $3, NULL, $4, @$); }
  | MODEL name signature '=' expr   { ast_build_function(p, AST_DECL_MODEL, $2, $3, $5, NULL, @$); }
  | MODEL name signature block      { ast_build_function(p, AST_DECL_MODEL, $2, $3, NULL, $4, @$); }
  | REDUCE name signature fold_body    { ast_build_fold(p, AST_DECL_REDUCE, $2, $3, $4, @$); }
  | OPTIMIZER name signature fold_body { ast_build_fold(p, AST_DECL_OPTIMIZER, $2, $3, $4, @$); }
  | SCHEDULE name signature fold_body  { ast_build_fold(p, AST_DECL_SCHEDULE, $2, $3, $4, @$); }
  | TRAIN expr train_body           { ast_build_train(p, $2, $3, @$); }
  | TEST STRING block               { ast_build_test(p, ast_build_name($2, @2), $3, @$); }
  | SCHEMA name schema_body         { ast_build_schema(p, $2, $3, @$); }
  | CONST slot                      { ast_build_const(p, $2, @$); }

signature:
    '(' params ')'            { $$ = ast_build_signature(p, $2, NULL); }
  | '(' params ')' ARROW type { $$ = ast_build_signature(p, $2, $5); }

params:
    %empty         { $$ = NEW(ParamVec); }
  | param_list
  | param_list ','

param_list:
    param                { $$ = NEW(ParamVec); PUSH($$, $1); }
  | param_list ',' param { $$ = $1; PUSH($$, $3); }

param:
    name typed_opt init_opt stored_opt { $$ = ast_build_param(p, $1, $2, $3, $4, @$); }

typed_opt:
    %empty   { $$ = NULL; }
  | ':' type { $$ = $2; }

init_opt:
    %empty   { $$ = NULL; }
  | '=' expr { $$ = $2; }

/* reduce and optimizer: `state a = 0, b = 0`, `step { }`, `done = e`, in any order */
fold_body:
    '{' fold_items '}'       { $$ = $2; }
  | '{' fold_items error '}' { $$ = $2; }

fold_items:
    %empty                       { $$ = NEW(FoldBuilder); }
  | fold_items NL
  | fold_items error NL          { yyerrok; $$ = $1; }
  | fold_items word block        { $$ = $1; fold_add_block(p, $1, $2, $3); }
  | fold_items word '=' expr     { $$ = $1; fold_add_value(p, $1, $2, $4); }
  | fold_items word slot_entries { $$ = $1; fold_add_slots(p, $1, $2, $3); }

slot_entries:
    slot_entry                  { $$ = NEW(SlotVec); PUSH($$, *$1); }
  | slot_entries ',' slot_entry { $$ = $1; PUSH($$, *$3); }

/* A name alone shares what follows it: `a, b: [H] = zeros`. */
slot_entry:
    name                               { $$ = ast_build_slot(p, one_name(p, $1), NULL, NULL, NULL); }
  | name typed_opt '=' expr stored_opt { $$ = ast_build_slot(p, one_name(p, $1), $2, $4, $5); }

train_body:
    '{' train_items '}'       { $$ = $2; }
  | '{' train_items error '}' { $$ = $2; }

train_items:
    %empty                             { $$ = NEW(TrainVec); }
  | train_items NL
  | train_items error NL               { yyerrok; $$ = $1; }
  | train_items word '=' expr on_opt   { $$ = $1; train_add_let(p, $1, (Binding){$2, $4}, $5, span_join(@2, @5)); }
  | train_items word bindings on_opt   { $$ = $1; train_add_bindings(p, $1, $2, $3, $4, span_join(@2, @4)); }
  | train_items word value             { $$ = $1; train_add_setting(p, $1, $2, $3, span_join(@2, @3)); }
  | train_items word '(' args ')'      { $$ = $1; train_add_call(p, $1, $2, $4, span_join(@2, @5)); }

on_opt:
    %empty  { $$ = NULL; }
  | ON expr { $$ = $2; }

bindings:
    binding              { $$ = NEW(BindingVec); PUSH($$, $1); }
  | bindings ',' binding { $$ = $1; PUSH($$, $3); }

binding: name '=' expr { $$ = (Binding){$1, $3}; }

/* What a setting may be set to, and an optimizer: nothing that begins with `(`. */
value:
    NUMBER            { $$ = ast_build_number(p, $1, @1); }
  | '-' NUMBER        { $$ = ast_build_unary(p, AST_NEG, ast_build_number(p, $2, @2), @$); }
  | STRING            { $$ = ast_build_string(p, $1, @1); }
  | TRUE              { $$ = ast_build_bool(p, true, @1); }
  | FALSE             { $$ = ast_build_bool(p, false, @1); }
  | NONE              { $$ = ast_build_plain(p, AST_EXPR_NONE, @1); }
  | brackets          { $$ = ast_build_list(p, AST_EXPR_LIST, &$1->items, @1); }
  | name              { $$ = ast_build_name_expr(p, $1); }
  | name '(' args ')' { $$ = ast_build_call(p, ast_build_name_expr(p, $1), $3, @$); }

schema_body:
    '{' schema_items '}'       { $$ = $2; }
  | '{' schema_items error '}' { $$ = $2; }

schema_items:
    %empty                { $$ = NEW(SchemaVec); }
  | schema_items NL
  | schema_items error NL { yyerrok; $$ = $1; }
  | schema_items word schema_list {
        $$ = $1;
        for (uint32_t i = 0; i < $3->n; i++) {
            $3->data[i].word = $2;
            PUSH($$, $3->data[i]);
        }
    }

schema_list:
    schema_elem                 { $$ = NEW(SchemaVec); PUSH($$, $1); }
  | schema_list ',' schema_elem { $$ = $1; PUSH($$, $3); }

schema_elem:
    name brackets_opt {
        $$ = (AstSchemaItem){.span = @$, .name = $1};
        if ($2) $$.dims = (AstExprs){$2->items.data, $2->items.n};
    }
  | name ':' name ARROW name brackets_opt init_opt where_opt {
        $$ = (AstSchemaItem){.span = @$, .name = $1, .from = $3, .to = $5, .edges = $7, .where = $8};
        if ($6) $$.dims = (AstExprs){$6->items.data, $6->items.n};
    }

where_opt:
    %empty     { $$ = NULL; }
  | WHERE expr { $$ = $2; }

/* ---- types ---- */

type:
    plain_type
  | plain_type name          { $$ = ast_build_dtype(p, $1, $2, NULL, @$); }
  | plain_type name brackets { $$ = ast_build_dtype(p, $1, $2, $3, @$); }
  | '(' types ',' type ')'   { PUSH($2, $4); $$ = ast_build_tuple_type(p, $2, @$); }

plain_type:
    name                            { $$ = ast_build_type(p, $1, NULL, NULL, @$); }
  | name brackets                   { $$ = ast_build_type(p, $1, NULL, $2, @$); }
  | name '(' exprs ')' brackets_opt { $$ = ast_build_type(p, $1, $3, $5, @$); }
  | '@' name brackets_opt           { $$ = ast_build_domain_type(p, $2, $3, @$); }
  | brackets                        { $$ = ast_build_type(p, (AstName){0}, NULL, $1, @$); }

types:
    type           { $$ = NEW(TypeVec); PUSH($$, $1); }
  | types ',' type { $$ = $1; PUSH($$, $3); }

/* ---- statements ---- */

block:
    '{' stmts stmt_opt '}' { if ($3) PUSH($2, $3); $$ = ast_build_block(p, $2, @$); }
  | '{' stmts error '}'    { $$ = ast_build_block(p, $2, @$); }

stmts:
    %empty            { $$ = NEW(StmtVec); }
  | stmts stmt_opt NL { $$ = $1; if ($2) PUSH($$, $2); }
  | stmts error NL    { $$ = $1; yyerrok; }

stmt_opt:
    %empty { $$ = NULL; }
  | stmt

stmt:
    exprs                    { $$ = ast_build_value_stmt(p, AST_STMT_EXPR, ast_build_group(p, $1, @1), @$); }
  | exprs '=' exprs          { $$ = ast_build_assign(p, $1, NULL, AST_SET, ast_build_group(p, $3, @3), @$); }
  | exprs '=' expr AS STRING {
        $$ = ast_build_assign(p, $1, NULL, AST_SET, $3, @$);
        $$->as.assign.stored_as = $5;
        $$->as.assign.stored_as_span = @5;
    }
  | exprs ':' type '=' exprs { $$ = ast_build_assign(p, $1, $3, AST_SET, ast_build_group(p, $5, @5), @$); }
  | exprs SET_ADD expr       { $$ = ast_build_assign(p, $1, NULL, AST_SET_ADD, $3, @$); }
  | exprs SET_SUB expr       { $$ = ast_build_assign(p, $1, NULL, AST_SET_SUB, $3, @$); }
  | exprs SET_MUL expr       { $$ = ast_build_assign(p, $1, NULL, AST_SET_MUL, $3, @$); }
  | exprs SET_DIV expr       { $$ = ast_build_assign(p, $1, NULL, AST_SET_DIV, $3, @$); }
  | PARAM slot               { $$ = ast_build_slot_stmt(p, AST_STMT_PARAM, $2, @$); }
  | BUFFER slot              { $$ = ast_build_slot_stmt(p, AST_STMT_BUFFER, $2, @$); }
  | CONST slot               { $$ = ast_build_slot_stmt(p, AST_STMT_CONST, $2, @$); }
  | GRAPH name '=' expr      { $$ = ast_build_bind(p, AST_STMT_GRAPH, $2, $4, @$); }
  | PAIRS name '=' expr      { $$ = ast_build_bind(p, AST_STMT_PAIRS, $2, $4, @$); }
  | if_stmt
  | RETURN                   { $$ = ast_build_value_stmt(p, AST_STMT_RETURN, NULL, @$); }
  | RETURN exprs             { $$ = ast_build_value_stmt(p, AST_STMT_RETURN, ast_build_group(p, $2, @2), @$); }
  | ASSERT expr              { $$ = ast_build_assert(p, $2, NULL, @$); }
  | ASSERT expr WHERE expr   { $$ = ast_build_assert(p, $2, $4, @$); }
  | ADJOINT block            { $$ = ast_build_adjoint(p, $2, @$); }

if_stmt:
    IF expr block              { $$ = ast_build_if(p, $2, $3, NULL, @$); }
  | IF expr block ELSE block   { $$ = ast_build_if(p, $2, $3, $5, @$); }
  | IF expr block ELSE if_stmt {
        StmtVec rest = {0};
        PUSH(&rest, $5);
        $$ = ast_build_if(p, $2, $3, ast_build_block(p, &rest, @5), @$);
    }

slot: names typed_opt init_opt stored_opt { $$ = ast_build_slot(p, $1, $2, $3, $4); }

names:
    name           { $$ = NEW(NameVec); PUSH($$, $1); }
  | names ',' name { $$ = $1; PUSH($$, $3); }

stored_opt:
    %empty                 { $$ = NULL; }
  | AS STRING brackets_opt { $$ = ast_build_stored(p, $2, $3, @2); }

/* ---- expressions ---- */

exprs:
    expr           { $$ = NEW(ExprVec); PUSH($$, $1); }
  | exprs ',' expr { $$ = $1; PUSH($$, $3); }

expr:
    primary
  | IF expr THEN expr ELSE expr   { $$ = ast_build_select(p, $2, $4, $6, @$); }
  | '-' expr %prec NEGATE         { $$ = ast_build_unary(p, AST_NEG, $2, @$); }
  | NOT expr                      { $$ = ast_build_unary(p, AST_NOT, $2, @$); }
  | expr '+' expr                 { $$ = ast_build_binary(p, AST_ADD, @2, $1, $3); }
  | expr '-' expr                 { $$ = ast_build_binary(p, AST_SUB, @2, $1, $3); }
  | expr '*' expr                 { $$ = ast_build_binary(p, AST_MUL, @2, $1, $3); }
  | expr '/' expr                 { $$ = ast_build_binary(p, AST_DIV, @2, $1, $3); }
  | expr '@' expr                 { $$ = ast_build_binary(p, AST_MATMUL, @2, $1, $3); }
  | expr POW expr                 { $$ = ast_build_binary(p, AST_POW, @2, $1, $3); }
  | expr EQ expr                  { $$ = ast_build_binary(p, AST_EQ, @2, $1, $3); }
  | expr NE expr                  { $$ = ast_build_binary(p, AST_NE, @2, $1, $3); }
  | expr '<' expr                 { $$ = ast_build_binary(p, AST_LT, @2, $1, $3); }
  | expr LE expr                  { $$ = ast_build_binary(p, AST_LE, @2, $1, $3); }
  | expr '>' expr                 { $$ = ast_build_binary(p, AST_GT, @2, $1, $3); }
  | expr GE expr                  { $$ = ast_build_binary(p, AST_GE, @2, $1, $3); }
  | expr AND expr                 { $$ = ast_build_binary(p, AST_AND, @2, $1, $3); }
  | expr OR expr                  { $$ = ast_build_binary(p, AST_OR, @2, $1, $3); }

primary:
    name                          { $$ = ast_build_name_expr(p, $1); }
  | NUMBER                        { $$ = ast_build_number(p, $1, @1); }
  | STRING                        { $$ = ast_build_string(p, $1, @1); }
  | TRUE                          { $$ = ast_build_bool(p, true, @1); }
  | FALSE                         { $$ = ast_build_bool(p, false, @1); }
  | NONE                          { $$ = ast_build_plain(p, AST_EXPR_NONE, @1); }
  | BY                            { $$ = ast_build_name_expr(p, ast_build_name("by", @1)); }
  | '@' name                      { $$ = ast_build_domain(p, $2, @$); }
  | brackets                      { $$ = ast_build_list(p, AST_EXPR_LIST, &$1->items, @1); }
  | '(' ')'                       { $$ = ast_build_list(p, AST_EXPR_TUPLE, NEW(ExprVec), @$); }
  | '(' exprs ')'                 { $$ = ast_build_group(p, $2, @$); }
  | primary '(' args ')'          { $$ = ast_build_call(p, $1, $3, @$); }
  | WHERE '(' args ')'            { $$ = ast_build_call(p, ast_build_name_expr(p, ast_build_name("where", @1)), $3, @$); }
  | primary brackets              { $$ = ast_build_index(p, $1, $2, @$); }
  | primary '.' name              { $$ = ast_build_member(p, $1, $3, @$); }
  | primary ANY_MEMBER            { $$ = ast_build_member(p, $1, ast_build_name("*", @2), @$); }
  | OVER expr block               { $$ = ast_build_over(p, $2, $3, @$); }
  | FOR name IN range_or_expr block { $$ = ast_build_for(p, $2, $4, $5, @$); }
  | FORALL name block             { $$ = ast_build_forall(p, $2, (AstName){0}, NULL, $3, @$); }
  | FORALL name INTO expr block   { $$ = ast_build_forall(p, $2, ast_build_name("into", @3), $4, $5, @$); }
  | FORALL name name expr block   { $$ = ast_build_forall(p, $2, $3, $4, $5, @$); }

range_or_expr:
    expr
  | expr RANGE expr { $$ = ast_build_range(p, $1, @2, $3); }

brackets_opt:
    %empty { $$ = NULL; }
  | brackets

/* Lists, indices and dims: `[]`, `[4*F, ...]`, `[0..K]` */
brackets:
    '[' ']'           { $$ = NEW(Brackets); $$->span = @$; }
  | '[' items ']'     { $$ = NEW(Brackets); $$->span = @$; $$->items = *$2; }
  | '[' items ',' ']' { $$ = NEW(Brackets); $$->span = @$; $$->items = *$2; }

items:
    item           { $$ = NEW(ExprVec); PUSH($$, $1); }
  | items ',' item { $$ = $1; PUSH($$, $3); }

item:
    range_or_expr
  | REST { $$ = ast_build_plain(p, AST_EXPR_REST, @1); }

args:
    %empty       { $$ = NEW(ArgVec); }
  | arg_list
  | arg_list ','

arg_list:
    arg              { $$ = NEW(ArgVec); PUSH($$, $1); }
  | arg_list ',' arg { $$ = $1; PUSH($$, $3); }

arg:
    expr on_opt               { $$ = (AstArg){.span = @$, .value = $1, .on = $2}; }
  | expr BY expr on_opt       { $$ = (AstArg){.span = @$, .value = $1, .by = $3, .on = $4}; }
  | name '=' expr on_opt      { $$ = (AstArg){.span = @$, .name = $1, .value = $3, .on = $4}; }
  | name '=' expr BY expr on_opt { $$ = (AstArg){.span = @$, .name = $1, .value = $3, .by = $5, .on = $6}; }
  | FILL name '=' expr        { $$ = (AstArg){.span = @$, .word = ast_build_name("fill", @1), .name = $2, .value = $4}; }

name: IDENT { $$ = ast_build_name($1, @1); }

word:
    IDENT     { $$ = ast_build_name($1, @1); }
  | PARAM     { $$ = ast_build_name("param", @1); }
  | BUFFER    { $$ = ast_build_name("buffer", @1); }
  | CONST     { $$ = ast_build_name("const", @1); }
  | GRAPH     { $$ = ast_build_name("graph", @1); }
  | PAIRS     { $$ = ast_build_name("pairs", @1); }
  | ADJOINT   { $$ = ast_build_name("adjoint", @1); }

%%

static void gnn_error(const Span *span, Parser *p, const char *why)
{
    (void)why; /* only "memory exhausted" comes here: the stack is full */
    parse_error_depth(p, *span);
}

/* Collects what bison knows of the place; the words are parse_error.c's. */
static int yyreport_syntax_error(const yypcontext_t *ctx, Parser *p)
{
    enum { MAX = YYNTOKENS };
    yysymbol_kind_t kinds[MAX];
    ParseExpected want = {0};
    int n = yypcontext_expected_tokens(ctx, kinds, MAX);
    for (int i = 0; i < n; i++) {
        want.names[want.n++] = yysymbol_name(kinds[i]);
        want.expression |= kinds[i] == YYSYMBOL_NUMBER && i + 1 < n;
    }
    const yysymbol_kind_t got = yypcontext_token(ctx);
    parse_error_report(p, *yypcontext_location(ctx), got == YYSYMBOL_YYEOF, got == YYSYMBOL_JUNK, &want);
    return 0;
}
