/* alert_events: reports changes of alerts to the sequencer, one after the other. */
#include "alert_events.h"
#include "alert_kinds.h"
#include "console.h"
#include "json_text.h"
#include "log.h"
#include <czmq.h>
#include <string.h>

enum {
    REPORTS_MAX = 1000,       /* kept while the sequencer does not reply */
    REPLY_WAIT_MS = 5 * 1000, /* then the report is repeated */
};

struct alert_events {
    struct console *c;
    zsock_t *sequencer; /* DEALER to its control socket */
    uint64_t file;      /* ipc_follow() */
    int64_t asked_ms;   /* mono: when the oldest was reported; 0: it was not */
    bool waits;         /* there may be rows */
    stmt *add, *oldest, *drop, *cut;
};

struct alert_events *alert_events_open(struct console *c)
{
    struct alert_events *e = gr_alloc(sizeof *e);
    struct db *db = c->daemon.db;
    char *address = ipc_address(c->daemon.settings->run_dir, "sequencer",
                                "control");

    *e = (struct alert_events){.c = c, .waits = true};
    e->add = db_prepare(db, "INSERT INTO alert_events(report) VALUES(?)");
    e->oldest = db_prepare(
        db, "SELECT n, report FROM alert_events ORDER BY n LIMIT 1");
    e->drop = db_prepare(db, "DELETE FROM alert_events WHERE n = ?");
    e->cut = db_prepare(db, "DELETE FROM alert_events WHERE n <= (SELECT n "
                            "FROM alert_events ORDER BY n DESC LIMIT 1 "
                            "OFFSET ?)");
    e->sequencer = zsock_new(ZMQ_DEALER);
    zsock_set_rcvtimeo(e->sequencer, 0);
    zsock_set_sndtimeo(e->sequencer, 0);
    zsock_set_immediate(e->sequencer, 1); /* queue nothing while it is down */
    if (zsock_connect(e->sequencer, "%s", address) != 0)
        die(EXIT_UNAVAILABLE, "cannot connect to %s: %s", address,
            zmq_strerror(errno));
    free(address);
    loop_watch_socket(&c->daemon.loop, e->sequencer);
    return e;
}

void alert_events_close(struct alert_events *e)
{
    zsock_destroy(&e->sequencer);
    free(e);
}

void alert_events_undo(struct alert_events *e)
{
    e->waits = true;
}

void alert_events_note(struct alert_events *e, const struct change *change)
{
    struct db *db = e->c->daemon.db;
    json_t *report = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:I, s:f, s:o}", "name", change->rule->name,
        "when", alert_kinds[change->rule->when].word, "subject",
        json_text_of(change->subject), "severity",
        rule_severity(change->rule->severity), "state",
        change->resolved ? "resolved" : "firing", "since_ms",
        (json_int_t)change->since_ms, "value", change->value, "summary",
        json_text_of(change->summary));
    char *text = json_dumps(report, JSON_COMPACT);

    bind_text(e->add, 1, text);
    db_run(db, e->add);
    free(text);
    json_decref(report);
    bind_i64(e->cut, 1, REPORTS_MAX);
    db_run(db, e->cut);
    if (db_changes(db))
        log_warn(NULL,
                 "the sequencer does not take reports of alerts; the oldest "
                 "becomes no grapnel.alert event");
    e->waits = true;
}

void alert_events_look(struct alert_events *e)
{
    ipc_follow(e->sequencer, e->c->daemon.settings->run_dir, "sequencer",
               "control", &e->file);
}

int alert_events_work(struct alert_events *e)
{
    char code[CONTROL_CODE_BYTES], why[200];
    zmsg_t *msg;

    while (loop_socket_ready(&e->c->daemon.loop, e->sequencer) &&
           (msg = zmsg_recv(e->sequencer))) {
        zframe_t *text = zmsg_last(msg);
        json_t *reply = control_reading(
            (struct bytes){zframe_data(text), zframe_size(text)}, code, why);

        /* Another reply than that to the oldest report deletes nothing that was not taken:
         * it names its own report. */
        if (reply) {
            bind_i64(e->drop, 1,
                     json_integer_value(json_object_get(reply, "n")));
            db_run(e->c->daemon.db, e->drop);
            e->asked_ms = 0;
        } else {
            log_warn(NULL, "the sequencer did not take the report of an alert",
                     LS("error", why));
        }
        json_decref(reply);
        zmsg_destroy(&msg);
    }
    return e->waits ? REPLY_WAIT_MS : -1;
}

void alert_events_flush(struct alert_events *e)
{
    struct db *db = e->c->daemon.db;
    int64_t now = e->c->daemon.loop.mono_ms;
    json_t *report;
    char *text;

    if (!e->waits || (e->asked_ms && now - e->asked_ms < REPLY_WAIT_MS))
        return;
    e->waits = db_step(db, e->oldest);
    if (e->waits) {
        report = json_loads(col_text(e->oldest, 1), 0, NULL);
        json_object_set_new(report, "n", json_integer(col_i64(e->oldest, 0)));
        text = control_question("alert_event", report, NULL);
        e->asked_ms = now;
        alert_events_look(e);
        zsock_send(e->sequencer, "zs", text);
        free(text);
        json_decref(report);
    }
    db_done(e->oldest);
}
