/* schema: every frame and message that crosses a process boundary, declared once. wire.h makes
 * structs, encoders, strict decoders and docs/WIRE.md from it.
 *
 * On the wire each is a msgpack array [kind, version, field, …] in this order.
 * Kind numbers and the meaning of a field never change. A change of the fields raises the
 * version of the kind, and a process decodes one version of each kind (CONTRIBUTING.md,
 * "Change a message between processes"; tests/golden has the bytes of each).
 *
 * Field types: u64, i64, str (UTF-8 not required, no NUL), bin. A decoded str or bin borrows
 * from the frame. */
#ifndef PROTO_SCHEMA_H
#define PROTO_SCHEMA_H

#include "endpoint_settings.h"

/* ---- frames: what a socket carries. Each begins with its sender. ---- */

#define WIRE_BATCH(F) /* link: sender -> receiver */                       \
    F(str, from, "the sender's name")                                      \
    F(str, inbox, "where to send responses")                               \
    F(str, to, "the receiver's name; another process drops the frame")     \
    F(u64, prev_epoch,                                                     \
      "epoch of the row before the first; 0 if there is none")             \
    F(u64, epoch, "epoch of every row in this batch")                      \
    F(u64, first, "number of the first message")                           \
    F(u64, count, "messages that follow; 0: only asks for the cursor")     \
    F(bin, messages, "that many messages, each with its length before it") \
    F(u64, question, "the sender's latest question; `acked` repeats it")

#define WIRE_ACKED(F) /* link: receiver -> sender */                      \
    F(str, from, "the receiver's name")                                   \
    F(str, inbox, "its inbox")                                            \
    F(str, to, "the sender's name")                                       \
    F(u64, n, "last number on the receiver's disk; 0: none")              \
    F(u64, epoch, "and its epoch")                                        \
    F(u64, taken, "last number applied, on disk or not: at least n")      \
    F(u64, taken_epoch, "and its epoch")                                  \
    F(u64, gap, "1 when a batch was dropped because numbers are missing") \
    F(u64, answered_question,                                             \
      "question of the last received batch; 0: none yet")

#define WIRE_EPOCHS(F) /* link: sender -> receiver */                \
    F(str, from, "the sender's name")                                \
    F(str, inbox, "where to send responses")                         \
    F(str, to, "the receiver's name")                                \
    F(u64, next, "the number that the next row will get")            \
    F(u64, floor, "lowest number that can still be sent")            \
    F(u64, cursor, "the `taken` to which this responds, and")        \
    F(u64, cursor_epoch, "its epoch; if they have changed, drop it") \
    F(u64, count, "epochs that follow, oldest first")                \
    F(bin, epochs, "epoch and first number of each, 8 bytes little endian each")

#define WIRE_HEARTBEAT(F) /* deliverer -> sequencer, about once a second */ \
    F(str, from, "the deliverer's name")                                    \
    F(str, inbox, "where to send responses")                                \
    F(u64, store, "id of its database, made when that was created")         \
    F(u64, epoch, "this start of it")                                       \
    F(i64, stamp_ms, "its own monotonic time")                              \
    F(u64, unconfigured_count, "grants that follow")                        \
    F(bin, unconfigured, "grants without a configuration, 8 bytes each")

#define WIRE_HEARTBEAT_ACK(                                      \
    F) /* sequencer -> deliverer: the response to a heartbeat */ \
    F(str, from, "the sequencer's name")                         \
    F(str, inbox, "its inbox")                                   \
    F(u64, epoch, "epoch of the heartbeat it acknowledges")      \
    F(i64, stamp_ms, "stamp of the heartbeat it acknowledges")

#define WIRE_GRANTED(F) /* sequencer -> deliverer: deliver to this endpoint */ \
    F(str, from, "the sequencer's name")                                       \
    F(str, inbox, "its inbox")                                                 \
    F(u64, epoch, "epoch of the last heartbeat")                               \
    F(i64, stamp_ms, "stamp of the last heartbeat")                            \
    F(u64, grant, "64 random bits, never given twice")                         \
    F(str, endpoint, "its name")                                               \
    F(bin, config, "endpoint_config: all that an attempt needs, secrets too")  \
    F(u64, healthy, "1: it has delivered before")                              \
    F(i64, held_since_ms, "since when it is held (hold.h); 0: it is not")      \
    F(u64, held_status,                                                        \
      "the status with which it refuses all; 0: no response")                  \
    F(i64, held_ms, "how long it was paused or held in all before that")       \
    F(u64, temporary, "1: it is a temporary endpoint: send `taken` frames")

