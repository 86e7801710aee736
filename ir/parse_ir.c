/* Reader of graph IR text (.gir), the inverse of ir/print.c; the grammar is in docs/ir.md.
   Recursive descent without recursion: no nesting in the text, so none on the stack. The first
   mistake ends the reading: from then on every token is the end of the file, and the loops run dry.
   Never judges meaning: what is well spelt goes to ir/verify.c. */
#include "ir/text.h"
#include "base/ice.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef enum { T_END, T_NAME, T_STRING, T_NUMBER, T_PUNCT } TokenKind;
typedef struct Token {
    TokenKind kind;
    uint32_t begin, end;
    const char *text; /* name, string (unquoted) or number; punctuation as spelt */
} Token;

typedef struct Parser {
    Arena *arena;
    const Source *src;
    Diags *d;
    IrModule *m;
    StrMap dims, spaces, maps, graphs, tensors, funcs; /* name -> index + 1 */
    Token at;                                          /* the next token */
    uint32_t end;                                      /* of the last token taken */
    bool failed;
    VEC(Token)
    inverses; /* [n maps]: name of each map's inverse (kind T_END: none), resolved at the end */
} Parser;

static Span span_of(const Parser *p, Token t) { return span_at(p->src, t.begin, t.end); }

__attribute__((format(printf, 3, 4))) static void fail(Parser *p, Token at, const char *fmt, ...)
{
    if (p->failed) return;
    va_list ap;
    va_start(ap, fmt);
    diag_error(p->d, E0501, span_of(p, at), "%s", arena_vprintf(p->arena, fmt, ap));
    va_end(ap);
    p->failed = true;
    p->at = (Token){T_END, p->src->n, p->src->n, ""};
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static uint32_t skip_blanks(const Source *s, uint32_t i)
{
    for (; i < s->n; i++) {
        char c = s->text[i];
        if (c == '#')
            while (i < s->n && s->text[i] != '\n') i++;
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') break;
    }
    return i < s->n ? i : s->n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* Reads the string whose quote is at t.begin; sets its text and end. */
static void lex_string(Parser *p, Token *t)
{
    const Source *s = p->src;
    StrBuf b = {.arena = p->arena};
    uint32_t i = t->begin + 1;
    while (i < s->n && s->text[i] != '"' && s->text[i] != '\n' && s->text[i]) {
        char c = s->text[i++];
        if (c == '\\' && i < s->n && (s->text[i] == '"' || s->text[i] == '\\')) c = s->text[i++];
        else if (c == '\\') {
            bool hex = i + 2 < s->n && s->text[i] == 'x' && hex_digit(s->text[i + 1]) >= 0 &&
                       hex_digit(s->text[i + 2]) >= 0;
            int code = hex ? hex_digit(s->text[i + 1]) * 16 + hex_digit(s->text[i + 2]) : 0;
            t->end = i;
            if (!code) return fail(p, *t, "unknown escape; wanted \\\", \\\\ or \\xHH with HH not 00");
            c = (char)code;
            i += 3;
        }
        strbuf_add(&b, &c, 1);
    }
    ICE_UNLESS(i <= s->n);
    t->end = i < s->n && s->text[i] == '"' ? i + 1 : i;
    t->text = strbuf_cstr(&b);
    if (t->end == i) fail(p, *t, "string without a closing quote");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits, sign, point and exponent; inf and nan after a sign. What it means is judged where it is
 * used. */
static void lex_number(Parser *p, Token *t)
{
    const char *s = p->src->text;
    uint32_t i = t->begin + 1;
    while (is_digit(s[i]) || ir_text_starts_name(s[i]) || s[i] == '.' ||
           ((s[i] == '-' || s[i] == '+') && s[i - 1] == 'e'))
        i++;
    t->end = i;
    t->text = arena_strndup(p->arena, s + t->begin, i - t->begin);
}

static void next(Parser *p)
{
    if (p->failed) return;
    const char *s = p->src->text;
    p->end = p->at.end;
    uint32_t i = skip_blanks(p->src, p->at.end);
    Token t = {T_PUNCT, i, i + 1, ""};
    if (i >= p->src->n) t = (Token){T_END, p->src->n, p->src->n, ""};
    else if (ir_text_starts_name(s[i])) {
        t.kind = T_NAME;
        while (ir_text_in_name(s[t.end])) t.end++;
        t.text = arena_strndup(p->arena, s + i, t.end - i);
    } else if (s[i] == '"') {
        t.kind = T_STRING;
        lex_string(p, &t);
    } else if (is_digit(s[i]) || (s[i] == '-' && s[i + 1] != '>')) {
        t.kind = T_NUMBER;
        lex_number(p, &t);
    } else {
        if (s[i] == '-') t.end++;
        t.text = arena_strndup(p->arena, s + i, t.end - i);
    }
    if (!p->failed) p->at = t;
}

static const char *found(const Parser *p)
{
    if (p->at.kind == T_END) return "the end of the file";
    uint32_t n = p->at.end - p->at.begin;
    const char *text = arena_strndup(p->arena, p->src->text + p->at.begin, n < 40 ? n : 40);
    return arena_printf(p->arena, "`%s`", text);
}

static bool is(const Parser *p, const char *word)
{
    return (p->at.kind == T_NAME || p->at.kind == T_PUNCT) && !strcmp(p->at.text, word);
}

static bool accept(Parser *p, const char *word)
{
    if (!is(p, word)) return false;
    next(p);
    return true;
}

static void expect(Parser *p, const char *word)
{
    if (!accept(p, word)) fail(p, p->at, "found %s, wanted `%s`", found(p), word);
}

static const char *name(Parser *p, const char *what)
{
    if (p->at.kind != T_NAME && p->at.kind != T_STRING) {
        fail(p, p->at, "found %s, wanted %s", found(p), what);
        return "";
    }
    const char *text = p->at.text;
    next(p);
    return text;
}

static int64_t integer(Parser *p, int64_t least, int64_t most)
{
    char *end = NULL;
    errno = 0;
    int64_t v = p->at.kind == T_NUMBER ? strtoll(p->at.text, &end, 10) : 0;
    if (p->at.kind != T_NUMBER || *end || errno) {
        fail(p, p->at, "found %s, wanted an integer", found(p));
        return least;
    }
    if (v < least || v > most) {
        fail(p, p->at, "found %" PRId64 ", wanted an integer from %" PRId64 " to %" PRId64, v, least, most);
        return least;
    }
    next(p);
    return v;
}

static uint32_t small(Parser *p) { return (uint32_t)integer(p, 0, IR_NONE - 1); }

static double real(Parser *p)
{
    bool word = is(p, "inf") || is(p, "nan");
    char *end = NULL;
    double v = p->at.kind == T_NUMBER || word ? strtod(p->at.text, &end) : 0;
    if (!end || *end) {
        fail(p, p->at, "found %s, wanted a number", found(p));
        return 0;
    }
    next(p);
    return v;
}

/* ---- names of rows --------------------------------------------------------------------------- */

static void define(Parser *p, StrMap *table, Token at, const char *text, uint32_t index)
{
    if (p->failed) return;
    if (strmap_has(table, text)) fail(p, at, "`%s` is defined twice", text);
    strmap_put(table, text, (void *)(uintptr_t)(index + 1));
}

static IrId find(const StrMap *table, const char *text)
{
    return (IrId)(uintptr_t)strmap_get(table, text) - 1; /* absent: 0 - 1 is IR_NONE */
}

static IrId ref(Parser *p, const StrMap *table, const char *what)
{
    Token at = p->at;
    const char *text = name(p, what);
    if (p->failed) return IR_NONE;
    IrId id = find(table, text);
    if (id == IR_NONE) fail(p, at, "no %s named `%s` stands above", what, text);
    return id;
}

static uint32_t one_of(Parser *p, const char *const *names, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++)
        if (accept(p, names[i])) return i;
    fail(p, p->at, "found %s, wanted %s such as `%s`", found(p), what, names[0]);
    return 0;
}
#define ONE_OF(p, names, what) one_of((p), (names), sizeof(names) / sizeof *(names), (what))

/* ---- types ----------------------------------------------------------------------------------- */

static IrType type(Parser *p)
{
    IrType t = {.space = IR_UNIT};
    if (!is(p, "[")) t.space = ref(p, &p->spaces, "space");
    expect(p, "[");
    while (!p->failed && !is(p, "]")) {
        if (t.n_dims == IR_MAX_DIMS) fail(p, p->at, "more than %d dims", IR_MAX_DIMS);
        else t.dims[t.n_dims++] = ref(p, &p->dims, "dim");
        if (!accept(p, ",")) break;
    }
    expect(p, "]");
    t.dtype = (IrDtype)ONE_OF(p, ir_dtype_names, "a dtype");
    if (p->failed) t = (IrType){.space = IR_UNIT}; /* no half-read ids */
    return t;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void parse_dim(Parser *p)
{
    Token at = p->at;
    IrDim dim = {.name = name(p, "a dim's name"), .size = -1};
    define(p, &p->dims, at, dim.name, p->m->dims.n);
    expect(p, "=");
    if (!accept(p, "?")) dim.size = integer(p, 1, INT64_MAX);
    VEC_PUSH(p->arena, &p->m->dims, dim);
}

static void parse_space(Parser *p)
{
    Token at = p->at;
    IrSpace space = {.name = name(p, "a space's name"), .span = span_of(p, at)};
    define(p, &p->spaces, at, space.name, p->m->spaces.n);
    if (accept(p, ":")) {
        space.has_dim = accept(p, "dim");
        if (space.has_dim) space.dim = ref(p, &p->dims, "dim");
        else expect(p, "edges"), space.is_edge = true;
    }
    VEC_PUSH(p->arena, &p->m->spaces, space);
}

static void parse_map(Parser *p)
{
    Token at = p->at, inverse = {T_END, 0, 0, ""};
    IrMap map = {.name = name(p, "a map's name"), .inverse = IR_NONE};
    define(p, &p->maps, at, map.name, p->m->maps.n);
    expect(p, ":");
    map.from = ref(p, &p->spaces, "space");
    expect(p, "->");
    map.to = ref(p, &p->spaces, "space");
    map.partial = accept(p, "partial");
    map.sorted = accept(p, "sorted");
    map.computed = accept(p, "computed");
    if (accept(p, "inverse")) {
        inverse = p->at;
        name(p, "a map's name");
    }
    VEC_PUSH(p->arena, &p->m->maps, map);
    VEC_PUSH(p->arena, &p->inverses, inverse);
}

/* A map may name an inverse that stands below it. */
static void resolve_inverses(Parser *p)
{
    for (uint32_t i = 0; i < p->inverses.n && !p->failed; i++) {
        Token t = p->inverses.data[i];
        if (t.kind == T_END) continue;
        IrId id = find(&p->maps, t.text);
        if (id == IR_NONE) fail(p, t, "no map named `%s`", t.text);
        p->m->maps.data[i].inverse = id;
    }
}

static void parse_graph_kind(Parser *p, IrGraph *g)
{
    static const char *const kinds[] = {"data",     "random",     "self_loops",  "reverse", "line",
                                        "siblings", "complete",   "negatives",   "nearest", "select",
                                        "file",     "routed",     "permutation", "column",  "compose",
                                        "keyed",    "candidates", "answers"};   /* of IrGraphKind */
    static const char *const policies[] = {"keep", "replace", "add", "remove"}; /* of IrLoopPolicy */
    g->kind = (IrGraphKind)ONE_OF(p, kinds, "a kind of graph");
    if (g->kind == IR_GRAPH_DATA || (ir_graph_is_read(g->kind) && !is(p, "("))) return;
    expect(p, "(");
    if (ir_graph_is_read(g->kind)) g->file = name(p, "a file's name");
    else if (g->kind == IR_GRAPH_RANDOM) {
        g->n_nodes = integer(p, 0, INT64_MAX);
        expect(p, ",");
        g->n_edges = integer(p, 0, INT64_MAX);
        expect(p, ",");
        g->seed = integer(p, INT64_MIN, INT64_MAX);
        if (accept(p, ",")) g->n_targets = integer(p, 1, INT32_MAX);
    } else if (g->kind == IR_GRAPH_NEAREST) {
        g->n_edges = integer(p, 1, INT32_MAX);
        expect(p, ",");
        g->step = integer(p, 1, INT32_MAX);
    } else if (g->kind == IR_GRAPH_COMPOSE) {
        do {
            if (g->n_path == IR_MAX_PATH) fail(p, p->at, "a path of more than %d edges", IR_MAX_PATH);
            else g->path[g->n_path++] = ref(p, &p->graphs, "graph");
        } while (accept(p, ",") && !p->failed);
    } else {
        g->base = ref(p, &p->graphs, "graph");
    }
    while (g->kind == IR_GRAPH_ANSWERS && !p->failed && accept(p, ",")) {
        if (g->n_path == IR_MAX_PATH) fail(p, p->at, "more than %d graphs to look through", IR_MAX_PATH);
        else g->path[g->n_path++] = ref(p, &p->graphs, "graph");
    }
    if (g->kind == IR_GRAPH_SELF_LOOPS || g->kind == IR_GRAPH_NEAREST) {
        expect(p, ",");
        g->policy = (IrLoopPolicy)ONE_OF(p, policies, "a policy");
    }
    if (g->kind == IR_GRAPH_SELECT) {
        expect(p, ",");
        g->n_edges = integer(p, 0, INT32_MAX);
        expect(p, ",");
        g->ratio = real(p);
    }
    if (g->kind == IR_GRAPH_KEYED) {
        expect(p, ",");
        g->ratio = real(p);
    }
    if (g->kind == IR_GRAPH_NEGATIVES || g->kind == IR_GRAPH_ROUTED) {
        expect(p, ",");
        g->n_edges = integer(p, 0, INT64_MAX);
    }
    if (ir_graph_is_drawn(g->kind)) {
        expect(p, ",");
        g->redrawn = accept(p, "site");
        g->seed = integer(p, g->redrawn ? 0 : INT64_MIN, g->redrawn ? UINT16_MAX : INT64_MAX);
    }
    expect(p, ")");
}

static void parse_graph(Parser *p)
{
    Token at = p->at;
    IrGraph g = {.name = name(p, "a graph's name"),
                 .base = IR_NONE,
                 .orig = IR_NONE,
                 .image = IR_NONE,
                 .batch = IR_NONE,
                 .of = IR_NONE,
                 .span = span_of(p, at)};
    define(p, &p->graphs, at, g.name, p->m->graphs.n);
    expect(p, ":");
    parse_graph_kind(p, &g);
    g.edge = ref(p, &p->spaces, "space");
    expect(p, "(");
    g.src = ref(p, &p->maps, "map");
    expect(p, ",");
    g.dst = ref(p, &p->maps, "map");
    expect(p, ")");
    if (ir_graph_has_by(g.kind) && accept(p, "by")) g.batch = ref(p, &p->maps, "map");
    if (ir_graph_has_of(g.kind) && accept(p, "of")) g.of = ref(p, &p->maps, "map");
    if (g.kind == IR_GRAPH_FILE && accept(p, "where")) {
        g.where = name(p, "a file's name");
        expect(p, "=");
        g.equals = integer(p, INT64_MIN, INT64_MAX);
    }
    if (g.kind == IR_GRAPH_ANSWERS && accept(p, "keys")) do {
            if (g.n_keys > g.n_path) fail(p, p->at, "more arrays of keys than graphs");
            else g.keys[g.n_keys++] = name(p, "a file's name");
        } while (accept(p, ",") && !p->failed);
    if (accept(p, "orig")) g.orig = ref(p, &p->maps, "map");
    if (accept(p, "image")) g.image = ref(p, &p->maps, "map");
    if (p->failed) return;
    g.src_space = p->m->maps.data[g.src].to;
    g.dst_space = p->m->maps.data[g.dst].to;
    VEC_PUSH(p->arena, &p->m->graphs, g);
}

static void parse_stored(Parser *p, IrTensor *t)
{
    expect(p, "[");
    while (!p->failed && !is(p, "]")) {
        if (t->n_stored == IR_MAX_DIMS) fail(p, p->at, "more than %d stored dims", IR_MAX_DIMS);
        else t->stored_shape[t->n_stored++] = integer(p, -1, INT64_MAX);
        if (!accept(p, ",")) break;
    }
    expect(p, "]");
    expect(p, "perm");
    expect(p, "(");
    for (uint32_t i = 0; i < t->type.n_dims && !p->failed; i++) {
        if (i) expect(p, ",");
        t->stored_perm[i] = (uint8_t)integer(p, 0, IR_MAX_DIMS - 1);
    }
    expect(p, ")");
}

static void parse_init(Parser *p, IrTensor *t)
{
    static const char *const kinds[] = {"const", "uniform", "normal"}; /* of IrInitKind */
    t->init = (IrInitKind)ONE_OF(p, kinds, "an initialiser");
    expect(p, "(");
    t->init_a = real(p);
    if (t->init != IR_INIT_CONST) {
        expect(p, ",");
        t->init_b = real(p);
    }
    expect(p, ")");
}

static void parse_nonzeros(Parser *p, IrNonzeros *n)
{
    n->present = true;
    n->of = ref(p, &p->tensors, "tensor");
    expect(p, "(");
    n->row = ref(p, &p->maps, "map");
    expect(p, ",");
    n->col = ref(p, &p->maps, "map");
    expect(p, ")");
}

static void parse_tensor(Parser *p)
{
    static const char *const kinds[] = {"input", "param", "state", "hyper", "held"}; /* of IrTensorKind */
    Token at = p->at;
    IrTensor t = {.name = name(p, "a tensor's name"), .span = span_of(p, at)};
    define(p, &p->tensors, at, t.name, p->m->tensors.n);
    expect(p, ":");
    t.kind = (IrTensorKind)ONE_OF(p, kinds, "a kind of tensor");
    t.type = type(p);
    if (accept(p, "stored")) parse_stored(p, &t);
    if (accept(p, "init")) parse_init(p, &t);
    if (accept(p, "default")) t.hyper_default = real(p);
    if (accept(p, "bound")) t.bound = integer(p, 0, INT64_MAX);
    t.allow_missing = accept(p, "missing");
    t.sparse = accept(p, "sparse");
    if (accept(p, "nonzeros")) parse_nonzeros(p, &t.nonzeros);
    if (accept(p, "map")) t.is_map = true, t.map = ref(p, &p->maps, "map");
    VEC_PUSH(p->arena, &p->m->tensors, t);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void parse_arg(Parser *p, IrFunc *f)
{
    IrArg arg = {.name = name(p, "an argument's name"), .kind = IR_ARG_TENSOR};
    expect(p, "=");
    if (accept(p, "seed")) arg.kind = IR_ARG_SEED;
    else if (accept(p, "step")) arg.kind = IR_ARG_STEP;
    else if (accept(p, "cotangent")) arg.kind = IR_ARG_COTANGENT, arg.ref = small(p);
    else expect(p, "@"), arg.ref = ref(p, &p->tensors, "tensor");
    if (accept(p, ":")) arg.type = type(p);
    else if (!p->failed && !ir_arg_implied_type(p->m, &arg, &arg.type))
        fail(p, p->at, "found %s, wanted `:` and the type of a cotangent", found(p));
    VEC_PUSH(p->arena, &f->args, arg);
}

static IrId value(Parser *p)
{
    expect(p, "%");
    return small(p);
}

static void parse_attrs(Parser *p, IrOpcode op, IrAttr *attr)
{
    uint8_t attrs = ir_ops[op].attrs;
    bool bare = ir_ops[op].n_args == 0;
    if (attrs & A_MAP) expect(p, "via"), attr->map = ref(p, &p->maps, "map");
    if (attrs & A_DIM) expect(p, "dim"), attr->dim = ref(p, &p->dims, "dim");
    if (attrs & A_I) {
        if (!bare) expect(p, "at");
        attr->i = integer(p, INT64_MIN, INT64_MAX);
    }
    if (attrs & A_F) {
        if (!bare) expect(p, "empty");
        attr->f = real(p);
    }
    if (attrs & A_SITE) expect(p, "site"), attr->site = small(p);
}

static IrOpcode opcode(Parser *p)
{
    static const char *const names[] = {
#define OP(name, ...) #name,
#include "ir/ops.def"
#undef OP
    };
    if (p->at.kind == T_NAME)
        for (uint32_t i = 0; i < IR_N_OPS; i++)
            if (accept(p, names[i])) return (IrOpcode)i;
    fail(p, p->at, "found %s, wanted an op", found(p));
    return (IrOpcode)0;
}

static void parse_op(Parser *p, IrFunc *f)
{
    Token at = p->at;
    IrId id = value(p);
    if (id != f->ops.n) fail(p, at, "found %%%u, wanted %%%u: values are numbered from 0 in order", id, f->ops.n);
    expect(p, "=");
    IrOpcode op = opcode(p);
    VEC(IrId) args = {0};
    if (is(p, "%")) do
            VEC_PUSH(p->arena, &args, value(p));
        while (accept(p, ","));
    IrAttr attr = {0};
    parse_attrs(p, op, &attr);
    expect(p, ":");
    IrType t = type(p);
    if (p->failed) return;
    ir_add(p->m, f, op, t, args.data, args.n, attr, span_at(p->src, at.begin, p->end));
}

static void parse_result(Parser *p, IrFunc *f)
{
    IrResult r = {.name = name(p, "a result's name"), .tensor = IR_NONE};
    expect(p, "=");
    r.value = value(p);
    if (accept(p, "->")) expect(p, "@"), r.tensor = ref(p, &p->tensors, "tensor");
    VEC_PUSH(p->arena, &f->results, r);
}

static void parse_func(Parser *p)
{
    Token at = p->at;
    IrFunc *f = ir_func_new(p->m, name(p, "a function's name"));
    define(p, &p->funcs, at, f->name, p->m->funcs.n - 1);
    expect(p, "(");
    if (!is(p, ")")) do
            parse_arg(p, f);
        while (accept(p, ","));
    expect(p, ")");
    f->train_mode = accept(p, "train");
    expect(p, "{");
    while (is(p, "%")) parse_op(p, f);
    while (accept(p, "return")) parse_result(p, f);
    if (!is(p, "}")) fail(p, p->at, "found %s, wanted an op, `return` or `}`", found(p));
    next(p);
}

/* ---- training and tests ---------------------------------------------------------------------- */

static void parse_stop(Parser *p, IrTrain *t)
{
    static const char *const senses[] = {"maximise", "minimise"};
    Token at = p->at;
    const char *metric = name(p, "a metric's name");
    for (uint32_t i = 0; i < t->metrics.n; i++)
        if (!strcmp(t->metrics.data[i].name, metric)) t->stop_metric = i;
    if (t->stop_metric == IR_NONE) fail(p, at, "no metric named `%s` stands above", metric);
    t->stop_minimise = ONE_OF(p, senses, "a sense") == 1;
    expect(p, "patience");
    t->patience = integer(p, INT64_MIN, INT64_MAX);
}

static void parse_train(Parser *p, Token at)
{
    IrTrain *t = &p->m->train;
    if (t->present) fail(p, at, "a second `train`");
    t->present = true;
    expect(p, "epochs");
    t->epochs = integer(p, INT64_MIN, INT64_MAX);
    expect(p, "seed");
    t->seed = integer(p, INT64_MIN, INT64_MAX);
    if (accept(p, "batch")) t->batch = integer(p, 1, INT64_MAX);
    if (accept(p, "steps")) t->steps = integer(p, 1, INT64_MAX);
    expect(p, "{");
    while (accept(p, "metric")) {
        IrMetric metric = {.name = name(p, "a metric's name")};
        expect(p, "=");
        metric.result = small(p);
        VEC_PUSH(p->arena, &t->metrics, metric);
    }
    if (accept(p, "stop")) parse_stop(p, t);
    expect(p, "}");
}

static void parse_test(Parser *p)
{
    Token at = p->at;
    IrTest t = {.name = name(p, "a test's name"), .span = span_of(p, at)};
    expect(p, "=");
    t.func = ref(p, &p->funcs, "function");
    expect(p, "{");
    while (accept(p, "assert")) {
        IrAssert it = {.span = span_of(p, p->at), .text = p->at.text};
        if (p->at.kind != T_STRING) fail(p, p->at, "found %s, wanted a string", found(p));
        next(p);
        VEC_PUSH(p->arena, &t.asserts, it);
    }
    expect(p, "}");
    VEC_PUSH(p->arena, &p->m->tests, t);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void parse_row(Parser *p)
{
    Token at = p->at;
    if (accept(p, "dim")) parse_dim(p);
    else if (accept(p, "space")) parse_space(p);
    else if (accept(p, "map")) parse_map(p);
    else if (accept(p, "graph")) parse_graph(p);
    else if (accept(p, "tensor")) parse_tensor(p);
    else if (accept(p, "sites")) p->m->n_sites = small(p);
    else if (accept(p, "func")) parse_func(p);
    else if (accept(p, "train")) parse_train(p, at);
    else if (accept(p, "test")) parse_test(p);
    else fail(p, at, "found %s, wanted dim, space, map, graph, tensor, sites, func, train or test", found(p));
}

IrModule *ir_parse(Arena *a, const Source *src, Diags *d)
{
    Parser p = {.arena = a, .src = src, .d = d, .at = {T_PUNCT, 0, 0, ""}};
    StrMap *maps[] = {&p.dims, &p.spaces, &p.maps, &p.graphs, &p.tensors, &p.funcs};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) maps[i]->arena = a;
    next(&p);
    expect(&p, "module");
    p.m = ir_module_new(a, name(&p, "the module's name"));
    strmap_put(&p.spaces, "unit", (void *)(uintptr_t)(IR_UNIT + 1));
    while (p.at.kind != T_END) parse_row(&p);
    resolve_inverses(&p);
    if (p.failed || !ir_verify(p.m, d)) return NULL;
    return p.m;
}
