/* Zip archives as numpy.savez writes them (.npz): members stored or deflated, zip64 where they are
   large. The archive is read whole; members are unpacked on demand, never to more than their own
   header could truthfully ask for. */
#pragma once
#include "runtime/array.h"

typedef struct RtZip {
    char path[4096];
    RtBlock file;
    const unsigned char *directory; /* central directory, inside file */
    size_t directory_bytes;
    int64_t n_members;
} RtZip;

/* Reads the archive and checks its directory. *z is empty on failure. */
RtCode rt_zip_open(const char *path, RtZip *z, RtStatus *st);
void rt_zip_close(RtZip *z);
/* Whether there is a member NAME.npy. */
bool rt_zip_has(const RtZip *z, const char *name);
/* The array in member NAME.npy; `place` is what errors call it. FILE_OPEN if absent. */
RtCode rt_zip_read(const RtZip *z, const char *name, const char *place, RtArray *a, RtStatus *st);
