/* Expressions of emitted C: a folded value is spelled inside its one use, with the parentheses a
   careful person would write; every other operand is a name. Nothing here has an effect or decides
   an order of evaluation. */
#include "base/ice.h"
#include "codegen/emit_c_parts.h"
#include <math.h>

static const KirIns *ins(const CKernel *c, KirId id) { return &c->w->k->ins.data[id]; }
static KirType type_of(const CKernel *c, KirId id) { return kir_result_type(c->w->k, id); }
static bool is_float(KirType t) { return t.base == KIR_F32 || t.base == KIR_F64; }

/* Vectors of i1 are vectors of i32 in C. */
static KirType c_shape(KirType t)
{
    if (t.base == KIR_I1 && t.lanes > 1) t.base = KIR_I32;
    return t;
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static CText float_text(CKernel *c, KirBase base, double f)
{
    const char *suffix = base == KIR_F32 ? "f" : "";
    if (isnan(f)) return c_printf(c, BIND_CALL, "__builtin_nan%s(\"\")", suffix);
    if (isinf(f)) return c_printf(c, f < 0 ? BIND_ADD : BIND_CALL, "%s__builtin_inf%s()", f < 0 ? "-" : "", suffix);
    return c_float(c, base, f);
}

static CText int_text(CKernel *c, KirBase base, int64_t v)
{
    if (base == KIR_I32 && v == INT32_MIN) return c_printf(c, BIND_CALL, "INT32_MIN");
    if (base != KIR_I1 && v == INT64_MIN) return c_printf(c, BIND_CALL, "INT64_MIN");
    return c_int(c, base, v);
}

static CText constant(CKernel *c, const KirIns *x)
{
    KirType t = x->type;
    if (t.lanes == 1) return is_float(t) ? float_text(c, t.base, x->f) : int_text(c, t.base, x->i);
    const char *lane = is_float(t)        ? float_text(c, t.base, x->f).text
                       : t.base == KIR_I1 ? (x->i ? "-1" : "0")
                                          : int_text(c, t.base, x->i).text;
    return c_printf(c, BIND_CALL, "%s(%s)", c_helper(c->file, "splat", c_shape(t), t), lane);
}

static CText lane_numbers(CKernel *c, const KirIns *x)
{
    if (x->type.lanes == 1) return c_printf(c, BIND_CALL, "0");
    StrBuf b = {.arena = c->arena};
    for (unsigned i = 0; i < x->type.lanes; i++) strbuf_printf(&b, "%s%u", i ? ", " : "", i);
    return c_printf(c, BIND_CALL, "((%s){%s})", c_type(c->file, x->type), strbuf_cstr(&b));
}

/* ---- operators ---------------------------------------------------------------------------------- */

static bool wraps_literals(const CKernel *c, const KirIns *x)
{
    bool wraps = x->op == KIR_add || x->op == KIR_sub || x->op == KIR_mul ||
                 x->op == KIR_xor; /* 2 ^ 2 looks like a power */
    bool scalar_int = x->type.lanes == 1 && (x->type.base == KIR_I32 || x->type.base == KIR_I64);
    return wraps && scalar_int && c_is_literal(c, x->args[0]) && c_is_literal(c, x->args[1]);
}

static CText wrapped(CKernel *c, const KirIns *x, const char *sign)
{
    const char *type = c_elem(x->type.base);
    const char *a = c_tight(c, c_operand(c, x->args[0]), BIND_CALL),
               *b = c_tight(c, c_operand(c, x->args[1]), BIND_CALL);
    return c_printf(c, BIND_UNARY, "(%s)((u%s)%s %s (u%s)%s)", type, type, a, sign, type, b);
}

static CText infix(CKernel *c, const KirIns *x, const char *sign, CBind bind)
{
    return wraps_literals(c, x) ? wrapped(c, x, sign) : c_infix(c, x, sign, bind);
}

/* The helper of an instruction; vectors have one of their own where `vector` says so. */
static CText helper(CKernel *c, const KirIns *x, const char *scalar, const char *vector)
{
    return c_call(c, x, c_helper(c->file, x->type.lanes > 1 ? vector : scalar, x->type, x->type));
}

static CText math(CKernel *c, const KirIns *x, const char *scalar, const char *vector)
{
    if (x->type.lanes > 1) return c_call(c, x, c_helper(c->file, vector, x->type, x->type));
    return c_call(c, x, arena_printf(c->arena, "%s%s", scalar, x->type.base == KIR_F32 ? "f" : ""));
}

static CText min_or_max(CKernel *c, const KirIns *x)
{
    bool min = x->op == KIR_min;
    if (is_float(x->type)) return helper(c, x, min ? "min" : "max", min ? "vmin" : "vmax");
    return helper(c, x, min ? "imin" : "imax", min ? "vimin" : "vimax");
}

static CText negate(CKernel *c, const KirIns *x)
{
    const char *type = c_elem(x->type.base);
    if (!is_float(x->type) && c_is_literal(c, x->args[0])) /* the least integer has no negative */
        return c_printf(c, BIND_UNARY, "(%s)-(u%s)%s", type, type, c_tight(c, c_operand(c, x->args[0]), BIND_CALL));
    return c_printf(c, BIND_UNARY, "-%s", c_tight(c, c_operand(c, x->args[0]), BIND_CALL));
}

static CText compare(CKernel *c, const KirIns *x)
{
    KirType t = c_shape(type_of(c, x->args[0]));
    if (x->op == KIR_ult && t.lanes > 1) return c_call(c, x, c_helper(c->file, "vult", kir_type(KIR_I32, t.lanes), t));
    if (x->op == KIR_ult) {
        const char *a = c_tight(c, c_operand(c, x->args[0]), BIND_CALL),
                   *b = c_tight(c, c_operand(c, x->args[1]), BIND_CALL);
        return c_printf(c, BIND_COMPARE, "(u%s)%s < (u%s)%s", c_elem(t.base), a, c_elem(t.base), b);
    }
    CText result = infix(c, x, c_compare_sign(x->op), BIND_COMPARE);
    if (t.lanes == 1 || kir_base_bytes(t.base) == 4) return result;
    const char *mask = c_helper(c->file, "mask", kir_type(KIR_I32, t.lanes), kir_type(KIR_I64, t.lanes));
    return c_printf(c, BIND_CALL, "%s(%s)", mask, result.text);
}

static CText choose(CKernel *c, const KirIns *x)
{
    if (type_of(c, x->args[0]).lanes > 1) return c_call(c, x, c_helper(c->file, "select", c_shape(x->type), x->type));
    return c_select(c, x);
}

static CText convert(CKernel *c, const KirIns *x)
{
    KirType from = type_of(c, x->args[0]), to = x->type;
    if (is_float(from) && !is_float(to))
        return c_call(c, x, c_helper(c->file, to.lanes > 1 ? "vtrunc" : "trunc", to, from));
    if (to.lanes == 1) return c_cast(c, x, c_elem(to.base));
    const char *v = from.base == KIR_I1 ? arena_printf(c->arena, "-%s", c_tight(c, c_operand(c, x->args[0]), BIND_CALL))
                                        : c_arg(c, x, 0);
    return c_printf(c, BIND_CALL, "__builtin_convertvector(%s, %s)", v, c_type(c->file, to));
}

static CText widen(CKernel *c, const KirIns *x)
{
    if (x->type.lanes > 1) return c_call(c, x, c_helper(c->file, "zext", x->type, type_of(c, x->args[0])));
    return c_cast(c, x, "int64_t)(uint32_t");
}

static CText splat(CKernel *c, const KirIns *x)
{
    if (x->type.lanes == 1) return c_operand(c, x->args[0]);
    const char *name = c_helper(c->file, "splat", c_shape(x->type), x->type);
    if (x->type.base != KIR_I1) return c_call(c, x, name);
    return c_printf(c, BIND_CALL, "%s(-%s)", name, c_tight(c, c_operand(c, x->args[0]), BIND_CALL));
}

static CText extract(CKernel *c, const KirIns *x)
{
    if (type_of(c, x->args[0]).lanes == 1) return c_operand(c, x->args[0]);
    CText v = c_operand(c, x->args[0]);
    const char *lane = arena_printf(c->arena, "%s[%lld]", c_tight(c, v, BIND_CALL), (long long)x->i);
    if (x->type.base == KIR_I1) return c_printf(c, BIND_COMPARE, "%s != 0", lane);
    return (CText){lane, BIND_CALL};
}

static CText insert(CKernel *c, const KirIns *x)
{
    if (x->type.lanes == 1) return c_operand(c, x->args[1]);
    const char *name = c_helper(c->file, "insert", c_shape(x->type), x->type);
    const char *minus = x->type.base == KIR_I1 ? "-" : "", *v = c_arg(c, x, 0);
    const char *s = c_tight(c, c_operand(c, x->args[1]), minus[0] ? BIND_CALL : BIND_COND);
    return c_printf(c, BIND_CALL, "%s(%s, %s%s, %lld)", name, v, minus, s, (long long)x->i);
}

static CText pick_lanes(CKernel *c, const KirIns *x)
{
    KirType from = c_shape(type_of(c, x->args[0]));
    const char *name = c_helper(c->file, kir_ops[x->op].name, c_shape(x->type), from);
    return c_printf(c, BIND_CALL, "%s(%s, %lld)", name, c_arg(c, x, 0), (long long)x->i);
}

static CText halves(CKernel *c, const KirIns *x)
{
    const char *name = c_helper(c->file, kir_ops[x->op].name, c_shape(x->type), x->type);
    const char *a = c_arg(c, x, 0), *b = c_arg(c, x, 1);
    return c_printf(c, BIND_CALL, "%s(%s, %s, %lld)", name, a, b, (long long)x->i / 2);
}

static CText shuffle(CKernel *c, const KirIns *x)
{
    KirType from = c_shape(type_of(c, x->args[0]));
    const char *v = c_arg(c, x, 0), *lanes = c_arg(c, x, 1);
    const char *name = c_helper(c->file, x->type.lanes == 1 ? "pick" : "shuffle", c_shape(x->type), from);
    bool bit = x->type.base == KIR_I1 && x->type.lanes == 1;
    return c_printf(c, bit ? BIND_COMPARE : BIND_CALL, "%s(%s, %s)%s", name, v, lanes, bit ? " != 0" : "");
}

static CText fold(CKernel *c, const KirIns *x)
{
    KirType from = type_of(c, x->args[0]);
    if (from.lanes == 1) return c_operand(c, x->args[0]);
    bool ints = !is_float(from);
    const char *op = x->op == KIR_hadd   ? "hadd"
                     : x->op == KIR_hmul ? "hmul"
                     : x->op == KIR_hmax ? (ints ? "ihmax" : "hmax")
                                         : (ints ? "ihmin" : "hmin");
    return c_call(c, x, c_helper(c->file, op, x->type, from));
}

/* ---- memory ------------------------------------------------------------------------------------- */

const char *c_place(CKernel *c, const KirIns *x)
{
    return arena_printf(c->arena, "%s[%s]", c_buffer(c, x), c_index(c, x));
}

static const char *pad_text(CKernel *c, const KirIns *x)
{
    if (is_float(x->type)) return float_text(c, x->type.base, x->f).text;
    return int_text(c, x->type.base, (int64_t)x->f).text;
}

static CText load(CKernel *c, const KirIns *x)
{
    CFile *f = c->file;
    KirType t = x->type;
    const char *place = c_place(c, x), *pad = pad_text(c, x);
    KirBase elem = kir_memory_base(c->w->k, x);
    if (t.lanes == 1 && t.base == KIR_I1) return c_printf(c, BIND_COMPARE, "%s != 0", place);
    if (t.lanes == 1 && kir_is_16_bits(elem))
        return c_printf(c, BIND_CALL, "%s(%s)", c_helper_16(f, "value", elem, t, t), place);
    if (t.lanes == 1) return (CText){place, BIND_CALL};
    long long step = (long long)x->stride;
    if (t.base == KIR_I1 || kir_is_16_bits(elem))
        return c_printf(c, BIND_CALL, "%s(&%s, %lld, %u, %s)",
                        t.base == KIR_I1 ? c_helper(f, "load_b", t, t) : c_helper_16(f, "load", elem, t, t), place,
                        step, x->active, pad);
    if (step != 1)
        return c_printf(c, BIND_CALL, "%s(&%s, %lld, %u, %s)", c_helper(f, "load_s", t, t), place, step, x->active,
                        pad);
    if (x->active < t.lanes)
        return c_printf(c, BIND_CALL, "%s(&%s, %u, %s)", c_helper(f, "load_n", t, t), place, x->active, pad);
    return c_printf(c, BIND_CALL, "%s(&%s)", c_helper(f, "load", t, t), place);
}

static CText gather(CKernel *c, const KirIns *x)
{
    KirType t = x->type, index = type_of(c, x->args[0]);
    if (t.lanes == 1) return load(c, x);
    KirBase elem = kir_memory_base(c->w->k, x);
    const char *buffer = c_buffer(c, x),
               *name = kir_is_16_bits(elem) ? c_helper_16(c->file, "gather", elem, t, index)
                                            : c_helper(c->file, t.base == KIR_I1 ? "gather_b" : "gather", t, index);
    return c_printf(c, BIND_CALL, "%s(%s, %s, %u, %s)", name, buffer, c_arg(c, x, 0), x->active, pad_text(c, x));
}

const char *c_store(CKernel *c, const KirIns *x)
{
    CFile *f = c->file;
    KirType t = x->type;
    const char *place = c_place(c, x), *v = c_arg(c, x, 1);
    long long step = (long long)x->stride;
    KirBase elem = kir_memory_base(c->w->k, x);
    if (t.lanes == 1 && kir_is_16_bits(elem))
        return arena_printf(f->arena, "%s = %s(%s)", place, c_helper_16(f, "bits", elem, t, t), v);
    if (t.lanes == 1) return arena_printf(f->arena, "%s = %s", place, v);
    if (t.base == KIR_I1 || kir_is_16_bits(elem))
        return arena_printf(f->arena, "%s(&%s, %lld, %u, %s)",
                            t.base == KIR_I1 ? c_helper(f, "store_b", t, t) : c_helper_16(f, "store", elem, t, t),
                            place, step, x->active, v);
    if (step != 1)
        return arena_printf(f->arena, "%s(&%s, %lld, %u, %s)", c_helper(f, "store_s", t, t), place, step, x->active, v);
    if (x->active < t.lanes)
        return arena_printf(f->arena, "%s(&%s, %u, %s)", c_helper(f, "store_n", t, t), place, x->active, v);
    return arena_printf(f->arena, "%s(&%s, %s)", c_helper(f, "store", t, t), place, v);
}

static CText round_16(CKernel *c, const KirIns *x, KirBase elem)
{
    KirType t = x->type;
    const char *v = c_arg(c, x, 0);
    if (t.lanes > 1) return c_printf(c, BIND_CALL, "%s(%s)", c_helper_16(c->file, "round", elem, t, t), v);
    const char *bits = c_helper_16(c->file, "bits", elem, t, t);
    return c_printf(c, BIND_CALL, "%s(%s(%s))", c_helper_16(c->file, "value", elem, t, t), bits, v);
}

/* ---- dispatch ----------------------------------------------------------------------------------- */

CText c_expr(CKernel *c, KirId id)
{
    const KirIns *x = ins(c, id);
    switch (x->op) {
    case KIR_const:
    case KIR_iconst: return constant(c, x);
    case KIR_lanes: return lane_numbers(c, x);
    case KIR_param: return (CText){c->params[x->i], BIND_CALL};
    case KIR_add: return infix(c, x, "+", BIND_ADD);
    case KIR_sub: return infix(c, x, "-", BIND_ADD);
    case KIR_mul: return infix(c, x, "*", BIND_MUL);
    case KIR_div: return infix(c, x, "/", BIND_MUL);
    case KIR_rem: return infix(c, x, "%", BIND_MUL);
    case KIR_and: return infix(c, x, "&", BIND_BITS);
    case KIR_or: return infix(c, x, "|", BIND_BITS);
    case KIR_xor: return infix(c, x, "^", BIND_BITS);
    case KIR_neg: return negate(c, x);
    case KIR_fma: return math(c, x, "fma", "fma");
    case KIR_abs: return math(c, x, "fabs", "abs");
    case KIR_sqrt: return math(c, x, "sqrt", "sqrt");
    case KIR_rint: return math(c, x, "rint", "rint");
    case KIR_floor: return math(c, x, "floor", "floor");
    case KIR_round_f16: return round_16(c, x, KIR_F16);
    case KIR_round_bf16: return round_16(c, x, KIR_BF16);
    case KIR_min:
    case KIR_max: return min_or_max(c, x);
    case KIR_shl: return helper(c, x, "shl", "vshl");
    case KIR_lshr: return helper(c, x, "lshr", "vlshr");
    case KIR_ashr: return helper(c, x, "ashr", "vashr");
    case KIR_mulhu: return helper(c, x, "mulhu", "vmulhu");
    case KIR_eq:
    case KIR_ne:
    case KIR_lt:
    case KIR_le:
    case KIR_ult: return compare(c, x);
    case KIR_select: return choose(c, x);
    case KIR_convert: return convert(c, x);
    case KIR_zext: return widen(c, x);
    case KIR_bitcast: return c_call(c, x, c_helper(c->file, "bits", x->type, type_of(c, x->args[0])));
    case KIR_splat: return splat(c, x);
    case KIR_extract: return extract(c, x);
    case KIR_insert: return insert(c, x);
    case KIR_repeat:
    case KIR_part: return pick_lanes(c, x);
    case KIR_lower:
    case KIR_upper: return halves(c, x);
    case KIR_shuffle: return shuffle(c, x);
    case KIR_hadd:
    case KIR_hmax:
    case KIR_hmin:
    case KIR_hmul: return fold(c, x);
    case KIR_load: return load(c, x);
    case KIR_gather: return gather(c, x);
    default: ICE("an instruction without an expression");
    }
}
