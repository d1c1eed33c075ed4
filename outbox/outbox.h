/* outbox: the state of this process, for this folder only. */
#ifndef OUTBOX_OUTBOX_H
#define OUTBOX_OUTBOX_H

#include "archive.h"
#include "counts.h"
#include "daemon.h"
#include "outcomes.h"
#include "relay.h"

extern const struct db_schema outbox_schema;

struct outbox {
    struct archive archive; /* first: commands of archive.h get it */
    struct daemon daemon;
    struct relays relays;
    struct outcomes outcomes;
    struct buf body, headers, message; /* of the row that is being stored */
    int64_t stopping_ms; /* mono: when it began to stop; 0: it runs */
    int64_t counts[COUNT_COUNT];
};

/* turn.c: the callbacks of this process (daemon.h) */
void outbox_open(void *self);
void outbox_frame(void *self, int kind, struct bytes frame);
int outbox_work(void *self);
void outbox_after_commit(void *self);
void outbox_undo(void *self);
bool outbox_stopped(void *self);
void outbox_close(void *self);
void outbox_measure(void *self);
void outbox_erase(void *self, struct erase_step *s);
const char *outbox_state(void *self, bool *ready);
bool outbox_load(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out);

#endif
