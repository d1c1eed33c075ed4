/* console: the state of this process in memory. Only files of this folder include it. */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

#include "api.h"
#include "collector.h"
#include "daemon.h"
#include "forward.h"
#include "learned.h"
#include "live.h"
#include "measurements.h"
#include "notify.h"
#include "otlp.h"
#include "prometheus.h"
#include "rules.h"
#include "series_store.h"
#include "silences.h"
#include "store.h"
#include "ulid.h"
#include "web.h"
#include <sys/queue.h>

enum console_metric {
    M_FRAMES,
    M_FRAMES_INVALID,
    M_SUBSCRIBERS,
    M_MONITORS_REFUSED,
    M_FRAMES_DROPPED,
    M_NOTIFICATIONS_SENT,
    M_NOTIFICATIONS_FAILED,
    M_NOTIFICATIONS_GIVEN_UP,
    M_NOTIFICATIONS_WAITING,
    M_SPANS_SENT,
    M_SPANS_DROPPED,
    M_SPANS_WAITING,
    M_POINTS_SENT,
    M_TELEMETRY_FAILED,
    M_COUNT,
};

enum console_family {
    F_FIRING,
    F_SLO_SUCCESS,
    F_SLO_P95,
    F_SLO_P99,
    F_SLO_DEDUPE,
    F_MEAN_RETRIES,
    F_MEAN_WAIT,
    F_RETRY_SUCCESS,
    F_MISSING,
    F_COUNT,
};

/* A pending or firing alert; its row is in `alerts`. */
struct active {
    LIST_ENTRY(active) link;
    int64_t n;
    char rule[NAME_MAX_BYTES + 1], subject[NAME_MAX_BYTES + 1];
    struct lifecycle lifecycle;
    bool seen;   /* its subject exists, in the present evaluation */
    bool valued; /* evaluated since this start: `value` is the present one … */
    double value; /* … and newer than the row's, which is of the last change */
    char note[MEASUREMENT_NOTE_BYTES];
};
LIST_HEAD(active_list, active);

/* Notifiers that `alerts_test` has still to try. */
struct tests {
    char (*names)[NAME_MAX_BYTES + 1]; /* of notifiers */
    bool *begun;
    size_t count, done;
    json_t *results;
    char *text, *body; /* the text of the test */
    char id[40];
};

struct source_tests;

struct console {
    struct daemon daemon;
    struct store store;
    struct collector *collector;
    struct tracks *tracks;
    struct learned *learned;
    struct series_store *series;
    struct forward *forward;
    struct proxy *proxy;
    struct web *web;
    struct api *api;
    struct live *live;
    struct notify *notify;
    struct otlp *otlp;
    struct alert_events *alert_events;
    struct audit_heads *heads;
    struct active_list active;
    LIST_HEAD(, silence) silences;
    struct tests tests;
    struct source_tests *source_tests;
    struct ulid ids;
    zsock_t *dlqd;      /* DEALER to its control socket */
    uint64_t dlqd_file; /* ipc_follow() */
    int64_t
        asked_ms; /* mono: when dlqd was asked for dead letters; 0: no request is open */
    bool ask_again;       /* there are more */
    int64_t judge_due_ms; /* mono */
    int64_t look_due_ms;  /* mono: for new processes */
    int64_t metrics[M_COUNT];
};

/* turn.c: the callbacks of this process (daemon.h), and its control commands */
void console_open(void *self);
int console_work(void *self);
void console_after_commit(void *self);
void console_undo(void *self);
void console_reload(void *self, struct settings *fresh);
void console_close(void *self);
void console_measure(void *self);
json_t *console_ask_alerts(void *self, json_t *args, char why[200]);
json_t *console_ask_series(void *self, json_t *args, char why[200]);
json_t *console_make_link(void *self, json_t *args, char why[200]);
json_t *console_portal_link(void *self, json_t *args, char why[200]);
json_t *console_ask_trace(void *self, json_t *args, char why[200]);

/* alerts.c: evaluates rules, writes rows */
void alerts_load(struct console *c); /* from disk, also after an undo */
void alerts_close(struct console *c);
void alerts_judge(struct console *c);
/* Notifies of this rule's alerts that fire and have begun to since then. */
void alerts_notify_since(struct console *c, const char *rule, int64_t since_ms);
json_t *alerts_json(struct console *c, int64_t limit);
int alerts_firing(const struct console *c, const char *severity);

/* notifications.c: changes of alerts as messages for notifiers */
struct change {
    const struct alert_rule *rule;
    char *subject; /* owned, as are these: */
    bool resolved;
    int64_t since_ms, fired_ms;
    double value;
    char *summary;
    json_t *detail; /* more fields, or NULL */
};
struct changes {
    struct change *all;
    size_t count;
};
void changes_add(struct changes *l, const struct change *c);
/* Add one row for each notifier that is subscribed to any of the changes, unless their rules are
 * silenced; empties the list. */
void changes_notify(struct console *c, struct changes *l);
/* In the transaction: store the results of what was sent. Returns the longest sleep, ms. */
int notifications_work(struct console *c);
/* After the commit: start what is due, continue what has started. */
void notifications_flush(struct console *c);
/* Of a new message. */
void notification_id(struct console *c, char id[40]);
json_t *notifications_test(void *self, json_t *args, char why[200]);
void tests_fini(struct tests *t);

/* dead_letter_alerts.c: messages about each new dead letter */
void dead_letter_alerts_open(struct console *c);
void dead_letter_alerts_close(struct console *c);
/* At an evaluation: ask dlqd, if a rule needs it, and notify of those that were collected. */
void dead_letter_alerts_due(struct console *c);
void dead_letter_alerts_work(struct console *c);
void dead_letter_alerts_flush(struct console *c);

/* sources.c: what is known about sources and producers */
json_t *sources_list(void *self, json_t *args, char why[200]);
json_t *sources_read(void *self, json_t *args, char why[200]);

/* source_test.c: a test event of a source, sent to ingress over HTTP. A crash forgets those that have not
 * ended; ingress may have accepted them. */
struct source_tests *source_tests_open(void);    /* after notify_open() */
void source_tests_close(struct source_tests *t); /* before notify_close() */
json_t *source_test_ask(void *self, json_t *args, char why[200]);
/* Why no test of this source can be sent (static); NULL: it can. */
const char *source_test_refusal(const struct source *source);
/* Inside the transaction: replies to those that have ended. */
void source_tests_work(struct console *c);
/* After the commit: sends those that were asked for, and goes on with the others. */
void source_tests_flush(struct console *c);

/* slo.c: the unit of gauges that are ratios or quantiles: parts of this many */
enum { SLO_PER = 1000000 };
void slo_measure(struct console *c);

#endif
