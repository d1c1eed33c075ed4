/* deaths: each dead letter as it comes, for rules with `when: dead_letter`.
 *
 * dlqd is asked over its control socket, as anybody may, for the deaths behind
 * the last one that was told; the place is kept in the same transaction as the
 * messages. So none is told twice or missed, whoever was away meanwhile, and
 * dlqd never waits for us. With no cursor (a first start, or console.db was
 * removed) it begins with the deaths of the last day. */
#include "clock.h"
#include "console.h"
#include "glob.h"
#include "json_text.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ASK_MOST = 500,
    ANSWER_WAIT_MS = 10 * 1000, /* then it is asked again */
    NAMED_MOST = 5,             /* letters of a group, in words … */
    DETAIL_MOST = 20,           /* … and in the fields */
};

#define FIRST_MS DAY_MS /* what died before that is not told at a first start */

static const char cursor_name[] = "deaths";

void deaths_open(struct console *c)
{
    char *address = gr_printf("ipc://%s/dlqd.control",
                              c->daemon.settings->run_dir);
    int none = 0, yes = 1;

    c->dlqd = zmq_socket(c->daemon.zmq, ZMQ_DEALER);
    if (!c->dlqd)
        die(EXIT_UNAVAILABLE, "no socket: %s", zmq_strerror(errno));
    zmq_setsockopt(c->dlqd, ZMQ_LINGER, &none, sizeof none);
    /* A question to nobody is not kept for later. */
    zmq_setsockopt(c->dlqd, ZMQ_IMMEDIATE, &yes, sizeof yes);
    if (zmq_connect(c->dlqd, address) != 0)
        die(EXIT_UNAVAILABLE, "can't connect to %s: %s", address,
            zmq_strerror(errno));
    free(address);
}

void deaths_close(struct console *c)
{
    zmq_close(c->dlqd);
}

static bool wanted(const struct settings *s)
{
    for (size_t i = 0; i < s->alert_count; i++)
        if (s->alerts[i].enabled && s->alerts[i].when == ALERT_DEAD_LETTER)
            return true;
    return false;
}

void deaths_due(struct console *c)
{
    c->ask_again |= wanted(c->daemon.settings);
}

/* ---- asking ---- */

void deaths_tell(struct console *c)
{
    int64_t after, now = c->daemon.loop.mono_ms;
    char *text, since[60] = "";

    if (!c->ask_again || (c->asked_ms && now - c->asked_ms < ANSWER_WAIT_MS))
        return;
    if (!store_cursor(&c->store, cursor_name, &after)) {
        after = -1;
        snprintf(since, sizeof since, ",\"since_ms\":%lld",
                 (long long)(c->daemon.loop.now_ms - FIRST_MS));
    }
    text = gr_printf("{\"v\":1,\"ask\":\"dlq_deaths\",\"args\":{\"after\":%lld,"
                     "\"limit\":%d%s}}",
                     (long long)after, ASK_MOST, since);
    if (zmq_send(c->dlqd, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_send(c->dlqd, text, strlen(text), ZMQ_DONTWAIT) >= 0) {
        c->asked_ms = now;
        c->ask_again = false;
    }
    free(text);
}

/* ---- groups: one endpoint, one reason ---- */

struct group {
    const char *endpoint, *reason;
    json_t *letters;
    int64_t first_ms;
    size_t count;
};

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static struct group *group_of(struct group **all, size_t *n, const char *to,
                              const char *reason)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp((*all)[i].endpoint, to) == 0 &&
            strcmp((*all)[i].reason, reason) == 0)
            return &(*all)[i];
    *all = gr_realloc(*all, (*n + 1) * sizeof **all);
    (*all)[*n] = (struct group){
        .endpoint = to, .reason = reason, .letters = json_array()};
    return &(*all)[(*n)++];
}

static void put_group(const struct group *g, struct buf *out)
{
    json_t *l;
    size_t i;

    buf_printf(out, "%zu %s to %s died: %s (", g->count,
               g->count == 1 ? "delivery" : "deliveries",
               *g->endpoint ? g->endpoint : "no endpoint", g->reason);
    json_array_foreach(g->letters, i, l)
    {
        if (i == NAMED_MOST)
            break;
        buf_printf(out, "%s%s: %.200s", i ? "; " : "", text_of(l, "event_id"),
                   text_of(l, "error"));
    }
    if (g->count > NAMED_MOST)
        buf_printf(out, "; and %zu more", g->count - NAMED_MOST);
    buf_puts(out, ")");
}

