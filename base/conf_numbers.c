/* conf_numbers: values that are numbers, durations, sizes. */
#include "conf.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* ---- whole numbers, with and without units ---- */

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit duration_units[] = {
    {"d", 24 * 60 * 60 * 1000LL},
    {"h", 60 * 60 * 1000},
    {"m", 60 * 1000},
    {"s", 1000},
    {"ms", 1},
    {0},
};

static const struct unit size_units[] = {
    {"TiB", 1LL << 40}, {"GiB", 1LL << 30}, {"MiB", 1LL << 20},
    {"KiB", 1LL << 10}, {"B", 1},           {0},
};

static const struct unit no_units[] = {{"", 1}, {0}};

/* Digits, and where they end. */
static gr_rc parse_digits(const char *text, int64_t *n, const char **end,
                          const char **why)
{
    char *behind;

    if (!isdigit((unsigned char)*text)) {
        *why = *text == '-' ? "must not be negative" : "is not a number";
        return GR_REFUSE;
    }
    if (text[0] == '0' && isdigit((unsigned char)text[1])) {
        *why = "has a leading zero: YAML takes it for octal";
        return GR_REFUSE;
    }
    errno = 0;
    *n = strtoll(text, &behind, 10);
    *end = behind;
    *why = errno ? "is too large a number" : NULL;
    return errno ? GR_REFUSE : GR_OK;
}

static gr_rc parse_units(const char *text, const struct unit *units,
                         const char *strange, const char *missing, int64_t *n,
                         const char **why)
{
    const char *unit = text;

    if (parse_digits(text, n, &unit, why) != GR_OK)
        return GR_REFUSE;
    for (; units->name; units++) {
        if (strcmp(unit, units->name) != 0)
            continue;
        if (!__builtin_mul_overflow(*n, units->factor, n))
            return GR_OK;
        *why = "is too large";
        return GR_REFUSE;
    }
    *why = *unit ? strange : missing;
    return GR_REFUSE;
}

/* What is added to a time must leave it one. */
#define LONGEST_MS (36500LL * 24 * 60 * 60 * 1000)

gr_rc conf_parse_duration(const char *text, int64_t *ms, const char **why)
{
    if (parse_units(text, duration_units,
                    "is no duration: one number and ms, s, m, h or d",
                    "needs a unit: ms, s, m, h or d", ms, why) != GR_OK)
        return GR_REFUSE;
    *why = *ms > LONGEST_MS ? "is too large: 36500d, a hundred years, is most"
                            : NULL;
    return *why ? GR_REFUSE : GR_OK;
}

gr_rc conf_parse_size(const char *text, int64_t *bytes, const char **why)
{
    return parse_units(text, size_units,
                       "is no size: one number and B, KiB, MiB, GiB or TiB",
                       "needs a unit: B, KiB, MiB, GiB or TiB", bytes, why);
}

gr_rc conf_parse_int(const char *text, int64_t *n, const char **why)
{
    return parse_units(text, no_units, "has other text behind the number",
                       "is not a number", n, why);
}

static void put_units(struct buf *out, const struct unit *units, int64_t n)
{
    while (units[1].name && (n == 0 || n % units->factor))
        units++;
    buf_printf(out, "%" PRId64 "%s", n / units->factor, units->name);
}

void conf_put_duration(struct buf *out, int64_t ms)
{
    /* Nobody says 0ms; seconds are the usual unit. */
    if (ms == 0)
        buf_puts(out, "0s");
    else
        put_units(out, duration_units, ms);
}

void conf_put_size(struct buf *out, int64_t bytes)
{
    put_units(out, size_units, bytes);
}

static void put_int(struct buf *out, int64_t n)
{
    buf_printf(out, "%" PRId64, n);
}

/* One kind of whole number: how it is parsed and written. */
struct whole {
    gr_rc (*parse)(const char *text, int64_t *n, const char **why);
    void (*put)(struct buf *out, int64_t n);
    const char *meant;
};

static void bound_mistake(const struct conf_value *v, const struct whole *w,
                          const char *side, int64_t bound)
{
    struct buf b;

    buf_init(&b, 64);
    w->put(&b, bound);
    conf_error(v, "must be at %s %s", side, b.data);
    buf_fini(&b);
}

