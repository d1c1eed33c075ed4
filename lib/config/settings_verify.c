/* settings_verify: the section `verify` of a source: how its requests prove who sent them.
 * Profiles use the same keys (profiles.yaml). */
#include "config.h"
#include "profile.h"
#include "settings_types.h"
#include "signature.h"
#include "signed_part.h"
#include <stdlib.h>
#include <string.h>

#define PAST_MAX_MS (30 * DAY_MS)

static const char *const scheme_words[] = {
    [SCHEME_HMAC_SHA256] = "hmac-sha256",
    [SCHEME_HMAC_SHA1] = "hmac-sha1",
    [SCHEME_HMAC_SHA512] = "hmac-sha512",
    [SCHEME_ED25519] = "ed25519",
    [SCHEME_ECDSA_P256] = "ecdsa-p256-sha256",
    [SCHEME_RSA_SHA256] = "rsa-sha256",
    [SCHEME_SHARED_TOKEN] = "shared-token",
    NULL};

const char *settings_scheme_name(enum scheme scheme)
{
    return scheme_words[scheme];
}

static const char *const encoding_words[] = {
    [ENCODING_HEX] = "hex", [ENCODING_BASE64] = "base64", NULL};
static const char *const key_words[] = {
    [KEY_RAW] = "raw",   [KEY_BASE64] = "base64",
    [KEY_HEX] = "hex",   [KEY_WHSEC] = "whsec",
    [KEY_WHPK] = "whpk", [KEY_SPKI] = "spki",
    [KEY_PEM] = "pem",   NULL};
static const char *const unit_words[] = {
    [UNIT_S] = "s", [UNIT_MS] = "ms", [UNIT_RFC3339] = "rfc3339", NULL};
static const char *const empty_body_words[] = {"allowed", "refused", NULL};
static const char *const handshake_words[] = {
    [HANDSHAKE_NONE] = "none",
    [HANDSHAKE_ECHO] = "echo",
    [HANDSHAKE_HMAC_TOKEN] = "hmac-token",
    [HANDSHAKE_PING_PONG] = "ping-pong",
    [HANDSHAKE_HEAD] = "head",
    NULL};

/* ---- form: as in `kv:,;t;v1` ---- */

static void fini_form(const struct conf_key *k, void *target)
{
    struct form *f = target;

    (void)k;
    free(f->prefix);
    free(f->ts_key);
    free(f->sig_key);
    *f = (struct form){0};
}

static char *rest_or_null(const char *text)
{
    return *text ? gr_strdup(text) : NULL;
}

/* Parses "kv", or "kv:<separator>;<key of the time>;<key of the signature>". */
static bool parse_kv(const char *text, struct form *f)
{
    const char *keys, *second;

    f->kind = FORM_KV;
    if (!*text)
        text = ":,;t;v1";
    if (text[0] != ':' || !text[1] || text[2] != ';')
        return false;
    f->separator = text[1];
    keys = text + 3;
    second = strchr(keys, ';');
    if (!second || second == keys || !second[1] || strchr(second + 1, ';'))
        return false;
    f->ts_key = gr_strndup(keys, (size_t)(second - keys));
    f->sig_key = gr_strdup(second + 1);
    return true;
}

/* Parses "list", or "list:<separator>;<prefix of an item>". */
static bool parse_list(const char *text, struct form *f)
{
    f->kind = FORM_LIST;
    if (!*text)
        text = ":,;";
    if (text[0] != ':' || !text[1] || text[2] != ';')
        return false;
    f->separator = text[1];
    f->prefix = rest_or_null(text + 3);
    return true;
}

static bool parse_form(const char *text, struct form *f)
{
    if (strncmp(text, "kv", 2) == 0)
        return parse_kv(text + 2, f);
    if (strncmp(text, "list", 4) == 0)
        return parse_list(text + 4, f);
    if (strncmp(text, "prefix:", 7) == 0)
        f->prefix = rest_or_null(text + 7);
    return strcmp(text, "plain") == 0 || f->prefix;
}

static void read_form(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char *text = conf_string(v);

    if (text && !parse_form(text, target)) {
        conf_error(v,
                   "\"%.60s\" is not a form; write plain, prefix:TEXT, "
                   "list:<separator>;<prefix>, or kv:<separator>;<time's "
                   "key>;<signature's key>",
                   text);
        fini_form(k, target);
    }
    free(text);
}

