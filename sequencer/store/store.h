/* store: the rows of sequencer.db: events, their bodies, workspaces, endpoints, attempts, dead
 * letters. Deliveries are in delivery.h, lanes, order, keys and searches in the other
 * store_*.h files.
 *
 * All calls are inside the turn's transaction. Write errors never return: db.h rolls back the
 * turn if the disk is full, and ends the process otherwise. */
#ifndef SEQUENCER_STORE_H
#define SEQUENCER_STORE_H

#include "event.h"
#include "event_cache.h"
#include "row.h"
#include "sequencer.h"

/* The reason of an event or a dead letter whose stored data is damaged. */
#define REASON_DAMAGED "damaged"

struct store;

extern const struct db_schema sequencer_schema;

struct store *store_open(struct db *db);
void store_close(struct store *s);

/* A number by its name; 0: it was never set. */
int64_t store_meta(struct store *s, const char *key);
void store_meta_set(struct store *s, const char *key, int64_t value);

/* ---- events ---- */

/* store_read_event() reads the columns of a statement that begins with this, and returns the
 * number of the next column. Call event_fini(). */
#define SELECT_EVENT \
    "SELECT " ROW_NAMES(EVENT_COLUMNS) ", source_sequence, delivery_id"
int store_read_event(stmt *q, struct event_row *e);

int64_t store_last_event(struct store *s);
void store_event_add(struct store *s, const struct event_row *e);
/* Write the columns EVENT_STATE, and those that are not in EVENT_COLUMNS. */
void store_event_set(struct store *s, const struct event_row *e);
/* One event by number or id; false: there is none. Call event_fini() in any case. */
bool store_event(struct store *s, int64_t n, struct event_row *e);
bool store_event_by_id(struct store *s, struct bytes id, struct event_row *e);
/* Only its number; 0: there is no such event. */
int64_t store_event_n(struct store *s, struct bytes id);

void store_body_add(struct store *s, int64_t event, struct bytes headers,
                    struct bytes body);
/* Borrowed until store_body_done(), which is to be called in any case. false: it has no body. */
bool store_body(struct store *s, int64_t event, struct bytes *headers,
                struct bytes *body);
/* The body that was just read, or its event, has a wrong checksum. */
bool store_body_damaged(struct store *s);
void store_body_done(struct store *s);
/* An event with headers and body, of which tasks are made; from memory, if one was made of it lately. It is
 * valid until the next call that takes or changes an event. */
enum stored_state {
    STORED_WHOLE,
    STORED_NOWHERE, /* this and the next ones: *event is NULL */
    STORED_WITHOUT_BODY,
    STORED_DAMAGED, /* store_body_damaged() */
};
enum stored_state store_whole_event(struct store *s, int64_t n,
                                    const struct whole_event **event);
void store_body_drop(struct store *s, int64_t event);
/* After a rolled back turn. */
void store_bodies_undo(struct store *s);

/* The digest of an event with an idempotency key (published_digest()). */
void store_digest_add(struct store *s, int64_t event, struct bytes digest);
/* true: the digest of this event is known, and differs. */
bool store_digest_differs(struct store *s, int64_t event, struct bytes digest);

/* The valid transition of an event. `from` NULL: its object was new. */
void store_transition_add(struct store *s, int64_t event, const char *object,
                          const char *from, const char *to);
/* false: the event has no transition. The texts are borrowed until store_transition_done(); *from
 * is "" if the object was new. */
bool store_transition(struct store *s, int64_t event, const char **object,
                      const char **from, const char **to);
void store_transition_done(struct store *s);

/* ---- workspaces ---- */

/* From the cache, else from the table; an unknown workspace is added, with `route_order` (the
 * next event's) as the number of its lanes. */
struct workspace *store_workspace(struct store *s, struct workspaces *w,
                                  const char *name, int64_t route_order);
/* Write the rows that this turn has changed. */
void store_workspaces(struct store *s, struct workspaces *w);

/* ---- endpoints and deliverers ---- */

/* A row of `endpoints`. store_endpoint_state() writes the columns ENDPOINT_STATE. */
#define ENDPOINT_STATE(F, X) \
    F(number, ordered)       \
    X(number, state)         \
    X(i64, since_ms)         \
    X(text, why)             \
    X(i64, failing_ms)       \
    X(number, warned)        \
    X(i64, paused_ms)        \
    X(i64, gone_after)       \
    X(i64, failing_for_ms)   \
    X(flag, healthy)         \
    X(i64, held_ms)          \
    X(i64, held_status)      \
    X(i64, resumed_ms)       \
    X(i64, round)            \
    X(i64, round_high)       \
    X(i64, round_low)
