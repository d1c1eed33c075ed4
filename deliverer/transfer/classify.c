/* classify: judges responses by status and libcurl's codes, and writes docs/OUTCOMES.md. */
#include "classify.h"
#include "alloc.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct judgement by_status(long status, const struct retry_policy *p)
{
    bool listed = status >= 0 && status < (long)sizeof p->retry_on.status * 8 &&
                  p->retry_on.status[status / 8] >> (status % 8) & 1;

    if (status >= 200 && status < 300)
        return (struct judgement){VERDICT_DELIVERED, ""};
    if (status == 410)
        return (struct judgement){VERDICT_DEAD, "endpoint_gone"};
    /* A redirect that the policy lists is retried at the same URL: Grapnel never follows
     * one, because the endpoint may have moved, and a person must decide whether that is
     * right. */
    if (listed)
        return (struct judgement){VERDICT_RETRY, ""};
    /* A status that HTTP does not define: unknown, so it is retried, not dropped. */
    if ((status < 200 || status >= 600) && p->retry_on.network)
        return (struct judgement){VERDICT_RETRY, ""};
    return (struct judgement){VERDICT_DEAD, "rejected"};
}

/* Every code of libcurl 7.88, what it means without a response, and its text (NULL:
 * libcurl's own). Codes that a newer libcurl adds are NET: retried, not dropped.
 *
 *   NET   between us and the endpoint: retried, if the policy lists `network`
 *   URL   before a socket was opened: the URL is not usable, dead. After: NET
 *   OURS  a failure of this process, not of the endpoint: not counted as an attempt */
