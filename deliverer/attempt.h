/* attempt: one request and its answer, by libcurl, many at once.
 *
 * A flight is an attempt from its begin until its outcome is committed
 * (attempt.c: what one asks of libcurl; flights.c: all of them). All of
 * libcurl's sockets live in one epoll descriptor, which the loop watches; its
 * connections are kept and used again. Nothing here decides anything: what an
 * answer means is classify.h, when the next try is due backoff.h.
 *
 * Time-outs are ours, not libcurl's: those are judged before its sockets are
 * read, by a clock that goes on while we stand still, and so make a failure of
 * an answer that has long come. Ours are judged when everything that came has
 * been read, by the loop's awake_ms.
 *
 * One POST may reach the endpoint twice: when a kept connection turns out dead
 * before a byte of an answer, libcurl sends it again (Curl_retry_request; up to
 * five times, on other kept connections). We make it once, on a new connection,
 * and count it (`resent`). That is why every attempt has the same webhook-id. */
#ifndef DELIVERER_ATTEMPT_H
#define DELIVERER_ATTEMPT_H

#include "alloc.h"
#include "classify.h"
#include "endpoint.h"
#include "heap.h"
#include "request.h"
#include "sockets.h"

enum {
    FLIGHTS_MAX = 12 * 1024,
    /* An answer's body is kept up to RESPONSE_MAX_BYTES, and read up to this,
     * so that the connection can be used again; past it, it is closed. */
    ANSWER_MAX_BYTES = 256 * 1024,
    ANSWER_HEADERS_MAX_BYTES = 16 * 1024, /* kept; the rest is cut off */
    /* A response's status and header lines, with those of 1xx responses and
     * trailers, are read up to this; and so are the sizes, extensions and
     * trailers of a chunked body. libcurl allocates memory for each line, so
     * each line counts its bytes and these (RFC 9113, 6.5.2 adds as many). */
    ANSWER_HEAD_MAX_COST = 64 * 1024,
    HEADER_LINE_COST = 32,
};

struct task;
struct grant;
struct flights;

/* When each step was done, in µs since the attempt began; 0: there was none (a
 * kept connection needs no address, no connecting and no TLS). */
struct timings {
    int64_t dns_us, connect_us, tls_us, first_byte_us, total_us;
};

struct flight {
    struct flight *next, *prev; /* active, ended or tested; idle: `next` */
    struct flights *all;
    struct task *task;
    struct endpoint_config *config; /* counted */
    uint64_t prepared;              /* id of the config the handle is set for */
    CURL *easy;
    struct request request;
    struct buf headers, response; /* of the answer, cut */
    size_t answer_bytes;          /* of its body, decoded */
    size_t raw_bytes;             /* of its body, if chunked, as it came */
    size_t head_cost;             /* of its status and header lines */
    struct answer answer;
    struct timings timings;
    long http_version;          /* CURL_HTTP_VERSION_…; 0 without an answer */
    int sends;                  /* requests begun: 2 when it was resent */
    const char *interrupted;    /* by us, and why (static); NULL */
    bool expired;               /* the event's time was over: nothing sent */
    struct heap_item deadline;  /* in awake_ms */
    int64_t connect_by, end_by; /* the two that it stands for, in turn */
    bool put_off;               /* these were, by a stall */
    int64_t ended_ms;           /* in awake_ms */
    uint64_t attempt_id;        /* 0: nothing was tried */
    int64_t at_ms, signed_ms;   /* by the loop's clock; in webhook-timestamp */
    int64_t began_us, duration_ms, retry_after_ms;
    /* What it came to (outcome.h); `recorded` in the transaction now open. */
    bool decided, recorded;
    bool held; /* refused, and tried again: its endpoint is held (hold.h) */
    struct judgement judgement;
    int outcome;
    const char *reason;
    uint64_t attempts;
    int64_t first_ms, next_ms, held_ms;
    char error[ERROR_TEXT_BYTES];
};

/* ---- one flight (attempt.c) ---- */

struct flight *flight_new(struct flights *fs);
void flight_free(struct flight *f);
/* Set libcurl's handle for its task and config. */
void flight_prepare(struct flight *f);
/* It ended: read what libcurl knows of it. */
void flight_read(struct flight *f, CURLcode code);
/* We have stood still: libcurl's time for connecting begins anew, so that it
 * does not end before ours. */
void flight_stood_still(struct flight *f);

/* ---- all of them (flights.c) ---- */

struct flight_list {
    struct flight *first, *last;
    int count;
};

struct flights {
    CURLM *multi;
    struct sockets sockets;
    int64_t timer_ms; /* mono time at which libcurl wants to be called; -1 */
    int64_t awake_ms; /* of the loop, at the last turn … */
    int64_t still_ms; /* … and how far mono time is past it */
    struct heap deadlines;
    struct flight *idle;
    struct flight_list active, ended;
    struct flight_list tested; /* ended, of no delivery (probe.h) */
    const char *capath;        /* of the system's certificates; may be NULL */
    const int64_t *lease_until_ms;       /* mono; borrowed */
    int64_t connections, reused, resent; /* so far */
};

/* Past *lease_until_ms nothing more is sent of what goes in order: another may be
 * further than we are. */
void flights_open(struct flights *fs, const int64_t *lease_until_ms);
void flights_close(struct flights *fs);

bool flights_room(const struct flights *fs);
/* Begin an attempt: number `attempts + 1` of this task. Borrows the task,
 * which must stay until flight_done(). Of an event whose time is over nothing
 * is sent; the flight has ended at once. */
void flight_begin(struct flights *fs, struct task *t,
                  struct endpoint_config *config, int64_t now_ms);
/* Let libcurl do what can be done now; flights that end move to `ended`. */
void flights_turn(struct flights *fs, int64_t awake_ms);
/* The same, and no deadline is judged. */
void flights_read(struct flights *fs);
/* How long until flights_turn() must be called; -1: until the descriptor is
 * ready. */
int flights_wait_ms(const struct flights *fs);
/* End what is active unanswered, of this grant or (NULL) all. */
void flights_interrupt(struct flights *fs, const struct grant *grant,
                       const char *why);
/* The outcome of an ended flight is on disk. */
void flight_done(struct flights *fs, struct flight *f);
/* The same of one in `tested`. */
void flight_test_done(struct flights *fs, struct flight *f);

#endif
