/* The link in thousands of small worlds, each drawn from a seed and the same in every
 * run: kills at each step of a turn, processes that stand still, frames of dead
 * processes that are read late, restores of either end, all kinds of log (P4).
 *
 * GRAPNEL_SEED=N runs that one alone; GRAPNEL_SEEDS=COUNT as many; GRAPNEL_SEED_SECONDS=S
 * goes on for so long, from a random seed on. */
#include "link_net.h"

#include "link_pair.h"
#include <time.h>

enum { SEEDS = 30, ROWS_MAX = 400, QUIET_TURNS = 400 };

static struct world {
    bool restores;    /* else kills only */
    bool wild;        /* also lost, doubled and reordered frames */
    bool floor_moves; /* rows that stay are forgotten now and then */
    unsigned die_pm, restore_pm, down_pm;
    int rows_left;
    int restored_a, restored_b;
    int restore_in_a,
        restore_in_b; /* turns, after a copy was made; 0: not due */
} world;

static void draw_world(struct pair *p, bool restores)
{
    static const unsigned rates[] = {0, 10, 50, 200};

    world = (struct world){.restores = restores};
    world.wild = chance_pm(400);
    world.die_pm = rates[rig_random() % 4];
    world.down_pm = rates[rig_random() % 4];
    world.restore_pm = 20 + (unsigned)(rig_random() % 200);
    world.rows_left = 10 + (int)(rig_random() % ROWS_MAX);
    net_stall_pm = rates[rig_random() % 4];
    switch (rig_random() % 3) {
    case 0:
        p->a.archives = true;
        break;
    case 1:
        p->a.own_to = "b";
        break;
    default:
        p->a.keep_to = "b";
        p->a.archives = true;
    }
    if (chance_pm(300)) {
        p->b.hold_from = "a";
        p->b.settle_pm = chance_pm(500) ? 300 : 20;
    }
    world.floor_moves = !p->a.archives || p->a.keep_to ? chance_pm(300) : false;
    p->a.stand_pm = rates[rig_random() % 3];
    p->b.stand_pm = rates[rig_random() % 3];
    if (world.wild) {
        p->a.lose_pm = p->b.lose_pm = 50;
        p->a.double_pm = p->b.double_pm = 100;
        p->a.reorder_pm = p->b.reorder_pm = 100;
    }
}

static void write_some(struct end *e)
{
    for (int n = (int)(rig_random() % 9); n > 0 && world.rows_left > 0; n--)
        world.rows_left--, end_put(e, "b", SMALL);
    if (world.floor_moves && chance_pm(50) && links_next(e->links, "b") > 1)
        links_floor(e->links, "b",
                    1 + rig_random() % links_next(e->links, "b"));
}

static void restore(struct end *e, bool is_a)
{
    char path[200];
    bool empty;

    snprintf(path, sizeof path, "%s/%s.copy", e->dir, e->name);
    empty = chance_pm(200) || access(path, F_OK) != 0;
    world.restored_a += is_a;
    world.restored_b += !is_a;
    end_restore(e, empty ? NULL : path + strlen(e->dir) + 1);
}

/* A copy, and perhaps soon after it the end comes back from it; or an older copy takes
 * its cursor now. */
static void restore_or_copy(struct end *e, bool is_a)
{
    char name[40];

    if (!e->alive || chance_pm(400)) {
        restore(e, is_a);
        return;
    }
    snprintf(name, sizeof name, "%s.copy", e->name);
    end_copy(e, name);
    if (chance_pm(500))
        *(is_a ? &world.restore_in_a
               : &world.restore_in_b) = 1 + (int)(rig_random() % 12);
}

static void step(struct pair *p, bool is_a)
{
    struct end *e = is_a ? &p->a : &p->b;

    if (!e->alive) {
        if (chance_pm(100)) {
            end_start(e);
            end_calm(e);
        }
        return;
    }
    end_turn_dying(e, is_a ? write_some : NULL,
                   chance_pm(world.die_pm) ? rig_random() % STEPS : STEPS);
    if (chance_pm(world.down_pm))
        end_kill(e);
}

/* Rows that stay, all of them, can always be sent again. */
static bool may_lose(const struct pair *p)
{
    if (!world.restored_b && !world.restored_a)
        return false;
    return world.floor_moves || !(p->a.own_to || p->a.keep_to);
}

