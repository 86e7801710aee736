/* audit: whether a finished plan computes what the function says. See audit.c. */
#pragma once
#include "ir/eval.h"
#include "ir/plan.h"
#include "passes/plan/planning.h"

/* What the audit keeps must not grow with the sizes of dims: elements of one buffer, rows of one space, and all of a
   program. Where there are more, what they belong to is taken to be right. */
enum { AUDIT_MOST_ELEMENTS = 4 << 20, AUDIT_MOST_ALL = 12 << 20 };

enum { AUDIT_PARTS = PLAN_N_VARIANTS, AUDIT_KERNELS }; /* of a step: the variants, and the kernel for parts of rows */

/* One program under audit. */
typedef struct Audit {
    Arena *arena;
    const HostPlan *plan;
    const PlanProgram *p;
    const FusedFunc *f;
    const uint32_t *buffer_of; /* where the plan says that a stored value lies; UINT32_MAX: nowhere */
    bool *wants;               /* by buffer: accesses of some step depend on its numbers */
    uint8_t **how;             /* [steps][AUDIT_KERNELS] what of a kernel runs (kir_watch_plan) */
    const char *why;           /* the first thing that is wrong, or NULL */
    IrValues *reads;           /* by group: arguments, and values that other groups store */
    IrValues *stores;          /* by group */
} Audit;

/* Notes what is wrong with step s, unless something was before. False. */
bool audit_fail(Audit *x, uint32_t s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *audit_buffer(const Audit *x, uint32_t b); /* its kind and name */
/* The steps that run together with step s: [*first, *last]. */
void audit_chain(const PlanProgram *p, uint32_t s, uint32_t *first, uint32_t *last);

/* ---- a small graph (audit_world.c) ---- */
typedef struct AuditWorld {
    const IrModule *m;
    EvalWorld *w;
    int64_t **rows; /* by map: offsets [count(to) + 1], or NULL where it is computed */
    /* by map: [count(from)] the elements, those of one image together, in the user's order; NULL as above */
    int32_t **list;
    bool *wanted;   /* by tensor: accesses depend on its numbers */
    void **tensors; /* those, and NULL */
} AuditWorld;
/* With so many nodes, or fewer where graphs of pairs would be large. False: edges of the module's
 * graphs lie in files, or a dim whose places are rows is too large. */
bool audit_world(Arena *a, const HostPlan *plan, int64_t nodes, AuditWorld *out);
int64_t audit_count(const AuditWorld *w, const PlanCount *c);
/* The elements of a buffer that has rows; INT64_MAX where that is more than can be counted. */
int64_t audit_elements(const AuditWorld *w, const PlanBuffer *b);
/* What accesses may depend on: an array of a map, an input, ...; NULL for planned memory, what
 * nobody wants and what is too large. */
void *audit_data(Arena *a, AuditWorld *w, const PlanBuffer *b);

/* ---- kernels on that graph (audit_run.c) ---- */
/* Finds out whose numbers accesses depend on. True where it found another of w->wanted. */
bool audit_wants(Audit *x, AuditWorld *w);
/* Runs every kernel for where it reads and writes. */
void audit_run(Audit *x, AuditWorld *w);
/* Runs what threads compute of a long row together, and what one computes (audit_split.c). seen: by kernel for parts of
   rows. */
void audit_split(Audit *x, AuditWorld *w, bool *seen);
/* Follows what is left out (audit_cone.c). */
void audit_cone(Audit *x, const AuditWorld *w);
