/* templates: stores once what the requests of delivered attempts have in common: method, URL,
 * the names of the headers in their order, and the values that are always the same (sent.h).
 * The other values are those of the event and of the attempt's row. So a request can be shown
 * later, although an attempt stores only the number of its template.
 *
 * The key of a template is: the endpoint's configuration, the source, the names of the event's
 * headers, and which of Grapnel's own headers there are. There are few keys; but strangers
 * choose the names of headers, so at most TEMPLATES_MAX templates are kept.
 *
 * outcome.h calls it inside the transaction. All templates are in memory and in rows; after a
 * rollback call templates_undo(). */
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
        slots[TEMPLATE_SLOTS]; /* the last template of each hash of a key */
};

void templates_open(struct deliverer *d);
void templates_close(struct deliverer *d);
void templates_undo(struct deliverer *d);
/* The id of the template of this transfer's request; a new one if need be. 0: there is no
 * space for one more. */
int64_t templates_note(struct deliverer *d, const struct transfer *f);
/* The template of this id, packed (sent.h); empty: it is gone. */
struct bytes templates_find(const struct deliverer *d, int64_t id);
/* Delete templates that no attempt since `before_ms` used. */
void templates_purge(struct deliverer *d, int64_t before_ms);

#endif
