/* processor: reads how long a thread ran, and how long it waited for a processor. */
#include "processor.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LOOK_MS = 100,
    /* It is contended from a third on, and until it is less than a sixth. */
    ON_PART = 3,
    OFF_PART = 6,
};

void processor_judge(struct processor *p, int64_t ran_ns, int64_t waited_ns,
                     int64_t passed_ms)
{
    int64_t ran = ran_ns - p->ran_ns, waited = waited_ns - p->waited_ns;

    p->contended = waited * (p->contended ? OFF_PART : ON_PART) > ran;
    p->waited_percent = passed_ms > 0 ? (int)(waited / (10 * 1000 * passed_ms))
                                      : 0;
    p->ran_ns = ran_ns;
    p->waited_ns = waited_ns;
}

/* "RAN WAITED SLICES", the first two in ns (Documentation/scheduler/sched-stats.rst of the kernel). */
static bool ask(int64_t *ran_ns, int64_t *waited_ns)
{
    char text[80], *end;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    *ran_ns = strtoll(text, &end, 10);
    *waited_ns = strtoll(end, NULL, 10);
    return *end == ' ';
}

bool processor_look(struct processor *p, int64_t mono_ms)
{
    int64_t ran_ns, waited_ns;

    if (p->looked_ms && mono_ms - p->looked_ms < LOOK_MS)
        return p->contended;
    p->looked_ms = mono_ms;
    if (ask(&ran_ns, &waited_ns)) {
        processor_judge(p, ran_ns, waited_ns, mono_ms - p->told_ms);
        p->told_ms = mono_ms;
    } else {
        p->contended = false;
        p->waited_percent = 0;
    }
    return p->contended;
}
