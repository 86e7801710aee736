/* Random numbers at a point: Philox4x32-10 keyed as docs/design.md says. The counter's lanes are consecutive
   blocks, so four vectors of sixteen features share one evaluation where the index is aligned; elsewhere the
   word is selected lane by lane. Seed, step and the element's id are scalars; nothing is stored. */
#include "base/ice.h"
#include "passes/lower/kmath.h"
#include "passes/lower/lower_kernel.h"

typedef struct Words {
    KirId w[4];
} Words;

static const KirType I32 = {KIR_I32, 1}, I64 = {KIR_I64, 1};

static KirId low32(Emit *e, KirId x) { return emit_convert(e, KIR_I32, x); }

static KirId high32(Emit *e, KirId x) { return low32(e, emit_op2(e, KIR_lshr, x, emit_int(e, I64, 32))); }

static Words philox(Emit *e, Words c, KirId k0, KirId k1)
{
    KirId m0 = emit_int(e, I32, (int32_t)0xD2511F53u), m1 = emit_int(e, I32, (int32_t)0xCD9E8D57u);
    KirId b0 = emit_int(e, I32, (int32_t)0x9E3779B9u), b1 = emit_int(e, I32, (int32_t)0xBB67AE85u);
    for (int round = 0; round < 10; round++) {
        KirId h0 = emit_op2(e, KIR_mulhu, m0, c.w[0]), l0 = emit_op2(e, KIR_mul, m0, c.w[0]);
        KirId h1 = emit_op2(e, KIR_mulhu, m1, c.w[2]), l1 = emit_op2(e, KIR_mul, m1, c.w[2]);
        c = (Words){{emit_op2(e, KIR_xor, emit_op2(e, KIR_xor, h1, c.w[1]), k0), l1,
                     emit_op2(e, KIR_xor, emit_op2(e, KIR_xor, h0, c.w[3]), k1), l0}};
        k0 = emit_op2(e, KIR_add, k0, b0);
        k1 = emit_op2(e, KIR_add, k1, b1);
    }
    return c;
}

/* What is known of a feature index before the graph is: its value modulo 64 where `modulus` allows. */
typedef struct Feature {
    Lin lin;
    int64_t modulus; /* the variable part is a multiple of this, at most 64 */
    unsigned lanes;
    int64_t stride; /* of vector lanes, if it is one number; else 0, and */
    KirId offsets;  /* where each lane is from the first */
} Feature;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static Feature feature_of(Lower *l, const IrType *t, const Env *env)
{
    Feature f = {.modulus = 64, .lanes = env_lanes(env, t)};
    int64_t stride = 1;
    for (uint32_t k = t->n_dims; k-- > 0;) {
        const Ix *ix = env_get(env, t->dims[k]);
        if (ix->var != KIR_NONE) {
            lin_add(&f.lin, ix->var, stride);
            f.modulus = gcd(f.modulus, (ix->align ? ix->align : 1) * stride);
        }
        f.lin.konst += ix->off * stride;
        stride *= l->f->m->dims.data[t->dims[k]].size;
    }
    ICE_UNLESS(f.modulus >= 1 && f.modulus <= 64);
    if (f.lanes > 1 && !lanes_stride(l, t, env, &f.stride)) f.stride = 0;
    if (f.lanes > 1) f.offsets = lanes_offsets(l, t, env);
    return f;
}

/* Block and word of every lane. word_static: -1 where it is not known now. */
typedef struct Counter {
    KirId block, word;
    int word_static;
} Counter;

/* Of features that nothing is known of; one or a vector of them. */
static Counter counter_at(Emit *e, KirId feature)
{
    KirId chunk = emit_op2(e, KIR_lshr, feature, emit_index(e, 6));
    KirId inside = emit_op2(e, KIR_and, feature, emit_index(e, 15));
    KirId block = low32(e, emit_op2(e, KIR_add, emit_op2(e, KIR_shl, chunk, emit_index(e, 4)), inside));
    KirId word = low32(e, emit_op2(e, KIR_and, emit_op2(e, KIR_lshr, feature, emit_index(e, 4)), emit_index(e, 3)));
    return (Counter){block, word, -1};
}

