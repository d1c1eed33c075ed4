/* sign_in: /api/session, with which the console's pages sign in, and the cookie of a session.
 *
 * POST has a token or the secret of a link, and sets the cookie; GET says who is signed in, and what each
 * change has to send as Grapnel-Csrf; DELETE signs out. For the pages only: programs send the token. */
#include "sign_in.h"
#include "api_request.h"
#include "clock.h"
#include "json_text.h"
#include "log.h"
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    LOOK_EVERY_MS = 5 * 1000,
    SECRET_MAX_BYTES = 512,
    COOKIE_NAME_BYTES = 40,
};

static const char path[] = "/api/session";

bool sign_in_has(const char *asked)
{
    return strcmp(asked, path) == 0;
}

/* ---- the cookie ---- */

/* The browser tells the scheme that it sees, also behind a proxy: in `Origin`. */
static bool is_https(const struct api_request *r)
{
    const char *origin = web_header(r->web, "Origin", &(int){0});

    return r->api->daemon->settings->console.tls.key ||
           (origin && strncasecmp(origin, "https://", 8) == 0);
}

/* With the port, as a browser sends the cookies of one host to all of its ports. A name with __Host- can
 * only be set by this host, over HTTPS. */
static void cookie_name(const struct api *a, bool https,
                        char out[COOKIE_NAME_BYTES])
{
    snprintf(out, COOKIE_NAME_BYTES, "%sgrapnel-%d", https ? "__Host-" : "",
             a->daemon->settings->console.port);
}

static void set_cookie(struct api_request *r, const char *id)
{
    bool https = is_https(r);
    char name[COOKIE_NAME_BYTES], *text;

    cookie_name(r->api, https, name);
    text = gr_printf("%s=%s; Path=/; HttpOnly; SameSite=Strict%s%s", name, id,
                     https ? "; Secure" : "", *id ? "" : "; Max-Age=0");
    web_add_header(r->web, "Set-Cookie", text);
    free(text);
}

static struct session *session_of(const struct api_request *r)
{
    const char *header = web_header(r->web, "Cookie", &(int){0});
    char name[COOKIE_NAME_BYTES], id[SESSION_ID_BYTES + 1];

    cookie_name(r->api, true, name);
    if (session_cookie(header, name, id))
        return sessions_find(r->api->sessions, id, mono_ms());
    if (r->api->daemon->settings->console.tls.key)
        return NULL;
    cookie_name(r->api, false, name);
    return session_cookie(header, name, id)
               ? sessions_find(r->api->sessions, id, mono_ms())
               : NULL;
}

static bool has_csrf(const struct api_request *r, const struct session *s)
{
    int count;
    const char *text = web_header(r->web, "Grapnel-Csrf", &count);

    return count == 1 && strlen(text) == SESSION_ID_BYTES &&
           CRYPTO_memcmp(text, s->csrf, SESSION_ID_BYTES) == 0;
}

enum sign_in_result sign_in_find_session(struct api_request *r)
{
    struct session *s = session_of(r);

    if (!s)
        return SIGN_IN_NO_SESSION;
    if (api_is_cross_site(r->web)) {
        api_fail(r, WEB_CROSS_SITE, NULL,
                 "this request was sent by a page of another site");
        return SIGN_IN_RESPONDED;
    }
    if (!api_is_read(r->web) && !has_csrf(r, s)) {
        api_fail(r, WEB_CSRF, NULL,
                 "the header Grapnel-Csrf is missing or wrong: load the page "
                 "again");
        return SIGN_IN_RESPONDED;
    }
    r->session = s;
    r->of_store = s->of_store;
    r->actor = s->actor;
    memcpy(r->digest, s->digest, sizeof r->digest);
    return SIGN_IN_SESSION;
}

/* ---- the end of a session ---- */

/* Its streams end at once, not with the next look at their tokens. */
static void forget(struct api *a, struct session *s)
{
    struct api_request *r, *next;

    for (r = TAILQ_FIRST(&a->all); r; r = next) {
        next = TAILQ_NEXT(r, link);
        if (r->session != s)
            continue;
        r->session = NULL;
        if (r->responded && r->web->stream_bytes == WEB_STREAM_OPEN)
            web_cut(r->web);
    }
    free(s);
}

int sign_in_work(struct api *a)
{
    int64_t now = mono_ms();
    struct session *s;

    while ((s = sessions_over(a->sessions, now)))
        forget(a, s);
    return LOOK_EVERY_MS;
}

