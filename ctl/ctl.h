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
    const char *config;        /* the file's name, as given */
    struct settings *settings; /* all of it or a part; NULL: not read */
    char *run_dir;             /* NULL: not looked up */
    json_t *names;             /* NULL: not asked for */
    json_t *found;             /* the last reply that names.c looked at */
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
int run_health(struct ctl *c);
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
int run_dlq_resolve_all(struct ctl *c);
int run_dlq_discard_all(struct ctl *c);
int run_retry(struct ctl *c);
int run_abandon(struct ctl *c);
int run_resend(struct ctl *c);
int run_replay(struct ctl *c);
int run_show(struct ctl *c);
int run_rejects(struct ctl *c);
int run_rejects_show(struct ctl *c);
int run_retry_plan(struct ctl *c);
int run_endpoints_test(struct ctl *c);
int run_metrics(struct ctl *c);
int run_top(struct ctl *c);
int run_verify(struct ctl *c);
int run_alerts(struct ctl *c);
int run_alerts_test(struct ctl *c);
int run_reload(struct ctl *c);
int check_running(struct ctl *c); /* reload.c: check --running */
int check_event(struct ctl *c,
                const char *file); /* check --event; settings read */
int run_backup(struct ctl *c);
int run_restore(struct ctl *c);
int run_version(struct ctl *c);

/* ---- common to them (common.c) ---- */

/* Set c->run_dir, where the control sockets are: --run-dir, or the key of the file
 * named with -c, or $GRAPNEL_RUN_DIR, or the key of the default file. Of the
 * file only this key is read, so that neither a missing secret nor an error
 * elsewhere gets in the way. On failure prints why and exits 78. */
void need_run_dir(struct ctl *c);
/* The same without output; false: it is not known. */
bool find_run_dir(struct ctl *c, struct buf *errors);
/* Read these top-level keys of the configuration (NULL at the end; without keys all of
 * them) with their secrets, or print what is wrong with them, and `why` the command
 * needs them, and exit 78. */
void need_settings(struct ctl *c, const char *const *keys, const char *why);
/* What the configuration names: that of the running processes; if none responds,
 * that of the file. NULL: neither can be had. Belongs to `c`; see
 * settings_names(). */
json_t *known_names(struct ctl *c);
/* The configuration has this name in `list` of known_names(). true also when
 * the names are not known, or `name` is NULL. Otherwise prints so, with the
 * nearest name; `what` is "endpoint" or "source". */
bool is_known(struct ctl *c, const char *list, const char *what,
              const char *name);
bool is_endpoint(struct ctl *c, const char *name);
/* How often processes publish numbers, ms; the default if that is not known. */
int64_t metrics_interval_ms(struct ctl *c);
/* "grapnel: …" on standard error. Returns `code`. */
int complain(int code, const char *fmt, ...) GR_PRINTF(2, 3);
/* Print the one document of --json and free it. */
void print_json(json_t *doc);
/* The text of a key, made harmless for a terminal; "" when it has none. Lives
 * until the 16th call after this one. */
const char *text_of(const json_t *object, const char *key);
/* The integer of a key; 0 when it has none. */
int64_t integer_of(const json_t *object, const char *key);
/* The text of a key, "-" when it has none. */
const char *text_or_dash(const json_t *object, const char *key);
/* ", its id X, delivery Y" of an event: what its provider calls it; "" for neither.
 * The caller's. */
char *provider_names(const json_t *event);
/* "2026-11-21 10:00:00.123" of an RFC 3339 text in `key`, "-" without one.
 * Lives as long as that of text_of(). */
const char *time_of(const json_t *object, const char *key);
/* Put the options of the list into the args of a question: texts as they are,
 * --since and --until as since_ms and until_ms, --limit as a number. false: a
 * sentence was printed; exit 64. */
bool put_filters(struct ctl *c, json_t *args, const char *const *strings);
/* --limit alone; put_filters() has it too. */
bool put_limit(struct ctl *c, json_t *args);
/* --limit, 100 without. Only after put_filters(). */
int64_t list_limit(const struct ctl *c);
/* The user that runs this, for the history of its changes. */
const char *user_name(void);
/* A file's bytes, "-" for standard input. NULL: a sentence was printed. */
char *read_file(const char *path, size_t max, size_t *bytes);

#endif
