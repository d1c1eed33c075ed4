/* door: who may come in. It says of each request where it goes, or why not,
 * before and after its body; and keeps each source to its rate. */
#ifndef INGRESS_DOOR_H
#define INGRESS_DOOR_H

#include "http.h"
#include "rate.h"

struct ingress;

/* A source, or a producer, as the door knows it; of this start. */
struct doorway {
    char name[NAME_MAX_BYTES + 1];
    struct bucket bucket;
};

struct door {
    struct doorway *ways;
    size_t count;
};

enum answer door_admit(void *self, struct request *r,
                       const struct head_facts *facts);
enum answer door_take(void *self, struct request *r);
/* So many events of this request come in, if its producer's rate has room for them. A request
 * without a good one counts as one. */
enum answer door_pass(struct ingress *g, struct request *r, int64_t count);
void door_fini(struct door *d);

/* Pure: in how long may `count` more go by this rate? 0: now. A burst may have as many as
 * the rate names; more than these, which would never fit, may go when nothing of it is
 * used up, and what follows waits for all of them. */
int64_t door_wait_us(const struct bucket *b, const struct rate *rate,
                     int64_t count, int64_t now_us);
/* They go. */
void door_count(struct bucket *b, const struct rate *rate, int64_t count,
                int64_t now_us);

#endif
