/* Runs emitted CUDA on a host without a GPU, for tests: this text, then the kernels, then a table of them are one file of
   C++17. Compile with -ffp-contract=off -fwrapv -Wno-unknown-pragmas.

   Each thread of a block is a fibre with a stack of its own, blocks run one after another, blocks and threads in an
   order that the seed draws. A fibre runs until it has to wait, so what a barrier should have ordered and does not is
   wrong soon. All lanes that a mask names have to come to the same shuffle or __syncwarp, and all threads of a block to the
   same __syncthreads: else a message and abort(). Shared memory is NaN when a block begins. One launch at a time.

   Compiled with -fsanitize=thread, each access to memory calls a function of this text, and no library is linked with. So
   whoever launches a kernel is told what its threads touch, in which turns of which loops (ShimTurn, which the emitter
   puts there), and may refuse it. At -O1 accesses are those of the text. */
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS /* those of C alone: libstdc++'s take longer than many a kernel */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__) || defined(SHIM_PORTABLE)
#define SHIM_UCONTEXT
#include <ucontext.h>
#endif

#define __global__ __attribute__((noinline)) /* into what is not looked at */
#define __device__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

struct ShimDim {
    unsigned x, y, z;
};
static ShimDim threadIdx, blockIdx, blockDim, gridDim;

enum { SHIM_SHARED = 256 << 10, SHIM_BEHIND = 4096, SHIM_MOST = 1024, SHIM_STACK = 64 << 10 };
alignas(128) static char memory[SHIM_SHARED + SHIM_BEHIND];

#define SHIM_UNSEEN __attribute__((noinline, no_sanitize("thread"))) /* what it touches is the shim's own */

/* ---- fibres ---- */

enum ShimMeeting { SHIM_RUNS, SHIM_SHUFFLE, SHIM_SYNCWARP, SHIM_SYNCTHREADS, SHIM_ENDED };
static const char *const shim_names[] = {"nothing", "a shuffle", "__syncwarp", "__syncthreads", "its end"};

struct ShimFibre {
    ShimMeeting at;
    int line;           /* of the call that it waits in */
    unsigned mask;      /* of lanes that it waits for */
    bool passed;        /* all came: it may go on */
    long turn;          /* meetings with lanes so far: which of the two mailboxes is open */
    long long box[2];   /* what it gave to a shuffle */
    struct ShimTurn *in; /* the innermost turn that it is in; NULL: outside the kernel */
    void *stack;
#if !defined(SHIM_UCONTEXT)
    void *sp;
#else
    ucontext_t context;
#endif
};

static ShimFibre shim_fibres[SHIM_MOST];
static unsigned shim_now; /* the thread that runs */
static unsigned long long shim_state = 1;
static const char *shim_kernel;
static void (*shim_body)();

/* What somebody who watches is told; as RtShimWatch (runtime/abi.h). */
enum ShimKind {
    SHIM_LAUNCH, SHIM_LOAD, SHIM_STORE, SHIM_LOAD_SHARED, SHIM_STORE_SHARED, SHIM_TURN, SHIM_BARRIER, SHIM_BLOCK
};
struct ShimEvent {
    ShimKind kind;
    unsigned thread, size, inner;
    unsigned long long at, place, turn;
};
struct ShimWatch {
    const char *(*tell)(ShimWatch *, const ShimEvent *); /* NULL, or why it may not be */
};
static ShimWatch *shim_watch;

[[noreturn]] static void shim_fail(const char *what)
{
    shim_watch = NULL;
    fprintf(stderr, "cuda shim: kernel %s, block %u: %s\n", shim_kernel, blockIdx.x, what);
    for (unsigned i = 0; i < blockDim.x && i < SHIM_MOST; i++) {
        const ShimFibre *f = &shim_fibres[i];
        fprintf(stderr, "  thread %u waits in %s, line %d, mask %08x\n", i, shim_names[f->at], f->line, f->mask);
    }
    abort();
}

