/* ingress: the state of this process, for this folder only. */
#ifndef INGRESS_INGRESS_H
#define INGRESS_INGRESS_H

#include "admission.h"
#include "archive.h"
#include "counts.h"
#include "daemon.h"
#include "http.h"
#include "intake_rate.h"
#include "last_events.h"
#include "rejects.h"
#include "request_intake.h"

extern const struct db_schema ingress_schema;

struct ingress {
    struct archive archive; /* first: commands of archive.h get it */
    struct daemon daemon;
    struct http *http;
    struct http_bounds bounds;
    struct intake intake;
    struct intake_rate intake_rate;
    int http_watch;       /* index of http's socket in the loop */
    int64_t rate_said_ms; /* mono: last log line about it; 0: none */
    struct admission admission;
    struct rejects rejects;
    struct last_events last_events;
    struct event_types *event_types;
    int64_t stall_ms;   /* a write that takes so long stalls */
    int64_t stalled_ms; /* mono: a write has not ended since; 0: no stall */
    bool
        stalled_by_engine; /* it waits for the replication database, not the disk */
    int64_t stopping_ms; /* mono: when ingress began to stop; 0: it runs */
    int64_t counts[COUNT_COUNT];
};

extern const struct daemon_plan ingress_plan; /* `self` is not filled in */

/* turn.c: the callbacks of this process (daemon.h) */
void ingress_open(void *self);
void ingress_frame(void *self, int kind, struct bytes frame);
int ingress_work(void *self);
void ingress_after_commit(void *self);
void ingress_meanwhile(void *self);
void ingress_undo(void *self);
void ingress_reload(void *self, struct settings *fresh);
bool ingress_stopped(void *self);
void ingress_close(void *self);
void ingress_measure(void *self);
const char *ingress_state(void *self, bool *ready);
bool ingress_load(void *self, const char *peer, uint64_t n, int kind,
                  int64_t ref, struct buf *out);

#endif
