/* rejects: requests that were refused: counted by source and reason, and the
 * last thousand of each source kept, over restarts too. Their bodies, where they
 * had come whole, for a day, and 64 MiB at most in all: past it the source that
 * has most gives its oldest, so that a flood of one does not take another's.
 *
 * They are collected in memory and written about once a second, so that a flood
 * of them costs a bounded number of rows, and no commit of its own. A kill -9
 * costs those of the last second, and a full disk those of its turns; the
 * counters and the log have them. */
#ifndef INGRESS_REJECTS_H
#define INGRESS_REJECTS_H

#include "http.h"
#include "store.h"
#include <jansson.h>

struct ingress;
struct rejects_of; /* one source */

struct rejects {
    struct rejects_of *sources;
    int64_t since_ms; /* mono: the oldest that is not written; 0: none */
    bool counted;     /* the bodies that are kept, since the start */
    int64_t kept_bytes, waiting_bytes; /* of bodies: in the table, in memory */
    int64_t purged_ms;                 /* mono: when old ones went last */
};

void rejects_note(struct rejects *j, struct ingress *g, const struct request *r,
                  enum response a);
/* Inside the transaction: write what is due, a bounded number of rows. Returns
 * ms until it must be called again, -1 for never. */
int rejects_work(struct rejects *j, struct ingress *g, bool now);
/* After a rolled back turn. */
void rejects_undo(struct rejects *j);
void rejects_fini(struct rejects *j);

/* For the control requests: write all that wait, if there is space. */
void rejects_write_all(struct rejects *j, struct ingress *g);
/* One of them, without its body. The caller's. */
json_t *rejects_json(struct ingress *g, const struct reject_row *row);

/* The control request. */
json_t *rejects_show(void *self, json_t *args, char why[200]);

#endif
