#include "endpoint_config.h"
#include "bounds.h"
#include "headers.h"
#include "le64.h"
#include "wire.h"
#include <arpa/inet.h>
#include <string.h>

static void join(const struct text_list *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++)
        buf_printf(out, "%s%s", i ? " " : "", list->items[i]);
}

/* IPv4 lives in the last 32 of 128 bits. */
static void put_cidr(const struct cidr *c, struct buf *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool v4 = c->prefix_bits >= 96 && memcmp(c->address, mapped, 12) == 0;
    char text[INET6_ADDRSTRLEN] = "";

    inet_ntop(v4 ? AF_INET : AF_INET6, c->address + (v4 ? 12 : 0), text,
              sizeof text);
    buf_printf(out, "%s/%d", text, c->prefix_bits - (v4 ? 96 : 0));
}

static void join_cidrs(const struct endpoint_settings *s, struct buf *out)
{
    for (size_t i = 0; i < s->allow_cidr_count; i++) {
        buf_puts(out, i ? " " : "");
        put_cidr(&s->allow_cidrs[i], out);
    }
}

static void put_ports(const struct ports *p, struct buf *out)
{
    for (size_t i = 0; i < p->count; i++) {
        uint8_t le[2] = {(uint8_t)p->items[i], (uint8_t)(p->items[i] >> 8)};

        buf_put(out, le, sizeof le);
    }
}

static struct bytes view(const struct buf *b)
{
    return (struct bytes){b->data ? b->data : "", b->len};
}

static void set_policy(struct wire_endpoint_config *c,
                       const struct retry_policy *p)
{
    c->backoff = p->backoff;
    c->first_wait_ms = p->first_wait_ms;
    c->max_wait_ms = p->max_wait_ms;
    c->factor_milli = (uint64_t)(p->factor * 1000 + 0.5);
    c->repeat_last = p->repeat_last;
    c->jitter_full = p->jitter_full;
    c->jitter_milli = (uint64_t)(p->jitter_part * 1000 + 0.5);
    c->max_attempts = (uint64_t)p->max_attempts;
    c->max_duration_ms = p->max_duration_ms;
    c->retry_network = p->retry_on.network;
    c->retry_status = (struct bytes){p->retry_on.status,
                                     sizeof p->retry_on.status};
    c->respect_retry_after = p->respect_retry_after;
}

/* The fields that are made up of many. */
struct parts {
    struct buf headers, secrets, cidrs, schedule, ports;
};

static void parts_open(struct parts *b, const struct endpoint_settings *s)
{
    buf_init(&b->headers, HEADERS_MAX_BYTES);
    buf_init(&b->secrets, HEADERS_MAX_BYTES);
    buf_init(&b->cidrs, HEADERS_MAX_BYTES);
    buf_init(&b->schedule, HEADERS_MAX_BYTES);
    buf_init(&b->ports, 2 * PORTS_MAX);
    for (size_t i = 0; i < s->header_count; i++)
        headers_put(&b->headers, s->headers[i].name,
                    wire_text(s->headers[i].value));
    join(&s->signing_secrets, &b->secrets);
    join_cidrs(s, &b->cidrs);
    for (size_t i = 0; i < s->policy->schedule_count; i++)
        put_le64(&b->schedule, (uint64_t)s->policy->schedule_ms[i]);
    put_ports(&s->allowed_ports, &b->ports);
}

static void parts_close(struct parts *b)
{
    buf_fini(&b->headers);
    buf_fini(&b->secrets);
    buf_fini(&b->cidrs);
    buf_fini(&b->schedule);
    buf_fini(&b->ports);
}

void endpoint_config_encode(const struct endpoint_settings *s, struct buf *out)
{
    struct parts parts;
    struct wire_endpoint_config c = {
        .name = wire_text(s->name),
        .url = wire_text(s->url),
        .method = wire_text(s->method),
        .allow_private = s->allow_private,
        .timeout_ms = s->timeout_ms,
        .connect_timeout_ms = s->connect_timeout_ms,
        .max_in_flight = (uint64_t)s->max_in_flight,
        .ordered = s->ordered,
        .rate_count = (uint64_t)s->rate_limit.count,
        .rate_per_ms = s->rate_limit.per_ms,
        .breaker = s->breaker,
        .guard = s->guard,
        .tls_ca = wire_text(s->tls.ca),
        .tls_certificate = wire_text(s->tls.certificate),
        .tls_key = wire_text(s->tls.key),
    };

    parts_open(&parts, s);
    set_policy(&c, s->policy);
    c.headers = view(&parts.headers);
    c.signing_secrets = view(&parts.secrets);
    c.allow_cidrs = view(&parts.cidrs);
    c.schedule = view(&parts.schedule);
    c.allowed_ports = view(&parts.ports);
    wire_put_endpoint_config(out, &c);
    parts_close(&parts);
}
