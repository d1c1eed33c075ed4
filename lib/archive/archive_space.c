/* archive_space: measures the disk and the archive, and deletes processed requests. */
#include "archive_space.h"
#include "archive.h"
#include "clock.h"
#include "links.h"
#include "log.h"
#include "retention.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    LOOK_MS = 1000,
    MARK_PERCENT = 5,
    MARK_MAX_MIB = 256,
    PURGE_COUNT = 64, /* per turn when it is full, or as many as came */
    PURGE_ROOM_BYTES = 8 * 1024 *
                       1024, /* on the disk: what one step may write */
};

int64_t archive_space_mark_bytes(int64_t total_bytes)
{
    int64_t part = total_bytes / 100 * MARK_PERCENT;
    int64_t max = MARK_MAX_MIB * 1024LL * 1024;

    return part < max ? part : max;
}

const char *archive_refusal_name(enum archive_refusal r)
{
    return r == ARCHIVE_DISK_LOW       ? "disk_low"
           : r == ARCHIVE_BACKLOG_FULL ? "backlog_full"
                                       : "";
}

enum archive_refusal archive_space_judge(const struct archive_space *r)
{
    if (r->free_bytes < r->mark_bytes)
        return ARCHIVE_DISK_LOW;
    if (r->used_bytes > r->max_bytes)
        return ARCHIVE_BACKLOG_FULL;
    return ARCHIVE_HAS_SPACE;
}

int64_t archive_space_share_bytes(const struct archive_space *r)
{
    int64_t half = (r->used_bytes + r->free_bytes) / 2;

    return half < r->max_bytes ? half : r->max_bytes;
}

static void look(struct archive_space *r, struct archive_store *store)
{
    struct statvfs fs;

    if (statvfs(db_path(store->db), &fs) == 0) {
        r->mark_bytes = archive_space_mark_bytes((int64_t)fs.f_blocks *
                                                 (int64_t)fs.f_frsize);
        r->disk_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    }
    r->free_bytes = db_free_bytes(store->db);
    r->used_bytes = db_used_bytes(store->db);
}

static void read_ends(struct archive_space *r, struct archive_store *store)
{
    char id[EVENT_ID_BYTES + 1];

    archive_ends(store, &r->first_n, &r->last_n, id);
    if (!r->last_n)
        r->first_n = 1; /* an empty archive */
}

void archive_space_open(struct archive_space *r, struct archive_store *store,
                        const struct settings *s)
{
    r->max_bytes = s->ingress.archive_max_bytes;
    read_ends(r, store);
    look(r, store);
    r->refusal = archive_space_judge(r);
}

void archive_space_took(struct archive_space *r, int64_t n, int64_t bytes)
{
    if (r->last_n < r->first_n)
        r->first_n = n;
    r->last_n = n;
    r->brought++;
    r->brought_bytes += bytes;
    r->added++;
    r->added_bytes += bytes;
    r->used_bytes += bytes;
    r->free_bytes -= 2 * bytes; /* in the write-ahead log, then in the file */
}

void archive_space_undo(struct archive_space *r, struct archive_store *store)
{
    archive_store_undo(store);
    read_ends(r, store);
    look(r, store);
    r->purging = false;
    r->flooder_at_n = 0; /* its rows are back */
    r->ages = (struct ages){0};
}

/* How much the archive may hold before processed requests are deleted for new ones. Deleting writes to
 * the write-ahead log first, so on the very last space nothing is deleted for the share. */
static int64_t limit_bytes(const struct archive_space *r)
{
    return r->disk_bytes < PURGE_ROOM_BYTES ? r->max_bytes
                                            : archive_space_share_bytes(r);
}

/* How much a turn may delete when the archive is full: never less than what has come. */
static int64_t max_rows(const struct archive_space *r)
{
    return r->brought > PURGE_COUNT ? r->brought : PURGE_COUNT;
}

static int64_t max_bytes(const struct archive_space *r)
{
    return r->brought_bytes > TURN_MAX_BYTES ? r->brought_bytes
                                             : TURN_MAX_BYTES;
}

static void purged(struct archive_space *r, struct archive_store *store)
{
    int64_t used = r->used_bytes;

    r->used_bytes = db_used_bytes(store->db);
    r->free_bytes += used - r->used_bytes;
    r->purging = true;
}

/* A source that has more than half of the archive, while others have something, loses its own
 * processed requests first. The last rows stay, because the next id is made from them. One
 * limited step, which also passes rows of others; false: it has no more processed requests. */
