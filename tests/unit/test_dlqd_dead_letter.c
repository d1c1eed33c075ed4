/* Tests of a dead letter: its states, operators' actions, and the filters of lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "commands.h"
#include "dead_letter.h"
#include "dead_letter_list.h"
#include <string.h>

static struct dead_letter in_state(int state, int64_t generation,
                                   int64_t dead_ms)
{
    return (struct dead_letter){
        .state = state, .generation = generation, .dead_ms = dead_ms};
}

static void a_dead_letter_counts_once(void **state)
{
    struct dead_letter l = in_state(DEAD_LETTER_DEAD, 1, 1000);

    (void)state;
    assert_int_equal(dead_letter_died(NULL, 1, 1000), DEAD_LETTER_NEW);
    assert_int_equal(dead_letter_died(&l, 1, 1000), DEAD_LETTER_DUPLICATE);
    l.state = DEAD_LETTER_REQUEUED; /* sent again after a rewind */
    assert_int_equal(dead_letter_died(&l, 1, 1000), DEAD_LETTER_DUPLICATE);
    l.generation = 2;
    assert_int_equal(dead_letter_died(&l, 1, 5000), DEAD_LETTER_DUPLICATE);
}

static void a_new_generation_can_end_dead_again(void **state)
{
    struct dead_letter l = in_state(DEAD_LETTER_REQUEUED, 1, 1000);

    (void)state;
    assert_int_equal(dead_letter_died(&l, 2, 2000), DEAD_LETTER_MOVES);
    assert_true(states_allow(&dead_letter_states, DEAD_LETTER_REQUEUED,
                             DEAD_LETTER_DEAD));
}

/* A sequencer from an older copy knows nothing of the requeue and fails in the
 * same generation. If we took that for a duplicate, the dead letter would wait for ever. */
static void
a_second_dead_letter_in_one_generation_is_not_a_duplicate(void **state)
{
    struct dead_letter l = in_state(DEAD_LETTER_REQUEUED, 1, 1000);

    (void)state;
    assert_int_equal(dead_letter_died(&l, 1, 9000), DEAD_LETTER_MOVES);
    l.state = DEAD_LETTER_RECOVERED;
    assert_int_equal(dead_letter_died(&l, 1, 9000), DEAD_LETTER_MOVES);
    assert_true(states_allow(&dead_letter_states, DEAD_LETTER_RECOVERED,
                             DEAD_LETTER_DEAD));
}

static void a_success_counts_once_and_may_be_late(void **state)
{
    struct dead_letter l = in_state(DEAD_LETTER_DEAD, 2, 1000);

    (void)state;
    assert_int_equal(dead_letter_recovered(&l, 2), DEAD_LETTER_MOVES);
    l.state = DEAD_LETTER_REQUEUED;
    assert_int_equal(dead_letter_recovered(&l, 2), DEAD_LETTER_MOVES);
    assert_int_equal(dead_letter_recovered(&l, 1), DEAD_LETTER_DUPLICATE);
    l.state = DEAD_LETTER_RECOVERED;
    assert_int_equal(dead_letter_recovered(&l, 2), DEAD_LETTER_DUPLICATE);
    assert_int_equal(dead_letter_recovered(NULL, 1), DEAD_LETTER_UNKNOWN);
}

static void only_a_dead_letter_is_retried(void **state)
{
    struct dead_letter l = in_state(DEAD_LETTER_DEAD, 1, 1000);
    char why[200] = "";

    (void)state;
    assert_true(dead_letter_may_retry(&l, why));
    l.state = DEAD_LETTER_REQUEUED;
    assert_false(dead_letter_may_retry(&l, why));
    assert_non_null(strstr(why, "already requeued"));
    l.state = DEAD_LETTER_RECOVERED;
    assert_false(dead_letter_may_retry(&l, why));
    assert_non_null(strstr(why, "delivered"));
    assert_false(dead_letter_may_retry(NULL, why));
    assert_non_null(strstr(why, "no dead letter has this id"));
}

