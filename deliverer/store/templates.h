/* templates: what the requests of delivered attempts have in common, kept once: method,
 * URL, the names of the headers in their order, and the values that are always the same
 * (sent.h). The other values are those of the event and of the attempt's row, so that
 * what was sent can be told later, though an attempt costs only a number.
 *
 * A kind of request is known by a key: the endpoint's configuration, the source, the
 * names of the event's headers, and which of our own are there. There are few; names
 * are strangers' to choose, so beyond TEMPLATES_MAX no more are kept.
 *
 * New rows are in the turn's transaction; after a rolled back turn call
 * templates_undo(). */
#ifndef DELIVERER_TEMPLATES_H
#define DELIVERER_TEMPLATES_H

#include "transfer.h"

enum { TEMPLATES_MAX = 1024, TEMPLATE_SLOTS = 256 };

struct deliverer;
struct template;

struct template_slot {
    char *key;
    size_t n;
    size_t at; /* in `all` */
};

struct templates {
    struct template *all;
    size_t count;
    struct template_slot
        slots[TEMPLATE_SLOTS]; /* by the key's hash; the last */
};

void templates_open(struct deliverer *d);
void templates_close(struct deliverer *d);
void templates_undo(struct deliverer *d);
/* Inside of the transaction: the template of this transfer's request; 0: none can be
 * kept. */
int64_t templates_note(struct deliverer *d, const struct transfer *f);
/* Packed; empty: there is none. */
struct bytes templates_find(const struct deliverer *d, int64_t id);
/* Forget what no attempt after `before_ms` was made of. */
void templates_purge(struct deliverer *d, int64_t before_ms);

#endif
