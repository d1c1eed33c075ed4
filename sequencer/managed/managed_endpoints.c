/* managed_endpoints: the rows, subscriptions and settings of endpoints that are made at run
 * time. */
#include "managed_endpoints.h"
#include "clock.h"
#include "conf.h"
#include "ended.h"
#include "endpoint_config.h"
#include "endpoint_document.h"
#include "endpoint_index.h"
#include "grants.h"
#include "lanes.h"
#include "log.h"
#include "operational.h"
#include "sealed.h"
#include "sequencer.h"
#include "store.h"
#include "temporary.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000, /* between looks of managed_work() */
    IDLE_MS = 60 *
              1000, /* a grant that nobody needed for so long is given back */
    GRANTS_PER_LOOK = 256,
    FORGET_AT_ONCE = 256,
    ROWS_PER_LOOK = 16, /* also in docs/OPERATIONS.md */
    SECRETS_MAX_BYTES = ENDPOINT_DOCUMENT_MAX_BYTES,
};

#define SELECT_MANAGED \
    "SELECT " ROW_NAMES(MANAGED_COLUMNS) " FROM managed_endpoints "
/* The name of what is sealed, beside the endpoint's id. */
#define SEALED_FIELD "secrets"

struct managed {
    struct db *db;
    struct endpoint_index *index;
    struct key_ring *keys;
    size_t count, operational; /* all; those that name OPERATIONAL_SOURCE */
    int64_t own_timeout_ms;    /* the longest that one of them sets itself */
    int64_t looked_ms;         /* mono */
    size_t idle_turn; /* of ENDPOINTS_GRANTED: the next one to look at */
    /* Rows up to this one are sealed with the current key. */
    char *sealed_key;
    int64_t sealed_id;
    bool sealing;     /* there may be rows after it */
    int64_t resealed; /* since the configuration changed */
    stmt *all, *one, *add, *set, *drop, *page, *page_in, *count_in, *retired,
        *postpone, *resealable, *unused, *deleted, *workspace, *count_deleted,
        *forget_deleted;
};

struct managed *managed_open(struct db *db)
{
    struct managed *m = gr_alloc(sizeof *m);

    m->db = db;
    m->all = db_prepare(
        db, "SELECT id, settings, unused_ms FROM managed_endpoints");
    m->one = db_prepare(db, SELECT_MANAGED "WHERE id = ?");
    m->add = db_prepare(db, ROW_INSERT("managed_endpoints", MANAGED_COLUMNS));
    m->set = db_prepare(db, "UPDATE managed_endpoints SET " ROW_SETS(
                                MANAGED_COLUMNS) " WHERE id = :id");
    m->drop = db_prepare(db, "DELETE FROM managed_endpoints WHERE id = ?");
    m->page = db_prepare(
        db,
        "SELECT id FROM managed_endpoints WHERE id > ? ORDER BY id LIMIT ?");
    m->page_in = db_prepare(
        db, "SELECT id FROM managed_endpoints WHERE workspace = ? "
            "AND id > ? ORDER BY id LIMIT ?");
    m->count_in = db_prepare(db,
                             "SELECT count(*) FROM (SELECT 1 FROM "
                             "managed_endpoints WHERE workspace = ? LIMIT ?)");
    m->retired = db_prepare(
        db, "SELECT id FROM managed_endpoints WHERE retire_ms > 0 AND "
            "retire_ms <= ? ORDER BY retire_ms LIMIT 1");
    m->postpone = db_prepare(db, "UPDATE managed_endpoints SET retire_ms = ?2 "
                                 "WHERE id = ?1 AND retire_ms > 0");
    m->deleted = db_prepare(db, "INSERT OR REPLACE INTO deleted_endpoints(id, "
                                "workspace, deleted_ms) "
                                "SELECT id, workspace, ?2 FROM "
                                "managed_endpoints WHERE id = ?1 AND workspace "
                                "<> ''");
    m->workspace = db_prepare(
        db, "SELECT workspace FROM managed_endpoints WHERE id = ?1 UNION ALL "
            "SELECT workspace FROM deleted_endpoints WHERE id = ?1");
    m->count_deleted = db_prepare(
        db, "SELECT count(*) FROM deleted_endpoints WHERE workspace = ? AND "
            "deleted_ms > ?");
    m->forget_deleted = db_prepare(db, "DELETE FROM deleted_endpoints WHERE id "
                                       "NOT IN (SELECT id FROM endpoints)");
    m->unused = db_prepare(
        db, "UPDATE managed_endpoints SET unused_ms = ?2 WHERE id = ?1");
    m->resealable = db_prepare(
        db, "SELECT secrets_key, id FROM managed_endpoints WHERE secrets_key "
            "<> '' AND (secrets_key, id) > (?, ?) ORDER BY secrets_key, id "
            "LIMIT ?");
    return m;
}

