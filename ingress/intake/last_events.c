/* last_events: a short list of sources with the time of their last event. */
#include "last_events.h"
#include "alloc.h"
#include "db.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void last_events_open(struct last_events *l, struct db *db)
{
    stmt *newest = db_prepare(db, "SELECT source, received_ms FROM archive "
                                  "ORDER BY n DESC LIMIT 2000");

    db_read_begin(db);
    while (db_step(db, newest))
        last_events_note(l, col_text(newest, 0), col_i64(newest, 1));
    db_done(newest);
    db_read_end(db);
}

void last_events_fini(struct last_events *l)
{
    free(l->all);
    *l = (struct last_events){0};
}

void last_events_note(struct last_events *l, const char *source, int64_t at_ms)
{
    size_t i = 0;

    while (i < l->count && strcmp(l->all[i].source, source) != 0)
        i++;
    if (i == l->count) {
        l->all = gr_realloc(l->all, (l->count + 1) * sizeof *l->all);
        l->all[l->count++] = (struct last_event){.at_ms = 0};
        snprintf(l->all[i].source, sizeof l->all[i].source, "%s", source);
    }
    if (at_ms > l->all[i].at_ms)
        l->all[i].at_ms = at_ms;
}
