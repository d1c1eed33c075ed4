/* loop: the console's turn. */
#include "clock.h"
#include "console.h"
#include "log.h"
#include "monitors.h"
#include "stores.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000,
    FRAMES_PER_TURN = 64,
    STALE_MS = 30 * 1000,
    RECENT = 100, /* alerts of /api/alerts */
};

extern const char console_store_sql[];

static void page(void *self, const char *path, const char *bearer,
                 struct page *p);

static int64_t stale_ms(const struct settings *s)
{
    int64_t three = 3 * s->metrics_interval_ms;

    return three > STALE_MS ? three : STALE_MS;
}

static void on_open(void *self)
{
    struct console *c = self;
    const struct settings *s = c->daemon.settings;

    store_open(&c->store, c->daemon.db);
    c->gather = gather_new(c->daemon.started_ms, stale_ms(s));
    c->facts = facts_new(mono_ms());
    c->notify = notify_open();
    LIST_INIT(&c->active);
    alerts_load(c);
    deaths_open(c);
    c->forward = forward_open(c->daemon.zmq, s->run_dir, s->metrics_publish);
    c->http = http_open(s->console.host, s->console.port, page, c);
    http_set_hosts(c->http, &s->console.hosts);
    loop_watch_socket(&c->daemon.loop, forward_in(c->forward));
    loop_watch_fd(&c->daemon.loop, monitors_fd(forward_out(c->forward)));
    loop_watch_socket(&c->daemon.loop, c->dlqd);
    loop_watch_fd(&c->daemon.loop, http_fd(c->http));
    /* First let everybody be heard. */
    c->judge_due_ms = mono_ms() + s->console.evaluate_ms;
    log_info(NULL, "listening", LS("host", s->console.host),
             LI("port", s->console.port), LS("publish", s->metrics_publish));
}

/* ---- work ---- */

static bool take_frames(struct console *c)
{
    zmq_msg_t msg;

    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        struct bytes frame;

        if (!forward_take(c->forward, &msg))
            return false;
        frame = (struct bytes){zmq_msg_data(&msg), zmq_msg_size(&msg)};
        if (gather_frame(c->gather, frame, c->daemon.loop.mono_ms) == GR_OK)
            c->metrics[M_FRAMES]++;
        else
            c->metrics[M_SENSELESS]++;
        zmq_msg_close(&msg);
    }
    return true;
}

/* One that ended in order is not missed, unless it is one of which there must
 * be one: rules see to that by its kind. */
static void gone(void *self, const char *process)
{
    struct console *c = self;

    gather_forget(c->gather, process);
}

