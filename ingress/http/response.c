/* response: the table of all responses, and their bodies as JSON. */
#include "response.h"
#include <stdio.h>

enum { KEEP = 0, CLOSE = 1 };

static const struct response_facts table[RESPONSE_COUNT] = {
#define A(NAME, status, code, reason, message, retry_after_s, close) \
    [RESPONSE_##NAME] = {status, code, reason, message, retry_after_s, close},
    RESPONSES(A)
#undef A
};

/* Codes and messages are literals that need no escaping. */
static const char *const bodies[RESPONSE_COUNT] = {
#define A(NAME, status, code, reason, message, retry_after_s, close)   \
    [RESPONSE_##NAME] = status == 200 ? ""                             \
                                      : "{\"error\":{\"code\":\"" code \
                                        "\",\"message\":\"" message "\"}}",
    RESPONSES(A)
#undef A
};

const struct response_facts *response_facts(enum response a)
{
    return &table[a];
}

enum response response_to(enum verification v)
{
    static const enum response to[] = {
        [VERDICT_HOLDS] = RESPONSE_NONE,
        [VERDICT_SIGNATURE_MISSING] = RESPONSE_SIGNATURE_MISSING,
        [VERDICT_SIGNATURE_MALFORMED] = RESPONSE_SIGNATURE_MALFORMED,
        [VERDICT_SIGNATURE_MISMATCH] = RESPONSE_SIGNATURE_MISMATCH,
        [VERDICT_TIMESTAMP_MISSING] = RESPONSE_TIMESTAMP_MISSING,
        [VERDICT_TIMESTAMP_MALFORMED] = RESPONSE_TIMESTAMP_MALFORMED,
        [VERDICT_TIMESTAMP_STALE] = RESPONSE_TIMESTAMP_STALE,
        [VERDICT_ID_MISSING] = RESPONSE_ID_MISSING,
        [VERDICT_ID_MALFORMED] = RESPONSE_ID_MALFORMED,
        [VERDICT_BODY_MISSING] = RESPONSE_BODY_MISSING,
    };

    return to[v];
}

enum response response_to_space(enum archive_refusal r)
{
    return r == ARCHIVE_DISK_LOW       ? RESPONSE_DISK_LOW
           : r == ARCHIVE_BACKLOG_FULL ? RESPONSE_BACKLOG_FULL
                                       : RESPONSE_NONE;
}

const char *response_allow(enum response a)
{
    return a == RESPONSE_ONLY_POST  ? "POST"
           : a == RESPONSE_ONLY_GET ? "GET, HEAD"
                                    : NULL;
}

const char *response_body(enum response a)
{
    return bodies[a];
}
