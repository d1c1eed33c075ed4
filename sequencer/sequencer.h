/* sequencer: the state of this process in memory, and the functions that its files share. Only
 * files of this folder include it. */
#ifndef SEQUENCER_SEQUENCER_H
#define SEQUENCER_SEQUENCER_H

#include "daemon.h"
#include "deliverers.h"
#include "delivery.h"
#include "dispatch_window.h"
#include "endpoint.h"
#include "event.h"
#include "grant.h"
#include "grants.h"
#include "lookup.h"
#include "subscriptions.h"
#include "ulid.h"
#include "wire.h"
#include "workspace.h"
#include <jansson.h>

enum {
    METRIC_TAKEN,
    METRIC_DUPLICATES,
    METRIC_REPLAYS,
    METRIC_REFUSED,
    METRIC_ROUTED,
    METRIC_UNMATCHED,
    METRIC_DELIVERED,
    METRIC_DEAD,
    METRIC_RETRIES,
    METRIC_LATE,
    METRIC_MISSING,
    METRIC_RECOVERED,
    METRIC_REQUEUED,
    METRIC_REPLAYED,
    METRIC_OUT,
    METRIC_DELIVERERS,
    METRIC_ENDPOINTS_UNOWNED,
    METRIC_ENDPOINTS_DISABLED,
    METRIC_LANES_HALTED,
    METRIC_GRANTS,
    METRIC_GRANTS_ENDED,
    METRIC_SERIES,
    METRIC_LET_THROUGH,
    METRIC_IGNORED,
    METRIC_EVENTS_LATE,
    METRIC_WOULD_HOLD,
    METRIC_BUFFERED,
    METRIC_GAPS_OPENED,
    METRIC_GAP_NUMBERS_FILLED,
    METRIC_GAPS_SKIPPED,
    METRIC_GAPS_CLOSED,
    METRIC_GAPS_OPEN,
    METRIC_GAP_OLDEST,
    METRIC_KEYS,
    METRIC_COUNT,
};

enum sequencer_family {
    FAMILY_END_TO_END,
    FAMILY_OPEN, /* by status */
    FAMILY_OLDEST,
    FAMILY_DISABLED, /* by endpoint, as is what follows */
    FAMILY_FAILING,
    FAMILY_HELD,
    FAMILY_WAITING,
};

struct sequencer {
    struct daemon d;
    struct store *store;
    struct deliveries *deliveries;
    struct store_order *order;
    struct store_search *search;
    struct search_filters *search_filters;
    struct keys *keys;
    struct streams *streams;
    struct watermarks *watermarks;
    struct workspaces workspaces;
    struct endpoint *endpoints; /* by id */
    size_t endpoint_count;
    struct lookup names, grants; /* slots in `endpoints` */
    /* Which endpoint is subscribed to what: slots in `endpoints`. NULL: `configure` is to be done. */
    struct subscriptions *subscriptions;
    struct deliverer_peer **deliverers;
    size_t deliverer_count;
    bool assign;          /* owners may have to change */
    bool configure;       /* endpoints are to be matched with the settings */
    bool granted_pending; /* some deliverer is to hear of a grant */
    int64_t started_ms;   /* mono */
    int64_t longest_ms;   /* the longest timeout of the settings */
    int64_t shorten_ms;   /* mono: when only that one counts */
    int64_t silence_ms;   /* longest a grant may outlive our last response */
    int64_t
        config_since_ms; /* wall: since when the configuration is as it is */
    uint64_t series;
    bool series_begun; /* in this start: this database is an older copy */
    struct ulid ids;   /* of events of our own */
    int64_t next_event;
    int64_t damaged[64]; /* deliveries (delivery_ref()) of damaged events */
    int damaged_count;
    int64_t next_route_order;  /* of the order in which events are routed */
    int64_t saved_route_order; /* as it stands on disk */
    struct store_lanes *lanes;
    int64_t reserved_event; /* numbers up to here are never given again */
    int64_t looked_ms;      /* mono: last look at the disk and at retention */
    bool was_undone;    /* a full disk took a turn back: give nothing out yet */
    bool disk_low;      /* the disk is below its mark: take no events */
    size_t turn;        /* counts turns, for taking turns */
    size_t watch_turn;  /* the same, of watch.c */
    int64_t watched_ms; /* mono: its last look */
    bool
        crowded; /* some deliveries waited as their endpoint's window was full */
    int64_t event_credit; /* events that may be taken while it is so (loop.c) */
    bool purge_keys, purge_events,
        purge_order;   /* there may be something to forget */
    int64_t purged_ms; /* wall: when `purged_to` began anew */
    int64_t purged_to; /* events up to here were looked at for retention */
    int64_t
        dead_letters_ms; /* mono: the last look at what dlqd has acknowledged */
    /* Deliveries wait to be sent again (replay.h): there may be some; mono: the
     * last look; up to which event it came. */
    bool reopenings;
    int64_t agains_ms, reopenings_after;
    int64_t metrics[METRIC_COUNT];
};

