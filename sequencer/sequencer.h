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
    METRIC_DUPLICATES_RELEASED,
    METRIC_IGNORED,
    METRIC_EVENTS_LATE,
    METRIC_WOULD_BUFFER,
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
    int64_t reopenings_ms, reopenings_after;
    int64_t metrics[METRIC_COUNT];
};

#endif
