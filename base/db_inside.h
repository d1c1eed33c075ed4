/* db_inside: what the db_*.c share; nobody else's. */
#ifndef BASE_DB_INSIDE_H
#define BASE_DB_INSIDE_H

#include "db.h"

struct checker;
struct verifier;
struct copier;
struct worker;

enum { DB_STATEMENTS_MAX = 256, DB_BUSY_MS = 5000 };

struct db {
    sqlite3 *h;
    char *path;
    int wal_piece_bytes;
    int page_bytes;
    stmt *stmts[DB_STATEMENTS_MAX]; /* all that are prepared */
    int stmt_count;
    stmt *begin, *begin_read, *commit, *rollback, *free_pages, *all_pages;
    stmt *adopt, *note_start, *written;
    int64_t copied_ms, written_ms;
    bool stamped;
    bool start_due,
        start_noted; /* db_origin.c: FILE-start is to be replaced; the
                                    open transaction says so */
    bool in_txn, full;
    int changes_at_begin;
    int commit_rc;            /* of the last COMMIT */
    struct worker *committer; /* NULL until one is begun apart */
    int wal_pages;
    int wal_held; /* so many when a reader was in the way of beginning anew */
    struct copier *copier;
    struct verifier *verifier; /* borrowed; NULL: none is at work */
    struct checker *checker;   /* NULL: the file was small */
    struct {
        sqlite3 *to; /* NULL: none is under way */
        sqlite3_backup *job;
        char *path;
    } backup;
};

/* db_errors.c. A write found no room, and did nothing. */
bool db_is_full(struct db *db, int rc);
_Noreturn void db_failed(struct db *db, int rc, const char *doing);

/* db_wal.c. From now on its length is known. */
void db_wal_watch(struct db *db);
/* So that the next commit begins the WAL anew: copies what is left of it. false: a
 * reader is in the way; it is not waited for. */
bool db_wal_begin_anew(struct db *db);

/* db_origin.c. After the schema is there. */
void db_origin_open(struct db *db);
/* Before each commit, and after each that succeeded: the first one of a start that
 * writes replaces FILE-start. A rolled back one leaves it to the next. */
void db_origin_commits(struct db *db);
void db_origin_committed(struct db *db);

/* db_room.c. Free on the file's file system. */
int64_t db_disk_room_bytes(const struct db *db);

/* db_backup.c. No harm when none is under way. !keep: the copy is removed. */
void db_backup_end(struct db *db, bool keep);

#endif
