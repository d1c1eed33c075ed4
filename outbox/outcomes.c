/* outcomes: stores outcomes until their rows have them. */
#include "outcomes.h"
#include "clock.h"
#include "log.h"
#include "outbox.h"
#include "published.h"
#include <stdlib.h>
#include <string.h>

enum {
    ERROR_BYTES = 200, /* of error_message, which may be a short column */
    NEW_AGAIN_MS =
        100, /* until a row is written that was new; then the wait doubles */
    REFUSED_AGAIN_MS = 1000, /* the same for one that the database refused */
    AGAIN_MOST_MS = 5 * MINUTE_MS,
    LOGGED_MAX = 10, /* refused outcomes of one run that are in the log */
    COUNTED_MAX = 10000,
    FORGET_MAX = 1000, /* in one turn */
};

void outcomes_open(struct outbox *o)
{
    struct outcomes *x = &o->outcomes;
    struct db *db = o->daemon.db;

    x->db = db;
    x->put = db_prepare(
        db, "INSERT OR REPLACE INTO outcomes (event_id, n, relay, row_id, "
            "status, retries, last_ms, next_ms, error, action_id, refused, "
            "waits, due_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
            "0, 0, 0)");
    x->list = db_prepare(
        db, "SELECT event_id, n, row_id, status, retries, last_ms, next_ms, "
            "error, action_id, waits FROM outcomes WHERE relay = ?1 AND "
            "refused = ?2 AND due_ms <= ?3 ORDER BY due_ms, n LIMIT ?4");
    x->next_due = db_prepare(
        db, "SELECT min(due_ms) FROM outcomes WHERE relay = ?1 AND refused = "
            "?2 AND due_ms > ?3");
    x->waiting = db_prepare(
        db, "SELECT count(*) FROM (SELECT 1 FROM outcomes WHERE relay = ?1 "
            "LIMIT ?2)");
    x->drop = db_prepare(db,
                         "DELETE FROM outcomes WHERE event_id = ?1 AND n = ?2");
    x->later = db_prepare(
        db, "UPDATE outcomes SET n = ?1, refused = ?4, waits = waits + 1, "
            "due_ms = ?5 WHERE event_id = ?2 AND n = ?3");
    x->last = db_prepare(db, "SELECT ifnull(max(n), 0) FROM outcomes");
    x->ended = db_prepare(
        db, "SELECT action_id, again FROM ended WHERE event_id = ?1");
    x->end = db_prepare(
        db, "INSERT OR REPLACE INTO ended (event_id, archived, action_id, "
            "again) VALUES (?1, ?2, ?3, 0)");
    x->unend = db_prepare(
        db, "DELETE FROM ended WHERE event_id = ?1 AND again = 0");
    x->again = db_prepare(db, "UPDATE ended SET again = 1 WHERE event_id = ?1");
    x->forget = db_prepare(
        db, "DELETE FROM outcomes WHERE event_id = ?1 AND action_id = (SELECT "
            "action_id FROM ended WHERE event_id = ?1)");
    x->purge = db_prepare(db, "DELETE FROM ended WHERE archived < ?1");
    x->start = db_prepare(db,
                          "UPDATE outcomes SET due_ms = 0 WHERE due_ms > 0");
    x->next_relay = db_prepare(
        db,
        "SELECT relay FROM outcomes WHERE relay > ?1 ORDER BY relay LIMIT 1");
    x->forget_relay = db_prepare(
        db, "DELETE FROM outcomes WHERE event_id IN (SELECT event_id FROM "
            "outcomes WHERE relay = ?1 AND last_ms < ?2 LIMIT ?3)");
    outcomes_undo(o);
}

void outcomes_undo(struct outbox *o)
{
    struct outcomes *x = &o->outcomes;

    x->next_n = db_number(x->db, x->last, 0) + 1;
    x->purged_n = 0;
    x->removed_ms = 0;
    x->started = false;
}

/* ---- from the sequencer ---- */

static enum driver_status status_of(const struct wire_outcome *m)
{
    return wire_is(m->state, "open") ? DRIVER_RETRYING
           : wire_is(m->state, "delivered") || wire_is(m->state, "resolved")
               ? DRIVER_DELIVERED
               : DRIVER_FAILED;
}

