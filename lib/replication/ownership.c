/* ownership: the rules for who owns a replicated store. */
#include "ownership.h"
#include "permission.h"
#include <assert.h>
#include <string.h>

enum { PAUSE_FIRST_MS = 20 };

static const uint8_t nobody[HOLDER_BYTES];

static bool same_holder(const uint8_t a[HOLDER_BYTES],
                        const uint8_t b[HOLDER_BYTES])
{
    return memcmp(a, b, HOLDER_BYTES) == 0;
}

static bool same_history(const struct position *a, const struct position *b)
{
    return memcmp(a->history, b->history, HISTORY_BYTES) == 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How often an idle process writes to the engine. */
static int64_t every_ms(const struct ownership *o)
{
    return hold_of_ms(o->takeover_after_ms) / 4;
}

void ownership_init(struct ownership *o, const uint8_t me[HOLDER_BYTES],
                    int64_t takeover_after_ms)
{
    memset(o, 0, sizeof *o);
    memcpy(o->me, me, HOLDER_BYTES);
    o->takeover_after_ms = takeover_after_ms;
}

/* The engine may be away: no statement for a while, and longer each time, but never longer than a beat
 * may wait. */
static void pause(struct ownership *o, int64_t now_ms)
{
    o->pause_ms = o->pause_ms ? 2 * o->pause_ms : PAUSE_FIRST_MS;
    if (o->pause_ms > every_ms(o))
        o->pause_ms = every_ms(o);
    o->retry_ms = now_ms + o->pause_ms;
}

static void go_on(struct ownership *o)
{
    o->pause_ms = 0;
    o->retry_ms = 0;
}

/* ---- an active ---- */

/* Without permission: only its own beat or turn gives that. */
static void become_active(struct ownership *o, int64_t epoch, int64_t beat)
{
    o->role = ROLE_ACTIVE;
    o->mine.epoch = epoch;
    memcpy(o->mine.holder, o->me, HOLDER_BYTES);
    o->beat = beat;
    o->has_open = false;
    o->release = false;
    o->verdict = STEP_WAIT;
    o->due_ms = 0;
    go_on(o);
}

void ownership_open_turn(struct ownership *o, const struct position *after)
{
    assert(o->role != ROLE_STANDBY && !o->has_open);
    o->open = *after;
    o->has_open = true;
}

static void turn_is_in(struct ownership *o)
{
    if (o->has_open)
        o->at = o->open;
    o->has_open = false;
}

static enum step active_next(struct ownership *o, int64_t *due_ms)
{
    *due_ms = o->retry_ms;
    if (o->verdict != STEP_WAIT)
        return o->verdict;
    if (o->has_open)
        return STEP_APPEND;
    if (o->release) {
        o->role = ROLE_RELEASING;
        return STEP_RELEASE;
    }
    /* A beat takes a release back that may still arrive: it compares the beat. */
    if (o->role == ROLE_ACTIVE)
        *due_ms = later(o->due_ms, o->retry_ms);
    return STEP_BEAT;
}

/* The owner row, and that what it says is durable, is known. */
static enum step judge(struct ownership *o, const struct owner *owner)
{
    if (!owner->exists)
        return STEP_CONTRADICTION;
    if (owner->epoch != o->mine.epoch ||
        !same_holder(owner->holder, o->mine.holder))
        return STEP_FENCED;
    o->beat = owner->beat;
    if (o->has_open && position_equal(&owner->at, &o->open))
        turn_is_in(o);
    return position_equal(&owner->at, &o->at) ? STEP_WAIT : STEP_CONTRADICTION;
}

static void judged(struct ownership *o, enum engine_result r,
                   const struct owner *owner, int64_t now_ms)
{
    if (r == ENGINE_DONE) {
        o->owner = *owner;
        o->seen = true;
        o->verdict = judge(o, owner);
        o->due_ms = 0; /* judging permits nothing */
    }
    pause(o, now_ms);
}

static void active_told(struct ownership *o, enum step step,
                        enum engine_result r, int64_t beat, int64_t now_ms)
{
    if (step == STEP_RELEASE)
        o->release = false;
    if (r == ENGINE_UNKNOWN) {
        pause(o, now_ms);
    } else if (r == ENGINE_NO_ROW) {
        o->verdict = STEP_JUDGE;
        o->retry_ms = 0;
    } else if (step == STEP_RELEASE) {
        o->role = ROLE_STANDBY;
        o->seen = false;
        go_on(o);
    } else {
        if (step == STEP_APPEND)
            turn_is_in(o);
        o->role = ROLE_ACTIVE;
        o->beat = beat;
        o->due_ms = o->began_ms + every_ms(o);
        go_on(o);
    }
}

/* ---- a standby ---- */

/* It may be taken over without waiting for the silence. */
static bool is_free(const struct ownership *o)
{
    return (same_holder(o->owner.holder, nobody) && !o->owner.for_another) ||
           (same_holder(o->owner.holder, o->former) &&
            !same_holder(o->former, nobody));
}

static bool has_all(const struct ownership *o)
{
    return position_equal(&o->at, &o->owner.at);
}

/* The second half of the silence counts only while this process can write to the owner row, so that nobody takes over because
 * the engine was away. */
static enum step standby_next(struct ownership *o, int64_t now_ms,
                              int64_t *due_ms)
{
    int64_t half_ms = o->takeover_after_ms / 2;
    int64_t claim_ms = later(o->still_ms + half_ms, o->claim_due_ms);
    bool reads_on = o->seen && !has_all(o) && o->at.n != o->read_to;

    *due_ms = o->retry_ms;
    if (o->verdict != STEP_WAIT)
        return o->verdict;
    if (!o->seen || o->lost_race || reads_on)
        return STEP_FOLLOW;
    if (o->ready && o->owner.exists && has_all(o)) {
        if (is_free(o))
            return STEP_TAKE_OVER;
        if (o->claimed_ms && now_ms - o->claimed_ms >= half_ms &&
            now_ms - o->still_ms >= o->takeover_after_ms)
            return STEP_TAKE_OVER;
        if (claim_ms < o->due_ms) {
            *due_ms = later(claim_ms, o->retry_ms);
            return STEP_CLAIM;
        }
    }
    *due_ms = later(o->due_ms, o->retry_ms);
    return STEP_FOLLOW;
}

static void standby_told(struct ownership *o, enum step step,
                         enum engine_result r, int64_t now_ms)
{
    if (step == STEP_TAKE_OVER && r == ENGINE_DONE) {
        become_active(o, o->owner.epoch + 1, o->owner.beat);
    } else if (step == STEP_CLAIM && r == ENGINE_DONE) {
        if (!o->claimed_ms)
            o->claimed_ms = now_ms;
        o->claim_due_ms = now_ms + every_ms(o);
        go_on(o);
    } else {
        o->claimed_ms = 0;
        o->lost_race = true;
        pause(o, now_ms);
    }
}

static void followed(struct ownership *o, enum engine_result r,
                     const struct owner *owner, int64_t now_ms)
{
    bool same;

    if (r != ENGINE_DONE) {
        o->claimed_ms = 0;
        pause(o, now_ms);
        return;
    }
    same = o->seen && owner->exists && same_history(&owner->at, &o->owner.at) &&
           owner->epoch == o->owner.epoch && owner->beat == o->owner.beat;
    if (!same) {
        o->still_ms = now_ms;
        o->claimed_ms = o->claim_due_ms = 0;
    }
    o->owner = *owner;
    o->seen = true;
    o->lost_race = false;
    o->read_to = o->at.n;
    o->due_ms = now_ms + every_ms(o);
    go_on(o);
    if (!owner->exists)
        return;
    if (same_history(&owner->at, &o->at) &&
        (owner->at.n < o->at.n || (owner->at.n == o->at.n && !has_all(o))))
        o->verdict = STEP_CONTRADICTION;
    else if (same_holder(owner->holder, o->me) && !has_all(o))
        o->verdict = STEP_CONTRADICTION; /* another process wrote as this one */
    else if (same_holder(owner->holder, o->me))
        become_active(o, owner->epoch, owner->beat);
}

/* ---- both ---- */

void ownership_hurry(struct ownership *o)
{
    o->due_ms = 0;
}

enum step ownership_next(struct ownership *o, int64_t now_ms, int64_t *wait_ms)
{
    int64_t due_ms;
    enum step step = o->role == ROLE_STANDBY ? standby_next(o, now_ms, &due_ms)
                                             : active_next(o, &due_ms);

    *wait_ms = 0;
    if (step == STEP_FENCED || step == STEP_CONTRADICTION)
        return step;
    if (due_ms > now_ms) {
        *wait_ms = due_ms - now_ms;
        return STEP_WAIT;
    }
    o->began_ms = now_ms;
    return step;
}

void ownership_told(struct ownership *o, enum step step, enum engine_result r,
                    int64_t beat, int64_t now_ms)
{
    if (o->role == ROLE_STANDBY)
        standby_told(o, step, r, now_ms);
    else
        active_told(o, step, r, beat, now_ms);
}

void ownership_followed(struct ownership *o, enum step step,
                        enum engine_result r, const struct owner *owner,
                        int64_t now_ms)
{
    if (step == STEP_JUDGE)
        judged(o, r, owner, now_ms);
    else
        followed(o, r, owner, now_ms);
}
