/* sums: which tables carry checksums (db_sums.h), and over which columns; shared by the
 * processes, which write and read the rows, and `grapnel verify`. Never change a list: every
 * row with a checksum would look damaged. Add a table instead. */
#ifndef STORE_SUMS_H
#define STORE_SUMS_H

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
#define SUM_DEAD_LETTERS                                             \
    "id, event_id, endpoint, source, provider_id, type, workspace, " \
    "received_ms, sequence, previous, clock"
#define SUM_CONTENTS "dead_letter, headers, body"

/* The tables of all processes; a database has some of them. */
extern const struct db_summed sums_all[];
extern const size_t sums_count;

#endif
