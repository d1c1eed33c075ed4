/* archive_usage: counts the bytes of each source in memory and writes them. */
#include "archive_usage.h"
#include "alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void archive_usage_open(struct archive_usage *u, struct db *db)
{
    *u = (struct archive_usage){.db = db};
    u->ends = db_prepare(db, "SELECT from_n, counted_n FROM usage_counted");
    u->all = db_prepare(db, "SELECT source, bytes FROM usage");
    u->rows = db_prepare(db, "SELECT " ARCHIVE_SIZE
                             " FROM archive WHERE n > ?1 ORDER BY n");
    u->put = db_prepare(db, "INSERT OR REPLACE INTO usage (source, bytes)"
                            " VALUES (?1, ?2)");
    u->counted = db_prepare(db, "UPDATE usage_counted SET counted_n = ?1");
    archive_usage_undo(u);
}

void archive_usage_close(struct archive_usage *u)
{
    free(u->sources);
    u->sources = NULL;
    u->count = 0;
}

static struct usage_source *source_of(struct archive_usage *u, const char *name)
{
    for (size_t i = 0; i < u->count; i++)
        if (strcmp(u->sources[i].name, name) == 0)
            return &u->sources[i];
    u->sources = gr_realloc(u->sources, (u->count + 1) * sizeof *u->sources);
    u->sources[u->count] = (struct usage_source){0};
    snprintf(u->sources[u->count].name, sizeof u->sources->name, "%s", name);
    return &u->sources[u->count++];
}

void archive_usage_undo(struct archive_usage *u)
{
    archive_usage_close(u);
    if (db_step(u->db, u->ends)) {
        u->from_n = col_i64(u->ends, 0);
        u->counted_n = col_i64(u->ends, 1);
    }
    db_done(u->ends);
    while (db_step(u->db, u->all))
        source_of(u, col_text(u->all, 0))->bytes = col_i64(u->all, 1);
    db_done(u->all);
    bind_i64(u->rows, 1, u->counted_n);
    while (db_step(u->db, u->rows))
        archive_usage_add(u, col_text(u->rows, 2), col_i64(u->rows, 0),
                          col_i64(u->rows, 1));
    db_done(u->rows);
}

static void change(struct archive_usage *u, const char *source, int64_t bytes)
{
    struct usage_source *s = source_of(u, source);

    s->bytes += bytes;
    s->changed = true;
}

void archive_usage_add(struct archive_usage *u, const char *source, int64_t n,
                       int64_t bytes)
{
    change(u, source, bytes);
    u->counted_n = n;
}

void archive_usage_drop(struct archive_usage *u, const char *source, int64_t n,
                        int64_t bytes)
{
    if (n > u->from_n)
        change(u, source, -bytes);
}

void archive_usage_write(struct archive_usage *u, int64_t mono_ms)
{
    bool changed = false;

    for (size_t i = 0; i < u->count; i++) {
        struct usage_source *s = &u->sources[i];

        if (!s->changed)
            continue;
        bind_text(u->put, 1, s->name);
        bind_i64(u->put, 2, s->bytes);
        db_run(u->db, u->put);
        s->changed = false;
        changed = true;
    }
    u->written_ms = mono_ms;
    if (!changed)
        return;
    bind_i64(u->counted, 1, u->counted_n);
    db_run(u->db, u->counted);
}

const char *archive_usage_flooder(const struct archive_usage *u,
                                  int64_t limit_bytes)
{
    const char *found = NULL;
    bool others = false;

    for (size_t i = 0; i < u->count; i++) {
        if (u->sources[i].bytes > limit_bytes / 2)
            found = u->sources[i].name;
        else
            others = others || u->sources[i].bytes > 0;
    }
    return others ? found : NULL;
}
