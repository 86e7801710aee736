/* The machine's figures: built-in ones, those of the probe, and the cache file between runs (see machine.h). The file
   is text, a name and its numbers per line; one that does not read as a whole is as good as none. */
#include "runtime/machine.h"
#include "runtime/cpu.h"
#include "runtime/file.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const level_names[RT_N_LEVELS] = {"L1", "L2", "L3", "memory"};

enum { FORMAT = 4 };
static const double USABLE = 0.6; /* of a cache, for a table */

/* ---- built-in ------------------------------------------------------------------------------------------------ */

static void cpu_model(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
        break;
    }
    if (f) fclose(f);
}

/* A server core of the mid 2020s; bandwidths grow with the threads but for memory, which four saturate. */
void rt_machine_default(int threads, RtMachine *m)
{
    static const double latency[] = {1.2, 4, 15, 100}, copy[] = {150, 80, 40, 20}, gather[] = {120, 60, 36, 14.4};
    *m = (RtMachine){.threads = threads};
    cpu_model(m->cpu, sizeof m->cpu);
    /* a variable that is refused where kernels are chosen */
    if (rt_cpu_allowed(&m->variant, &(RtStatus){0})) m->variant = RT_GENERIC;
    m->bytes[RT_L1] = rt_cpu_cache_bytes(1);
    m->bytes[RT_L2] = rt_cpu_cache_bytes(2);
    m->bytes[RT_L3] = rt_cpu_cache_bytes(3);
    for (int l = RT_L1; l <= RT_L3; l++) m->usable[l] = USABLE * m->bytes[l];
    double n = threads > 1 ? threads : 1, memory = n < 4 ? n : 4;
    m->flops = 100 * n;
    for (int l = 0; l < RT_N_LEVELS; l++) {
        m->latency[l] = latency[l];
        m->copy[l] = copy[l] * (l == RT_MEMORY ? memory : n);
        for (int r = 0; r < RT_N_ROWS; r++)
            m->gather[r][l] = gather[l] * (r == RT_ROW_64 ? 0.5 : 1) * (l == RT_MEMORY ? memory : n);
    }
}

/* ---- the cache file ------------------------------------------------------------------------------------------ */

/* FNV-1a of what the figures depend on. */
static uint64_t key_of(const RtMachine *m)
{
    uint64_t h = 14695981039346656037u;
    for (const char *c = m->cpu; *c; c++) h = (h ^ (uint8_t)*c) * 1099511628211u;
    for (int l = 0; l < RT_N_LEVELS; l++) h = (h ^ (uint64_t)m->bytes[l]) * 1099511628211u;
    h = (h ^ (uint64_t)m->threads) * 1099511628211u;
    return (h ^ (uint64_t)m->variant) * 1099511628211u;
}

/* The folder for caches, by the XDG rules; "" where there is no home. */
static void cache_folder(char *out, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    out[0] = 0;
    if (xdg && xdg[0] == '/') snprintf(out, size, "%s/gnnc", xdg);
    else if (home && home[0] == '/') snprintf(out, size, "%s/.cache/gnnc", home);
}

static bool cache_path(const RtMachine *m, char *out, size_t size)
{
    char folder[3072];
    cache_folder(folder, sizeof folder);
    if (!folder[0]) return false;
    int n = snprintf(out, size, "%s/machine-%016llx", folder, (unsigned long long)key_of(m));
    return n > 0 && (size_t)n < size;
}

typedef struct Row { /* one line of the file */
    const char *name;
    double *values;
    int n;
} Row;

