/* control: the control socket of a daemon, and the client that asks it. */
#include "control.h"
#include "alloc.h"
#include "bounds.h"
#include "clock.h"
#include "commands.h"
#include "json_scan.h"
#include "json_text.h"
#include "log.h"
#include "processes.h"
#include <czmq.h>

enum {
    CONTROL_VERSION = 1,
    REQUEST_MAX_BYTES = 1024 * 1024,
    PER_TURN = 16,
    READS_MAX = 64, /* replies that wait for one sync, with those of its turn */
    /* Requests have this part of a turn, however long its messages took: a turn ends with an
     * fsync, and one request for each of them would be too few. */
    REQUESTS_US = 2000,
    REQUESTS_MAX_US = 5000,
    TABLES_MAX = 5, /* ping, of every daemon, audit, jobs, and of the process */
    NUMBER_MAX_BYTES = 16, /* of a request from another host */
    LISTENERS_MAX = 8,
};

/* Where a reply goes: ROUTER's name for the connection and, on another host, the request's number. */
struct reply {
    zmsg_t *to;
    char *text;
    bool lasts;         /* a full disk does not undo what it reports */
    const char *undone; /* what it says after a rollback; NULL: the usual */
    int64_t tag;        /* for control_unsent(); 0 */
};

struct control_held {
    zmsg_t *to;
    const struct command_spec *spec;
    int64_t act; /* its number, if it leaves rows; 0 */
};

struct commands {
    const struct control_command *all;
    void *self;
};

struct request {
    zmsg_t *to; /* as in a reply */
    zframe_t *text;
};

/* A console on another host that wants our metrics. */
struct listener {
    zframe_t *to; /* NULL: none */
    char *key;
    int64_t until_ms;
};

struct control {
    zsock_t *router;
    zsock_t *far; /* for other hosts; NULL */
    bool far_next;
    int key_number; /* cluster_key_number() at its last bind */
    struct cluster *cluster;
    struct listener listeners[LISTENERS_MAX];
    char *name;
    struct commands tables[TABLES_MAX];
    int table_count;
    struct reply *ready;
    int ready_count, ready_capacity;
    int64_t tag;        /* of the next reply; 0 */
    const char *undone; /* of the next reply; NULL */
    int64_t *unsent;    /* tags of replies that could not be sent */
    int unsent_count;
    struct request
        kept; /* one that control_read() left for the next turn, or empty */
    zmsg_t *current; /* where the handled request came from; NULL: it waits */
    zmsg_t *waiter;  /* what waits for control_reply(), or NULL */
    json_t *later;   /* the value that control_later() returns */
    json_t *ended; /* of control_reply(): the document for `waiter`, or NULL */
    struct acts *acts;                     /* NULL: acts leave no rows */
    struct act act;                        /* the current request */
    const struct command_spec *later_spec; /* of the one that waits */
    int64_t later_act;                     /* its number; 0 */
    struct control_held
        *holds; /* what the current request has become, or NULL */
    int64_t now_ms;
    int64_t started_ms;
};

/* The code of the current request's error: control_fail() has only `why`. */
static enum control_code failure;

static const char *const code_names[] = {
    [CONTROL_REFUSED] = "refused",       [CONTROL_NOT_FOUND] = "not_found",
    [CONTROL_INVALID] = "invalid",       [CONTROL_IN_PROGRESS] = "in_progress",
    [CONTROL_KEY_REUSED] = "key_reused", [CONTROL_CHANGED] = "changed",
    [CONTROL_DISK_FULL] = "disk_full",   [CONTROL_BUSY] = "busy",
    [CONTROL_LIMITED] = "limited",       [CONTROL_NOT_OWNER] = "not_owner",
};

void control_fail(char why[200], enum control_code code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, 200, fmt, args);
    va_end(args);
    failure = code;
}

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

