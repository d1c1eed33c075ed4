/* mhd_response: makes libmicrohttpd's responses and queues them. */
#include "mhd_response.h"
#include "http_request.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct MHD_Response *make(enum response a, int retry_after_s,
                                 const char *type, const char *body, size_t n,
                                 enum MHD_ResponseMemoryMode mode)
{
    const struct response_facts *f = response_facts(a);
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
    if (response_allow(a))
        MHD_add_response_header(r, "Allow", response_allow(a));
    return r;
}

static const char accepted_form[] =
    "{\"id\":\"evt_00000000000000000000000000\",\"status\":\"accepted\"}";
enum { ACCEPTED_ID_AT = sizeof "{\"id\":\"" - 1 };
static_assert(sizeof accepted_form - 1 == ACCEPTED_BYTES,
              "as request.accepted");

/* The most frequent response always has the same length: each request keeps its own object from
 * one use to the next, and only the id in it is written anew. */
static struct MHD_Response *accepted_with(struct request *r)
{
    if (!r->accepted_response) {
        memcpy(r->accepted, accepted_form, ACCEPTED_BYTES);
        r->accepted_response = make(RESPONSE_ACCEPTED, 0, "application/json",
                                    r->accepted, ACCEPTED_BYTES,
                                    MHD_RESPMEM_PERSISTENT);
    }
    memcpy(r->accepted + ACCEPTED_ID_AT, r->event_id, EVENT_ID_BYTES);
    return r->accepted_response;
}

void mhd_response_forget(struct request *r)
{
    if (r->accepted_response)
        MHD_destroy_response(r->accepted_response);
}

enum MHD_Result mhd_response_queue(struct mhd_responses *all,
                                   struct MHD_Connection *c, struct request *r,
                                   enum response a)
{
    struct MHD_Response *own = NULL, *response;
    enum MHD_Result queued;

    if (r->own_body.len)
        own = make(a, r->retry_after_s,
                   r->own_type ? r->own_type : "application/json",
                   r->own_body.data, r->own_body.len, MHD_RESPMEM_MUST_COPY);
    response = own                      ? own
               : a == RESPONSE_ACCEPTED ? accepted_with(r)
                                        : all->of[a];
    queued = MHD_queue_response(
        c, r->own_status ? r->own_status : response_facts(a)->status, response);
    if (own)
        MHD_destroy_response(own);
    return queued;
}

void mhd_responses_open(struct mhd_responses *all)
{
    *all = (struct mhd_responses){.of = {NULL}};
    for (enum response a = RESPONSE_NONE + 1; a < RESPONSE_COUNT; a++) {
        const char *body = a == RESPONSE_HEALTHY ? "{\"status\":\"ok\"}"
                                                 : response_body(a);

        all->of[a] = make(a, 0, "application/json", body, strlen(body),
                          MHD_RESPMEM_PERSISTENT);
        if (!all->of[a])
            die(EXIT_UNAVAILABLE,
                "libmicrohttpd cannot make a response: no memory");
    }
}

void mhd_responses_close(struct mhd_responses *all)
{
    for (int i = 0; i < RESPONSE_COUNT; i++)
        if (all->of[i])
            MHD_destroy_response(all->of[i]);
}
