/* publish: POST /v1/events and /v1/events/batch, for the services of our own
 * user. A token says which producer speaks; it is compared as a hash, and never
 * reaches the archive. A batch is answered line by line (batches.h). */
#ifndef INGRESS_PUBLISH_H
#define INGRESS_PUBLISH_H

#include "http.h"

struct ingress;

/* As http_ops has them; both for requests to /v1 only. */
enum response publish_admit(struct ingress *g, struct request *r);
enum response publish_take(struct ingress *g, struct request *r, bool batch);
/* 400, and what is wrong with this part of the request. Both are ours and need no escaping. */
enum response publish_malformed(struct request *r, const char *field,
                                const char *why);

#endif
