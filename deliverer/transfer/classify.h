/* classify: the outcome of one attempt, by its response. Pure.
 *
 * An endpoint that has sent all headers of a 2xx response has accepted the event, whatever
 * happens to the connection afterwards. A response is judged by its status alone; an
 * attempt without a response by libcurl's code. docs/OUTCOMES.md has the table. */
#ifndef DELIVERER_CLASSIFY_H
#define DELIVERER_CLASSIFY_H

#include "settings.h"
#include <curl/curl.h>

struct transfer_result {
    CURLcode code;
    bool responded;   /* the headers of a final response were complete */
    long status;      /* of that response */
    bool blocked;     /* an address was refused by guard.h */
    bool opened;      /* at least one socket was opened */
    bool sent;        /* connected, TLS and all: a request was begun */
    bool lost;        /* connected, and broke off before the request */
    bool starved;     /* we had no descriptor for a socket */
    int os_errno;     /* of the failed connect; 0 */
    int port;         /* blocked for its port, which is not allowed; else 0 */
    char address[46]; /* that was blocked, or "" */
    /* Why a certificate is not trusted, in OpenSSL's words; or "". */
    char tls[80];
};

enum attempt_verdict {
    VERDICT_DELIVERED,
    VERDICT_RETRY,
    VERDICT_DEAD,
    VERDICT_FAULT, /* ours: counts as no attempt, and is tried again */
};

struct judgement {
    enum attempt_verdict verdict;
    const char *reason; /* of a dead one, as users see it; "" otherwise */
};

struct judgement classify(const struct transfer_result *a,
                          const struct retry_policy *policy);

/* This status rejects one event, not the endpoint's whole traffic: 400, 409, 413,
 * 415, 422 (unless the policy retries it, which classify() decides first). */
bool classify_about_event(long status);

enum { ERROR_TEXT_BYTES = 160 };

/* One short sentence for people; "" for a whole 2xx response. Says nothing that
 * maps a private network: the kinds of failure, not their places. */
void classify_text(const struct transfer_result *a, char out[ERROR_TEXT_BYTES]);

struct buf;
void classify_document(struct buf *out, const struct retry_policy *by_default);

#endif
