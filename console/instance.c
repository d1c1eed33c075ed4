/* instance: connects to one place of a process on another host, and notices the end of the connection. */
#include "instance.h"
#include "control.h"
#include "log.h"
#include "process_socket.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLIES_KEPT = 16, /* in memory of ZeroMQ: one may be large */
    EVENT_BYTES = 6,
};

/* ---- the connection ---- */

static const char *address_of(const struct instance *i)
{
    return strrchr(i->route, ' ') + 1;
}

char *instance_where(const struct instance *i)
{
    return *i->host ? gr_printf("%s at %s", i->host, address_of(i))
                    : gr_strdup(address_of(i));
}

void instance_put_place(const struct instance *i, struct buf *out)
{
    const char *address = address_of(i) + strlen("tcp://");

    if (*i->host)
        buf_printf(out, "%s (%s)", i->host, address);
    else
        buf_puts(out, address);
}

void instance_open(struct instance *i, const char *name, const char *host,
                   char *route, struct cluster *cluster)
{
    /* The former socket may still have its address. */
    static int connections;
    char *address = gr_printf("inproc://instance.%d", connections++);

    *i = (struct instance){.route = route};
    snprintf(i->host, sizeof i->host, "%s", host);
    i->far = zsock_new(ZMQ_DEALER);
    zsock_set_linger(i->far, 0);
    zsock_set_sndtimeo(i->far, 0);
    zsock_set_rcvtimeo(i->far, 0);
    zsock_set_immediate(i->far, 1); /* nothing is kept for a later connection */
    zsock_set_rcvhwm(i->far, REPLIES_KEPT);
    zsock_set_maxmsgsize(i->far, REPLY_MAX_BYTES);
    zmq_socket_monitor(zsock_resolve(i->far), address,
                       ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                           ZMQ_EVENT_DISCONNECTED);
    i->events = zsock_new(ZMQ_PAIR);
    zsock_set_rcvtimeo(i->events, 0);
    zsock_connect(i->events, "%s", address);
    if (cluster_connect(cluster, i->far, i->route) != GR_OK)
        log_warn(NULL, "the address of a process on another host is wrong",
                 LS("peer", name), LS("address", address_of(i)));
    free(address);
}

void instance_close(struct instance *i)
{
    zsock_destroy(&i->far); /* ends its events, too */
    zsock_destroy(&i->events);
    free(i->route);
    *i = (struct instance){0};
}

/* Whether a connection is left of which the handshake may be the one that succeeded. */
static bool close_attempt(struct instance *i, int32_t fd)
{
    bool left = false;

    for (int k = 0; k < i->attempt_count; k++)
        if (i->attempts[k].fd == fd)
            i->attempts[k--] = i->attempts[--i->attempt_count];
        else
            left |= i->attempts[k].may_be_it;
    return left;
}

/* A peer with two listed keys is tried with both (cluster_connect()). ZeroMQ does not say whose handshake succeeded: it is
 * one of the connections that are open then, and those with the other key end at once. */
enum instance_change instance_take_event(struct instance *i, zframe_t *frame)
{
    bool was = i->state.open;
    uint16_t event;
    int32_t fd;

    if (!frame || zframe_size(frame) != EVENT_BYTES)
        return INSTANCE_SAME;
    memcpy(&event, zframe_data(frame), sizeof event);
    memcpy(&fd, zframe_data(frame) + sizeof event, sizeof fd);
    if (event == ZMQ_EVENT_CONNECTED) {
        if (i->attempt_count < ATTEMPTS_MAX)
            i->attempts[i->attempt_count++] = (struct attempt){.fd = fd};
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        for (int k = 0; k < i->attempt_count; k++)
            i->attempts[k].may_be_it = true;
        i->state.open = true;
        i->ping = 0; /* a new connection has no reply to it */
        return INSTANCE_CONNECTED;
    } else if (event == ZMQ_EVENT_DISCONNECTED && !close_attempt(i, fd)) {
        i->state.open = false;
        i->ping = 0;
        return was ? INSTANCE_ENDED : INSTANCE_SAME;
    }
    return INSTANCE_SAME;
}

/* ---- messages ---- */

bool instance_send(struct instance *i, uint64_t number, const void *text,
                   size_t n)
{
    zmsg_t *msg = zmsg_new();
    bool sent;

    zmsg_addmem(msg, &number, sizeof number);
    zmsg_addmem(msg, "", 0);
    zmsg_addmem(msg, text, n);
    sent = zmsg_send(&msg, i->far) == 0;
    zmsg_destroy(&msg);
    return sent;
}

bool instance_wants_metrics(struct instance *i)
{
    return i->state.open && zstr_send(i->far, CONTROL_METRICS) == 0;
}

void instance_ping(struct instance *i, uint64_t number, int64_t round)
{
    char *text;

    if (i->ping)
        return;
    text = control_question("ping", NULL, NULL);
    if (instance_send(i, number, text, strlen(text))) {
        i->ping = number;
        i->pinged = round;
    }
    free(text);
}

bool instance_is_active(struct bytes text)
{
    char code[CONTROL_CODE_BYTES], why[200];
    json_t *reply = control_reading(text, code, why);
    bool yes = reply != NULL;

    json_decref(reply);
    return yes;
}

bool instance_ponged(struct instance *i, uint64_t number, struct bytes text)
{
    if (!i->ping || number != i->ping)
        return false;
    i->ping = 0;
    if (i->pinged > i->state.answered && instance_is_active(text))
        i->state.answered = i->pinged;
    return true;
}
