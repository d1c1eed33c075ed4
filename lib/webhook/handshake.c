/* handshake: recognises the check requests of providers, and writes their responses. */
#include "handshake.h"
#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

static bool is(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value && strcmp(value, text) == 0;
}

static bool echo(const json_t *doc, struct buf *reply)
{
    const char *challenge = json_string_value(
        json_object_get(doc, "challenge"));

    if (!is(doc, "type", "url_verification") || !challenge || !*challenge)
        return false;
    buf_puts(reply, challenge);
    return !reply->failed;
}

static void put_hmac(struct buf *reply, struct bytes key, const char *text)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n = sizeof mac;

    if (!HMAC(EVP_sha256(), key.p, (int)key.n, (const unsigned char *)text,
              strlen(text), mac, &n))
        die(EXIT_UNAVAILABLE, "libcrypto has no HMAC-SHA256");
    for (unsigned i = 0; i < n; i++)
        buf_printf(reply, "%02x", mac[i]);
}

static bool hmac_token(const json_t *doc, struct bytes key, struct buf *reply)
{
    const char *token = json_string_value(
        json_object_get(json_object_get(doc, "payload"), "plainToken"));
    json_t *quoted;
    char *text;

    if (!is(doc, "event", "endpoint.url_validation") || !token || !*token)
        return false;
    quoted = json_string(token);
    text = json_dumps(quoted, JSON_ENCODE_ANY);
    buf_printf(reply, "{\"plainToken\":%s,\"encryptedToken\":\"",
               text ? text : "\"\"");
    put_hmac(reply, key, token);
    buf_puts(reply, "\"}");
    free(text);
    json_decref(quoted);
    return !reply->failed;
}

/* At an interactions URL a ping is type 1, at an events URL type 0; there type 1 is an
 * event. */
static bool ping_pong(const json_t *doc, struct buf *reply)
{
    const json_t *type = json_object_get(doc, "type");

    if (!json_is_integer(type) || json_object_get(doc, "event"))
        return false;
    if (json_integer_value(type) == 1)
        buf_puts(reply, "{\"type\":1}");
    return json_integer_value(type) == 0 || json_integer_value(type) == 1;
}

bool handshake_response(enum handshake_kind kind, struct bytes key,
                        struct bytes body, struct buf *reply,
                        const char **content_type)
{
    bool yes = false;
    json_t *doc;

    if (kind == HANDSHAKE_NONE || kind == HANDSHAKE_HEAD || !body.n ||
        body.n > HANDSHAKE_MAX_BYTES)
        return false;
    doc = json_loadb(body.p, body.n, 0, NULL);
    *content_type = "application/json";
    if (kind == HANDSHAKE_ECHO) {
        *content_type = "text/plain; charset=utf-8";
        yes = echo(doc, reply);
    } else if (kind == HANDSHAKE_HMAC_TOKEN) {
        yes = hmac_token(doc, key, reply);
    } else {
        yes = ping_pong(doc, reply);
    }
    json_decref(doc);
    return yes;
}
