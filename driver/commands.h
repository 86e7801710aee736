/* The commands of gnnc, one file each. Each returns the process's exit code; diagnostics are printed by main. */
#pragma once
#include "driver/options.h"
#include "frontend/frontend.h"
#include <sys/stat.h>

typedef struct Session {
    const char *command; /* as it was typed */
    Arena *arena;        /* lives as long as the process */
    Diags diags;
    Options opt;
    bool printed_json;                  /* on standard output: no list of diagnostics belongs behind it */
    int64_t n_nodes, n_edges, n_graphs; /* of --data; no nodes, and -1 edges: not known */
    VEC(struct FileId {
        dev_t device;
        ino_t inode;
    })
    read;                      /* by the command so far */
    VEC(const char *) written; /* what it will write */
} Session;

int cmd_build(Session *s);
int cmd_check(Session *s);
int cmd_ir(Session *s);
int cmd_fmt(Session *s);
int cmd_test(Session *s);
int cmd_explain(Session *s);
int cmd_doc(Session *s);
int cmd_data(Session *s);
int cmd_machine(Session *s);

/* Reads a source file; NULL with E0601. "-" is standard input, "" what session_one_file gave is empty. */
const Source *session_source(Session *s, const char *path);
/* Notes that the command reads this file. */
void session_reads(Session *s, const char *path);
/* Whether path may be written: false with E0620 if it names, by whatever links, a file that the command reads, or by
   another name one that this was asked of before. */
bool session_spares(Session *s, const char *path);
/* The one file name the command wants; NULL with E0613. "" without a file but with --export: the standard library
   alone. */
const char *session_one_file(Session *s, const char *what);
/* --data, --set, --dtype, --export as options of the front end. False with diagnostics. */
bool session_frontend_options(Session *s, FrontendOptions *fo);
/* The kind of kernels (runtime/abi.h) that this machine is taken for: its own, at most GNNC_CPU. False with E0612. */
bool session_native_cpu(Session *s, int *variant);
/* Rows of each space of m [spaces], as headers and meta.json of the folder or archive say: those of nodes that lists of
   edges join, and of edges that are in an array, at most; -1: they do not say. NULL with diagnostics. */
int64_t *facts_rows(Session *s, const IrModule *m, const char *dir);
/* Facts of a data directory. False with E0614. */
bool facts_read(Session *s, const char *dir, FrontendOptions *fo);
