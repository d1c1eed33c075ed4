/* published: an event of a producer, as it is sent to POST /v1/events and in each line of a
 * batch:
 *
 *   {"type","workspace","data"}, and optionally "id", "endpoints", "expires_in",
 *   "retry_policy", "max_attempts", "priority", "url", "ordering_key"
 *
 * Ingress and the sequencer both read it with this code: ingress to report errors at once,
 * the sequencer to make the body for endpoints. Pure. */
#ifndef WEBHOOK_PUBLISHED_H
#define WEBHOOK_PUBLISHED_H

#include "alloc.h"
#include "bounds.h"
#include "rc.h"
#include "settings.h"
#include <jansson.h>

enum {
    PUBLISHED_TEXT_MAX_BYTES = 255
}; /* of id, type, workspace, ordering_key */

struct published {
    json_t *
        json; /* the object, owned, but for `data`; the texts below are inside it */
    const char *type, *workspace;
    const char *id; /* NULL: none */
    const json_t
        *endpoints; /* names of the only endpoints that get it; NULL: all */
    int64_t expires_in_ms;    /* 0: it does not expire */
    const char *retry_policy; /* its name; NULL: it does not choose one */
    int64_t max_attempts;     /* 0: it does not choose a number */
    enum priority priority;   /* PRIORITY_UNCHOSEN: it does not choose */
    /* instead of its endpoint's, of which it then lists one; NULL: none */
    const char *url;
    const char
        *ordering_key; /* its lane in its workspace (lane.h); NULL: none */
    struct bytes data; /* as it was written, for the body */
};

/* The first of the stored headers of an event that expires; its value is the time, in ms. A
 * request cannot contain a header of this name, nor of the next. */
#define PUBLISHED_EXPIRES ":expires"
/* The stored header of an event that names its URL: "ENDPOINT URL". */
#define PUBLISHED_URL ":url"

/* The stored header of an event with an ordering key, which so returns with a dead letter. */
#define PUBLISHED_ORDERING_KEY ":ordering-key"

/* The stored header of a producer's or relay's request, so that it is recognised when that is no longer
 * configured: endpoints get the body of published_body() (PAYLOAD_EVENT), or `data` alone, as it is
 * written (PAYLOAD_JSON), or the text that it is (PAYLOAD_TEXT). Older requests that get the first do
 * not have it. */
#define PUBLISHED_PAYLOAD ":payload"
#define PAYLOAD_EVENT     "event"
#define PAYLOAD_JSON      "json"
#define PAYLOAD_TEXT      "text"

/* The stored header of an event that was taken from the list of its provider (`reconcile`), with the time that it
 * has there. */
#define RECONCILED_HEADER ":reconciled"

struct published_wrong {
    const char *field; /* "": the body as a whole; static */
    char why[400];
};

/* GR_REFUSE: `wrong` says what is wrong. Call published_fini() in either case. */
GR_MUST_CHECK gr_rc published_read(struct published *p, struct bytes body,
                                   struct published_wrong *wrong);
void published_fini(struct published *p);

/* A tree of `data`, the caller's. */
json_t *published_data(const struct published *p);

/* Whether this producer may send it; `wrong` says why not. PUBLISHED_UNKNOWN: it names
 * an endpoint or a retry policy that is not in the configuration, or a port that its endpoint
 * may not have. */
enum published_verdict {
    PUBLISHED_GOOD,
    PUBLISHED_WORKSPACE_FORBIDDEN,
    PUBLISHED_TYPE_FORBIDDEN,
    PUBLISHED_URL_FORBIDDEN,
    PUBLISHED_UNKNOWN,
};
struct settings;
struct producer;
enum published_verdict published_judge(const struct published *p,
                                       const struct settings *settings,
                                       const struct producer *producer,
                                       struct published_wrong *wrong);

/* Whether it may go to this endpoint. */
bool published_for(const struct published *p, const char *endpoint);

/* Writes the body that endpoints get: {"id","type","workspace","timestamp","data"}. */
void published_body(const struct published *p, const char *event_id,
                    int64_t received_ms, struct buf *out);

/* Writes the body that endpoints get of an event with these stored headers: that of
 * published_body(), or its `data` alone. Returns its content type (static). */
const char *published_sent(const struct published *p, struct bytes headers,
                           const char *event_id, int64_t received_ms,
                           struct buf *out);

/* Writes the id of an event with an idempotency key: made of producer and key, so that a
 * duplicate has the same id. It is not a ULID (no ULID begins with its first letter), and
 * sorts after all of them, from KEYED_IDS_FROM on. */
#define KEYED_IDS_FROM "evt_8"
void published_event_id(char out[EVENT_ID_BYTES + 1], const char *producer,
                        struct bytes key);

/* A digest of the object's content, to tell a duplicate of an idempotency key from the use
 * of the key for another event. It is the same for two bodies that differ only in white
 * space, in the order of an object's members, in the escapes of a string, or in "id" at the
 * top, which may be in a header instead. Numbers are compared as they are written, because
 * endpoints get them so: 1.0 and 1.00 differ. `p` was read from `body`. */
enum { PUBLISHED_DIGEST_BYTES = 16 };
void published_digest(const struct published *p, struct bytes body,
                      uint8_t out[PUBLISHED_DIGEST_BYTES]);

#endif
