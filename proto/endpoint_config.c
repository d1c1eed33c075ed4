/* endpoint_config: encodes and decodes endpoint settings, made from the table
 * ENDPOINT_SETTINGS. */
#include "endpoint_config.h"
#include "bounds.h"
#include "headers.h"
#include "le64.h"
#include "settings_types.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- encode: PUT_<kind> sets the fields of a row from its member ---- */

/* Buffers of fields that consist of many values, until they are encoded. */
struct scratch {
    struct buf parts[8];
    size_t count;
};

static struct buf *part(struct scratch *s)
{
    struct buf *b = &s->parts[s->count++];

    assert(s->count <= COUNT_OF(s->parts));
    buf_init(b, HEADERS_MAX_BYTES);
    return b;
}

static struct bytes view(const struct buf *b)
{
    return (struct bytes){b->data ? b->data : "", b->len};
}

static struct bytes joined(struct scratch *s, const struct string_list *list)
{
    struct buf *b = part(s);

    for (size_t i = 0; i < list->count; i++)
        buf_printf(b, "%s%s", i ? " " : "", list->items[i]);
    return view(b);
}

static struct bytes networks(struct scratch *s, const struct allow_private *a)
{
    struct buf *b = part(s);

    for (size_t i = 0; i < a->count; i++) {
        buf_puts(b, i ? " " : "");
        network_put(&a->cidrs[i], b);
    }
    return view(b);
}

static struct bytes packed(struct scratch *s, const struct header_list *all)
{
    struct buf *b = part(s);

    for (size_t i = 0; i < all->count; i++)
        headers_put(b, all->items[i].name, wire_text(all->items[i].value));
    return view(b);
}

static struct bytes ports(struct scratch *s, const struct ports *p)
{
    struct buf *b = part(s);

    for (size_t i = 0; i < p->count; i++) {
        uint8_t le[2] = {(uint8_t)p->items[i], (uint8_t)(p->items[i] >> 8)};

        buf_put(b, le, sizeof le);
    }
    return view(b);
}

static struct bytes waits(struct scratch *s, const struct durations *d)
{
    struct buf *b = part(s);

    for (size_t i = 0; i < d->count; i++)
        put_le64(b, (uint64_t)d->ms[i]);
    return view(b);
}

static uint64_t milli(double n)
{
    return (uint64_t)(n * 1000 + 0.5);
}

#define PUT_string(name)    w->name = wire_text(from->name);
#define PUT_url(name)       w->name = wire_text(from->name);
#define PUT_strings(name)   w->name = joined(s, &from->name);
#define PUT_headers(name)   w->name = packed(s, &from->name);
#define PUT_boolean(name)   w->name = from->name;
#define PUT_switch(name)    w->name = from->name;
#define PUT_choice(name)    w->name = (uint64_t)from->name;
#define PUT_int(name)       w->name = (uint64_t)from->name;
#define PUT_duration(name)  w->name = from->name;
#define PUT_durations(name) w->name = waits(s, &from->name);
#define PUT_number(name)    w->name##_milli = milli(from->name);
#define PUT_rate(name)                            \
    w->name##_count = (uint64_t)from->name.count; \
    w->name##_per_ms = from->name.per_ms;
#define PUT_allow_private(name)        \
    w->allow_private = from->name.all; \
    w->allow_cidrs = networks(s, &from->name);
#define PUT_ports(name) w->name = ports(s, &from->name);
#define PUT_tls(name)                                       \
    w->tls_ca = wire_text(from->name.ca);                   \
    w->tls_certificate = wire_text(from->name.certificate); \
    w->tls_key = wire_text(from->name.key);
#define PUT_jitter(name)              \
    w->jitter_full = from->name.full; \
    w->jitter_milli = milli(from->name.part);
#define PUT_retry_on(name)                              \
    w->retry_network = from->name.network;              \
    w->retry_status = (struct bytes){from->name.status, \
                                     sizeof from->name.status};
#define PUT_policy(name) put_policy(w, from->policy, s);

#define PUT_POLICY(F, KIND, NAME, ...) PUT_##KIND(NAME)

