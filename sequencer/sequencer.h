/* sequencer: shared by this folder only. */
#ifndef SEQUENCER_SEQUENCER_H
#define SEQUENCER_SEQUENCER_H

#include "daemon.h"
#include "grant.h"
#include "lookup.h"
#include "subscriptions.h"
#include "ulid.h"
#include "window.h"
#include "wire.h"
#include "workspace.h"
#include <jansson.h>

/* An event's life here. On disk forever.
 *
 *                ┌──▶ BUFFERED   held back for its order (streams.h)
 *                │       ▼
 *    taken ──▶ ──┴────▶ ROUTED ──▶ (done, when no delivery is open)
 *      │                 │ ▲ ▲
 *      │                 ▼ │ │
 *      │             IGNORED │   no valid move of its object; forced, it goes
 *      ├─────▶ DUPLICATE ────┤   a repeat of another; kept, may be released
 *      ├─────▶ REFUSED ──────┘   a field it needs can't be had; a dead letter
 *      └─────▶ SPLIT             a request of several events, each an event of
 *                                its own (split.h); it is done when they are */
enum event_status {
    EVENT_ROUTED = 0,
    EVENT_DUPLICATE = 1,
    EVENT_REFUSED = 2,
    EVENT_BUFFERED = 3,
    EVENT_IGNORED = 4,
    EVENT_SPLIT = 8,
};

/* A delivery's life. On disk forever; those below DELIVERED are open.
 *
 *             ┌────────── grant ended, released ──────────┐
 *             ▼                                           │
 *  ───▶ WAITING ───▶ IN_FLIGHT ───▶ RETRYING ─────────────┤
 *          ▲  │          │  │           │                 │
 *          │  └──────────┼──┼───────────┼──▶ DELIVERED    (late successes too)
 *          │             └──┴───────────┴──▶ DEAD ──▶ DELIVERED (late)
 *          └──────────── requeue ─────────────┘                          */
enum delivery_status {
    DELIVERY_WAITING = 0,
    DELIVERY_IN_FLIGHT = 1,
    DELIVERY_RETRYING = 2,
    DELIVERY_DELIVERED = 3,
    DELIVERY_DEAD = 4,
};

