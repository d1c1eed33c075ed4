/* series_kinds: the kinds of series that the console keeps for charts: their names, units and
 * meanings. Pure data: the console adds the metrics that they are made of (series_store.c), and the
 * HTTP API describes them. A kind with a subject has a series for each: `endpoint_delivered:crm`. */
#ifndef COMMANDS_SERIES_KINDS_H
#define COMMANDS_SERIES_KINDS_H

/* K(NAME, name, the label of its subject or "", unit, meaning) */
#define SERIES_KINDS(K)                                                        \
    K(ACCEPTED, "accepted", "", "per_second",                                  \
      "events that ingress stored and accepted")                               \
    K(REFUSED_4XX, "refused_4xx", "", "per_second",                            \
      "requests that ingress refused with a status 4xx")                       \
    K(REFUSED_5XX, "refused_5xx", "", "per_second",                            \
      "requests that ingress refused with a status 5xx")                       \
    K(TAKEN, "taken", "", "per_second", "events that the sequencer processed") \
    K(DUPLICATES, "duplicates", "", "per_second",                              \
      "of these, suppressed duplicates")                                       \
    K(DELIVERED, "delivered", "", "per_second",                                \
      "deliveries that ended with a 2xx response")                             \
    K(DEAD, "dead", "", "per_second", "deliveries that failed for good")       \
    K(RETRIED, "retried", "", "per_second",                                    \
      "failed attempts after which a retry was scheduled")                     \
    K(ATTEMPTS, "attempts", "", "per_second", "attempts that ended")           \
    K(END_TO_END_P50, "end_to_end_p50", "", "seconds",                         \
      "median of the time from the request at ingress to the 2xx response of " \
      "the endpoint")                                                          \
    K(END_TO_END_P95, "end_to_end_p95", "", "seconds", "its p95")              \
    K(END_TO_END_P99, "end_to_end_p99", "", "seconds", "its p99")              \
    K(BACKLOG, "backlog", "", "count",                                         \
      "accepted events that the sequencer has not processed")                  \
    K(BUFFERED, "buffered", "", "count",                                       \
      "events that are buffered for their order")                              \
    K(GAPS, "gaps", "", "count", "open gaps")                                  \
    K(IN_FLIGHT, "in_flight", "", "count", "attempts in progress")             \
    K(SCHEDULED_RETRIES, "scheduled_retries", "", "count",                     \
      "deliveries that wait for their next attempt")                           \
    K(OLDEST_OPEN, "oldest_open", "", "seconds",                               \
      "age of the oldest delivery that has not ended")                         \
    K(DEAD_LETTERS, "dead_letters", "", "count",                               \
      "dead letters that wait for a decision")                                 \
    K(OPEN, "open", "status", "count",                                         \
      "deliveries that have not ended, by status")                             \
    K(STORE_BYTES, "store_bytes", "process", "bytes",                          \
      "size of the database of a process")                                     \
    K(SOURCE_ACCEPTED, "source_accepted", "source", "per_second",              \
      "accepted events of a source")                                           \
    K(SOURCE_REFUSED, "source_refused", "source", "per_second",                \
      "refused requests of a source")                                          \
    K(ENDPOINT_DELIVERED, "endpoint_delivered", "endpoint", "per_second",      \
      "attempts at an endpoint with a 2xx response")                           \
    K(ENDPOINT_FAILED, "endpoint_failed", "endpoint", "per_second",            \
      "attempts at an endpoint that failed")                                   \
    K(ENDPOINT_P95, "endpoint_p95", "endpoint", "seconds",                     \
      "p95 of the duration of an attempt at an endpoint")

enum series_kind {
#define K(NAME, name, subject, unit, meaning) SERIES_##NAME,
    SERIES_KINDS(K)
#undef K
        SERIES_KIND_COUNT
};

#endif
