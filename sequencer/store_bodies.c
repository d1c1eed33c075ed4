/* Headers and bodies of events, while somebody may still need them. Headers that are
 * repeated word for word are stored once (heads.sql). */
#include "headers.h"
#include "publication.h"
#include "store_inside.h"
#include "sums.h"
#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(struct store, field)

/* Shorter ones cost less than a row of their own. */
enum { SHARED_LEAST_BYTES = 512 };

/* The body, the head that it shares, and its event are what was written. */
#define INTACT                                                                \
    DB_INTACT(SUM_BODIES)                                                     \
    " AND (head = 0 OR (SELECT " DB_INTACT(                                   \
        SUM_HEADS) " FROM heads WHERE id = bodies.head)) AND "                \
                   "(SELECT " DB_INTACT(SUM_EVENTS) " FROM events WHERE n = " \
                                                    "?1)"

static const struct db_statement statements[] = {
    {AT(body_add),
     "INSERT OR IGNORE INTO bodies(event, headers, body, head, sum) "
     "VALUES(?1, ?2, ?3, ?4, content_sum(?1, ?2, ?3, ?4))"},
    {AT(body), "SELECT CASE WHEN head = 0 THEN headers ELSE CAST(headers || "
               "(SELECT h.headers FROM heads h WHERE h.id = bodies.head) AS "
               "BLOB) END, body, " INTACT " FROM bodies WHERE event = ?1"},
    {AT(body_drop), "DELETE FROM bodies WHERE event = ? RETURNING head"},
    {AT(head_add), "INSERT INTO heads(headers, sum) VALUES(?1, "
                   "content_sum(?1)) RETURNING id"},
    {AT(head_drop), "DELETE FROM heads WHERE id = ?1 AND NOT EXISTS (SELECT 1 "
                    "FROM bodies WHERE head = ?1 AND head <> 0)"},
};

void store_prepare_bodies(struct store *s)
{
    db_prepare_all(s->db, s, statements, COUNT_OF(statements));
    buf_init(&s->last_head, 2 * HEADERS_MAX_BYTES);
}

void store_close_bodies(struct store *s)
{
    buf_fini(&s->last_head);
}

void store_bodies_undo(struct store *s)
{
    s->last_head_id = 0;
}

/* What a published event has of its own stands first. */
static size_t own_bytes(struct bytes headers)
{
    struct bytes name, value;
    size_t at = 0;

    return publication_expires_ms(headers) &&
                   headers_next(headers, &at, &name, &value)
               ? at
               : 0;
}

/* The row of these headers, if the event before had the same; else 0. */
static int64_t head_of(struct store *s, struct bytes headers)
{
    if (headers.n < SHARED_LEAST_BYTES)
        return 0;
    if (headers.n != s->last_head.len ||
        memcmp(headers.p, s->last_head.data, headers.n) != 0) {
        buf_reset(&s->last_head);
        buf_put(&s->last_head, headers.p, headers.n);
        s->last_head_id = 0;
        return 0;
    }
    if (!s->last_head_id) {
        bind_blob(s->head_add, 1, headers);
        s->last_head_id = db_number(s->db, s->head_add, 0);
    }
    return s->last_head_id;
}

/* If no body refers to it. */
static void drop_head(struct store *s, int64_t head)
{
    bind_i64(s->head_drop, 1, head);
    db_run(s->db, s->head_drop);
    if (head == s->last_head_id && db_changes(s->db) > 0)
        s->last_head_id = 0;
}

void store_body_add(struct store *s, int64_t event, struct bytes headers,
                    struct bytes body)
{
    size_t own = own_bytes(headers);
    int64_t head = head_of(
        s, (struct bytes){(const char *)headers.p + own, headers.n - own});

    if (head)
        headers.n = own;
    bind_i64(s->body_add, 1, event);
    bind_blob(s->body_add, 2, headers);
    bind_blob(s->body_add, 3, body);
    bind_i64(s->body_add, 4, head);
    db_run(s->db, s->body_add);
    if (head && db_changes(s->db) == 0) /* the event has its body already */
        drop_head(s, head);
}

bool store_body(struct store *s, int64_t event, struct bytes *headers,
                struct bytes *body)
{
    bind_i64(s->body, 1, event);
    if (!db_step(s->db, s->body))
        return false;
    *headers = col_blob(s->body, 0);
    *body = col_blob(s->body, 1);
    return true;
}

bool store_body_damaged(struct store *s)
{
    return col_i64(s->body, 2) == 0;
}

void store_body_done(struct store *s)
{
    db_done(s->body);
}

void store_body_drop(struct store *s, int64_t event)
{
    int64_t head;

    bind_i64(s->body_drop, 1, event);
    head = db_number(s->db, s->body_drop, 0);
    if (head)
        drop_head(s, head);
}
