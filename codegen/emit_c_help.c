/* Vector types and helper functions of emitted C: each is a few lines of C with the types as
   parameters, written to the file when the first kernel asks for it. They say in C what one vector
   instruction of kernel IR means. */
#include "base/ice.h"
#include "codegen/emit_c_parts.h"

const char *c_elem(KirBase base)
{
    static const char *const names[] = {"bool",  "int8_t", "int32_t",  "int64_t",
                                        "float", "double", "uint16_t", "uint16_t"};
    ICE_UNLESS(base < KIR_N_BASES);
    return names[base];
}

const char *c_type_name(Arena *a, KirType t)
{
    const char *base = kir_base_name(t.base);
    return t.lanes == 1 ? base : arena_printf(a, "%sx%u", base, t.lanes);
}

const char *c_type(CFile *f, KirType t)
{
    if (t.lanes == 1) return c_elem(t.base);
    ICE_UNLESS(t.lanes <= KIR_MAX_LANES && !(t.lanes & (t.lanes - 1)));
    if (t.base == KIR_I1) t.base = KIR_I32;
    f->vectors[t.base][t.lanes] = true;
    return c_type_name(f->arena, t);
}

void c_print_typedefs(const CFile *f, StrBuf *out)
{
    for (KirBase base = KIR_I32; base <= KIR_F64; base++)
        for (unsigned lanes = 2; lanes <= KIR_MAX_LANES; lanes *= 2)
            if (f->vectors[base][lanes])
                strbuf_printf(out, "typedef %s %sx%u __attribute__((vector_size(%zu)));\n", c_elem(base),
                              kir_base_name(base), lanes, lanes * kir_base_bytes(base));
}

/* Templates. $t the type's name and $V its C type, $E its element's C type, $n its lanes, $s "f"
   for f32; $m the mask of as many lanes, $i the integers of the same shape, $f and $F name and C
   type of the second type, $x "x" once per lane. */
typedef struct Helper {
    const char *op, *text;
} Helper;

#define LANE_BY_LANE(op, args, expr)                                                                                   \
    "static inline $V " op "_$t(" args ")\n{\n    $V r = a;\n"                                                         \
    "    for (int l = 0; l < $n; l++) r[l] = " expr ";\n    return r;\n}\n"
#define FOLD(op, expr)                                                                                                 \
    "static inline $E " op "_$f($F v)\n{\n"                                                                            \
    "    for (int n = $k / 2; n; n /= 2)\n        for (int l = 0; l < n; l++) " expr ";\n    return v[0];\n}\n"
#define HALVES(op, which) /* of groups of 2 h lanes of a and then b */                                                 \
    "static inline $V " op "_$t($V a, $V b, int h)\n{\n    $V r = a;\n"                                                \
    "    for (int l = 0; l < $n; l++) {\n        int at = l / h * 2 * h + l % h" which ";\n"                           \
    "        r[l] = at < $n ? a[at] : b[at - $n];\n    }\n    return r;\n}\n"
#define BITS_CAST(op, expr) "static inline $V " op "_$t($V a, $V b)\n{\n    return " expr ";\n}\n"