#if !defined(SHIM_UCONTEXT)
/* Saves what a callee keeps, changes stacks, takes it back. */
extern "C" void shim_switch(void **from, void *to);
asm(".text\n.local shim_switch\n.type shim_switch, @function\nshim_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size shim_switch, . - shim_switch\n");
static void *shim_main;
static SHIM_UNSEEN void shim_leave() { shim_switch(&shim_fibres[shim_now].sp, shim_main); }
static SHIM_UNSEEN void shim_enter(unsigned i) { shim_switch(&shim_main, shim_fibres[i].sp); }
#else
static ucontext_t shim_main;
static SHIM_UNSEEN void shim_leave() { swapcontext(&shim_fibres[shim_now].context, &shim_main); }
static SHIM_UNSEEN void shim_enter(unsigned i) { swapcontext(&shim_main, &shim_fibres[i].context); }
#endif

static void shim_run()
{
    shim_body();
    shim_fibres[shim_now].at = SHIM_ENDED;
    shim_leave();
    abort();
}

static SHIM_UNSEEN void shim_begin(unsigned i)
{
    ShimFibre *f = &shim_fibres[i];
    if (!f->stack) {
        f->stack = mmap(NULL, SHIM_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f->stack == MAP_FAILED) shim_fail("no memory for a stack");
    }
    f->at = SHIM_RUNS, f->turn = 0, f->passed = false, f->in = NULL;
#if !defined(SHIM_UCONTEXT)
    void **sp = (void **)((char *)f->stack + SHIM_STACK);
    *--sp = NULL; /* a frame begins 8 bytes off a multiple of 16 */
    *--sp = (void *)shim_run;
    for (int r = 0; r < 6; r++) *--sp = NULL;
    f->sp = sp;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack, f->context.uc_stack.ss_size = SHIM_STACK, f->context.uc_link = NULL;
    makecontext(&f->context, shim_run, 0);
#endif
}

/* ---- what is told ---- */

extern "C" char __ehdr_start[] __attribute__((visibility("hidden"))), _end[] __attribute__((visibility("hidden")));

static SHIM_UNSEEN void shim_tell(ShimKind kind, unsigned size, unsigned inner, uint64_t at, uint64_t place,
                                  uint64_t turn)
{
    ShimEvent event = {kind, shim_now, size, inner, at, place, turn};
    const char *wrong = shim_watch ? shim_watch->tell(shim_watch, &event) : NULL;
    if (wrong) shim_fail(wrong);
}

/* A turn of a loop, one way of a branch, or a whole kernel; what begins in it is of this turn until it ends. Threads that
   do the same turns of the same loops have the same number for it. */
struct ShimTurn {
    ShimTurn *outer;
    uint64_t number;
    unsigned inner;             /* it is of a loop without a loop */
    bool again;                 /* it repeats the one before: what it touches was told */
    unsigned of = 0, turns = 0; /* the loop in it that ran last, and its turns */

    SHIM_UNSEEN ShimTurn(unsigned loop, unsigned instructions, int is_inner, bool repeats = false) : again(repeats)
    {
        ShimFibre *f = &shim_fibres[shim_now];
        outer = f->in, f->in = this;
        number = loop + 1, inner = (unsigned)is_inner | (outer && outer->inner);
        if (outer) {
            if (outer->of != loop) outer->of = loop, outer->turns = 0;
            number = ((outer->number ^ loop) * 0x9e3779b97f4a7c15 + ++outer->turns) * 0xbf58476d1ce4e5b9;
            number ^= number >> 31;
        }
        shim_tell(SHIM_TURN, instructions, inner, 0, loop, number);
    }
    SHIM_UNSEEN ~ShimTurn() { shim_fibres[shim_now].in = outer; }
};

/* Of what a kernel touches: not its stack, which is registers on a GPU, nor what is the shim's own. */
static SHIM_UNSEEN void shim_touch(const void *p, unsigned size, bool store, const void *place)
{
    const ShimFibre *f = &shim_fibres[shim_now];
    uintptr_t at = (uintptr_t)p, where = (uintptr_t)place;
    if (!shim_watch || !f->in || f->in->again || at - (uintptr_t)f->stack < SHIM_STACK) return;
    bool shared = at - (uintptr_t)memory < sizeof memory, own = at - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
    if (own && !shared) return;
    ShimKind kind = shared ? store ? SHIM_STORE_SHARED : SHIM_LOAD_SHARED : store ? SHIM_STORE : SHIM_LOAD;
    shim_tell(kind, size, f->in->inner, shared ? at - (uintptr_t)memory : at, where, f->in->number);
}

#define SHIM_HOOK(name, size, store)                                                                                   \
    extern "C" SHIM_UNSEEN void __tsan_##name(void *p);                                                                \
    void __tsan_##name(void *p) { shim_touch(p, size, store, __builtin_return_address(0)); }