/* turn.c */
void sequencer_open(void *self);
void sequencer_restored(void *self);
bool sequencer_has_time(void *self);
void sequencer_begin(void *self);
int sequencer_work(void *self);
void sequencer_after_commit(void *self);
void sequencer_undo(void *self);
void sequencer_reload(void *self, struct settings *fresh);
void sequencer_close(void *self);

/* event_intake.c */
/* Of a new event. Never given again, also when the rows with the highest are
 * purged: keys and logs of links remember them longer. */
int64_t intake_number(struct sequencer *q);
gr_rc intake_accepted(struct sequencer *q, const struct wire_accepted *m);
/* The same of one that an operator sends again: it is not a duplicate, holds
 * nothing back and changes no object's state. */
gr_rc intake_replayed(struct sequencer *q, const struct wire_accepted *m,
                      const struct wire_replayed *replayed);
/* An event of our own, for one endpoint. */
void intake_own(struct sequencer *q, struct endpoint *e, const char *type,
                const char *workspace, struct bytes body, int64_t expires_ms);

/* reprocess.c: events that are here already */
/* Look again at event n, which was refused, or ignored, in `generation`; the transition of
 * an ignored one is forced. GR_REFUSE: it was neither. */
gr_rc intake_reprocess(struct sequencer *q, int64_t n, int64_t generation);
/* A person releases a duplicate. GR_REFUSE: `why`. */
gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200]);
/* An event that was buffered goes; `gap`: past these numbers, or "". `generation`: of
 * its dead letter, as streams_admit() was told. */
void intake_release_buffered(struct sequencer *q, int64_t n, int64_t generation,
                             const char *gap);

/* dispatch.c: tasks for deliverers */
/* The delivery may be sent in the turn that makes it. */
bool dispatch_may(const struct sequencer *q, const struct endpoint *e);
int dispatch_work(struct sequencer *q);
bool dispatch_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t ref, struct buf *out);
bool dispatch_load_dropped(struct sequencer *q, int64_t ref, struct buf *out);
/* Ends the deliveries of events whose stored content is damaged: dead letters. */
void dispatch_damaged(struct sequencer *q);
bool dispatch_load_retry_now(struct sequencer *q, const char *peer, int64_t ref,
                             struct buf *out);

/* watch.c: deliveries whose results are overdue */
void watch_work(struct sequencer *q);
bool watch_load(struct sequencer *q, uint64_t n, int64_t ref, struct buf *out);

/* lanes.c: which delivery waits for which */
struct workspace *lanes_workspace(struct sequencer *q, const char *name);
/* Lanes up to this one take their turns now; those of workspaces that are still to come
 * are behind it, so that however many come, everyone has a turn. */