static const Helper helpers[] = {
    {"splat", "static inline $V splat_$t($E x)\n{\n    return ($V){$x};\n}\n"},
    {"insert", "static inline $V insert_$t($V v, $E x, int lane)\n{\n    v[lane] = x;\n    return v;\n}\n"},
    {"select", "static inline $V select_$t($m m, $V a, $V b)\n{\n    $V r = b;\n"
               "    for (int l = 0; l < $n; l++) r[l] = m[l] ? a[l] : b[l];\n    return r;\n}\n"},
    {"fma", LANE_BY_LANE("fma", "$V a, $V b, $V c", "fma$s(a[l], b[l], c[l])")},
    {"abs", LANE_BY_LANE("abs", "$V a", "fabs$s(a[l])")},
    {"sqrt", LANE_BY_LANE("sqrt", "$V a", "sqrt$s(a[l])")},
    {"rint", LANE_BY_LANE("rint", "$V a", "rint$s(a[l])")},
    {"floor", LANE_BY_LANE("floor", "$V a", "floor$s(a[l])")},
    {"vmin", LANE_BY_LANE("min", "$V a, $V b", "a[l] < b[l] || a[l] != a[l] ? a[l] : b[l]")},
    {"vmax", LANE_BY_LANE("max", "$V a, $V b", "a[l] > b[l] || a[l] != a[l] ? a[l] : b[l]")},
    {"min", BITS_CAST("min", "a < b || a != a ? a : b")},
    {"max", BITS_CAST("max", "a > b || a != a ? a : b")},
    {"imin", BITS_CAST("min", "a < b ? a : b")},
    {"imax", BITS_CAST("max", "a > b ? a : b")},
    {"vimin", LANE_BY_LANE("min", "$V a, $V b", "a[l] < b[l] ? a[l] : b[l]")},
    {"vimax", LANE_BY_LANE("max", "$V a, $V b", "a[l] > b[l] ? a[l] : b[l]")},
    {"shl", BITS_CAST("shl", "($E)((u$E)a << (b & ($w - 1)))")},
    {"lshr", BITS_CAST("lshr", "($E)((u$E)a >> (b & ($w - 1)))")},
    {"ashr", BITS_CAST("ashr", "a >> (b & ($w - 1))")},
    {"vshl", LANE_BY_LANE("shl", "$V a, $V b", "($E)((u$E)a[l] << (b[l] & ($w - 1)))")},
    {"vlshr", LANE_BY_LANE("lshr", "$V a, $V b", "($E)((u$E)a[l] >> (b[l] & ($w - 1)))")},
    {"vashr", LANE_BY_LANE("ashr", "$V a, $V b", "a[l] >> (b[l] & ($w - 1))")},
    {"mulhu", BITS_CAST("mulhu", "(int32_t)((uint64_t)(uint32_t)a * (uint32_t)b >> 32)")},
    {"vmulhu", LANE_BY_LANE("mulhu", "$V a, $V b", "(int32_t)((uint64_t)(uint32_t)a[l] * (uint32_t)b[l] >> 32)")},
    {"vult", "static inline $V ult_$f($F a, $F b)\n{\n    $V r;\n"
             "    for (int l = 0; l < $n; l++) r[l] = -((u$G)a[l] < (u$G)b[l]);\n    return r;\n}\n"},
    {"mask", /* a comparison of 64-bit lanes as a mask */
     "static inline $V mask_$f($F a)\n{\n    return __builtin_convertvector(a, $V);\n}\n"},
    {"zext", "static inline $V zext_$t($F a)\n{\n    $V r;\n"
             "    for (int l = 0; l < $n; l++) r[l] = (uint32_t)a[l];\n    return r;\n}\n"},
    {"trunc", /* what does not fit gives the least integer, NaN too */
     "static inline $E $t_of_$f($F a)\n{\n    return a $o && a < $p$S ? ($E)a : $M;\n}\n"},
    {"vtrunc", "static inline $V $t_of_$f($F a)\n{\n    $V r;\n"
               "    for (int l = 0; l < $n; l++) r[l] = a[l] $o && a[l] < $p$S ? ($E)a[l] : $M;\n    return "
               "r;\n}\n"},
    {"bits", "static inline $V $t_bits_$f($F a)\n{\n    $V r;\n    memcpy(&r, &a, sizeof r);\n    return "
             "r;\n}\n"},
    {"repeat", "static inline $V repeat_$t_$f($F v, int times)\n{\n    $V r = {0};\n"
               "    for (int l = 0; l < $n; l++) r[l] = v[l / times % $k];\n    return r;\n}\n"},
    {"part", "static inline $V part_$t_$f($F v, int first)\n{\n    $V r = {0};\n"
             "    for (int l = 0; l < $n; l++) r[l] = v[first + l];\n    return r;\n}\n"},
    {"shuffle", "static inline $V shuffle_$t_$f($F v, $m lanes)\n{\n    $V r = {0};\n"
                "    for (int l = 0; l < $n; l++) r[l] = v[lanes[l] & ($k - 1)];\n    return r;\n}\n"},
    {"pick", "static inline $E pick_$f($F v, int32_t lane)\n{\n    return v[lane & ($k - 1)];\n}\n"},
    {"lower", HALVES("lower", "")},
    {"upper", HALVES("upper", " + h")},
    {"hadd", FOLD("hadd", "v[l] = v[l] + v[l + n]")},
    {"hmul", FOLD("hmul", "v[l] = v[l] * v[l + n]")},
    {"hmax", FOLD("hmax", "v[l] = v[l] > v[l + n] || v[l] != v[l] ? v[l] : v[l + n]")},
    {"hmin", FOLD("hmin", "v[l] = v[l] < v[l + n] || v[l] != v[l] ? v[l] : v[l + n]")},
    {"ihmax", FOLD("hmax", "v[l] = v[l] > v[l + n] ? v[l] : v[l + n]")},
    {"ihmin", FOLD("hmin", "v[l] = v[l] < v[l + n] ? v[l] : v[l + n]")},
    {"load", "static inline $V load_$t(const $E *p)\n{\n    $V r;\n    memcpy(&r, p, sizeof r);\n    "
             "return r;\n}\n"},
    {"load_n", /* the first n lanes, the rest is pad */
     "static inline $V load_n_$t(const $E *p, int n, $E pad)\n{\n    $V r = {0};\n"
     "    for (int l = 0; l < $n; l++) r[l] = l < n ? p[l] : pad;\n    return r;\n}\n"},
    {"load_s", /* n lanes, `step` elements apart */
     "static inline $V load_s_$t(const $E *p, int64_t step, int n, $E pad)\n{\n    $V r = {0};\n"
     "    for (int l = 0; l < $n; l++) r[l] = l < n ? p[l * step] : pad;\n    return r;\n}\n"},
    {"load_b", /* bytes to a mask */
     "static inline $V load_$t(const int8_t *p, int64_t step, int n, bool pad)\n{\n    $V r = "
     "{0};\n"
     "    for (int l = 0; l < $n; l++) r[l] = l < n ? -(p[l * step] != 0) : -pad;\n    return "
     "r;\n}\n"},
    {"gather", "static inline $V gather_$t_$f(const $E *p, $F at, int n, $E pad)\n{\n    $V r = {0};\n"
               "    for (int l = 0; l < $n; l++) r[l] = l < n ? p[at[l]] : pad;\n    return r;\n}\n"},
    {"gather_b", "static inline $V gather_$t_$f(const int8_t *p, $F at, int n, bool pad)\n{\n    $V r = {0};\n"
                 "    for (int l = 0; l < $n; l++) r[l] = l < n ? -(p[at[l]] != 0) : -pad;\n    return "
                 "r;\n}\n"},
    {"store", "static inline void store_$t($E *p, $V v)\n{\n    memcpy(p, &v, sizeof v);\n}\n"},
    {"store_n", "static inline void store_n_$t($E *p, int n, $V v)\n{\n    for (int l = 0; l < n; l++) p[l] = "
                "v[l];\n}\n"},
    {"store_s", "static inline void store_s_$t($E *p, int64_t step, int n, $V v)\n{\n"
                "    for (int l = 0; l < n; l++) p[l * step] = v[l];\n}\n"},
#define OF_16_BITS(name)                                                                                               \
    {"load_" name, "static inline $V load_" name "x$n(const uint16_t *p, int64_t step, int n, float pad)\n{\n"         \
                   "    $V r = {0};\n"                                                                                 \
                   "    for (int l = 0; l < $n; l++) r[l] = l < n ? " name "_value(p[l * step]) : pad;\n"              \
                   "    return r;\n}\n"},                                                                              \
        {"gather_" name, "static inline $V gather_" name "_$f(const uint16_t *p, $F at, int n, float pad)\n{\n"        \
                         "    $V r = {0};\n"                                                                           \
                         "    for (int l = 0; l < $n; l++) r[l] = l < n ? " name "_value(p[at[l]]) : pad;\n"           \
                         "    return r;\n}\n"},                                                                        \
        {"store_" name, "static inline void store_" name "x$n(uint16_t *p, int64_t step, int n, $V v)\n{\n"            \
                        "    for (int l = 0; l < n; l++) p[l * step] = " name "_bits(v[l]);\n}\n"},                    \
    {                                                                                                                  \
        "round_" name, "static inline $V round_" name "x$n($V v)\n{\n"                                                 \
                       "    for (int l = 0; l < $n; l++) v[l] = " name "_value(" name "_bits(v[l]));\n"                \
                       "    return v;\n}\n"                                                                            \
    }
    OF_16_BITS("f16"),
    OF_16_BITS("bf16"),
    /* runtime/half.h */
    {"half_parts",
     "static inline uint32_t half_parts(float x)\n{\n    uint32_t bits;\n    memcpy(&bits, &x, sizeof bits);\n"
     "    return bits;\n}\n\n"
     "static inline float half_whole(uint32_t bits)\n{\n    float x;\n    memcpy(&x, &bits, sizeof x);\n"
     "    return x;\n}\n"},
    {"f16_value", "static inline float f16_value(uint16_t x)\n{\n"
                  "    uint32_t sign = (uint32_t)(x & 0x8000) << 16, size = (uint32_t)(x & 0x7fff) << 13;\n"
                  "    float small = half_whole(size) * 0x1p112f;\n"
                  "    return half_whole(sign | (size < 0x0f800000 ? half_parts(small) : size | 0x7f800000));\n}\n"},
    {"f16_bits", "static inline uint16_t f16_bits(float x)\n{\n"
                 "    uint32_t bits = half_parts(x), size = bits & 0x7fffffff;\n"
                 "    uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;\n"
                 "    uint32_t tiny = half_parts(half_whole(size) + 0.5f) - 0x3f000000;\n"
                 "    uint32_t large = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x1ff) : 0x7c00;\n"
                 "    uint32_t r = size < 0x38800000 ? tiny : size < 0x477ff000 ? normal : large;\n"
                 "    return (uint16_t)((bits >> 16 & 0x8000) | r);\n}\n"},
    {"bf16_value", "static inline float bf16_value(uint16_t x)\n{\n    return half_whole((uint32_t)x << 16);\n}\n"},
    {"bf16_bits", "static inline uint16_t bf16_bits(float x)\n{\n"
                  "    uint32_t bits = half_parts(x), r = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"
                  "    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : r);\n}\n"},
    {"store_b", "static inline void store_$t(int8_t *p, int64_t step, int n, $V v)\n{\n"
                "    for (int l = 0; l < n; l++) p[l * step] = v[l] != 0;\n}\n"},
};

