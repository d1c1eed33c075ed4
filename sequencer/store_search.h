/* store_search: the statements of those who look for events and deliveries; a
 * part of store. Reads, but for blocks and acts. */
#ifndef SEQUENCER_STORE_SEARCH_H
#define SEQUENCER_STORE_SEARCH_H

#include "store.h"

struct store_search;

struct store_search *store_search_open(struct db *db);
void store_search_close(struct store_search *s);

/* ---- events, newest first ---- */

/* Those with numbers from `least` and below `below`; or (`status` not -1) those
 * in a rare status. Strings live until the next step; end it with _done(). */
void store_events(struct store_search *s, int status, int64_t least,
                  int64_t below);
bool store_events_next(struct store_search *s, struct event_row *e);
void store_events_done(struct store_search *s);
/* The last number below `below`; 0: none. */
int64_t store_event_below(struct store_search *s, int64_t below);
/* The first from `n` on; 0: none. */
int64_t store_event_from(struct store_search *s, int64_t n);
/* At most 100 events, newest first, that have this id of their provider's, or came by
 * a delivery that has it. */
typedef void event_fn(void *arg, const struct event_row *e);
void store_by_provider_id(struct store_search *s, const char *provider_id,
                          event_fn *fn, void *arg);

/* At most `most` ids of events that begin so; each is borrowed for the call. */
typedef void id_fn(void *arg, const char *id);
void store_by_prefix(struct store_search *s, const char *prefix, int most,
                     id_fn *fn, void *arg);

/* ---- deliveries, newest first ---- */

/* Below (event, endpoint), of events from `least`; `dead`: only these. */
struct found_row {
    int64_t event, endpoint_id;
    const char *event_id, *source, *type, *workspace, *endpoint; /* borrowed */
    int64_t sequence, received_ms;
    int status;
    int64_t attempts, next_ms, http_status;
    const char *error, *reason;
};
void store_walk(struct store_search *s, bool dead, int64_t least, int64_t event,
                int64_t endpoint);
bool store_walk_next(struct store_search *s, struct found_row *r);
void store_walk_done(struct store_search *s);

/* ---- blocks (blocks.h) ---- */

struct block_row {
    int64_t b, least_ms, most_ms;
    struct bytes names; /* until store_block_done() */
};
bool store_block(struct store_search *s, int64_t b, struct block_row *row);
void store_block_done(struct store_search *s);
void store_block_put(struct store_search *s, const struct block_row *row);
int64_t store_block_last(struct store_search *s); /* -1: none */
/* At most `most` of these blocks; returns how many. */
int store_blocks_forget(struct store_search *s, int64_t from, int64_t below,
                        int most);
/* Ids of endpoints that events of these numbers have deliveries for, each at
 * least once. */
typedef void number_fn(void *arg, int64_t endpoint);
void store_block_endpoints(struct store_search *s, int64_t least, int64_t below,
                           number_fn *fn, void *arg);

/* ---- acts ---- */

void store_act_add(struct store_search *s, int64_t at_ms, const char *subject,
                   const char *what);
typedef void act_fn(void *arg, int64_t at_ms, const char *what);
/* Oldest first, of this time, both ends included; at most 100. */
void store_acts(struct store_search *s, const char *subject, int64_t from_ms,
                int64_t to_ms, act_fn *fn, void *arg);
/* The last one before `at_ms`. */
void store_act_before(struct store_search *s, const char *subject,
                      int64_t at_ms, act_fn *fn, void *arg);
/* Of before `cutoff_ms`, at most `most`, but not an endpoint's last: how many
 * went. */
int store_acts_forget(struct store_search *s, int64_t cutoff_ms, int most);
void store_acts_drop(struct store_search *s, const char *subject);

#endif
