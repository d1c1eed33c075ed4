/* proxied: forwards requests to one process on another host, and its replies and metrics into run_dir. */
#include "proxied.h"
#include "clock.h"
#include "collector.h"
#include "control.h"
#include "log.h"
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAITING_MAX = 256, /* requests without a reply */
    /* Longer than any client waits: then its entry only takes space. */
    FORGOTTEN_MS = 15 * 60 * 1000,
    MESSAGES_AT_ONCE = 64,
    LOOK_MS = 1000, /* and a round of pings */
    PLACES_MAX_BYTES = 4096,
};

struct proxied_request {
    TAILQ_ENTRY(proxied_request) link;
    uint64_t number;
    struct instance *to;
    zframe_t *client; /* ROUTER's name for it */
    int64_t since_ms;
};

/* ---- requests ---- */

static void forget(struct proxied *p, struct proxied_request *r)
{
    TAILQ_REMOVE(&p->waiting, r, link);
    p->waiting_count--;
    zframe_destroy(&r->client);
    free(r);
}

static void reply(struct proxied *p, zframe_t *client, const void *text,
                  size_t n)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(client), zframe_size(client));
    zmsg_addmem(msg, "", 0);
    zmsg_addmem(msg, text, n);
    (void)zmsg_send(&msg, p->sockets.control); /* the client may have gone */
    zmsg_destroy(&msg);
}

static void fail(struct proxied *p, zframe_t *client, const char *code,
                 const char *why)
{
    char *text = control_error(code, why);

    reply(p, client, text, strlen(text));
    free(text);
}

/* The requests that this instance has (NULL: all) end. */
static void fail_waiting(struct proxied *p, const struct instance *of,
                         const char *what)
{
    struct proxied_request *r, *next;

    for (r = TAILQ_FIRST(&p->waiting); r; r = next) {
        char *where, *why;

        next = TAILQ_NEXT(r, link);
        if (of && r->to != of)
            continue;
        where = instance_where(r->to);
        why = gr_printf("%s before the reply; it may have handled the request: "
                        "%s",
                        what, where);
        fail(p, r->client, CONTROL_LOST, why);
        free(why);
        free(where);
        forget(p, r);
    }
}

static void put_places(const struct proxied *p, struct buf *out)
{
    for (int i = 0; i < p->count; i++) {
        char *where = instance_where(&p->instances[i]);

        buf_printf(out, "%s%s", i ? " or " : "", where);
        free(where);
    }
}

static void fail_unreachable(struct proxied *p, zframe_t *client)
{
    struct buf why;

    buf_init(&why, PLACES_MAX_BYTES);
    if (*p->near_host)
        buf_printf(&why, "it does not answer on this host (%s), and there is ",
                   p->near_host);
    buf_puts(&why, "no connection to ");
    put_places(p, &why);
    if (*p->near_host || p->count > 1)
        buf_puts(&why, ": start it on one of them");
    fail(p, client, CONTROL_UNREACHABLE, why.data);
    buf_fini(&why);
}

/* The instance on another host that is asked; NULL: there is none. */
static struct instance *asked(const struct proxied *p)
{
    return p->active >= 0 && p->active < p->count ? &p->instances[p->active]
                                                  : NULL;
}

/* [client, empty, text]; another message is dropped. */
static void take_request(struct proxied *p, zmsg_t *msg)
{
    zframe_t *client = zmsg_unwrap(msg), *text = zmsg_first(msg);
    struct instance *to = asked(p);
    struct proxied_request *r;

    if (zmsg_size(msg) != 1) {
        zframe_destroy(&client);
        return;
    }
    if (p->waiting_count == WAITING_MAX) {
        fail(p, client, "busy", "too many requests wait for this process");
    } else if (!to || !instance_send(to, ++p->last, zframe_data(text),
                                     zframe_size(text))) {
        fail_unreachable(p, client);
    } else {
        r = gr_alloc(sizeof *r);
        *r = (struct proxied_request){.number = p->last,
                                      .to = to,
                                      .client = client,
                                      .since_ms = mono_ms()};
        TAILQ_INSERT_TAIL(&p->waiting, r, link);
        p->waiting_count++;
        return;
    }
    zframe_destroy(&client);
}

static void take_reply(struct proxied *p, struct instance *i, zframe_t *number,
                       zframe_t *text)
{
    struct proxied_request *r;
    uint64_t n;

    if (zframe_size(number) != sizeof n)
        return;
    memcpy(&n, zframe_data(number), sizeof n);
    if (instance_ponged(i, n,
                        (struct bytes){zframe_data(text), zframe_size(text)}))
        return;
    TAILQ_FOREACH(r, &p->waiting, link)
    if (r->number == n && r->to == i)
        break;
    if (!r)
        return;
    reply(p, r->client, zframe_data(text), zframe_size(text));
    forget(p, r);
}

/* ---- metrics ---- */

static void ask_for_metrics(struct proxied *p)
{
    struct instance *i = asked(p);

    if (i && p->sockets.metrics && instance_wants_metrics(i))
        p->asked_ms = mono_ms();
}