static zsock_t *new_router(void)
{
    zsock_t *router = zsock_new(ZMQ_ROUTER);

    zsock_set_rcvtimeo(router, 0);
    zsock_set_sndtimeo(router, 0);
    zsock_set_router_mandatory(router, 1); /* reports clients that went */
    zsock_set_maxmsgsize(router, REQUEST_MAX_BYTES);
    return router;
}

struct control *control_open(const char *run_dir, const char *name)
{
    struct control *c = gr_alloc(sizeof *c);

    c->name = gr_strdup(name);
    c->later = json_object();
    c->started_ms = now_ms();
    c->router = new_router();
    ipc_bind(c->router, run_dir, name, "control");
    control_add(c, every, c);
    return c;
}

int control_bind_again(struct control *c, const char *run_dir)
{
    return ipc_bind_again(c->router, run_dir, c->name, "control");
}

void control_add(struct control *c, const struct control_command *commands,
                 void *self)
{
    assert(c->table_count < TABLES_MAX);
    c->tables[c->table_count++] = (struct commands){commands, self};
}

void control_record(struct control *c, struct acts *acts)
{
    static const struct control_command commands[] = {
        {&command_audit, acts_audit},
        {&command_audit_verify, acts_verify},
        {&command_audit_head, acts_head},
        {0}};

    c->acts = acts;
    control_add(c, commands, acts);
}

static bool is_bound(const struct control *c, const struct command_spec *spec)
{
    for (int i = 0; i < c->table_count; i++)
        for (const struct control_command *k = c->tables[i].all; k->spec; k++)
            if (k->spec == spec)
                return true;
    return false;
}

static bool is_declared(const struct command_spec *spec)
{
    for (size_t i = 0; command_lists[i].commands; i++)
        for (size_t n = 0; command_lists[i].commands[n]; n++)
            if (command_lists[i].commands[n] == spec)
                return true;
    return false;
}

void control_expect(const struct control *c, const char *process)
{
    for (size_t i = 0; command_lists[i].commands; i++)
        for (size_t n = 0; command_lists[i].commands[n]; n++) {
            const struct command_spec *spec = command_lists[i].commands[n];
            bool ours = strcmp(spec->process, "every") == 0 ||
                        strcmp(spec->process, process) == 0 ||
                        (spec->also && process_is(process, spec->also));

            if (ours != is_bound(c, spec))
                die(EXIT_SOFTWARE, "%s %s the command %s of %s", process,
                    ours ? "does not bind" : "binds", spec->name,
                    spec->process);
        }
    for (int i = 0; i < c->table_count; i++)
        for (const struct control_command *k = c->tables[i].all; k->spec; k++)
            if (k->spec->process && !is_declared(k->spec))
                die(EXIT_SOFTWARE, "%s binds %s, which no list has", process,
                    k->spec->name);
}

static void request_fini(struct request *r)
{
    zmsg_destroy(&r->to);
    zframe_destroy(&r->text);
}

static void forget_listener(struct listener *l)
{
    zframe_destroy(&l->to);
    free(l->key);
    *l = (struct listener){0};
}

void control_close(struct control *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->ready_count; i++) {
        zmsg_destroy(&c->ready[i].to);
        free(c->ready[i].text);
    }
    free(c->ready);
    free(c->unsent);
    zmsg_destroy(&c->waiter);
    request_fini(&c->kept);
    for (int i = 0; i < LISTENERS_MAX; i++)
        forget_listener(&c->listeners[i]);
    zsock_destroy(&c->router);
    cluster_unbind(&c->far);
    json_decref(c->later);
    json_decref(c->ended);
    free(c->name);
    free(c);
}

zsock_t *control_socket(struct control *c)
{
    return c->router;
}

/* ---- replies ---- */