#define WIRE_REVOKED(                                                     \
    F) /* sequencer -> deliverer: the grant has ended, forget its rows */ \
    F(str, from, "the sequencer's name")                                  \
    F(str, inbox, "its inbox")                                            \
    F(u64, grant, "the grant")

#define WIRE_WATERMARK_REQUEST(                            \
    F) /* sequencer -> ingress: what have you received? */ \
    F(str, from, "the sequencer's name")                   \
    F(str, inbox, "where to send responses")               \
    F(u64, epoch, "this start of it")                      \
    F(i64, stamp_ms, "its watermark clock (watermarks.h)")

#define WIRE_WATERMARK(F) /* ingress -> sequencer: the response */ \
    F(str, from, "the ingress's name")                             \
    F(str, inbox, "its inbox")                                     \
    F(u64, epoch, "of the watermark request")                      \
    F(i64, stamp_ms, "of the watermark request")                   \
    F(u64, next, "requests received from now on have this number or more")

#define WIRE_TAKEN(F) /* deliverer -> sequencer: a consumer takes */ \
    F(str, from, "the deliverer's name")                             \
    F(str, inbox, "its inbox")                                       \
    F(u64, grant, "of the temporary endpoint, which is therefore in use")

/* ---- messages: what the link carries, durably ---- */

#define WIRE_ACCEPTED(F) /* ingress -> sequencer: the raw request is kept */ \
    F(str, event_id, "made by ingress, never reused")                        \
    F(str, source, "the source at which it arrived")                         \
    F(i64, received_ms, "wall clock")                                        \
    F(str, remote, "the peer's address")                                     \
    F(bin, headers, "all of them, packed (headers.h)")                       \
    F(bin, body, "as received")                                              \
    F(u64, damaged,                                                          \
      "1: the stored request is damaged and must not be delivered")

/* The fields of version 1, which a deliverer's rows may still have (wire_get_stored_task()). */
#define WIRE_TASK_1(F)                                                        \
    F(u64, grant, "under which it is given out")                              \
    F(str, endpoint, "its name")                                              \
    F(str, event_id, "also the webhook-id")                                   \
    F(str, source, "")                                                        \
    F(str, type, "")                                                          \
    F(str, workspace, "")                                                     \
    F(i64, received_ms, "when the event came in")                             \
    F(u64, sequence, "its number in its workspace; 0: it has none")           \
    F(u64, previous, "the last one routed to this endpoint before; 0: none")  \
    F(str, clock, "numbers by type at that moment: issue.created=7,…")        \
    F(str, source_sequence, "the source's own number; \"\": none")            \
    F(str, gap,                                                               \
      "released past these missing numbers, 3-5; \"\": there are none")       \
    F(u64, late, "1: it came after later events of its stream were released") \
    F(str, url, "instead of the endpoint's own; \"\": the endpoint's")        \
    F(u64, series, "changes when the numbering was set back")                 \
    F(u64, replay,                                                            \
      "1: an operator's retry of a delivery that may have arrived")           \
    F(u64, attempts, "made so far")                                           \
    F(u64, budget_base, "attempts that an earlier generation had used")       \
    F(i64, first_ms,                                                          \
      "time of the first attempt of this generation; 0: none yet")            \
    F(i64, next_ms, "not before; 0: at once")                                 \
    F(bin, headers, "to send along, packed: content-type and event headers")  \
    F(bin, body, "to send")                                                   \
    F(i64, expires_ms, "not tried from then on; 0: never expires")

#define WIRE_TASK(F) /* sequencer -> deliverer: deliver this */          \
    WIRE_TASK_1(F)                                                       \
    F(bin, retry,                                                        \
      "retry_policy: for this delivery; empty: the endpoint's own")      \
    F(str, ordering_key, "its lane in its workspace; \"\": it has none") \
    F(u64, high, "1: `priority: high`: begun before others of its endpoint")

#define WIRE_REVOKE(F) /* sequencer -> deliverer: give this grant back */ \
    F(u64, grant, "begin no more attempts under it, then send `released`")

#define WIRE_DROPPED(F) /* sequencer -> deliverer: final elsewhere */ \
    F(u64, grant, "")                                                 \
    F(str, endpoint, "")                                              \
    F(str, event_id, "forget it, and send its outcome (`released` if untried)")