void managed_close(struct managed *m)
{
    endpoint_index_free(m->index);
    key_ring_free(m->keys);
    free(m->sealed_key);
    free(m);
}

/* ---- all of them, at a start ---- */

static int64_t timeout_of(const json_t *doc)
{
    const char *text = json_string_value(json_object_get(doc, "timeout")), *why;
    int64_t ms = 0;

    if (text && conf_parse_duration(text, &ms, &why) == GR_OK)
        return ms;
    text = json_string_value(json_object_get(doc, "transport"));
    return text && strcmp(text, "pull") == 0 ? PULL_LEASE_MS : 0;
}

static void unsubscribe(struct sequencer *q, const struct endpoint *e)
{
    struct managed *m = q->managed;
    size_t slot = (size_t)(e - q->endpoints);
    const struct own_subscription *own = endpoint_index_get(m->index, slot);

    if (own && string_list_has(&own->sources, OPERATIONAL_SOURCE))
        m->operational--;
    endpoint_index_drop(m->index, slot);
}

static void subscribe(struct sequencer *q, struct endpoint *e,
                      const json_t *doc)
{
    struct managed *m = q->managed;
    struct own_subscription own = {0};
    int64_t timeout_ms = timeout_of(doc);
    bool good = endpoint_document_subscription(doc, &own);

    unsubscribe(q, e);
    if (good && string_list_has(&own.sources, OPERATIONAL_SOURCE))
        m->operational++;
    if (good)
        endpoint_index_put(m->index, (size_t)(e - q->endpoints), &own);
    else
        log_error(NULL,
                  "the subscription of an endpoint cannot be read; it "
                  "gets no events",
                  LS("endpoint", e->name));
    own_subscription_fini(&own);
    if (timeout_ms > m->own_timeout_ms)
        m->own_timeout_ms = timeout_ms;
}

void managed_load(struct sequencer *q)
{
    struct managed *m = q->managed;

    m->index = endpoint_index_new();
    m->count = m->operational = 0;
    m->own_timeout_ms = 0;
    while (db_step(m->db, m->all)) {
        struct endpoint *e = endpoint_by_id(q, col_i64(m->all, 0));
        json_t *doc = json_loads(col_text(m->all, 1), 0, NULL);

        if (e) {
            e->managed = true;
            m->count++;
            e->unused_ms = col_i64(m->all, 2);
            if (e->temporary)
                endpoint_list_put(q, e, ENDPOINTS_TEMPORARY);
            subscribe(q, e, doc);
        }
        json_decref(doc);
    }
    db_done(m->all);
}

void managed_unload(struct sequencer *q)
{
    if (!q->managed)
        return;
    endpoint_index_free(q->managed->index);
    q->managed->index = NULL;
}

static bool is_current(const struct managed *m, const char *key)
{
    const char *current = key_ring_current(m->keys);

    return current && strcmp(current, key) == 0;
}

void managed_configure(struct sequencer *q)
{
    struct managed *m = q->managed;

    key_ring_free(m->keys);
    m->keys = key_ring_new(&q->d.settings->secrets_keys);
    free(m->sealed_key);
    m->sealed_key = gr_strdup("");
    m->sealed_id = 0;
    m->sealing = key_ring_current(m->keys) != NULL;
}

