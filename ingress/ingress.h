/* ingress: what this process is made of; shared by this folder only. */
#ifndef INGRESS_INGRESS_H
#define INGRESS_INGRESS_H

#include "counts.h"
#include "daemon.h"
#include "door.h"
#include "http.h"
#include "intake.h"
#include "pace.h"
#include "rejects.h"
#include "room.h"
#include "store.h"
#include "ulid.h"

#define SEQUENCER "sequencer" /* to whom events are handed on */

enum { KIND_ARCHIVED = 1 }; /* of our rows on the hop */

struct ingress {
    struct daemon daemon;
    struct store store;
    struct http *http;
    struct http_bounds bounds;
    struct intake intake;
    struct room room;
    struct pace pace;
    int http_watch;       /* of the loop */
    int64_t pace_said_ms; /* mono: last line of the log about it; 0 */
    struct door door;
    struct rejects rejects;
    struct ulid ids;
    struct { /* the sequencer's question that is to be answered; run 0: none */
        char inbox[INBOX_MAX_BYTES + 1];
        uint64_t run;
        int64_t stamp_ms;
        uint64_t next; /* the answer; 0: what was received is not stored yet */
        bool fresh;    /* it came in this turn */
    } sounding;
    int64_t stall_ms;    /* so long a write may take before the disk stalls */
    int64_t stalled_ms;  /* mono: the disk has not ended a write since; 0 */
    int64_t stopping_ms; /* mono: when we began to stop; 0 */
    int64_t counts[COUNT_COUNT];
};

extern const struct daemon_plan ingress_plan; /* self is to be filled in */

#endif
