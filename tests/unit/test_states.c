/* The mover goes where the table allows, and nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "states.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EGG, HEN, SOUP, STATES };

static const struct state table[STATES] = {
    [EGG] = {"egg", STATE_TO(HEN)},
    [HEN] = {"hen", STATE_TO(SOUP) | STATE_TO(HEN)},
    [SOUP] = {"soup", 0},
};
static const struct states birds = {"bird", table, STATES};

static void names_and_table_are_one_list(void **state)
{
    (void)state;
    assert_string_equal(states_name(&birds, HEN), "hen");
    assert_string_equal(states_name(&birds, 7), "(no state)");
    assert_string_equal(states_name(&birds, -1), "(no state)");
    assert_int_equal(states_find(&birds, "soup"), SOUP);
    assert_int_equal(states_find(&birds, "Soup"), -1);
}

static void an_allowed_transition_is_made_and_counted(void **state)
{
    int64_t moved[STATES] = {0};
    int bird = EGG;

    (void)state;
    states_transition(&birds, &bird, HEN, "evt_1", "b1", moved);
    states_transition(&birds, &bird, HEN, NULL, "b1", moved);
    states_transition(&birds, &bird, SOUP, NULL, "b1", NULL);
    assert_int_equal(bird, SOUP);
    assert_int_equal(moved[HEN], 2);
    assert_int_equal(moved[SOUP], 0);
}

static void other_transitions_are_not_allowed(void **state)
{
    (void)state;
    assert_true(states_allow(&birds, EGG, HEN));
    assert_false(states_allow(&birds, EGG, SOUP));
    assert_false(states_allow(&birds, SOUP, EGG));
    assert_false(states_allow(&birds, EGG, EGG));
    assert_false(states_allow(&birds, -1, EGG));
    assert_false(states_allow(&birds, EGG, 31));
}

static void a_wrong_transition_ends_the_process(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        int bird = SOUP;

        signal(SIGABRT, SIG_DFL); /* cmocka would take it */
        states_transition(&birds, &bird, EGG, NULL, "b1", NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_table_are_one_list),
        cmocka_unit_test(an_allowed_transition_is_made_and_counted),
        cmocka_unit_test(other_transitions_are_not_allowed),
        cmocka_unit_test(a_wrong_transition_ends_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
