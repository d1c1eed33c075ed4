/* hop_links: a process's links in memory, and what the hop's files share; nobody
 * else's. */
#ifndef PROTO_HOP_LINKS_H
#define PROTO_HOP_LINKS_H

#include "bounds.h"
#include "hop.h"
#include "runs.h"
#include "wire.h"

enum {
    RUNS_KEPT = 512,    /* a file remembers this many starts per link */
    ASK_FIRST_MS = 50,  /* silence before we ask where the peer is … */
    ASK_MOST_MS = 2000, /* … doubled up to this … */
    ASK_IDLE_MS = 5000, /* … and this often when nothing is under way */
    CURSOR_MS = 1000,   /* a kept log's cursor waits so long for other rows */
    ASKED_MOST = 4,     /* in vain: then at the inbox that its name says */
    GO_BACK_MS = 100,   /* one place is gone back to once in this time */
    GONE_LOG_MS = 1000, /* missing rows are collected in one line for so long */
    LINKS_MAX = 1024,   /* from how many names we take messages */
    BUFFER_KEPT_BYTES = 4 * 1024 * 1024, /* after a larger frame: give back */
    APPLY_MAX_US = 250000, /* in one turn, whatever a message makes of itself */
    SUSPECT_STALLS = 2, /* unclean starts at one place: one by one from now */
    SUSPECT_COUNT = TURN_MAX_COUNT, /* for this many messages */
    SUSPECT_TRIES = 2, /* a message that took us down this often is out */
    /* Before it is tried once more we have lived for so long: whoever kills us
     * now and then hardly meets it twice. */
    SUSPECT_QUIET_MS = 1000,
    SUSPECT_LOOK_MS = 20, /* and look so often whether we have */
};

/* We send. `sent` and what follows is memory only. */
struct hop_out {
    char peer[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    int64_t link;
    uint64_t next, cursor, floor, set_back;
    uint64_t run; /* of this start, on this link */
    struct runs runs;
    bool own, keep; /* kinds of log, see hop.h */
    int own_kind;
    bool dirty;
    int64_t moved_ms; /* of a kept log: its row is behind since then; 0 */
    uint64_t sent;    /* last number that left in this run */
    uint64_t runs_place, runs_place_run; /* `taken` that say_runs answers */
    uint64_t fresh_floor; /* for a receiver that began empty; 0: none */
    size_t sent_bytes;    /* of cursor+1 … sent */
    uint32_t sizes[WINDOW_MAX_COUNT]; /* of message n, at n % that */
    uint64_t back_to;                 /* last place gone back to, and when */
    int64_t back_ms;
    uint64_t question;       /* in every batch; another one in each doubt */
    bool in_doubt;           /* an answer to it is awaited … */
    uint64_t doubted_cursor; /* … with the cursor as it was then */
    bool ask_now;            /* it is to be asked in the next tell() */
    bool behind;             /* that it is so was said loudly */
    int64_t heard_ms, ask_at_ms, ask_wait_ms;
    uint64_t timed_n; /* the round trip of this number is being measured; 0 */
    int64_t timed_us, round_trip_us; /* since when; the average, 0: none */
    uint64_t forked_n, forked_run;   /* last disagreement said loudly */
    bool say_runs;                   /* … and to be answered by tell() */
    unsigned asked;                  /* questions since we last heard from it */
    uint64_t gone_n; /* the last row that was missing when it was to be sent */
    uint64_t gone_first, gone_count; /* missing rows not yet logged */
    int64_t gone_ms;                 /* when the first of these was found */
};

/* We receive. `taken` is what was applied; `n` what is on disk (they differ
 * on a held link only, and inside a turn). */
struct hop_in {
    char peer[NAME_MAX_BYTES + 1];
    char inbox[INBOX_MAX_BYTES + 1];
    int64_t link;
    uint64_t n, taken;
    struct runs runs;
    bool held, dirty, say, hole;
    bool stale_runs; /* on disk are some of rows past `taken` */
    bool made; /* in this turn: nothing is applied before that is on disk */
    uint64_t question; /* the sender's, in the last batch; 0: none came */
    uint64_t lost, set_back, unprocessable;
    int64_t heard_ms;
    int suspect_left; /* messages still to be applied one per turn */
    uint64_t trying;  /* on disk, with … */
    int tries;        /* … how often it was */
    uint64_t marked;  /* `trying` as this start wrote it */
};

struct hop {
    struct db *db;
    struct mailbox *mailbox;
    const struct hop_ops *ops;
    void *self;
    uint64_t run;
    struct hop_out **out;
    size_t out_count;
    struct hop_in **in;
    size_t in_count;
    struct buf frame, messages; /* being built */
    struct buf kept;            /* a batch whose rest waits for the next turn */
    int taken_count;
    size_t taken_bytes;
    uint64_t applying;  /* epoch of the message that apply() looks at */
    int64_t opened_ms;  /* mono */
    bool quiet;         /* what is kept waits for SUSPECT_QUIET_MS */
    int64_t applied_us; /* since when this turn applies messages; 0: not yet */
    struct {
        stmt *out_add, *out_set, *out_run, *out_runs_cut, *log_add, *log_cut,
            *log_read, *in_add, *in_set, *in_run, *in_runs_cut, *in_lost,
            *in_aside, *in_trying, *in_clean;
    } sql;
};

/* hop_links.c. `known`: NULL when there is none. `named`: made, in memory only.
 * `linked`: with its row, so inside of a transaction. */
struct hop_out *hop_out_known(struct hop *h, const char *peer);
struct hop_out *hop_out_named(struct hop *h, const char *peer);
struct hop_out *hop_out_linked(struct hop *h, const char *peer);
struct hop_in *hop_in_known(struct hop *h, const char *peer);
struct hop_in *hop_in_named(struct hop *h, const char *peer);
/* NULL when there are LINKS_MAX already. */
struct hop_in *hop_in_linked(struct hop *h, const char *peer);
void hop_links_fini(struct hop *h);
/* As daemon.c allows them for processes. */
bool hop_is_name(struct bytes s);

/* hop_rows.c. Memory as the disk has it: after a start, and after a turn that was
 * rolled back. */
void hop_rows_prepare(struct hop *h);
void hop_rows_read(struct hop *h);
/* Once, at a start: what comes next on a link may have taken us down before. */
void hop_rows_suspect(struct hop *h);

/* hop_log.c. Rows that need not be held go. */
void hop_log_store(struct hop *h, struct hop_out *o);

/* hop_out.c */
gr_rc hop_out_acked(struct hop *h, const struct wire_acked *a);
int hop_out_tell(struct hop *h, struct hop_out *o, int64_t now);
void hop_out_store(struct hop *h, struct hop_out *o);

/* hop_in.c */
gr_rc hop_in_batch(struct hop *h, struct bytes frame);
gr_rc hop_in_runs(struct hop *h, const struct wire_runs *r);
void hop_in_tell(struct hop *h, struct hop_in *i);
void hop_in_store(struct hop *h, struct hop_in *i);

#endif
