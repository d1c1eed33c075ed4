/* alerts: rules are judged; what fires is a row, and a change of it a message.
 * The rows, and the messages that they cause, are one transaction, so nobody is
 * told twice of one change, nor never. */
#include "alert_kinds.h"
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDED_KEPT = 1000 };

static const char *const state_names[] = {[LIFE_CALM] = "resolved",
                                          [LIFE_PENDING] = "pending",
                                          [LIFE_FIRING] = "firing"};

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

/* A silent source was so before we began to look. */
static void remember(struct console *c, const struct alert_row *row)
{
    const struct alert_rule *r = rule_named(c->daemon.settings, row->rule);
    int64_t now = c->daemon.loop.mono_ms ? c->daemon.loop.mono_ms : mono_ms();
    int64_t since = now - (now_ms() - row->since_ms);

    if (r && r->when == ALERT_SOURCE_SILENT)
        facts_remember(c->facts, TRACK_ACCEPTED, row->subject,
                       since - r->silent_for_ms);
}

static void load_one(void *self, const struct alert_row *row)
{
    struct console *c = self;
    struct active *a = add_active(c, row->rule, row->subject);
    int64_t now = now_ms(); /* the clock may have been ahead */

    a->n = row->n;
    a->life = (struct life){
        .state = strcmp(row->state, "firing") == 0 ? LIFE_FIRING : LIFE_PENDING,
        .since_ms = row->since_ms < now ? row->since_ms : now,
        .fired_ms = row->fired_ms};
    if (!c->judge_due_ms) /* our start, not an undo */
        remember(c, row);
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

/* ---- one subject of one rule ---- */

static void write_row(struct console *c, struct active *a,
                      const struct alert_rule *rule, double value,
                      const char *summary)
{
    bool ended = a->life.state == LIFE_CALM;
    struct alert_row row = {.n = a->n,
                            .rule = a->rule,
                            .subject = a->subject,
                            .state = state_names[a->life.state],
                            .severity = rule_severity(rule->severity),
                            .since_ms = a->life.since_ms,
                            .fired_ms = a->life.fired_ms,
                            .ended_ms = ended ? c->daemon.loop.now_ms : 0,
                            .value = value,
                            .summary = summary};

    if (a->n)
        store_alert_set(&c->store, &row);
    else
        a->n = store_alert_add(&c->store, &row);
}

static void note_change(struct changes *changes, const struct alert_rule *rule,
                        const struct active *a, double value,
                        const char *summary)
{
    bool resolved = a->life.state == LIFE_CALM;
    struct change change = {.rule = rule,
                            .subject = gr_strdup(a->subject),
                            .resolved = resolved,
                            .since_ms = a->life.since_ms,
                            .value = value,
                            .summary = gr_strdup(summary)};

    changes_add(changes, &change);
    log_warn(NULL, resolved ? "alert resolved" : "alert fires",
             LS("alert", rule->name), LS("subject", a->subject),
             LS("severity", rule_severity(rule->severity)),
             LS("summary", summary));
}

static void step(struct console *c, const struct alert_rule *rule,
                 const char *subject, const struct fact *fact,
                 struct changes *changes)
{
    struct active *a = find_active(c, rule->name, subject);
    struct life life = a ? a->life : (struct life){0};
    enum verdict verdict = rule_judge(rule, fact);
    enum life_change change = rule_step(rule, &life, verdict,
                                        c->daemon.loop.now_ms);
    double value = fact ? fact->value : 0;
    struct buf summary;

    if (!a && change != LIFE_SAME)
        a = add_active(c, rule->name, subject);
    if (a && fact && verdict != VERDICT_UNKNOWN) {
        a->value = value;
        a->valued = true;
    }
    if (change == LIFE_SAME)
        return;
    a->life = life;
    buf_init(&summary, 1000);
    rule_summary(rule, subject, fact, life.state != LIFE_CALM, &summary);
    write_row(c, a, rule, value, summary.len ? summary.data : "");
    if (change == LIFE_FIRES || change == LIFE_RESOLVES)
        note_change(changes, rule, a, value, summary.len ? summary.data : "");
    buf_fini(&summary);
    a->seen = true;
    if (life.state == LIFE_CALM)
        drop_active(a);
}

/* ---- all of them ---- */

/* We have looked long enough to say that a subject is gone, rather than not
 * heard of yet. */
static bool settled(const struct console *c, const struct alert_rule *rule)
{
    int64_t up_ms = c->daemon.loop.now_ms - c->daemon.started_ms;

    return up_ms > rule->window_ms &&
           up_ms > 2 * c->daemon.settings->metrics_interval_ms &&
           up_ms > 2 * c->daemon.settings->console.evaluate_ms;
}

static void judge(struct console *c, const struct alert_rule *rule,
                  struct changes *changes)
{
    struct fact_list facts;
    struct active *a, *next;

    LIST_FOREACH(a, &c->active, link)
    a->seen = false;
    facts_of(c->facts, c->gather, c->daemon.settings, rule,
             c->daemon.loop.mono_ms, &facts);
    for (size_t i = 0; i < facts.count; i++) {
        a = find_active(c, rule->name, facts.all[i].subject);
        if (a)
            a->seen = true;
        step(c, rule, facts.all[i].subject, &facts.all[i], changes);
    }
    fact_list_fini(&facts);
    for (a = LIST_FIRST(&c->active); a; a = next) {
        next = LIST_NEXT(a, link);
        if (!a->seen && strcmp(a->rule, rule->name) == 0 && settled(c, rule))
            step(c, rule, a->subject, NULL, changes);
    }
}

/* Their rules are no longer in the configuration: nobody is told. */
static void end_ruleless(struct console *c)
{
    struct active *a, *next;

    for (a = LIST_FIRST(&c->active); a; a = next) {
        static const struct alert_rule none = {.severity = SEVERITY_INFO};

        next = LIST_NEXT(a, link);
        if (rule_named(c->daemon.settings, a->rule))
            continue;
        a->life.state = LIFE_CALM;
        write_row(c, a, &none, 0, "its rule is no longer there");
        drop_active(a);
    }
}

static int64_t longest_window(const struct settings *s)
{
    int64_t longest = HOUR_MS;

    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].window_ms > longest)
            longest = s->alerts[i].window_ms;
    return longest;
}