#define SHIM_HOOKS(size)                                                                                               \
    SHIM_HOOK(read##size, size, false)                                                                                 \
    SHIM_HOOK(write##size, size, true)                                                                                 \
    SHIM_HOOK(unaligned_read##size, size, false)                                                                       \
    SHIM_HOOK(unaligned_write##size, size, true)
SHIM_HOOKS(1)
SHIM_HOOKS(2)
SHIM_HOOKS(4)
SHIM_HOOKS(8)
SHIM_HOOKS(16)
extern "C" SHIM_UNSEEN void __tsan_read_range(void *p, size_t n)
{
    shim_touch(p, (unsigned)n, false, __builtin_return_address(0));
}
extern "C" SHIM_UNSEEN void __tsan_write_range(void *p, size_t n)
{
    shim_touch(p, (unsigned)n, true, __builtin_return_address(0));
}
/* What clang calls in place of those of C. */
extern "C" SHIM_UNSEEN void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    shim_touch(from, (unsigned)n, false, __builtin_return_address(0));
    shim_touch(to, (unsigned)n, true, __builtin_return_address(0));
    return memcpy(to, from, n);
}
extern "C" SHIM_UNSEEN void *__tsan_memset(void *to, int byte, size_t n)
{
    shim_touch(to, (unsigned)n, true, __builtin_return_address(0));
    return memset(to, byte, n);
}
extern "C" SHIM_UNSEEN void __tsan_init() {}
extern "C" SHIM_UNSEEN void __tsan_func_entry(void *) {}
extern "C" SHIM_UNSEEN void __tsan_func_exit() {}

/* ---- meetings ---- */

/* Lets all go on if the last one came. Who waits for somebody who waits for him elsewhere would wait for ever. */
static SHIM_UNSEEN void shim_pass(unsigned first, unsigned n, unsigned mask)
{
    const ShimFibre *me = &shim_fibres[shim_now];
    for (unsigned i = 0; i < n; i++) {
        const ShimFibre *f = &shim_fibres[first + i];
        if (!(mask >> (i & 31) & 1)) continue;
        if (f->at == SHIM_RUNS || f->passed) return;
        if (f->at == me->at && f->line == me->line && f->mask == me->mask) continue;
        bool same_warp = (first + i) / 32 == shim_now / 32;
        if (f->at >= SHIM_SYNCTHREADS || (same_warp && f->mask >> (shim_now & 31) & 1))
            shim_fail("threads that should meet are at different places");
        return;
    }
    for (unsigned i = 0; i < n; i++)
        if (mask >> (i & 31) & 1) shim_fibres[first + i].passed = true;
}

static SHIM_UNSEEN void shim_wait(ShimMeeting at, int line, unsigned mask)
{
    ShimFibre *f = &shim_fibres[shim_now];
    unsigned first = at == SHIM_SYNCTHREADS ? 0 : shim_now & ~31u;
    f->at = at, f->line = line, f->mask = mask, f->passed = false;
    if (at != SHIM_SYNCTHREADS && !(mask >> (shim_now & 31) & 1)) shim_fail("a lane's mask leaves itself out");
    if (at != SHIM_SYNCTHREADS && first + 32 - (unsigned)__builtin_clz(mask) > blockDim.x) shim_fail("a mask names lanes that the block has not");
    shim_pass(first, at == SHIM_SYNCTHREADS ? blockDim.x : 32, mask);
    while (!f->passed) shim_leave();
    f->at = SHIM_RUNS, f->passed = false;
}

/* What lane `from` of the warp gave. Each may be one shuffle ahead, hence two boxes. */
template <class T> static SHIM_UNSEEN T shim_shuffle(unsigned mask, T x, unsigned from, int line)
{
    ShimFibre *f = &shim_fibres[shim_now];
    long turn = f->turn++;
    static_assert(sizeof(T) <= sizeof f->box[0], "a shuffle has 8 bytes at most");
    memcpy(&f->box[turn & 1], &x, sizeof x);
    shim_wait(SHIM_SHUFFLE, line, mask);
    if (!(mask >> from & 1)) shim_fail("a shuffle reads a lane that its mask leaves out");
    memcpy(&x, &shim_fibres[(shim_now & ~31u) + from].box[turn & 1], sizeof x);
    return x;
}

template <class T> static T __shfl_sync(unsigned mask, T x, int lane, int width = 32, int line = __builtin_LINE())
{
    unsigned me = shim_now & 31, group = me & ~(unsigned)(width - 1);
    return shim_shuffle(mask, x, group | ((unsigned)lane & (unsigned)(width - 1)), line);
}
template <class T> static T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32, int line = __builtin_LINE())
{
    unsigned me = shim_now & 31, from = me ^ (unsigned)lanes;
    return shim_shuffle(mask, x, (from ^ me) < (unsigned)width ? from : me, line);
}
template <class T> static T __shfl_down_sync(unsigned mask, T x, unsigned d, int width = 32, int line = __builtin_LINE())
{
    unsigned me = shim_now & 31, at = me & (unsigned)(width - 1);
    return shim_shuffle(mask, x, at + d < (unsigned)width ? me + d : me, line);
}
static inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE())
{
    shim_fibres[shim_now].turn++;
    shim_wait(SHIM_SYNCWARP, line, mask);
}
static inline void __syncthreads(int line = __builtin_LINE())
{
    shim_tell(SHIM_BARRIER, 0, 0, 0, (unsigned)line, 0);
    shim_wait(SHIM_SYNCTHREADS, line, ~0u);
}

/* ---- what CUDA has and C++ has not ---- */

template <class To, class From> static To shim_bits(From x)
{
    To y;
    static_assert(sizeof x == sizeof y, "");
    memcpy(&y, &x, sizeof y);
    return y;
}
/* All elements are loaded or stored at once: of a struct without more, a compiler may take each by itself. */
#define SHIM_WIDE(name, T, n, ...)                                                                                     \
    struct alignas(n * sizeof(T)) name {                                                                               \
        typedef T All __attribute__((vector_size(n * sizeof(T)), may_alias));                                          \
        T __VA_ARGS__;                                                                                                 \
        name() = default;                                                                                              \
        name(const name &v) { *(All *)this = *(const All *)&v; }                                                       \
        name &operator=(const name &v)                                                                                 \
        {                                                                                                              \
            *(All *)this = *(const All *)&v;                                                                           \
            return *this;                                                                                              \
        }                                                                                                              \
    };
SHIM_WIDE(float2, float, 2, x, y)
SHIM_WIDE(float4, float, 4, x, y, z, w)
SHIM_WIDE(double2, double, 2, x, y)
SHIM_WIDE(ushort2, unsigned short, 2, x, y)
SHIM_WIDE(ushort4, unsigned short, 4, x, y, z, w)
static inline ushort2 make_ushort2(unsigned short x, unsigned short y)
{
    ushort2 v;
    v.x = x, v.y = y;
    return v;
}
static inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w)
{
    ushort4 v;
    v.x = x, v.y = y, v.z = z, v.w = w;
    return v;
}
static inline float2 make_float2(float x, float y)
{
    float2 v;
    v.x = x, v.y = y;
    return v;
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    float4 v;
    v.x = x, v.y = y, v.z = z, v.w = w;
    return v;
}
static inline double2 make_double2(double x, double y)
{
    double2 v;
    v.x = x, v.y = y;
    return v;
}
static inline float __int_as_float(int x) { return shim_bits<float>(x); }
static inline int __float_as_int(float x) { return shim_bits<int>(x); }
static inline double __longlong_as_double(long long x) { return shim_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return shim_bits<long long>(x); }
static inline float shim_f16_value(unsigned short x)
{
    unsigned sign = (unsigned)(x & 0x8000) << 16, size = (unsigned)(x & 0x7fff) << 13;
    if (size >= 0x0f800000) return shim_bits<float>(sign | 0x7f800000 | size);
    return shim_bits<float>(sign | shim_bits<unsigned>(shim_bits<float>(size) * 0x1p112f));
}
static inline unsigned short shim_f16_bits(float x)
{
    unsigned bits = shim_bits<unsigned>(x), size = bits & 0x7fffffff, r;
    if (size > 0x7f800000) r = 0x7fff; /* as GPUs say NaN */
    else if (size >= 0x477ff000) r = 0x7c00;
    else if (size >= 0x38800000) r = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    else r = shim_bits<unsigned>(shim_bits<float>(size) + 0.5f) - 0x3f000000;
    return (unsigned short)((bits >> 16 & 0x8000) | r);
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }

