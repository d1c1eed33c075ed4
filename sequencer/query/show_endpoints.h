/* show_endpoints: the control commands about endpoints, and their part of `status`. */
#ifndef SEQUENCER_SHOW_ENDPOINTS_H
#define SEQUENCER_SHOW_ENDPOINTS_H

#include "control.h"

struct sequencer;
struct endpoint;

/* The error for a name that no endpoint has, with the nearest name that one has. */
void endpoint_unknown(struct sequencer *q, const char *name, char why[200]);
/* For `status`: endpoints that are held, disabled or paused. */
void endpoints_troubles(void *self, json_t *out);

/* An endpoint as the commands show it. */
json_t *endpoint_show(struct sequencer *q, const struct endpoint *e);
json_t *endpoints_show(void *self, json_t *args, char why[200]);
/* Its attempts in a period, and its open deliveries. */
json_t *endpoints_stats(void *self, json_t *args, char why[200]);
json_t *endpoints_show_one(void *self, json_t *args, char why[200]);
/* A consumer waits for deliveries of a pull endpoint: a deliverer has to have it. */
json_t *endpoints_want(void *self, json_t *args, char why[200]);
json_t *endpoints_pause(void *self, json_t *args, char why[200]);
json_t *endpoints_resume(void *self, json_t *args, char why[200]);

#endif
