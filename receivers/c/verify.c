/* verify.c: from the headers and the body of a request to a verified event. Header values come
 * from strangers until the signature is right. */
#include "internal.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* A part of a header. Not ended by a 0 byte. */
struct view {
    const char *p;
    size_t n;
};

struct request {
    const struct grapnel_receiver *receiver;
    const struct grapnel_header *headers;
    size_t count;
    const void *body;
    size_t body_bytes;
    struct view id, timestamp;
    int64_t timestamp_s;
};

/* What an event points to is behind it in the same allocation. */
struct owned {
    struct grapnel_event event;
    struct grapnel_header headers[GRAPNEL_SIGNED_MAX_COUNT];
    char text[];
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool begins(const struct grapnel_header *h, const char *name, size_t n)
{
    if (h->name_bytes < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (lower(h->name[i]) != name[i])
            return false;
    }
    return true;
}

static bool is_named(const struct grapnel_header *h, const char *name)
{
    return h->name_bytes == strlen(name) && begins(h, name, h->name_bytes);
}

static struct view trimmed(const struct grapnel_header *h)
{
    struct view v = {h->value_bytes ? h->value : "", h->value_bytes};

    while (v.n && (v.p[v.n - 1] == ' ' || v.p[v.n - 1] == '\t'))
        v.n--;
    while (v.n && (*v.p == ' ' || *v.p == '\t')) {
        v.p++;
        v.n--;
    }
    return v;
}

/* No HTTP server lets these through. With them, a value could look like a further line of the
 * signed text, and a string would end early. */
static bool has_line_end(struct view v)
{
    return memchr(v.p, 0, v.n) || memchr(v.p, '\n', v.n) ||
           memchr(v.p, '\r', v.n);
}

/* The header of this name, of which there must be one. */
static enum grapnel_status one(const struct request *r, const char *name,
                               struct view *out, struct grapnel_error *error)
{
    size_t count = 0;

    for (size_t i = 0; i < r->count; i++) {
        if (is_named(&r->headers[i], name)) {
            *out = trimmed(&r->headers[i]);
            count++;
        }
    }
    if (count != 1)
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "the request has %zu headers %s, not one", count,
                           name);
    if (has_line_end(*out))
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "%s has a line end or a 0 byte", name);
    return GRAPNEL_DONE;
}

static enum grapnel_status check_time(struct request *r,
                                      struct grapnel_error *error)
{
    enum grapnel_status status = one(r, "webhook-timestamp", &r->timestamp,
                                     error);
    int64_t now_s, tolerance_s = r->receiver->tolerance_s;

    if (status)
        return status;
    if (r->timestamp.n > 12 ||
        !grapnel_number(r->timestamp.p, r->timestamp.n, &r->timestamp_s))
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "webhook-timestamp is not a number");
    now_s = grapnel_now_s(r->receiver);
    if (now_s < 0 || now_s - r->timestamp_s > tolerance_s ||
        r->timestamp_s - now_s > tolerance_s)
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "webhook-timestamp is more than %lld s from this "
                           "machine's clock",
                           (long long)tolerance_s);
    return GRAPNEL_DONE;
}

/* webhook-signature, which is about id, time and body. */
static enum grapnel_status check_standard(struct request *r,
                                          struct grapnel_error *error)
{
    enum grapnel_status status = check_time(r, error);
    struct view signature;
    char *content, *p;
    size_t n;

