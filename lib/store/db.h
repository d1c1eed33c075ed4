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

/* A store's schema, twice (docs/decisions/0060): a new file is made by `create`, and an
 * older file brought forward by the steps that it lacks: steps[i] brings user_version
 * from i to i+1. Either is one transaction, at the file's opening: a crash leaves the old
 * schema or the new. A file with a later version than `count` is refused (exit 74) and
 * not changed. db_origin.c makes its own tables. */
struct db_schema {
    const char *create; /* NULL: a new file takes all the steps */
    const char *const *steps;
    int count;           /* of steps: today's version */
    const char *program; /* for messages: "grapnel-ingress" */
    int page_bytes;      /* of a new file; 0: SQLite's own */
    /* One that steps[0] makes, and no other kind of file has: a file without it
     * is refused (exit 74). NULL: not checked. */
    const char *table;
};

/* Open or create. The file is checked first (a copied or torn one stops us
 * with 74 and the way out). Never returns NULL. */
struct db *db_open(const char *path, const struct db_schema *schema);
void db_close(struct db *db);
const char *db_path(const struct db *db);
sqlite3 *db_handle(struct db *db);

/* Run statements that return nothing (start-up only). */
void db_exec(struct db *db, const char *sql);

void db_begin(struct db *db);
/* GR_AGAIN: the disk is full, the turn was rolled back. */
GR_MUST_CHECK gr_rc db_commit(struct db *db);
/* The same in a thread of its own: begin, do what has nothing to do with this
 * database, end (which waits, and says what db_commit() would have said). */
void db_commit_begin(struct db *db);
int db_commit_fd(const struct db *db); /* readable when the end won't wait */
GR_MUST_CHECK gr_rc db_commit_end(struct db *db);
/* Many reads outside of a turn's transaction as one: without it each takes and
 * leaves the file's locks. Writes nothing. */
void db_read_begin(struct db *db);
void db_read_end(struct db *db);
/* The transaction now open has hit a full disk; nothing more is written. */
bool db_full(const struct db *db);
/* Rows that the transaction now open has changed so far. */
bool db_dirty(const struct db *db);

/* A prepared statement, finalized by db_close(). Bind with the bind functions
 * (index from 1), then step: true is a row. Strings and bytes are borrowed
 * until the statement is reset, which db_done() does; call it always. db_run()
 * is step to the end and reset, for statements without rows. */
typedef struct sqlite3_stmt stmt;
stmt *db_prepare(struct db *db, const char *sql);
/* A statement, and the place of its pointer in a struct (offsetof). */
struct db_statement {
    size_t at;
    const char *sql;
};
/* Prepare each of them, into that struct. */
void db_prepare_all(struct db *db, void *into, const struct db_statement *list,
                    size_t count);
void bind_i64(stmt *s, int i, int64_t v);
void bind_text(stmt *s, int i, const char *v); /* NULL binds NULL */
void bind_str(stmt *s, int i,
              struct bytes v); /* text that need not end with 0 */
void bind_blob(stmt *s, int i, struct bytes v);
bool db_step(struct db *db, stmt *s);
void db_done(stmt *s);
void db_run(struct db *db, stmt *s);
/* The same for one that yields a number: the last row's first column; `none` when
 * there is no row, or NULL in it. */
int64_t db_number(struct db *db, stmt *s, int64_t none);
/* Rows changed by the last db_run(). */
int db_changes(struct db *db);
int64_t col_i64(stmt *s, int i);
const char *col_text(stmt *s, int i);  /* "" for NULL; until next step */
struct bytes col_blob(stmt *s, int i); /* until next step */
bool col_null(stmt *s, int i);

/* Copy the WAL back in smaller pieces than usual: a commit waits for the disk until
 * the piece that is being synced is on it. For rows that are only appended, as a page
 * that is written often is copied more often then. */
void db_copy_in_pieces(struct db *db, int bytes);
/* This one reads the file (verifier.h), until NULL is said: it leaves a table when the WAL
 * has to be begun anew. */
struct verifier;
void db_verify_with(struct db *db, struct verifier *v);
/* Between two turns: keep the WAL short (wal.h). Cheap when it is. */
void db_tidy(struct db *db);
/* Bytes that can still be written: free on the file's file system, and free
 * inside the file, which never shrinks. */
int64_t db_free_bytes(struct db *db);
/* Bytes of the file that hold something; its WAL is not counted. */
int64_t db_used_bytes(struct db *db);
/* Is that more than one `part`th of what there is space for? Others live on that
 * disk, too: what may be forgotten goes then, before its time. No, when the disk is
 * too full to forget anything. */
bool db_over_share(struct db *db, int part);
int64_t db_size_bytes(const struct db *db); /* with its WAL */

/* A consistent copy while we go on: start, then step between turns until it
 * says GR_OK. Steps of a bounded number of pages. On GR_REFUSE `why` says what
 * is wrong and the half-made copy is gone. One at a time. */
GR_MUST_CHECK gr_rc db_backup_start(struct db *db, const char *path,
                                    char why[200]);
GR_MUST_CHECK gr_rc db_backup_step(struct db *db, char why[200]);
bool db_backup_running(const struct db *db);

/* When the copy was made that this file is, ms (db_origin.c); of a copy without a
 * stamp, when it was last written, to about 10 s, or 1 when that is not known. 0: it
 * is the file that its process wrote. A copy stays one until db_adopt(). */
int64_t db_copied_ms(const struct db *db);
/* … and carries the stamp of `grapnel backup` or `grapnel restore`. */
bool db_stamped(const struct db *db);
/* Inside a transaction: from its commit on the file belongs to this process. */
void db_adopt(struct db *db);
/* Inside a transaction, at any time: notes that something was written, in a
 * transaction that writes anyway and every 10 s. `last`: now, in any case. */
void db_note_written(struct db *db, int64_t now_ms, bool last);
/* A copied file, open: give it a stamp (one that it has stays), and no -wal. */
GR_MUST_CHECK gr_rc db_copy_finish(sqlite3 *h, int64_t copied_ms,
                                   char why[200]);
/* The same of a file that no process has open, with the pages in a -wal beside it,
 * after a check that it is sound and has `table`. *copied_ms: the time of its
 * content. GR_REFUSE: `why` says what is wrong; the file may have been changed. */
GR_MUST_CHECK gr_rc db_copy_prepare(const char *path, const char *table,
                                    int64_t *copied_ms, char why[200]);

#endif
