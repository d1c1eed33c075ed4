/* turn: starts reconcile, runs its turns, and ends it. reconcile_work() stores the events that walks have found;
 * the thread of each walk does nothing but requests. */
#include "archive_erase.h"
#include "reconcile.h"
#include "stores.h"

extern const char reconcile_store_sql[];
extern const char *const reconcile_upgrades[];
const struct db_schema reconcile_schema = {.create = reconcile_store_sql,
                                           .steps = reconcile_upgrades,
                                           .count = RECONCILE_SCHEMA,
                                           .page_bytes = ARCHIVE_PAGE_BYTES,
                                           .program = "grapnel-reconcile",
                                           .table = "walks"};

void reconcile_open(void *self)
{
    struct reconciler *r = self;

    archive_open(&r->archive);
    buf_init(&r->headers, HEADERS_MAX_BYTES);
    buf_init(&r->message, LINK_KEPT_MAX_BYTES);
    walk_store_open(&r->rows, r->daemon.db);
    walks_open(r);
}

/* Once per metrics.interval, because it reads rows. */
void reconcile_measure(void *self)
{
    struct reconciler *r = self;
    const struct archive_space *space = &r->archive.space;

    r->counts[COUNT_REPLAYED] = r->archive.replayed;
    r->counts[COUNT_ARCHIVE_ROWS] = space->last_n - space->first_n + 1;
    r->counts[COUNT_ARCHIVE_BYTES] = space->used_bytes;
    r->counts[COUNT_FREE_BYTES] = space->free_bytes;
    r->counts[COUNT_BACKLOG] = (int64_t)links_backlog(r->daemon.links,
                                                      SEQUENCER);
    walks_measure(r);
    series_set(METRIC_SERIES(r->daemon.metrics, FAMILY_OLDEST, NULL),
               archive_oldest_ms(&r->archive));
}

int reconcile_work(void *self)
{
    struct reconciler *r = self;
    struct loop *loop = &r->daemon.loop;
    int space_ms, wait_ms;

    if (loop->stopping && !r->stopping_ms)
        r->stopping_ms = loop->mono_ms;
    r->counts[COUNT_PURGED] += archive_space_work(
        &r->archive.space, &r->archive.store, r->daemon.links,
        r->daemon.settings, &r->daemon.retention, loop->now_ms, loop->mono_ms,
        &space_ms);
    wait_ms = walks_work(r);
    /* What was found before a watermark request is stored now. */
    r->archive.watermark.fresh = false;
    r->archive.watermark.next = links_next(r->daemon.links, SEQUENCER);
    return loop_sooner(wait_ms, space_ms);
}

void reconcile_frame(void *self, int kind, struct bytes frame)
{
    watermark_frame(self, kind, frame);
}

void reconcile_after_commit(void *self)
{
    struct reconciler *r = self;

    watermark_flush(&r->archive);
    walks_after_commit(r);
}

void reconcile_undo(void *self)
{
    struct reconciler *r = self;

    archive_undo(&r->archive);
    walks_undo(r);
}

/* Stop when no request is under way, or when shutdown_grace has passed. */
bool reconcile_stopped(void *self)
{
    struct reconciler *r = self;

    return r->stopping_ms &&
           (walks_idle(r) || r->daemon.loop.mono_ms - r->stopping_ms >=
                                 r->daemon.settings->shutdown_grace_ms);
}

void reconcile_erase(void *self, struct erase_step *s)
{
    struct reconciler *r = self;

    archive_erase(&r->archive, s);
}

const char *reconcile_state(void *self, bool *ready)
{
    struct reconciler *r = self;

    *ready = !r->archive.space.refusal && walks_good(r);
    switch (r->archive.space.refusal) {
    case ARCHIVE_HAS_SPACE:
        return *ready ? "comparing lists of providers"
                      : "waiting for the list of a provider";
    case ARCHIVE_DISK_LOW:
        return "storing no events: little disk space is free";
    default:
        return "storing no events: unprocessed events fill "
               "ingress.archive.max_size";
    }
}

void reconcile_close(void *self)
{
    struct reconciler *r = self;

    walks_close(r);
    archive_close(&r->archive);
    buf_fini(&r->headers);
    buf_fini(&r->message);
}

bool reconcile_load(void *self, const char *peer, uint64_t n, int kind,
                    int64_t ref, struct buf *out)
{
    struct reconciler *r = self;

    (void)peer;
    (void)n; /* equals ref */
    return kind == KIND_ARCHIVED && archive_load(&r->archive.store, ref, out);
}
