/* event_types: keeps the copy of the catalogue, and checks events against it. */
#include "event_types.h"
#include "event_catalogue.h"
#include "ingress.h"
#include "log.h"
#include "published.h"
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

enum {
    ASK_MS = 1000,
    REPLY_WAIT_MS = 5 * 1000, /* then the question is repeated */
    DIGEST_BYTES = 64,
};

struct event_types {
    struct ingress *g;
    zsock_t *sequencer;                /* DEALER to its control socket */
    uint64_t file;                     /* ipc_follow() */
    struct event_catalogue *catalogue; /* NULL: it was never read */
    char digest[DIGEST_BYTES + 1];     /* of it */
    int64_t asked_ms;                  /* mono; 0: no question is open */
    int64_t due_ms;                    /* mono: the next question */
    stmt *list, *clear, *add, *digest_get, *digest_set;
};

/* ---- the copy ---- */

static void add(struct event_catalogue *c, const char *name, const char *schema)
{
    if (event_catalogue_add(c, name, schema) != GR_OK)
        log_error(
            NULL,
            "the schema of an event type cannot be read; its events are "
            "not checked: start ingress and sequencer in the same version",
            LS("type", name));
}

static void load(struct event_types *t)
{
    struct db *db = t->g->daemon.db;
    bool known = db_step(db, t->digest_get);

    *t->digest = 0;
    if (known)
        wire_copy(t->digest, sizeof t->digest,
                  wire_text(col_text(t->digest_get, 0)));
    db_done(t->digest_get);
    event_catalogue_free(t->catalogue);
    t->catalogue = known ? event_catalogue_new() : NULL;
    for (; known && db_step(db, t->list);)
        add(t->catalogue, col_text(t->list, 0), col_text(t->list, 1));
    db_done(t->list);
}

struct event_types *event_types_open(struct ingress *g)
{
    struct event_types *t = gr_alloc(sizeof *t);
    struct db *db = g->daemon.db;
    char *address = ipc_address(g->daemon.settings->run_dir, SEQUENCER,
                                "control");

    *t = (struct event_types){.g = g};
    t->list = db_prepare(db,
                         "SELECT name, schema FROM event_types ORDER BY name");
    t->clear = db_prepare(db, "DELETE FROM event_types");
    t->add = db_prepare(db, "INSERT INTO event_types VALUES (?, ?)");
    t->digest_get = db_prepare(db, "SELECT digest FROM event_catalogue");
    t->digest_set = db_prepare(
        db, "INSERT OR REPLACE INTO event_catalogue VALUES (1, ?)");
    load(t);
    t->sequencer = zsock_new(ZMQ_DEALER);
    zsock_set_rcvtimeo(t->sequencer, 0);
    zsock_set_sndtimeo(t->sequencer, 0);
    zsock_set_immediate(t->sequencer, 1); /* queue nothing while it is down */
    if (zsock_connect(t->sequencer, "%s", address) != 0)
        die(EXIT_UNAVAILABLE, "cannot connect to %s: %s", address,
            zmq_strerror(errno));
    free(address);
    loop_watch_socket(&g->daemon.loop, t->sequencer);
    return t;
}

void event_types_close(struct event_types *t)
{
    if (!t)
        return;
    zsock_destroy(&t->sequencer);
    event_catalogue_free(t->catalogue);
    free(t);
}

void event_types_undo(struct event_types *t)
{
    load(t);
}

/* ---- asking ---- */

static bool is_checked(const struct producer *p)
{
    return p->check_schema || p->refuse_unknown_types;
}

static bool is_needed(const struct event_types *t)
{
    const struct settings *s = t->g->daemon.settings;

    for (size_t i = 0; i < s->producer_count; i++)
        if (is_checked(&s->producers[i]))
            return true;
    return false;
}

