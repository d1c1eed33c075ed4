/* snapshotter: the thread of an active that keeps a snapshot of its database in the engine, so that a host without the file can become a standby. It also deletes the
 * log rows and snapshots that nobody needs any more (snapshot_step()).
 *
 * It makes a snapshot when one is due (snapshot_due()). A snapshot begins when the whole write-ahead log is in the file and in the engine's log, which is so at moments between two
 * turns only. So the thread asks for such a moment (snapshotter_wants_copy()), db_tidy() copies the log, and snapshotter_copied() names the position. The rest is
 * done beside the turns: the thread has connections of its own to the engine and to the file, and pauses after each part for twice the time that the part took.
 *
 * A process that ends in the middle leaves parts without a manifest, which nobody restores, and which the next snapshot deletes. While the engine does not respond, the thread
 * repeats its last call. A start that has lost the store writes nothing more, because each call compares epoch and holder; whether it has lost it, the
 * replicator judges. */
#ifndef REPLICATION_SNAPSHOTTER_H
#define REPLICATION_SNAPSHOTTER_H

#include "engine.h"

struct snapshotter_settings {
    const struct engine_ops *ops;
    struct engine
        *engine; /* the snapshotter's from now on; it closes it, too */
    const char *process, *db_path;
    const uint8_t *key; /* SEAL_KEY_BYTES */
    struct tenure mine;
    struct position at; /* of the last turn in the engine's log */
    int schema;         /* of the database after the start's first turn */
};

struct snapshotter;

/* Begins nothing before the first snapshotter_turn_is_in(). */
struct snapshotter *snapshotter_open(const struct snapshotter_settings *s);
/* From any thread: it makes no further call. Waits for nothing. NULL is allowed. */
void snapshotter_stop(struct snapshotter *s);
/* Stops it, and waits for a call that is under way (milliseconds; a few seconds if the engine does not respond). NULL is allowed. */
void snapshotter_close(struct snapshotter *s);

/* A turn is in the engine's log, and not in the file yet; `bytes`: of its parts. */
void snapshotter_turn_is_in(struct snapshotter *s, const struct position *at,
                            int64_t bytes);
/* Whether a snapshot is due, so that the write-ahead log should be copied as a whole. Cheap. */
bool snapshotter_wants_copy(const struct snapshotter *s);
/* Between two turns: the whole write-ahead log is in the file now. */
void snapshotter_copied(struct snapshotter *s);

/* Ends what the engine has of the turns up to n, for an erasure: makes a snapshot at n or later, waits until each host that follows has read up to it, and deletes all
 * turns and snapshots before it. true: that is done; false: call it again later, at each start too. */
bool snapshotter_forget(struct snapshotter *s, int64_t n);

struct snapshot_state {
    int64_t n; /* of the newest one in the engine; -1: none, or not known yet */
    int64_t made_ms; /* when this start has made it, now_ms(); 0: it has not */
    /* Of the one that is being made: parts written and read back, so each counts twice. 0: none is. */
    int64_t parts, all_parts;
    bool due; /* one is due, and waits for the write-ahead log to be copied */
    /* Since when no call has succeeded (now_ms()), and why the last one did not; 0 and "": the last one did. */
    int64_t failing_since_ms;
    char error[ENGINE_WHY_BYTES];
};
void snapshotter_state(struct snapshotter *s, struct snapshot_state *out);

#endif
