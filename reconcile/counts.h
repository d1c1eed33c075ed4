/* counts: the metrics that reconcile publishes (metrics.h), declared once. */
#ifndef RECONCILE_COUNTS_H
#define RECONCILE_COUNTS_H

#include "metrics.h"

#define COUNTS(C)                                            \
    C(REPLAYED, "replayed_total", METRIC_COUNTER, "events",  \
      "events that an operator sent again")                  \
    C(PURGED, "purged_total", METRIC_COUNTER, "events",      \
      "processed events that were removed from the archive") \
    C(ARCHIVE_ROWS, "archive_rows", METRIC_GAUGE, "events",  \
      "events in the archive")                               \
    C(ARCHIVE_BYTES, "archive_bytes", METRIC_GAUGE, "bytes", \
      "used bytes of the archive")                           \
    C(BACKLOG, "backlog", METRIC_GAUGE, "events",            \
      "stored events that the sequencer has not processed")  \
    C(FREE_BYTES, "free_bytes", METRIC_GAUGE, "bytes",       \
      "free bytes on the file system of the archive")

enum count {
#define C(NAME, name, kind, unit, help) COUNT_##NAME,
    COUNTS(C)
#undef C
        COUNT_COUNT
};

enum family {
    FAMILY_LISTED,
    FAMILY_FOUND,
    FAMILY_SKIPPED,
    FAMILY_REQUESTS,
    FAMILY_ERRORS,
    FAMILY_COVERED,
    FAMILY_OLDEST,
    FAMILY_COUNT
};

#endif
