/* reprocess: processes a stored event once more: it was buffered and is released, it was
 * refused and is requeued, or it was suppressed or ignored and an operator overrides
 * that. */
#include "db_sums.h"
#include "intake_context.h"
#include "log.h"
#include "store_search.h"
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>

/* Its row and body as they are kept. */
struct stored_event {
    struct event_row ev;
    struct subject subject;
    bool has_body, damaged;
};

/* false: there is no such event. Its body is read until stored_event_fini(). */
static bool stored_event_init(struct sequencer *q, struct stored_event *a,
                              int64_t n)
{
    *a = (struct stored_event){0};
    if (!store_event(q->store, n, &a->ev))
        return false;
    a->subject.source = a->ev.source;
    a->ev.clock = a->ev.reason = "";
    a->has_body = store_body(q->store, n, &a->subject.headers,
                             &a->subject.body);
    a->damaged = a->has_body && store_body_damaged(q->store);
    if (a->damaged)
        db_damage_found(a->ev.id, db_path(q->d.db), "bodies");
    return true;
}

static void stored_event_fini(struct sequencer *q, struct stored_event *a)
{
    subject_fini(&a->subject);
    store_body_done(q->store);
    event_fini(&a->ev);
}

static void reprocess(struct sequencer *q, const struct stored_event *a,
                      struct intake_context *t)
{
    intake_parse(q, t, a->damaged ? REASON_DAMAGED : NULL);
    intake_decide(q, t);
    intake_finish(q, t);
}

gr_rc intake_reprocess(struct sequencer *q, int64_t n, int64_t generation)
{
    struct stored_event a;
    bool there = stored_event_init(q, &a, n);
    bool was_ignored = there && a.ev.status == EVENT_IGNORED;
    struct intake_context t = {
        .ev = &a.ev, .subject = &a.subject, .generation = generation};

    if (!there || (a.ev.status != EVENT_REFUSED && !was_ignored)) {
        stored_event_fini(q, &a);
        return GR_REFUSE;
    }
    trace_keep_refusal(q, n);
    a.ev.reopened_ms = q->d.loop.now_ms;
    if (a.has_body && was_ignored) {
        t.source = settings_source(q->d.settings, a.ev.source);
        t.forced = t.released = true;
        reprocess(q, &a, &t);
    } else if (a.has_body) {
        intake_take_event(q, &a.ev, &a.subject, generation);
    }
    stored_event_fini(q, &a);
    return GR_OK;
}

/* Who did it, for those who ask later. */
static void note_release(struct sequencer *q, const char *id, const char *who)
{
    char *subject = gr_printf("event %s", id);
    char *what = gr_printf("released by %s", who);

    store_action_add(q->search, q->d.loop.now_ms, subject, what);
    free(subject);
    free(what);
}

gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200])
{
    int64_t n = store_event_n(q->store, wire_text(id));
    struct stored_event a;
    struct intake_context t = {
        .ev = &a.ev, .subject = &a.subject, .released = true};
    gr_rc rc = GR_REFUSE;

    if (!n || !stored_event_init(q, &a, n)) {
        snprintf(why, 200, "no event has the id %.60s", id);
        return GR_REFUSE;
    }
    t.source = settings_source(q->d.settings, a.ev.source);
    if (a.ev.status != EVENT_DUPLICATE) {
        snprintf(why, 200, "%.60s is not a suppressed duplicate", id);
    } else if (!a.has_body) {
        snprintf(why, 200, "the body of %.60s is no longer stored", id);
    } else {
        a.ev.reopened_ms = q->d.loop.now_ms;
        reprocess(q, &a, &t);
        note_release(q, id, who);
        q->metrics[METRIC_LET_THROUGH]++;
        log_info(id, "an operator released this duplicate");
        rc = GR_OK;
    }
    stored_event_fini(q, &a);
    return rc;
}

/* Its source may be gone since: then it goes all the same, it was accepted while
 * there was one. */
static void release(struct sequencer *q, const struct stored_event *a,
                    struct intake_context *t)
{
    intake_parse(q, t, a->damaged ? REASON_DAMAGED : NULL);
    if (a->damaged || (t->source && t->f.refused)) {
        event_move(t->ev, EVENT_REFUSED, t->f.refused);
    } else if (t->source) {
        intake_route(q, t);
    } else {
        routing_route(q, t);
    }
    intake_finish(q, t);
}

/* What it was held for has come, or was given up. */
void intake_release_buffered(struct sequencer *q, int64_t n, int64_t generation,
                             const char *gap)
{
    struct stored_event a;
    struct intake_context t = {
        .ev = &a.ev, .subject = &a.subject, .generation = generation};
    bool there = stored_event_init(q, &a, n);

    if (there && a.ev.status == EVENT_BUFFERED && a.has_body) {
        t.source = settings_source(q->d.settings, a.ev.source);
        a.ev.gap = gap;
        snprintf(t.strings.note, sizeof t.strings.note, "buffered for %lld ms",
                 (long long)(q->d.loop.now_ms - a.ev.taken_ms));
        a.ev.note = t.strings.note;
        release(q, &a, &t);
    } else {
        log_error(there ? a.ev.id : NULL,
                  "a buffered event is missing or has changed", LI("row", n));
    }
    stored_event_fini(q, &a);
}
