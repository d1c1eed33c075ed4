/* delivery_trace: reads attempts and waiting tasks of an event as JSON. */
#include "delivery_trace.h"
#include "deliverer.h"
#include "headers.h"
#include "json_text.h"
#include "outcome.h"
#include "sent.h"
#include "trace_context.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct delivery_trace {
    struct deliverer *d;
    json_t *attempts, *waiting;
};

/* In milliseconds, as people compare them. */
static json_t *ms(int64_t us)
{
    return us > 0 ? json_real((double)us / 1000) : json_null();
}

json_t *delivery_trace_timings(const struct timings *t)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "dns_ms", ms(t->dns_us),
                     "connect_ms", ms(t->connect_us), "tls_ms", ms(t->tls_us),
                     "first_byte_ms", ms(t->first_byte_us), "total_ms",
                     ms(t->total_us));
}

/* Header lines without the values of Set-Cookie and the like: they are the endpoint's secrets. */
static json_t *masked_lines(struct bytes headers)
{
    const char *at = headers.p, *end = at + headers.n;
    struct buf out;
    json_t *text;

    buf_init(&out, headers.n * 4 + 16); /* ":\n" becomes ": …\r\n" */
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line_end ? line_end + 1 : end) - at);
        const char *colon = memchr(at, ':', n);
        size_t name = colon ? (size_t)(colon - at) : 0;

        if (colon && headers_secret((struct bytes){at, name})) {
            buf_put(&out, at, name);
            buf_puts(&out, ": …\r\n");
        } else {
            buf_put(&out, at, n);
        }
        at += n;
    }
    text = json_text((struct bytes){out.data, out.len});
    buf_fini(&out);
    return text;
}

json_t *delivery_trace_response(struct bytes headers, struct bytes body,
                                int http_version)
{
    const char *version = http_version == CURL_HTTP_VERSION_2_0   ? "2"
                          : http_version == CURL_HTTP_VERSION_1_1 ? "1.1"
                          : http_version == CURL_HTTP_VERSION_1_0 ? "1.0"
                                                                  : NULL;

    if (!headers.n)
        return json_null();
    return json_pack("{s:o,s:o,s:o}", "http_version", json_text_of(version),
                     "headers", masked_lines(headers), "body", json_text(body));
}

static void add_attempt(void *self, const struct attempt_row *row)
{
    struct delivery_trace *t = self;
    char span[SPAN_ID_CHARS + 1];

    if (!row->attempt_id)
        return; /* no request was made */
    trace_attempt_span(span, wire_text(row->event_id), wire_text(row->endpoint),
                       row->attempts);
    json_array_append_new(
        t->attempts,
        json_pack("{s:o,s:I,s:o,s:o,s:o,s:I,s:s,s:o,s:o,s:s,s:i,s:o,s:o,s:o,"
                  "s:s}",
                  "endpoint", json_text_of(row->endpoint), "n",
                  (json_int_t)row->attempts, "at", json_time(row->at_ms),
                  "http_status", json_number_or_null(row->http_status), "error",
                  json_text_or_null(row->error), "duration_ms",
                  (json_int_t)row->duration_ms, "outcome",
                  outcome_name(row->outcome), "reason",
                  json_text_or_null(row->reason), "next_attempt_at",
                  json_time(row->next_ms), "deliverer", t->d->daemon.name,
                  "sends", row->sends, "request",
                  sent_json(row, row->request.n
                                     ? row->request
                                     : templates_find(t->d, row->template)),
                  "timings", delivery_trace_timings(&row->timings), "response",
                  delivery_trace_response(row->headers, row->response,
                                          row->http_version),
                  "span_id", span));
}

static void put_waiting(struct delivery_trace *t, const struct grant *g,
                        const char *state, uint64_t attempts, int64_t next_ms)
{
    json_array_append_new(
        t->waiting,
        json_pack("{s:o,s:s,s:I,s:o,s:s,s:s}", "endpoint",
                  json_text_of(g->name), "state", state, "attempts",
                  (json_int_t)attempts, "next_attempt_at", json_time(next_ms),
                  "deliverer", t->d->daemon.name, "circuit",
                  breaker_state_name(g->endpoint.throttle.breaker.state)));
}

static void add_row(void *self, const struct task_row *row)
{
    struct delivery_trace *t = self;
    struct grant *g = own_grants_find(t->d, row->grant_id);

    /* The rows of a grant that is not OPEN will be purged. */
    if (!g || g->state != GRANT_OPEN ||
        tasks_find(&t->d->tasks, g, row->event_id))
        return;
    if (row->next_ms == TASK_TAKEN_MS)
        put_waiting(t, g, "in_flight", row->attempts, 0);
    else
        put_waiting(t, g, row->retrying ? "retrying" : "queued", row->attempts,
                    row->next_ms);
}

json_t *delivery_trace_event(void *self, json_t *args, char why[200])
{
    const char *id = json_string_value(json_object_get(args, "id"));
    const char *endpoint = json_string_value(json_object_get(args, "endpoint"));
    struct delivery_trace t = {.d = self};
    struct task *task;

    (void)why;
    t.attempts = json_array();
    t.waiting = json_array();
    store_attempts_of_event(&t.d->store, id, endpoint ? endpoint : "",
                            json_integer_value(json_object_get(args, "n")),
                            json_integer_value(json_object_get(args, "newest")),
                            add_attempt, &t);
    store_tasks_of_event(&t.d->store, id, add_row, &t);
    LIST_FOREACH(task, &t.d->tasks.all, link)
    if (strcmp(task->event_id, id) == 0)
        put_waiting(&t, task->grant,
                    task->state == TASK_WAITING ? "queued" : "in_flight",
                    task->attempts, task->next_ms);
    return json_pack("{s:s,s:o,s:o}", "id", id, "attempts", t.attempts,
                     "waiting", t.waiting);
}

/* ---- recent attempts ---- */

enum { RECENT_MAX = 250 };

static void add_recent(void *self, const struct attempt_row *row)
{
    if (!row->attempt_id)
        return; /* no request was made */
    json_array_insert_new(
        self, 0, /* they come newest first */
        json_pack("{s:s,s:o,s:I,s:o,s:o,s:o,s:I,s:s,s:o,s:o}", "event_id",
                  row->event_id, "endpoint", json_text_of(row->endpoint), "n",
                  (json_int_t)row->attempts, "at", json_time(row->at_ms),
                  "http_status", json_number_or_null(row->http_status), "error",
                  json_text_or_null(row->error), "duration_ms",
                  (json_int_t)row->duration_ms, "outcome",
                  outcome_name(row->outcome), "reason",
                  json_text_or_null(row->reason), "next_attempt_at",
                  json_time(row->next_ms)));
}

json_t *delivery_trace_recent(void *self, json_t *args, char why[200])
{
    struct deliverer *d = self;
    const char *after = json_string_value(json_object_get(args, "after"));
    int64_t from = after ? strtoll(after, NULL, 10) : INT64_MAX,
            last = store_attempt_last(&d->store);
    bool skipped = from < last - RECENT_MAX;
    json_t *list = json_array();
    char text[24];

    (void)why;
    if (from < last)
        store_attempts_after(&d->store, skipped ? last - RECENT_MAX : from,
                             add_recent, list);
    snprintf(text, sizeof text, "%" PRId64, last);
    return json_pack("{s:o,s:s,s:b}", "attempts", list, "last", text, "skipped",
                     (int)skipped);
}
