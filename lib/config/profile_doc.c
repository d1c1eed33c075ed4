/* profile_doc: writes the text about a provider from its profile. */
#include "profile_doc.h"
#include "settings_types.h"
#include "signature.h"
#include "signed_part.h"
#include <ctype.h>
#include <string.h>

static const char *const schemes[] = {
    [SCHEME_HMAC_SHA256] = "HMAC-SHA256", [SCHEME_HMAC_SHA1] = "HMAC-SHA1",
    [SCHEME_HMAC_SHA512] = "HMAC-SHA512", [SCHEME_ED25519] = "Ed25519",
    [SCHEME_ECDSA_P256] = "ECDSA P-256",  [SCHEME_RSA_SHA256] = "RSA-SHA256",
    [SCHEME_SHARED_TOKEN] = "a token",
};

enum { DESCRIPTION_MAX_BYTES = 64 * 1024 };

static void put_code(struct buf *out, const char *text)
{
    buf_printf(out, "`%s`", text);
}

static void put_expr(struct buf *out, const struct expr *e)
{
    for (const struct expr *at = e; at; at = at->other) {
        buf_puts(out, at == e ? "`" : ", else `");
        expr_print(at, out);
        buf_puts(out, "`");
    }
}

static void put_form(struct buf *out, const struct verify *v)
{
    const char *encoding = v->encoding == ENCODING_HEX ? "hex" : "base64";
    const char *prefix = v->form.prefix ? v->form.prefix : v->prefix;

    buf_printf(out, " (%s", encoding);
    if (prefix && *prefix)
        buf_printf(out, " after `%s`", prefix);
    if (v->form.kind == FORM_KV)
        buf_printf(out, ", as `%s=…%c%s=…`", v->form.ts_key, v->form.separator,
                   v->form.sig_key);
    if (v->form.kind != FORM_PLAIN)
        buf_puts(out, "; one of several has to match");
    buf_puts(out, ")");
}

static void put_tolerance(struct buf *out, const struct verify *v)
{
    int64_t past = v->past_ms ? v->past_ms : PROFILE_CLOCK_SKEW_MS;
    int64_t future = v->future_ms ? v->future_ms : PROFILE_CLOCK_SKEW_MS;

    if (past == TOLERANCE_NONE) {
        buf_puts(out, "of any age");
        return;
    }
    buf_puts(out, "at most ");
    conf_put_duration(out, past);
    if (future != past) {
        buf_puts(out, " old and ");
        conf_put_duration(out, future);
        buf_puts(out, " ahead");
    } else {
        buf_puts(out, " old or ahead");
    }
}

static void put_time(struct buf *out, const struct verify *v)
{
    static const char *const units[] = {
        [UNIT_S] = "s", [UNIT_MS] = "ms", [UNIT_RFC3339] = "RFC 3339"};

    if (v->time.kind == EXPR_NONE && v->form.kind != FORM_KV) {
        buf_puts(out, "; a time is not signed");
        return;
    }
    buf_puts(out, "; time: ");
    if (v->time.kind == EXPR_NONE)
        buf_printf(out, "`%s` in the same header", v->form.ts_key);
    else
        put_expr(out, &v->time);
    buf_printf(out, " (%s), ", units[v->time_unit]);
    put_tolerance(out, v);
}

static void put_verified(struct buf *out, const struct verify *v)
{
    static const char *const handshakes[] = {
        [HANDSHAKE_ECHO] = "`url_verification`",
        [HANDSHAKE_HMAC_TOKEN] = "`endpoint.url_validation`",
        [HANDSHAKE_PING_PONG] = "PING",
        [HANDSHAKE_HEAD] = "HEAD"};

    buf_puts(out, schemes[v->scheme]);
    for (size_t i = 0; i < v->headers.count; i++) {
        buf_puts(out, i ? ", else " : " in ");
        put_code(out, v->headers.items[i]);
    }
    if (v->signature.kind != EXPR_NONE) {
        buf_puts(out, " in ");
        put_expr(out, &v->signature);
    }
    if (v->scheme == SCHEME_SHARED_TOKEN) {
        buf_puts(out, ", which is the secret itself; requests are not signed");
        return;
    }
    put_form(out, v);
    buf_printf(out, ", over `%s`", v->signed_content);
    put_time(out, v);
    if (v->handshake != HANDSHAKE_NONE)
        buf_printf(out, "; ingress responds to %s", handshakes[v->handshake]);
}

