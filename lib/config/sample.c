/* sample: makes a request as the provider of a source sends it, and signs it. */
#include "sample.h"
#include "bounds.h"
#include "clock.h"
#include "conf.h"
#include "headers.h"
#include "profile.h"
#include "sha256.h"
#include "signature.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct sample_making {
    struct event_sample *s;
    const struct source *source;
    const struct sample_options *w;
    json_t *doc; /* of the body that we make; NULL when it is given, … */
    bool form;   /* … or a form: then the body grows as fields are put */
    char *why;
};

static void put_header(struct sample_making *m, const char *name,
                       const char *value)
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

static void put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++)
        if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
            (*text >= '0' && *text <= '9') || strchr("-_.", *text))
            buf_put(out, text, 1);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
    buf_puts(out, out->len ? "&" : "");
    put_escaped(out, name);
    buf_puts(out, "=");
    put_escaped(out, value);
}

/* Give a field its value, where the source looks for it; of several places,
 * the first. Values in a given body, and constants, stay as they are. */
static void put_field(struct sample_making *m, const struct expr *e,
                      const char *value)
{
    if (e->kind == EXPR_HEADER)
        put_header(m, e->text, value);
    else if (e->kind == EXPR_JSON && m->doc)
        put_pointer(m->doc, e->text, json_string(value));
    else if (e->kind == EXPR_FORM && m->form)
        put_pair(&m->s->body, e->text, value);
    else if (e->kind == EXPR_QUERY)
        put_pair(&m->s->query, e->text, value);
}

static void time_text(const struct verify *v, int64_t now_ms, char text[32])
{
    if (v->time_unit == UNIT_RFC3339)
        rfc3339(text, now_ms);
    else
        snprintf(text, 32, "%" PRId64,
                 v->time_unit == UNIT_MS ? now_ms : now_ms / 1000);
}

static void put_time(struct sample_making *m)
{
    const struct verify *v = &m->source->verify;
    char text[32];

    time_text(v, m->w->now_ms, text);
    if (v->time.kind == EXPR_JSON && m->doc && v->time_unit == UNIT_MS)
        put_pointer(m->doc, v->time.text,
                    json_integer(strtoll(text, NULL, 10)));
    else
        put_field(m, &v->time, text);
    put_field(m, &v->token, m->w->uuid);
}

/* It signs the fields of a form. */
static bool takes_form(const struct source *source)
{
    return signature_signs(source->verify.signed_content, "sorted_form");
}

static bool is_plane(const struct source *source)
{
    return strcmp(source->provider, "plane") == 0;
}

/* Puts the type; "issue.updated" is event and action, where the source has both. Plane sends the
 * event of its body in a header, too. */
static void put_type(struct sample_making *m)
{
    const struct source *source = m->source;
    const char *type = m->w->type, *dot, *text;
    char *event;

    if (!type && !m->w->uuid && !is_plane(source))
        return;
    if (!type)
        type = profile_words(source->profile).example_type;
    if (!type)
        type = "test.sent";
    dot = source->action.kind == EXPR_NONE ? NULL : strrchr(type, '.');
    if (!m->w->type && m->w->has_body && is_plane(source)) {
        json_t *doc = json_loadb(m->w->given.p, m->w->given.n, 0, NULL);

        text = json_string_value(json_object_get(doc, "event"));
        event = gr_strdup(text ? text : "issue");
        json_decref(doc);
    } else {
        event = gr_strndup(type, dot ? (size_t)(dot - type) : strlen(type));
    }
    put_field(m, &source->type, event);
    if (dot)
        put_field(m, &source->action, dot + 1);
    if (m->doc && is_plane(source))
        json_object_set_new(m->doc, "event", json_string(event));
    free(event);
}

static const char *made_by(const struct sample_options *w)
{
    return w->made_by ? w->made_by : "grapnel send";
}

