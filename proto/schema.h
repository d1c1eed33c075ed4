/* schema: every frame and message that crosses a process boundary, declared
 * once. wire.h makes structs, encoders, strict decoders and docs/WIRE.md of it.
 *
 * On the wire each is a msgpack array [kind, version, field, …] in this order.
 * Kind numbers, field order and meaning are forever: a change adds a new
 * version below the old one, and the old reader stays until no store can hold
 * such a message (tests/golden has the bytes of each).
 *
 * Field types: u64, i64, str (UTF-8 not required, no NUL), bin. A decoded
 * string or bin borrows from the frame. */
#ifndef PROTO_SCHEMA_H
#define PROTO_SCHEMA_H

/* ---- frames: what a socket carries. Each opens with who says it. ---- */

#define WIRE_BATCH(F) /* hop: sender -> receiver */                           \
    F(str, from, "the sender's name")                                         \
    F(str, inbox, "where the sender is answered")                             \
    F(str, to, "the receiver's name; another one drops the frame")            \
    F(u64, prev_run, "run of the row before the first; 0 when there is none") \
    F(u64, run, "run of every row in this batch")                             \
    F(u64, first, "number of the first message")                              \
    F(u64, count, "messages that follow, 0 to ask where you are")             \
    F(bin, messages, "that many messages, each with its length before it")    \
    F(u64, question, "the sender's latest question; `acked` names it")

#define WIRE_ACKED(F) /* hop: receiver -> sender */                        \
    F(str, from, "the receiver's name")                                    \
    F(str, inbox, "where the receiver is reached")                         \
    F(str, to, "the sender's name")                                        \
    F(u64, n, "last number that is on the receiver's disk; 0 for none")    \
    F(u64, run, "and its run")                                             \
    F(u64, taken, "last number taken, on disk or not: at least n")         \
    F(u64, taken_run, "and its run")                                       \
    F(u64, hole, "1 when a batch was dropped because numbers are missing") \
    F(u64, answers, "question of the last batch that came; 0: none came")

#define WIRE_RUNS(F) /* hop: sender -> receiver */                            \
    F(str, from, "the sender's name")                                         \
    F(str, inbox, "where the sender is answered")                             \
    F(str, to, "the receiver's name")                                         \
    F(u64, next, "the number that the next row will get")                     \
    F(u64, floor, "lowest number that can still be sent")                     \
    F(u64, place, "the receiver's `taken` that this answers; if it is there") \
    F(u64, place_run, "no more, it drops this frame")                         \
    F(u64, count, "runs that follow, oldest first")                           \
    F(bin, runs, "run and first number of each, 8 bytes little endian each")

#define WIRE_BEAT(F) /* deliverer -> sequencer, about once a second */ \
    F(str, from, "the deliverer's name")                               \
    F(str, inbox, "where it is answered")                              \
    F(u64, store, "id of its database, made when that was created")    \
    F(u64, run, "this start of it")                                    \
    F(i64, stamp_ms, "its own monotonic time")                         \
    F(u64, wanted_count, "grants that follow")                         \
    F(bin, wanted, "grants without a configuration, 8 bytes each")

#define WIRE_PULSE(F) /* sequencer -> deliverer: the answer to a beat */ \
    F(str, from, "the sequencer's name")                                 \
    F(str, inbox, "where it is reached")                                 \
    F(u64, run, "run of the beat it answers")                            \
    F(i64, stamp_ms, "stamp of the beat it answers")

#define WIRE_GRANTED(F) /* sequencer -> deliverer: this endpoint is yours */  \
    F(str, from, "the sequencer's name")                                      \
    F(str, inbox, "where it is reached")                                      \
    F(u64, run, "run of the last beat")                                       \
    F(i64, stamp_ms, "stamp of the last beat")                                \
    F(u64, grant, "64 random bits, never given twice")                        \
    F(str, endpoint, "its name")                                              \
    F(bin, config, "endpoint_config: all that an attempt needs, secrets too") \
    F(u64, healthy, "1: it has delivered before")                             \
    F(i64, held_since_ms, "it is held since then (hold.h); 0: it is not")     \
    F(u64, held_status, "what it refuses everything with; 0: no response")    \
    F(i64, held_ms, "how long it was paused or held in all before that")