static void print_form(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct form *f = target;
    const char *prefix = f->prefix ? f->prefix : "";
    char *text = f->kind == FORM_KV ? gr_printf("kv:%c;%s;%s", f->separator,
                                                f->ts_key, f->sig_key)
                 : f->kind == FORM_LIST
                     ? gr_printf("list:%c;%s", f->separator, prefix)
                     : gr_printf(f->prefix ? "prefix:%s" : "plain%s", prefix);

    (void)k, (void)indent;
    buf_puts(out, " ");
    conf_put_text(out, text);
    buf_puts(out, "\n");
    free(text);
}

static const struct conf_type conf_as_form = {
    .name = "`plain`, `prefix:TEXT`, `list:<separator>;<prefix>` or "
            "`kv:<separator>;<time's key>;<signature's key>`",
    .read = read_form,
    .print = print_form,
    .fini = fini_form,
};

/* ---- a duration, or `none` ---- */

static void read_tolerance(const struct conf_value *v, const struct conf_key *k,
                           void *target)
{
    if (conf_says(v, "none"))
        *(int64_t *)target = TOLERANCE_NONE;
    else
        conf_as_duration.read(v, k, target);
}

static void print_tolerance(struct buf *out, const struct conf_key *k,
                            const void *target, int indent)
{
    if (*(const int64_t *)target == TOLERANCE_NONE)
        buf_puts(out, " none\n");
    else
        conf_as_duration.print(out, k, target, indent);
}

static bool unset_tolerance(const struct conf_key *k, const void *target)
{
    (void)k;
    return *(const int64_t *)target == 0;
}

const struct conf_type conf_as_tolerance = {
    .name = "duration, or `none`",
    .read = read_tolerance,
    .print = print_tolerance,
    .unset = unset_tolerance,
};

/* ---- sections that are there when something in them is ---- */

static void read_map(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    conf_as_map.read(v, k, target);
}

static void print_map(struct buf *out, const struct conf_key *k,
                      const void *target, int indent)
{
    conf_as_map.print(out, k, target, indent);
}

static void fini_map(const struct conf_key *k, void *target)
{
    conf_as_map.fini(k, target);
}

static bool unset_time(const struct conf_key *k, const void *target)
{
    const struct verify *v = target;

    (void)k;
    return v->time.kind == EXPR_NONE && v->time_unit == UNIT_S && !v->past_ms &&
           !v->future_ms;
}

static bool unset_verify(const struct conf_key *k, const void *target)
{
    (void)k;
    return verify_unset(target);
}

static const struct conf_type conf_as_time = {
    .name = "section",
    .read = read_map,
    .print = print_map,
    .unset = unset_time,
    .fini = fini_map,
};

const struct conf_type conf_as_verify = {
    .name = "section",
    .read = read_map,
    .print = print_map,
    .unset = unset_verify,
    .fini = fini_map,
};

/* ---- the sections ---- */

static const struct conf_key time_keys[] = {
    KEY(expr, verify, time, "from", NULL,
        "where the signed time is; not with `form: kv`, which contains it"),
    KEY(choice, verify, time_unit, "unit", "s",
        "seconds or milliseconds since 1970, or a text such as "
        "`2026-11-22T10:30:00Z` (`rfc3339`)",
        .choices = unit_words),
    KEY(tolerance, verify, past_ms, "past", NULL,
        "how old the time may be; default: `clock_skew`. `past` and `future` "
        "together must be less than `dedupe.ttl`, so that a repeated request "
        "is either too old or a duplicate",
        .min = 1000, .max = PAST_MAX_MS),
    KEY(tolerance, verify, future_ms, "future", NULL,
        "how far the time may be ahead of this machine's clock; default: "
        "`clock_skew`",
        .min = 1000, .max = DAY_MS),
    {0},
};

static const struct conf_section time_section = {
    .name = "time",
    .keys = time_keys,
};

static bool can_be_first(const struct expr *e)
{
    for (; e; e = e->other)
        if (e->kind != EXPR_HEADER && e->kind != EXPR_JSON &&
            e->kind != EXPR_FORM && e->kind != EXPR_QUERY)
            return false;
    return true;
}

static void check_place(const struct conf_value *v, const char *key,
                        const struct expr *e)
{
    if (e->kind != EXPR_NONE && !can_be_first(e))
        conf_error_key(v, key,
                       "must be a header:, json:, form: or query: expression");
}

