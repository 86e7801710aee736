/* The command line of an executable: flags from options.def, commands from commands.def. Private to
   cli*.c. */
#pragma once
#include "runtime/batch.h"
#include "runtime/blas.h"
#include "runtime/cpu.h"
#include "runtime/cuda.h"
#include "runtime/dataset.h"
#include "runtime/exec.h"
#include "runtime/ranks.h"

enum {
#define COMMAND(id, ...) CMD_##id,
#include "runtime/commands.def"
#undef COMMAND
    N_COMMANDS
};
enum {
#define COMMAND(id, ...) C_##id = 1 << CMD_##id,
#include "runtime/commands.def"
#undef COMMAND
};
enum {
#define OPTION(id, ...) OPT_##id,
#include "runtime/options.def"
#undef OPTION
    N_OPTIONS
};
enum { MAX_SETS = 64 };
#define RT_TRAIN_PROGRAMS "train_step metrics"
#define RT_BENCH_PROGRAMS "forward vjp train_step"
typedef enum { RT_ON_CPU, RT_ON_CUDA, RT_ON_SHIM, RT_ON_AUTO } RtCliDevice;

typedef struct RtCli {
    const RtModel *model;
    const char *program; /* as it was called, for examples */
    int command;
    RtCliDevice device;
    int64_t ordinal;               /* of the device; -1: none was named */
    const char *values[N_OPTIONS]; /* last one given; "" for switches; NULL: not given */
    const char *sets[MAX_SETS];
    int n_sets;
    bool terminal;  /* stdout */
    RtPeers *peers; /* while a command runs that processes may share; or NULL */
    bool silent;    /* what went wrong has been said, or another process says it */
    RtStatus *st;
} RtCli;

/* argv behind the command's name. CLI_FLAG offers the nearest known flag. */
RtCode rt_cli_parse(RtCli *c, int argc, char **argv);
void rt_cli_usage(const RtModel *m, const char *program);
void rt_cli_help(const RtCli *c);
/* The value of a flag as a whole number in [least, most]; *out keeps its default if the flag was
   not given. */
RtCode rt_cli_int(const RtCli *c, int option, int64_t least, int64_t most, int64_t *out);
/* The nearest of `names` to a mistyped word, NULL if none is near. */
const char *rt_cli_nearest(const char *word, const char *const *names, int n);

/* Refuses, before anything is read, what would write over a file that the command reads or that belongs to its data
   set, over the program itself, or two things into one file. --checkpoint may be what --resume reads. */
RtCode rt_cli_spare(const RtCli *c);
/* Reads --device. CLI_VALUE, CLI_NOT_BUILT. */
RtCode rt_cli_device(RtCli *c);
/* Opens the device; *d is NULL where the command runs on this CPU, which --device auto may choose. */
RtCode rt_cli_device_open(const RtCli *c, RtCuda **d);

/* Where result i of `infer` goes: the first to --out, the others beside it. */
void rt_cli_out_path(const RtCli *c, const RtProgram *forward, int64_t i, char *path, size_t size);

/* What a bound or planned program reads sparse, reads as computed once, and leaves out: lines of text, or the fields
   `reads_sparse`, `computed_once` and `left_out` (a share of the predicted work) of a JSON object. */
void rt_cli_print_savings(const RtExec *e, bool json);

/* What a command that runs something needs. */
typedef struct RtSession {
    RtData data;
    RtBatches batches; /* to train and plan a model that is trained by them; else empty */
    RtPool *pool;
    RtBlas blas;
    RtExecOptions exec;
    RtCuda *device;  /* NULL: this CPU */
    RtCudaRoom room; /* that a run may take there */
    bool on_device;  /* what runs: also where plan opens none */
    RtPart part;     /* of the data; empty where it is whole */
    char part_dir[4200];
    RtRanks *ranks; /* NULL: one process */
    struct RtNccl *nccl;
    int threads;
} RtSession;
/* --folds and --fold; unchanged where they are not given. */
RtCode rt_cli_folds(const RtCli *c, int64_t *folds, int64_t *fold);
/* Opens the data, threads and BLAS as the flags say. s must not move afterwards; empty on failure. */
RtCode rt_session_open(const RtCli *c, const RtDataOptions *o, RtSession *s);
/* What a program runs on: train_step on the largest batch that there can be, where there are batches. */
const RtGraph *rt_session_graph(const RtSession *s, int64_t program);
void rt_session_close(RtSession *s);

/* Bytes of memory that a process takes for the programs of training, or of inference. All are 0 where there is one
   process. */
typedef struct RtCliMemory {
    int64_t arena, results, tables, once, room, operands, staged;
    int64_t before; /* of all these, what the setup program that needs most has */
} RtCliMemory;

/* What `plan` prints behind its head for a device. */
RtCode rt_cli_plan_device(const RtCli *c, const RtSession *s, RtCliMemory *memory, bool json);

/* Runs the program of e, which is bound to a device, there and on the CPU, step by step, and prints the steps whose
   buffers differ in a byte; where the device has another plan, results and tensors that a whole run leaves. Changes
   parameters. */
RtCode rt_cli_compare(const RtSession *s, RtExec *e, int64_t seed, int64_t *n_differ, RtStatus *st);

/* Starts or finds the other processes, if there are some: --ranks, or an MPI launcher. */
RtCode rt_cli_ranks_open(RtCli *c, char **argv);
/* An error that only some processes met: all return the worst of any. */
RtCode rt_cli_ranks_agree(const RtCli *c, RtCode code);
/* The folder that this process reads: its part, where --data holds parts. */
RtCode rt_cli_ranks_part(const RtCli *c, RtSession *s, const char **dir);
RtCode rt_cli_ranks_start(const RtCli *c, RtSession *s);
/* NCCL, once the device is there, where --exchange says so. */
RtCode rt_cli_ranks_nccl(const RtCli *c, RtSession *s);
/* DATA_FOLDS unless each fold has a row in some process's part. */
RtCode rt_cli_ranks_folds(const RtCli *c, const RtData *d);
/* After training: PEERS_DIFFER unless all processes have the same parameters and states. */
RtCode rt_cli_ranks_same(const RtCli *c, const RtData *data);
/* What `plan` says of a program that processes share; nothing for one process. */
RtCode rt_cli_plan_ranks(const RtCli *c, const RtExec *e, bool json);
/* RANKS_REFUSED: a flag or a command that is for one process. */
RtCode rt_cli_ranks_refuse(const RtCli *c);
/* `plan --transport sim`: all ranks in this process, and how long their programs would take. */
bool rt_cli_is_sim(const RtCli *c);
RtCode rt_cli_sim(RtCli *c);
/* A number of each process; on rank 0 their least, sum and most. */
RtCode rt_cli_ranks_gather(const RtCli *c, int64_t mine, int64_t *least, int64_t *sum, int64_t *most);
void rt_cli_memory_add(RtCliMemory *t, const RtExec *e);
RtCode rt_cli_plan_memory(const RtCli *c, const RtSession *s, const RtCliMemory *t, bool json);
bool rt_cli_writes(const RtCli *c); /* this process writes the files of the run */
void rt_cli_ranks_close(RtCli *c, RtCode code);

RtCode rt_cli_train(RtCli *c);
RtCode rt_cli_infer(RtCli *c);
RtCode rt_cli_eval(RtCli *c);
RtCode rt_cli_bench(RtCli *c);
RtCode rt_cli_info(RtCli *c);
RtCode rt_cli_plan(RtCli *c);
