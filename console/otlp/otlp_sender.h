/* otlp_sender: sends one request at a time to the receiver of OTLP, and again after a failure that may
 * pass. For otlp.c only; never waits. */
#ifndef CONSOLE_OTLP_SENDER_H
#define CONSOLE_OTLP_SENDER_H

#include "settings.h"
#include <stdbool.h>

struct otlp_sender;

enum otlp_end {
    OTLP_IDLE,
    OTLP_BUSY,    /* it is being sent, or waits for the next try */
    OTLP_SENT,    /* `rejected` of its items were refused by the receiver */
    OTLP_REFUSED, /* sending it again is useless */
};

/* `path` is appended to telemetry.url. */
struct otlp_sender *otlp_sender_open(const char *path);
void otlp_sender_close(struct otlp_sender *s);

/* The request; the sender owns `body` from now on. It must be idle. */
void otlp_sender_begin(struct otlp_sender *s, char *body);
/* Drops it. */
void otlp_sender_cancel(struct otlp_sender *s);
/* Reads, writes, tries again. OTLP_SENT and OTLP_REFUSED are returned once; then it is idle. `*wait_ms`
 * becomes smaller if it has to be called earlier, `*failed` counts tries that failed. */
enum otlp_end otlp_sender_run(struct otlp_sender *s, const struct settings *all,
                              int64_t mono_ms, int *wait_ms, int64_t *failed,
                              int64_t *rejected);

#endif