void sign_in_lost(struct api_request *r)
{
    sessions_end(r->api->sessions, r->session);
    set_cookie(r, "");
}

/* ---- requests ---- */

static void respond(struct api_request *r, const struct session *s)
{
    json_t *reply = json_pack(
        "{s:o,s:s,s:o,s:s,s:s}", "name", json_text_of(r->actor.name), "role",
        role_name(r->actor.role), "workspace",
        api_is_tenant(r) ? json_text_of(r->actor.workspace) : json_null(),
        "csrf", s->csrf, "version", GRAPNEL_VERSION);
    char *text = json_dumps(reply, JSON_COMPACT);

    buf_puts(&r->web->text, text);
    buf_puts(&r->web->text, "\n");
    free(text);
    json_decref(reply);
    api_send(r);
}

static void show(struct api_request *r)
{
    if (r->session)
        respond(r, r->session);
    else
        api_fail(r, WEB_REFUSED, NULL, "a token needs no session");
}

static void sign_out(struct api_request *r)
{
    if (r->session) {
        sessions_end(r->api->sessions, r->session);
        set_cookie(r, "");
    }
    buf_puts(&r->web->text, "{}\n");
    api_send(r);
}

/* The session that the browser had ends, so that nobody else goes on with it. */
static void begin(struct api_request *r)
{
    struct session *before = session_of(r), *s;
    char id[SESSION_ID_BYTES + 1];

    if (before)
        sessions_end(r->api->sessions, before);
    s = sessions_begin(r->api->sessions, r->digest, r->of_store, &r->actor,
                       mono_ms(), id);
    set_cookie(r, id);
    log_info(NULL, "a session of the pages begins", LS("by", r->actor.name),
             LS("client", r->web->remote));
    respond(r, s);
}

/* {"token": …} or {"link": …}; *is_link says which. NULL: responds. The caller's. */
static char *read_secret(struct api_request *r, bool *is_link)
{
    const struct buf *body = &r->web->body;
    json_t *doc = json_loadb(body->data ? body->data : "", body->len,
                             JSON_REJECT_DUPLICATES, NULL);
    const json_t *token = json_object_get(doc, "token"),
                 *link = json_object_get(doc, "link"),
                 *of = link ? link : token;
    const char *text = json_string_value(of);
    bool good = json_object_size(doc) == 1 && text && *text &&
                json_string_length(of) <= SECRET_MAX_BYTES;
    char *secret = good ? gr_strdup(text) : NULL;

    *is_link = link != NULL;
    json_decref(doc);
    if (!good)
        api_fail(r, WEB_INVALID_BODY, NULL,
                 "send a JSON object with a token, or with the secret of a "
                 "link");
    return secret;
}

static void sign_in(struct api_request *r)
{
    bool is_link;
    char *secret;

    if (!api_change_is_fine(r))
        return;
    secret = read_secret(r, &is_link);
    if (!secret)
        return;
    r->authorized = begin;
    if (!is_link) {
        token_digest(secret, strlen(secret), r->digest);
        r->of_store = token_is_of_store(secret);
        api_find_actor(r);
    } else if (api_refuse_address(r)) {
        ; /* responded */
    } else if (sessions_use_link(r->api->sessions, secret, mono_ms(),
                                 &r->actor)) {
        begin(r);
    } else {
        api_refuse_wrong(r);
    }
    free(secret);
}

void sign_in_begin(struct api_request *r)
{
    const char *method = r->web->method;

    if (api_is_read(r->web)) {
        r->authorized = show;
        api_authorize(r);
    } else if (strcmp(method, "DELETE") == 0) {
        r->authorized = sign_out;
        api_authorize(r);
    } else if (strcmp(method, "POST") == 0) {
        sign_in(r);
    } else {
        web_add_header(r->web, "Allow", "GET, HEAD, POST, DELETE");
        api_fail(r, WEB_METHOD_NOT_ALLOWED, NULL,
                 "this path accepts GET, HEAD, POST, DELETE");
    }
}

/* ---- links ---- */

char *sign_in_link(struct api *a, enum role role, const char *who)
{
    char secret[SESSION_ID_BYTES + 1], *own = api_own_url(a), *url;

    sessions_link(a->sessions, role, who, mono_ms(), secret);
    url = gr_printf("%s/sign-in#link=%s", own, secret);
    free(own);
    return url;
}
