/* backup: copies a SQLite file in steps, and lets the kernel write each of them at once. */
#include "backup.h"
#include "alloc.h"
#include "clock.h"
#include "db.h"
#include "folder.h"
#include "worker.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STEP_BYTES = 256 * 1024,
    STEP_MS = 4,
    STEPS_AT_ONCE = 4,
};

struct backup {
    sqlite3 *to;
    sqlite3_backup *job; /* NULL: all pages are copied */
    char *path, *part;   /* the file has the second name until it is complete */
    int fd;
    int step_pages;
    int64_t due_ms;    /* mono; of the next step */
    int64_t copied_ms; /* when all pages were */
    bool kept;
    /* Makes the copy complete. While it runs, what follows and `to` are its own. */
    struct worker *finisher;
    bool finishing;
    gr_rc finished;
    char why[200];
};

/* The copy, and what SQLite has left beside it. */
static void remove_part(const struct backup *b)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};

    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        char *path = gr_printf("%s%s", b->part, suffixes[i]);

        unlink(path);
        free(path);
    }
}

static int page_bytes_of(sqlite3 *h)
{
    sqlite3_stmt *s = NULL;
    int n = 0;

    if (sqlite3_prepare_v2(h, "PRAGMA page_size", -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return n > 0 ? n : 4096;
}

/* In the thread. The stamp says that the copy is complete, so it follows the rest. */
static bool is_stamped(struct backup *b)
{
    if (fdatasync(b->fd) != 0)
        sqlite3_snprintf(sizeof b->why, b->why, "%s: %s", b->path,
                         strerror(errno));
    else if (sqlite3_exec(b->to, "PRAGMA synchronous = FULL", NULL, NULL,
                          NULL) != SQLITE_OK)
        sqlite3_snprintf(sizeof b->why, b->why, "%s: %s", b->path,
                         sqlite3_errmsg(b->to));
    else
        return db_copy_finish(b->to, b->copied_ms, b->why) == GR_OK;
    return false;
}

static void finish(void *arg)
{
    struct backup *b = arg;

    b->finished = GR_REFUSE;
    if (!is_stamped(b))
        return;
    if (rename(b->part, b->path) == 0) {
        if (sync_folder_of(b->path)) {
            b->finished = GR_OK;
            return;
        }
        unlink(b->path);
    }
    sqlite3_snprintf(sizeof b->why, b->why, "%s: %s", b->path, strerror(errno));
}

/* The file, empty. What a killed process has left of an earlier copy is in nobody's way. */
static bool make_file(struct backup *b, char why[200])
{
    if (access(b->path, F_OK) == 0) {
        sqlite3_snprintf(200, why, "%s already exists", b->path);
        return false;
    }
    remove_part(b);
    b->fd = open(b->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (b->fd < 0)
        sqlite3_snprintf(200, why, "cannot create %s: %s", b->path,
                         strerror(errno));
    return b->fd >= 0;
}

/* Nothing that a step writes has to be on the disk before finish(). */
static bool open_file(struct backup *b, sqlite3 *from, char why[200])
{
    if (sqlite3_open(b->part, &b->to) == SQLITE_OK &&
        sqlite3_exec(b->to, "PRAGMA synchronous = OFF", NULL, NULL, NULL) ==
            SQLITE_OK)
        b->job = sqlite3_backup_init(b->to, "main", from, "main");
    if (!b->job)
        sqlite3_snprintf(200, why, "%s: %s", b->path, sqlite3_errmsg(b->to));
    return b->job != NULL;
}

static bool open_finisher(struct backup *b, char why[200])
{
    b->finisher = worker_try_open(finish, b);
    if (!b->finisher)
        sqlite3_snprintf(200, why, "cannot start a thread: %s",
                         strerror(errno));
    return b->finisher != NULL;
}

struct backup *backup_begin(sqlite3 *from, const char *path, char why[200])
{
    struct backup *b = gr_alloc(sizeof *b);

    b->fd = -1;
    b->path = gr_strdup(path);
    b->part = gr_printf("%s.part", path);
    b->step_pages = STEP_BYTES / page_bytes_of(from);
    b->due_ms = mono_ms();
    if (make_file(b, why) && open_file(b, from, why) && open_finisher(b, why))
        return b;
    backup_end(b);
    return NULL;
}

static gr_rc take_end(struct backup *b, char why[200])
{
    struct pollfd ended = {.fd = worker_fd(b->finisher), .events = POLLIN};

    if (poll(&ended, 1, 0) <= 0) {
        b->due_ms = mono_ms() + STEP_MS;
        return GR_AGAIN;
    }
    worker_end(b->finisher);
    b->finishing = false;
    b->kept = b->finished == GR_OK;
    if (!b->kept)
        memcpy(why, b->why, sizeof b->why);
    return b->finished;
}

/* How many steps are due, at least one. */
static int steps_due(struct backup *b)
{
    int64_t now = mono_ms(), n = (now - b->due_ms) / STEP_MS + 1;

    n = n < 1 ? 1 : n > STEPS_AT_ONCE ? STEPS_AT_ONCE : n;
    b->due_ms += n * STEP_MS;
    if (b->due_ms < now)
        b->due_ms = now;
    return (int)n;
}

gr_rc backup_step(struct backup *b, char why[200])
{
    int rc;

    if (b->finishing)
        return take_end(b, why);
    rc = sqlite3_backup_step(b->job, steps_due(b) * b->step_pages);
    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        sync_file_range(b->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* a hint */
        return GR_AGAIN;
    }
    if (rc != SQLITE_DONE) {
        sqlite3_snprintf(200, why, "%s: %s", b->path, sqlite3_errstr(rc));
        return GR_REFUSE;
    }
    sqlite3_backup_finish(b->job);
    b->job = NULL;
    b->copied_ms = now_ms();
    b->finishing = true;
    worker_begin(b->finisher);
    return GR_AGAIN;
}

int backup_wait_ms(const struct backup *b)
{
    int64_t left_ms = b->due_ms - mono_ms();

    return left_ms > 0 ? (int)left_ms : 0;
}

const char *backup_path(const struct backup *b)
{
    return b->path;
}

void backup_end(struct backup *b)
{
    if (!b)
        return;
    if (b->finishing)
        worker_end(b->finisher);
    worker_close(b->finisher);
    sqlite3_backup_finish(b->job);
    sqlite3_close(b->to);
    if (b->fd >= 0) {
        close(b->fd); /* after SQLite's, whose locks it would release */
        if (!b->kept)
            remove_part(b);
    }
    free(b->path);
    free(b->part);
    free(b);
}
