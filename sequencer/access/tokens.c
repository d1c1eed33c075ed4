/* tokens: stores the tokens of the HTTP API, and replies to the commands about them. */
#include "tokens.h"
#include "clock.h"
#include "encoding.h"
#include "ended.h"
#include "json_text.h"
#include "log.h"
#include "operational.h"
#include "row.h"
#include "sequencer.h"
#include "sha256.h"
#include "workspace_erase.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
    TOKENS_MAX = 10000, /* rows, with those that have ended */
    RANDOM_BYTES = 32,
    TOKEN_BYTES = 64, /* grp_ and base64 of RANDOM_BYTES */
    USE_MS = MINUTE_MS,
    PURGE_MS = HOUR_MS,
    PURGE_ROWS = 64,
    PAGE_USUAL = 100,
};

#define TOKEN_COLUMNS(F, X) \
    F(text, id)             \
    X(text, name)           \
    X(text, role)           \
    X(blob, sha256)         \
    X(i64, created_ms)      \
    X(text, created_by)     \
    X(i64, last_used_ms)    \
    X(i64, expires_ms)      \
    X(i64, revoked_ms)      \
    X(text, workspace)
struct token_row {
    ROW_FIELDS(TOKEN_COLUMNS)
};

#define SELECT_TOKEN "SELECT " ROW_NAMES(TOKEN_COLUMNS) " FROM tokens "

struct tokens {
    struct db *db;
    const struct ended *ended;
    struct ulid ids;
    int64_t purge_ms; /* mono: the next purge is due */
    stmt *add, *list, *find, *find_name, *check, *used, *revoke, *active,
        *count, *purge;
};

struct tokens *tokens_open(struct db *db, const struct ended *ended)
{
    struct tokens *t = gr_alloc(sizeof *t);
    stmt *last = db_prepare(db, "SELECT max(id) FROM tokens");

    t->db = db;
    t->ended = ended;
    t->add = db_prepare(db, ROW_INSERT("tokens", TOKEN_COLUMNS));
    t->list = db_prepare(db,
                         SELECT_TOKEN "WHERE id < ? ORDER BY id DESC LIMIT ?");
    t->find = db_prepare(db, SELECT_TOKEN "WHERE id = ?");
    t->find_name = db_prepare(
        db, "SELECT id FROM tokens WHERE name = ? AND revoked_ms = 0");
    t->check = db_prepare(db, SELECT_TOKEN "WHERE sha256 = ?");
    t->used = db_prepare(db,
                         "UPDATE tokens SET last_used_ms = ?2 WHERE id = ?1");
    t->revoke = db_prepare(
        db,
        "UPDATE tokens SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms = 0");
    t->active = db_prepare(db, "SELECT id FROM tokens WHERE revoked_ms = 0");
    t->count = db_prepare(
        db, "SELECT count(*) FROM (SELECT 1 FROM tokens LIMIT ?)");
    t->purge = db_prepare(
        db, "DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE "
            "(revoked_ms > 0 AND revoked_ms < ?1) OR (expires_ms > 0 AND "
            "expires_ms < ?1) LIMIT ?2)");
    if (db_step(db, last) && !col_null(last, 0) &&
        ulid_resume(&t->ids, col_text(last, 0) + strlen("tok_")) != GR_OK)
        t->ids = (struct ulid){0};
    db_done(last);
    return t;
}

void tokens_close(struct tokens *t)
{
    free(t);
}

void tokens_work(struct sequencer *q)
{
    struct tokens *t = q->tokens;
    int64_t keep_ms = AUDIT_KEEP_DAYS * DAY_MS;

    if (q->d.loop.mono_ms < t->purge_ms)
        return;
    bind_i64(t->purge, 1,
             retention_before(&q->d.retention, q->d.loop.now_ms, keep_ms));
    bind_i64(t->purge, 2, PURGE_ROWS);
    db_run(t->db, t->purge);
    t->purge_ms = db_changes(t->db) == PURGE_ROWS
                      ? 0
                      : q->d.loop.mono_ms + PURGE_MS;
}

/* ---- rows ---- */

static bool read_token(struct tokens *t, stmt *q, struct token_row *row)
{
    int i = 0;

    if (!db_step(t->db, q))
        return false;
    ROW_READ(TOKEN_COLUMNS, q, i, row);
    /* Its row may be from before the token was revoked (ended.h). */
    if (!row->revoked_ms)
        row->revoked_ms = ended_at(t->ended, row->id);
    return true;
}

static const char *state_of(const struct token_row *row, int64_t now_ms)
{
    return row->revoked_ms                                ? "revoked"
           : row->expires_ms && row->expires_ms <= now_ms ? "expired"
                                                          : "active";
}

