/* MPI as a transport is not built: asking for it is refused. */
#include "runtime/peers_transport.h"
#include <stdlib.h>
bool rt_peers_mpi_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMI_RANK") || getenv("PMIX_RANK");
}
RtCode rt_peers_mpi_open(double deadline_s, RtTransport **t, RtStatus *st)
{
    (void)deadline_s;
    *t = NULL;
    return rt_fail(st, RT_E_PEERS_OPEN, "mpi", NULL, "MPI is not built into this program");
}
