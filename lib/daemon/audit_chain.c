/* audit_chain: computes, continues and verifies the hashes of audit rows. */
#include "audit_chain.h"
#include "alloc.h"
#include "clock.h"
#include "json_text.h"
#include "le64.h"
#include "sha256.h"
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_ROWS = 500,
    FINDINGS_MAX = 100,
    RESTORES_MAX = 100,
    TEXT_MAX_BYTES = 1024 * 1024, /* of what is hashed of one row */
};

/* ---- hashes ---- */

void audit_mac(const struct audit_key *k, struct bytes text,
               uint8_t out[AUDIT_HASH_BYTES])
{
    unsigned n = AUDIT_HASH_BYTES;

    if (!HMAC(EVP_sha256(), k->text, (int)strlen(k->text), text.p, text.n, out,
              &n))
        die(EXIT_UNAVAILABLE, "libcrypto has no HMAC-SHA256");
}

/* With its length, so that no two lists of texts have the same bytes. */
static void put_text(struct buf *out, struct bytes text)
{
    put_le64(out, text.n);
    buf_put(out, text.p, text.n);
}

static void put_string(struct buf *out, const char *text)
{
    put_text(out, (struct bytes){text, strlen(text)});
}

/* Rows are far smaller than TEXT_MAX_BYTES. Of a larger one, which only a stranger can have
 * written, the part before the text that did not fit is hashed; no row has this hash. */
static void end_text(const struct audit_key *k, struct buf *text,
                     uint8_t out[AUDIT_HASH_BYTES])
{
    audit_mac(k, (struct bytes){text->data, text->len}, out);
    buf_fini(text);
}

void audit_hash_content(const struct audit_key *k, int64_t n, struct bytes salt,
                        const struct audit_content *c,
                        uint8_t out[AUDIT_HASH_BYTES])
{
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES);
    put_string(&text, "content");
    put_le64(&text, (uint64_t)n);
    put_text(&text, salt);
    put_string(&text, c->actor);
    put_string(&text, c->role);
    put_string(&text, c->command);
    put_string(&text, c->args);
    put_string(&text, c->outcome);
    put_string(&text, c->request_id);
    end_text(k, &text, out);
}

void audit_hash_row(const struct audit_key *k, const struct audit_link *before,
                    int64_t n, int64_t at_ms,
                    const uint8_t content[AUDIT_HASH_BYTES],
                    uint8_t out[AUDIT_HASH_BYTES])
{
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES);
    put_string(&text, "row");
    put_le64(&text, (uint64_t)n);
    put_le64(&text, (uint64_t)at_ms);
    put_le64(&text, (uint64_t)before->n);
    buf_put(&text, before->hash, AUDIT_HASH_BYTES);
    buf_put(&text, content, AUDIT_HASH_BYTES);
    end_text(k, &text, out);
}

/* Of the anchor and of an erased row. */
static void hash_link(const struct audit_key *k, const char *kind,
                      const struct audit_link *l, int64_t at_ms,
                      uint8_t out[AUDIT_HASH_BYTES])
{
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES);
    put_string(&text, kind);
    put_le64(&text, (uint64_t)l->n);
    put_le64(&text, (uint64_t)at_ms);
    buf_put(&text, l->hash, AUDIT_HASH_BYTES);
    end_text(k, &text, out);
}

void audit_hash_erased(const struct audit_key *k, const struct audit_link *row,
                       uint8_t out[AUDIT_HASH_BYTES])
{
    hash_link(k, "erased", row, 0, out);
}

/* ---- the chain of one database ---- */

struct anchor {
    struct audit_link link;
    int64_t at_ms;
    bool older; /* there may be rows up to it, from before there was a chain */
    char key[AUDIT_KEY_ID_BYTES + 1];
    uint8_t mac[AUDIT_HASH_BYTES];
};

struct audit_chain {
    struct db *db;
    const struct audit_keys *keys;
    stmt *newest, *hash, *used, *anchor, *anchor_set, *rows, *unchained;
    bool known; /* the head is as on disk, or as this transaction leaves it */
    struct audit_link head;
    int64_t next;
    char head_key[AUDIT_KEY_ID_BYTES + 1];
};

