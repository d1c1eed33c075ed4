/* ctl: the state of one run of `grapnel`, the commands, and what they share. Only files of this
 * folder include it. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "alloc.h"
#include "options.h"
#include "settings.h"
#include <jansson.h>

enum { EXIT_REFUSED = 1 }; /* not found, refused, or failed */

struct ctl {
    struct parsed parsed;
    const char *config;        /* the name of the file */
    struct settings *settings; /* all or a part; NULL: not read */
    char *run_dir;             /* NULL: not read */
    json_t *names;             /* of known_names(); NULL: not read */
    json_t *found;             /* the last reply that names.c read */
    bool json, colour;
};

/* commands.c: the table of all commands. Ends with a NULL name. */
extern const struct command ctl_commands[];
/* help.c */
void help_all(void);
void help_one(const struct command *c);
void help_family(const char *word); /* of all commands that begin with it */
void help_manual(const char *page); /* "grapnel.yaml"; else of the command */

/* The commands. Each prints its results and errors and returns its exit code. */
int run_check(struct ctl *c);
int run_send(struct ctl *c);
int run_status(struct ctl *c);
int run_health(struct ctl *c);
int run_trace(struct ctl *c);
int run_events(struct ctl *c);
int run_deliveries(struct ctl *c);
int run_endpoints(struct ctl *c);
int run_endpoints_stats(struct ctl *c);
int run_explain(struct ctl *c);
int run_endpoints_plan(struct ctl *c);
int run_endpoints_pause(struct ctl *c);
int run_endpoints_resume(struct ctl *c);
int run_endpoints_create(struct ctl *c);
int run_endpoints_change(struct ctl *c);
int run_endpoints_rotate(struct ctl *c);
int run_endpoints_delete(struct ctl *c);
int run_endpoints_export(struct ctl *c);
int run_endpoints_import(struct ctl *c);
int run_types(struct ctl *c);
int run_types_show(struct ctl *c);
int run_types_set(struct ctl *c);
int run_types_delete(struct ctl *c);
int run_types_export(struct ctl *c);
int run_types_import(struct ctl *c);
int run_gaps(struct ctl *c);
int run_gaps_close(struct ctl *c);
int run_workspaces(struct ctl *c);
int run_release(struct ctl *c);
int run_dlq(struct ctl *c);
int run_dlq_show(struct ctl *c);
int run_dlq_retry(struct ctl *c);
int run_dlq_stats(struct ctl *c);
int run_dlq_resolve(struct ctl *c);
int run_dlq_discard(struct ctl *c);
/* bulk_command.c: the same with --all: `ask` is the request to dlqd, `done` the key of its reply
 * and the word to print. */
int run_dlq_all(struct ctl *c, const char *ask, const char *done);
int run_retry(struct ctl *c);
int run_abandon(struct ctl *c);
int run_resend(struct ctl *c);
int run_replay(struct ctl *c);
int run_show(struct ctl *c);
int run_evidence(struct ctl *c);
int run_evidence_key(struct ctl *c);
int run_keys_make(struct ctl *c);
int run_keys_show(struct ctl *c);
int run_replicate_init(struct ctl *c);
int run_replicate_begin(struct ctl *c);
int run_replicate_status(struct ctl *c);
int run_replicate_off(struct ctl *c);
int run_handover(struct ctl *c);
int run_rejects(struct ctl *c);
int run_rejects_show(struct ctl *c);
int run_rejects_explain(struct ctl *c);
int run_retry_plan(struct ctl *c);
int run_endpoints_test(struct ctl *c);
int run_drill(struct ctl *c);
int run_metrics(struct ctl *c);
int run_top(struct ctl *c);
int run_verify(struct ctl *c);
int run_alerts(struct ctl *c);
int run_alerts_test(struct ctl *c);
int run_listen(struct ctl *c);
int run_alerts_silences(struct ctl *c);
int run_alerts_silence(struct ctl *c);
int run_alerts_unsilence(struct ctl *c);
int run_console_link(struct ctl *c);
int run_portal_link(struct ctl *c);
int run_tokens(struct ctl *c);
int run_tokens_create(struct ctl *c);
int run_tokens_revoke(struct ctl *c);
int run_audit(struct ctl *c);
int run_jobs(struct ctl *c);
int run_outbox_init(struct ctl *c);
int run_outbox_check(struct ctl *c);
int run_outbox_status(struct ctl *c);
int run_workspaces_erase(struct ctl *c);
int run_jobs_cancel(struct ctl *c);
int run_audit_verify(struct ctl *c);
int run_reload(struct ctl *c);
int check_running(struct ctl *c); /* reload.c: `check --running` */
int check_against(struct ctl *c, const char *since); /* `check --against` */
int check_event(struct ctl *c,
                const char *file); /* check --event; settings read */
