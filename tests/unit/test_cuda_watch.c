/* Counts of what kernels do while the shim runs them, against numbers that were worked out by hand for the kernels of
   tests/kernel/accesses.kir; and accesses outside of their arrays, which are refused. */
#include "runtime/cuda_watch.h"
#include "tests/unit/check.h"
#include "tests/unit/cuda_module.h"
#include "tests/unit/kernel_cases.h"
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 8, ALL = 64 * ROWS };
static _Alignas(128) float x[2 * ALL], y[ALL];
static _Alignas(128) int32_t of[ALL];
static _Alignas(128) int64_t start[ROWS + 1];

typedef struct Watched {
    Arena *arena;
    const KirModule *module;
    CudaModule cuda;
    RtCudaWatch *watch;
} Watched;

/* Iterations [0, n) by blocks of two teams, which are in one warp. */
static RtCudaCounts run(Watched *w, const char *kernel, const RtArg *args, int64_t n, unsigned grid)
{
    RtCudaCounts c;
    rt_cuda_watch_count(w->watch, &c);
    const KirKernel *k = w->module->kernels.data[case_kernel(w->module, kernel)];
    rt_cuda_watch_lanes(w->watch, cuda_kernel(w->arena, k).lanes);
    const char *why = cuda_module_run(w->arena, &w->cuda, k, args, 0, n, grid, 2);
    check(!why, "%s: %s", kernel, why);
    rt_cuda_watch_count(w->watch, NULL);
    return c;
}