void outcomes_cut(char *error)
{
    size_t n = ERROR_BYTES;

    if (strlen(error) <= ERROR_BYTES)
        return;
    while (n && ((unsigned char)error[n] & 0xc0) == 0x80)
        n--; /* not within a character */
    error[n] = 0;
}

/* For people who look at the table. */
static char *error_of(const struct wire_outcome *m)
{
    struct bytes what = m->error.n ? m->error : m->reason;

    if (wire_is(m->state, "delivered"))
        return gr_strdup("");
    if (wire_is(m->state, "resolved"))
        return gr_strdup("resolved by a person");
    if (wire_is(m->state, "duplicate"))
        return gr_printf("duplicate of %.*s", (int)m->duplicate_of.n,
                         (const char *)m->duplicate_of.p);
    if (wire_is(m->state, "no_endpoint"))
        return gr_strdup("no_endpoint: no endpoint is subscribed to it");
    if (m->endpoint.n)
        return gr_printf("%.*s: %.*s", (int)m->endpoint.n,
                         (const char *)m->endpoint.p, (int)what.n,
                         (const char *)what.p);
    if (wire_is(m->state, "open"))
        return gr_printf("%.*s", (int)what.n, (const char *)what.p);
    return gr_printf("%.*s%s%.*s", (int)m->state.n, (const char *)m->state.p,
                     what.n ? ": " : "", (int)what.n, (const char *)what.p);
}

/* Whether this outcome is about the time before the row was reset. */
static bool is_before_reset(struct outcomes *x, const char *id,
                            const struct wire_outcome *m)
{
    bool before;

    bind_text(x->ended, 1, id);
    before = db_step(x->db, x->ended) && col_i64(x->ended, 1) &&
             col_i64(x->ended, 0) == (int64_t)m->action_id;
    db_done(x->ended);
    return before;
}

static void put(struct outbox *o, const char *id, const struct wire_outcome *m)
{
    struct outcomes *x = &o->outcomes;
    uint64_t deliveries = m->open + m->delivered + m->dead;
    char *relay = wire_dup(m->source), *row = wire_dup(m->provider_id);
    char *error = error_of(m);

    outcomes_cut(error);
    bind_text(x->put, 1, id);
    bind_i64(x->put, 2, x->next_n++);
    bind_text(x->put, 3, relay);
    bind_text(x->put, 4, row);
    bind_i64(x->put, 5, status_of(m));
    bind_i64(x->put, 6,
             m->attempts > deliveries ? (int64_t)(m->attempts - deliveries)
                                      : 0);
    bind_i64(x->put, 7, m->last_ms);
    bind_i64(x->put, 8, m->next_ms);
    bind_text(x->put, 9, error);
    bind_i64(x->put, 10, (int64_t)m->action_id);
    db_run(x->db, x->put);
    relays_wake(o, relay);
    free(error);
    free(row);
    free(relay);
}

gr_rc outcomes_apply(void *self, const char *from, uint64_t n, struct bytes msg)
{
    struct outbox *o = self;
    struct wire_outcome m;
    char id[EVENT_ID_BYTES + 1];

    (void)from;
    (void)n;
    if (wire_kind(msg) != WIRE_KIND_OUTCOME ||
        wire_get_outcome(&m, msg) != GR_OK || m.event_id.n != EVENT_ID_BYTES ||
        m.source.n > NAME_MAX_BYTES)
        return GR_REFUSE;
    wire_copy(id, sizeof id, m.event_id);
    if (!m.provider_id.n) /* erased: its row is no longer known */
        return GR_OK;
    if (is_before_reset(&o->outcomes, id, &m))
        return GR_OK;
    put(o, id, &m);
    return GR_OK;
}

/* ---- to the rows ---- */

static void drop(struct outcomes *x, const struct driver_write *w)
{
    bind_text(x->drop, 1, w->event_id);
    bind_i64(x->drop, 2, w->n);
    db_run(x->db, x->drop);
}

/* The table of the relay may have changed since. An event that was refused because its row's id was
 * known (event_intake.c) has an id of its own. */
