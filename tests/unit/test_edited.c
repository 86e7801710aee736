/* Schedules of random programs as text (passes/group/schedule_text.h), with gradients, in this process: kernels are run
   by the reference run of kernel IR, so that a program costs no compiler. What the compiler chose is within the
   interpreter's bound; its text, read back, gives the same text, plan and kernels; and a text that is edited at random
   (numbers of tiles, what is stored, which kernel computes what, in which order) gives the same bits or is refused
   with E0505 or E0506. Programs are for any machine of the table, from IR and from text. tests/test_schedule.py does
   the same with the command and the compiled kernels of layers.

   usage: test_edited [N [FIRST [EDITS]]]   N programs from FIRST, half of them from text, EDITS legal texts of each
          test_edited files SEEDS EDITS FILE...   of the programs in files, whose first line says sizes: `# F=3 G=2` */
#include "base/ice.h"
#include "passes/group/schedule_text.h"
#include "tests/unit/programs.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* programs: copies back into tensors run between groups that the text tells; rows of a dim are looked up at edges */
enum { COPIES_BACK = 50308, ROWS_OF_A_DIM = 51235 };
enum { MAX_LINES = 4000, MAX_EDITS = 3, MAX_CORRECTED = 4, TRIES = 12 /* for each legal text */, PER_CHILD = 20 };

typedef struct Count { /* shared with children */
    uint64_t seed;     /* at which a child is */
    int64_t programs, same, tried, legal, refused, failures;
    int64_t codes[3]; /* of refusals: E0505, E0506, others */
} Count;

static Count *count;
static char **files; /* of programs, each for n_seeds seeds; NULL: they are drawn */
static uint64_t n_seeds;

static void fail(uint64_t seed, const char *why, const char *text)
{
    if (count->failures++ < 5) printf("seed %llu: %s\n%s\n", (unsigned long long)seed, why, text ? text : "");
    fflush(stdout);
}

/* ---- edits ---- */

typedef struct Lines {
    Arena *arena;
    GirRng *rng;
    const char *line[MAX_LINES];
    uint32_t n;
} Lines;

