/* counts: the metrics that ingress publishes (metrics.h), declared once. */
#ifndef INGRESS_COUNTS_H
#define INGRESS_COUNTS_H

#include "metrics.h"
#include "response.h"

#define COUNTS(C)                                                      \
    C(REQUESTS, "requests_total", METRIC_COUNTER, "requests",          \
      "HTTP requests with a response, whatever its status")            \
    C(ACCEPTED, "accepted_total", METRIC_COUNTER, "events",            \
      "events that were stored before the response 200")               \
    C(DUPLICATES, "duplicates_total", METRIC_COUNTER, "events",        \
      "published events that were stored before (same idempotency "    \
      "key)")                                                          \
    C(ACCEPTED_BYTES, "accepted_bytes_total", METRIC_COUNTER, "bytes", \
      "bytes of the bodies of accepted requests")                      \
    C(REFUSED_4XX, "refused_4xx_total", METRIC_COUNTER, "requests",    \
      "requests that were refused because of the client (status "      \
      "4xx)")                                                          \
    C(REFUSED_5XX, "refused_5xx_total", METRIC_COUNTER, "requests",    \
      "requests that were refused because of Grapnel or its disk "     \
      "(status 5xx)")                                                  \
    C(COMMITS, "commits_total", METRIC_COUNTER, "commits",             \
      "commits that stored at least one event")                        \
    C(PURGED, "purged_total", METRIC_COUNTER, "events",                \
      "processed events that were removed from the archive")           \
    C(REPLAYED, "replayed_total", METRIC_COUNTER, "events",            \
      "events that an operator sent again")                            \
    C(CONNECTIONS, "connections", METRIC_GAUGE, "connections",         \
      "open HTTP connections")                                         \
    C(BODIES_BYTES, "bodies_bytes", METRIC_GAUGE, "bytes",             \
      "memory used by request bodies")                                 \
    C(PENDING, "pending", METRIC_GAUGE, "events",                      \
      "verified events that are not stored yet")                       \
    C(ARCHIVE_ROWS, "archive_rows", METRIC_GAUGE, "events",            \
      "events in the archive")                                         \
    C(ARCHIVE_BYTES, "archive_bytes", METRIC_GAUGE, "bytes",           \
      "used bytes of the archive")                                     \
    C(BACKLOG, "backlog", METRIC_GAUGE, "events",                      \
      "stored events that the sequencer has not processed")            \
    C(RESPONSES_DELAYED, "responses_delayed", METRIC_GAUGE, "",        \
      "1: responses are delayed, because events wait longer than "     \
      "ingress.target_delay")                                          \
    C(FREE_BYTES, "free_bytes", METRIC_GAUGE, "bytes",                 \
      "free bytes on the file system of the archive")

enum count {
#define C(NAME, name, kind, unit, help) COUNT_##NAME,
    COUNTS(C)
#undef C
    /* Then one counter per response. */
    COUNT_RESPONSES,
    COUNT_COUNT = COUNT_RESPONSES + RESPONSE_COUNT - 1
};

enum family {
    FAMILY_REJECTED,
    FAMILY_ACCEPTED,
    FAMILY_LAST,
    FAMILY_OLDEST,
    FAMILY_COUNT
};

#endif
