/* watermarks: the clock by which waits for missing events run, and the ingress processes that
 * move it. */
#include "watermarks.h"
#include "clock.h"
#include "log.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include <stdlib.h>
#include <string.h>

enum {
    REQUEST_MS = 250,    /* between watermark requests, */
    REQUEST_DUE_MS = 20, /* and when a wait has ended */
    /* an ingress that is silent for longer stops the watermark clock */
    SILENT_MS = 2000,
    KEPT_MS = 250, /* the watermark clock on disk lags by at most this */
};
#define FORGOTTEN_MS HOUR_MS

struct ingress_mark {
    char name[NAME_MAX_BYTES + 1];
    int64_t heard_ms;    /* awake time of its last response */
    int64_t received_ms; /* of its last event; 0: none yet */
    int64_t came_ms;     /* awake time at which that arrived */
    /* watermark clock: all events that it received before this have arrived */
    int64_t confirmed_clock;
    /* Its response: once its rows before `response_next` are here, `response_clock` is
     * confirmed. response_next 0: there is none. */
    uint64_t response_next;
    int64_t response_clock;
    bool missed; /* a log line says that it does not respond */
    bool kept;   /* it has a row */
};

struct watermarks {
    struct sequencer *q;
    struct ingress_mark *all;
    size_t count;
    int64_t time, kept;   /* the watermark clock, and as it is on disk */
    int64_t ticked_ms;    /* awake */
    int64_t since_ms;     /* awake: since when an event waits; -1: none waits */
    int64_t wanted;       /* what is to be confirmed though no event waits */
    int64_t due;          /* the watermark clock at which the next wait ends */
    int64_t requested_ms; /* mono */
    int64_t requested; /* the watermark clock of the last watermark request */
};

static int64_t awake(const struct watermarks *w)
{
    return w->q->d.loop.awake_ms;
}

static struct ingress_mark *find(struct watermarks *w, const char *name)
{
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->all[i].name, name) == 0)
            return &w->all[i];
    return NULL;
}

static struct ingress_mark *add(struct watermarks *w, const char *name)
{
    struct ingress_mark *ingress;

    w->all = gr_realloc(w->all, (w->count + 1) * sizeof *w->all);
    ingress = &w->all[w->count++];
    *ingress = (struct ingress_mark){.heard_ms = awake(w), .came_ms = awake(w)};
    wire_copy(ingress->name, sizeof ingress->name, wire_text(name));
    return ingress;
}

static void on_ingress(void *arg, const char *name)
{
    if (!find(arg, name))
        add(arg, name);
}

struct watermarks *watermarks_open(struct sequencer *q)
{
    struct watermarks *w = gr_alloc(sizeof *w);

    w->q = q;
    w->since_ms = -1;
    w->due = INT64_MAX;
    w->ticked_ms = -1;
    w->time = w->kept = store_meta(q->store, "watermark_ms");
    store_ingresses(q->order, on_ingress, w);
    return w;
}

void watermarks_close(struct watermarks *w)
{
    free(w->all);
    free(w);
}

/* The clock keeps its time. Which rows exist is unknown, so each is written again with the next
 * event of its ingress. What an ingress has confirmed, and which events it has sent, may depend
 * on messages that were rolled back. */
void watermarks_undo(struct watermarks *w)
{
    w->kept = store_meta(w->q->store, "watermark_ms");
    for (size_t i = 0; i < w->count; i++) {
        w->all[i].response_next = 0;
        w->all[i].confirmed_clock = w->all[i].received_ms = 0;
        w->all[i].kept = false;
    }
}

void watermarks_rewound(struct watermarks *w, const char *name)
{
    struct ingress_mark *ingress = find(w, name);

    if (ingress)
        ingress->response_next = 0;
}

void watermarks_event(struct watermarks *w, const char *from,
                      int64_t received_ms)
{
    struct ingress_mark *ingress = find(w, from);

    if (!ingress)
        ingress = add(w, from);
    if (!ingress->kept)
        store_ingress_add(w->q->order, from);
    ingress->kept = true;
    ingress->came_ms = awake(w);
    if (ingress->received_ms < received_ms)
        ingress->received_ms = received_ms;
}

void watermarks_take(struct watermarks *w, const struct wire_watermark *s)
{
    char name[NAME_MAX_BYTES + 1];
    struct ingress_mark *ingress;

    wire_copy(name, sizeof name, s->from);
    ingress = find(w, name);
    /* A response to an earlier start of this process has the clock of that start. */
    if (!ingress || s->epoch != w->q->d.epoch || s->stamp_ms > w->requested)
        return;
    ingress->heard_ms = awake(w);
    ingress->missed = false;
    if (!ingress->response_next && s->next) {
        ingress->response_next = s->next;
        ingress->response_clock = s->stamp_ms;
    }
}

static void confirm(struct watermarks *w, struct ingress_mark *ingress)
{
    struct link_state link;
    uint64_t taken = 0; /* the last number received by the link from it */

    if (!ingress->response_next)
        return;
    for (int at = 0; !taken && links_each(w->q->d.links, &at, &link);)
        if (!link.out && strcmp(link.peer, ingress->name) == 0)
            taken = link.next;
    if (taken + 1 < ingress->response_next)
        return;
    if (ingress->confirmed_clock < ingress->response_clock)
        ingress->confirmed_clock = ingress->response_clock;
    ingress->response_next = 0;
}

