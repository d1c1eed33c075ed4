/* fuzz_control: requests at a process's control socket. Every message that has the
 * form of a request gets exactly one response, which is JSON. */
#include "control.h"
#include "fuzz.h"
#include <czmq.h>

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

static const struct value echo_args[] = {
    {.name = "refuse", .type = VALUE_ANY},
    {.name = "id", .type = VALUE_TEXT, .min = 1, .max = 200},
    {.name = "note", .type = VALUE_TEXT, .max = 200},
    {0}};
static const struct command_spec echo_spec = {
    .name = "echo", .args = echo_args, .reply = {.type = VALUE_ANY}};
static const struct control_command commands[] = {{&echo_spec, echo}, {0}};

static zsock_t *dealer;
static struct control *control;

static void leave(void)
{
    zsock_destroy(&dealer);
    control_close(control);
    rmdir(folder);
}

static void enter(void)
{
    if (dealer)
        return;
    fuzz_check(mkdtemp(folder));
    zsys_handler_set(NULL); /* libFuzzer has its own */
    control = control_open(folder, "fuzzed");
    control_add(control, commands, NULL);
    dealer = zsock_new(ZMQ_DEALER);
    fuzz_check(zsock_connect(dealer, "ipc://%s/fuzzed.control", folder) == 0);
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct loop spent = {
        0}; /* its turn began long ago: one request at a time */
    zmsg_t *response;
    zframe_t *text;
    json_t *doc;

    if (n > 100000)
        return 0;
    enter();
    fuzz_check(zsock_send(dealer, "zb", data, n) == 0);
    while (!(zsock_events(control_socket(control)) & ZMQ_POLLIN))
        zclock_sleep(0); /* libFuzzer's alarm interrupts what waits longer */
    control_work(control, &spent);
    control_flush(control);
    do
        response = zmsg_recv(dealer);
    while (!response && errno == EINTR);
    fuzz_check(response && zmsg_size(response) == 2);
    text = zmsg_last(response);
    doc = json_loadb((const char *)zframe_data(text), zframe_size(text),
                     JSON_ALLOW_NUL, NULL);
    fuzz_check(json_is_boolean(json_object_get(doc, "ok")));
    json_decref(doc);
    zmsg_destroy(&response);
    return 0;
}