#define CODES(X)                                                               \
    X(CURLE_OK, NET, "closed without a response")                              \
    X(CURLE_UNSUPPORTED_PROTOCOL, URL, "the response was not HTTP")            \
    X(CURLE_FAILED_INIT, OURS, "libcurl could not start")                      \
    X(CURLE_URL_MALFORMAT, URL, "the URL is not valid")                        \
    X(CURLE_NOT_BUILT_IN, OURS, NULL)                                          \
    X(CURLE_COULDNT_RESOLVE_PROXY, NET, "host not found")                      \
    X(CURLE_COULDNT_RESOLVE_HOST, NET, "host not found")                       \
    X(CURLE_COULDNT_CONNECT, NET, "could not connect")                         \
    X(CURLE_WEIRD_SERVER_REPLY, NET, "the response was not HTTP")              \
    X(CURLE_REMOTE_ACCESS_DENIED, NET, NULL)                                   \
    X(CURLE_FTP_ACCEPT_FAILED, NET, NULL)                                      \
    X(CURLE_FTP_WEIRD_PASS_REPLY, NET, NULL)                                   \
    X(CURLE_FTP_ACCEPT_TIMEOUT, NET, NULL)                                     \
    X(CURLE_FTP_WEIRD_PASV_REPLY, NET, NULL)                                   \
    X(CURLE_FTP_WEIRD_227_FORMAT, NET, NULL)                                   \
    X(CURLE_FTP_CANT_GET_HOST, NET, NULL)                                      \
    X(CURLE_HTTP2, NET, "HTTP/2 protocol error")                               \
    X(CURLE_FTP_COULDNT_SET_TYPE, NET, NULL)                                   \
    X(CURLE_PARTIAL_FILE, NET, "the response was cut short")                   \
    X(CURLE_FTP_COULDNT_RETR_FILE, NET, NULL)                                  \
    X(CURLE_OBSOLETE20, NET, NULL)                                             \
    X(CURLE_QUOTE_ERROR, NET, NULL)                                            \
    X(CURLE_HTTP_RETURNED_ERROR, NET, NULL)                                    \
    X(CURLE_WRITE_ERROR, NET, "the response was too large")                    \
    X(CURLE_OBSOLETE24, NET, NULL)                                             \
    X(CURLE_UPLOAD_FAILED, NET, NULL)                                          \
    X(CURLE_READ_ERROR, OURS, NULL)                                            \
    X(CURLE_OUT_OF_MEMORY, NET, "the response was too large")                  \
    X(CURLE_OPERATION_TIMEDOUT, NET, "no response in time")                    \
    X(CURLE_OBSOLETE29, NET, NULL)                                             \
    X(CURLE_FTP_PORT_FAILED, NET, NULL)                                        \
    X(CURLE_FTP_COULDNT_USE_REST, NET, NULL)                                   \
    X(CURLE_OBSOLETE32, NET, NULL)                                             \
    X(CURLE_RANGE_ERROR, NET, NULL)                                            \
    X(CURLE_HTTP_POST_ERROR, NET, NULL)                                        \
    X(CURLE_SSL_CONNECT_ERROR, NET, "TLS: handshake failed")                   \
    X(CURLE_BAD_DOWNLOAD_RESUME, NET, NULL)                                    \
    X(CURLE_FILE_COULDNT_READ_FILE, NET, NULL)                                 \
    X(CURLE_LDAP_CANNOT_BIND, NET, NULL)                                       \
    X(CURLE_LDAP_SEARCH_FAILED, NET, NULL)                                     \
    X(CURLE_OBSOLETE40, NET, NULL)                                             \
    X(CURLE_FUNCTION_NOT_FOUND, NET, NULL)                                     \
    X(CURLE_ABORTED_BY_CALLBACK, NET, "interrupted by Grapnel")                \
    X(CURLE_BAD_FUNCTION_ARGUMENT, OURS, NULL)                                 \
    X(CURLE_OBSOLETE44, NET, NULL)                                             \
    X(CURLE_INTERFACE_FAILED, NET, NULL)                                       \
    X(CURLE_OBSOLETE46, NET, NULL)                                             \
    X(CURLE_TOO_MANY_REDIRECTS, NET, NULL)                                     \
    X(CURLE_UNKNOWN_OPTION, OURS, NULL)                                        \
    X(CURLE_SETOPT_OPTION_SYNTAX, OURS, NULL)                                  \
    X(CURLE_OBSOLETE50, NET, NULL)                                             \
    X(CURLE_OBSOLETE51, NET, NULL)                                             \
    X(CURLE_GOT_NOTHING, NET, "closed without a response")                     \
    X(CURLE_SSL_ENGINE_NOTFOUND, OURS, NULL)                                   \
    X(CURLE_SSL_ENGINE_SETFAILED, OURS, NULL)                                  \
    X(CURLE_SEND_ERROR, NET, "connection closed unexpectedly")                 \
    X(CURLE_RECV_ERROR, NET, "connection closed unexpectedly")                 \
    X(CURLE_OBSOLETE57, NET, NULL)                                             \
    X(CURLE_SSL_CERTPROBLEM, NET,                                              \
      "the client certificate of the endpoint's `tls` cannot be used")         \
    X(CURLE_SSL_CIPHER, OURS, NULL)                                            \
    X(CURLE_PEER_FAILED_VERIFICATION, NET,                                     \
      "TLS: the certificate is not trusted")                                   \
    X(CURLE_BAD_CONTENT_ENCODING, NET,                                         \
      "the response's encoding was not understood")                            \
    X(CURLE_OBSOLETE62, NET, NULL)                                             \
    X(CURLE_FILESIZE_EXCEEDED, NET, "the response was too large")              \
    X(CURLE_USE_SSL_FAILED, NET, NULL)                                         \
    X(CURLE_SEND_FAIL_REWIND, NET, "a kept connection was closed")             \
    X(CURLE_SSL_ENGINE_INITFAILED, OURS, NULL)                                 \
    X(CURLE_LOGIN_DENIED, NET, NULL)                                           \
    X(CURLE_TFTP_NOTFOUND, NET, NULL)                                          \
    X(CURLE_TFTP_PERM, NET, NULL)                                              \
    X(CURLE_REMOTE_DISK_FULL, NET, NULL)                                       \
    X(CURLE_TFTP_ILLEGAL, NET, NULL)                                           \
    X(CURLE_TFTP_UNKNOWNID, NET, NULL)                                         \
    X(CURLE_REMOTE_FILE_EXISTS, NET, NULL)                                     \
    X(CURLE_TFTP_NOSUCHUSER, NET, NULL)                                        \
    X(CURLE_OBSOLETE75, NET, NULL)                                             \
    X(CURLE_OBSOLETE76, NET, NULL)                                             \
    X(CURLE_SSL_CACERT_BADFILE, OURS,                                          \
      "the CA file of the endpoint's `tls` cannot be used")                    \
    X(CURLE_REMOTE_FILE_NOT_FOUND, NET, NULL)                                  \
    X(CURLE_SSH, NET, NULL)                                                    \
    X(CURLE_SSL_SHUTDOWN_FAILED, NET,                                          \
      "TLS: closed without a close notification")                              \
    X(CURLE_AGAIN, NET, NULL)                                                  \
    X(CURLE_SSL_CRL_BADFILE, OURS, NULL)                                       \
    X(CURLE_SSL_ISSUER_ERROR, NET, "TLS: the certificate is not trusted")      \
    X(CURLE_FTP_PRET_FAILED, NET, NULL)                                        \
    X(CURLE_RTSP_CSEQ_ERROR, NET, NULL)                                        \
    X(CURLE_RTSP_SESSION_ERROR, NET, NULL)                                     \
    X(CURLE_FTP_BAD_FILE_LIST, NET, NULL)                                      \
    X(CURLE_CHUNK_FAILED, NET, "the response was cut short")                   \
    X(CURLE_NO_CONNECTION_AVAILABLE, NET, NULL)                                \
    X(CURLE_SSL_PINNEDPUBKEYNOTMATCH, NET,                                     \
      "TLS: the certificate is not trusted")                                   \
    X(CURLE_SSL_INVALIDCERTSTATUS, NET, "TLS: the certificate is not trusted") \
    X(CURLE_HTTP2_STREAM, NET, "HTTP/2 protocol error")                        \
    X(CURLE_RECURSIVE_API_CALL, NET, NULL)                                     \
    X(CURLE_AUTH_ERROR, NET, NULL)                                             \
    X(CURLE_HTTP3, NET, NULL)                                                  \
    X(CURLE_QUIC_CONNECT_ERROR, NET, NULL)                                     \
    X(CURLE_PROXY, OURS, NULL)                                                 \
    X(CURLE_SSL_CLIENTCERT, NET, "TLS: a client certificate is required")      \
    X(CURLE_UNRECOVERABLE_POLL, OURS, NULL)

