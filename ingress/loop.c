/* loop: ingress's turn. work() reads requests and inserts rows; tell() wakes
 * those whose rows are on disk, and the next turn writes their answers. */
#include "clock.h"
#include "ingress.h"
#include "log.h"
#include "siblings.h"
#include "stores.h"
#include "trace.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

enum {
    STALL_MS = 5000, /* a commit that takes longer: providers stop waiting */
    AWAY_MS = 2000,  /* a peer that has not been heard for so long */
    COPY_BYTES = 512 * 1024, /* of the WAL, which rows are only appended to */
};

static void set_bounds(struct ingress *g, const struct settings *s)
{
    g->bounds.max_body_bytes = s->ingress.max_body_bytes;
    g->bounds.max_connections = s->ingress.max_connections;
    g->bounds.read_timeout_ms = s->ingress.read_timeout_ms;
}

/* Ids ascend over restarts too: go on behind the last one that is on disk. */
static void resume_ids(struct ingress *g)
{
    char id[EVENT_ID_BYTES + 1], replayed[EVENT_ID_BYTES + 1];
    int64_t first, last;

    store_ends(&g->store, &first, &last, id);
    store_replays_last_id(&g->store.replays, replayed);
    if (strcmp(replayed, id) > 0)
        memcpy(id, replayed, sizeof id);
    if (id[0] &&
        (strncmp(id, "evt_", 4) != 0 || ulid_resume(&g->ids, id + 4) != GR_OK))
        log_warn(NULL, "the last event id in the archive is not a Grapnel id",
                 LS("event_id", id));
}

/* Tests shorten it. */
static int64_t stall_ms(void)
{
    const char *text = getenv("GRAPNEL_TEST_STALL_MS");
    int64_t ms = text ? strtoll(text, NULL, 10) : 0;

    return ms > 0 ? ms : STALL_MS;
}

static void open_all(void *self)
{
    struct ingress *g = self;
    const struct settings *s = g->daemon.settings;

    g->stall_ms = stall_ms();
    db_copy_in_pieces(g->daemon.db, COPY_BYTES);
    store_open(&g->store, g->daemon.db);
    hop_own_log(g->daemon.hop, SEQUENCER, KIND_ARCHIVED);
    resume_ids(g);
    room_open(&g->room, &g->store, s);
    intake_open(&g->intake);
    set_bounds(g, s);
    g->http = http_open(s->ingress.host, s->ingress.port, &g->bounds,
                        &intake_http_ops, g, siblings_are_there, &g->daemon);
    g->http_watch = loop_watch_fd(&g->daemon.loop, http_fd(g->http));
    g->daemon.loop.read_on_fd = http_fd(g->http);
    log_info(NULL, "listening", LS("host", s->ingress.host),
             LI("port", s->ingress.port));
}

static void publish(struct ingress *g)
{
    struct http_figures f = http_figures(g->http);

    g->counts[COUNT_CONNECTIONS] = f.connections;
    g->counts[COUNT_BODIES_BYTES] = f.body_bytes;
    g->counts[COUNT_PENDING] = g->intake.pending_count +
                               g->intake.batches.count;
    g->counts[COUNT_ARCHIVE_ROWS] = g->room.last_n - g->room.first_n + 1;
    g->counts[COUNT_ARCHIVE_BYTES] = g->room.used_bytes;
    g->counts[COUNT_BACKLOG] = (int64_t)hop_backlog(g->daemon.hop, SEQUENCER);
    g->counts[COUNT_PACED] = g->pace.on;
    g->counts[COUNT_ROOM_BYTES] = g->room.free_bytes;
}

