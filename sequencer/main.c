/* sequencer: numbers each event, decides which endpoints get it, and keeps the state of each
 * delivery until it is final.
 *
 * Promises  an event is processed once; the numbers of a workspace have no gaps, and
 *           none is used twice; every delivery ends delivered or dead
 * Reads     accepted (ingress); result, released, missing (deliverers); requeued,
 *           decided, redirected (dlqd); replayed (ingress); heartbeat, watermark
 * Writes    sequencer.db; task, revoke, dropped, check, retry_now (deliverers); dead,
 *           recovered (dlqd); outcome (processes that sent events); heartbeat_ack,
 *           granted, revoked, watermark_request
 * Refuses   new events while its disk is nearly full; it still takes results
 * kill -9   loses nothing: a message that was not committed was not acknowledged, and
 *           its sender sends it again */
#include "actions.h"
#include "commands.h"
#include "dead_letters.h"
#include "dispatch.h"
#include "endpoint_plan.h"
#include "event_intake.h"
#include "event_trace.h"
#include "event_types.h"
#include "explain.h"
#include "log.h"
#include "managed_commands.h"
#include "measure.h"
#include "operational_archive.h"
#include "operational_events.h"
#include "outcomes.h"
#include "processes.h"
#include "replay.h"
#include "results.h"
#include "search.h"
#include "sequencer.h"
#include "show_endpoints.h"
#include "show_order.h"
#include "store.h"
#include "tenants.h"
#include "tokens.h"
#include "turn.h"
#include "watch.h"
#include "watermarks.h"
#include "workspace_erase.h"
#include <string.h>

