/* rejects: requests that were refused: counted by source and reason, and the
 * last thousand of each source kept without their bodies, over restarts too.
 *
 * They are gathered in memory and written about once a second, so that a flood
 * of them costs a bounded number of rows, and no commit of its own. A kill -9
 * costs those of the last second, and a full disk those of its turns; the
 * counters and the log have them. */
#ifndef INGRESS_REJECTS_H
#define INGRESS_REJECTS_H

#include "http.h"
#include <jansson.h>

struct ingress;
struct rejects_of; /* one source */

struct rejects {
    struct rejects_of *sources;
    int64_t since_ms; /* mono: the oldest that is not written; 0: none */
};

void rejects_note(struct rejects *j, struct ingress *g, const struct request *r,
                  enum answer a);
/* Inside the transaction: write what is due, a bounded number of rows. Returns
 * ms until it wants to be called again, -1 for never. */
int rejects_work(struct rejects *j, struct ingress *g, bool now);
/* After a rolled back turn. */
void rejects_undo(struct rejects *j);
void rejects_fini(struct rejects *j);

/* The control request. */
json_t *rejects_show(void *self, json_t *args, char why[200]);

#endif
