/* Passes on graph IR, text in and text out: tests/passes/X.gir is run through the passes its first
   line names
   (`# run: simplify,dce`) with the verifier and the round trip on, and must print as X.out.
   `--bless` writes X.out anew. Also the runner's own rules: options, needs, dumps, timing. Runs in
   the repository's root. */
#include "base/file.h"
#include "passes/pipeline/pipeline.h"
#include "tests/unit/check.h"
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

static const char folder[] = "tests/passes";

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The stems of the .gir files, sorted. */
static const char **stems(Arena *a, uint32_t *n)
{
    VEC(const char *) names = {0};
    DIR *dir = opendir(folder);
    for (struct dirent *it; dir && (it = readdir(dir));) {
        size_t len = strlen(it->d_name);
        if (len > 4 && !strcmp(it->d_name + len - 4, ".gir"))
            VEC_PUSH(a, &names, arena_strndup(a, it->d_name, len - 4));
    }
    if (dir) closedir(dir);
    if (names.n) qsort(names.data, names.n, sizeof *names.data, by_name);
    *n = names.n;
    return names.data;
}

static const char *first_line_option(Arena *a, const char *text, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(text, word, n)) return NULL;
    return arena_strndup(a, text + n, strcspn(text + n, "\n"));
}

/* What the file prints as after its passes, or its diagnostics. */
static const char *run_text(Arena *a, const char *path, const char *text)
{
    Diags diags = {.arena = a};
    PassContext ctx = pass_context(a, &diags);
    ctx.verify = PASS_VERIFY_ROUNDTRIP;
    Source source = {.path = path, .text = text, .n = (uint32_t)strlen(text)};
    const char *list = first_line_option(a, text, "# run: ");
    const IrModule *m = list && pass_option_run(&ctx, list) ? ir_parse(a, &source, &diags) : NULL;
    if (m && ir_verify(m, &diags)) m = pass_run_pipeline(&ctx, m);
    StrBuf out = {.arena = a};
    if (!diags.n_errors && m) ir_print(m, &out);
    else diags_print(&diags, &out, false);
    return strbuf_cstr(&out);
}

static void check_file(Arena *a, const char *stem, bool bless)
{
    const char *why, *path = arena_printf(a, "%s/%s.gir", folder, stem);
    const char *out_path = arena_printf(a, "%s/%s.out", folder, stem);
    size_t n;
    const char *text = file_read(a, path, 0, &n, &why);
    check_begin();
    if (check(text != NULL, "%s: %s", path, why)) {
        const char *found = run_text(a, path, text);
        if (bless) file_write(a, out_path, found, strlen(found), 0644, &why);
        const char *wanted = file_read(a, out_path, 0, &n, &why);
        check(wanted && !strcmp(found, wanted), "%s differs; found\n%s", out_path, found);
    }
    check_end(arena_printf(a, "passes: %s", stem));
}

/* ---- the runner ---- */

static const char grad_text[] = "module m\n"
                                "tensor w : input [] f64\n"
                                "func f(w = @w) {\n"
                                "  %0 = arg 0 : [] f64\n"
                                "  %1 = mul %0, %0 : [] f64\n"
                                "  %2 = grad %1, %0 : [] f64\n"
                                "  %3 = exp %0 : [] f64\n"
                                "  return g = %2\n"
                                "}\n";

static const char narrow_text[] = "module m\n"
                                  "tensor w : input [] f32\n"
                                  "func f(w = @w) {\n"
                                  "  %0 = arg 0 : [] f32\n"
                                  "  %1 = cast %0 : [] f16\n"
                                  "  %2 = cast %1 : [] f32\n"
                                  "  %3 = grad %2, %0 : [] f32\n"
                                  "  return g = %3\n"
                                  "}\n";

static const IrModule *parse(Arena *a, const char *text, Diags *d)
{
    Source *source = ARENA_NEW(a, Source);
    *source = (Source){.path = "test.gir", .text = text, .n = (uint32_t)strlen(text)};
    return ir_parse(a, source, d);
}

static void test_options(Arena *a)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    check_begin();
    CHECK(pass_option_run(&ctx, "dce,cse") && ctx.n_run == 2 && ctx.run[0] == PASS_dce);
    CHECK(!pass_option_run(&ctx, "dec") && d.list.data[0]->code == E0612);
    CHECK(d.list.data[0]->help && strstr(d.list.data[0]->help, "'dce'"));
    CHECK(pass_option_disable(&ctx, "cse") && ctx.disabled[PASS_cse]);
    CHECK(!pass_option_disable(&ctx, "autodiff") && !ctx.disabled[PASS_autodiff]);
    CHECK(d.list.data[d.list.n - 1]->code == E0616);
    check_end("passes: options name passes");
}

