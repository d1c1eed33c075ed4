/* transfers: all requests in flight, by one libcurl multi handle, and their time-outs.
 *
 * The turn of the process calls it (turn.c, attempts.h, outcome.h). All sockets of libcurl
 * are in one epoll descriptor, which the loop watches (sockets.h); connections are kept
 * and used again. It owns the transfers, and borrows each task until transfer_done().
 *
 * libcurl's time-outs are not used: libcurl judges them before it reads its sockets, by a
 * clock that runs while this process is stopped, so a response that has already arrived
 * would be a failure. The time-outs here are judged after all sockets were read, by the
 * loop's awake_ms. */
#ifndef DELIVERER_TRANSFERS_H
#define DELIVERER_TRANSFERS_H

#include "sockets.h"
#include "transfer.h"

enum { TRANSFERS_MAX = 12 * 1024 };

struct grant;

struct transfer_list {
    TAILQ_HEAD(, transfer) all;
    int count;
};

struct transfers {
    CURLM *multi;
    struct sockets sockets;
    int64_t timer_ms; /* mono time at which libcurl must be called; -1 */
    int64_t awake_ms; /* of the loop, at the last turn … */
    int64_t still_ms; /* … and how far mono time was past it */
    struct due_queue deadlines;
    SLIST_HEAD(, transfer) idle; /* to be used again */
    struct transfer_list active; /* libcurl has them */
    struct transfer_list ended;  /* until their outcome is committed */
    struct transfer_list tested; /* ended, of no delivery (endpoint_test.h) */
    const char *capath;          /* of the system's certificates; may be NULL */
    const int64_t *lease_until_ms;       /* mono; borrowed */
    int64_t connections, reused, resent; /* so far */
};

/* After *lease_until_ms no request of an ordered lane is sent: another deliverer may
 * have the lane. */
void transfers_open(struct transfers *fs, const int64_t *lease_until_ms);
void transfers_close(struct transfers *fs);

bool transfers_have_capacity(const struct transfers *fs);
/* Begin an attempt: number `attempts + 1` of this task. If the event has expired,
 * nothing is sent, and the transfer has ended at once. */
void transfer_begin(struct transfers *fs, struct task *t,
                    struct endpoint_config *config, int64_t now_ms);
/* Let libcurl read, write and connect; transfers that end move to `ended`. */
void transfers_turn(struct transfers *fs, int64_t awake_ms);
/* The same without judging deadlines. */
void transfers_read(struct transfers *fs);
/* How long until transfers_turn() must be called; -1: until the descriptor is
 * ready. */
int transfers_wait_ms(const struct transfers *fs);
/* End active transfers of this grant, or (NULL) all, without a response. */
void transfers_interrupt(struct transfers *fs, const struct grant *grant,
                         const char *why);
/* The outcome of an ended transfer is on disk: forget it. */
void transfer_done(struct transfers *fs, struct transfer *f);
/* The same of one in `tested`. */
void transfer_test_done(struct transfers *fs, struct transfer *f);

#endif