#define WIRE_RETRY_NOW(F) /* sequencer -> deliverer: an operator's retry */ \
    F(u64, grant, "under which the delivery is at its deliverer")           \
    F(str, endpoint, "")                                                    \
    F(str, event_id, "due now; its budget and its count stay as they are")

#define WIRE_CHECK(F) /* sequencer -> deliverer: is this delivery known? */ \
    F(u64, grant, "under which it was dispatched")                          \
    F(str, endpoint, "")                                                    \
    F(str, event_id, "if it is unknown, send `missing`")                    \
    F(u64, task, "number of its task in this log")

#define WIRE_MISSING(F) /* deliverer -> sequencer: the response to a check */ \
    F(u64, grant, "of the check")                                             \
    F(str, endpoint, "")                                                      \
    F(str, event_id, "unknown; results of it are earlier in the log")         \
    F(u64, task, "of the check")

#define WIRE_RESULT(F) /* deliverer -> sequencer: the outcome of an attempt */ \
    F(u64, grant, "")                                                          \
    F(str, endpoint, "")                                                       \
    F(str, event_id, "")                                                       \
    F(u64, attempt_id, "64 random bits; 0 when nothing was tried")             \
    F(u64, outcome, "enum outcome")                                            \
    F(u64, attempts, "made so far, this one included")                         \
    F(i64, at_ms, "when it began")                                             \
    F(i64, duration_ms, "")                                                    \
    F(u64, http_status, "0 without one")                                       \
    F(str, reason,                                                             \
      "dead: rejected …; retrying: held; released: dropped; or \"\"")          \
    F(str, error, "what happened, for people; \"\" when delivered")            \
    F(i64, first_ms, "time of the first attempt of this generation")           \
    F(i64, next_ms, "retrying: when the next is due")                          \
    F(bin, response, "start of the response's body")                           \
    F(u64, sends,                                                              \
      "requests begun, here or in a crash; 0: it can't have reached it")

#define WIRE_RELEASED(F) /* deliverer -> sequencer */ \
    F(u64, grant, "no attempt under it is or will be in flight")

#define WIRE_DEAD(F) /* sequencer -> dlqd: a delivery failed for good */ \
    F(str, dead_letter_id, "dlq_…; the same in every generation")        \
    F(u64, generation, "from 1; one more with each requeue")             \
    F(str, event_id, "")                                                 \
    F(str, endpoint, "\"\" when the event was refused before routing")   \
    F(str, reason, "")                                                   \
    F(str, source, "")                                                   \
    F(str, provider_id, "")                                              \
    F(str, type, "")                                                     \
    F(str, workspace, "")                                                \
    F(i64, received_ms, "")                                              \
    F(u64, sequence, "0: it had none")                                   \
    F(u64, previous, "")                                                 \
    F(str, clock, "")                                                    \
    F(u64, attempts, "in all generations")                               \
    F(i64, first_ms, "")                                                 \
    F(i64, dead_ms, "")                                                  \
    F(u64, last_http_status, "")                                         \
    F(str, last_error, "")                                               \
    F(bin, last_response, "")                                            \
    F(bin, headers, "all headers of the request")                        \
    F(bin, body, "")

#define WIRE_RECOVERED(F) /* sequencer -> dlqd: it was delivered after all */ \
    F(str, dead_letter_id, "")                                                \
    F(u64, generation, "the generation in which it was dead")                 \
    F(i64, at_ms, "")

#define WIRE_REQUEUED(F) /* dlqd -> sequencer: try this dead letter again */ \
    F(str, dead_letter_id, "")                                               \
    F(u64, generation, "the generation in which it is dead")                 \
    F(str, event_id, "")                                                     \
    F(str, endpoint, "")                                                     \
    F(str, source, "")                                                       \
    F(str, provider_id, "")                                                  \
    F(str, type, "")                                                         \
    F(str, workspace, "")                                                    \
    F(i64, received_ms, "")                                                  \
    F(u64, sequence, "")                                                     \
    F(u64, previous, "")                                                     \
    F(str, clock, "")                                                        \
    F(u64, attempts, "")                                                     \
    F(bin, headers, "all headers of the request")                            \
    F(bin, body, "")

#define WIRE_DECIDED(                                                              \
    F) /* dlqd -> sequencer: this dead letter was resolved, discarded or purged */ \
    F(str, dead_letter_id, "")                                                     \
    F(u64, generation, "the generation in which it is dead")                       \
    F(str, event_id, "")                                                           \
    F(str, endpoint, "\"\": the event was refused before routing")                 \
    F(str, what, "resolved, discarded, or deleted after dlq.keep")