static bool is_of_table(const struct driver_write *w, const char *relay,
                        const char *table)
{
    static const char other_id[] = "refused: idempotency_key_reused";
    char *key = gr_printf("%s:%s", table, w->row_id);
    char id[EVENT_ID_BYTES + 1];

    published_event_id(id, relay, wire_text(key));
    free(key);
    return strcmp(id, w->event_id) == 0 ||
           strncmp(w->error, other_id, strlen(other_id)) == 0;
}

/* Drops outcomes of other tables; returns how many are left. */
static size_t only_of_table(struct outbox *o, const char *relay,
                            const char *table, struct driver_write *writes,
                            size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        struct driver_write w = writes[i];

        if (is_of_table(&w, relay, table)) {
            writes[left++] = w;
            continue;
        }
        log_warn(w.event_id,
                 "an outcome is dropped: its row is of a table that this relay "
                 "had before",
                 LS("relay", relay), LS("row", w.row_id), LS("table", table));
        drop(&o->outcomes, &w);
        free(w.row_id);
        free(w.error);
    }
    return left;
}

size_t outcomes_list(struct outbox *o, const char *relay, const char *table,
                     bool refused, struct driver_write *writes, size_t max)
{
    struct outcomes *x = &o->outcomes;
    stmt *q = x->list;
    size_t count = 0;

    bind_text(q, 1, relay);
    bind_i64(q, 2, refused);
    bind_i64(q, 3, o->daemon.loop.mono_ms);
    bind_i64(q, 4, (int64_t)max);
    while (count < max && db_step(x->db, q)) {
        struct driver_write *w = &writes[count++];

        *w = (struct driver_write){.n = col_i64(q, 1),
                                   .row_id = gr_strdup(col_text(q, 2)),
                                   .status = (enum driver_status)col_i64(q, 3),
                                   .retries = col_i64(q, 4),
                                   .last_ms = col_i64(q, 5),
                                   .next_ms = col_i64(q, 6),
                                   .error = gr_strdup(col_text(q, 7)),
                                   .action_id = col_i64(q, 8),
                                   .waits = col_i64(q, 9)};
        wire_copy(w->event_id, sizeof w->event_id, wire_text(col_text(q, 0)));
    }
    db_done(q);
    return only_of_table(o, relay, table, writes, count);
}

int64_t outcomes_due_ms(struct outbox *o, const char *relay)
{
    struct outcomes *x = &o->outcomes;
    int64_t first_ms = 0;

    for (int refused = 0; refused < 2; refused++) {
        int64_t due_ms;

        bind_text(x->next_due, 1, relay);
        bind_i64(x->next_due, 2, refused);
        bind_i64(x->next_due, 3, o->daemon.loop.mono_ms);
        due_ms = db_number(x->db, x->next_due, 0);
        if (due_ms && (!first_ms || due_ms < first_ms))
            first_ms = due_ms;
    }
    return first_ms;
}

int64_t outcomes_waiting(struct outbox *o, const char *relay)
{
    struct outcomes *x = &o->outcomes;

    bind_text(x->waiting, 1, relay);
    bind_i64(x->waiting, 2, COUNTED_MAX);
    return db_number(x->db, x->waiting, 0);
}

/* The row has this outcome, or a newer final one of another process: if it is new later, a person has
 * reset it. */
static void note_end(struct outbox *o, const struct driver_write *w)
{
    struct outcomes *x = &o->outcomes;

    if (w->written == DRIVER_APPLIED && w->status == DRIVER_RETRYING) {
        bind_text(x->unend, 1, w->event_id);
        db_run(x->db, x->unend);
        return;
    }
    bind_text(x->end, 1, w->event_id);
    bind_i64(x->end, 2, archive_number(&o->archive.store, w->event_id));
    bind_i64(x->end, 3, w->action_id);
    db_run(x->db, x->end);
}

/* Behind the others, after a wait that doubles each time. */
static void put_off(struct outbox *o, const struct driver_write *w)
{
    struct outcomes *x = &o->outcomes;
    bool refused = w->written == DRIVER_WRITE_REFUSED;
    int64_t wait_ms = refused ? REFUSED_AGAIN_MS : NEW_AGAIN_MS;

    for (int64_t i = 0; i < w->waits && wait_ms < AGAIN_MOST_MS; i++)
        wait_ms *= 2;
    if (wait_ms > AGAIN_MOST_MS)
        wait_ms = AGAIN_MOST_MS;
    bind_i64(x->later, 1, x->next_n++);
    bind_text(x->later, 2, w->event_id);
    bind_i64(x->later, 3, w->n);
    bind_i64(x->later, 4, refused);
    bind_i64(x->later, 5, o->daemon.loop.mono_ms + wait_ms);
    db_run(x->db, x->later);
}