static json_t *token_json(const struct token_row *row, int64_t now_ms)
{
    return json_pack(
        "{s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "id", row->id, "name",
        row->name, "role", row->role, "workspace",
        json_text_or_null(row->workspace), "state", state_of(row, now_ms),
        "created_at", json_time(row->created_ms), "created_by",
        json_text_of(row->created_by), "last_used_at",
        json_time(row->last_used_ms), "expires_at", json_time(row->expires_ms),
        "revoked_at", json_time(row->revoked_ms));
}

json_t *tokens_list(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct tokens *t = q->tokens;
    const char *before = json_string_value(json_object_get(args, "before"));
    json_int_t limit = json_integer_value(json_object_get(args, "limit"));
    json_t *list = json_array();
    struct token_row row;
    char *last = NULL;

    (void)why;
    limit = limit ? limit : PAGE_USUAL;
    bind_text(t->list, 1, before ? before : "tok_~"); /* above all ids */
    bind_i64(t->list, 2, limit);
    while (read_token(t, t->list, &row)) {
        json_array_append_new(list, token_json(&row, q->d.loop.now_ms));
        free(last);
        last = gr_strdup(row.id);
    }
    db_done(t->list);
    if (json_array_size(list) < (size_t)limit) {
        free(last);
        last = NULL;
    }
    list = json_pack("{s:o,s:o}", "tokens", list, "next", json_text_of(last));
    free(last);
    return list;
}

/* ---- create ---- */

/* Base64 with - and _, so that it needs no quotes in a shell or a URL. */
static void make_token(char text[TOKEN_BYTES])
{
    unsigned char random[RANDOM_BYTES];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        die(EXIT_UNAVAILABLE, "getrandom: %s", strerror(errno));
    memcpy(text, "grp_", 4);
    EVP_EncodeBlock((unsigned char *)text + 4, random, sizeof random);
    OPENSSL_cleanse(random, sizeof random);
    for (char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? 0 : *c;
}

/* A workspace for which a token may be made. */
static bool workspace_fits(struct sequencer *q, const char *role,
                           const char *workspace, char why[200])
{
    bool wanted = strcmp(role, "workspace") == 0;

    if (wanted != (*workspace != 0))
        control_fail(why, CONTROL_INVALID,
                     wanted ? "args.workspace: the role workspace needs the "
                              "workspace that the token is for"
                            : "args.workspace: only a token of the role "
                              "workspace has one");
    else if (strlen(workspace) > TOKEN_WORKSPACE_MAX_BYTES)
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: at most %d bytes are allowed",
                     TOKEN_WORKSPACE_MAX_BYTES);
    else if (strchr(workspace, '*'))
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: write the name of one workspace, "
                     "without *");
    else if (strcmp(workspace, OPERATIONAL_WORKSPACE) == 0)
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: %s is the workspace of Grapnel's own "
                     "events about several workspaces: it is for operators",
                     workspace);
    else if (workspace_is_erased_label(workspace) ||
             (*workspace && workspace_erased(q, wire_text(workspace))))
        control_fail(why, CONTROL_INVALID,
                     "args.workspace: this workspace was erased");
    else
        return true;
    return false;
}

static bool may_create(struct sequencer *q, const char *name,
                       int64_t expires_ms, char why[200])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    struct tokens *t = q->tokens;
    bool taken;

    if (strspn(name, allowed) != strlen(name)) {
        control_fail(why, CONTROL_INVALID,
                     "args.name: \"%.64s\" may have only letters, digits and "
                     ". _ -",
                     name);
        return false;
    }
    if (expires_ms && expires_ms <= q->d.loop.now_ms) {
        control_fail(why, CONTROL_INVALID,
                     "args.expires_ms: this time has passed");
        return false;
    }
    bind_text(t->find_name, 1, name);
    taken = db_step(t->db, t->find_name);
    if (taken)
        snprintf(why, 200,
                 "a token has the name %.64s (%.40s): revoke it first, or "
                 "choose another name",
                 name, col_text(t->find_name, 0));
    db_done(t->find_name);
    if (taken)
        return false;
    bind_i64(t->count, 1, TOKENS_MAX);
    if (db_number(t->db, t->count, 0) < TOKENS_MAX)
        return true;
    snprintf(why, 200,
             "there are %d tokens, with those that have ended in the last %d "
             "days: reuse one",
             TOKENS_MAX, AUDIT_KEEP_DAYS);
    return false;
}

