/* fallback: the thread that works while the loop waits for the disk. */
#include "fallback.h"
#include "alloc.h"
#include "clock.h"
#include "log.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_MS = 250 }; /* between two looks at whether the loop waits */

struct fallback {
    void (*run)(void *arg);
    void *arg;
    int patience_ms, every_ms;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, and held while it runs */
    pthread_cond_t wake;
    int64_t since_ms; /* mono: the loop waits since then; 0: it does not */
    bool stop;
};

static void *fallback_main(void *arg)
{
    struct fallback *s = arg;
    struct timespec until;
    bool due;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        due = s->since_ms && mono_ms() - s->since_ms >= s->patience_ms;
        if (due)
            s->run(s->arg);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(due ? s->every_ms : LOOK_MS) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct fallback *fallback_open(void (*run)(void *arg), void *arg,
                               int patience_ms, int every_ms)
{
    struct fallback *s = gr_alloc(sizeof *s);
    pthread_condattr_t monotonic;

    s->run = run;
    s->arg = arg;
    s->patience_ms = patience_ms;
    s->every_ms = every_ms;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&s->thread, NULL, fallback_main, s) != 0)
        die(EXIT_UNAVAILABLE, "can't start a thread");
    return s;
}

void fallback_close(struct fallback *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    free(s);
}

void fallback_begin(struct fallback *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->since_ms = mono_ms();
    pthread_mutex_unlock(&s->lock);
}

void fallback_end(struct fallback *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->since_ms = 0;
    pthread_mutex_unlock(&s->lock);
}
