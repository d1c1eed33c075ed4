/* counts: the metrics that outbox publishes (metrics.h), declared once. */
#ifndef OUTBOX_COUNTS_H
#define OUTBOX_COUNTS_H

#include "metrics.h"

#define COUNTS(C)                                                           \
    C(BATCHES, "batches_total", METRIC_COUNTER, "batches",                  \
      "transactions that took at least one row")                            \
    C(KNOWN, "known_total", METRIC_COUNTER, "rows",                         \
      "rows that were taken again, after an interruption, and whose event " \
      "was there already")                                                  \
    C(REPLAYED, "replayed_total", METRIC_COUNTER, "events",                 \
      "events that an operator sent again")                                 \
    C(PURGED, "purged_total", METRIC_COUNTER, "events",                     \
      "processed events that were removed from the archive")                \
    C(ARCHIVE_ROWS, "archive_rows", METRIC_GAUGE, "events",                 \
      "events in the archive")                                              \
    C(ARCHIVE_BYTES, "archive_bytes", METRIC_GAUGE, "bytes",                \
      "used bytes of the archive")                                          \
    C(BACKLOG, "backlog", METRIC_GAUGE, "events",                           \
      "stored events that the sequencer has not processed")                 \
    C(CONNECTED, "connected", METRIC_GAUGE, "relays",                       \
      "relays whose last exchange with their database succeeded")           \
    C(FREE_BYTES, "free_bytes", METRIC_GAUGE, "bytes",                      \
      "free bytes on the file system of the archive")

enum count {
#define C(NAME, name, kind, unit, help) COUNT_##NAME,
    COUNTS(C)
#undef C
        COUNT_COUNT
};

enum family {
    FAMILY_TAKEN,
    FAMILY_REFUSED,
    FAMILY_WRITTEN,
    FAMILY_SET_ASIDE,
    FAMILY_DELETED,
    FAMILY_ERRORS,
    FAMILY_LAG,
    FAMILY_WAITING,
    FAMILY_OLDEST_ROW,
    FAMILY_OUTCOMES,
    FAMILY_OLDEST,
    FAMILY_COUNT
};

#endif
