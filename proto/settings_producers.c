/* Producers: their section of grapnel.yaml, and whose token a text is. */
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
            return "has a blank, or a letter that no header can carry";
    return NULL;
}

const struct conf_section settings_producer_section = {
    .name = "producer",
    .help = "One of your own services, that publishes through `POST "
            "/v1/events`. Each is a source of its name. An idempotency key "
            "(`Idempotency-Key`, or `id` in the object) makes a repeat known "
            "for `ingress.archive.keep`: it gets 200 and the first event's id. "
            "The same key with another object gets 422 "
            "`idempotency_key_reused` and the first event's id, in a batch in "
            "its line. Two objects are the same when they differ only in white "
            "space, the order of members, string escapes, or `id`; numbers "
            "are compared as they are written. An ingress process knows only "
            "the keys in its own archive: another object under a key that it "
            "does not know gets 200, and the sequencer refuses it as a dead "
            "letter (`refused:idempotency_key_reused`). `POST "
            "/v1/events/batch` takes up to 10,000 objects, each on a line of "
            "its own, stores them in several commits, and responds after the "
            "last with what became of each line: 200 when all are stored, 207 "
            "when some are, 400 when none is good. Lines whose error is "
            "`unavailable` are not stored for a reason that passes: send them "
            "again after `Retry-After`. A client that gets no response sends "
            "all of them again, so give each an `id`: lines without one are "
            "new events then.",
    .size = sizeof(struct producer),
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_text,
             AT(producer, name),
             .check = wrong_name,
             .flags = CONF_REQUIRED,
             .form = "name",
             .help = "its name, and that of its source"},
            {.name = "tokens",
             .type = &conf_as_texts,
             AT(producer, tokens),
             .check = wrong_token,
             .flags = CONF_REQUIRED | CONF_SECRET | CONF_FILLED,
             .form = "list of secrets",
             .help = "any of them will do (rotation): `Authorization: Bearer "
                     "…`"},
            {.name = "workspaces",
             .type = &conf_as_texts,
             AT(producer, workspaces),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "those it may name; another is answered with 403. All "
                     "when absent"},
            {.name = "types",
             .type = &conf_as_texts,
             AT(producer, types),
             .check = wrong_line,
             .flags = CONF_FILLED,
             .form = "list of patterns",
             .help = "those it may name, likewise"},
            {.name = "rate_limit",
             .type = &settings_as_rate,
             AT(producer, rate_limit),
             .help = "how many events each ingress takes, in bursts of that "
                     "many at most. A request over the limit gets 429 and "
                     "`Retry-After`; a batch that does not fit is refused as a "
                     "whole, and one of more events than the limit is taken "
                     "only when nothing of it is used up"},
            {0},
        },
};

/* In the token's place: with it a reload still sees that the token changed. */
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

const struct producer *settings_token(const struct settings *s,
                                      struct bytes token)
{
    const struct producer *found = NULL;
    uint8_t given[TOKEN_HASH_BYTES];

    sha256(token, given);
    for (size_t i = 0; i < s->producer_count; i++)
        for (size_t j = 0; j < s->producers[i].tokens.count; j++)
            if (CRYPTO_memcmp(given, s->producers[i].token_hashes[j],
                              sizeof given) == 0)
                found = &s->producers[i];
    return found;
}