/* ---- launching ---- */

static SHIM_UNSEEN unsigned shim_below(unsigned n)
{
    shim_state ^= shim_state << 13, shim_state ^= shim_state >> 7, shim_state ^= shim_state << 17;
    return (unsigned)((shim_state >> 20) % n);
}

static SHIM_UNSEEN void shim_shuffled(unsigned *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned j = shim_below(i + 1);
        order[i] = order[j], order[j] = i;
    }
}

/* Threads in another order each time around, until all have ended. */
static SHIM_UNSEEN void shim_block()
{
    static unsigned order[SHIM_MOST];
    for (unsigned left = blockDim.x, moved = 1; left; moved = 0) {
        shim_shuffled(order, blockDim.x);
        for (unsigned at = 0; at < blockDim.x; at++) {
            ShimFibre *f = &shim_fibres[shim_now = order[at]];
            if (f->at == SHIM_ENDED || (f->at != SHIM_RUNS && !f->passed)) continue;
            threadIdx.x = shim_now;
            moved = 1;
            shim_enter(shim_now);
            if (f->at == SHIM_ENDED) left--;
        }
        if (!moved) shim_fail("threads wait for others that never come");
    }
}

static void shim_grid(const char *kernel, void (*body)(), unsigned grid, unsigned block, size_t shared)
{
    unsigned *order = (unsigned *)malloc((grid + 1) * sizeof *order);
    shim_kernel = kernel, shim_body = body;
    gridDim = {grid, 1, 1}, blockDim = {block, 1, 1};
    if (block > SHIM_MOST || block == 0 || shared > SHIM_SHARED || !order) shim_fail("no such launch");
    shim_shuffled(order, grid);
    for (unsigned b = 0; b < grid; b++) {
        blockIdx = {order[b], 0, 0};
        memset(memory, 0xff, shared + SHIM_BEHIND);
        for (unsigned i = 0; i < block; i++) shim_begin(i);
        shim_block();
        shim_tell(SHIM_BLOCK, 0, 0, 0, 0, 0);
        for (size_t i = shared; i < shared + SHIM_BEHIND; i++)
            if (memory[i] != (char)0xff) shim_fail("writes behind its shared memory");
    }
    free(order);
}

