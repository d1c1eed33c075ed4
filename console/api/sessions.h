/* sessions: who is signed in to the console's pages, and the links with which one can sign in once.
 *
 * A session belongs to a token, whose role it has as long as the token is valid: each request asks
 * for the token again. Or it was begun with a link, and has the role of the link. All is in memory: a
 * start of the console ends the sessions, and no backup has them. Of an id, and of the secret of a
 * link, only the SHA-256 is kept.
 *
 * Limits: 256 sessions, 20 of one token, 128 of tokens of workspaces, 16 links. When another begins, the one
 * that was not used for the longest time ends; one of a workspace before all others. A session ends after 2 hours without a request, and after 12 hours. */
#ifndef CONSOLE_SESSIONS_H
#define CONSOLE_SESSIONS_H

#include "authorization.h"
#include <sys/queue.h>

enum {
    SESSIONS_MAX = 256,
    SESSIONS_OF_TOKEN_MAX = 20,
    SESSIONS_OF_TENANTS_MAX = SESSIONS_MAX / 2,
    SESSION_IDLE_MS = 2 * 3600 * 1000,
    SESSION_LIFE_MS = 12 * 3600 * 1000,
    LINKS_MAX = 16,
    LINK_LIFE_MS = 10 * 60 * 1000,
    SESSION_ID_BYTES = SECRET_BYTES,
};

struct session {
    TAILQ_ENTRY(session) link; /* the least recently used first */
    char id_digest[TOKEN_DIGEST_BYTES + 1];
    char csrf[SESSION_ID_BYTES + 1]; /* each change sends it */
    char digest[TOKEN_DIGEST_BYTES +
                1];            /* of its token; "": a link began it … */
    struct api_actor actor;    /* … as this one */
    bool of_store;             /* the sequencer may have the token */
    int64_t begun_ms, used_ms; /* mono */
    bool ended;
};

struct sessions;

struct sessions *sessions_open(void);
void sessions_close(struct sessions *s);

/* Begins a session of a token, or with `digest` "" of a link as `actor`. Its id, which is always a new
 * one, is written to `id`. Ends others, if there are too many: sessions_over() has them. */
struct session *sessions_begin(struct sessions *s, const char *digest,
                               bool of_store, const struct api_actor *actor,
                               int64_t mono_ms, char id[SESSION_ID_BYTES + 1]);
/* The session with this id, and notes its use; NULL: there is none. */
struct session *sessions_find(struct sessions *s, const char *id,
                              int64_t mono_ms);
/* Ends it, if it has not ended: then sessions_over() has it. */
void sessions_end(struct sessions *s, struct session *of);
/* A session that has ended or expired, for the caller to forget and then to free(); NULL: there are no
 * more. */
struct session *sessions_over(struct sessions *s, int64_t mono_ms);

/* Makes a link: writes its secret. `who` is the name that histories show. */
void sessions_link(struct sessions *s, enum role role, const char *who,
                   int64_t mono_ms, char secret[SESSION_ID_BYTES + 1]);
/* Whether the secret is that of a link, which has then been used; fills in the actor. */
bool sessions_use_link(struct sessions *s, const char *secret, int64_t mono_ms,
                       struct api_actor *out);

/* The value of a cookie in a `Cookie` header that looks like a session's id. false: there is none. */
bool session_cookie(const char *header, const char *name,
                    char out[SESSION_ID_BYTES + 1]);

#endif
