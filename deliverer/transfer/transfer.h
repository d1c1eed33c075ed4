/* transfer: one request to an endpoint and its response, made by libcurl. A transfer is an
 * attempt from its beginning until its outcome is committed.
 *
 * transfers.h owns all transfers and calls these functions; outcome.h fills the part about
 * the outcome. Nothing is decided here: classify.h says what a response means, backoff.h
 * when the next attempt is due. All of it is in memory: after a crash the task is read from
 * its row, or sent again by the sequencer, and tried again.
 *
 * One POST may reach the endpoint twice: when a kept connection turns out dead before a
 * byte of a response arrived, libcurl sends the request again (Curl_retry_request; up to
 * five times, on other kept connections). Here that happens once at most, on a new
 * connection, and is counted (`resent`). That is why all attempts of an event have the
 * same webhook-id. */
#ifndef DELIVERER_TRANSFER_H
#define DELIVERER_TRANSFER_H

#include "alloc.h"
#include "classify.h"
#include "due_queue.h"
#include "granted_endpoint.h"
#include "request.h"
#include <sys/queue.h>

enum {
    /* A response's body is kept up to RESPONSE_MAX_BYTES and read up to this, so that
     * the connection can be used again; if there is more, the connection is closed. */
    RESPONSE_READ_MAX_BYTES = 256 * 1024,
    RESPONSE_HEADERS_MAX_BYTES = 16 * 1024, /* kept; the rest is cut off */
    /* A response's status and header lines, with those of 1xx responses and
     * trailers, are read up to this; and so are the sizes, extensions and
     * trailers of a chunked body. libcurl allocates memory for each line, so
     * each line counts its bytes and these (RFC 9113, 6.5.2 adds as many). */
    RESPONSE_HEAD_MAX_COST = 64 * 1024,
    HEADER_LINE_COST = 32,
};

struct task;
struct transfers;

/* When each step was done, in µs since the attempt began; 0: the step was not needed (a
 * kept connection needs no address, no connecting and no TLS). */
struct timings {
    int64_t dns_us, connect_us, tls_us, first_byte_us, total_us;
};

struct transfer {
    TAILQ_ENTRY(transfer) link; /* of active, ended or tested transfers */
    SLIST_ENTRY(transfer) idle_link;
    struct transfers *all;
    struct task *task;                 /* borrowed until transfer_done() */
    struct endpoint_config *config;    /* counted */
    const struct retry_policy *policy; /* the task's, or `config`'s */
    int64_t connect_ms, timeout_ms;    /* the limits of this attempt */
    uint64_t prepared; /* id of the configuration that `easy` is set for */
    CURL *easy;
    struct outgoing_request request;
    struct buf headers, response; /* of the response, cut */
    size_t response_bytes;        /* of its body, decoded */
    size_t raw_bytes;             /* of its body, if chunked, as received */
    size_t head_cost;             /* of its status and header lines */
    struct transfer_result result;
    struct timings timings;
    long http_version;        /* CURL_HTTP_VERSION_…; 0 without a response */
    int sends;                /* requests begun: 2 when it was resent */
    const char *interrupted;  /* by us, and why (static); NULL */
    bool expired;             /* the event had expired: nothing was sent */
    struct due_item deadline; /* in awake_ms: one of the next two */
    int64_t connect_by, end_by;
    bool put_off;        /* these two were, because this process was stopped */
    int64_t ended_ms;    /* in awake_ms */
    uint64_t attempt_id; /* 0: nothing was tried */
    int64_t at_ms, signed_ms; /* by the loop's clock; in webhook-timestamp */
    int64_t began_us, duration_ms, retry_after_ms;
    /* Its outcome (outcome.h); `recorded`: in the transaction that is open now. */
    bool decided, recorded;
    bool
        endpoint_held; /* it was refused by an endpoint that is held (hold.h) */
    struct judgement judgement;
    int outcome;
    const char *reason;
    uint64_t attempts;
    int64_t first_ms, next_ms, held_ms;
    char error[ERROR_TEXT_BYTES];
};

/* A transfer without a task; libcurl's handle has the options that never change. */
struct transfer *transfer_new(struct transfers *fs);
void transfer_free(struct transfer *f);
/* Set libcurl's handle for its task and configuration. */
void transfer_prepare(struct transfer *f);
/* It has ended: read what libcurl knows of it. */
void transfer_read(struct transfer *f, CURLcode code);
/* The process was stopped: libcurl's time for connecting begins anew, so that it does
 * not end before the time-out of transfers.h. */
void transfer_stood_still(struct transfer *f);

#endif