/* Takes `reply` over; NULL: the error in `why`. */
static json_t *reply_doc(json_t *reply, enum control_code code, const char *why)
{
    return reply ? json_pack("{s:i,s:b,s:o}", "v", CONTROL_VERSION, "ok", 1,
                             "reply", reply)
                 : json_pack("{s:i,s:b,s:s,s:o}", "v", CONTROL_VERSION, "ok", 0,
                             "code", code_names[code], "error",
                             json_text_of(why)); /* cut anywhere */
}

static char *reply_text(const json_t *doc)
{
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

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

/* Takes `text` over. */
static void ready(struct control *c, zmsg_t **to, char *text, bool lasts)
{
    if (c->ready_count == c->ready_capacity) {
        c->ready_capacity = c->ready_capacity ? 2 * c->ready_capacity
                                              : PER_TURN + 1;
        c->ready = gr_realloc(c->ready,
                              (size_t)c->ready_capacity * sizeof *c->ready);
    }
    c->ready[c->ready_count++] = (struct reply){.to = *to,
                                                .text = text,
                                                .lasts = lasts,
                                                .undone = c->undone,
                                                .tag = c->tag};
    c->tag = 0;
    c->undone = NULL;
    *to = NULL;
}

void control_undo(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        struct reply *a = &c->ready[i];
        json_t *doc;

        if (a->lasts)
            continue;
        doc = reply_doc(NULL, CONTROL_DISK_FULL,
                        a->undone ? a->undone
                                  : "the disk is full: nothing was changed; "
                                    "free disk space, then try again");
        free(a->text);
        a->text = reply_text(doc);
        a->tag = 0; /* what it reported was undone */
        json_decref(doc);
    }
    control_flush(c);
}

/* false: the client has gone. */
static bool send_reply(struct control *c, const struct reply *a)
{
    zmsg_t *msg = zmsg_dup(a->to);
    bool far = zmsg_size(a->to) > 1;
    int rc;

    zmsg_addmem(msg, "", 0);
    zmsg_addstr(msg, a->text);
    rc = zmsg_send(&msg, far ? c->far : c->router);
    zmsg_destroy(&msg);
    return rc == 0;
}

void control_flush(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        struct reply *a = &c->ready[i];

        if (!send_reply(c, a) && a->tag) {
            c->unsent = gr_realloc(c->unsent, (size_t)(c->unsent_count + 1) *
                                                  sizeof *c->unsent);
            c->unsent[c->unsent_count++] = a->tag;
        }
        zmsg_destroy(&a->to);
        free(a->text);
    }
    c->ready_count = 0;
}

void control_tag(struct control *c, int64_t tag)
{
    c->tag = tag;
}

void control_if_undone(struct control *c, const char *says)
{
    c->undone = says;
}

int64_t control_unsent(struct control *c)
{
    return c->unsent_count ? c->unsent[--c->unsent_count] : 0;
}

bool control_reply_due(const struct control *c)
{
    return c->ended || c->kept.to;
}

const char *control_actor(const struct control *c)
{
    return c->act.by.actor;
}

json_t *control_later(struct control *c)
{
    c->waiter = c->current;
    c->later_spec = c->act.spec;
    c->current = NULL;
    return c->later;
}

json_t *control_hold(struct control *c, struct control_held **held)
{
    *held = gr_alloc(sizeof **held);
    (*held)->to = c->current;
    (*held)->spec = c->act.spec;
    c->holds = *held;
    c->current = NULL;
    return c->later;
}

void control_drop(struct control_held *held)
{
    zmsg_destroy(&held->to);
    free(held);
}

const struct act_by *control_by(const struct control *c)
{
    return &c->act.by;
}

bool control_waiting(const struct control *c)
{
    return c->waiter;
}

void control_reply(struct control *c, json_t *reply, const char *why)
{
    if (reply)
        check_reply(c->later_spec, reply);
    if (c->waiter && !c->ended)
        c->ended = reply_doc(reply, CONTROL_REFUSED, why);
    else
        json_decref(reply);
}