static void put_policy(struct wire_endpoint_config *w,
                       const struct retry_policy *from, struct scratch *s)
{
    RETRY_POLICY_SETTINGS(PUT_POLICY, )
}

static void put_retry_policy(struct wire_retry_policy *w,
                             const struct retry_policy *from, struct scratch *s)
{
    RETRY_POLICY_SETTINGS(PUT_POLICY, )
}

void retry_policy_encode(const struct retry_policy *p, struct buf *out)
{
    struct wire_retry_policy w;
    struct scratch s = {.count = 0};

    put_retry_policy(&w, p, &s);
    wire_put_retry_policy(out, &w);
    for (size_t i = 0; i < s.count; i++)
        buf_fini(&s.parts[i]);
}

#define PUT(F, TO, SCOPE, KIND, NAME, ...) PUT_TO_##TO(KIND, NAME)
#define PUT_TO_DELIVERER(KIND, NAME)       PUT_##KIND(NAME)
#define PUT_TO_SEQUENCER(KIND, NAME)

static void put_endpoint(struct wire_endpoint_config *w,
                         const struct endpoint_settings *from,
                         struct scratch *s)
{
    ENDPOINT_SETTINGS(PUT, )
}

void endpoint_config_encode(const struct endpoint_settings *e,
                            int64_t chosen_wait_ms, struct buf *out)
{
    struct wire_endpoint_config w;
    struct scratch s = {.count = 0};

    put_endpoint(&w, e, &s);
    w.chosen_wait_ms = chosen_wait_ms;
    wire_put_endpoint_config(out, &w);
    for (size_t i = 0; i < s.count; i++)
        buf_fini(&s.parts[i]);
}

/* ---- decode: GET_<kind> sets a row's member from its fields ---- */

/* Whether `x` is within the bounds of its row; 0 is allowed if it means unset. */
static bool number_is(uint64_t x, const struct conf_key *k, bool or_unset)
{
    if (x == 0 && or_unset)
        return true;
    return x <= INT64_MAX && (int64_t)x >= k->min &&
           (!k->max || (int64_t)x <= k->max);
}

static bool word_is(uint64_t x, const struct conf_key *k)
{
    uint64_t n = 0;

    while (k->choices[n])
        n++;
    return x < n;
}

static bool rate_is(uint64_t count, int64_t per_ms)
{
    return count <= RATE_COUNT_MAX &&
           (!count || (per_ms >= 1 && per_ms <= DAY_MS));
}

static bool get_waits(struct durations *d, struct bytes w)
{
    const uint8_t *in = w.p;

    if (w.n % 8 != 0)
        return false;
    d->ms = gr_alloc(w.n + 1);
    for (; d->count < w.n / 8; d->count++)
        d->ms[d->count] = (int64_t)get_le64(in + 8 * d->count);
    return true;
}

static bool get_ports(struct ports *p, struct bytes w)
{
    const uint8_t *in = w.p;

    if (w.n % 2 != 0 || w.n > 2 * PORTS_MAX)
        return false;
    for (; p->count < w.n / 2; p->count++)
        p->items[p->count] = (uint16_t)(in[2 * p->count] | in[2 * p->count + 1]
                                                               << 8);
    return true;
}

static char *pem(struct bytes text)
{
    return text.n ? wire_dup(text) : NULL;
}

/* The other columns of the row: its bounds, its words. */
#define ROW(...) (&(const struct conf_key){__VA_ARGS__})
#define CHECK(what, good) \
    if (!(good))          \
        *why = "its " what " is out of bounds";

#define GET_string(name, what, ...)        to->name = wire_dup(w->name);
#define GET_url(name, what, ...)           to->name = wire_dup(w->name);
#define GET_strings(name, what, ...)       /* joined, in w */
#define GET_headers(name, what, ...)       /* packed, in w */
#define GET_allow_private(name, what, ...) /* as text, in w */
#define GET_boolean(name, what, ...)       to->name = w->name;
#define GET_switch(name, what, ...)        to->name = w->name;
#define GET_choice(name, what, ...)                 \
    CHECK(what, word_is(w->name, ROW(__VA_ARGS__))) \
    to->name = (int)w->name;
#define GET_int(name, what, ...)                                \
    CHECK(what, number_is(w->name, ROW(__VA_ARGS__), or_unset)) \
    to->name = (int64_t)w->name;