static void lines_read(Lines *l, const char *text)
{
    for (l->n = 0; *text && l->n < MAX_LINES - 2;) {
        size_t length = strcspn(text, "\n");
        l->line[l->n++] = arena_printf(l->arena, "%.*s", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

static const char *lines_text(const Lines *l)
{
    StrBuf out = {.arena = l->arena};
    for (uint32_t i = 0; i < l->n; i++) strbuf_printf(&out, "%s\n", l->line[i]);
    return strbuf_cstr(&out);
}

static bool is_group(const Lines *l, uint32_t i) { return i < l->n && !strncmp(l->line[i], "  group", 7); }
static bool is_value(const Lines *l, uint32_t i) { return i < l->n && !strncmp(l->line[i], "    ", 4); }
/* A value that is not the first of its group. */
static bool is_further(const Lines *l, uint32_t i) { return is_value(l, i) && is_value(l, i - 1); }

static void insert(Lines *l, uint32_t at, const char *line)
{
    memmove(&l->line[at + 1], &l->line[at], (l->n++ - at) * sizeof *l->line);
    l->line[at] = line;
}

static void drop(Lines *l, uint32_t at) { memmove(&l->line[at], &l->line[at + 1], (--l->n - at) * sizeof *l->line); }

static uint32_t end_of_group(const Lines *l, uint32_t at)
{
    do at++;
    while (is_value(l, at));
    return at;
}

/* A number near the one that is there, or near an end of what the word may be. */
static int64_t another(GirRng *r, int64_t is, int64_t least, int64_t most)
{
    const int64_t some[] = {least,
                            most < 1 << 20 ? most : 1 << 20,
                            is + 1,
                            is - 1,
                            is * 2,
                            is / 2,
                            1 + gir_below(r, 40),
                            1 << gir_below(r, 7)};
    int64_t x = some[gir_below(r, sizeof some / sizeof *some)];
    return x < least ? least : x > most ? most : x;
}

/* Another number for one of the words of a line. */
static bool edit_number(Lines *l, uint32_t at)
{
    static const struct {
        const char *word;
        int64_t least, most;
    } words[] = {
#define TILE(word, least, most, says) {" " #word " ", least, most},
#include "passes/group/tile.def"
#undef TILE
    };
    enum { N_WORDS_OF_TILES = sizeof words / sizeof *words };
    uint32_t first = gir_below(l->rng, N_WORDS_OF_TILES);
    for (uint32_t k = 0; k < N_WORDS_OF_TILES; k++) {
        uint32_t w = (first + k) % N_WORDS_OF_TILES;
        const char *line = l->line[at], *found = strstr(line, words[w].word), *comment = strchr(line, '#');
        if (!found || (comment && found > comment)) continue;
        const char *number = found + strlen(words[w].word);
        char *rest;
        int64_t is = strtoll(number, &rest, 10);
        if (rest == number) continue;
        l->line[at] = arena_printf(l->arena, "%.*s%lld%s", (int)(number - line), line,
                                   (long long)another(l->rng, is, words[w].least, words[w].most), rest);
        return true;
    }
    return false;
}

/* A root or an inner value gets a kernel of its own, before its group or behind it. */
static bool edit_apart(Lines *l, uint32_t at)
{
    unsigned v;
    char op[64];
    if (!is_further(l, at) || sscanf(l->line[at], " %*s %%%u %63s", &v, op) != 2) return false;
    uint32_t head = at;
    while (!is_group(l, head)) head--;
    uint32_t to = gir_below(l->rng, 2) ? head : end_of_group(l, head);
    drop(l, at);
    to -= to > at;
    insert(l, to, arena_printf(l->arena, "    root %%%u %s", v, op));
    insert(l, to, arena_printf(l->arena, "  group %u map", 500 + gir_below(l->rng, 500)));
    return true;
}

/* What is computed where it is used gets memory. */
static bool edit_store(Lines *l, uint32_t at)
{
    const char *of = strstr(l->line[at], ", of %");
    if (!is_value(l, at) || !of) return false;
    unsigned v = (unsigned)strtoul(of + 6, NULL, 10);
    while (!is_group(l, at)) at--;
    insert(l, at, arena_printf(l->arena, "    root %%%u mul", v));
    insert(l, at, arena_printf(l->arena, "  group %u map", 500 + gir_below(l->rng, 500)));
    return true;
}

/* A group behind the next one, or both as one. */
static bool edit_groups(Lines *l, uint32_t at, bool join)
{
    uint32_t next = end_of_group(l, at);
    if (!is_group(l, next)) return false;
    if (join) {
        drop(l, next);
        unsigned label;
        char kind[32];
        if (sscanf(l->line[at], "  group %u %31s", &label, kind) == 2)
            l->line[at] = arena_printf(l->arena, "  group %u %s", label, kind);
        return true;
    }
    uint32_t end = end_of_group(l, next);
    const char **both = ARENA_ARRAY(l->arena, const char *, end - at);
    memcpy(both, &l->line[next], (end - next) * sizeof *both);
    memcpy(both + (end - next), &l->line[at], (next - at) * sizeof *both);
    memcpy(&l->line[at], both, (end - at) * sizeof *both);
    return true;
}

/* Changes one place. False: what was drawn is not possible there. */
static bool edit(Lines *l)
{
    uint32_t at = gir_below(l->rng, l->n), how = gir_below(l->rng, 10);
    if (how < 4) return (is_group(l, at) || is_value(l, at)) && edit_number(l, at);
    if (how < 6) return edit_apart(l, at);
    if (how == 6) return edit_store(l, at);
    if (how == 7) return is_further(l, at) ? (drop(l, at), true) : false;
    return is_group(l, at) && edit_groups(l, at, how == 8);
}

/* The text with the word that a message says is right, or NULL. */
static const char *corrected(Arena *a, const char *text, const Diag *said)
{
    static const char *const says[] = {" is made by `", " is of the kind `"};
    for (int k = 0; k < 2; k++) {
        const char *right = strstr(said->text, says[k]), *found = right ? strstr(right, ", found `") : NULL;
        if (!found) continue;
        right += strlen(says[k]), found += strlen(", found `");
        int n_right = (int)strcspn(right, "`"), n_found = (int)strcspn(found, "`");
        const char *word = strstr(text + said->span.begin, arena_printf(a, " %.*s", n_found, found));
        return word ? arena_printf(a, "%.*s%.*s%s", (int)(word + 1 - text), text, n_right, right, word + 1 + n_found)
                    : NULL;
    }
    return NULL;
}

/* ---- a text ---- */

/* The plan by a text, or NULL: refused, d says why. */
static HostPlan *plan_by(Arena *a, const Program *p, const char *text, Diags *d)
{
    Source *src = ARENA_NEW(a, Source);
    PassContext *ctx = ARENA_NEW(a, PassContext);
    *d = (Diags){.arena = a};
    *src = (Source){"p.schedule", text, (uint32_t)strlen(text)};
    *ctx = *p->context;
    ctx->diags = d;
    ctx->schedule = schedule_parse(a, src, d);
    HostPlan *plan = ctx->schedule ? lower_module(ctx, p->passed) : NULL;
    return d->n_errors ? NULL : plan;
}

static const char *all_of(Arena *a, const HostPlan *plan)
{
    StrBuf out = {.arena = a};
    strbuf_printf(&out, "%s", plan->schedule);
    plan_print(plan, &out);
    plan_print_kernels(plan, &out);
    return strbuf_cstr(&out);
}

/* What a plan's kernels, for many registers or for few, give other than these bits, or NULL. */
static const char *same_bits(Arena *a, const Program *p, const HostPlan *plan, const Oracle *o, bool narrow,
                             void **bits)
{
    const char *why;
    void **got = program_results(a, p, (PlanRun){.plan = plan, .narrow = narrow}, o, &why);
    return got ? program_same(a, p->plain->funcs.data[0], o->results, bits, got) : why;
}

/* ---- one program ---- */

static void count_refusal(uint64_t seed, const Diags *d, const char *text)
{
    const Diag *said = d->list.n ? d->list.data[0] : NULL;
    bool of_text = said && (said->code == E0505 || said->code == E0506);
    count->refused++;
    count->codes[!of_text ? 2 : said->code == E0506]++;
    if (!of_text) fail(seed, said ? said->text : "refused without a word", text);
}

static void edited(Arena *stage, const Program *p, const Oracle *o, void **bits, GirRng *rng, bool *legal)
{
    Lines *l = ARENA_NEW(stage, Lines);
    Diags d;
    *l = (Lines){.arena = stage, .rng = rng};
    lines_read(l, p->plan->schedule);
    for (uint32_t n = 1 + gir_below(rng, MAX_EDITS), k = 0; k < 40 && n; k++) n -= edit(l);
    const char *text = lines_text(l);
    HostPlan *plan = plan_by(stage, p, text, &d);
    for (int k = 0; k < MAX_CORRECTED && !plan && d.list.n; k++) {
        const char *better = corrected(stage, text, d.list.data[0]);
        if (!better) break;
        plan = plan_by(stage, p, text = better, &d);
    }
    count->tried++;
    *legal = plan != NULL;
    if (!plan) {
        count_refusal(p->seed, &d, text);
        return;
    }
    count->legal++;
    const char *why = same_bits(stage, p, plan, o, gir_below(rng, 2), bits);
    if (why) fail(p->seed, why, text);
}

static const char *check_program(Arena *a, Program *p, uint32_t n_edits)
{
    Oracle o;
    Diags d;
    const char *why = program_oracle(a, p, &p->graph, &o);
    if (why) return why;
    void **bits = program_results(a, p, (PlanRun){.plan = p->plan}, &o, &why);
    if (!why) why = program_compare(a, p, &p->graph, &o, bits, NULL);
    if (!why) why = same_bits(a, p, p->plan, &o, true, bits);
    if (why) return why;
    HostPlan *again = plan_by(a, p, p->plan->schedule, &d);
    if (!again) return program_diags(a, &d);
    const char *was = all_of(a, p->plan), *is = all_of(a, again), *line = is;
    for (; *is && *is == *was; is++, was++)
        if (*is == '\n') line = is + 1;
    if (*is || *was)
        return arena_printf(a, "a schedule that is read back gives another text, plan or kernel: %.*s",
                            (int)strcspn(line, "\n"), line);
    count->same++;
    GirRng rng = {p->seed * 77 + 5};
    for (uint32_t legal = 0, k = 0; legal < n_edits && k < n_edits * TRIES; k++) {
        Arena *stage = arena_new();
        PassContext here = *p->context;
        Program q = *p;
        here.stage = stage, q.context = &here;
        bool taken;
        edited(stage, &q, &o, bits, &rng, &taken);
        legal += taken;
        arena_free(stage);
    }
    return NULL;
}

static void check_one(uint64_t seed, uint32_t n_edits)
{
    static const char *const machines[] = {"avx512-2", "avx512-2", "avx2-2", "server-64", "h200"};
    Arena *a = arena_new();
    Machine machine;
    Program p = {.machine = &machine};
    ICE_UNLESS(machine_named(machines[program_hash(seed ^ 0x3a) % 5], &machine));
    const char *why = program_make(a, seed, files || seed % 2, files ? files[seed / n_seeds] : NULL, false, &p);
    if (!why) why = check_program(a, &p, n_edits);
    if (why) fail(seed, why, p.plan ? p.plan->schedule : NULL);
    count->programs++;
    arena_free(a);
}

/* A child that ends badly is one failure; the next child goes on behind its program. */
static void campaign(uint64_t first, uint64_t n, uint32_t n_edits)
{
    for (uint64_t next = first; next < first + n;) {
        uint64_t end = next + PER_CHILD < first + n ? next + PER_CHILD : first + n;
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (!pid) {
            for (uint64_t seed = next; seed < end; seed++) count->seed = seed, check_one(seed, n_edits);
            fflush(stdout);
            _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid) status = 1, count->seed = end - 1;
        if (status) fail(count->seed, "the process ends badly", NULL);
        next = status ? count->seed + 1 : end;
    }
}

static void test_texts(const char *name, uint64_t first, uint64_t n, uint32_t n_edits)
{
    *count = (Count){0};
    check_begin();
    campaign(first, n, n_edits);
    printf("%lld programs, %lld texts read back, %lld edited texts of %lld are legal, refused with E0505 %lld, with "
           "E0506 %lld\n",
           (long long)count->programs, (long long)count->same, (long long)count->legal, (long long)count->tried,
           (long long)count->codes[0], (long long)count->codes[1]);
    check(!count->failures && count->programs == (int64_t)n && count->same == (int64_t)n,
          "%lld failures in %lld programs", (long long)count->failures, (long long)count->programs);
    check(count->legal >= (int64_t)(n * n_edits / 2), "only %lld edited texts are legal", (long long)count->legal);
    check_end(name);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : check_amount(24, 400),
             first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint32_t n_edits = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    if (argc > 4 && !strcmp(argv[1], "files")) {
        files = argv + 4, n_seeds = strtoull(argv[2], NULL, 10);
        n = n_seeds * (uint64_t)(argc - 4), first = 0;
    }
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ICE_UNLESS(count != MAP_FAILED);
    if (argc == 1) {
        test_texts("schedules: copies back into tensors run where they ran", COPIES_BACK, 1, 0);
        test_texts("schedules: rows of a dim are not moved to other rows", ROWS_OF_A_DIM, 1, 0);
    }
    test_texts("schedules: texts of random programs, read back and edited, have the same bits", first, n, n_edits);
    return check_done();
}
