#include "classify.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool status_listed(const struct retry_policy *p, long status)
{
    if (status < 0 || status >= (long)sizeof p->retry_on.status * 8)
        return false;
    return p->retry_on.status[status / 8] >> (status % 8) & 1;
}

static struct judgement by_status(long status, const struct retry_policy *p)
{
    if (status >= 200 && status < 300)
        return (struct judgement){VERDICT_DELIVERED, ""};
    if (status == 410)
        return (struct judgement){VERDICT_DEAD, "endpoint_gone"};
    /* Never followed, and no policy can ask for it to be tried again: the
     * endpoint has moved, and only a person can say that this is right. */
    if (status >= 300 && status < 400)
        return (struct judgement){VERDICT_DEAD, "rejected"};
    if (status_listed(p, status))
        return (struct judgement){VERDICT_RETRY, ""};
    /* No answer that HTTP knows: nothing is dropped for what is unknown. */
    if ((status < 200 || status >= 600) && p->retry_on.network)
        return (struct judgement){VERDICT_RETRY, ""};
    return (struct judgement){VERDICT_DEAD, "rejected"};
}

/* Codes that say something about us, not about the endpoint. */
static bool our_fault(CURLcode code)
{
    switch (code) {
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_READ_ERROR:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_BAD_FUNCTION_ARGUMENT:
    case CURLE_UNKNOWN_OPTION:
    case CURLE_SETOPT_OPTION_SYNTAX:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_ENGINE_SETFAILED:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_PROXY:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_UNRECOVERABLE_POLL:
        return true;
    default:
        return false;
    }
}

static struct judgement without_status(const struct answer *a,
                                       const struct retry_policy *p)
{
    /* An address that was refused decides only when no other was tried: a
     * second, public one that is down may come back. */
    if (a->code == CURLE_ABORTED_BY_CALLBACK && a->blocked)
        return (struct judgement){VERDICT_DEAD, "blocked_address"};
    if (a->blocked && !a->opened)
        return (struct judgement){VERDICT_DEAD, "blocked_address"};
    if (a->starved || our_fault(a->code))
        return (struct judgement){VERDICT_FAULT, ""};
    if (!a->opened && (a->code == CURLE_UNSUPPORTED_PROTOCOL ||
                       a->code == CURLE_URL_MALFORMAT))
        return (struct judgement){VERDICT_DEAD, "rejected"};
    if (p->retry_on.network)
        return (struct judgement){VERDICT_RETRY, ""};
    return (struct judgement){VERDICT_DEAD, "rejected"};
}

struct judgement classify(const struct answer *a, const struct retry_policy *p)
{
    return a->answered ? by_status(a->status, p) : without_status(a, p);
}

static const char *connect_text(int os_errno)
{
    switch (os_errno) {
    case ECONNREFUSED:
        return "connection refused";
    case ENETUNREACH:
    case EHOSTUNREACH:
        return "no route to the endpoint";
    case ETIMEDOUT:
        return "no connection in time";
    default:
        return "could not connect";
    }
}

static const char *code_text(const struct answer *a)
{
    switch (a->code) {
    case CURLE_OK:
        return "closed without an answer";
    case CURLE_COULDNT_RESOLVE_HOST:
        return "host not found";
    case CURLE_COULDNT_CONNECT:
        return connect_text(a->os_errno);
    case CURLE_OPERATION_TIMEDOUT:
        return "no answer in time";
    case CURLE_GOT_NOTHING:
        return "closed without an answer";
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return "connection broke off";
    case CURLE_PEER_FAILED_VERIFICATION:
        return "TLS: the certificate can't be trusted";
    case CURLE_SSL_CONNECT_ERROR:
        return "TLS: no agreement";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
        return a->opened ? "the answer was not HTTP" : "the URL can't be used";
    case CURLE_URL_MALFORMAT:
        return "the URL can't be used";
    default:
        return curl_easy_strerror(a->code);
    }
}

void classify_text(const struct answer *a, char out[ERROR_TEXT_BYTES])
{
    out[0] = 0;
    if (a->answered && a->status >= 200 && a->status < 300) {
        if (a->code != CURLE_OK)
            snprintf(out, ERROR_TEXT_BYTES,
                     "answered %ld; the body was not read to its end",
                     a->status);
    } else if (a->answered) {
        snprintf(out, ERROR_TEXT_BYTES, "answered %ld", a->status);
    } else if (a->starved) {
        snprintf(out, ERROR_TEXT_BYTES, "our own limit of open files");
    } else if (a->blocked &&
               (!a->opened || a->code == CURLE_ABORTED_BY_CALLBACK)) {
        snprintf(out, ERROR_TEXT_BYTES,
                 "the address is private and not allowed");
    } else {
        snprintf(out, ERROR_TEXT_BYTES, "%s", code_text(a));
    }
}