static void absent_values_are_null_in_json(void **state)
{
    struct dead_letter l = {.id = "dlq_1",
                            .event_id = "evt_1",
                            .reason = "refused:no_json",
                            .last_error = "",
                            .dead_ms = 1700000000000,
                            .last_response = {"a\xff", 2}};
    json_t *j = dead_letter_json(&l);

    (void)state;
    assert_int_equal(json_object_size(j), 12);
    assert_true(json_is_null(json_object_get(j, "endpoint")));
    assert_true(json_is_null(json_object_get(j, "first_at")));
    assert_true(json_is_null(json_object_get(j, "last_http_status")));
    assert_true(json_is_null(json_object_get(j, "last_error")));
    assert_true(json_is_null(json_object_get(j, "note")));
    assert_string_equal(json_string_value(json_object_get(j, "state")), "dead");
    assert_string_equal(json_string_value(json_object_get(j, "last_response")),
                        "a\xef\xbf\xbd");
    json_decref(j);
}

/* ---- filters ---- */

static void a_filter_matches_all_its_strings(void **state)
{
    struct list_filter f = {.type = "issue.*", .workspace = "acme"};
    struct scan_row row = {.type = "issue.created",
                           .workspace = "acme",
                           .endpoint = "",
                           .reason = "rejected",
                           .source = "plane"};

    (void)state;
    assert_true(list_filter_takes(&f, &row));
    row.workspace = "other";
    assert_false(list_filter_takes(&f, &row));
    row.workspace = "acme";
    f.endpoint =
        "crm"; /* a dead letter without endpoint does not belong to crm */
    assert_false(list_filter_takes(&f, &row));
}

static bool reads(struct list_filter *f, const char *text, char why[200])
{
    json_t *args = json_loads(text, 0, NULL);
    bool ok;

    assert_non_null(args);
    ok = command_args_fit(&command_dlq, args, why) &&
         list_filter_read(f, args, why);
    json_decref(args);
    return ok;
}

static void a_list_has_dead_ones_by_default(void **state)
{
    struct list_filter f;
    char why[200];

    (void)state;
    assert_true(list_filter_read(&f, NULL, why));
    assert_string_equal(f.state, "dead");
    assert_int_equal(f.limit, 100);
    assert_true(reads(&f, "{\"state\":\"all\",\"limit\":5}", why));
    assert_null(f.state);
    assert_int_equal(f.limit, 5);
    assert_true(reads(&f, "{\"before\":\"1700000000000.7\"}", why));
    assert_int_equal(f.before_ms, 1700000000000);
    assert_int_equal(f.before_n, 7);
    assert_true(
        reads(&f, "{\"before\":\"1700000000000.7\",\"until_ms\":5}", why));
    assert_int_equal(f.before_ms, 5);
    assert_int_equal(f.before_n, 0);
}

static void a_bad_filter_is_refused_with_a_reason(void **state)
{
    static const struct {
        const char *args, *says;
    } cases[] = {
        {"{\"state\":\"lost\"}", "recovered, resolved, discarded or all"},
        {"{\"state\":1}", "a word is needed"},
        {"{\"limit\":0}", "from 1 to 1000"},
        {"{\"limit\":\"5\"}", "whole number"},
        {"{\"since_ms\":-1}", "at least 0"},
        {"{\"before\":\"17\"}", "next"},
        {"{\"before\":\"17.x\"}", "next"},
        {"{\"endpoints\":\"crm\"}", "it has endpoint"},
        {"{\"type\":null}", "args.type: a text"},
    };
    struct list_filter f;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char why[200] = "";

        assert_false(reads(&f, cases[i].args, why));
        assert_non_null(strstr(why, cases[i].says));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_letter_counts_once),
        cmocka_unit_test(a_new_generation_can_end_dead_again),
        cmocka_unit_test(
            a_second_dead_letter_in_one_generation_is_not_a_duplicate),
        cmocka_unit_test(a_success_counts_once_and_may_be_late),
        cmocka_unit_test(only_a_dead_letter_is_retried),
        cmocka_unit_test(absent_values_are_null_in_json),
        cmocka_unit_test(a_filter_matches_all_its_strings),
        cmocka_unit_test(a_list_has_dead_ones_by_default),
        cmocka_unit_test(a_bad_filter_is_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