int64_t lanes_round_end(const struct sequencer *q, const struct endpoint *e);
int64_t lanes_of(const struct endpoint *e, const struct workspace *ws);
/* A new delivery in this lane waits for others. */
bool lanes_busy(struct sequencer *q, const struct endpoint *e, int64_t lane);
/* A delivery has left this lane: the next one may be sent. May be called for any lane and
 * more than once. */
void lanes_freed(struct sequencer *q, struct endpoint *e, int64_t lane);
/* A delivery died for good: does it halt its lane? */
void lanes_halt(struct sequencer *q, struct endpoint *e, const char *event_id,
                const struct delivery *d);
/* It was delivered, or somebody decided. */
void lanes_unhalt(struct sequencer *q, struct endpoint *e, int64_t event,
                  int64_t lane);
/* The settings may be others than before. */
void lanes_configure(struct sequencer *q, struct endpoint *e);
/* Go on with putting an endpoint's deliveries into other lanes; returns how many
 * rows it took, at most `max`. */
int lanes_work(struct sequencer *q, struct endpoint *e, int max);

/* show_endpoints.c */
/* The sentence for a name that is not an endpoint's, with the near miss. */
void endpoint_unknown(struct sequencer *q, const char *name, char why[200]);
/* For `status`: those that are held, disabled or paused. */
void endpoints_troubles(void *self, json_t *out);
json_t *endpoints_show(void *self, json_t *args, char why[200]);
json_t *endpoints_pause(void *self, json_t *args, char why[200]);
json_t *endpoints_resume(void *self, json_t *args, char why[200]);

/* results.c: what came back */
gr_rc results_take(struct sequencer *q, const char *from,
                   const struct wire_result *r);
/* Its deliverer does not know it: it waits again. */
gr_rc results_missing(struct sequencer *q, const char *from,
                      const struct wire_missing *m);

/* dead_letters.c: to dlqd and back */
enum { DEAD_LETTER_ID_BYTES = 4 + EVENT_ID_BYTES + 1 + NAME_MAX_BYTES + 1 };
void dead_letter_id(char out[DEAD_LETTER_ID_BYTES], const char *event_id,
                    const char *endpoint);
/* This delivery is dead: its row says in which generation, and of what. */
void dead_letters_dead(struct sequencer *q, const struct delivery *d,
                       struct bytes response);
/* The same of an event without deliveries: refused, or ignored. */
void dead_letters_refused(struct sequencer *q, const struct event_row *ev,
                          int64_t generation);
void dead_letters_recovered(struct sequencer *q, int64_t event,
                            int64_t endpoint, int64_t generation);
gr_rc dead_letters_requeued(struct sequencer *q, const struct wire_requeued *m);
gr_rc dead_letters_decided(struct sequencer *q, const struct wire_decided *m);
/* An event that is not here. Returns its number. */
int64_t dead_letters_adopt(struct sequencer *q, const struct wire_requeued *m);
bool dead_letters_load(struct sequencer *q, int kind, int64_t ref,
                       struct buf *out);
/* Delete rows that dlqd has acknowledged: after a day, after dlq.keep if that is shorter,
 * or at once if the database is above its share of the disk. true: there is more to
 * delete. */
bool dead_letters_work(struct sequencer *q);
/* Delete the event's body if nothing needs it. */
void body_maybe_drop(struct sequencer *q, int64_t event);
/* The same of an event without open deliveries. */
void body_drop_unneeded(struct sequencer *q, int64_t event);

/* search.c */
json_t *events_search(void *self, json_t *args, char why[200]);
json_t *deliveries_search(void *self, json_t *args, char why[200]);

/* measure.c: metrics that need to read rows, once per metrics.interval */
void measure(void *self);
/* A delivery that nobody has reopened was delivered at `at_ms` (wall). */
void measure_delivered(struct sequencer *q, const struct endpoint *e,
                       int64_t event, const char *event_id, int64_t at_ms);

#endif
