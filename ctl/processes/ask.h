/* ask: finds the processes in run_dir and asks them over their control sockets. All commands
 * use it. Every function that needs run_dir exits 78 when the configuration does not say it. */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include "control.h"
#include "ctl.h"
#include "processes.h"

enum {
    ASK_NAMES_MS = 700, /* for hints and completion: a user waits for it */
    ASK_STATUS_MS = 5 * 1000, /* what a process answers from memory */
    ASK_MS = 10 * 1000,
};

/* The processes in run_dir. */
void processes_find(struct ctl *c, struct processes *p);

/* Whether a process may have this name; if not, that was printed. */
bool is_process_name(const char *name);

/* Whether the process accepts connections; a killed process leaves the file of its socket.
 * false: `why` says the reason. Never blocks. */
bool process_listens(struct ctl *c, const char *process, char why[200]);

/* Adds "host" to a row with "process", if that runs on another host. */
void add_host(struct ctl *c, json_t *row);

/* Ask one process; takes `args` over (may be NULL). Returns the reply, the caller's; or NULL
 * with the reason in `why`: *unreachable: the process did not respond, else it refused. Does
 * not wait for a process that is not running. */
json_t *ask(struct ctl *c, const char *process, const char *what, json_t *args,
            int timeout_ms, bool *unreachable, char why[200]);
/* The same for what takes minutes or hours, and writes the file `grows`: waits until the process replies or ends, or until
 * the file has not changed for ten minutes. */
json_t *ask_long(struct ctl *c, const char *process, const char *what,
                 json_t *args, const char *grows, bool *unreachable,
                 char why[200]);
/* The same as ask() for a reply without which the command ends: on NULL the reason was printed and
 * *code is the exit code. */
json_t *ask_needed(struct ctl *c, const char *process, const char *what,
                   json_t *args, int timeout_ms, int *code);

/* Ask several processes at the same time; waits at most `timeout_ms` for all of them. */
struct question {
    const char *process, *what;
    json_t *args; /* taken over */
    /* set as ask() does: */
    json_t *reply;
    bool unreachable;
    char code[CONTROL_CODE_BYTES]; /* of a refusal, such as "not_found" */
    char why[200];
};
/* Whether it refused for another reason than that it does not have the thing. */
bool question_failed(const struct question *q);
void ask_all(struct ctl *c, struct question *all, size_t count, int timeout_ms);

/* Whether the process runs on this host; for one that has not replied. */
bool is_silent(struct ctl *c, const char *process);

/* Whether this user may not read run_dir, so that the state of the processes is unknown. */
bool is_forbidden(const struct ctl *c);

/* Print that the process cannot be reached, or that it runs and is silent, and what to do.
 * Returns 69. */
int complain_away(struct ctl *c, const char *process, const char *why);
/* The same in one sentence for all of `rows` ({"process", "error"}) whose boolean `key` is
 * not true. One that refused to answer has "runs": true without "silent", and gets a sentence of its own, as
 * one that is silent. Returns 0 if `key` is true in all. */
int complain_all_away(struct ctl *c, const json_t *rows, const char *key);

#endif
