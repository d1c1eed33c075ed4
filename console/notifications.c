/* notifications: makes one message for each notifier from the changes of alerts. A message is
 * a row until the notifier has accepted it, and is retried with backoff. */
#include "alert_kinds.h"
#include "clock.h"
#include "conf.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAID_MAX = 50, /* changes that one message lists; the rest are counted */
    TEXT_MAX_BYTES_HERE = 256 * 1024,
    SUBJECT_BYTES = 300, /* from here on names of rules are only counted */
    RETRY_FIRST_MS = 5 * 1000,
    RETRY_FACTOR = 3,
};
#define RETRY_MAX_MS  HOUR_MS
#define RETRY_LAST_MS DAY_MS /* then it is given up, with an error in the log */

/* ---- a list of changes ---- */

void changes_add(struct changes *l, const struct change *c)
{
    l->all = gr_realloc(l->all, (l->count + 1) * sizeof *l->all);
    l->all[l->count++] = *c;
}

static bool goes_to(const struct alert_rule *r, const char *notifier)
{
    return r->notify.count == 0 || string_list_has(&r->notify, notifier);
}

/* ---- a message ---- */

static json_t *change_json(const struct change *c)
{
    const struct alert_kind *k = &alert_kinds[c->rule->when];
    json_t *out = json_pack(
        "{s:s, s:s, s:s, s:s, s:f, s:o, s:o}", "name", c->rule->name, "when",
        k->word, "severity", rule_severity(c->rule->severity), "state",
        c->resolved ? "resolved" : "firing", "value", c->value, "since",
        json_time(c->since_ms), "summary", json_text_of(c->summary));

    if (*c->subject && *k->per)
        json_object_set_new(out, k->per, json_text_of(c->subject));
    if (!isnan(c->rule->above) && k->unit != ALERT_UNIT_NONE)
        json_object_set_new(out, "above", json_real(c->rule->above));
    if (!isnan(c->rule->below) && k->unit != ALERT_UNIT_NONE)
        json_object_set_new(out, "below", json_real(c->rule->below));
    if (c->detail)
        json_object_update(out, c->detail);
    return out;
}

struct draft {
    struct buf subject, text, names;
    json_t *alerts;
    int firing, resolved, said, severity, name_count;
};

/* Adds the name of a rule, once; names contain no spaces. */
static void add_name(struct draft *d, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = d->names.len ? d->names.data : ""; *at;) {
        size_t k = strcspn(at, " ");

        if (k == n && memcmp(at, name, n) == 0)
            return;
        at += k + (at[k] == ' ');
    }
    buf_printf(&d->names, "%s%s", d->names.len ? " " : "", name);
    d->name_count++;
}

/* A subject is one line: as many names as fit, and the number of the others. */
static void put_names(struct draft *d)
{
    const char *at = d->names.data;
    int put = 0;

    for (; *at && d->subject.len + strcspn(at, " ") < SUBJECT_BYTES; put++) {
        size_t k = strcspn(at, " ");

        buf_printf(&d->subject, "%s%.*s", put ? " " : "", (int)k, at);
        at += k + (at[k] == ' ');
    }
    if (put < d->name_count)
        buf_printf(&d->subject, " and %d more", d->name_count - put);
}

static void draft_add(struct draft *d, const struct change *c)
{
    d->firing += !c->resolved;
    d->resolved += c->resolved;
    if (c->rule->severity > d->severity)
        d->severity = c->rule->severity;
    add_name(d, c->rule->name);
    if (d->said++ >= SAID_MAX)
        return;
    buf_printf(&d->text, "%s %s *%s* %s\n", c->resolved ? "✓" : "✗",
               c->resolved ? "resolved" : rule_severity(c->rule->severity),
               c->rule->name, c->summary);
    json_array_append_new(d->alerts, change_json(c));
}

static void draft_end(struct draft *d, const char *id, int64_t now,
                      struct notification_row *row, char **body)
{
    struct buf chat;
    json_t *doc;

    buf_puts(&d->subject, "[Grapnel] ");
    if (d->firing)
        buf_printf(&d->subject, "%d firing", d->firing);
    if (d->resolved)
        buf_printf(&d->subject, "%s%d resolved", d->firing ? ", " : "",
                   d->resolved);
    buf_puts(&d->subject, ": ");
    put_names(d);
    if (d->said > SAID_MAX)
        buf_printf(&d->text, "and %d more: grapnel alerts\n",
                   d->said - SAID_MAX);
    buf_init(&chat, 5 * TEXT_MAX_BYTES_HERE); /* of one, at most five */
    chat_text(&chat, d->text.data);
    doc = json_pack("{s:i, s:s, s:o, s:o, s:o}", "version", 1, "id", id, "time",
                    json_time(now), "text", json_text_of(chat.data), "alerts",
                    d->alerts);
    buf_fini(&chat);
    *body = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    row->id = id;
    row->severity = rule_severity(d->severity);
    row->state = d->firing ? "firing" : "resolved";
    row->alerts = d->names.data;
    row->subject = d->subject.data;
    row->text = d->text.data;
    row->body = *body;
}

