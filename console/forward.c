/* forward: reads the metrics of all processes and publishes them at one address. */
#include "forward.h"
#include "alloc.h"
#include "ipc.h"
#include "log.h"
#include "monitors.h"
#include <czmq.h>
#include <dirent.h>

/* If the console is slow, ZeroMQ drops frames at this mark, so that no process waits for
 * it. */
enum { FRAMES_KEPT = 1000, ONE_MAX_BYTES = 1024 * 1024 };

struct connected {
    struct connected *next;
    bool there;
    uint64_t file; /* of its socket */
    char name[NAME_MAX_BYTES + 1];
};

struct forward {
    zsock_t *in;
    struct monitors *out;
    char *run_dir;
    struct connected *all;
};

struct forward *forward_open(const char *run_dir, const char *publish)
{
    struct forward *f = gr_alloc(sizeof *f);

    f->run_dir = gr_strdup(run_dir);
    f->in = zsock_new(ZMQ_SUB);
    zsock_set_rcvtimeo(f->in, 0);
    zsock_set_rcvhwm(f->in, FRAMES_KEPT);
    zsock_set_maxmsgsize(f->in, ONE_MAX_BYTES);
    zsock_set_subscribe(
        f->in, ""); /* also without a monitor: the console itself reads them */
    f->out = monitors_open(publish);
    return f;
}

void forward_close(struct forward *f)
{
    struct connected *c;

    if (!f)
        return;
    zsock_destroy(&f->in);
    monitors_close(f->out);
    while ((c = f->all)) {
        f->all = c->next;
        free(c);
    }
    free(f->run_dir);
    free(f);
}

zsock_t *forward_in(struct forward *f)
{
    return f->in;
}

struct monitors *forward_out(struct forward *f)
{
    return f->out;
}

/* ---- processes ---- */

static void reconnect(struct forward *f, const char *name, bool on)
{
    if ((on ? zsock_connect : zsock_disconnect)(f->in, "ipc://%s/%s.metrics",
                                                f->run_dir, name) != 0)
        log_warn(NULL, "the metrics of a process cannot be read",
                 LS("peer", name), LS("error", zmq_strerror(errno)));
}

static void note(struct forward *f, const char *name, size_t n)
{
    struct connected *c;

    for (c = f->all; c; c = c->next)
        if (strncmp(c->name, name, n) == 0 && !c->name[n]) {
            c->there = true;
            ipc_follow(f->in, f->run_dir, c->name, "metrics", &c->file);
            return;
        }
    c = gr_alloc(sizeof *c);
    snprintf(c->name, sizeof c->name, "%.*s", (int)n, name);
    c->there = true;
    c->next = f->all;
    f->all = c;
    ipc_follow(f->in, f->run_dir, c->name, "metrics", &c->file);
    reconnect(f, c->name, true);
}

void forward_look(struct forward *f)
{
    static const char suffix[] = ".metrics";
    size_t s = sizeof suffix - 1;
    DIR *dir = opendir(f->run_dir);
    struct connected *c;
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
}

bool forward_gone(struct forward *f, char name[NAME_MAX_BYTES + 1])
{
    struct connected **at = &f->all, *c;

    while ((c = *at) && c->there)
        at = &c->next;
    if (!c)
        return false;
    *at = c->next;
    reconnect(f, c->name, false);
    snprintf(name, NAME_MAX_BYTES + 1, "%s", c->name);
    free(c);
    return true;
}

/* ---- frames ---- */

zframe_t *forward_take(struct forward *f)
{
    zframe_t *frame = zframe_recv(f->in);

    if (frame)
        monitors_send(f->out, zframe_data(frame), zframe_size(frame));
    return frame;
}
