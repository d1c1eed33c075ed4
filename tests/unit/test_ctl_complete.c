/* Tests of completion: the words that may follow, and the table of commands with help
 * and examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "complete.h"
#include <stdlib.h>
#include <string.h>

/* Plans for these words, the last under the cursor. complete_fini() after. */
static struct completion plan(const char *const *words)
{
    struct completion c;
    int count = 0;

    while (words[count])
        count++;
    complete_plan(ctl_commands, words, count, &c);
    return c;
}

#define PLAN(...) plan((const char *const[]){__VA_ARGS__, NULL})

static void commands_come_first(void **state)
{
    struct completion c = PLAN("tr");

    (void)state;
    assert_string_equal(c.first, "");
    assert_string_equal(c.begun, "tr");
    assert_null(c.command);
    c = PLAN("dlq", "");
    assert_string_equal(c.first, "dlq");
    assert_string_equal(c.command->name, "dlq");
    assert_int_equal(c.words, WORDS_FREE);
    c = PLAN("endpoints", "c"); /* pause, resume, test, or a name */
    assert_string_equal(c.first, "endpoints");
    assert_int_equal(c.words, WORDS_ENDPOINT);
    c = PLAN("endpoints", "pause", "");
    assert_null(c.first);
    assert_string_equal(c.command->name, "endpoints pause");
    assert_int_equal(c.words, WORDS_ENDPOINT);
    c = PLAN("endpoints", "pause", "crm", ""); /* it takes no second one */
    assert_int_equal(c.words, WORDS_FREE);
    c = PLAN("dlq", "retry", "dlq_1", ""); /* this does */
    assert_int_equal(c.words, WORDS_DEAD_LETTER);
    c = PLAN("no-such", "");
    assert_null(c.command);
}

static bool has(const char *const *choices, const char *word)
{
    for (; *choices; choices++)
        if (strcmp(*choices, word) == 0)
            return true;
    return false;
}

static void an_option_completes_its_own_values(void **state)
{
    struct completion c = PLAN("dlq", "--endpoint", "c");

    (void)state;
    assert_int_equal(c.words, WORDS_ENDPOINT);
    assert_string_equal(c.begun, "c");
    assert_null(c.head);
    c = PLAN("dlq", "--endpoint", "=", "c"); /* as bash splits it */
    assert_int_equal(c.words, WORDS_ENDPOINT);
    assert_string_equal(c.begun, "c");
    c = PLAN("dlq", "--endpoint", "=");
    assert_int_equal(c.words, WORDS_ENDPOINT);
    assert_string_equal(c.begun, "");
    c = PLAN("dlq", "--endpoint=c");
    assert_int_equal(c.words, WORDS_ENDPOINT);
    assert_string_equal(c.head, "--endpoint=");
    assert_string_equal(c.begun, "c");
    complete_fini(&c);
    c = PLAN("events", "--status", "");
    assert_int_equal(c.words, WORDS_CHOICE);
    assert_true(has(c.choices, "duplicate"));
    c = PLAN("deliveries", "--status", "");
    assert_true(has(c.choices, "in_flight"));
    c = PLAN("dlq", "--reason", "");
    assert_true(has(c.choices, "rejected"));
    c = PLAN("dlq", "--end");
    assert_true(c.options);
    c = PLAN("dlq", "retry", "--all", ""); /* a flag has no value */
    assert_int_equal(c.words, WORDS_DEAD_LETTER);
}

static void the_configuration_may_be_named_anywhere(void **state)
{
    struct completion c = PLAN("-c", "a.yaml", "send", "");

    (void)state;
    assert_string_equal(c.config, "a.yaml");
    assert_string_equal(c.command->name, "send");
    assert_int_equal(c.words, WORDS_SOURCE);
    c = PLAN("send", "--config=b.yaml", "");
    assert_string_equal(c.config, "b.yaml");
    c = PLAN("send", "--config", "=", "b.yaml", "");
    assert_string_equal(c.config, "b.yaml");
    assert_int_equal(c.words, WORDS_SOURCE);
    c = PLAN("send", "-c", "");
    assert_int_equal(c.words, WORDS_FILE);
    complete_plan(ctl_commands, NULL, 0, &c);
    assert_string_equal(c.first, "");
}

static void every_command_has_a_help_line(void **state)
{
    (void)state;
    for (const struct command *c = ctl_commands; c->name; c++) {
        const char *line = c->examples, *const * choices;
        enum words words;

        assert_true(*c->summary && c->help && c->run);
        assert_true(*line);
        for (; *line; line += strcspn(line, "\n") + 1) {
            assert_memory_equal(line, "  ", 2);
            assert_true(strcspn(line, "\n") <= 80);
        }
        assert_non_null(strstr(c->examples, c->name));
        if (c->max && !complete_kind(c, NULL, &words, &choices))
            fail_msg("%s: what are its arguments?", c->name);
        for (const struct option_spec *o = c->options; o->name; o++) {
            char *help = option_help(c, o);

            assert_true(*help);
            free(help);
            if (option_value(c, o) &&
                !complete_kind(c, o->name, &words, &choices))
                fail_msg("%s %s: what is its value?", c->name, o->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_come_first),
        cmocka_unit_test(an_option_completes_its_own_values),
        cmocka_unit_test(the_configuration_may_be_named_anywhere),
        cmocka_unit_test(every_command_has_a_help_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
