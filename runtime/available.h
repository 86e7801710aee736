/* What memory the machine can still give, so that who asks for more is told so. Linux grants what it does not have and
   kills
   later: an allocation that returns proves nothing. The least is taken of what the kernel calls available and of what
   each control group above this process (both versions) leaves of its limit; limits of the process (setrlimit) refuse
   by themselves. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The number behind `key` at the start of a line; -1: it is not there, or is no number ("max"). "" takes the first
   line. */
static inline int64_t rt_number_in(const char *path, const char *key)
{
    char line[256];
    long long v = -1, found = -1;
    FILE *f = fopen(path, "re");
    while (f && found < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), "%lld", &v) == 1) found = v;
    if (f) fclose(f);
    return found;
}

/* What one control group leaves; INT64_MAX where it has no limit. Pages of files that nobody has read for long are
   given back. */
static inline int64_t rt_group_leaves(const char *dir, const char *limit_name, const char *usage_name,
                                      const char *idle_key)
{
    char path[4096 + 64];
    snprintf(path, sizeof path, "%s/%s", dir, limit_name);
    int64_t limit = rt_number_in(path, "");
    snprintf(path, sizeof path, "%s/%s", dir, usage_name);
    int64_t used = rt_number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    int64_t idle = rt_number_in(path, idle_key);
    if (limit < 0 || used < 0) return INT64_MAX;
    used -= idle > 0 ? idle : 0;
    return limit > used ? limit - used : 0;
}

/* The least that the groups on the way from `path` up to `root` leave. */
static inline int64_t rt_groups_leave(const char *root, char *path, const char *limit, const char *usage,
                                      const char *idle)
{
    char dir[4096];
    for (int64_t least = INT64_MAX;;) {
        snprintf(dir, sizeof dir, "%s%s", root, path);
        int64_t left = rt_group_leaves(dir, limit, usage, idle);
        if (left < least) least = left;
        char *slash = strrchr(path, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Bytes; INT64_MAX where the system does not say. */
static inline int64_t rt_available(void)
{
    char line[1024];
    int64_t kib = rt_number_in("/proc/meminfo", "MemAvailable:"), least = kib < 0 ? INT64_MAX : kib * 1024;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) { /* "0::/user.slice" or "4:memory:/docker/8f" */
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        path[strcspn(path, "\n")] = 0;
        *path++ = 0;
        int64_t left = INT64_MAX;
        if (!names[1]) left = rt_groups_leave("/sys/fs/cgroup", path, "memory.max", "memory.current", "inactive_file ");
        else if (!strcmp(names + 1, "memory"))
            left = rt_groups_leave("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file ");
        if (left < least) least = left;
    }
    if (f) fclose(f);
    return least;
}