static void check_verify(const struct conf_value *v, void *target)
{
    const struct verify *y = target;
    bool signature = y->signature.kind != EXPR_NONE;

    if (!y->headers.count && !signature && !conf_has(v, "header") &&
        !conf_has(v, "signature"))
        conf_error_key(
            v, "header",
            "is missing: name the header with the signature, or set signature");
    if (y->headers.count && signature)
        conf_error_key(v, "signature",
                       "is set in addition to header: remove one of them");
    if (signature_signs(y->signed_content, "ts") && !conf_has(v, "time") &&
        y->form.kind != FORM_KV)
        conf_error_key(v, "signed",
                       "has {ts}: set time.from to the field with the time");
    if (conf_has(v, "time") && y->time.kind == EXPR_NONE &&
        y->form.kind != FORM_KV)
        conf_error_key(v, "time",
                       "is incomplete: set from to the field with the time");
    if (signature_signs(y->signed_content, "token") && !conf_has(v, "token"))
        conf_error_key(v, "signed",
                       "has {token}: set token to the field with the token");
    check_place(v, "time", &y->time);
    check_place(v, "signature", &y->signature);
    check_place(v, "id", &y->id);
    check_place(v, "token", &y->token);
    check_place(v, "body_digest", &y->body_digest);
}

static const struct conf_key verify_keys[] = {
    KEY(choice, verify, scheme, "scheme", "hmac-sha256",
        "the algorithm. With `shared-token`, requests are not signed and "
        "contain the secret itself. Grapnel stores and shows it as `…`, so no "
        "other field can be read from the same place",
        .choices = scheme_words),
    KEY(strings, verify, headers, "header", NULL,
        "the header with the signature; of several, the first that the "
        "request has",
        .check = wrong_header_token, .flags = CONF_FILLED,
        .form = "name, or list of names"),
    KEY(expr, verify, signature, "signature", NULL,
        "where the signature is when it is not in a header, such as "
        "`json:/signature`"),
    KEY(form, verify, form, "form", "plain",
        "the form of the header: one signature, a list of signatures, or "
        "pairs of key and value"),
    KEY(string, verify, prefix, "prefix", "\"\"",
        "text before the signature, such as `sha256=`", .check = wrong_line,
        .flags = CONF_EMPTY_OK),
    KEY(choice, verify, encoding, "encoding", "hex",
        "the encoding of the signature", .choices = encoding_words),
    KEY(choice, verify, secret_encoding, "secret_encoding", "raw",
        "the encoding of the secret: the key itself (`raw`), base64 or hex of "
        "it, base64 after `whsec_` or `whpk_`, base64 of a "
        "SubjectPublicKeyInfo (`spki`), or PEM of a public key or certificate",
        .choices = key_words),
    KEY(string, verify, signed_content, "signed", "\"{body}\"",
        "the text that is signed", .check = wrong_template,
        .form = "string with `{body} {ts} {id} {url} {method} "
                "{sorted_form} {crc32} {webhook_id} {token}`"),
    {.name = "time",
     .type = &conf_as_time,
     .section = &time_section,
     .flags = CONF_OPTIONAL,
     .help = "where `{ts}` is; a request with a time too far off is "
             "refused"},
    KEY(expr, verify, id, "id", NULL,
        "where `{id}` is; default: the source's `id`"),
    KEY(expr, verify, token, "token", NULL, "where `{token}` is"),
    KEY(expr, verify, body_digest, "body_digest", NULL,
        "where the SHA-256 of the body is, when the signature covers only the "
        "digest; when a request has it, `{sorted_form}` is empty"),
    KEY(either, verify, refuses_empty_body, "empty_body", "allowed",
        "`refused`: refuse requests without a body, even when they are signed",
        .choices = empty_body_words),
    KEY(choice, verify, handshake, "handshake", "none",
        "how ingress proves to the provider that the URL is yours: as for "
        "Slack (`echo`), Zoom (`hmac-token`), Discord (`ping-pong`) or "
        "Intercom (`head`)",
        .choices = handshake_words),
    {0},
};

const struct conf_section settings_verify = {
    .name = "verify",
    .help = "How requests are signed; only for `provider: custom`. `grapnel "
            "check --provider NAME` prints a built-in profile in this form.",
    .check = check_verify,
    .keys = verify_keys,
};

/* ---- what a profile brings ---- */

void settings_verify_forget(struct verify *v)
{
    conf_fini(&settings_verify, v);
}

