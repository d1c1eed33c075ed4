/* portal_grants: keeps the portal's links and tokens in memory. */
#include "portal_grants.h"
#include "alloc.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "grpp_";

TAILQ_HEAD(grant_list, portal_grant);

struct portal_grants {
    struct grant_list links, tokens, over;
};

struct portal_grants *portal_grants_open(void)
{
    struct portal_grants *g = gr_alloc(sizeof *g);

    TAILQ_INIT(&g->links);
    TAILQ_INIT(&g->tokens);
    TAILQ_INIT(&g->over);
    return g;
}

static void drop(struct grant_list *l, struct portal_grant *of)
{
    TAILQ_REMOVE(l, of, link);
    free(of);
}

void portal_grants_close(struct portal_grants *g)
{
    struct grant_list *all[] = {&g->links, &g->tokens, &g->over};

    for (size_t i = 0; i < COUNT_OF(all); i++)
        while (!TAILQ_EMPTY(all[i]))
            drop(all[i], TAILQ_FIRST(all[i]));
    free(g);
}

void portal_actor(struct api_actor *out, const char *workspace,
                  const char *user, bool read_only)
{
    char *all = gr_printf("%d %zu %s %s", read_only, strlen(workspace),
                          workspace, user),
         digest[TOKEN_DIGEST_BYTES + 1];

    token_digest(all, strlen(all), digest);
    free(all);
    *out = (struct api_actor){.role = ROLE_WORKSPACE, .read_only = read_only};
    snprintf(out->workspace, sizeof out->workspace, "%s", workspace);
    snprintf(out->name, sizeof out->name, "portal%s%s", *user ? " " : "", user);
    snprintf(out->owner, sizeof out->owner, "portal_%s", digest);
}

/* ---- both ---- */

/* The oldest one that has to end before there is another one of this workspace; NULL: none has to. */
static struct portal_grant *in_the_way(struct grant_list *l,
                                       const char *workspace, int max,
                                       int of_workspace_max)
{
    struct portal_grant *of, *oldest = NULL;
    int all = 0, of_workspace = 0;

    TAILQ_FOREACH(of, l, link)
    {
        all++;
        if (strcmp(of->actor.workspace, workspace) != 0)
            continue;
        of_workspace++;
        oldest = oldest ? oldest : of;
    }
    return of_workspace >= of_workspace_max ? oldest
           : all >= max                     ? TAILQ_FIRST(l)
                                            : NULL;
}

static void append(struct grant_list *l, const char *secret,
                   const struct api_actor *actor, int64_t mono_ms)
{
    struct portal_grant *of = gr_alloc(sizeof *of);

    token_digest(secret, strlen(secret), of->digest);
    of->actor = *actor;
    of->made_ms = mono_ms;
    TAILQ_INSERT_TAIL(l, of, link);
}

static struct portal_grant *find(struct grant_list *l, const char *digest)
{
    struct portal_grant *of;

    TAILQ_FOREACH(of, l, link)
    if (CRYPTO_memcmp(of->digest, digest, TOKEN_DIGEST_BYTES) == 0)
        break;
    return of;
}

/* ---- links ---- */

static void drop_old_links(struct portal_grants *g, int64_t mono_ms)
{
    struct portal_grant *of;

    while ((of = TAILQ_FIRST(&g->links)) &&
           mono_ms - of->made_ms >= PORTAL_LINK_LIFE_MS)
        drop(&g->links, of);
}

void portal_link_make(struct portal_grants *g, const struct api_actor *actor,
                      int64_t mono_ms, char secret[SECRET_BYTES + 1])
{
    struct portal_grant *old;

    drop_old_links(g, mono_ms);
    old = in_the_way(&g->links, actor->workspace, PORTAL_LINKS_MAX,
                     PORTAL_LINKS_OF_WORKSPACE_MAX);
    if (old)
        drop(&g->links, old);
    secret_make(secret);
    append(&g->links, secret, actor, mono_ms);
}

bool portal_link_use(struct portal_grants *g, const char *secret,
                     int64_t mono_ms, struct api_actor *out)
{
    char digest[TOKEN_DIGEST_BYTES + 1];
    struct portal_grant *of;

    drop_old_links(g, mono_ms);
    token_digest(secret, strlen(secret), digest);
    of = find(&g->links, digest);
    if (!of)
        return false;
    *out = of->actor;
    drop(&g->links, of);
    return true;
}

/* ---- tokens ---- */

bool portal_token_form(const char *token)
{
    return strncmp(token, prefix, strlen(prefix)) == 0;
}

void portal_token_end(struct portal_grants *g, struct portal_grant *of)
{
    if (of->ended)
        return;
    of->ended = true;
    TAILQ_REMOVE(&g->tokens, of, link);
    TAILQ_INSERT_TAIL(&g->over, of, link);
}

void portal_token_make(struct portal_grants *g, const struct api_actor *actor,
                       int64_t mono_ms, char token[PORTAL_TOKEN_BYTES + 1])
{
    struct portal_grant *old = in_the_way(&g->tokens, actor->workspace,
                                          PORTAL_TOKENS_MAX,
                                          PORTAL_TOKENS_OF_WORKSPACE_MAX);

    if (old)
        portal_token_end(g, old);
    memcpy(token, prefix, strlen(prefix));
    secret_make(token + strlen(prefix));
    append(&g->tokens, token, actor, mono_ms);
}

static bool has_expired(const struct portal_grant *of, int64_t mono_ms)
{
    return mono_ms - of->made_ms >= PORTAL_TOKEN_LIFE_MS;
}

struct portal_grant *portal_token_find(struct portal_grants *g,
                                       const char *digest, int64_t mono_ms)
{
    struct portal_grant *of = find(&g->tokens, digest);

    return of && !has_expired(of, mono_ms) ? of : NULL;
}

void portal_end_workspaces(struct portal_grants *g,
                           bool (*is)(void *self, const char *workspace),
                           void *self)
{
    struct portal_grant *of, *next;

    for (of = TAILQ_FIRST(&g->links); of; of = next) {
        next = TAILQ_NEXT(of, link);
        if (is(self, of->actor.workspace))
            drop(&g->links, of);
    }
    for (of = TAILQ_FIRST(&g->tokens); of; of = next) {
        next = TAILQ_NEXT(of, link);
        if (is(self, of->actor.workspace))
            portal_token_end(g, of);
    }
}

struct portal_grant *portal_tokens_over(struct portal_grants *g,
                                        int64_t mono_ms)
{
    struct portal_grant *of;

    while ((of = TAILQ_FIRST(&g->tokens)) && has_expired(of, mono_ms))
        portal_token_end(g, of);
    of = TAILQ_FIRST(&g->over);
    if (of)
        TAILQ_REMOVE(&g->over, of, link);
    return of;
}