static Counter counter_of(Emit *e, const Feature *f)
{
    KirId base = lin_emit(e, &f->lin);
    int64_t known = f->lin.konst % f->modulus, span = f->lanes > 1 ? (f->lanes - 1) * f->stride : 0;
    bool aligned = (f->lanes == 1 || f->stride) && f->modulus % 16 == 0 && known % 16 + span < 16;
    Counter c = {.word_static = -1};
    if (aligned) { /* no lane leaves the sixteen: one word for all */
        KirId sixty_four = emit_index(e, 64), sixteen = emit_index(e, 16);
        KirId block = emit_op2(e, KIR_mul, emit_op2(e, KIR_div, base, sixty_four), sixteen);
        block = low32(e, emit_op2(e, KIR_add, block, emit_index(e, known % 16)));
        if (f->lanes > 1) {
            KirId lanes = emit_lanes(e, KIR_I32, f->lanes);
            block = emit_op2(e, KIR_add, block, emit_op2(e, KIR_mul, lanes, emit_int(e, I32, f->stride)));
        }
        c.block = block;
        if (f->modulus == 64) c.word_static = (int)(known / 16 % 4);
        else c.word = low32(e, emit_op2(e, KIR_rem, emit_op2(e, KIR_div, base, sixteen), emit_index(e, 4)));
        return c;
    }
    KirId x = base;
    if (f->lanes > 1) x = emit_op2(e, KIR_add, base, f->offsets);
    return counter_at(e, x);
}

/* Word `word ^ flip`. */
static KirId pick(Emit *e, const Words *w, const Counter *c, int flip)
{
    if (c->word_static >= 0) return w->w[c->word_static ^ flip];
    KirId x = w->w[3 ^ flip];
    for (int k = 2; k >= 0; k--)
        x = emit_select(e, emit_op2(e, KIR_eq, c->word, emit_int(e, I32, k)), w->w[k ^ flip], x);
    return x;
}

/* ((word >> 8) + plus) * 2^-24 */
static KirId unit_float(Emit *e, KirBase base, KirId word, int plus)
{
    KirId x = emit_op2(e, KIR_lshr, word, emit_int(e, I32, 8));
    if (plus) x = emit_op2(e, KIR_add, x, emit_int(e, I32, plus));
    x = emit_convert(e, base, x);
    return emit_op2(e, KIR_mul, x, emit_float(e, kir_type(base, 1), 0x1p-24));
}

static KirId normal(Emit *e, KirBase base, const Words *w, const Counter *c)
{
    KirType t = kir_type(base, 1);
    KirId u1 = unit_float(e, base, pick(e, w, c, 0), 1), u2 = unit_float(e, base, pick(e, w, c, 1), 0);
    KirId radius = emit_op2(e, KIR_mul, emit_float(e, t, -2), emit_expand(e, kmath_log, u1));
    KirId angle = emit_op2(
        e, KIR_mul, emit_float(e, t, base == KIR_F32 ? (double)6.28318530717958647692f : 6.28318530717958647692), u2);
    return emit_op2(e, KIR_mul, emit_op1(e, KIR_sqrt, radius), emit_expand(e, kmath_cos, angle));
}

static KirId draw(Lower *l, const IrOp *op, KirId element, const Counter *c)
{
    Emit *e = &l->e;
    Env none = env_empty();
    KirId seed = point_eval(l, op->args[0], KIR_NONE, &none), step = point_eval(l, op->args[1], KIR_NONE, &none);
    KirId high = emit_op2(e, KIR_and, high32(e, element), emit_int(e, I32, 0xffff));
    KirId site = emit_int(e, I32, (int32_t)((uint32_t)op->attr.site << 16));
    Words counter = {{low32(e, element), emit_op2(e, KIR_or, high, site), c->block, low32(e, step)}};
    Words w = philox(e, counter, low32(e, seed), high32(e, seed));
    KirBase base = kir_base_of(op->type.dtype);
    bool is_normal = op->op == IR_OP_random_normal || op->op == IR_OP_random_normal_at;
    return is_normal ? normal(e, base, &w, c) : unit_float(e, base, pick(e, &w, c, 0), 0);
}

KirId point_random(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    Emit *e = &l->e;
    KirId element = emit_index(e, 0);
    if (op->type.space != IR_UNIT) {
        uint32_t ids = lower_in(l, lower_map_buffer(l, PLAN_IDS, op->type.space));
        element = emit_load(e, ids, I64, row, 1, 1);
    }
    Feature f = feature_of(l, &op->type, env);
    Counter c = counter_of(e, &f);
    return draw(l, op, element, &c);
}

KirId point_draw_at(Lower *l, const IrOp *op, KirId element, KirId feature)
{
    Counter c = counter_at(&l->e, feature);
    return draw(l, op, element, &c);
}

KirId point_random_at(Lower *l, const IrOp *op, KirId row, const Env *env)
{
    KirId element = point_full(l, op->args[2], row, env);
    return point_draw_at(l, op, element, point_full(l, op->args[3], row, env));
}
