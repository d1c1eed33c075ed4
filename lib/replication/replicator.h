/* replicator: the thread of an active. It brings each turn into the engine's log, beats while there is nothing else to do, and knows
 * until when the process may send. Source: docs/decisions/0126.
 *
 * db.c hands each turn over and waits (db_replicate()); the loop asks before it sends. If the engine does not answer, the thread
 * goes on asking: a turn waits as long as that lasts. If another start owns the store, the process ends at once with
 * EXIT_FENCED (75); if the log contradicts the file, with EXIT_STORAGE (74). A crash at any moment leaves at most one turn in the
 * file's write-ahead log that the engine's log lacks, and nobody was told of that turn. */
#ifndef REPLICATION_REPLICATOR_H
#define REPLICATION_REPLICATOR_H

#include "db.h"
#include "ownership.h"
#include "snapshotter.h"

enum {
    /* A turn of the loop takes milliseconds, and seconds while a full write-ahead log is copied. If one has not ended after this
     * time, the thread stops beating, so that a standby can take over. The time from the takeover to the first turn counts as a turn. */
    REPLICATOR_STUCK_MS = 60 * 1000,
    /* Of one turn: what a start may hold in memory. Turns of ordinary work have a hundredth of it at most; a migration may have more than LARGE_TURN_BYTES. */
    REPLICATOR_TURN_BYTES = 1024 * 1024 * 1024,
    /* A host that has not written its row for so many takeover_after is no standby any more. */
    REPLICATOR_KNOWN_TAKEOVERS = 4,
};

struct replicator_settings {
    const struct engine_ops *ops;
    struct engine *engine; /* the replicator's from now on; it closes it, too */
    const struct ownership *ownership; /* ROLE_ACTIVE; copied */
    const char *process, *db_path;
    const uint8_t *key; /* SEAL_KEY_BYTES, to seal turns with */
    /* Another connection, for snapshots (snapshotter.h), the replicator's from now on, too; NULL: it makes none. */
    struct engine *snapshots;
    int schema; /* of the database from the first turn on, which has the migration: then an older program is not ready */
    int64_t stuck_ms; /* REPLICATOR_STUCK_MS */
};

struct replicator;

/* It beats from now on, also while the database is being opened. Open it after loop_prepare(), which blocks the signals that the
 * loop takes. */
struct replicator *replicator_open(const struct replicator_settings *s);
/* Waits for a statement that is under way. Call it when no turn is open; NULL is allowed. */
void replicator_close(struct replicator *r);
/* For db_replicate(). */
struct db_replication replicator_turns(struct replicator *r);

/* Any thread: whether this process may send now. Send at once after asking, and ask after reading what is answered. */
bool replicator_may_send(const struct replicator *r);
/* A turn of the loop, or the start, begins or goes on (true), or the loop waits for input (false). */
void replicator_in_turn(struct replicator *r, bool yes);

/* Gives the store away, so that the standby on the host `heir` takes over at once, or any ("" or NULL). The caller has stopped sending for good, and no turn is
 * open. Tries once, for at most `wait_ms`; false: it is not known, and a standby waits for the silence. Afterwards close it. */
bool replicator_release(struct replicator *r, const char *heir,
                        int64_t wait_ms);

struct replicator_state {
    enum ownership_role role;
    int64_t epoch, n;    /* of the last turn that is in */
    bool turn_open;      /* one waits to be in */
    int64_t may_send_ms; /* for so long; 0: not */
    int64_t
        append_us; /* how long the last turn took, with its repetitions; -1: there was none */
    /* Since when no statement has succeeded (now_ms()), and why the last one did not; 0 and "": the last one did. */
    int64_t failing_since_ms;
    char error[ENGINE_WHY_BYTES];
    bool stuck; /* the loop's turn lasts too long, so it does not beat */
    /* Other hosts that follow: those that wrote their row within REPLICATOR_KNOWN_TAKEOVERS x takeover_after, of them those that may take over, and how many turns the
     * last of them lacks. They are read each half second, or twice in each hold, while the engine acknowledges and no turn is open. */
    int standbys, ready;
    int64_t behind;
};
void replicator_state(struct replicator *r, struct replicator_state *out);
/* Another host, as last read; seen_ms includes the time since then. false: it has no row. */
bool replicator_node(struct replicator *r, const char *host,
                     struct engine_node *out);
/* The host that may take over and reaches the most processes of the pipeline, at least one. It has written its row within takeover_after. false: there is none. */
bool replicator_heir(struct replicator *r, struct engine_node *out);
/* snapshotter_forget(); true without a snapshotter. */
bool replicator_forget(struct replicator *r, int64_t n);
void replicator_snapshots(struct replicator *r, struct snapshot_state *out);

#endif
