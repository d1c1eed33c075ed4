#include "answer.h"
#include <stdio.h>

enum { KEEP = 0, CLOSE = 1 };

static const struct answer_facts table[ANSWER_COUNT] = {
#define A(NAME, status, code, reason, message, retry_after_s, close) \
    [ANSWER_##NAME] = {status, code, reason, message, retry_after_s, close},
    ANSWERS(A)
#undef A
};

/* Codes and messages are ours and need no escaping. */
static const char *const bodies[ANSWER_COUNT] = {
#define A(NAME, status, code, reason, message, retry_after_s, close) \
    [ANSWER_##NAME] = status == 200 ? ""                             \
                                    : "{\"error\":{\"code\":\"" code \
                                      "\",\"message\":\"" message "\"}}",
    ANSWERS(A)
#undef A
};

const struct answer_facts *answer_facts(enum answer a)
{
    return &table[a];
}

enum answer answer_to(enum verdict v)
{
    static const enum answer to[] = {
        [VERDICT_HOLDS] = ANSWER_NONE,
        [VERDICT_SIGNATURE_MISSING] = ANSWER_SIGNATURE_MISSING,
        [VERDICT_SIGNATURE_MALFORMED] = ANSWER_SIGNATURE_MALFORMED,
        [VERDICT_SIGNATURE_MISMATCH] = ANSWER_SIGNATURE_MISMATCH,
        [VERDICT_TIMESTAMP_MISSING] = ANSWER_TIMESTAMP_MISSING,
        [VERDICT_TIMESTAMP_MALFORMED] = ANSWER_TIMESTAMP_MALFORMED,
        [VERDICT_TIMESTAMP_STALE] = ANSWER_TIMESTAMP_STALE,
        [VERDICT_ID_MISSING] = ANSWER_ID_MISSING,
        [VERDICT_ID_MALFORMED] = ANSWER_ID_MALFORMED,
        [VERDICT_BODY_MISSING] = ANSWER_BODY_MISSING,
    };

    return to[v];
}

const char *answer_allow(enum answer a)
{
    return a == ANSWER_ONLY_POST  ? "POST"
           : a == ANSWER_ONLY_GET ? "GET, HEAD"
                                  : NULL;
}

const char *answer_body(enum answer a)
{
    return bodies[a];
}
