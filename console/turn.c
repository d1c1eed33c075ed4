/* turn: the console's start, its turn, and its replies to requests. */
#include "alert_events.h"
#include "audit_heads.h"
#include "authorization.h"
#include "clock.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include "monitors.h"
#include "portal.h"
#include "proxy.h"
#include "sessions.h"
#include "sign_in.h"
#include "static_pages.h"
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000,
    FRAMES_PER_TURN = 64,
    STALE_MS = 30 * 1000,
    RECENT = 100, /* alerts of /api/alerts */
};

static void begin(void *self, struct web_request *r);
static void end(void *self, struct web_request *r);

static const struct web_ops web_ops = {.begin = begin, .end = end};

void console_open(void *self)
{
    struct console *c = self;
    const struct settings *s = c->daemon.settings;
    int64_t three = 3 * s->metrics_interval_ms;
    char *path;

    store_open(&c->store, c->daemon.db);
    c->collector = collector_new(c->daemon.started_ms,
                                 three > STALE_MS ? three : STALE_MS);
    c->tracks = measurements_tracks(mono_ms());
    path = gr_printf("%s/%s.series", s->state_dir, c->daemon.name);
    c->series = series_store_open(path, c->daemon.started_ms);
    free(path);
    c->learned = learned_open(c);
    c->notify = notify_open();
    c->source_tests = source_tests_open();
    c->proxy = proxy_open(s->run_dir, c->daemon.cluster);
    c->otlp = otlp_open(s->run_dir, c->daemon.started_ms);
    LIST_INIT(&c->active);
    LIST_INIT(&c->silences);
    alerts_load(c);
    silences_load(c);
    dead_letter_alerts_open(c);
    c->alert_events = alert_events_open(c);
    c->heads = audit_heads_open(s->run_dir, mono_ms() + s->console.evaluate_ms);
    c->forward = forward_open(s->run_dir, s->metrics_publish);
    c->live = live_open(s->run_dir);
    c->api = api_open(&c->daemon, c->live);
    c->web = web_open(s->console.host, s->console.port, &s->console.tls,
                      &web_ops, c);
    web_set_hosts(c->web, &s->console.hosts);
    loop_watch_socket(&c->daemon.loop, forward_in(c->forward));
    loop_watch_fd(&c->daemon.loop, monitors_fd(forward_out(c->forward)));
    loop_watch_socket(&c->daemon.loop, c->dlqd);
    loop_watch_fd(&c->daemon.loop, web_fd(c->web));
    loop_watch_fd(&c->daemon.loop, api_fd(c->api));
    loop_watch_fd(&c->daemon.loop, audit_heads_fd(c->heads));
    loop_watch_fd(&c->daemon.loop, live_fd(c->live));
    loop_watch_fd(&c->daemon.loop, otlp_fd(c->otlp));
    /* Wait until every process has been heard. */
    c->judge_due_ms = mono_ms() + s->console.evaluate_ms;
    log_info(NULL, "listening", LS("host", s->console.host),
             LI("port", s->console.port), LS("publish", s->metrics_publish));
}

/* ---- work ---- */

static bool take_frames(struct console *c)
{
    if (!loop_socket_ready(&c->daemon.loop, forward_in(c->forward)))
        return false;
    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        zframe_t *frame = forward_take(c->forward);
        gr_rc rc;

        if (!frame)
            return false;
        rc = collector_frame(
            c->collector,
            (struct bytes){zframe_data(frame), zframe_size(frame)},
            c->daemon.loop.mono_ms);
        c->metrics[rc == GR_OK ? M_FRAMES : M_FRAMES_INVALID]++;
        zframe_destroy(&frame);
    }
    return true;
}

