/* drill: the requests of `grapnel drill`, and what a receiver's responses to them mean. Pure.
 *
 * A receiver is judged by what is visible from outside: statuses and times. Each step is an event that
 * it must accept (2xx), or a forged one that it must refuse with a status that is not retried.
 * What docs/RECEIVING.md leaves open, such as the processing of a duplicate at the same time,
 * is judged only where a delivery would be lost. */
#ifndef CTL_DRILL_H
#define CTL_DRILL_H

#include "rc.h"

enum { DRILL_REQUESTS_MAX = 24, DRILL_FINDINGS_MAX = 24 };

/* How a request is signed. */
enum drill_secrets {
    DRILL_RIGHT,
    DRILL_WRONG,  /* with another secret */
    DRILL_NONE,   /* not at all */
    DRILL_SECOND, /* with another secret, and with the right ones behind it */
};

enum drill_expectation {
    DRILL_ACCEPTED, /* 2xx */
    DRILL_REFUSED,  /* final, and not 2xx */
    DRILL_NOT_LOST, /* 2xx, or a failure that is retried */
};

struct drill_request {
    const char *step; /* its word; the value of `grapnel-drill` */
    bool unmarked;    /* it lacks that header */
    enum drill_secrets secrets;
    enum drill_expectation expected;
    int event;  /* requests with the same number have the same id */
    int series; /* 0 or 1: the second one is newer */
    int sequence, previous, attempt;
    bool replay;
    bool with_next; /* it is sent at the same time as the next one */
    /* The rate is higher if the endpoint's `timeout` would not permit it. */
    int64_t signed_offset_ms, padding, bytes_per_s;
};

/* All of them, in order; the first must be accepted, or nothing can be judged. */
extern const struct drill_request drill_requests[];
extern const int drill_count;
/* After a failure of this one, the others are sent without the header, too. */
extern const int drill_marked_first;

struct drill_response {
    bool asked;     /* it was sent */
    int status;     /* 0: there was no response */
    bool retried;   /* Grapnel would send it again */
    bool connected; /* on a new connection */
    double total_ms;
};

struct drill_finding {
    int request;        /* its index */
    const char *defect; /* its word; static, as the others */
    const char *text, *fix;
    bool advice; /* not a defect */
};

/* Judges all responses. `timeout_ms`: of one attempt. `is_signed`: the endpoint has signing secrets;
 * without them forged requests were not sent. Returns how many findings there are. */
int drill_judge(const struct drill_response all[DRILL_REQUESTS_MAX],
                int64_t timeout_ms,
                struct drill_finding findings[DRILL_FINDINGS_MAX]);
/* Why nothing can be judged, from the first response; static. */
const char *drill_unjudged(const struct drill_response *first);

#endif
