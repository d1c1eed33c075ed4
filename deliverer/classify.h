/* classify: what became of one attempt. Pure.
 *
 * Whoever has sent all headers of a 2xx answer has taken the event: what
 * happens to the connection after that is no reason to send it again. An
 * answer with a status is judged by it and nothing else; without one, by
 * libcurl's code. docs/OUTCOMES.md is the table. */
#ifndef DELIVERER_CLASSIFY_H
#define DELIVERER_CLASSIFY_H

#include "settings.h"
#include <curl/curl.h>

struct answer {
    CURLcode code;
    bool answered;    /* the headers of a final answer were complete */
    long status;      /* of that answer */
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

enum verdict {
    VERDICT_DELIVERED,
    VERDICT_RETRY,
    VERDICT_DEAD,
    VERDICT_FAULT, /* ours: counts as no attempt, and is tried again */
};

struct judgement {
    enum verdict verdict;
    const char *reason; /* of a dead one, as users see it; "" otherwise */
};

struct judgement classify(const struct answer *a,
                          const struct retry_policy *policy);

/* This status rejects one event, not the endpoint's whole traffic: 400, 409, 413,
 * 415, 422 (unless the policy retries it, which classify() decides first). */
bool classify_about_event(long status);

enum { ERROR_TEXT_BYTES = 160 };

/* One short sentence for people; "" for a whole 2xx answer. Says nothing that
 * maps a private network: the kinds of failure, not their places. */
void classify_text(const struct answer *a, char out[ERROR_TEXT_BYTES]);

struct buf;
void classify_document(struct buf *out, const struct retry_policy *by_default);

#endif
