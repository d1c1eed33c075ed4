/* store_rows: how a row of `events` is read, for the files of store alone. */
#ifndef SEQUENCER_STORE_ROWS_H
#define SEQUENCER_STORE_ROWS_H

#include "store.h"

#define EVENT_COLUMNS                                                        \
    "n, id, source, provider_id, type, workspace, received_ms, taken_ms, "   \
    "status, sequence, clock, reason, duplicate_of, source_sequence, late, " \
    "gap, note, let_go_ms, reopened_ms, delivery_id"
enum { EVENT_COLUMN_COUNT = 20 };

/* Borrows its texts from the step. */
void read_event(stmt *q, struct event_row *e);

#endif