#define GET_duration(name, what, ...)                                     \
    CHECK(what, number_is((uint64_t)w->name, ROW(__VA_ARGS__), or_unset)) \
    to->name = w->name;
#define GET_durations(name, what, ...) \
    CHECK(what, get_waits(&to->name, w->name))
#define GET_number(name, what, ...)                                          \
    CHECK(what, number_is(w->name##_milli / 10, ROW(__VA_ARGS__), or_unset)) \
    to->name = (double)w->name##_milli / 1000;
#define GET_rate(name, what, ...)                           \
    CHECK(what, rate_is(w->name##_count, w->name##_per_ms)) \
    to->name = (struct rate){(int64_t)w->name##_count, w->name##_per_ms};
#define GET_ports(name, what, ...) CHECK(what, get_ports(&to->name, w->name))
#define GET_tls(name, what, ...)                                    \
    to->name = (struct tls){.ca = pem(w->tls_ca),                   \
                            .certificate = pem(w->tls_certificate), \
                            .key = pem(w->tls_key)};
#define GET_jitter(name, what, ...)                    \
    to->name = (struct jitter){.full = w->jitter_full, \
                               .part = (double)w->jitter_milli / 1000};
#define GET_retry_on(name, what, ...)                 \
    to->name.network = w->retry_network;              \
    memcpy(to->name.status, w->retry_status.p,        \
           w->retry_status.n < sizeof to->name.status \
               ? w->retry_status.n                    \
               : sizeof to->name.status);
#define GET_policy(name, what, ...) to->policy = policy;

#define GET_POLICY(F, KIND, NAME, KEY, DEFAULT, HELP, ...) \
    GET_##KIND(NAME, KEY, __VA_ARGS__)

static void get_policy(const struct wire_endpoint_config *w,
                       struct retry_policy *to, const char **why)
{
    const bool or_unset = true;

    RETRY_POLICY_SETTINGS(GET_POLICY, )
    if (to->max_attempts == 0 && to->max_duration_ms == 0)
        *why = "its retry policy has no limit";
}

static void get_retry_policy(const struct wire_retry_policy *w,
                             struct retry_policy *to, const char **why)
{
    const bool or_unset = true;

    RETRY_POLICY_SETTINGS(GET_POLICY, )
    if (to->max_attempts == 0 && to->max_duration_ms == 0)
        *why = "it has no limit";
}

gr_rc retry_policy_read(struct bytes in, struct retry_policy *p)
{
    struct wire_retry_policy w;
    const char *why = NULL;

    if (wire_get_retry_policy(&w, in) != GR_OK)
        return GR_REFUSE;
    get_retry_policy(&w, p, &why);
    return why ? GR_REFUSE : GR_OK;
}

void retry_policy_free(struct retry_policy *p)
{
    conf_fini(&settings_policy_section, p);
}

#define GET(F, TO, SCOPE, KIND, NAME, KEY, DEFAULT, HELP, ...) \
    GET_AT_##TO(KIND, NAME, KEY, __VA_ARGS__)
#define GET_AT_DELIVERER(KIND, NAME, KEY, ...) \
    GET_##KIND(NAME, KEY, __VA_ARGS__)
#define GET_AT_SEQUENCER(KIND, NAME, KEY, ...)

static void get_endpoint(const struct wire_endpoint_config *w,
                         struct endpoint_settings *to,
                         const struct retry_policy *policy, const char **why)
{
    const bool or_unset = false;

    ENDPOINT_SETTINGS(GET, )
}

gr_rc endpoint_config_read(const struct wire_endpoint_config *w,
                           struct endpoint_settings *e, struct retry_policy *p,
                           const char **why)
{
    *why = NULL;
    get_policy(w, p, why);
    get_endpoint(w, e, p, why);
    return *why ? GR_REFUSE : GR_OK;
}

void endpoint_config_free(struct endpoint_settings *e, struct retry_policy *p)
{
    if (e->tls.key)
        explicit_bzero(e->tls.key, strlen(e->tls.key));
    conf_fini(&settings_endpoint_section, e);
    conf_fini(&settings_policy_section, p);
}