static void tell_group(struct console *c, const struct alert_rule *rule,
                       const struct group *g, struct changes *changes)
{
    struct alert_row row = {.rule = rule->name,
                            .subject = g->endpoint,
                            .state = "told",
                            .severity = rule_severity(rule->severity),
                            .since_ms = c->daemon.loop.now_ms,
                            .fired_ms = c->daemon.loop.now_ms,
                            .ended_ms = c->daemon.loop.now_ms,
                            .value = (double)g->count};
    struct change change = {.rule = rule,
                            .subject = gr_strdup(g->endpoint),
                            .since_ms = row.since_ms,
                            .value = row.value};
    struct buf summary;

    buf_init(&summary, 8000);
    put_group(g, &summary);
    row.summary = summary.data;
    store_alert_add(&c->store, &row);
    change.summary = gr_strdup(summary.data);
    change.detail = json_pack("{s:s, s:I, s:O}", "reason", g->reason, "count",
                              (json_int_t)g->count, "letters", g->letters);
    changes_add(changes, &change);
    buf_fini(&summary);
}

static bool takes(const struct alert_rule *rule, const char *endpoint)
{
    for (size_t i = 0; i < rule->endpoints.count; i++)
        if (glob_match(rule->endpoints.items[i], endpoint))
            return true;
    return rule->endpoints.count == 0;
}

static void tell_rule(struct console *c, const struct alert_rule *rule,
                      json_t *deaths, struct changes *changes)
{
    struct group *groups = NULL, *g;
    size_t n = 0, i;
    json_t *l;

    json_array_foreach(deaths, i, l)
    {
        const char *endpoint = text_of(l, "endpoint");

        if (!takes(rule, endpoint))
            continue;
        g = group_of(&groups, &n, endpoint, text_of(l, "reason"));
        if (g->count++ < DETAIL_MOST)
            json_array_append(g->letters, l);
    }
    for (i = 0; i < n; i++) {
        tell_group(c, rule, &groups[i], changes);
        json_decref(groups[i].letters);
    }
    free(groups);
}

/* ---- the answer ---- */

static void take(struct console *c, json_t *answer)
{
    json_t *deaths = json_object_get(answer, "deaths"),
           *next = json_object_get(answer, "next"),
           *after = json_object_get(answer, "after");
    const struct settings *s = c->daemon.settings;
    struct changes changes = {0};
    int64_t now_at = -1;

    store_cursor(&c->store, cursor_name, &now_at);
    if (!json_is_array(deaths) || !json_is_integer(next) ||
        json_integer_value(after) != now_at)
        return; /* an answer to an older question */
    for (size_t i = 0; i < s->alert_count && json_array_size(deaths); i++)
        if (s->alerts[i].enabled && s->alerts[i].when == ALERT_DEAD_LETTER)
            tell_rule(c, &s->alerts[i], deaths, &changes);
    changes_tell(c, &changes);
    if (json_integer_value(next) != now_at)
        store_cursor_set(&c->store, cursor_name, json_integer_value(next));
    c->ask_again |= json_is_true(json_object_get(answer, "more"));
}

void deaths_work(struct console *c)
{
    zmq_msg_t msg;
    json_t *doc;

    zmq_msg_init(&msg);
    while (zmq_msg_recv(&msg, c->dlqd, ZMQ_DONTWAIT) >= 0) {
        if (zmq_msg_more(&msg) || !zmq_msg_size(&msg))
            continue; /* the empty part in front */
        c->asked_ms = 0;
        doc = json_loadb(zmq_msg_data(&msg), zmq_msg_size(&msg), JSON_ALLOW_NUL,
                         NULL);
        if (json_is_true(json_object_get(doc, "ok")))
            take(c, json_object_get(doc, "answer"));
        else
            log_warn(NULL, "dlqd does not tell of its deaths",
                     LS("error", text_of(doc, "error")));
        json_decref(doc);
    }
    zmq_msg_close(&msg);
}
