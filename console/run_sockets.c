/* run_sockets: binds sockets in run_dir for a process on another host, as long as none of this host has them. */
#include "run_sockets.h"
#include "alloc.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REQUEST_MAX_BYTES = 1024 * 1024,
    FRAMES_KEPT = 1000,
    LINGER_MS = 200, /* for replies to requests that end with the socket */
};

static bool bind_one(struct run_sockets *s, zsock_t *socket, const char *kind,
                     uint64_t *file)
{
    zsock_set_sndtimeo(socket, 0);
    zsock_set_rcvtimeo(socket, 0);
    zsock_set_linger(socket, LINGER_MS);
    if (zsock_bind(socket, "ipc://%s/%s.%s", s->run_dir, s->name, kind) != 0) {
        if (!s->failed)
            log_warn(NULL,
                     "a process on another host cannot be asked: its socket in "
                     "run_dir cannot be bound",
                     LS("peer", s->name), LS("error", zmq_strerror(errno)));
        s->failed = true;
        return false;
    }
    *file = ipc_file(s->run_dir, s->name, kind);
    return true;
}

static bool bind_both(struct run_sockets *s)
{
    s->control = zsock_new(ZMQ_ROUTER);
    zsock_set_maxmsgsize(s->control, REQUEST_MAX_BYTES);
    s->metrics = zsock_new(ZMQ_PUB);
    zsock_set_sndhwm(s->metrics, FRAMES_KEPT);
    if (bind_one(s, s->control, "control", &s->control_file) &&
        bind_one(s, s->metrics, "metrics", &s->metrics_file)) {
        s->failed = false;
        return true;
    }
    return false;
}

bool run_sockets_take(struct run_sockets *s, uint64_t but)
{
    int lock = ipc_lock(s->run_dir);
    bool taken = false;

    if (lock < 0)
        return false;
    if (!ipc_listens(s->run_dir, s->name, "control") ||
        (but && ipc_file(s->run_dir, s->name, "control") == but))
        taken = bind_both(s);
    ipc_unlock(lock);
    if (!taken)
        run_sockets_close(s);
    return taken;
}

bool run_sockets_own(const struct run_sockets *s)
{
    return s->control &&
           ipc_file(s->run_dir, s->name, "control") == s->control_file;
}

void run_sockets_close(struct run_sockets *s)
{
    if (s->control) /* while they are open, no other file has their numbers */
        ipc_remove(s->run_dir, s->name, "control", s->control_file);
    if (s->metrics)
        ipc_remove(s->run_dir, s->name, "metrics", s->metrics_file);
    zsock_destroy(&s->control);
    zsock_destroy(&s->metrics);
    s->control_file = s->metrics_file = 0;
}

void run_sockets_write_host(const struct run_sockets *s, const char *text)
{
    char *path = gr_printf("%s/%s.host", s->run_dir, s->name);
    FILE *file = text ? fopen(path, "we") : NULL;

    if (!text)
        unlink(path);
    else if (!file || fprintf(file, "%s\n", text) < 0)
        log_warn(NULL, "a file in run_dir cannot be written", LS("file", path),
                 LS("error", strerror(errno)));
    if (file)
        fclose(file);
    free(path);
}
