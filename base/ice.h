/* Internal compiler errors: a broken invariant, never a user's mistake. */
#pragma once

/* Prints where the invariant broke and how to replay, then exits with code 70. Does not return. */
_Noreturn void ice_fail(const char *file, int line, const char *what);

#define ICE_UNLESS(cond) ((cond) ? (void)0 : ice_fail(__FILE__, __LINE__, #cond))
#define ICE(what)        ice_fail(__FILE__, __LINE__, (what))
