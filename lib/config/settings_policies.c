/* settings_policies: the section `retry_policies`, the policies that are built in, and the
 * kinds of values that they have. The keys are in endpoint_settings.h. */
#include "config.h"
#include "settings_types.h"
#include <ctype.h>
#include <string.h>

enum {
    STATUS_MIN = 300,
    STATUS_MAX = 599,
};

/* On GR_REFUSE `why` says what is wrong. */
static gr_rc parse_wait(const char *text, int64_t *ms, const char **why)
{
    if (conf_parse_duration(text, ms, why) != GR_OK)
        return GR_REFUSE;
    *why = *ms < 1 ? "must be longer than 0" : "is too long";
    return *ms < 1 || *ms > LONG_MS ? GR_REFUSE : GR_OK;
}

static void add_wait(const struct conf_value *v, struct durations *d)
{
    char *text = conf_scalar(v, "a duration (10s, 24h)");
    const char *why;
    int64_t ms;

    if (!text)
        return;
    if (parse_wait(text, &ms, &why) != GR_OK) {
        conf_error(v, "\"%.60s\" %s", text, why);
    } else {
        d->ms = gr_realloc(d->ms, (d->count + 1) * sizeof *d->ms);
        d->ms[d->count++] = ms;
    }
    free(text);
}

static void read_durations(const struct conf_value *v, const struct conf_key *k,
                           void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_wait(&item, target);
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list");
}

static void print_durations(struct buf *out, const struct conf_key *k,
                            const void *target, int indent)
{
    const struct durations *d = target;

    (void)k, (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < d->count; i++) {
        buf_puts(out, i ? ", " : "");
        conf_put_duration(out, d->ms[i]);
    }
    buf_puts(out, "]\n");
}

static bool unset_durations(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct durations *)target)->count == 0;
}

static void fini_durations(const struct conf_key *k, void *target)
{
    struct durations *d = target;

    (void)k;
    free(d->ms);
    *d = (struct durations){0};
}

static const struct conf_type conf_as_durations = {
    .name = "list of durations",
    .read = read_durations,
    .print = print_durations,
    .unset = unset_durations,
    .fini = fini_durations,
};

static bool parse_percent(const char *text, double *part)
{
    char *end;
    double n = strtod(text, &end);

    if (!isdigit((unsigned char)*text) || strcmp(end, "%") != 0 ||
        strspn(text, "0123456789.") != strlen(text) - 1)
        return false;
    *part = n / 100;
    return n > 0 && n <= 100;
}

static void read_jitter(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct jitter *j = target;
    char *text = conf_scalar(v, "none, full, or a percentage such as 15%");

    (void)k;
    if (!text)
        return;
    j->full = strcmp(text, "full") == 0;
    j->part = 0;
    if (!j->full && strcmp(text, "none") != 0 && !parse_percent(text, &j->part))
        conf_error(v,
                   "\"%.60s\" is not a jitter; write none, full, or a "
                   "percentage such as 15%%",
                   text);
    free(text);
}

static void print_jitter(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    const struct jitter *j = target;

    (void)k, (void)indent;
    if (j->part > 0)
        buf_printf(out, " %.15g%%\n", j->part * 100);
    else
        buf_puts(out, j->full ? " full\n" : " none\n");
}

static const struct conf_type conf_as_jitter = {
    .name = "`none`, `full`, or a percentage such as `15%`",
    .read = read_jitter,
    .print = print_jitter,
};

static bool has_status(const struct retry_on *r, int status)
{
    return r->status[status / 8] >> status % 8 & 1;
}

static bool parse_status(const char *text, size_t n, int64_t *status)
{
    char digits[4];

    if (n != 3 || strspn(text, "0123456789") < 3)
        return false;
    snprintf(digits, sizeof digits, "%.3s", text);
    *status = strtol(digits, NULL, 10);
    return *status >= STATUS_MIN && *status <= STATUS_MAX;
}

/* 408, 500-504, 3xx. */
static bool parse_range(const char *text, int64_t *first, int64_t *last)
{
    size_t n = strcspn(text, "-");

    if (*text >= '3' && *text <= '5' && strcmp(text + 1, "xx") == 0) {
        *first = (*text - '0') * 100;
        *last = *first + 99;
        return true;
    }
    if (!parse_status(text, n, first))
        return false;
    *last = *first;
    if (!text[n])
        return true;
    return parse_status(text + n + 1, strlen(text + n + 1), last) &&
           *last >= *first;
}

