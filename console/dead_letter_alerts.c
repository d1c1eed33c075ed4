/* dead_letter_alerts: notifies of new dead letters, for rules with `when: dead_letter`. With `every`, those
 * of an endpoint are collected in a row (`dead_letter_holds`) after an alert, and are in the next one.
 *
 * The console asks dlqd over its control socket for the dead letters after its cursor. The
 * cursor is stored in the same transaction as the messages, so that each dead letter is
 * notified exactly once, whichever process was down meanwhile, and dlqd never waits for the
 * console. Without a cursor (at the first start, or if console.db was removed) it begins with
 * the dead letters of the last day. */
#include "clock.h"
#include "console.h"
#include "glob.h"
#include "json_text.h"
#include "log.h"
#include <czmq.h>

enum {
    ASK_MAX = 500,
    REPLY_WAIT_MS = 10 * 1000, /* then the request is repeated */
    NAMED_MAX = 5,   /* dead letters of one message that its text names … */
    DETAIL_MAX = 20, /* … and that its fields list */
};

/* Older dead letters are not notified at the first start. */
#define FIRST_MS DAY_MS

static const char cursor_name[] = "deaths";

void dead_letter_alerts_open(struct console *c)
{
    char *address = ipc_address(c->daemon.settings->run_dir, "dlqd", "control");

    c->dlqd = zsock_new(ZMQ_DEALER);
    zsock_set_rcvtimeo(c->dlqd, 0);
    zsock_set_sndtimeo(c->dlqd, 0);
    zsock_set_immediate(c->dlqd, 1); /* queue no request while dlqd is down */
    if (zsock_connect(c->dlqd, "%s", address) != 0)
        die(EXIT_UNAVAILABLE, "cannot connect to %s: %s", address,
            zmq_strerror(errno));
    free(address);
}

void dead_letter_alerts_close(struct console *c)
{
    zsock_destroy(&c->dlqd);
}

/* ---- asking ---- */

void dead_letter_alerts_flush(struct console *c)
{
    int64_t after, now = c->daemon.loop.mono_ms;
    char *text, since[60] = "";

    if (!c->ask_again || (c->asked_ms && now - c->asked_ms < REPLY_WAIT_MS))
        return;
    if (!store_cursor(&c->store, cursor_name, &after)) {
        after = -1;
        snprintf(since, sizeof since, ",\"since_ms\":%lld",
                 (long long)(c->daemon.loop.now_ms - FIRST_MS));
    }
    text = gr_printf(
        "{\"v\":1,\"ask\":\"dlq_new_dead_letters\",\"args\":{\"after\":%lld,"
        "\"limit\":%d%s}}",
        (long long)after, ASK_MAX, since);
    ipc_follow(c->dlqd, c->daemon.settings->run_dir, "dlqd", "control",
               &c->dlqd_file);
    if (zsock_send(c->dlqd, "zs", text) == 0) {
        c->asked_ms = now;
        c->ask_again = false;
    }
    free(text);
}

/* ---- groups: one endpoint, one reason (with `every`, all reasons) ---- */

struct death_group {
    const char *endpoint, *reason;
    json_t *dead_letters;
    size_t count;
};

static const char several_reasons[] = "several reasons";

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static struct death_group *group_of(struct death_group **all, size_t *n,
                                    const char *to, const char *reason,
                                    bool all_reasons)
{
    for (size_t i = 0; i < *n; i++) {
        struct death_group *g = &(*all)[i];
        bool same = strcmp(g->reason, reason) == 0;

        if (strcmp(g->endpoint, to) != 0 || !(same || all_reasons))
            continue;
        if (!same)
            g->reason = several_reasons;
        return g;
    }
    *all = gr_realloc(*all, (*n + 1) * sizeof **all);
    (*all)[*n] = (struct death_group){
        .endpoint = to, .reason = reason, .dead_letters = json_array()};
    return &(*all)[(*n)++];
}