static void assert_world(struct pair *p, uint64_t seed)
{
    stmt *s = NULL;
    int64_t at = 0;

    sqlite3_prepare_v2(db_handle(p->a.db),
                       "SELECT n, value FROM archive ORDER BY n", -1, &s, NULL);
    while (sqlite3_step(s) == SQLITE_ROW) {
        long long n = col_i64(s, 0), value = col_i64(s, 1);
        char sql[300];
        int64_t id, count, gone;

        snprintf(sql, sizeof sql,
                 "SELECT max(id) FROM applied WHERE value = %lld", value);
        id = end_number(&p->b, sql);
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM applied WHERE value = %lld", value);
        count = end_number(&p->b, sql);
        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM link_lost WHERE from_n <= %lld "
                 "AND to_n >= %lld",
                 n, n);
        gone = end_number(&p->b, sql);
        if (!id && !gone)
            fail_msg("seed %llu: row %lld (value %lld) is neither applied nor "
                     "lost",
                     (unsigned long long)seed, n, value);
        if (!world.restored_a && !world.restored_b && count != 1)
            fail_msg("seed %llu: row %lld was applied %lld times",
                     (unsigned long long)seed, n, (long long)count);
        if (id && id <= at)
            fail_msg("seed %llu: row %lld is out of order",
                     (unsigned long long)seed, n);
        at = id ? id : at;
    }
    sqlite3_finalize(s);
    if (!may_lose(p) && link_of(&p->b, "a", false).lost)
        fail_msg("seed %llu: %llu rows are counted lost that are held",
                 (unsigned long long)seed,
                 (unsigned long long)link_of(&p->b, "a", false).lost);
}

static void assert_quiet(struct pair *p, uint64_t seed)
{
    int alarms = p->a.rewinds + p->b.rewinds;

    for (int i = 0; i < QUIET_TURNS; i++)
        both_turn(&p->a, &p->b);
    if (p->a.rewinds + p->b.rewinds != alarms)
        fail_msg("seed %llu: a link at rest is set back",
                 (unsigned long long)seed);
    if (!world.restored_a && !world.restored_b &&
        (alarms || link_of(&p->a, "b", true).rewinds ||
         link_of(&p->b, "a", false).rewinds))
        fail_msg("seed %llu: set back, though nothing was restored",
                 (unsigned long long)seed);
}

static void live(struct pair *p, uint64_t seed, bool restores)
{
    draw_world(p, restores);
    pair_start(p);
    while (world.rows_left > 0) {
        step(p, true);
        step(p, false);
        net_step();
        clock_test_advance((int64_t)(rig_random() % 30));
        if (restores && chance_pm(world.restore_pm)) {
            bool is_a = chance_pm(500);

            restore_or_copy(is_a ? &p->a : &p->b, is_a);
        }
        if (world.restore_in_a && --world.restore_in_a == 0)
            restore(&p->a, true);
        if (world.restore_in_b && --world.restore_in_b == 0)
            restore(&p->b, false);
    }
    if (!p->a.alive)
        end_start(&p->a);
    if (!p->b.alive)
        end_start(&p->b);
    net_stall_pm = 0;
    /* An empty store knows nobody to tell before it has a row. */
    end_write(&p->a, "b", SMALL, 1);

    run_through(&p->a, &p->b);
    end_write(&p->a, "b", SMALL, 1); /* new rows go through after all that */
    run_through(&p->a, &p->b);
    assert_world(p, seed);
    assert_quiet(p, seed);
}

static uint64_t last_seed;

static int name_seed(void **state)
{
    (void)state;
    print_message("the last seed was %llu\n", (unsigned long long)last_seed);
    return 0;
}

static void one(uint64_t seed, bool restores)
{
    void *state = NULL;

    last_seed = seed;
    pair_setup(&state);
    rig_seed = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
    for (int i = 0; i < 8; i++)
        rig_random();
    live(state, seed, restores);
    pair_teardown(&state);
    net_forget_all();
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);

    return s ? strtoull(s, NULL, 10) : otherwise;
}

static void run_seeds(bool restores)
{
    uint64_t seconds = number_of("GRAPNEL_SEED_SECONDS", 0), first = 0,
             done = 0;
    time_t end = time(NULL) + (time_t)seconds;

    if (getenv("GRAPNEL_SEED")) {
        one(number_of("GRAPNEL_SEED", 0), restores);
        return;
    }
    if (seconds)
        first = (uint64_t)time(NULL) << 20;
    for (;
         seconds ? time(NULL) < end : done < number_of("GRAPNEL_SEEDS", SEEDS);
         done++)
        one(first + done, restores);
    print_message("%llu worlds from seed %llu on\n", (unsigned long long)done,
                  (unsigned long long)first);
}

static void seeded_kills_lose_no_message(void **state)
{
    (void)state;
    run_seeds(false);
}

static void seeded_kills_and_restores_lose_no_message(void **state)
{
    (void)state;
    run_seeds(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(seeded_kills_lose_no_message, name_seed),
        cmocka_unit_test_teardown(seeded_kills_and_restores_lose_no_message,
                                  name_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
