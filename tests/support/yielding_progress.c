/* Preloaded into ranks of an MPICH over UCX: a rank that polls and finds nothing gives its core to
 * another. Open MPI does so by itself where ranks are more than cores; MPICH has no such setting. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

typedef unsigned progress(void *worker);

unsigned ucp_worker_progress(void *worker) {
    static progress *polled;
    if (polled == NULL) {
        /* Not RTLD_NEXT: mpi4py loads the library for itself alone. */
        void *library = dlopen("libucp.so.0", RTLD_LAZY);
        if (library == NULL)
            abort(); /* Without a library this function would be found, and call itself. */
        polled = (progress *)dlsym(library, "ucp_worker_progress");
    }
    unsigned done = polled(worker);
    if (done == 0)
        sched_yield();
    return done;
}
