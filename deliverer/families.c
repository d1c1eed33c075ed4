/* families: what is counted for each endpoint. */
#include "deliverer.h"

const struct metric_family deliverer_families[] = {
    [FAMILY_ATTEMPTS] = {.name = "grapnel_endpoint_attempts_total",
                         .kind = METRIC_COUNTER,
                         .unit = "attempts",
                         .help = "requests that have ended: delivered, parked "
                                 "(a retry waits), dead, released",
                         .labels = {"endpoint", "outcome"}},
    [FAMILY_RETRIES] = {.name = "grapnel_endpoint_retries_total",
                        .kind = METRIC_COUNTER,
                        .unit = "attempts",
                        .help = "of these, all but a delivery's first",
                        .labels = {"endpoint", "outcome"}},
    [FAMILY_RETRY_WAIT] = {.name = "grapnel_endpoint_retry_wait_seconds_total",
                           .kind = METRIC_COUNTER,
                           .unit = "seconds",
                           .help = "that retries were told to wait",
                           .labels = {"endpoint"},
                           .per = 1000},
    [FAMILY_ATTEMPT_SECONDS] = {.name = "grapnel_attempt_seconds",
                                .kind = METRIC_HISTOGRAM,
                                .unit = "seconds",
                                .help = "from the begin of an attempt to its "
                                        "end",
                                .labels = {"endpoint"},
                                .per = 1000,
                                .bounds = metric_latency_bounds_ms},
    [FAMILY_BREAKER] = {.name = "grapnel_endpoint_breaker_open",
                        .kind = METRIC_GAUGE,
                        .unit = "",
                        .help =
                            "1: it fails continuously, and gets one attempt "
                            "at a time; said by its home",
                        .labels = {"endpoint"}},
    [FAMILY_WINDOW] = {.name = "grapnel_endpoint_window",
                       .kind = METRIC_GAUGE,
                       .unit = "attempts",
                       .help = "that may be in flight to it at once; said by "
                               "its home",
                       .labels = {"endpoint"}},
    [FAMILY_COUNT] = {0},
};
