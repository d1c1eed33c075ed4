#include "loop_parts.h"
#include "store.h"

static const struct metric metrics[] = {
    [METRIC_TAKEN] = {"grapnel_events_taken_total", METRIC_COUNTER, "events",
                      "taken from ingress"},
    [METRIC_DUPLICATES] = {"grapnel_events_duplicate_total", METRIC_COUNTER,
                           "events", "recognised as repeats"},
    [METRIC_REPLAYS] = {"grapnel_events_replayed_total", METRIC_COUNTER,
                        "events",
                        "sent again after their keys were forgotten "
                        "(`dedupe.replays`); repeats, too"},
    [METRIC_REFUSED] = {"grapnel_events_refused_total", METRIC_COUNTER,
                        "events", "that lack a field they need"},
    [METRIC_ROUTED] = {"grapnel_events_routed_total", METRIC_COUNTER, "events",
                       "at least one endpoint is subscribed to them"},
    [METRIC_UNWANTED] = {"grapnel_events_unwanted_total", METRIC_COUNTER,
                         "events", "no endpoint is subscribed to them"},
    [METRIC_DELIVERED] = {"grapnel_deliveries_delivered_total", METRIC_COUNTER,
                          "deliveries", "answered 2xx"},
    [METRIC_DEAD] = {"grapnel_deliveries_dead_total", METRIC_COUNTER,
                     "deliveries", "failed for good"},
    [METRIC_RETRIES] = {"grapnel_deliveries_retried_total", METRIC_COUNTER,
                        "attempts", "failed, with another to come"},
    [METRIC_LATE] = {"grapnel_results_late_total", METRIC_COUNTER, "results",
                     "under a grant that had ended"},
    [METRIC_MISSING] = {"grapnel_deliveries_missing_total", METRIC_COUNTER,
                        "deliveries",
                        "that their deliverer did not know; given out again"},
    [METRIC_RECOVERED] = {"grapnel_letters_recovered_total", METRIC_COUNTER,
                          "letters", "delivered after all"},
    [METRIC_REQUEUED] = {"grapnel_letters_requeued_total", METRIC_COUNTER,
                         "letters", "taken back from dlqd"},
    [METRIC_REPLAYED] = {"grapnel_deliveries_replayed_total", METRIC_COUNTER,
                         "deliveries", "sent again by an operator"},
    [METRIC_OUT] = {"grapnel_deliveries_out", METRIC_GAUGE, "deliveries",
                    "at deliverers, neither parked nor ended"},
    [METRIC_DELIVERERS] = {"grapnel_deliverers", METRIC_GAUGE, "processes",
                           "that beat within their lease"},
    [METRIC_ENDPOINTS_HOMELESS] = {"grapnel_endpoints_homeless", METRIC_GAUGE,
                                   "endpoints", "enabled, without a home"},
    [METRIC_ENDPOINTS_DISABLED] = {"grapnel_endpoints_disabled_total",
                                   METRIC_COUNTER, "times",
                                   "an endpoint was disabled by its answers"},
    [METRIC_LANES_HALTED] = {"grapnel_lanes_halted", METRIC_GAUGE, "letters",
                             "dead ones that halt their lane"},
    [METRIC_GRANTS] = {"grapnel_grants_total", METRIC_COUNTER, "grants",
                       "given"},
    [METRIC_GRANTS_ENDED] = {"grapnel_grants_ended_total", METRIC_COUNTER,
                             "grants", "drained or timed out"},
    [METRIC_SERIES] = {"grapnel_series_changed_total", METRIC_COUNTER, "times",
                       "numbering was set back by a restored copy"},
    [METRIC_LET_THROUGH] = {"grapnel_events_released_total", METRIC_COUNTER,
                            "events", "duplicates that an operator released"},
    [METRIC_IGNORED] = {"grapnel_events_ignored_total", METRIC_COUNTER,
                        "events", "not a valid transition of their object"},
    [METRIC_EVENTS_LATE] = {"grapnel_events_late_total", METRIC_COUNTER,
                            "events", "that came after later ones had gone"},
    [METRIC_WOULD_HOLD] = {"grapnel_events_would_hold_total", METRIC_COUNTER,
                           "events", "that order.observe would have held back"},
    [METRIC_BUFFERED] = {"grapnel_events_buffered", METRIC_GAUGE, "events",
                         "held back for their order"},
    [METRIC_GAPS_OPENED] = {"grapnel_gaps_opened_total", METRIC_COUNTER, "gaps",
                            "seen in sources' numbers"},
    [METRIC_GAP_NUMBERS_FILLED] = {"grapnel_gap_numbers_filled_total",
                                   METRIC_COUNTER, "numbers",
                                   "missing ones that came after all"},
    [METRIC_GAPS_SKIPPED] = {"grapnel_gaps_skipped_total", METRIC_COUNTER,
                             "gaps", "given up: time or buffer was over"},
    [METRIC_GAPS_CLOSED] = {"grapnel_gaps_closed_total", METRIC_COUNTER, "gaps",
                            "closed by a person"},
    [METRIC_GAPS_OPEN] = {"grapnel_gaps_open", METRIC_GAUGE, "gaps",
                          "whose numbers are waited for; counted up to 10000"},
    [METRIC_GAP_OLDEST] = {"grapnel_gap_oldest_seconds", METRIC_GAUGE,
                           "seconds", "age of the oldest open gap"},
    [METRIC_KEYS] = {"grapnel_idempotency_keys", METRIC_GAUGE, "keys",
                     "remembered"},
    [METRIC_COUNT] = {0},
};

