/* Tests of the order of an event's timeline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "timeline.h"

static void add(json_t *timeline, const char *at, const char *process)
{
    json_array_append_new(timeline,
                          json_pack("{s:s,s:s}", "at", at, "process", process));
}

/* The sequencer's reply is read first, and may be of the same millisecond. */
static void the_receipt_is_before_what_follows_it(void **state)
{
    static const char *const order[] = {"ingress-2", "sequencer", "deliverer-1",
                                        "sequencer", "ingress-2"};
    json_t *timeline = json_array(), *entry;
    size_t i;

    (void)state;
    add(timeline, "2026-11-28T11:08:44.006Z", "sequencer");
    add(timeline, "2026-11-28T11:08:44.006Z", "deliverer-1");
    add(timeline, "2026-11-28T11:08:44.007Z", "sequencer");
    add(timeline, "2026-11-28T11:08:44.006Z", "ingress-2");
    add(timeline, "2026-11-28T11:08:44.008Z", "ingress-2");
    timeline = timeline_sorted(timeline);
    json_array_foreach(timeline, i, entry)
    {
        assert_string_equal(
            json_string_value(json_object_get(entry, "process")), order[i]);
    }
    assert_int_equal(i, 5);
    json_decref(timeline);
}

enum { MANY = 200000 };

static json_t *attempt(int n, const char *endpoint)
{
    json_t *out = json_pack("{s:i,s:s}", "n", n, "at", "t");

    if (endpoint)
        json_object_set_new(out, "endpoint", json_string(endpoint));
    return out;
}

/* As many comparisons as pairs would take minutes. */
static void each_of_many_attempts_finds_its_own(void **state)
{
    json_t *stored = json_array(), *made = json_array(), *all = json_array();
    json_t *event, *reply, *one;
    size_t i;

    (void)state;
    for (int n = 1; n <= MANY; n++) {
        json_array_append_new(stored, attempt(n, NULL));
        one = attempt(n, "crm");
        json_object_set_new(one, "sends", json_integer(n));
        json_array_append_new(made, one);
    }
    json_array_append_new(made, attempt(1, "other"));
    event = json_pack("{s:[{s:s,s:o}]}", "deliveries", "endpoint", "crm",
                      "attempts", stored);
    reply = json_pack("{s:o}", "attempts", made);
    timeline_add_attempts(all, event, reply);
    json_array_foreach(stored, i, one)
    {
        assert_int_equal(json_integer_value(json_object_get(one, "sends")),
                         i + 1);
    }
    assert_int_equal(json_array_size(all), 1);
    json_decref(event);
    json_decref(reply);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receipt_is_before_what_follows_it),
        cmocka_unit_test(each_of_many_attempts_finds_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
