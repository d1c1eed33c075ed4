/* acts: writes audit rows and idempotency records, and finds and deletes them. */
#include "acts.h"
#include "audit_chain.h"
#include "bounds.h"
#include "clock.h"
#include "control.h"
#include "json_text.h"
#include "log.h"
#include "row.h"
#include "ulid.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

enum {
    ARGS_MAX_BYTES = 4096,
    NAME_BYTES = 64, /* of an argument, with quotes */
    STEP_ROWS = 64,
    TIDY_MS = MINUTE_MS,
    TIDY_AGAIN_MS = 1000,    /* when a step did not delete all */
    AGAIN_MS = 10 * 1000,    /* until rows that did not fit are tried again */
    HEAD_EVERY_MS = HOUR_MS, /* the newest hash is logged */
    PENDING_MAX = 16,
    PAGE_USUAL = 100,
    LOOK_MAX = 5000,              /* rows read for one page */
    PAGE_MAX_BYTES = 1024 * 1024, /* of arguments read for one page */
};

#define AUDIT_COLUMNS(F, X) \
    F(i64, at_ms)           \
    X(own, actor)           \
    X(own, role)            \
    X(own, command)         \
    X(own, args)            \
    X(own, outcome)         \
    X(own, request_id)
/* The chain's. */
#define HASH_COLUMNS(F, X) \
    F(i64, n)              \
    X(blob, salt)          \
    X(blob, content)       \
    X(blob, hash)          \
    X(text, key)
#define AUDIT_INSERT                                              \
    "INSERT INTO audit(" ROW_NAMES(AUDIT_COLUMNS) ", " ROW_NAMES( \
        HASH_COLUMNS) ") VALUES (" ROW_VALUES(AUDIT_COLUMNS) ", " ROW_VALUES(HASH_COLUMNS) ")"
#define RECORD_COLUMNS(F, X) \
    F(own, owner)            \
    X(own, key)              \
    X(own, digest)           \
    X(i64, at_ms)            \
    X(own, reply)

/* A row, and the record that belongs to it; `reply` NULL: there is no record. */
struct entry {
    STAILQ_ENTRY(entry) link;
    struct {
        ROW_FIELDS(AUDIT_COLUMNS)
    } row;
    struct {
        ROW_FIELDS(RECORD_COLUMNS)
    } record;
    const struct command_spec *spec;
    int64_t number; /* of one that runs */
};
STAILQ_HEAD(entries, entry);

struct acts {
    struct db *db;
    struct retention *retention;
    const struct audit_keys *keys;
    struct audit_chain *chain;
    char *process;
    stmt *row_add, *rows, *first, *last, *rows_cut, *rows_after, *row_erase;
    stmt *record_add, *record, *records_old, *records_ahead;
    struct entries running; /* acts that reply later */
    int64_t number;         /* of the last one */
    struct entries pending;
    int pending_count;
    bool tried;       /* this turn has written them */
    int64_t again_ms; /* mono: when to try again; 0: now */
    int64_t tidy_ms;  /* mono */
    int64_t head_ms;  /* mono: when to log the newest hash */
    char *head;       /* to log after the commit, or NULL */
    bool warned;
};