static int rows_of(RtMachine *m, Row *rows)
{
    Row all[] = {{"usable", m->usable, RT_MEMORY},
                 {"latency", m->latency, RT_N_LEVELS},
                 {"copy", m->copy, RT_N_LEVELS},
                 {"gather", &m->gather[0][0], RT_N_ROWS * RT_N_LEVELS},
                 {"flops", &m->flops, 1}};
    memcpy(rows, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

static bool read_row(FILE *f, const Row *row)
{
    char name[16];
    if (fscanf(f, "%15s", name) != 1 || strcmp(name, row->name) != 0) return false;
    for (int i = 0; i < row->n; i++)
        if (fscanf(f, "%lf", &row->values[i]) != 1 || !isfinite(row->values[i]) || row->values[i] <= 0) return false;
    return true;
}

bool rt_machine_load(int threads, RtMachine *m)
{
    char path[4096];
    rt_machine_default(threads, m);
    if (!cache_path(m, path, sizeof path)) return false;
    FILE *f = fopen(path, "r");
    if (!f) return false;
    Row rows[8];
    int format, n = rows_of(m, rows);
    bool ok = fscanf(f, "gnnc machine %d", &format) == 1 && format == FORMAT;
    for (int i = 0; i < n && ok; i++) ok = read_row(f, &rows[i]);
    fclose(f);
    if (!ok) rt_machine_default(threads, m);
    m->probed = ok;
    return ok;
}

static RtCode make_folder(RtStatus *st)
{
    char folder[3072];
    cache_folder(folder, sizeof folder);
    for (char *c = folder + 1; folder[0] && *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        mkdir(folder, 0755); /* those that are there stay */
        *c = '/';
    }
    if (mkdir(folder, 0755) && errno != EEXIST) return rt_fail_errno(st, RT_E_FILE_WRITE, folder);
    return RT_OK;
}

RtCode rt_machine_save(const RtMachine *m, char **path, RtStatus *st)
{
    char *text = NULL;
    size_t bytes = 0;
    RtMachine copy = *m;
    Row rows[8];
    int n = rows_of(&copy, rows);
    RT_TRY(rt_alloc(path, 4096, 1, "a path", st));
    if (!cache_path(m, *path, 4096))
        return rt_fail(st, RT_E_FILE_WRITE, "HOME", "set XDG_CACHE_HOME", "there is no folder for caches");
    RT_TRY(make_folder(st));
    FILE *f = open_memstream(&text, &bytes);
    if (!f) return rt_fail_memory(st, 4096, "the machine's figures");
    fprintf(f, "gnnc machine %d\n", FORMAT);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s", rows[i].name);
        for (int k = 0; k < rows[i].n; k++) fprintf(f, " %.17g", rows[i].values[k]);
        fputc('\n', f);
    }
    fclose(f);
    RtCode code = rt_file_replace(*path, &(RtFilePart){text, bytes}, 1, st);
    free(text);
    return code;
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void print_list(const double *x, int n, FILE *out)
{
    for (int i = 0; i < n; i++) fprintf(out, "%s%.4g", i ? ", " : "[", x[i]);
    fputs("]", out);
}

static void print_json(const RtMachine *m, FILE *out)
{
    fputs("{\"cpu\": \"", out);
    for (const char *c = m->cpu; *c; c++)
        if (*c != '"' && *c != '\\' && (unsigned char)*c >= 0x20) fputc(*c, out);
    fprintf(out, "\", \"probed\": %s, \"threads\": %lld,\n \"cache_bytes\": ", m->probed ? "true" : "false",
            (long long)m->threads);
    print_list(m->bytes, RT_MEMORY, out);
    fputs(",\n \"usable_bytes\": ", out);
    print_list(m->usable, RT_MEMORY, out);
    fputs(",\n \"latency_ns\": ", out);
    print_list(m->latency, RT_N_LEVELS, out);
    fputs(",\n \"copy_gb_s\": ", out);
    print_list(m->copy, RT_N_LEVELS, out);
    for (int r = 0; r < RT_N_ROWS; r++) {
        fprintf(out, ",\n \"gather_%d_gb_s\": ", r == RT_ROW_64 ? 64 : 256);
        print_list(m->gather[r], RT_N_LEVELS, out);
    }
    fprintf(out, ",\n \"gflop_s\": %.4g}\n", m->flops);
}

void rt_machine_print(const RtMachine *m, bool json, FILE *out)
{
    if (json) {
        print_json(m, out);
        return;
    }
    fprintf(out, "%s, %lld threads, %s\n\n", m->cpu, (long long)m->threads,
            m->probed ? "measured" : "built-in figures (gnnc machine --probe measures)");
    fprintf(out, "%-8s %10s %10s %10s %12s  %s\n", "level", "KiB", "usable", "load", "copy",
            "rows of 64, of 256 bytes gathered");
    for (int l = 0; l < RT_N_LEVELS; l++) {
        fprintf(out, "%-8s ", level_names[l]);
        if (l < RT_MEMORY) fprintf(out, "%10.0f %10.0f ", m->bytes[l] / 1024, m->usable[l] / 1024);
        else fprintf(out, "%10s %10s ", "", "");
        fprintf(out, "%7.1f ns %7.1f GB/s  %10.1f, %6.1f GB/s\n", m->latency[l], m->copy[l], m->gather[RT_ROW_64][l],
                m->gather[RT_ROW_256][l]);
    }
    fprintf(out, "\nmultiply-adds %.0f GFLOP/s (f32)\n", m->flops);
}
