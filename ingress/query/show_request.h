/* show_request: control commands that show a request as it came, a piece of its body at a time:
 * an accepted or a refused one. */
#ifndef INGRESS_SHOW_REQUEST_H
#define INGRESS_SHOW_REQUEST_H

#include <jansson.h>

/* `request` and `reject`. self: struct ingress. */
json_t *show_request(void *self, json_t *args, char why[200]);
json_t *show_reject(void *self, json_t *args, char why[200]);

#endif
