/* result_log: writes rows of `attempts`, and makes the messages of these rows. */
#include "result_log.h"
#include "deliverer.h"
#include "wire.h"

/* If one turn has more, the rest are read from their rows. */
enum { MESSAGES_MAX_BYTES = 1024 * 1024 };

void result_log_open(struct deliverer *d)
{
    links_own_log(d->daemon.links, SEQUENCER, WIRE_KIND_RESULT);
    buf_init(&d->result_log.messages, MESSAGES_MAX_BYTES);
}

void result_log_close(struct deliverer *d)
{
    buf_fini(&d->result_log.messages);
}

static void put_message(void *self, const struct attempt_row *row)
{
    struct buf *out = self;
    struct wire_released released = {.grant = row->grant_id};
    struct wire_missing missing = {.grant = row->grant_id,
                                   .endpoint = wire_text(row->endpoint),
                                   .event_id = wire_text(row->event_id),
                                   .task = row->attempts};
    struct wire_result r = {.grant = row->grant_id,
                            .endpoint = wire_text(row->endpoint),
                            .event_id = wire_text(row->event_id),
                            .attempt_id = row->attempt_id,
                            .outcome = (uint64_t)row->outcome,
                            .attempts = row->attempts,
                            .at_ms = row->at_ms,
                            .duration_ms = row->duration_ms,
                            .http_status = (uint64_t)row->http_status,
                            .reason = wire_text(row->reason),
                            .error = wire_text(row->error),
                            .first_ms = row->first_ms,
                            .next_ms = row->next_ms,
                            .sends = (uint64_t)row->sends};

    if (row->outcome == OUTCOME_GRANT_RELEASED) {
        wire_put_released(out, &released);
        return;
    }
    if (row->outcome == OUTCOME_MISSING) {
        wire_put_missing(out, &missing);
        return;
    }
    if (row->outcome !=
        OUTCOME_DELIVERED) /* else the sequencer does not need it */
        r.response = row->response;
    wire_put_result(out, &r);
}

/* Keep the message of a row, so that it need not be read. The kept messages have consecutive
 * numbers, from the first one of this turn. */
static void keep_message(struct deliverer *d, const struct attempt_row *row)
{
    struct result_log *r = &d->result_log;
    size_t before;

    if (r->turn != d->turn) {
        r->turn = d->turn;
        r->first = row->n;
        r->count = 0;
        buf_reset(&r->messages);
    }
    if (r->count == RESULT_LOG_KEPT || row->n != r->first + (uint64_t)r->count)
        return;
    before = r->messages.len;
    put_message(&r->messages, row);
    if (r->messages.failed) {
        r->messages.len = before;
        r->messages.failed = false;
        return;
    }
    r->ends[r->count++] = r->messages.len;
}

void result_log_put(struct deliverer *d, struct attempt_row *row)
{
    row->n = links_next(d->daemon.links, SEQUENCER);
    store_attempt_put(&d->store, row);
    links_put(d->daemon.links, SEQUENCER, WIRE_KIND_RESULT, (int64_t)row->n);
    keep_message(d, row);
}

uint64_t result_log_put_released(struct deliverer *d, uint64_t grant)
{
    struct attempt_row row = {.grant_id = grant,
                              .endpoint = "",
                              .event_id = "",
                              .outcome = OUTCOME_GRANT_RELEASED,
                              .error = "",
                              .reason = "",
                              .at_ms = d->daemon.loop.now_ms};

    result_log_put(d, &row);
    return row.n;
}

void result_log_put_missing(struct deliverer *d, const struct grant *g,
                            const char *event_id, uint64_t task)
{
    struct attempt_row row = {.grant_id = g->id,
                              .endpoint = g->name,
                              .event_id = event_id,
                              .outcome = OUTCOME_MISSING,
                              .error = "",
                              .reason = "",
                              .at_ms = d->daemon.loop.now_ms,
                              .attempts = task};

    result_log_put(d, &row);
}

bool result_log_load(void *self, const char *peer, uint64_t n, int kind,
                     int64_t ref, struct buf *out)
{
    struct deliverer *d = self;
    struct result_log *r = &d->result_log;
    size_t i = (size_t)(n - r->first), begin;

    (void)peer;
    (void)kind;
    if (n < r->first || i >= (size_t)r->count)
        return store_attempt_get(&d->store, ref, put_message, out);
    begin = i ? r->ends[i - 1] : 0;
    buf_put(out, r->messages.data + begin, r->ends[i] - begin);
    return true;
}
