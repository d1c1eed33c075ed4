/* admission: decides which requests may come in: where each goes, or why it is refused, before
 * and after its body; and keeps each source to its rate.
 *
 * http.c calls admission_check() and admission_take() (http_ops); batches.c calls
 * admission_pass(). Rates are in memory only: after a restart each source has its full burst. */
#ifndef INGRESS_ADMISSION_H
#define INGRESS_ADMISSION_H

#include "http.h"
#include "rate.h"

struct ingress;

/* A source or a producer that has used its rate since this start. */
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
/* Let `count` events of this request pass if the rate of its producer permits them. A request
 * without a valid event counts as one. */
enum response admission_pass(struct ingress *g, struct request *r,
                             int64_t count);
void admission_fini(struct admission *d);

/* Pure: in how long may `count` more events pass by this rate? 0: now. A burst may have as many
 * as the rate names. More than these, which would never fit, may pass when nothing of the rate
 * is used up; later events wait for all of them. */
int64_t admission_wait_us(const struct bucket *b, const struct rate *rate,
                          int64_t count, int64_t now_us);
/* These events pass: count them. */
void admission_count(struct bucket *b, const struct rate *rate, int64_t count,
                     int64_t now_us);

#endif
