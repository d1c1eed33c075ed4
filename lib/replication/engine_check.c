/* engine_check: says whether the engine is prepared, and whether its settings can lose a commit that it has acknowledged. */
#include "engine_check.h"
#include "engine_transaction.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_off(const char *setting)
{
    return setting && strcmp(setting, "off") == 0;
}

static bool is_blank(const char *text)
{
    return !text[strspn(text, " \t\r\n")];
}

static bool waits_for_standbys(const char *synchronous_commit)
{
    return strcmp(synchronous_commit, "on") == 0 ||
           strcmp(synchronous_commit, "remote_apply") == 0;
}

/* What can be weak. A row of these is a sentence and what to do about it. CHECKPOINT: whether commits wait is decided by the
 * checkpointer's copy of the setting, which it may read seconds after a reload, while it syncs files. */
static const struct {
    const char *what, *fix;
} weak_fsync = {"fsync is off: the database loses acknowledged commits when a "
                "machine fails",
                "set fsync = on, and reload"},
  weak_pages =
      {"full_page_writes is off: a crash of its machine can damage the "
       "database",
       "set full_page_writes = on, and reload"},
  weak_names = {"synchronous_standby_names is empty: an acknowledged commit is "
                "on one machine only",
                "set synchronous_standby_names, such as 'ANY 1 (a, b)', "
                "reload, and run CHECKPOINT: commits wait for standbys at the "
                "latest after it; with Patroni, set synchronous_mode and "
                "synchronous_mode_strict"},
  weak_commit = {"synchronous_commit cannot be set to on: a COMMIT does not "
                 "wait for a standby",
                 "let the role set it; a pooler must pass SET LOCAL on"};

const char *engine_weakness(const struct engine_durability *d)
{
    if (is_off(d->fsync))
        return weak_fsync.what;
    if (is_off(d->full_page_writes))
        return weak_pages.what;
    if (d->synchronous_standby_names && is_blank(d->synchronous_standby_names))
        return weak_names.what;
    if (d->synchronous_commit && !waits_for_standbys(d->synchronous_commit))
        return weak_commit.what;
    return NULL;
}

static void judge_standbys(const struct engine_durability *d,
                           engine_finding *found, void *self)
{
    if (d->standbys < 0)
        found(self, ENGINE_NOTE,
              "this role may not see whether a synchronous standby is "
              "connected",
              "GRANT pg_read_all_stats TO the role, or look at "
              "pg_stat_replication as another one");
    else if (!d->synchronous)
        found(self, ENGINE_NOTE,
              "no synchronous standby is connected: nothing can be committed "
              "until one is",
              "start a standby that synchronous_standby_names names, and look "
              "at its primary_conninfo");
}

void engine_judge(const struct engine_durability *d, engine_finding *found,
                  void *self)
{
    bool names = d->synchronous_standby_names &&
                 !is_blank(d->synchronous_standby_names);

    if (is_off(d->fsync))
        found(self, ENGINE_WEAK, weak_fsync.what, weak_fsync.fix);
    if (is_off(d->full_page_writes))
        found(self, ENGINE_WEAK, weak_pages.what, weak_pages.fix);
    if (d->synchronous_commit && !waits_for_standbys(d->synchronous_commit))
        found(self, ENGINE_WEAK, weak_commit.what, weak_commit.fix);
    if (d->synchronous_standby_names && !names)
        found(self, ENGINE_WEAK, weak_names.what, weak_names.fix);
    if (names)
        judge_standbys(d, found, self);
}

static const char check_sql[] =
    "SELECT pg_catalog.current_setting('fsync', true), "
    "pg_catalog.current_setting('full_page_writes', true), "
    "pg_catalog.current_setting('synchronous_standby_names', true), "
    "pg_catalog.set_config('synchronous_commit', 'on', true), count(s), "
    "count(s) FILTER (WHERE s.sync_state IN ('sync', 'quorum')), "
    "count(s) FILTER (WHERE s.state IS NULL) "
    "FROM pg_catalog.pg_stat_replication s";

static const char *text_of(const PGresult *r, int column)
{
    return PQgetisnull(r, 0, column) ? NULL : PQgetvalue(r, 0, column);
}

static bool check_durability(struct engine_connection *c, engine_finding *found,
                             void *self, char why[ENGINE_WHY_BYTES])
{
    struct engine_durability d;
    PGresult *r = engine_ask(c, check_sql, why);

    if (r) {
        bool is_hidden = get_number(r, 0, 6) > 0;

        d = (struct engine_durability){
            .fsync = text_of(r, 0),
            .full_page_writes = text_of(r, 1),
            .synchronous_standby_names = text_of(r, 2),
            .synchronous_commit = text_of(r, 3),
            .standbys = is_hidden ? -1 : get_number(r, 0, 4),
            .synchronous = is_hidden ? -1 : get_number(r, 0, 5)};
        engine_judge(&d, found, self);
    }
    PQclear(r);
    return r != NULL;
}

enum { TABLES = 4 };

/* By the catalog: a name of a table in a schema that this role may not use would be an error. */
static const char tables_sql[] =
    "SELECT count(*), count(*) FILTER (WHERE "
    "pg_catalog.has_schema_privilege(s.oid, 'USAGE') AND "
    "pg_catalog.has_table_privilege(t.oid, 'SELECT') AND "
    "pg_catalog.has_table_privilege(t.oid, 'INSERT') AND "
    "pg_catalog.has_table_privilege(t.oid, 'DELETE')), "
    "pg_catalog.current_database()::text, current_user::text "
    "FROM pg_catalog.pg_class t "
    "JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace "
    "WHERE s.nspname = 'grapnel' AND "
    "t.relname IN ('owner', 'log', 'node', 'snapshot')";

static bool check_tables(struct engine_connection *c, engine_finding *found,
                         void *self, char why[ENGINE_WHY_BYTES])
{
    PGresult *r = engine_ask(c, tables_sql, why);
    char what[ENGINE_WHY_BYTES], fix[ENGINE_WHY_BYTES];

    if (r && get_number(r, 0, 0) < TABLES) {
        snprintf(what, sizeof what,
                 "the database \"%.63s\" has no tables of `grapnel replicate "
                 "init`",
                 text_of(r, 2));
        snprintf(fix, sizeof fix,
                 "if it is the right database, run `grapnel replicate init | "
                 "psql -v ON_ERROR_STOP=1 -d %.63s` there, as its "
                 "administrator",
                 text_of(r, 2));
        found(self, ENGINE_UNPREPARED, what, fix);
    } else if (r && get_number(r, 0, 1) < TABLES) {
        snprintf(what, sizeof what,
                 "the role \"%.63s\" may not use the tables of `grapnel "
                 "replicate init`",
                 text_of(r, 3));
        snprintf(fix, sizeof fix,
                 "connect as the role `grapnel`, or GRANT grapnel TO \"%.63s\"",
                 text_of(r, 3));
        found(self, ENGINE_UNPREPARED, what, fix);
    }
    PQclear(r);
    return r != NULL;
}

gr_rc engine_check(const struct engine_settings *s, engine_finding *found,
                   void *self, char why[ENGINE_WHY_BYTES])
{
    struct engine_connection c;
    bool good;

    engine_connection_init(&c, s);
    good = check_durability(&c, found, self, why) &&
           check_tables(&c, found, self, why);
    engine_connection_fini(&c);
    return good ? GR_OK : GR_REFUSE;
}
