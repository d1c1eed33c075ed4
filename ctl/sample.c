#include "sample.h"
#include "bounds.h"
#include "headers.h"
#include "signature.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct making {
    struct sample *s;
    const struct source *source;
    const struct wish *w;
    json_t *doc; /* of the body that we make; NULL when it is given */
    char *why;
};

static void put_header(struct making *m, const char *name, const char *value)
{
    headers_put(&m->s->headers, name, (struct bytes){value, strlen(value)});
}

/* The next token of a JSON pointer, unescaped; caller frees. */
static char *next_token(const char **at)
{
    struct buf b;

    buf_init(&b, TEXT_MAX_BYTES);
    for (++*at; **at && **at != '/'; ++*at) {
        if (**at == '~' && ((*at)[1] == '0' || (*at)[1] == '1'))
            buf_puts(&b, *++*at == '0' ? "~" : "/");
        else
            buf_put(&b, *at, 1);
    }
    buf_put(&b, "", 0);
    return buf_take(&b); /* a pointer in the configuration is short */
}

/* Put `value` (taken over) at the pointer, making objects on the way. */
static void put_pointer(json_t *at, const char *pointer, json_t *value)
{
    while (*pointer == '/') {
        char *token = next_token(&pointer);
        json_t *next = json_object_get(at, token);

        if (!*pointer) {
            json_object_set_new(at, token, value);
            value = NULL;
        } else if (!json_is_object(next)) {
            next = json_object();
            json_object_set_new(at, token, next);
        }
        at = next;
        free(token);
    }
    json_decref(value); /* "": the whole body can't be one field */
}

/* Give a field its value, where the source looks for it. What is in a given
 * body, or is a constant, stays what it is. */
static void put_field(struct making *m, const struct expr *e, const char *value)
{
    if (e->kind == EXPR_HEADER)
        put_header(m, e->text, value);
    else if (e->kind == EXPR_JSON && m->doc)
        put_pointer(m->doc, e->text, json_string(value));
}

static void put_time(struct making *m)
{
    const struct verify *v = &m->source->verify;
    int64_t now = v->time_unit == UNIT_MS ? m->w->now_ms : m->w->now_ms / 1000;
    char text[32];

    snprintf(text, sizeof text, "%" PRId64, now);
    if (v->time.kind == EXPR_JSON && m->doc)
        put_pointer(m->doc, v->time.text, json_integer(now));
    else
        put_field(m, &v->time, text);
}

static bool is_plane(const struct source *source)
{
    return strcmp(source->provider, "plane") == 0;
}

/* What a given body says of its event; Plane says it in a header, too. */
static char *event_in(struct bytes body)
{
    json_t *doc = json_loadb(body.p, body.n, 0, NULL);
    const char *event = json_string_value(json_object_get(doc, "event"));
    char *out = gr_strdup(event ? event : "issue");

    json_decref(doc);
    return out;
}

/* "issue.updated" is event and action, where the source has both. */
static void put_type(struct making *m)
{
    const struct source *source = m->source;
    const char *type = m->w->type, *dot;
    char *event;

    if (!type && !m->w->uuid && !is_plane(source))
        return;
    if (!type)
        type = is_plane(source) ? "issue.updated" : "test.sent";
    dot = source->action.kind == EXPR_NONE ? NULL : strrchr(type, '.');
    if (!m->w->type && m->w->has_body && is_plane(source))
        event = event_in(m->w->given);
    else
        event = gr_strndup(type, dot ? (size_t)(dot - type) : strlen(type));
    put_field(m, &source->type, event);
    if (dot)
        put_field(m, &source->action, dot + 1);
    if (m->doc && is_plane(source))
        json_object_set_new(m->doc, "event", json_string(event));
    free(event);
}

