/* counts: what ingress publishes about itself (metrics.h), declared once. */
#ifndef INGRESS_COUNTS_H
#define INGRESS_COUNTS_H

#include "metrics.h"
#include "response.h"

#define COUNTS(C)                                                             \
    C(REQUESTS, "requests_total", METRIC_COUNTER, "requests",                 \
      "answered, whatever the response")                                      \
    C(ACCEPTED, "accepted_total", METRIC_COUNTER, "events",                   \
      "kept on disk before the response 200")                                 \
    C(DUPLICATES, "duplicates_total", METRIC_COUNTER, "events",               \
      "of producers, that were on disk already (idempotency keys)")           \
    C(ACCEPTED_BYTES, "accepted_bytes_total", METRIC_COUNTER, "bytes",        \
      "of their bodies")                                                      \
    C(REFUSED_4XX, "refused_4xx_total", METRIC_COUNTER, "requests",           \
      "refused, for what the client did")                                     \
    C(REFUSED_5XX, "refused_5xx_total", METRIC_COUNTER, "requests",           \
      "refused, for what we could not do")                                    \
    C(COMMITS, "commits_total", METRIC_COUNTER, "commits",                    \
      "that kept at least one event")                                         \
    C(PURGED, "purged_total", METRIC_COUNTER, "events",                       \
      "removed from the archive after they were handed on")                   \
    C(REPLAYED, "replayed_total", METRIC_COUNTER, "events",                   \
      "sent again by an operator")                                            \
    C(CONNECTIONS, "connections", METRIC_GAUGE, "connections", "open now")    \
    C(BODIES_BYTES, "bodies_bytes", METRIC_GAUGE, "bytes",                    \
      "of memory that hold bodies now")                                       \
    C(PENDING, "pending", METRIC_GAUGE, "events",                             \
      "verified and not yet on disk")                                         \
    C(ARCHIVE_ROWS, "archive_rows", METRIC_GAUGE, "events", "in the archive") \
    C(ARCHIVE_BYTES, "archive_bytes", METRIC_GAUGE, "bytes",                  \
      "of the archive that are in use")                                       \
    C(BACKLOG, "backlog", METRIC_GAUGE, "events",                             \
      "kept and not yet handed on to the sequencer")                          \
    C(RESPONSES_DELAYED, "responses_delayed", METRIC_GAUGE, "",               \
      "1: responses are delayed, as events wait longer than "                 \
      "ingress.target_delay")                                                 \
    C(FREE_BYTES, "free_bytes", METRIC_GAUGE, "bytes",                        \
      "free on the file system of the archive")

enum count {
#define C(NAME, name, kind, unit, help) COUNT_##NAME,
    COUNTS(C)
#undef C
    /* One counter for each response's reason follows. */
    COUNT_RESPONSES,
    COUNT_COUNT = COUNT_RESPONSES + RESPONSE_COUNT - 1
};

enum family { FAMILY_REJECTED, FAMILY_ACCEPTED, FAMILY_OLDEST, FAMILY_COUNT };

/* Each ends with a NULL name. */

#endif
