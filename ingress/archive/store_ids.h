/* store_ids: finds an event in the archive by its id; a part of store.h.
 *
 * An index of every id was a sixth of what ingress wrote (docs/decisions/0021). Ids made from
 * an idempotency key are in no order, so each of them has an entry in archive_ids. Ids made
 * from time ascend with the row's number (lib/base/ulid.h; over restarts too, resume_ids() in
 * turn.c), so one of them is entered when the last entry is IDS_APART numbers back. Each of the
 * others is then among the IDS_APART numbers from the last entry not above it: further on it
 * would have an entry itself. An entry is inserted and deleted in the transaction of its row,
 * so a crash leaves both or neither. */
#ifndef INGRESS_STORE_IDS_H
#define INGRESS_STORE_IDS_H

#include "bounds.h"
#include "db.h"

enum { IDS_APART = 64 };

struct store_ids {
    struct db *db;
    stmt *add, *below, *among, *cut, *cut_stale, *drop, *begin, *last, *newest;
    int64_t entered_n; /* of the last entry made from time; 0: enter the next */
};

void store_ids_open(struct store_ids *s, struct db *db);
/* After a rollback: continue from the rows on disk. */
void store_ids_undo(struct store_ids *s);

/* A row is inserted. */
void store_ids_add(struct store_ids *s, const char *event_id, int64_t n);
/* The number of its row; 0: it is not in the archive. */
int64_t store_ids_find(struct store_ids *s, const char *event_id);
/* One row is deleted while rows before it stay: deletes the entry of an id made from a key,
 * keeps that of an id made from time. Never for the last IDS_APART rows. */
void store_ids_drop(struct store_ids *s, const char *event_id);
/* Before the archive's rows up to `n` are deleted. */
void store_ids_cut(struct store_ids *s, int64_t n);
/* The highest id made from time; "" if there is none. */
void store_ids_newest(struct store_ids *s, char id[EVENT_ID_BYTES + 1]);

#endif
