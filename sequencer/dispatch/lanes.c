/* lanes: which delivery of an ordered endpoint waits for which. */
#include "lanes.h"
#include "choice.h"
#include "dispatch.h"
#include "log.h"
#include "store.h"
#include "store_lanes.h"
#include <stdlib.h>
#include <string.h>

enum { COLLECT_AT_ONCE = 64 };

/* A removed endpoint keeps its order: it may be configured again before its deliveries are
 * dead-lettered. */
static enum order_lanes ordered(const struct endpoint *e)
{
    if (e->settings)
        return e->settings->ordered;
    return e->ordered < 0 ? LANES_NONE : (enum order_lanes)e->ordered;
}

struct workspace *lanes_workspace(struct sequencer *q, const char *name)
{
    return store_workspace(q->store, &q->workspaces, name, q->next_route_order);
}

int64_t lanes_round_end(const struct sequencer *q, const struct endpoint *e)
{
    return lane_of(ordered(e), q->next_route_order);
}

static struct lane ordered_lane(enum order_lanes by, const struct workspace *ws,
                                const char *ordering_key)
{
    return (struct lane){lane_of(by, ws->lane),
                         by == LANES_WORKSPACE ? lane_key(ordering_key) : 0};
}

struct lane lanes_of(struct sequencer *q, struct endpoint *e,
                     struct workspace *ws, const char *ordering_key,
                     enum priority priority)
{
    enum order_lanes by = ordered(e);
    int64_t round = e->queues[priority].round, *position;

    if (by != LANES_NONE)
        return ordered_lane(by, ws, ordering_key);
    position = workspace_position(ws, e->id, priority, !dispatch_at_once(q, e));
    if (dispatch_at_once(q, e)) {
        /* No delivery waits, so the workspace has used no more than others. */
        if (position && *position) {
            *position = 0;
            workspace_changed(&q->workspaces, ws);
        }
        return (struct lane){queue_lane(priority, round, true), 0};
    }
    workspace_changed(&q->workspaces, ws);
    return (struct lane){queue_add(priority, round, position), 0};
}

struct lane lanes_of_reopened(struct endpoint *e, const struct workspace *ws,
                              const char *ordering_key, enum priority priority)
{
    enum order_lanes by = ordered(e);
    struct endpoint_queue *queue = &e->queues[priority];

    if (by != LANES_NONE)
        return ordered_lane(by, ws, ordering_key);
    return (struct lane){queue_add(priority, queue->round, &queue->reopened),
                         0};
}

void lanes_reached(struct sequencer *q, struct endpoint *e, int64_t lane)
{
    int64_t *round = &e->queues[queue_priority(lane)].round;

    if (lane_is_ordered(lane) || queue_round(lane) <= *round)
        return;
    *round = queue_round(lane);
    endpoint_changed(q, e);
}

bool lanes_busy(struct sequencer *q, const struct endpoint *e, struct lane lane)
{
    int64_t route_order;

    if (!lane_is_ordered(lane.n))
        return false;
    /* While rows are still being moved into this lane, its head is not known. */
    return e->laning == COLLECTING || store_lane_any(q->lanes, e->id, lane) ||
           (e->halts && store_halted(q->lanes, e->id, lane, &route_order));
}

int64_t lanes_next(struct sequencer *q, const struct endpoint *e,
                   struct lane lane, int64_t *next_ms)
{
    struct lane_front front;
    int64_t halted;

    if (!lane_is_ordered(lane.n) || e->laning == COLLECTING ||
        !store_lane_front(q->lanes, e->id, lane, &front) || !front.behind)
        return 0;
    if (e->halts && store_halted(q->lanes, e->id, lane, &halted) &&
        front.route_order > halted)
        return 0;
    *next_ms = front.next_ms;
    return front.event;
}

void lanes_freed(struct sequencer *q, struct endpoint *e, struct lane lane)
{
    int64_t next_ms, event = lanes_next(q, e, lane, &next_ms);

    if (!event)
        return;
    store_lane_step_up(q->lanes, event, e->id);
    e->waiting = true;
    endpoint_wake(q, e);
}

/* ---- halts ---- */

void lanes_halt(struct sequencer *q, struct endpoint *e, const char *event_id,
                const struct delivery *d)
{
    if (!lane_is_ordered(d->lane) || !e->settings || !e->settings->on_dead_halt)
        return;
    store_halt(q->lanes, &(struct halt_row){.event = d->event,
                                            .endpoint = e->id,
                                            .lane = delivery_lane(d),
                                            .route_order = d->route_order,
                                            .at_ms = q->d.loop.now_ms});
    q->halts -= e->halts;
    e->halts = store_halt_count(q->lanes, e->id);
    q->halts += e->halts;
    log_warn(event_id,
             "its lane is halted: retry the dead letter, resolve or discard it",
             LS("endpoint", e->name));
}

