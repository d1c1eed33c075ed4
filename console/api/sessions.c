/* sessions: keeps sessions and sign-in links in memory. */
#include "sessions.h"
#include "alloc.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sign_in_link {
    char digest[TOKEN_DIGEST_BYTES + 1]; /* of the secret; "": it is free */
    struct api_actor actor;
    int64_t made_ms;
};

struct sessions {
    TAILQ_HEAD(session_list, session) all, over;
    int count;
    struct sign_in_link links[LINKS_MAX];
};

struct sessions *sessions_open(void)
{
    struct sessions *s = gr_alloc(sizeof *s);

    TAILQ_INIT(&s->all);
    TAILQ_INIT(&s->over);
    return s;
}

void sessions_close(struct sessions *s)
{
    struct session *of;

    while ((of = TAILQ_FIRST(&s->all)))
        sessions_end(s, of);
    while ((of = TAILQ_FIRST(&s->over))) {
        TAILQ_REMOVE(&s->over, of, link);
        free(of);
    }
    free(s);
}

static bool same_digest(const char *a, const char *b)
{
    return CRYPTO_memcmp(a, b, TOKEN_DIGEST_BYTES) == 0;
}

/* ---- sessions ---- */

void sessions_end(struct sessions *s, struct session *of)
{
    if (of->ended)
        return;
    of->ended = true;
    TAILQ_REMOVE(&s->all, of, link);
    TAILQ_INSERT_TAIL(&s->over, of, link);
    s->count--;
}

static bool has_expired(const struct session *of, int64_t mono_ms)
{
    return mono_ms - of->used_ms >= SESSION_IDLE_MS ||
           mono_ms - of->begun_ms >= SESSION_LIFE_MS;
}

struct session *sessions_over(struct sessions *s, int64_t mono_ms)
{
    struct session *of, *next;

    for (of = TAILQ_FIRST(&s->all); of; of = next) {
        next = TAILQ_NEXT(of, link);
        if (has_expired(of, mono_ms))
            sessions_end(s, of);
    }
    of = TAILQ_FIRST(&s->over);
    if (of)
        TAILQ_REMOVE(&s->over, of, link);
    return of;
}

/* Tokens of workspaces are given to customers, who must not end the sessions of operators. */
static bool is_tenant(const struct session *of)
{
    return of->actor.role == ROLE_WORKSPACE;
}

static void make_room(struct sessions *s, const char *digest, bool tenant)
{
    struct session *of, *oldest = NULL, *oldest_tenant = NULL;
    int of_token = 0, tenants = 0;

    TAILQ_FOREACH(of, &s->all, link)
    {
        if (is_tenant(of)) {
            tenants++;
            oldest_tenant = oldest_tenant ? oldest_tenant : of;
        }
        if (!*digest || strcmp(of->digest, digest) != 0)
            continue;
        of_token++;
        oldest = oldest ? oldest : of;
    }
    if (of_token >= SESSIONS_OF_TOKEN_MAX)
        sessions_end(s, oldest);
    else if (tenant && tenants >= SESSIONS_OF_TENANTS_MAX)
        sessions_end(s, oldest_tenant);
    else if (s->count >= SESSIONS_MAX)
        sessions_end(s, oldest_tenant ? oldest_tenant : TAILQ_FIRST(&s->all));
}

struct session *sessions_begin(struct sessions *s, const char *digest,
                               bool of_store, const struct api_actor *actor,
                               int64_t mono_ms, char id[SESSION_ID_BYTES + 1])
{
    struct session *of = gr_alloc(sizeof *of);

    make_room(s, digest, actor->role == ROLE_WORKSPACE);
    secret_make(id);
    secret_make(of->csrf);
    token_digest(id, SESSION_ID_BYTES, of->id_digest);
    snprintf(of->digest, sizeof of->digest, "%s", digest);
    of->of_store = of_store;
    of->actor = *actor;
    of->begun_ms = of->used_ms = mono_ms;
    TAILQ_INSERT_TAIL(&s->all, of, link);
    s->count++;
    return of;
}

struct session *sessions_find(struct sessions *s, const char *id,
                              int64_t mono_ms)
{
    char digest[TOKEN_DIGEST_BYTES + 1];
    struct session *of;

    token_digest(id, strlen(id), digest);
    TAILQ_FOREACH(of, &s->all, link)
    if (same_digest(of->id_digest, digest))
        break;
    if (!of || has_expired(of, mono_ms))
        return NULL;
    of->used_ms = mono_ms;
    TAILQ_REMOVE(&s->all, of, link);
    TAILQ_INSERT_TAIL(&s->all, of, link);
    return of;
}

/* ---- links ---- */

static bool is_free(const struct sign_in_link *l, int64_t mono_ms)
{
    return !*l->digest || mono_ms - l->made_ms >= LINK_LIFE_MS;
}

void sessions_link(struct sessions *s, enum role role, const char *who,
                   int64_t mono_ms, char secret[SESSION_ID_BYTES + 1])
{
    struct sign_in_link *l = &s->links[0];

    for (size_t i = 0; i < LINKS_MAX && !is_free(l, mono_ms); i++)
        if (is_free(&s->links[i], mono_ms) || s->links[i].made_ms < l->made_ms)
            l = &s->links[i];
    secret_make(secret);
    *l = (struct sign_in_link){.actor = {.role = role}, .made_ms = mono_ms};
    token_digest(secret, SESSION_ID_BYTES, l->digest);
    snprintf(l->actor.name, sizeof l->actor.name, "%.100s, by link", who);
    /* Of idempotency keys; not a token's, so that nothing else has it. */
    snprintf(l->actor.owner, sizeof l->actor.owner, "link_%s", l->digest);
}

bool sessions_use_link(struct sessions *s, const char *secret, int64_t mono_ms,
                       struct api_actor *out)
{
    char digest[TOKEN_DIGEST_BYTES + 1];

    token_digest(secret, strlen(secret), digest);
    for (size_t i = 0; i < LINKS_MAX; i++) {
        struct sign_in_link *l = &s->links[i];

        if (is_free(l, mono_ms) || !same_digest(l->digest, digest))
            continue;
        *out = l->actor;
        *l->digest = 0;
        return true;
    }
    return false;
}

/* ---- the cookie ---- */

bool session_cookie(const char *header, const char *name,
                    char out[SESSION_ID_BYTES + 1])
{
    size_t n = strlen(name);

    while (header && *header) {
        header += strspn(header, "; \t");
        if (strncmp(header, name, n) == 0 && header[n] == '=' &&
            strspn(header + n + 1, "0123456789abcdef") == SESSION_ID_BYTES &&
            (!header[n + 1 + SESSION_ID_BYTES] ||
             strchr("; \t", header[n + 1 + SESSION_ID_BYTES]))) {
            memcpy(out, header + n + 1, SESSION_ID_BYTES);
            out[SESSION_ID_BYTES] = 0;
            return true;
        }
        header += strcspn(header, ";");
    }
    return false;
}
