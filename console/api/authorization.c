/* authorization: compares tokens, and counts failures. */
#include "authorization.h"
#include "network.h"
#include "sha256.h"
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

enum {
    ADDRESSES_MAX = 1024,
    FAILURES_MAX = 20,
    WINDOW_MS = 10 * 1000,
    TOKENS_MAX = 1024,
    CACHED_MS = 1000,
};

const char *bearer_token(const char *header)
{
    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return NULL;
    header += 7 + strspn(header + 7, " ");
    return *header ? header : NULL;
}

/* Compare with all of them, also after a match: comparing SHA-256 digests takes the same
 * time whatever the tokens are. */
static bool is_listed(const struct string_list *tokens, const char *digest,
                      size_t *index)
{
    char of[TOKEN_DIGEST_BYTES + 1];
    bool found = false;

    for (size_t i = 0; i < tokens->count; i++) {
        token_digest(tokens->items[i], strlen(tokens->items[i]), of);
        if (CRYPTO_memcmp(of, digest, TOKEN_DIGEST_BYTES) == 0) {
            *index = i;
            found = true;
        }
    }
    return found;
}

bool token_listed(const struct string_list *tokens, const char *token,
                  size_t *index)
{
    char digest[TOKEN_DIGEST_BYTES + 1];

    token_digest(token, strlen(token), digest);
    return is_listed(tokens, digest, index);
}

bool digest_find(const struct string_list *tokens, const char *digest,
                 struct api_actor *out)
{
    size_t index;

    if (!is_listed(tokens, digest, &index))
        return false;
    *out = (struct api_actor){.role = ROLE_ADMIN};
    snprintf(out->name, sizeof out->name, "token %zu of console.tokens",
             index + 1);
    snprintf(out->owner, sizeof out->owner, "%s", digest);
    return true;
}

bool token_of_store(const json_t *reply, struct api_actor *out)
{
    const json_t *token = json_object_get(reply, "token");
    const char *id = json_string_value(json_object_get(token, "id")),
               *name = json_string_value(json_object_get(token, "name")),
               *role = json_string_value(json_object_get(token, "role")),
               *workspace = json_string_value(
                   json_object_get(token, "workspace"));

    if (!id || !name || !role)
        return false;
    for (int i = ROLE_WORKSPACE; i <= ROLE_ADMIN; i++) {
        if (strcmp(role, role_name((enum role)i)) != 0)
            continue;
        *out = (struct api_actor){.role = (enum role)i};
        if ((i == ROLE_WORKSPACE) != (workspace && *workspace) ||
            (workspace && strlen(workspace) >= sizeof out->workspace))
            return false;
        snprintf(out->workspace, sizeof out->workspace, "%s",
                 workspace ? workspace : "");
        snprintf(out->name, sizeof out->name, "token %s", name);
        snprintf(out->owner, sizeof out->owner, "%s", id);
        return true;
    }
    return false;
}

bool token_is_of_store(const char *token)
{
    return strncmp(token, "grp_", 4) == 0;
}

void secret_make(char out[SECRET_BYTES + 1])
{
    unsigned char random[SECRET_BYTES / 2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    hex_write(random, sizeof random, out);
    out[SECRET_BYTES] = 0;
}

void token_digest(const void *p, size_t n, char out[TOKEN_DIGEST_BYTES + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256(p, n, digest);
    hex_write(digest, sizeof digest, out);
    out[TOKEN_DIGEST_BYTES] = 0;
}

/* ---- what the sequencer said ---- */

struct cached_token {
    char digest[TOKEN_DIGEST_BYTES + 1]; /* "": the entry is free */
    int64_t at_ms;
    bool known;
    struct api_actor actor;
};

/* A digest has one place, so that finding it costs the same whatever was asked before. */
struct token_cache {
    struct cached_token all[TOKENS_MAX];
};

struct token_cache *token_cache_new(void)
{
    return gr_alloc(sizeof(struct token_cache));
}

void token_cache_free(struct token_cache *c)
{
    free(c);
}

static size_t place_of(const char *digest)
{
    size_t place = 0;

    for (size_t i = 0; i < 8; i++) /* its digits are as good as random */
        place = place * 31 + (unsigned char)digest[i];
    return place % TOKENS_MAX;
}

void token_cache_add(struct token_cache *c, const char *digest,
                     const struct api_actor *actor, int64_t mono_ms)
{
    struct cached_token *t = &c->all[place_of(digest)];

    /* Else who sends wrong tokens could make it forget the right ones. */
    if (!actor && t->known && strcmp(t->digest, digest) != 0)
        return;
    *t = (struct cached_token){.at_ms = mono_ms, .known = actor != NULL};
    memcpy(t->digest, digest, sizeof t->digest);
    if (actor)
        t->actor = *actor;
}

bool token_cache_knew(const struct token_cache *c, const char *digest)
{
    const struct cached_token *t = &c->all[place_of(digest)];

    return t->known && strcmp(t->digest, digest) == 0;
}

bool token_cache_get(const struct token_cache *c, const char *digest,
                     int64_t mono_ms, struct api_actor *out, bool *known)
{
    const struct cached_token *t = &c->all[place_of(digest)];

    if (mono_ms - t->at_ms >= CACHED_MS || strcmp(t->digest, digest) != 0)
        return false;
    *known = t->known;
    if (t->known)
        *out = t->actor;
    return true;
}

/* ---- failures ---- */

struct failed_address {
    uint8_t address[16];
    int64_t since_ms; /* of the first of its failures */
    int count;        /* 0: the entry is free */
};

struct failures {
    struct failed_address all[ADDRESSES_MAX];
};

struct failures *failures_new(void)
{
    return gr_alloc(sizeof(struct failures));
}

void failures_free(struct failures *f)
{
    free(f);
}

static void address_of(uint8_t out[16], const char *remote)
{
    if (!address_parse(out, remote))
        memset(out, 0, 16);
    else if (!address_is_v4(out))
        memset(out + 8, 0, 8);
}

static bool is_recent(const struct failed_address *a, int64_t mono_ms)
{
    return a->count && mono_ms - a->since_ms < WINDOW_MS;
}

void failures_add(struct failures *f, const char *remote, int64_t mono_ms)
{
    struct failed_address *oldest = &f->all[0], *found = NULL;
    uint8_t address[16];

    address_of(address, remote);
    for (size_t i = 0; i < ADDRESSES_MAX && !found; i++) {
        struct failed_address *a = &f->all[i];

        if (is_recent(a, mono_ms) && memcmp(a->address, address, 16) == 0)
            found = a;
        if (oldest->count && (!a->count || a->since_ms < oldest->since_ms))
            oldest = a;
    }
    if (!found) {
        found = oldest;
        *found = (struct failed_address){.since_ms = mono_ms};
        memcpy(found->address, address, 16);
    }
    found->count++;
}

int failures_refuse_s(const struct failures *f, const char *remote,
                      int64_t mono_ms)
{
    uint8_t address[16];

    address_of(address, remote);
    for (size_t i = 0; i < ADDRESSES_MAX; i++) {
        const struct failed_address *a = &f->all[i];

        if (is_recent(a, mono_ms) && a->count >= FAILURES_MAX &&
            memcmp(a->address, address, 16) == 0)
            return (int)((a->since_ms + WINDOW_MS - mono_ms + 999) / 1000);
    }
    return 0;
}
