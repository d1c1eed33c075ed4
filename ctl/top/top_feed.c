/* top_feed: collects metrics and replies for `grapnel top` without waiting for any process. */
#include "top_feed.h"
#include "clock.h"
#include "control.h"
#include "rates.h"
#include <czmq.h>

enum {
    LOOK_MS = 1000,      /* between two looks for processes */
    ASK_EVERY_MS = 2000, /* between two requests, at least … */
    ASK_SHARE = 20, /* … and so that they cost a process 1/20 of its time */
    REPLY_WITHIN_MS = 5000,
    LIST_MAX = 100,
    ENDPOINTS_PAGE = 1000,
    SLACK_MS = 1000,
};

/* A request that is repeated. */
struct asking {
    const char *process, *what;
    json_t *args;
    const char *pages; /* the rows of its reply; NULL: it has one page */
    json_t *rows;      /* of the pages before this one */
    zsock_t *req;      /* NULL: no request is open */
    int64_t begun_ms, sent_ms, due_ms; /* sent: the present page */
    json_t *reply;                     /* NULL: `why` says the reason */
    char why[200];
    bool tried;
};

struct feed {
    struct ctl *c;
    struct collector *collector;
    zsock_t *sub;
    bool through_console;
    bool console_mute; /* it forwards nothing */
    int64_t began_ms, sub_began_ms, heard_ms, look_due_ms, stale_ms;
    struct processes processes;
    struct top_seen *seen;
    char **connected; /* processes that `sub` is connected to */
    size_t connected_count;
    struct asking asks[FEED_ASKS];
    const char **endpoints; /* in the configuration */
    const char *publish;    /* metrics.publish, or NULL */
};

/* ---- frames ---- */

static const char console[] = "console";

/* The address to connect to, from an address to bind, which may mean any interface. */
static char *to_connect(const char *bound)
{
    static const char *const any[] = {"tcp://*:", "tcp://0.0.0.0:"};

    for (size_t i = 0; i < COUNT_OF(any); i++)
        if (strncmp(bound, any[i], strlen(any[i])) == 0)
            return gr_printf("tcp://127.0.0.1:%s", bound + strlen(any[i]));
    return gr_strdup(bound);
}

static void forget_connected(struct feed *f)
{
    for (size_t i = 0; i < f->connected_count; i++)
        free(f->connected[i]);
    free(f->connected);
    f->connected = NULL;
    f->connected_count = 0;
}

static void subscribe(struct feed *f, bool through_console)
{
    zsock_destroy(&f->sub);
    forget_connected(f);
    f->sub = zsock_new(ZMQ_SUB);
    zsock_set_rcvtimeo(f->sub, 0);
    zsock_set_subscribe(f->sub, "");
    f->through_console = through_console;
    f->sub_began_ms = mono_ms();
    if (through_console) {
        char *address = to_connect(f->publish);

        zsock_connect(f->sub, "%s", address);
        free(address);
    }
}

static void connect_to(struct feed *f, const char *process)
{
    for (size_t i = 0; i < f->connected_count; i++)
        if (strcmp(f->connected[i], process) == 0)
            return;
    zsock_connect(f->sub, "ipc://%s/%s.metrics", f->c->run_dir, process);
    f->connected = gr_realloc(f->connected,
                              (f->connected_count + 1) * sizeof *f->connected);
    f->connected[f->connected_count++] = gr_strdup(process);
}

static bool take_frames(struct feed *f)
{
    bool any = false;
    zframe_t *frame;

    while ((frame = zframe_recv(f->sub))) {
        struct bytes b = {zframe_data(frame), zframe_size(frame)};

        if (collector_frame(f->collector, b, mono_ms()) == GR_OK)
            any = true;
        zframe_destroy(&frame);
    }
    if (any) {
        f->heard_ms = mono_ms();
        rates_take(f->collector);
    }
    return any;
}

/* ---- processes ---- */

static void forget_seen(struct feed *f)
{
    for (size_t i = 0; f->seen && i < f->processes.count; i++)
        free(f->seen[i].host);
    free(f->seen);
    f->seen = NULL;
    processes_fini(&f->processes);
}