/* A kernel with arguments that lie where params says, each as cuLaunchKernel takes it. */
static void **shim_params;
template <class F> struct ShimCall;
template <class... A> struct ShimCall<void (*)(A...)> {
    static const unsigned n_params = sizeof...(A);
    template <void (*f)(A...)> static void body()
    {
        run<f>(Places<>(), Count<sizeof...(A)>());
    }
    template <size_t... i> struct Places {};
    template <size_t n> struct Count {};
    template <void (*f)(A...), size_t... i> static void run(Places<i...>, Count<0>) { f(*(A *)shim_params[i]...); }
    template <void (*f)(A...), size_t n, size_t... i> static void run(Places<i...>, Count<n>)
    {
        run<f>(Places<n - 1, i...>(), Count<n - 1>());
    }
};

struct ShimKernel {
    const char *name;
    void (*body)();
    unsigned n_params;
};
#define SHIM_KERNEL(name) {#name, ShimCall<decltype(&name)>::body<name>, ShimCall<decltype(&name)>::n_params},
#define SHIM_KERNELS_BEGIN static const ShimKernel shim_kernels[] = {
#define SHIM_KERNELS_END {NULL, NULL, 0}};
static int shim_launch_of(const ShimKernel *kernels, const char *name, void **params, unsigned grid, unsigned block,
                          size_t shared, ShimWatch *watch)
{
    while (kernels->name && strcmp(kernels->name, name)) kernels++;
    if (!kernels->name) return 1;
    shim_params = params, shim_watch = watch;
    shim_tell(SHIM_LAUNCH, kernels->n_params, 0, (uintptr_t)params, 0, 0);
    shim_grid(name, kernels->body, grid, block, shared);
    shim_watch = NULL;
    return 0;
}

/* Blocks and threads of what is launched from here on run in the order of this seed, which is not 0. */
extern "C" void shim_seed(unsigned long long seed) { shim_state = seed; }
/* Runs a kernel to its end; params[i] points to argument i, lo and hi last. watch: NULL, or who is told of it. 0, or 1:
   there is no such kernel. */
extern "C" int shim_launch(const char *name, void **params, unsigned grid, unsigned block, size_t shared,
                           ShimWatch *watch);