static const struct metric metrics[] = {
    [METRIC_TAKEN] = {"grapnel_events_taken_total", METRIC_COUNTER, "events",
                      "events received from ingress"},
    [METRIC_DUPLICATES] = {"grapnel_events_duplicate_total", METRIC_COUNTER,
                           "events",
                           "events that were recognised as duplicates"},
    [METRIC_REPLAYS] =
        {"grapnel_events_replayed_total", METRIC_COUNTER, "events",
         "duplicates that were recognised by `dedupe.replays`, after their "
         "idempotency keys had expired; also counted as duplicates"},
    [METRIC_REFUSED] = {"grapnel_events_refused_total", METRIC_COUNTER,
                        "events", "events without a field that they need"},
    [METRIC_ROUTED] = {"grapnel_events_routed_total", METRIC_COUNTER, "events",
                       "events to which at least one endpoint is subscribed"},
    [METRIC_UNMATCHED] = {"grapnel_events_unmatched_total", METRIC_COUNTER,
                          "events",
                          "events to which no endpoint is subscribed"},
    [METRIC_DELIVERED] = {"grapnel_deliveries_delivered_total", METRIC_COUNTER,
                          "deliveries", "deliveries with a 2xx response"},
    [METRIC_DEAD] = {"grapnel_deliveries_dead_total", METRIC_COUNTER,
                     "deliveries", "deliveries that failed for good"},
    [METRIC_ABANDONED] = {"grapnel_deliveries_abandoned_total", METRIC_COUNTER,
                          "deliveries",
                          "deliveries to temporary endpoints that ended "
                          "without success"},
    [METRIC_LISTENED] = {"grapnel_deliveries_listened_total", METRIC_COUNTER,
                         "deliveries",
                         "deliveries to temporary endpoints with a 2xx "
                         "response or an acknowledgement; no other metric of "
                         "deliveries counts those of temporary endpoints"},
    [METRIC_TEMPORARY] = {"grapnel_temporary_endpoints", METRIC_GAUGE,
                          "endpoints",
                          "temporary endpoints, those of `grapnel listen`"},
    [METRIC_RETRIES] = {"grapnel_deliveries_retried_total", METRIC_COUNTER,
                        "attempts",
                        "failed attempts after which a retry was scheduled"},
    [METRIC_LATE] = {"grapnel_results_late_total", METRIC_COUNTER, "results",
                     "results of attempts whose grant had ended"},
    [METRIC_MISSING] = {"grapnel_deliveries_missing_total", METRIC_COUNTER,
                        "deliveries",
                        "deliveries that their deliverer did not know, and "
                        "that were dispatched again"},
    [METRIC_RECOVERED] = {"grapnel_dead_letters_recovered_total",
                          METRIC_COUNTER, "dead letters",
                          "dead letters that were delivered later"},
    [METRIC_REQUEUED] =
        {"grapnel_dead_letters_requeued_total", METRIC_COUNTER, "dead letters",
         "dead letters that dlqd returned for another delivery"},
    [METRIC_REPLAYED] = {"grapnel_deliveries_replayed_total", METRIC_COUNTER,
                         "deliveries",
                         "deliveries that an operator sent again"},
    [METRIC_OUT] = {"grapnel_deliveries_out", METRIC_GAUGE, "deliveries",
                    "deliveries at deliverers that have not ended and do not "
                    "wait for a retry"},
    [METRIC_DELIVERERS] =
        {"grapnel_deliverers", METRIC_GAUGE, "processes",
         "deliverers that send heartbeats within their lease"},
    [METRIC_ENDPOINTS_UNOWNED] = {"grapnel_endpoints_unowned", METRIC_GAUGE,
                                  "endpoints",
                                  "enabled endpoints without an owner"},
    [METRIC_ENDPOINTS_DISABLED] =
        {"grapnel_endpoints_disabled_total", METRIC_COUNTER, "times",
         "how often an endpoint was disabled because of its responses"},
    [METRIC_LANES_HALTED] = {"grapnel_lanes_halted", METRIC_GAUGE,
                             "dead letters",
                             "dead letters that stop the later events of their "
                             "workspace or endpoint (`on_dead: halt`)"},
    [METRIC_GRANTS] = {"grapnel_grants_total", METRIC_COUNTER, "grants",
                       "grants that were given to deliverers"},
    [METRIC_GRANTS_ENDED] =
        {"grapnel_grants_ended_total", METRIC_COUNTER, "grants",
         "grants that deliverers released or that timed out"},
    [METRIC_SERIES] = {"grapnel_series_changed_total", METRIC_COUNTER, "times",
                       "how often a restored copy set the numbering back"},
    [METRIC_DUPLICATES_RELEASED] = {"grapnel_events_released_total",
                                    METRIC_COUNTER, "events",
                                    "duplicates that an operator released"},
    [METRIC_IGNORED] =
        {"grapnel_events_ignored_total", METRIC_COUNTER, "events",
         "events that are not a valid transition of their object"},
    [METRIC_EVENTS_LATE] =
        {"grapnel_events_late_total", METRIC_COUNTER, "events",
         "events that arrived after later events had been released"},
    [METRIC_WOULD_BUFFER] =
        {"grapnel_events_would_hold_total", METRIC_COUNTER, "events",
         "events that order would have buffered without order.observe"},
    [METRIC_BUFFERED] = {"grapnel_events_buffered", METRIC_GAUGE, "events",
                         "events that are buffered for their order"},
    [METRIC_GAPS_OPENED] = {"grapnel_gaps_opened_total", METRIC_COUNTER, "gaps",
                            "gaps that were found in the numbers of sources"},
    [METRIC_GAP_NUMBERS_FILLED] = {"grapnel_gap_numbers_filled_total",
                                   METRIC_COUNTER, "numbers",
                                   "missing numbers that arrived later"},
    [METRIC_GAPS_SKIPPED] = {"grapnel_gaps_skipped_total", METRIC_COUNTER,
                             "gaps",
                             "gaps that were skipped, because the wait "
                             "expired, the buffer was full or the "
                             "configuration of order changed"},
    [METRIC_GAPS_CLOSED] = {"grapnel_gaps_closed_total", METRIC_COUNTER, "gaps",
                            "gaps that an operator closed"},
    [METRIC_GAPS_RECONCILED] = {"grapnel_gaps_reconciled_total", METRIC_COUNTER,
                                "events",
                                "events that never arrived and were taken from "
                                "the list of their provider"},
    [METRIC_GAPS_OPEN] = {"grapnel_gaps_open", METRIC_GAUGE, "gaps",
                          "open gaps; counted up to 10000"},
    [METRIC_GAP_OLDEST] = {"grapnel_gap_oldest_seconds", METRIC_GAUGE,
                           "seconds", "age of the oldest open gap"},
    [METRIC_OUTCOMES] = {"grapnel_outcomes_total", METRIC_COUNTER, "outcomes",
                         "outcomes of events for the processes that sent them "
                         "and are told what becomes of them"},
    [METRIC_KEYS] = {"grapnel_idempotency_keys", METRIC_GAUGE, "keys",
                     "stored idempotency keys"},
    [METRIC_COUNT] = {0},
};