void alerts_judge(struct console *c)
{
    const struct settings *s = c->daemon.settings;
    struct changes changes = {0};

    facts_take(c->facts, c->gather, longest_window(s), c->daemon.loop.mono_ms);
    end_ruleless(c);
    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].enabled && s->alerts[i].when != ALERT_DEAD_LETTER)
            judge(c, &s->alerts[i], &changes);
    if (changes.count)
        store_alerts_cut(&c->store, ENDED_KEPT);
    changes_tell(c, &changes);
}

/* ---- for readers ---- */

struct listing {
    const struct console *c;
    json_t *out;
};

/* A row is written when its state changes; while it is active, its value now is
 * in memory. */
static void put_present(const struct console *c, struct alert_row *row,
                        struct buf *summary)
{
    const struct alert_rule *rule = rule_named(c->daemon.settings, row->rule);
    struct active *a;

    if (row->ended_ms || !rule)
        return;
    LIST_FOREACH(a, &c->active, link)
    {
        struct fact fact = {.value = a->value, .known = true};

        if (a->n != row->n || !a->valued)
            continue;
        rule_summary(rule, a->subject, &fact, true, summary);
        row->value = a->value;
        row->summary = summary->data;
    }
}

static void add_json(void *self, const struct alert_row *stored)
{
    struct listing *l = self;
    struct alert_row now = *stored, *a = &now;
    struct buf summary;

    buf_init(&summary, 1000);
    put_present(l->c, a, &summary);
    json_array_append_new(
        l->out,
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:f, s:o}", "name",
                  a->rule, "severity", a->severity, "subject",
                  json_text_or_null(a->subject), "state", a->state, "since",
                  json_time(a->since_ms), "fired_at", json_time(a->fired_ms),
                  "ended_at", json_time(a->ended_ms), "value", a->value,
                  "summary", json_text_of(a->summary)));
    buf_fini(&summary);
}

json_t *alerts_json(struct console *c, int64_t limit)
{
    json_t *out = json_array();

    store_alerts_recent(&c->store, limit, add_json,
                        &(struct listing){.c = c, .out = out});
    return out;
}

int alerts_firing(const struct console *c, const char *severity)
{
    struct active *a;
    int n = 0;

    LIST_FOREACH(a, &c->active, link)
    {
        const struct alert_rule *r = rule_named(c->daemon.settings, a->rule);

        n += r && a->life.state == LIFE_FIRING &&
             strcmp(rule_severity(r->severity), severity) == 0;
    }
    return n;
}