enum {
    METRIC_TAKEN,
    METRIC_DUPLICATES,
    METRIC_REPLAYS,
    METRIC_REFUSED,
    METRIC_ROUTED,
    METRIC_UNWANTED,
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
    METRIC_ENDPOINTS_HOMELESS,
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

enum {
    EVENT_BITS_ENDPOINT = 20, /* of a delivery's ref: its endpoint's id */
    ENDPOINTS_MAX = 1 << EVENT_BITS_ENDPOINT,
};

/* A deliverer as we see it; memory only but for name and store. */
struct deliverer {
    char name[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    uint64_t store, run;
    int64_t stamp_ms;    /* of its last beat, on its own clock */
    int64_t beat_ms;     /* mono: when that came; 0: not in this start */
    int64_t answered_ms; /* mono: when we last answered; our start at least */
    int64_t healthy_ms;  /* mono: since when it beats without a break */
    uint64_t
        leaving_run; /* this run of it drained by itself: give it nothing */
    bool say_pulse;
    uint64_t *wanted; /* grants it asked about in the last beat */
    size_t wanted_count;
    int64_t out;       /* tasks it has and has not parked */
    int64_t out_bytes; /* about; of all its endpoints */
    /* watch.c: numbers below watch_n were given to it long ago; those below
     * watch_next were at watch_ms (awake). */
    uint64_t watch_n, watch_next;
    int64_t watch_ms;
};

/* A delivery at its deliverer, in the order of store_out_after(). */
struct out_row {
    int64_t status, event, next_ms;
    uint64_t out_n;
};

/* On disk forever. */
enum endpoint_state {
    ENDPOINT_ACTIVE = 0,
    ENDPOINT_PAUSED = 1,   /* by an operator */
    ENDPOINT_DISABLED = 2, /* by what it answered */
};

enum { MINUTES_KEPT = 5 };
/* What came back within one minute; memory only. */
struct tally_minute {
    int64_t minute;
    int64_t delivered, failed, duration_ms;
};

struct endpoint {
    int64_t id;
    char name[NAME_MAX_BYTES + 1];
    const struct endpoint_settings *settings; /* NULL: removed */
    int64_t gone_after; /* 0, or removed: no event above it has a delivery */
    struct deliverer *home;
    uint64_t grant;
    int64_t config;     /* digest of `carried` */
    struct buf carried; /* the configuration, encoded */
    bool lossy; /* its home crashed, or may have: a result may be missing */
    uint64_t drained;     /* the last ended grant whose results are all here */
    bool recall;          /* to be recalled in the next turn */
    bool recalling;       /* was; nothing more is given out under its grant */
    bool say_granted;     /* its home is to hear of the grant */
    int64_t out;          /* tasks at home, neither parked nor ended */
    struct window window; /* how many those may be */
    bool waiting;         /* there may be deliveries that may go out */
    bool sweeping;        /* there may be some under grants that ended */
    struct out_row watched; /* watch.c: the last that was looked at */
    /* Lanes (lanes.c). */
    int ordered; /* enum order_lanes, as its deliveries stand; -1: in between */
    int64_t turn; /* the last lane that was given out; INT64_MIN: a new round */
    int64_t round_end; /* the last lane of this round */
    enum { SETTLED, COLLECTING, LINING_UP } laning;
    int64_t lined_up; /* while LINING_UP: every lane up to this one is */
    int64_t halts;    /* dead letters that halt a lane */
    /* Whether it is to be tried at all (endpoints.c). */
    enum endpoint_state state;
    int64_t since_ms;   /* paused or disabled */
    char why[80];       /* disabled, or paused: why, by whom */
    int64_t failing_ms; /* wall: the first of consecutive failures; 0 */
    /* How long it has failed since then, without the time in which its deliverer
     * was away; and how much of that is on disk. */
    int64_t failing_for_ms, failing_saved_ms;
    int warned;          /* of those in endpoints.c, how many */
    bool healthy;        /* it has delivered before: the guard may hold it */
    int64_t held_ms;     /* wall: its home holds it (deliverer/hold.h); 0 */
    int64_t held_status; /* the status it refuses everything with; 0: none */
    int64_t paused_ms;   /* paused, disabled or held in all, before now */
    /* Wall: when a pause, a hold or a halt of it last ended; 0. What was accepted
     * before may have waited for that, and is no latency. */
    int64_t resumed_ms;
    bool was_off; /* in this start: it had `enabled: false` */
    bool changed; /* one of these (or `ordered`) in this turn */
    struct tally_minute minutes[MINUTES_KEPT];
};

struct sequencer {
    struct daemon d;
    struct store *store;
    struct store_order *order;
    struct store_search *search;
    struct blocks *blocks;
    struct keys *keys;
    struct streams *streams;
    struct doors *doors;
    struct workspaces workspaces;
    struct endpoint *endpoints; /* by id */
    size_t endpoint_count;
    struct lookup names, grants; /* places in `endpoints` */
    /* Who wants what: places in `endpoints`. NULL: `configure` is to be done. */
    struct subscriptions *subscriptions;
    struct deliverer **deliverers;
    size_t deliverer_count;
    bool place;         /* homes may have to change */
    bool configure;     /* endpoints are to be matched with the settings */
    bool say_granted;   /* some deliverer is to hear of a grant */
    int64_t started_ms; /* mono */
    int64_t longest_ms; /* the longest timeout of the settings */
    int64_t shorten_ms; /* mono: when only that one counts */
    int64_t silence_ms; /* longest a grant may outlive our last answer */
    int64_t
        config_since_ms; /* wall: since when the configuration is as it is */
    uint64_t series;
    bool series_begun; /* in this start: this database is an older copy */
    struct ulid ids;   /* of events of our own */
    int64_t next_event;
    int64_t damaged[64]; /* deliveries (delivery_ref()) of damaged events */
    int damaged_count;
    int64_t next_place;  /* of the order in which events are routed */
    int64_t saved_place; /* as it stands on disk */
    struct store_lanes *lanes;
    int64_t reserved_event; /* numbers up to here are never given again */
    int64_t looked_ms;      /* mono: last look at the disk and at retention */
    bool was_undone;    /* a full disk took a turn back: give nothing out yet */
    bool no_room;       /* the disk is below its mark: take no events */
    size_t turn;        /* counts turns, for taking turns */
    size_t watch_turn;  /* the same, of watch.c */
    int64_t watched_ms; /* mono: its last look */
    bool
        crowded; /* some deliveries waited as their endpoint's window was full */
    int64_t event_credit; /* events that may be taken while it is so (loop.c) */
    bool purge_keys, purge_events,
        purge_order;    /* there may be something to forget */
    int64_t purged_ms;  /* wall: when `purged_to` began anew */
    int64_t purged_to;  /* events up to here were looked at for retention */
    int64_t letters_ms; /* mono: the last look at what dlqd has acknowledged */
    /* Deliveries wait to be sent again (replay.h): there may be some; mono: the
     * last look; up to which event it came. */
    bool agains;
    int64_t agains_ms, agains_after;
    int64_t metrics[METRIC_COUNT];
};

extern const struct control_command sequencer_commands[];

/* intake.c */
/* Of a new event. Never given again, also when the rows with the highest are
 * purged: keys and logs of hops remember them longer. */
int64_t intake_number(struct sequencer *q);
gr_rc intake_accepted(struct sequencer *q, const struct wire_accepted *m);
/* The same of one that an operator sends again: it is a repeat of nothing, holds
 * nothing back and moves no object. */
gr_rc intake_replayed(struct sequencer *q, const struct wire_accepted *m,
                      const struct wire_replayed *replayed);
/* An event of our own, for one endpoint. */
void intake_own(struct sequencer *q, struct endpoint *e, const char *type,
                const char *workspace, struct bytes body, int64_t expires_ms);

/* again.c: events that are here already */
/* Look again at event n, which was refused, or ignored, in `life`; the move of
 * an ignored one is forced. GR_REFUSE: it was neither. */
gr_rc intake_again(struct sequencer *q, int64_t n, int64_t life);
/* A person lets a repeat through. GR_REFUSE: `why`. */
gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200]);
/* An event that was held back goes; `gap`: past these numbers, or "". `life`: of
 * its letter, as streams_place() was told. */
