/* copier: the checkpoint thread of a SQLite file, with a connection of its own. It copies
 * the WAL into the file beside the writer, as far as possible. */
#ifndef STORE_COPIER_H
#define STORE_COPIER_H

#include <stdbool.h>
#include <stdint.h>

struct copier;

/* Checks the result of a checkpoint. It ends the process (74) after a failed fsync, because
 * a second fsync may succeed without the data that the first one lost. Other errors do no
 * harm, because the WAL has everything. */
void copier_check(const char *path, int rc);

struct copier *copier_open(const char *path);
void copier_close(struct copier *c);

/* Call it only while copier_rest() is above 0. Until 3.51.3 SQLite has a defect: a checkpoint that
 * begins when the whole WAL is in the file, while another connection commits and so restarts the WAL, may
 * mark pages as copied that are not. They are lost when the WAL is restarted again. While a page is
 * not copied, no commit can restart the WAL. (https://sqlite.org/wal.html, "The WAL-Reset Bug") What another
 * program has copied is not known here: against that there is checkpoint_guard.h. */
void copier_begin(struct copier *c);
/* Returns when it is not copying and will not copy until it is started again: SQLite
 * refuses a second checkpoint beside a running one. */
void copier_pause(struct copier *c);
/* Of so many pages in the WAL, the number that are not in the file yet; -1: it is copying.
 * Ask after every commit: fewer pages than before mean that the WAL was restarted. */
int copier_rest(struct copier *c, int wal_pages);

/* How long the last copy took, of the thread or as noted; -1: there was none. */
int64_t copier_took_us(struct copier *c);
/* The caller has copied the WAL itself. */
void copier_note(struct copier *c, int64_t took_us);

#endif