/* One that sets no timeout has that of the defaults, or of any retry policy. */
int64_t managed_longest_ms(const struct sequencer *q)
{
    const struct settings *s = q->d.settings;
    int64_t longest_ms = q->managed->own_timeout_ms;

    if (!q->managed->count)
        return 0;
    if (s->defaults.timeout_ms > longest_ms)
        longest_ms = s->defaults.timeout_ms;
    for (size_t i = 0; i < s->policy_count; i++)
        if (s->policies[i].attempt_ms > longest_ms)
            longest_ms = s->policies[i].attempt_ms;
    return longest_ms;
}

size_t managed_count(const struct sequencer *q)
{
    return q->managed->count;
}

bool managed_operational(const struct sequencer *q)
{
    return q->managed->operational > 0;
}

const size_t *managed_subscribed(struct sequencer *q, struct subject *s,
                                 size_t *count)
{
    return endpoint_index_ask(q->managed->index, s, count);
}

const struct own_subscription *managed_subscription(const struct sequencer *q,
                                                    const struct endpoint *e)
{
    return endpoint_index_get(q->managed->index, (size_t)(e - q->endpoints));
}

/* ---- one of them ---- */

bool managed_read(struct sequencer *q, const struct endpoint *e,
                  struct managed_row *row)
{
    struct managed *m = q->managed;
    int i = 0;

    bind_i64(m->one, 1, e->id);
    if (!db_step(m->db, m->one)) {
        db_done(m->one);
        return false;
    }
    ROW_READ(MANAGED_COLUMNS, m->one, i, row);
    return true;
}

void managed_done(struct sequencer *q)
{
    db_done(q->managed->one);
}

/* Adds the secrets of a row to its document. */
static bool unseal(struct managed *m, const struct endpoint *e,
                   const struct managed_row *row, json_t *doc, char why[300])
{
    char key[SEALED_KEY_ID_SIZE];
    json_t *secrets = NULL;
    struct buf plain;

    if (!row->secrets.n)
        return true;
    buf_init(&plain, SECRETS_MAX_BYTES);
    switch (sealed_open(m->keys, e->name, SEALED_FIELD, row->secrets, &plain,
                        key)) {
    case SEALED_OK:
        secrets = json_loadb(plain.data, plain.len, 0, NULL);
        break;
    case SEALED_UNKNOWN_KEY:
        snprintf(why, 300,
                 "secret_unreadable: its secrets are encrypted with "
                 "the key %s, which secrets_key does not have",
                 key);
        break;
    case SEALED_DAMAGED:
        snprintf(why, 300,
                 "secret_unreadable: its stored secrets are damaged: "
                 "set them again");
        break;
    }
    if (plain.data)
        OPENSSL_cleanse(plain.data, plain.len);
    buf_fini(&plain);
    if (secrets)
        endpoint_document_add_secrets(doc, secrets);
    json_decref(secrets);
    return secrets != NULL;
}

json_t *managed_document(struct sequencer *q, const struct endpoint *e,
                         const struct managed_row *row, char why[300])
{
    json_t *doc = json_loads(row->settings, 0, NULL);

    if (!doc) {
        snprintf(why, 300, "its stored settings are damaged");
        return NULL;
    }
    if (unseal(q->managed, e, row, doc, why))
        return doc;
    json_decref(doc);
    return NULL;
}

void managed_sleep(struct endpoint *e)
{
    endpoint_document_free((struct endpoint_settings *)e->settings);
    e->settings = NULL;
    if (e->encoded_config.data)
        OPENSSL_cleanse(e->encoded_config.data, e->encoded_config.len);
    buf_fini(&e->encoded_config);
    buf_init(&e->encoded_config, ENDPOINT_CONFIG_MAX_BYTES);
}

static void take_settings(struct sequencer *q, struct endpoint *e,
                          struct endpoint_settings *settings)
{
    managed_sleep(e);
    e->settings = settings;
    grants_encode_config(q, e);
    if (!settings->guard)
        endpoint_end_hold(q, e);
    lanes_configure(q, e);
    if (e->grant && grants_config_differs(q, e))
        e->revoke = true;
}