#define WIRE_VOIDED(                                            \
    F) /* sequencer -> deliverer: not yours, forget its rows */ \
    F(str, from, "the sequencer's name")                        \
    F(str, inbox, "where the sequencer is reached")             \
    F(u64, grant, "the grant that is over, whatever it answers")

#define WIRE_SOUNDING(F) /* sequencer -> ingress: what have you received? */ \
    F(str, from, "the sequencer's name")                                     \
    F(str, inbox, "where it is answered")                                    \
    F(u64, run, "this start of it")                                          \
    F(i64, stamp_ms, "its door time (doors.h)")

#define WIRE_SOUNDED(F) /* ingress -> sequencer: the answer */ \
    F(str, from, "the ingress's name")                         \
    F(str, inbox, "where it is reached")                       \
    F(u64, run, "of the sounding")                             \
    F(i64, stamp_ms, "of the sounding")                        \
    F(u64, next,                                               \
      "whatever it receives from now on has this number or "   \
      "a higher one")

/* ---- messages: what the hop carries, durably ---- */

#define WIRE_ACCEPTED(F) /* ingress -> sequencer: the raw request is kept */ \
    F(str, event_id, "made by ingress, never reused")                        \
    F(str, source, "whose door it came in by")                               \
    F(i64, received_ms, "wall clock")                                        \
    F(str, remote, "the peer's address")                                     \
    F(bin, headers, "all of them, packed (headers.h)")                       \
    F(bin, body, "as received")                                              \
    F(u64, damaged, "1: what is stored of it is damaged: not to be delivered")

#define WIRE_TASK(F) /* sequencer -> deliverer: deliver this */              \
    F(u64, grant, "under which it is out")                                   \
    F(str, endpoint, "to whom")                                              \
    F(str, event_id, "what; also the webhook-id")                            \
    F(str, source, "")                                                       \
    F(str, type, "")                                                         \
    F(str, workspace, "")                                                    \
    F(i64, received_ms, "when the event came in")                            \
    F(u64, sequence, "its number in its workspace; 0: it has none")          \
    F(u64, previous, "the last one routed to this endpoint before; 0: none") \
    F(str, clock, "numbers by type at that moment: issue.created=7,…")       \
    F(str, source_sequence, "the source's own number; \"\": none")           \
    F(str, gap, "let go past these numbers, 3-5; \"\": none is missing")     \
    F(u64, late, "1: it came after its gap was given up")                    \
    F(str, url, "where to, instead of the endpoint's own; \"\": that")       \
    F(u64, series, "changes when the numbering was set back")                \
    F(u64, replay, "1: an operator's retry of what may have arrived before") \
    F(u64, attempts, "made so far")                                          \
    F(u64, budget_base, "attempts that an earlier life had used")            \
    F(i64, first_ms, "time of the first attempt of this life; 0: none yet")  \
    F(i64, next_ms, "not before; 0: at once")                                \
    F(bin, headers, "to send along, packed: content-type and event headers") \
    F(bin, body, "to send")                                                  \
    F(i64, expires_ms, "not tried from then on; 0: never expires")

#define WIRE_RECALLED(F) /* sequencer -> deliverer: give this grant back */ \
    F(u64, grant, "begin nothing more under it; end it with `drained`")

#define WIRE_DROPPED(F) /* sequencer -> deliverer: final elsewhere */ \
    F(u64, grant, "")                                                 \
    F(str, endpoint, "")                                              \
    F(str, event_id, "forget it, and say `released` (or what it came to)")

#define WIRE_RETRY_NOW(F) /* sequencer -> deliverer: an operator's retry */ \
    F(u64, grant, "under which the delivery is at its deliverer")           \
    F(str, endpoint, "")                                                    \
    F(str, event_id, "due now; its budget and its count stay as they are")

#define WIRE_CHECK(F) /* sequencer -> deliverer: do you know this delivery? */ \
    F(u64, grant, "under which it was given out")                              \
    F(str, endpoint, "")                                                       \
    F(str, event_id, "if you do not know it, say `missing`")                   \
    F(u64, task, "number of its task in this log")

#define WIRE_MISSING(F) /* deliverer -> sequencer: the answer to a check */ \
    F(u64, grant, "of the check")                                           \
    F(str, endpoint, "")                                                    \
    F(str, event_id, "not known here; what was is in the results before")   \
    F(u64, task, "of the check")

