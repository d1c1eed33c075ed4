/* endpoint: the rows of `endpoints`, and whether attempts are made for an endpoint. endpoint.c
 * has the table of its states.
 *
 * sequencer.endpoints has all endpoints by id, also removed ones while a stored row names
 * them. Pointers to them are valid until an endpoint is added. A turn's changes are written
 * at its end, by endpoints_save(); after a rolled back turn all are read again.
 *
 * Thousands of endpoints may have nothing to do, so a turn looks only at those in the list
 * ENDPOINTS_AWAKE. A function that gives an endpoint something to do calls endpoint_wake(). */
#ifndef SEQUENCER_ENDPOINT_H
#define SEQUENCER_ENDPOINT_H

#include "alloc.h"
#include "bounds.h"
#include "dispatch_window.h"
#include "lane.h"
#include "rc.h"
#include "settings.h"
#include "wire.h"

struct sequencer;
struct deliverer_peer;

/* These numbers are stored, so never change them; HELD is stored as ACTIVE with `held_ms`. */
enum endpoint_state {
    ENDPOINT_ACTIVE = 0,
    ENDPOINT_PAUSED = 1,   /* by an operator */
    ENDPOINT_DISABLED = 2, /* by its responses */
    ENDPOINT_HELD = 3,     /* by its deliverer (deliverer/throttle/hold.h) */
};

enum {
    /* bits of a delivery's ref for its endpoint's id */
    EVENT_BITS_ENDPOINT = 20,
    ENDPOINTS_MAX = 1 << EVENT_BITS_ENDPOINT,
};

/* A delivery at its deliverer, in the order of store_out_after(). */
struct out_row {
    int64_t status, event, next_ms;
    uint64_t out_n;
};

/* Endpoints of one kind, in no order (sequencer.lists). */
enum endpoint_lists {
    ENDPOINTS_AWAKE,   /* they may have something to do in this turn */
    ENDPOINTS_GRANTED, /* they have an owner */
    ENDPOINTS_STOPPED, /* they are not ACTIVE */
    /* temporary ones, also deleted ones of which deliveries may be open */
    ENDPOINTS_TEMPORARY,
    ENDPOINT_LISTS,
};
struct endpoint_list {
    uint32_t *slots; /* in sequencer.endpoints */
    size_t count, capacity;
};

/* One of its queues (lane.h): the present round, the position of deliveries that are sent again,
 * and whether the next batch leaves out those that are first. */
struct endpoint_queue {
    int64_t round, reopened;
    bool past_first;
};

struct endpoint {
    int64_t id;
    char name[NAME_MAX_BYTES + 1];
    uint32_t at[ENDPOINT_LISTS]; /* its place in each list, and 1; 0: none */
    /* NULL: it is removed, or it is managed and idle */
    const struct endpoint_settings *settings;
    bool managed; /* made at run time (managed_endpoints.h), and not deleted */
    bool temporary; /* temporary.h; also when it is deleted */
    /* Deleted in this run as state_dir/ended says, by an act that was not committed: its repeat is the act. */
    bool ended;
    /* Temporary: for how long it was not used when this was stored (unused_ms), and when it was
     * (awake; 0: not since the start). */
    int64_t unused_ms, counted_ms;
    /* removed: no later event has a delivery; 0: it is not removed */
    int64_t gone_after;
    struct deliverer_peer *owner;
    uint64_t grant;
    int64_t config;            /* digest of `encoded_config` */
    struct buf encoded_config; /* the configuration, encoded */
    bool lossy; /* its owner may have crashed: a result may be missing */
    /* the last ended grant of which all results are known */
    uint64_t complete_grant;
    bool revoke;          /* to be revoked in the next turn */
    bool revoking;        /* its grant is revoked: dispatch nothing under it */
    bool granted_pending; /* `granted` is to be sent to its owner */
    int64_t in_window;    /* tasks at its owner, without scheduled retries */
    struct dispatch_window window; /* limits `in_window` */
    bool waiting;                  /* there may be deliveries to dispatch */
    bool sweeping;          /* there may be deliveries under ended grants */
    struct out_row watched; /* watch.c: the last row that it looked at */
    /* Lanes (lanes.c). */
    int ordered; /* enum order_lanes of its deliveries; -1: they are being moved */
    /* the last lane that had its turn; INT64_MIN: begin a round */
    int64_t last_lane;
    int64_t round_end; /* the last lane of this round */
    /* The queues, if it is not ordered, and how many deliveries have been taken from all
     * of them (priority.h). */
    struct endpoint_queue queues[PRIORITIES];
    unsigned taken;
    enum { SETTLED, COLLECTING, LINING_UP } laning;
    struct lane
        lined_up;  /* while LINING_UP: lanes up to this one have a head */
    int64_t halts; /* how many dead letters halt a lane */
    /* Whether attempts are made. */
    enum endpoint_state state; /* endpoint.c alone writes it */
    int64_t since_ms;          /* wall: of this state; 0: ACTIVE */
    char *why; /* why it is not ACTIVE, and who did it; NULL: no reason */
    int64_t failing_ms; /* wall: the first of consecutive failures; 0: none */
    /* How long it has failed since then, without the time in which its deliverer was
     * away; and how much of that is on disk. */
    int64_t failing_for_ms, failing_saved_ms;
    int warned;   /* how many of the warnings in endpoint.c were logged */
    bool healthy; /* it has delivered before: the guard may hold it */
    /* HELD: the status with which it refuses; 0: no response */
    int64_t held_status;
    /* total time paused, disabled or held, up to `since_ms` */
    int64_t paused_ms;
    /* Wall: when a pause, a hold or a halt last ended; 0: never. Events accepted before
     * that may have waited for it, so no latency is measured for them. */
    int64_t resumed_ms;
    int64_t idle_since_ms; /* mono: it left ENDPOINTS_AWAKE */
    bool was_off;          /* in this start it had `enabled: false` */
    bool changed;          /* its row is to be written at the end of the turn */
};