enum kind { NET, URL, OURS };

static const struct code {
    const char *name;
    enum kind kind;
    const char *text;
} codes[] = {
#define X(code, kind, text) [code] = {#code, kind, text},
    CODES(X)
#undef X
};

static struct code code_of(CURLcode code)
{
    static const struct code unknown = {"", NET, NULL};

    return (size_t)code < COUNT_OF(codes) && codes[code].name ? codes[code]
                                                              : unknown;
}

static struct judgement without_status(const struct transfer_result *a,
                                       const struct retry_policy *p)
{
    /* A blocked address decides only if no other was tried: the host may have a second,
     * public address that is down and recovers. */
    if (a->code == CURLE_ABORTED_BY_CALLBACK && a->blocked)
        return (struct judgement){VERDICT_DEAD, "blocked_address"};
    if (a->blocked && !a->opened)
        return (struct judgement){VERDICT_DEAD, "blocked_address"};
    if (a->starved || code_of(a->code).kind == OURS)
        return (struct judgement){VERDICT_FAULT, ""};
    if (!a->opened && code_of(a->code).kind == URL)
        return (struct judgement){VERDICT_DEAD, "rejected"};
    if (p->retry_on.network)
        return (struct judgement){VERDICT_RETRY, ""};
    return (struct judgement){VERDICT_DEAD, "rejected"};
}

struct judgement classify(const struct transfer_result *a,
                          const struct retry_policy *p)
{
    return a->responded ? by_status(a->status, p) : without_status(a, p);
}

bool classify_about_event(long status)
{
    return status == 400 || status == 409 || status == 413 || status == 415 ||
           status == 422;
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
        return "could not connect in time";
    default:
        return "could not connect";
    }
}

static const char *code_text(const struct transfer_result *a)
{
    struct code c = code_of(a->code);

    if (a->lost)
        return code_of(CURLE_SEND_ERROR).text;
    if (a->code == CURLE_COULDNT_CONNECT)
        return connect_text(a->os_errno);
    if (a->code == CURLE_OPERATION_TIMEDOUT && !a->sent)
        return "could not connect in time";
    if (c.kind == URL && !a->opened)
        return "the URL is not valid";
    return c.text ? c.text : curl_easy_strerror(a->code);
}

/* "blocked: 127.0.0.1 is a private address; set `allow_private: true` …" */
static void blocked_text(const struct transfer_result *a,
                         char out[ERROR_TEXT_BYTES])
{
    if (a->port)
        snprintf(out, ERROR_TEXT_BYTES,
                 "blocked: port %d is not in the endpoint's allowed_ports",
                 a->port);
    else
        snprintf(out, ERROR_TEXT_BYTES,
                 "blocked: %s is a private address; to permit it, set "
                 "`allow_private: true` or its network at the endpoint",
                 *a->address ? a->address : "this");
}