struct acts *acts_open(struct db *db, struct retention *retention,
                       const char *process, const struct audit_keys *keys)
{
    struct acts *a = gr_alloc(sizeof *a);

    a->db = db;
    a->retention = retention;
    a->process = gr_strdup(process);
    STAILQ_INIT(&a->running);
    STAILQ_INIT(&a->pending);
    a->keys = keys;
    a->chain = audit_chain_open(db, keys);
    a->row_add = db_prepare(db, AUDIT_INSERT);
    a->rows_after = db_prepare(
        db, "SELECT n, hash, erased IS NOT NULL, command, args FROM audit "
            "WHERE n > ? ORDER BY n LIMIT ?");
    a->row_erase = db_prepare(
        db, "UPDATE audit SET salt = NULL, erased = ?2, actor = '', role = '', "
            "command = '', args = '{}', outcome = 'erased', request_id = '' "
            "WHERE n = ?1");
    a->rows = db_prepare(
        db, "SELECT n, " ROW_NAMES(AUDIT_COLUMNS) " FROM audit WHERE n < ? "
                                                  "ORDER BY n DESC LIMIT ?");
    a->first = db_prepare(db, "SELECT n, at_ms FROM audit ORDER BY n LIMIT ?");
    a->last = db_prepare(db, "SELECT max(n) FROM audit");
    a->rows_cut = db_prepare(db, "DELETE FROM audit WHERE n <= ?");
    a->record_add = db_prepare(
        db, ROW_REPLACE_WITH("idempotency", RECORD_COLUMNS, "", ""));
    a->record = db_prepare(db, "SELECT digest, reply FROM idempotency WHERE "
                               "owner = ? AND key = ?");
    a->records_old = db_prepare(
        db, "DELETE FROM idempotency WHERE id IN (SELECT id FROM idempotency "
            "WHERE at_ms < ? ORDER BY at_ms LIMIT ?)");
    a->records_ahead = db_prepare(
        db, "DELETE FROM idempotency WHERE id IN (SELECT id FROM idempotency "
            "WHERE at_ms > ? ORDER BY at_ms LIMIT ?)");
    return a;
}

static void entry_free(struct entry *e)
{
    if (!e)
        return;
    ROW_FREE(AUDIT_COLUMNS, &e->row);
    ROW_FREE(RECORD_COLUMNS, &e->record);
    free(e);
}

static void entries_free(struct entries *all)
{
    struct entry *e;

    while ((e = STAILQ_FIRST(all))) {
        STAILQ_REMOVE_HEAD(all, link);
        entry_free(e);
    }
}

static void pending_free(struct acts *a)
{
    entries_free(&a->pending);
    a->pending_count = 0;
}

static void warn_missing(const struct entry *e)
{
    log_warn(NULL, "the disk is full: an act is missing in the audit table",
             LS("actor", e->row.actor), LS("command", e->row.command),
             LS("outcome", e->row.outcome));
}

void acts_close(struct acts *a)
{
    const struct entry *e;

    if (!a)
        return;
    STAILQ_FOREACH(e, &a->pending, link)
    warn_missing(e);
    pending_free(a);
    entries_free(&a->running);
    audit_chain_close(a->chain);
    free(a->head);
    free(a->process);
    free(a);
}

/* ---- who asks ---- */

static const char *const roles[] = {"workspace", "viewer", "operator", "admin",
                                    NULL};

/* An optional text. */
#define BY_TEXT(n, h, least, most)                                           \
    {                                                                        \
        .name = n, .type = VALUE_TEXT, .help = h, .min = least, .max = most, \
        .flags = VALUE_ABSENT                                                \
    }

static const struct value by_fields[] = {
    {.name = "actor",
     .type = VALUE_TEXT,
     .help = "who asks",
     .min = 1,
     .max = 200},
    {.name = "role",
     .type = VALUE_CHOICE,
     .help = "the role of the token",
     .choices = roles,
     .flags = VALUE_ABSENT},
    BY_TEXT("request_id", "of the HTTP request", 1, 200),
    BY_TEXT("owner", "to whom the key belongs", 1, 200),
    BY_TEXT("key", "the idempotency key", 1, ACTS_KEY_MAX),
    BY_TEXT("digest", "SHA-256 of the request", 64, 64),
    {0}};
static const struct value by_value = {.type = VALUE_OBJECT,
                                      .fields = by_fields};

static const char *text_of(const json_t *doc, const char *name)
{
    const char *text = json_string_value(json_object_get(doc, name));

    return text ? text : "";
}

