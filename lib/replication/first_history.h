/* first_history: how the replication of a database begins and ends on the host that has its file. The caller holds the lock of the process, which is
 * stopped, so nobody else has the file open. */
#ifndef REPLICATION_FIRST_HISTORY_H
#define REPLICATION_FIRST_HISTORY_H

#include "position_file.h"

/* Gives the file a position that begins a history (turn 0): all of it is copied out of its write-ahead log, and the row of a former history is removed. Without a file
 * any host can begin with an empty one (position_is_empty()). A position that is there already, at turn 0 and used by no active, stays, so that a repetition after a
 * crash begins the same history. *schema: of the database; 0: there is no file. GR_REFUSE: `why` says what is wrong with the file, and there is no new position. */
GR_MUST_CHECK gr_rc history_prepare(const char *db_path,
                                    struct stored_position *out, int *schema,
                                    char why[200]);

/* The opposite: the file has no position any more, and belongs to this host alone. A crash leaves it with its position; repeat it. */
void history_forget(const char *db_path);

#endif