static void add_outcome(const struct conf_value *v, struct retry_on *r)
{
    char *text = conf_scalar(v, "network or a status");
    int64_t first, last;

    if (!text)
        return;
    if (strcmp(text, "network") == 0)
        r->network = true;
    else if (parse_range(text, &first, &last))
        for (int64_t i = first; i <= last; i++)
            r->status[i / 8] |= (uint8_t)(1 << i % 8);
    else
        conf_error(
            v,
            "\"%.60s\" is not network, 3xx, 4xx, 5xx, a status from 300 to "
            "599, or a range such as 500-504",
            text);
    free(text);
}

static void read_retry_on(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_outcome(&item, target);
    }
}

static void put_range(struct buf *out, int first, int last)
{
    const char *comma = !out->len || out->data[out->len - 1] == '[' ? "" : ", ";

    if (first % 100 == 0 && last == first + 99)
        buf_printf(out, "%s%dxx", comma, first / 100);
    else if (first == last)
        buf_printf(out, "%s%d", comma, first);
    else
        buf_printf(out, "%s%d-%d", comma, first, last);
}

void settings_retry_on(const struct retry_on *r, struct buf *out)
{
    int last;

    buf_puts(out, r->network ? "network" : "");
    for (int i = STATUS_MIN; i <= STATUS_MAX; i = last + 1) {
        last = i;
        if (!has_status(r, i))
            continue;
        /* A range ends at the end of its hundred, so that 3xx, 4xx and 5xx are printed apart. */
        while ((last + 1) % 100 && has_status(r, last + 1))
            last++;
        put_range(out, i, last);
    }
}

static void print_retry_on(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, " [");
    settings_retry_on(target, out);
    buf_puts(out, "]\n");
}

static const struct conf_type conf_as_retry_on = {
    .name =
        "list of `network`, `3xx`, `4xx`, `5xx`, statuses and ranges `500-504`",
    .read = read_retry_on,
    .print = print_retry_on,
};

const char *const settings_backoff_words[] = {
    [BACKOFF_EXPONENTIAL] = "exponential",
    [BACKOFF_FIXED] = "fixed",
    [BACKOFF_SCHEDULE] = "schedule",
    NULL};

static void check_backoff(const struct conf_value *v,
                          const struct retry_policy *p)
{
    if (p->repeat_last && p->backoff != BACKOFF_SCHEDULE)
        conf_error_key(v, "repeat_last",
                       "has no effect with backoff: %s; remove it, or set "
                       "backoff: schedule",
                       settings_backoff_words[p->backoff]);
    if (p->backoff == BACKOFF_SCHEDULE && !conf_has(v, "schedule"))
        conf_error_key(v, "schedule",
                       "is missing: backoff: schedule needs a list of waits");
    if (p->backoff == BACKOFF_EXPONENTIAL && p->max_wait_ms < p->first_wait_ms)
        conf_error_key(v, conf_has(v, "max_wait") ? "max_wait" : "first_wait",
                       "first_wait is longer than max_wait (default 6h)");
}

static void check_policy(const struct conf_value *v, void *target)
{
    struct retry_policy *p = target;

    check_backoff(v, p);
    /* Settings that this kind of backoff does not use have no effect. */
    if (p->backoff != BACKOFF_EXPONENTIAL) {
        p->factor = 0;
        p->max_wait_ms = 0;
    }
    if (p->backoff == BACKOFF_SCHEDULE)
        p->first_wait_ms = 0;
    if (!conf_has(v, "max_attempts") && !conf_has(v, "max_duration"))
        conf_error(v, "needs max_attempts or max_duration: without a limit, "
                      "retries would never end");
}

#define POLICY_KEY(F, KIND, ...) KEY(KIND, retry_policy, __VA_ARGS__),

static const struct conf_key policy_keys[] = {
    KEY(string, retry_policy, name, "name", NULL, "the name",
        .check = wrong_name, .flags = CONF_REQUIRED, .form = "name"),
    RETRY_POLICY_SETTINGS(POLICY_KEY, ){0}};

const struct conf_section settings_policy_section = {
    .name = "retry policy",
    .help = "When a failed delivery is retried, and when it becomes a dead "
            "letter. Set `max_attempts`, `max_duration` or both: retries end "
            "at the first limit that is reached.",
    .size = sizeof(struct retry_policy),
    .kind = "backoff",
    .check = check_policy,
    .keys = policy_keys,
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
    " jitter: none, max_duration: 7d, retry_on: [network, 4xx, 5xx], timeout: "
    "10s}\n"
    "  - {name: outbox, backoff: exponential, first_wait: 2s, factor: 2,"
    " max_wait: 1024s, jitter: none, max_attempts: 6,"
    " retry_on: [network, 3xx, 4xx, 5xx]}\n";
