/* portal_grants: the links that open the portal once, and the tokens for which they are exchanged. Each is for one
 * workspace, and maybe only to read.
 *
 * All is in memory: a start of the console ends all of them, and no backup has them. Of a secret only the
 * SHA-256 is kept. A link can be used for 10 minutes, a token for 15.
 *
 * Limits: 4096 links, 64 of one workspace; 2048 tokens, 64 of one workspace. When there is another one, the oldest
 * one ends: of the workspace, so that a customer ends nobody else's, or else of all. */
#ifndef CONSOLE_PORTAL_GRANTS_H
#define CONSOLE_PORTAL_GRANTS_H

#include "authorization.h"
#include <sys/queue.h>

enum {
    PORTAL_LINKS_MAX = 4096,
    PORTAL_LINKS_OF_WORKSPACE_MAX = 64,
    PORTAL_LINK_LIFE_MS = 10 * 60 * 1000,
    PORTAL_TOKENS_MAX = 2048,
    PORTAL_TOKENS_OF_WORKSPACE_MAX = 64,
    PORTAL_TOKEN_LIFE_MS = 15 * 60 * 1000,
    PORTAL_TOKEN_BYTES = 5 + SECRET_BYTES, /* "grpp_" and the digits */
};

/* A link or a token. */
struct portal_grant {
    TAILQ_ENTRY(portal_grant) link; /* the oldest first */
    char digest[TOKEN_DIGEST_BYTES + 1];
    struct api_actor actor;
    int64_t made_ms; /* mono */
    bool ended;      /* of a token */
};

struct portal_grants;

struct portal_grants *portal_grants_open(void);
void portal_grants_close(struct portal_grants *g);

/* Who uses the portal of this workspace; `user` "": nobody has said. Its `owner` is the same for each token of
 * this user, so that a renewed one goes on with pages of lists. */
void portal_actor(struct api_actor *out, const char *workspace,
                  const char *user, bool read_only);
/* Makes a link: writes its secret. */
void portal_link_make(struct portal_grants *g, const struct api_actor *actor,
                      int64_t mono_ms, char secret[SECRET_BYTES + 1]);
/* Whether the secret is that of a link, which has then been used; fills in the actor. */
bool portal_link_use(struct portal_grants *g, const char *secret,
                     int64_t mono_ms, struct api_actor *out);

/* Whether a bearer token looks like one of the portal. */
bool portal_token_form(const char *token);
/* Makes a token and writes it. Ends others, if there are too many: portal_tokens_over() has them. */
void portal_token_make(struct portal_grants *g, const struct api_actor *actor,
                       int64_t mono_ms, char token[PORTAL_TOKEN_BYTES + 1]);
/* By its SHA-256; NULL: there is none. */
struct portal_grant *portal_token_find(struct portal_grants *g,
                                       const char *digest, int64_t mono_ms);
/* Ends it, if it has not ended: then portal_tokens_over() has it. */
void portal_token_end(struct portal_grants *g, struct portal_grant *of);
/* Ends the links and tokens of workspaces for which `is` returns true. */
void portal_end_workspaces(struct portal_grants *g,
                           bool (*is)(void *self, const char *workspace),
                           void *self);
/* A token that has ended or expired, for the caller to forget and then to free(); NULL: there are no more. */
struct portal_grant *portal_tokens_over(struct portal_grants *g,
                                        int64_t mono_ms);

#endif
