/* ownership: what a process of a replicated store does next, from what the engine has answered. Pure: no clock, no I/O. The rules are those of
 * docs/decisions/0126 and of tests/model/replication.pml.
 *
 * The caller asks ownership_next(), does it, and tells the result by ownership_told() or ownership_followed(). Times are mono_ms().
 *
 * A standby takes a released store over at once, unless it was released for another host (owner.for_another): then it waits for takeover_after, so that a
 * host that never comes does not leave the store without an owner. */
#ifndef REPLICATION_OWNERSHIP_H
#define REPLICATION_OWNERSHIP_H

#include "engine.h"

enum ownership_role {
    ROLE_STANDBY,
    ROLE_ACTIVE,
    ROLE_RELEASING, /* it has stopped sending, and gives the store away */
};

enum step {
    STEP_WAIT,   /* nothing to do for `wait_ms` */
    STEP_APPEND, /* send the open turn: always the same bytes */
    STEP_BEAT,
    STEP_JUDGE, /* follow without the log: why did no row change? */
    STEP_FOLLOW,
    STEP_CLAIM,
    STEP_TAKE_OVER,
    STEP_RELEASE,
    STEP_FENCED, /* exit 75: another start owns the store */
    /* Exit 74: the log contradicts the file. Positions: of the file `at` (and `open`), of the log `owner.at`. */
    STEP_CONTRADICTION,
};

struct ownership {
    /* Of ownership_init(). */
    uint8_t me[HOLDER_BYTES];
    int64_t takeover_after_ms;

    /* The caller's, to be changed between two steps. */
    /* The owner that this host's last start was, whose lock shows that it has ended; zeros: none. */
    uint8_t former[HOLDER_BYTES];
    /* A standby: it may take over. */
    bool ready;
    /* An active, which sends nothing any more: give the store away. Ownership clears it if that does not succeed. */
    bool release;

    /* What the file has. A standby's caller sets it after it has made durable what it applied; a file whose last turn may be
     * missing in the log counts without that turn. Of an active, ownership sets it: the last turn that is in the log. */
    struct position at;

    /* Ownership's, for the caller to read. */
    enum ownership_role role;
    struct owner owner; /* as last read, if `seen` */
    bool seen;
    int64_t began_ms; /* when the step under way began */
    /* … of an active */
    struct tenure mine;
    struct position open; /* after the open turn, if has_open */
    bool has_open;        /* a turn is committed, and not known to be in */
    int64_t beat; /* after its last acknowledged statement, for a release */

    /* Ownership's own. */
    /* STEP_JUDGE: a statement changed no row. Or what the judge has found, else STEP_WAIT. */
    enum step verdict;
    int64_t due_ms;   /* of the next beat or follow */
    int64_t retry_ms; /* not before, after an unknown outcome */
    int64_t pause_ms; /* which was so long ago; it grows */
    /* … of a standby */
    bool lost_race;   /* a takeover did not succeed: follow first */
    int64_t read_to;  /* `at.n` at the last follow */
    int64_t still_ms; /* since when it sees this beat */
    int64_t claim_due_ms;
    int64_t
        claimed_ms; /* the first of the unbroken claims in this silence; 0: none */
};

void ownership_init(struct ownership *o, const uint8_t me[HOLDER_BYTES],
                    int64_t takeover_after_ms);
/* The next step at this time; *wait_ms: with STEP_WAIT, how long. */
enum step ownership_next(struct ownership *o, int64_t now_ms, int64_t *wait_ms);
/* The result of STEP_APPEND, STEP_BEAT, STEP_RELEASE, STEP_TAKE_OVER, STEP_CLAIM. `beat`: of the row after an append or a beat. Only an
 * append or a beat that is ENGINE_DONE extends the permission to send (from began_ms): a new active beats first. */
void ownership_told(struct ownership *o, enum step step, enum engine_result r,
                    int64_t beat, int64_t now_ms);
/* A standby that has seen by another way that the store may have been released: it follows at once. */
void ownership_hurry(struct ownership *o);
/* The result of STEP_FOLLOW and STEP_JUDGE; `owner` only if r is ENGINE_DONE. */
void ownership_followed(struct ownership *o, enum step step,
                        enum engine_result r, const struct owner *owner,
                        int64_t now_ms);
/* An active has committed a turn in SQLite. At most one is open. */
void ownership_open_turn(struct ownership *o, const struct position *after);

#endif