static void put_keys(struct buf *out, const struct dedupe *d)
{
    for (size_t i = 0; i < d->count; i++) {
        buf_puts(out, i ? ", or " : "");
        for (size_t k = 0; k < d->keys[i].count; k++) {
            buf_puts(out, k ? " + " : "");
            put_expr(out, &d->keys[i].parts[k]);
        }
    }
    buf_puts(out, " seen within ");
    conf_put_duration(out, d->ttl_ms);
}

static void put_line(struct buf *out, const char *what, const char *text)
{
    if (*text)
        buf_printf(out, "- **%s**: %s\n", what, text);
}

static void put_snippet(struct buf *out, const char *name,
                        const struct verify *v)
{
    buf_printf(out, "```yaml\nsources:\n  - name: %s\n    provider: %s\n", name,
               name);
    buf_printf(out, "    secrets: [\"file:%s.%s\"]\n", name,
               v->secret_encoding == KEY_PEM ? "pem" : "secret");
    if (signature_signs(v->signed_content, "url"))
        buf_printf(out, "    public_url: https://hooks.example.com/in/%s\n",
                   name);
    if (signature_signs(v->signed_content, "webhook_id"))
        buf_puts(out, "    webhook_id: 1JE4291016473214C\n");
    buf_puts(out, "```\n\n");
}

static void put_replays(struct buf *out, const struct source *s)
{
    const struct expr *e = &s->dedupe.unique;

    buf_puts(out, "- **repeated later**: ");
    if (s->dedupe.replays_ms <= 0) {
        buf_puts(out, s->verify.scheme == SCHEME_SHARED_TOKEN
                          ? "accepted, because requests are not signed\n"
                      : verify_signs_time(&s->verify)
                          ? "refused, because its time is too old\n"
                          : "accepted after its keys have expired\n");
        return;
    }
    buf_puts(out, "suppressed as `replayed` for ");
    conf_put_duration(out, s->dedupe.replays_ms);
    buf_puts(out, ", if the request has ");
    for (; e; e = e->other) {
        struct expr one = {.kind = e->kind, .text = e->text};

        put_expr(out, &one);
        buf_puts(out, e->other && e->other->other ? ", "
                      : e->other                  ? " or "
                                                  : "\n");
    }
}

void profile_describe_order(const struct profile *p, struct buf *out)
{
    const struct order *o = profile_order(p);

    if (!profile_has_order(p))
        return;
    buf_puts(out, "by the time ");
    put_expr(out, &o->timestamp);
    buf_puts(out, "; an event waits ");
    conf_put_duration(out, o->window_ms);
    buf_puts(out, " for earlier ones");
}

static void put_strings(struct buf *out, const struct string_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        buf_printf(out, "%s`%s`", i ? ", " : "", l->items[i]);
}

/* The states that may follow each state, without itself. */
static void put_transitions(struct buf *out, const struct state_rules *r)
{
    for (size_t i = 0; i < r->initial.count; i++) {
        const char *from = r->initial.items[i];
        size_t n = strlen(from), count = 0;

        for (size_t k = 0; k < r->transitions.count; k++) {
            const char *t = r->transitions.items[k];

            if (strncmp(t, from, n) != 0 || t[n] != '>' ||
                strcmp(t + n + 1, from) == 0)
                continue;
            if (count++ == 0)
                buf_printf(out, "%s%s to ", i ? "; " : "", from);
            else
                buf_puts(out, ", ");
            buf_puts(out, t + n + 1);
        }
        if (!count)
            buf_printf(out, "%s%s is final", i ? "; " : "", from);
    }
}

void profile_describe_states(const struct profile *p, struct buf *out)
{
    const struct state_rules *r = profile_states(p);

    if (!profile_has_states(p))
        return;
    put_expr(out, &r->state);
    buf_puts(out, " of ");
    put_expr(out, &r->object);
    buf_puts(out, ", in events of type ");
    put_strings(out, &r->types);
}

