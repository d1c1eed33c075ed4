/* authorization: who a bearer token belongs to, what that role may do, and how often an address
 * may be wrong. */
#ifndef CONSOLE_AUTHORIZATION_H
#define CONSOLE_AUTHORIZATION_H

#include "bounds.h"
#include "command_spec.h"
#include "string_list.h"

enum {
    TOKEN_DIGEST_BYTES = 64, /* SHA-256 as hexadecimal digits */
    SECRET_BYTES = 64,       /* 256 random bits as hexadecimal digits */
};

/* Who asks. */
struct api_actor {
    char
        name[128]; /* for histories: "token ops", "token 1 of console.tokens" */
    char owner[100]; /* of idempotency keys: the same as long as the token */
    enum role role;
    char workspace[TOKEN_WORKSPACE_MAX_BYTES + 1]; /* of ROLE_WORKSPACE */
    bool read_only; /* of ROLE_WORKSPACE, in the portal */
};

/* The token of an `Authorization` header: "Bearer TOKEN"; NULL: it has another form. */
const char *bearer_token(const char *header);

/* Whether `token` is one of the configuration's; then *index says which. The time that it takes
 * does not depend on the tokens. */
bool token_listed(const struct string_list *tokens, const char *token,
                  size_t *index);

/* The same by the SHA-256 of a token. Fills in its actor. */
bool digest_find(const struct string_list *tokens, const char *digest,
                 struct api_actor *out);
/* The same from the reply to token_check. false: the token cannot be used. */
bool token_of_store(const json_t *reply, struct api_actor *out);
/* Whether the sequencer may have it: "grp_…". */
bool token_is_of_store(const char *token);
/* Draws a secret that nobody can guess. */
void secret_make(char out[SECRET_BYTES + 1]);
/* Its SHA-256, by which the sequencer knows it. */
void token_digest(const void *p, size_t n, char out[TOKEN_DIGEST_BYTES + 1]);

/* What the sequencer said of a token, also that it is unknown, for at most a second, in a table
 * of bounded size. */
struct token_cache;

struct token_cache *token_cache_new(void);
void token_cache_free(struct token_cache *c);
/* `actor` NULL: the token is unknown. */
void token_cache_add(struct token_cache *c, const char *digest,
                     const struct api_actor *actor, int64_t mono_ms);
/* Whether it is there; then *known, and `out` if it is known. */
bool token_cache_get(const struct token_cache *c, const char *digest,
                     int64_t mono_ms, struct api_actor *out, bool *known);

/* Whether it was known when the sequencer was last asked for it, however long ago. Unknown tokens do
 * not displace it. */
bool token_cache_knew(const struct token_cache *c, const char *digest);

/* Wrong tokens of each address, in a table of bounded size. An address is refused for the rest of
 * 10 s, but for known tokens, when it was wrong 20 times in them. Of IPv6, the first 64 bits are the address. */
struct failures;

struct failures *failures_new(void);
void failures_free(struct failures *f);
void failures_add(struct failures *f, const char *remote, int64_t mono_ms);
/* For how many seconds this address is refused; 0: it is not. */
int failures_refuse_s(const struct failures *f, const char *remote,
                      int64_t mono_ms);

#endif