void managed_wake(struct sequencer *q, struct endpoint *e)
{
    struct endpoint_settings *settings = NULL;
    struct managed_row row;
    char field[128] = "", why[300] = "", reason[440];
    json_t *doc = NULL;

    if (managed_read(q, e, &row))
        doc = managed_document(q, e, &row, why);
    managed_done(q);
    if (doc)
        settings = endpoint_document_read(q->d.settings, e->name, doc, false,
                                          field, why);
    json_decref(doc);
    if (settings) {
        take_settings(q, e, settings);
        return;
    }
    snprintf(reason, sizeof reason, "%s%s%s", field, *field ? ": " : "", why);
    endpoint_stop(q, e, reason);
}

/* ---- writing ---- */

bool managed_can_seal(const struct sequencer *q, char why[300])
{
    if (key_ring_current(q->managed->keys))
        return true;
    snprintf(why, 300,
             "it has secrets, which are stored only encrypted, and the "
             "configuration has no secrets_key: make one with `openssl rand "
             "-base64 32 > FILE`, and set `secrets_key: file:FILE`");
    return false;
}

/* Takes the secrets out of `doc`, into `out`. */
static bool seal(struct sequencer *q, const struct endpoint *e, json_t *doc,
                 struct buf *out, char why[300])
{
    json_t *secrets = endpoint_document_take_secrets(doc);
    char *text;
    bool good;

    if (!secrets)
        return true;
    if (!managed_can_seal(q, why)) {
        json_decref(secrets);
        return false;
    }
    text = json_dumps(secrets, JSON_COMPACT);
    good = sealed_seal(q->managed->keys, e->name, SEALED_FIELD,
                       (struct bytes){text, strlen(text)}, out);
    if (!good)
        snprintf(why, 300, "its secrets are too long");
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    json_decref(secrets);
    return good;
}

bool managed_write(struct sequencer *q, struct endpoint *e,
                   struct managed_row *row, json_t *doc, char why[300])
{
    struct managed *m = q->managed;
    stmt *write = e->managed ? m->set : m->add;
    const char *workspace = endpoint_document_workspace(doc);
    struct buf sealed;
    char *text;
    int i = 0;

    buf_init(&sealed, 2 * SECRETS_MAX_BYTES);
    if (!seal(q, e, doc, &sealed, why)) {
        buf_fini(&sealed);
        return false;
    }
    text = json_dumps(doc, JSON_COMPACT);
    row->id = e->id;
    /* A temporary one is an operator's, and its workspace's tokens do not see it. */
    row->workspace = workspace && !e->temporary ? workspace : "";
    row->settings = text;
    row->secrets = (struct bytes){sealed.data ? sealed.data : "", sealed.len};
    row->secrets_key = sealed.len ? key_ring_current(m->keys) : "";
    ROW_BIND(MANAGED_COLUMNS, write, i, row);
    db_run(m->db, write);
    m->count += !e->managed;
    e->managed = true;
    subscribe(q, e, doc);
    if (m->own_timeout_ms > q->longest_ms)
        grants_allow_longer(q, managed_longest_ms(q));
    if (e->settings && !q->configure)
        managed_wake(q, e);
    endpoint_wake(q, e);
    free(text);
    buf_fini(&sealed);
    return true;
}

void managed_delete(struct sequencer *q, struct endpoint *e)
{
    struct managed *m = q->managed;

    bind_i64(m->deleted, 1, e->id);
    bind_i64(m->deleted, 2, q->d.loop.now_ms);
    db_run(m->db, m->deleted);
    bind_i64(m->drop, 1, e->id);
    db_run(m->db, m->drop);
    unsubscribe(q, e);
    managed_sleep(e);
    e->managed = false;
    m->count--;
    e->revoke = e->grant != 0;
    e->waiting = true; /* they end when its grant has ended */
    endpoint_note_gone(q, e);
}

void managed_write_unused(struct sequencer *q, const struct endpoint *e)
{
    bind_i64(q->managed->unused, 1, e->id);
    bind_i64(q->managed->unused, 2, e->unused_ms);
    db_run(q->managed->db, q->managed->unused);
}

