/* alerts: evaluates the alert rules. Each pending or firing alert is a row, and each change
 * of its state makes messages for the notifiers. Rows and messages are written in one
 * transaction, so that each change is notified exactly once. */
#include "alert_events.h"
#include "alert_kinds.h"
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDED_KEPT = 1000 };

static const char *const state_names[] = {[LIFECYCLE_CALM] = "resolved",
                                          [LIFECYCLE_PENDING] = "pending",
                                          [LIFECYCLE_FIRING] = "firing"};

static const struct alert_rule *rule_named(const struct settings *s,
                                           const char *name)
{
    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].enabled && strcmp(s->alerts[i].name, name) == 0)
            return &s->alerts[i];
    return NULL;
}

/* ---- memory ---- */

static struct active *add_active(struct console *c, const char *rule,
                                 const char *subject)
{
    struct active *a = gr_alloc(sizeof *a);

    snprintf(a->rule, sizeof a->rule, "%s", rule);
    snprintf(a->subject, sizeof a->subject, "%s", subject);
    LIST_INSERT_HEAD(&c->active, a, link);
    return a;
}

static void drop_active(struct active *a)
{
    LIST_REMOVE(a, link);
    free(a);
}

static void load_one(void *self, const struct alert_row *row)
{
    struct console *c = self;
    const struct alert_rule *r = rule_named(c->daemon.settings, row->rule);
    struct active *a = add_active(c, row->rule, row->subject);
    /* The clock may have been ahead when the row was written. */
    int64_t wall = now_ms();
    int64_t mono = c->daemon.loop.mono_ms ? c->daemon.loop.mono_ms : mono_ms();

    a->n = row->n;
    a->value = row->value;
    a->lifecycle = (struct lifecycle){
        .state = strcmp(row->state, "firing") == 0 ? LIFECYCLE_FIRING
                                                   : LIFECYCLE_PENDING,
        .since_ms = row->since_ms < wall ? row->since_ms : wall,
        .fired_ms = row->fired_ms};
    /* A source that was silent before this start stays silent. After an undo, which is not a
     * start, this is known already. */
    if (!c->judge_due_ms && r && r->when == ALERT_SOURCE_SILENT)
        tracks_remember(c->tracks, TRACK_ACCEPTED, row->subject,
                        mono - (wall - row->since_ms) - r->silent_for_ms);
}

void alerts_load(struct console *c)
{
    alerts_close(c);
    store_alerts_active(&c->store, load_one, c);
}

void alerts_close(struct console *c)
{
    struct active *a;

    while ((a = LIST_FIRST(&c->active)))
        drop_active(a);
}

static struct active *find_active(const struct console *c, const char *rule,
                                  const char *subject)
{
    struct active *a;

    LIST_FOREACH(a, &c->active, link)
    if (strcmp(a->rule, rule) == 0 && strcmp(a->subject, subject) == 0)
        return a;
    return NULL;
}

/* ---- one alert as JSON ---- */

static json_t *alert_json(const struct console *c, const struct alert_row *a)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:f, s:o, s:o}",
                     "name", a->rule, "severity", a->severity, "subject",
                     json_text_or_null(a->subject), "state", a->state, "since",
                     json_time(a->since_ms), "fired_at", json_time(a->fired_ms),
                     "ended_at", json_time(a->ended_ms), "value", a->value,
                     "summary", json_text_of(a->summary), "silenced_until",
                     json_time(silences_until(c, a->rule)));
}

/* ---- one subject of one rule ---- */

/* For those who listen to GET /stream. */
static void put_live(struct console *c, const struct alert_row *row,
                     const char *per)
{
    json_t *data;

    if (!(live_kinds(c->live) & LIVE_ALERT))
        return;
    data = alert_json(c, row);
    live_put(c->live,
             &(struct live_item){
                 .kind = LIVE_ALERT,
                 .endpoint = strcmp(per, "endpoint") == 0 ? row->subject : NULL,
                 .source = strcmp(per, "source") == 0 ? row->subject : NULL,
                 .data = data});
    json_decref(data);
}