void lanes_unhalt(struct sequencer *q, struct endpoint *e, int64_t event,
                  struct lane lane)
{
    if (!e->halts || !store_unhalt(q->lanes, event, e->id))
        return;
    e->halts--;
    q->halts--;
    endpoint_resumed(q, e);
    log_info(NULL, "a halted lane continues", LS("endpoint", e->name),
             LI("lane", lane.n));
    lanes_freed(q, e, lane);
}

/* ---- moves to other lanes, after a reload ---- */

static void set_ordered(struct sequencer *q, struct endpoint *e, int to)
{
    if (e->ordered != to)
        endpoint_changed(q, e);
    e->ordered = to;
}

struct moving {
    struct halt_row *rows;
    char **workspaces, **ordering_keys;
    int count;
};

static void note_halt(void *arg, const struct halt_row *h)
{
    struct moving *m = arg;

    m->rows[m->count] = *h;
    m->workspaces[m->count] = gr_strdup(h->workspace);
    m->ordering_keys[m->count++] = gr_strdup(h->ordering_key);
}

static void move_halts(struct sequencer *q, struct endpoint *e)
{
    struct moving m = {
        .rows = gr_alloc((size_t)e->halts * sizeof *m.rows),
        .workspaces = gr_alloc((size_t)e->halts * sizeof *m.workspaces),
        .ordering_keys = gr_alloc((size_t)e->halts * sizeof *m.ordering_keys)};

    store_halts(q->lanes, e->id, (int)e->halts, note_halt, &m);
    for (int i = 0; i < m.count; i++) {
        store_halt_move(q->lanes, m.rows[i].event, e->id,
                        lanes_of(q, e, lanes_workspace(q, m.workspaces[i]),
                                 m.ordering_keys[i], PRIORITY_NORMAL));
        free(m.workspaces[i]);
        free(m.ordering_keys[i]);
    }
    free(m.rows);
    free(m.workspaces);
    free(m.ordering_keys);
}

void lanes_configure(struct sequencer *q, struct endpoint *e)
{
    bool halting = e->settings && e->settings->on_dead_halt &&
                   ordered(e) != LANES_NONE;

    if (e->halts && !halting) { /* nothing halts its lanes any more */
        store_unhalt_all(q->lanes, e->id);
        q->halts -= e->halts;
        e->halts = 0;
        endpoint_resumed(q, e);
        set_ordered(q, e, -1);
    }
    if (!e->settings || e->ordered == (int)ordered(e))
        return;
    if (e->halts)
        move_halts(q, e);
    set_ordered(q, e, -1);
    e->laning = COLLECTING;
    endpoint_wake(q, e);
}

/* Move waiting deliveries out of lanes that the endpoint no longer has. Returns how many. */
static int collect(struct sequencer *q, struct endpoint *e, int max)
{
    struct lane_range ranges[LANE_RANGES_MAX];
    struct lane_row rows[COLLECT_AT_ONCE];
    int count = lane_other_kinds(ordered(e), ranges), n = 0, got;

    for (int i = 0; i < 2 * count; i++) {
        do {
            int want = max - n < COLLECT_AT_ONCE ? max - n : COLLECT_AT_ONCE;

            got = store_lane_range(q->lanes, e->id, i % 2, ranges[i / 2], want,
                                   rows);
            for (int k = 0; k < got; k++) {
                store_lane_set(q->lanes, rows[k].event, e->id,
                               lanes_of(q, e,
                                        lanes_workspace(q, rows[k].workspace),
                                        rows[k].ordering_key,
                                        choice_priority(rows[k].retry_choice)),
                               ordered(e) != LANES_NONE);
                free(rows[k].workspace);
                free(rows[k].ordering_key);
                free(rows[k].retry_choice);
            }
            n += got;
        } while (got > 0 && n < max);
    }
    return n;
}

/* Make the first delivery of each lane its head. Returns how many lanes it looked at. */
static int line_up(struct sequencer *q, struct endpoint *e, int max)
{
    int n = 0;

    for (; n < max; n++) {
        struct lane lane;

        if (!store_lane_after(q->lanes, e->id, e->lined_up, &lane)) {
            e->laning = SETTLED;
            break;
        }
        lanes_freed(q, e, lane);
        e->lined_up = lane;
    }
    return n;
}

int lanes_work(struct sequencer *q, struct endpoint *e, int max)
{
    int n = 0;

    /* Deliveries at the deliverer are in their old lanes. The new configuration has revoked
     * its grant: wait until they have come back. */
    if (e->sweeping || (e->laning == COLLECTING && e->revoking))
        return 0;
    if (e->laning == COLLECTING) {
        n = collect(q, e, max);
        if (n >= max)
            return n;
        e->laning = LINING_UP;
        e->lined_up = (struct lane){.n = -1};
    }
    if (e->laning == LINING_UP)
        n += line_up(q, e, max - n);
    if (e->laning == SETTLED) {
        e->waiting = true;
        if (e->settings)
            set_ordered(q, e, (int)ordered(e));
    }
    return n;
}