/* Looks which processes listen, and subscribes to the console, or without one to each of them. A
 * console that runs and forwards nothing, because it hangs, is not used, so that the other
 * processes do not seem silent. */
static void look(struct feed *f, int64_t now)
{
    const struct publisher *t;
    int64_t last_ms = f->heard_ms > f->sub_began_ms ? f->heard_ms
                                                    : f->sub_began_ms;
    bool there = false;
    char why[200];

    forget_seen(f);
    processes_find(f->c, &f->processes);
    f->seen = gr_alloc((f->processes.count + 1) * sizeof *f->seen);
    for (size_t i = 0; i < f->processes.count; i++) {
        f->seen[i] = (struct top_seen){
            .name = f->processes.names[i],
            .host = process_host(f->c->run_dir, f->processes.names[i]),
            .listens = process_listens(f->c, f->processes.names[i], why)};
        there |= f->seen[i].listens && strcmp(f->seen[i].name, console) == 0;
        if (!f->seen[i].listens)
            collector_forget(f->collector, f->seen[i].name);
    }
    t = collector_publisher(f->collector, console);
    if (f->through_console && there &&
        now - last_ms > f->stale_ms - SLACK_MS / 2)
        f->console_mute = true;
    if (!f->through_console && t && collector_hears(t, now))
        f->console_mute = false;
    there = there && f->publish && !f->console_mute;
    if (f->through_console != there)
        subscribe(f, there);
    for (size_t i = 0; !f->through_console && i < f->processes.count; i++)
        if (f->seen[i].listens)
            connect_to(f, f->seen[i].name);
}

/* ---- requests ---- */

static void give_up(struct asking *a, const char *why)
{
    zsock_destroy(&a->req);
    a->tried = true;
    json_decref(a->reply);
    a->reply = NULL;
    if (why != a->why)
        snprintf(a->why, sizeof a->why, "%s", why);
}

static void send_page(struct feed *f, struct asking *a, int64_t now)
{
    a->sent_ms = now;
    a->req = control_send(f->c->run_dir, a->process, a->what, a->args, NULL, 0);
    if (!a->req)
        give_up(a, "cannot be reached");
}

static void begin(struct feed *f, struct asking *a, int64_t now)
{
    a->due_ms = now + ASK_EVERY_MS;
    if (!process_listens(f->c, a->process, a->why)) {
        give_up(a, a->why);
        return;
    }
    a->begun_ms = now;
    json_array_clear(a->rows);
    json_object_del(a->args, "after");
    send_page(f, a, now);
}

/* true: the reply is not the last page, and the next one is asked for. */
static bool has_next(struct feed *f, struct asking *a, json_t *reply,
                     int64_t now)
{
    json_t *next = json_object_get(reply, "next");

    if (!a->pages || !reply)
        return false;
    json_array_extend(a->rows, json_object_get(reply, a->pages));
    if (!json_is_string(next)) {
        json_object_set_new(reply, a->pages, json_copy(a->rows));
        return false;
    }
    json_object_set(a->args, "after", next);
    json_decref(reply);
    send_page(f, a, now);
    return true;
}

static bool go_on(struct feed *f, struct asking *a, int64_t now)
{
    json_t *reply;
    bool unreachable;

    if (!(zsock_events(a->req) & ZMQ_POLLIN)) {
        if (now - a->sent_ms < REPLY_WITHIN_MS)
            return false;
        give_up(a, "not responding");
        return true;
    }
    reply = control_take(a->req, &unreachable, a->why);
    a->req = NULL;
    if (has_next(f, a, reply, now))
        return !a->req;
    give_up(a, a->why);
    a->reply = reply;
    if (now + ASK_SHARE * (now - a->begun_ms) > a->due_ms)
        a->due_ms = now + ASK_SHARE * (now - a->begun_ms);
    return true;
}

/* ---- the feed ---- */

struct feed *feed_open(struct ctl *c)
{
    struct feed *f = gr_alloc(sizeof *f);
    json_t *names, *endpoints;
    size_t i;