static void write_row(struct console *c, struct active *a,
                      const struct alert_rule *rule, double value,
                      const char *summary)
{
    bool ended = a->lifecycle.state == LIFECYCLE_CALM;
    struct alert_row row = {.n = a->n,
                            .rule = a->rule,
                            .subject = a->subject,
                            .state = state_names[a->lifecycle.state],
                            .severity = rule_severity(rule->severity),
                            .since_ms = a->lifecycle.since_ms,
                            .fired_ms = a->lifecycle.fired_ms,
                            .ended_ms = ended ? c->daemon.loop.now_ms : 0,
                            .value = value,
                            .summary = summary};

    if (a->n)
        store_alert_set(&c->store, &row);
    else
        a->n = store_alert_add(&c->store, &row);
    if (a->lifecycle.state == LIFECYCLE_FIRING || row.fired_ms)
        put_live(c, &row, alert_kinds[rule->when].per);
}

static void note_change(struct console *c, struct changes *changes,
                        const struct alert_rule *rule, const struct active *a,
                        double value, const char *summary)
{
    bool resolved = a->lifecycle.state == LIFECYCLE_CALM;
    struct change change = {.rule = rule,
                            .subject = gr_strdup(a->subject),
                            .resolved = resolved,
                            .since_ms = a->lifecycle.since_ms,
                            .fired_ms = a->lifecycle.fired_ms,
                            .value = value,
                            .summary = gr_strdup(summary)};

    alert_events_note(c->alert_events, &change);
    changes_add(changes, &change);
    log_warn(NULL, resolved ? "alert resolved" : "alert fires",
             LS("alert", rule->name), LS("subject", a->subject),
             LS("severity", rule_severity(rule->severity)),
             LS("summary", summary));
}

static void step(struct console *c, const struct alert_rule *rule,
                 const char *subject, const struct measurement *measurement,
                 struct changes *changes)
{
    struct active *a = find_active(c, rule->name, subject);
    struct lifecycle lifecycle = a ? a->lifecycle : (struct lifecycle){0};
    enum rule_verdict verdict = rule_judge(rule, measurement);
    enum lifecycle_change change = rule_step(rule, &lifecycle, verdict,
                                             c->daemon.loop.now_ms);
    double value = measurement ? measurement->value : 0;
    struct buf summary;

    if (!a && change != LIFECYCLE_SAME)
        a = add_active(c, rule->name, subject);
    if (a && measurement && verdict != VERDICT_UNKNOWN) {
        a->value = value;
        a->valued = true;
        memcpy(a->note, measurement->note, sizeof a->note);
    }
    if (change == LIFECYCLE_SAME && a && measurement && measurement->again &&
        lifecycle.state == LIFECYCLE_FIRING)
        change = LIFECYCLE_FIRES;
    if (change == LIFECYCLE_SAME)
        return;
    a->lifecycle = lifecycle;
    buf_init(&summary, 1000);
    rule_summary(rule, subject, measurement, lifecycle.state != LIFECYCLE_CALM,
                 &summary);
    write_row(c, a, rule, value, summary.len ? summary.data : "");
    if (change == LIFECYCLE_FIRES || change == LIFECYCLE_RESOLVES)
        note_change(c, changes, rule, a, value,
                    summary.len ? summary.data : "");
    buf_fini(&summary);
    a->seen = true;
    if (lifecycle.state == LIFECYCLE_CALM)
        drop_active(a);
}

/* ---- all of them ---- */

/* Evaluates one rule. A subject that is no longer measured ends its alert only after the process
 * has run long enough to have heard of every subject. */
static void judge(struct console *c, const struct alert_rule *rule,
                  struct changes *changes)
{
    const struct settings *s = c->daemon.settings;
    int64_t up_ms = c->daemon.loop.now_ms - c->daemon.started_ms;
    bool settled = up_ms > rule->window_ms &&
                   up_ms > 2 * s->metrics_interval_ms &&
                   up_ms > 2 * s->console.evaluate_ms;
    struct measurement_list measurements;
    struct active *a, *next;

    LIST_FOREACH(a, &c->active, link)
    a->seen = false;
    if (learned_judges(rule))
        learned_measure(c->learned, rule, &measurements);
    else
        measurements_of(c->tracks, c->collector, s, rule,
                        c->daemon.loop.mono_ms, &measurements);
    for (size_t i = 0; i < measurements.count; i++) {
        a = find_active(c, rule->name, measurements.all[i].subject);
        if (a)
            a->seen = true;
        step(c, rule, measurements.all[i].subject, &measurements.all[i],
             changes);
    }
    measurement_list_fini(&measurements);
    for (a = LIST_FIRST(&c->active); a; a = next) {
        next = LIST_NEXT(a, link);
        if (!a->seen && strcmp(a->rule, rule->name) == 0 && settled)
            step(c, rule, a->subject, NULL, changes);
    }
}