    if (!status)
        status = one(r, "webhook-id", &r->id, error);
    if (!status && (!r->id.n || r->id.n > GRAPNEL_ID_MAX_BYTES))
        status = grapnel_say(error, GRAPNEL_REFUSED,
                             "webhook-id has %zu bytes, not 1 to %d", r->id.n,
                             GRAPNEL_ID_MAX_BYTES);
    if (!status)
        status = one(r, "webhook-signature", &signature, error);
    if (status)
        return status;
    n = r->id.n + r->timestamp.n + 2;
    if (r->body_bytes > SIZE_MAX / 2)
        return grapnel_say_memory(error);
    p = content = malloc(n + r->body_bytes);
    if (!content)
        return grapnel_say_memory(error);
    memcpy(p, r->id.p, r->id.n);
    p += r->id.n;
    *p++ = '.';
    memcpy(p, r->timestamp.p, r->timestamp.n);
    p += r->timestamp.n;
    *p++ = '.';
    if (r->body_bytes)
        memcpy(p, r->body, r->body_bytes);
    status = grapnel_keys_verify(&r->receiver->keys, "webhook-signature",
                                 signature.p, signature.n, content,
                                 n + r->body_bytes, error);
    free(content);
    return status;
}

static bool is_signed(const struct grapnel_header *h)
{
    return begins(h, "grapnel-", 8) && !is_named(h, "grapnel-signature");
}

/* Refuses what Grapnel never sends, before anything is copied. *bytes: for all strings of the
 * event with their 0 bytes. */
static enum grapnel_status measure(const struct request *r, size_t *bytes,
                                   struct grapnel_error *error)
{
    size_t count = 0;

    *bytes = r->id.n + 1;
    for (size_t i = 0; i < r->count; i++) {
        const struct grapnel_header *h = &r->headers[i];

        if (!is_signed(h))
            continue;
        if (++count > GRAPNEL_SIGNED_MAX_COUNT)
            return grapnel_say(error, GRAPNEL_REFUSED,
                               "the request has more than %d headers grapnel-…",
                               GRAPNEL_SIGNED_MAX_COUNT);
        if (h->name_bytes > GRAPNEL_SIGNED_MAX_BYTES ||
            h->value_bytes > GRAPNEL_SIGNED_MAX_BYTES)
            *bytes = SIZE_MAX;
        else
            *bytes += h->name_bytes + h->value_bytes + 2;
        if (*bytes > GRAPNEL_SIGNED_MAX_BYTES)
            return grapnel_say(error, GRAPNEL_REFUSED,
                               "the headers grapnel-… have more than %d bytes",
                               GRAPNEL_SIGNED_MAX_BYTES);
        for (size_t k = 0; k < h->name_bytes; k++) {
            unsigned char c = (unsigned char)h->name[k];

            if (c <= ' ' || c >= 0x7f)
                return grapnel_say(error, GRAPNEL_REFUSED,
                                   "the name of a header grapnel-… has the "
                                   "byte 0x%02x",
                                   c);
        }
        if (has_line_end(trimmed(h)))
            return grapnel_say(error, GRAPNEL_REFUSED,
                               "a header grapnel-… has a line end or a 0 byte");
    }
    return GRAPNEL_DONE;
}

static int by_name(const void *a, const void *b)
{
    const struct grapnel_header *one_of = a, *other = b;

    return strcmp(one_of->name, other->name);
}

static const char *keep(char **end, const char *text, size_t n)
{
    char *start = *end;

    if (n)
        memcpy(start, text, n);
    start[n] = 0;
    *end += n + 1;
    return start;
}

static struct owned *new_event(const struct request *r, size_t bytes)
{
    struct owned *o = malloc(sizeof *o + bytes);
    char *end;

    if (!o)
        return NULL;
    memset(&o->event, 0, sizeof o->event);
    end = o->text;
    o->event.id = keep(&end, r->id.p, r->id.n);
    o->event.timestamp_s = r->timestamp_s;
    o->event.body = r->body ? r->body : "";
    o->event.body_bytes = r->body_bytes;
    o->event.headers = o->headers;
    o->event.attempt = 1;
    o->event.source = o->event.type = o->event.workspace = o->event.time = "";
    o->event.series = o->event.source_sequence = o->event.gap = "";
    return o;
}

/* Copies the signed headers, sorted. strcmp() sorts them as the lines of the signed text:
 * a name never has a byte that is lower than the blank after it. */
static enum grapnel_status copy_headers(const struct request *r,
                                        struct owned *o,
                                        struct grapnel_error *error)
{
    char *end = o->text + r->id.n + 1;
    size_t n = 0;

