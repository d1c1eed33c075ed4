/* alone: whether an active that reaches no other process of the pipeline hands its store over. Pure, but for alone_tenure_ms().
 *
 * The host of an active may reach the replication database and nothing else. Then the pipeline stands still, although another host could go on. But when
 * the others are away for every host, a handover would only cost time. So a standby has to have reached some for as long as the active has reached none: when the
 * others come back, the active sees it before that time is over. */
#ifndef DAEMON_ALONE_H
#define DAEMON_ALONE_H

#include <stdbool.h>
#include <stdint.h>

struct alone_facts {
    int64_t takeover_after_ms;
    int64_t tenure_ms; /* alone_tenure_ms() */
    int64_t owned_ms;  /* for how long this process has owned the store */
    int64_t none_ms;   /* for how long it has reached nobody (reach.h) */
    /* For how long, without a break, it has known a standby that may take over and reaches some; 0: it knows none. */
    int64_t heir_ms;
};

bool alone_should_hand_over(const struct alone_facts *f);

/* How long a process owns the store at least before it hands over so. That limits how often the store moves when no host serves well. 10 minutes, or the value of
 * GRAPNEL_TEST_ALONE_MS. */
int64_t alone_tenure_ms(void);

#endif
