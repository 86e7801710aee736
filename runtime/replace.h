/* Replaces a file as a whole: a reader, a full disk, a kill at any moment see the old file or the new one. Written for
   the runtime and for the compiler, in folders that others may write to as well:

     what is written has no name until it is whole and synced (O_TMPFILE), or, where the file system knows no such
     files, a random one that nothing else has and that no signal leaves behind;
     it is moved over the old file inside a folder that is opened once, so that nothing put there meanwhile is followed;
     the old file's permissions stay, and its owner and group where the system allows it;
     a link stays a link, and the file that it names is replaced, if the link belongs to whoever runs this or to root;
     another user's is refused;
     a device or a pipe is written to, never replaced; a pipe that nobody reads is refused. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct RtReplace {
    int fd, folder;                    /* being written; of the target */
    bool special;                      /* the target itself is written to */
    bool named;                        /* `beside` is there */
    char target[PATH_MAX], beside[40]; /* target: its path, then its name in the folder */
    sigset_t signals;
    const char *why; /* after a failure, where errno says too little; or NULL */
} RtReplace;

/* r->target = what path names in the end. False with errno. */
static inline bool rt_replace_resolve(RtReplace *r, const char *path)
{
    struct stat info;
    char link[PATH_MAX];
    errno = ENAMETOOLONG;
    if (snprintf(r->target, sizeof r->target, "%s", path) >= (int)sizeof r->target) return false;
    for (int hops = 0; lstat(r->target, &info) == 0 && S_ISLNK(info.st_mode); hops++) {
        struct stat end;
        if (stat(r->target, &end) == 0 && !S_ISREG(end.st_mode)) return true; /* /dev/stdout, a folder */
        if (info.st_uid != geteuid() && info.st_uid != 0) {
            r->why = "it is a link that another user made";
            errno = EPERM;
            return false;
        }
        ssize_t n = readlink(r->target, link, sizeof link - 1);
        if (n < 0) return false;
        link[n] = 0;
        char *slash = strrchr(r->target, '/'), *end_of_folder = link[0] == '/' || !slash ? r->target : slash + 1;
        size_t room = sizeof r->target - (size_t)(end_of_folder - r->target);
        errno = hops == 40 ? ELOOP : ENAMETOOLONG;
        if (hops == 40 || (size_t)snprintf(end_of_folder, room, "%s", link) >= room) return false;
    }
    return true;
}

/* Opens the target's folder and leaves its name in r->target. */
static inline bool rt_replace_folder(RtReplace *r)
{
    char *slash = strrchr(r->target, '/');
    if (!slash) {
        r->folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return r->folder >= 0;
    }
    bool root = slash == r->target;
    *slash = 0;
    r->folder = open(root ? "/" : r->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int kept = errno;
    memmove(r->target, slash + 1, strlen(slash + 1) + 1);
    errno = kept;
    return r->folder >= 0;
}

/* A name that nothing has: random, as far as the system has random numbers. */
static inline void rt_replace_name(RtReplace *r, int again)
{
    uint64_t number = 0;
    struct timespec t = {0};
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        number = (uint64_t)t.tv_nsec * 1000003 ^ (uint64_t)getpid() << 32 ^ (uint64_t)again;
    }
    snprintf(r->beside, sizeof r->beside, ".gnnc-%016llx.tmp", (unsigned long long)number);
}