    for (size_t i = 0; i < r->count; i++) {
        const struct grapnel_header *h = &r->headers[i];
        struct view v = trimmed(h);
        char *name;

        if (!is_signed(h))
            continue;
        name = end;
        o->headers[n].name = keep(&end, h->name, h->name_bytes);
        o->headers[n].name_bytes = h->name_bytes;
        for (size_t k = 0; k < h->name_bytes; k++)
            name[k] = lower(name[k]);
        o->headers[n].value = keep(&end, v.p, v.n);
        o->headers[n++].value_bytes = v.n;
    }
    o->event.header_count = n;
    qsort(o->headers, n, sizeof *o->headers, by_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(o->headers[i - 1].name, o->headers[i].name) == 0)
            return grapnel_say(error, GRAPNEL_REFUSED,
                               "the request has two headers %.60s",
                               o->headers[i].name);
    }
    return GRAPNEL_DONE;
}

struct text {
    char *p, *end;
};

static void put(struct text *t, const char *p, size_t n)
{
    if (n)
        memcpy(t->end, p, n);
    t->end += n;
}

static void put_line(struct text *t, const char *name, const char *value,
                     size_t n)
{
    put(t, name, strlen(name));
    put(t, " ", 1);
    put(t, value, n);
    put(t, "\n", 1);
}

/* grapnel-signature, which is also about the other headers. */
static enum grapnel_status check_headers(const struct request *r,
                                         const struct owned *o, size_t bytes,
                                         struct grapnel_error *error)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    char hex[64];
    struct text t;
    struct view signature;
    enum grapnel_status status = one(r, "grapnel-signature", &signature, error);

    if (status)
        return status;
    if (!EVP_Digest(r->body_bytes ? r->body : "", r->body_bytes, digest, NULL,
                    EVP_sha256(), NULL))
        return grapnel_say_memory(error);
    for (size_t i = 0; i < 32; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    t.p = t.end = malloc(bytes + 256);
    if (!t.p)
        return grapnel_say_memory(error);
    put_line(&t, "grapnel-signature", "v1", 2);
    put_line(&t, "webhook-id", r->id.p, r->id.n);
    put_line(&t, "webhook-timestamp", r->timestamp.p, r->timestamp.n);
    put_line(&t, "body-sha256", hex, sizeof hex);
    for (size_t i = 0; i < o->event.header_count; i++)
        put_line(&t, o->headers[i].name, o->headers[i].value,
                 o->headers[i].value_bytes);
    status = grapnel_keys_verify(&r->receiver->keys, "grapnel-signature",
                                 signature.p, signature.n, t.p,
                                 (size_t)(t.end - t.p), error);
    free(t.p);
    return status;
}

const char *grapnel_event_header(const struct grapnel_event *e,
                                 const char *name)
{
    for (size_t i = 0; i < e->header_count; i++) {
        if (strcmp(e->headers[i].name, name) == 0)
            return e->headers[i].value;
    }
    return NULL;
}

static const char *text_of(const struct grapnel_event *e, const char *name)
{
    const char *value = grapnel_event_header(e, name);

    return value ? value : "";
}

static enum grapnel_status number_of(const struct grapnel_event *e,
                                     const char *name, int64_t *n,
                                     struct grapnel_error *error)
{
    const char *value = text_of(e, name);

    if (grapnel_number(value, strlen(value), n))
        return GRAPNEL_DONE;
    return grapnel_say(error, GRAPNEL_REFUSED, "%s is not a number", name);
}

/* The fields, from the headers. */
static enum grapnel_status fill(struct grapnel_event *e,
                                struct grapnel_error *error)
{
    enum grapnel_status status = GRAPNEL_DONE;