bool act_by_read(struct act_by *by, const json_t *doc, const json_t *args,
                 char why[200])
{
    const char *who = text_of(args, "who");

    *by = (struct act_by){.actor = *who ? who : "unknown",
                          .role = text_of(doc, "role"),
                          .request_id = text_of(doc, "request_id"),
                          .owner = text_of(doc, "owner"),
                          .key = text_of(doc, "key"),
                          .digest = text_of(doc, "digest")};
    if (!doc)
        return true;
    if (!value_fits(&by_value, doc, "by", why))
        return false;
    by->actor = text_of(doc, "actor");
    if (*by->key ? !*by->digest || !*by->owner : *by->digest != 0) {
        snprintf(why, 200,
                 "by: key, owner and digest are needed together, or none");
        return false;
    }
    if (strspn(by->digest, "0123456789abcdef") != strlen(by->digest)) {
        snprintf(why, 200,
                 "by.digest: 64 hexadecimal digits in lower case are needed");
        return false;
    }
    return true;
}

static bool has_key(const struct entry *e, const struct act_by *by)
{
    return strcmp(e->record.owner, by->owner) == 0 &&
           strcmp(e->record.key, by->key) == 0;
}

enum act_known acts_look(struct acts *a, const struct act_by *by, char **reply)
{
    enum act_known known = ACT_NEW;
    const struct entry *e;

    if (!*by->key)
        return ACT_NEW;
    STAILQ_FOREACH(e, &a->running, link)
    if (has_key(e, by))
        return strcmp(e->record.digest, by->digest) == 0 ? ACT_RUNS : ACT_OTHER;
    STAILQ_FOREACH(e, &a->pending, link)
    {
        if (!e->record.reply || !has_key(e, by))
            continue;
        if (strcmp(e->record.digest, by->digest) != 0)
            return ACT_OTHER;
        *reply = gr_strdup(e->record.reply);
        return ACT_STORED;
    }
    if (db_full(a->db)) /* records cannot be read; the turn is rolled back */
        return ACT_RUNS;
    bind_text(a->record, 1, by->owner);
    bind_text(a->record, 2, by->key);
    if (db_step(a->db, a->record)) {
        known = strcmp(col_text(a->record, 0), by->digest) == 0 ? ACT_STORED
                                                                : ACT_OTHER;
        if (known == ACT_STORED)
            *reply = gr_strdup(col_text(a->record, 1));
    }
    db_done(a->record);
    return known;
}

/* ---- the text of arguments ---- */