/* End alerts whose rules are no longer in the configuration, without a notification. */
static void end_ruleless(struct console *c)
{
    struct active *a, *next;

    for (a = LIST_FIRST(&c->active); a; a = next) {
        static const struct alert_rule none = {.severity = SEVERITY_INFO};

        next = LIST_NEXT(a, link);
        if (rule_named(c->daemon.settings, a->rule))
            continue;
        a->lifecycle.state = LIFECYCLE_CALM;
        write_row(c, a, &none, 0, "its rule is no longer there");
        drop_active(a);
    }
}

void alerts_judge(struct console *c)
{
    const struct settings *s = c->daemon.settings;
    struct changes changes = {0};
    int64_t longest_ms = HOUR_MS;

    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].window_ms > longest_ms)
            longest_ms = s->alerts[i].window_ms;
    tracks_take(c->tracks, c->collector, longest_ms, c->daemon.loop.mono_ms);
    learned_take(c->learned);
    end_ruleless(c);
    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].enabled && s->alerts[i].when != ALERT_DEAD_LETTER)
            judge(c, &s->alerts[i], &changes);
    if (changes.count)
        store_alerts_cut(&c->store, ENDED_KEPT);
    changes_notify(c, &changes);
}

void alerts_notify_since(struct console *c, const char *name, int64_t since_ms)
{
    const struct alert_rule *rule = rule_named(c->daemon.settings, name);
    struct changes changes = {0};
    struct active *a;

    LIST_FOREACH(a, &c->active, link)
    {
        struct measurement measurement = {.value = a->value, .known = true};
        struct change change = {.rule = rule,
                                .since_ms = a->lifecycle.since_ms,
                                .fired_ms = a->lifecycle.fired_ms,
                                .value = a->value};
        struct buf summary;

        if (!rule || strcmp(a->rule, name) != 0 ||
            a->lifecycle.state != LIFECYCLE_FIRING ||
            a->lifecycle.fired_ms < since_ms)
            continue;
        memcpy(measurement.note, a->note, sizeof measurement.note);
        buf_init(&summary, 1000);
        rule_summary(rule, a->subject, &measurement, true, &summary);
        change.subject = gr_strdup(a->subject);
        change.summary = gr_strdup(summary.data ? summary.data : "");
        changes_add(&changes, &change);
        buf_fini(&summary);
    }
    changes_notify(c, &changes);
}

/* ---- for readers ---- */

struct alert_listing {
    const struct console *c;
    json_t *out;
};

/* A row has the value of its last change; the present value of an active alert is in
 * memory. */
static void put_present(const struct console *c, struct alert_row *row,
                        struct buf *summary)
{
    const struct alert_rule *rule = rule_named(c->daemon.settings, row->rule);
    struct active *a;

    if (row->ended_ms || !rule)
        return;
    LIST_FOREACH(a, &c->active, link)
    {
        struct measurement measurement = {.value = a->value, .known = true};

        if (a->n != row->n || !a->valued)
            continue;
        memcpy(measurement.note, a->note, sizeof measurement.note);
        rule_summary(rule, a->subject, &measurement, true, summary);
        row->value = a->value;
        row->summary = summary->data;
    }
}

static void add_json(void *self, const struct alert_row *stored)
{
    struct alert_listing *l = self;
    struct alert_row now = *stored, *a = &now;
    struct buf summary;

    buf_init(&summary, 1000);
    put_present(l->c, a, &summary);
    json_array_append_new(l->out, alert_json(l->c, a));
    buf_fini(&summary);
}

json_t *alerts_json(struct console *c, int64_t limit)
{
    json_t *out = json_array();

    store_alerts_recent(&c->store, limit, add_json,
                        &(struct alert_listing){.c = c, .out = out});
    return out;
}

int alerts_firing(const struct console *c, const char *severity)
{
    struct active *a;
    int n = 0;

    LIST_FOREACH(a, &c->active, link)
    {
        const struct alert_rule *r = rule_named(c->daemon.settings, a->rule);

        n += r && a->lifecycle.state == LIFECYCLE_FIRING &&
             strcmp(rule_severity(r->severity), severity) == 0;
    }
    return n;
}