void managed_end(struct sequencer *q)
{
    for (size_t i = 0; i < q->endpoint_count && q->managed->count; i++) {
        struct endpoint *e = &q->endpoints[i];

        if (!e->managed || !ended_at(q->ended, e->name))
            continue;
        managed_delete(q, e);
        e->ended = true;
        log_warn(NULL, "an endpoint stays deleted, as state_dir/ended says",
                 LS("endpoint", e->name));
    }
}

int managed_page(struct sequencer *q, const char *workspace, int64_t after,
                 int max, int64_t *ids)
{
    struct managed *m = q->managed;
    stmt *s = *workspace ? m->page_in : m->page;
    int i = 0, n = 0;

    if (*workspace)
        bind_text(s, ++i, workspace);
    bind_i64(s, ++i, after);
    bind_i64(s, ++i, max);
    while (db_step(m->db, s))
        ids[n++] = col_i64(s, 0);
    db_done(s);
    return n;
}

int64_t managed_in_workspace(struct sequencer *q, const char *workspace,
                             int64_t max)
{
    bind_text(q->managed->count_in, 1, workspace);
    bind_i64(q->managed->count_in, 2, max);
    return db_number(q->managed->db, q->managed->count_in, 0);
}

char *managed_workspace(struct sequencer *q, int64_t endpoint)
{
    struct managed *m = q->managed;
    char *workspace = NULL;

    bind_i64(m->workspace, 1, endpoint);
    if (db_step(m->db, m->workspace) && *col_text(m->workspace, 0))
        workspace = gr_strdup(col_text(m->workspace, 0));
    db_done(m->workspace);
    return workspace;
}

int64_t managed_deleted_since(struct sequencer *q, const char *workspace,
                              int64_t since_ms)
{
    struct managed *m = q->managed;

    bind_text(m->count_deleted, 1, workspace);
    bind_i64(m->count_deleted, 2, since_ms);
    return db_number(m->db, m->count_deleted, 0);
}

void managed_forget_deleted(struct sequencer *q)
{
    db_run(q->managed->db, q->managed->forget_deleted);
}

/* ---- what follows from time ---- */

static void give_back_grants(struct sequencer *q)
{
    size_t count = q->lists[ENDPOINTS_GRANTED].count;

    for (size_t i = 0; i < GRANTS_PER_LOOK && i < count; i++) {
        struct endpoint *e = endpoint_listed(q, ENDPOINTS_GRANTED,
                                             q->managed->idle_turn++ % count);

        if (!e->managed || e->at[ENDPOINTS_AWAKE] || e->revoking ||
            q->d.loop.mono_ms - e->idle_since_ms < IDLE_MS ||
            store_open_grant(q->store, e->id, 0) != 0)
            continue;
        e->revoke = true;
        endpoint_wake(q, e);
    }
}

/* Takes `workspace` out of a list. Returns whether it was there. */
static bool take_out(json_t *workspaces, const char *workspace)
{
    bool found = false;

    for (size_t i = json_array_size(workspaces); i-- > 0;)
        if (strcmp(json_string_value(json_array_get(workspaces, i)),
                   workspace) == 0) {
            json_array_remove(workspaces, i);
            found = true;
        }
    return found;
}

/* Reads a row, changes its document, and writes it. `workspace`: is taken out of its subscription;
 * NULL: none is. */
static void rewrite(struct sequencer *q, struct endpoint *e, bool retire,
                    const char *workspace)
{
    struct managed_row row, fresh = {0};
    char why[300] = "", *description, *created_by;
    json_t *doc;

    if (!managed_read(q, e, &row)) {
        managed_done(q);
        return;
    }
    doc = managed_document(q, e, &row, why);
    fresh = row;
    fresh.description = description = gr_strdup(row.description);
    fresh.created_by = created_by = gr_strdup(row.created_by);
    managed_done(q);
    if (retire) {
        json_t *all = json_object_get(doc, "signing_secrets");

        while (json_array_size(all) > 1)
            json_array_remove(all, json_array_size(all) - 1);
        fresh.retire_ms = 0;
        fresh.version++;
    }
    if (workspace) {
        take_out(json_object_get(doc, "workspaces"), workspace);
        fresh.version++;
    }
    if (!doc || !managed_write(q, e, &fresh, doc, why)) {
        log_error(NULL, "the secrets of an endpoint cannot be written again",
                  LS("endpoint", e->name), LS("error", why));
        bind_i64(q->managed->postpone, 1, e->id);
        bind_i64(q->managed->postpone, 2, q->d.loop.now_ms + HOUR_MS);
        db_run(q->managed->db, q->managed->postpone);
    }
    json_decref(doc);
    free(description);
    free(created_by);
}

