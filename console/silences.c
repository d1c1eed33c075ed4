/* silences: keeps and ends silences of alert rules. */
#include "silences.h"
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST_DAYS = 90, LISTED = 100 };

struct silence {
    LIST_ENTRY(silence) link;
    char rule[NAME_MAX_BYTES + 1];
    int64_t since_ms, until_ms;
    char *note, *who;
};

static struct silence *find(const struct console *c, const char *rule)
{
    struct silence *s;

    LIST_FOREACH(s, &c->silences, link)
    {
        if (strcmp(s->rule, rule) == 0)
            return s;
    }
    return NULL;
}

static void forget(struct silence *s)
{
    LIST_REMOVE(s, link);
    free(s->note);
    free(s->who);
    free(s);
}

/* The one that ends first is at the head. */
static void insert(struct console *c, struct silence *s)
{
    struct silence *at = LIST_FIRST(&c->silences), *before = NULL;

    for (; at && at->until_ms <= s->until_ms; at = LIST_NEXT(at, link))
        before = at;
    if (before)
        LIST_INSERT_AFTER(before, s, link);
    else
        LIST_INSERT_HEAD(&c->silences, s, link);
}

static void add(struct console *c, const struct silence_row *row)
{
    struct silence *s = find(c, row->rule);

    if (s)
        forget(s);
    s = gr_alloc(sizeof *s);
    snprintf(s->rule, sizeof s->rule, "%s", row->rule);
    s->since_ms = row->since_ms;
    s->until_ms = row->until_ms;
    s->note = gr_strdup(row->note);
    s->who = gr_strdup(row->who);
    insert(c, s);
}

static void load_one(void *self, const struct silence_row *row)
{
    add(self, row);
}

void silences_load(struct console *c)
{
    silences_close(c);
    store_silences(&c->store, load_one, c);
}

void silences_close(struct console *c)
{
    struct silence *s;

    while ((s = LIST_FIRST(&c->silences)))
        forget(s);
}

/* What fired meanwhile is notified now. */
static void end(struct console *c, struct silence *s)
{
    char rule[NAME_MAX_BYTES + 1];
    int64_t since_ms = s->since_ms;

    memcpy(rule, s->rule, sizeof rule);
    store_silence_drop(&c->store, rule);
    forget(s);
    log_info(NULL, "an alert is no longer silenced", LS("alert", rule));
    alerts_notify_since(c, rule, since_ms);
}

int silences_work(struct console *c)
{
    int64_t now = c->daemon.loop.now_ms;
    struct silence *s, *next;
    int wait_ms = -1;

    for (s = LIST_FIRST(&c->silences); s; s = next) {
        int64_t left = s->until_ms - now;

        next = LIST_NEXT(s, link);
        if (left <= 0 || left > LONGEST_DAYS * DAY_MS) /* or a wrong clock */
            end(c, s);
        else
            wait_ms = loop_sooner(wait_ms,
                                  left < HOUR_MS ? (int)left : (int)HOUR_MS);
    }
    return wait_ms;
}

bool silences_mute(const struct console *c, const struct change *change)
{
    const struct silence *s = find(c, change->rule->name);

    return s && (!change->resolved || change->fired_ms >= s->since_ms);
}

int64_t silences_until(const struct console *c, const char *rule)
{
    const struct silence *s = find(c, rule);

    return s ? s->until_ms : 0;
}

/* ---- commands ---- */

static bool rule_is_there(const struct console *c, const char *name,
                          char why[200])
{
    struct conf_near near = {.text = name};
    char hint[100];

    for (size_t i = 0; i < c->daemon.settings->alert_count; i++) {
        if (strcmp(c->daemon.settings->alerts[i].name, name) == 0)
            return true;
        conf_near_try(&near, c->daemon.settings->alerts[i].name);
    }
    control_fail(why, CONTROL_NOT_FOUND, "there is no alert \"%.60s\"%s", name,
                 conf_near_hint(&near, hint));
    return false;
}

static json_t *silence_json(const struct silence *s)
{
    return json_pack("{s:s,s:o,s:o,s:o}", "name", s->rule, "silenced_until",
                     json_time(s->until_ms), "note", json_text_or_null(s->note),
                     "by", json_text_or_null(s->who));
}

json_t *silences_list(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    json_t *limit = json_object_get(args, "limit"), *list = json_array();
    json_int_t left = limit ? json_integer_value(limit) : LISTED;
    struct silence *s;

    (void)why;
    LIST_FOREACH(s, &c->silences, link)
    {
        if (left-- <= 0)
            break;
        json_array_append_new(list, silence_json(s));
    }
    return json_pack("{s:o}", "silences", list);
}

json_t *silences_begin(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const char *note = json_string_value(json_object_get(args, "note"));
    struct silence_row row = {
        .rule = json_string_value(json_object_get(args, "name")),
        .since_ms = c->daemon.loop.now_ms,
        .until_ms = json_integer_value(json_object_get(args, "for_ms")),
        .note = note ? note : "",
        .who = control_actor(c->daemon.control)};
    const struct silence *before;

    if (!rule_is_there(c, row.rule, why))
        return NULL;
    if (row.until_ms <= row.since_ms ||
        row.until_ms - row.since_ms > LONGEST_DAYS * DAY_MS) {
        control_fail(why, CONTROL_INVALID,
                     "for: write a time from now on, at most %d days ahead",
                     LONGEST_DAYS);
        return NULL;
    }
    before = find(c, row.rule);
    if (before) /* it is made longer or shorter */
        row.since_ms = before->since_ms;
    store_silence_put(&c->store, &row);
    add(c, &row);
    log_info(NULL, "an alert is silenced", LS("alert", row.rule),
             LT("until", row.until_ms), LS("by", row.who));
    return silence_json(find(c, row.rule));
}

json_t *silences_end(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const char *rule = json_string_value(json_object_get(args, "name"));
    struct silence *s = find(c, rule), none = {.note = "", .who = ""};

    if (!s && !rule_is_there(c, rule, why))
        return NULL;
    snprintf(none.rule, sizeof none.rule, "%s", rule);
    if (s)
        end(c, s);
    return silence_json(&none);
}