static const struct metric_family families[] = {
    [FAMILY_END_TO_END] = {.name = "grapnel_end_to_end_seconds",
                           .kind = METRIC_HISTOGRAM,
                           .unit = "seconds",
                           .help = "from the HTTP request to the endpoint's "
                                   "2xx; not of what waited for a person or "
                                   "the guard: dead letters that were "
                                   "retried, events that were sent again, "
                                   "endpoints that were paused, disabled, off "
                                   "or held, halted lanes",
                           .labels = {"endpoint"},
                           .per = 1000,
                           .bounds = metric_latency_bounds_ms},
    [FAMILY_OPEN] = {.name = "grapnel_deliveries_open",
                     .kind = METRIC_GAUGE,
                     .unit = "deliveries",
                     .help = "neither delivered nor dead; counted up to "
                             "100000",
                     .labels = {"status"}},
    [FAMILY_OLDEST] = {.name = "grapnel_oldest_open_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help =
                           "since the oldest of these was accepted, or since "
                           "a person sent it again",
                       .per = 1000},
    [FAMILY_DISABLED] = {.name = "grapnel_endpoint_disabled",
                         .kind = METRIC_GAUGE,
                         .unit = "",
                         .help =
                             "1: it responded 410, or failed for too long; it "
                             "waits for `grapnel endpoints resume`",
                         .labels = {"endpoint"}},
    [FAMILY_FAILING] = {.name = "grapnel_endpoint_failing_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help = "how long it has failed continuously, without "
                                "the time in which its deliverer was away; 0 "
                                "after a success, and while it is paused, "
                                "disabled or switched off",
                        .labels = {"endpoint"},
                        .per = 1000},
    [FAMILY_HELD] = {.name = "grapnel_endpoint_held",
                     .kind = METRIC_GAUGE,
                     .unit = "",
                     .help = "1: it worked, and refuses every event now; its "
                             "deliveries are held back",
                     .labels = {"endpoint"}},
    [FAMILY_WAITING] = {.name = "grapnel_endpoint_waiting_seconds",
                        .kind = METRIC_GAUGE,
                        .unit = "seconds",
                        .help = "for how long it has been paused, disabled or "
                                "held: its deliveries wait on disk without a "
                                "limit; 0: it is tried",
                        .labels = {"endpoint"},
                        .per = 1000},
    {0},
};

static const struct hop_ops hop = {.apply = loop_apply,
                                   .load = loop_load,
                                   .set_back = loop_set_back,
                                   .urgent = loop_urgent};

/* sequencer: says what each event is, who gets it, and what became of it.
 *
 * Promises  each event once, a number without holes in its workspace, never
 *           given twice; each delivery ends delivered or dead, never forgotten
 * Reads     accepted (ingress), result and drained (deliverers), requeued
 *           (dlqd), beats
 * Writes    sequencer.db; task, recalled, dropped (deliverers); dead, recovered
 *           (dlqd); pulse, granted, voided
 * Refuses   new events while its disk is nearly full; takes results to the end
 * kill -9   costs nothing: what was not committed was not acknowledged, and
 *           comes again */
int main(int argc, char **argv)
{
    static struct sequencer q;
    const struct daemon_plan plan = {
        .process = "sequencer",
        .default_name = "sequencer",
        .summary = "Numbers each workspace's events, routes them, and keeps "
                   "every delivery's state.",
        .schema = &sequencer_schema,
        .hop = &hop,
        .priority_inbox = true,
        .commands = sequencer_commands,
        .metrics = metrics,
        .families = families,
        .measure = measure,
        .metric_values = q.metrics,
        .self = &q,
        .open = loop_open,
        .restored = loop_restored,
        .begin = loop_begin,
        .has_time = loop_has_time,
        .frame = loop_frame,
        .work = loop_work,
        .tell = loop_tell,
        .undo = loop_undo,
        .reload = loop_reload,
        .close = loop_close,
        .status = endpoints_troubles,
    };

    daemon_start(&q.d, &plan, argc, argv);
    return daemon_run(&q.d);
}
