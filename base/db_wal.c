/* The write-ahead log of an open file: wal.h decides, the loop or the copier does
 * it. A crash at any point leaves it as SQLite can read it. */
#include "checker.h"
#include "copier.h"
#include "db_inside.h"
#include "verifier.h"
#include "wal.h"

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
    struct db *db = arg;

    (void)h;
    (void)name;
    db->wal_pages = pages;
    return SQLITE_OK;
}

void db_wal_watch(struct db *db)
{
    sqlite3_wal_hook(db->h, on_wal, db);
}

bool db_wal_begin_anew(struct db *db)
{
    int rc;

    sqlite3_busy_timeout(db->h, 0);
    rc = sqlite3_wal_checkpoint_v2(db->h, NULL, SQLITE_CHECKPOINT_RESTART, NULL,
                                   NULL);
    sqlite3_busy_timeout(db->h, DB_BUSY_MS);
    copier_check(db->path, rc);
    db->wal_held = rc == SQLITE_OK ? 0 : db->wal_pages;
    return rc == SQLITE_OK;
}

static int64_t bytes_of(const struct db *db, int pages)
{
    return (int64_t)pages * db->page_bytes;
}

static struct wal look(struct db *db)
{
    if (db->wal_pages < db->wal_held)
        db->wal_held = 0;
    return (struct wal){
        .piece_bytes = db->wal_piece_bytes,
        .bytes = bytes_of(db, db->wal_pages),
        .held_bytes = bytes_of(db, db->wal_held),
        .rest_bytes = bytes_of(db, copier_rest(db->copier, db->wal_pages)),
        .room_bytes = db_disk_room_bytes(db)};
}

void db_copy_in_pieces(struct db *db, int bytes)
{
    db->wal_piece_bytes = bytes;
}

static void send_readers_away(struct db *db)
{
    checker_break(db->checker);
    verifier_break(db->verifier);
}

void db_verify_with(struct db *db, struct verifier *v)
{
    db->verifier = v;
}

void db_tidy(struct db *db)
{
    struct wal wal;

    if (db->wal_pages == 0)
        return;
    wal = look(db);
    switch (wal_step(&wal)) {
    case WAL_LEAVE:
        break;
    case WAL_COPY:
        copier_begin(db->copier);
        break;
    case WAL_BEGIN_ANEW:
        copier_pause(db->copier);
        if (!db_wal_begin_anew(db) && wal_presses(&wal))
            send_readers_away(db);
        db->wal_pages = 0;
        break;
    }
}
