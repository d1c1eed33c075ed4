/* Tests of ownership and permission: each line of the tables of docs/decisions/0126, and random runs of two or three nodes against an engine
 * in memory, with the invariants of tests/model/replication.pml. The runs are the same each time; GRAPNEL_SEED repeats one, GRAPNEL_SEED_SECONDS
 * makes new ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "ownership.h"
#include "permission.h"
#include "seeded.h"
#include "small_engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    TAKEOVER_MS = 12000,
    HOLD_MS = TAKEOVER_MS / 3,
    EVERY_MS = HOLD_MS / 4,
};

/* ---- permission ---- */

static void permission_ends_hold_after_the_statement_began(void **state)
{
    struct permission p;

    (void)state;
    permission_init(&p, TAKEOVER_MS);
    assert_false(permission_holds(&p, 0, 0));
    permission_extend(&p, 1000, 500000);
    assert_true(permission_holds(&p, 1000 + HOLD_MS - 1, 504999));
    assert_int_equal(permission_left_ms(&p, 1000 + HOLD_MS - 1, 504999), 1);
    assert_false(permission_holds(&p, 1000 + HOLD_MS, 505000));
    permission_extend(&p, 2000, 501000);
    assert_true(permission_holds(&p, 1000 + HOLD_MS, 505000));
    permission_end(&p);
    assert_false(permission_holds(&p, 2000, 501000));
}

static void an_older_statement_does_not_shorten_permission(void **state)
{
    struct permission p;

    (void)state;
    permission_init(&p, TAKEOVER_MS);
    permission_extend(&p, 2000, 2000);
    permission_extend(&p, 1000, 1000);
    assert_int_equal(permission_left_ms(&p, 2000, 2000), HOLD_MS);
}

static void permission_ends_when_the_wall_clock_ran_ahead(void **state)
{
    struct permission p;

    (void)state;
    permission_init(&p, TAKEOVER_MS);
    permission_extend(&p, 1000, 900000);
    assert_true(permission_holds(&p, 1001, 900001 + HOLD_MS));
    assert_false(permission_holds(&p, 1001, 900002 + HOLD_MS));
    assert_true(permission_holds(&p, 1001, 0)); /* set back: no pause */
    permission_extend(&p, 1002, 1900000);
    assert_true(permission_holds(&p, 1003, 1900001));
}

/* ---- the tables ---- */

static const uint8_t me[HOLDER_BYTES] = {1}, other[HOLDER_BYTES] = {2};
static struct ownership o;
static struct owner row;
static int64_t now;

static struct position at_turn(int64_t n)
{
    struct position p = {.history = {7}, .n = n};

    p.chain[0] = (uint8_t)n;
    return p;
}

static enum step next(void)
{
    int64_t wait_ms;

    return ownership_next(&o, now, &wait_ms);
}

static int64_t wait_of(void)
{
    int64_t wait_ms;

    assert_int_equal(ownership_next(&o, now, &wait_ms), STEP_WAIT);
    return wait_ms;
}

/* Does nothing until that is due. */
static void wait_for(enum step step)
{
    int64_t wait_ms;
    enum step is;

    while ((is = ownership_next(&o, now, &wait_ms)) == STEP_WAIT)
        now += wait_ms;
    assert_int_equal(is, step);
}

static void told(enum step step, enum engine_result r)
{
    assert_int_equal(next(), step);
    ownership_told(&o, step, r, r == ENGINE_DONE ? ++row.beat : 0, now);
}

static void followed(enum step step, enum engine_result r)
{
    assert_int_equal(next(), step);
    ownership_followed(&o, step, r, &row, now);
}

static void standby(void **state)
{
    (void)state;
    now = 100000;
    ownership_init(&o, me, TAKEOVER_MS);
    o.ready = true;
    o.at = at_turn(5);
    row = (struct owner){
        .exists = true, .at = at_turn(5), .epoch = 3, .beat = 40};
    memcpy(row.holder, other, HOLDER_BYTES);
}

static int as_standby(void **state)
{
    standby(state);
    return 0;
}

