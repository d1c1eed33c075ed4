#include "http_parts.h"
#include <stdio.h>
#include <string.h>

static struct MHD_Response *make(enum answer a, const char *type,
                                 const char *body, size_t n,
                                 enum MHD_ResponseMemoryMode mode)
{
    const struct answer_facts *f = answer_facts(a);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        n, (void *)(uintptr_t)body, mode);
    char seconds[16];

    if (!r)
        return NULL;
    MHD_add_response_header(r, "Content-Type", type);
    if (f->retry_after_s) {
        snprintf(seconds, sizeof seconds, "%d", f->retry_after_s);
        MHD_add_response_header(r, "Retry-After", seconds);
    }
    if (f->closes)
        MHD_add_response_header(r, "Connection", "close");
    if (f->status == 405)
        MHD_add_response_header(r, "Allow",
                                a == ANSWER_ONLY_POST ? "POST" : "GET, HEAD");
    return r;
}

static char *put(char *to, const char *text)
{
    size_t n = strlen(text);

    memcpy(to, text, n);
    return to + n;
}

/* The answer that is given most: no printf. */
static struct MHD_Response *accepted_with(const struct request *r)
{
    char body[128], *end = put(body, "{\"id\":\"");

    end = put(end, r->event_id);
    end = put(end, "\",\"status\":\"accepted\"}");
    return make(ANSWER_ACCEPTED, "application/json", body, (size_t)(end - body),
                MHD_RESPMEM_MUST_COPY);
}

/* One that only this request gets; NULL: the one that all get. */
static struct MHD_Response *own(const struct request *r, enum answer a)
{
    if (r->reply.len)
        return make(a, r->reply_type ? r->reply_type : "application/json",
                    r->reply.data, r->reply.len, MHD_RESPMEM_MUST_COPY);
    return a == ANSWER_ACCEPTED ? accepted_with(r) : NULL;
}

enum MHD_Result responses_say(struct http *h, struct MHD_Connection *c,
                              const struct request *r, enum answer a)
{
    struct MHD_Response *mine = own(r, a);
    struct MHD_Response *response = mine ? mine : h->responses[a];
    enum MHD_Result queued;

    queued = MHD_queue_response(
        c, r->reply_status ? r->reply_status : answer_facts(a)->status,
        response);
    if (mine)
        MHD_destroy_response(mine);
    if (r->visitor && r->visitor->visit != VISIT_CUT)
        visit_move(h, r->visitor, VISIT_ANSWERING);
    return queued;
}

void responses_make(struct http *h)
{
    for (enum answer a = ANSWER_NONE + 1; a < ANSWER_COUNT; a++) {
        const char *body = a == ANSWER_HEALTHY ? "{\"status\":\"ok\"}"
                                               : answer_body(a);

        h->responses[a] = make(a, "application/json", body, strlen(body),
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