#define ENDPOINT_COLUMNS(F, X) \
    F(i64, id)                 \
    X(text, name)              \
    X(text, owner)             \
    X(u64, grant_id)           \
    X(i64, config)             \
    X(flag, temporary)         \
    ENDPOINT_STATE(X, X)
struct endpoint_row {
    ROW_FIELDS(ENDPOINT_COLUMNS)
};

typedef void endpoint_fn(void *arg, const struct endpoint_row *e);
void store_endpoints(struct store *s, endpoint_fn *fn, void *arg);
/* Each endpoint with deliveries that wait here or that are with a deliverer; perhaps twice.
 * Costs one step in an index each, however many deliveries it has. */
typedef void store_endpoint_fn(void *arg, int64_t endpoint);
void store_endpoints_open(struct store *s, store_endpoint_fn *fn, void *arg);
/* Returns its id. */
int64_t store_endpoint_add(struct store *s, const char *name, bool temporary);
void store_endpoint_set(struct store *s, int64_t id, const char *owner,
                        uint64_t grant, int64_t config);
void store_endpoint_state(struct store *s, const struct endpoint_row *e);
/* Delete removed endpoints to which no stored event has a delivery; calls `fn` with each name.
 * Returns how many. */
typedef void endpoint_name_fn(void *arg, const char *name);
int store_endpoints_forget(struct store *s, int64_t next_event,
                           endpoint_name_fn *fn, void *arg);
typedef void deliverer_fn(void *arg, const char *name, uint64_t store);
void store_deliverers(struct store *s, deliverer_fn *fn, void *arg);
void store_deliverer_set(struct store *s, const char *name, uint64_t store);

/* ---- deliveries ---- */

/* Figures of the first 100000 deliveries that wait, and of as many that are out. */
struct open_figures {
    int64_t counts[DELIVERY_DELIVERED]; /* by status */
    int64_t oldest;                     /* event; 0: no delivery is open */
    /* the same of deliveries that were never reopened */
    int64_t oldest_unopened;
    int64_t reopened_ms; /* when the first of the others was reopened; 0 */
};
/* `left_out`: endpoints whose deliveries do not count, ascending. */
struct open_figures store_open_figures(struct store *s, const int64_t *left_out,
                                       size_t count);
/* The same of one endpoint: of the first `max` that wait, and the first `max` that its owner has. */
struct open_figures store_endpoint_figures(struct store *s, int64_t endpoint,
                                           uint64_t grant, int64_t max);
/* Since when the delivery is open that has been open for longest; 0: none is open. */
int64_t store_oldest_open_ms(struct store *s, const struct open_figures *f);
/* Totals of all deliveries of one event. */
struct delivery_totals {
    int64_t endpoints, dead, attempts;
    /* when a person last sent one of them again; 0: never */
    int64_t reopened_ms;
    bool expired; /* all are dead because of `expires_in` */
};
struct delivery_totals store_delivery_totals(struct store *s, int64_t event);
/* No delivery of this event is open, and it is neither buffered nor a duplicate that a person may
 * release. */
bool store_event_ended(struct store *s, int64_t event);
enum event_end store_event_end(struct store *s, int64_t event);

/* Up to `max` deliveries of an endpoint that may be dispatched, in the order of lanes and within
 * a lane of routing, in lanes above `after`, up to `to`. Returns how many. */
struct ready_row {
    int64_t event, next_ms, lane;
};
int store_ready(struct store *s, int64_t endpoint, int64_t after, int64_t to,
                int max, struct ready_row *rows);
/* Up to `max` waiting deliveries, in any order, also those behind others. */
int store_waiting(struct store *s, int64_t endpoint, int max, int64_t *events);
/* Deliveries that carry this grant, in the order of status and event, after `after`; at most
 * `max`. Returns how many. */
int store_out_after(struct store *s, int64_t endpoint, uint64_t grant,
                    const struct out_row *after, int max, struct out_row *rows);
/* The next grant above `after` that a delivery of this endpoint carries; 0: no more. */
uint64_t store_open_grant(struct store *s, int64_t endpoint, uint64_t after);
/* How many deliveries of an endpoint wait here, and how many wait for a retry at its owner;
 * counted up to `max`. */
