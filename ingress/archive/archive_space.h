/* archive_space: is there space to keep one more event, and making it.
 *
 * Three things fill: the file system (a mark well above empty, so that the processes
 * behind us can still record the outcomes of what we have taken), the archive up to
 * archive.max_size, and time (archive.keep). Only what was handed on to the sequencer
 * is ever purged, at the latest when the archive is half of what its disk has space
 * for; the others live there, too. One source with more than half of the archive then
 * loses its own first (store_usage.h). When the rest alone fills max_size we refuse,
 * and open again by ourselves. */
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
    int64_t free_bytes;    /* of disk and file, counted down likewise */
    int64_t disk_bytes;    /* of those, on the disk */
    int64_t mark_bytes;
    int64_t used_bytes;      /* of the archive, counted on between two looks */
    int64_t max_bytes;       /* archive.max_size */
    int64_t first_n, last_n; /* rows held; first > last: none */
    int64_t brought,
        brought_bytes; /* inserted since the last step of a purge */
    struct ages ages;  /* which of them are older than `keep` */
    /* The source that has more than half of what there is, and up to which row its own
     * processed ones were deleted. */
    char flooder[NAME_MAX_BYTES + 1];
    int64_t flooder_at_n;
    bool purging; /* the last step found as much as it may take */
};

/* The mark below which we refuse: 5 % of the file system, at most 256 MiB. */
int64_t space_mark_bytes(int64_t total_bytes);
/* Pure: what the figures mean. */
enum response space_judge(const struct archive_space *r);
/* Pure: the archive with more than this drops what was handed on. */
int64_t space_share_bytes(const struct archive_space *r);

void space_open(struct archive_space *r, struct store *store,
                const struct settings *s);
/* Count in a row that was just inserted. */
void space_took(struct archive_space *r, int64_t n, int64_t bytes);
/* Inside the transaction, each turn: look about once a second, purge what is
 * due in a bounded step. Returns how many rows went; `*wait_ms` is when it
 * must be called again. */
int64_t space_work(struct archive_space *r, struct store *store,
                   struct links *links, const struct settings *s,
                   const struct retention *retention, int64_t now_ms,
                   int64_t mono_ms, int *wait_ms);
/* After a rolled back turn: look again; the store does, too. */
void space_undo(struct archive_space *r, struct store *store);

#endif