static const struct metric_family families[] = {
    [FAMILY_END_TO_END] =
        {.name = "grapnel_end_to_end_seconds",
         .kind = METRIC_HISTOGRAM,
         .unit = "seconds",
         .help = "time from the HTTP request to the 2xx response of the "
                 "endpoint. It leaves out deliveries that waited for an "
                 "operator or the guard: retried dead letters, events that "
                 "were sent again, endpoints that were paused, disabled, off "
                 "or held, and events behind a dead letter with "
                 "`on_dead: halt`",
         .labels = {"endpoint"},
         .per = 1000,
         .bounds = metric_latency_bounds_ms},
    [FAMILY_OPEN] = {.name = "grapnel_deliveries_open",
                     .kind = METRIC_GAUGE,
                     .unit = "deliveries",
                     .help = "deliveries that are neither delivered nor dead, "
                             "by status; counted up to 100000",
                     .labels = {"status"}},
    [FAMILY_OLDEST] = {.name = "grapnel_oldest_open_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help =
                           "age of the oldest open delivery, since its event "
                           "was accepted or an operator sent it again",
                       .per = 1000},
    [FAMILY_DISABLED] = {.name = "grapnel_endpoint_disabled",
                         .kind = METRIC_GAUGE,
                         .unit = "",
                         .help =
                             "1: the endpoint responded 410 or failed for too "
                             "long, and waits for `grapnel endpoints resume`",
                         .labels = {"endpoint"}},
    [FAMILY_FAILING] =
        {.name = "grapnel_endpoint_failing_seconds",
         .kind = METRIC_GAUGE,
         .unit = "seconds",
         .help = "how long the endpoint has failed continuously, without the "
                 "time in which no deliverer served it; 0 after a success, and "
                 "while it is paused, disabled or switched off",
         .labels = {"endpoint"},
         .per = 1000},
    [FAMILY_HELD] = {.name = "grapnel_endpoint_held",
                     .kind = METRIC_GAUGE,
                     .unit = "",
                     .help = "1: the endpoint worked before and now refuses "
                             "every event; its deliveries are held",
                     .labels = {"endpoint"}},
    [FAMILY_WAITING] = {.name = "grapnel_endpoint_waiting_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help = "how long the endpoint has been paused, "
                                "disabled or held; its deliveries wait on disk "
                                "without a limit. 0: deliveries are attempted",
                        .labels = {"endpoint"},
                        .per = 1000},
    [FAMILY_DUPLICATES] = {.name = "grapnel_source_duplicates_total",
                           .kind = METRIC_COUNTER,
                           .unit = "events",
                           .help = "suppressed duplicates, by source",
                           .labels = {"source"}},
    {0},
};

/* ---- commands ---- */

