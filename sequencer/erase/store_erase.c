/* store_erase: statements of the erasure of a workspace. */
#include "store_erase.h"
#include "alloc.h"
#include "event.h"
#include "wire.h"
#include <stddef.h>
#include <stdlib.h>

enum {
    LOOK_EVENTS = 5000,
    PAGE_DELIVERIES = 2000,
    OBJECTS_PER_STEP = 1000,
};

struct store_erase {
    struct db *db;
    stmt *knows, *names, *events, *count, *is_out;
    stmt *event, *event_status, *deliveries, *attempts, *transitions;
    stmt *dead_letters, *reopenings, *actions;
    stmt *buffer, *gap_actions, *gaps, *streams, *objects, *operational,
        *operational_body;
    stmt *sequence, *workspace, *tokens, *deleted;
};

#define AT(field) offsetof(struct store_erase, field)

/* A workspace has a row of its own only once an event of it has a number. */
#define NAMES                                                             \
    "(SELECT name FROM workspaces "                                       \
    "UNION ALL SELECT workspace FROM streams WHERE held > 0 "             \
    "UNION ALL SELECT workspace FROM deleted_endpoints "                  \
    "UNION ALL SELECT workspace FROM tokens WHERE workspace <> '' "       \
    "UNION ALL SELECT value FROM managed_endpoints, json_each(settings, " \
    "'$.workspaces'))"

static const struct db_statement statements[] = {
    {AT(knows), "SELECT 1 FROM " NAMES " WHERE name = ? LIMIT 1"},
    {AT(names), "SELECT DISTINCT name FROM " NAMES},
    {AT(events), "SELECT n, id, workspace IN (?3, ?4) FROM events WHERE n > ?1 "
                 "ORDER BY n LIMIT ?2"},
    {AT(count), "SELECT count(*) FROM deliveries WHERE event = ?"},
    {AT(is_out), "SELECT 1 FROM deliveries WHERE event = ? AND grant_id <> 0 "
                 "LIMIT 1"},
    {AT(event),
     "UPDATE events SET provider_id = NULL, type = 'erased', workspace = ?2, "
     "clock = NULL, reason = 'workspace_erased', duplicate_of = NULL, gap = "
     "NULL, note = NULL, delivery_id = NULL, ordering_key = NULL, "
     "traceparent = NULL, sum = "
     "content_sum(n, id, source, "
     "NULL, 'erased', ?2, received_ms, sequence, NULL, source_sequence, late, "
     "NULL, NULL) WHERE n = ?1"},
    {AT(event_status), "UPDATE events SET status = ?3 WHERE n = ?1 AND status "
                       "= ?2"},
    {AT(deliveries), "UPDATE deliveries SET error = '', retry_choice = NULL, "
                     "lane_key = 0 WHERE event = ?"},
    {AT(attempts), "DELETE FROM attempts WHERE event = ?"},
    {AT(transitions), "DELETE FROM transitions WHERE event = ?"},
    {AT(dead_letters), "DELETE FROM dead_letters WHERE event = ?"},
    {AT(reopenings), "DELETE FROM reopenings WHERE event = ?"},
    {AT(actions), "DELETE FROM actions WHERE subject = 'event ' || ?"},
    {AT(operational_body), "DELETE FROM operational_bodies WHERE event = ?"},
    {AT(buffer), "DELETE FROM buffer WHERE stream IN (SELECT id FROM streams "
                 "WHERE workspace = ?)"},
    {AT(gap_actions), "DELETE FROM actions WHERE subject IN (SELECT 'gap ' || "
                      "id FROM gaps WHERE workspace = ?)"},
    {AT(gaps), "DELETE FROM gaps WHERE workspace = ?"},
    {AT(operational), "DELETE FROM operational_limits WHERE workspace = ?"},
    {AT(streams), "DELETE FROM streams WHERE workspace = ?"},
    {AT(objects),
     "DELETE FROM objects WHERE (source, workspace, object) IN (SELECT source, "
     "workspace, object FROM objects WHERE workspace = ? LIMIT ?)"},
    {AT(sequence), "SELECT sequence FROM workspaces WHERE name = ?"},
    {AT(workspace), "DELETE FROM workspaces WHERE name = ?"},
    {AT(tokens), "DELETE FROM tokens WHERE workspace = ?"},
    {AT(deleted), "DELETE FROM deleted_endpoints WHERE workspace = ?"},
};

