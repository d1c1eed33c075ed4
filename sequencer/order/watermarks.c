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
    int64_t shown;       /* watermark clock: it has shown this */
    uint64_t asked_n;    /* once its rows before this one are here, … */
    int64_t asked; /* … it has shown this; asked_n 0: no request is open */
    bool missed;   /* a log line says that it does not respond */
    bool kept;     /* it has a row */
};

struct watermarks {
    struct sequencer *q;
    struct ingress_mark *all;
    size_t count;
    int64_t time, kept;   /* the watermark clock, and as it is on disk */
    int64_t ticked_ms;    /* awake */
    int64_t since_ms;     /* awake: since when an event waits; -1: none waits */
    int64_t due;          /* the watermark clock at which the next wait ends */
    int64_t requested_ms; /* mono */
    int64_t requested; /* the watermark clock of the last watermark request */
};

static int64_t awake(const struct watermarks *d)
{
    return d->q->d.loop.awake_ms;
}

static struct ingress_mark *find(struct watermarks *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->all[i].name, name) == 0)
            return &d->all[i];
    return NULL;
}

static struct ingress_mark *add(struct watermarks *d, const char *name)
{
    struct ingress_mark *ingress;

    d->all = gr_realloc(d->all, (d->count + 1) * sizeof *d->all);
    ingress = &d->all[d->count++];
    *ingress = (struct ingress_mark){.heard_ms = awake(d), .came_ms = awake(d)};
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
    struct watermarks *d = gr_alloc(sizeof *d);

    d->q = q;
    d->since_ms = -1;
    d->due = INT64_MAX;
    d->ticked_ms = -1;
    d->time = d->kept = store_meta(q->store, "watermark_ms");
    store_ingresses(q->order, on_ingress, d);
    return d;
}

void watermarks_close(struct watermarks *d)
{
    free(d->all);
    free(d);
}

/* The clock keeps its time. Which rows exist is unknown, so each is written again with the next
 * event of its ingress. What an ingress has shown, and which events it has sent, may depend
 * on messages that were rolled back. */
void watermarks_undo(struct watermarks *d)
{
    d->kept = store_meta(d->q->store, "watermark_ms");
    for (size_t i = 0; i < d->count; i++) {
        d->all[i].asked_n = 0;
        d->all[i].shown = d->all[i].received_ms = 0;
        d->all[i].kept = false;
    }
}

void watermarks_set_back(struct watermarks *d, const char *name)
{
    struct ingress_mark *ingress = find(d, name);

    if (ingress)
        ingress->asked_n = 0;
}

void watermarks_event(struct watermarks *d, const char *from,
                      int64_t received_ms)
{
    struct ingress_mark *ingress = find(d, from);

    if (!ingress)
        ingress = add(d, from);
    if (!ingress->kept)
        store_ingress_add(d->q->order, from);
    ingress->kept = true;
    ingress->came_ms = awake(d);
    if (ingress->received_ms < received_ms)
        ingress->received_ms = received_ms;
}

/* The last number received by the link from this ingress. */
static uint64_t taken_of(const struct watermarks *d, const char *name)
{
    struct link_state link;

    for (int at = 0; links_each(d->q->d.links, &at, &link);)
        if (!link.out && strcmp(link.peer, name) == 0)
            return link.next;
    return 0;
}

void watermarks_take(struct watermarks *d, const struct wire_watermark *s)
{
    char name[NAME_MAX_BYTES + 1];
    struct ingress_mark *ingress;

    wire_copy(name, sizeof name, s->from);
    ingress = find(d, name);
    /* A response to an earlier start of this process has the clock of that start. */
    if (!ingress || s->epoch != d->q->d.epoch || s->stamp_ms > d->requested)
        return;
    ingress->heard_ms = awake(d);
    ingress->missed = false;
    if (!ingress->asked_n && s->next) {
        ingress->asked_n = s->next;
        ingress->asked = s->stamp_ms;
    }
}

static void show(struct watermarks *d, struct ingress_mark *ingress)
{
    if (!ingress->asked_n || taken_of(d, ingress->name) + 1 < ingress->asked_n)
        return;
    if (ingress->shown < ingress->asked)
        ingress->shown = ingress->asked;
    ingress->asked_n = 0;
}

/* How long it has not responded while it was asked. */
static int64_t silent_ms(const struct watermarks *d,
                         const struct ingress_mark *ingress)
{
    int64_t since = ingress->heard_ms > d->since_ms ? ingress->heard_ms
                                                    : d->since_ms;

    return awake(d) - since;
}