static const struct control_command commands[] = {
    {&command_event, event_trace},
    {&command_events, events_search},
    {&command_deliveries, deliveries_search},
    {&command_endpoint, endpoints_show_one},
    {&command_endpoint_stats, endpoints_stats},
    {&command_endpoint_plan, endpoint_plan},
    {&command_routing, routing_explain},
    {&command_event_routing, event_routing_explain},
    {&command_pull_want, endpoints_want},
    {&command_endpoints, endpoints_show},
    {&command_endpoint_pause, endpoints_pause},
    {&command_endpoint_resume, endpoints_resume},
    {&command_endpoint_create, managed_create_command},
    {&command_endpoint_change, managed_change_command},
    {&command_endpoint_rotate, managed_rotate_command},
    {&command_endpoint_delete, managed_delete_command},
    {&command_temporary_create, temporary_create_command},
    {&command_temporary_delete, temporary_delete_command},
    {&command_endpoint_secrets, managed_secrets_command},
    {&command_retry, actions_retry},
    {&command_abandon, actions_abandon},
    {&command_facts, replay_facts},
    {&command_release, show_release},
    {&command_gaps, show_gaps},
    {&command_close_gap, show_close_gap},
    {&command_listed, show_listed},
    {&command_workspace, show_workspace},
    {&command_workspaces, show_workspaces},
    {&command_alert_event, operational_alert},
    {&command_operational_archive, operational_archive_list},
    {&command_operational_request, operational_archive_show},
    {&command_operational_resend, operational_archive_resend},
    {&command_workspace_erase, workspace_erase_ask},
    {&command_event_types, event_types_list},
    {&command_event_type, event_types_read},
    {&command_event_type_create, event_types_create},
    {&command_event_type_change, event_types_change},
    {&command_event_type_delete, event_types_delete},
    {&command_event_catalogue, event_types_catalogue},
    {&command_tokens, tokens_list},
    {&command_token_create, tokens_create},
    {&command_token_revoke, tokens_revoke},
    {&command_token_check, tokens_check},
    {&command_tenant_check, tenants_check},
    {&command_recent_events, events_recent},
    {0},
};

/* ---- messages of the links, and frames beside them ---- */

/* A process on another host proves its name by its key (proto/cluster.h). With this its key is good only for what
 * such a process does. */
static bool may_send(const char *from, int kind)
{
    switch (kind) {
    case WIRE_KIND_RESULT:
    case WIRE_KIND_RELEASED:
    case WIRE_KIND_MISSING:
        return process_is(from, "deliverer");
    case WIRE_KIND_REQUEUED:
    case WIRE_KIND_DECIDED:
    case WIRE_KIND_REDIRECTED:
        return process_is(from, "dlqd");
    default:
        return process_is(from, PROCESSES_WITH_ARCHIVE);
    }
}

static gr_rc apply(void *self, const char *from, uint64_t n, struct bytes msg)
{
    struct sequencer *q = self;
    struct wire_accepted accepted;
    struct wire_result result;
    struct wire_released released;
    struct wire_missing missing;
    struct wire_requeued requeued;
    struct wire_decided decided;
    struct wire_replayed replayed;
    struct wire_redirected redirected;

    (void)n;
    if (!may_send(from, wire_kind(msg)))
        return GR_REFUSE;
    switch (wire_kind(msg)) {
    case WIRE_KIND_ACCEPTED:
        if (wire_get_accepted(&accepted, msg) != GR_OK)
            return GR_REFUSE;
        watermarks_event(q->watermarks, from, accepted.received_ms);
        q->event_credit--;
        return intake_accepted(q, from, &accepted);
    case WIRE_KIND_RESULT:
        return wire_get_result(&result, msg) == GR_OK
                   ? results_take(q, from, &result)
                   : GR_REFUSE;
    case WIRE_KIND_RELEASED:
        if (wire_get_released(&released, msg) != GR_OK)
            return GR_REFUSE;
        grants_released(q, from, released.grant);
        return GR_OK;
    case WIRE_KIND_MISSING:
        return wire_get_missing(&missing, msg) == GR_OK
                   ? results_missing(q, from, &missing)
                   : GR_REFUSE;
    case WIRE_KIND_REQUEUED:
        return wire_get_requeued(&requeued, msg) == GR_OK
                   ? dead_letters_requeued(q, &requeued)
                   : GR_REFUSE;
    case WIRE_KIND_DECIDED:
        return wire_get_decided(&decided, msg) == GR_OK
                   ? dead_letters_decided(q, &decided)
                   : GR_REFUSE;
    case WIRE_KIND_REPLAYED:
        return wire_get_replayed(&replayed, msg) == GR_OK
                   ? replay_taken(q, from, &replayed)
                   : GR_REFUSE;
    case WIRE_KIND_REDIRECTED:
        return wire_get_redirected(&redirected, msg) == GR_OK
                   ? replay_redirected(q, &redirected)
                   : GR_REFUSE;
    default:
        return GR_REFUSE;
    }
}

