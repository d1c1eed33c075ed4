/* intake: one verified request becomes one row of the archive, and that row's
 * commit is the line where responsibility passes: before it the provider owns
 * the event (whatever goes wrong, he hears no 2xx and sends it again), after it
 * we do. */
#ifndef INGRESS_INTAKE_H
#define INGRESS_INTAKE_H

#include "http.h"

struct ingress;

struct intake {
    struct request_list pending; /* verified, in order of arrival */
    struct request_list stored;  /* inserted by the turn that is under way */
    int64_t pending_count;
    int64_t ahead_count;    /* of these, those that came before the sounding */
    int64_t stored_count;   /* events in `stored` */
    int64_t told_count;     /* requests that the last commit answered */
    int64_t lines_since_ms; /* mono: refusals are logged, but not a flood */
    int lines;
};

extern const struct http_ops intake_http_ops; /* self: struct ingress */

void intake_open(struct intake *t);
/* It has passed the door: it is stored in this turn or a later one. */
void intake_take(struct intake *t, struct request *r);
/* Inside the transaction: a bounded number of rows. true: there is more. */
bool intake_work(struct ingress *g);
void intake_tell(struct ingress *g); /* 200 */
void intake_undo(struct ingress *g); /* 503 */
/* While a commit is under way: 503 to those who have waited too long, to all when
 * `all`. Theirs may still be stored by it. */
void intake_give_up(struct ingress *g, bool all);
/* A group is so many that a commit of them is worth a thread, as we can read on
 * meanwhile. For a few the way there and back costs more. */
bool intake_has_group(const struct intake *t);    /* it waits to be stored */
bool intake_stored_group(const struct intake *t); /* by this turn */
/* Nobody is left waiting for us. */
bool intake_idle(const struct ingress *g);
void intake_close(struct ingress *g);

#endif
