/* ctl.h: one run of the `grapnel` command, for this folder only. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "alloc.h"
#include "options.h"
#include "settings.h"
#include <jansson.h>

enum { EXIT_REFUSED = 1 }; /* not found, or refused */

struct ctl {
    struct parsed parsed;
    const char *config; /* the file's name, as said */
    struct settings *settings;
    void *zmq;
    bool json, colour;
};

/* commands.c: the one table. Ends with a NULL name. */
extern const struct command ctl_commands[];
/* help.c */
void help_all(void);
void help_one(const struct command *c);
void help_manual(const char *page); /* "grapnel.yaml"; else of the command */

/* The commands, each family in a file of its name. They return exit codes. */
int run_check(struct ctl *c);
int run_send(struct ctl *c);
int run_status(struct ctl *c);
int run_trace(struct ctl *c);
int run_events(struct ctl *c);
int run_deliveries(struct ctl *c);
int run_endpoints(struct ctl *c);
int run_endpoints_pause(struct ctl *c);
int run_endpoints_resume(struct ctl *c);
int run_gaps(struct ctl *c);
int run_gaps_close(struct ctl *c);
int run_workspaces(struct ctl *c);
int run_release(struct ctl *c);
int run_dlq(struct ctl *c);
int run_dlq_show(struct ctl *c);
int run_dlq_retry(struct ctl *c);
int run_dlq_retry_all(struct ctl *c);
int run_dlq_stats(struct ctl *c);
int run_dlq_resolve(struct ctl *c);
int run_dlq_discard(struct ctl *c);
int run_resend(struct ctl *c);
int run_replay(struct ctl *c);
int run_rejects(struct ctl *c);
int run_retry_plan(struct ctl *c);
int run_endpoints_test(struct ctl *c);
int run_metrics(struct ctl *c);
int run_top(struct ctl *c);
int run_alerts(struct ctl *c);
int run_alerts_test(struct ctl *c);
int run_reload(struct ctl *c);
int run_backup(struct ctl *c);

/* ---- common to them (common.c) ---- */

/* The endpoint is in the configuration (NULL: none is named); else says so. */
bool is_endpoint(struct ctl *c, const char *name);
/* Read the configuration, or print what is wrong with it and exit 78. */
void need_settings(struct ctl *c);
/* "grapnel: …" on standard error. Returns `code`. */
int complain(int code, const char *fmt, ...) GR_PRINTF(2, 3);
/* Print the one document of --json and free it. */
void print_json(json_t *doc);
/* The text of a key, made harmless for a terminal; "" when it has none. Lives
 * until the 16th call after this one. */
const char *text_of(const json_t *object, const char *key);
/* "2026-11-21 10:00:00.123" of an RFC 3339 text in `key`, "-" without one.
 * Lives as long as that of text_of(). */
const char *time_of(const json_t *object, const char *key);
/* Put the options of the list into the args of a question: texts as they are,
 * --since and --until as since_ms and until_ms, --limit as a number. false: a
 * sentence was printed; exit 64. */
bool put_filters(struct ctl *c, json_t *args, const char *const *texts);
/* --limit alone; put_filters() has it too. */
bool put_limit(struct ctl *c, json_t *args);
/* --limit, 100 without. Only after put_filters(). */
int64_t list_limit(const struct ctl *c);
/* Who runs this, for the history of what he changes. */
const char *user_name(void);
/* A file's bytes, "-" for standard input. NULL: a sentence was printed. */
char *read_file(const char *path, size_t most, size_t *bytes);

#endif
