/* store_inside: what the files of store share, and nobody else sees: one struct
 * of all statements, of which each file prepares its own. */
#ifndef SEQUENCER_STORE_INSIDE_H
#define SEQUENCER_STORE_INSIDE_H

#include "store_rows.h"

struct store {
    struct db *db;
    /* store.c */
    stmt *meta, *meta_set, *workspace, *workspace_set;
    stmt *endpoints, *endpoint_add, *endpoint_set, *endpoint_state,
        *endpoints_forget, *deliverers, *deliverer_set;
    stmt *purge_look, *purge_event, *purge_part, *purge_digest,
        *purge_transition, *purge_deliveries, *purge_attempts;
    /* store_events.c */
    stmt *last_event, *event_add, *event_set, *event, *event_by_id, *event_n,
        *event_ended, *event_end, *event_totals;
    /* store_bodies.c; the headers that were added last, and their row of heads */
    stmt *body_add, *body, *body_drop, *head_add, *head_drop;
    struct buf last_head;
    int64_t last_head_id; /* 0: they have none */
    stmt *digest_add, *digest;
    stmt *transition_add, *transition;
    stmt *part_add, *part_of, *parts;
    /* store_deliveries.c */
    stmt *delivery_add, *delivery, *delivery_set, *delivery_out, *delivery_due,
        *life_set, *event_deliveries;
    stmt *open_figures, *count_waiting, *count_parked, *in_flight;
    stmt *ready, *waiting, *open_grant, *sweep, *out_after;
    stmt *attempt_add, *attempts;
    /* store_letters.c */
    stmt *letter_add, *letter, *letter_drop, *letter_pending, *letter_dead;
    stmt *again_add, *again_drop, *agains, *again_pending;
};

void store_prepare_events(struct store *s);
void store_prepare_bodies(struct store *s);
void store_close_bodies(struct store *s);
void store_prepare_deliveries(struct store *s);
void store_prepare_letters(struct store *s);

#endif