/* The rest of a body as the provider makes it. */
static json_t *new_doc(const struct source *source,
                       const struct sample_options *w)
{
    json_t *name = json_sprintf("Made by %s", made_by(w));
    json_t *data = json_pack("{s:s, s:O, s:I}", "id", w->uuid, "name", name,
                             "sequence_id", (json_int_t)w->n);

    const char *text = profile_words(source->profile).example_body;
    json_t *doc = text ? json_loads(text, 0, NULL) : json_object();

    if (!is_plane(source)) {
        json_object_set_new(doc, "data", data);
        json_decref(name);
        return doc;
    }
    json_decref(doc);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:{s:s, s:s}, s:s, s:o}}",
                     "event", "", "action", "", "webhook_id",
                     "7c9e6679-7425-40de-944b-e07fc1f90ae7", "workspace_id", "",
                     "data", data, "activity", "actor", "id",
                     "16fd2706-8baf-433b-82eb-8c7fada847da", "display_name",
                     "grapnel", "field", "name", "new_value", name);
}

static gr_rc put_body(struct sample_making *m)
{
    char *text;

    if (m->form) {
        put_pair(&m->s->body, "made_by", made_by(m->w));
    } else if (!m->doc) {
        buf_put(&m->s->body, m->w->given.p, m->w->given.n);
    } else {
        json_t *all = m->source->batch && !m->w->has_body
                          ? json_pack("[O]", m->doc)
                          : json_incref(m->doc);

        /* As Python's json.dumps(), which signs what Plane sends. */
        text = json_dumps(all, JSON_ENSURE_ASCII);
        json_decref(all);
        buf_puts(&m->s->body, text ? text : "");
        if (!text)
            m->s->body.failed = true;
        free(text);
    }
    if (!m->s->body.failed && !m->s->headers.failed)
        return GR_OK;
    snprintf(m->why, 200,
             "the body is too large, or a value in it is not UTF-8");
    return GR_REFUSE;
}

static bool has_workspace(struct sample_making *m)
{
    struct subject s = {.json = m->doc, .json_tried = true, .json_error = NULL};
    const char *why;
    struct buf found;
    bool has;

    if (!m->doc)
        return false;
    buf_init(&found, SAMPLE_BODY_BYTES);
    has = expr_value(&m->source->workspace, &s, &found, &why) == GR_OK;
    buf_fini(&found);
    return has;
}

/* Puts everything else that the provider sends. Without --workspace, the workspace is at its
 * place in the provider's example; it is left out if the provider mostly sends none. */
static void put_rest(struct sample_making *m)
{
    const struct source *source = m->source;
    const struct verify *v = &source->verify;
    const char *example = profile_words(source->profile).example_workspace;
    const char *given = m->w->given.p;
    bool form = m->form || (m->w->has_body && takes_form(source) &&
                            m->w->given.n && *given != '{' && *given != '[');

    put_header(m, "Content-Type",
               form ? "application/x-www-form-urlencoded" : "application/json");
    if (is_plane(source))
        put_header(m, "X-Plane-Delivery", m->w->uuid);
    put_field(m, &source->id, m->w->uuid);
    if (v->id.kind != source->id.kind || !v->id.text || !source->id.text ||
        strcmp(v->id.text, source->id.text) != 0)
        put_field(m, &v->id, m->w->uuid);
    if (m->w->workspace)
        put_field(m, &source->workspace, m->w->workspace);
    else if (!has_workspace(m) && (!example || strcmp(example, "default") != 0))
        put_field(m, &source->workspace, example ? example : "demo");
    put_time(m);
}

gr_rc sample_make(struct event_sample *s, const struct source *source,
                  const struct sample_options *w, char why[200])
{
    bool form = !w->has_body && takes_form(source);
    struct sample_making m = {.s = s,
                              .source = source,
                              .w = w,
                              .why = why,
                              .form = form,
                              .doc = w->has_body || form ? NULL
                                                         : new_doc(source, w)};
    gr_rc rc = GR_OK;

    buf_init(&s->headers, HEADERS_MAX_BYTES);
    buf_init(&s->body, SAMPLE_BODY_BYTES);
    buf_init(&s->query, TEXT_MAX_BYTES);
    put_type(&m);
    if (w->uuid)
        put_rest(&m);
    /* A signature in the body does not sign the body: the signed values and the signature are
     * put into a given body, too. */
    if (w->has_body && source->verify.signature.kind == EXPR_JSON && w->uuid) {
        m.doc = json_loadb(w->given.p, w->given.n, 0, NULL);
        if (json_is_object(m.doc)) {
            put_time(&m);
        } else {
            snprintf(why, 200,
                     "the provider signs inside the body, but this body is not "
                     "a JSON object");
            rc = GR_REFUSE;
        }
    }
    if (rc == GR_OK)
        rc = put_body(&m);
    json_decref(m.doc);
    return rc;
}

