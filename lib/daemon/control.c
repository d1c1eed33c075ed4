/* control: the control socket of a daemon, and the client that asks it. */
#include "control.h"
#include "alloc.h"
#include "bounds.h"
#include "clock.h"
#include "commands.h"
#include "log.h"
#include <czmq.h>

enum {
    CONTROL_VERSION = 1,
    REQUEST_MAX_BYTES = 1024 * 1024,
    PER_TURN = 16,
    TABLES_MAX = 3, /* ping, of every daemon, and of the process */
};

struct reply {
    zframe_t *to; /* ROUTER's name for the connection */
    char *text;
};

struct commands {
    const struct control_command *all;
    void *self;
};

struct control {
    zsock_t *router;
    char *name;
    struct commands tables[TABLES_MAX];
    int table_count;
    struct reply ready[PER_TURN + 1];
    int ready_count;
    zframe_t
        *current; /* the connection whose request is handled; NULL: it waits */
    zframe_t
        *waiter;   /* the connection that waits for control_reply(), or NULL */
    json_t *later; /* the value that control_later() returns */
    const struct command_spec *spec;       /* of the current request */
    const struct command_spec *later_spec; /* of the one that waits */
    const char *code; /* of the error that the current request will get */
    int64_t started_ms;
};

static json_t *pong(void *self, json_t *args, char why[200])
{
    const struct control *c = self;
    char at[RFC3339_BYTES];

    (void)args, (void)why;
    rfc3339(at, c->started_ms);
    return json_pack("{s:s,s:s,s:i,s:s}", "process", c->name, "version",
                     GRAPNEL_VERSION, "pid", (int)getpid(), "started_at", at);
}

static const struct control_command every[] = {{&command_ping, pong}, {0}};

struct control *control_open(const char *run_dir, const char *name)
{
    struct control *c = gr_alloc(sizeof *c);

    c->name = gr_strdup(name);
    c->later = json_object();
    c->started_ms = now_ms();
    c->router = zsock_new(ZMQ_ROUTER);
    zsock_set_rcvtimeo(c->router, 0);
    zsock_set_sndtimeo(c->router, 0);
    zsock_set_maxmsgsize(c->router, REQUEST_MAX_BYTES);
    ipc_bind(c->router, run_dir, name, "control");
    control_add(c, every, c);
    return c;
}

void control_add(struct control *c, const struct control_command *commands,
                 void *self)
{
    assert(c->table_count < TABLES_MAX);
    c->tables[c->table_count++] = (struct commands){commands, self};
}

void control_close(struct control *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->ready_count; i++) {
        zframe_destroy(&c->ready[i].to);
        free(c->ready[i].text);
    }
    zframe_destroy(&c->waiter);
    zsock_destroy(&c->router);
    json_decref(c->later);
    free(c->name);
    free(c);
}

zsock_t *control_socket(struct control *c)
{
    return c->router;
}

/* ---- replies ---- */

static char *reply_text(json_t *reply, const char *code, const char *why)
{
    json_t *doc = reply ? json_pack("{s:i,s:b,s:o}", "v", CONTROL_VERSION, "ok",
                                    1, "reply", reply)
                        : json_pack("{s:i,s:b,s:s,s:s}", "v", CONTROL_VERSION,
                                    "ok", 0, "code", code, "error", why);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    return text ? text
                : gr_strdup("{\"v\":1,\"ok\":false,\"code\":\"refused\","
                            "\"error\":\"the response is not valid JSON\"}");
}

#ifdef GRAPNEL_DEBUG
static void check_reply(const struct command_spec *spec, const json_t *reply)
{
    char why[200];

    if (spec && !command_reply_fits(spec, reply, why))
        die(EXIT_SOFTWARE, "the reply to %s is not as declared: %s", spec->name,
            why);
}
#else
static void check_reply(const struct command_spec *spec, const json_t *reply)
{
    (void)spec, (void)reply;
}
#endif

static void ready(struct control *c, zframe_t **to,
                  const struct command_spec *spec, json_t *reply,
                  const char *code, const char *why)
{
    if (reply)
        check_reply(spec, reply);
    c->ready[c->ready_count++] = (struct reply){
        .to = *to, .text = reply_text(reply, code, why)};
    *to = NULL;
}

void control_undo(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        free(c->ready[i].text);
        c->ready[i].text = reply_text(NULL, "disk_full",
                                      "the disk is full: nothing was changed; "
                                      "free disk space, then try again");
    }
    control_flush(c);
}

void control_flush(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        struct reply *a = &c->ready[i];

        /* A response to a client that has gone is dropped. */
        zsock_send(c->router, "fzs", a->to, a->text);
        zframe_destroy(&a->to);
        free(a->text);
    }
    c->ready_count = 0;
}

json_t *control_later(struct control *c)
{
    c->waiter = c->current;
    c->later_spec = c->spec;
    c->current = NULL;
    return c->later;
}

bool control_waiting(const struct control *c)
{
    return c->waiter;
}

void control_reply(struct control *c, json_t *reply, const char *why)
{
    if (c->waiter)
        ready(c, &c->waiter, c->later_spec, reply, "refused", why);
}

void control_not_found(struct control *c)
{
    c->code = "not_found";
}

/* ---- requests ---- */

