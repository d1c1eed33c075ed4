/* daemon_erase: erases what every process has of a workspace, and overwrites freed pages. */
#include "daemon_erase.h"
#include "daemon.h"
#include "db.h"
#include "json_text.h"
#include <stdlib.h>
#include <string.h>

bool erase_is(const struct erase_step *s, const char *workspace)
{
    char hash[ERASURE_HASH_BYTES + 1], why[200];

    if (s->workspace)
        return strcmp(workspace, s->workspace) == 0;
    return erasures_hash((struct erasures *)(uintptr_t)s->erasures, workspace,
                         hash, why) == GR_OK &&
           strcmp(hash, s->hash) == 0;
}

/* ---- what every process has ---- */

/* Runs a statement with one parameter, which need not be prepared for good. */
static void run(struct daemon *d, struct erase_step *s, const char *sql,
                const char *text, bool blob)
{
    sqlite3 *h = db_handle(d->db);
    sqlite3_stmt *q = NULL;

    if (db_full(d->db))
        return;
    if (sqlite3_prepare_v2(h, sql, -1, &q, NULL) != SQLITE_OK)
        die(EXIT_SOFTWARE, "%s: %s", sql, sqlite3_errmsg(h));
    if (blob)
        bind_blob(q, 1, (struct bytes){text, strlen(text)});
    else
        bind_text(q, 1, text);
    db_run(d->db, q);
    s->changed += db_changes(d->db);
    sqlite3_finalize(q);
}

/* Stored replies, arguments of jobs and messages that were set aside name the workspace as JSON
 * or msgpack does. */
static void erase_common(struct daemon *d, struct erase_step *s)
{
    json_t *name = json_string(s->workspace);
    char *quoted = json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT);
    char *field = gr_printf("\"workspace\":%s", quoted);

    run(d, s, "DELETE FROM idempotency WHERE instr(reply, ?) > 0", field,
        false);
    if (d->plan->jobs)
        run(d, s,
            "UPDATE jobs SET args = '{}', last_error = '' WHERE ended_ms > 0 "
            "AND instr(args, ?) > 0",
            field, false);
    run(d, s, "DELETE FROM link_unprocessable WHERE instr(bytes, ?) > 0",
        s->workspace, true);
    free(field);
    free(quoted);
    json_decref(name);
}

/* ---- the audit ---- */

/* Positions from here on are of audit rows. */
#define AUDIT_FROM (3LL << 61)
enum { AUDIT_ROWS = 500 };

/* Whether the arguments of a change contain the name. */
static bool names_it(void *self, const char *command, const json_t *args)
{
    char *text = args ? json_dumps(args, JSON_COMPACT) : NULL;
    bool found = text && strstr(text, self);

    (void)command;
    free(text);
    return found;
}

/* Deletes the arguments; the chain of hashes still verifies (acts.h). */
static void audit_step(struct daemon *d, struct erase_step *s)
{
    int64_t after = s->position - AUDIT_FROM;
    json_t *name = json_string(s->workspace);
    char *text = json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT);

    text[strlen(text) - 1] = 0; /* without the quotes */
    s->done = !acts_erase_content(d->acts, &after, AUDIT_ROWS, names_it,
                                  text + 1);
    s->position = AUDIT_FROM + after;
    free(text);
    json_decref(name);
}

/* ---- the command ---- */

static void work(struct daemon *d, struct erase_step *s)
{
    if (s->phase == ERASE_SCRUB) {
        s->done = db_scrub(d->db);
        return;
    }
    db_erasing(d->db);
    if (s->phase == ERASE_REST && s->position >= AUDIT_FROM) {
        audit_step(d, s);
        return;
    }
    if (d->plan->erase)
        d->plan->erase(d->plan->self, s);
    else
        s->done = true;
    if (s->phase == ERASE_REST && s->done && s->workspace) {
        erase_common(d, s);
        s->position = AUDIT_FROM;
        s->done = false;
    }
}

json_t *daemon_erase_ask(void *self, json_t *args, char why[200])
{
    static const char *const phases[] = {"refuse", "handed", "events", "rest",
                                         "scrub"};
    struct daemon *d = self;
    const char *phase = json_string_value(json_object_get(args, "phase"));
    struct erase_step s = {
        .hash = json_string_value(json_object_get(args, "hash")),
        .workspace = json_string_value(json_object_get(args, "workspace")),
        .ids = json_object_get(args, "ids"),
        .position = json_integer_value(json_object_get(args, "position")),
        .erasures = d->erasures};

    (void)why;
    while (strcmp(phases[s.phase], phase) != 0)
        s.phase++;
    erasures_refresh(d->erasures);
    work(d, &s);
    return json_pack("{s:b,s:I,s:I}", "done", s.done, "position",
                     (json_int_t)s.position, "changed", (json_int_t)s.changed);
}