json_t *tokens_create(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct tokens *t = q->tokens;
    uint8_t digest[SHA256_BYTES];
    char number[ULID_BYTES + 1], text[TOKEN_BYTES], *id;
    struct token_row row = {
        .name = json_string_value(json_object_get(args, "name")),
        .role = json_string_value(json_object_get(args, "role")),
        .sha256 = {digest, sizeof digest},
        .created_ms = q->d.loop.now_ms,
        .created_by = control_actor(q->d.control),
        .expires_ms = json_integer_value(json_object_get(args, "expires_ms")),
        .workspace = json_string_value(json_object_get(args, "workspace"))};
    json_t *out;
    int i = 0;

    row.workspace = row.workspace ? row.workspace : "";
    if (!workspace_fits(q, row.role, row.workspace, why) ||
        !may_create(q, row.name, row.expires_ms, why))
        return NULL;
    make_token(text);
    sha256((struct bytes){text, strlen(text)}, digest);
    ulid_next(&t->ids, q->d.loop.now_ms, number);
    row.id = id = gr_printf("tok_%s", number);
    ROW_BIND(TOKEN_COLUMNS, t->add, i, &row);
    db_run(t->db, t->add);
    out = token_json(&row, q->d.loop.now_ms);
    json_object_set_new(out, "token", json_string(text));
    OPENSSL_cleanse(text, sizeof text);
    log_info(NULL, "a token was made", LS("token", id), LS("name", row.name),
             LS("role", row.role), LO("workspace", row.workspace));
    free(id);
    return out;
}

/* ---- revoke, check ---- */

/* A database that was restored, or an act that was not committed, is behind the file. */
void tokens_end(struct sequencer *q)
{
    struct tokens *t = q->tokens;
    struct string_list behind = {0};

    while (db_step(t->db, t->active))
        if (ended_at(q->ended, col_text(t->active, 0)))
            string_list_add(&behind, col_text(t->active, 0));
    db_done(t->active);
    for (size_t i = 0; i < behind.count; i++) {
        bind_text(t->revoke, 1, behind.items[i]);
        bind_i64(t->revoke, 2, ended_at(q->ended, behind.items[i]));
        db_run(t->db, t->revoke);
        log_warn(NULL, "a token stays revoked, as state_dir/ended says",
                 LS("token", behind.items[i]));
    }
    string_list_fini(&behind);
}

json_t *tokens_revoke(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct tokens *t = q->tokens;
    const char *id = json_string_value(json_object_get(args, "id"));
    struct token_row row;
    json_t *out = NULL;
    bool known;

    bind_text(t->find, 1, id);
    known = read_token(t, t->find, &row);
    if (!known)
        control_fail(why, CONTROL_NOT_FOUND,
                     "there is no token %.64s: `grapnel tokens` lists them",
                     id);
    else if (row.revoked_ms || ended_add(q->ended, id, ENDED_MAX,
                                         q->d.loop.now_ms, why) == GR_OK) {
        control_if_undone(q->d.control, ENDED_UNDONE);
        row.revoked_ms = row.revoked_ms ? row.revoked_ms : q->d.loop.now_ms;
        out = token_json(&row, q->d.loop.now_ms);
    }
    db_done(t->find);
    if (!out)
        return NULL;
    bind_text(t->revoke, 1, id);
    bind_i64(t->revoke, 2, q->d.loop.now_ms);
    db_run(t->db, t->revoke);
    if (db_changes(t->db))
        log_info(NULL, "a token was revoked", LS("token", id));
    return out;
}

json_t *tokens_check(void *self, json_t *args, char why[200])
{
    struct sequencer *q = self;
    struct tokens *t = q->tokens;
    int64_t now_ms = q->d.loop.now_ms, ago_ms;
    const char *hex = json_string_value(json_object_get(args, "sha256"));
    uint8_t digest[SHA256_BYTES];
    struct token_row row;
    json_t *out = json_null();
    char *used = NULL;

    if (encoding_hex(wire_text(hex), digest, sizeof digest) != sizeof digest) {
        control_fail(why, CONTROL_INVALID,
                     "args.sha256: 64 hexadecimal digits are needed");
        return NULL;
    }
    bind_blob(t->check, 1, (struct bytes){digest, sizeof digest});
    if (read_token(t, t->check, &row) &&
        strcmp(state_of(&row, now_ms), "active") == 0 &&
        !(*row.workspace && workspace_erased(q, wire_text(row.workspace)))) {
        ago_ms = now_ms - row.last_used_ms;
        /* On a full disk, writing it would make the check fail. */
        if ((ago_ms >= USE_MS || ago_ms < 0) && !q->disk_low) {
            row.last_used_ms = now_ms;
            used = gr_strdup(row.id);
        }
        out = token_json(&row, now_ms);
    }
    db_done(t->check);
    if (used) {
        bind_text(t->used, 1, used);
        bind_i64(t->used, 2, now_ms);
        db_run(t->db, t->used);
    }
    free(used);
    return json_pack("{s:o}", "token", out);
}
