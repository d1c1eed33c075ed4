/* store: every row of sequencer.db, every statement. Inside the turn's
 * transaction unless it says otherwise. A full disk is the db's to notice. */
#ifndef SEQUENCER_STORE_H
#define SEQUENCER_STORE_H

#include "db.h"
#include "sequencer.h"

/* Why an event is refused, or a delivery dead, of which what is stored is damaged. */
#define REASON_DAMAGED "damaged"

struct store;

extern const struct db_schema sequencer_schema;

struct store *store_open(struct db *db);
void store_close(struct store *s);

/* meta: 0 when it was never set. */
int64_t store_meta(struct store *s, const char *key);
void store_meta_set(struct store *s, const char *key, int64_t value);

/* ---- events ---- */

struct event_row {
    int64_t n;
    const char *id, *source, *type, *workspace;
    const char *provider_id,
        *delivery_id; /* the provider's; "" or NULL: none */
    int64_t received_ms, taken_ms;
    int status;
    uint64_t sequence; /* 0: none */
    const char *clock, *reason, *duplicate_of;
    bool numbered;           /* it has … */
    int64_t source_sequence; /* … the source's own number */
    bool late;
    const char *gap;   /* let go past these numbers, "3-5" */
    const char *note;  /* what order.observe saw, and the like */
    int64_t let_go_ms; /* 0: it went at once, or has not gone */
    /* When a person sent it again, after it was refused or a duplicate; 0. Its
     * deliveries are as old as that. */
    int64_t reopened_ms;
};

/* Of one that was routed: a delivery is open; all are final, or it has none; all
 * died of its expires_in. */
enum event_end { END_OPEN, END_DONE, END_EXPIRED };

int64_t store_last_event(struct store *s);
void store_event_add(struct store *s, const struct event_row *e);
/* All but its number, id, source and times. */
void store_event_set(struct store *s, const struct event_row *e);
/* One event by number or id; false: none. Strings live until the next call of
 * the same function, or store_done(). */
bool store_event(struct store *s, int64_t n, struct event_row *e);
bool store_event_by_id(struct store *s, struct bytes id, struct event_row *e);
void store_done(struct store *s);
/* Its number only; 0: none. */
int64_t store_event_n(struct store *s, struct bytes id);

void store_body_add(struct store *s, int64_t event, struct bytes headers,
                    struct bytes body);
/* Borrowed until store_body_done(). */
bool store_body(struct store *s, int64_t event, struct bytes *headers,
                struct bytes *body);
/* Of the row that was read: it, or its event's, is not what was written. */
bool store_body_damaged(struct store *s);
void store_body_done(struct store *s);
void store_body_drop(struct store *s, int64_t event);
/* After a rolled back turn. */
void store_bodies_undo(struct store *s);

/* What an event with an idempotency key says (published_digest()). */
void store_digest_add(struct store *s, int64_t event, struct bytes digest);
/* Is that of this event known, and another? */
bool store_digest_differs(struct store *s, int64_t event, struct bytes digest);

/* The valid transition that an event made. `from` NULL: its object was new. */
void store_transition_add(struct store *s, int64_t event, const char *object,
                          const char *from, const char *to);
/* false: it made none. The texts are borrowed until store_transition_done();
 * `*from` is "" when the object was new. */
bool store_transition(struct store *s, int64_t event, const char **object,
                      const char **from, const char **to);
void store_transition_done(struct store *s);

/* ---- workspaces ---- */

/* From the cache or the table; made when there is none, with the lanes of `place`, the
 * next one in the order of routing. */
struct workspace *store_workspace(struct store *s, struct workspaces *w,
                                  const char *name, int64_t place);
/* Write what this turn changed. */
void store_workspaces(struct store *s, struct workspaces *w);

/* ---- endpoints and deliverers ---- */

struct endpoint_row {
    int64_t id;
    const char *name, *home;
    uint64_t grant;
    int64_t config;
    int ordered, state;
    int64_t since_ms;
    const char *why;
    int64_t failing_ms;
    int warned;
    int64_t paused_ms;
    int64_t gone_after;
    int64_t failing_for_ms;
    bool healthy;
    int64_t held_ms, held_status;
    int64_t resumed_ms;
};

