/* gnnc data: makes, describes, verifies and splits data directories (meta.json and .npy, see docs/data.md). */
#include "driver/data.h"
#include <stdio.h>
#include <string.h>

int cmd_data(Session *s)
{
    static const struct {
        const char *name;
        int (*run)(Session *, const char *dir);
    } verbs[] = {
        {"generate", data_generate}, {"info", data_info}, {"verify", data_verify}, {"partition", data_partition}};
    static const char *const later[] = {"import"};
    if (s->opt.files.n != 2) {
        diag_error(&s->diags, E0613, (Span){0},
                   "what to do and one directory are wanted: gnnc data generate|info|verify|partition DIR");
        return 1;
    }
    const char *verb = s->opt.files.data[0];
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verb, verbs[i].name) == 0) return verbs[i].run(s, s->opt.files.data[1]);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(verb, later[i]) == 0) {
            diag_error(&s->diags, E0910, (Span){0}, "`gnnc data %s` is not built yet", verb);
            return 1;
        }
    static const char *const names[] = {"generate", "info", "verify", "partition"};
    Diag *it = diag_error(&s->diags, E0610, (Span){0}, "`gnnc data` has no `%s`", verb);
    const char *near = str_nearest(verb, names, 4);
    diag_help(&s->diags, it, near ? "did you mean `%s`?" : "it has generate, info, verify and partition%.0s",
              near ? near : "");
    return 1;
}