static void take(struct event_types *t, const json_t *reply)
{
    const char *digest = json_string_value(json_object_get(reply, "digest"));
    const json_t *types = json_object_get(reply, "event_types");
    struct db *db = t->g->daemon.db;
    json_t *type;
    size_t i;

    if (!digest || strlen(digest) != DIGEST_BYTES || !json_is_array(types))
        return; /* the copy is the same */
    db_run(db, t->clear);
    json_array_foreach((json_t *)(uintptr_t)types, i, type)
    {
        bind_text(t->add, 1, json_string_value(json_object_get(type, "name")));
        bind_text(t->add, 2,
                  json_string_value(json_object_get(type, "schema")));
        db_run(db, t->add);
    }
    bind_text(t->digest_set, 1, digest);
    db_run(db, t->digest_set);
    load(t);
    log_info(NULL, "the catalogue of event types has changed",
             LI("types", json_array_size(types)));
}

int event_types_work(struct event_types *t)
{
    char code[CONTROL_CODE_BYTES], why[200];
    int64_t now = t->g->daemon.loop.mono_ms;
    zmsg_t *msg;

    while (loop_socket_ready(&t->g->daemon.loop, t->sequencer) &&
           (msg = zmsg_recv(t->sequencer))) {
        zframe_t *text = zmsg_last(msg);
        json_t *reply = control_reading(
            (struct bytes){zframe_data(text), zframe_size(text)}, code, why);

        t->asked_ms = 0;
        if (reply)
            take(t, reply);
        json_decref(reply);
        zmsg_destroy(&msg);
    }
    if (!is_needed(t))
        return -1;
    return t->due_ms > now ? (int)(t->due_ms - now) : 0;
}

void event_types_flush(struct event_types *t)
{
    int64_t now = t->g->daemon.loop.mono_ms;
    json_t *args;
    char *text;

    if (now < t->due_ms || !is_needed(t))
        return;
    t->due_ms = now + ASK_MS;
    if (t->asked_ms && now - t->asked_ms < REPLY_WAIT_MS)
        return;
    args = json_pack("{s:s}", "digest", t->digest);
    text = control_question("event_catalogue", args, NULL);
    ipc_follow(t->sequencer, t->g->daemon.settings->run_dir, SEQUENCER,
               "control", &t->file);
    if (zsock_send(t->sequencer, "zs", text) == 0)
        t->asked_ms = now;
    free(text);
    json_decref(args);
}

/* ---- checking ---- */

enum response event_types_judge(const struct event_types *t,
                                const struct producer *producer,
                                const struct published *event,
                                struct event_types_wrong *wrong)
{
    const struct event_catalogue *c = t ? t->catalogue : NULL;
    const struct json_schema *schema = NULL;
    struct json_schema_wrong w;
    json_t *data;
    bool fits;

    if (!is_checked(producer))
        return RESPONSE_NONE;
    *wrong = (struct event_types_wrong){.field = "type", .rule = ""};
    if (!c)
        return RESPONSE_TYPES_UNKNOWN;
    if (!event_catalogue_find(c, event->type, &schema)) {
        if (!producer->refuse_unknown_types)
            return RESPONSE_NONE;
        snprintf(wrong->path, sizeof wrong->path, "/type");
        snprintf(wrong->why, sizeof wrong->why,
                 "the catalogue of event types does not have \"%.255s\"",
                 event->type);
        return RESPONSE_TYPE_UNKNOWN;
    }
    if (!producer->check_schema || !schema)
        return RESPONSE_NONE;
    data = published_data(event);
    fits = json_schema_fits(schema, data, &w);
    json_decref(data);
    if (fits)
        return RESPONSE_NONE;
    wrong->field = "data";
    wrong->rule = w.rule;
    snprintf(wrong->path, sizeof wrong->path, "/data%s", w.path);
    snprintf(wrong->why, sizeof wrong->why, "%s %s (%s)", w.path, w.why,
             w.rule);
    return RESPONSE_SCHEMA_MISMATCH;
}