static int until(int64_t due_ms, int64_t now_ms)
{
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static void measure_monitors(struct console *c)
{
    const struct monitors *m = forward_out(c->forward);

    c->metrics[M_SUBSCRIBERS] = monitors_subscribed(m);
    c->metrics[M_MONITORS_REFUSED] = monitors_refused(m);
    c->metrics[M_FRAMES_DROPPED] = monitors_dropped(m);
}

static int on_work(void *self)
{
    struct console *c = self;
    int64_t now = c->daemon.loop.mono_ms;
    bool more = take_frames(c);
    int ms;

    ms = monitors_run(forward_out(c->forward), now);
    measure_monitors(c);
    if (now >= c->look_due_ms) {
        forward_look(c->forward, gone, c);
        c->look_due_ms = now + LOOK_MS;
    }
    c->http_wait_ms = http_run(c->http, now);
    deaths_work(c);
    if (now >= c->judge_due_ms && !more) {
        alerts_judge(c);
        deaths_due(c);
        c->judge_due_ms = now + c->daemon.settings->console.evaluate_ms;
    }
    ms = sooner(ms, tell_work(c));
    ms = sooner(ms, c->http_wait_ms);
    ms = sooner(ms, until(c->judge_due_ms, now));
    return more ? 0 : sooner(ms, until(c->look_due_ms, now));
}

static void on_tell(void *self)
{
    struct console *c = self;

    deaths_tell(c);
    tell_tell(c);
}

static void on_undo(void *self)
{
    alerts_load(self);
}

static void on_measure(void *self)
{
    slo_measure(self);
}

static void on_reload(void *self, struct settings *fresh)
{
    struct console *c = self;

    http_set_hosts(c->http, &fresh->console.hosts);
    c->judge_due_ms = c->daemon.loop.mono_ms + fresh->console.evaluate_ms;
}

static void on_close(void *self)
{
    struct console *c = self;

    http_close(c->http);
    forward_close(c->forward);
    deaths_close(c);
    notify_close(c->notify);
    tests_fini(&c->tests);
    alerts_close(c);
    facts_free(c->facts);
    gather_free(c->gather);
}

/* ---- what is asked for ---- */

static void fail(struct page *p, unsigned status, const char *code,
                 const char *message)
{
    p->status = status;
    buf_printf(&p->text, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"}}\n",
               code, message);
}

static void page_alerts(struct console *c, const char *bearer, struct page *p)
{
    const struct text_list *tokens = &c->daemon.settings->console.tokens;
    json_t *doc;
    char *text;

    if (!tokens->count) {
        fail(p, 403, "no_tokens", "console.tokens names none");
        return;
    }
    if (!bearer || !http_token_known(tokens->items, tokens->count, bearer)) {
        fail(p, 401, "unauthorized", "Authorization: Bearer TOKEN is needed");
        return;
    }
    doc = json_pack("{s:o}", "alerts", alerts_json(c, RECENT));
    text = json_dumps(doc, JSON_COMPACT);
    buf_puts(&p->text, text);
    buf_puts(&p->text, "\n");
    free(text);
    json_decref(doc);
}

static void page(void *self, const char *path, const char *bearer,
                 struct page *p)
{
    struct console *c = self;

    if (strcmp(path, "/metrics") == 0) {
        p->type = "text/plain; version=0.0.4; charset=utf-8";
        prometheus_text(c->gather, c->daemon.loop.mono_ms, &p->text);
    } else if (strcmp(path, "/healthz") == 0) {
        buf_puts(&p->text, "{\"status\":\"ok\"}\n");
    } else if (strcmp(path, "/api/alerts") == 0) {
        page_alerts(c, bearer, p);
    } else {
        fail(p, 404, "not_found", "there are /metrics, /healthz, /api/alerts");
    }
}

static json_t *ask_alerts(void *self, json_t *args, char why[200])
{
    json_t *limit = json_object_get(args, "limit");
    int64_t n = limit ? json_integer_value(limit) : RECENT;

    if (n < 1 || n > 1000) {
        snprintf(why, 200, "\"limit\" must be a number from 1 to 1000");
        return NULL;
    }
    return json_pack("{s:o}", "alerts", alerts_json(self, n));
}

/* Whoever asks all processes of an event's life asks us, too: none of it is
 * here. */
static json_t *ask_trace(void *self, json_t *args, char why[200])
{
    (void)self, (void)args, (void)why;
    return json_pack("{s:[]}", "timeline");
}

const struct control_command console_commands[] = {
    {"trace", "id", "nothing: the console sees no event", ask_trace},
    {"alerts", "limit", "pending and firing ones, then those that ended",
     ask_alerts},
    {"alerts_test", "name", "tell its notifiers a test; waits for the outcome",
     tell_test},
    {0},
};

static const char *const steps[] = {console_store_sql, proto_hop_sql};
STORE_HAS_STEPS(steps, CONSOLE_SCHEMA);
static const struct db_schema schema = {.steps = steps,
                                        .count = COUNT_OF(steps),
                                        .program = "grapnel-console",
                                        .table = "notifications"};
/* It is nobody's peer: the hop's tables stay empty. */
static const struct hop_ops hop_ops = {0};

const struct daemon_plan console_plan = {
    .process = "console",
    .default_name = "console",
    .summary = "gathers metrics, serves them to Prometheus, and alerts",
    .schema = &schema,
    .hop = &hop_ops,
    .commands = console_commands,
    .metrics = console_metrics,
    .families = console_families,
    .open = on_open,
    .work = on_work,
    .tell = on_tell,
    .undo = on_undo,
    .reload = on_reload,
    .close = on_close,
    .measure = on_measure,
};