void classify_text(const struct transfer_result *a, char out[ERROR_TEXT_BYTES])
{
    out[0] = 0;
    if (a->responded && a->status >= 200 && a->status < 300) {
        if (a->code != CURLE_OK)
            snprintf(out, ERROR_TEXT_BYTES,
                     "responded %ld; the body was not read completely",
                     a->status);
    } else if (a->responded) {
        snprintf(out, ERROR_TEXT_BYTES, "responded %ld", a->status);
    } else if (a->starved) {
        snprintf(out, ERROR_TEXT_BYTES,
                 "the deliverer's limit of open files is reached (ulimit -n)");
    } else if (a->blocked &&
               (!a->opened || a->code == CURLE_ABORTED_BY_CALLBACK)) {
        blocked_text(a, out);
    } else if (code_of(a->code).kind == NET &&
               a->code == CURLE_PEER_FAILED_VERIFICATION && *a->tls) {
        snprintf(out, ERROR_TEXT_BYTES, "%s: %s", code_text(a), a->tls);
    } else {
        snprintf(out, ERROR_TEXT_BYTES, "%s", code_text(a));
    }
}

/* ---- docs/OUTCOMES.md ---- */

static const char *verdict_text(struct judgement j)
{
    static const char *const strings[] = {
        [VERDICT_DELIVERED] = "delivered",
        [VERDICT_RETRY] = "retried",
        [VERDICT_FAULT] = "our fault: tried again, not counted"};

    if (j.verdict != VERDICT_DEAD)
        return strings[j.verdict];
    return strcmp(j.reason, "endpoint_gone") == 0
               ? "dead, `endpoint_gone`; the endpoint is disabled"
               : "dead, `rejected`";
}

static void document_statuses(struct buf *out, const struct retry_policy *p)
{
    static const struct {
        const char *what;
        long status;
    } rows[] = {{"2xx", 204},
                {"3xx, never followed", 302},
                {"408", 408},
                {"410", 410},
                {"425", 425},
                {"429", 429},
                {"any other 4xx", 404},
                {"5xx", 503},
                {"a status that HTTP does not define", 799}};

    buf_puts(out, "\n| response | with the policy `default` |\n|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        buf_printf(out, "| %s | %s |\n", rows[i].what,
                   verdict_text(by_status(rows[i].status, p)));
}

static void document_codes(struct buf *out, const struct retry_policy *p)
{
    buf_puts(out, "\n| libcurl's code | before a socket was opened | after | "
                  "as users see it |\n|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct transfer_result a = {.code = (CURLcode)i};
        const char *before = verdict_text(without_status(&a, p));

        a.opened = a.sent = true;
        buf_printf(out, "| %zu `%s` | %s | %s | %s |\n", i, codes[i].name,
                   before, verdict_text(without_status(&a, p)),
                   codes[i].text ? codes[i].text : "(in libcurl's words)");
    }
}

void classify_document(struct buf *out, const struct retry_policy *p)
{
    buf_puts(
        out,
        "# How a response is treated\n\n"
        "<!-- Written by classify_document() (deliverer/transfer/classify.c); "
        "test_deliverer_classify compares. -->\n\n"
        "A response is judged by its status as soon as its headers are "
        "complete: an "
        "endpoint that has sent 2xx\n"
        "has accepted the event, even if the body or the connection fails "
        "afterwards. "
        "A 1xx is not a response.\n"
        "A retry outside the policy's budget is dead, `budget_attempts` or "
        "`budget_time`; one after the event's\n"
        "end is dead, `expired`. What is dead here is `abandoned` for a "
        "temporary endpoint, with the same reason:\n"
        "it has no dead letter.\n\n"
        "The deliverer reads a response up to these bounds and closes the "
        "connection "
        "beyond them: 64 KiB of\n"
        "status and header lines, with those of 1xx responses and trailers "
        "(each line "
        "counts its bytes and 32\n"
        "more); 256 KiB of body; 64 KiB of chunk sizes, chunk extensions and "
        "trailers. "
        "A response that is cut\n"
        "inside its headers has no status (`CURLE_WRITE_ERROR` below); one "
        "that is cut "
        "later counts by its status.\n\n"
        "The policy's `retry_on` lists the statuses that are retried; 410 is "
        "final in "
        "every policy. A 3xx is never\nfollowed: a policy that lists it sends "
        "the event to the same URL again.\n");
    document_statuses(out, p);
    buf_puts(
        out,
        "\nWithout a response, libcurl's code decides. \"Retried\" applies "
        "to policies that list `network`; with\nother policies the "
        "delivery is dead, `rejected`. Two causes are judged before the "
        "code: an address or\nport that is not allowed (dead, "
        "`blocked_address`, unless another address of that host was "
        "tried), and no\nfree descriptor for a socket (our fault).\n");
    document_codes(out, p);
}
