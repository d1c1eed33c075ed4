/* link_table: a process's links in memory. Included only by proto/link*.c and their tests. */
#ifndef PROTO_LINK_TABLE_H
#define PROTO_LINK_TABLE_H

#include "bounds.h"
#include "epochs.h"
#include "links.h"
#include "wire.h"

enum {
    EPOCHS_KEPT = 512,  /* a file remembers this many starts per link */
    ASK_FIRST_MS = 50,  /* silence before we ask for the peer's cursor … */
    ASK_MAX_MS = 2000,  /* … doubled up to this … */
    ASK_IDLE_MS = 5000, /* … and this often when everything is acknowledged */
    CURSOR_MS = 1000,   /* how long a kept log's cursor waits for other rows */
    ASKED_MAX = 4,   /* unanswered questions, then we use the default inbox */
    RESEND_MS = 100, /* one gap is filled at most once in this time */
    GONE_LOG_MS = 1000, /* missing rows are collected in one line for so long */
    LINKS_MAX = 1024,   /* senders from which we accept messages */
    BUFFER_KEPT_BYTES = 4 * 1024 * 1024, /* a larger buffer is freed */
    APPLY_MAX_US = 250000, /* time to apply messages in one turn */
    QUARANTINE_STALLS =
        2, /* unclean starts at one cursor: one by one from now */
    QUARANTINE_COUNT = TURN_MAX_COUNT, /* for this many messages */
    QUARANTINE_TRIES =
        2, /* a message that crashed us this often is set aside */
    /* The process waits this long before it tries the message again, so that kills
     * from outside are unlikely to hit the same message twice. */
    QUARANTINE_QUIET_MS = 1000,
    QUARANTINE_LOOK_MS = 20, /* how often it checks whether it has waited */
};

/* Messages of a link that were put in this turn, one behind the other, so that they need
 * not be read back from their rows. Number first + i ends at ends[i]; an empty one was
 * put without its message. */
enum {
    TURN_KEPT_MAX_COUNT = 512,
    TURN_KEPT_MAX_BYTES = 1024 * 1024,
    TURN_MEMORY_KEPT_BYTES = 64 * 1024, /* a larger buffer is freed */
};
struct link_turn {
    uint64_t first;
    int count;
    size_t ends[TURN_KEPT_MAX_COUNT];
    struct buf messages;
};

