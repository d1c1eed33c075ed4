/* sequencer: the state of this process in memory, and the numbers of its metrics. Only files of
 * this folder include it. All of it belongs to the one thread of the daemon's loop, and can
 * be made again from sequencer.db, but for the times at which peers were heard. */
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
#include "purge_pace.h"
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
    METRIC_ABANDONED,
    METRIC_LISTENED,
    METRIC_TEMPORARY,
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
    METRIC_GAPS_RECONCILED,
    METRIC_GAPS_OPEN,
    METRIC_GAP_OLDEST,
    METRIC_OUTCOMES,
    METRIC_KEYS,
    METRIC_COUNT,
};

enum sequencer_family {
    FAMILY_END_TO_END,
    FAMILY_OPEN, /* by status */
    FAMILY_OLDEST,
    FAMILY_DISABLED, /* this and the next ones: by endpoint */
    FAMILY_FAILING,
    FAMILY_HELD,
    FAMILY_WAITING,
    FAMILY_DUPLICATES, /* by source */
};

struct sequencer {
    struct daemon d;
    struct store *store;
    struct deliveries *deliveries;
    struct store_order *order;
    struct store_search *search;
    struct search_filters *search_filters;
    struct provider_ids *provider_ids;
    struct keys *keys;
    struct tokens *tokens;
    struct erasing *erasing;
    struct managed *managed;
    struct tallies *tallies;
    struct streams *streams;
    struct watermarks *watermarks;
    struct operational_events *operational;
    struct outcomes *outcomes;
    struct event_types *event_types;
    struct operational_archive *operational_archive;
    struct ended *ended;
    struct workspaces workspaces;
    struct endpoint *endpoints; /* by id */
    size_t endpoint_count, endpoint_capacity;
    struct endpoint_list lists[ENDPOINT_LISTS];
    int64_t halts;               /* of all endpoints */
    struct lookup names, grants; /* slots in `endpoints` */
    int64_t temporary_made_ms;   /* mono: temporary_may_make() */
    /* Slots in `endpoints`. NULL: sequencer_begin() has to match the settings first. */
    struct subscriptions *subscriptions;
    struct deliverer_peer **deliverers;
    size_t deliverer_count;
    bool assign;             /* an endpoint may need another owner */
    bool configure;          /* endpoints are to be matched with the settings */
    bool granted_pending;    /* a `granted` is to be sent */
    int64_t started_ms;      /* mono */
    int64_t longest_ms;      /* the longest timeout of the settings */
    int64_t longest_wait_ms; /* the longest wait of any retry policy */
    /* mono: no attempt under a longer one can run any more */
    int64_t shorten_ms;
    int64_t silence_ms; /* a grant ends so long after our last heartbeat_ack */
    /* Deliveries may have retry policies of their own, so these apply to all endpoints. */
    bool choices;
    uint64_t policies_digest;            /* of all retry policies */
    struct string_list unknown_policies; /* already logged (choice.c) */
    int64_t config_since_ms; /* wall: the last change of the configuration */
    uint64_t series;
    bool series_begun; /* in this start, as this database is an older copy */
    struct ulid ids;   /* of internal events */
    int64_t next_event;
    int64_t damaged[64]; /* deliveries (delivery_ref()) of damaged events */
    int damaged_count;
    int64_t next_route_order;     /* events get them in the order of routing */
    int64_t reserved_route_order; /* up to this one they may have been used */
    struct store_lanes *lanes;
    int64_t reserved_event; /* numbers up to this one may have been used */
    int64_t looked_ms;      /* mono: last look at the disk and at retention */
    bool was_undone;        /* a turn was rolled back: dispatch nothing yet */
    bool disk_low;          /* the disk is below its mark: take no events */
    size_t next_endpoint; /* of ENDPOINTS_AWAKE, that dispatch.c serves next */
    size_t watch_turn;    /* of ENDPOINTS_GRANTED, that watch.c looks at next */
    int64_t watched_ms;   /* mono: the last look of watch.c */
    bool crowded;  /* deliveries wait because their endpoint's window is full */
    bool in_lanes; /* deliveries of ordered lanes are under way */
    bool needs_results;   /* deliveries wait for what deliverers report */
    int64_t event_credit; /* events that may be taken meanwhile (turn.c) */
    bool purge_keys, purge_events, purge_order; /* there may be rows to purge */
    struct purge_pace purge_pace;               /* of events */
    int64_t purged_ms; /* wall: the last time that `purged_to` was set to 0 */
    int64_t purged_to; /* retention has checked the events up to this one */
    /* mono: the last look for rows that dlqd has acknowledged */
    int64_t dead_letters_ms;
    bool reopenings;       /* deliveries may wait to be reopened (replay.h) */
    int64_t reopenings_ms; /* mono: the last look for them */
    /* that look has checked the events up to this one */
    int64_t reopenings_after;
    int64_t metrics[METRIC_COUNT];
};

#endif
