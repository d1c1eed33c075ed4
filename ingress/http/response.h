/* response: every response that ingress can send, declared once: its status, the code and
 * message that the client sees, the reason that only the log and the counters have, and what it
 * means for the connection. */
#ifndef INGRESS_RESPONSE_H
#define INGRESS_RESPONSE_H

#include "archive_space.h"
#include "rc.h"
#include "verify.h"

/* Retry-After is in seconds; 0: none. `CLOSE`: what follows on this connection cannot be
 * trusted, or ingress is stopping. All refusals to authenticate look the same from outside, so
 * that they do not help an attacker. A 503 does not tell the client why. */
#define WHO "the request could not be authenticated"
#define RESPONSES(A)                                                           \
    A(ACCEPTED, 200, "", "accepted", "", 0, KEEP)                              \
    A(HEALTHY, 200, "", "healthy", "", 0, KEEP)                                \
    A(HANDSHAKE, 200, "", "handshake", "", 0, KEEP)                            \
    A(LENGTH_AMBIGUOUS, 400, "bad_request", "length_ambiguous",                \
      "the length of the body is ambiguous: send one Content-Length, or "      \
      "Transfer-Encoding: chunked",                                            \
      0, CLOSE)                                                                \
    A(CHUNKS_MALFORMED, 400, "bad_request", "chunks_malformed",                \
      "the chunked body is malformed: a line of a chunk or of its trailer is " \
      "invalid or does not end with CR LF",                                    \
      0, CLOSE)                                                                \
    A(CHUNKS_PIPELINED, 400, "bad_request", "chunks_pipelined",                \
      "a chunked request came before the previous response: send it after "    \
      "that response",                                                         \
      0, CLOSE)                                                                \
    A(HEAD_MALFORMED, 400, "bad_request", "head_malformed",                    \
      "the request line or a header is malformed", 0, CLOSE)                   \
    A(HOST_MISSING, 400, "bad_request", "host_missing",                        \
      "the Host header is missing: HTTP/1.1 requires one", 0, CLOSE)           \
    A(HOST_DOUBLED, 400, "bad_request", "host_doubled",                        \
      "there are several Host headers: HTTP/1.1 requires one", 0, CLOSE)       \
    A(SIGNATURE_MISSING, 401, "unauthorized", "signature_missing", WHO, 0,     \
      KEEP)                                                                    \
    A(SIGNATURE_MALFORMED, 401, "unauthorized", "signature_malformed", WHO, 0, \
      KEEP)                                                                    \
    A(SIGNATURE_MISMATCH, 401, "unauthorized", "signature_mismatch", WHO, 0,   \
      KEEP)                                                                    \
    A(TIMESTAMP_MISSING, 401, "unauthorized", "timestamp_missing", WHO, 0,     \
      KEEP)                                                                    \
    A(TIMESTAMP_MALFORMED, 401, "unauthorized", "timestamp_malformed", WHO, 0, \
      KEEP)                                                                    \
    A(TIMESTAMP_STALE, 401, "unauthorized", "timestamp_stale", WHO, 0, KEEP)   \
    A(ID_MISSING, 401, "unauthorized", "id_missing", WHO, 0, KEEP)             \
    A(ID_MALFORMED, 401, "unauthorized", "id_malformed", WHO, 0, KEEP)         \
    A(BODY_MISSING, 401, "unauthorized", "body_missing", WHO, 0, KEEP)         \
    A(EVENT_MALFORMED, 400, "bad_request", "event_malformed",                  \
      "the body is not a valid event", 0, KEEP)                                \
    A(TOO_MANY_HOPS, 400, "bad_request", "too_many_hops",                      \
      "grapnel-hops is above 3: the event has come back to Grapnel several "   \
      "times; find the endpoint that sends it here again",                     \
      0, KEEP)                                                                 \
    A(BATCH_REFUSED, 400, "bad_request", "batch_refused",                      \
      "no line of the batch was accepted", 0, KEEP)                            \
    A(TOKEN_MISSING, 401, "unauthorized", "token_missing", WHO, 0, KEEP)       \
    A(TOKEN_UNKNOWN, 401, "unauthorized", "token_unknown", WHO, 0, KEEP)       \
    A(PRODUCERS_NONE, 403, "forbidden", "producers_none",                      \
      "no producers are configured: add this one to `producers`", 0, KEEP)     \
    A(WORKSPACE_FORBIDDEN, 403, "forbidden", "workspace_forbidden",            \
      "this producer may not publish to this workspace", 0, KEEP)              \
    A(TYPE_FORBIDDEN, 403, "forbidden", "type_forbidden",                      \
      "this producer may not publish this type", 0, KEEP)                      \
    A(URL_FORBIDDEN, 403, "forbidden", "url_forbidden",                        \
      "this producer may not name this URL", 0, KEEP)                          \
    A(PATH_UNKNOWN, 404, "not_found", "path_unknown",                          \
      "this path does not exist: check the URL", 0, KEEP)                      \
    A(SOURCE_UNKNOWN, 404, "not_found", "source_unknown",                      \
      "this path does not exist: check the URL", 0, KEEP)                      \
    A(ONLY_POST, 405, "method_not_allowed", "only_post",                       \
      "this path accepts only POST", 0, KEEP)                                  \
    A(ONLY_GET, 405, "method_not_allowed", "only_get",                         \
      "this path accepts only GET and HEAD", 0, KEEP)                          \
    A(WORKSPACE_ERASED, 410, "gone", "workspace_erased",                       \
      "the workspace of this event was erased: its events are not accepted",   \
      0, KEEP)                                                                 \
    A(KEY_REUSED, 422, "idempotency_key_reused", "idempotency_key_reused",     \
      "this idempotency key was used before for an event with other content: " \
      "use a new key",                                                         \
      0, KEEP)                                                                 \
    A(SCHEMA_MISMATCH, 422, "schema_mismatch", "schema_mismatch",              \
      "the data does not fit the schema of its type", 0, KEEP)                 \
    A(TYPE_UNKNOWN, 422, "type_unknown", "type_unknown",                       \
      "the type is not in the catalogue of event types", 0, KEEP)              \
    A(TYPES_UNKNOWN, 503, "unavailable", "types_unknown",                      \
      "the catalogue of event types was not read yet: send the request again", \
      5, KEEP)                                                                 \
    A(TOO_SLOW, 408, "timeout", "too_slow",                                    \
      "the request did not arrive within ingress.read_timeout: send it again", \
      0, CLOSE)                                                                \
    A(BODY_TOO_LARGE, 413, "too_large", "body_too_large",                      \
      "the body is larger than ingress.max_body", 0, KEEP)                     \
    A(COMPRESSED, 415, "unsupported_encoding", "compressed",                   \
      "Content-Encoding is not supported: send the body uncompressed", 0,      \
      KEEP)                                                                    \
    A(HEAD_TOO_LARGE, 431, "headers_too_large", "headers_too_large",           \
      "the request line and headers exceed 16 KiB, or 128 headers", 0, CLOSE)  \
    A(RATE_LIMITED, 429, "rate_limited", "rate_limited",                       \
      "the rate_limit of this source is exceeded: send the request again", 1,  \
      KEEP)                                                                    \
    A(STOPPING, 503, "unavailable", "stopping",                                \
      "ingress is shutting down: send the request again", 5, CLOSE)            \
    A(DISK_LOW, 503, "unavailable", "disk_low",                                \
      "the event could not be stored: send the request again", 30, KEEP)       \
    A(DISK_FULL, 503, "unavailable", "disk_full",                              \
      "the event could not be stored: send the request again", 30, KEEP)       \
    A(BACKLOG_FULL, 503, "unavailable", "backlog_full",                        \
      "the event could not be stored: send the request again", 30, KEEP)       \
    A(DISK_STALLED, 503, "unavailable", "disk_stalled",                        \
      "the disk stalls, a write takes seconds: send the request again", 5,     \
      KEEP)                                                                    \
    A(REPLICATION_STALLED, 503, "unavailable", "replication_stalled",          \
      "the replication database does not respond: send the request again", 5,  \
      KEEP)                                                                    \
    A(STORE_SLOW, 503, "unavailable", "store_slow",                            \
      "the event could not be stored: send the request again", 5, KEEP)        \
    A(BODIES_FULL, 503, "unavailable", "bodies_full",                          \
      "large requests use all memory for bodies: send the request again", 1,   \
      KEEP)

enum response {
    RESPONSE_NONE = 0, /* not decided yet */
#define A(NAME, status, code, reason, message, retry_after_s, close) \
    RESPONSE_##NAME,
    RESPONSES(A)
#undef A
        RESPONSE_COUNT
};

struct response_facts {
    unsigned status;
    const char *code;   /* "": the status is 200 */
    const char *reason; /* for the log and the counters */
    const char *message;
    int retry_after_s;
    bool closes;
};

const struct response_facts *response_facts(enum response a);
/* The 401 for a verdict; RESPONSE_NONE if it holds. */
enum response response_to(enum verification v);
/* The 503 while the archive has no space; RESPONSE_NONE if it has. */
enum response response_to_space(enum archive_refusal r);

/* The `Allow` header of a 405; NULL for every other response. */
const char *response_allow(enum response a);

/* {"error":{"code":…,"message":…}}; "" if it is not an error. Static. */
const char *response_body(enum response a);

#endif