    e->source = text_of(e, "grapnel-source");
    e->type = text_of(e, "grapnel-type");
    e->workspace = text_of(e, "grapnel-workspace");
    e->time = text_of(e, "grapnel-time");
    e->gap = text_of(e, "grapnel-gap");
    e->series = text_of(e, "grapnel-series");
    e->source_sequence = text_of(e, "grapnel-source-sequence");
    e->late = grapnel_event_header(e, "grapnel-late");
    e->replay = grapnel_event_header(e, "grapnel-replay");
    if (grapnel_event_header(e, "grapnel-attempt"))
        status = number_of(e, "grapnel-attempt", &e->attempt, error);
    e->numbered = grapnel_event_header(e, "grapnel-sequence");
    if (status || !e->numbered)
        return status;
    if (!e->series[0] || !grapnel_event_header(e, "grapnel-previous") ||
        !grapnel_event_header(e, "grapnel-workspace"))
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "grapnel-sequence arrived without series, previous "
                           "or workspace");
    status = number_of(e, "grapnel-sequence", &e->sequence, error);
    if (!status)
        status = number_of(e, "grapnel-previous", &e->previous, error);
    return status;
}

/* What both functions below do first. */
static enum grapnel_status
begin(struct request *r, const struct grapnel_receiver *receiver,
      const struct grapnel_header *headers, size_t header_count,
      const void *body, size_t body_bytes, struct grapnel_event **event,
      struct grapnel_error *error)
{
    *event = NULL;
    *r = (struct request){.receiver = receiver,
                          .headers = headers,
                          .count = header_count,
                          .body = body,
                          .body_bytes = body_bytes};
    return check_standard(r, error);
}

enum grapnel_status
grapnel_verify_standard(const struct grapnel_receiver *receiver,
                        const struct grapnel_header *headers,
                        size_t header_count, const void *body,
                        size_t body_bytes, struct grapnel_event **event,
                        struct grapnel_error *error)
{
    struct request r;
    struct owned *o;
    enum grapnel_status status = begin(&r, receiver, headers, header_count,
                                       body, body_bytes, event, error);

    if (status)
        return status;
    o = new_event(&r, r.id.n + 1);
    if (!o)
        return grapnel_say_memory(error);
    *event = &o->event;
    return GRAPNEL_DONE;
}

enum grapnel_status grapnel_verify(const struct grapnel_receiver *receiver,
                                   const struct grapnel_header *headers,
                                   size_t header_count, const void *body,
                                   size_t body_bytes,
                                   struct grapnel_event **event,
                                   struct grapnel_error *error)
{
    struct request r;
    struct owned *o;
    size_t bytes;
    enum grapnel_status status = begin(&r, receiver, headers, header_count,
                                       body, body_bytes, event, error);

    if (!status)
        status = measure(&r, &bytes, error);
    if (status)
        return status;
    o = new_event(&r, bytes);
    if (!o)
        return grapnel_say_memory(error);
    status = copy_headers(&r, o, error);
    if (!status)
        status = check_headers(&r, o, bytes, error);
    if (!status)
        status = fill(&o->event, error);
    if (status)
        free(o);
    else
        *event = &o->event;
    return status;
}

void grapnel_event_free(struct grapnel_event *event)
{
    free(event); /* the first member of a struct owned */
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether the bytes before `end`, in which %2C is a comma, are `type`. */
static bool is_type(const char *p, const char *end, const char *type)
{
    while (p < end) {
        char c = *p++;

        if (c == '%') {
            int high = end - p >= 2 ? hex_digit(p[0]) : -1;
            int low = high >= 0 ? hex_digit(p[1]) : -1;

            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            p += 2;
        }
        if (!c || c != *type++)
            return false;
    }
    return !*type;
}

int64_t grapnel_event_clock(const struct grapnel_event *e, const char *type)
{
    const char *p = text_of(e, "grapnel-clock");

    while (*p) {
        const char *end = p + strcspn(p, ","), *equals = end;
        int64_t count;

        while (equals > p && *equals != '=')
            equals--;
        if (*equals == '=' && is_type(p, equals, type) &&
            grapnel_number(equals + 1, (size_t)(end - equals - 1), &count))
            return count;
        p = *end ? end + 1 : end;
    }
    return -1;
}