static inline void rt_replace_create(RtReplace *r, mode_t mode)
{
    r->fd = access("/proc/self/fd", X_OK) ? -1 : openat(r->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    for (int i = 0; r->fd < 0 && i < 100; i++) {
        rt_replace_name(r, i);
        r->fd = openat(r->folder, r->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        r->named = r->fd >= 0;
        if (r->fd < 0 && errno != EEXIST) return;
    }
}

/* The new file gets the old one's owner and permissions; the group's permissions only with the group. What is to be run
   (`mode`) can be run by whoever may read it. */
static inline bool rt_replace_inherit(RtReplace *r, const struct stat *old, mode_t mode)
{
    struct stat own;
    mode_t kept = old->st_mode & 0777;
    if (fstat(r->fd, &own)) return false;
    if (own.st_uid != old->st_uid || own.st_gid != old->st_gid)
        if (fchown(r->fd, old->st_uid, old->st_gid) && fchown(r->fd, (uid_t)-1, old->st_gid))
            kept &= (kept & 07) << 3 | 0707;
    if (mode & 0111) kept |= (kept & 0444) >> 2;
    return fchmod(r->fd, kept) == 0;
}

static inline bool rt_replace_begin(RtReplace *r, const char *path, mode_t mode)
{
    struct stat old;
    if (!rt_replace_resolve(r, path)) return false;
    bool exists = stat(r->target, &old) == 0;
    r->special = exists && !S_ISREG(old.st_mode) && !S_ISDIR(old.st_mode);
    if (r->special) {
        r->fd = open(r->target, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (r->fd < 0 && errno == ENXIO) r->why = "nobody reads the pipe";
        return r->fd >= 0 && fcntl(r->fd, F_SETFL, 0) == 0;
    }
    errno = EISDIR;
    if (exists && S_ISDIR(old.st_mode)) return false;
    if (exists && access(r->target, W_OK)) return false;
    if (!rt_replace_folder(r)) return false;
    rt_replace_create(r, exists ? 0600 : mode);
    return r->fd >= 0 && (!exists || rt_replace_inherit(r, &old, mode));
}

/* Closes everything; what has no place yet is gone. errno stays. */
static inline void rt_replace_end(RtReplace *r)
{
    int kept = errno;
    if (r->named) unlinkat(r->folder, r->beside, 0);
    if (r->fd >= 0) close(r->fd);
    if (r->folder >= 0) close(r->folder);
    pthread_sigmask(SIG_SETMASK, &r->signals, NULL);
    errno = kept;
}

/* Begins to replace path. False with errno, and perhaps r->why. Signals wait until the end. mode: of a new file, less
   the umask. */
static inline bool rt_replace_open(RtReplace *r, const char *path, mode_t mode)
{
    sigset_t all;
    *r = (RtReplace){.fd = -1, .folder = -1};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &r->signals);
    if (rt_replace_begin(r, path, mode)) return true;
    rt_replace_end(r);
    return false;
}

static inline bool rt_replace_write(RtReplace *r, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n) {
        ssize_t done = write(r->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Gives what was written without a name one, beside the target. */
static inline bool rt_replace_link(RtReplace *r)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", r->fd);
    for (int i = 0; i < 100; i++) {
        rt_replace_name(r, i);
        if (linkat(AT_FDCWD, own, r->folder, r->beside, AT_SYMLINK_FOLLOW) == 0) return r->named = true;
        if (errno != EEXIST) return false;
    }
    return false;
}

/* Puts what was written in the target's place, for good: the file and the folder's entry are synced. A folder that
   cannot be synced (some network file systems) is accepted. Ends in any case. False with errno: the old file is
   there. */
static inline bool rt_replace_commit(RtReplace *r)
{
    bool ok = r->special || fsync(r->fd) == 0;
    if (ok && !r->special && !r->named) ok = rt_replace_link(r);
    int fd = r->fd;
    r->fd = -1;
    int kept = errno;
    if (close(fd) && ok) ok = false;
    else errno = kept;
    if (ok && !r->special) ok = renameat(r->folder, r->beside, r->folder, r->target) == 0;
    if (ok && r->named) {
        r->named = false;
        fsync(r->folder);
    }
    rt_replace_end(r);
    return ok;
}

/* Whether two paths name one regular file, by whatever links and however they are written; of a file that is not there
   yet, whether they name one place for it. */
static inline bool rt_same_file(const char *a, const char *b)
{
    struct stat x, y;
    RtReplace at[2] = {{.folder = -1}, {.folder = -1}};
    bool there = stat(a, &x) == 0;
    if (there != (stat(b, &y) == 0)) return false;
    if (there) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    bool same = rt_replace_resolve(&at[0], a) && rt_replace_resolve(&at[1], b) && rt_replace_folder(&at[0]) &&
                rt_replace_folder(&at[1]) && fstat(at[0].folder, &x) == 0 && fstat(at[1].folder, &y) == 0;
    same = same ? x.st_dev == y.st_dev && x.st_ino == y.st_ino && !strcmp(at[0].target, at[1].target) : !strcmp(a, b);
    for (int i = 0; i < 2; i++)
        if (at[i].folder >= 0) close(at[i].folder);
    return same;
}