/* A process speaks for itself only: its frames must not replace those of another. */
static void take_metrics(struct proxied *p, const struct instance *i,
                         zframe_t *frame)
{
    struct bytes bytes = {zframe_data(frame), zframe_size(frame)};

    if (i != asked(p) || !p->sockets.metrics)
        return;
    if (collector_is_from(bytes, p->name))
        zsock_send(p->sockets.metrics, "b", bytes.p, bytes.n);
    else
        log_warn(NULL,
                 "metrics were dropped: another process than the one that "
                 "sent them is named there",
                 LS("peer", p->name));
}

/* [number, empty, text], or ["metrics", frame]. */
static void take_message(struct proxied *p, struct instance *i, zmsg_t *msg)
{
    zframe_t *first = zmsg_first(msg);

    if (zmsg_size(msg) == 3)
        take_reply(p, i, first, zmsg_last(msg));
    else if (zmsg_size(msg) == 2 && zframe_streq(first, CONTROL_METRICS))
        take_metrics(p, i, zmsg_last(msg));
}

/* ---- which instance is asked ---- */

/* A console that is not running has left it: the place that was last known, or all of them. */
static void write_host(struct proxied *p)
{
    const struct instance *one = p->count == 1 && !*p->near_host
                                     ? &p->instances[0]
                                     : asked(p);
    struct buf text;

    buf_init(&text, PLACES_MAX_BYTES);
    for (int i = 0; i < p->count && !*p->near_host; i++)
        if (!one || one == &p->instances[i]) {
            if (text.len)
                buf_puts(&text, " or ");
            instance_put_place(&p->instances[i], &text);
        }
    if (*p->near_host && one)
        instance_put_place(one, &text);
    run_sockets_write_host(&p->sockets,
                           p->sockets.control && text.len ? text.data : NULL);
    buf_fini(&text);
}

static void turn_to(struct proxied *p, int chosen)
{
    struct instance *former = asked(p), *next;

    if (former)
        fail_waiting(p, former, "another instance answers");
    p->active = chosen;
    next = asked(p);
    if (next && (p->count > 1 || *p->near_host))
        log_info(NULL, "this instance of a process is asked now",
                 LS("peer", p->name), LS("host", next->host));
    ask_for_metrics(p);
    write_host(p);
}

static int list_candidates(const struct proxied *p, struct candidate *all)
{
    for (int i = 0; i < p->count; i++)
        all[i] = p->instances[i].state;
    all[p->count] = p->near.state;
    all[p->count].open = p->near.state.open && !p->sockets.control;
    return p->count + 1;
}

static void choose(struct proxied *p)
{
    struct candidate *all = gr_alloc(((size_t)p->count + 1) * sizeof *all);
    int n = list_candidates(p, all), chosen = active_choose(all, n, p->active);

    free(all);
    if (chosen == p->active)
        return;
    if (chosen >= 0 && chosen < p->count && !p->sockets.control &&
        !run_sockets_take(&p->sockets, p->near.file))
        return; /* the next look tries it again */
    turn_to(p, chosen);
}

/* A round begins. Only of the one before it is known who has answered. */
static void ping_all(struct proxied *p)
{
    struct candidate *all = gr_alloc(((size_t)p->count + 1) * sizeof *all);
    int n = list_candidates(p, all), open = 0, answered = 0;

    for (int i = 0; i < n; i++) {
        open += all[i].open;
        answered += all[i].open && all[i].answered == p->round;
    }
    free(all);
    if (open < 2) {
        p->told = false;
        return;
    }
    if (answered > 1 && !p->told)
        log_warn(NULL,
                 "two instances of a process answer, and only one may run: "
                 "stop one of them",
                 LS("peer", p->name));
    p->told = answered > 1;
    p->round++;
    for (int i = 0; i < p->count; i++)
        if (p->instances[i].state.open)
            instance_ping(&p->instances[i], ++p->last, p->round);
    near_instance_ping(&p->near, p->round);
}

static bool any_is_open(const struct proxied *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->instances[i].state.open)
            return true;
    return false;
}

static void look(struct proxied *p)
{
    if (p->sockets.control && !run_sockets_own(&p->sockets)) {
        fail_waiting(p, NULL, "the process was started on this host");
        run_sockets_close(&p->sockets);
        p->active = p->count;
        write_host(p);
    }
    if (!p->sockets.control) {
        near_instance_look(&p->near, p->run_dir, p->name, any_is_open(p),
                           p->round - 1);
        if (!p->near.state.open && run_sockets_take(&p->sockets, 0))
            write_host(p);
    }
    if (p->sockets.control)
        near_instance_close(&p->near);
    ping_all(p);
    choose(p);
}

/* ---- the connections ---- */

/* Processes that cannot be reached do not fill the log: only a change is told. */
static void take_event(struct proxied *p, struct instance *i, zmsg_t *msg)
{
    bool was = i->state.open;
    enum instance_change change = instance_take_event(i, zmsg_first(msg));
    char *where;

    if (change == INSTANCE_SAME)
        return;
    where = instance_where(i);
    if (change == INSTANCE_CONNECTED && !was) {
        log_info(NULL, "connected to a process on another host",
                 LS("peer", p->name), LS("address", where));
        i->state.answered = p->round - 1;
    } else if (change == INSTANCE_ENDED) {
        log_warn(NULL, "the connection to a process on another host ended",
                 LS("peer", p->name), LS("address", where));
        fail_waiting(p, i, "the connection ended");
    }
    free(where);
    ask_for_metrics(p);
    p->look_due_ms = 0;
}