#define WIRE_REPLAYED(F) /* ingress -> sequencer: send this one again */       \
    F(u64, action_id, "64 random bits: the operator's action; done once")      \
    F(i64, at_ms, "when the operator asked for it")                            \
    F(str, request_id, "the archived request's id")                            \
    F(str, event_id, "the same, or that of one event in a request of several") \
    F(str, new_id,                                                             \
      "taken as a new event of this id; \"\": sent again as it is")            \
    F(str, endpoint,                                                           \
      "only to this one; \"\": to all that had it or are subscribed to it")    \
    F(u64, always,                                                             \
      "1: to that one even if it never had it and is not subscribed to it")    \
    F(str, source, "")                                                         \
    F(i64, received_ms, "")                                                    \
    F(str, remote, "")                                                         \
    F(bin, headers, "as in `accepted`")                                        \
    F(bin, body, "")

#define WIRE_REDIRECTED(F) /* dlqd -> sequencer: send it to another one */ \
    F(u64, action_id, "64 random bits: the operator's action; done once")  \
    F(str, dead_letter_id, "resolved by this")                             \
    F(str, to, "the endpoint that gets it")                                \
    F(str, event_id, "")                                                   \
    F(str, source, "")                                                     \
    F(str, provider_id, "")                                                \
    F(str, type, "")                                                       \
    F(str, workspace, "")                                                  \
    F(i64, received_ms, "")                                                \
    F(u64, sequence, "")                                                   \
    F(str, clock, "")                                                      \
    F(bin, headers, "all headers of the request")                          \
    F(bin, body, "")

#define WIRE_OUTCOME(F) /* sequencer -> outbox: what became of its event */ \
    F(str, event_id,                                                        \
      "as it was sent; a later outcome of it replaces this one")            \
    F(str, source, "")                                                      \
    F(str, provider_id, "its id at its source; \"\": none, or erased")      \
    F(str, duplicate_of, "of a duplicate: the id of the earlier event")     \
    F(str, state,                                                           \
      "open, delivered, dead, resolved (by a person, all that are dead), "  \
      "no_endpoint, refused, ignored, duplicate, split or erased")          \
    F(u64, open, "deliveries that have not ended")                          \
    F(u64, delivered, "deliveries")                                         \
    F(u64, dead, "deliveries")                                              \
    F(u64, resolved, "of the dead ones: a person resolved them")            \
    F(u64, attempts, "of all deliveries since they were last opened")       \
    F(u64, attempts_before, "before that")                                  \
    F(i64, last_ms, "when the last attempt began; 0: there was none")       \
    F(i64, next_ms, "when the next attempt is due; 0: none is scheduled")   \
    F(str, endpoint,                                                        \
      "the first dead one by name, else the open one that failed last; "    \
      "what follows is about it")                                           \
    F(u64, http_status, "of its last attempt; 0: it had no response")       \
    F(str, reason,                                                          \
      "why its delivery is dead, or why the event has no delivery")         \
    F(str, error, "what happened, for people")                              \
    F(u64, action_id, "the last replay of the event that was applied")      \
    F(i64, at_ms, "when the sequencer read this from its rows")

/* ---- records: inside a bin field ---- */

/* The settings that an attempt needs: the rows of ENDPOINT_SETTINGS that go to the deliverer
 * (endpoint_settings.h), in that order; each kind of value has its fields here. */
#define WIRE_ENDPOINT_CONFIG(F)                                             \
    ENDPOINT_SETTINGS(ENDPOINT_FIELDS, F)                                   \
    F(i64, chosen_wait_ms,                                                  \
      "the longest wait of any retry policy that a task may have; 0: none " \
      "may")
#define ENDPOINT_FIELDS(F, TO, SCOPE, KIND, NAME, KEY, ...) \
    FIELDS_##TO(F, KIND, NAME, KEY)
#define FIELDS_SEQUENCER(F, KIND, NAME, KEY)
#define FIELDS_DELIVERER(F, KIND, NAME, KEY) FIELDS_##KIND(F, NAME, "`" KEY "`")

