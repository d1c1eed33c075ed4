/* probe: `grapnel endpoints test NAME`: one signed test event, sent like any
 * attempt; the response to the command is what was sent and received. It is not a
 * delivery: it has no grant and no row, is in no window, and a crash forgets it.
 *
 * The configuration comes with the question, so that an endpoint can be tested
 * before it is enabled, while it is paused, or before a reload. Who may ask can
 * read the configuration's file as well: the socket lies in run_dir (0700). */
#ifndef DELIVERER_PROBE_H
#define DELIVERER_PROBE_H

#include <jansson.h>

struct deliverer;
struct task;

struct probe {
    struct task *task; /* owned; NULL: there is no command to respond to */
    struct endpoint_config *config; /* until it is in flight */
};

/* {"config"}: base64 of endpoint_config → request, response, timings, verdict
 * (control.h). One at a time. */
json_t *probe_ask(void *self, json_t *args, char why[200]);
/* Inside of the transaction: respond, if it has ended. */
void probe_work(struct deliverer *d);
/* Begin what was asked for. */
void probe_after_commit(struct deliverer *d);
void probe_close(struct deliverer *d);

#endif
