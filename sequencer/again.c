/* again: an event that is here already is looked at once more: it was held back
 * and may go, was refused and is requeued, was suppressed or ignored and a
 * person says otherwise. */
#include "db_sums.h"
#include "log.h"
#include "store_search.h"
#include "taking.h"
#include <stdio.h>
#include <stdlib.h>

/* Its row and body as they are kept. The strings are its own. */
struct again {
    struct event_row ev;
    struct subject subject;
    char *texts[9];
    size_t text_count;
    bool has_body, damaged;
};

static const char *keep(struct again *a, const char *text)
{
    a->texts[a->text_count] = gr_strdup(text ? text : "");
    return a->texts[a->text_count++];
}

/* false: there is no such event. Its body is read until again_fini(). */
static bool again_init(struct sequencer *q, struct again *a, int64_t n)
{
    struct event_row row;

    *a = (struct again){0};
    if (!store_event(q->store, n, &row)) {
        store_done(q->store);
        return false;
    }
    a->ev = row;
    a->ev.id = keep(a, row.id);
    a->ev.source = a->subject.source = keep(a, row.source);
    a->ev.provider_id = keep(a, row.provider_id);
    a->ev.delivery_id = keep(a, row.delivery_id);
    a->ev.type = keep(a, row.type);
    a->ev.workspace = keep(a, row.workspace);
    a->ev.gap = keep(a, row.gap);
    a->ev.note = keep(a, row.note);
    a->ev.duplicate_of = keep(a, row.duplicate_of);
    a->ev.clock = a->ev.reason = "";
    store_done(q->store);
    a->has_body = store_body(q->store, n, &a->subject.headers,
                             &a->subject.body);
    a->damaged = a->has_body && store_body_damaged(q->store);
    if (a->damaged)
        db_damage_found(a->ev.id, db_path(q->d.db), "bodies");
    return true;
}

static void again_fini(struct sequencer *q, struct again *a)
{
    subject_fini(&a->subject);
    store_body_done(q->store);
    for (size_t i = 0; i < a->text_count; i++)
        free(a->texts[i]);
}

static void again(struct sequencer *q, const struct again *a, struct taking *t)
{
    taking_find(q, t, a->damaged ? REASON_DAMAGED : NULL);
    taking_decide(q, t);
    taking_end(q, t);
}

gr_rc intake_again(struct sequencer *q, int64_t n, int64_t life)
{
    struct again a;
    bool there = again_init(q, &a, n);
    bool was_ignored = there && a.ev.status == EVENT_IGNORED;
    struct taking t = {.ev = &a.ev, .subject = &a.subject, .life = life};

    if (!there || (a.ev.status != EVENT_REFUSED && !was_ignored)) {
        again_fini(q, &a);
        return GR_REFUSE;
    }
    trace_keep_refusal(q, n);
    a.ev.reopened_ms = q->d.loop.now_ms;
    if (a.has_body && was_ignored) {
        t.source = settings_source(q->d.settings, a.ev.source);
        t.forced = t.released = true;
        again(q, &a, &t);
    } else if (a.has_body) {
        taking_take(q, &a.ev, &a.subject, life);
    }
    again_fini(q, &a);
    return GR_OK;
}

/* Who did it, for those who ask later. */
static void note_release(struct sequencer *q, const char *id, const char *who)
{
    char *subject = gr_printf("event %s", id);
    char *what = gr_printf("released by %s", who);

    store_act_add(q->search, q->d.loop.now_ms, subject, what);
    free(subject);
    free(what);
}

gr_rc intake_release(struct sequencer *q, const char *id, const char *who,
                     char why[200])
{
    int64_t n = store_event_n(q->store, wire_text(id));
    struct again a;
    struct taking t = {.ev = &a.ev, .subject = &a.subject, .released = true};
    gr_rc rc = GR_REFUSE;

    if (!n || !again_init(q, &a, n)) {
        snprintf(why, 200, "no event has the id %.60s", id);
        return GR_REFUSE;
    }
    t.source = settings_source(q->d.settings, a.ev.source);
    if (a.ev.status != EVENT_DUPLICATE) {
        snprintf(why, 200, "%.60s is no suppressed repeat", id);
    } else if (!a.has_body) {
        snprintf(why, 200, "the body of %.60s is no longer kept", id);
    } else {
        a.ev.reopened_ms = q->d.loop.now_ms;
        again(q, &a, &t);
        note_release(q, id, who);
        q->metrics[METRIC_LET_THROUGH]++;
        log_info(id, "an operator released this duplicate");
        rc = GR_OK;
    }
    again_fini(q, &a);
    return rc;
}

/* Its source may be gone since: then it goes all the same, it was accepted while
 * there was one. */
static void let_go(struct sequencer *q, const struct again *a, struct taking *t)
{
    taking_find(q, t, a->damaged ? REASON_DAMAGED : NULL);
    if (a->damaged || (t->source && t->f.refused)) {
        t->ev->status = EVENT_REFUSED;
        t->ev->reason = t->f.refused;
    } else if (t->source) {
        taking_go(q, t);
    } else {
        routing_route(q, t);
    }
    taking_end(q, t);
}

/* What it was held for has come, or was given up. */
void intake_let_go(struct sequencer *q, int64_t n, int64_t life,
                   const char *gap)
{
    struct again a;
    struct taking t = {.ev = &a.ev, .subject = &a.subject, .life = life};
    bool there = again_init(q, &a, n);

    if (there && a.ev.status == EVENT_BUFFERED && a.has_body) {
        t.source = settings_source(q->d.settings, a.ev.source);
        a.ev.gap = gap;
        snprintf(t.placing.note, sizeof t.placing.note, "held back for %lld ms",
                 (long long)(q->d.loop.now_ms - a.ev.taken_ms));
        a.ev.note = t.placing.note;
        let_go(q, &a, &t);
    } else {
        log_error(there ? a.ev.id : NULL,
                  "what was held back is not there as it was", LI("row", n));
    }
    again_fini(q, &a);
}
