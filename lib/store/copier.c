/* copier: a thread that copies the write-ahead log into the database file. */
#include "copier.h"
#include "alloc.h"
#include "clock.h"
#include "log.h"
#include "wal_buffer.h"
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>

struct copier {
    char *path;
    const char *layer; /* wal_buffer_vfs() */
    pthread_t thread;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t wake, done;
    bool requested, copying, stop;
    int copied;      /* pages of the present WAL that are in the file */
    int seen;        /* pages of the WAL at the last question */
    int64_t took_us; /* the last copy; -1: there was none */
    /* Used by the thread only. */
    int64_t warned_ms; /* mono; 0: never */
};

void copier_check(const char *path, int rc)
{
    if (rc == SQLITE_IOERR_FSYNC)
        die(EXIT_STORAGE,
            "%s: fsync failed. Nothing is lost: the data is in the write-ahead "
            "log and is copied again at the next start",
            path);
}

static sqlite3 *open_beside(const char *path, const char *layer)
{
    sqlite3 *h = NULL;

    if (sqlite3_open_v2(path, &h, SQLITE_OPEN_READWRITE, layer) != SQLITE_OK)
        die(EXIT_STORAGE, "%s: cannot open a second connection: %s", path,
            h ? sqlite3_errmsg(h) : "out of memory");
    sqlite3_extended_result_codes(h, 1);
    sqlite3_busy_timeout(h, 1000);
    sqlite3_wal_autocheckpoint(h, 0);
    /* A connection that has not read anything does not know that there is a WAL; its
     * checkpoints would do nothing, without an error. */
    if (sqlite3_exec(h, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL) !=
        SQLITE_OK)
        die(EXIT_STORAGE, "cannot read %s: %s", path, sqlite3_errmsg(h));
    return h;
}

/* Warns once a minute that the WAL grows, with the reason. */
static void warn(struct copier *c, int rc)
{
    bool usual = rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED ||
                 rc == SQLITE_FULL;

    if (usual || (c->warned_ms && mono_ms() - c->warned_ms < MINUTE_MS))
        return;
    c->warned_ms = mono_ms();
    log_warn(NULL,
             "the write-ahead log cannot be copied into its database and "
             "grows; nothing is lost",
             LS("file", c->path), LS("error", sqlite3_errstr(rc)));
}

/* Copies pages. A busy or full disk does no harm here, because the WAL has everything. Then
 * the file is synced: SQLite syncs it only when the whole WAL was copied, which is the
 * loop's part, and the loop would have to wait for all that this thread has written
 * (measured: 9 ms for each 32 MiB, now 1 ms). */
static int copy(struct copier *c, sqlite3 *h)
{
    sqlite3_file *file = NULL;
    int copied = 0;
    int rc = sqlite3_wal_checkpoint_v2(h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                                       &copied);

    sqlite3_file_control(h, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
    copier_check(c->path, rc);
    warn(c, rc);
    return copied > 0 ? copied : 0;
}

/* The copy may have reached further than the log was at the last question. After an error the earlier
 * number is right. Both must not look like pages that are still to be copied: see copier_begin(). */
static void note_copied(struct copier *c, int copied)
{
    if (copied == 0)
        return;
    c->copied = copied;
    if (c->seen < copied)
        c->seen = copied;
}

static void *copier_main(void *arg)
{
    struct copier *c = arg;
    sqlite3 *h = open_beside(c->path, c->layer);
    int64_t begun_us;
    int copied;

    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (!c->requested) {
            pthread_cond_wait(&c->wake, &c->lock);
            continue;
        }
        c->requested = false;
        c->copying = true;
        pthread_mutex_unlock(&c->lock);
        begun_us = mono_us();
        copied = copy(c, h);
        pthread_mutex_lock(&c->lock);
        c->took_us = mono_us() - begun_us;
        note_copied(c, copied);
        c->copying = false;
        pthread_cond_signal(&c->done);
    }
    pthread_mutex_unlock(&c->lock);
    sqlite3_close(h);
    return NULL;
}

struct copier *copier_open(const char *path)
{
    struct copier *c = gr_alloc(sizeof *c);

    c->path = gr_strdup(path);
    c->layer = wal_buffer_vfs();
    c->took_us = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->done, NULL);
    if (pthread_create(&c->thread, NULL, copier_main, c) != 0)
        die(EXIT_UNAVAILABLE, "%s: can't start the checkpoint thread", path);
    return c;
}

static void wake(struct copier *c, bool stop)
{
    pthread_mutex_lock(&c->lock);
    c->requested = true;
    c->stop = stop;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

void copier_close(struct copier *c)
{
    wake(c, true);
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->done);
    free(c->path);
    free(c);
}

void copier_begin(struct copier *c)
{
    wake(c, false);
}

void copier_pause(struct copier *c)
{
    pthread_mutex_lock(&c->lock);
    c->requested = false;
    while (c->copying)
        pthread_cond_wait(&c->done, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

int copier_rest(struct copier *c, int wal_pages)
{
    int rest;

    pthread_mutex_lock(&c->lock);
    if (wal_pages < c->seen)
        c->copied = 0;
    c->seen = wal_pages;
    rest = c->requested || c->copying ? -1 : wal_pages - c->copied;
    pthread_mutex_unlock(&c->lock);
    return rest;
}

int64_t copier_took_us(struct copier *c)
{
    int64_t us;

    pthread_mutex_lock(&c->lock);
    us = c->took_us;
    pthread_mutex_unlock(&c->lock);
    return us;
}

void copier_note(struct copier *c, int64_t took_us)
{
    pthread_mutex_lock(&c->lock);
    c->took_us = took_us;
    pthread_mutex_unlock(&c->lock);
}
