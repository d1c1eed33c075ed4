/* web_error: the errors of the console's HTTP server, declared once: status, code and meaning.
 * docs/API.md lists them. */
#ifndef CONSOLE_WEB_ERROR_H
#define CONSOLE_WEB_ERROR_H

#define WEB_ERRORS(E)                                                          \
    E(BAD_REQUEST, 400, "bad_request", "the request is not valid HTTP")        \
    E(HOST_NEEDED, 400, "host_needed", "there is not exactly one Host header") \
    E(INVALID_ARGUMENT, 400, "invalid_argument",                               \
      "an argument is unknown, missing, doubled or not as declared; `field` "  \
      "names it")                                                              \
    E(INVALID_BODY, 400, "invalid_body", "the body is not a JSON object")      \
    E(UNAUTHORIZED, 401, "unauthorized", "the token is missing or unknown")    \
    E(ROLE, 403, "role", "the token's role is too low for this request")       \
    E(CROSS_SITE, 403, "cross_site",                                           \
      "a page of another site made a browser send this change")                \
    E(CSRF, 403, "csrf",                                                       \
      "a change with the cookie of the console's pages lacks their header "    \
      "`Grapnel-Csrf`")                                                        \
    E(NO_TOKENS, 403, "no_tokens", "`/api/alerts`: console.tokens is empty")   \
    E(NO_ROUTE, 404, "no_route", "there is no such path")                      \
    E(NOT_FOUND, 404, "not_found", "what the path names does not exist")       \
    E(METHOD_NOT_ALLOWED, 405, "method_not_allowed",                           \
      "the path has other methods; `Allow` lists them")                        \
    E(REFUSED, 409, "refused", "the present state does not permit it")         \
    E(IN_PROGRESS, 409, "in_progress",                                         \
      "a request with this Idempotency-Key is in progress; `Retry-After` "     \
      "says when to repeat it")                                                \
    E(LENGTH_REQUIRED, 411, "length_required",                                 \
      "a body needs a Content-Length; chunked bodies are not accepted")        \
    E(CHANGED, 412, "changed",                                                 \
      "`If-Match` is not the present version: somebody else changed it")       \
    E(TOO_LARGE, 413, "too_large", "the body has more than 64 KiB")            \
    E(UNSUPPORTED_TYPE, 415, "unsupported_type",                               \
      "a change needs Content-Type: application/json, uncompressed")           \
    E(HOST_UNKNOWN, 421, "host_unknown", "`Host` is not in console.hosts")     \
    E(KEY_REUSED, 422, "key_reused",                                           \
      "this Idempotency-Key was used with another body")                       \
    E(PRECONDITION_REQUIRED, 428, "precondition_required",                     \
      "this change needs `If-Match` with the `ETag` of what it changes, or "   \
      "`*`")                                                                   \
    E(RATE_LIMITED, 429, "rate_limited",                                       \
      "this address sent too many wrong tokens, this token has too many "      \
      "streams, or there are too many jobs or temporary endpoints; "           \
      "`Retry-After` says how long to wait")                                   \
    E(HEAD_TOO_LARGE, 431, "headers_too_large",                                \
      "the request line and headers exceed 16 KiB, or 128 headers")            \
    E(INTERNAL, 500, "internal", "the response is too large or not valid")     \
    E(PROCESS_FAILED, 502, "process_failed",                                   \
      "a process sent a reply that cannot be read")                            \
    E(BUSY, 503, "busy",                                                       \
      "too many requests wait, or a process cannot reply yet after an "        \
      "upgrade")                                                               \
    E(PROCESS_UNAVAILABLE, 503, "process_unavailable",                         \
      "the process that is needed does not run, or ended before it replied")   \
    E(DISK_FULL, 503, "disk_full",                                             \
      "the disk of the process is full: nothing was changed")                  \
    E(PROCESS_TIMEOUT, 504, "process_timeout",                                 \
      "the process that is needed did not reply in time")

enum web_error {
#define E(NAME, status, code, meaning) WEB_##NAME,
    WEB_ERRORS(E)
#undef E
        WEB_ERROR_COUNT
};

struct web_error_facts {
    unsigned status;
    const char *code, *meaning;
};

const struct web_error_facts *web_error_facts(enum web_error e);

#endif
