/* engine_check: says whether the engine's settings can lose a commit that it has acknowledged. */
#include "engine_check.h"
#include "engine_transaction.h"
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
} weak_fsync = {"fsync is off: the engine loses acknowledged commits when a "
                "machine fails",
                "set fsync = on, and reload"},
  weak_pages = {"full_page_writes is off: a crash of the engine's machine can "
                "damage its tables",
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
        found(self, false,
              "this role may not see whether a synchronous standby is "
              "connected",
              "GRANT pg_read_all_stats TO the role, or look at "
              "pg_stat_replication as another one");
    else if (!d->synchronous)
        found(self, false,
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
        found(self, true, weak_fsync.what, weak_fsync.fix);
    if (is_off(d->full_page_writes))
        found(self, true, weak_pages.what, weak_pages.fix);
    if (d->synchronous_commit && !waits_for_standbys(d->synchronous_commit))
        found(self, true, weak_commit.what, weak_commit.fix);
    if (d->synchronous_standby_names && !names)
        found(self, true, weak_names.what, weak_names.fix);
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

gr_rc engine_check(const struct engine_settings *s, engine_finding *found,
                   void *self, char why[ENGINE_WHY_BYTES])
{
    struct engine_connection c;
    struct engine_durability d;
    PGresult *r;

    engine_connection_init(&c, s);
    r = engine_ask(&c, check_sql, why);
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
    engine_connection_fini(&c);
    return r ? GR_OK : GR_REFUSE;
}
