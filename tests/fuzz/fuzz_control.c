/* fuzz_control: requests at a process's control socket. Every message that has the
 * form of a request gets exactly one response, which is JSON. */
#include "control.h"
#include "fuzz.h"
#include <errno.h>
#include <unistd.h>
#include <zmq.h>

static char folder[] = "/tmp/grapnel-fuzz-XXXXXX";

static json_t *echo(void *self, json_t *args, char why[200])
{
    (void)self;
    if (json_object_get(args, "refuse")) {
        snprintf(why, 200, "refused");
        return NULL;
    }
    return args ? json_deep_copy(args) : json_object();
}

static const struct control_command commands[] = {
    {"echo", "refuse id note", "returns its arguments", echo},
    {0},
};

static void *zmq, *dealer;
static struct control *control;

static void leave(void)
{
    zmq_close(dealer);
    control_close(control);
    zmq_ctx_term(zmq);
    rmdir(folder);
}

static void enter(void)
{
    char address[200];

    if (zmq)
        return;
    fuzz_check(mkdtemp(folder));
    zmq = zmq_ctx_new();
    control = control_open(zmq, folder, "fuzzed", commands, NULL);
    dealer = zmq_socket(zmq, ZMQ_DEALER);
    snprintf(address, sizeof address, "ipc://%s/fuzzed.control", folder);
    fuzz_check(zmq_connect(dealer, address) == 0);
    atexit(leave);
}

/* libFuzzer's alarm interrupts what waits. */
static int again(int rc)
{
    return rc < 0 && errno == EINTR;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct loop spent = {
        0}; /* its turn began long ago: one request at a time */
    zmq_msg_t part;
    json_t *doc;
    int rc;

    if (n > 100000)
        return 0;
    enter();
    fuzz_check(zmq_send(dealer, "", 0, ZMQ_SNDMORE) == 0);
    fuzz_check(zmq_send(dealer, data, n, 0) == (int)n);
    zmq_pollitem_t in = {control_socket(control), 0, ZMQ_POLLIN, 0};
    do
        rc = zmq_poll(&in, 1, 5000);
    while (again(rc));
    fuzz_check(rc == 1);
    control_work(control, &spent);
    control_tell(control);
    zmq_msg_init(&part);
    do
        rc = zmq_msg_recv(&part, dealer, 0);
    while (again(rc));
    fuzz_check(rc == 0 && zmq_msg_more(&part));
    do
        rc = zmq_msg_recv(&part, dealer, 0);
    while (again(rc));
    fuzz_check(rc > 0 && !zmq_msg_more(&part));
    doc = json_loadb(zmq_msg_data(&part), zmq_msg_size(&part), JSON_ALLOW_NUL,
                     NULL);
    fuzz_check(json_is_boolean(json_object_get(doc, "ok")));
    json_decref(doc);
    zmq_msg_close(&part);
    return 0;
}
