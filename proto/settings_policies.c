/* Retry policies, and those that are built in. */
#include "settings_types.h"

static const char *const backoff_words[] = {
    [BACKOFF_EXPONENTIAL] = "exponential",
    [BACKOFF_FIXED] = "fixed",
    [BACKOFF_SCHEDULE] = "schedule",
    NULL};

/* Keys that mean something with some kinds of backoff only. */
static const struct {
    const char *key;
    unsigned backoffs; /* bit set */
} backoff_keys[] = {
    {"first_wait", 1 << BACKOFF_EXPONENTIAL | 1 << BACKOFF_FIXED},
    {"factor", 1 << BACKOFF_EXPONENTIAL},
    {"max_wait", 1 << BACKOFF_EXPONENTIAL},
    {"schedule", 1 << BACKOFF_SCHEDULE},
};

static void check_backoff(const struct conf_value *v,
                          const struct retry_policy *p)
{
    for (size_t i = 0; i < COUNT_OF(backoff_keys); i++)
        if (conf_has(v, backoff_keys[i].key) &&
            !(backoff_keys[i].backoffs >> p->backoff & 1))
            conf_error_key(v, backoff_keys[i].key,
                           "means nothing with backoff: %s",
                           backoff_words[p->backoff]);
    if (p->repeat_last && p->backoff != BACKOFF_SCHEDULE)
        conf_error_key(v, "repeat_last", "means nothing with backoff: %s",
                       backoff_words[p->backoff]);
    if (p->backoff == BACKOFF_SCHEDULE && !conf_has(v, "schedule"))
        conf_error_key(v, "schedule", "is missing, with backoff: schedule");
    if (p->backoff == BACKOFF_EXPONENTIAL && p->max_wait_ms < p->first_wait_ms)
        conf_error_key(v, conf_has(v, "max_wait") ? "max_wait" : "first_wait",
                       "first_wait is longer than max_wait (6h if not named)");
}

/* What a policy's kind of backoff does not use is not in effect. */
static void drop_unused(struct retry_policy *p)
{
    if (p->backoff != BACKOFF_EXPONENTIAL) {
        p->factor = 0;
        p->max_wait_ms = 0;
    }
    if (p->backoff == BACKOFF_SCHEDULE)
        p->first_wait_ms = 0;
}

static void check_policy(const struct conf_value *v, void *target)
{
    struct retry_policy *p = target;

    check_backoff(v, p);
    drop_unused(p);
    if (!conf_has(v, "max_attempts") && !conf_has(v, "max_duration"))
        conf_error(v, "needs max_attempts or max_duration: without a budget "
                      "it would never give up");
}

const struct conf_section settings_policy_section = {
    .name = "retry policy",
    .help = "When a failure is tried again, and when it is given up. "
            "`max_attempts` counts the first attempt, `max_duration` from it; "
            "a budget that is not named does not bind, and one of the two "
            "must be named.",
    .size = sizeof(struct retry_policy),
    .check = check_policy,
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(retry_policy, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name"},
            {.name = "backoff",
             .type = &conf_as_choice,
             AT(retry_policy, backoff),
             .choices = backoff_words,
             .fallback = "exponential",
             .help = "how the waits grow"},
            {.name = "first_wait",
             .type = &conf_as_duration,
             AT(retry_policy, first_wait_ms),
             .fallback = "5s",
             .min = 1,
             .max = LONG_MS,
             .help = "before the second attempt"},
            {.name = "factor",
             .type = &conf_as_number,
             AT(retry_policy, factor),
             .fallback = "3",
             .min = 100,
             .max = 100 * 100,
             .help = "each wait is this much longer"},
            {.name = "max_wait",
             .type = &conf_as_duration,
             AT(retry_policy, max_wait_ms),
             .fallback = "6h",
             .min = 1,
             .max = LONG_MS,
             .help = "but not longer than this"},
            {.name = "schedule",
             .type = &settings_as_durations,
             AT(retry_policy, schedule_ms),
             COUNT(retry_policy, schedule_count),
             .help = "the waits, one by one"},
            {.name = "repeat_last",
             .type = &conf_as_bool,
             AT(retry_policy, repeat_last),
             .fallback = "false",
             .help = "whether the last wait is repeated until a budget ends"},
            {.name = "jitter",
             .type = &settings_as_jitter,
             .offset = 0,
             .fallback = "full",
             .help = "how waits are spread: not, from nothing to the whole "
                     "wait, or by a part both ways"},
            {.name = "max_attempts",
             .type = &conf_as_int,
             AT(retry_policy, max_attempts),
             .min = 1,
             .max = 1000000,
             .help = "the first counts"},
            {.name = "max_duration",
             .type = &conf_as_duration,
             AT(retry_policy, max_duration_ms),
             .min = 1,
             .max = LONG_MS,
             .help = "from the first attempt"},
            {.name = "retry_on",
             .type = &settings_as_retry_on,
             AT(retry_policy, retry_on),
             .fallback = "[network, 408, 425, 429, 5xx]",
             .help = "what is tried again; all other failures are final. "
                     "`network` is every failure without an HTTP status"},
            {.name = "respect_retry_after",
             .type = &conf_as_bool,
             AT(retry_policy, respect_retry_after),
             .fallback = "true",
             .help = "whether an answer's Retry-After may make the wait "
                     "longer"},
            {0},
        },
};

const char settings_built_in_policies[] =
    "retry_policies:\n"
    "  - {name: default, backoff: exponential, first_wait: 5s, factor: 3,"
    " max_wait: 6h, jitter: full, max_attempts: 12, max_duration: 24h,"
    " retry_on: [network, 408, 425, 429, 5xx], respect_retry_after: true}\n"
    "  - {name: strict, backoff: exponential, first_wait: 1s, factor: 2,"
    " max_wait: 60s, jitter: full, max_attempts: 12, max_duration: 24h,"
    " retry_on: [network, 408, 429, 502, 503, 504]}\n"
    "  - {name: plane, backoff: exponential, first_wait: 10m, factor: 2,"
    " max_wait: 24h, jitter: 15%, max_attempts: 8}\n"
    "  - {name: plane-recommended, backoff: exponential, first_wait: 5m,"
    " factor: 2, max_wait: 24h, jitter: 15%, max_attempts: 6}\n"
    "  - {name: omise, backoff: schedule,"
    " schedule: [1m, 5m, 15m, 1h, 3h, 6h, 12h, 24h, 48h], repeat_last: true,"
    " jitter: none, max_duration: 7d, retry_on: [network, 4xx, 5xx]}\n";
