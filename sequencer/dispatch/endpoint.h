/* endpoint: the rows of `endpoints`, and whether an endpoint is tried at all. endpoint.c
 * has the table of its states.
 *
 * sequencer.endpoints has all endpoints by id, also removed ones as long as a stored row
 * names them. Changes of a turn are written at its end. */
#ifndef SEQUENCER_ENDPOINT_H
#define SEQUENCER_ENDPOINT_H

#include "alloc.h"
#include "bounds.h"
#include "dispatch_window.h"
#include "rc.h"
#include "settings.h"
#include "wire.h"

struct sequencer;
struct deliverer_peer;

/* On disk forever, but for HELD: there it is ACTIVE with `held_ms`. */
enum endpoint_state {
    ENDPOINT_ACTIVE = 0,
    ENDPOINT_PAUSED = 1,   /* by an operator */
    ENDPOINT_DISABLED = 2, /* by its responses */
    ENDPOINT_HELD = 3,     /* by its deliverer (deliverer/throttle/hold.h) */
};

enum {
    EVENT_BITS_ENDPOINT = 20, /* of a delivery's ref: its endpoint's id */
    ENDPOINTS_MAX = 1 << EVENT_BITS_ENDPOINT,
};

/* A delivery at its deliverer, in the order of store_out_after(). */
struct out_row {
    int64_t status, event, next_ms;
    uint64_t out_n;
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
    struct deliverer_peer *owner;
    uint64_t grant;
    int64_t config;     /* digest of `carried` */
    struct buf carried; /* the configuration, encoded */
    bool lossy; /* its owner crashed, or may have: a result may be missing */
    uint64_t
        complete_grant;   /* the last ended grant whose results are all here */
    bool revoke;          /* to be revoked in the next turn */
    bool revoking;        /* was; nothing more is given out under its grant */
    bool granted_pending; /* its owner is to hear of the grant */
    int64_t out; /* tasks at its owner, neither waiting for a retry nor ended */
    struct dispatch_window window; /* how many those may be */
    bool waiting;                  /* there may be deliveries that may go out */
    bool sweeping;          /* there may be some under grants that ended */
    struct out_row watched; /* watch.c: the last that was looked at */
    /* Lanes (lanes.c). */
    int ordered; /* enum order_lanes, as its deliveries stand; -1: in between */
    int64_t turn; /* the last lane that was given out; INT64_MIN: a new round */
    int64_t round_end; /* the last lane of this round */
    enum { SETTLED, COLLECTING, LINING_UP } laning;
    int64_t lined_up; /* while LINING_UP: every lane up to this one is */
    int64_t halts;    /* dead letters that halt a lane */
    /* Whether it is tried. */
    enum endpoint_state state; /* endpoint.c alone writes it */
    int64_t since_ms;          /* wall: of this state; 0: ACTIVE */
    char why[80];              /* why it is not ACTIVE, by whom */
    int64_t failing_ms;        /* wall: the first of consecutive failures; 0 */
    /* How long it has failed since then, without the time in which its deliverer
     * was away; and how much of that is on disk. */
    int64_t failing_for_ms, failing_saved_ms;
    int warned;   /* of the warnings in endpoint.c, how many */
    bool healthy; /* it has delivered before: the guard may hold it */
    int64_t
        held_status; /* HELD: the status with which it refuses all events; 0: none */
    int64_t paused_ms; /* paused, disabled or held in all, before now */
    /* Wall: when a pause, a hold or a halt of it last ended; 0. Events
     * accepted before may have waited for that, so they are in no latency. */
    int64_t resumed_ms;
    bool was_off; /* in this start: it had `enabled: false` */
    bool changed; /* one of these (or `ordered`) in this turn */
    struct tally_minute minutes[MINUTES_KEPT];
};

/* ---- rows ---- */

struct endpoint *endpoint_find(struct sequencer *q, const char *name);
struct endpoint *endpoint_by_id(struct sequencer *q, int64_t id);
/* Adds it, with a row, if it is unknown or was forgotten. */
struct endpoint *endpoint_find_or_add(struct sequencer *q, const char *name);
/* The same for a delivery whose event exists: a new row is marked as removed. */
struct endpoint *endpoint_adopt(struct sequencer *q, const char *name);
/* The configuration does not name it: up to now events may have deliveries for it. */
void endpoint_note_gone(struct sequencer *q, struct endpoint *e);
/* Forgets the rows of removed endpoints that no event is kept for. true: there were
 * some, and all must be read anew. */
bool endpoints_forget_gone(struct sequencer *q);
void endpoints_load(struct sequencer *q);
void endpoints_unload(struct sequencer *q);
/* At the end of a turn: write those that have changed. */
void endpoints_save(struct sequencer *q);

/* ---- is it tried? ---- */

/* It is configured, and neither paused nor disabled. */
bool endpoint_is_on(const struct endpoint *e);
/* Paused or disabled. */
bool endpoint_is_stopped(const struct endpoint *e);
/* Its state for people: also "removed" and "off" (`enabled: false`). */
const char *endpoint_state_name(const struct endpoint *e);
/* Wall: since when it is held; 0: it is not. */
int64_t endpoint_held_ms(const struct endpoint *e);
/* Since when it is paused, disabled or held, so that its deliveries wait for a person or
 * for its repair (wall); 0: it is tried. */
int64_t endpoint_waits_since_ms(const struct endpoint *e);

/* An operator's actions; without effect if the endpoint is in that state already. */
void endpoint_pause(struct sequencer *q, struct endpoint *e, const char *who);
void endpoint_resume(struct sequencer *q, struct endpoint *e, const char *who);
void endpoint_disable(struct sequencer *q, struct endpoint *e, const char *why);
/* A result under its present grant: does its deliverer hold it? */
void endpoint_note_hold(struct sequencer *q, struct endpoint *e,
                        const struct wire_result *r);
void endpoint_end_hold(struct sequencer *q, struct endpoint *e);
/* Its pause, hold or halt has just ended. */
void endpoint_resumed(struct sequencer *q, struct endpoint *e);

/* ---- results of attempts, and since when it fails ---- */

void endpoint_responded(struct sequencer *q, struct endpoint *e, bool delivered,
                        int64_t duration_ms, int64_t at_ms);
/* This deliverer has sent two heartbeats `alive_ms` apart: its endpoints could be
 * tried for so long. Only such time counts for `disable_after`. */
void endpoints_alive(struct sequencer *q, const struct deliverer_peer *d,
                     int64_t alive_ms);

/* ---- budgets ---- */

/* How long it was paused, disabled or held in all. */
int64_t endpoint_paused_ms(const struct endpoint *e, int64_t at_ms);
/* The start of a delivery's budget, without the time for which the endpoint was paused. */
int64_t endpoint_budget_ms(const struct endpoint *e, int64_t first_ms,
                           int64_t paused_ms);

#endif
