/* worker: a thread that waits for its next run. */
#include "worker.h"
#include "alloc.h"
#include "log.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct worker {
    void (*run)(void *arg); /* NULL: stop; written before `begun` is posted */
    void *arg;
    pthread_t thread;
    sem_t begun;
    int ended_fd;
};

static void wait_begun(struct worker *w)
{
    while (sem_wait(&w->begun) != 0)
        ; /* a signal interrupted it */
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    const uint64_t one = 1;

    for (wait_begun(w); w->run; wait_begun(w)) {
        w->run(w->arg);
        if (write(w->ended_fd, &one, sizeof one) != sizeof one)
            die(EXIT_UNAVAILABLE, "eventfd: %s", strerror(errno));
    }
    return NULL;
}

struct worker *worker_try_open(void (*run)(void *arg), void *arg)
{
    struct worker *w = gr_alloc(sizeof *w);
    int rc;

    w->run = run;
    w->arg = arg;
    sem_init(&w->begun, 0, 0);
    w->ended_fd = eventfd(0, EFD_CLOEXEC);
    rc = w->ended_fd < 0 ? errno
                         : pthread_create(&w->thread, NULL, worker_main, w);
    if (rc == 0)
        return w;
    if (w->ended_fd >= 0)
        close(w->ended_fd);
    sem_destroy(&w->begun);
    free(w);
    errno = rc;
    return NULL;
}

struct worker *worker_open(void (*run)(void *arg), void *arg)
{
    struct worker *w = worker_try_open(run, arg);

    if (!w)
        die(EXIT_UNAVAILABLE, "can't start a thread: %s", strerror(errno));
    return w;
}

void worker_close(struct worker *w)
{
    if (!w)
        return;
    w->run = NULL;
    sem_post(&w->begun);
    pthread_join(w->thread, NULL);
    sem_destroy(&w->begun);
    close(w->ended_fd);
    free(w);
}

void worker_begin(struct worker *w)
{
    sem_post(&w->begun);
}

int worker_fd(const struct worker *w)
{
    return w->ended_fd;
}

void worker_end(struct worker *w)
{
    uint64_t times;

    while (read(w->ended_fd, &times, sizeof times) != sizeof times)
        if (errno != EINTR)
            die(EXIT_UNAVAILABLE, "eventfd: %s", strerror(errno));
}
