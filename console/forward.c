#include "forward.h"
#include "alloc.h"
#include "log.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A slow monitor loses frames, never holds us up: ZeroMQ drops at this mark. */
enum { FRAMES_KEPT = 1000, ONE_MAX_BYTES = 1024 * 1024 };

struct connected {
    struct connected *next;
    bool there;
    char name[NAME_MAX_BYTES + 1];
};

struct forward {
    void *in, *out;
    char *run_dir;
    struct connected *all;
    int64_t subscribers;
};

static void *make_socket(void *zmq, int kind)
{
    void *s = zmq_socket(zmq, kind);
    int none = 0, most = FRAMES_KEPT;
    int64_t bytes = ONE_MAX_BYTES;

    if (!s)
        die(EXIT_UNAVAILABLE, "no socket: %s", zmq_strerror(errno));
    zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(s, ZMQ_RCVHWM, &most, sizeof most);
    zmq_setsockopt(s, ZMQ_SNDHWM, &most, sizeof most);
    zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes);
    return s;
}

struct forward *forward_open(void *zmq, const char *run_dir,
                             const char *publish)
{
    struct forward *f = gr_alloc(sizeof *f);
    int all = 1;

    f->run_dir = gr_strdup(run_dir);
    f->in = make_socket(zmq, ZMQ_XSUB);
    f->out = make_socket(zmq, ZMQ_XPUB);
    /* Each monitor that comes and goes, for the count. */
    zmq_setsockopt(f->out, ZMQ_XPUB_VERBOSER, &all, sizeof all);
    if (zmq_bind(f->out, publish) != 0)
        die(EXIT_UNAVAILABLE, "metrics.publish: can't bind %s: %s", publish,
            zmq_strerror(errno));
    /* We want all of it ourselves, whoever else listens. */
    zmq_send(f->in, "\1", 1, ZMQ_DONTWAIT);
    return f;
}

void forward_close(struct forward *f)
{
    struct connected *c;

    if (!f)
        return;
    zmq_close(f->in);
    zmq_close(f->out);
    while ((c = f->all)) {
        f->all = c->next;
        free(c);
    }
    free(f->run_dir);
    free(f);
}

void *forward_in(struct forward *f)
{
    return f->in;
}

void *forward_out(struct forward *f)
{
    return f->out;
}

int64_t forward_subscribers(const struct forward *f)
{
    return f->subscribers;
}

/* ---- who is there ---- */

static void reconnect(struct forward *f, const char *name, bool on)
{
    char *address = gr_printf("ipc://%s/%s.metrics", f->run_dir, name);

    if ((on ? zmq_connect : zmq_disconnect)(f->in, address) != 0)
        log_warn(NULL, "a process's metrics can't be read", LS("peer", name),
                 LS("error", zmq_strerror(errno)));
    free(address);
}

static void note(struct forward *f, const char *name, size_t n)
{
    struct connected *c;

    for (c = f->all; c; c = c->next)
        if (strncmp(c->name, name, n) == 0 && !c->name[n]) {
            c->there = true;
            return;
        }
    c = gr_alloc(sizeof *c);
    snprintf(c->name, sizeof c->name, "%.*s", (int)n, name);
    c->there = true;
    c->next = f->all;
    f->all = c;
    reconnect(f, c->name, true);
}

void forward_look(struct forward *f,
                  void (*gone)(void *self, const char *process), void *self)
{
    static const char suffix[] = ".metrics";
    size_t s = sizeof suffix - 1;
    DIR *dir = opendir(f->run_dir);
    struct connected **at = &f->all, *c;
    struct dirent *e;

    for (c = f->all; c; c = c->next)
        c->there = false;
    while (dir && (e = readdir(dir))) {
        size_t n = strlen(e->d_name);

        if (n > s && n - s <= NAME_MAX_BYTES &&
            strcmp(e->d_name + n - s, suffix) == 0)
            note(f, e->d_name, n - s);
    }
    if (dir)
        closedir(dir);
    while ((c = *at)) {
        if (c->there) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        reconnect(f, c->name, false);
        gone(self, c->name);
        free(c);
    }
}

/* ---- frames ---- */

/* Monitors say what they want; ZeroMQ keeps to it, we only count. */
static void take_subscriptions(struct forward *f)
{
    char what[1];

    while (zmq_recv(f->out, what, sizeof what, ZMQ_DONTWAIT) >= 0)
        f->subscribers += *what == 1 ? 1 : -1;
}

bool forward_take(struct forward *f, zmq_msg_t *msg)
{
    zmq_msg_t copy;

    take_subscriptions(f);
    zmq_msg_init(msg);
    if (zmq_msg_recv(msg, f->in, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(msg);
        return false;
    }
    zmq_msg_init(&copy);
    zmq_msg_copy(&copy, msg);
    if (zmq_msg_send(&copy, f->out, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&copy);
    return true;
}