void control_release(struct control *c, struct control_held *held,
                     json_t *reply, enum control_code code, const char *why)
{
    json_t *doc;

    if (reply)
        check_reply(held->spec, reply);
    doc = reply_doc(reply, code, why);
    if (held->act)
        acts_ended(c->acts, held->act, c->now_ms, reply ? "done" : why,
                   reply ? doc : NULL);
    ready(c, &held->to, reply_text(doc), held->act != 0);
    json_decref(doc);
    control_drop(held);
}

/* Whether acts.h writes rows of it. */
static bool leaves_rows(const struct command_spec *spec)
{
    return spec->flags & COMMAND_ACTS && !(spec->flags & COMMAND_FREQUENT);
}

/* The rows of its end are written in this turn. */
static void end_later(struct control *c)
{
    const char *error = json_string_value(json_object_get(c->ended, "error"));

    if (!c->ended)
        return;
    if (c->later_act)
        acts_ended(c->acts, c->later_act, c->now_ms, error ? error : "done",
                   error ? NULL : c->ended);
    ready(c, &c->waiter, reply_text(c->ended), true);
    json_decref(c->ended);
    c->ended = NULL;
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
    json_t *by = json_object_get(doc, "by");
    size_t known = 2 + (args != NULL) + (by != NULL);

    return json_object_size(doc) == known && json_object_get(doc, "v") &&
           json_is_string(json_object_get(doc, "ask")) &&
           (!args || json_is_object(args)) && (!by || json_is_object(by));
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

/* Whether the act has to be done. If not, *stored is its stored reply, or NULL and `why` says
 * why it must not be done. */
static bool is_new(struct control *c, const struct command_spec *spec,
                   char **stored, char why[200])
{
    if (!c->acts || !leaves_rows(spec))
        return true;
    switch (acts_look(c->acts, &c->act.by, stored)) {
    case ACT_NEW:
        return true;
    case ACT_STORED:
        return false;
    case ACT_OTHER:
        control_fail(why, CONTROL_KEY_REUSED,
                     "another request had this idempotency key: use a new key "
                     "for each act");
        return false;
    case ACT_RUNS:
        control_fail(why, CONTROL_IN_PROGRESS,
                     "a request with this idempotency key is in progress: "
                     "repeat it later");
        return false;
    }
    return false;
}

/* Finds the command and reads who asks; NULL: `why` says what is wrong. */
static const struct control_command *
read_request(struct control *c, json_t *doc, void **self, char why[200])
{
    const char *ask = json_string_value(json_object_get(doc, "ask"));
    const struct control_command *command;

    failure = CONTROL_INVALID;
    c->act = (struct act){.args = json_object_get(doc, "args"),
                          .now_ms = c->now_ms};
    if (json_integer_value(json_object_get(doc, "v")) != CONTROL_VERSION) {
        snprintf(why, 200, "this is control version %d: write {\"v\":%d,…}",
                 CONTROL_VERSION, CONTROL_VERSION);
        return NULL;
    }
    if (!is_question(doc)) {
        snprintf(why, 200,
                 "a request is {\"v\":1,\"ask\":NAME,\"args\":{…},\"by\":{…}}; "
                 "args and by may be absent");
        return NULL;
    }
    command = find(c, ask, self);
    if (!command)
        list_known(c, ask, why);
    if (!command || !command_args_fit(command->spec, c->act.args, why) ||
        !act_by_read(&c->act.by, json_object_get(doc, "by"), c->act.args, why))
        return NULL;
    if (*c->act.by.key && !(command->spec->flags & COMMAND_ACTS)) {
        snprintf(why, 200, "by.key: %s changes nothing, so it takes no key",
                 command->spec->name);
        return NULL;
    }
    failure = CONTROL_REFUSED;
    return command;
}

/* Whether the error is stored for the idempotency key: not one that the same request might not
 * have later, such as those of files, peers and the network that `backup` and tests depend on. */
static bool is_lasting(const struct command_spec *spec)
{
    return !(spec->flags & COMMAND_LATER) &&
           (failure == CONTROL_REFUSED || failure == CONTROL_NOT_FOUND);
}

/* The document of the reply, the caller's. NULL: it is *stored, or follows later. */
static json_t *handle(struct control *c, json_t *request, char **stored)
{
    char why[200] = "the request failed";
    const struct control_command *command;
    json_t *reply, *doc;
    void *self;

    command = read_request(c, request, &self, why);
    if (!command || !is_new(c, command->spec, stored, why))
        return *stored ? NULL : reply_doc(NULL, failure, why);
    c->act.spec = command->spec;
    c->holds = NULL;
    reply = command->fn(self, json_object_get(request, "args"), why);
    if (reply == c->later) {
        int64_t act = c->acts && leaves_rows(c->act.spec)
                          ? acts_began(c->acts, &c->act)
                          : 0;

        *(c->holds ? &c->holds->act : &c->later_act) = act;
        return NULL;
    }
    if (reply)
        check_reply(c->act.spec, reply);
    doc = reply_doc(reply, failure, why);
    if (c->acts && leaves_rows(c->act.spec))
        acts_done(c->acts, &c->act, reply ? "done" : why,
                  reply || is_lasting(c->act.spec) ? doc : NULL);
    return doc;
}

static void handle_text(struct control *c, struct bytes text)
{
    json_error_t bad;
    json_t *request = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &bad);
    json_t *doc = NULL;
    char why[200], *stored = NULL;

    c->act = (struct act){0};
    if (request) {
        doc = handle(c, request, &stored);
    } else {
        snprintf(why, sizeof why, "not a JSON document: %.150s", bad.text);
        doc = reply_doc(NULL, CONTROL_INVALID, why);
    }
    if (c->current)
        ready(c, &c->current, stored ? stored : reply_text(doc),
              c->act.spec && c->act.spec->flags & COMMAND_MEMORY);
    json_decref(doc);
    json_decref(request);
    c->act = (struct act){0};
}