struct store_erase *store_erase_open(struct db *db)
{
    struct store_erase *s = gr_alloc(sizeof *s);

    s->db = db;
    db_prepare_all(db, s, statements, COUNT_OF(statements));
    return s;
}

void store_erase_close(struct store_erase *s)
{
    free(s);
}

bool store_erase_knows(struct store_erase *s, const char *workspace)
{
    bind_text(s->knows, 1, workspace);
    return db_number(s->db, s->knows, 0);
}

void store_erase_names(struct store_erase *s, erase_name_fn *fn, void *arg)
{
    bool more = true;

    while (more && db_step(s->db, s->names))
        more = fn(arg, col_text(s->names, 0));
    db_done(s->names);
}

int store_erase_events(struct store_erase *s, int64_t after,
                       const char *workspace, const char *label, int max,
                       struct erase_event *events, int64_t *looked_at)
{
    int64_t deliveries = 0;
    int count = 0;

    bind_i64(s->events, 1, after);
    bind_i64(s->events, 2, LOOK_EVENTS);
    bind_text(s->events, 3, workspace);
    bind_text(s->events, 4, label);
    *looked_at = after;
    while (count < max && deliveries < PAGE_DELIVERIES &&
           db_step(s->db, s->events)) {
        *looked_at = col_i64(s->events, 0);
        if (col_i64(s->events, 2) != 1) /* or NULL */
            continue;
        events[count].n = *looked_at;
        wire_copy(events[count++].id, sizeof events->id,
                  wire_text(col_text(s->events, 1)));
        bind_i64(s->count, 1, *looked_at);
        deliveries += db_number(s->db, s->count, 0);
    }
    db_done(s->events);
    return count;
}

bool store_erase_is_out(struct store_erase *s, int64_t event)
{
    bind_i64(s->is_out, 1, event);
    return db_number(s->db, s->is_out, 0);
}

static void run(struct store_erase *s, stmt *q, int64_t event)
{
    bind_i64(q, 1, event);
    db_run(s->db, q);
}

void store_erase_event(struct store_erase *s, const struct erase_event *e,
                       const char *label)
{
    bind_text(s->event, 2, label);
    run(s, s->event, e->n);
    bind_i64(s->event_status, 2, EVENT_BUFFERED);
    bind_i64(s->event_status, 3, EVENT_IGNORED);
    run(s, s->event_status, e->n);
    run(s, s->deliveries, e->n);
    run(s, s->attempts, e->n);
    run(s, s->transitions, e->n);
    run(s, s->dead_letters, e->n);
    run(s, s->reopenings, e->n);
    run(s, s->operational_body, e->n);
    bind_text(s->actions, 1, e->id);
    db_run(s->db, s->actions);
}

void store_erase_streams(struct store_erase *s, const char *workspace)
{
    stmt *all[] = {s->buffer, s->gap_actions, s->gaps, s->streams,
                   s->operational};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        bind_text(all[i], 1, workspace);
        db_run(s->db, all[i]);
    }
}

bool store_erase_objects(struct store_erase *s, const char *workspace)
{
    bind_text(s->objects, 1, workspace);
    bind_i64(s->objects, 2, OBJECTS_PER_STEP);
    db_run(s->db, s->objects);
    return db_changes(s->db) == OBJECTS_PER_STEP;
}

int64_t store_erase_workspace(struct store_erase *s, const char *workspace)
{
    stmt *rest[] = {s->workspace, s->tokens, s->deleted};
    int64_t last;

    bind_text(s->sequence, 1, workspace);
    last = db_number(s->db, s->sequence, 0);
    for (size_t i = 0; i < COUNT_OF(rest); i++) {
        bind_text(rest[i], 1, workspace);
        db_run(s->db, rest[i]);
    }
    return last;
}