/* Each begins a line. */
static void put_suggestions(struct buf *out, const struct profile *p)
{
    struct profile_words w;

    if (!p || profile_is_custom(p))
        return;
    w = profile_words(p);
    buf_puts(out, "\n- **suggested order**: ");
    if (profile_has_order(p)) {
        profile_describe_order(p, out);
        buf_printf(out, ". %s", w.order_notes);
    } else {
        buf_puts(out, "none");
    }
    if (!profile_has_states(p))
        return;
    buf_puts(out, "\n- **suggested states**: ");
    profile_describe_states(p, out);
    buf_puts(out, ". Valid: ");
    put_transitions(out, profile_states(p));
    buf_printf(out, ". %s", w.states_notes);
}

static void put_fields(struct buf *out, const struct source *s)
{
    buf_puts(out, "- **id**: ");
    if (s->id.kind == EXPR_NONE)
        buf_puts(out, "none");
    else
        put_expr(out, &s->id);
    if (s->delivery_id.kind != EXPR_NONE) {
        buf_puts(out, "\n- **delivery id**: ");
        put_expr(out, &s->delivery_id);
        buf_puts(out, "; `grapnel trace` finds the event by it");
    }
    buf_puts(out, "\n- **type**: ");
    put_expr(out, &s->type);
    if (s->action.kind != EXPR_NONE) {
        buf_puts(out, ", then a dot and ");
        put_expr(out, &s->action);
    }
    buf_puts(out, "\n- **workspace**: ");
    if (s->workspace.kind == EXPR_NONE)
        buf_puts(out, "`default`");
    else
        put_expr(out, &s->workspace);
    if (s->mode.kind != EXPR_NONE) {
        buf_puts(out, "\n- **live or test**: ");
        put_expr(out, &s->mode);
    }
    if (s->batch)
        buf_puts(out, "\n- **one request**: a list; each element is an event");
    put_suggestions(out, s->profile);
    buf_puts(out, "\n- **a duplicate**: ");
    put_keys(out, &s->dedupe);
    buf_puts(out, "\n");
    put_replays(out, s);
}

/* One line for each: "- **name**: text". */
static void put_facts(struct buf *out, const struct source *s)
{
    buf_puts(out, "- **verified**: ");
    put_verified(out, &s->verify);
    buf_puts(out, "\n");
    put_fields(out, s);
    if (s->forward_headers.count)
        buf_puts(out, "- **forwarded to endpoints**: ");
    for (size_t i = 0; i < s->forward_headers.count; i++) {
        buf_puts(out, i ? ", " : "");
        put_code(out, s->forward_headers.items[i]);
    }
    if (s->forward_headers.count)
        buf_puts(out, "\n");
}

/* How `reconcile` finds events that never arrived. */
static void put_listing(struct buf *out, const struct provider_list *l)
{
    if (!l)
        return;
    buf_puts(out, "- **reconcile**: ");
    if (l->url)
        put_code(out, l->url);
    else
        buf_puts(out, "a list whose `url` you name");
    buf_puts(out, l->event_url ? "; each missing event is fetched from "
                               : "; it contains the events");
    if (l->event_url)
        put_code(out, l->event_url);
    buf_printf(out, "; the provider keeps it: %s\n",
               l->keeps ? l->keeps : "unknown");
}

void source_describe(const struct source *s, profile_line *line, void *self)
{
    static const char before[] = "- **", between[] = "**: ";
    struct buf all;
    char *at, *end, *text;

    buf_init(&all, DESCRIPTION_MAX_BYTES);
    put_facts(&all, s);
    for (at = all.failed ? NULL : all.data; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        *end = 0;
        at += strlen(before);
        text = strstr(at, between);
        *text = 0;
        line(self, at, text + strlen(between));
    }
    buf_fini(&all);
}

void profile_describe(const struct profile *p, struct buf *out)
{
    struct profile_words w = profile_words(p);
    const struct source *s = profile_source(p);

    buf_printf(out, "## %s\n\n%s.\n\n", w.name, w.title);
    if (!profile_is_custom(p)) {
        put_snippet(out, w.name, &s->verify);
        put_line(out, "at the provider", w.setup);
        put_line(out, "secrets", w.secret);
        put_facts(out, s);
        put_listing(out, profile_listing(p));
    }
    put_line(out, "after a response that is not 2xx", w.failure);
    put_line(out, "note", w.notes);
}

