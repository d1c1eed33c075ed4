/* backup: a consistent copy of a SQLite file, made while its process works and at a limited rate, so that the
 * disk stays free for commits.
 *
 * What a step copies the kernel writes at once, and not in one piece at the end: a commit of another file in
 * the same file system waits for what is being written. The end, which waits for the disk several times, is
 * done by a thread. Until the copy is complete and on the disk it is called PATH.part, which is what a crash leaves. */
#ifndef STORE_BACKUP_H
#define STORE_BACKUP_H

#include "rc.h"
#include <sqlite3.h>

struct backup;

/* `path` must not exist. `from` is borrowed, and only the thread that makes the steps may write
 * to its file meanwhile. NULL: `why` has the reason. */
struct backup *backup_begin(sqlite3 *from, const char *path, char why[200]);
/* Between two turns, until it returns GR_OK: the copy is complete and on the disk. GR_AGAIN: call it again.
 * GR_REFUSE: `why` has the reason. Copies 256 KiB, or up to 1 MiB when it was called late. */
gr_rc backup_step(struct backup *b, char why[200]);
/* Until the next step is due, so that a second has 64 MiB; 0: now. */
int backup_wait_ms(const struct backup *b);
const char *backup_path(const struct backup *b);
/* Waits for the thread. Before GR_OK it removes the copy. NULL is allowed. */
void backup_end(struct backup *b);

#endif
