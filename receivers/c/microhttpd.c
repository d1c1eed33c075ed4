/* microhttpd.c: responds to Grapnel's requests in a server made with libmicrohttpd. */
#include "internal.h"
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADERS_MAX = 1000, /* the server's memory for a connection has fewer */
    BODY_BEGIN_BYTES = 4096,
};

/* The body of a request while it arrives. */
struct upload {
    bool responded; /* before its body */
    char *data;
    size_t count, capacity, max;
};

static enum MHD_Result respond(struct MHD_Connection *connection,
                               unsigned status, const char *name,
                               const char *value)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result;

    if (!response)
        return MHD_NO; /* closes the connection: Grapnel sends the event again */
    if (name)
        MHD_add_response_header(response, name, value);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse_early(struct MHD_Connection *connection,
                                    struct upload *upload, unsigned status,
                                    const char *name, const char *value)
{
    upload->responded = true;
    return respond(connection, status, name, value);
}

static enum MHD_Result begin(const struct grapnel_microhttpd *endpoint,
                             struct MHD_Connection *connection,
                             const char *method, void **request)
{
    const char *length = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    struct upload *upload = calloc(1, sizeof *upload);
    int64_t bytes;

    if (!upload)
        return MHD_NO;
    *request = upload;
    upload->max = endpoint->body_max_bytes ? endpoint->body_max_bytes : 1 << 20;
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0 &&
        strcmp(method, MHD_HTTP_METHOD_PUT) != 0)
        return refuse_early(connection, upload, MHD_HTTP_METHOD_NOT_ALLOWED,
                            MHD_HTTP_HEADER_ALLOW, "POST, PUT");
    if (length && (!grapnel_number(length, strlen(length), &bytes) ||
                   (uint64_t)bytes > upload->max))
        return refuse_early(connection, upload, MHD_HTTP_CONTENT_TOO_LARGE,
                            NULL, NULL);
    return MHD_YES;
}

/* Memory grows with what has arrived, not with what a client promises. */
static bool append(struct upload *u, const char *data, size_t n)
{
    if (n > u->max - u->count)
        return false;
    if (n > u->capacity - u->count) {
        size_t capacity = u->capacity ? u->capacity : BODY_BEGIN_BYTES;
        char *grown;

        while (capacity - u->count < n)
            capacity = capacity > SIZE_MAX / 2 ? SIZE_MAX : capacity * 2;
        grown = realloc(u->data, capacity);
        if (!grown)
            return false;
        u->data = grown;
        u->capacity = capacity;
    }
    memcpy(u->data + u->count, data, n);
    u->count += n;
    return true;
}

struct headers {
    struct grapnel_header *items;
    size_t count, capacity;
};

static enum MHD_Result add_header(void *arg, enum MHD_ValueKind kind,
                                  const char *name, size_t name_bytes,
                                  const char *value, size_t value_bytes)
{
    struct headers *h = arg;

    (void)kind;
    if (h->count == h->capacity)
        return MHD_NO;
    h->items[h->count++] = (struct grapnel_header){name, name_bytes, value,
                                                   value_bytes};
    return MHD_YES;
}

static enum grapnel_status receive(const struct grapnel_microhttpd *endpoint,
                                   struct MHD_Connection *connection,
                                   const struct upload *u,
                                   struct grapnel_error *error)
{
    struct headers h = {NULL, 0, 0};
    enum grapnel_status status;
    int count = MHD_get_connection_values_n(connection, MHD_HEADER_KIND, NULL,
                                            NULL);

    if (count > HEADERS_MAX)
        return grapnel_say(error, GRAPNEL_REFUSED,
                           "the request has %d headers; the limit is %d", count,
                           HEADERS_MAX);
    h.capacity = count > 0 ? (size_t)count : 0;
    h.items = calloc(h.capacity + 1, sizeof *h.items);
    if (!h.items)
        return grapnel_say_memory(error);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, add_header, &h);
    status = grapnel_receive(endpoint->receiver, h.items, h.count, u->data,
                             u->count, endpoint->handle, endpoint->arg, NULL,
                             error);
    free(h.items);
    return status;
}

static void log_line(const struct grapnel_microhttpd *endpoint,
                     const char *what, const struct grapnel_error *error)
{
    char line[sizeof error->text + 80];

    snprintf(line, sizeof line, "grapnel: %s: %s", what, error->text);
    if (endpoint->log)
        endpoint->log(endpoint->arg, line);
    else
        fprintf(stderr, "%s\n", line);
}

static enum MHD_Result finish(const struct grapnel_microhttpd *endpoint,
                              struct MHD_Connection *connection,
                              const struct upload *u)
{
    struct grapnel_error error = {""};

    switch (receive(endpoint, connection, u, &error)) {
    case GRAPNEL_DONE:
        return respond(connection, MHD_HTTP_NO_CONTENT, NULL, NULL);
    case GRAPNEL_REFUSED:
        log_line(endpoint, "refused a request", &error);
        return respond(connection, MHD_HTTP_UNAUTHORIZED, NULL, NULL);
    case GRAPNEL_BUSY:
        return respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                       MHD_HTTP_HEADER_RETRY_AFTER, "10");
    case GRAPNEL_FAILED:
    case GRAPNEL_INVALID:
        break;
    }
    log_line(endpoint, "an event was not processed; Grapnel sends it again",
             &error);
    return respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, NULL);
}

int grapnel_microhttpd_respond(const struct grapnel_microhttpd *endpoint,
                               struct MHD_Connection *connection,
                               const char *method, const char *upload_data,
                               size_t *upload_data_size, void **request)
{
    struct upload *u = *request;
    size_t n = *upload_data_size;

    if (!u)
        return begin(endpoint, connection, method, request);
    *upload_data_size = 0;
    if (u->responded)
        return MHD_YES;
    if (n)
        return append(u, upload_data, n) ? MHD_YES : MHD_NO;
    return finish(endpoint, connection, u);
}

void grapnel_microhttpd_completed(void **request)
{
    struct upload *u = *request;

    if (u)
        free(u->data);
    free(u);
    *request = NULL;
}
