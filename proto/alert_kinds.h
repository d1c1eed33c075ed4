/* alert_kinds: what an alert rule may be about (`when:` in grapnel.yaml), each
 * declared once. */
#ifndef PROTO_ALERT_KINDS_H
#define PROTO_ALERT_KINDS_H

#include <stdbool.h>

/* A(NAME, word, unit, per, window, help)
 *   unit    what `above` and `below` count: NUMBER, PART (5%), SECONDS (10s),
 *           BYTES (1GiB), or NONE: the rule has no threshold
 *   per     each endpoint, source or process is judged for itself: its label;
 *           "": all together
 *   window  1: over `window` */
#define ALERT_KINDS(A)                                                      \
    A(DEAD_LETTERS, "dead_letters", NUMBER, "", 0,                          \
      "dead letters that want a decision")                                  \
    A(DEAD_LETTER_GROWTH, "dead_letter_growth", NUMBER, "", 1,              \
      "deliveries that died within `window`")                               \
    A(DEAD_LETTER, "dead_letter", NONE, "endpoint", 0,                      \
      "each dead letter as it comes, grouped; it never resolves")           \
    A(DEAD_LETTERS_EXPIRING, "dead_letters_expiring", NUMBER, "", 0,        \
      "dead letters that `dlq.keep` will soon remove")                      \
    A(BACKLOG, "backlog", NUMBER, "", 0,                                    \
      "events that are accepted and not yet taken by the sequencer, and "   \
      "deliveries that are neither delivered nor dead")                     \
    A(OLDEST_WAITING, "oldest_waiting", SECONDS, "", 0,                     \
      "how long the oldest delivery has been open, since its event was "    \
      "accepted or a person sent it again")                                 \
    A(DELIVERY_FAILURE_RATE, "delivery_failure_rate", PART, "endpoint", 1,  \
      "failed attempts of all attempts within `window`")                    \
    A(RETRY_FAILURE_RATE, "retry_failure_rate", PART, "endpoint", 1,        \
      "failed retries of all retries within `window`")                      \
    A(E2E_P95, "e2e_latency_p95", SECONDS, "", 1,                           \
      "95 of 100 deliveries within `window` took at most this, from the "   \
      "HTTP request to the endpoint's response; what waited for a person "  \
      "or the guard is not counted")                                        \
    A(OPEN_GAPS, "open_gaps", NUMBER, "", 0,                                \
      "missing sequence numbers that are waited for")                       \
    A(HALTED_LANES, "halted_lanes", NUMBER, "", 0,                          \
      "lanes that stand still behind a dead letter")                        \
    A(ENDPOINT_DISABLED, "endpoint_disabled", NONE, "endpoint", 0,          \
      "an endpoint was disabled: it responded 410, or failed for too long") \
    A(ENDPOINT_HELD, "endpoint_held", NONE, "endpoint", 0,                  \
      "an endpoint that worked refuses every event with the same status; "  \
      "its deliveries are held back")                                       \
    A(ENDPOINT_WAITING, "endpoint_waiting", SECONDS, "endpoint", 0,         \
      "an endpoint has been paused, disabled or held for this long; its "   \
      "deliveries fill the disk until somebody decides")                    \
    A(ENDPOINT_FAILING, "endpoint_failing", SECONDS, "endpoint", 0,         \
      "an endpoint has failed continuously for this long: near "            \
      "`disable_after`")                                                    \
    A(DUPLICATE_RATE, "duplicate_rate", PART, "", 1,                        \
      "repeats of all events taken within `window`")                        \
    A(SOURCE_SILENT, "source_silent", NONE, "source", 0,                    \
      "nothing was accepted from a source or producer for `silent_for`")    \
    A(SIGNATURE_FAILURES, "signature_failures", NUMBER, "source", 1,        \
      "requests refused with 401 within `window`: a rotated secret looks "  \
      "like this")                                                          \
    A(PROCESS_SILENT, "process_silent", NONE, "process", 0,                 \
      "a process has published nothing for `silent_for`")                   \
    A(DISK_LOW, "disk_low", BYTES, "process", 0,                            \
      "room that a process's database has left")                            \
    A(DAMAGED, "damaged", NUMBER, "process", 0,                             \
      "rows of a process's database that are not what was written, found "  \
      "since its start")

enum alert_when {
#define A(NAME, word, unit, per, window, help) ALERT_##NAME,
    ALERT_KINDS(A)
#undef A
        ALERT_WHEN_COUNT
};

enum alert_unit {
    ALERT_UNIT_NONE,
    ALERT_UNIT_NUMBER,
    ALERT_UNIT_PART,
    ALERT_UNIT_SECONDS,
    ALERT_UNIT_BYTES,
};

struct alert_kind {
    const char *word;
    enum alert_unit unit;
    const char *per;
    bool window;
    const char *help;
};

extern const struct alert_kind alert_kinds[ALERT_WHEN_COUNT];

#endif
