/* db: a SQLite file with one writer, opened and upgraded as durability needs it: WAL,
 * synchronous=FULL, checkpoints off the commit path.
 *
 * The only error that functions here return is "the disk is full". After any other error of
 * the file the process exits with 74, and the next start reads what is really on disk. A
 * full disk stays for the rest of the transaction: further statements do nothing,
 * db_commit() rolls back and returns GR_AGAIN, and the caller reads its memory again from
 * the file. */
#ifndef STORE_DB_H
#define STORE_DB_H

#include "rc.h"
#include <sqlite3.h>

struct db;

/* A store's schema in two forms (docs/decisions/0060): a new file is made by `create`; an
 * older file gets the steps that it lacks: steps[i] changes user_version from i to i+1.
 * Both are done in one transaction when the file is opened, so a crash leaves the old
 * schema or the new one. A file with a version above `count` is refused (exit 74) and not
 * changed. db_origin.c makes its own tables. */
struct db_schema {
    const char *create; /* NULL: a new file gets all the steps */
    const char *const *steps;
    int count;           /* the number of steps: the present version */
    const char *program; /* for messages: "grapnel-ingress" */
    int page_bytes;      /* of a new file; 0: SQLite's default */
    int cache_kib;       /* of pages in memory; 0: 8 MiB */
    /* A table that steps[0] makes and files of other kinds do not have: a file without it
     * is refused (exit 74). NULL: not checked. */
    const char *table;
};

/* Opens or creates it. The file is checked first (for a damaged or incompletely copied one
 * the process exits with 74 and says what to do). Never returns NULL. */
struct db *db_open(const char *path, const struct db_schema *schema);
/* The same, and `goes_on` is called now and then while SQLite works, until db_unwatch(): so a start that takes long is known from one that hangs. It does not use the database. */
struct db *db_open_watched(const char *path, const struct db_schema *schema,
                           void (*goes_on)(void *self), void *self);
void db_unwatch(struct db *db);
void db_close(struct db *db);
const char *db_path(const struct db *db);
sqlite3 *db_handle(struct db *db);

/* Runs statements without a result (only at the start). */
void db_exec(struct db *db, const char *sql);

/* SQLite's transaction, with its locks, begins at the first statement: a turn without one takes none. */
void db_begin(struct db *db);
/* GR_AGAIN: the disk is full, and the turn was rolled back. */
GR_MUST_CHECK gr_rc db_commit(struct db *db);
/* The same in a thread: begin, do other work that does not use this database, then end,
 * which waits and returns what db_commit() would have returned. */
void db_commit_begin(struct db *db);
/* The same, but only the sync is done in the thread, and the database may be read meanwhile: it
 * shows the rows of this transaction, which a power cut may still take back, so nobody may be
 * told of them before db_commit_end(). GR_AGAIN: as from db_commit(), and no thread has begun. */
GR_MUST_CHECK gr_rc db_commit_write(struct db *db);
/* Readable when db_commit_end() will not wait. */
int db_commit_fd(const struct db *db);
GR_MUST_CHECK gr_rc db_commit_end(struct db *db);
/* Makes many reads outside of a turn's transaction one transaction: without it each read
 * takes and releases the file's locks. Writes nothing. */
void db_read_begin(struct db *db);
void db_read_end(struct db *db);
/* The open transaction has found a full disk; nothing more is written. */
bool db_full(const struct db *db);
/* Whether the open transaction has changed rows or the schema so far. */
bool db_dirty(const struct db *db);

/* A prepared statement, which db_close() finalizes. Bind with the bind functions (index
 * from 1), then step: true means that there is a row. Strings and bytes are borrowed until
 * the statement is reset by db_done(), which must always be called. db_run() steps to the
 * end and resets, for statements without rows. */
typedef struct sqlite3_stmt stmt;
stmt *db_prepare(struct db *db, const char *sql);
/* A statement, and the offset of its pointer in a struct. */
struct db_statement {
    size_t at;
    const char *sql;
};
/* Prepares each of them into that struct. */
void db_prepare_all(struct db *db, void *into, const struct db_statement *list,
                    size_t count);
void bind_i64(stmt *s, int i, int64_t v);
void bind_text(stmt *s, int i, const char *v); /* NULL binds NULL */
void bind_str(stmt *s, int i, struct bytes v); /* text without a 0 at its end */
void bind_blob(stmt *s, int i, struct bytes v);
bool db_step(struct db *db, stmt *s);
void db_done(stmt *s);
void db_run(struct db *db, stmt *s);
/* Runs a statement that returns a number: the first column of the last row; `none` if there
 * is no row, or NULL in it. */
int64_t db_number(struct db *db, stmt *s, int64_t none);
/* The number of rows that the last db_run() changed. */
int db_changes(struct db *db);
int64_t col_i64(stmt *s, int i);
const char *col_text(stmt *s,
                     int i); /* "" for NULL; valid until the next step */
struct bytes col_blob(stmt *s, int i); /* valid until the next step */
bool col_null(stmt *s, int i);

/* ---- replication ---- */