static const char *repeat_x(Arena *a, unsigned n)
{
    StrBuf b = {.arena = a};
    for (unsigned i = 0; i < n; i++) strbuf_puts(&b, i ? ", x" : "x");
    return strbuf_cstr(&b);
}

/* The least float that truncates into range: one more comparison for each pair of widths. */
static const char *fits_from_below(KirType to, KirType from)
{
    if (to.base == KIR_I64) return from.base == KIR_F32 ? ">= -0x1p63f" : ">= -0x1p63";
    return from.base == KIR_F32 ? ">= -0x1p31f" : "> -2147483649.0";
}

static const char *substitute(CFile *f, char key, KirType t, KirType from)
{
    bool wide = t.base == KIR_I64 || t.base == KIR_F64;
    switch (key) {
    case 't': return c_type_name(f->arena, t);
    case 'V': return c_type(f, t);
    case 'E': return c_elem(t.base == KIR_I1 ? KIR_I32 : t.base);
    case 'n': return arena_printf(f->arena, "%u", t.lanes);
    case 's': return t.base == KIR_F32 ? "f" : "";
    case 'S': return from.base == KIR_F32 ? "f" : "";
    case 'm': return c_type(f, kir_type(KIR_I1, t.lanes));
    case 'w': return wide ? "64" : "32";
    case 'f': return c_type_name(f->arena, from);
    case 'F': return c_type(f, from);
    case 'G': return c_elem(from.base);
    case 'k': return arena_printf(f->arena, "%u", from.lanes);
    case 'x': return repeat_x(f->arena, t.lanes);
    case 'o': return fits_from_below(t, from);
    case 'p': return wide ? "0x1p63" : "0x1p31";
    case 'M': return wide ? "INT64_MIN" : "INT32_MIN";
    default: ICE("no such placeholder in a helper");
    }
}