#define WIRE_RESULT(F) /* deliverer -> sequencer: what an attempt came to */ \
    F(u64, grant, "")                                                        \
    F(str, endpoint, "")                                                     \
    F(str, event_id, "")                                                     \
    F(u64, attempt_id, "64 random bits; 0 when nothing was tried")           \
    F(u64, outcome, "enum outcome")                                          \
    F(u64, attempts, "made so far, this one included")                       \
    F(i64, at_ms, "when it began")                                           \
    F(i64, duration_ms, "")                                                  \
    F(u64, http_status, "0 without one")                                     \
    F(str, reason,                                                           \
      "dead: rejected …; parked: held; released: dropped; or \"\"")          \
    F(str, error, "what happened, for people; \"\" when delivered")          \
    F(i64, first_ms, "time of the first attempt of this life")               \
    F(i64, next_ms, "parked: when the next is due")                          \
    F(bin, response, "start of the answer's body")                           \
    F(u64, sends,                                                            \
      "requests begun, here or in a crash; 0: it can't have reached it")

#define WIRE_DRAINED(F) /* deliverer -> sequencer */ \
    F(u64, grant, "nothing under it is in flight here, or ever will be")

#define WIRE_DEAD(F) /* sequencer -> dlqd: a delivery failed for good */ \
    F(str, letter_id, "dlq_…; the same in every life")                   \
    F(u64, life, "from 1; one more with each requeue")                   \
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
    F(u64, attempts, "in all lives")                                     \
    F(i64, first_ms, "")                                                 \
    F(i64, dead_ms, "")                                                  \
    F(u64, last_http_status, "")                                         \
    F(str, last_error, "")                                               \
    F(bin, last_response, "")                                            \
    F(bin, headers, "all that came with the event")                      \
    F(bin, body, "")

#define WIRE_RECOVERED(F) /* sequencer -> dlqd: it was delivered after all */ \
    F(str, letter_id, "")                                                     \
    F(u64, life, "the life in which it was dead")                             \
    F(i64, at_ms, "")

#define WIRE_REQUEUED(F) /* dlqd -> sequencer: try this letter again */ \
    F(str, letter_id, "")                                               \
    F(u64, life, "the life in which it is dead")                        \
    F(str, event_id, "")                                                \
    F(str, endpoint, "")                                                \
    F(str, source, "")                                                  \
    F(str, provider_id, "")                                             \
    F(str, type, "")                                                    \
    F(str, workspace, "")                                               \
    F(i64, received_ms, "")                                             \
    F(u64, sequence, "")                                                \
    F(u64, previous, "")                                                \
    F(str, clock, "")                                                   \
    F(u64, attempts, "")                                                \
    F(bin, headers, "all that came with the event")                     \
    F(bin, body, "")

#define WIRE_DECIDED(F) /* dlqd -> sequencer: nobody waits for this letter */ \
    F(str, letter_id, "")                                                     \
    F(u64, life, "the life in which it is dead")                              \
    F(str, event_id, "")                                                      \
    F(str, endpoint, "")                                                      \
    F(str, what, "resolved, discarded, or dropped by dlq.keep")

#define WIRE_REPLAYED(F) /* ingress -> sequencer: send this one again */    \
    F(u64, act, "64 random bits: the operator's act; done once")            \
    F(i64, at_ms, "when he said so")                                        \
    F(str, request_id, "the archived request's id")                         \
    F(str, event_id, "the same, or that of one event of a request of many") \
    F(str, new_id,                                                          \
      "taken as a new event of this id; \"\": sent again as it is")         \
    F(str, endpoint, "only to this one; \"\": to all that had or want it")  \
    F(u64, always, "1: to that one even if it never had nor wants it")      \
    F(str, source, "")                                                      \
    F(i64, received_ms, "")                                                 \
    F(str, remote, "")                                                      \
    F(bin, headers, "as in `accepted`")                                     \
    F(bin, body, "")

#define WIRE_REDIRECTED(F) /* dlqd -> sequencer: send it to another one */ \
    F(u64, act, "64 random bits: the operator's act; done once")           \
    F(str, letter_id, "resolved by this")                                  \
    F(str, to, "the endpoint that gets it")                                \
    F(str, event_id, "")                                                   \
    F(str, source, "")                                                     \
    F(str, provider_id, "")                                                \
    F(str, type, "")                                                       \
    F(str, workspace, "")                                                  \
    F(i64, received_ms, "")                                                \
    F(u64, sequence, "")                                                   \
    F(str, clock, "")                                                      \
    F(bin, headers, "all that came with the event")                        \
    F(bin, body, "")

