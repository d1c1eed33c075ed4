/* transfer: one request and its response, by libcurl, many at once.
 *
 * A transfer is an attempt from its begin until its outcome is committed
 * (attempt.c: one transfer; transfers.c: all of them). All of
 * libcurl's sockets live in one epoll descriptor, which the loop watches; its
 * connections are kept and used again. Nothing is decided here: classify.h says
 * what a response means, backoff.h when the next attempt is due.
 *
 * libcurl's time-outs are not used: libcurl judges them before it reads its sockets, by a
 * clock that runs while this process is stopped, so a response that has already arrived
 * would be a failure. The time-outs here are judged after all sockets were read, by the
 * loop's awake_ms.
 *
 * One POST may reach the endpoint twice: when a kept connection turns out dead
 * before a byte of a response, libcurl sends it again (Curl_retry_request; up to
 * five times, on other kept connections). We make it once, on a new connection,
 * and count it (`resent`). That is why every attempt has the same webhook-id. */
#ifndef DELIVERER_TRANSFER_H
#define DELIVERER_TRANSFER_H

#include "alloc.h"
#include "classify.h"
#include "granted_endpoint.h"
#include "heap.h"
#include "request.h"
#include "sockets.h"

enum {
    FLIGHTS_MAX = 12 * 1024,
    /* A response's body is kept up to RESPONSE_MAX_BYTES, and read up to this,
     * so that the connection can be used again; past it, it is closed. */
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
struct grant;
struct transfers;

/* When each step was done, in µs since the attempt began; 0: there was none (a
 * kept connection needs no address, no connecting and no TLS). */
struct timings {
    int64_t dns_us, connect_us, tls_us, first_byte_us, total_us;
};

struct transfer {
    struct transfer *next, *prev; /* active, ended or tested; idle: `next` */
    struct transfers *all;
    struct task *task;
    struct endpoint_config *config; /* counted */
    uint64_t prepared;              /* id of the config the handle is set for */
    CURL *easy;
    struct outgoing_request request;
    struct buf headers, response; /* of the response, cut */
    size_t response_bytes;        /* of its body, decoded */
    size_t raw_bytes;             /* of its body, if chunked, as it came */
    size_t head_cost;             /* of its status and header lines */
    struct transfer_result result;
    struct timings timings;
    long http_version;         /* CURL_HTTP_VERSION_…; 0 without a response */
    int sends;                 /* requests begun: 2 when it was resent */
    const char *interrupted;   /* by us, and why (static); NULL */
    bool expired;              /* the event's time had expired: nothing sent */
    struct heap_item deadline; /* in awake_ms */
    int64_t connect_by, end_by; /* the two that it stands for, in turn */
    bool put_off;               /* these were, by a stall */
    int64_t ended_ms;           /* in awake_ms */
    uint64_t attempt_id;        /* 0: nothing was tried */
    int64_t at_ms, signed_ms;   /* by the loop's clock; in webhook-timestamp */
    int64_t began_us, duration_ms, retry_after_ms;
    /* Its outcome (outcome.h); `recorded`: in the transaction that is open now. */
    bool decided, recorded;
    bool
        endpoint_held; /* refused, and tried again: its endpoint is held (hold.h) */
    struct judgement judgement;
    int outcome;
    const char *reason;
    uint64_t attempts;
    int64_t first_ms, next_ms, held_ms;
    char error[ERROR_TEXT_BYTES];
};

/* ---- one transfer (attempt.c) ---- */

struct transfer *transfer_new(struct transfers *fs);
void transfer_free(struct transfer *f);
/* Set libcurl's handle for its task and config. */
void transfer_prepare(struct transfer *f);
/* It ended: read what libcurl knows of it. */
void transfer_read(struct transfer *f, CURLcode code);
/* The process was stopped: libcurl's time for connecting begins anew, so that it does
 * not end before the time-out here. */
void transfer_stood_still(struct transfer *f);

/* ---- all of them (transfers.c) ---- */

struct transfer_list {
    struct transfer *first, *last;
    int count;
};

struct transfers {
    CURLM *multi;
    struct sockets sockets;
    int64_t timer_ms; /* mono time at which libcurl must be called; -1 */
    int64_t awake_ms; /* of the loop, at the last turn … */
    int64_t still_ms; /* … and how far mono time is past it */
    struct heap deadlines;
    struct transfer *idle;
    struct transfer_list active, ended;
    struct transfer_list tested; /* ended, of no delivery (probe.h) */
    const char *capath;          /* of the system's certificates; may be NULL */
    const int64_t *lease_until_ms;       /* mono; borrowed */
    int64_t connections, reused, resent; /* so far */
};

/* After *lease_until_ms no request of an ordered lane is sent: another deliverer may
 * have the lane. */
void transfers_open(struct transfers *fs, const int64_t *lease_until_ms);
void transfers_close(struct transfers *fs);

bool transfers_have_capacity(const struct transfers *fs);
/* Begin an attempt: number `attempts + 1` of this task. Borrows the task,
 * which must stay until transfer_done(). If the event
 * has expired, nothing is sent and the transfer has ended at once. */
void transfer_begin(struct transfers *fs, struct task *t,
                    struct endpoint_config *config, int64_t now_ms);
/* Let libcurl do what can be done now; transfers that end move to `ended`. */
void transfers_turn(struct transfers *fs, int64_t awake_ms);
/* The same, and no deadline is judged. */
void transfers_read(struct transfers *fs);
/* How long until transfers_turn() must be called; -1: until the descriptor is
 * ready. */
int transfers_wait_ms(const struct transfers *fs);
/* End active transfers of this grant, or (NULL) of all, without a response. */
void transfers_interrupt(struct transfers *fs, const struct grant *grant,
                         const char *why);
/* The outcome of an ended transfer is on disk. */
void transfer_done(struct transfers *fs, struct transfer *f);
/* The same of one in `tested`. */
void transfer_test_done(struct transfers *fs, struct transfer *f);

#endif
