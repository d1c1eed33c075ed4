/* otlp: the queue of spans, and when what is sent. */
#include "otlp.h"
#include "alloc.h"
#include "otlp_encode.h"
#include "otlp_feed.h"
#include "otlp_sender.h"
#include <stdlib.h>

enum {
    QUEUE_MAX = 8192, /* spans that wait, the batch that is sent included */
    BATCH_MAX = 512,
};

struct otlp {
    struct otlp_feed *feed;
    struct otlp_sender *traces, *metrics;
    json_t *queue;
    size_t batch;       /* of the first ones in `queue`, which are sent */
    int64_t points;     /* in the request of metrics that is sent */
    int64_t started_ms; /* wall */
    int64_t traces_due_ms, metrics_due_ms; /* mono */
    double sample;                         /* during otlp_work() */
    struct otlp_counts counts;
};

/* All spans of one item, or none. */
static void take(void *self, const json_t *item, bool is_event,
                 const json_t *facts)
{
    struct otlp *o = self;
    size_t most = is_event ? EVENT_SPANS : ATTEMPT_SPANS_MAX;

    if (!otlp_sampled(facts, o->sample))
        return;
    if (json_array_size(o->queue) + most > QUEUE_MAX)
        o->counts.spans_dropped += (int64_t)most;
    else if (is_event)
        otlp_event_spans(o->queue, item, facts);
    else
        otlp_attempt_spans(o->queue, item, facts);
}

struct otlp *otlp_open(const char *run_dir, int64_t now_ms)
{
    struct otlp *o = gr_alloc(sizeof *o);

    o->feed = otlp_feed_open(run_dir, take, o);
    o->traces = otlp_sender_open("/v1/traces");
    o->metrics = otlp_sender_open("/v1/metrics");
    o->queue = json_array();
    o->started_ms = now_ms;
    return o;
}

void otlp_close(struct otlp *o)
{
    if (!o)
        return;
    otlp_feed_close(o->feed);
    otlp_sender_close(o->traces);
    otlp_sender_close(o->metrics);
    json_decref(o->queue);
    free(o);
}

int otlp_fd(const struct otlp *o)
{
    return otlp_feed_fd(o->feed);
}

const struct otlp_counts *otlp_counts(const struct otlp *o)
{
    return &o->counts;
}

static void drop_batch(struct otlp *o)
{
    json_t *rest = json_array();

    for (size_t i = o->batch; i < json_array_size(o->queue); i++)
        json_array_append(rest, json_array_get(o->queue, i));
    json_decref(o->queue);
    o->queue = rest;
    o->batch = 0;
}

static void work_on_traces(struct otlp *o, const struct settings *s,
                           int64_t mono_ms, int *wait_ms)
{
    size_t queued = json_array_size(o->queue);
    int64_t rejected;
    enum otlp_end end = otlp_sender_run(o->traces, s, mono_ms, wait_ms,
                                        &o->counts.requests_failed, &rejected);

    if (end == OTLP_SENT || end == OTLP_REFUSED) {
        int64_t lost = end == OTLP_REFUSED || rejected > (int64_t)o->batch
                           ? (int64_t)o->batch
                           : rejected;

        o->counts.spans_sent += (int64_t)o->batch - lost;
        o->counts.spans_dropped += lost;
        drop_batch(o);
        queued = json_array_size(o->queue);
        *wait_ms = 0;
    }
    if (end == OTLP_BUSY || !queued)
        return;
    if (queued < BATCH_MAX && o->traces_due_ms > mono_ms) {
        if (o->traces_due_ms - mono_ms < *wait_ms)
            *wait_ms = (int)(o->traces_due_ms - mono_ms);
        return;
    }
    o->batch = queued < BATCH_MAX ? queued : BATCH_MAX;
    o->traces_due_ms = mono_ms + s->telemetry.interval_ms;
    otlp_sender_begin(o->traces, otlp_trace_request(o->queue, o->batch,
                                                    s->telemetry.service));
    *wait_ms = 0;
}

static void work_on_metrics(struct otlp *o, const struct settings *s,
                            struct collector *g, int64_t now_ms,
                            int64_t mono_ms, int *wait_ms)
{
    int64_t rejected;
    enum otlp_end end = otlp_sender_run(o->metrics, s, mono_ms, wait_ms,
                                        &o->counts.requests_failed, &rejected);
    char *body;

    if (end == OTLP_SENT)
        o->counts.points_sent += o->points > rejected ? o->points - rejected
                                                      : 0;
    if (end == OTLP_BUSY)
        return;
    if (o->metrics_due_ms > mono_ms) {
        if (o->metrics_due_ms - mono_ms < *wait_ms)
            *wait_ms = (int)(o->metrics_due_ms - mono_ms);
        return;
    }
    o->metrics_due_ms = mono_ms + s->telemetry.interval_ms;
    body = otlp_metrics_request(g, s->telemetry.service, o->started_ms, now_ms,
                                mono_ms, &o->points);
    if (body) {
        otlp_sender_begin(o->metrics, body);
        *wait_ms = 0;
    }
}

int otlp_work(struct otlp *o, const struct settings *s, struct collector *g,
              int64_t now_ms, int64_t mono_ms)
{
    bool on = s->telemetry.url != NULL, traces = on && s->telemetry.traces;
    int wait_ms = INT32_MAX, feed_ms;

    o->sample = s->telemetry.sample;
    feed_ms = otlp_feed_work(o->feed, traces, mono_ms,
                             &o->counts.spans_dropped);
    if (traces) {
        work_on_traces(o, s, mono_ms, &wait_ms);
    } else {
        otlp_sender_cancel(o->traces);
        json_array_clear(o->queue);
        o->batch = 0;
    }
    if (on && s->telemetry.metrics)
        work_on_metrics(o, s, g, now_ms, mono_ms, &wait_ms);
    else
        otlp_sender_cancel(o->metrics);
    o->counts.spans_waiting = (int64_t)json_array_size(o->queue);
    if (feed_ms >= 0 && feed_ms < wait_ms)
        wait_ms = feed_ms;
    return wait_ms == INT32_MAX ? -1 : wait_ms;
}
