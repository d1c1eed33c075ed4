/* relay: takes the rows of one table, in turns between the loop and a thread of its own.
 *
 * The thread asks the database (driver.h), one bounded run at a time: it takes new rows in a
 * transaction that stays open. The loop stores them as rows of the archive in its turn. After the
 * commit of that turn the next run commits the transaction of the database, and takes the next
 * rows in the same round trip. The loop never waits for the database.
 *
 * The id of an event is made of relay, table and row id. So a row whose transaction was not committed,
 * because a process or a connection died in between, is taken again and recognised: by this
 * process's archive, or by the sequencer if another process had it.
 *
 * A row that the database refuses to change, for a constraint or a trigger, is found by taking fewer
 * rows, and set aside for a time; an outcome that it refuses is found by writing one by one. */
#ifndef OUTBOX_RELAY_H
#define OUTBOX_RELAY_H

#include "driver.h"
#include "rc.h"
#include <jansson.h>
#include <stdbool.h>

struct outbox;
struct relay_run;

struct relays {
    struct relay_run *items;
    size_t count;
};

/* At a start: a thread for each relay of the settings. Later changes of the section that concern
 * the connection or the table take effect at the next start. */
void relays_open(struct outbox *o);
/* A run that is still under way is left to the end of the process. */
void relays_close(struct outbox *o);

/* Inside the transaction: stores the rows that were taken. Returns ms until it must be called
 * again. */
int relays_work(struct outbox *o);
/* After the commit: begins the runs that are due. */
void relays_flush(struct outbox *o);
/* After a rollback: what was taken is given back. */
void relays_undo(struct outbox *o);
/* There is something to write to rows of this relay. */
void relays_wake(struct outbox *o, const char *relay);
/* Whether this process runs a relay of this name. */
bool relays_has(const struct outbox *o, const char *relay);
/* While stopping: whether no run is under way and no transaction is open. */
bool relays_idle(struct outbox *o);
/* How many relays exchanged something with their database last. */
int64_t relays_connected(const struct outbox *o);
/* Sets the gauges of each relay. */
void relays_measure(struct outbox *o);
/* The command `relays`. */
json_t *relays_status(void *self, json_t *args, char why[200]);

#endif