/* ---- messages ---- */

/* [connection, empty, text]; another one is dropped, and is a request without a text. false: none is there. */
static bool receive_near(struct control *c, struct request *r)
{
    zmsg_t *msg = zmsg_recv(c->router);
    zframe_t *id;

    if (!msg)
        return false;
    id = zmsg_unwrap(msg);
    if (zmsg_size(msg) == 1) {
        r->to = zmsg_new();
        zmsg_append(r->to, &id);
        r->text = zmsg_pop(msg);
    }
    zframe_destroy(&id);
    zmsg_destroy(&msg);
    return true;
}

static void listen_for(struct control *c, zframe_t *id, const char *key)
{
    struct listener *l = NULL, *each = c->listeners;

    for (; each < c->listeners + LISTENERS_MAX; each++)
        if (each->to ? zframe_eq(each->to, id) : !l)
            l = each;
    if (!l)
        return;
    forget_listener(l);
    *l = (struct listener){.to = zframe_dup(id),
                           .key = gr_strdup(key),
                           .until_ms = mono_ms() + CONTROL_METRICS_MS};
}

/* The same of another host: [connection, number, empty, text], or [connection, "metrics"]. */
static bool receive_far(struct control *c, struct request *r)
{
    zmsg_t *msg = c->far ? zmsg_recv(c->far) : NULL;
    zframe_t *id, *number, *empty;
    const char *key;

    if (!msg)
        return false;
    key = zframe_meta(zmsg_last(msg), "User-Id");
    if (!cluster_may_ask(c->cluster, key)) {
        zmsg_destroy(&msg);
        return true;
    }
    if (zmsg_size(msg) == 2 && zframe_streq(zmsg_last(msg), CONTROL_METRICS))
        listen_for(c, zmsg_first(msg), key);
    if (zmsg_size(msg) == 4) {
        id = zmsg_pop(msg);
        number = zmsg_pop(msg);
        empty = zmsg_pop(msg);
        if (zframe_size(empty) == 0 &&
            zframe_size(number) <= NUMBER_MAX_BYTES) {
            r->to = zmsg_new();
            zmsg_append(r->to, &id);
            zmsg_append(r->to, &number);
            r->text = zmsg_pop(msg);
        }
        zframe_destroy(&id);
        zframe_destroy(&number);
        zframe_destroy(&empty);
    }
    zmsg_destroy(&msg);
    return true;
}

