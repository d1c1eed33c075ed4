/* attempt: one request and its answer, by libcurl, many at once.
 *
 * A flight is an attempt from its begin until its outcome is committed. All of
 * libcurl's sockets live in one epoll descriptor, which the loop watches; its
 * connections are kept and used again. Nothing here decides anything: what an
 * answer means is classify.h, when the next try is due backoff.h.
 *
 * One POST may reach the endpoint more than once: when a kept connection turns
 * out dead, libcurl sends it again on a new one (Curl_retry_request). That is
 * why every attempt has the same webhook-id. */
#ifndef DELIVERER_ATTEMPT_H
#define DELIVERER_ATTEMPT_H

#include "alloc.h"
#include "classify.h"
#include "endpoint.h"
#include "request.h"

enum {
    FLIGHTS_MAX = 4096,
    /* An answer's body is kept up to RESPONSE_MAX_BYTES, and read up to this,
     * so that the connection can be used again; past it, it is closed. */
    ANSWER_MAX_BYTES = 256 * 1024,
};

struct task;

struct flight {
    struct flight *next, *prev; /* active or ended; `next` alone when idle */
    struct task *task;
    struct endpoint_config *config; /* counted */
    CURL *easy;
    int64_t *connections; /* the count of all that were opened */
    struct request request;
    struct buf response;
    size_t answer_bytes;
    struct answer answer;
    bool interrupted; /* by us: we are stopping */
    uint64_t attempt_id;
    int64_t at_ms, began_us, duration_ms, retry_after_ms;
    /* What it came to (outcome.h); `recorded` in the transaction now open. */
    bool decided, recorded;
    struct judgement judgement;
    int outcome;
    const char *reason;
    uint64_t attempts;
    int64_t first_ms, next_ms;
    char error[ERROR_TEXT_BYTES];
};

struct flight_list {
    struct flight *first, *last;
    int count;
};

struct flights {
    CURLM *multi;
    int epoll;
    int64_t timer_ms; /* mono time at which libcurl wants to be called; -1 */
    struct flight *idle;
    struct flight_list active, ended;
    int64_t connections; /* opened so far */
};

void flights_open(struct flights *fs);
void flights_close(struct flights *fs);

bool flights_room(const struct flights *fs);
/* Begin an attempt: number `attempt` (from 1) of this task. Borrows the task,
 * which must stay until flight_done(). */
void flight_begin(struct flights *fs, struct task *t,
                  struct endpoint_config *config, int64_t now_ms);
/* Let libcurl do what can be done now; flights that end move to `ended`. */
void flights_turn(struct flights *fs);
/* How long until flights_turn() must be called; -1: until the descriptor is
 * ready. */
int flights_wait_ms(const struct flights *fs);
/* End all that are active, unanswered. */
void flights_interrupt(struct flights *fs);
/* The outcome of an ended flight is on disk. */
void flight_done(struct flights *fs, struct flight *f);

#endif
