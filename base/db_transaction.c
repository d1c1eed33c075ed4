/* One writer, one transaction at a time; its commit may run in a thread of its own.
 * A crash before the commit has returned leaves all of it or nothing. */
#include "db_inside.h"
#include "worker.h"
#include <assert.h>

void db_begin(struct db *db)
{
    assert(!db->in_txn);
    db->full = false;
    db->in_txn = true;
    db->changes_at_begin = sqlite3_total_changes(db->h);
    db_run(db, db->begin);
}

static void roll_back(struct db *db)
{
    /* SQLite may have rolled back by itself already. */
    if (!sqlite3_get_autocommit(db->h)) {
        sqlite3_step(db->rollback);
        sqlite3_reset(db->rollback);
    }
    db->in_txn = db->start_noted = false;
}

static void run_commit(void *arg)
{
    struct db *db = arg;

    db->commit_rc = SQLITE_FULL;
    if (db->full)
        return;
    db->commit_rc = sqlite3_step(db->commit);
    sqlite3_reset(db->commit);
}

static gr_rc judge_commit(struct db *db)
{
    if (db->commit_rc == SQLITE_DONE) {
        db->in_txn = false;
        db_origin_committed(db);
        return GR_OK;
    }
    /* Anything but a full disk leaves the commit neither done nor undone
     * (fsync): stop, and read at the next start what is there. */
    if (!db_is_full(db, db->commit_rc))
        db_failed(db, db->commit_rc, "a commit");
    db->full = true;
    roll_back(db);
    return GR_AGAIN;
}

gr_rc db_commit(struct db *db)
{
    assert(db->in_txn);
    db_origin_commits(db);
    run_commit(db);
    return judge_commit(db);
}

void db_commit_begin(struct db *db)
{
    assert(db->in_txn);
    db_origin_commits(db);
    if (!db->committer)
        db->committer = worker_open(run_commit, db);
    worker_begin(db->committer);
}

int db_commit_fd(const struct db *db)
{
    return worker_fd(db->committer);
}

gr_rc db_commit_end(struct db *db)
{
    worker_end(db->committer);
    return judge_commit(db);
}

void db_read_begin(struct db *db)
{
    assert(!db->in_txn);
    db_run(db, db->begin_read);
}

void db_read_end(struct db *db)
{
    db_run(db, db->commit);
}

bool db_full(const struct db *db)
{
    return db->full;
}

bool db_dirty(const struct db *db)
{
    return sqlite3_total_changes(db->h) != db->changes_at_begin;
}