static void disconnect(struct proxied *p)
{
    if (p->sockets.control)
        fail_waiting(p, NULL, "the connection ended");
    for (int i = 0; i < p->count; i++)
        instance_close(&p->instances[i]);
    near_instance_close(&p->near);
    free(p->instances);
    free(p->places);
    p->instances = NULL;
    p->places = NULL;
    p->count = 0;
    p->active = -1;
    *p->near_host = 0;
}

static void connect_all(struct proxied *p, struct cluster *cluster,
                        struct place *places, size_t count)
{
    p->instances = gr_alloc((count + 1) * sizeof *p->instances);
    p->key_number = cluster_key_number(cluster);
    for (size_t i = 0; i < count; i++) {
        if (places[i].here) {
            snprintf(p->near_host, sizeof p->near_host, "%s", places[i].host);
            continue;
        }
        instance_open(&p->instances[p->count++], p->name, places[i].host,
                      places[i].route, cluster);
        places[i].route = NULL; /* its own now */
    }
}

static char *text_of_places(const struct place *places, size_t count)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s %d %s\n", places[i].host, places[i].here,
                   places[i].route);
    return buf_take(&text);
}

void proxied_set_places(struct proxied *p, struct cluster *cluster,
                        struct place *places, size_t count)
{
    char *text = text_of_places(places, count);

    if (!p->places || strcmp(p->places, text) != 0 ||
        p->key_number != cluster_key_number(cluster)) {
        disconnect(p);
        p->places = text;
        text = NULL;
        connect_all(p, cluster, places, count);
        look(p);
        write_host(p);
    }
    for (size_t i = 0; i < count; i++) {
        free(places[i].host);
        free(places[i].route);
    }
    free(places);
    free(text);
}

struct proxied *proxied_open(const char *run_dir, const char *name)
{
    struct proxied *p = gr_alloc(sizeof *p);

    *p = (struct proxied){.run_dir = gr_strdup(run_dir), .active = -1};
    snprintf(p->name, sizeof p->name, "%s", name);
    p->sockets = (struct run_sockets){.run_dir = p->run_dir, .name = p->name};
    TAILQ_INIT(&p->waiting);
    return p;
}

void proxied_close(struct proxied *p, bool removed)
{
    disconnect(p);
    run_sockets_close(&p->sockets);
    if (removed)
        run_sockets_write_host(&p->sockets, NULL);
    free(p->run_dir);
    free(p);
}

/* ---- work ---- */

int proxied_sockets(const struct proxied *p)
{
    return 2 + 2 * p->count;
}

static void add_item(zmq_pollitem_t *items, int *n, zsock_t *socket)
{
    if (socket)
        items[(*n)++] = (zmq_pollitem_t){.socket = zsock_resolve(socket),
                                         .events = ZMQ_POLLIN};
}

int proxied_items(const struct proxied *p, zmq_pollitem_t *items)
{
    int n = 0;

    add_item(items, &n, p->sockets.control);
    add_item(items, &n, p->near.socket);
    for (int i = 0; i < p->count; i++) {
        add_item(items, &n, p->instances[i].events);
        add_item(items, &n, p->instances[i].far);
    }
    return n;
}

static void take_all(struct proxied *p, struct instance *i, zsock_t *socket,
                     void (*take)(struct proxied *p, struct instance *i,
                                  zmsg_t *msg))
{
    for (int k = 0; k < MESSAGES_AT_ONCE; k++) {
        zmsg_t *msg = zmsg_recv(socket);

        if (!msg)
            return;
        take(p, i, msg);
        zmsg_destroy(&msg);
    }
}

static void take_requests(struct proxied *p)
{
    for (int k = 0; k < MESSAGES_AT_ONCE; k++) {
        zmsg_t *msg = p->sockets.control ? zmsg_recv(p->sockets.control) : NULL;

        if (!msg)
            return;
        take_request(p, msg);
        zmsg_destroy(&msg);
    }
}

void proxied_work(struct proxied *p)
{
    struct proxied_request *r;
    int64_t now = mono_ms();

    for (int i = 0; i < p->count; i++) {
        struct instance *one = &p->instances[i];

        take_all(p, one, one->far, take_message); /* what came before its end */
        take_all(p, one, one->events, take_event);
    }
    near_instance_take(&p->near);
    if (now >= p->look_due_ms) {
        look(p);
        p->look_due_ms = now + LOOK_MS;
    }
    take_requests(p);
    if (now - p->asked_ms > CONTROL_METRICS_MS / 3)
        ask_for_metrics(p);
    while ((r = TAILQ_FIRST(&p->waiting)) && now - r->since_ms > FORGOTTEN_MS)
        forget(p, r);
}