/* ---- of a source ---- */

/* A captured request is accepted for as long as its time is valid, so its idempotency keys
 * must be kept longer than that, counted from its earliest arrival. */
static void check_ages(const struct conf_value *v, const struct source *s)
{
    const struct verify *y = &s->verify;
    int64_t past = y->past_ms ? y->past_ms : s->clock_skew_ms;
    int64_t future = y->future_ms ? y->future_ms : s->clock_skew_ms;
    struct buf text;

    if (!verify_judges_time(y) || s->dedupe.none || !s->dedupe.ttl_ms)
        return;
    if (future != TOLERANCE_NONE && past + future < s->dedupe.ttl_ms)
        return;
    buf_init(&text, 256);
    buf_puts(&text, "keys are remembered for ");
    conf_put_duration(&text, s->dedupe.ttl_ms);
    buf_puts(&text, ", but a signed request is accepted from ");
    if (future == TOLERANCE_NONE)
        buf_puts(&text, "any time");
    else
        conf_put_duration(&text, future);
    buf_puts(&text, " before its time until ");
    conf_put_duration(&text, past);
    buf_puts(&text, " after it, so a copy that is sent after the ttl would be "
                    "delivered again. Set ttl above the sum, or lower "
                    "clock_skew (custom: verify.time.past and future)");
    conf_error_key(v, conf_has(v, "dedupe") ? "dedupe" : "clock_skew", "%s",
                   text.data);
    buf_fini(&text);
}

static void check_needs(const struct conf_value *v, const struct source *s)
{
    const char *text = s->verify.signed_content;
    const struct expr *id = s->verify.id.kind != EXPR_NONE ? &s->verify.id
                                                           : &s->id;

    if (signature_signs(text, "url") && !s->public_url)
        conf_error_key(v, "public_url",
                       "is missing: this provider signs the URL; set it to the "
                       "URL that the provider calls");
    if (signature_signs(text, "webhook_id") && !s->webhook_id)
        conf_error_key(v, "webhook_id", "is missing: this provider signs it");
    if (signature_signs(text, "id") &&
        (id->kind == EXPR_NONE || !can_be_first(id)))
        conf_error_key(v, "id",
                       "is signed, so it must be a header:, json:, form: or "
                       "query: expression");
}

/* A shared token is not stored (mask.h), so an event's field must not be taken from its
 * place: it would be the same for all events. */
static void check_token(const struct conf_value *v, const char *key,
                        const struct verify *verify, const struct expr *e)
{
    for (; e && e->kind != EXPR_NONE; e = e->other) {
        bool header = e->kind == EXPR_HEADER;
        struct bytes name = {e->text, e->text ? strlen(e->text) : 0};

        if ((header && signature_is_in(verify, name)) ||
            (e->kind == EXPR_QUERY && signature_is_field(verify, name)))
            conf_error_key(v, key,
                           "%s:%s may contain the shared token, which is not "
                           "stored: use another field",
                           header ? "header" : "query", e->text);
    }
}

static void check_tokens(const struct conf_value *v, const struct source *s)
{
    const struct {
        const char *key;
        const struct expr *e;
    } fields[] = {{"id", &s->id},
                  {"delivery_id", &s->delivery_id},
                  {"type", &s->type},
                  {"workspace", &s->workspace},
                  {"order", &s->order.sequence},
                  {"order", &s->order.timestamp},
                  {"states", &s->states.object},
                  {"states", &s->states.state}};

    if (s->verify.scheme != SCHEME_SHARED_TOKEN)
        return;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        check_token(v, fields[i].key, &s->verify, fields[i].e);
}

void settings_check_verify(const struct conf_value *v, struct source *s)
{
    const char *why;

    check_needs(v, s);
    check_ages(v, s);
    check_tokens(v, s);
    s->keys = gr_alloc(s->secrets.count * sizeof(struct signature_key *));
    for (size_t i = 0; i < s->secrets.count; i++)
        if (signature_key_new(&s->verify, s->secrets.items[i], &s->keys[i],
                              &why) != GR_OK)
            conf_error_key(v, "secrets", "secret %zu %s", i + 1, why);
}

void settings_forget_keys(struct source *s)
{
    for (size_t i = 0; s->keys && i < s->secrets.count; i++)
        signature_key_free(s->keys[i]);
    free(s->keys);
    s->keys = NULL;
}
