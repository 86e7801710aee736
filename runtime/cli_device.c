/* --device: what it may be, what goes with it, and opening it (see cli.h). */
#include "runtime/cli.h"
#include <stdlib.h>
#include <string.h>

static RtCode not_built(const RtCli *c, const char *device, const char *hint)
{
    return rt_fail(c->st, RT_E_CLI_NOT_BUILT, "--device", hint, "device %s is not built into this program", device);
}

RtCode rt_cli_device(RtCli *c)
{
    const char *text = c->values[OPT_DEVICE] ? c->values[OPT_DEVICE] : "cpu";
    size_t n = strncmp(text, "cuda:", 5) ? 0 : strspn(text + 5, "0123456789");
    if (!strcmp(text, "cpu")) c->device = RT_ON_CPU;
    else if (!strcmp(text, "auto")) c->device = RT_ON_AUTO;
    else if (!strcmp(text, "shim")) c->device = RT_ON_SHIM;
    else if (!strcmp(text, "cuda")) c->device = RT_ON_CUDA;
    else if (n > 0 && n < 4 && !text[5 + n]) c->device = RT_ON_CUDA;
    else
        return rt_fail(c->st, RT_E_CLI_VALUE, "--device", NULL, "found `%.60s`, wanted cpu, cuda, cuda:N or auto",
                       text);
    const char *flag = c->values[OPT_HOST_ROWS]       ? "--host-rows"
                       : c->values[OPT_DEVICE_MEMORY] ? "--device-memory"
                                                      : NULL;
    if (flag && c->device == RT_ON_CPU) return rt_fail(c->st, RT_E_CLI_VALUE, flag, NULL, "wanted with --device cuda");
    c->ordinal = n ? strtol(text + 5, NULL, 10) : -1;
    const RtModel *there = c->model->device;
    if (c->device == RT_ON_CUDA && (!there || !there->n_images))
        return not_built(c, text, "build it with gnnc build --target cuda, or leave the flag out");
    if (c->device == RT_ON_SHIM && (!there || !there->shim))
        return not_built(c, text, "build it with gnnc build --target shim, or leave the flag out");
    return RT_OK;
}

/* A flag that says how steps run on a CPU; NULL: none was given. */
static const char *flag_of_cpus(const RtCli *c)
{
    static const struct {
        int option;
        const char *flag, *unless; /* a value that asks for nothing */
    } flags[] = {{OPT_SHARE, "--share", "0"}, {OPT_CONE, "--cone", "off"}, {OPT_BUDGET, "--memory-budget", NULL}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const char *value = c->values[flags[i].option];
        bool nothing = value && (!strcmp(value, "auto") || (flags[i].unless && !strcmp(value, flags[i].unless)));
        if (value && !nothing) return flags[i].flag;
    }
    return NULL;
}

/* The device that was named, or the first; several processes share out the devices of the machine. */
static int64_t choose(const RtCli *c, const RtCudaDriver *d)
{
    int n = 0;
    if (c->ordinal >= 0) return c->ordinal;
    return c->peers && !d->init(0) && !d->device_count(&n) && n > 0 ? rt_peers_rank(c->peers) % n : 0;
}

RtCode rt_cli_device_open(const RtCli *c, RtCuda **d)
{
    RtCudaDriver driver = rt_cuda_shim;
    RtStatus none = {0};
    const char *flag = c->device == RT_ON_CPU ? NULL : flag_of_cpus(c);
    const RtModel *there = c->model->device;
    *d = NULL;
    if (c->device == RT_ON_AUTO) { /* whatever is missing, there is the CPU */
        if (there && there->n_images && !flag && !rt_cuda_driver(&driver, &none))
            rt_cuda_create(there, &driver, 0, d, &none);
        return RT_OK;
    }
    if (flag)
        return rt_fail(c->st, RT_E_DEVICE_REFUSED, flag, "leave the flag out, or run with --device cpu",
                       "the flag is of runs on a CPU");
    if (c->device == RT_ON_CPU || c->command == CMD_PLAN) return RT_OK;
    if (c->device == RT_ON_CUDA) RT_TRY(rt_cuda_driver(&driver, c->st));
    return rt_cuda_create(there, &driver, choose(c, &driver), d, c->st);
}
