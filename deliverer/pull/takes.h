/* takes: what consumers of pull endpoints have taken: deliveries, until when, and how each ended.
 *
 * The task of a pull endpoint is always a row, never in memory, so a consumer that stays away
 * costs no memory. A take is one attempt of each of its deliveries, under a lease:
 *
 *   (task due) ──take──▶ TAKEN ──ack──────────────────────▶ delivered
 *                          ├────retry, or the lease ends ──▶ retrying, or dead by its budget
 *                          └────dead ──────────────────────▶ dead
 *
 * The take is on disk before its reply is sent (the turn's commit), and survives a restart: the
 * grant is not released while a delivery of it is taken. A lease counts time in which this
 * process ran, as the time-out of an attempt does, and is at most as long as one; so the
 * sequencer's rules for attempts in flight hold (proto/grant.h). An acknowledgement after the
 * lease is recorded as a late result. All functions but takes_wait_ms() are called inside the
 * turn's transaction. */
#ifndef DELIVERER_TAKES_H
#define DELIVERER_TAKES_H

#include "control.h"
#include "due_queue.h"
#include "lookup.h"
#include "take_rows.h"
#include <sys/queue.h>

struct deliverer;
struct grant;

enum {
    TAKE_MAX_COUNT = 1000,
    /* Of headers and bodies together; the first delivery may be larger. */
    TAKE_MAX_BYTES = 2 * 1024 * 1024,
    TAKES_KEPT_MAX = 10000, /* that have ended; each for a day at most */
};

/* A take of which a delivery has not ended. */
struct take {
    LIST_ENTRY(take) link;
    struct due_item until; /* awake_ms: the end of its lease */
    int64_t n;
    uint64_t grant_id;
    int64_t at_ms, count; /* how many have not ended */
};

struct takes {
    struct take_rows rows;
    LIST_HEAD(, take) open;
    struct due_queue leases;
    int64_t count;    /* of deliveries that have not ended */
    int64_t purge_ms; /* mono: delete old rows then */
};

void takes_open(struct deliverer *d);
void takes_close(struct deliverer *d);
/* After a rollback, when own_grants_undo() was called: read them again. */
void takes_undo(struct deliverer *d);

/* Whether a take may be made under the grant: it is confirmed, and of a pull endpoint. */
bool takes_may(const struct deliverer *d, const struct grant *g);
/* Take up to `max` deliveries that are due, of events of the workspace `tenant` (NULL: of all). Returns the reply; NULL: there is none now. `by`: who
 * asks; its key may be "". */
json_t *takes_make(struct deliverer *d, struct grant *g, const char *tenant,
                   int64_t max, int64_t lease_ms, const struct act_by *by);
/* When takes_make() may have something (mono, us): by the rate limit and by due rows; INT64_MAX:
 * only after something else happened. */
int64_t takes_ready_us(const struct deliverer *d, const struct grant *g);

/* The request with this idempotency key was made before. */
enum take_known {
    TAKE_NEW,
    TAKE_SAME,  /* *reply: its take, with the deliveries that have not ended */
    TAKE_OTHER, /* another request had the key */
    TAKE_OVER,  /* its take has ended */
    TAKE_BUSY,  /* the sequencer has not confirmed the grant: ask again later */
};
enum take_known takes_again(struct deliverer *d, const struct act_by *by,
                            json_t **reply);

/* What a consumer says about deliveries. */
struct take_end {
    enum taken_state state; /* TAKEN_ACKED, …_RETRIED or …_DEAD */
    int64_t delay_ms; /* …_RETRIED: of the next attempt; -1: by the policy */
    const char *note; /* for people; or NULL */
};
/* End these deliveries (event ids; NULL: all that have not ended). All of them, or none: NULL,
 * and `why`. A repeat changes nothing. */
json_t *takes_end(struct deliverer *d, const char *endpoint, const char *id,
                  const json_t *events, const struct take_end *end,
                  char why[200]);

/* The delivery of this row is final elsewhere: if its consumer does not acknowledge it, it is
 * not retried. */
void takes_note_dropped(struct deliverer *d, int64_t task);
/* The take's reply could not be sent: its deliveries are due again, and no attempt was made. */
void takes_give_back(struct deliverer *d, int64_t n);
/* Once a turn: end leases, delete old rows. */
void takes_work(struct deliverer *d);
/* How long until the next lease ends; -1: there is none. */
int takes_wait_ms(const struct deliverer *d);

#endif
