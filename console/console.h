/* console: what this process has in memory. loop.c tells its turn. */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

#include "daemon.h"
#include "facts.h"
#include "forward.h"
#include "gather.h"
#include "http.h"
#include "notify.h"
#include "prometheus.h"
#include "rules.h"
#include "store.h"
#include "ulid.h"

enum console_metric {
    M_FRAMES,
    M_SENSELESS,
    M_SUBSCRIBERS,
    M_MONITORS_REFUSED,
    M_FRAMES_DROPPED,
    M_TOLD,
    M_NOT_TOLD,
    M_GIVEN_UP,
    M_UNTOLD,
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
    F_COUNT,
};

/* One that is pending or fires; its row is in `alerts`. */
struct active {
    LIST_ENTRY(active) link;
    int64_t n;
    char rule[NAME_MAX_BYTES + 1], subject[NAME_MAX_BYTES + 1];
    struct life life;
    bool seen;    /* its subject is there, in this judgement */
    bool valued;  /* since our start: `value` is the present one, and so … */
    double value; /* … newer than the row's, which is of its last change */
};
LIST_HEAD(active_list, active);

/* Who is still to be tried for `alerts_test`. */
struct tests {
    char (*names)[NAME_MAX_BYTES + 1]; /* of notifiers */
    bool *begun;
    size_t count, done;
    json_t *results;
    char *text, *body; /* what they are told */
    char id[40];
};

struct console {
    struct daemon daemon;
    struct store store;
    struct gather *gather;
    struct facts *facts;
    struct forward *forward;
    struct http *http;
    struct notify *notify;
    struct active_list active;
    struct tests tests;
    struct ulid ids;
    void *dlqd;           /* DEALER to its control socket */
    int64_t asked_ms;     /* mono: dlqd was asked for deaths; 0: no */
    bool ask_again;       /* there are more */
    int64_t judge_due_ms; /* mono */
    int64_t look_due_ms;  /* mono: for new processes */
    int http_wait_ms;
    int64_t metrics[M_COUNT];
};

extern const struct daemon_plan console_plan;
extern const struct metric console_metrics[];
extern const struct metric_family console_families[];
extern const struct control_command console_commands[];

/* alerts.c: rules judged, rows written */
void alerts_load(struct console *c); /* from disk, also after an undo */
void alerts_close(struct console *c);
void alerts_judge(struct console *c);
json_t *alerts_json(struct console *c, int64_t limit);
int alerts_firing(const struct console *c, const char *severity);

/* tell.c: what changed as messages for notifiers */
struct change {
    const struct alert_rule *rule;
    char *subject; /* owned, as are these: */
    bool resolved;
    int64_t since_ms;
    double value;
    char *summary;
    json_t *detail; /* more fields, or NULL */
};
struct changes {
    struct change *all;
    size_t count;
};
void changes_add(struct changes *l, const struct change *c);
/* One row for each notifier that wants any of them; empties the list. */
void changes_tell(struct console *c, struct changes *l);
/* Rows: results of what was sent. Returns ms to sleep at most. */
int tell_work(struct console *c);
/* Sockets: begin what is due, go on with what is under way. */
void tell_tell(struct console *c);
json_t *tell_test(void *self, json_t *args, char why[200]);
void tests_fini(struct tests *t);

/* deaths.c: each dead letter as it comes */
void deaths_open(struct console *c);
void deaths_close(struct console *c);
void deaths_due(struct console *c); /* a judgement: ask, if a rule wants them */
void deaths_work(struct console *c);
void deaths_tell(struct console *c);

/* slo.c */
void slo_measure(struct console *c);

#endif