int64_t store_count_waiting(struct store *s, int64_t endpoint, int64_t max);
/* Whether a delivery of the endpoint is open, or the owner (`grant`) may have a copy of it. */
bool store_has_open(struct store *s, int64_t endpoint, uint64_t grant);
int64_t store_count_retrying(struct store *s, int64_t endpoint, uint64_t grant,
                             int64_t max);
/* How many are in the endpoint's window: in flight, or final while its deliverer has not yet
 * reported that it dropped its copy. */
int64_t store_count_in_flight(struct store *s, int64_t endpoint,
                              uint64_t grant);
void store_attempt_add(struct store *s, int64_t event, int64_t endpoint,
                       const struct wire_result *r, const char *deliverer);
typedef void attempt_fn(void *arg, int64_t n, int64_t at_ms,
                        int64_t duration_ms, int64_t http_status,
                        const char *error, const char *deliverer);
int64_t store_attempts_count(struct store *s, int64_t event, int64_t endpoint);
/* Without the `left_out` oldest ones. */
void store_attempts(struct store *s, int64_t event, int64_t endpoint,
                    int64_t left_out, attempt_fn *fn, void *arg);

/* ---- dead letters ---- */

/* A row of `dead_letters`: a message to dlqd. `reason` "": it is `recovered`, not `dead`. */
#define DEAD_LETTER_COLUMNS(F, X) \
    F(i64, event)                 \
    X(i64, endpoint)              \
    X(i64, generation)            \
    X(i64, at_ms)                 \
    X(i64, attempts)              \
    X(i64, first_ms)              \
    X(i64, http_status)           \
    X(text, error)                \
    X(text, reason)               \
    X(blob, response)
struct dead_letter_row {
    ROW_FIELDS(DEAD_LETTER_COLUMNS)
    int64_t n;
};

/* Add it as number `link_n` of the link to dlqd; l->n is ignored. Returns its n. */
int64_t store_dead_letter_add(struct store *s, uint64_t link_n,
                              const struct dead_letter_row *l);
/* false: there is no such row. Texts and response are borrowed until store_dead_letter_done(). */
bool store_dead_letter(struct store *s, int64_t n, struct dead_letter_row *l);
void store_dead_letter_done(struct store *s);
/* The row about the dead letter of this generation; 0: it is not stored any more. */
int64_t store_dead_letter_dead(struct store *s, int64_t event, int64_t endpoint,
                               int64_t generation);
/* Delete the first row, unless its link number is above *link_n or its time is in this range.
 * Returns its event, and its number in *link_n; 0: no row was deleted. */
int64_t store_dead_letter_drop(struct store *s, uint64_t *link_n,
                               int64_t from_ms, int64_t to_ms);
bool store_dead_letter_pending(struct store *s, int64_t event);

/* ---- reopenings: final deliveries that wait to be reopened (replay.h) ---- */

struct reopening_row {
    int64_t event, endpoint;
    uint64_t action_id;
};
void store_reopening_add(struct store *s, int64_t event, int64_t endpoint,
                         uint64_t action_id);
void store_reopening_drop(struct store *s, int64_t event, int64_t endpoint);
/* Those of events above `after`, at most `max`; returns how many. */
int store_reopenings(struct store *s, int64_t after, int max,
                     struct reopening_row *rows);
bool store_reopening_pending(struct store *s, int64_t event);

/* ---- retention ---- */

/* Delete events that were taken in before `before_ms` and have ended: they are not buffered, and
 * no delivery of them is open, out, to be reopened, halting a lane, or on its way to dlqd.
 * Events with a subscriber stay while `needed` says so. Looks at `max` rows (at most PURGE_PACE_MAX) above *at, and
 * moves *at. false: there are no more. */
typedef bool store_needed_fn(void *arg, int64_t event, int64_t subscriber,
                             int64_t taken_ms);
bool store_purge(struct store *s, int64_t now_ms, int64_t before_ms, int max,
                 int64_t *at, store_needed_fn *needed, void *arg);
/* When the youngest deleted event was taken in, wall clock; 0: none was deleted. Of earlier events,
 * nothing says whether they were here. */
int64_t store_purged_ms(struct store *s);

/* ---- requests of several events (split.h) ---- */

void store_part_add(struct store *s, int64_t event, int64_t request);
/* The row of the event's request, if that carried several; 0: it did not. */
int64_t store_part_of(struct store *s, int64_t event);
/* The events of a request, in its order. */
typedef void part_fn(void *arg, const struct event_row *e, enum event_end end);
void store_parts(struct store *s, int64_t request, part_fn *fn, void *arg);

#endif
