/* http_request: makes, reuses and frees requests, and counts the memory that they take. */
#include "http_request.h"
#include "http_head.h"
#include "lines.h"
#include "mhd_response.h"
#include <stdlib.h>
#include <string.h>

enum { /* of requests kept for reuse */
       SPARE_MAX_COUNT = 256,
       SPARE_BUF_BYTES = 8 * 1024,
};

void requests_open(struct requests *all)
{
    *all = (struct requests){.bytes = 0};
    TAILQ_INIT(&all->spare);
}

struct request *request_new(struct requests *all)
{
    struct request *r = TAILQ_FIRST(&all->spare);

    if (r) {
        TAILQ_REMOVE(&all->spare, r, link);
        all->spare_count--;
    } else {
        r = gr_alloc(sizeof *r);
        buf_init(&r->query, HEAD_MAX_BYTES);
        buf_init(&r->headers, HEADERS_MAX_BYTES);
        buf_init(&r->body, BODY_MAX_BYTES);
        buf_init(&r->own_body, BODY_MAX_BYTES);
    }
    all->bytes += (int64_t)r->body.cap;
    return r;
}

void request_add_body(struct requests *all, struct request *r,
                      const char *piece, size_t n)
{
    size_t cap = r->body.cap;

    buf_put(&r->body, piece, n);
    all->bytes += (int64_t)(r->body.cap - cap);
}

void request_drop_body(struct requests *all, struct request *r)
{
    all->bytes -= (int64_t)r->body.cap;
    buf_fini(&r->body);
}

static void hold(struct requests *all, struct request *r, size_t bytes)
{
    all->bytes += (int64_t)bytes - (int64_t)r->held_bytes;
    r->held_bytes = bytes;
}

void request_count(struct requests *all, struct request *r)
{
    hold(all, r, r->own_body.cap + lines_bytes(r->lines));
}

void request_copied(struct requests *all, struct request *r)
{
    hold(all, r, r->own_body.len);
    request_drop_body(all, r);
    buf_fini(&r->own_body);
    lines_free(r->lines);
    r->lines = NULL;
}

void request_uncount(struct requests *all, struct request *r)
{
    hold(all, r, 0);
}

static void destroy(struct request *r)
{
    buf_fini(&r->query);
    buf_fini(&r->headers);
    buf_fini(&r->body);
    buf_fini(&r->own_body);
    lines_free(r->lines);
    mhd_response_forget(r);
    free(r);
}

void request_free(struct requests *all, struct request *r)
{
    struct request clean;

    all->bytes -= (int64_t)r->body.cap;
    hold(all, r, 0);
    /* Requests with rarely used or large buffers are freed. */
    if (all->spare_count >= SPARE_MAX_COUNT || r->query.cap ||
        r->own_body.cap || r->lines || r->headers.cap > SPARE_BUF_BYTES ||
        r->body.cap > SPARE_BUF_BYTES) {
        destroy(r);
        return;
    }
    buf_reset(&r->headers);
    buf_reset(&r->body);
    clean = (struct request){.query = r->query,
                             .headers = r->headers,
                             .body = r->body,
                             .own_body = r->own_body,
                             .accepted_response = r->accepted_response};
    memcpy(clean.accepted, r->accepted, sizeof clean.accepted);
    *r = clean;
    TAILQ_INSERT_HEAD(&all->spare, r, link);
    all->spare_count++;
}

void requests_close(struct requests *all)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&all->spare))) {
        TAILQ_REMOVE(&all->spare, r, link);
        destroy(r);
    }
}