static int until(int64_t due_ms, int64_t now_ms)
{
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

int console_work(void *self)
{
    struct console *c = self;
    struct monitors *out = forward_out(c->forward);
    int64_t now = c->daemon.loop.mono_ms;
    bool more = take_frames(c);
    char name[NAME_MAX_BYTES + 1];
    int ms;

    ms = monitors_run(out, now);
    c->metrics[M_SUBSCRIBERS] = monitors_subscribed(out);
    c->metrics[M_MONITORS_REFUSED] = monitors_refused(out);
    c->metrics[M_FRAMES_DROPPED] = monitors_dropped(out);
    if (now >= c->look_due_ms) {
        /* A process that stopped in order is not missed. Rules still fire if no process of a
         * required kind is left. */
        forward_look(c->forward);
        while (forward_gone(c->forward, name))
            collector_forget(c->collector, name);
        alert_events_look(c->alert_events);
        c->look_due_ms = now + LOOK_MS;
    }
    (void)api_work(c->api); /* first, so that web_run() writes its responses */
    ms = loop_sooner(ms, web_run(c->web, c->daemon.loop.now_ms, now));
    ms = loop_sooner(ms, api_work(c->api)); /* what web_run() has asked */
    dead_letter_alerts_work(c);
    ms = loop_sooner(ms, live_work(c->live, now));
    if (now >= c->judge_due_ms && !more) {
        alerts_judge(c);
        dead_letter_alerts_due(c);
        c->judge_due_ms = now + c->daemon.settings->console.evaluate_ms;
    }
    ms = loop_sooner(ms, audit_heads_work(c)); /* before it is sent */
    ms = loop_sooner(ms, silences_work(c));
    ms = loop_sooner(ms, notifications_work(c));
    source_tests_work(c);
    ms = loop_sooner(ms, series_store_work(c->series, c->collector,
                                           c->daemon.loop.now_ms, now));
    ms = loop_sooner(ms, alert_events_work(c->alert_events));
    ms = loop_sooner(ms, otlp_work(c->otlp, c->daemon.settings, c->collector,
                                   c->daemon.loop.now_ms, now));
    ms = loop_sooner(ms, until(c->judge_due_ms, now));
    return more ? 0 : loop_sooner(ms, until(c->look_due_ms, now));
}

void console_after_commit(void *self)
{
    struct console *c = self;

    dead_letter_alerts_flush(c);
    notifications_flush(c);
    source_tests_flush(c);
    alert_events_flush(c->alert_events);
    learned_flush(c->learned);
}

void console_undo(void *self)
{
    struct console *c = self;

    alerts_load(c);
    silences_load(c);
    learned_undo(c->learned);
    alert_events_undo(c->alert_events);
}

void console_measure(void *self)
{
    struct console *c = self;
    const struct otlp_counts *otlp = otlp_counts(c->otlp);

    slo_measure(c);
    c->metrics[M_SPANS_SENT] = otlp->spans_sent;
    c->metrics[M_SPANS_DROPPED] = otlp->spans_dropped;
    c->metrics[M_SPANS_WAITING] = otlp->spans_waiting;
    c->metrics[M_POINTS_SENT] = otlp->points_sent;
    c->metrics[M_TELEMETRY_FAILED] = otlp->requests_failed;
}

void console_reload(void *self, struct settings *fresh)
{
    struct console *c = self;
    const struct tls *was = &c->daemon.settings->console.tls,
                     *is = &fresh->console.tls;

    web_set_hosts(c->web, &fresh->console.hosts);
    if (is->key && (!was->key || strcmp(is->key, was->key) != 0 ||
                    strcmp(is->certificate, was->certificate) != 0))
        web_set_tls(c->web, is);
    live_reload(c->live, &fresh->console.tokens);
    proxy_reload(c->proxy);
    c->judge_due_ms = c->daemon.loop.mono_ms + fresh->console.evaluate_ms;
}

void console_close(void *self)
{
    struct console *c = self;

    web_close(c->web);
    api_close(c->api);
    live_close(c->live);
    forward_close(c->forward);
    proxy_close(c->proxy);
    dead_letter_alerts_close(c);
    alert_events_close(c->alert_events);
    audit_heads_close(c->heads);
    source_tests_close(c->source_tests);
    otlp_close(c->otlp);
    notify_close(c->notify);
    tests_fini(&c->tests);
    alerts_close(c);
    silences_close(c);
    learned_close(c->learned);
    series_store_close(c->series);
    tracks_free(c->tracks);
    collector_free(c->collector);
}

/* ---- requests ---- */

static void page_alerts(struct console *c, struct web_request *r)
{
    const struct string_list *tokens = &c->daemon.settings->console.tokens;
    const char *token;
    json_t *doc;
    size_t index;
    char *text;
    int count;

    if (!tokens->count) {
        web_fail(r, WEB_NO_TOKENS, NULL, "console.tokens is empty");
        return;
    }
    token = bearer_token(web_header(r, "Authorization", &count));
    if (!token || !token_listed(tokens, token, &index)) {
        web_fail(r, WEB_UNAUTHORIZED, NULL,
                 "Authorization: Bearer TOKEN is missing or wrong");
        return;
    }
    doc = json_pack("{s:o}", "alerts", alerts_json(c, RECENT));
    text = json_dumps(doc, JSON_COMPACT);
    buf_puts(&r->text, text);
    buf_puts(&r->text, "\n");
    free(text);
    json_decref(doc);
}

static void page(struct console *c, struct web_request *r)
{
    const char *path = r->path;

    if (strcmp(r->method, "GET") != 0 && strcmp(r->method, "HEAD") != 0) {
        web_add_header(r, "Allow", "GET, HEAD");
        web_fail(r, WEB_METHOD_NOT_ALLOWED, NULL, "only GET");
    } else if (strcmp(path, "/metrics") == 0) {
        r->type = "text/plain; version=0.0.4; charset=utf-8";
        prometheus_text(c->collector, c->daemon.loop.mono_ms, &r->text);
    } else if (strcmp(path, "/healthz") == 0) {
        buf_puts(&r->text, "{\"status\":\"ok\"}\n");
    } else if (strcmp(path, "/api/alerts") == 0) {
        page_alerts(c, r);
    } else if (!static_pages_take(c->daemon.settings->console.pages,
                                  &c->daemon.settings->console.portal.origins,
                                  r)) {
        web_fail(r, WEB_NO_ROUTE, NULL,
                 "not found; there are pages at /, and /metrics, /healthz, "
                 "/api/alerts and /api/v1");
    }
}

static void begin(void *self, struct web_request *r)
{
    struct console *c = self;

    if (api_has(r->path)) {
        api_begin(c->api, r);
        return;
    }
    page(c, r);
    web_respond(r);
}

static void end(void *self, struct web_request *r)
{
    struct console *c = self;

    if (r->self)
        api_end(c->api, r);
}

json_t *console_ask_alerts(void *self, json_t *args, char why[200])
{
    json_t *limit = json_object_get(args, "limit");
    int64_t n = limit ? json_integer_value(limit) : RECENT;

    (void)why;
    return json_pack("{s:o}", "alerts", alerts_json(self, n));
}

json_t *console_ask_series(void *self, json_t *args, char why[200])
{
    struct console *c = self;

    return series_store_ask(c->series, args, c->daemon.loop.now_ms, why);
}

json_t *console_make_link(void *self, json_t *args, char why[200])
{
    struct console *c = self;
    const char *name = json_string_value(json_object_get(args, "role"));
    enum role role = ROLE_ADMIN;
    char *url;
    json_t *reply;

    (void)why;
    while (name && strcmp(role_name(role), name) != 0)
        role--;
    url = sign_in_link(c->api, role, control_actor(c->daemon.control));
    reply = json_pack("{s:s,s:o}", "url", url, "expires_at",
                      json_time(c->daemon.loop.now_ms + LINK_LIFE_MS));
    free(url);
    return reply;
}

json_t *console_portal_link(void *self, json_t *args, char why[200])
{
    struct console *c = self;

    return portal_link(c->api, args, why);
}

/* `grapnel trace` asks every process; the console knows nothing of events. */
json_t *console_ask_trace(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    return json_pack("{s:[]}", "timeline");
}