static bool in_bounds(const struct conf_value *v, const struct conf_key *k,
                      const struct whole *w, int64_t n)
{
    if (n < k->min)
        bound_mistake(v, w, "least", k->min);
    else if (k->max && n > k->max)
        bound_mistake(v, w, "most", k->max);
    else
        return true;
    return false;
}

/* A quoted number is a text, unless a variable made the quotes necessary. */
static bool is_quoted(const struct conf_value *v)
{
    return v->node->type == YAML_SCALAR_NODE &&
           v->node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE &&
           !strstr((const char *)v->node->data.scalar.value, "${");
}

static void read_whole(const struct conf_value *v, const struct conf_key *k,
                       const struct whole *w, int64_t *out)
{
    char *text = conf_scalar(v, w->meant);
    const char *why;
    int64_t n;

    if (!text)
        return;
    if (w->parse(text, &n, &why) != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    else if (in_bounds(v, k, w, n))
        *out = n;
    free(text);
}

static void print_whole(struct buf *out, const struct whole *w, int64_t n)
{
    buf_puts(out, " ");
    w->put(out, n);
    buf_puts(out, "\n");
}

/* Nothing below the least can have been written: it was not. */
static bool unset_whole(const struct conf_key *k, const void *target)
{
    return *(const int64_t *)target < k->min;
}

static const struct whole as_int = {conf_parse_int, put_int, "a number"};
static const struct whole as_duration = {conf_parse_duration, conf_put_duration,
                                         "a duration (10s, 24h)"};
static const struct whole as_size = {conf_parse_size, conf_put_size,
                                     "a size (64KiB, 1MiB)"};

static void read_int(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    if (v->node && is_quoted(v))
        conf_error(v, "a number is meant, not a text: without quotes");
    else
        read_whole(v, k, &as_int, target);
}

static void print_int(struct buf *out, const struct conf_key *k,
                      const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_int, *(const int64_t *)target);
}

static void read_duration(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    read_whole(v, k, &as_duration, target);
}

static void print_duration(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_duration, *(const int64_t *)target);
}

static void read_size(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    read_whole(v, k, &as_size, target);
}

static void print_size(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_size, *(const int64_t *)target);
}

const struct conf_type conf_as_int = {
    .name = "number",
    .read = read_int,
    .print = print_int,
    .unset = unset_whole,
};

const struct conf_type conf_as_duration = {
    .name = "duration",
    .read = read_duration,
    .print = print_duration,
    .unset = unset_whole,
};

const struct conf_type conf_as_size = {
    .name = "size",
    .read = read_size,
    .print = print_size,
    .unset = unset_whole,
};

/* ---- numbers with a fraction ---- */

static bool is_decimal(const char *s)
{
    size_t whole = strspn(s, "0123456789"), part;

    if (whole == 0 || whole > 15 || (whole > 1 && *s == '0'))
        return false;
    if (s[whole] == 0)
        return true;
    part = strspn(s + whole + 1, "0123456789");
    return s[whole] == '.' && part > 0 && s[whole + 1 + part] == 0;
}

static void read_number(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    char *text = conf_scalar(v, "a number");
    double n;

    if (!text)
        return;
    n = strtod(text, NULL);
    if (is_quoted(v))
        conf_error(v, "a number is meant, not a text: without quotes");
    else if (!is_decimal(text))
        conf_error(v, "\"%.60s\" is not a number like 2 or 1.5", text);
    else if (n < (double)k->min / 100)
        conf_error(v, "must be at least %g", (double)k->min / 100);
    else if (k->max && n > (double)k->max / 100)
        conf_error(v, "must be at most %g", (double)k->max / 100);
    else
        *(double *)target = n;
    free(text);
}

static void print_number(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)k, (void)indent;
    buf_printf(out, " %.15g\n", *(const double *)target);
}

static bool unset_number(const struct conf_key *k, const void *target)
{
    return *(const double *)target < (double)k->min / 100;
}

const struct conf_type conf_as_number = {
    .name = "number, may have a fraction",
    .read = read_number,
    .print = print_number,
    .unset = unset_number,
};
