/* waiting: ends requests that wait for deliveries when their clients have gone, or their tokens are
 * no longer valid. */
#include "api_request.h"
#include "clock.h"
#include "commands.h"
#include "loop.h"
#include <string.h>

enum {
    LOOK_EVERY_MS = 1000,
    REPLY_MS = 5000,
};

static bool is_waiting(const struct api_request *r)
{
    return r->waits && !r->responded;
}

/* What it asked is forgotten: a process that is about to reply takes it back. */
static void end(struct api_request *r)
{
    api_forget(r);
    if (r->ready)
        TAILQ_REMOVE(&r->api->ready, r, ready_link);
    r->ready = false;
    r->again_ms = 0;
}

static void end_of_token(struct api_request *r)
{
    end(r);
    api_refuse_token(r);
}

/* One question is enough for all requests of a token. */
static bool is_asked(const struct api_request *r)
{
    const struct api_request *other;

    TAILQ_FOREACH(other, &r->api->all, link)
    if (other->checking && strcmp(other->actor.owner, r->actor.owner) == 0)
        return true;
    return false;
}

static void check_token(struct api_request *r)
{
    const struct string_list *tokens =
        &r->api->daemon->settings->console.tokens;
    json_t *args;

    if (!*r->digest || /* of a link */
        digest_find(tokens, r->digest, &(struct api_actor){.role = 0}) ||
        is_asked(r))
        return;
    if (!r->of_store) { /* a reload removed it */
        end_of_token(r);
        return;
    }
    args = json_pack("{s:s}", "sha256", r->digest);
    r->checking = true;
    r->check.self = r;
    process_client_ask(r->api->processes, &r->check, "sequencer",
                       command_token_check.name, args, NULL, mono_ms(),
                       REPLY_MS, false);
    json_decref(args);
}

/* While the sequencer does not reply, nobody can revoke a token. */
bool waiting_take(struct process_question *q)
{
    struct api_request *r = q->self, *other;
    struct api_actor actor;

    if (q != &r->check)
        return false;
    r->checking = false;
    if (q->end == QUESTION_REPLIED && !token_of_store(q->reply, &actor))
        TAILQ_FOREACH(other, &r->api->all, link)
    if (is_waiting(other) && strcmp(other->actor.owner, r->actor.owner) == 0)
        end_of_token(other);
    process_question_fini(q);
    return true;
}

void waiting_leave(struct api_request *r)
{
    if (r->checking)
        process_client_cancel(r->api->processes, &r->check);
    r->checking = false;
}

int waiting_work(struct api *a)
{
    int64_t now = mono_ms();
    struct api_request *r;
    bool any = false;

    if (now < a->look_ms)
        return (int)(a->look_ms - now);
    a->look_ms = now + LOOK_EVERY_MS;
    TAILQ_FOREACH(r, &a->all, link)
    {
        if (!is_waiting(r))
            continue;
        any = true;
        if (web_client_left(r->web)) {
            end(r);
            api_fail(r, WEB_BUSY, NULL, "the client has gone");
        } else {
            check_token(r);
        }
    }
    return any ? LOOK_EVERY_MS : -1;
}
