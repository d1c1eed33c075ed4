#include "counts.h"

const struct metric ingress_metrics[COUNT_COUNT + 1] = {
#define C(NAME, name, kind, unit, help) \
    {"grapnel_ingress_" name, kind, unit, help},
    COUNTS(C)
#undef C
#define A(NAME, status, code, reason, message, retry_after_s, close)          \
    {"grapnel_ingress_answered_" reason "_total", METRIC_COUNTER, "requests", \
     "answered " #status " for this reason"},
        ANSWERS(A)
#undef A
            {0},
};

const struct metric_family ingress_families[FAMILY_COUNT + 1] = {
    [FAMILY_REJECTED] = {.name = "grapnel_ingress_rejected_total",
                         .kind = METRIC_COUNTER,
                         .unit = "requests",
                         .help = "refused, by source (empty where none was "
                                 "named) and reason",
                         .labels = {"source", "reason"}},
    [FAMILY_ACCEPTED] = {.name = "grapnel_ingress_source_accepted_total",
                         .kind = METRIC_COUNTER,
                         .unit = "events",
                         .help = "kept on disk and answered 200",
                         .labels = {"source"}},
    [FAMILY_OLDEST] = {.name = "grapnel_ingress_backlog_oldest_seconds",
                       .kind = METRIC_GAUGE,
                       .unit = "seconds",
                       .help = "since the oldest event that is not yet handed "
                               "on was received; 0: there is none",
                       .per = 1000},
    [FAMILY_COUNT] = {0},
};