int run_backup(struct ctl *c);
int run_restore(struct ctl *c);
int run_reconcile(struct ctl *c);
int run_version(struct ctl *c);

/* ---- for all commands (common.c) ---- */

/* Sets c->run_dir, the folder of the control sockets: --run-dir, or run_dir of the file of -c,
 * or $GRAPNEL_RUN_DIR, or run_dir of the default file. Reads only this key of the file, so that
 * a missing secret or an error elsewhere does not matter. If there is none, prints the errors
 * and exits 78. */
void need_run_dir(struct ctl *c);
/* The same without output or exit. false: it is unknown; `errors` says why. */
bool find_run_dir(struct ctl *c, struct buf *errors);
/* Reads these top-level keys of the configuration (NULL at the end; `keys` NULL: all) with their
 * secrets into c->settings. On errors prints them and `why` the command needs the keys, and
 * exits 78. */
void need_settings(struct ctl *c, const char *const *keys, const char *why);
/* The names in the configuration of the running processes; if no process responds, those in the
 * file. NULL: both failed. Belongs to `c`; settings_names() describes it. */
json_t *known_names(struct ctl *c);
/* Whether `list` of known_names() has this name; true also if the names are unknown or `name` is
 * NULL. Else prints the error with the nearest name; `what` is "endpoint" or "source". */
bool is_known(struct ctl *c, const char *list, const char *what,
              const char *name);
bool is_endpoint(struct ctl *c, const char *name);
/* Whether an endpoint with this id was made at run time; true also if the sequencer does not
 * respond. */
bool is_run_time_endpoint(struct ctl *c, const char *id);
/* The interval at which processes publish metrics, ms; the default if it is unknown. */
int64_t metrics_interval_ms(struct ctl *c);
/* Prints "grapnel: …" on standard error, harmless for a terminal. Returns `code`. */
int complain(int code, const char *fmt, ...) GR_PRINTF(2, 3);
/* Prints the one document of --json and frees it. */
void print_json(json_t *doc);
/* The text or integer of a key, harmless for a terminal; "" if it has neither. Valid until the
 * 16th call after this one. */
const char *text_of(const json_t *object, const char *key);
/* The same, "-" instead of "". */
const char *text_or_dash(const json_t *object, const char *key);
/* The integer of a key; 0 if it has none. */
int64_t integer_of(const json_t *object, const char *key);
/* ", its id X, delivery Y": the ids that the provider gave an event; "" if it has none. The
 * caller's. */
char *provider_names(const json_t *event);
/* "2026-11-21 10:00:00.123" of the RFC 3339 text of a key; "-" if it has none. Valid as long as
 * a result of text_of(). */
const char *time_of(const json_t *object, const char *key);
/* false: the text is not UTF-8, so that no request can contain it; the error, which begins with
 * `what`, was printed; the command exits 64. NULL is fine. */
bool is_utf8(const char *what, const char *text);
/* Puts the given options that are arguments of the command's request into `args`, as they are
 * declared: --since as since_ms. false: the error was printed; the command exits 64. */
bool put_filters(struct ctl *c, json_t *args);
/* --limit alone, also if it is no argument of the request. */
bool put_limit(struct ctl *c, json_t *args);
/* The number of --limit, or 100. Only after put_filters(), which checks it. */
int64_t list_limit(const struct ctl *c);
/* The name of the user that runs this command, for the history of changes. */
const char *user_name(void);
/* The bytes of a file, "-" for standard input; the caller's. NULL: the error was printed. */
char *read_file(const char *path, size_t max, size_t *bytes);

#endif
