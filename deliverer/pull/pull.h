/* pull: the commands of consumers of pull endpoints: take, ack, retry, dead; and the callers that
 * wait because there is nothing to take.
 *
 * A waiting caller is in memory only, and its reply is sent in the turn in which there is a
 * delivery, or when its time is over. The number of those is bounded, for each endpoint and each
 * token. A crash forgets them; their clients ask again. The turn calls pull_work(), and the
 * control socket the commands, inside the transaction. */
#ifndef DELIVERER_PULL_H
#define DELIVERER_PULL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/queue.h>

struct deliverer;
struct pull_waiter;

struct pull {
    TAILQ_HEAD(, pull_waiter) waiting; /* the first came first */
    int count;
    bool report_use; /* a grant has it */
};

/* Commands (lib/commands/pull_commands.c). */
json_t *pull_take(void *self, json_t *args, char why[200]);
json_t *pull_ack(void *self, json_t *args, char why[200]);
json_t *pull_retry(void *self, json_t *args, char why[200]);
json_t *pull_dead(void *self, json_t *args, char why[200]);

void pull_open(struct deliverer *d);
void pull_close(struct deliverer *d);
/* Once a turn: reply to those for which there is a delivery, and to those whose time is over. */
void pull_work(struct deliverer *d);
/* After the commit: tell the sequencer which temporary endpoints have consumers, for each about
 * once a minute. A frame that is lost is replaced by that of a later take. */
void pull_flush(struct deliverer *d);
/* How long until pull_work() has something to do; -1: nothing. */
int pull_wait_ms(const struct deliverer *d);

#endif