typedef void endpoint_fn(void *arg, const struct endpoint_row *e);
void store_endpoints(struct store *s, endpoint_fn *fn, void *arg);
int64_t store_endpoint_add(struct store *s, const char *name);
void store_endpoint_set(struct store *s, int64_t id, const char *home,
                        uint64_t grant, int64_t config);
/* All but name, home, grant and config. */
void store_endpoint_state(struct store *s, const struct endpoint_row *e);
/* Those removed of which no event that is held, and none from `next_event` on, has a
 * delivery; says their names, returns how many. */
typedef void endpoint_name_fn(void *arg, const char *name);
int store_endpoints_forget(struct store *s, int64_t next_event,
                           endpoint_name_fn *fn, void *arg);
typedef void deliverer_fn(void *arg, const char *name, uint64_t store);
void store_deliverers(struct store *s, deliverer_fn *fn, void *arg);
void store_deliverer_set(struct store *s, const char *name, uint64_t store);

/* ---- deliveries ---- */

struct delivery_row {
    int64_t event, endpoint;
    int status;
    uint64_t grant, out_n;
    int64_t life;
    uint64_t previous;
    int64_t attempts, earlier, first_ms, next_ms;
    int64_t at_ms, duration_ms, http_status;
    const char *error, *reason, *deliverer;
    int64_t lane, place;
    bool behind;
    int64_t paused_ms; /* its endpoint's, at first_ms */
    uint64_t act;      /* replay.sql */
    int64_t died;
    bool sent;           /* an attempt may have reached the endpoint */
    int64_t reopened_ms; /* when a person sent it again; 0: nobody did */
};

void store_delivery_add(struct store *s, const struct delivery_row *d);
/* Strings live until store_delivery_done(). */
bool store_delivery(struct store *s, int64_t event, int64_t endpoint,
                    struct delivery_row *d);
void store_delivery_done(struct store *s);
/* All but event, endpoint, previous and place. */
void store_delivery_set(struct store *s, const struct delivery_row *d);
/* Of the first 100000 deliveries that wait, and of as many that are out. */
struct open_figures {
    int64_t counts[DELIVERY_DELIVERED]; /* by status */
    int64_t oldest;                     /* event; 0: there is none */
    int64_t oldest_unopened; /* of those that nobody has reopened; 0 */
    int64_t reopened_ms;     /* when the first of the others was; 0 */
};
struct open_figures store_open_figures(struct store *s);
/* Given out: status, grant, number. */
void store_delivery_out(struct store *s, int64_t event, int64_t endpoint,
                        int status, uint64_t grant, uint64_t out_n);
/* Its next attempt is due at `next_ms`. */
void store_delivery_due(struct store *s, int64_t event, int64_t endpoint,
                        int64_t next_ms);
/* It is in this generation, since a person sent it again. */
void store_life_set(struct store *s, int64_t event, int64_t endpoint,
                    int64_t life, int64_t reopened_ms);
/* No delivery of this event is open, it is not held back, and no repeat that may
 * be let through. */
/* Of all deliveries of one event. */
struct delivery_totals {
    int64_t endpoints, dead, attempts;
    int64_t
        reopened_ms; /* when a person sent one of them again last; 0: nobody did */
    bool expired;    /* all of them died of expires_in */
};
struct delivery_totals store_delivery_totals(struct store *s, int64_t event);
bool store_event_ended(struct store *s, int64_t event);
enum event_end store_event_end(struct store *s, int64_t event);

/* Up to `most` deliveries of an endpoint that may go out, lane by lane, in order,
 * of the lanes above `after`, up to `to`. Returns how many. */
struct ready_row {
    int64_t event, next_ms, lane;
};
int store_ready(struct store *s, int64_t endpoint, int64_t after, int64_t to,
                int most, struct ready_row *rows);
/* Up to `most` that wait, those behind others too, in no order. */
int store_waiting(struct store *s, int64_t endpoint, int most, int64_t *events);
/* Those that carry this grant, by status and event, behind `after`; at most `most`.
 * Returns how many. */
int store_out_after(struct store *s, int64_t endpoint, uint64_t grant,
                    const struct out_row *after, int most,
                    struct out_row *rows);
