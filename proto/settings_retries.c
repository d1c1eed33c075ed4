/* Waits, jitter, and which outcomes are tried again. */
#include "settings_types.h"
#include <ctype.h>
#include <string.h>

enum {
    STATUS_LEAST = 400,
    STATUS_MOST = 599,
};

/* On GR_REFUSE `why` says what is wrong. */
static gr_rc parse_wait(const char *text, int64_t *ms, const char **why)
{
    if (conf_parse_duration(text, ms, why) != GR_OK)
        return GR_REFUSE;
    *why = *ms < 1 ? "must be longer than nothing" : "is too long";
    return *ms < 1 || *ms > LONG_MS ? GR_REFUSE : GR_OK;
}

static void add_wait(const struct conf_value *v, int64_t **list, int64_t *n)
{
    char *text = conf_scalar(v, "a duration (10s, 24h)");
    const char *why;
    int64_t ms;

    if (!text)
        return;
    if (parse_wait(text, &ms, &why) != GR_OK) {
        conf_error(v, "\"%.60s\" %s", text, why);
    } else {
        *list = gr_realloc(*list, ((size_t)*n + 1) * sizeof **list);
        (*list)[(*n)++] = ms;
    }
    free(text);
}

static void read_durations(const struct conf_value *v, const struct conf_key *k,
                           void *target)
{
    size_t n = conf_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_wait(&item, target, settings_count_at(k, target));
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list");
}

static void print_durations(struct buf *out, const struct conf_key *k,
                            const void *target, int indent)
{
    const int64_t *ms = *(int64_t *const *)target;
    int64_t n = *(const int64_t *)settings_count_at(k, target);

    (void)indent;
    buf_puts(out, " [");
    for (int64_t i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : "");
        conf_put_duration(out, ms[i]);
    }
    buf_puts(out, "]\n");
}

static void fini_durations(const struct conf_key *k, void *target)
{
    *(int64_t *)settings_count_at(k, target) = 0;
    settings_fini_pointer(k, target);
}

const struct conf_type settings_as_durations = {
    .name = "list of durations",
    .read = read_durations,
    .print = print_durations,
    .unset = settings_unset_pointer,
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
    struct retry_policy *p = target;
    char *text = conf_scalar(v, "none, full, or a part like 15%");

    (void)k;
    if (!text)
        return;
    p->jitter_full = strcmp(text, "full") == 0;
    p->jitter_part = 0;
    if (!p->jitter_full && strcmp(text, "none") != 0 &&
        !parse_percent(text, &p->jitter_part))
        conf_error(v, "\"%.60s\" is not none, full, or a part like 15%%", text);
    free(text);
}

static void print_jitter(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    const struct retry_policy *p = target;

    (void)k, (void)indent;
    if (p->jitter_part > 0)
        buf_printf(out, " %.15g%%\n", p->jitter_part * 100);
    else
        buf_puts(out, p->jitter_full ? " full\n" : " none\n");
}

const struct conf_type settings_as_jitter = {
    .name = "`none`, `full`, or a part like `15%`",
    .read = read_jitter,
    .print = print_jitter,
};

static bool has_status(const struct retry_on *r, int status)
{
    return r->status[status / 8] >> status % 8 & 1;
}

static void add_range(struct retry_on *r, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        r->status[i / 8] |= (uint8_t)(1 << i % 8);
}

static bool parse_status(const char *text, size_t n, int64_t *status)
{
    char digits[4];

    if (n != 3 || strspn(text, "0123456789") < 3)
        return false;
    snprintf(digits, sizeof digits, "%.3s", text);
    *status = strtol(digits, NULL, 10);
    return *status >= STATUS_LEAST && *status <= STATUS_MOST;
}

/* 408, 500-504, 4xx. */
static bool parse_range(const char *text, int64_t *first, int64_t *last)
{
    size_t n = strcspn(text, "-");

    if ((*text == '4' || *text == '5') && strcmp(text + 1, "xx") == 0) {
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
        add_range(r, first, last);
    else
        conf_error(v,
                   "\"%.60s\" is not network, 4xx, 5xx, a status from 400 "
                   "to 599, or a range of them like 500-504",
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
    const char *comma = out->data[out->len - 1] == '[' ? "" : ", ";

    if (first % 100 == 0 && last == first + 99)
        buf_printf(out, "%s%dxx", comma, first / 100);
    else if (first == last)
        buf_printf(out, "%s%d", comma, first);
    else
        buf_printf(out, "%s%d-%d", comma, first, last);
}

static void print_retry_on(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    const struct retry_on *r = target;
    int last;

    (void)k, (void)indent;
    buf_puts(out, " [");
    buf_puts(out, r->network ? "network" : "");
    for (int i = STATUS_LEAST; i <= STATUS_MOST; i = last + 1) {
        last = i;
        if (!has_status(r, i))
            continue;
        /* A range ends with its hundred, so that 4xx and 5xx stay apart. */
        while ((last + 1) % 100 && has_status(r, last + 1))
            last++;
        put_range(out, i, last);
    }
    buf_puts(out, "]\n");
}

const struct conf_type settings_as_retry_on = {
    .name = "list of `network`, `4xx`, `5xx`, statuses and ranges `500-504`",
    .read = read_retry_on,
    .print = print_retry_on,
};