struct audit_chain *audit_chain_open(struct db *db,
                                     const struct audit_keys *keys)
{
    struct audit_chain *c = gr_alloc(sizeof *c);

    c->db = db;
    c->keys = keys;
    c->newest = db_prepare(
        db, "SELECT n, hash, key FROM audit ORDER BY n DESC LIMIT 1");
    c->hash = db_prepare(db, "SELECT n, hash FROM audit WHERE n = ?");
    c->used = db_prepare(
        db, "SELECT seq FROM sqlite_sequence WHERE name = 'audit' LIMIT 1");
    c->anchor = db_prepare(db, "SELECT n, hash, at_ms, older, key, mac FROM "
                               "audit_anchor WHERE one = 1");
    c->anchor_set = db_prepare(
        db, "INSERT OR REPLACE INTO audit_anchor(one, n, hash, at_ms, older, "
            "key, mac) VALUES (1, ?, ?, ?, ?, ?, ?)");
    c->rows = db_prepare(
        db, "SELECT n, hash, at_ms, key, salt, content, erased, actor, role, "
            "command, args, outcome, request_id FROM audit WHERE n > ? ORDER "
            "BY n LIMIT ?");
    c->unchained = db_prepare(db, "SELECT count(*) FROM audit WHERE n <= ?");
    return c;
}

void audit_chain_close(struct audit_chain *c)
{
    free(c);
}

/* false: it is not a hash. */
static bool read_hash(stmt *q, int i, uint8_t out[AUDIT_HASH_BYTES])
{
    struct bytes b = col_blob(q, i);

    memset(out, 0, AUDIT_HASH_BYTES);
    if (b.n != AUDIT_HASH_BYTES)
        return false;
    memcpy(out, b.p, AUDIT_HASH_BYTES);
    return true;
}

static bool read_anchor(struct audit_chain *c, struct anchor *a)
{
    bool is = db_step(c->db, c->anchor);

    *a = (struct anchor){0};
    if (is) {
        a->link.n = col_i64(c->anchor, 0);
        read_hash(c->anchor, 1, a->link.hash);
        a->at_ms = col_i64(c->anchor, 2);
        a->older = col_i64(c->anchor, 3) != 0;
        snprintf(a->key, sizeof a->key, "%s", col_text(c->anchor, 4));
        read_hash(c->anchor, 5, a->mac);
    }
    db_done(c->anchor);
    return is;
}

static void hash_anchor(const struct audit_key *key, const struct anchor *a,
                        uint8_t out[AUDIT_HASH_BYTES])
{
    hash_link(key, a->older ? "anchor behind older rows" : "anchor", &a->link,
              a->at_ms, out);
}

static void write_anchor(struct audit_chain *c, struct anchor *a)
{
    const struct audit_key *key = &c->keys->all[0];

    hash_anchor(key, a, a->mac);
    bind_i64(c->anchor_set, 1, a->link.n);
    bind_blob(c->anchor_set, 2, (struct bytes){a->link.hash, AUDIT_HASH_BYTES});
    bind_i64(c->anchor_set, 3, a->at_ms);
    bind_i64(c->anchor_set, 4, a->older);
    bind_text(c->anchor_set, 5, key->id);
    bind_blob(c->anchor_set, 6, (struct bytes){a->mac, AUDIT_HASH_BYTES});
    db_run(c->db, c->anchor_set);
}

/* Sets head and head_key to the newest row; those of `begin` if that is newer. */
static void read_head(struct audit_chain *c, const struct anchor *begin)
{
    c->head = begin->link;
    memcpy(c->head_key, begin->key, sizeof c->head_key);
    if (db_step(c->db, c->newest) && col_i64(c->newest, 0) > begin->link.n) {
        c->head.n = col_i64(c->newest, 0);
        read_hash(c->newest, 1, c->head.hash);
        snprintf(c->head_key, sizeof c->head_key, "%s", col_text(c->newest, 2));
    }
    db_done(c->newest);
}

bool audit_chain_head(struct audit_chain *c, struct audit_link *head,
                      int64_t *next, char head_key[AUDIT_KEY_ID_BYTES + 1])
{
    struct anchor begin;
    int64_t used;
    bool begun;

    if (!c->known) {
        if (db_full(c->db))
            return false;
        begun = read_anchor(c, &begin);
        read_head(c, &begin);
        if (!begun) {
            begin.link.n = c->head.n;
            begin.at_ms = now_ms();
            begin.older = c->head.n > 0;
            c->head = begin.link;
            *c->head_key = 0;
            write_anchor(c, &begin);
        }
        /* A number that was used once is not used again, even if its row is gone. */
        used = db_number(c->db, c->used, 0);
        c->next = (int64_t)((uint64_t)(used > c->head.n ? used : c->head.n) +
                            1);
        c->known = !db_full(c->db);
        if (!c->known)
            return false;
    }
    *head = c->head;
    *next = c->next;
    memcpy(head_key, c->head_key, sizeof c->head_key);
    return true;
}

void audit_chain_added(struct audit_chain *c, const struct audit_link *row)
{
    c->head = *row;
    c->next = row->n + 1;
    memcpy(c->head_key, c->keys->all[0].id, sizeof c->head_key);
}

