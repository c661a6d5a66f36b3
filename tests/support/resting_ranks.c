/* Preloaded into ranks: one that polls and finds nothing sleeps for a moment. Open MPI would yield its
 * core, which it has again at once while none of the others waits for it, and MPICH over UCX not
 * even that. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned progress(void *worker);

int sched_yield(void) {
    static const struct timespec moment = {.tv_sec = 0, .tv_nsec = 50000};
    nanosleep(&moment, NULL); /* A signal may end it early. */
    return 0;
}

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
