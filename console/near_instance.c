/* near_instance: asks the process of this host whether it is active. */
#include "near_instance.h"
#include "control.h"
#include "instance.h"
#include "ipc.h"
#include <stdlib.h>

void near_instance_close(struct near_instance *n)
{
    zsock_destroy(&n->socket);
    *n = (struct near_instance){0};
}

static void connect_to(struct near_instance *n, const char *run_dir,
                       const char *name, int64_t round)
{
    n->file = ipc_file(run_dir, name, "control");
    n->state.answered = round;
    n->pinged = 0;
    n->socket = zsock_new(ZMQ_DEALER);
    zsock_set_linger(n->socket, 0);
    zsock_set_sndtimeo(n->socket, 0);
    zsock_set_rcvtimeo(n->socket, 0);
    zsock_connect(n->socket, "ipc://%s/%s.control", run_dir, name);
}

void near_instance_look(struct near_instance *n, const char *run_dir,
                        const char *name, bool ask, int64_t round)
{
    bool open = ipc_listens(run_dir, name, "control");

    if (!open || !ask ||
        (n->socket && n->file != ipc_file(run_dir, name, "control")))
        near_instance_close(n);
    n->state.open = open;
    if (open && ask && !n->socket)
        connect_to(n, run_dir, name, round);
}

void near_instance_ping(struct near_instance *n, int64_t round)
{
    char *text;

    if (!n->socket || n->pinged)
        return;
    text = control_question("ping", NULL, NULL);
    if (zsock_send(n->socket, "zs", text) == 0)
        n->pinged = round;
    free(text);
}

void near_instance_take(struct near_instance *n)
{
    zmsg_t *msg;

    while (n->socket && (msg = zmsg_recv(n->socket))) {
        zframe_t *text = zmsg_last(msg);

        if (n->pinged > n->state.answered && text &&
            instance_is_active(
                (struct bytes){zframe_data(text), zframe_size(text)}))
            n->state.answered = n->pinged;
        n->pinged = 0;
        zmsg_destroy(&msg);
    }
}
