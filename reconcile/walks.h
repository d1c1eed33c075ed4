/* walks: reads the list of each source with `reconcile`, and stores the events that never arrived.
 *
 *   IDLE ──▶ LISTING ──▶ ASKING ──▶ (FETCHING ──▶ …) ──▶ IDLE, PAUSING ──▶ LISTING
 *
 * A run reads pages until the walk is complete or the run's bounds are reached. Each page is read by a thread
 * (http_get.h); the sequencer is asked which of its events it has never had; those are stored, and the
 * position of the next page with them, in one transaction. What a crash interrupts is read again, and what was
 * stored already is recognised by its id, which is made of the source and the provider's id. */
#ifndef RECONCILE_WALKS_H
#define RECONCILE_WALKS_H

#include "rc.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reconciler;
struct walk;

struct walks {
    struct walk *items;
    size_t count;
    int64_t looked_ms; /* mono: for the file of a restore */
    bool took_file;    /* it is deleted after this turn's commit */
};

/* At a start: a thread for each source that has `reconcile`. A source that gets it later is read from the next
 * start on; other settings take effect at the next page. */
void walks_open(struct reconciler *r);
void walks_close(struct reconciler *r);
/* Inside the transaction. Returns ms until it must be called again. */
int walks_work(struct reconciler *r);
void walks_after_commit(struct reconciler *r);
/* After a rollback: what was read is read again. */
void walks_undo(struct reconciler *r);
/* While stopping: whether no request is under way. */
bool walks_idle(struct reconciler *r);
/* Whether the last run of each source succeeded, or none was tried. */
bool walks_good(const struct reconciler *r);
void walks_measure(struct reconciler *r);
/* The commands `reconciled` and `reconcile`. */
json_t *walks_status(void *self, json_t *args, char why[200]);
json_t *walks_begin(void *self, json_t *args, char why[200]);

#endif