static void notify_group(struct console *c, const struct alert_rule *rule,
                         const struct death_group *g, struct changes *changes)
{
    struct alert_row row = {.rule = rule->name,
                            .subject = g->endpoint,
                            .state = "notified",
                            .severity = rule_severity(rule->severity),
                            .since_ms = c->daemon.loop.now_ms,
                            .fired_ms = c->daemon.loop.now_ms,
                            .ended_ms = c->daemon.loop.now_ms,
                            .value = (double)g->count};
    struct change change = {.rule = rule,
                            .subject = gr_strdup(g->endpoint),
                            .since_ms = row.since_ms,
                            .fired_ms = row.fired_ms,
                            .value = row.value};
    struct buf summary;
    size_t i;

    buf_init(&summary, 8000);
    buf_printf(&summary, "%zu %s to %s became %s: %s (", g->count,
               g->count == 1 ? "delivery" : "deliveries",
               *g->endpoint ? g->endpoint : "no endpoint",
               g->count == 1 ? "a dead letter" : "dead letters", g->reason);
    for (i = 0; i < NAMED_MAX && i < json_array_size(g->dead_letters); i++) {
        const json_t *l = json_array_get(g->dead_letters, i);

        const char *error = text_of(l, "error");

        buf_printf(&summary, "%s%s%s%.200s", i ? "; " : "",
                   text_of(l, "event_id"), *error ? ": " : "", error);
    }
    if (g->count > NAMED_MAX)
        buf_printf(&summary, "; and %zu more", g->count - NAMED_MAX);
    buf_puts(&summary, ")");
    row.summary = summary.data;
    store_alert_add(&c->store, &row);
    change.summary = gr_strdup(summary.data);
    change.detail = json_pack("{s:s, s:I, s:O}", "reason", g->reason, "count",
                              (json_int_t)g->count, "dead_letters",
                              g->dead_letters);
    changes_add(changes, &change);
    buf_fini(&summary);
}

/* ---- at most one alert in `every` ---- */

/* Begins the time in which further dead letters are only collected. */
static void begin_hold(struct console *c, const struct alert_rule *rule,
                       const char *endpoint)
{
    store_hold_put(
        &c->store,
        &(struct hold_row){.rule = rule->name,
                           .endpoint = endpoint,
                           .until_ms = c->daemon.loop.now_ms + rule->every_ms,
                           .first = "[]"});
}

/* Adds them to those that wait for the next alert. false: no alert was sent within `every`. */
static bool hold_group(struct console *c, const struct alert_rule *rule,
                       const struct death_group *g)
{
    int64_t now = c->daemon.loop.now_ms;
    struct hold_row row;
    json_t *first;
    char *text;

    if (!rule->every_ms ||
        !store_hold(&c->store, rule->name, g->endpoint, &row))
        return false;
    if (row.until_ms <= now || row.until_ms - now > rule->every_ms)
        row.until_ms = now; /* it ends now, or it is of a wrong clock */
    first = json_loads(row.first, 0, NULL);
    if (!json_is_array(first)) {
        json_decref(first);
        first = json_array();
    }
    for (size_t i = 0; i < json_array_size(g->dead_letters) &&
                       json_array_size(first) < DETAIL_MAX;
         i++)
        json_array_append(first, json_array_get(g->dead_letters, i));
    store_hold_done(&c->store);
    text = json_dumps(first, JSON_COMPACT);
    row.rule = rule->name;
    row.endpoint = g->endpoint;
    row.count += (int64_t)g->count;
    row.first = text;
    store_hold_put(&c->store, &row);
    free(text);
    json_decref(first);
    return true;
}

static const struct alert_rule *rule_of(const struct console *c,
                                        const char *name)
{
    const struct settings *s = c->daemon.settings;

    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].enabled && s->alerts[i].when == ALERT_DEAD_LETTER &&
            strcmp(s->alerts[i].name, name) == 0)
            return &s->alerts[i];
    return NULL;
}

/* Notifies of those that were collected, and begins anew; without any, the next one is notified
 * at once. */
static void end_hold(struct console *c, const struct hold_row *row,
                     struct changes *changes)
{
    const struct alert_rule *rule = rule_of(c, row->rule);
    char *name = gr_strdup(row->rule), *endpoint = gr_strdup(row->endpoint);
    struct death_group g = {.endpoint = endpoint,
                            .count = (size_t)row->count,
                            .dead_letters = json_loads(row->first, 0, NULL)};
    size_t i;
    json_t *l;

    store_hold_done(&c->store);
    store_hold_drop(&c->store, name, endpoint);
    json_array_foreach(g.dead_letters, i, l)
    {
        const char *reason = text_of(l, "reason");

        g.reason = !g.reason || strcmp(g.reason, reason) == 0 ? reason
                                                              : several_reasons;
    }
    if (rule && g.count && g.reason) {
        notify_group(c, rule, &g, changes);
        if (rule->every_ms)
            begin_hold(c, rule, endpoint);
    }
    json_decref(g.dead_letters);
    free(name);
    free(endpoint);
}