/* Which turn a transaction becomes. The bytes are borrowed until the next call. */
struct db_turn {
    struct bytes history, chain; /* `chain`: of the turn before it */
    int64_t n;
};
/* Of a replicated file: what is done with its turns. The thread that commits calls the first two, the caller of db_tidy() the others. */
struct db_replication {
    void *self;
    /* Before COMMIT. It is asked again with the same answer when the disk was full. */
    void (*next)(void *self, struct db_turn *turn);
    /* After COMMIT and its sync. The turn ends at frame `frames` of the write-ahead log. Returns when the turn cannot be lost any more. */
    void (*committed)(void *self, uint32_t frames);
    /* Between two turns, never before the first one is in: whether the whole write-ahead log should be copied into the file soon. It is asked often. */
    bool (*wants_copy)(void *self);
    /* Between two turns: the file has all turns now. A later turn is copied into it at any time. */
    void (*copied)(void *self);
};
/* Call it once, right after db_open(); *r is copied. From the first db_commit_begin() or db_commit_write() on, each transaction that changes rows is a
 * turn, and has its number in the one row of the table `replicated`. The first turn also has what was written since db_open(). A turn
 * is copied from the write-ahead log into the file when `committed` has returned, and db_close() copies nothing. So a crash leaves a file that is like
 * the replicas, and at most one turn more in its write-ahead log. A file that has turns already counts as this process's own (db_copied_ms()). */
void db_replicate(struct db *db, const struct db_replication *r);
/* Whether the open transaction will be a turn. Its commit waits for `committed`: use db_commit_begin() or db_commit_write(). */
bool db_has_turn(const struct db *db);

/* Copies the WAL in smaller pieces than usual: a commit waits until the piece that is being
 * synced is on disk. For databases whose rows are only appended, because a page that is
 * written often is then copied more often. */
void db_copy_in_pieces(struct db *db, int bytes);
/* This verifier reads the file, until the next call with NULL: it leaves its table when the
 * WAL has to be restarted. */
struct verifier;
void db_verify_with(struct db *db, struct verifier *v);
/* Call it between two turns: keeps the WAL short (wal.h). It is cheap if the WAL is short. */
void db_tidy(struct db *db);
/* The bytes that can still be written: free on the file system, and free inside the file,
 * which never shrinks. */
int64_t db_free_bytes(struct db *db);
/* The used bytes of the file, without its WAL. */
int64_t db_used_bytes(struct db *db);
/* Whether that is more than one `part`th of the space that there is. The disk is shared, so
 * then rows that may be deleted are deleted earlier. false if the disk is too full for a
 * deletion. */
bool db_over_share(struct db *db, int part);
int64_t db_size_bytes(const struct db *db); /* with its WAL */
/* The size of the -wal file, which is reused and only seldom shrinks. */
int64_t db_wal_bytes(const struct db *db);
/* How long it took to copy from the WAL into the file the last time; -1: it was not done yet. */
int64_t db_checkpoint_us(const struct db *db);

/* Inside a transaction: from now on rows that are deleted or changed are overwritten with zeros at
 * once, until db_scrub() has ended. (At other times only where that costs no write.) */
void db_erasing(struct db *db);
/* The same, then in steps of a turn each: overwrites all unused pages of the file, copies the
 * write-ahead log into the file, and empties it. Returns true when that is done; false: call it in the next
 * turn again. A crash leaves a table `erase_fill`, which the next call continues with. */
bool db_scrub(struct db *db);

/* Makes a consistent copy while the process works (backup.h): start, then step between turns until it
 * returns GR_OK. On GR_REFUSE `why` has the reason, and the incomplete copy was removed. One at a time. */
GR_MUST_CHECK gr_rc db_backup_start(struct db *db, const char *path,
                                    char why[200]);
GR_MUST_CHECK gr_rc db_backup_step(struct db *db, char why[200]);
bool db_backup_running(const struct db *db);
int db_backup_wait_ms(
    const struct db *db); /* until a step is due; -1: none is running */

/* If the file is a copy: when that was made, ms (db_origin.c). For a copy without a stamp:
 * when it was last written, to about 10 s, or 1 if that is unknown. 0: it is the file that
 * its process wrote. A copy stays one until db_adopt(). */
int64_t db_copied_ms(const struct db *db);
/* Whether the copy has the stamp of `grapnel backup` or `grapnel restore`. */
bool db_stamped(const struct db *db);
/* Of a copy: who restored it, and from which folder, as `grapnel restore` noted; "": unknown. */
const char *db_restored_by(const struct db *db);
const char *db_restored_from(const struct db *db);
/* Inside a transaction: after its commit the file belongs to this process. */
void db_adopt(struct db *db);
/* Inside a transaction, at any time: notes when something was written, in a transaction
 * that writes anyway and every 10 s. `last`: now, in any case. */
void db_note_written(struct db *db, int64_t now_ms, bool last);
/* Prepares an open copy: gives it a stamp (unless it has one), and removes its -wal. */
GR_MUST_CHECK gr_rc db_copy_finish(sqlite3 *h, int64_t copied_ms,
                                   char why[200]);
/* The same for a file that no process has open, with the pages of a -wal beside it, after
 * checking that it is not damaged and has `table`. Notes in it who restores it, and from where. *copied_ms: the time of its content.
 * GR_REFUSE: `why` has the reason; the file may have been changed. */
GR_MUST_CHECK gr_rc db_copy_prepare(const char *path, const char *table,
                                    const char *actor, const char *folder,
                                    int64_t *copied_ms, char why[200]);

#endif