static size_t length_of(const json_t *v)
{
    return json_dumpb(v, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* A list keeps the first items that fit, a text its beginning. */
static json_t *shortened(const json_t *v, size_t max)
{
    json_t *out = NULL, *item;
    size_t n, i;

    if (length_of(v) <= max)
        return json_deep_copy(v);
    if (json_is_array(v)) {
        out = json_array();
        n = NAME_BYTES;
        json_array_foreach((json_t *)(uintptr_t)v, i, item)
        {
            n += length_of(item) + 1;
            if (n > max)
                break;
            json_array_append(out, item);
        }
        json_array_append_new(
            out, json_sprintf("… %zu more", json_array_size(v) - i));
        return out;
    }
    n = json_is_string(v) ? json_string_length(v) : 0;
    do {
        char *text;

        json_decref(out);
        n /= 2;
        text = gr_printf("%.*s…", (int)n, n ? json_string_value(v) : "");
        out = json_text_of(text); /* mends a character that was cut */
        free(text);
    } while (n && length_of(out) > max);
    return out;
}

/* `who` is left out: the row has the actor. */
static char *args_text(const struct command_spec *spec, const json_t *args)
{
    json_t *out = json_object(), *cut, *v;
    const char *name;
    size_t share;
    char *text;

    for (const struct value *f = spec->args; f && f->name; f++)
        if ((v = json_object_get(args, f->name)) && strcmp(f->name, "who") != 0)
            json_object_set_new(out, f->name, value_without_secrets(f, v));
    if (length_of(out) > ARGS_MAX_BYTES) {
        share = ARGS_MAX_BYTES / json_object_size(out) - NAME_BYTES;
        cut = json_object();
        json_object_foreach(out, name, v)
            json_object_set_new(cut, name, shortened(v, share));
        json_decref(out);
        out = cut;
    }
    text = json_dumps(out, JSON_COMPACT);
    json_decref(out);
    return text ? text : gr_strdup("{}");
}

/* ---- rows ---- */

/* The whole document, whose `reply` may have a secret. */
static char *reply_text(const struct command_spec *spec, const json_t *doc)
{
    json_t *reply = json_object_get(doc, "reply");
    json_t *copy = json_copy((json_t *)(uintptr_t)doc);
    char *text;

    if (reply)
        json_object_set_new(copy, "reply",
                            value_without_secrets(&spec->reply, reply));
    text = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    return text;
}

/* Takes `args` over. */
static struct entry *entry_new(const struct command_spec *spec,
                               const struct act_by *by, char *args,
                               int64_t now_ms, const char *outcome,
                               const json_t *reply)
{
    struct entry *e = gr_alloc(sizeof *e);

    e->spec = spec;
    e->row.at_ms = e->record.at_ms = now_ms;
    e->row.actor = gr_strdup(by->actor);
    e->row.role = gr_strdup(by->role);
    e->row.command = gr_strdup(spec->name);
    e->row.args = args;
    e->row.outcome = gr_strdup(outcome);
    e->row.request_id = gr_strdup(by->request_id);
    e->record.owner = gr_strdup(by->owner);
    e->record.key = gr_strdup(by->key);
    e->record.digest = gr_strdup(by->digest);
    if (*by->key && reply)
        e->record.reply = reply_text(spec, reply);
    return e;
}

static struct entry *entry_of(const struct act *act, const char *outcome,
                              const json_t *reply)
{
    return entry_new(act->spec, &act->by, args_text(act->spec, act->args),
                     act->now_ms, outcome, reply);
}

/* The row, with its place in the chain. */
static void write_row(struct acts *a, const struct entry *e)
{
    const struct audit_key *key = &a->keys->all[0];
    const struct audit_content c = {.actor = e->row.actor,
                                    .role = e->row.role,
                                    .command = e->row.command,
                                    .args = e->row.args,
                                    .outcome = e->row.outcome,
                                    .request_id = e->row.request_id};
    uint8_t salt[AUDIT_SALT_BYTES], content[AUDIT_HASH_BYTES];
    char head_key[AUDIT_KEY_ID_BYTES + 1];
    struct audit_link head, row;
    struct {
        ROW_FIELDS(HASH_COLUMNS)
    } hashes;
    int i = 0;

    if (!audit_chain_head(a->chain, &head, &row.n, head_key))
        return;
    if (getrandom(salt, sizeof salt, 0) != sizeof salt)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    hashes.n = row.n;
    hashes.salt = (struct bytes){salt, sizeof salt};
    hashes.content = (struct bytes){content, sizeof content};
    hashes.hash = (struct bytes){row.hash, sizeof row.hash};
    hashes.key = key->id;
    audit_hash_content(key, row.n, hashes.salt, &c, content);
    audit_hash_row(key, &head, row.n, e->row.at_ms, content, row.hash);
    ROW_BIND(AUDIT_COLUMNS, a->row_add, i, &e->row);
    ROW_BIND(HASH_COLUMNS, a->row_add, i, &hashes);
    db_run(a->db, a->row_add);
    audit_chain_added(a->chain, &row);
}

static void write_entry(struct acts *a, const struct entry *e)
{
    int i = 0;

    write_row(a, e);
    if (!e->record.reply)
        return;
    i = 0;
    ROW_BIND(RECORD_COLUMNS, a->record_add, i, &e->record);
    db_run(a->db, a->record_add);
}

/* Takes it over. acts_work() of this turn writes it. */
static void add_pending(struct acts *a, struct entry *e)
{
    if (a->pending_count == PENDING_MAX) {
        warn_missing(e);
        entry_free(e);
        return;
    }
    STAILQ_INSERT_TAIL(&a->pending, e, link);
    a->pending_count++;
    a->again_ms = 0;
}

void acts_done(struct acts *a, const struct act *act, const char *outcome,
               const json_t *reply)
{
    struct entry *e = entry_of(act, outcome, reply);

    if (act->spec->flags & COMMAND_MEMORY) {
        add_pending(a, e);
        return;
    }
    write_entry(a, e);
    entry_free(e);
}

int64_t acts_began(struct acts *a, const struct act *act)
{
    struct entry *e = entry_of(act, "started", NULL);

    e->number = ++a->number;
    STAILQ_INSERT_TAIL(&a->running, e, link);
    add_pending(a, entry_of(act, "started", NULL));
    return e->number;
}

void acts_ended(struct acts *a, int64_t number, int64_t now_ms,
                const char *outcome, const json_t *reply)
{
    struct entry *r;
    struct act_by by;

    STAILQ_FOREACH(r, &a->running, link)
    if (r->number == number)
        break;
    if (!r)
        return;
    by = (struct act_by){.actor = r->row.actor,
                         .role = r->row.role,
                         .request_id = r->row.request_id,
                         .owner = r->record.owner,
                         .key = r->record.key,
                         .digest = r->record.digest};
    add_pending(a, entry_new(r->spec, &by, gr_strdup(r->row.args), now_ms,
                             outcome, reply));
    STAILQ_REMOVE(&a->running, r, entry, link);
    entry_free(r);
}

/* ---- rows of the process itself ---- */

/* Takes `args` over. */
static void write_own(struct acts *a, const char *actor, const char *command,
                      json_t *args, int64_t now_ms)
{
    const struct command_spec spec = {.name = command};
    const struct act_by by = {.actor = actor,
                              .role = "",
                              .request_id = "",
                              .owner = "",
                              .key = "",
                              .digest = ""};
    struct entry *e = entry_new(&spec, &by, json_dumps(args, JSON_COMPACT),
                                now_ms, "done", NULL);

    write_row(a, e);
    entry_free(e);
    json_decref(args);
}

/* A row if the newest one has another key than the one in use. */
static void note_key(struct acts *a, int64_t now_ms)
{
    const char *id = a->keys->all[0].id;
    char head_key[AUDIT_KEY_ID_BYTES + 1];
    struct audit_link head;
    int64_t next;

    if (!audit_chain_head(a->chain, &head, &next, head_key) || !*head_key ||
        strcmp(head_key, id) == 0)
        return;
    log_warn(NULL,
             "the key of the audit chain changed: name the earlier key in "
             "audit.old_keys, so that earlier rows can be verified",
             LS("old_key", head_key), LS("new_key", id));
    write_own(a, "grapnel", "audit_key",
              json_pack("{s:o,s:s}", "old", json_text_of(head_key), "new", id),
              now_ms);
}

void acts_restored(struct acts *a, int64_t now_ms, int64_t copied_ms,
                   bool by_grapnel, const char *actor, const char *from)
{
    note_key(a, now_ms);
    write_own(a, *actor ? actor : "unknown", "restore",
              json_pack("{s:o,s:s,s:o}", "copied_at",
                        json_time(copied_ms > 1 ? copied_ms : 0), "copied_by",
                        by_grapnel ? "grapnel" : "something else", "from",
                        json_text_or_null(from)),
              now_ms);
}

void acts_begin(struct acts *a, int64_t now_ms)
{
    if (audit_chain_ready(a->chain))
        return;
    db_begin(a->db);
    note_key(a, now_ms);
    /* On a full disk the next act begins the chain. */
    if (db_commit(a->db) != GR_OK)
        audit_chain_undo(a->chain);
}

/* ---- erasure ---- */

bool acts_erase_content(struct acts *a, int64_t *after, int most,
                        acts_chosen_fn *chosen, void *self)
{
    struct audit_link erase[STEP_ROWS];
    uint8_t mac[AUDIT_HASH_BYTES];
    int count = 0, looked = 0;

    most = most < STEP_ROWS ? most : STEP_ROWS;
    bind_i64(a->rows_after, 1, *after);
    bind_i64(a->rows_after, 2, most);
    while (db_step(a->db, a->rows_after)) {
        stmt *q = a->rows_after;
        struct bytes hash = col_blob(q, 1);
        json_t *args = json_loads(col_text(q, 4), 0, NULL);

        looked++;
        *after = col_i64(q, 0);
        /* A row of before the chain has no hash, and needs no proof. */
        if (!col_i64(q, 2) && chosen(self, col_text(q, 3), args)) {
            erase[count] = (struct audit_link){.n = *after};
            if (hash.n == AUDIT_HASH_BYTES)
                memcpy(erase[count].hash, hash.p, AUDIT_HASH_BYTES);
            count++;
        }
        json_decref(args);
    }
    db_done(a->rows_after);
    for (int i = 0; i < count; i++) {
        audit_hash_erased(&a->keys->all[0], &erase[i], mac);
        bind_i64(a->row_erase, 1, erase[i].n);
        bind_blob(a->row_erase, 2, (struct bytes){mac, AUDIT_HASH_BYTES});
        db_run(a->db, a->row_erase);
    }
    return looked == most && !db_full(a->db);
}

/* ---- the turn ---- */

/* Rows are in the order in which they were added. */
static bool cut_rows(struct acts *a, int64_t now_ms)
{
    int64_t keep_ms = AUDIT_KEEP_DAYS * DAY_MS;
    int64_t before_ms = retention_before(a->retention, now_ms, keep_ms);
    int64_t after_ms = retention_after(a->retention, now_ms, keep_ms);
    int64_t last = db_number(a->db, a->last, 0), cut = 0;
    bool early = false;
    int rows = 0;

    bind_i64(a->first, 1, STEP_ROWS);
    while (db_step(a->db, a->first)) {
        int64_t n = col_i64(a->first, 0), at_ms = col_i64(a->first, 1);
        bool old = at_ms < before_ms || at_ms > after_ms;

        if (!old && n > last - AUDIT_MAX_ROWS)
            break;
        early = early || !old;
        cut = n;
        rows++;
    }
    db_done(a->first);
    if (!cut)
        return false;
    audit_chain_cut(a->chain, cut, now_ms);
    bind_i64(a->rows_cut, 1, cut);
    db_run(a->db, a->rows_cut);
    if (early && !a->warned)
        log_warn(NULL,
                 "the audit table is full: its oldest rows are deleted before "
                 "they are old",
                 LI("rows_max", AUDIT_MAX_ROWS),
                 LI("keep_days", AUDIT_KEEP_DAYS));
    a->warned = a->warned || early;
    return rows == STEP_ROWS;
}

static bool cut_records(struct acts *a, stmt *q, int64_t edge_ms)
{
    bind_i64(q, 1, edge_ms);
    bind_i64(q, 2, STEP_ROWS);
    db_run(a->db, q);
    return db_changes(a->db) == STEP_ROWS;
}

void acts_work(struct acts *a, int64_t mono_ms, int64_t now_ms)
{
    const struct entry *e;
    bool more;

    /* Not in each turn: rows that do not fit undo the whole turn, which may fit without them. */
    if (a->pending_count && mono_ms >= a->again_ms) {
        a->again_ms = mono_ms + AGAIN_MS;
        STAILQ_FOREACH(e, &a->pending, link)
        write_entry(a, e);
        a->tried = true;
    }
    if (mono_ms >= a->head_ms) {
        a->head_ms = mono_ms + HEAD_EVERY_MS;
        a->head = audit_chain_head_text(a->chain, a->process);
    }
    if (mono_ms < a->tidy_ms)
        return;
    more = cut_rows(a, now_ms);
    more |= cut_records(a, a->records_old,
                        retention_before(a->retention, now_ms, DAY_MS));
    more |= cut_records(a, a->records_ahead,
                        retention_after(a->retention, now_ms, DAY_MS));
    a->tidy_ms = mono_ms + (more ? TIDY_AGAIN_MS : TIDY_MS);
}

void acts_flush(struct acts *a)
{
    /* With a kept log, rows that were cut off since can be noticed. */
    if (a->head)
        log_info(NULL, "the newest hash of the audit chain",
                 LS("head", a->head));
    free(a->head);
    a->head = NULL;
    if (!a->tried)
        return;
    a->tried = false;
    pending_free(a);
}

void acts_undo(struct acts *a)
{
    a->tried = false;
    if (a->head)
        a->head_ms = 0;
    free(a->head);
    a->head = NULL;
    audit_chain_undo(a->chain);
}

/* ---- the commands ---- */

static json_t *row_json(const struct acts *a, int64_t n, stmt *q)
{
    return json_pack("{s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "n",
                     json_sprintf("%" PRId64, n), "at",
                     json_time(col_i64(q, 1)), "process", a->process, "actor",
                     json_text_of(col_text(q, 2)), "role",
                     json_text_or_null(col_text(q, 3)), "command",
                     json_text_of(col_text(q, 4)), "args",
                     json_loads(col_text(q, 5), 0, NULL), "outcome",
                     json_text_of(col_text(q, 6)), "request_id",
                     json_text_or_null(col_text(q, 7)));
}

bool acts_names(const json_t *v, const json_t *about)
{
    const char *text = json_string_value(v), *name;
    json_t *item, *one;
    bool found = false;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)v, i, item)
        found = found || acts_names(item, about);
    json_object_foreach((json_t *)(uintptr_t)v, name, item)
        found = found || acts_names(item, about);
    if (!text)
        return found;
    json_array_foreach((json_t *)(uintptr_t)about, i, one)
    {
        name = json_string_value(one);
        found |= strcmp(text, name) == 0 ||
                 (ulid_is_of_event(name) && strstr(text, name + 4));
    }
    return found;
}

