/* portal: /api/portal, where the portal's page exchanges the secret of a link for a token, and the ends of tokens.
 *
 * GET has the name, the colour and the origins of those who may embed the page; it needs no token. POST has the
 * secret of a link, and responds with a token; DELETE ends the token of the request. No cookie is read or set. */
#include "portal.h"
#include "api_request.h"
#include "bounds.h"
#include "clock.h"
#include "erasures.h"
#include "json_text.h"
#include "log.h"
#include "operational.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_EVERY_MS = 1000,
    USER_MAX_BYTES = 100,
    SECRET_MAX_BYTES = 512,
};

static const char path[] = "/api/portal";

bool portal_has(const char *asked)
{
    return strcmp(asked, path) == 0;
}

/* ---- links ---- */

static bool is_erased(void *self, const char *workspace)
{
    const struct api *a = self;

    return erasures_has(a->daemon->erasures,
                        (struct bytes){workspace, strlen(workspace)});
}

static bool user_fits(const char *user, char why[200])
{
    bool plain = strlen(user) <= USER_MAX_BYTES;

    for (const char *c = user; *c && plain; c++)
        plain = (unsigned char)*c >= ' ' && *c != 127;
    if (!plain)
        control_fail(why, CONTROL_INVALID,
                     "args.user: at most %d bytes without control characters "
                     "are allowed",
                     USER_MAX_BYTES);
    return plain;
}

/* The same workspaces as tokens may have. */
static bool workspace_fits(struct api *a, const char *workspace, char why[200])
{
    erasures_refresh(a->daemon->erasures);
    if (strlen(workspace) > TOKEN_WORKSPACE_MAX_BYTES)
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: at most %d bytes are allowed",
                     TOKEN_WORKSPACE_MAX_BYTES);
    else if (strchr(workspace, '*'))
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: write the name of one workspace, "
                     "without *");
    else if (strcmp(workspace, OPERATIONAL_WORKSPACE) == 0)
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: %s is the workspace of Grapnel's own "
                     "events about several workspaces: it is for operators",
                     workspace);
    else if (is_erased(a, workspace))
        control_fail(why, CONTROL_REFUSED, "this workspace was erased");
    else
        return true;
    return false;
}

json_t *portal_link(struct api *a, const json_t *args, char why[200])
{
    const char *workspace = json_string_value(
                   json_object_get(args, "workspace")),
               *user = json_string_value(json_object_get(args, "user"));
    const char *of_users = a->daemon->settings->console.portal.url;
    char secret[SECRET_BYTES + 1], *own, *url;
    struct api_actor actor;
    json_t *reply;

    user = user ? user : "";
    if (!workspace_fits(a, workspace, why) || !user_fits(user, why))
        return NULL;
    portal_actor(&actor, workspace, user,
                 json_is_true(json_object_get(args, "read_only")));
    portal_link_make(a->portal, &actor, mono_ms(), secret);
    own = api_own_url(a);
    url = gr_printf("%s/portal#link=%s", of_users ? of_users : own, secret);
    reply = json_pack("{s:s,s:o}", "url", url, "expires_at",
                      json_time(a->daemon->loop.now_ms + PORTAL_LINK_LIFE_MS));
    free(url);
    free(own);
    return reply;
}

/* ---- requests with a token ---- */

bool portal_authorize(struct api_request *r, const char *token)
{
    struct portal_grant *of;

    if (!portal_token_form(token))
        return false;
    of = portal_token_find(r->api->portal, r->digest, mono_ms());
    if (!of && digest_find(&r->api->daemon->settings->console.tokens, r->digest,
                           &r->actor))
        return false;
    erasures_refresh(r->api->daemon->erasures);
    if (!of || is_erased(r->api, of->actor.workspace)) {
        /* Not counted as wrong: nobody guesses it, and the pages of many users may have the address of one proxy
         * when the console starts again. */
        api_refuse_token(r);
        return true;
    }
    r->portal = of;
    r->actor = of->actor;
    *r->digest = 0;
    r->authorized(r);
    return true;
}

