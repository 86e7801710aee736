/* Kernel IR (.kir): one kernel is a loop nest over memory, fully bound: every choice (vector width,
   tile, unrolling, mapping) was made by `schedule` and `lower`. Emitters spell it and never decide.
   Text form, every instruction and the verifier's rules: docs/ir-kernel.md. */
#pragma once
#include "base/arena.h"
#include "base/diag.h"
#include "base/vec.h"
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t KirId;
#define KIR_NONE UINT32_MAX
enum { KIR_MAX_ALLOC_BYTES = 64 << 10 /* of a private array */, KIR_MAX_FRAME_BYTES = 256 << 10 /* of all */ };
/* clang-format off */
enum { KIR_MAX_LANES = 16, KIR_MAX_DEPTH = 64 /* of blocks inside one another */, KIR_MAX_NAME = 64,
    KIR_MAX_WARPS = 64 /* that a loop bound to warp has */ };
/* clang-format on */

/* i8: bools in memory alone; f16, bf16: numbers in memory alone, f32 in registers */
typedef enum { KIR_I1, KIR_I8, KIR_I32, KIR_I64, KIR_F32, KIR_F64, KIR_F16, KIR_BF16, KIR_N_BASES } KirBase;
typedef struct KirType {
    KirBase base;
    uint8_t lanes; /* 1, 2, 4, 8 or 16 */
} KirType;

typedef enum {
#define KOP(name, ...) KIR_##name,
#include "ir/kernel_ops.def"
#undef KOP
    KIR_N_OPS
} KirOpcode;

/* How a loop runs. An iteration of a loop bound to block is a block of warps; one of a loop bound to warp is a warp: 16
   lanes that run together, half a warp of an NVIDIA GPU. A vector has one element in each lane, a scalar is the same in
   all. */
typedef enum { KIR_SEQ, KIR_UNROLL, KIR_THREADS, KIR_BLOCK, KIR_WARP } KirBinding;

typedef enum { K_NONE, K_INT, K_FLT, K_BUF, K_NAME } KirImm;
typedef enum { KIND_V, KIND_S, KIND_B, KIND_BB } KirKind;

typedef struct KirOpInfo {
    const char *name;
    uint8_t n_args;
    KirImm imm;
    KirKind kind;
} KirOpInfo;
extern const KirOpInfo kir_ops[KIR_N_OPS];

typedef struct KirBlock {
    VEC(KirId) ins; /* in order */
} KirBlock;

typedef struct KirIns {
    KirOpcode op;
    KirType type; /* of the value; statements: of what they handle (store: the value's) */
    KirId args[3];
    int64_t i;            /* K_INT; prefetch: 1 is far */
    double f;             /* K_FLT; load with pad */
    uint32_t buf;         /* K_BUF: index into params, or KIR_NONE when `alloc` says where */
    KirId alloc;          /* load/store/gather into a private array: the alloc's value */
    uint8_t active;       /* load/gather/store: lanes touched, 1..lanes */
    int64_t stride;       /* load/store of vectors: elements between lanes, 1 = consecutive, 0 = all the same */
    KirBinding bind;      /* for */
    bool shared;          /* alloc: one array for all warps of a block */
    const char *name;     /* hint for the value's name in text and in C; or NULL */
    const char *comment;  /* on a for; or NULL */
    KirBlock body, other; /* B, BB */
} KirIns;

typedef enum { KIR_IN, KIR_OUT, KIR_INOUT, KIR_SCALAR } KirParamKind;
typedef struct KirParam {
    const char *name;
    KirParamKind kind;
    KirBase elem;   /* of the buffer, or the scalar's type (i64, f32, f64) */
    bool restrict_; /* no other parameter overlaps it where either is written */
} KirParam;

/* A kernel. The body is a block whose last instruction may be one `for` bound to threads or block: the
   parallel loop, over [0, extent); what stands before it is repeated by every chunk and must be pure. The
   emitted function runs [lo, hi) of it. Without such a loop the kernel is one piece of work. */
