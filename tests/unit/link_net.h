/* link_net: a network of the test's own instead of proto/mailbox.c, so that which frame
 * comes when is drawn from the seed and a run can be repeated. Include it before
 * link_pair.h.
 *
 * It loses, keeps and delays what ZeroMQ's PUSH and PULL over ipc may lose, keep and
 * delay. One pipe per sending process and address, in order. Of a sender that dies
 * some frames still arrive, and a receiver reads them after those of the successor if
 * it comes to that. Of a receiver that dies some frames are gone, and what was not yet
 * on its way is read by the next process at that address. Pipes are read in any order. */
#ifndef UNIT_LINK_NET_H
#define UNIT_LINK_NET_H

#include "alloc.h"
#include "bounds.h"
#include "mailbox.h"
#include "seeded.h"
#include <czmq.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NET_PIPES_MAX = 256, NET_FRAMES_MAX = 320, NET_STALL_MAX = 400 };

struct mailbox {
    char name[NAME_MAX_BYTES + 1], dir[INBOX_MAX_BYTES + 1];
    char address[INBOX_MAX_BYTES + 1];
};

static struct net_pipe {
    const struct mailbox *from; /* NULL: it died */
    char to[INBOX_MAX_BYTES + 1];
    struct net_frame {
        void *p;
        size_t n;
    } frames[NET_FRAMES_MAX];
    size_t count, arrived;
    int stalled; /* nothing arrives for so many steps */
} * net_pipes[NET_PIPES_MAX];
static size_t net_count;
static unsigned net_stall_pm; /* per mille of steps: a pipe begins to stall */

static inline void net_drop_frames(struct net_pipe *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        free(p->frames[i].p);
    memmove(p->frames + from, p->frames + to,
            (p->count - to) * sizeof p->frames[0]);
    p->count -= to - from;
}

static inline void net_remove(size_t i)
{
    net_drop_frames(net_pipes[i], 0, net_pipes[i]->count);
    free(net_pipes[i]);
    net_pipes[i] = net_pipes[--net_count];
}

static inline void net_forget_all(void)
{
    while (net_count)
        net_remove(net_count - 1);
}

/* Frames arrive. Returns whether some are still on their way or unread. */
static inline bool net_step(void)
{
    bool any = false;

    for (size_t i = 0; i < net_count; i++) {
        struct net_pipe *p = net_pipes[i];
        size_t left = p->count - p->arrived;

        any = any || p->count;
        if (p->stalled) {
            p->stalled--;
            continue;
        }
        if (left && rig_random() % 1000 < net_stall_pm)
            p->stalled = (int)(rig_random() % NET_STALL_MAX);
        else if (left)
            p->arrived += rig_random() % (left + 1);
    }
    return any;
}

/* ---- mailbox.h ---- */

struct mailbox *mailbox_open(const char *run_dir, const char *name)
{
    struct mailbox *m = gr_alloc(sizeof *m);

    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->dir, sizeof m->dir, "%s", run_dir);
    mailbox_address_of(m, name, m->address);
    return m;
}

void mailbox_close(struct mailbox *m)
{
    for (size_t i = net_count; i-- > 0;) {
        struct net_pipe *p = net_pipes[i];

        if (p->from == m) { /* frames that have not left die with it */
            size_t left = p->arrived +
                          rig_random() % (p->count - p->arrived + 1);

            net_drop_frames(p, left, p->count);
            p->from = NULL;
        }
        if (strcmp(p->to, m->address) == 0) {
            size_t gone = p->arrived +
                          rig_random() % (p->count - p->arrived + 1);

            net_drop_frames(p, 0, p->from ? gone : p->count);
            p->arrived = 0;
        }
        if (!p->from && !p->count)
            net_remove(i);
    }
    free(m);
}

const char *mailbox_name(const struct mailbox *m)
{
    return m->name;
}

const char *mailbox_address(const struct mailbox *m, const char *to)
{
    (void)to;
    return m->address;
}

zsock_t *mailbox_socket(struct mailbox *m)
{
    (void)m;
    return NULL;
}

void mailbox_open_priority(struct mailbox *m)
{
    (void)m;
}

const char *mailbox_priority_address(const struct mailbox *m, const char *to)
{
    (void)to;
    return m->address;
}

void mailbox_address_of(const struct mailbox *m, const char *peer, char *out)
{
    snprintf(out, INBOX_MAX_BYTES + 1, "ipc://%.150s/%.63s.inbox", m->dir,
             peer);
}

bool mailbox_reaches(const struct mailbox *m, struct bytes address)
{
    (void)m;
    return address.n > 0 && address.n <= INBOX_MAX_BYTES;
}

static inline struct net_pipe *net_find(const struct mailbox *m,
                                        const char *address)
{
    for (size_t i = 0; i < net_count; i++)
        if (net_pipes[i]->from == m && strcmp(net_pipes[i]->to, address) == 0)
            return net_pipes[i];
    if (net_count == NET_PIPES_MAX)
        abort();
    net_pipes[net_count] = gr_alloc(sizeof **net_pipes);
    net_pipes[net_count]->from = m;
    snprintf(net_pipes[net_count]->to, sizeof net_pipes[0]->to, "%s", address);
    return net_pipes[net_count++];
}

bool mailbox_has_space(struct mailbox *m, const char *address)
{
    return net_find(m, address)->count < NET_FRAMES_MAX;
}

int mailbox_full(struct mailbox *m, zmq_pollitem_t *items, int max)
{
    (void)m, (void)items, (void)max;
    return 0;
}

gr_rc mailbox_send(struct mailbox *m, const char *address, struct bytes frame)
{
    struct net_pipe *p = net_find(m, address);

    if (p->count == NET_FRAMES_MAX)
        return GR_AGAIN;
    p->frames[p->count].p = gr_alloc(frame.n ? frame.n : 1);
    memcpy(p->frames[p->count].p, frame.p, frame.n);
    p->frames[p->count++].n = frame.n;
    return GR_OK;
}

zframe_t *mailbox_take(struct mailbox *m)
{
    size_t first = net_count ? rig_random() % net_count : 0;

    for (size_t k = 0; k < net_count; k++) {
        size_t i = (first + k) % net_count;
        struct net_pipe *p = net_pipes[i];
        zframe_t *frame;

        if (strcmp(p->to, m->address) != 0 || !p->arrived)
            continue;
        frame = zframe_new(p->frames[0].p, p->frames[0].n);
        net_drop_frames(p, 0, 1);
        p->arrived--;
        if (!p->from && !p->count)
            net_remove(i);
        return frame;
    }
    return NULL;
}

zframe_t *mailbox_take_priority(struct mailbox *m)
{
    (void)m;
    return NULL;
}

#endif