static void list_known(const struct control *c, const char *ask, char why[200])
{
    struct buf b;

    buf_init(&b, 199);
    buf_printf(&b, "%s has no request \"%.40s\"; it has", c->name, ask);
    for (int i = 0; i < c->table_count; i++)
        for (const struct control_command *k = c->tables[i].all; k->spec; k++)
            buf_printf(&b, " %s", k->spec->name);
    snprintf(why, 200, "%s", b.data);
    buf_fini(&b);
}

static bool is_question(json_t *doc)
{
    json_t *args = json_object_get(doc, "args");
    size_t known = 2 + (args != NULL);

    return json_object_size(doc) == known && json_object_get(doc, "v") &&
           json_is_string(json_object_get(doc, "ask")) &&
           (!args || json_is_object(args));
}

static const struct control_command *find(const struct control *c,
                                          const char *ask, void **self)
{
    for (int i = 0; i < c->table_count; i++)
        for (const struct control_command *k = c->tables[i].all; k->spec; k++)
            if (strcmp(k->spec->name, ask) == 0) {
                *self = c->tables[i].self;
                return k;
            }
    return NULL;
}

static json_t *handle(struct control *c, json_t *doc, char why[200])
{
    const char *ask = json_string_value(json_object_get(doc, "ask"));
    json_t *args = json_object_get(doc, "args");
    const struct control_command *command;
    void *self;

    if (json_integer_value(json_object_get(doc, "v")) != CONTROL_VERSION) {
        snprintf(why, 200, "this is control version %d: write {\"v\":%d,…}",
                 CONTROL_VERSION, CONTROL_VERSION);
        return NULL;
    }
    if (!is_question(doc)) {
        snprintf(why, 200, "a request is {\"v\":1,\"ask\":NAME,\"args\":{…}}");
        return NULL;
    }
    command = find(c, ask, &self);
    if (!command)
        list_known(c, ask, why);
    if (!command || !command_args_fit(command->spec, args, why))
        return NULL;
    c->spec = command->spec;
    c->code = "refused";
    return command->fn(self, args, why);
}

static void handle_text(struct control *c, struct bytes text)
{
    char why[200] = "the request failed";
    json_error_t bad;
    json_t *doc = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &bad);
    json_t *reply = NULL;

    c->spec = NULL;
    c->code = "invalid";
    if (doc)
        reply = handle(c, doc, why);
    else
        snprintf(why, sizeof why, "not a JSON document: %.150s", bad.text);
    if (reply != c->later)
        ready(c, &c->current, c->spec, reply, c->code, why);
    json_decref(doc);
}

/* One message: [connection, empty, text]; others are dropped. false: none is there. */
static bool take(struct control *c)
{
    zmsg_t *msg = zmsg_recv(c->router);
    zframe_t *text;

    if (!msg)
        return false;
    c->current = zmsg_unwrap(msg);
    text = zmsg_first(msg);
    if (zmsg_size(msg) == 1)
        handle_text(c, (struct bytes){zframe_data(text), zframe_size(text)});
    zframe_destroy(&c->current);
    zmsg_destroy(&msg);
    return true;
}

bool control_work(struct control *c, const struct loop *loop)
{
    do {
        if (!take(c))
            return false;
    } while (c->ready_count < PER_TURN && !loop_spent(loop));
    return true;
}

/* ---- client ---- */

char *control_question(const char *ask, json_t *args)
{
    json_t *doc = json_pack("{s:i,s:s,s:O*}", "v", CONTROL_VERSION, "ask", ask,
                            "args", args);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    return text;
}

json_t *control_reading(struct bytes text, char code[CONTROL_CODE_BYTES],
                        char why[200])
{
    /* A body may hold a NUL, which JSON can say. */
    json_t *doc = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    json_t *reply = json_incref(json_object_get(doc, "reply"));
    const char *error = json_string_value(json_object_get(doc, "error"));
    const char *is = json_string_value(json_object_get(doc, "code"));

    if (!reply) {
        snprintf(why, 200, "%s", error ? error : "its response is not valid");
        snprintf(code, CONTROL_CODE_BYTES, "%s",
                 is      ? is
                 : error ? "refused"
                         : "");
    }
    json_decref(doc);
    return reply;
}

zsock_t *control_send(const char *run_dir, const char *process, const char *ask,
                      json_t *args, int timeout_ms)
{
    char *text = control_question(ask, args);
    zsock_t *req = zsock_new(ZMQ_REQ);

    zsock_set_rcvtimeo(req, timeout_ms);
    zsock_set_sndtimeo(req, timeout_ms);
    if (!text ||
        zsock_connect(req, "ipc://%s/%s.control", run_dir, process) != 0 ||
        zstr_send(req, text) != 0)
        zsock_destroy(&req);
    free(text);
    return req;
}

json_t *control_take(zsock_t *req, bool *unreachable, char why[200])
{
    char code[CONTROL_CODE_BYTES];
    json_t *reply = NULL;
    zframe_t *frame = NULL;

    snprintf(why, 200, "it does not respond");
    while (req && !frame) {
        frame = zframe_recv(req);
        if (!frame && errno != EINTR)
            break;
    }
    *unreachable = !frame;
    if (frame)
        reply = control_reading(
            (struct bytes){zframe_data(frame), zframe_size(frame)}, code, why);
    zframe_destroy(&frame);
    zsock_destroy(&req);
    return reply;
}

json_t *control_ask(const char *run_dir, const char *process, const char *ask,
                    json_t *args, int timeout_ms, bool *unreachable,
                    char why[200])
{
    return control_take(control_send(run_dir, process, ask, args, timeout_ms),
                        unreachable, why);
}