/* The active, with permission: the first beat is done. */
static int as_active(void **state)
{
    standby(state);
    memset(row.holder, 0, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    told(STEP_TAKE_OVER, ENGINE_DONE);
    row.beat = 40;
    row.epoch = 4;
    memcpy(row.holder, me, HOLDER_BYTES);
    told(STEP_BEAT, ENGINE_DONE);
    assert_int_equal(o.role, ROLE_ACTIVE);
    assert_int_equal(o.mine.epoch, 4);
    assert_memory_equal(o.mine.holder, me, HOLDER_BYTES);
    return 0;
}

static void open_turn(void)
{
    struct position after = at_turn(o.at.n + 1);

    ownership_open_turn(&o, &after);
}

static void an_idle_active_beats_each_quarter_of_hold(void **state)
{
    (void)state;
    assert_int_equal(wait_of(), EVERY_MS);
    now += EVERY_MS;
    assert_int_equal(next(), STEP_BEAT);
    now +=
        300; /* the response takes so long; the next beat counts from the start of this one */
    ownership_told(&o, STEP_BEAT, ENGINE_DONE, ++row.beat, now);
    assert_int_equal(wait_of(), EVERY_MS - 300);
    assert_int_equal(o.beat, row.beat);
}

static void a_turn_is_sent_at_once_and_counts_as_a_beat(void **state)
{
    (void)state;
    now += 200;
    open_turn();
    told(STEP_APPEND, ENGINE_DONE);
    assert_false(o.has_open);
    assert_int_equal(o.at.n, 6);
    assert_int_equal(wait_of(), EVERY_MS);
}

static void a_turn_of_unknown_outcome_is_repeated_until_it_is_in(void **state)
{
    int64_t before_ms = 0;

    (void)state;
    open_turn();
    for (int i = 0; i < 10; i++) {
        wait_for(STEP_APPEND);
        ownership_told(&o, STEP_APPEND, ENGINE_UNKNOWN, 0, now);
        assert_true(o.has_open);
        assert_true(wait_of() >= before_ms && wait_of() <= EVERY_MS);
        before_ms = wait_of();
    }
    assert_int_equal(before_ms, EVERY_MS);
    now += EVERY_MS;
    told(STEP_APPEND, ENGINE_DONE);
    assert_int_equal(o.at.n, 6);
    now += EVERY_MS;
    assert_int_equal(next(), STEP_BEAT);
    ownership_told(&o, STEP_BEAT, ENGINE_UNKNOWN, 0, now);
    assert_true(wait_of() < 100); /* the pause is short again */
}

static void the_judge_finds_the_turn_in_the_log(void **state)
{
    (void)state;
    open_turn();
    told(STEP_APPEND, ENGINE_NO_ROW);
    row.at = at_turn(6);
    row.beat = 77;
    followed(STEP_JUDGE, ENGINE_DONE);
    assert_false(o.has_open);
    assert_int_equal(o.at.n, 6);
    assert_int_equal(o.beat, 77);
    wait_for(STEP_BEAT); /* judging does not permit to send */
}

static void the_judge_finds_the_turn_not_in_the_log(void **state)
{
    (void)state;
    open_turn();
    told(STEP_APPEND, ENGINE_NO_ROW);
    followed(STEP_JUDGE, ENGINE_DONE);
    assert_true(o.has_open);
    wait_for(STEP_APPEND);
}

static void a_judgement_of_unknown_outcome_is_repeated(void **state)
{
    (void)state;
    now += EVERY_MS;
    told(STEP_BEAT, ENGINE_NO_ROW);
    followed(STEP_JUDGE, ENGINE_UNKNOWN);
    assert_true(wait_of() > 0);
    wait_for(STEP_JUDGE);
}

static void a_beat_without_a_row_is_judged_and_repeated(void **state)
{
    (void)state;
    now += EVERY_MS;
    told(STEP_BEAT, ENGINE_NO_ROW);
    followed(STEP_JUDGE, ENGINE_DONE);
    assert_true(wait_of() > 0); /* not at once, again and again */
    wait_for(STEP_BEAT);
}

static enum step judged(void)
{
    now += EVERY_MS;
    told(STEP_BEAT, ENGINE_NO_ROW);
    followed(STEP_JUDGE, ENGINE_DONE);
    return next();
}

static void another_epoch_is_fencing(void **state)
{
    (void)state;
    row.epoch++;
    assert_int_equal(judged(), STEP_FENCED);
}

static void another_holder_is_fencing(void **state)
{
    (void)state;
    memcpy(row.holder, other, HOLDER_BYTES);
    row.at = at_turn(9); /* its turns contradict nothing */
    assert_int_equal(judged(), STEP_FENCED);
}

static void a_log_that_ends_before_the_file_is_a_contradiction(void **state)
{
    (void)state;
    row.at = at_turn(4);
    assert_int_equal(judged(), STEP_CONTRADICTION);
    assert_int_equal(o.at.n, 5);
    assert_int_equal(o.owner.at.n, 4);
}

static void another_chain_is_a_contradiction(void **state)
{
    (void)state;
    row.at.chain[1] = 9;
    assert_int_equal(judged(), STEP_CONTRADICTION);
}

static void
another_turn_with_the_open_one_s_number_is_a_contradiction(void **state)
{
    (void)state;
    open_turn();
    told(STEP_APPEND, ENGINE_NO_ROW);
    row.at = at_turn(6);
    row.at.chain[1] = 9;
    followed(STEP_JUDGE, ENGINE_DONE);
    assert_int_equal(next(), STEP_CONTRADICTION);
}

static void another_history_is_a_contradiction(void **state)
{
    (void)state;
    row.at.history[0] = 8;
    assert_int_equal(judged(), STEP_CONTRADICTION);
}

static void a_missing_owner_row_is_a_contradiction(void **state)
{
    (void)state;
    row.exists = false;
    assert_int_equal(judged(), STEP_CONTRADICTION);
}

static void a_release_waits_for_the_open_turn(void **state)
{
    (void)state;
    open_turn();
    o.release = true;
    told(STEP_APPEND, ENGINE_DONE);
    assert_int_equal(o.role, ROLE_ACTIVE);
    assert_int_equal(next(), STEP_RELEASE);
    assert_int_equal(o.role, ROLE_RELEASING);
    ownership_told(&o, STEP_RELEASE, ENGINE_DONE, 0, now);
    assert_int_equal(o.role, ROLE_STANDBY);
    assert_int_equal(next(), STEP_FOLLOW);
}

static void only_a_beat_takes_back_a_release_of_unknown_outcome(void **state)
{
    (void)state;
    o.release = true;
    told(STEP_RELEASE, ENGINE_UNKNOWN);
    assert_false(o.release); /* once */
    assert_int_equal(o.role, ROLE_RELEASING);
    wait_for(STEP_BEAT);
    ownership_told(&o, STEP_BEAT, ENGINE_UNKNOWN, 0, now);
    assert_int_equal(o.role, ROLE_RELEASING);
    wait_for(STEP_BEAT);
    ownership_told(&o, STEP_BEAT, ENGINE_DONE, 41, now);
    assert_int_equal(o.role, ROLE_ACTIVE);
}

static void a_release_without_a_row_is_judged(void **state)
{
    (void)state;
    o.release = true;
    told(STEP_RELEASE, ENGINE_NO_ROW);
    row.beat = 50;
    followed(STEP_JUDGE, ENGINE_DONE);
    assert_int_equal(o.beat, 50);
    wait_for(STEP_BEAT);
}

/* ---- a standby ---- */

static void a_standby_reads_on_until_it_has_the_whole_log(void **state)
{
    (void)state;
    row.at = at_turn(9);
    followed(STEP_FOLLOW, ENGINE_DONE);
    o.at = at_turn(7); /* applied */
    followed(STEP_FOLLOW, ENGINE_DONE);
    o.at = at_turn(9);
    assert_int_equal(wait_of(), EVERY_MS);
    wait_for(STEP_FOLLOW);
}

static void a_standby_that_cannot_apply_does_not_read_all_the_time(void **state)
{
    (void)state;
    row.at = at_turn(9);
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(wait_of(), EVERY_MS);
}

static void a_follow_of_unknown_outcome_is_repeated_later(void **state)
{
    (void)state;
    followed(STEP_FOLLOW, ENGINE_UNKNOWN);
    assert_false(o.seen);
    assert_true(wait_of() > 0);
    wait_for(STEP_FOLLOW);
}

/* Follows and claims until another step is due. Returns that step. */
static enum step keep_watching(enum engine_result claim, int64_t until_ms,
                               int *claims)
{
    int64_t wait_ms;
    enum step s;

    while (now < until_ms) {
        s = ownership_next(&o, now, &wait_ms);
        if (s == STEP_FOLLOW)
            ownership_followed(&o, s, ENGINE_DONE, &row, now);
        else if (s == STEP_CLAIM) {
            ++*claims;
            ownership_told(&o, s, claim, 0, now);
        } else if (s != STEP_WAIT)
            return s;
        now += s == STEP_WAIT ? wait_ms : 0;
    }
    return STEP_WAIT;
}

static void a_standby_takes_over_after_the_silence(void **state)
{
    int64_t began_ms = now;
    int claims = 0;

    (void)state;
    assert_int_equal(keep_watching(ENGINE_DONE, began_ms + 60000, &claims),
                     STEP_TAKE_OVER);
    assert_in_range(now - began_ms, TAKEOVER_MS, TAKEOVER_MS + EVERY_MS);
    assert_in_range(claims, TAKEOVER_MS / 2 / EVERY_MS,
                    TAKEOVER_MS / 2 / EVERY_MS + 2);
}

static void a_new_active_beats_before_it_may_send(void **state)
{
    int claims = 0;

    (void)state;
    keep_watching(ENGINE_DONE, now + 60000, &claims);
    ownership_told(&o, STEP_TAKE_OVER, ENGINE_DONE, 0, now);
    assert_int_equal(o.role, ROLE_ACTIVE);
    assert_int_equal(o.mine.epoch, row.epoch + 1);
    assert_int_equal(next(), STEP_BEAT);
}

static void each_beat_and_each_epoch_begins_the_silence_anew(void **state)
{
    int64_t began_ms = now;
    int claims = 0;

    (void)state;
    assert_int_equal(
        keep_watching(ENGINE_DONE, began_ms + TAKEOVER_MS - EVERY_MS, &claims),
        STEP_WAIT);
    row.beat++;
    began_ms = now;
    assert_int_equal(
        keep_watching(ENGINE_DONE, began_ms + TAKEOVER_MS - EVERY_MS, &claims),
        STEP_WAIT);
    row.epoch++;
    began_ms = now;
    assert_int_equal(keep_watching(ENGINE_DONE, began_ms + 60000, &claims),
                     STEP_TAKE_OVER);
    assert_true(now - began_ms >= TAKEOVER_MS);
}

static void silence_does_not_count_while_claims_fail(void **state)
{
    int claims = 0;

    (void)state;
    assert_int_equal(
        keep_watching(ENGINE_UNKNOWN, now + 20LL * TAKEOVER_MS, &claims),
        STEP_WAIT);
    assert_true(claims > 10);
    assert_int_equal(
        keep_watching(ENGINE_DONE, now + 2LL * TAKEOVER_MS, &claims),
        STEP_TAKE_OVER);
}

static void a_failed_follow_begins_the_claims_anew(void **state)
{
    int claims = 0;
    int64_t failed_ms;

    (void)state;
    keep_watching(ENGINE_DONE, now + TAKEOVER_MS - EVERY_MS, &claims);
    wait_for(STEP_FOLLOW);
    ownership_followed(&o, STEP_FOLLOW, ENGINE_UNKNOWN, &row, now);
    failed_ms = now;
    assert_int_equal(
        keep_watching(ENGINE_DONE, now + 2LL * TAKEOVER_MS, &claims),
        STEP_TAKE_OVER);
    assert_true(now - failed_ms >= TAKEOVER_MS / 2);
}

static void a_standby_that_is_not_ready_never_takes_over(void **state)
{
    int claims = 0;

    (void)state;
    o.ready = false;
    memset(row.holder, 0, HOLDER_BYTES);
    assert_int_equal(
        keep_watching(ENGINE_DONE, now + 20LL * TAKEOVER_MS, &claims),
        STEP_WAIT);
    assert_int_equal(claims, 0);
}

static void a_standby_without_the_whole_log_never_takes_over(void **state)
{
    int claims = 0;

    (void)state;
    row.at = at_turn(6);
    memset(row.holder, 0, HOLDER_BYTES);
    assert_int_equal(
        keep_watching(ENGINE_DONE, now + 20LL * TAKEOVER_MS, &claims),
        STEP_WAIT);
    assert_int_equal(claims, 0);
}

static void without_an_owner_row_nobody_takes_over(void **state)
{
    int claims = 0;

    (void)state;
    row.exists = false;
    assert_int_equal(
        keep_watching(ENGINE_DONE, now + 20LL * TAKEOVER_MS, &claims),
        STEP_WAIT);
}

static void a_released_store_is_taken_over_at_once(void **state)
{
    (void)state;
    memset(row.holder, 0, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(next(), STEP_TAKE_OVER);
}

static void a_store_released_for_this_host_is_taken_over_at_once(void **state)
{
    (void)state;
    memset(row.holder, 0, HOLDER_BYTES);
    strcpy(row.heir, "a");
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(next(), STEP_TAKE_OVER);
}

static void release_for_another(void)
{
    memset(row.holder, 0, HOLDER_BYTES);
    strcpy(row.heir, "b");
    row.for_another = true;
}

static void
a_store_released_for_another_host_is_taken_over_after_the_silence(void **state)
{
    int64_t began_ms = now;
    int claims = 0;

    (void)state;
    release_for_another();
    assert_int_equal(keep_watching(ENGINE_DONE, began_ms + 60000, &claims),
                     STEP_TAKE_OVER);
    assert_in_range(now - began_ms, TAKEOVER_MS, TAKEOVER_MS + EVERY_MS);
    assert_true(claims > 0);
}

static void
the_host_that_released_a_store_for_another_waits_for_the_silence(void **state)
{
    (void)state;
    memcpy(o.former, other, HOLDER_BYTES);
    release_for_another();
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(wait_of(), EVERY_MS);
}

static void the_next_start_on_the_owner_s_host_takes_over_at_once(void **state)
{
    (void)state;
    memcpy(o.former, other, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(next(), STEP_TAKE_OVER);
}

static void
a_start_on_the_host_of_another_owner_waits_for_the_silence(void **state)
{
    (void)state;
    memset(o.former, 5, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(wait_of(), EVERY_MS);
}

static void a_lost_race_is_followed_by_reading(void **state)
{
    (void)state;
    memset(row.holder, 0, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    told(STEP_TAKE_OVER, ENGINE_NO_ROW);
    memcpy(row.holder, other, HOLDER_BYTES);
    row.epoch++;
    wait_for(STEP_FOLLOW);
    ownership_followed(&o, STEP_FOLLOW, ENGINE_DONE, &row, now);
    assert_int_equal(o.role, ROLE_STANDBY);
    assert_true(wait_of() > 0);
}

static void
a_takeover_of_unknown_outcome_is_known_by_the_next_follow(void **state)
{
    (void)state;
    memset(row.holder, 0, HOLDER_BYTES);
    followed(STEP_FOLLOW, ENGINE_DONE);
    told(STEP_TAKE_OVER, ENGINE_UNKNOWN);
    memcpy(row.holder, me, HOLDER_BYTES);
    row.epoch++;
    wait_for(STEP_FOLLOW);
    ownership_followed(&o, STEP_FOLLOW, ENGINE_DONE, &row, now);
    assert_int_equal(o.role, ROLE_ACTIVE);
    assert_int_equal(o.mine.epoch, row.epoch);
    assert_int_equal(next(), STEP_BEAT);
}

static void
a_log_that_ends_before_a_standby_s_file_is_a_contradiction(void **state)
{
    (void)state;
    row.at = at_turn(4);
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(next(), STEP_CONTRADICTION);
}

static void a_standby_with_another_chain_is_a_contradiction(void **state)
{
    (void)state;
    row.at.chain[1] = 9;
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(next(), STEP_CONTRADICTION);
}

static void a_standby_of_another_history_waits(void **state)
{
    (void)state;
    o.at.history[0] = 8;
    followed(STEP_FOLLOW, ENGINE_DONE);
    assert_int_equal(wait_of(), EVERY_MS);
}

/* ---- random runs ---- */

enum {
    NODES_MAX = 3,
    LATE_MAX = 8,
    TURNS = 60, /* of a run, while there are faults */
    STEPS = 1500,
    SETTLE_STEPS = 60000,
};

struct host {
    /* On disk. */
    uint8_t chains[SMALL_ROWS_MAX + 1][CHAIN_BYTES];
    int64_t n;
    bool open; /* it does not know that the last turn is in the log */
    uint8_t former[HOLDER_BYTES];
    const char *name;
    /* In memory. */
    struct ownership o;
    struct permission p;
    int64_t clock_ms, wall_ms;
    int64_t began_wall_ms; /* of the step under way */
    int rate_pm;           /* of its clock */
    const char *heir;      /* of its next release */
    bool paused, frozen;   /* frozen: its clock does not count the pause */
    /* A response that was made and not read yet. */
    bool waits, is_follow;
    enum step step;
    enum engine_result result;
    struct owner owner;
    int64_t beat;
};

static struct world {
    struct small_engine e;
    struct host nodes[NODES_MAX];
    int count;
    struct small_statement late[LATE_MAX];
    int late_count;
    struct position told; /* what was sent last */
    uint8_t told_chains[SMALL_ROWS_MAX + 1][CHAIN_BYTES];
    uint64_t holders, values;
    int turns;
    bool faults;
    bool
        skips; /* clocks do not count each pause, and run at nearly the same rate */
    /* What the runs have met. */
    int kills, takeovers, fenced, released, lates, failovers, cuts, judged_in,
        without_heir;
} w;

static uint64_t failing_seed;

static uint64_t below(uint64_t n)
{
    return rig_random() % n;
}

static bool faulty_pm(unsigned pm)
{
    return w.faults && chance_pm(pm);
}

static struct position content(const struct host *x, int64_t n)
{
    struct position p = {.history = {7}, .n = n};

    memcpy(p.chain, x->chains[n], CHAIN_BYTES);
    return p;
}

static bool permitted(const struct host *x)
{
    return permission_holds(&x->p, x->clock_ms, x->wall_ms);
}

static void check_alone(void)
{
    int n = 0;

    for (int i = 0; i < w.count; i++)
        n += permitted(&w.nodes[i]);
    assert_in_range(n, 0, 1); /* alone */
}

/* A process starts on this host. */
static void start(struct host *x)
{
    uint8_t name[HOLDER_BYTES] = {0};

    w.holders++;
    memcpy(name, &w.holders, sizeof w.holders);
    ownership_init(&x->o, name, TAKEOVER_MS);
    permission_init(&x->p, TAKEOVER_MS);
    memcpy(x->o.former, x->former, HOLDER_BYTES);
    x->o.ready = true;
    x->o.at = content(x, x->open ? x->n - 1 : x->n);
    x->waits = x->paused = x->frozen = false;
}

static void kill_node(struct host *x)
{
    w.kills++;
    start(x);
}

/* ---- what a node does with what it has read ---- */

static void apply_log(struct host *x, const struct owner *owner)
{
    if (x->open) { /* of the start before */
        bool is_in = owner->at.n >= x->n &&
                     memcmp(w.e.rows[x->n].chain, x->chains[x->n],
                            CHAIN_BYTES) == 0;

        w.cuts += !is_in;
        x->n -= !is_in;
        x->open = false;
    }
    for (int64_t n = 1; n <= x->n && n <= owner->at.n; n++) /* in log */
        assert_memory_equal(w.e.rows[n].chain, x->chains[n], CHAIN_BYTES);
    for (int64_t n = x->n + 1; n <= owner->at.n; n++)
        memcpy(x->chains[n], w.e.rows[n].chain, CHAIN_BYTES);
    if (x->n < owner->at.n)
        x->n = owner->at.n;
    x->o.at = content(x, x->n);
}

static void check_beginning(struct host *x)
{
    w.takeovers++;
    assert_false(x->open);
    for (int64_t n = 1; n <= x->n; n++) /* in log; the response may be old */
        assert_memory_equal(w.e.rows[n].chain, x->chains[n], CHAIN_BYTES);
    if (memcmp(w.e.seen.holder, x->o.me, HOLDER_BYTES) == 0)
        assert_int_equal(x->n, w.e.seen.at.n);
    memcpy(x->former, x->o.me, HOLDER_BYTES);
}

static void read_response(struct host *x)
{
    struct ownership *own = &x->o;
    enum ownership_role before = own->role;
    bool had_open = own->has_open;

    x->waits = false;
    if (!x->is_follow) {
        ownership_told(own, x->step, x->result, x->beat, x->clock_ms);
        if (x->result == ENGINE_DONE &&
            (x->step == STEP_APPEND || x->step == STEP_BEAT))
            permission_extend(&x->p, own->began_ms, x->began_wall_ms);
        if (x->step == STEP_RELEASE && x->result == ENGINE_DONE) {
            w.released++;
            start(x);
            return;
        }
    } else {
        if (x->result == ENGINE_DONE && x->step == STEP_FOLLOW)
            apply_log(x, &x->owner);
        ownership_followed(own, x->step, x->result, &x->owner, x->clock_ms);
        w.judged_in += x->step == STEP_JUDGE && had_open && !own->has_open;
    }
    if (had_open && !own->has_open)
        x->open = false;
    if (before == ROLE_STANDBY && own->role == ROLE_ACTIVE)
        check_beginning(x);
    check_alone();
}

/* ---- the engine ---- */

static struct small_statement statement(const struct host *x, enum step step)
{
    const struct ownership *own = &x->o;
    struct small_statement s = {.mine = own->mine,
                                .at = own->at,
                                .after = own->open,
                                .seen = own->owner,
                                .beat = own->beat,
                                .heir = x->heir};

    s.kind = step == STEP_APPEND    ? SMALL_TURN
             : step == STEP_BEAT    ? SMALL_BEAT
             : step == STEP_CLAIM   ? SMALL_CLAIM
             : step == STEP_RELEASE ? SMALL_RELEASE
                                    : SMALL_TAKE;
    if (s.kind == SMALL_TAKE)
        memcpy(s.mine.holder, own->me, HOLDER_BYTES);
    return s;
}

static void send_statement(struct host *x)
{
    struct small_statement s = statement(x, x->step);
    bool row_changed;

    x->is_follow = false;
    x->result = ENGINE_UNKNOWN;
    if (faulty_pm(100)) { /* its outcome is unknown */
        if (w.late_count < LATE_MAX) {
            w.late[w.late_count++] = s;
            w.lates++;
        }
        return;
    }
    row_changed = small_execute(&w.e, &s);
    if (faulty_pm(50)) { /* only visible */
        w.lates++;
        return;
    }
    if (row_changed)
        small_make_durable(&w.e);
    x->result = row_changed ? ENGINE_DONE : ENGINE_NO_ROW;
    x->beat = w.e.seen.beat;
}

/* It writes the row of this node, so what it has read is durable when it is acknowledged. */
static void send_follow(struct host *x)
{
    x->is_follow = true;
    x->result = ENGINE_UNKNOWN;
    if (faulty_pm(100))
        return;
    x->owner = w.e.seen;
    x->owner.for_another = *x->owner.heir &&
                           strcmp(x->owner.heir, x->name) != 0;
    small_make_durable(&w.e);
    x->result = ENGINE_DONE;
}

static void run_late(void)
{
    int i = (int)below((uint64_t)w.late_count);
    struct small_statement s = w.late[i];

    w.late[i] = w.late[--w.late_count];
    if (faulty_pm(300))
        return;
    (void)small_execute(&w.e, &s);
    if (chance_pm(500))
        small_make_durable(&w.e);
}

static void fail_over(void)
{
    w.failovers++;
    small_fail_over(&w.e);
}

/* ---- a node's step ---- */

static void say(struct host *x)
{
    assert_true(x->n >= w.told.n); /* lost */
    for (int64_t n = 1; n <= w.told.n; n++)
        assert_memory_equal(x->chains[n], w.told_chains[n], CHAIN_BYTES);
    w.told = content(x, x->n);
    memcpy(w.told_chains, x->chains, (size_t)(x->n + 1) * CHAIN_BYTES);
}

static void commit_turn(struct host *x)
{
    struct position after;

    w.turns++;
    w.values++;
    x->n++;
    memset(x->chains[x->n], 0, CHAIN_BYTES);
    memcpy(x->chains[x->n], &w.values, sizeof w.values);
    x->open = true;
    after = content(x, x->n);
    ownership_open_turn(&x->o, &after);
}

/* The last one is of no host, so it never takes over. */
static const char *const heirs[] = {"", "a", "b", "c", "gone"};

static bool has_other_heir(const struct owner *owner)
{
    static const uint8_t nobody[HOLDER_BYTES];

    return owner->for_another &&
           memcmp(owner->holder, nobody, HOLDER_BYTES) == 0;
}

static void step_node(struct host *x)
{
    int64_t wait_ms;

    if (x->paused)
        return;
    if (x->waits) {
        if (!faulty_pm(300))
            read_response(x);
        return;
    }
    if (x->o.role == ROLE_ACTIVE && !x->o.has_open && !x->o.release &&
        w.turns < TURNS && chance_pm(200))
        commit_turn(x);
    if (faulty_pm(10) && x->o.role == ROLE_ACTIVE && !x->o.has_open) {
        permission_end(&x->p); /* it stops sending first */
        x->heir = heirs[below(COUNT_OF(heirs))];
        x->o.release = true;
    }
    if (permitted(x) && !x->open)
        say(x);
    x->step = ownership_next(&x->o, x->clock_ms, &wait_ms);
    if (x->step == STEP_TAKE_OVER && has_other_heir(&x->o.owner)) {
        assert_true(x->clock_ms - x->o.still_ms >= TAKEOVER_MS); /* heir */
        w.without_heir++;
    }
    switch (x->step) {
    case STEP_WAIT:
        return;
    case STEP_FENCED:
        assert_memory_not_equal(w.e.seen.holder, x->o.me, HOLDER_BYTES);
        w.fenced++;
        start(x);
        return;
    case STEP_CONTRADICTION:
        fail_msg("alarm");
        return;
    case STEP_FOLLOW:
    case STEP_JUDGE:
        send_follow(x);
        break;
    default:
        send_statement(x);
    }
    x->waits = true;
    x->began_wall_ms = x->wall_ms;
    if (!faulty_pm(200))
        read_response(x);
}

static void let_time_pass(int64_t ms)
{
    for (int i = 0; i < w.count; i++) {
        struct host *x = &w.nodes[i];
        int64_t counted_ms = ms * x->rate_pm / 1000;

        if (x->frozen)
            counted_ms = 0;
        x->clock_ms += counted_ms;
        x->wall_ms += ms * x->rate_pm / 1000;
    }
    check_alone();
}

static void run_step(void)
{
    struct host *x = &w.nodes[below((uint64_t)w.count)];

    if (faulty_pm(4))
        kill_node(x);
    if (faulty_pm(6)) {
        x->paused = !x->paused;
        x->frozen = x->paused && w.skips && chance_pm(500);
    }
    if (!w.faults)
        x->paused = x->frozen = false;
    if (w.late_count && chance_pm(60))
        run_late();
    if (faulty_pm(10))
        fail_over();
    step_node(x);
    let_time_pass((int64_t)below(faulty_pm(30) ? 2ULL * TAKEOVER_MS : 300));
}

static bool is_settled(void)
{
    int active = 0;

    for (int i = 0; i < w.count; i++) {
        const struct host *x = &w.nodes[i];

        active += permitted(x);
        if (x->open || x->n != w.e.seen.at.n)
            return false;
    }
    return active == 1 && w.told.n == w.e.seen.at.n && !w.late_count;
}

static void one_run(uint64_t seed)
{
    int steps = 0;

    failing_seed = seed;
    rig_seed = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
    for (int i = 0; i < 8; i++)
        rig_random();
    memset(&w.e, 0, sizeof w.e);
    memset(w.nodes, 0, sizeof w.nodes);
    w.count = 2 + (int)below(2);
    w.skips = chance_pm(500);
    w.late_count = w.turns = 0;
    w.told = (struct position){.history = {7}};
    w.e.seen.exists = true;
    w.e.seen.at.history[0] = 7;
    w.e.durable = w.e.seen;
    for (int i = 0; i < w.count; i++) {
        w.nodes[i].name = heirs[i + 1];
        w.nodes[i].clock_ms = (int64_t)below(1000000);
        w.nodes[i].wall_ms = (int64_t)below(1000000000);
        w.nodes[i].rate_pm = w.skips ? 950 + (int)below(100)
                                     : 600 + (int)below(800);
        start(&w.nodes[i]);
    }
    w.faults = true;
    for (int i = 0; i < STEPS; i++)
        run_step();
    w.faults = false;
    while (!is_settled() && ++steps < SETTLE_STEPS)
        run_step();
    assert_true(is_settled()); /* rest */
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : otherwise;
}

static void random_runs_lose_nothing_and_have_one_sender(void **state)
{
    uint64_t seconds = number_of("GRAPNEL_SEED_SECONDS", 0), first = 0,
             done = 0;
    time_t end = time(NULL) + (time_t)seconds;

    (void)state;
    if (getenv("GRAPNEL_SEED")) {
        one_run(number_of("GRAPNEL_SEED", 0));
        return;
    }
    if (seconds)
        first = (uint64_t)time(NULL) << 20;
    for (; seconds ? time(NULL) < end : done < 2000; done++)
        one_run(first + done);
    print_message("%llu runs: %d kills, %d takeovers, %d fenced, %d released, "
                  "%d unknown outcomes, %d failovers, %d cuts, %d turns found "
                  "by judging, %d takeovers without the heir\n",
                  (unsigned long long)done, w.kills, w.takeovers, w.fenced,
                  w.released, w.lates, w.failovers, w.cuts, w.judged_in,
                  w.without_heir);
    assert_true(w.takeovers > 1000 && w.fenced > 100 && w.released > 100 &&
                w.failovers > 1000 && w.cuts > 100 && w.judged_in > 10 &&
                w.without_heir > 10);
}

static int name_seed(void **state)
{
    (void)state;
    print_message("the last run was GRAPNEL_SEED=%llu\n",
                  (unsigned long long)failing_seed);
    return 0;
}

int main(void)
{
#define ACTIVE(f)  cmocka_unit_test_setup(f, as_active)
#define STANDBY(f) cmocka_unit_test_setup(f, as_standby)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permission_ends_hold_after_the_statement_began),
        cmocka_unit_test(an_older_statement_does_not_shorten_permission),
        cmocka_unit_test(permission_ends_when_the_wall_clock_ran_ahead),
        ACTIVE(an_idle_active_beats_each_quarter_of_hold),
        ACTIVE(a_turn_is_sent_at_once_and_counts_as_a_beat),
        ACTIVE(a_turn_of_unknown_outcome_is_repeated_until_it_is_in),
        ACTIVE(the_judge_finds_the_turn_in_the_log),
        ACTIVE(the_judge_finds_the_turn_not_in_the_log),
        ACTIVE(a_judgement_of_unknown_outcome_is_repeated),
        ACTIVE(a_beat_without_a_row_is_judged_and_repeated),
        ACTIVE(another_epoch_is_fencing),
        ACTIVE(another_holder_is_fencing),
        ACTIVE(a_log_that_ends_before_the_file_is_a_contradiction),
        ACTIVE(another_chain_is_a_contradiction),
        ACTIVE(another_turn_with_the_open_one_s_number_is_a_contradiction),
        ACTIVE(another_history_is_a_contradiction),
        ACTIVE(a_missing_owner_row_is_a_contradiction),
        ACTIVE(a_release_waits_for_the_open_turn),
        ACTIVE(only_a_beat_takes_back_a_release_of_unknown_outcome),
        ACTIVE(a_release_without_a_row_is_judged),
        STANDBY(a_standby_reads_on_until_it_has_the_whole_log),
        STANDBY(a_standby_that_cannot_apply_does_not_read_all_the_time),
        STANDBY(a_follow_of_unknown_outcome_is_repeated_later),
        STANDBY(a_standby_takes_over_after_the_silence),
        STANDBY(a_new_active_beats_before_it_may_send),
        STANDBY(each_beat_and_each_epoch_begins_the_silence_anew),
        STANDBY(silence_does_not_count_while_claims_fail),
        STANDBY(a_failed_follow_begins_the_claims_anew),
        STANDBY(a_standby_that_is_not_ready_never_takes_over),
        STANDBY(a_standby_without_the_whole_log_never_takes_over),
        STANDBY(without_an_owner_row_nobody_takes_over),
        STANDBY(a_released_store_is_taken_over_at_once),
        STANDBY(a_store_released_for_this_host_is_taken_over_at_once),
        STANDBY(
            a_store_released_for_another_host_is_taken_over_after_the_silence),
        STANDBY(
            the_host_that_released_a_store_for_another_waits_for_the_silence),
        STANDBY(the_next_start_on_the_owner_s_host_takes_over_at_once),
        STANDBY(a_start_on_the_host_of_another_owner_waits_for_the_silence),
        STANDBY(a_lost_race_is_followed_by_reading),
        STANDBY(a_takeover_of_unknown_outcome_is_known_by_the_next_follow),
        STANDBY(a_log_that_ends_before_a_standby_s_file_is_a_contradiction),
        STANDBY(a_standby_with_another_chain_is_a_contradiction),
        STANDBY(a_standby_of_another_history_waits),
        cmocka_unit_test_teardown(random_runs_lose_nothing_and_have_one_sender,
                                  name_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
