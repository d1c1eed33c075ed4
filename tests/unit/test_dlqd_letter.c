/* What news does to a letter, what an operator may do, what a list takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "letter.h"
#include "list.h"
#include <string.h>

static struct letter in_state(int state, int64_t life, int64_t dead_ms)
{
    return (struct letter){.state = state, .life = life, .dead_ms = dead_ms};
}

static void a_death_counts_once(void **state)
{
    struct letter l = in_state(LETTER_DEAD, 1, 1000);

    (void)state;
    assert_int_equal(letter_died(NULL, 1, 1000), LETTER_NEW);
    assert_int_equal(letter_died(&l, 1, 1000), LETTER_REPEATED);
    l.state = LETTER_REQUEUED; /* said again by a link that was set back */
    assert_int_equal(letter_died(&l, 1, 1000), LETTER_REPEATED);
    l.life = 2;
    assert_int_equal(letter_died(&l, 1, 5000), LETTER_REPEATED);
}

static void a_new_life_can_end_dead_again(void **state)
{
    struct letter l = in_state(LETTER_REQUEUED, 1, 1000);

    (void)state;
    assert_int_equal(letter_died(&l, 2, 2000), LETTER_MOVES);
    assert_true(states_allow(&letter_states, LETTER_REQUEUED, LETTER_DEAD));
}

/* A sequencer from an older copy knows nothing of the requeue and fails in the
 * same life. If we took that for a repeat, the letter would wait for ever. */
static void a_second_death_in_one_life_is_no_repeat(void **state)
{
    struct letter l = in_state(LETTER_REQUEUED, 1, 1000);

    (void)state;
    assert_int_equal(letter_died(&l, 1, 9000), LETTER_MOVES);
    l.state = LETTER_RECOVERED;
    assert_int_equal(letter_died(&l, 1, 9000), LETTER_MOVES);
    assert_true(states_allow(&letter_states, LETTER_RECOVERED, LETTER_DEAD));
}

static void a_success_counts_once_and_may_be_late(void **state)
{
    struct letter l = in_state(LETTER_DEAD, 2, 1000);

    (void)state;
    assert_int_equal(letter_recovered(&l, 2), LETTER_MOVES);
    l.state = LETTER_REQUEUED;
    assert_int_equal(letter_recovered(&l, 2), LETTER_MOVES);
    assert_int_equal(letter_recovered(&l, 1), LETTER_REPEATED);
    l.state = LETTER_RECOVERED;
    assert_int_equal(letter_recovered(&l, 2), LETTER_REPEATED);
    assert_int_equal(letter_recovered(NULL, 1), LETTER_UNKNOWN);
}

static void only_a_dead_letter_is_retried(void **state)
{
    struct letter l = in_state(LETTER_DEAD, 1, 1000);
    char why[200] = "";

    (void)state;
    assert_true(letter_may_retry(&l, why));
    l.state = LETTER_REQUEUED;
    assert_false(letter_may_retry(&l, why));
    assert_non_null(strstr(why, "requeued already"));
    l.state = LETTER_RECOVERED;
    assert_false(letter_may_retry(&l, why));
    assert_non_null(strstr(why, "delivered"));
    assert_false(letter_may_retry(NULL, why));
    assert_non_null(strstr(why, "no such letter"));
}

static void json_says_null_where_there_is_nothing(void **state)
{
    struct letter l = {.id = "dlq_1",
                       .event_id = "evt_1",
                       .reason = "refused:no_json",
                       .last_error = "",
                       .dead_ms = 1700000000000,
                       .last_response = {"a\xff", 2}};
    json_t *j = letter_json(&l);

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

static void a_filter_takes_what_fits_all_its_texts(void **state)
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
    f.endpoint = "crm"; /* a letter without endpoint is none of crm's */
    assert_false(list_filter_takes(&f, &row));
}

static bool reads(struct list_filter *f, const char *text, char why[200])
{
    json_t *args = json_loads(text, 0, NULL);
    bool ok;

    assert_non_null(args);
    ok = list_filter_read(f, args, why);
    json_decref(args);
    return ok;
}

static void a_list_is_of_the_dead_unless_told(void **state)
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

static void a_bad_filter_is_refused_in_words(void **state)
{
    static const struct {
        const char *args, *says;
    } cases[] = {
        {"{\"state\":\"lost\"}", "recovered resolved discarded all"},
        {"{\"state\":1}", "text"},
        {"{\"limit\":0}", "from 1"},
        {"{\"limit\":\"5\"}", "whole number"},
        {"{\"since_ms\":-1}", "from 0"},
        {"{\"before\":\"17\"}", "next"},
        {"{\"before\":\"17.x\"}", "next"},
        {"{\"endpoints\":\"crm\"}", "knows state"},
        {"{\"type\":null}", "text"},
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
        cmocka_unit_test(a_death_counts_once),
        cmocka_unit_test(a_new_life_can_end_dead_again),
        cmocka_unit_test(a_second_death_in_one_life_is_no_repeat),
        cmocka_unit_test(a_success_counts_once_and_may_be_late),
        cmocka_unit_test(only_a_dead_letter_is_retried),
        cmocka_unit_test(json_says_null_where_there_is_nothing),
        cmocka_unit_test(a_filter_takes_what_fits_all_its_texts),
        cmocka_unit_test(a_list_is_of_the_dead_unless_told),
        cmocka_unit_test(a_bad_filter_is_refused_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
