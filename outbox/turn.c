/* turn: starts outbox, runs its turns, and ends it. outbox_work() stores the rows that relays have taken;
 * after the commit, outbox_after_commit() lets them commit the transactions of their databases. */
#include "archive_erase.h"
#include "clock.h"
#include "log.h"
#include "outbox.h"
#include "stores.h"

extern const char outbox_store_sql[];
extern const char *const outbox_upgrades[];
const struct db_schema outbox_schema = {.create = outbox_store_sql,
                                        .steps = outbox_upgrades,
                                        .count = OUTBOX_SCHEMA,
                                        .page_bytes = ARCHIVE_PAGE_BYTES,
                                        .program = "grapnel-outbox",
                                        .table = "outcomes"};

enum {
    COPY_BYTES = 512 * 1024
}; /* per step; rows are only appended to the WAL */

void outbox_open(void *self)
{
    struct outbox *o = self;

    db_copy_in_pieces(o->daemon.db, COPY_BYTES);
    archive_open(&o->archive);
    buf_init(&o->body, BODY_MAX_BYTES);
    buf_init(&o->headers, HEADERS_MAX_BYTES);
    buf_init(&o->message, LINK_KEPT_MAX_BYTES);
    outcomes_open(o);
    relays_open(o);
}

/* Once per metrics.interval, because it reads a row. */
void outbox_measure(void *self)
{
    struct outbox *o = self;
    const struct archive_space *space = &o->archive.space;

    o->counts[COUNT_REPLAYED] = o->archive.replayed;
    o->counts[COUNT_ARCHIVE_ROWS] = space->last_n - space->first_n + 1;
    o->counts[COUNT_ARCHIVE_BYTES] = space->used_bytes;
    o->counts[COUNT_FREE_BYTES] = space->free_bytes;
    o->counts[COUNT_BACKLOG] = (int64_t)links_backlog(o->daemon.links,
                                                      SEQUENCER);
    o->counts[COUNT_CONNECTED] = relays_connected(o);
    relays_measure(o);
    series_set(METRIC_SERIES(o->daemon.metrics, FAMILY_OLDEST, NULL),
               archive_oldest_ms(&o->archive));
}

int outbox_work(void *self)
{
    struct outbox *o = self;
    struct loop *loop = &o->daemon.loop;
    int space_ms, wait_ms;

    if (loop->stopping && !o->stopping_ms)
        o->stopping_ms = loop->mono_ms;
    o->counts[COUNT_PURGED] += archive_space_work(
        &o->archive.space, &o->archive.store, o->daemon.links,
        o->daemon.settings, &o->daemon.retention, loop->now_ms, loop->mono_ms,
        &space_ms);
    outcomes_purge(o);
    wait_ms = relays_work(o);
    /* What was taken before a watermark request is stored now. */
    o->archive.watermark.fresh = false;
    o->archive.watermark.next = links_next(o->daemon.links, SEQUENCER);
    return loop_sooner(wait_ms, space_ms);
}

void outbox_frame(void *self, int kind, struct bytes frame)
{
    watermark_frame(self, kind, frame);
}

void outbox_after_commit(void *self)
{
    struct outbox *o = self;

    watermark_flush(&o->archive);
    relays_flush(o);
}

void outbox_undo(void *self)
{
    struct outbox *o = self;

    archive_undo(&o->archive);
    outcomes_undo(o);
    relays_undo(o);
}

/* Stop when no transaction of a database is open, or when shutdown_grace has passed: then the
 * database rolls it back, and its rows are taken again. */
bool outbox_stopped(void *self)
{
    struct outbox *o = self;

    return o->stopping_ms &&
           (relays_idle(o) || o->daemon.loop.mono_ms - o->stopping_ms >=
                                  o->daemon.settings->shutdown_grace_ms);
}

void outbox_erase(void *self, struct erase_step *s)
{
    struct outbox *o = self;

    archive_erase(&o->archive, s);
}

const char *outbox_state(void *self, bool *ready)
{
    struct outbox *o = self;

    *ready = !o->archive.space.refusal &&
             relays_connected(o) == (int64_t)o->relays.count;
    switch (o->archive.space.refusal) {
    case ARCHIVE_HAS_SPACE:
        return *ready ? "taking rows" : "waiting for the database of a relay";
    case ARCHIVE_DISK_LOW:
        return "taking no rows: little disk space is free";
    default:
        return "taking no rows: unprocessed events fill "
               "ingress.archive.max_size";
    }
}

void outbox_close(void *self)
{
    struct outbox *o = self;

    relays_close(o);
    archive_close(&o->archive);
    buf_fini(&o->body);
    buf_fini(&o->headers);
    buf_fini(&o->message);
}

bool outbox_load(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out)
{
    struct outbox *o = self;

    (void)peer;
    (void)n; /* equals ref */
    return kind == KIND_ARCHIVED && archive_load(&o->archive.store, ref, out);
}