static bool load(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out)
{
    struct sequencer *q = self;
    struct wire_revoke revoke = {.grant = (uint64_t)ref};

    switch (kind) {
    case WIRE_KIND_TASK:
        return dispatch_load(q, peer, n, ref, out);
    case WIRE_KIND_DROPPED:
        return dispatch_load_dropped(q, ref, out);
    case WIRE_KIND_RETRY_NOW:
        return dispatch_load_retry_now(q, peer, ref, out);
    case WIRE_KIND_CHECK:
        return watch_load(q, n, ref, out);
    case WIRE_KIND_OUTCOME:
        return outcomes_load(q, peer, n, ref, out);
    case WIRE_KIND_REVOKE:
        wire_put_revoke(out, &revoke);
        return true;
    default:
        return dead_letters_load(q, kind, ref, out);
    }
}

static void rewound(void *self, const char *peer, bool we_are_older)
{
    struct sequencer *q = self;

    watermarks_rewound(q->watermarks, peer);
    grants_rewound(q, peer, we_are_older);
    if (!we_are_older)
        workspace_erase_peer_rewound(q, peer);
}

/* Deliverers first: their results make space for the next tasks, while waiting events are
 * safe in ingress. */
static bool urgent(void *self, const char *peer)
{
    struct sequencer *q = self;

    for (size_t i = 0; i < q->deliverer_count; i++)
        if (strcmp(q->deliverers[i]->name, peer) == 0)
            return true;
    return false;
}

static void take_frame(void *self, int kind, struct bytes frame)
{
    struct sequencer *q = self;
    struct wire_watermark watermark;
    struct wire_heartbeat heartbeat;
    struct wire_taken taken;

    if (kind == WIRE_KIND_HEARTBEAT &&
        wire_get_heartbeat(&heartbeat, frame) == GR_OK)
        deliverers_heartbeat(q, &heartbeat);
    else if (kind == WIRE_KIND_WATERMARK &&
             wire_get_watermark(&watermark, frame) == GR_OK)
        watermarks_take(q->watermarks, &watermark);
    else if (kind == WIRE_KIND_TAKEN && wire_get_taken(&taken, frame) == GR_OK)
        deliverers_taken(q, &taken);
    else
        log_warn(NULL, "a frame for another kind of process arrived; dropped",
                 LS("kind", wire_kind_name(kind)));
}

static const struct links_ops links = {
    .apply = apply, .load = load, .rewound = rewound, .urgent = urgent};

int main(int argc, char **argv)
{
    static struct sequencer q;
    const struct daemon_plan plan = {
        .process = "sequencer",
        .default_name = "sequencer",
        .summary = "numbers each workspace's events, routes them, and keeps "
                   "the state of every delivery",
        .replicated = true,
        .schema = &sequencer_schema,
        .links = &links,
        .priority_inbox = true,
        .commands = commands,
        .jobs = workspace_erase_jobs,
        .owns = workspace_erase_owns,
        .metrics = metrics,
        .families = families,
        .measure = measure,
        .metric_values = q.metrics,
        .self = &q,
        .open = sequencer_open,
        .restored = sequencer_restored,
        .begin = sequencer_begin,
        .has_time = sequencer_has_time,
        .frame = take_frame,
        .work = sequencer_work,
        .after_commit = sequencer_after_commit,
        .undo = sequencer_undo,
        .reload = sequencer_reload,
        .close = sequencer_close,
        .status = endpoints_troubles,
    };

    daemon_start(&q.d, &plan, argc, argv);
    return daemon_run(&q.d);
}