static void test_needs(Arena *a)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    const IrModule *m = parse(a, grad_text, &d);
    check_begin();
    if (CHECK(m)) {
        CHECK(!pass_ready(&ctx, PASS_fuse, m) && d.list.data[0]->code == E0616);
        const IrModule *done = pass_run_pipeline(&ctx, m);
        CHECK(done && pass_ready(&ctx, PASS_fuse, done));
        const IrModule *narrow = parse(a, narrow_text, &d);
        CHECK(narrow && pass_ready(&ctx, PASS_autodiff, narrow) && !pass_ready(&ctx, PASS_table, narrow));
        check(strstr(d.list.data[d.list.n - 1]->text, "16 bits") != NULL, "%s", d.list.data[d.list.n - 1]->text);
        for (PassId p = 0; p < N_PASSES; p++) {
            bool grads = p == PASS_simplify || p == PASS_cse || p == PASS_dce || p == PASS_pairs || p == PASS_keys ||
                         p == PASS_table || p == PASS_stack || p == PASS_parts || p == PASS_autodiff ||
                         p == PASS_reorder || p == PASS_narrow;
            CHECK(pass_ready(&ctx, p, m) == grads);
        }
        CHECK(m->funcs.data[0]->ops.n == 4); /* the input is unchanged */
    }
    check_end("passes: a grad is refused by what follows autodiff");
}

/* What a rewrite inside a pass of the kernel stage breaks, the verifier says with the rewrite's name. */
static void test_steps(Arena *a)
{
    char said[4096] = {0};
    int ends[2], status = 0;
    check_begin();
    if (!CHECK(!pipe(ends))) return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        Diags d = {.arena = a};
        PassContext ctx = pass_context(a, &d);
        const IrModule *m = parse(a, grad_text, &d);
        IrFunc *f = m->funcs.data[0];
        pass_verify_step(&ctx, PASS_fuse, "clone", m, f);
        f->ops.data[1].type = ir_scalar(IR_I64);
        ctx.verify = PASS_VERIFY_OFF;
        pass_verify_step(&ctx, PASS_fuse, "clone", m, f);
        ctx.verify = PASS_VERIFY_ON;
        pass_verify_step(&ctx, PASS_fuse, "clone", m, f);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n + 1 < sizeof said; n += (size_t)got)
        if ((got = read(ends[0], said + n, sizeof said - n - 1)) < 0) got = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 70);
    check(strstr(said, "pass 'fuse' (run 0), its step `clone`, broke the module") && strstr(said, "E0502"), "%s", said);
    check_end("passes: a step of a pass that breaks a module is named");
}

typedef struct Seen {
    uint32_t n_before, n_after;
} Seen;
static void see(void *user, PassId pass, uint32_t index, bool after, PassPrint *print, const void *program)
{
    Arena *a = arena_new();
    StrBuf text = {.arena = a};
    print(program, &text);
    Seen *s = user;
    if (pass == PASS_dce && index < n_pass_pipeline && text.n) *(after ? &s->n_after : &s->n_before) += 1;
    arena_free(a);
}

static void test_dump_and_time(Arena *a)
{
    Diags d = {.arena = a};
    PassContext ctx = pass_context(a, &d);
    Seen seen = {0};
    ctx.dump = see;
    ctx.dump_user = &seen;
    ctx.keep_remarks = true;
    ctx.disabled[PASS_cse] = true;
    uint32_t n_run = 0;
    for (uint32_t i = 0; i < n_pass_pipeline; i++) /* nothing is stored in 16 bits */
        n_run += pass_infos[pass_pipeline[i]].stage == PASS_STAGE_GRAPH && pass_pipeline[i] != PASS_cse &&
                 pass_pipeline[i] != PASS_narrow && pass_pipeline[i] != PASS_narrow_rest;
    const IrModule *m = parse(a, grad_text, &d);
    check_begin();
    if (CHECK(m && pass_run_pipeline(&ctx, m))) {
        CHECK(seen.n_before == 5 && seen.n_after == 5); /* dce stands five times in the pipeline */
        CHECK(ctx.timings.n == n_run);
        CHECK(ctx.timings.data[1].ops_before == 4 && ctx.timings.data[1].ops_after == 3);
        CHECK(ctx.remarks.n > 0);
    }
    check_end("passes: dumps, timings, remarks");
}

int main(int argc, char **argv)
{
    bool bless = argc > 1 && !strcmp(argv[1], "--bless");
    Arena *a = arena_new();
    uint32_t n;
    const char **names = stems(a, &n);
    for (uint32_t i = 0; i < n; i++) check_file(a, names[i], bless);
    check_begin();
    check(n > 0, "no files in %s; run in the repository's root", folder);
    check_end("passes: files are there");
    test_options(a);
    test_needs(a);
    test_steps(a);
    test_dump_and_time(a);
    arena_free(a);
    return check_done();
}
