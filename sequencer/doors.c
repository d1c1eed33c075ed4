#include "doors.h"
#include "clock.h"
#include "log.h"
#include "sequencer.h"
#include "store.h"
#include "store_order.h"
#include <stdlib.h>
#include <string.h>

enum {
    SOUND_MS = 250,    /* between soundings … */
    SOUND_DUE_MS = 20, /* … and when a wait is over */
    SILENT_MS = 2000,  /* then it may be away: door time stands */
    KEPT_MS = 250,     /* door time on disk is at most so far behind */
};
#define FORGOTTEN_MS HOUR_MS

struct door {
    char name[NAME_MAX_BYTES + 1];
    int64_t heard_ms;    /* awake time of its last answer */
    int64_t received_ms; /* of the last event that came by it; 0: none yet */
    int64_t came_ms;     /* awake time at which that came */
    int64_t shown;       /* door time */
    uint64_t asked_n;    /* shows `asked` when this number was taken; 0: none */
    int64_t asked;
    bool missed; /* it was said that it is */
    bool kept;   /* its row is there, or in the turn's transaction */
};

struct doors {
    struct sequencer *q;
    struct door *all;
    size_t count;
    int64_t time, kept; /* door time, and as it is on disk */
    int64_t ticked_ms;  /* awake */
    int64_t since_ms;   /* awake: since when something is waited for; -1 */
    int64_t due;
    int64_t sounded_ms; /* mono */
    int64_t sounded;    /* door time of the last sounding */
};

static int64_t awake(const struct doors *d)
{
    return d->q->d.loop.awake_ms;
}

static struct door *find(struct doors *d, const char *name)
{
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->all[i].name, name) == 0)
            return &d->all[i];
    return NULL;
}

static struct door *add(struct doors *d, const char *name)
{
    struct door *door;

    d->all = gr_realloc(d->all, (d->count + 1) * sizeof *d->all);
    door = &d->all[d->count++];
    *door = (struct door){.heard_ms = awake(d), .came_ms = awake(d)};
    wire_copy(door->name, sizeof door->name, wire_text(name));
    return door;
}

static void on_door(void *arg, const char *name)
{
    if (!find(arg, name))
        add(arg, name);
}

struct doors *doors_open(struct sequencer *q)
{
    struct doors *d = gr_alloc(sizeof *d);

    d->q = q;
    d->since_ms = -1;
    d->due = INT64_MAX;
    d->ticked_ms = -1;
    d->time = d->kept = store_meta(q->store, "door_ms");
    store_doors(q->order, on_door, d);
    return d;
}

void doors_close(struct doors *d)
{
    free(d->all);
    free(d);
}

/* Time has passed all the same. Which rows are there is not known: each is
 * written again when its door brings something. What a door has shown, and how
 * far its events have come, may rest on messages that are taken back. */
void doors_undo(struct doors *d)
{
    d->kept = store_meta(d->q->store, "door_ms");
    for (size_t i = 0; i < d->count; i++) {
        d->all[i].asked_n = 0;
        d->all[i].shown = d->all[i].received_ms = 0;
        d->all[i].kept = false;
    }
}

void doors_set_back(struct doors *d, const char *name)
{
    struct door *door = find(d, name);

    if (door)
        door->asked_n = 0;
}

void doors_came(struct doors *d, const char *from, int64_t received_ms)
{
    struct door *door = find(d, from);

    if (!door)
        door = add(d, from);
    if (!door->kept)
        store_door_add(d->q->order, from);
    door->kept = true;
    door->came_ms = awake(d);
    if (door->received_ms < received_ms)
        door->received_ms = received_ms;
}

/* The last number taken of this link. */
static uint64_t taken_of(const struct doors *d, const char *name)
{
    struct hop_link link;

    for (int at = 0; hop_links(d->q->d.hop, &at, &link);)
        if (!link.out && strcmp(link.peer, name) == 0)
            return link.next;
    return 0;
}

void doors_sounded(struct doors *d, const struct wire_sounded *s)
{
    char name[NAME_MAX_BYTES + 1];
    struct door *door;

    wire_copy(name, sizeof name, s->from);
    door = find(d, name);
    /* Of another start of ours: that one's door time. */
    if (!door || s->run != d->q->d.run || s->stamp_ms > d->sounded)
        return;
    door->heard_ms = awake(d);
    door->missed = false;
    if (!door->asked_n && s->next) {
        door->asked_n = s->next;
        door->asked = s->stamp_ms;
    }
}

static void show(struct doors *d, struct door *door)
{
    if (!door->asked_n || taken_of(d, door->name) + 1 < door->asked_n)
        return;
    if (door->shown < door->asked)
        door->shown = door->asked;
    door->asked_n = 0;
}

