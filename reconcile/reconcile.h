/* reconcile: the state of this process, for this folder only. */
#ifndef RECONCILE_RECONCILE_H
#define RECONCILE_RECONCILE_H

#include "archive.h"
#include "counts.h"
#include "daemon.h"
#include "walk_store.h"
#include "walks.h"

extern const struct db_schema reconcile_schema;

struct reconciler {
    struct archive archive; /* first: commands of archive.h get it */
    struct daemon daemon;
    struct walk_store rows;
    struct walks walks;
    struct buf headers, message; /* of the event that is being stored */
    int64_t stopping_ms;         /* mono: when it began to stop; 0: it runs */
    int64_t counts[COUNT_COUNT];
};

/* turn.c: the callbacks of this process (daemon.h) */
void reconcile_open(void *self);
void reconcile_frame(void *self, int kind, struct bytes frame);
int reconcile_work(void *self);
void reconcile_after_commit(void *self);
void reconcile_undo(void *self);
bool reconcile_stopped(void *self);
void reconcile_close(void *self);
void reconcile_measure(void *self);
void reconcile_erase(void *self, struct erase_step *s);
const char *reconcile_state(void *self, bool *ready);
bool reconcile_load(void *self, const char *peer, uint64_t n, int kind,
                    int64_t ref, struct buf *out);

#endif