/* ---- records: inside a bin field ---- */

#define WIRE_ENDPOINT_CONFIG(F) /* all that an attempt needs to know */     \
    F(str, name, "")                                                        \
    F(str, url, "")                                                         \
    F(str, method, "POST or PUT")                                           \
    F(bin, headers, "the endpoint's own, packed")                           \
    F(str, signing_secrets, "whsec_…, one after another, a space between")  \
    F(u64, allow_private, "1: may reach private addresses")                 \
    F(str, allow_cidrs, "or those, a space between; \"\" for none")         \
    F(i64, timeout_ms, "")                                                  \
    F(i64, connect_timeout_ms, "")                                          \
    F(u64, max_in_flight, "")                                               \
    F(u64, ordered, "enum order_lanes")                                     \
    F(u64, rate_count, "at most so many attempts are begun …; 0: no limit") \
    F(i64, rate_per_ms, "… in this time")                                   \
    F(u64, breaker, "1: consecutive failures hold the rest back")           \
    F(u64, guard, "1: hold it back when it refuses everything")             \
    F(u64, backoff, "enum backoff_kind")                                    \
    F(i64, first_wait_ms, "")                                               \
    F(i64, max_wait_ms, "")                                                 \
    F(u64, factor_milli, "factor × 1000")                                   \
    F(bin, schedule, "waits in ms, 8 bytes little endian each")             \
    F(u64, repeat_last, "")                                                 \
    F(u64, jitter_full, "")                                                 \
    F(u64, jitter_milli, "proportional jitter × 1000")                      \
    F(u64, max_attempts, "0: does not bind")                                \
    F(i64, max_duration_ms, "0: does not bind")                             \
    F(u64, retry_network, "")                                               \
    F(bin, retry_status, "bit n: status n is tried again")                  \
    F(u64, respect_retry_after, "")                                         \
    F(bin, allowed_ports, "2 bytes little endian each; none: every port")   \
    F(bin, tls_ca, "PEM: trusted instead of the system's; none: those")     \
    F(bin, tls_certificate, "PEM: how we show who we are, if asked")        \
    F(bin, tls_key, "PEM: its private key")

/* M(kind number, NAME, name, version) */
#define WIRE_FRAMES(M)          \
    M(1, BATCH, batch, 2)       \
    M(2, ACKED, acked, 2)       \
    M(3, RUNS, runs, 1)         \
    M(4, BEAT, beat, 1)         \
    M(5, PULSE, pulse, 1)       \
    M(6, GRANTED, granted, 1)   \
    M(7, VOIDED, voided, 1)     \
    M(8, SOUNDING, sounding, 1) \
    M(9, SOUNDED, sounded, 1)

#define WIRE_MESSAGES(M)             \
    M(32, ACCEPTED, accepted, 1)     \
    M(33, TASK, task, 1)             \
    M(34, RECALLED, recalled, 1)     \
    M(35, DROPPED, dropped, 1)       \
    M(36, RESULT, result, 1)         \
    M(37, DRAINED, drained, 1)       \
    M(38, DEAD, dead, 1)             \
    M(39, RECOVERED, recovered, 1)   \
    M(40, REQUEUED, requeued, 1)     \
    M(41, DECIDED, decided, 1)       \
    M(42, REPLAYED, replayed, 1)     \
    M(43, REDIRECTED, redirected, 1) \
    M(44, RETRY_NOW, retry_now, 1)   \
    M(48, CHECK, check, 1)           \
    M(49, MISSING, missing, 1)

#define WIRE_RECORDS(M) M(64, ENDPOINT_CONFIG, endpoint_config, 1)

/* Values of result.outcome. On the wire forever. */
enum outcome {
    OUTCOME_DELIVERED = 1, /* the endpoint answered 2xx */
    OUTCOME_PARKED = 2,    /* failed; a retry waits until next_ms */
    OUTCOME_DEAD = 3,      /* failed for good, with a reason */
    OUTCOME_RELEASED = 4,  /* not tried, or given up unended */
};

/* Values of endpoint_config.ordered: what one lane is. */
enum order_lanes {
    LANES_NONE = 0,
    LANES_WORKSPACE = 1, /* each workspace */
    LANES_ALL = 2,       /* the endpoint */
};

#endif