void audit_chain_cut(struct audit_chain *c, int64_t n, int64_t now)
{
    struct anchor begin;

    if (read_anchor(c, &begin) && begin.link.n >= n)
        return;
    begin = (struct anchor){.link.n = n, .at_ms = now};
    bind_i64(c->hash, 1, n);
    if (db_step(c->db, c->hash))
        read_hash(c->hash, 1, begin.link.hash);
    db_done(c->hash);
    write_anchor(c, &begin);
}

void audit_chain_undo(struct audit_chain *c)
{
    c->known = false;
}

bool audit_chain_ready(struct audit_chain *c)
{
    struct anchor begin;
    bool begun = read_anchor(c, &begin);

    read_head(c, &begin);
    return begun && strcmp(c->head_key, c->keys->all[0].id) == 0;
}

/* ---- verification ---- */

struct verification {
    const struct audit_chain *chain;
    json_t *findings, *restores, *found;
    const json_t *wanted; /* published hashes */
    int64_t more, rows;
    struct audit_link last;
    bool linked; /* `last` is the row before the next one */
};

static void add_finding(struct verification *v, int64_t n, int64_t to,
                        const char *what, const char *key)
{
    size_t count = json_array_size(v->findings);
    json_t *before = count ? json_array_get(v->findings, count - 1) : NULL;
    const char *was = json_string_value(json_object_get(before, "what"));
    char shown[AUDIT_KEY_ID_BYTES + 1];

    snprintf(shown, sizeof shown, "%s", key ? key : "");
    if (was && strcmp(was, what) == 0 &&
        json_integer_value(json_object_get(before, "to")) == n - 1) {
        json_object_set_new(before, "to", json_integer(to));
        return;
    }
    if (count == FINDINGS_MAX) {
        v->more++;
        return;
    }
    json_array_append_new(v->findings,
                          json_pack("{s:I,s:I,s:s,s:o}", "from", (json_int_t)n,
                                    "to", (json_int_t)to, "what", what, "key",
                                    key ? json_text_of(shown) : json_null()));
}

static json_t *hex_json(const uint8_t hash[AUDIT_HASH_BYTES])
{
    struct buf hex;
    json_t *out;

    buf_init(&hex, 2 * AUDIT_HASH_BYTES);
    hex_put(hash, AUDIT_HASH_BYTES, &hex);
    out = json_text_of(hex.data);
    buf_fini(&hex);
    return out;
}

/* Notes the published hashes that this one is. */
static void look_up(struct verification *v, const struct audit_link *l)
{
    json_t *one, *hash;
    size_t i;

    if (!json_array_size(v->wanted))
        return;
    hash = hex_json(l->hash);
    json_array_foreach((json_t *)(uintptr_t)v->wanted, i, one)
    {
        if (!json_equal(one, hash))
            continue;
        json_array_append_new(v->found, json_pack("{s:O,s:I}", "hash", hash,
                                                  "n", (json_int_t)l->n));
    }
    json_decref(hash);
}

/* By the key that was in use at the erasure, not that of the row. */
static bool is_erased(const struct audit_keys *keys,
                      const struct audit_link *row,
                      const uint8_t erased[AUDIT_HASH_BYTES])
{
    uint8_t expected[AUDIT_HASH_BYTES];

    for (size_t i = 0; i < keys->count; i++) {
        audit_hash_erased(&keys->all[i], row, expected);
        if (memcmp(erased, expected, AUDIT_HASH_BYTES) == 0)
            return true;
    }
    return false;
}

/* Content and salt, or what erasure has put in their place. */
static bool content_fits(const struct audit_keys *keys,
                         const struct audit_key *key, stmt *q,
                         const struct audit_link *row,
                         uint8_t content[AUDIT_HASH_BYTES])
{
    uint8_t expected[AUDIT_HASH_BYTES], erased[AUDIT_HASH_BYTES];
    const struct audit_content c = {.actor = col_text(q, 7),
                                    .role = col_text(q, 8),
                                    .command = col_text(q, 9),
                                    .args = col_text(q, 10),
                                    .outcome = col_text(q, 11),
                                    .request_id = col_text(q, 12)};

    if (!read_hash(q, 5, content))
        return false;
    if (col_null(q, 4))
        return read_hash(q, 6, erased) && is_erased(keys, row, erased);
    audit_hash_content(key, row->n, col_blob(q, 4), &c, expected);
    return memcmp(content, expected, AUDIT_HASH_BYTES) == 0;
}

