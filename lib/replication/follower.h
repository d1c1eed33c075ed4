/* follower: what a start of a replicated process runs until it owns the store: it makes its file a beginning of the engine's log (cut.h), or restores a snapshot, then follows the
 * log, and takes over by the rules of ownership.h. SQLite does not have the file open meanwhile. Source: docs/decisions/0126.
 *
 * It is ready to take over at the end of the log, when each page is of one turn, the whole file was checked since the start of this process (SQLite's integrity check, read-only,
 * while nothing is applied), its row has the same turn as its position, this program knows its schema, and
 * its disk has space.
 *
 * While it is behind, it reads and applies without a pause, FOLLOWER_READ_BYTES at a time. At the end of the log it reads each quarter of `hold` (takeover_after / 12; 1.25 s
 * with 15 s), which is also when it writes its node row. Reading is a durable write of the engine, so more of them would cost it more than they give: what
 * is in the log is not lost, and a takeover reads the rest first. Memory: one reading, and one turn (APPLY_FORM_MAX_BYTES at most). */
#ifndef REPLICATION_FOLLOWER_H
#define REPLICATION_FOLLOWER_H

#include "ownership.h"

enum {
    FOLLOWER_READ_BYTES = 8 * 1024 * 1024,
    /* A standby whose disk has less free is not ready: SQLite could not write its log, and the owner would end. */
    FOLLOWER_FREE_BYTES = 16 * 1024 * 1024,
};

struct follower_settings {
    const char *db_path;
    const char *process;
    const struct engine_ops *ops;
    struct engine
        *engine; /* borrowed: only the follower uses it until it has ended */
    const uint8_t *key; /* SEAL_KEY_BYTES */
    const uint8_t *me;  /* HOLDER_BYTES, random for each start */
    /* The lock of this host shows that the start which the position file names has ended, so its silence need not be waited for. */
    bool former_has_ended;
    int64_t takeover_after_ms;
    int schema; /* the newest schema version that this program knows */
};

struct follower;

/* Copies the settings. */
struct follower *follower_open(const struct follower_settings *s);
void follower_close(struct follower *f); /* NULL is allowed */

enum follower_result {
    FOLLOWER_GOES_ON,
    FOLLOWER_STOPPED, /* follower_stop() was called */
    /* This process owns the store: the file is closed, and has no -wal and no -shm. The caller opens it with db_open() and continues with follower_ownership(),
     * without permission to send yet. */
    FOLLOWER_OWNER,
    FOLLOWER_CONTRADICTION, /* exit 74: the log has lost turns that the file has; `why` has both positions */
};
/* Runs until one of the other three. Blocks. */
enum follower_result follower_run(struct follower *f,
                                  char why[ENGINE_WHY_BYTES]);
/* One step of it: a few calls of the engine, and for a large turn (large_turn.h) one for each slice. *wait_ms: how long nothing is to be done. */
enum follower_result follower_step(struct follower *f, int64_t *wait_ms,
                                   char why[ENGINE_WHY_BYTES]);
/* From any thread: follower_run() returns after the step under way. */
void follower_stop(struct follower *f);
/* From any thread: how many active processes of the pipeline this one reaches, for its row. It does not matter for a takeover. */
void follower_reaches(struct follower *f, int peers);
/* Of the thread that ran it, after it has returned. */
const struct ownership *follower_ownership(const struct follower *f);

struct follower_state {
    struct position at;
    int64_t log_n; /* the last turn in the engine's log when it was last read */
    bool ready;
    char why[ENGINE_WHY_BYTES]; /* not ready: what is missing */
    int64_t
        followed_ms; /* when the engine last acknowledged a reading, now_ms(); 0: never */
};
/* From any thread. */
void follower_state(struct follower *f, struct follower_state *out);

#endif
