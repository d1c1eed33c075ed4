/* rejects: refused requests. They are counted by source and reason, and the last thousand of
 * each source are kept, also over restarts. Complete bodies, and the heads of requests whose
 * signature was not valid, are kept for a day, 64 MiB in all:
 * above that the source with most loses its oldest, so that a flood of one source does not
 * delete bodies of others.
 *
 * They are collected in memory and written about once a second, so that a flood costs a limited
 * number of rows and no commit of its own. A kill -9 loses those of the last second, a full
 * disk those of its turns; the counters and the log have them. */
#ifndef INGRESS_REJECTS_H
#define INGRESS_REJECTS_H

#include "http.h"
#include "rate.h"
#include "reject_store.h"
#include <jansson.h>
#include <sys/queue.h>

struct ingress;
struct rejects_of; /* of one source */

struct rejects {
    struct reject_store store;
    SLIST_HEAD(, rejects_of) sources;
    int64_t since_ms; /* mono: of the oldest unwritten one; 0: none */
    bool counted;     /* the bodies in the table were counted since the start */
    int64_t kept_bytes,
        waiting_bytes;       /* of bodies, in the table and in memory */
    int64_t purged_ms;       /* mono: the last deletion of old bodies */
    struct bucket explained; /* how often requests are explained */
};

/* Deletes a stored one, with its body. Inside the transaction. */
void rejects_erase(struct rejects *j, const char *id);
/* Count and keep a refused request. */
void rejects_note(struct rejects *j, struct ingress *g, const struct request *r,
                  enum response a);
/* Inside the transaction: write a limited number of rows that are due. Returns ms until it must
 * be called again, -1: not needed. `now`: all are due. */
int rejects_work(struct rejects *j, struct ingress *g, bool now);
/* After a rollback. */
void rejects_undo(struct rejects *j);
void rejects_fini(struct rejects *j);

/* In a kept head: the system's clock, which judged the time of the signature, in ms. */
#define JUDGED_AT ":judged_at"

/* For control requests: write all waiting rows, if there is space. */
void rejects_write_all(struct rejects *j, struct ingress *g);
/* The same, and finds one. store_reject_done() afterwards. false: `why`. */
bool rejects_find(struct rejects *j, struct ingress *g, const char *id,
                  struct reject_row *row, char why[200]);
/* One row, without its body. The caller owns it. */
json_t *rejects_json(struct ingress *g, const struct reject_row *row);

/* Control commands `rejects` and `reject`. self: struct ingress. */
json_t *rejects_show(void *self, json_t *args, char why[200]);
json_t *show_reject(void *self, json_t *args, char why[200]);

#endif
