/* admission: which requests may come in. It says of each request where it goes, or why not,
 * before and after its body; and keeps each source to its rate. */
#ifndef INGRESS_ADMISSION_H
#define INGRESS_ADMISSION_H

#include "http.h"
#include "rate.h"

struct ingress;

/* A source, or a producer, as admission knows it; of this start. */
struct admission_limit {
    char name[NAME_MAX_BYTES + 1];
    struct bucket bucket;
};

struct admission {
    struct admission_limit *limits;
    size_t count;
};

enum response admission_check(void *self, struct request *r,
                              const struct head_facts *facts);
enum response admission_take(void *self, struct request *r);
/* So many events of this request come in, if its producer's rate has space for them. A
 * request without a good one counts as one. */
enum response admission_pass(struct ingress *g, struct request *r,
                             int64_t count);
void admission_fini(struct admission *d);

/* Pure: in how long may `count` more go by this rate? 0: now. A burst may have as many as
 * the rate names; more than these, which would never fit, may go when nothing of it is
 * used up, and what follows waits for all of them. */
int64_t admission_wait_us(const struct bucket *b, const struct rate *rate,
                          int64_t count, int64_t now_us);
/* They go. */
void admission_count(struct bucket *b, const struct rate *rate, int64_t count,
                     int64_t now_us);

#endif