/* Since when we would have heard it, had it been there. */
static int64_t silent_ms(const struct doors *d, const struct door *door)
{
    int64_t since = door->heard_ms > d->since_ms ? door->heard_ms : d->since_ms;

    return awake(d) - since;
}

static void forget(struct doors *d, struct door *door)
{
    log_warn(NULL,
             "a door has not answered for so long that gaps wait for it no "
             "more",
             LS("ingress", door->name), LI("silent_ms", FORGOTTEN_MS));
    store_door_drop(d->q->order, door->name);
    *door = d->all[--d->count];
}

/* true: all of them answer. */
static bool look(struct doors *d)
{
    bool all = true;

    for (size_t i = 0; i < d->count; i++) {
        struct door *door = &d->all[i];
        int64_t silent = silent_ms(d, door);

        show(d, door);
        if (silent <= SILENT_MS)
            continue;
        all = false;
        if (!door->missed)
            log_warn(NULL,
                     "a door does not answer: what is missing could be there, "
                     "and is waited for",
                     LS("ingress", door->name));
        door->missed = true;
        if (silent > FORGOTTEN_MS) {
            forget(d, door);
            i--;
        }
    }
    return all;
}

/* While something is waited for: what is due is counted from what is on disk. */
static void keep(struct doors *d)
{
    if (d->due == INT64_MAX || d->time - d->kept < KEPT_MS)
        return;
    store_meta_set(d->q->store, "door_ms", d->time);
    d->kept = d->time;
}

void doors_due(struct doors *d, int64_t due)
{
    if (due == INT64_MAX)
        d->since_ms = -1;
    else if (d->since_ms < 0)
        d->since_ms = awake(d);
    d->due = due;
    keep(d);
}

void doors_work(struct doors *d)
{
    int64_t passed = d->ticked_ms < 0 ? 0 : awake(d) - d->ticked_ms;

    d->ticked_ms = awake(d);
    if (d->since_ms < 0 || look(d))
        d->time += passed;
}

static void sound(struct doors *d)
{
    struct sequencer *q = d->q;
    struct wire_sounding s = {.from = wire_text(q->d.name),
                              .inbox = wire_text(mailbox_address(q->d.mailbox)),
                              .run = q->d.run,
                              .stamp_ms = d->time};
    struct hop_link link;
    struct buf frame;

    buf_init(&frame, 1024);
    wire_put_sounding(&frame, &s);
    for (int at = 0; hop_links(q->d.hop, &at, &link);)
        if (!link.out && *link.inbox && find(d, link.peer) &&
            mailbox_send(q->d.mailbox, link.inbox,
                         (struct bytes){frame.data, frame.len}) != GR_OK)
            log_debug(NULL, "a sounding did not leave",
                      LS("ingress", link.peer));
    buf_fini(&frame);
    d->sounded = d->time;
    d->sounded_ms = q->d.loop.mono_ms;
}

int doors_tell(struct doors *d)
{
    int64_t since = d->q->d.loop.mono_ms - d->sounded_ms, wait;
    bool over = d->time >= d->due && doors_judged(d) < d->due;

    if (d->due == INT64_MAX)
        return -1;
    if (since >= (over && d->sounded < d->due ? SOUND_DUE_MS : SOUND_MS)) {
        sound(d);
        since = 0;
    }
    wait = SOUND_MS - since;
    if (d->due > d->time && d->due - d->time < wait)
        wait = d->due - d->time;
    else if (over && d->sounded < d->due)
        wait = SOUND_DUE_MS;
    return (int)(wait > 1 ? wait : 1);
}

int64_t doors_time(struct doors *d)
{
    if (d->ticked_ms != awake(d))
        doors_work(d);
    return d->time;
}

int64_t doors_judged(const struct doors *d)
{
    int64_t judged = d->time;

    for (size_t i = 0; i < d->count; i++)
        if (d->all[i].shown < judged)
            judged = d->all[i].shown;
    return judged;
}

/* A door that was quiet for an hour has nothing old to tell, or is away: what
 * it then brings may come too late to be known as a repeat. */
int64_t doors_received_ms(const struct doors *d)
{
    int64_t least = 0;

    for (size_t i = 0; i < d->count; i++) {
        const struct door *door = &d->all[i];

        if (awake(d) - door->came_ms > HOUR_MS)
            continue;
        if (!door->received_ms)
            return 0;
        if (!least || door->received_ms < least)
            least = door->received_ms;
    }
    return least;
}

const char *doors_missing(const struct doors *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (d->all[i].missed)
            return d->all[i].name;
    return NULL;
}
