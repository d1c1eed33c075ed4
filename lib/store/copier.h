/* copier: the checkpoint thread of a SQLite file, with a connection of its own. It copies
 * the WAL into the file beside the writer, as far as it gets. */
#ifndef STORE_COPIER_H
#define STORE_COPIER_H

#include <stdbool.h>

struct copier;

/* Of a checkpoint: ends the process (74) where an fsync has failed, as a second one
 * may succeed without what the first has lost. All else is no harm, the WAL has it. */
void copier_check(const char *path, int rc);

struct copier *copier_open(const char *path);
void copier_close(struct copier *c);

void copier_begin(struct copier *c);
/* Returns when it is not copying, nor will until it is begun again: of two
 * checkpoints at once SQLite refuses one. */
void copier_pause(struct copier *c);
/* Of so many pages in the WAL, those that are not in the file yet; -1 while it is
 * at it. To be asked after every commit: fewer pages are a WAL begun anew. */
int copier_rest(struct copier *c, int wal_pages);

#endif