static void verify_row(struct verification *v, stmt *q)
{
    struct audit_link row = {.n = col_i64(q, 0)};
    const char *key_id = col_text(q, 3);
    const struct audit_key *key = audit_key_named(v->chain->keys, key_id);
    uint8_t content[AUDIT_HASH_BYTES], expected[AUDIT_HASH_BYTES];
    bool hashed = read_hash(q, 1, row.hash);

    if (row.n - 1 > v->last.n)
        add_finding(v, v->last.n + 1, row.n - 1, "missing", NULL);
    if (!hashed || !*key_id)
        add_finding(v, row.n, row.n, "changed", NULL);
    else if (!key)
        add_finding(v, row.n, row.n, "unknown_key", key_id);
    else if (!content_fits(v->chain->keys, key, q, &row, content))
        add_finding(v, row.n, row.n, "changed", NULL);
    else if (v->linked && row.n - 1 == v->last.n) {
        audit_hash_row(key, &v->last, row.n, col_i64(q, 2), content, expected);
        if (memcmp(row.hash, expected, AUDIT_HASH_BYTES) != 0)
            add_finding(v, row.n, row.n, "unlinked", NULL);
    }
    if (strcmp(col_text(q, 9), "restore") == 0 &&
        json_array_size(v->restores) < RESTORES_MAX)
        json_array_append_new(v->restores,
                              json_pack("{s:I,s:o}", "n", (json_int_t)row.n,
                                        "at", json_time(col_i64(q, 2))));
    v->last = row;
    v->linked = hashed;
    v->rows++;
    look_up(v, &row);
}

static void begin_after(struct verification *v, struct audit_chain *c,
                        const struct anchor *begin, bool begun, int64_t after)
{
    const struct audit_key *key = audit_key_named(c->keys, begin->key);
    uint8_t mac[AUDIT_HASH_BYTES];

    if (after > begin->link.n) {
        bind_i64(c->hash, 1, after);
        v->last.n = after;
        v->linked = db_step(c->db, c->hash) &&
                    read_hash(c->hash, 1, v->last.hash);
        db_done(c->hash);
        return;
    }
    v->last = begin->link;
    v->linked = begun;
    if (begun && !key) {
        add_finding(v, begin->link.n, begin->link.n, "unknown_key", begin->key);
    } else if (begun) {
        hash_anchor(key, begin, mac);
        begun = memcmp(mac, begin->mac, AUDIT_HASH_BYTES) == 0;
    }
    if (!begun)
        add_finding(v, begin->link.n, begin->link.n, "anchor", NULL);
    look_up(v, &begin->link);
}

json_t *audit_chain_verify(struct audit_chain *c, json_t *args)
{
    json_int_t after = json_integer_value(json_object_get(args, "after"));
    struct verification v = {.chain = c,
                             .findings = json_array(),
                             .restores = json_array(),
                             .found = json_array(),
                             .wanted = json_object_get(args, "heads")};
    int64_t used, older;
    struct anchor begin;
    bool begun = read_anchor(c, &begin), more;

    begin_after(&v, c, &begin, begun, after);
    bind_i64(c->rows, 1, v.last.n);
    bind_i64(c->rows, 2, PAGE_ROWS);
    while (db_step(c->db, c->rows))
        verify_row(&v, c->rows);
    db_done(c->rows);
    more = v.rows == PAGE_ROWS;
    used = db_number(c->db, c->used, 0);
    if (!more && used > v.last.n)
        add_finding(&v, v.last.n + 1, used, "missing", NULL);
    bind_i64(c->unchained, 1, begin.link.n);
    older = db_number(c->db, c->unchained, 0);
    if (older && !begin.older && !after)
        add_finding(&v, begin.link.n, begin.link.n, "before_anchor", NULL);
    return json_pack("{s:I,s:I,s:o,s:I,s:o,s:I,s:s,s:o,s:o,s:o,s:I}", "rows",
                     (json_int_t)v.rows, "last", (json_int_t)v.last.n, "next",
                     more ? json_integer(v.last.n) : json_null(),
                     "begins_after", (json_int_t)begin.link.n, "begins_at",
                     json_time(begin.at_ms), "unchained", (json_int_t)older,
                     "key", c->keys->all[0].id, "found", v.found, "restores",
                     v.restores, "findings", v.findings, "findings_more",
                     (json_int_t)v.more);
}

char *audit_chain_head_text(struct audit_chain *c, const char *process)
{
    struct audit_link head;
    char key[AUDIT_KEY_ID_BYTES + 1], *out;
    struct buf hex;
    int64_t next;

    if (!audit_chain_head(c, &head, &next, key) || !*key)
        return NULL;
    buf_init(&hex, 2 * AUDIT_HASH_BYTES);
    hex_put(head.hash, AUDIT_HASH_BYTES, &hex);
    out = gr_printf("%s:%" PRId64 ":%s", process, head.n, hex.data);
    buf_fini(&hex);
    return out;
}