/* true: all ingress processes respond. */
static bool look(struct watermarks *w)
{
    bool all = true;

    for (size_t i = 0; i < w->count; i++) {
        struct ingress_mark *ingress = &w->all[i];
        /* How long it has not responded while it was asked. */
        int64_t silent = awake(w) - (ingress->heard_ms > w->since_ms
                                         ? ingress->heard_ms
                                         : w->since_ms);

        confirm(w, ingress);
        if (silent <= SILENT_MS)
            continue;
        all = false;
        if (!ingress->missed)
            log_warn(NULL,
                     "an ingress process does not respond; it may have the "
                     "missing events, so gaps wait for it",
                     LS("ingress", ingress->name));
        ingress->missed = true;
        if (silent <= FORGOTTEN_MS)
            continue;
        log_warn(NULL,
                 "an ingress process has not responded for too long; gaps no "
                 "longer wait for it",
                 LS("ingress", ingress->name), LI("silent_ms", FORGOTTEN_MS));
        store_ingress_drop(w->q->order, ingress->name);
        *ingress = w->all[--w->count];
        i--;
    }
    return all;
}

void watermarks_set_due(struct watermarks *w, int64_t due)
{
    if (w->wanted < due && watermarks_arrived(w) < w->wanted)
        due = w->wanted;
    if (due == INT64_MAX)
        w->since_ms = -1;
    else if (w->since_ms < 0)
        w->since_ms = awake(w);
    w->due = due;
    /* Store the clock only while events wait: their due times are compared with it. */
    if (due == INT64_MAX || w->time - w->kept < KEPT_MS)
        return;
    store_meta_set(w->q->store, "watermark_ms", w->time);
    w->kept = w->time;
}

void watermarks_work(struct watermarks *w)
{
    int64_t passed = w->ticked_ms < 0 ? 0 : awake(w) - w->ticked_ms;

    w->ticked_ms = awake(w);
    if (w->since_ms < 0 || look(w))
        w->time += passed;
}

static void send_requests(struct watermarks *w)
{
    struct sequencer *q = w->q;
    struct wire_watermark_request s = {
        .from = wire_text(q->d.name), .epoch = q->d.epoch, .stamp_ms = w->time};
    struct link_state link;
    struct buf frame;

    buf_init(&frame, 1024);
    for (int at = 0; links_each(q->d.links, &at, &link);) {
        if (link.out || !*link.inbox || !find(w, link.peer))
            continue;
        s.inbox = wire_text(mailbox_address(q->d.mailbox, link.inbox));
        buf_reset(&frame);
        wire_put_watermark_request(&frame, &s);
        if (mailbox_send(q->d.mailbox, link.inbox,
                         (struct bytes){frame.data, frame.len}) != GR_OK)
            log_debug(NULL, "a watermark request could not be sent",
                      LS("ingress", link.peer));
    }
    buf_fini(&frame);
    w->requested = w->time;
    w->requested_ms = q->d.loop.mono_ms;
}

int watermarks_flush(struct watermarks *w)
{
    int64_t since = w->q->d.loop.mono_ms - w->requested_ms, wait;
    bool over = w->time >= w->due && watermarks_arrived(w) < w->due;

    if (w->due == INT64_MAX)
        return -1;
    if (since >=
        (over && w->requested < w->due ? REQUEST_DUE_MS : REQUEST_MS)) {
        send_requests(w);
        since = 0;
    }
    wait = REQUEST_MS - since;
    if (w->due > w->time && w->due - w->time < wait)
        wait = w->due - w->time;
    else if (over && w->requested < w->due)
        wait = REQUEST_DUE_MS;
    return (int)(wait > 1 ? wait : 1);
}

int64_t watermarks_clock(struct watermarks *w)
{
    if (w->ticked_ms != awake(w))
        watermarks_work(w);
    return w->time;
}

int64_t watermarks_want(struct watermarks *w)
{
    int64_t now = watermarks_clock(w);

    if (watermarks_arrived(w) >= w->wanted)
        w->wanted = now;
    return now;
}

int64_t watermarks_arrived(const struct watermarks *w)
{
    int64_t arrived = w->time;

    for (size_t i = 0; i < w->count; i++)
        if (w->all[i].confirmed_clock < arrived)
            arrived = w->all[i].confirmed_clock;
    return arrived;
}

/* An ingress that sent no event for an hour has no old events, or is down: then a duplicate that
 * it sends later may not be recognised. */
int64_t watermarks_received_ms(const struct watermarks *w)
{
    int64_t min = 0;

    for (size_t i = 0; i < w->count; i++) {
        const struct ingress_mark *ingress = &w->all[i];

        if (awake(w) - ingress->came_ms > HOUR_MS)
            continue;
        if (!ingress->received_ms)
            return 0;
        if (!min || ingress->received_ms < min)
            min = ingress->received_ms;
    }
    return min;
}

const char *watermarks_silent_ingress(const struct watermarks *w)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->all[i].missed)
            return w->all[i].name;
    return NULL;
}
