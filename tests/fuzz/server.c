/* Runs a program's `main` again and again, each time in a process of its own, so that the loader and the sanitizer's
   start are paid once (for commands.py, which compiles the program with -Dmain=program_main). A request on standard
   input is its length as four bytes and words that end in 0: "1" to look for leaks or "0", a folder, argv. What the
   program prints goes to FOLDER.out and FOLDER.err. The answer is a line: the status as wait4 gives it, and the KiB of
   memory that the process had at most. */
#include <fcntl.h>
#include <sanitizer/lsan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 16, MAX_WORDS = 256, WALL_S = 60, CPU_S = 5, FILE_BYTES = 64 << 20 };
int program_main(int argc, char **argv);

static void redirect(const char *folder, const char *end, int to)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s", folder, end);
    int fd = open(path, to ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
    if (fd < 0 || dup2(fd, to) < 0) _exit(98);
    close(fd);
}

static void child(int n, char **words)
{
    redirect("/dev/null", "", 0);
    redirect(words[1], ".out", 1);
    redirect(words[1], ".err", 2);
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_S, CPU_S + 1});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){FILE_BYTES, FILE_BYTES});
    alarm(WALL_S);
    if (chdir(words[1])) _exit(98);
    int rc = program_main(n - 2, words + 2);
    fflush(NULL);
    if (words[0][0] == '1') __lsan_do_leak_check();
    _exit(rc);
}

/* KiB that a process has in memory. */
static long resident(pid_t pid)
{
    char path[64];
    long size, pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%ld %ld", &size, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    static char text[MAX_BYTES + 1];
    long most = argc > 1 ? atol(argv[1]) : 0; /* KiB */
    uint32_t bytes;
    while (fread(&bytes, sizeof bytes, 1, stdin) == 1 && bytes <= MAX_BYTES && fread(text, 1, bytes, stdin) == bytes) {
        char *words[MAX_WORDS + 1] = {0};
        int n = 0, status = 0;
        struct rusage used;
        for (char *p = text; p < text + bytes && n < MAX_WORDS; p += strlen(p) + 1) words[n++] = p;
        pid_t pid = fork();
        if (pid == 0) child(n, words);
        for (int i = 1; pid > 0 && wait4(pid, &status, WNOHANG, &used) == 0; i++) {
            usleep(500);
            if (i % 32 == 0 && resident(pid) > most) kill(pid, SIGKILL);
        }
        printf("%d %ld\n", pid > 0 ? status : -1, used.ru_maxrss);
        fflush(stdout);
    }
    return 0;
}
