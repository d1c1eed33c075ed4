/* sums: which tables carry checksums (db_sums.h), and over which columns. The same for
 * the processes, which write and read the rows, and for `grapnel verify`. A change of
 * a list makes every row that has a sum look damaged: add a table instead. */
#ifndef PROTO_SUMS_H
#define PROTO_SUMS_H

#include "db_sums.h"
#include <stddef.h>

#define SUM_ARCHIVE \
    "n, event_id, source, received_ms, remote, headers, body, head"
#define SUM_EVENTS                                               \
    "n, id, source, provider_id, type, workspace, received_ms, " \
    "sequence, clock, source_sequence, late, gap, delivery_id"
#define SUM_BODIES "event, headers, body, head"
/* Headers that several rows of `archive` or `bodies` share. */
#define SUM_HEADS "headers"
#define SUM_TASKS "event_id, message"
#define SUM_LETTERS                                                  \
    "id, event_id, endpoint, source, provider_id, type, workspace, " \
    "received_ms, sequence, previous, clock"
#define SUM_CONTENTS "letter, headers, body"

/* Those of all processes; a database has some of them. */
extern const struct db_summed sums_all[];
extern const size_t sums_count;

#endif
