#include "bounds.h"
#include "http_parts.h"
#include "lines.h"
#include <stdlib.h>
#include <string.h>

enum {
    BODIES_MAX_BYTES = 64 * 1024 * 1024, /* and one body of max_body */
    /* Requests kept for reuse, with buffers up to this size. */
    SPARE_MAX_COUNT = 256,
    SPARE_BUF_BYTES = 8 * 1024,
};

struct request *request_new(struct http *h)
{
    struct request *r = TAILQ_FIRST(&h->spare);

    if (r) {
        TAILQ_REMOVE(&h->spare, r, link);
        h->spare_count--;
        return r;
    }
    r = gr_alloc(sizeof *r);
    buf_init(&r->query, HEAD_MAX_BYTES);
    buf_init(&r->headers, HEADERS_MAX_BYTES);
    buf_init(&r->body, BODY_MAX_BYTES);
    buf_init(&r->own_body, BODY_MAX_BYTES);
    return r;
}

/* All bodies are counted by their capacity, not by their length. */
static void forget_body(struct http *h, struct request *r)
{
    h->figures.body_bytes -= (int64_t)r->body.cap;
    buf_fini(&r->body);
}

static void hold(struct http *h, struct request *r, size_t bytes)
{
    h->figures.body_bytes += (int64_t)bytes - (int64_t)r->held_bytes;
    r->held_bytes = bytes;
}

void request_hold(struct http *h, struct request *r)
{
    hold(h, r, r->own_body.cap + lines_bytes(r->lines));
}

void request_responded(struct http *h, struct request *r)
{
    hold(h, r, r->own_body.len);
    forget_body(h, r);
    buf_fini(&r->own_body);
    lines_free(r->lines);
    r->lines = NULL;
}

static void destroy(struct request *r)
{
    buf_fini(&r->query);
    buf_fini(&r->headers);
    buf_fini(&r->body);
    buf_fini(&r->own_body);
    lines_free(r->lines);
    responses_forget(r);
    free(r);
}

/* What is rarely used, or is large, is given back. */
static bool worth_keeping(const struct http *h, const struct request *r)
{
    return h->spare_count < SPARE_MAX_COUNT && !r->query.cap &&
           !r->own_body.cap && !r->lines && r->headers.cap <= SPARE_BUF_BYTES &&
           r->body.cap <= SPARE_BUF_BYTES;
}

/* As new, but for what it has to be used again. */
static void wash(struct request *r)
{
    struct request clean = {.query = r->query,
                            .headers = r->headers,
                            .body = r->body,
                            .own_body = r->own_body,
                            .accepted_response = r->accepted_response};

    buf_reset(&clean.headers);
    buf_reset(&clean.body);
    memcpy(clean.accepted, r->accepted, sizeof clean.accepted);
    *r = clean;
}

void request_free(struct http *h, struct request *r)
{
    h->figures.body_bytes -= (int64_t)r->body.cap;
    hold(h, r, 0);
    if (!worth_keeping(h, r)) {
        destroy(r);
        return;
    }
    wash(r);
    TAILQ_INSERT_HEAD(&h->spare, r, link);
    h->spare_count++;
}

void request_part(struct http *h, struct request *r)
{
    if (r->connection)
        r->connection->request = NULL;
    r->connection = NULL;
    r->method = r->path = NULL;
    if (!r->taken) /* else http_respond() will */
        request_free(h, r);
}

void requests_free_spare(struct http *h)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&h->spare))) {
        TAILQ_REMOVE(&h->spare, r, link);
        destroy(r);
    }
}

static void refuse_rest(struct http *h, struct request *r, enum response a)
{
    r->response = a;
    r->swallowed_bytes = r->body.len;
    h->ops.responded(h->self, r, a);
    forget_body(h, r);
}

void request_misframed(struct http *h, struct request *r)
{
    if (r->response)
        r->response = RESPONSE_CHUNKS_MALFORMED;
    else
        refuse_rest(h, r, RESPONSE_CHUNKS_MALFORMED);
}

/* Of those who hold more than their share of the bodies' memory, the one who has
 * kept us waiting longest gives way: for his body, or because he does not read a
 * large response. false: all who do wait for us. */
static bool one_gives_way(struct http *h)
{
    size_t share = (size_t)(BODIES_MAX_BYTES / h->max_connections);
    struct waiter *w;

    TAILQ_FOREACH(w, &h->waiting, link)
    {
        struct connection *conn = connection_waiting(w);
        struct request *r = conn->request;

        if (conn->state == CONNECTION_READING && r && r->body.cap > share) {
            refuse_rest(h, r, RESPONSE_BODIES_FULL);
            return true;
        }
        if (conn->state == CONNECTION_RESPONDING && r &&
            r->held_bytes > share) {
            hold(h, r, 0);
            connection_shut(h, conn);
            return true;
        }
    }
    return false;
}

static bool has_ended(const struct http *h)
{
    return h->figures.body_bytes > BODIES_MAX_BYTES + h->bounds->max_body_bytes;
}

/* Connections that hold large bodies and do not end them, however many, must not
 * keep out those who bring a small one, and end it. */
static void make_space(struct http *h, struct request *r)
{
    while (!r->response && has_ended(h))
        if (!one_gives_way(h))
            refuse_rest(h, r, RESPONSE_BODIES_FULL);
}

bool http_hold(struct http *h, struct request *r)
{
    request_hold(h, r);
    while (has_ended(h))
        if (!one_gives_way(h))
            return false;
    return true;
}

void request_keep(struct http *h, struct request *r, const char *piece,
                  size_t n)
{
    size_t cap = r->body.cap;

    if (r->body.len + n > (size_t)h->bounds->max_body_bytes) {
        refuse_rest(h, r, RESPONSE_BODY_TOO_LARGE);
        return;
    }
    buf_put(&r->body, piece, n);
    h->figures.body_bytes += (int64_t)(r->body.cap - cap);
    make_space(h, r);
}
