/* archive_ids: finds an event in the archive by its id; a part of archive_store.h.
 *
 * An index of every id was a sixth of what ingress wrote (docs/decisions/0021). Ids made from
 * an idempotency key are in no order, so each of them has an entry in archive_ids. Ids made
 * from time ascend with the row's number (lib/base/ulid.h; over restarts too, resume_ids() in
 * archive.c), so one of them is entered when the last entry is IDS_APART numbers back. Each of the
 * others is then among the IDS_APART numbers from the last entry not above it: further on it
 * would have an entry itself. An entry is inserted and deleted in the transaction of its row,
 * so a crash leaves both or neither. */
#ifndef ARCHIVE_IDS_H
#define ARCHIVE_IDS_H

#include "bounds.h"
#include "db.h"

enum { IDS_APART = 64 };

struct archive_ids {
    struct db *db;
    stmt *add, *below, *among, *cut, *cut_stale, *drop, *begin, *last, *newest;
    int64_t entered_n; /* of the last entry made from time; 0: enter the next */
};

void archive_ids_open(struct archive_ids *s, struct db *db);
/* After a rollback: continue from the rows on disk. */
void archive_ids_undo(struct archive_ids *s);

/* A row is inserted. */
void archive_ids_add(struct archive_ids *s, const char *event_id, int64_t n);
/* The number of its row; 0: it is not in the archive. */
int64_t archive_ids_find(struct archive_ids *s, const char *event_id);
/* One row is deleted while rows before it stay: deletes the entry of an id made from a key,
 * keeps that of an id made from time. Never for the last IDS_APART rows. */
void archive_ids_drop(struct archive_ids *s, const char *event_id);
/* Before the archive's rows up to `n` are deleted. */
void archive_ids_cut(struct archive_ids *s, int64_t n);
/* The highest id made from time; "" if there is none. */
void archive_ids_newest(struct archive_ids *s, char id[EVENT_ID_BYTES + 1]);

#endif