/* The sockets take turns, so that neither starves. */
static bool receive(struct control *c, struct request *r)
{
    *r = (struct request){0};
    c->far_next = !c->far_next;
    return c->far_next ? receive_far(c, r) || receive_near(c, r)
                       : receive_near(c, r) || receive_far(c, r);
}

/* Takes the request over. */
static void handle_request(struct control *c, struct request *r)
{
    c->current = r->to;
    r->to = NULL;
    if (r->text)
        handle_text(c,
                    (struct bytes){zframe_data(r->text), zframe_size(r->text)});
    zmsg_destroy(&c->current);
    request_fini(r);
}

/* false: none is there. */
static bool take(struct control *c)
{
    struct request r = c->kept;

    c->kept = (struct request){0};
    if (!r.to && !receive(c, &r))
        return false;
    handle_request(c, &r);
    return true;
}

/* Whether it is a request that may be handled in control_read(). */
static bool only_reads(const struct control *c, const struct request *r)
{
    json_t *request = json_loadb((const char *)zframe_data(r->text),
                                 zframe_size(r->text), 0, NULL);
    const char *ask = json_string_value(json_object_get(request, "ask"));
    void *self;
    const struct control_command *command = ask ? find(c, ask, &self) : NULL;
    bool reads = command && command->spec->flags & COMMAND_READS;

    json_decref(request);
    return reads;
}

bool control_read(struct control *c)
{
    struct request r;

    if (c->kept.to || c->ready_count >= READS_MAX || !receive(c, &r))
        return false;
    if (r.text && !only_reads(c, &r)) {
        c->kept = r;
        return false;
    }
    handle_request(c, &r);
    return true;
}

void control_refuse(struct control *c, const char *why)
{
    struct request r = c->kept;
    json_t *doc;

    c->kept = (struct request){0};
    if (!r.to && !receive(c, &r))
        return;
    doc = reply_doc(NULL, CONTROL_BUSY, why);
    do {
        struct reply a = {.to = r.to, .text = reply_text(doc)};

        if (r.to)
            send_reply(c, &a);
        zmsg_destroy(&r.to);
        free(a.text);
        request_fini(&r);
    } while (receive(c, &r));
    json_decref(doc);
}

static bool has_input(zsock_t *socket)
{
    return socket && zsock_events(socket) & ZMQ_POLLIN;
}

bool control_waits(const struct control *c)
{
    return !c->kept.to && (has_input(c->router) || has_input(c->far));
}

static bool take_some(struct control *c, const struct loop *loop)
{
    int64_t until_us = mono_us() + REQUESTS_US;

    if (!c->kept.to && !loop_socket_ready(loop, c->router) &&
        !(c->far && loop_socket_ready(loop, c->far)))
        return false;
    do {
        if (!take(c))
            return false;
    } while (c->ready_count < PER_TURN &&
             (!loop_spent(loop) || mono_us() < until_us));
    return true;
}

bool control_work(struct control *c, struct loop *loop)
{
    bool more = false;
    /* While the disk is full no turn reaches its sync. */
    bool syncs = loop->read && !loop->undone && db_dirty(loop->db);
    int64_t began_us;

    c->now_ms = loop->now_ms;
    end_later(c);
    began_us = mono_us();
    if (!syncs || c->kept.to)
        more = take_some(c, loop);
    loop->requests_us = mono_us() - began_us;
    if (loop->requests_us > REQUESTS_MAX_US)
        loop->requests_us = REQUESTS_MAX_US;
    return more;
}