void intake_let_go(struct sequencer *q, int64_t n, int64_t life,
                   const char *gap);

/* grants*.c: who works on what */
void grants_open(struct sequencer *q);
void grants_configure(struct sequencer *q, const struct settings *s);
/* They are about to change: nothing points at them until then. */
void grants_forget_settings(struct sequencer *q);
/* It beats within its lease, and does not leave. */
bool grants_is_here(const struct sequencer *q, const struct deliverer *d);
void grants_beat(struct sequencer *q, const struct wire_beat *b);
void grants_drained(struct sequencer *q, const char *from, uint64_t grant);
void grants_set_back(struct sequencer *q, const char *peer, bool we_are_older);
/* The database is a copy: in the transaction that says so. */
void grants_restored(struct sequencer *q);
int grants_work(struct sequencer *q);
void grants_tell(struct sequencer *q);
struct endpoint *endpoint_find(struct sequencer *q, const char *name);
struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id);
/* For a delivery of an event that there is. Made, as a removed one, when it was never
 * there. */
struct endpoint *endpoint_adopt(struct sequencer *q, const char *name);
/* After a rolled back turn. */
void grants_undo(struct sequencer *q);
void grants_close(struct sequencer *q);

/* dispatch.c: what goes out */
int64_t delivery_ref(int64_t event, int64_t endpoint);
/* The delivery may go out now, in the turn that makes it. */
bool dispatch_may(const struct sequencer *q, const struct endpoint *e);
/* Write the task of (event, e) into the hop; returns its number. */
uint64_t dispatch_task(struct sequencer *q, struct endpoint *e, int64_t event,
                       bool parked);
int dispatch_work(struct sequencer *q);
bool dispatch_load(struct sequencer *q, const char *peer, uint64_t n,
                   int64_t ref, struct buf *out);
bool dispatch_load_dropped(struct sequencer *q, int64_t ref, struct buf *out);
/* Ends the deliveries of events whose stored content is damaged: dead letters. */
void dispatch_damaged(struct sequencer *q);
bool dispatch_load_retry_now(struct sequencer *q, const char *peer, int64_t ref,
                             struct buf *out);

/* watch.c: what a deliverer should have answered long ago */
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
/* One has gone from this lane: whoever is next steps up. Call it for any lane,
 * and rather once too often. */
void lanes_freed(struct sequencer *q, struct endpoint *e, int64_t lane);
/* A delivery died for good: does it halt its lane? */
struct delivery_row;
struct event_row;
void lanes_halt(struct sequencer *q, struct endpoint *e, const char *event_id,
                const struct delivery_row *d);
/* It was delivered, or somebody decided. */
void lanes_unhalt(struct sequencer *q, struct endpoint *e, int64_t event,
                  int64_t lane);
/* The settings may be others than before. */
void lanes_configure(struct sequencer *q, struct endpoint *e);
/* Go on with putting an endpoint's deliveries into other lanes; returns how many
 * rows it took, at most `most`. */