static void put_field(struct buf *out, const char *key, const struct expr *e)
{
    if (e->kind == EXPR_NONE)
        return;
    buf_printf(out, "%s:", key);
    conf_as_expr.print(out, NULL, e, 0);
}

void profile_as_custom(const struct profile *p, struct buf *out)
{
    const struct source *s = profile_source(p);

    buf_puts(out, "provider: custom\nverify:\n");
    conf_print(&settings_verify, &s->verify, out, 2, false);
    put_field(out, "id", &s->id);
    put_field(out, "delivery_id", &s->delivery_id);
    put_field(out, "type", &s->type);
    put_field(out, "workspace", &s->workspace);
    put_field(out, "mode", &s->mode);
    if (s->batch)
        buf_puts(out, "batch: true\n");
    buf_puts(out, "dedupe:\n");
    conf_print(&settings_dedupe, &s->dedupe, out, 2, false);
}

static const char preamble[] =
    "# Providers\n"
    "\n"
    "<!-- Written by profile_document() from lib/config/profiles.yaml; a test "
    "compares. -->\n"
    "\n"
    "What each built-in profile does with the requests of its provider. To "
    "connect one, add the lines to\n"
    "`grapnel.yaml`, put the secret into the file that they name, and give "
    "the provider the URL\n"
    "`https://…/in/NAME`. `grapnel send NAME` sends a signed example, so that "
    "you can try the source before\n"
    "the provider uses it. `grapnel check --provider NAME` prints the same "
    "text as here, and the profile in\n"
    "the form of `provider: custom`.\n"
    "\n"
    "These rules apply to all of them:\n"
    "\n"
    "- A source may have several `secrets`, and a request is accepted when "
    "one of them matches (for\n"
    "  rotation).\n"
    "- Ingress refuses a request if its signature, time or signed id is "
    "missing, empty or there twice, or\n"
    "  if the time differs too much. The response is always 401, and the log "
    "of ingress has the reason.\n"
    "- If a list of expressions is given, the first one with a value counts. "
    "An event without a workspace\n"
    "  belongs to `default`; an event without a type has the type "
    "`unknown`.\n"
    "- With `order: suggested` in a source, its events are delivered in the "
    "order of the time that the profile "
    "names.\n  Each event waits for earlier ones; one that comes later still "
    "is delivered and marked late "
    "(`grapnel-late`). An event without that time is\n  delivered as it "
    "arrives. No provider "
    "numbers its events, so an event that is missing is not noticed.\n"
    "- With `states: suggested`, an event whose object cannot change from its "
    "last state to the new one is "
    "not\n  delivered: it is recorded as `ignored`. `grapnel trace` shows why. "
    "Events of other types, and those "
    "without object or state,\n  are delivered. "
    "An object that Grapnel does not know yet may be in any of the states.\n"
    "- A duplicate is stored, but not delivered. In an idempotency key, "
    "`source` is the source's name and\n"
    "  `id` the event's id.\n"
    "\n"
    "| provider | | signed | time signed | id signed |\n"
    "|---|---|---|---|---|\n";

void profile_document(struct buf *out)
{
    buf_puts(out, preamble);
    for (size_t i = 0; profile_name(i); i++) {
        const struct profile *p = profile_find(profile_name(i));
        struct profile_words w = profile_words(p);
        const struct source *s = profile_source(p);
        const char *content = s->verify.signed_content;
        bool body = signature_signs(content, "body");
        /* Whether the signature covers the time, the id, or the body with them in it. */
        bool time = signature_signs(content, "ts") ||
                    (s->verify.time.kind == EXPR_JSON && body);
        bool id = s->id.kind == EXPR_JSON ? body
                                          : s->id.kind != EXPR_NONE &&
                                                signature_signs(content, "id");

        if (!profile_is_custom(p))
            buf_printf(out, "| [`%s`](#%s) | %s | %s | %s | %s |\n", w.name,
                       w.name, w.title,
                       s->verify.scheme == SCHEME_SHARED_TOKEN
                           ? "not signed"
                           : schemes[s->verify.scheme],
                       time ? "yes" : "no", id ? "yes" : "no");
    }
    for (size_t i = 0; profile_name(i); i++) {
        buf_puts(out, "\n");
        profile_describe(profile_find(profile_name(i)), out);
    }
}
