/* ask: which processes there are, and questions to them. */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include "ctl.h"

enum {
    ASK_NAMES_MS = 700,       /* of use, but not needed */
    ASK_STATUS_MS = 5 * 1000, /* a turn takes milliseconds */
    ASK_MS = 10 * 1000,
    ASK_LONG_MS = 10 * 60 * 1000, /* a backup of a large file */
};

/* Names, ingress first, then sequencer, deliverers, dlqd, others; each that has
 * a control socket in run_dir, and those that must be there: one ingress, the
 * sequencer, one dlqd, and "deliverer-1" when there is no deliverer at all. */
struct processes {
    char **names;
    size_t count;
};

void processes_find(struct ctl *c, struct processes *p);
void processes_fini(struct processes *p);

/* Is anyone behind its control socket? A killed process leaves the socket's file
 * behind. false: `why`. */
bool process_listens(struct ctl *c, const char *process, char why[200]);

/* Ask one; takes `args` over (may be NULL). Returns the reply for the caller
 * to free, or NULL: *unreachable says that it did not respond, else it refused,
 * and `why` says what. A process that isn't there costs no waiting. */
json_t *ask(struct ctl *c, const char *process, const char *what, json_t *args,
            int timeout_ms, bool *unreachable, char why[200]);

/* Several at once, so that those that don't respond cost their time only once:
 * `timeout_ms` at most for all of them. */
struct question {
    const char *process, *what;
    json_t *args; /* taken over */
    /* as of ask(): */
    json_t *reply;
    bool unreachable;
    char why[200];
};
void ask_all(struct ctl *c, struct question *all, size_t count, int timeout_ms);

/* Whether this user may not look into run_dir, so that what runs is unknown. */
bool is_forbidden(const struct ctl *c);

/* "can't be reached: sequencer (why)", with what to do, on standard error. Returns
 * 69. */
int complain_away(struct ctl *c, const char *process, const char *why);
/* The same for all of `rows` in which the boolean `key` is not true, in one
 * sentence. 0 when there is none. */
int complain_all_away(struct ctl *c, const json_t *rows, const char *key);

/* The order in which processes are listed. Pure. */
int process_rank(const char *name);

#endif