int lanes_work(struct sequencer *q, struct endpoint *e, int most);

/* endpoints.c: whether an endpoint is to be tried at all */
bool endpoint_is_on(const struct endpoint *e);
/* Since when it is paused, disabled or held, so that its deliveries wait for a person or for
 * its repair (wall); 0: it is tried. */
int64_t endpoint_waits_since_ms(const struct endpoint *e);
/* A result under its present grant: does its home hold it? */
void endpoint_note_hold(struct sequencer *q, struct endpoint *e,
                        const struct wire_result *r);
void endpoint_end_hold(struct sequencer *q, struct endpoint *e);
/* What held its deliveries back, a person or the guard, has just ended. */
void endpoint_resumed(struct sequencer *q, struct endpoint *e);
/* How long it was paused, disabled or held in all. */
int64_t endpoint_paused_ms(const struct endpoint *e, int64_t at_ms);
void endpoint_answered(struct sequencer *q, struct endpoint *e, bool delivered,
                       int64_t duration_ms, int64_t at_ms);
/* This deliverer has sent two heartbeats `alive_ms` apart: its endpoints could be
 * tried for so long. Only such time counts for `disable_after`. */
void endpoints_alive(struct sequencer *q, const struct deliverer *d,
                     int64_t alive_ms);
void endpoint_disable(struct sequencer *q, struct endpoint *e, const char *why);
/* The start of a delivery's budget, with what it was paused since taken out. */
int64_t endpoint_budget_ms(const struct endpoint *e, int64_t first_ms,
                           int64_t paused_ms);
void endpoints_work(struct sequencer *q);
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

/* letters.c: to dlqd and back */
enum { LETTER_ID_BYTES = 4 + EVENT_ID_BYTES + 1 + NAME_MAX_BYTES + 1 };
void letter_id(char out[LETTER_ID_BYTES], const char *event_id,
               const char *endpoint);
/* This delivery is dead: its row says in which generation, and of what. */
void letters_dead(struct sequencer *q, const struct delivery_row *d,
                  struct bytes response);
/* The same of an event without deliveries: refused, or ignored. */
void letters_refused(struct sequencer *q, const struct event_row *ev,
                     int64_t life);
void letters_recovered(struct sequencer *q, int64_t event, int64_t endpoint,
                       int64_t life);
gr_rc letters_requeued(struct sequencer *q, const struct wire_requeued *m);
gr_rc letters_decided(struct sequencer *q, const struct wire_decided *m);
/* An event that is not here. Returns its number. */
int64_t letters_adopt(struct sequencer *q, const struct wire_requeued *m);
bool letters_load(struct sequencer *q, int kind, int64_t ref, struct buf *out);
/* What dlqd has acknowledged is kept for a day, or for dlq.keep if that is less, or
 * not at all where the database has its share of the disk. true: there is more to
 * forget. */
bool letters_work(struct sequencer *q);
/* The event's body, when nothing needs it any more, goes. */
void body_maybe_drop(struct sequencer *q, int64_t event);
/* The same of an event without open deliveries. */
void body_drop_unneeded(struct sequencer *q, int64_t event);

/* ended.c */
/* A delivery of this event has just become final, or it has none. When no other is
 * open: log that it has finished, and drop its body if nothing needs it. A crash
 * before the turn's commit repeats the line. */
void event_maybe_ended(struct sequencer *q, int64_t event);
/* How long it took: since its acceptance, or since a person sent it again, the event or one
 * of its deliveries (`reopened_ms`; wall, 0: nobody did), whichever was last. */
int64_t event_duration_ms(const struct event_row *ev, int64_t reopened_ms);

/* search.c */
json_t *events_search(void *self, json_t *args, char why[200]);
json_t *deliveries_search(void *self, json_t *args, char why[200]);

/* trace_ends.c */
/* It is about to be sent again: what its row says of its end is kept for `trace`. */
struct delivery_row;
void trace_keep_end(struct sequencer *q, const struct delivery_row *d,
                    const char *endpoint);
void trace_keep_refusal(struct sequencer *q, int64_t event);

/* trace.c */
json_t *trace_event(void *self, json_t *args, char why[200]);

/* measure.c: what takes a look at the rows, once per metrics.interval */
void measure(void *self);
/* A delivery that nobody has reopened was delivered at `at_ms` (wall). */
void measure_delivered(struct sequencer *q, const struct endpoint *e,
                       int64_t event, const char *event_id, int64_t at_ms);

/* show.c */
const char *delivery_status_name(int status);

#endif