typedef struct KirKernel {
    const char *name;    /* a C identifier */
    const char *comment; /* what it computes, with the source line; or NULL */
    VEC(KirParam) params;
    VEC(KirIns) ins; /* all instructions; index = value id. Blocks list them */
    KirBlock body;
} KirKernel;

/* ---- building --------------------------------------------------------------------------------- */
typedef struct KirBuilder { /* appends to the innermost open block */
    Arena *arena;
    KirKernel *k;
    VEC(KirId) owners;  /* open instructions with blocks, outermost first */
    VEC(bool) in_other; /* whether their second block is the open one */
} KirBuilder;

KirKernel *kir_kernel_new(Arena *a, const char *name);
uint32_t kir_param(Arena *a, KirKernel *k, KirParam p);
KirBuilder kir_builder(Arena *a, KirKernel *k);
/* Appends any instruction without blocks and returns its id. active 0 means all lanes; stride is taken as
   given (the helpers below set 1). */
KirId kir_ins(KirBuilder *b, KirIns ins);
KirId kir_const(KirBuilder *b, KirType t, double v); /* rounded to f32 where t is */
KirId kir_int(KirBuilder *b, KirType t, int64_t v);
/* KIR_NONE where absent. t is the result's type; comparisons make it i1 and folds scalar by themselves. */
KirId kir_op(KirBuilder *b, KirOpcode op, KirType t, KirId x, KirId y, KirId z);
KirId kir_load(KirBuilder *b, uint32_t buf, KirType t, KirId index, unsigned active);
void kir_store(KirBuilder *b, uint32_t buf, KirType t, KirId index, KirId value, unsigned active);
KirId kir_var(KirBuilder *b, const char *name, KirType t, KirId init);
void kir_set(KirBuilder *b, KirId var, KirId value);
/* Opens a block; kir_else switches to the second block of an if; kir_end closes. */
KirId kir_for(KirBuilder *b, KirId from, KirId to, int64_t step, KirBinding bind, const char *comment);
void kir_loop(KirBuilder *b);
void kir_if(KirBuilder *b, KirId cond);
void kir_else(KirBuilder *b);
void kir_end(KirBuilder *b);
KirType kir_type(KirBase base, unsigned lanes);
size_t kir_base_bytes(KirBase base);
KirBase kir_value_base(KirBase elem); /* of what is loaded from a buffer: i8 is read as i1, f16 and bf16 as f32 */
/* What memory instruction x meets: the elements of its buffer or array. */
KirBase kir_memory_base(const KirKernel *k, const KirIns *x);
static inline bool kir_is_16_bits(KirBase elem) { return elem == KIR_F16 || elem == KIR_BF16; }
/* The value of a store to 16 bits is a number of that type already. */
bool kir_stores_rounded(const KirKernel *k, const KirIns *store);
KirType kir_result_type(const KirKernel *k, KirId id); /* of the value an id stands for: a var's, i64 of a for */

/* ---- text and checks ---------------------------------------------------------------------------- */
void kir_print(const KirKernel *k, StrBuf *out);
/* without what it is called and comments: equal texts compute the same */
void kir_print_code(const KirKernel *k, StrBuf *out);
void kir_print_ins(const KirKernel *k, KirId id, StrBuf *out); /* one line without its blocks; any kernel */
const char *kir_base_name(KirBase base);                       /* "i1" .. "f64" */
const char *kir_binding_name(KirBinding bind);                 /* "seq" .. "warp" */
typedef struct KirModule {
    VEC(KirKernel *) kernels;
} KirModule;
void kir_print_module(const KirModule *m, StrBuf *out);
/* One or more kernels. NULL with E0503/E0504. print(parse(print(k))) == print(k). */
KirModule *kir_parse(Arena *a, const Source *src, Diags *d);
bool kir_verify(const KirKernel *k, Diags *d);
/* The same with the place of each instruction, [k->ins.n], and of the kernel's head. */
bool kir_verify_at(const KirKernel *k, const Span *places, Span head, Diags *d);
/* The first barrier that not all warps of a block reach together, or KIR_NONE: it stands in an `if`, `for` or `loop`
   that depends on which warp runs it. For a kernel that is well-formed otherwise. */