static void forget(struct watermarks *d, struct ingress_mark *ingress)
{
    log_warn(NULL,
             "an ingress process has not responded for too long; gaps no "
             "longer wait for it",
             LS("ingress", ingress->name), LI("silent_ms", FORGOTTEN_MS));
    store_ingress_drop(d->q->order, ingress->name);
    *ingress = d->all[--d->count];
}

/* true: all ingress processes respond. */
static bool look(struct watermarks *d)
{
    bool all = true;

    for (size_t i = 0; i < d->count; i++) {
        struct ingress_mark *ingress = &d->all[i];
        int64_t silent = silent_ms(d, ingress);

        show(d, ingress);
        if (silent <= SILENT_MS)
            continue;
        all = false;
        if (!ingress->missed)
            log_warn(NULL,
                     "an ingress process does not respond; it may have the "
                     "missing events, so gaps wait for it",
                     LS("ingress", ingress->name));
        ingress->missed = true;
        if (silent > FORGOTTEN_MS) {
            forget(d, ingress);
            i--;
        }
    }
    return all;
}

void watermarks_due(struct watermarks *d, int64_t due)
{
    if (due == INT64_MAX)
        d->since_ms = -1;
    else if (d->since_ms < 0)
        d->since_ms = awake(d);
    d->due = due;
    /* Store the clock only while events wait: their due times are compared with it. */
    if (due == INT64_MAX || d->time - d->kept < KEPT_MS)
        return;
    store_meta_set(d->q->store, "watermark_ms", d->time);
    d->kept = d->time;
}

void watermarks_work(struct watermarks *d)
{
    int64_t passed = d->ticked_ms < 0 ? 0 : awake(d) - d->ticked_ms;

    d->ticked_ms = awake(d);
    if (d->since_ms < 0 || look(d))
        d->time += passed;
}

static void send_requests(struct watermarks *d)
{
    struct sequencer *q = d->q;
    struct wire_watermark_request s = {
        .from = wire_text(q->d.name),
        .inbox = wire_text(mailbox_address(q->d.mailbox)),
        .epoch = q->d.epoch,
        .stamp_ms = d->time};
    struct link_state link;
    struct buf frame;

    buf_init(&frame, 1024);
    wire_put_watermark_request(&frame, &s);
    for (int at = 0; links_each(q->d.links, &at, &link);)
        if (!link.out && *link.inbox && find(d, link.peer) &&
            mailbox_send(q->d.mailbox, link.inbox,
                         (struct bytes){frame.data, frame.len}) != GR_OK)
            log_debug(NULL, "a watermark request could not be sent",
                      LS("ingress", link.peer));
    buf_fini(&frame);
    d->requested = d->time;
    d->requested_ms = q->d.loop.mono_ms;
}

int watermarks_flush(struct watermarks *d)
{
    int64_t since = d->q->d.loop.mono_ms - d->requested_ms, wait;
    bool over = d->time >= d->due && watermarks_judged(d) < d->due;

    if (d->due == INT64_MAX)
        return -1;
    if (since >=
        (over && d->requested < d->due ? REQUEST_DUE_MS : REQUEST_MS)) {
        send_requests(d);
        since = 0;
    }
    wait = REQUEST_MS - since;
    if (d->due > d->time && d->due - d->time < wait)
        wait = d->due - d->time;
    else if (over && d->requested < d->due)
        wait = REQUEST_DUE_MS;
    return (int)(wait > 1 ? wait : 1);
}

int64_t watermarks_clock(struct watermarks *d)
{
    if (d->ticked_ms != awake(d))
        watermarks_work(d);
    return d->time;
}

int64_t watermarks_judged(const struct watermarks *d)
{
    int64_t judged = d->time;

    for (size_t i = 0; i < d->count; i++)
        if (d->all[i].shown < judged)
            judged = d->all[i].shown;
    return judged;
}

/* An ingress that sent no event for an hour has no old events, or is down: then a duplicate that
 * it sends later may not be recognised. */
int64_t watermarks_received_ms(const struct watermarks *d)
{
    int64_t min = 0;

    for (size_t i = 0; i < d->count; i++) {
        const struct ingress_mark *ingress = &d->all[i];

        if (awake(d) - ingress->came_ms > HOUR_MS)
            continue;
        if (!ingress->received_ms)
            return 0;
        if (!min || ingress->received_ms < min)
            min = ingress->received_ms;
    }
    return min;
}

const char *watermarks_silent_ingress(const struct watermarks *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->all[i].missed)
            return d->all[i].name;
    return NULL;
}