/* An outgoing link. `sent` and the fields after it are in memory only. */
struct link_out {
    char peer[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    int64_t link;
    uint64_t next, cursor, floor, rewinds;
    uint64_t epoch; /* of this start, on this link */
    struct epochs epochs;
    bool own, keep; /* kinds of log, see links.h */
    int own_kind;
    bool dirty;
    int64_t moved_ms; /* of a kept log: since when its row is behind; 0 */
    uint64_t sent;    /* last number sent in this epoch */
    uint64_t epochs_cursor,
        epochs_cursor_epoch; /* the `taken` to which they respond */
    uint64_t fresh_floor;    /* for a receiver that began empty; 0: none */
    size_t sent_bytes;       /* of cursor+1 … sent */
    uint32_t sizes[WINDOW_MAX_COUNT]; /* of message n, at n % that */
    uint64_t resent_from; /* the last gap that was filled, and when */
    int64_t resent_ms;
    uint64_t question;       /* in every batch; another one in each doubt */
    bool in_doubt;           /* a response to it is awaited … */
    uint64_t doubted_cursor; /* … with the cursor as it was then */
    bool ask_now;            /* ask in the next after_commit() */
    bool behind;             /* that its cursor is too low has been logged */
    int64_t heard_ms, ask_at_ms, ask_wait_ms;
    uint64_t timed_n; /* the round trip of this number is being measured; 0 */
    int64_t timed_us, round_trip_us; /* since when; the average, 0: none */
    uint64_t forked_n, forked_epoch; /* the last disagreement that was logged */
    bool epochs_pending;             /* after_commit() sends our epochs */
    unsigned asked;                  /* questions since its last frame */
    uint64_t gone_n; /* the last row that was missing when it was to be sent */
    uint64_t gone_first, gone_count; /* missing rows not yet logged */
    int64_t gone_ms;                 /* when the first of these was found */
    struct link_turn turn;
};

/* An incoming link. `taken` is the last number applied, `n` the last on disk (they
 * differ on a held link only, and inside a turn). */
struct link_in {
    char peer[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    int64_t link;
    uint64_t n, taken;
    struct epochs epochs;
    bool held, dirty, ack_pending, gap;
    bool stale_epochs; /* the disk has epochs of rows past `taken` */
    bool made; /* in this turn: it is stored before anything is applied */
    uint64_t question; /* the sender's, in the last batch; 0: none came */
    uint64_t lost, rewinds, unprocessable;
    int64_t heard_ms;
    int quarantine_left; /* messages still to be applied one per turn */
    uint64_t trying;     /* on disk: the message being tried, and … */
    int tries;           /* … how often */
    uint64_t marked;     /* `trying` as this start wrote it */
};

struct links {
    struct db *db;
    struct mailbox *mailbox;
    const struct links_ops *ops;
    void *self;
    uint64_t epoch;
    struct link_out **out;
    size_t out_count;
    struct link_in **in;
    size_t in_count;
    struct buf frame, messages; /* being built */
    struct buf kept;            /* a batch whose rest waits for the next turn */
    int taken_count;
    size_t taken_bytes;
    uint64_t applying;  /* epoch of the message that apply() looks at */
    int64_t opened_ms;  /* mono */
    bool quiet;         /* `kept` waits for QUARANTINE_QUIET_MS */
    int64_t applied_us; /* since when this turn applies messages; 0: not yet */
    struct {
        stmt *out_add, *out_set, *out_epoch, *out_epochs_cut, *log_add,
            *log_cut, *log_read, *in_add, *in_set, *in_epoch, *in_epochs_cut,
            *in_lost, *in_aside, *in_trying, *in_clean;
    } sql;
};

/* link_table.c. `known`: NULL if there is none. `named`: made if needed, in memory only.
 * `linked`: made with its row, so inside a transaction. */
struct link_out *link_out_known(struct links *h, const char *peer);
struct link_out *link_out_named(struct links *h, const char *peer);
struct link_out *link_out_linked(struct links *h, const char *peer);
struct link_in *link_in_known(struct links *h, const char *peer);
struct link_in *link_in_named(struct links *h, const char *peer);
/* NULL when there are LINKS_MAX already. */
struct link_in *link_in_linked(struct links *h, const char *peer);
void links_fini(struct links *h);
/* The same characters as daemon_options.c allows in a process's name. */
bool link_is_name(struct bytes s);

/* link_rows.c. Reads memory from disk: after a start and after a rollback. */
void link_rows_prepare(struct links *h);
void link_rows_read(struct links *h);
/* Once, at a start: find links whose next message may have crashed this process. */
void link_rows_quarantine(struct links *h);

/* link_log.c. The message of number n, if it was put in this turn; else n is 0. */
struct bytes link_turn_message(const struct link_turn *t, uint64_t n);
void link_turn_clear(struct link_turn *t);
/* Stores the cursor, and deletes acknowledged rows of a log not kept. */
void link_log_store(struct links *h, struct link_out *o);

/* link_out.c */
gr_rc link_out_acked(struct links *h, const struct wire_acked *a);
int link_out_flush(struct links *h, struct link_out *o, int64_t now);
void link_out_store(struct links *h, struct link_out *o);

/* link_in.c */
gr_rc link_in_batch(struct links *h, struct bytes frame);
gr_rc link_in_epochs(struct links *h, const struct wire_epochs *r);
void link_in_flush(struct links *h, struct link_in *i);
void link_in_store(struct links *h, struct link_in *i);

#endif
