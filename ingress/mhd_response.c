#include "http_parts.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct MHD_Response *make(enum answer a, int retry_after_s,
                                 const char *type, const char *body, size_t n,
                                 enum MHD_ResponseMemoryMode mode)
{
    const struct answer_facts *f = answer_facts(a);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        n, (void *)(uintptr_t)body, mode);
    char seconds[16];

    if (!r)
        return NULL;
    MHD_add_response_header(r, "Content-Type", type);
    if (!retry_after_s)
        retry_after_s = f->retry_after_s;
    if (retry_after_s) {
        snprintf(seconds, sizeof seconds, "%d", retry_after_s);
        MHD_add_response_header(r, "Retry-After", seconds);
    }
    if (f->closes)
        MHD_add_response_header(r, "Connection", "close");
    if (answer_allow(a))
        MHD_add_response_header(r, "Allow", answer_allow(a));
    return r;
}

static const char accepted_form[] =
    "{\"id\":\"evt_00000000000000000000000000\",\"status\":\"accepted\"}";
enum { ACCEPTED_ID_AT = sizeof "{\"id\":\"" - 1 };
static_assert(sizeof accepted_form - 1 == ACCEPTED_BYTES,
              "as request.accepted");

/* The answer that is given most is always as long: each request keeps its own
 * from one use to the next, and only its id is written anew. */
static struct MHD_Response *accepted_with(struct request *r)
{
    if (!r->accepted_response) {
        memcpy(r->accepted, accepted_form, ACCEPTED_BYTES);
        r->accepted_response = make(ANSWER_ACCEPTED, 0, "application/json",
                                    r->accepted, ACCEPTED_BYTES,
                                    MHD_RESPMEM_PERSISTENT);
    }
    memcpy(r->accepted + ACCEPTED_ID_AT, r->event_id, EVENT_ID_BYTES);
    return r->accepted_response;
}

void responses_forget(struct request *r)
{
    if (r->accepted_response)
        MHD_destroy_response(r->accepted_response);
}

/* One that only this request gets. */
static struct MHD_Response *own(const struct request *r, enum answer a)
{
    return make(a, r->retry_after_s,
                r->reply_type ? r->reply_type : "application/json",
                r->reply.data, r->reply.len, MHD_RESPMEM_MUST_COPY);
}

enum MHD_Result responses_say(struct http *h, struct MHD_Connection *c,
                              struct request *r, enum answer a)
{
    struct MHD_Response *mine = r->reply.len ? own(r, a) : NULL;
    struct MHD_Response *response = mine                   ? mine
                                    : a == ANSWER_ACCEPTED ? accepted_with(r)
                                                           : h->responses[a];
    enum MHD_Result queued;

    queued = MHD_queue_response(
        c, r->reply_status ? r->reply_status : answer_facts(a)->status,
        response);
    if (mine) {
        MHD_destroy_response(mine);
        request_answered(h, r);
    }
    if (r->visitor && r->visitor->visit != VISIT_CUT)
        visit_move(h, r->visitor, VISIT_ANSWERING);
    return queued;
}

void responses_make(struct http *h)
{
    for (enum answer a = ANSWER_NONE + 1; a < ANSWER_COUNT; a++) {
        const char *body = a == ANSWER_HEALTHY ? "{\"status\":\"ok\"}"
                                               : answer_body(a);

        h->responses[a] = make(a, 0, "application/json", body, strlen(body),
                               MHD_RESPMEM_PERSISTENT);
        if (!h->responses[a])
            die(EXIT_UNAVAILABLE, "libmicrohttpd makes no response");
    }
}

void responses_free(struct http *h)
{
    for (int i = 0; i < ANSWER_COUNT; i++)
        if (h->responses[i])
            MHD_destroy_response(h->responses[i]);
}