int64_t managed_forget_workspace(struct sequencer *q, const char *workspace,
                                 int64_t after, int max)
{
    int64_t ids[FORGET_AT_ONCE];
    int n = managed_page(q, "", after,
                         max < FORGET_AT_ONCE ? max : FORGET_AT_ONCE, ids);

    for (int i = 0; i < n; i++) {
        struct endpoint *e = endpoint_by_id(q, ids[i]);
        struct managed_row row;
        json_t *doc = NULL, *list;
        bool found = false;

        if (e && managed_read(q, e, &row))
            doc = json_loads(row.settings, 0, NULL);
        managed_done(q);
        list = json_object_get(doc, "workspaces");
        if (json_is_string(list))
            found = strcmp(json_string_value(list), workspace) == 0;
        else if (take_out(list, workspace))
            found = true;
        if (found && !json_array_size(list))
            managed_delete(q, e);
        else if (found)
            rewrite(q, e, false, workspace);
        json_decref(doc);
    }
    return n ? ids[n - 1] : 0;
}

static void retire_secrets(struct sequencer *q)
{
    struct managed *m = q->managed;

    for (int i = 0; i < ROWS_PER_LOOK; i++) {
        struct endpoint *e;
        int64_t id = 0;

        bind_i64(m->retired, 1, q->d.loop.now_ms);
        if (db_step(m->db, m->retired))
            id = col_i64(m->retired, 0);
        db_done(m->retired);
        e = id ? endpoint_by_id(q, id) : NULL;
        if (!e)
            return;
        log_info(NULL, "the old signing secrets of an endpoint have ended",
                 LS("endpoint", e->name));
        rewrite(q, e, true, NULL);
    }
}

/* Rows are visited in the order of their keys, so each key is passed once. */
static void seal_again(struct sequencer *q)
{
    struct managed *m = q->managed;
    int64_t ids[ROWS_PER_LOOK];
    bool more = false;
    int n = 0;

    bind_text(m->resealable, 1, m->sealed_key);
    bind_i64(m->resealable, 2, m->sealed_id);
    bind_i64(m->resealable, 3, ROWS_PER_LOOK);
    while (db_step(m->db, m->resealable)) {
        const char *key = col_text(m->resealable, 0);

        m->sealed_id = col_i64(m->resealable, 1);
        if (strcmp(key, m->sealed_key) != 0) {
            free(m->sealed_key);
            m->sealed_key = gr_strdup(key);
        }
        more = true;
        if (is_current(m, key)) { /* pass all rows of the current key */
            m->sealed_id = INT64_MAX;
            break;
        }
        ids[n++] = m->sealed_id;
    }
    db_done(m->resealable);
    if (!more && m->resealed)
        log_info(NULL, "no secret needs an older secrets_key",
                 LS("secrets_key", key_ring_current(m->keys)),
                 LI("encrypted", m->resealed));
    m->sealing = more;
    m->resealed = more ? m->resealed + n : 0;
    for (int i = 0; i < n; i++) {
        struct endpoint *e = endpoint_by_id(q, ids[i]);

        if (e)
            rewrite(q, e, false, NULL);
    }
}

void managed_work(struct sequencer *q)
{
    struct managed *m = q->managed;

    if (q->d.loop.mono_ms - m->looked_ms < LOOK_MS || q->configure)
        return;
    m->looked_ms = q->d.loop.mono_ms;
    give_back_grants(q);
    temporary_work(q);
    if (q->disk_low)
        return;
    retire_secrets(q);
    if (m->sealing)
        seal_again(q);
}