#define FIELDS_string(F, name, key)   F(str, name, key)
#define FIELDS_url(F, name, key)      F(str, name, key)
#define FIELDS_strings(F, name, key)  F(str, name, key ", a space between")
#define FIELDS_headers(F, name, key)  F(bin, name, key ", packed (headers.h)")
#define FIELDS_boolean(F, name, key)  F(u64, name, key ": 1 for true")
#define FIELDS_switch(F, name, key)   F(u64, name, key ": 1 for on")
#define FIELDS_choice(F, name, key)   F(u64, name, key ": which word, from 0")
#define FIELDS_int(F, name, key)      F(u64, name, key)
#define FIELDS_duration(F, name, key) F(i64, name, key ", ms")
#define FIELDS_number(F, name, key)   F(u64, name##_milli, key " × 1000")
#define FIELDS_durations(F, name, key) \
    F(bin, name, key ": waits in ms, 8 bytes little endian each")
#define FIELDS_rate(F, name, key)                                   \
    F(u64, name##_count, key ": number of requests …; 0: no limit") \
    F(i64, name##_per_ms, "… in this time, ms")
#define FIELDS_allow_private(F, name, key)      \
    F(u64, allow_private, key ": 1 for `true`") \
    F(str, allow_cidrs, "or its networks, a space between")
#define FIELDS_ports(F, name, key) \
    F(bin, name, key ": 2 bytes little endian each; empty: every port")
#define FIELDS_tls(F, name, key)                                               \
    F(bin, tls_ca, "PEM: trusted instead of the system's; empty: those")       \
    F(bin, tls_certificate, "PEM: the client certificate, if the server asks") \
    F(bin, tls_key, "PEM: its private key")
#define FIELDS_jitter(F, name, key)           \
    F(u64, jitter_full, key ": 1 for `full`") \
    F(u64, jitter_milli, "or its part × 1000; 0: no jitter")
#define FIELDS_retry_on(F, name, key)               \
    F(u64, retry_network, key ": 1 with `network`") \
    F(bin, retry_status, "bit n: retry after status n")
/* The policy itself, not its name. */
#define FIELDS_policy(F, name, key) RETRY_POLICY_SETTINGS(POLICY_FIELDS, F)
#define POLICY_FIELDS(F, KIND, NAME, KEY, ...) \
    FIELDS_##KIND(F, NAME, "`" KEY "` of the retry policy")

/* The policy of one delivery, when it is not its endpoint's. */
#define WIRE_RETRY_POLICY(F) RETRY_POLICY_SETTINGS(POLICY_FIELDS, F)

/* M(kind number, NAME, name, version) */
#define WIRE_FRAMES(M)                            \
    M(1, BATCH, batch, 2)                         \
    M(2, ACKED, acked, 2)                         \
    M(3, EPOCHS, epochs, 1)                       \
    M(4, HEARTBEAT, heartbeat, 1)                 \
    M(5, HEARTBEAT_ACK, heartbeat_ack, 1)         \
    M(6, GRANTED, granted, 2)                     \
    M(7, REVOKED, revoked, 1)                     \
    M(8, WATERMARK_REQUEST, watermark_request, 1) \
    M(9, WATERMARK, watermark, 1)                 \
    M(10, TAKEN, taken, 1)

#define WIRE_MESSAGES(M)             \
    M(32, ACCEPTED, accepted, 1)     \
    M(33, TASK, task, 2)             \
    M(34, REVOKE, revoke, 1)         \
    M(35, DROPPED, dropped, 1)       \
    M(36, RESULT, result, 1)         \
    M(37, RELEASED, released, 1)     \
    M(38, DEAD, dead, 1)             \
    M(39, RECOVERED, recovered, 1)   \
    M(40, REQUEUED, requeued, 1)     \
    M(41, DECIDED, decided, 1)       \
    M(42, REPLAYED, replayed, 1)     \
    M(43, REDIRECTED, redirected, 1) \
    M(44, RETRY_NOW, retry_now, 1)   \
    M(48, CHECK, check, 1)           \
    M(49, MISSING, missing, 1)       \
    M(50, OUTCOME, outcome, 1)

#define WIRE_RECORDS(M)                        \
    M(64, ENDPOINT_CONFIG, endpoint_config, 4) \
    M(65, RETRY_POLICY, retry_policy, 1)

/* Values of result.outcome; they never change. */
enum outcome {
    OUTCOME_DELIVERED = 1, /* the endpoint responded 2xx */
    OUTCOME_RETRYING = 2,  /* failed; a retry waits until next_ms */
    OUTCOME_DEAD = 3,      /* failed for good, with a reason */
    /* The deliverer returns the task: it was not tried, or its attempt was broken off. Its
     * name for users is "released". */
    OUTCOME_RETURNED = 4,
};

#endif