#define IS(field, wanted)                                                                                              \
    check(c.field == (wanted), "%s: %lld, wanted %lld", #field, (long long)c.field, (long long)(wanted))

/* A team of 16 lanes reads 64 bytes and writes 64: two sectors each, all of which it uses; the two teams of a warp lie
   side by side in a line of 128 bytes. */
static void test_one_by_one(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "one_by_one", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(requests, 2 * ROWS), IS(sectors, 4 * ROWS), IS(least_sectors, 4 * ROWS), IS(used_bytes, 128 * ROWS);
    IS(lines, ROWS), IS(distinct_sectors, 4 * ROWS), IS(block_sectors, 4 * ROWS);
    IS(lanes, 32 * ROWS), IS(idle, 0), IS(shared_requests, 0), IS(blocks, ROWS / 2), IS(barriers, 0);
    c = run(w, "one_by_one", (RtArg[]){{.p = x + 1}, {.p = y}, {.i = 1}}, 1,
            1); /* 64 bytes that begin 4 into a sector */
    IS(sectors, 3 + 2), IS(least_sectors, 4), IS(used_bytes, 128), IS(lines, 2);
    check_end("cuda_watch: lanes side by side");
}

/* Eight lanes read 32 bytes and write 32, and none is without work; two teams lie side by side in a line. */
static void test_narrow(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "by_eights", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(requests, 2 * ROWS), IS(sectors, 2 * ROWS), IS(least_sectors, 2 * ROWS), IS(used_bytes, 64 * ROWS);
    IS(lines, ROWS), IS(lanes, 16 * ROWS), IS(idle, 0), IS(issued, c.instructions / 2);
    check_end("cuda_watch: teams of eight lanes");
}

static void test_strided(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "every_other", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(sectors, (4 + 2) * ROWS), IS(least_sectors, 4 * ROWS), IS(used_bytes, 128 * ROWS), IS(lines, ROWS + ROWS / 2);
    check_end("cuda_watch: lanes two apart");
}

static void test_wide(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "four_to_a_lane", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(requests, 2 * ROWS), IS(sectors, 16 * ROWS), IS(least_sectors, 16 * ROWS), IS(lines, 4 * ROWS);
    check_end("cuda_watch: four numbers to a lane");
}

/* All 16 lanes ask for one number; eight of them lie in one sector, which each of four blocks reads. */
static void test_broadcast(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "one_for_all", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(requests, 2 * ROWS), IS(sectors, (1 + 2) * ROWS), IS(least_sectors, 3 * ROWS), IS(used_bytes, (4 + 64) * ROWS);
    IS(distinct_sectors, 1 + 2 * ROWS), IS(block_sectors, ROWS / 2 + 2 * ROWS), IS(idle, 0);
    check_end("cuda_watch: one number for all lanes");
}

/* Lane k reads a sector of its own, or all read two that are far apart. */
static void test_gathered(Watched *w)
{
    check_begin();
    RtArg args[] = {{.p = x}, {.p = of}, {.p = y}, {.i = ROWS}};
    for (int i = 0; i < 16 * ROWS; i++) of[i] = i % 16 * 8;
    RtCudaCounts c = run(w, "gathered", args, ROWS, ROWS / 2);
    IS(requests, 3 * ROWS), IS(sectors, (2 + 16 + 2) * ROWS), IS(least_sectors, (2 + 2 + 2) * ROWS);
    IS(distinct_sectors, 2 * ROWS + 16 + 2 * ROWS), IS(lines, (1 + 4 + 1) * ROWS / 2 + 0);
    for (int i = 0; i < 16 * ROWS; i++) of[i] = i % 2 * 500;
    c = run(w, "gathered", args, ROWS, ROWS / 2);
    IS(sectors, (2 + 2 + 2) * ROWS), IS(least_sectors, (2 + 1 + 2) * ROWS), IS(used_bytes, (64 + 8 + 64) * ROWS);
    check_end("cuda_watch: gathered");
}

static void test_masked(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "half_of_the_lanes", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(sectors, 2 * ROWS), IS(least_sectors, 2 * ROWS), IS(lanes, 2 * 16 * ROWS), IS(idle, 2 * 8 * ROWS);
    check_end("cuda_watch: half of the lanes");
}

/* Rows of 24 and 8 elements by two teams of a warp, 8 to a turn: of 4 turns of each of two inner loops they do one
   together. */
static void test_apart(Watched *w)
{
    check_begin();
    for (int v = 0; v <= ROWS; v++) start[v] = 16 * v + 8 * (v % 2);
    RtArg args[] = {{.p = x}, {.p = start}, {.p = y}, {.i = ROWS}};
    RtCudaCounts apart = run(w, "rows_of_other_lengths", args, ROWS, ROWS / 2), c;
    for (int v = 0; v <= ROWS; v++) start[v] = 16 * v;
    RtCudaCounts together = run(w, "rows_of_other_lengths", args, ROWS, ROWS / 2);
    c = apart;
    IS(instructions, together.instructions), IS(barriers, 0);
    c = together;
    IS(issued, together.instructions / 2), IS(longest, together.instructions / ROWS);
    int64_t turn = apart.issued - together.issued; /* one turn more of each loop in each warp */
    c = apart;
    check(turn > 0 && turn % (ROWS / 2) == 0, "apart they issue %lld more", (long long)turn);
    IS(longest, together.longest + turn / (ROWS / 2)), IS(longest_requests, 2 + 2 * 24 + 1);
    check(c.longest_misses >= 2 && c.longest_misses <= 5, "%lld misses", (long long)c.longest_misses);
    /* inner accesses: two loops of 128 single numbers, by the four lanes of a kernel without vectors alike */
    IS(lanes, 2 * 128 * 4), IS(idle, 0);
    check_end("cuda_watch: teams of a warp apart");
}

/* A store and a load each. 16 lanes that are 1 apart beside 16 others meet in no bank. Lanes 2, 4, 8, 32 apart: a
   half-warp alone has 1, 2, 4 and 16 to a bank; the other half's array begins a multiple of 32 words behind, so each
   bank has twice as many. One number for 16 lanes is one word. */
static void test_banks(Watched *w)
{
    check_begin();
    RtCudaCounts c = run(w, "banks", (RtArg[]){{.p = y}, {.i = 3}}, 3, 3);
    IS(shared_requests, 3 * 11), IS(wavefronts, 3 * (2 * (1 + 2 + 4 + 8 + 32) + 2)),
        IS(conflicts, 3 * (2 * (0 + 1 + 3 + 7 + 31) + 1));
    IS(barriers, 3 * 5) /* the last at the end of the block's turn */, IS(most_ways, 32);
    check_end("cuda_watch: banks");
}

/* In a process of its own, which the shim ends. */
static void test_outside(Watched *w, const char *what, const char *kernel, const RtArg *args, int64_t n)
{
    int ends[2], status = 0;
    char said[200] = "";
    check_begin();
    fflush(stdout);
    if (CHECK(!pipe(ends))) {
        pid_t child = fork();
        if (!child) {
            dup2(ends[1], 2);
            cuda_module_run(w->arena, &w->cuda, w->module->kernels.data[case_kernel(w->module, kernel)], args, 0, n, 1,
                            2);
            _exit(0);
        }
        close(ends[1]);
        for (size_t at = 0; at < sizeof said - 1;) {
            ssize_t more = read(ends[0], said + at, sizeof said - 1 - at);
            if (more <= 0) break;
            at += (size_t)more;
        }
        close(ends[0]);
        waitpid(child, &status, 0);
        check(WIFSIGNALED(status) && strstr(said, what), "wanted \"%s\", found %s", what, said);
    }
    check_end("cuda_watch: outside of an array");
}

/* Some of x lies on the host: what is read there crosses the bus, each sector once for a block and once for an
   access. */
static void test_host(Watched *w)
{
    enum { PAGES = (sizeof x + RT_CUDA_PAGE - 1) / RT_CUDA_PAGE };
    uint8_t places[PAGES] = {1};
    check_begin();
    rt_cuda_watch_host(w->watch, (uintptr_t)x, sizeof x, places);
    RtCudaCounts c = run(w, "one_by_one", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(bus_sectors, 2 * ROWS), IS(bus_asked, 2 * ROWS), IS(block_sectors, 4 * ROWS);
    c = run(w, "one_for_all", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(bus_sectors, ROWS / 2), IS(bus_asked, ROWS);
    places[0] = 0;
    c = run(w, "one_by_one", (RtArg[]){{.p = x}, {.p = y}, {.i = ROWS}}, ROWS, ROWS / 2);
    IS(bus_sectors, 0), IS(bus_asked, 0);
    rt_cuda_watch_host(w->watch, 0, 0, NULL);
    check_end("cuda_watch: memory of the host");
}

int main(void)
{
    const char *why = NULL;
    Watched w = {.arena = arena_new(), .watch = rt_cuda_watch_create()};
    w.module = case_module(w.arena, "tests/kernel/accesses.kir");
    if (!w.module || !w.watch ||
        !cuda_module_build(w.arena, &w.cuda, (const KirKernel *const *)w.module->kernels.data, w.module->kernels.n,
                           true, &why)) {
        printf("%s\n", why ? why : "no module");
        return 1;
    }
    w.cuda.watch = rt_cuda_watch_teller(w.watch);
    rt_cuda_watch_array(w.watch, (uintptr_t)x, sizeof x, NULL);
    rt_cuda_watch_array(w.watch, (uintptr_t)(x + 1), sizeof x - 4, NULL);
    rt_cuda_watch_array(w.watch, (uintptr_t)y, sizeof y, NULL);
    rt_cuda_watch_array(w.watch, (uintptr_t)of, sizeof of, NULL);
    rt_cuda_watch_array(w.watch, (uintptr_t)start, sizeof start, NULL);
    test_one_by_one(&w);
    test_narrow(&w);
    test_strided(&w);
    test_wide(&w);
    test_broadcast(&w);
    test_gathered(&w);
    test_masked(&w);
    test_apart(&w);
    test_banks(&w);
    test_host(&w);
    rt_cuda_watch_forget(w.watch);
    rt_cuda_watch_array(w.watch, (uintptr_t)x, 16 * sizeof *x, NULL);
    rt_cuda_watch_array(w.watch, (uintptr_t)y, sizeof y, NULL);
    test_outside(&w, "touches 4 bytes at byte 64 of an array of 64", "one_for_all",
                 (RtArg[]){{.p = x}, {.p = y}, {.i = 17}}, 17);
    rt_cuda_watch_forget(w.watch);
    rt_cuda_watch_rows(w.watch, (uintptr_t)x, (uintptr_t)(x + 16), 64, NULL); /* row 0 is not there, row 1 is */
    rt_cuda_watch_array(w.watch, (uintptr_t)y, sizeof y, NULL);
    test_outside(&w, "touches 4 bytes", "one_by_one", (RtArg[]){{.p = x}, {.p = y}, {.i = 2}}, 2);
    test_outside(&w, "touches 4 bytes before all arrays", "one_by_one", (RtArg[]){{.i = 64}, {.p = y}, {.i = 1}}, 1);
    cuda_module_free(&w.cuda);
    rt_cuda_watch_free(w.watch);
    arena_free(w.arena);
    return check_done();
}
