/* From a .gnn file to graph IR: lexing (flex), parsing (bison), elaboration (types, domains, dims, static
   arguments, modes), standard library. */
#pragma once
#include "base/diag.h"
#include "ir/graph.h"

/* What is known of a data directory's tensor before elaboration (from file headers and meta.json). */
typedef struct FrontendFact {
    const char *name; /* file stem: "x", "y", "train_mask", "edge_attr" */
    const char *rows; /* "node", "edge", "graph", "src", "dst" or NULL when unknown */
    IrDtype dtype;
    int64_t count;  /* rows */
    uint8_t n_dims; /* feature dims, without the rows */
    int64_t dims[IR_MAX_DIMS];
    int64_t classes;    /* integer vectors: number of classes (values in [0, classes)); 0 unknown */
    bool allow_missing; /* -1 stands for "no label" */
    bool sparse;        /* held as a CSR matrix */
} FrontendFact;

/* Which types a relation joins, as the data directory's meta.json says. */
typedef struct FrontendEnds {
    const char *relation, *from, *to;
} FrontendEnds;

/* The standard library, parsed once for many compiles; it must outlive them. */
typedef struct FrontendStd FrontendStd;
FrontendStd *frontend_std_new(Arena *a);

typedef struct FrontendOptions {
    const FrontendStd *std;    /* or NULL: parsed by each compile */
    const FrontendFact *facts; /* --data DIR; n_facts 0 without it */
    uint32_t n_facts;
    const FrontendEnds *ends; /* of relations that the data name */
    uint32_t n_ends;
    IrDtype float_dtype;          /* IR_F32 (default, 0) or IR_F64 */
    const char *const *set_names; /* --set F=1433: free dims and hypers by name */
    const double *set_values;     /* dims: a positive integer */
    uint32_t n_set;
    bool symbolic;      /* `gnnc check`: dims may stay unknown; the module must not be lowered */
    bool tests_only;    /* `gnnc test`: only "test.N" functions; free dims of the model may stay unknown */
    bool joint;         /* --vjp=joint: "vjp" gives the results of "forward" in their places, then the gradients */
    bool without_tests; /* `gnnc build`: tests are checked and leave nothing in the module */
    bool train_mode;    /* --mode=train: "forward" and "vjp" are the layer in train mode */
    const char *export_layer; /* --export=LAYER: "forward" and "vjp" are of this layer, not of the model */
} FrontendOptions;

/* Elaborates everything in src: "forward" (eval mode unless train_mode) and "vjp" (a scalar of result times cotangent
   and one `grad` per float input and parameter) of the model, "train_step" and "metrics" where a train block is
   there, "test.N" for each test. Ops `grad` are still in it: pass autodiff removes them. Definitions that
   nobody calls are checked too. Returns NULL if errors were added to d. */
IrModule *frontend_compile(Arena *a, const Source *src, const FrontendOptions *opt, Diags *d);

/* Names of free dims that need a value (from --data or --set) before IR can be built; for messages. */
typedef VEC(const char *) FrontendNames;

/* `gnnc fmt`: the canonical layout of src; comments kept; idempotent. NULL with errors in d. */
const char *frontend_format(Arena *a, const Source *src, Diags *d);