/* ---- consoles on other hosts ---- */

zsock_t *control_join(struct control *c, struct cluster *cluster)
{
    c->cluster = cluster;
    c->far = new_router();
    cluster_bind(cluster, c->far, "control");
    c->key_number = cluster_key_number(cluster);
    return c->far;
}

void control_rejoin(struct control *c)
{
    if (!c->far || c->key_number == cluster_key_number(c->cluster))
        return;
    c->key_number = cluster_key_number(c->cluster);
    cluster_bind_again(c->cluster, c->far, "control");
}

void control_publish(void *self, struct bytes frame)
{
    struct control *c = self;

    for (int i = 0; i < LISTENERS_MAX; i++) {
        struct listener *l = &c->listeners[i];
        zmsg_t *msg;

        if (!l->to)
            continue;
        if (mono_ms() > l->until_ms || !cluster_may_ask(c->cluster, l->key)) {
            forget_listener(l);
            continue;
        }
        msg = zmsg_new();
        zmsg_addmem(msg, zframe_data(l->to), zframe_size(l->to));
        zmsg_addstr(msg, CONTROL_METRICS);
        zmsg_addmem(msg, frame.p, frame.n);
        (void)zmsg_send(&msg, c->far); /* it has gone, or reads too slowly */
        zmsg_destroy(&msg);
    }
}

/* ---- client ---- */

char *control_question(const char *ask, json_t *args, json_t *by)
{
    json_t *doc = json_pack("{s:i,s:s,s:O*,s:O*}", "v", CONTROL_VERSION, "ask",
                            ask, "args", args, "by", by);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    return text;
}

bool control_reply_in(struct bytes text, struct bytes *reply)
{
    return json_scan_member(text, "reply", reply) == JSON_SCAN_FOUND &&
           *(const char *)reply->p == '{';
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
                 : error ? code_names[CONTROL_REFUSED]
                         : "");
    }
    json_decref(doc);
    return reply;
}

char *control_error(const char *code, const char *why)
{
    json_t *doc = json_pack("{s:i,s:b,s:s,s:s}", "v", CONTROL_VERSION, "ok", 0,
                            "code", code, "error", why);
    char *text = reply_text(doc);

    json_decref(doc);
    return text;
}

zsock_t *control_send(const char *run_dir, const char *process, const char *ask,
                      json_t *args, json_t *by, int timeout_ms)
{
    char *text = control_question(ask, args, by);
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

json_t *control_take_coded(zsock_t *req, bool *unreachable,
                           char code[CONTROL_CODE_BYTES], char why[200])
{
    json_t *reply = NULL;
    zframe_t *frame = NULL;

    *code = 0;
    snprintf(why, 200, "it does not respond");
    while (req && !frame) {
        frame = zframe_recv(req);
        if (!frame && errno != EINTR)
            break;
    }
    if (frame)
        reply = control_reading(
            (struct bytes){zframe_data(frame), zframe_size(frame)}, code, why);
    *unreachable = !frame || strcmp(code, CONTROL_UNREACHABLE) == 0 ||
                   strcmp(code, CONTROL_LOST) == 0;
    zframe_destroy(&frame);
    zsock_destroy(&req);
    return reply;
}

json_t *control_take(zsock_t *req, bool *unreachable, char why[200])
{
    char code[CONTROL_CODE_BYTES];

    return control_take_coded(req, unreachable, code, why);
}

json_t *control_ask(const char *run_dir, const char *process, const char *ask,
                    json_t *args, json_t *by, int timeout_ms, bool *unreachable,
                    char why[200])
{
    return control_take(
        control_send(run_dir, process, ask, args, by, timeout_ms), unreachable,
        why);
}
