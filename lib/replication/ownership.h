/* ownership: what a process of a replicated store does next, from what the engine has answered. Pure: no clock, no I/O. The rules are those of
 * docs/decisions/0126 and of tests/model/replication.pml.
 *
 * The caller asks ownership_next(), does it, and tells the result by ownership_told() or ownership_followed(). */
#ifndef REPLICATION_OWNERSHIP_H
#define REPLICATION_OWNERSHIP_H

#include "engine.h"

enum role {
    ROLE_STANDBY,
    ROLE_ACTIVE,
    ROLE_RELEASING, /* it has stopped sending, and gives the store away */
};

enum step {
    STEP_WAIT,      /* nothing to do until `wait_ms` */
    STEP_APPEND,    /* send the open turn: always the same bytes */
    STEP_BEAT,
    STEP_JUDGE,     /* follow without the log: why did no row change? */
    STEP_FOLLOW,
    STEP_CLAIM,
    STEP_TAKE_OVER,
    STEP_RELEASE,
    STEP_FENCED,       /* exit 75: another one owns the store */
    STEP_CONTRADICTION, /* exit 74: the log contradicts the file; `at` and `owner` have both positions */
};

struct ownership {
    enum role role;
    uint8_t me[HOLDER_BYTES];
    uint8_t former[HOLDER_BYTES]; /* the holder before this start, whose lock shows that it has ended; zeros: unknown */
    struct position at;  /* active: of the last turn that is in; standby: of the file */
    struct position open; /* active: after the open turn */
    bool has_open;       /* a turn waits to be in */
    bool doubt;          /* active: the outcome of the last statement is unknown */
    struct tenure mine;
    struct owner owner;  /* as last seen */
    bool seen;           /* `owner` was read since this start */
    bool ready;          /* may take over: the caller's */
    int64_t beat;        /* active: after its last acknowledged statement */
    /* Times by CLOCK_BOOTTIME, in ms. */
    int64_t takeover_after_ms;
    int64_t began_ms;    /* when the step under way began */
    int64_t last_ms;     /* when the last step that the engine acknowledged began */
    int64_t still_since_ms; /* when this beat was first seen */
    int64_t claimed_ms;  /* the first acknowledged claim of this silence; 0: none */
    bool release;        /* asked for: SIGTERM or handover */
    bool confirmed;      /* active: a beat or turn of its own was acknowledged since the takeover */
    bool unreadable;
};

void ownership_init(struct ownership *o, const uint8_t me[HOLDER_BYTES],
                    int64_t takeover_after_ms);
/* The next step at this time; *wait_ms: with STEP_WAIT, how long. Sets began_ms. */
enum step ownership_next(struct ownership *o, int64_t now_ms, int64_t *wait_ms);
/* The result of STEP_APPEND, STEP_BEAT, STEP_RELEASE, STEP_TAKE_OVER, STEP_CLAIM. */
void ownership_told(struct ownership *o, enum step step, enum engine_result r,
                    int64_t beat, int64_t now_ms);
/* The result of STEP_FOLLOW and STEP_JUDGE; `owner` only if r is ENGINE_DONE. A standby sets `at` itself when it has applied what it has read. */
void ownership_followed(struct ownership *o, enum step step,
                        enum engine_result r, const struct owner *owner,
                        int64_t now_ms);
/* Active: a turn was committed in SQLite. At most one is open. */
void ownership_open_turn(struct ownership *o, const struct position *after);

#endif
