/* room: is there room to keep one more event, and making it.
 *
 * Three things fill: the file system (a mark well above empty, so that the
 * processes behind us can still record the outcomes of what we have taken), the
 * archive up to archive.max_size, and time (archive.keep). Only what was handed
 * on to the sequencer is ever purged, at the latest when the archive is half of
 * what its disk has room for; the others live there, too. One source with more than half of
 * the archive then loses its own first (store_usage.h). When the rest alone
 * fills max_size we refuse, and open again by ourselves. */
#ifndef INGRESS_ROOM_H
#define INGRESS_ROOM_H

#include "answer.h"
#include "settings.h"
#include "store.h"

struct hop;
struct retention;

struct room {
    enum answer refusal; /* ANSWER_NONE: there is room */
    int64_t looked_ms;   /* mono; 0: never */
    int64_t free_bytes;  /* of disk and file, counted down likewise */
    int64_t disk_bytes;  /* of those, on the disk */
    int64_t mark_bytes;
    int64_t used_bytes;      /* of the archive, counted on between two looks */
    int64_t most_bytes;      /* archive.max_size */
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
int64_t room_mark_bytes(int64_t total_bytes);
/* Pure: what the figures mean. */
enum answer room_judge(const struct room *r);
/* Pure: the archive with more than this drops what was handed on. */
int64_t room_share_bytes(const struct room *r);

void room_open(struct room *r, struct store *store, const struct settings *s);
/* Count in a row that was just inserted. */
void room_took(struct room *r, int64_t n, int64_t bytes);
/* Inside the transaction, each turn: look about once a second, purge what is
 * due in a bounded step. Returns how many rows went; `*wait_ms` is when it
 * wants to be called again. */
int64_t room_work(struct room *r, struct store *store, struct hop *hop,
                  const struct settings *s, const struct retention *retention,
                  int64_t now_ms, int64_t mono_ms, int *wait_ms);
/* After a rolled back turn: look again; the store does, too. */
void room_undo(struct room *r, struct store *store);

#endif