/* false: no string of these arguments, which are JSON, can be one of `about`. Much cheaper than to parse
 * them. */
static bool may_name(const char *args, const json_t *about)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)about, i, one)
    {
        const char *name = json_string_value(one);

        if (!ulid_is_of_event(name) || strstr(args, name + 4))
            return true;
    }
    return false;
}

json_t *acts_audit(void *self, json_t *args, char why[200])
{
    struct acts *a = self;
    const json_t *about = json_object_get(args, "about");
    const char *text = json_string_value(json_object_get(args, "before"));
    json_int_t since = json_integer_value(json_object_get(args, "since_ms"));
    json_int_t until = json_integer_value(json_object_get(args, "until_ms"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    int64_t before = INT64_MAX, last = 0;
    json_t *list, *row;
    size_t bytes = 0;
    int looked = 0;
    bool more = true;
    char *end;

    if (text) {
        before = strtoll(text, &end, 10);
        if (end == text || *end) {
            control_fail(why, CONTROL_INVALID,
                         "\"before\" must be the \"next\" of a reply");
            return NULL;
        }
    }
    list = json_array();
    limit = limit ? limit : PAGE_USUAL;
    bind_i64(a->rows, 1, before);
    bind_i64(a->rows, 2, LOOK_MAX);
    while (json_array_size(list) < (size_t)limit && bytes < PAGE_MAX_BYTES &&
           (more = db_step(a->db, a->rows))) {
        int64_t at_ms = col_i64(a->rows, 1);
        const char *text_of_args = col_text(a->rows, 5);

        looked++;
        last = col_i64(a->rows, 0);
        if (at_ms < since || (until && at_ms >= until))
            continue;
        bytes += strlen(text_of_args); /* also of a row that does not match */
        if (about && !may_name(text_of_args, about))
            continue;
        row = row_json(a, last, a->rows);
        if (!about || acts_names(json_object_get(row, "args"), about))
            json_array_append(list, row);
        json_decref(row);
    }
    db_done(a->rows);
    more = more || looked == LOOK_MAX;
    return json_pack("{s:o,s:o}", "audit", list, "next",
                     more ? json_sprintf("%" PRId64, last) : json_null());
}

json_t *acts_verify(void *self, json_t *args, char why[200])
{
    const struct acts *a = self;

    (void)why;
    return audit_chain_verify(a->chain, args);
}

json_t *acts_head(void *self, json_t *args, char why[200])
{
    const struct acts *a = self;
    char *head = audit_chain_head_text(a->chain, a->process);
    json_t *reply = json_pack("{s:o}", "head", json_text_of(head));

    (void)args, (void)why;
    free(head);
    return reply;
}
