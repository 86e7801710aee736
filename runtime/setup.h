/* Held tensors: what programs read and what does not change while the process runs. Setup programs, those that
   write held tensors, compute them once. */
#pragma once
#include "runtime/exec.h"
#include "runtime/tensors.h"

/* Whether a list of programs (names, separated by blanks; NULL: all) has this one. */
bool rt_program_is_listed(const RtModel *m, const char *programs, int64_t program);
/* Whether one of the listed programs (names, separated by blanks; NULL: all), or a setup program that one of them
   needs, takes the tensor. */
bool rt_programs_take(const RtModel *m, const char *programs, int64_t tensor);
/* Whether a listed program reads a held tensor that this one writes. */
bool rt_setup_is_needed(const RtModel *m, const char *programs, int64_t program);
/* Allocates the held tensors that the listed programs read, and runs the programs that compute them, on this CPU. Their
   inputs are loaded. */
RtCode rt_setup_run(const RtModel *m, const RtGraph *g, RtTensors *t, const RtExecOptions *o, const char *programs,
                    RtStatus *st);
/* Whether the tensor is an input that the listed programs do not take, but only setup programs that they need. */
bool rt_setup_alone_takes(const RtModel *m, const char *programs, int64_t tensor);
/* Frees these inputs once the setup programs have run; blames: unless some of what these made is not finite, as then it
   will be looked for where a NaN comes from, which several processes do not. */
void rt_setup_release(const RtModel *m, RtTensors *t, const char *programs, bool blames);
/* Runs them again: the first step that leaves a NaN in one of its buffers, or NULL. */
const RtStep *rt_setup_until_nan(const RtModel *m, const RtGraph *g, RtTensors *t, const RtExecOptions *o,
                                 const char *programs);
/* The most planned memory that the listed programs and the setup programs they need hold at a time: held tensors, and
   the arena of one of them, *program. */
RtCode rt_planned_bytes(const RtModel *m, const RtGraph *g, const RtGraph *step, const char *programs, int64_t *bytes,
                        int64_t *program, RtStatus *st);
/* Bytes of the held tensors that a program reads. */
int64_t rt_held_bytes(const RtModel *m, const RtGraph *g, int64_t program);
