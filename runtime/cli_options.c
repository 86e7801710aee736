/* Flags to values (see cli.h): `--flag VALUE` and `--flag=VALUE`; a mistyped flag is answered with
   the nearest one. */
#include "runtime/cli.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *flag, *argument;
    int commands;
} options[] = {
#define OPTION(id, flag, argument, commands, help) {flag, argument, commands},
#include "runtime/options.def"
#undef OPTION
};

/* Edits (insert, delete, change) between two words; words longer than 31 are far from everything. */
static int edit_distance(const char *a, const char *b)
{
    int row[32], n = (int)strlen(b);
    if (n > 31 || strlen(a) > 31) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; *a; i++, a++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = diagonal + (*a != b[j - 1]), above = row[j] + 1, left = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < above ? change : above;
            if (left < row[j]) row[j] = left;
        }
    }
    return row[n];
}

const char *rt_cli_nearest(const char *word, const char *const *names, int n)
{
    int least = 99;
    const char *near = NULL;
    for (int i = 0; i < n; i++) {
        int d = edit_distance(word, names[i]);
        if (d < least) least = d, near = names[i];
    }
    return near && least <= 2 + (int)strlen(near) / 4 ? near : NULL;
}

static RtCode unknown_flag(const RtCli *c, const char *flag)
{
    const char *names[N_OPTIONS];
    int n = 0;
    char hint[128], word[40];
    for (int i = 0; i < N_OPTIONS; i++)
        if (options[i].commands & 1 << c->command) names[n++] = options[i].flag;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(flag, "="), flag);
    const char *near = rt_cli_nearest(word, names, n);
    snprintf(hint, sizeof hint, near ? "did you mean --%s?" : "--help lists the flags", near ? near : "");
    return rt_fail(c->st, RT_E_CLI_FLAG, NULL, hint, "unknown flag --%.100s", flag);
}

static int find_option(const RtCli *c, const char *flag, size_t n)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if (strlen(options[i].flag) == n && !strncmp(options[i].flag, flag, n) && options[i].commands & 1 << c->command)
            return i;
    return -1;
}

static RtCode take_value(RtCli *c, int option, const char *value)
{
    c->values[option] = value;
    if (option != OPT_SET) return RT_OK;
    if (c->n_sets == MAX_SETS)
        return rt_fail(c->st, RT_E_CLI_VALUE, "--set", NULL, "given more than %d times", MAX_SETS);
    c->sets[c->n_sets++] = value;
    return RT_OK;
}

RtCode rt_cli_parse(RtCli *c, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "-h")) {
            c->values[OPT_HELP] = "";
            continue;
        }
        if (strncmp(argv[i], "--", 2))
            return rt_fail(c->st, RT_E_CLI_FLAG, NULL, "flags begin with --", "unexpected argument `%.100s`", argv[i]);
        const char *flag = argv[i] + 2, *equals = strchr(flag, '=');
        int option = find_option(c, flag, equals ? (size_t)(equals - flag) : strlen(flag));
        if (option < 0) return unknown_flag(c, flag);
        bool is_switch = !options[option].argument[0];
        if (is_switch && equals) return rt_fail(c->st, RT_E_CLI_VALUE, argv[i], NULL, "the flag takes no value");
        if (!is_switch && !equals && i + 1 == argc)
            return rt_fail(c->st, RT_E_CLI_VALUE, argv[i], NULL, "wanted a value: %s", options[option].argument);
        RT_TRY(take_value(c, option, is_switch ? "" : equals ? equals + 1 : argv[++i]));
    }
    return RT_OK;
}

RtCode rt_cli_int(const RtCli *c, int option, int64_t least, int64_t most, int64_t *out)
{
    const char *text = c->values[option];
    char place[64], *end;
    if (!text) return RT_OK;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    snprintf(place, sizeof place, "--%s", options[option].flag);
    if (errno || end == text || *end || v < least || v > most)
        return rt_fail(c->st, RT_E_CLI_VALUE, place, NULL, "found `%.60s`, wanted a whole number from %lld to %lld",
                       text, (long long)least, (long long)most);
    *out = v;
    return RT_OK;
}