static void expand(CFile *f, const char *text, KirType t, KirType from, StrBuf *out)
{
    for (const char *p = text; *p; p++)
        if (*p == '$') strbuf_puts(out, substitute(f, *++p, t, from));
        else strbuf_add(out, p, 1);
}

const char *c_helper_16(CFile *f, const char *op, KirBase elem, KirType t, KirType from)
{
    const char *name = kir_base_name(elem);
    c_helper(f, "half_parts", t, from);
    const char *value = c_helper(f, arena_printf(f->arena, "%s_value", name), t, from);
    const char *bits = c_helper(f, arena_printf(f->arena, "%s_bits", name), t, from);
    if (!strcmp(op, "value")) return value;
    if (!strcmp(op, "bits")) return bits;
    return c_helper(f, arena_printf(f->arena, "%s_%s", op, name), t, from);
}

/* The name between "static inline TYPE " and "(". */
static const char *name_in(Arena *a, const char *text)
{
    const char *end = strchr(text, '('), *begin = end;
    while (begin[-1] != ' ' && begin[-1] != '*') begin--;
    return arena_strndup(a, begin, (size_t)(end - begin));
}

const char *c_helper(CFile *f, const char *op, KirType t, KirType from)
{
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
        if (strcmp(helpers[i].op, op)) continue;
        StrBuf text = {.arena = f->arena};
        expand(f, helpers[i].text, t, from, &text);
        const char *name = name_in(f->arena, text.data);
        if (!strmap_has(&f->helpers, name)) {
            strmap_put(&f->helpers, name, f);
            strbuf_printf(&f->helper_text, "%s\n", text.data);
        }
        return name;
    }
    ICE("no such helper in emitted C");
}
