/* store_search: searches of events and deliveries, and the rows of search filters and actions. All
 * calls are inside the turn's transaction. */
#ifndef SEQUENCER_STORE_SEARCH_H
#define SEQUENCER_STORE_SEARCH_H

#include "store.h"

struct store_search;

struct store_search *store_search_open(struct db *db);
void store_search_close(struct store_search *s);

/* ---- events, newest first ---- */

/* Begin to read events from number `min`, below `below`; only those of a rare `status`, unless it
 * is -1. Of each row only n, status, source, type, workspace and received_ms are read, as most do
 * not match a search: store_event() reads the others. Texts are borrowed until the next call. Call
 * store_events_done() at the end. */
void store_events(struct store_search *s, int status, int64_t min,
                  int64_t below);
bool store_events_next(struct store_search *s, struct event_row *e);
void store_events_done(struct store_search *s);
/* The last event below `below`; 0: none. */
int64_t store_event_below(struct store_search *s, int64_t below);
/* The first event from `n` on; 0: none. */
int64_t store_event_from(struct store_search *s, int64_t n);
/* The rows of these events; `e` is valid until `fn` returns. */
typedef void event_fn(void *arg, const struct event_row *e);
void store_each_event(struct store_search *s, const int64_t *events, int count,
                      event_fn *fn, void *arg);

/* At most `max` ids of events that begin with `prefix`; each is borrowed for the call. */
typedef void id_fn(void *arg, const char *id);
void store_by_prefix(struct store_search *s, const char *prefix, int max,
                     id_fn *fn, void *arg);

/* ---- deliveries, newest first ---- */

/* Begin to read deliveries below (event, endpoint), of events from `min`; `dead`: only dead
 * ones. Call store_walk_done() at the end. */
struct found_row {
    int64_t event, endpoint_id;
    int status;
    /* Only after store_walk_found(): */
    const char *event_id, *source, *type, *workspace;
    int64_t sequence, received_ms, attempts, next_ms, http_status;
    const char *error, *reason;
};
void store_walk(struct store_search *s, bool dead, int64_t min, int64_t event,
                int64_t endpoint);
/* Reads event, endpoint_id and status of the next one. */
bool store_walk_next(struct store_search *s, struct found_row *r);
/* The event of this delivery, as of store_events_next(); NULL: there is none. Borrowed until the
 * next call of this. */
const struct event_row *store_walk_event(struct store_search *s,
                                         const struct found_row *r);
/* Reads the rest of it; texts are borrowed until the next call of this. false: its event has no
 * row. */
bool store_walk_found(struct store_search *s, struct found_row *r);
void store_walk_done(struct store_search *s);

/* ---- search filters (search_filters.h) ---- */

struct filter_row {
    int64_t b, min_ms, max_ms;
    struct bytes names; /* until store_filter_done() */
};
bool store_filter(struct store_search *s, int64_t b, struct filter_row *row);
void store_filter_done(struct store_search *s);
void store_filter_put(struct store_search *s, const struct filter_row *row);
int64_t store_filter_last(struct store_search *s); /* -1: none */
/* Delete the filters of blocks from `from`, below `below`, at most `max`; returns how many. */
int store_filters_forget(struct store_search *s, int64_t from, int64_t below,
                         int max);
/* These events, with source, type, workspace and receive time only. */
void store_filter_events(struct store_search *s, int64_t min, int64_t below,
                         event_fn *fn, void *arg);
/* The ids of the endpoints of these events' deliveries, each at least once. */
typedef void number_fn(void *arg, int64_t endpoint);
void store_filter_endpoints(struct store_search *s, int64_t min, int64_t below,
                            number_fn *fn, void *arg);

/* ---- actions ---- */

void store_action_add(struct store_search *s, int64_t at_ms,
                      const char *subject, const char *what);
/* The same, now, for the subject "KIND NAME". */
void store_action_note(struct store_search *s, int64_t now_ms, const char *kind,
                       const char *name, const char *fmt, ...) GR_PRINTF(5, 6);
typedef void action_fn(void *arg, int64_t at_ms, const char *what);
/* The actions of this time, both ends included, oldest first; at most 100. */
void store_actions(struct store_search *s, const char *subject, int64_t from_ms,
                   int64_t to_ms, action_fn *fn, void *arg);
/* The last action before `at_ms`. */
void store_action_before(struct store_search *s, const char *subject,
                         int64_t at_ms, action_fn *fn, void *arg);
/* Delete actions from before `cutoff_ms`, at most `max`, but not an endpoint's last one; returns
 * how many. */
int store_actions_forget(struct store_search *s, int64_t cutoff_ms, int max);
void store_actions_drop(struct store_search *s, const char *subject);

#endif