/* ---- its signature ---- */

struct signing_up {
    struct event_sample *s;
    const struct source *source;
    struct subject subject;
    struct buf ts, id, token, url;
    bool no_form;
};

static struct bytes held(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

/* The value of a field that is signed; a header's is as it was put. */
static gr_rc look(struct signing_up *u, const struct expr *e, struct buf *out,
                  const char **why)
{
    *why = expr_not_there;
    return e->kind == EXPR_NONE ? GR_OK : expr_value(e, &u->subject, out, why);
}

static gr_rc collect(struct signing_up *u, struct signing *g, const char **why)
{
    const struct verify *v = &u->source->verify;
    const char *text = v->signed_content;
    bool own = v->id.kind != EXPR_NONE;
    char now[32];

    if (v->time.kind == EXPR_NONE && v->form.kind == FORM_KV) {
        time_text(v, now_ms(), now);
        buf_puts(&u->ts, now);
    } else if (look(u, &v->time, &u->ts, why) != GR_OK) {
        return GR_REFUSE;
    }
    if (signature_signs(text, "id") &&
        look(u, own ? &v->id : &u->source->id, &u->id, why) != GR_OK)
        return GR_REFUSE;
    if (signature_signs(text, "token") &&
        look(u, &v->token, &u->token, why) != GR_OK)
        return GR_REFUSE;
    buf_puts(&u->url, u->source->public_url ? u->source->public_url : "");
    buf_puts(&u->url, u->s->query.len ? "?" : "");
    buf_put(&u->url, u->s->query.data, u->s->query.len);
    *g = (struct signing){.ts = held(&u->ts),
                          .id = held(&u->id),
                          .token = held(&u->token),
                          .url = held(&u->url),
                          .method = {"POST", 4},
                          .body = held(&u->s->body),
                          .no_form = u->no_form};
    if (u->source->webhook_id)
        g->webhook_id = (struct bytes){u->source->webhook_id,
                                       strlen(u->source->webhook_id)};
    return GR_OK;
}

/* If the provider signs a digest of the body, puts it into the query. */
static gr_rc put_digest(struct signing_up *u)
{
    static const struct expr digest = {.kind = EXPR_BODY_SHA256};
    const struct expr *e = &u->source->verify.body_digest;
    const char *first = u->s->body.data, *why;
    struct buf hex;
    gr_rc rc;

    if (e->kind != EXPR_QUERY || !u->s->body.len ||
        (*first != '{' && *first != '['))
        return GR_OK;
    buf_init(&hex, TEXT_MAX_BYTES);
    rc = expr_value(&digest, &u->subject, &hex, &why);
    if (rc == GR_OK) {
        put_pair(&u->s->query, e->text, hex.data);
        u->no_form = true;
    }
    buf_fini(&hex);
    return rc;
}

/* Into the header, or where else the source looks for it. */
static gr_rc put_signature(struct signing_up *u, struct bytes text)
{
    const struct verify *v = &u->source->verify;
    struct event_sample *s = u->s;
    char *value = gr_strndup(text.p, text.n), *body = NULL;
    json_t *doc;

    if (v->headers.count) {
        headers_put(&s->headers, v->headers.items[0], text);
    } else if (v->signature.kind == EXPR_HEADER) {
        headers_put(&s->headers, v->signature.text, text);
    } else if (v->signature.kind == EXPR_QUERY) {
        put_pair(&s->query, v->signature.text, value);
    } else if (v->signature.kind == EXPR_FORM) {
        put_pair(&s->body, v->signature.text, value);
    } else {
        doc = json_loadb(s->body.data, s->body.len, 0, NULL);
        put_pointer(doc, v->signature.text, json_string(value));
        body = json_dumps(doc, JSON_ENSURE_ASCII);
        json_decref(doc);
        buf_reset(&s->body);
        buf_puts(&s->body, body ? body : "");
        free(body);
    }
    free(value);
    return s->headers.failed || s->body.failed || s->query.failed ? GR_REFUSE
                                                                  : GR_OK;
}

/* The text of the signature, or of a token. */
static gr_rc make_text(struct signing_up *u, EVP_PKEY *private_key,
                       const struct signing *g, struct buf *text)
{
    const struct verify *v = &u->source->verify;
    struct candidate c;
    struct content content;
    gr_rc rc;

    if (v->scheme == SCHEME_SHARED_TOKEN) {
        buf_puts(text, v->prefix ? v->prefix : "");
        return signature_key(v, u->source->secrets.items[0], text);
    }
    rc = content_make(&content, v->signed_content, g);
    if (rc == GR_OK)
        rc = signature_sign(v, u->source->keys[0], private_key, &content, &c);
    content_fini(&content);
    if (rc == GR_OK)
        signature_print(v, &c, g->ts, text);
    return rc;
}

gr_rc sample_sign(struct event_sample *s, const struct source *source,
                  EVP_PKEY *private_key, char why[200])
{
    struct signing_up u = {
        .s = s,
        .source = source,
        .subject = {.headers = held(&s->headers), .body = held(&s->body)}};
    struct signing g;
    struct buf text;
    const char *reason = "cannot build the signed text";
    gr_rc rc;

    buf_init(&u.ts, TEXT_MAX_BYTES);
    buf_init(&u.id, TEXT_MAX_BYTES);
    buf_init(&u.token, TEXT_MAX_BYTES);
    buf_init(&u.url, HEADERS_MAX_BYTES);
    buf_init(&text, CONF_SECRET_MAX_BYTES);
    rc = put_digest(&u);
    if (rc == GR_OK)
        rc = collect(&u, &g, &reason);
    if (rc == GR_OK)
        rc = make_text(&u, private_key, &g, &text);
    if (rc == GR_OK)
        rc = put_signature(&u, held(&text));
    if (rc != GR_OK)
        snprintf(why, 200, "cannot sign the event: %s", reason);
    if (text.data)
        explicit_bzero(text.data, text.cap);
    buf_fini(&u.ts);
    buf_fini(&u.id);
    buf_fini(&u.token);
    buf_fini(&u.url);
    buf_fini(&text);
    subject_fini(&u.subject);
    return rc;
}

void sample_fini(struct event_sample *s)
{
    buf_fini(&s->headers);
    buf_fini(&s->body);
    buf_fini(&s->query);
}

/* ---- where it goes ---- */

bool sample_needs_key(const struct source *source)
{
    enum scheme s = source->verify.scheme;

    return s == SCHEME_ED25519 || s == SCHEME_ECDSA_P256 ||
           s == SCHEME_RSA_SHA256;
}

char *sample_url(const struct settings *s, const char *path)
{
    const char *host = s->ingress.host;

    if (!*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0)
        host = "127.0.0.1";
    if (strcmp(host, "::") == 0 || strcmp(host, "[::]") == 0)
        host = "::1";
    return gr_printf(strchr(host, ':') && *host != '[' ? "http://[%s]:%d/%s"
                                                       : "http://%s:%d/%s",
                     host, s->ingress.port, path);
}

void sample_uuid(char out[SAMPLE_UUID_BYTES + 1], struct bytes of)
{
    uint8_t b[SHA256_BYTES];

    if (of.n)
        sha256(of, b);
    else if (getrandom(b, sizeof b, 0) != sizeof b)
        die(EXIT_UNAVAILABLE, "cannot get random bytes");
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, SAMPLE_UUID_BYTES + 1,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
             b[11], b[12], b[13], b[14], b[15]);
}
