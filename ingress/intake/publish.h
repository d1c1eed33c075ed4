/* publish: POST /v1/events and /v1/events/batch, for the services of the user. A token names
 * the producer; it is compared as a hash and never stored. A batch has a response for each line
 * (batches.h). admission.c calls it. */
#ifndef INGRESS_PUBLISH_H
#define INGRESS_PUBLISH_H

#include "http.h"

struct ingress;

/* As http_ops has them; for requests to /v1 only. */
enum response publish_admit(struct ingress *g, struct request *r);
enum response publish_take(struct ingress *g, struct request *r, bool batch);
/* A 400 that says what is wrong with this part of the request. Both texts are literals that
 * need no escaping. */
enum response publish_malformed(struct request *r, const char *field,
                                const char *why);

#endif
