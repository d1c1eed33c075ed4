/* store_order_inside: what store_order.c and store_gaps.c share, and nobody else
 * sees. */
#ifndef SEQUENCER_STORE_ORDER_INSIDE_H
#define SEQUENCER_STORE_ORDER_INSIDE_H

#include "store_order.h"

struct store_order {
    struct db *db;
    stmt *stream, *stream_by_id, *stream_add, *stream_set, *stream_held,
        *held_count, *held_in;
    stmt *epoch, *epoch_set;
    stmt *held_add, *held_first, *held_drop, *held_upto, *held_due,
        *held_hasten, *due_gap, *due_held;
    stmt *gap_add, *gap_before, *gap_of, *gap, *gap_span, *gap_end, *gap_due,
        *gaps_end, *gaps_leave, *gaps_hasten, *gap_figures, *gap_count, *gaps,
        *open_gaps, *gaps_purge;
    stmt *doors, *door_add, *door_drop;
    stmt *object, *object_set, *objects_purge;
    stmt *workspaces, *workspace;
};

void store_prepare_gaps(struct store_order *s);

#endif
