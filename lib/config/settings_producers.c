/* settings_producers: the section `producers`, and finding the producer of a token. */
#include "named_url.h"
#include "settings_types.h"
#include "sha256.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINGERPRINT_BYTES = 8 };

static const char *wrong_token(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127)
            return "has a space, or a character that a header cannot contain";
    return NULL;
}

static const char *const unknown_types_words[] = {"accept", "refuse", NULL};

static const struct conf_key producer_keys[] = {
    KEY(string, producer, name, "name", NULL,
        "the name; also the name of its source", .check = wrong_name,
        .flags = CONF_REQUIRED, .form = "name"),
    KEY(strings, producer, tokens, "tokens", NULL,
        "bearer tokens (`Authorization: Bearer …`); each of them is valid "
        "(for rotation)",
        .check = wrong_token,
        .flags = CONF_REQUIRED | CONF_SECRET | CONF_FILLED,
        .form = "list of secrets"),
    KEY(strings, producer, workspaces, "workspaces", NULL,
        "the workspaces that it may publish to; another one gets 403. "
        "Default: all",
        .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(strings, producer, types, "types", NULL,
        "the types that it may publish; another one gets 403. Default: all",
        .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(strings, producer, may_name_urls, "may_name_urls", NULL,
        "patterns of URLs, such as `https://*.example.com/hooks/*`: its events "
        "may name a `url` that matches one, and are then sent there "
        "([how](guides/publishing.md#send-to-a-url-of-the-event)). `*` in the "
        "host is any text within the host; a pattern without a port has that "
        "of its scheme, and `:*` is any port. Default: its events may not name "
        "URLs",
        .check = named_url_wrong_pattern, .flags = CONF_FILLED,
        .form = "list of patterns"),
    KEY(boolean, producer, check_schema, "check_schema", "false",
        "`true`: `data` of each event has to fit the JSON Schema that the "
        "catalogue of event types has for its type "
        "([how](EVENT_TYPES.md)); otherwise the request gets 422 "
        "`schema_mismatch`"),
    KEY(either, producer, refuse_unknown_types, "unknown_types", "accept",
        "`refuse`: an event whose type is not in the catalogue gets 422 "
        "`type_unknown`",
        .choices = unknown_types_words),
    KEY(rate, producer, rate_limit, "rate_limit", NULL,
        "how many events each ingress process accepts, with bursts of up to "
        "this many. A request over the limit gets 429 and `Retry-After`. A "
        "batch is accepted or refused as a whole; a batch larger than the "
        "limit is accepted only when the full burst is available"),
    {0},
};

const struct conf_section settings_producer_section = {
    .name = "producer",
    .help =
        "A service of yours that publishes events through `POST /v1/events` "
        "([how](guides/publishing.md)). A producer is also a source of the "
        "same name, to which endpoints can subscribe.\n\nA request with a "
        "known idempotency key (`Idempotency-Key`, or `id` in the object) gets "
        "200 and the first event's id, for as long as `ingress.archive.keep`. "
        "The same key with another object gets 422 `idempotency_key_reused` "
        "and the first event's id; in a batch, the response says so for that "
        "line. Two objects are the same when they differ only in white space, "
        "the order of members, string escapes, or `id`; numbers are compared "
        "as text. Each ingress process knows the keys in its own archive. When "
        "it accepts another object under a key that only another ingress "
        "process knows, the sequencer refuses that event: it becomes a dead "
        "letter with the reason `refused:idempotency_key_reused`.\n\n`POST "
        "/v1/events/batch` accepts up to 10,000 objects, one on each line, "
        "stores them in several commits, and then responds with the result of "
        "each line: status 200 when all were stored, 207 when some were, 400 "
        "when none was valid. A line with the error `unavailable` can succeed "
        "later: send it again after `Retry-After`. When a client gets no "
        "response, it sends the whole batch again; give each object an `id`, "
        "because lines without an `id` become new events.",
    .size = sizeof(struct producer),
    .keys = producer_keys,
};

/* Replaces the token, so that a reload still notices that the token changed. */
static char *fingerprint(const uint8_t hash[TOKEN_HASH_BYTES])
{
    char text[2 * FINGERPRINT_BYTES + 1];

    for (size_t i = 0; i < FINGERPRINT_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    return gr_strdup(text);
}

void settings_hash_tokens(struct producer *producers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct producer *p = &producers[i];

        p->token_hashes = gr_alloc(p->tokens.count * sizeof *p->token_hashes);
        for (size_t j = 0; j < p->tokens.count; j++) {
            char *text = p->tokens.items[j];

            sha256((struct bytes){text, strlen(text)}, p->token_hashes[j]);
            OPENSSL_cleanse(text, strlen(text));
            free(text);
            p->tokens.items[j] = fingerprint(p->token_hashes[j]);
        }
    }
}
