/* alert_kinds: what an alert rule may be about (`when:` in grapnel.yaml), each
 * declared once. */
#ifndef SETTINGS_ALERT_KINDS_H
#define SETTINGS_ALERT_KINDS_H

#include <stdbool.h>

/* A(NAME, word, unit, per, window, help)
 *
 *   unit    of `above` and `below`: NUMBER, PART (5%), SECONDS (10s), BYTES (1GiB), or NONE:
 *           the rule has no threshold
 *   per     the label by which the rule is evaluated: for each endpoint, source or process;
 *           "": for all together
 *   window  1: the rule uses `window` */
#define ALERT_KINDS(A)                                                         \
    A(DEAD_LETTERS, "dead_letters", NUMBER, "", 0,                             \
      "the number of dead letters that wait for a decision")                   \
    A(DEAD_LETTER_GROWTH, "dead_letter_growth", NUMBER, "", 1,                 \
      "the number of deliveries that became dead letters within `window`")     \
    A(DEAD_LETTER, "dead_letter", NONE, "endpoint", 0,                         \
      "fires for each new dead letter, grouped, with `every` at most once in " \
      "that time for an endpoint; it never resolves by itself")                \
    A(DEAD_LETTERS_EXPIRING, "dead_letters_expiring", NUMBER, "", 0,           \
      "the number of dead letters that `dlq.keep` will soon delete")           \
    A(BACKLOG, "backlog", NUMBER, "", 0,                                       \
      "the number of accepted events that the sequencer has not processed "    \
      "yet, plus the number of open deliveries")                               \
    A(OLDEST_WAITING, "oldest_waiting", SECONDS, "", 0,                        \
      "the age of the oldest open delivery, counted from the time when its "   \
      "event was accepted or an operator sent it again")                       \
    A(DELIVERY_FAILURE_RATE, "delivery_failure_rate", PART, "endpoint", 1,     \
      "the share of attempts within `window` that failed")                     \
    A(RETRY_FAILURE_RATE, "retry_failure_rate", PART, "endpoint", 1,           \
      "the share of retries within `window` that failed")                      \
    A(E2E_P95, "e2e_latency_p95", SECONDS, "", 1,                              \
      "the 95th percentile, within `window`, of the time from the provider's " \
      "request to the endpoint's response; deliveries that waited for an "     \
      "operator or for the guard do not count")                                \
    A(OPEN_GAPS, "open_gaps", NUMBER, "", 0,                                   \
      "the number of gaps that are open: events wait for a missing number")    \
    A(HALTED_LANES, "halted_lanes", NUMBER, "", 0,                             \
      "the number of dead letters that stop the later events of their "        \
      "workspace or endpoint (`on_dead: halt`)")                               \
    A(ENDPOINT_DISABLED, "endpoint_disabled", NONE, "endpoint", 0,             \
      "Grapnel disabled an endpoint: it responded 410, or failed for too "     \
      "long")                                                                  \
    A(ENDPOINT_HELD, "endpoint_held", NONE, "endpoint", 0,                     \
      "the guard holds an endpoint's deliveries: it worked before, and now "   \
      "refuses every event with the same status")                              \
    A(ENDPOINT_WAITING, "endpoint_waiting", SECONDS, "endpoint", 0,            \
      "how long an endpoint has been paused, disabled or held; its waiting "   \
      "deliveries take up disk space until you resume or remove it")           \
    A(ENDPOINT_FAILING, "endpoint_failing", SECONDS, "endpoint", 0,            \
      "how long an endpoint has failed continuously; `disable_after` will "    \
      "disable it")                                                            \
    A(DUPLICATE_RATE, "duplicate_rate", PART, "", 1,                           \
      "the share of events within `window` that were duplicates")              \
    A(SOURCE_SILENT, "source_silent", NONE, "source", 0,                       \
      "a source or producer has sent no accepted event for `silent_for`")      \
    A(UNUSUAL_SILENCE, "unusual_silence", NUMBER, "source", 0,                 \
      "the number of events that a source or producer would usually have "     \
      "sent since its last one, learned from its own past")                    \
    A(NEW_REFUSAL, "new_refusal", NONE, "source", 0,                           \
      "the console has watched the source for a week, and requests were "      \
      "refused for a reason that it did not see in the last week; it "         \
      "resolves after an hour")                                                \
    A(STATUS_MIX, "status_mix", PART, "endpoint", 0,                           \
      "by how much the share of a class of failures among the responses of "   \
      "the last one to two hours is above that of the endpoint's own past")    \
    A(SIGNATURE_FAILURES, "signature_failures", NUMBER, "source", 1,           \
      "the number of requests refused with 401 within `window`, for example "  \
      "after a secret was changed")                                            \
    A(PROCESS_SILENT, "process_silent", NONE, "process", 0,                    \
      "a process has published no metrics for `silent_for`")                   \
    A(DISK_LOW, "disk_low", BYTES, "process", 0,                               \
      "the free disk space for a process's database")                          \
    A(DAMAGED, "damaged", NUMBER, "process", 0,                                \
      "the number of rows whose checksum was wrong, found since the process "  \
      "started")                                                               \
    A(STANDBYS_READY, "standbys_ready", NUMBER, "process", 0,                  \
      "the number of hosts that may take over a replicated process's store")   \
    A(STANDBY_BEHIND, "standby_behind", NUMBER, "process", 0,                  \
      "the number of turns that the last standby of a process's store lacks")  \
    A(REPLICATION_PEERS, "replication_peers", NUMBER, "process", 0,            \
      "the number of other processes of the pipeline that a replicated "       \
      "process reaches, of those it exchanges messages with")                  \
    A(REPLICATION_WAITS, "replication_waits", SECONDS, "process", 0,           \
      "how long a process has waited for the replication database; "           \
      "meanwhile it accepts and sends nothing")                                \
    A(REPLICATION_P99, "replication_p99", PART, "", 1,                         \
      "the 99th percentile, within `window`, of the time in which the "        \
      "replication database acknowledges a turn, as a share of how long a "    \
      "process goes on without it (a third of `takeover_after`)")

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