void notification_id(struct console *c, char id[40])
{
    char ulid[ULID_BYTES + 1];

    ulid_next(&c->ids, now_ms(), ulid);
    snprintf(id, 40, "ntf_%s", ulid);
}

static void notify_one(struct console *c, const struct notifier *to,
                       const struct changes *l)
{
    struct notification_row row = {.notifier = to->name,
                                   .made_ms = c->daemon.loop.now_ms,
                                   .next_ms = c->daemon.loop.now_ms};
    struct draft d = {.alerts = json_array()};
    char id[40], *body = NULL;

    buf_init(&d.subject, 1000);
    buf_init(&d.text, TEXT_MAX_BYTES_HERE);
    buf_init(&d.names, TEXT_MAX_BYTES_HERE);
    for (size_t i = 0; i < l->count; i++)
        if (goes_to(l->all[i].rule, to->name))
            draft_add(&d, &l->all[i]);
    if (d.said) {
        notification_id(c, id);
        draft_end(&d, id, row.made_ms, &row, &body);
        store_notification_add(&c->store, &row);
    } else {
        json_decref(d.alerts);
    }
    free(body);
    buf_fini(&d.subject);
    buf_fini(&d.text);
    buf_fini(&d.names);
}

static void change_fini(struct change *c)
{
    free(c->subject);
    free(c->summary);
    json_decref(c->detail);
}

void changes_notify(struct console *c, struct changes *l)
{
    const struct settings *s = c->daemon.settings;
    size_t kept = 0;

    for (size_t i = 0; i < l->count; i++)
        if (silences_mute(c, &l->all[i]))
            change_fini(&l->all[i]);
        else
            l->all[kept++] = l->all[i];
    l->count = kept;
    for (size_t i = 0; i < s->notifier_count && l->count; i++)
        notify_one(c, &s->notifiers[i], l);
    for (size_t i = 0; i < l->count; i++)
        change_fini(&l->all[i]);
    free(l->all);
    *l = (struct changes){0};
}

/* ---- results ---- */

static int64_t backoff(int64_t attempts)
{
    int64_t wait = RETRY_FIRST_MS;

    while (--attempts > 0 && wait < RETRY_MAX_MS)
        wait *= RETRY_FACTOR;
    return wait < RETRY_MAX_MS ? wait : RETRY_MAX_MS;
}

static void try_again(struct console *c, const struct notify_end *e)
{
    const struct retention *r = &c->daemon.retention;
    struct notification_row row;
    int64_t now = c->daemon.loop.now_ms, due, attempts;

    if (!store_notification_next(&c->store, e->notifier, INT64_MAX, &row, &due))
        return;
    attempts = row.attempts + 1;
    if (row.n != e->n) {
        store_done(&c->store);
        return;
    }
    if (row.made_ms < retention_before(r, now, RETRY_LAST_MS) ||
        row.made_ms > retention_after(r, now, RETRY_LAST_MS)) {
        log_warn(NULL,
                 "a notifier failed for a day; its notification is discarded",
                 LS("notifier", e->notifier), LS("subject", row.subject),
                 LS("error", e->why));
        store_done(&c->store);
        store_notification_drop(&c->store, e->n);
        c->metrics[M_NOTIFICATIONS_GIVEN_UP]++;
        return;
    }
    store_done(&c->store);
    store_notification_again(&c->store, e->n, attempts,
                             now + backoff(attempts));
    log_warn(NULL, "a notifier failed; it is tried again",
             LS("notifier", e->notifier), LS("error", e->why),
             LI("attempts", attempts),
             LT("next_attempt_at", c->daemon.loop.now_ms + backoff(attempts)));
}

static void end_test(struct console *c, const struct notify_end *e)
{
    json_array_append_new(
        c->tests.results,
        json_pack("{s:s, s:b, s:o}", "notifier", e->notifier, "ok", e->ok,
                  "why", e->ok ? json_null() : json_text_of(e->why)));
    c->tests.done++;
}

int notifications_work(struct console *c)
{
    const struct settings *s = c->daemon.settings;
    struct notification_row row;
    struct notify_end e;
    int64_t now = c->daemon.loop.now_ms, due;
    int ms = -1;

    /* If this turn is rolled back, the message is sent again with the same id, by which its
     * receiver recognises the duplicate. */
    while (notify_ended(c->notify, &e)) {
        c->metrics[e.ok ? M_NOTIFICATIONS_SENT : M_NOTIFICATIONS_FAILED]++;
        if (e.n == 0)
            end_test(c, &e);
        else if (e.ok)
            store_notification_drop(&c->store, e.n);
        else
            try_again(c, &e);
    }
    if (c->tests.count && c->tests.done == c->tests.count) {
        json_t *reply = json_pack("{s:O}", "results", c->tests.results);

        control_reply(c->daemon.control, reply, NULL);
        tests_fini(&c->tests);
    }
    for (size_t i = 0; i < s->notifier_count; i++) {
        if (store_notification_next(&c->store, s->notifiers[i].name, now, &row,
                                    &due))
            store_done(&c->store);
        else if (due >= 0)
            ms = loop_sooner(ms, due - now < 60000 ? (int)(due - now) : 60000);
    }
    return ms;
}