/* Each row by its id; when a database refuses many at once, the first of them. */
static void log_refused(const char *relay, const struct driver_write *w,
                        size_t count)
{
    if (count <= LOGGED_MAX)
        log_warn(w->event_id,
                 "the database refused an outcome; it is written again later",
                 LS("relay", relay), LS("row", w->row_id), LS("error", w->why));
    if (count == LOGGED_MAX)
        log_warn(NULL, "the database refused more outcomes at the same time",
                 LS("relay", relay));
}

void outcomes_written(struct outbox *o, const char *relay,
                      const struct driver_write *writes, size_t count)
{
    struct outcomes *x = &o->outcomes;
    size_t refused = 0;

    for (size_t i = 0; i < count; i++) {
        const struct driver_write *w = &writes[i];

        if (w->written == DRIVER_NOT_TRIED)
            continue;
        if (w->written == DRIVER_WRITE_REFUSED)
            log_refused(relay, w, ++refused);
        /* A new row: its taking is not committed yet. */
        if (w->written == DRIVER_IS_NEW || w->written == DRIVER_WRITE_REFUSED) {
            put_off(o, w);
            continue;
        }
        drop(x, w);
        note_end(o, w); /* also if a later one waits: the row has had this */
    }
}

/* ---- rows that were reset ---- */

bool outcomes_ended(struct outbox *o, const char *event_id)
{
    struct outcomes *x = &o->outcomes;
    bool ended;

    bind_text(x->ended, 1, event_id);
    ended = db_step(x->db, x->ended) && !col_i64(x->ended, 1);
    db_done(x->ended);
    return ended;
}

void outcomes_reset(struct outbox *o, const char *event_id)
{
    struct outcomes *x = &o->outcomes;

    bind_text(x->again, 1, event_id);
    db_run(x->db, x->again);
    bind_text(x->forget, 1, event_id);
    db_run(x->db, x->forget);
}

/* Those of the last day stay, in case the relay comes back. */
static void forget_removed(struct outbox *o)
{
    struct outcomes *x = &o->outcomes;
    int64_t before_ms = o->daemon.loop.now_ms - DAY_MS;
    char relay[NAME_MAX_BYTES + 1] = "";

    x->removed_ms = o->daemon.loop.mono_ms + HOUR_MS;
    for (;;) {
        bool more;

        bind_text(x->next_relay, 1, relay);
        more = db_step(x->db, x->next_relay);
        if (more)
            wire_copy(relay, sizeof relay,
                      wire_text(col_text(x->next_relay, 0)));
        db_done(x->next_relay);
        if (!more)
            return;
        if (relays_has(o, relay) || settings_relay(o->daemon.settings, relay))
            continue;
        bind_text(x->forget_relay, 1, relay);
        bind_i64(x->forget_relay, 2, before_ms);
        bind_i64(x->forget_relay, 3, FORGET_MAX);
        db_run(x->db, x->forget_relay);
        if (db_changes(x->db) == FORGET_MAX) /* the others in the next turn */
            x->removed_ms = 0;
        if (db_changes(x->db))
            log_warn(NULL,
                     "a relay is no longer configured; outcomes that its rows "
                     "never got are forgotten",
                     LS("relay", relay), LI("outcomes", db_changes(x->db)));
    }
}

void outcomes_purge(struct outbox *o)
{
    struct outcomes *x = &o->outcomes;

    /* The uptime of the machine may have begun again. */
    if (!x->started)
        db_run(x->db, x->start);
    x->started = true;
    if (x->removed_ms <= o->daemon.loop.mono_ms)
        forget_removed(o);
    if (x->purged_n == o->archive.space.first_n)
        return;
    x->purged_n = o->archive.space.first_n;
    bind_i64(x->purge, 1, x->purged_n);
    db_run(x->db, x->purge);
}
