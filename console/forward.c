#include "forward.h"
#include "alloc.h"
#include "log.h"
#include "monitors.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When we are slow, frames are lost, and no process waits: ZeroMQ drops at this
 * mark. */
enum { FRAMES_KEPT = 1000, ONE_MAX_BYTES = 1024 * 1024 };

struct connected {
    struct connected *next;
    bool there;
    char name[NAME_MAX_BYTES + 1];
};

struct forward {
    void *in;
    struct monitors *out;
    char *run_dir;
    struct connected *all;
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
    zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes);
    return s;
}

struct forward *forward_open(void *zmq, const char *run_dir,
                             const char *publish)
{
    struct forward *f = gr_alloc(sizeof *f);

    f->run_dir = gr_strdup(run_dir);
    f->in = make_socket(zmq, ZMQ_XSUB);
    f->out = monitors_open(publish);
    /* All frames, also when no monitor is there: we read them too. */
    zmq_send(f->in, "\1", 1, ZMQ_DONTWAIT);
    return f;
}

void forward_close(struct forward *f)
{
    struct connected *c;

    if (!f)
        return;
    zmq_close(f->in);
    monitors_close(f->out);
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

struct monitors *forward_out(struct forward *f)
{
    return f->out;
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

bool forward_take(struct forward *f, zmq_msg_t *msg)
{
    zmq_msg_init(msg);
    if (zmq_msg_recv(msg, f->in, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(msg);
        return false;
    }
    monitors_send(f->out, zmq_msg_data(msg), zmq_msg_size(msg));
    return true;
}