    need_run_dir(c);
    names = known_names(c);
    endpoints = json_object_get(names, "endpoints");
    f->c = c;
    f->publish = json_string_value(json_object_get(names, "metrics_publish"));
    f->began_ms = mono_ms();
    f->stale_ms = 2 * metrics_interval_ms(c) + SLACK_MS;
    f->collector = collector_new(now_ms(), f->stale_ms);
    f->asks[0] = (struct asking){
        .process = "sequencer",
        .what = "endpoints",
        .args = json_pack("{s:i}", "limit", ENDPOINTS_PAGE),
        .pages = "endpoints",
        .rows = json_array()};
    f->asks[1] = (struct asking){
        .process = "sequencer",
        .what = "gaps",
        .args = json_pack("{s:b,s:i}", "open", 1, "limit", LIST_MAX)};
    f->asks[2] = (struct asking){.process = console,
                                 .what = "alerts",
                                 .args = json_pack("{s:i}", "limit", LIST_MAX)};
    f->endpoints = gr_alloc((json_array_size(endpoints) + 1) *
                            sizeof *f->endpoints);
    for (i = 0; i < json_array_size(endpoints); i++)
        f->endpoints[i] = json_string_value(json_array_get(endpoints, i));
    subscribe(f, false);
    look(f, f->began_ms);
    f->look_due_ms = f->began_ms + LOOK_MS;
    return f;
}

void feed_close(struct feed *f)
{
    for (int i = 0; i < FEED_ASKS; i++) {
        give_up(&f->asks[i], "");
        json_decref(f->asks[i].args);
        json_decref(f->asks[i].rows);
    }
    zsock_destroy(&f->sub);
    forget_connected(f);
    forget_seen(f);
    collector_free(f->collector);
    free(f->endpoints);
    free(f);
}

bool feed_run(struct feed *f)
{
    int64_t now = mono_ms();
    bool any = take_frames(f);

    if (now >= f->look_due_ms) {
        look(f, now);
        f->look_due_ms = now + LOOK_MS;
        any = true;
    }
    for (int i = 0; i < FEED_ASKS; i++) {
        struct asking *a = &f->asks[i];

        if (a->req)
            any |= go_on(f, a, now);
        else if (now >= a->due_ms)
            begin(f, a, now);
    }
    return any;
}

void feed_input(struct feed *f, struct top_input *out)
{
    *out = (struct top_input){
        .collector = f->collector,
        .seen = f->seen,
        .seen_count = f->processes.count,
        .endpoints = f->endpoints,
        .endpoint_list = json_object_get(f->asks[0].reply, "endpoints"),
        .gap_list = json_object_get(f->asks[1].reply, "gaps"),
        .alert_list = json_object_get(f->asks[2].reply, "alerts"),
        .sequencer_why = f->asks[1].reply ? "" : f->asks[1].why,
        .console_why = f->asks[2].reply ? "" : f->asks[2].why,
        .began_mono_ms = f->began_ms,
        .mono_ms = mono_ms(),
        .now_ms = now_ms(),
        .stale_ms = f->stale_ms};
}

int feed_sockets(struct feed *f, zsock_t *sockets[FEED_POLL_MAX])
{
    int n = 0;

    sockets[n++] = f->sub;
    for (int i = 0; i < FEED_ASKS; i++)
        if (f->asks[i].req)
            sockets[n++] = f->asks[i].req;
    return n;
}

bool feed_complete(const struct feed *f)
{
    bool late = mono_ms() - f->began_ms > 2 * f->stale_ms;

    for (int i = 0; i < FEED_ASKS; i++)
        if (!f->asks[i].tried)
            return false;
    for (size_t i = 0; i < f->processes.count && !late; i++) {
        const struct publisher *t = collector_publisher(f->collector,
                                                        f->seen[i].name);

        if (f->seen[i].listens && !(t && t->before_ms))
            return false;
    }
    return true;
}

const char *feed_from(const struct feed *f)
{
    return f->through_console ? "by the console" : "by each process";
}