/* Once per metrics.interval: takes a look at a row. */
static void measure(void *self)
{
    struct ingress *g = self;
    int64_t ms = store_received_after(
        &g->store, (int64_t)hop_cursor(g->daemon.hop, SEQUENCER));

    series_set(METRIC_SERIES(g->daemon.metrics, FAMILY_OLDEST, NULL),
               ms && ms < g->daemon.loop.now_ms ? g->daemon.loop.now_ms - ms
                                                : 0);
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

/* A sounding is answered when all that waited as it came has a number, batches to their
 * end: rows say when their request was received. */
static void store_pending(struct ingress *g)
{
    if (g->sounding.fresh)
        intake_sounding(&g->intake);
    g->sounding.fresh = false;
    intake_work(g);
    if (!g->intake.ahead_count)
        g->sounding.next = hop_next(g->daemon.hop, SEQUENCER);
}

/* ---- a disk that stalls ---- */

static void look_for_stall(struct ingress *g)
{
    int64_t since_ms = g->daemon.loop.disk_ms;

    if (!g->stalled_ms && mono_ms() - since_ms >= g->stall_ms) {
        g->stalled_ms = since_ms;
        log_warn(NULL, "the disk stalls: a write has not ended; answering 503",
                 LI("stalled_ms", mono_ms() - since_ms));
    }
    intake_give_up(g, g->stalled_ms != 0);
}

static void end_stall(struct ingress *g)
{
    if (!g->stalled_ms)
        return;
    log_info(NULL, "the disk has ended its write; taking events again",
             LI("stalled_ms", mono_ms() - g->stalled_ms));
    g->stalled_ms = 0;
}

/* The sequencer is there. */
static bool responds(struct ingress *g)
{
    struct hop_link l;
    int at = 0;

    while (hop_links(g->daemon.hop, &at, &l))
        if (l.out && strcmp(l.peer, SEQUENCER) == 0)
            return l.heard_ms && g->daemon.loop.mono_ms - l.heard_ms < AWAY_MS;
    return false;
}

/* The sequencer is there and takes events. */
static bool handing_on(struct ingress *g)
{
    return hop_backlog(g->daemon.hop, SEQUENCER) && responds(g);
}

/* Ten times a second is enough; pace.c sees to that. */
static void look_at_pace(struct ingress *g)
{
    bool was_on = g->pace.on;
    int64_t mono_ms = g->daemon.loop.mono_ms;

    pace_look(&g->pace,
              &(struct pace_facts){
                  .now_ms = mono_ms,
                  .cursor = hop_cursor(g->daemon.hop, SEQUENCER),
                  .backlog = hop_backlog(g->daemon.hop, SEQUENCER),
                  .responds = responds(g) && !g->daemon.loop.stopping,
                  .target_ms = g->daemon.settings->ingress.target_delay_ms});
    if (!g->pace.on || was_on ||
        (g->pace_said_ms && mono_ms - g->pace_said_ms < MINUTE_MS))
        return;
    g->pace_said_ms = mono_ms;
    log_info(NULL,
             "events arrive faster than the sequencer takes them: responses "
             "are delayed",
             LI("waiting", hop_backlog(g->daemon.hop, SEQUENCER)),
             LI("taken_per_s", g->pace.per_s), LI("wait_ms", g->pace.wait_ms));
}

/* Requests are read, and responses written, unless this is a pause; then the loop does not
 * wake for them. Returns how long it may sleep, in ms. */
static int turn_http(struct ingress *g)
{
    int pause_ms = pace_pause_ms(&g->pace, mono_us());

    g->daemon.loop.watch[g->http_watch].events = pause_ms ? 0 : ZMQ_POLLIN;
    return pause_ms ? pause_ms
                    : http_run(g->http, g->daemon.loop.now_ms,
                               g->daemon.loop.mono_ms);
}

/* While we stop batches are stored for half of shutdown_grace; in the rest of it their
 * clients read which lines were. */
static void end_batches(struct ingress *g)
{
    if (g->stopping_ms && g->daemon.loop.mono_ms - g->stopping_ms >=
                              g->daemon.settings->shutdown_grace_ms / 2)
        batches_give_up(g, ANSWER_STOPPING);
}

static int work(void *self)
{
    struct ingress *g = self;
    struct loop *loop = &g->daemon.loop;
    int http_ms = 0, room_ms, rejects_ms;
    bool group;

    end_stall(g);
    if (loop->stopping && !g->stopping_ms) {
        g->stopping_ms = loop->mono_ms;
        http_quiesce(g->http);
    }
    end_batches(g);
    g->counts[COUNT_PURGED] += room_work(
        &g->room, &g->store, g->daemon.hop, g->daemon.settings,
        &g->daemon.retention, loop->now_ms, loop->mono_ms, &room_ms);
    /* A group that was read during the last commit is on its way to the disk before
     * meanwhile() writes the answers of that. */
    look_at_pace(g);
    group = intake_has_group(&g->intake);
    if (!group)
        http_ms = turn_http(g);
    store_pending(g);
    pace_stored(&g->pace, mono_us(), g->intake.stored_count,
                g->counts[COUNT_CONNECTIONS]);
    loop->read_on = intake_stored_group(&g->intake) && !g->pace.on;
    if (group && !loop->read_on) /* a full disk took less */
        http_ms = turn_http(g);
    rejects_ms = rejects_work(&g->rejects, g, loop->stopping);
    publish(g);
    return intake_has_more(g) ? 0
                              : sooner(sooner(http_ms, room_ms), rejects_ms);
}

/* The sequencer asks what it has still to expect. */
static void frame(void *self, int kind, struct bytes frame)
{
    struct ingress *g = self;
    struct wire_sounding s;

    if (kind != WIRE_KIND_SOUNDING || wire_get_sounding(&s, frame) != GR_OK ||
        !wire_is(s.from, SEQUENCER) ||
        !mailbox_reaches(g->daemon.mailbox, s.inbox)) {
        log_warn(NULL, "a frame that is not for an ingress; dropped",
                 LS("kind", wire_kind_name(kind)));
        return;
    }
    /* Each asks about all that came before it: while one waits for a batch to be stored,
     * the next would wait for those that came meanwhile, and so on. */
    if (g->sounding.run == s.run && !g->sounding.next)
        return;
    wire_copy(g->sounding.inbox, sizeof g->sounding.inbox, s.inbox);
    g->sounding.run = s.run;
    g->sounding.stamp_ms = s.stamp_ms;
    g->sounding.next = 0;
    g->sounding.fresh = true;
}

/* After the commit: all that was received before it asked has a number below
 * the next. Lost without harm, it asks again. */
static void answer_sounding(struct ingress *g)
{
    struct wire_sounded s = {
        .from = wire_text(g->daemon.name),
        .inbox = wire_text(mailbox_address(g->daemon.mailbox)),
        .run = g->sounding.run,
        .stamp_ms = g->sounding.stamp_ms,
        .next = g->sounding.next};
    struct buf out;

    if (!g->sounding.run || !g->sounding.next)
        return;
    buf_init(&out, 1024);
    wire_put_sounded(&out, &s);
    if (mailbox_send(g->daemon.mailbox, g->sounding.inbox,
                     (struct bytes){out.data, out.len}) == GR_OK)
        g->sounding.run = 0;
    buf_fini(&out);
}

static void tell(void *self)
{
    intake_tell(self);
    answer_sounding(self);
}

/* Requests are read, judged and wait to be stored by the next turn. Rows are not
 * touched: a thread commits them, or the loop itself, and this is its stand-in. */
static void meanwhile(void *self)
{
    struct ingress *g = self;

    look_for_stall(g);
    http_run(g->http, now_ms(), mono_ms());
}

static void undo(void *self)
{
    struct ingress *g = self;

    g->sounding.next = 0;
    room_undo(&g->room, &g->store);
    rejects_undo(&g->rejects);
    intake_undo(g);
}

static void reload(void *self, struct settings *fresh)
{
    set_bounds(self, fresh);
}

/* What is not handed on is safe on disk, so an absent sequencer keeps nobody
 * waiting; what is not answered waits for its commit. */
static bool stopped(void *self)
{
    struct ingress *g = self;

    if (!intake_idle(g))
        return false;
    if (g->daemon.loop.mono_ms - g->stopping_ms >=
        g->daemon.settings->shutdown_grace_ms)
        return true;
    return g->stopping_ms && !http_figures(g->http).busy && !handing_on(g);
}

/* As /readyz judges. A stall is over when the loop can be asked. */
static const char *state(void *self, bool *ready)
{
    struct ingress *g = self;

    *ready = !g->room.refusal;
    switch (g->room.refusal) {
    case ANSWER_NONE:
        return "accepting events";
    case ANSWER_DISK_LOW:
        return "refusing events: little disk space is free";
    case ANSWER_BACKLOG_FULL:
        return "refusing events: those that wait for the sequencer fill "
               "ingress.archive.max_size";
    default:
        return "refusing events: the disk is full";
    }
}

static void close_all(void *self)
{
    struct ingress *g = self;

    intake_close(g);
    http_run(g->http, now_ms(), mono_ms());
    http_close(g->http);
    rejects_fini(&g->rejects);
    store_close(&g->store);
    door_fini(&g->door);
}

static bool load(void *self, const char *peer, uint64_t n, int kind,
                 int64_t ref, struct buf *out)
{
    struct ingress *g = self;

    (void)peer;
    (void)n; /* the same as ref */
    return kind == KIND_ARCHIVED &&
           (store_load(&g->store, ref, out) ||
            store_replay_load(&g->store.replays, ref, out));
}

static const char *const steps[] = {ingress_store_sql,
                                    proto_hop_sql,
                                    ingress_rejects_sql,
                                    ingress_replays_sql,
                                    ingress_ids_sql,
                                    ingress_reject_bodies_sql,
                                    ingress_reject_deliveries_sql,
                                    ingress_heads_sql,
                                    ingress_usage_sql,
                                    ingress_sums_sql};
STORE_HAS_STEPS(steps, INGRESS_SCHEMA);
/* Rows of a kilobyte or two, appended: with larger pages than SQLite's own a
 * commit has half as many to write; with still larger ones more bytes. */
enum { PAGE_BYTES = 8 * 1024 };
static const struct db_schema schema = {.steps = steps,
                                        .count = COUNT_OF(steps),
                                        .page_bytes = PAGE_BYTES,
                                        .program = "grapnel-ingress",
                                        .table = "archive"};
static const struct hop_ops hop_ops = {.load = load};

const struct daemon_plan ingress_plan = {
    .process = "ingress",
    .default_name = "ingress",
    .summary = "takes webhooks in over HTTP and keeps them",
    .schema = &schema,
    .hop = &hop_ops,
    .commands = ingress_commands,
    .metrics = ingress_metrics,
    .families = ingress_families,
    .open = open_all,
    .frame = frame,
    .work = work,
    .tell = tell,
    .meanwhile = meanwhile,
    .stands_in = true,
    .undo = undo,
    .reload = reload,
    .stopped = stopped,
    .close = close_all,
    .measure = measure,
    .state = state,
};
