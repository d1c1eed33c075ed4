/* proxy: the thread that connects the processes on other hosts to run_dir. */
#include "proxy.h"
#include "control.h"
#include "log.h"
#include "processes.h"
#include "proxied.h"
#include <czmq.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 1000 };

/* What the cluster says of one process. */
struct wanted {
    char *name;
    struct place *places;
    size_t count;
};

struct proxy {
    zactor_t *thread;
    char *run_dir;
    struct cluster *cluster; /* the thread uses it to connect only */
};

TAILQ_HEAD(all, proxied);

struct thread {
    const struct proxy *proxy;
    struct all all;
};

/* ---- the thread ---- */

static struct proxied *find(struct thread *t, const char *name)
{
    struct proxied *p;

    TAILQ_FOREACH(p, &t->all, link)
    if (strcmp(p->name, name) == 0)
        return p;
    return NULL;
}

static void take_wanted(struct thread *t, struct wanted *w)
{
    const struct proxy *proxy = t->proxy;
    struct proxied *p = find(t, w->name);

    if (!p) {
        p = proxied_open(proxy->run_dir, w->name);
        TAILQ_INSERT_TAIL(&t->all, p, link);
    }
    proxied_set_places(p, proxy->cluster, w->places, w->count);
    p->wanted = true;
}

static void close_one(struct thread *t, struct proxied *p, bool removed)
{
    TAILQ_REMOVE(&t->all, p, link);
    proxied_close(p, removed);
}

/* The list, which ends with an entry without a name, is ours. */
static void take_list(struct thread *t, struct wanted *list)
{
    struct proxied *p, *next;

    TAILQ_FOREACH(p, &t->all, link)
    p->wanted = false;
    for (struct wanted *w = list; w->name; w++) {
        take_wanted(t, w);
        free(w->name);
    }
    free(list);
    for (p = TAILQ_FIRST(&t->all); p; p = next) {
        next = TAILQ_NEXT(p, link);
        if (!p->wanted)
            close_one(t, p, true);
    }
}

/* false: the proxy is closed. */
static bool take_command(struct thread *t, zsock_t *pipe)
{
    char *command = NULL;
    void *list = NULL;
    bool goes_on;

    if (zsock_recv(pipe, "sp", &command, &list) != 0)
        return false;
    goes_on = strcmp(command, "peers") == 0;
    if (goes_on) {
        take_list(t, list);
        zsock_signal(pipe, 0);
    }
    zstr_free(&command);
    return goes_on;
}

static void run(zsock_t *pipe, void *proxy)
{
    struct thread t = {.proxy = proxy};
    zmq_pollitem_t *items = NULL;
    struct proxied *p;
    bool goes_on = true;

    TAILQ_INIT(&t.all);
    zsock_signal(pipe, 0);
    while (goes_on) {
        int n = 1, most = 1;

        TAILQ_FOREACH(p, &t.all, link)
        most += proxied_sockets(p);
        items = gr_realloc(items, (size_t)most * sizeof *items);
        items[0] = (zmq_pollitem_t){.socket = zsock_resolve(pipe),
                                    .events = ZMQ_POLLIN};
        TAILQ_FOREACH(p, &t.all, link)
        n += proxied_items(p, items + n);
        if (zmq_poll(items, n, TICK_MS) < 0)
            continue;
        TAILQ_FOREACH(p, &t.all, link)
        proxied_work(p);
        if (items[0].revents)
            goes_on = take_command(&t, pipe);
    }
    while ((p = TAILQ_FIRST(&t.all)))
        close_one(&t, p, false);
    free(items);
}

/* ---- the console's side ---- */

static bool is_asked(const struct cluster *cluster, const char *name, size_t n)
{
    const char *each;
    size_t at = 0;

    while ((each = cluster_asked(cluster, &at)))
        if (strncmp(each, name, n) == 0 && !each[n])
            return true;
    return false;
}

/* Files that a console with other peers has left. */
static void forget_others(const char *run_dir, const struct cluster *cluster)
{
    static const char *const kinds[] = {"control", "metrics", "host"};
    static const char suffix[] = ".host";
    DIR *dir = opendir(run_dir);
    struct dirent *e;

    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name), s = strlen(suffix);

        if (n <= s || strcmp(e->d_name + n - s, suffix) != 0 ||
            is_asked(cluster, e->d_name, n - s))
            continue;
        for (size_t i = 0; i < COUNT_OF(kinds); i++) {
            char *path = gr_printf("%s/%.*s.%s", run_dir, (int)(n - s),
                                   e->d_name, kinds[i]);

            unlink(path);
            free(path);
        }
    }
    if (dir)
        closedir(dir);
}

struct proxy *proxy_open(const char *run_dir, struct cluster *cluster)
{
    struct proxy *p = gr_alloc(sizeof *p);

    *p = (struct proxy){.run_dir = gr_strdup(run_dir), .cluster = cluster};
    forget_others(run_dir, cluster);
    if (!cluster)
        return p;
    p->thread = zactor_new(run, p);
    proxy_reload(p);
    return p;
}

static void list_places(const struct cluster *c, struct wanted *w)
{
    struct cluster_place place;
    size_t at = 0;

    while (cluster_place(c, w->name, &at, &place)) {
        w->places = gr_realloc(w->places, (w->count + 1) * sizeof *w->places);
        w->places[w->count++] = (struct place){.host = gr_strdup(place.host),
                                               .here = place.here,
                                               .route = place.route};
    }
}

void proxy_reload(struct proxy *p)
{
    struct wanted *list = NULL;
    const char *name;
    size_t at = 0, n = 0;

    if (!p->thread)
        return;
    do {
        list = gr_realloc(list, (n + 1) * sizeof *list);
        list[n] = (struct wanted){0};
        name = cluster_asked(p->cluster, &at);
        if (name) {
            list[n] = (struct wanted){.name = gr_strdup(name)};
            list_places(p->cluster, &list[n++]);
        }
    } while (name);
    zsock_send(p->thread, "sp", "peers", list);
    zsock_wait(p->thread); /* then the sockets are bound */
}

void proxy_close(struct proxy *p)
{
    if (!p)
        return;
    zactor_destroy(&p->thread); /* sends "$TERM" */
    free(p->run_dir);
    free(p);
}