/* ---- sending ---- */

static void begin_due(struct console *c, const struct notifier *how)
{
    struct notification_row row;
    int64_t now = c->daemon.loop.now_ms, due;

    if (notify_busy(c->notify, how->name) ||
        !store_notification_next(&c->store, how->name, now, &row, &due))
        return;
    notify_begin(c->notify, how,
                 &(struct message){.n = row.n,
                                   .id = row.id,
                                   .severity = row.severity,
                                   .state = row.state,
                                   .alerts = row.alerts,
                                   .subject = row.subject,
                                   .text = row.text,
                                   .body = row.body,
                                   .now_ms = now});
    store_done(&c->store);
}

static const struct notifier *notifier_named(const struct settings *s,
                                             const char *name)
{
    for (size_t i = 0; i < s->notifier_count; i++)
        if (strcmp(s->notifiers[i].name, name) == 0)
            return &s->notifiers[i];
    return NULL;
}

static void begin_test(struct console *c, size_t i)
{
    struct tests *t = &c->tests;
    const struct notifier *how = notifier_named(c->daemon.settings,
                                                t->names[i]);
    struct notify_end gone = {.why = "it is no longer in the configuration"};

    if (t->begun[i] || (how && notify_busy(c->notify, how->name)))
        return;
    t->begun[i] = true;
    if (!how) {
        snprintf(gone.notifier, sizeof gone.notifier, "%s", t->names[i]);
        end_test(c, &gone);
        return;
    }
    notify_begin(c->notify, how,
                 &(struct message){.id = t->id,
                                   .severity = "info",
                                   .state = "firing",
                                   .alerts = "test",
                                   .subject = "[Grapnel] test",
                                   .text = t->text,
                                   .body = t->body,
                                   .now_ms = c->daemon.loop.now_ms});
}

void notifications_flush(struct console *c)
{
    const struct settings *s = c->daemon.settings;
    int ms;

    for (size_t i = 0; i < c->tests.count; i++)
        begin_test(c, i);
    for (size_t i = 0; i < s->notifier_count && !c->daemon.loop.stopping; i++)
        begin_due(c, &s->notifiers[i]);
    ms = notify_run(c->notify, c->daemon.loop.mono_ms);
    if (ms >= 0)
        daemon_wake_in(&c->daemon, ms);
}

/* ---- a test ---- */

void tests_fini(struct tests *t)
{
    free(t->names);
    free(t->begun);
    json_decref(t->results);
    free(t->text);
    free(t->body);
    *t = (struct tests){0};
}

/* The control command `alerts_test`: replies when all notifiers of the alert, or this one
 * notifier, have been tried. */
json_t *notifications_test(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    struct tests *t = &c->tests;
    const struct settings *s = c->daemon.settings;
    const char *name = json_string_value(json_object_get(args, "name"));
    struct conf_near near = {.text = name};
    const struct alert_rule *rule = NULL;
    char hint[100];
    json_t *doc;

    for (size_t i = 0; i < s->alert_count; i++) {
        if (!rule && strcmp(s->alerts[i].name, near.text) == 0)
            rule = &s->alerts[i];
        conf_near_try(&near, s->alerts[i].name);
    }
    if (!rule && !notifier_named(s, near.text)) {
        for (size_t i = 0; i < s->notifier_count; i++)
            conf_near_try(&near, s->notifiers[i].name);
        control_fail(why, CONTROL_NOT_FOUND,
                     "there is no alert and no notifier \"%.60s\"%s", near.text,
                     conf_near_hint(&near, hint));
        return NULL;
    }
    if (control_waiting(c->daemon.control)) {
        control_fail(why, CONTROL_IN_PROGRESS,
                     "another test or a backup is already in progress");
        return NULL;
    }
    for (size_t i = 0; i < s->notifier_count; i++) {
        const char *to = s->notifiers[i].name;

        if (rule ? !goes_to(rule, to) : strcmp(to, name) != 0)
            continue;
        t->names = gr_realloc(t->names, (t->count + 1) * sizeof *t->names);
        t->begun = gr_realloc(t->begun, (t->count + 1) * sizeof *t->begun);
        snprintf(t->names[t->count], sizeof *t->names, "%s", to);
        t->begun[t->count++] = false;
    }
    if (!t->count) {
        snprintf(why, 200, "%.60s has no notifier: add one under `notifiers`",
                 name);
        return NULL;
    }
    notification_id(c, t->id);
    t->results = json_array();
    t->text = gr_printf("A test of %s, sent by an operator. Nothing is "
                        "wrong.\n",
                        name);
    doc = json_pack("{s:i, s:s, s:o, s:b, s:s, s:[]}", "version", 1, "id",
                    t->id, "time", json_time(now_ms()), "test", 1, "text",
                    t->text, "alerts");
    t->body = json_dumps(doc, JSON_COMPACT);
    json_decref(doc);
    return control_later(c->daemon.control);
}