static bool purge_flooder(struct archive_space *r, struct archive_store *store,
                          int64_t handed_n, int64_t *n)
{
    const char *name = archive_usage_flooder(&store->usage, limit_bytes(r));
    int64_t max_n = r->last_n - IDS_APART, at;

    if (!name)
        return false;
    if (strcmp(r->flooder, name) != 0) {
        snprintf(r->flooder, sizeof r->flooder, "%s", name);
        r->flooder_at_n = 0;
        log_info(NULL,
                 "a source uses more than half of the archive; its oldest "
                 "processed requests are deleted before those of others",
                 LS("source", name));
    }
    if (max_n > handed_n)
        max_n = handed_n;
    at = r->flooder_at_n;
    *n = archive_purge_source(store, r->flooder, &r->flooder_at_n, max_n,
                              handed_n, (int)max_rows(r), max_bytes(r));
    if (r->flooder_at_n == at)
        return false;
    purged(r, store);
    return true;
}

/* Delete processed requests up to this one, the oldest first. One limited step. */
static int64_t purge_upto(struct archive_space *r, struct archive_store *store,
                          struct links *links, int64_t max_n, int rows,
                          int64_t bytes)
{
    int64_t handed_n = (int64_t)links_cursor(links, SEQUENCER), upto;

    if (max_n > handed_n)
        max_n = handed_n;
    if (max_n > r->last_n)
        max_n = r->last_n;
    if (r->first_n > max_n)
        return 0;
    upto = archive_purge(store, max_n, handed_n, rows, bytes);
    if (!upto)
        return 0;
    links_floor(links, SEQUENCER, (uint64_t)upto + 1);
    r->first_n = upto + 1;
    purged(r, store);
    return store->purged;
}

/* The archive exceeds its limit. */
static int64_t purge_full(struct archive_space *r, struct archive_store *store,
                          struct links *links)
{
    int64_t handed_n = (int64_t)links_cursor(links, SEQUENCER), n = 0;

    r->purging = false;
    if (purge_flooder(r, store, handed_n, &n))
        return n;
    return purge_upto(r, store, links, handed_n, (int)max_rows(r),
                      max_bytes(r));
}

/* Delete those that are older than `keep`. */
static int64_t purge_old(struct archive_space *r, struct archive_store *store,
                         struct links *links, int64_t before_ms, int64_t now_ms,
                         int64_t mono_ms)
{
    int rows = purge_pace_step(&r->pace, mono_ms, r->added);
    int64_t bytes = TURN_MAX_BYTES + (r->pace.left ? r->added_bytes : 0), gone;

    if (!rows)
        return 0;
    r->purging = false;
    archive_ages(store, before_ms, now_ms, rows, &r->ages);
    gone = purge_upto(r, store, links, r->ages.old_n, rows, bytes);
    r->added_bytes = 0;
    purge_pace_stepped(&r->pace, r->purging);
    return gone;
}

static void log_when_it_changes(struct archive_space *r)
{
    enum archive_refusal now = archive_space_judge(r);

    if (now == r->refusal)
        return;
    if (now)
        log_warn(NULL,
                 "new events are refused: free disk space, or raise "
                 "ingress.archive.max_size",
                 LS("reason", archive_refusal_name(now)),
                 LI("free_bytes", r->free_bytes),
                 LI("mark_bytes", r->mark_bytes),
                 LI("archive_bytes", r->used_bytes));
    else
        log_info(NULL, "new events are accepted again",
                 LI("free_bytes", r->free_bytes),
                 LI("archive_bytes", r->used_bytes));
    r->refusal = now;
}

int64_t archive_space_work(struct archive_space *r, struct archive_store *store,
                           struct links *links, const struct settings *s,
                           const struct retention *retention, int64_t now_ms,
                           int64_t mono_ms, int *wait_ms)
{
    int64_t gone = 0;
    bool full, due = !r->looked_ms || mono_ms - r->looked_ms >= LOOK_MS;

    r->max_bytes = s->ingress.archive_max_bytes;
    due |= archive_space_judge(r) != r->refusal; /* counted only: measure */
    if (due) {
        look(r, store);
        r->looked_ms = mono_ms;
    }
    full = r->used_bytes > limit_bytes(r);
    if (full)
        gone = purge_full(r, store, links);
    else if (due || r->purging)
        gone = purge_old(
            r, store, links,
            retention_before(retention, now_ms, s->ingress.archive_keep_ms),
            now_ms, mono_ms);
    r->brought = r->brought_bytes = 0;
    if (gone || mono_ms - store->usage.written_ms >= LOOK_MS)
        archive_usage_write(&store->usage, mono_ms);
    log_when_it_changes(r);
    *wait_ms = !r->purging ? (int)(r->looked_ms + LOOK_MS - mono_ms)
               : full      ? 0
                           : purge_pace_wait_ms(&r->pace, mono_ms);
    return gone;
}
