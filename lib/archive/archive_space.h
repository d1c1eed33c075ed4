/* archive_space: decides whether there is space to store another event, and makes space.
 *
 * Three limits: free space of the file system (a mark well above zero, so that the other
 * processes can still record the outcomes of accepted events), the size of the archive
 * (archive.max_size), and time (archive.keep). Only requests that the sequencer has
 * acknowledged are deleted; at the latest when the archive fills half of its disk, which others
 * use, too. A source with more than half of the archive then loses its own first
 * (archive_usage.h). When unacknowledged requests alone fill max_size, the process refuses
 * events, and accepts them again by itself.
 *
 * The turn of the process calls it. All figures are measured again at a start. */
#ifndef ARCHIVE_SPACE_H
#define ARCHIVE_SPACE_H

#include "archive_store.h"
#include "purge_pace.h"
#include "settings.h"

struct links;
struct retention;

enum archive_refusal {
    ARCHIVE_HAS_SPACE = 0,
    ARCHIVE_DISK_LOW,     /* little disk space is free */
    ARCHIVE_BACKLOG_FULL, /* unprocessed requests fill archive.max_size */
};
/* For logs and responses. */
const char *archive_refusal_name(enum archive_refusal r);

struct archive_space {
    enum archive_refusal refusal;
    int64_t looked_ms; /* mono; 0: never */
    int64_t
        free_bytes; /* of disk and file, counted down between measurements */
    int64_t disk_bytes; /* the part of it that is on the disk */
    int64_t mark_bytes;
    int64_t used_bytes; /* of the archive, counted up between measurements */
    int64_t max_bytes;  /* archive.max_size */
    int64_t first_n, last_n;        /* rows held; first > last: none */
    int64_t brought, brought_bytes; /* inserted since the last turn's work */
    struct purge_pace pace;         /* of deletions because of `keep` */
    int64_t added;                  /* rows, since the start */
    int64_t added_bytes;            /* since the last of these deletions */
    struct ages ages;               /* which rows are older than `keep` */
    /* The source that has more than half of the archive, and the row up to which its processed
     * requests are deleted. */
    char flooder[NAME_MAX_BYTES + 1];
    int64_t flooder_at_n;
    bool purging; /* the last step did something: there may be more */
};

/* Below this mark events are refused: 5 % of the file system, at most 256 MiB. */
int64_t archive_space_mark_bytes(int64_t total_bytes);
/* Pure: the decision by the current figures. */
enum archive_refusal archive_space_judge(const struct archive_space *r);
/* Pure: above this size the archive deletes processed requests. */
int64_t archive_space_share_bytes(const struct archive_space *r);

void archive_space_open(struct archive_space *r, struct archive_store *store,
                        const struct settings *s);
/* Count a row that was just inserted. */
void archive_space_took(struct archive_space *r, int64_t n, int64_t bytes);
/* Inside the transaction, each turn: measure about once a second, delete a limited number of
 * rows that are due. Returns how many were deleted; `*wait_ms` is when it must be called again. */
int64_t archive_space_work(struct archive_space *r, struct archive_store *store,
                           struct links *links, const struct settings *s,
                           const struct retention *retention, int64_t now_ms,
                           int64_t mono_ms, int *wait_ms);
/* After a rollback: measure again, archive_store.h included. */
void archive_space_undo(struct archive_space *r, struct archive_store *store);

#endif