/* The rest of a body as the provider makes it. */
static json_t *new_doc(const struct source *source, const struct wish *w)
{
    json_t *data = json_pack("{s:s, s:s, s:I}", "id", w->uuid, "name",
                             "Made by grapnel send", "sequence_id",
                             (json_int_t)w->n);

    if (!is_plane(source))
        return json_pack("{s:o}", "data", data);
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:{s:{s:s, s:s}, s:s, s:s}}", "event", "",
        "action", "", "webhook_id", "7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "workspace_id", "", "data", data, "activity", "actor", "id",
        "16fd2706-8baf-433b-82eb-8c7fada847da", "display_name", "grapnel",
        "field", "name", "new_value", "Made by grapnel send");
}

static gr_rc put_body(struct making *m)
{
    char *text;

    if (m->w->has_body) {
        buf_put(&m->s->body, m->w->given.p, m->w->given.n);
    } else {
        /* As Python's json.dumps(), which signs what Plane sends. */
        text = json_dumps(m->doc, JSON_ENSURE_ASCII);
        buf_puts(&m->s->body, text ? text : "");
        if (!text)
            m->s->body.failed = true;
        free(text);
    }
    if (!m->s->body.failed && !m->s->headers.failed)
        return GR_OK;
    snprintf(m->why, 200, "it is too large, or no UTF-8");
    return GR_REFUSE;
}

static void put_rest(struct making *m)
{
    const struct source *source = m->source;

    put_header(m, "Content-Type", "application/json");
    if (is_plane(source))
        put_header(m, "X-Plane-Delivery", m->w->uuid);
    put_field(m, &source->id, m->w->uuid);
    put_field(m, &source->workspace,
              m->w->workspace ? m->w->workspace : "demo");
    put_time(m);
}

gr_rc sample_make(struct sample *s, const struct source *source,
                  const struct wish *w, char why[200])
{
    struct making m = {.s = s,
                       .source = source,
                       .w = w,
                       .why = why,
                       .doc = w->has_body ? NULL : new_doc(source, w)};
    gr_rc rc;

    buf_init(&s->headers, HEADERS_MAX_BYTES);
    buf_init(&s->body, SAMPLE_BODY_BYTES);
    put_type(&m);
    if (w->uuid)
        put_rest(&m);
    rc = put_body(&m);
    json_decref(m.doc);
    return rc;
}

gr_rc sample_sign(struct sample *s, const struct source *source, char why[200])
{
    const struct verify *v = &source->verify;
    struct bytes headers = {s->headers.data, s->headers.len};
    struct bytes body = {s->body.data, s->body.len};
    struct subject subject = {.headers = headers, .body = body};
    struct buf ts, key, content, text;
    uint8_t mac[MAC_BYTES];
    const char *reason = "the source has no secret";
    gr_rc rc = GR_REFUSE;

    buf_init(&ts, TEXT_MAX_BYTES);
    buf_init(&key, TEXT_MAX_BYTES);
    buf_init(&content, SAMPLE_BODY_BYTES + 2 * TEXT_MAX_BYTES);
    buf_init(&text, TEXT_MAX_BYTES);
    if (v->time.kind != EXPR_NONE &&
        expr_value(&v->time, &subject, &ts, &reason) != GR_OK)
        goto out;
    if (!source->secrets.count ||
        signature_key(v, source->secrets.items[0], &key) != GR_OK)
        goto out;
    reason = "what is signed can't be made";
    if (signature_content(v, (struct bytes){ts.data, ts.len}, body, &content) !=
        GR_OK)
        goto out;
    signature_mac(mac, (struct bytes){key.data, key.len},
                  (struct bytes){content.data, content.len});
    signature_print(v, mac, &text);
    headers_put(&s->headers, v->header, (struct bytes){text.data, text.len});
    rc = s->headers.failed ? GR_REFUSE : GR_OK;
out:
    if (rc != GR_OK)
        snprintf(why, 200, "it can't be signed: %s", reason);
    if (key.data)
        explicit_bzero(key.data, key.cap);
    buf_fini(&ts);
    buf_fini(&key);
    buf_fini(&content);
    buf_fini(&text);
    subject_fini(&subject);
    return rc;
}

void sample_fini(struct sample *s)
{
    buf_fini(&s->headers);
    buf_fini(&s->body);
}
