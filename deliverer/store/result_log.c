/* result_log: writes rows of `attempts`, and makes the messages of these rows. */
#include "result_log.h"
#include "deliverer.h"
#include "wire.h"

void result_log_open(struct deliverer *d)
{
    links_own_log(d->daemon.links, SEQUENCER, WIRE_KIND_RESULT);
    buf_init(&d->result, LINK_KEPT_MAX_BYTES);
}

void result_log_close(struct deliverer *d)
{
    buf_fini(&d->result);
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

void result_log_put(struct deliverer *d, struct attempt_row *row)
{
    struct buf *m = &d->result;

    row->n = links_next(d->daemon.links, SEQUENCER);
    store_attempt_put(&d->store, row);
    buf_reset(m);
    put_message(m, row);
    links_put_message(d->daemon.links, SEQUENCER, WIRE_KIND_RESULT,
                      (int64_t)row->n,
                      (struct bytes){m->data, m->failed ? 0 : m->len});
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

    (void)peer;
    (void)n; /* the same as ref */
    (void)kind;
    return store_attempt_get(&d->store, (uint64_t)ref, put_message, out);
}
