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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receipt_is_before_what_follows_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
