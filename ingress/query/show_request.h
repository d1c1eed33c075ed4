/* show_request: control commands that hand out a request as it came, a chunk of its body
 * at a time: one that was accepted, and one that was refused. */
#ifndef INGRESS_SHOW_REQUEST_H
#define INGRESS_SHOW_REQUEST_H

#include <jansson.h>

json_t *show_request(void *self, json_t *args, char why[200]);
json_t *show_reject(void *self, json_t *args, char why[200]);

#endif
