/* archive_space: decides whether there is space to store another event, and makes space.
 *
 * Three limits: free space of the file system (a mark well above zero, so that the other
 * processes can still record the outcomes of accepted events), the size of the archive
 * (archive.max_size), and time (archive.keep). Only requests that the sequencer has
 * acknowledged are deleted; at the latest when the archive fills half of its disk, which others
 * use, too. A source with more than half of the archive then loses its own first
 * (store_usage.h). When unacknowledged requests alone fill max_size, ingress refuses events,
 * and accepts them again by itself.
 *
 * turn.c calls it. All figures are measured again at a start. */
#ifndef INGRESS_ARCHIVE_SPACE_H
#define INGRESS_ARCHIVE_SPACE_H

#include "response.h"
#include "settings.h"
#include "store.h"

struct links;
struct retention;

struct archive_space {
    enum response refusal; /* RESPONSE_NONE: there is space */
    int64_t looked_ms;     /* mono; 0: never */
    int64_t
        free_bytes; /* of disk and file, counted down between measurements */
    int64_t disk_bytes; /* the part of it that is on the disk */
    int64_t mark_bytes;
    int64_t used_bytes; /* of the archive, counted up between measurements */
    int64_t max_bytes;  /* archive.max_size */
    int64_t first_n, last_n;        /* rows held; first > last: none */
    int64_t brought, brought_bytes; /* inserted since the last deletion */
    struct ages ages;               /* which rows are older than `keep` */
    /* The source that has more than half of the archive, and the row up to which its processed
     * requests are deleted. */
    char flooder[NAME_MAX_BYTES + 1];
    int64_t flooder_at_n;
    bool purging; /* the last step deleted as much as it may */
};

/* Below this mark events are refused: 5 % of the file system, at most 256 MiB. */
int64_t space_mark_bytes(int64_t total_bytes);
/* Pure: the decision by the current figures. */
enum response space_judge(const struct archive_space *r);
/* Pure: above this size the archive deletes processed requests. */
int64_t space_share_bytes(const struct archive_space *r);

void space_open(struct archive_space *r, struct store *store,
                const struct settings *s);
/* Count a row that was just inserted. */
void space_took(struct archive_space *r, int64_t n, int64_t bytes);
/* Inside the transaction, each turn: measure about once a second, delete a limited number of
 * rows that are due. Returns how many were deleted; `*wait_ms` is when it must be called again. */
int64_t space_work(struct archive_space *r, struct store *store,
                   struct links *links, const struct settings *s,
                   const struct retention *retention, int64_t now_ms,
                   int64_t mono_ms, int *wait_ms);
/* After a rollback: measure again, store.h included. */
void space_undo(struct archive_space *r, struct store *store);

#endif
