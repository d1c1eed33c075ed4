/* reject_explain: names the usual mistake behind a refused request that is still kept. It is done
 * in ingress, which has the secrets, so that none leaves it. */
#ifndef INGRESS_REJECT_EXPLAIN_H
#define INGRESS_REJECT_EXPLAIN_H

#include <jansson.h>

/* Control command `reject_explain`. self: struct ingress. Changes nothing but the time of the last
 * call: at most 5 in a second, as each may take 20 ms of the loop. */
json_t *reject_explain(void *self, json_t *args, char why[200]);

#endif