KirId kir_parted_barrier(Arena *a, const KirKernel *k);
/* Whether the kernel's last instruction is a loop bound to block. */
bool kir_has_block(const KirKernel *k);
/* [ins.n], from the arena: all warps of a block pass the instruction together. It is a barrier, a loop or branch with a
   barrier in it, or the `break_if` of such a loop. */
bool *kir_meetings(Arena *a, const KirKernel *k);
/* The loop bound to warp, cut at its meetings: what stands between two is a piece, which each warp runs without
   waiting. What a piece has from another, a warp keeps in between. */
enum { KIR_OUTSIDE /* of that loop */, KIR_AROUND /* pieces: a meeting */, KIR_FIRST_PIECE };
typedef struct KirPieces {
    bool *meets;     /* [ins.n] of kir_meetings */
    uint32_t *piece; /* [ins.n] the piece in which it stands, or KIR_OUTSIDE or KIR_AROUND */
    /* [ins.n] a register or private array that more than one piece touches, or a meeting reads; no constant or
       parameter */
    bool *kept;
} KirPieces;
/* Of a kernel with a loop bound to block; the arrays are from the arena. */
KirPieces kir_pieces(Arena *a, const KirKernel *k);
KirType kir_kept_type(KirType t); /* how a value lies in an array: i1 as i32 */
bool kir_is_leaf(KirOpcode op);   /* needs nothing but the kernel's parameters: it may be said again anywhere */

/* Runs a kernel slowly and exactly: the meaning of kernel IR, for tests of emitters.
   args[i] belongs to params[i]; n_elems[i] bounds buffers. NULL on success, else what went wrong
   (an index out of bounds names the instruction; so does an access that races with another warp of the block, or with
   another block). f32 arithmetic is done in f32. */
typedef union KirArg {
    void *p;
    int64_t i;
    double f;
} KirArg;
const char *kir_run(Arena *a, const KirKernel *k, const KirArg *args, const int64_t *n_elems, int64_t lo, int64_t hi);

/* Runs a kernel for where it reads and writes: tells of each access to a buffer before it happens, and leaves out what
   neither an index nor a condition nor a loop depends on. */
/* clang-format off */
enum { KIR_WATCH_SKIP, KIR_WATCH_RUN, KIR_WATCH_SOME /* of a long loop that writes nothing,
    the first and last turns */ };
/* clang-format on */
typedef struct KirWatch {
    /* n elements of parameter buf, `stride` apart. NULL, or what is wrong, which ends the run. */
    const char *(*touch)(void *user, uint32_t buf, int64_t first, int64_t stride, unsigned n, bool write);
    void *user;
    const uint8_t *how; /* [ins.n] of kir_watch_plan */
    /* [ins.n], all false at first: the run marks what is computed from a read for which touch set `vain`, and fails
       where a kernel writes such a value. NULL: reads in vain may go anywhere */
    bool *taint;
    bool vain;    /* touch sets it: what is read there is not wanted */
    int64_t at;   /* the iteration of the parallel loop that runs */
    int64_t fuel; /* instructions that may run; the run ends without a word where it is used up: below 0 */
} KirWatch;
/* Fills how, [ins.n]. wants, [params.n]: true for buffers whose numbers somebody wants behind the kernel, and set for
   those whose numbers the kernel's accesses depend on; the others may be NULL in a run. */
void kir_watch_plan(const KirKernel *k, bool *wants, uint8_t *how);
/* As kir_run. w NULL: as kir_run. */
const char *kir_watch(Arena *a, const KirKernel *k, const KirArg *args, const int64_t *n_elems, int64_t lo, int64_t hi,
                      KirWatch *w);
