/* archive_erase: what an archive does when a workspace is erased: the process refuses its events from
 * then on, and the archive empties its rows. */
#ifndef ARCHIVE_ERASE_H
#define ARCHIVE_ERASE_H

#include "daemon_erase.h"

struct archive;
struct buf;

/* Whether all events of a request belong to workspaces that were erased. If only some of several do,
 * *rest gets the body without them, in which they are null; else it stays empty. */
bool erase_refuses(struct archive *a, const char *source, struct bytes headers,
                   struct bytes body, struct buf *rest);
/* Whether an event of a request belongs to the workspace of this step. */
bool erase_finds(struct archive *a, const char *source, struct bytes headers,
                 struct bytes body, const struct erase_step *s);

/* One step of daemon_plan's erase(), for the archive. A process whose archive is all that it has
 * of events needs no more. */
void archive_erase(struct archive *a, struct erase_step *s);

#endif
