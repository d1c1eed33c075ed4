#include "control.h"
#include "alloc.h"
#include "bounds.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

enum {
    CONTROL_VERSION = 1,
    REQUEST_MAX_BYTES = 1024 * 1024,
    PER_TURN = 16,
    ROUTE_MAX_BYTES = 64,
};

/* Who asked: ROUTER's name for the connection. */
struct asker {
    char id[ROUTE_MAX_BYTES];
    size_t n;
};

struct answer {
    struct asker to;
    char *text;
};

struct control {
    void *router;
    char *name;
    const struct control_command *commands;
    void *self;
    struct answer ready[PER_TURN + 1];
    int ready_count;
    bool waiting;
    struct asker waiter, current;
    size_t asked;
    json_t *later; /* the value that control_later() returns */
    int64_t started_ms;
};

struct control *control_open(void *zmq, const char *run_dir, const char *name,
                             const struct control_command *commands, void *self)
{
    struct control *c = gr_alloc(sizeof *c);
    char *address = gr_printf("ipc://%s/%s.control", run_dir, name);
    int64_t most = REQUEST_MAX_BYTES;
    int none = 0;

    c->name = gr_strdup(name);
    c->commands = commands;
    c->self = self;
    c->later = json_object();
    c->started_ms = now_ms();
    c->router = zmq_socket(zmq, ZMQ_ROUTER);
    if (!c->router)
        die(EXIT_UNAVAILABLE, "no socket: %s", zmq_strerror(errno));
    zmq_setsockopt(c->router, ZMQ_MAXMSGSIZE, &most, sizeof most);
    zmq_setsockopt(c->router, ZMQ_LINGER, &none, sizeof none);
    if (zmq_bind(c->router, address) != 0)
        die(EXIT_UNAVAILABLE, "can't bind %s: %s", address,
            zmq_strerror(errno));
    free(address);
    return c;
}

void control_close(struct control *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->ready_count; i++)
        free(c->ready[i].text);
    zmq_close(c->router);
    json_decref(c->later);
    free(c->name);
    free(c);
}

void *control_socket(struct control *c)
{
    return c->router;
}

/* ---- answers ---- */

static char *answer_text(json_t *answer, const char *why)
{
    json_t *doc = answer ? json_pack("{s:i,s:b,s:o}", "v", CONTROL_VERSION,
                                     "ok", 1, "answer", answer)
                         : json_pack("{s:i,s:b,s:s}", "v", CONTROL_VERSION,
                                     "ok", 0, "error", why);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    return text ? text
                : gr_strdup("{\"v\":1,\"ok\":false,"
                            "\"error\":\"the answer is no valid JSON\"}");
}

static void ready(struct control *c, const struct asker *to, json_t *answer,
                  const char *why)
{
    c->ready[c->ready_count++] = (struct answer){
        .to = *to, .text = answer_text(answer, why)};
}

void control_undo(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        free(c->ready[i].text);
        c->ready[i].text = answer_text(
            NULL, "the disk is full: nothing was changed; make room and ask "
                  "again");
    }
    control_tell(c);
}

