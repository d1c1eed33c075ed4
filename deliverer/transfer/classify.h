/* classify: judges one attempt by its response. Pure; attempts.c, outcome.c and endpoint_test.c call it.
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
    bool sent;        /* connected (with TLS): libcurl began to send */
    bool lost;        /* connected, and reset before the request */
    bool starved;     /* this process had no descriptor for a socket */
    int os_errno;     /* of the failed connect; 0 */
    int port;         /* blocked because this port is not allowed; else 0 */
    char address[46]; /* that was blocked, or "" */
    /* Why a certificate is not trusted, in OpenSSL's words; or "". */
    char tls[80];
};

enum attempt_verdict {
    VERDICT_DELIVERED,
    VERDICT_RETRY,
    VERDICT_DEAD,
    VERDICT_FAULT, /* of this process: not counted, and tried again */
};

struct judgement {
    enum attempt_verdict verdict;
    const char *reason; /* of VERDICT_DEAD, as users see it; else "" */
};

/* `a` must be of an attempt that has ended. */
struct judgement classify(const struct transfer_result *a,
                          const struct retry_policy *policy);

/* This status rejects one event, not the endpoint's whole traffic: 400, 409, 413,
 * 415, 422 (unless the policy retries it, which classify() decides first). */
bool classify_about_event(long status);

enum { ERROR_TEXT_BYTES = 160 };

/* One short sentence for people; "" for a complete 2xx response. It names kinds of failures,
 * not addresses that would map a private network. */
void classify_text(const struct transfer_result *a, char out[ERROR_TEXT_BYTES]);

struct buf;
/* Writes docs/OUTCOMES.md. */
void classify_document(struct buf *out, const struct retry_policy *by_default);

#endif
