/* endpoint_test: sends one signed test event for `grapnel endpoints test NAME`, like any attempt, and
 * responds with the request and the response. It is not a delivery: it has no grant and no
 * row, is in no window, and a crash forgets it.
 *
 * With `drill`, the event is as that says (`grapnel drill`, ctl/endpoints/drill.h): its id, numbers,
 * time of signature and size. What the receiver does wrong is judged by the command line.
 *
 * The command brings the configuration, so that an endpoint can be tested before it is
 * enabled, while it is paused, or before a reload. Everyone who can send the command can also
 * read the configuration's file: the socket is in run_dir (0700). The turn calls the other
 * functions. */
#ifndef DELIVERER_ENDPOINT_TEST_H
#define DELIVERER_ENDPOINT_TEST_H

#include <jansson.h>

struct control_held;
struct deliverer;
struct endpoint_config;
struct task;

/* At the same time. */
enum { ENDPOINT_TESTS_MAX = 8 };

struct endpoint_test {
    struct task *task;              /* owned; NULL: this place is free */
    struct endpoint_config *config; /* until the attempt begins */
    struct control_held *held;      /* the command, until its response */
};

/* The command `test` (control.h): {"config"}, base64 of endpoint_config → request, response,
 * timings, verdict. At most ENDPOINT_TESTS_MAX at
 * the same time, beside a backup or verification. NULL: `why`. */
json_t *endpoint_test_ask(void *self, json_t *args, char why[200]);
/* Respond to those whose attempts have ended. */
void endpoint_test_work(struct deliverer *d);
/* Begin the attempt, if a command came in this turn. */
void endpoint_test_after_commit(struct deliverer *d);
void endpoint_test_close(struct deliverer *d);

#endif