/* The next grant above `after` that deliveries of this endpoint carry; 0: none. */
uint64_t store_open_grant(struct store *s, int64_t endpoint, uint64_t after);
/* Deliveries that carry an ended grant, at most `most`: open ones wait again, of
 * final ones no copy is out any more. Returns how many. `freed` has room for
 * `most`, and gets the ordered lanes of those that are final. `lossy`: an attempt
 * whose result never came may have reached the endpoint. */
int store_sweep(struct store *s, int64_t endpoint, uint64_t grant, bool lossy,
                int most, int64_t *freed, int *freed_count);
/* Deliveries of an endpoint that wait, and that are parked at its home; counted
 * up to `most`. */
int64_t store_count_waiting(struct store *s, int64_t endpoint, int64_t most);
int64_t store_count_parked(struct store *s, int64_t endpoint, uint64_t grant,
                           int64_t most);
/* In its window: neither parked nor ended; with final ones whose dropped copy is
 * not answered for. */
int64_t store_count_in_flight(struct store *s, int64_t endpoint,
                              uint64_t grant);
/* For each delivery of an event. */
typedef void delivery_fn(void *arg, const struct delivery_row *d,
                         const char *endpoint);
void store_event_deliveries(struct store *s, int64_t event, delivery_fn *fn,
                            void *arg);

void store_attempt_add(struct store *s, int64_t event, int64_t endpoint,
                       const struct wire_result *r, const char *deliverer);
typedef void attempt_fn(void *arg, int64_t n, int64_t at_ms,
                        int64_t duration_ms, int64_t http_status,
                        const char *error, const char *deliverer);
void store_attempts(struct store *s, int64_t event, int64_t endpoint,
                    attempt_fn *fn, void *arg);

/* ---- letters ---- */

struct letter_row {
    int64_t n, event, endpoint, life, at_ms;
    int64_t attempts, first_ms, http_status;
    const char *error, *reason; /* reason "": it is recovered, not dead */
    struct bytes response;
};

/* As number `hop_n` of the link to dlqd; l->n is not read. Returns n. */
int64_t store_letter_add(struct store *s, uint64_t hop_n,
                         const struct letter_row *l);
/* Strings and response borrowed until store_letter_done(). */
bool store_letter(struct store *s, int64_t n, struct letter_row *l);
void store_letter_done(struct store *s);
/* The row that says how this generation became a dead letter; 0: not held. */
int64_t store_letter_dead(struct store *s, int64_t event, int64_t endpoint,
                          int64_t life);
/* Forget the first row, unless its number is above `hop_n` or its time is between
 * these two. Returns its event, and its number in *hop_n; 0: there is none. */
int64_t store_letter_drop(struct store *s, uint64_t *hop_n, int64_t from_ms,
                          int64_t to_ms);
bool store_letter_pending(struct store *s, int64_t event);

/* ---- what waits to be sent again (replay.h) ---- */

struct again_row {
    int64_t event, endpoint;
    uint64_t act;
};
void store_again_add(struct store *s, int64_t event, int64_t endpoint,
                     uint64_t act);
void store_again_drop(struct store *s, int64_t event, int64_t endpoint);
/* Of events above `after`, at most `most`; returns how many. */
int store_agains(struct store *s, int64_t after, int most,
                 struct again_row *rows);
bool store_again_pending(struct store *s, int64_t event);

/* ---- retention ---- */

/* Remove events taken before `before_ms` that are over: nothing of them is held
 * back, open, out anywhere, to be sent again, or on its way to dlqd. Looks at
 * `most` rows above *at. Moves *at; false: the end was reached. */
bool store_purge(struct store *s, int64_t now_ms, int64_t before_ms, int most,
                 int64_t *at);

/* ---- requests of several events (split.h) ---- */

void store_part_add(struct store *s, int64_t event, int64_t request);
/* The row of the request that an event came in; 0: it came alone. */
int64_t store_part_of(struct store *s, int64_t event);
/* The events of a request, in the order in which they stood in it. */
typedef void part_fn(void *arg, const struct event_row *e, enum event_end end);
void store_parts(struct store *s, int64_t request, part_fn *fn, void *arg);

#endif
