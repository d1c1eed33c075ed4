/* daemon_erase: erases what every process has of a workspace, and overwrites freed pages. */
#include "daemon_erase.h"
#include "clock.h"
#include "daemon.h"
#include "db.h"
#include "json_text.h"
#include "replica.h"
#include "wire.h"
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
                struct bytes parameter)
{
    sqlite3 *h = db_handle(d->db);
    sqlite3_stmt *q = NULL;

    if (db_full(d->db))
        return;
    if (sqlite3_prepare_v2(h, sql, -1, &q, NULL) != SQLITE_OK)
        die(EXIT_SOFTWARE, "%s: %s", sql, sqlite3_errmsg(h));
    bind_blob(q, 1, parameter);
    db_run(d->db, q);
    s->changed += db_changes(d->db);
    sqlite3_finalize(q);
}

/* The name as a text of msgpack, in messages that were set aside. */
static void put_msgpack(struct buf *out, const char *name)
{
    size_t n = strlen(name);
    unsigned char head[3] = {(unsigned char)(0xa0 | n)};
    size_t head_bytes = 1;

    if (n >= 32 && n < 256) {
        head[0] = 0xd9;
        head[1] = (unsigned char)n;
        head_bytes = 2;
    } else if (n >= 256) {
        head[0] = 0xda;
        head[1] = (unsigned char)(n >> 8);
        head[2] = (unsigned char)n;
        head_bytes = 3;
    }
    buf_put(out, head, head_bytes);
    buf_put(out, name, n);
}

/* Stored replies, arguments of ended jobs, and messages that were set aside. */
static void erase_common(struct daemon *d, struct erase_step *s)
{
    json_t *name = json_string(s->workspace);
    char *quoted = json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT);
    char *field = gr_printf("\"workspace\":%s", quoted);
    struct buf packed;

    run(d, s, "DELETE FROM idempotency WHERE instr(reply, CAST(? AS TEXT)) > 0",
        wire_text(field));
    if (d->plan->jobs)
        run(d, s,
            "UPDATE jobs SET args = '{}', last_error = '' WHERE ended_ms > 0 "
            "AND instr(args, CAST(? AS TEXT)) > 0",
            wire_text(field));
    buf_init(&packed, strlen(s->workspace) + 3);
    put_msgpack(&packed, s->workspace);
    run(d, s, "DELETE FROM link_unprocessable WHERE instr(bytes, ?) > 0",
        (struct bytes){packed.data, packed.len});
    buf_fini(&packed);
    free(field);
    free(quoted);
    json_decref(name);
}

/* ---- the audit ---- */

/* Positions below are of audit rows, those from here on of the process's own; after these the rows
 * are read again, for changes that were made meanwhile. */
#define OWN_FROM   (1LL << 61)
#define AUDIT_FROM (3LL << 61)
enum { AUDIT_ROWS = 500 };

struct choosing {
    struct daemon *d;
    const struct erase_step *s;
};

/* Whether a text in it is the name. */
static bool has_name(const json_t *v, const char *name)
{
    const json_t *item;
    const char *key;
    size_t i;

    if (json_is_string(v))
        return name && strcmp(json_string_value(v), name) == 0;
    json_array_foreach((json_t *)(uintptr_t)v, i, item)
    {
        if (has_name(item, name))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        if (has_name(item, name))
            return true;
    }
    return false;
}

/* The change names the workspace, or an event or a dead letter of it. */
static bool is_chosen(void *self, const char *command, const json_t *args)
{
    static const char *const ids[] = {"id", "event"};
    struct choosing *c = self;
    const char *id;

    (void)command;
    for (size_t i = 0; c->d->plan->owns && i < COUNT_OF(ids); i++)
        if ((id = json_string_value(json_object_get(args, ids[i]))) &&
            c->d->plan->owns(c->d->plan->self, c->s, id))
            return true;
    return has_name(args, c->s->workspace);
}

/* Deletes the arguments of some rows; the chain of hashes still verifies (acts.h). true: all rows
 * are read. */
static bool erase_audit(struct daemon *d, struct erase_step *s, int64_t from)
{
    struct choosing c = {d, s};
    int64_t after = s->position - from;
    bool more = acts_erase_content(d->acts, &after, AUDIT_ROWS, is_chosen, &c);

    s->position = from + after;
    return !more;
}

static void erase_rest(struct daemon *d, struct erase_step *s)
{
    if (s->position < OWN_FROM) {
        if (erase_audit(d, s, 0))
            s->position = OWN_FROM;
    } else if (s->position < AUDIT_FROM) {
        s->position -= OWN_FROM;
        s->done = !d->plan->erase;
        if (d->plan->erase)
            d->plan->erase(d->plan->self, s);
        s->position += OWN_FROM;
        if (!s->done)
            return;
        if (s->workspace)
            erase_common(d, s);
        s->position = AUDIT_FROM;
        s->done = false;
    } else {
        s->done = erase_audit(d, s, AUDIT_FROM);
    }
}

/* ---- the command ---- */

/* When the file has nothing of it any more, its copies in the engine end. Position: the turn after which the file has nothing; 0: it still has. */
static void scrub(struct daemon *d, struct erase_step *s)
{
    if (!s->position) {
        s->done = db_scrub(d->db);
        if (!s->done || !d->replica)
            return;
        s->position = replica_turn(d->replica) + db_has_turn(d->db);
    }
    s->done = !d->replica ||
              replica_forget(d->replica, s->position, s->waits_for);
}

static void work(struct daemon *d, struct erase_step *s)
{
    if (s->phase == ERASE_SCRUB) {
        scrub(d, s);
        return;
    }
    db_erasing(d->db);
    if (s->phase == ERASE_REST)
        erase_rest(d, s);
    else if (d->plan->erase)
        d->plan->erase(d->plan->self, s);
    else
        s->done = true;
}

json_t *daemon_erase_ask(void *self, json_t *args, char why[200])
{
    static const char *const phases[] = {"refuse", "handed", "events", "rest",
                                         "scrub"};
    struct daemon *d = self;
    const char *phase = json_string_value(json_object_get(args, "phase")),
               *key = json_string_value(json_object_get(args, "key"));
    char wrong[200];
    struct erase_step s = {
        .hash = json_string_value(json_object_get(args, "hash")),
        .workspace = json_string_value(json_object_get(args, "workspace")),
        .ids = json_object_get(args, "ids"),
        .position = json_integer_value(json_object_get(args, "position")),
        .erasures = d->erasures};

    if (key &&
        erasures_add_from(d->erasures, key, s.hash, now_ms(), wrong) != GR_OK) {
        control_fail(why, CONTROL_REFUSED, "%s", wrong);
        return NULL;
    }
    while (strcmp(phases[s.phase], phase) != 0)
        s.phase++;
    erasures_refresh(d->erasures);
    work(d, &s);
    return json_pack("{s:b,s:I,s:I,s:o}", "done", s.done, "position",
                     (json_int_t)s.position, "changed", (json_int_t)s.changed,
                     "waits_for", json_text_or_null(s.waits_for));
}