/* ---- rows ---- */

struct endpoint *endpoint_find(struct sequencer *q, const char *name);
struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id);
/* Adds an unknown endpoint, with a row. */
struct endpoint *endpoint_find_or_add(struct sequencer *q, const char *name);
/* The same for a temporary one, whose name is new. */
struct endpoint *endpoint_add_temporary(struct sequencer *q, const char *name);
/* The same for the delivery of a stored event: if the configuration does not name the
 * endpoint, its row is marked as removed. */
struct endpoint *endpoint_adopt(struct sequencer *q, const char *name);
/* The configuration does not name it any more: later events have no delivery to it. */
void endpoint_note_gone(struct sequencer *q, struct endpoint *e);
/* Delete the rows of removed endpoints to which no stored event has a delivery. true: there
 * were some, and all endpoints must be read again. */
bool endpoints_forget_gone(struct sequencer *q);
void endpoints_load(struct sequencer *q);
void endpoints_unload(struct sequencer *q);
/* Its row is to be written at the end of the turn. */
void endpoint_changed(struct sequencer *q, struct endpoint *e);
/* At the end of a turn: write changed rows, and drop those from ENDPOINTS_AWAKE that have
 * nothing to do. */
void endpoints_save(struct sequencer *q);

/* ---- lists ---- */

/* It may have something to do: the present turn, or the next one, looks at it. The settings of
 * a managed endpoint are in memory then, if they can be used. */
void endpoint_wake(struct sequencer *q, struct endpoint *e);
/* Puts it into a list, or takes it out; both may be repeated. While a list is walked from its
 * end to its beginning, the present endpoint may be taken out. */
void endpoint_list_put(struct sequencer *q, struct endpoint *e,
                       enum endpoint_lists list);
void endpoint_list_drop(struct sequencer *q, struct endpoint *e,
                        enum endpoint_lists list);
struct endpoint *endpoint_listed(const struct sequencer *q,
                                 enum endpoint_lists list, size_t i);

/* ---- are attempts made? ---- */

/* It is in the file, or was made at run time; else it is removed. */
bool endpoint_is_configured(const struct endpoint *e);
/* It is configured, and neither paused nor disabled. */
bool endpoint_is_on(const struct endpoint *e);
/* Paused or disabled. */
bool endpoint_is_stopped(const struct endpoint *e);
/* The state's name for people; "removed" and "off" (`enabled: false`) are names, too. */
const char *endpoint_state_name(const struct endpoint *e);
/* Wall: since when it is held; 0: it is not. */
int64_t endpoint_held_ms(const struct endpoint *e);
/* Wall: since when it is paused, disabled or held, so that its deliveries wait for a person or
 * for its repair; 0: attempts are made. */
int64_t endpoint_waits_since_ms(const struct endpoint *e);

/* An operator's actions; without effect if the endpoint is in that state already. */
void endpoint_pause(struct sequencer *q, struct endpoint *e, const char *who);
void endpoint_resume(struct sequencer *q, struct endpoint *e, const char *who);
/* It cannot be used until an operator has mended something and resumes it; `why` is a
 * sentence. */
void endpoint_stop(struct sequencer *q, struct endpoint *e, const char *why);
/* `reason`: a word for the log; `why`: a sentence. */
void endpoint_disable(struct sequencer *q, struct endpoint *e,
                      const char *reason, const char *why);
/* A result under its present grant begins or ends a hold. */
void endpoint_note_hold(struct sequencer *q, struct endpoint *e,
                        const struct wire_result *r);
void endpoint_end_hold(struct sequencer *q, struct endpoint *e);
/* A pause, a hold or a halt of it has just ended. */
void endpoint_resumed(struct sequencer *q, struct endpoint *e);

/* ---- results of attempts ---- */

void endpoint_responded(struct sequencer *q, struct endpoint *e, bool delivered,
                        int64_t at_ms);
/* This deliverer has sent two heartbeats `alive_ms` apart: it could make attempts during that
 * time. Only such time counts for `disable_after`. */
void endpoints_alive(struct sequencer *q, const struct deliverer_peer *d,
                     int64_t alive_ms);

/* ---- budgets ---- */

/* How long it has been paused, disabled or held in all, as of `at_ms` (wall). */
int64_t endpoint_paused_ms(const struct endpoint *e, int64_t at_ms);
/* The start of a delivery's budget, moved later by the time for which the endpoint was paused
 * since its first attempt. */
int64_t endpoint_budget_ms(const struct endpoint *e, int64_t first_ms,
                           int64_t paused_ms);

#endif
