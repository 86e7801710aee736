/* From a host plan to files: tables, objects, executables, libraries, headers, readable C. Emitters
   spell what the plan and its kernels say and decide nothing. The same input gives the same bytes
   in any folder, on any machine. */
#pragma once
#include "base/diag.h"
#include "codegen/code_cache.h"
#include "codegen/nvrtc.h"
#include "ir/plan.h"
#include "runtime/abi.h"

typedef struct CudaCode { /* a plan's kernels for GPUs (cuda_code.c) */
    struct CudaArch {
        const char *name; /* "sm_90" */
        NvrtcCode code;   /* bytes NULL: not asked for */
    } * archs;
    uint32_t n;
    NvrtcCode ptx;      /* for the oldest of them, and all that are newer; bytes NULL: not asked for */
    const char *oldest; /* "sm_80"; NULL: nothing was compiled */
} CudaCode;

typedef struct CodegenDevice {     /* what an executable for GPUs holds beside its kernels for CPUs */
    const HostPlan *plan;          /* what runs there: the CPU's own, or another one of the same module and forms */
    const CudaCode *code;          /* with all that was asked for; NULL: none */
    const RtDeviceKernel *kernels; /* [plan_n_kernels], but for their names */
    const char *const *names;      /* [plan_n_kernels]; NULL: of CPUs alone */
    RtDeviceRates rates;           /* from which times are predicted */
    const char *shim; /* C++ text with the function `shim_launch`, an RtShimFn, to be linked with; NULL: none */
} CodegenDevice;

typedef struct CodegenMachine { /* for the manifest */
    const char *name, *digest;  /* of its numbers; name NULL: not said */
} CodegenMachine;

typedef struct CodegenOptions {
    const char *name;                       /* a C identifier: the model's name and what exported symbols begin with */
    const char *version;                    /* of the compiler, for the manifest */
    CodegenMachine machine, device_machine; /* that plans for CPUs and for GPUs are made for */
    unsigned variants;                      /* bits 1 << RT_GENERIC ...; 0: all */
    const CodegenDevice *device;            /* NULL: for CPUs alone */
    const CudaCode *cuda;                   /* for the manifest of a build for GPUs; or NULL */
    bool time;                              /* print a line per LLVM stage to stderr */
    bool quick; /* kernels for CPUs and for the shim are hardly optimised: built sooner, slower to run */
} CodegenOptions;
unsigned codegen_variants(const CodegenOptions *o); /* the set in force, never empty */

/* ---- tables (tables.c): the plan as the runtime reads it --------------------------------------------------------- */
typedef enum { TABLE_INT, TABLE_STRING, TABLE_DOUBLE, TABLE_STRUCT } TableKind;
typedef struct TableField { /* of a struct of runtime/abi.h; all are 8-byte cells */
    const char *name;
    TableKind kind;
    size_t offset;
    unsigned n;                   /* array length, 1 for a plain field */
    const struct TableType *type; /* TABLE_STRUCT */
} TableField;
typedef struct TableType {
    const char *name; /* "RtStep" */
    size_t bytes;
    const TableField *fields;
    unsigned n_fields;
} TableType;
typedef struct Table {
    const char *field; /* of RtModel: "steps" */
    const TableType *type;
    const void *rows;
    uint32_t n;
} Table;
enum { N_TABLES = 23 };
typedef struct ModelTables {
    RtModel model; /* complete but for `kernels`, `shim`, `driver` and `device`: a test may fill them in and run it */
    const struct ModelTables *device; /* of the plan for devices: itself where one plan serves both; NULL: none */
    Table tables[N_TABLES];           /* in the order of RtModel's pointers after `strings` */
    const char *strings;
    size_t n_strings; /* bytes, the last NUL included */
    const char *device_code;
    size_t n_device_code;
} ModelTables;
const ModelTables *tables_build(const HostPlan *plan, const CodegenOptions *o, Arena *a);
/* What a program needs to know of the model without running it, as JSON. */
void emit_manifest(const HostPlan *plan, const CodegenOptions *o, StrBuf *out);

/* ---- text -------------------------------------------------------------------------------------------------------- */
/* One C11 file: kernels, tables as named initialisers, main. Links with libgnnrt.a like an object. */
void emit_c(const HostPlan *plan, const CodegenOptions *o, StrBuf *out);
/* One CUDA file: the kernels alone (codegen/emit_cuda.h). */
void emit_cuda(const HostPlan *plan, const CodegenOptions *o, StrBuf *out);
/* <name>.h: the C ABI of the library form, C99 and C++17. The functions of runtime/gnnrt.h under
 * the model's prefix. */
void emit_header(const HostPlan *plan, const CodegenOptions *o, StrBuf *out);
/* LLVM assembly after the middle end (before it with `quick`), all variants. */
void emit_ll(const HostPlan *plan, const CodegenOptions *o, Arena *a, StrBuf *out);

/* Compiles the kernels to machine code for each of cuda->archs (if `cubin`) and to PTX (if `ptx`); pieces that the
   cache holds are taken from there. False with E0634 or E0635. */
bool cuda_compile(const HostPlan *plan, const CodegenOptions *o, CudaCode *cuda, bool cubin, bool ptx, CodeCache *cache,
                  Arena *a, Diags *d);
/* How kernels are started, with the code (NULL: none) or with the text that the shim runs. */
const CodegenDevice *cuda_device(const HostPlan *plan, const CudaCode *code, bool shim, RtDeviceRates rates, Arena *a);
/* Writes the manifest's list of kernels: how each is started, its parameters, its registers and spilled bytes on each
   GPU that it was compiled for. */
void cuda_manifest(const HostPlan *plan, const CudaCode *cuda, StrBuf *out);

/* ---- files (link.c). False with diagnostics; what stood at `out` before is unchanged then. ----------------------- */
bool build_object(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a,
                  Diags *d); /* exports <name>_tables */
bool build_exe(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a, Diags *d);
/* <out>.a and <out>.so: both export <name>_* only. */
bool build_lib(const HostPlan *plan, const CodegenOptions *o, const char *out, Arena *a, Diags *d);