/* Its streams end at once. */
static void forget(struct api *a, struct portal_grant *of)
{
    struct api_request *r, *next;

    for (r = TAILQ_FIRST(&a->all); r; r = next) {
        next = TAILQ_NEXT(r, link);
        if (r->portal != of)
            continue;
        r->portal = NULL;
        if (r->responded && r->web->stream_bytes == WEB_STREAM_OPEN)
            web_cut(r->web);
    }
    free(of);
}

int portal_work(struct api *a)
{
    int64_t now = mono_ms();
    struct portal_grant *of;

    if (now >= a->portal_ms) {
        a->portal_ms = now + LOOK_EVERY_MS;
        erasures_refresh(a->daemon->erasures);
        portal_end_workspaces(a->portal, is_erased, a);
    }
    while ((of = portal_tokens_over(a->portal, now)))
        forget(a, of);
    return LOOK_EVERY_MS;
}

/* ---- /api/portal ---- */

static void respond(struct api_request *r, json_t *reply)
{
    char *text = json_dumps(reply, JSON_COMPACT);

    buf_puts(&r->web->text, text);
    buf_puts(&r->web->text, "\n");
    free(text);
    json_decref(reply);
    api_send(r);
}

static void show(struct api_request *r)
{
    const struct settings *s = r->api->daemon->settings;
    json_t *origins = json_array();

    for (size_t i = 0; i < s->console.portal.origins.count; i++)
        json_array_append_new(origins,
                              json_string(s->console.portal.origins.items[i]));
    respond(r, json_pack("{s:s,s:s,s:o,s:s}", "name", s->console.portal.name,
                         "colour", s->console.portal.colour, "origins", origins,
                         "version", GRAPNEL_VERSION));
}

/* {"link": …}. NULL: responds. The caller's. */
static char *read_link(struct api_request *r)
{
    const struct buf *body = &r->web->body;
    json_t *doc = json_loadb(body->data ? body->data : "", body->len,
                             JSON_REJECT_DUPLICATES, NULL);
    const json_t *link = json_object_get(doc, "link");
    bool good = json_object_size(doc) == 1 && json_string_length(link) &&
                json_string_length(link) <= SECRET_MAX_BYTES;
    char *secret = good ? gr_strdup(json_string_value(link)) : NULL;

    json_decref(doc);
    if (!good)
        api_fail(r, WEB_INVALID_BODY, NULL,
                 "send a JSON object with the secret of a link");
    return secret;
}

static void open_portal(struct api_request *r)
{
    char token[PORTAL_TOKEN_BYTES + 1], *secret;
    struct api *a = r->api;
    bool good;

    if (!api_change_is_fine(r) || !(secret = read_link(r)))
        return;
    erasures_refresh(a->daemon->erasures);
    good = portal_link_use(a->portal, secret, mono_ms(), &r->actor) &&
           !is_erased(a, r->actor.workspace);
    free(secret);
    if (!good) {
        api_fail(r, WEB_UNAUTHORIZED, NULL,
                 "this link was used, or it is unknown or has expired: ask "
                 "for a new one");
        return;
    }
    portal_token_make(a->portal, &r->actor, mono_ms(), token);
    log_info(NULL, "the portal is opened", LS("workspace", r->actor.workspace),
             LS("by", r->actor.name), LS("client", r->web->remote));
    respond(r, json_pack("{s:s,s:i,s:s,s:b}", "token", token, "expires_in",
                         PORTAL_TOKEN_LIFE_MS / 1000, "workspace",
                         r->actor.workspace, "read_only",
                         (int)r->actor.read_only));
}

static void leave(struct api_request *r)
{
    if (!r->portal) {
        api_fail(r, WEB_REFUSED, NULL, "this token is not one of the portal");
        return;
    }
    if (!api_change_is_fine(r))
        return;
    portal_token_end(r->api->portal, r->portal);
    respond(r, json_object());
}

void portal_begin(struct api_request *r)
{
    const char *method = r->web->method;

    if (api_is_read(r->web)) {
        show(r);
    } else if (strcmp(method, "POST") == 0) {
        open_portal(r);
    } else if (strcmp(method, "DELETE") == 0) {
        r->authorized = leave;
        api_authorize_bearer(r);
    } else {
        web_add_header(r->web, "Allow", "GET, HEAD, POST, DELETE");
        api_fail(r, WEB_METHOD_NOT_ALLOWED, NULL,
                 "this path accepts GET, HEAD, POST, DELETE");
    }
}