static void end_holds(struct console *c)
{
    int64_t now = c->daemon.loop.now_ms;
    struct changes changes = {0};
    struct hold_row row;

    while (store_hold_ended(&c->store, now, now + 30 * DAY_MS, &row))
        end_hold(c, &row, &changes);
    changes_notify(c, &changes);
}

void dead_letter_alerts_due(struct console *c)
{
    const struct settings *s = c->daemon.settings;

    end_holds(c);
    for (size_t i = 0; i < s->alert_count; i++)
        c->ask_again |= s->alerts[i].enabled &&
                        s->alerts[i].when == ALERT_DEAD_LETTER;
}

static void notify_rule(struct console *c, const struct alert_rule *rule,
                        json_t *dead_letters, struct changes *changes)
{
    struct death_group *groups = NULL, *g;
    size_t n = 0, i;
    json_t *l;

    json_array_foreach(dead_letters, i, l)
    {
        const char *endpoint = text_of(l, "endpoint");

        bool selected = rule->endpoints.count == 0;

        for (size_t k = 0; k < rule->endpoints.count; k++)
            selected |= glob_match(rule->endpoints.items[k], endpoint);
        if (!selected)
            continue;
        g = group_of(&groups, &n, endpoint, text_of(l, "reason"),
                     rule->every_ms > 0);
        if (g->count++ < DETAIL_MAX)
            json_array_append(g->dead_letters, l);
    }
    for (i = 0; i < n; i++) {
        if (!hold_group(c, rule, &groups[i])) {
            notify_group(c, rule, &groups[i], changes);
            if (rule->every_ms)
                begin_hold(c, rule, groups[i].endpoint);
        }
        json_decref(groups[i].dead_letters);
    }
    free(groups);
}

/* ---- the reply ---- */

/* Whether a person or a consumer may have written the error, or it may quote the event. The console
 * stores what it sends, and an erasure of a workspace does not look for it there. */
static bool quotes(const json_t *dead_letter)
{
    static const char *const ours[] = {"expired",           "endpoint_gone",
                                       "endpoint_removed",  "blocked_address",
                                       "crashed_deliverer", "damaged"};
    const char *reason = text_of(dead_letter, "reason");

    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (strcmp(reason, ours[i]) == 0)
            return false;
    return json_integer_value(json_object_get(dead_letter, "http_status")) <= 0;
}

static void take(struct console *c, json_t *reply)
{
    json_t *dead_letters = json_object_get(reply, "dead_letters"),
           *next = json_object_get(reply, "next"),
           *after = json_object_get(reply, "after");
    const struct settings *s = c->daemon.settings;
    struct changes changes = {0};
    int64_t now_at = -1;
    json_t *l;
    size_t i;

    store_cursor(&c->store, cursor_name, &now_at);
    if (!json_is_array(dead_letters) || !json_is_integer(next) ||
        json_integer_value(after) != now_at)
        return; /* a reply to an earlier request */
    json_array_foreach(dead_letters, i, l)
    {
        if (quotes(l))
            json_object_set_new(l, "error", json_null());
    }
    for (i = 0; i < s->alert_count && json_array_size(dead_letters); i++)
        if (s->alerts[i].enabled && s->alerts[i].when == ALERT_DEAD_LETTER)
            notify_rule(c, &s->alerts[i], dead_letters, &changes);
    changes_notify(c, &changes);
    if (json_integer_value(next) != now_at)
        store_cursor_set(&c->store, cursor_name, json_integer_value(next));
    c->ask_again |= json_is_true(json_object_get(reply, "more"));
}

void dead_letter_alerts_work(struct console *c)
{
    zmsg_t *msg;
    json_t *doc;

    /* an empty frame, then the response */
    while (loop_socket_ready(&c->daemon.loop, c->dlqd) &&
           (msg = zmsg_recv(c->dlqd))) {
        zframe_t *text = zmsg_last(msg);

        c->asked_ms = 0;
        doc = json_loadb((const char *)zframe_data(text), zframe_size(text),
                         JSON_ALLOW_NUL, NULL);
        if (json_is_true(json_object_get(doc, "ok")))
            take(c, json_object_get(doc, "reply"));
        else
            log_warn(NULL, "dlqd cannot be reached for new dead letters",
                     LS("error", text_of(doc, "error")));
        json_decref(doc);
        zmsg_destroy(&msg);
    }
}