void control_tell(struct control *c)
{
    for (int i = 0; i < c->ready_count; i++) {
        struct answer *a = &c->ready[i];

        /* An asker that has gone is nobody's loss. */
        if (zmq_send(c->router, a->to.id, a->to.n,
                     ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
            zmq_send(c->router, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_send(c->router, a->text, strlen(a->text), ZMQ_DONTWAIT);
        free(a->text);
    }
    c->ready_count = 0;
}

json_t *control_later(struct control *c)
{
    c->waiting = true;
    c->waiter = c->current;
    return c->later;
}

size_t control_asked(const struct control *c)
{
    return c->asked;
}

bool control_waiting(const struct control *c)
{
    return c->waiting;
}

void control_answer(struct control *c, json_t *answer, const char *why)
{
    if (!c->waiting)
        return;
    c->waiting = false;
    ready(c, &c->waiter, answer, why);
}

/* ---- requests ---- */

static json_t *pong(const struct control *c)
{
    char at[RFC3339_BYTES];

    rfc3339(at, c->started_ms);
    return json_pack("{s:s,s:s,s:i,s:s}", "process", c->name, "version",
                     GRAPNEL_VERSION, "pid", (int)getpid(), "started_at", at);
}

static void list_known(const struct control *c, const char *ask, char why[200])
{
    struct buf b;

    buf_init(&b, 199);
    buf_printf(&b, "%s does not know \"%.40s\"; it knows ping", c->name, ask);
    for (const struct control_command *k = c->commands; k->name; k++)
        buf_printf(&b, " %s", k->name);
    snprintf(why, 200, "%s", b.data);
    buf_fini(&b);
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *w = words; *w; w += strcspn(w, " ,")) {
        w += strspn(w, " ,");
        if (n && strcspn(w, " ,") == n && memcmp(w, word, n) == 0)
            return true;
    }
    return false;
}

/* A filter that is not understood must not be passed over: without it an act
 * would be one on everything. */
static bool args_known(const char *ask, const char *known, json_t *args,
                       char why[200])
{
    const char *key;
    json_t *v;

    json_object_foreach(args, key, v)
    {
        if (has_word(known, key))
            continue;
        snprintf(why, 200, "%s has no argument \"%.40s\"; it has %.100s", ask,
                 key, *known ? known : "none");
        return false;
    }
    return true;
}

static bool is_question(json_t *doc)
{
    const char *key;
    json_t *v;

    json_object_foreach(doc, key,
                        v) if (!has_word("v ask args", key)) return false;
    v = json_object_get(doc, "args");
    return json_is_string(json_object_get(doc, "ask")) &&
           (!v || json_is_object(v));
}

static json_t *handle(struct control *c, json_t *doc, char why[200])
{
    const char *ask = json_string_value(json_object_get(doc, "ask"));
    json_t *args = json_object_get(doc, "args");

    if (json_integer_value(json_object_get(doc, "v")) != CONTROL_VERSION) {
        snprintf(why, 200, "this is control version %d: say {\"v\":%d,…}",
                 CONTROL_VERSION, CONTROL_VERSION);
        return NULL;
    }
    if (!is_question(doc)) {
        snprintf(why, 200, "a request is {\"v\":1,\"ask\":NAME,\"args\":{…}}");
        return NULL;
    }
    if (strcmp(ask, "ping") == 0)
        return args_known(ask, "", args, why) ? pong(c) : NULL;
    for (const struct control_command *k = c->commands; k->name; k++)
        if (strcmp(k->name, ask) == 0) {
            c->asked = (size_t)(k - c->commands);
            return args_known(ask, k->args, args, why)
                       ? k->fn(c->self, args, why)
                       : NULL;
        }
    list_known(c, ask, why);
    return NULL;
}

static void handle_text(struct control *c, struct bytes text)
{
    char why[200] = "it could not be done";
    json_error_t bad;
    json_t *doc = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &bad);
    json_t *answer = NULL;

    if (doc)
        answer = handle(c, doc, why);
    else
        snprintf(why, sizeof why, "not a JSON document: %.150s", bad.text);
    if (answer != c->later)
        ready(c, &c->current, answer, why);
    json_decref(doc);
}

/* One message: [asker, empty, text]. false: nothing there. */
static bool take(struct control *c)
{
    zmq_msg_t part;
    int more = 1;

    for (int i = 0; more; i++) {
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, c->router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        more = zmq_msg_more(&part);
        if (i == 0) {
            c->current.n = zmq_msg_size(&part) < ROUTE_MAX_BYTES
                               ? zmq_msg_size(&part)
                               : 0;
            memcpy(c->current.id, zmq_msg_data(&part), c->current.n);
        } else if (i == 2 && !more && c->current.n) {
            handle_text(
                c, (struct bytes){zmq_msg_data(&part), zmq_msg_size(&part)});
        }
        zmq_msg_close(&part);
    }
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

/* ---- the asking side ---- */

char *control_question(const char *ask, json_t *args)
{
    json_t *doc = json_pack("{s:i,s:s,s:O*}", "v", CONTROL_VERSION, "ask", ask,
                            "args", args);
    char *text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    return text;
}

json_t *control_reading(struct bytes text, char why[200])
{
    /* A body may hold a NUL, which JSON can say. */
    json_t *doc = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    json_t *answer = json_incref(json_object_get(doc, "answer"));
    const char *error = json_string_value(json_object_get(doc, "error"));

    if (!answer)
        snprintf(why, 200, "%s", error ? error : "its answer makes no sense");
    json_decref(doc);
    return answer;
}

void *control_send(void *zmq, const char *run_dir, const char *process,
                   const char *ask, json_t *args, int timeout_ms)
{
    char *address = gr_printf("ipc://%s/%s.control", run_dir, process);
    char *text = control_question(ask, args);
    void *req = text ? zmq_socket(zmq, ZMQ_REQ) : NULL;
    int none = 0;

    if (req) {
        zmq_setsockopt(req, ZMQ_LINGER, &none, sizeof none);
        zmq_setsockopt(req, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
        zmq_setsockopt(req, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    }
    if (req && (zmq_connect(req, address) != 0 ||
                zmq_send(req, text, strlen(text), 0) < 0)) {
        zmq_close(req);
        req = NULL;
    }
    free(text);
    free(address);
    return req;
}

json_t *control_take(void *req, bool *unreachable, char why[200])
{
    json_t *answer = NULL;
    zmq_msg_t msg;

    snprintf(why, 200, "it does not answer");
    zmq_msg_init(&msg);
    *unreachable = !req;
    while (!*unreachable && zmq_msg_recv(&msg, req, 0) < 0)
        *unreachable = errno !=
                       EINTR; /* who interrupts us wants to know, too */
    if (!*unreachable)
        answer = control_reading(
            (struct bytes){zmq_msg_data(&msg), zmq_msg_size(&msg)}, why);
    zmq_msg_close(&msg);
    if (req)
        zmq_close(req);
    return answer;
}

json_t *control_ask(void *zmq, const char *run_dir, const char *process,
                    const char *ask, json_t *args, int timeout_ms,
                    bool *unreachable, char why[200])
{
    return control_take(
        control_send(zmq, run_dir, process, ask, args, timeout_ms), unreachable,
        why);
}
