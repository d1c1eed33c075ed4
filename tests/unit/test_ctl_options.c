/* Tests of the command line: options, words, and errors that name the nearest one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "ctl.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

#define PARSE(p, why, ...)                                           \
    options_parse(ctl_commands, COUNT_OF(((char *[]){__VA_ARGS__})), \
                  (char *[]){__VA_ARGS__, NULL}, p, why)

static void options_may_be_anywhere(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(PARSE(&p, why, "grapnel", "-c", "a.yaml", "dlq", "--json",
                           "--endpoint", "crm", "--limit=5"),
                     GR_OK);
    assert_string_equal(p.command->name, "dlq");
    assert_string_equal(p.config, "a.yaml");
    assert_true(p.json);
    assert_string_equal(parsed_value(&p, "--endpoint"), "crm");
    assert_string_equal(parsed_value(&p, "--limit"), "5");
    assert_null(parsed_value(&p, "--since"));
    parsed_fini(&p);
}

static void an_error_names_the_option_that_was_given(void **state)
{
    static const char *const cases[][2] = {
        {"args.role: \"boss\" is unknown", "--role: \"boss\" is unknown"},
        {"args.expires_ms: it is over", "--expires: it is over"},
        {"args.id: it is too long", "id: it is too long"},
        {"args.role", "--role"},
        {"the role args.role", "the role args.role"},
        {"", ""}};
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(PARSE(&p, why, "grapnel", "tokens", "create", "a"), GR_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        snprintf(why, sizeof why, "%s", cases[i][0]);
        option_error(p.command, why);
        assert_string_equal(why, cases[i][1]);
    }
    parsed_fini(&p);
}

/* The words of a name may have options between them. */
static void a_command_may_have_two_words(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(
        PARSE(&p, why, "grapnel", "dlq", "-c", "x", "show", "dlq_1"), GR_OK);
    assert_string_equal(p.command->name, "dlq show");
    assert_int_equal(p.arg_count, 1);
    assert_string_equal(p.args[0], "dlq_1");
    parsed_fini(&p);
    assert_int_equal(PARSE(&p, why, "grapnel", "dlq", "retry", "a", "b", "c"),
                     GR_OK);
    assert_int_equal(p.arg_count, 3);
    parsed_fini(&p);
}

static void an_option_may_precede_the_command(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(
        PARSE(&p, why, "grapnel", "--type", "a.b", "send", "plane"), GR_OK);
    assert_string_equal(p.command->name, "send");
    assert_string_equal(p.args[0], "plane");
    assert_string_equal(parsed_value(&p, "--type"), "a.b");
    parsed_fini(&p);
}

static void a_dash_is_a_word_and_two_end_the_options(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(
        PARSE(&p, why, "grapnel", "check", "--event", "-", "--print"), GR_OK);
    assert_string_equal(parsed_value(&p, "--event"), "-");
    assert_string_equal(parsed_value(&p, "--print"), "");
    parsed_fini(&p);
    assert_int_equal(PARSE(&p, why, "grapnel", "trace", "--", "--json"), GR_OK);
    assert_string_equal(p.args[0], "--json");
    assert_false(p.json);
    parsed_fini(&p);
}

static void an_error_names_the_nearest_word(void **state)
{
    static const struct {
        char *argv[6];
        const char *says;
    } cases[] = {
        {{"grapnel", "stauts"}, "did you mean status"},
        {{"grapnel", "frobnicate"}, "no command \"frobnicate\""},
        {{"grapnel", "dlq", "shwo", "x"}, "did you mean show"},
        {{"grapnel", "events", "--workspce", "x"}, "did you mean --workspace"},
        {{"grapnel", "status", "--jsn"}, "did you mean --json"},
        {{"grapnel", "status", "--limit", "3"}, "no option --limit"},
        {{"grapnel", "dlq", "--limit"}, "needs a value"},
        {{"grapnel", "status", "--json=yes"}, "takes no value"},
        {{"grapnel", "dlq", "--limit=1", "--limit=2"}, "given twice"},
        {{"grapnel", "trace"}, "needs ID"},
        {{"grapnel", "send"}, "needs SOURCE"},
        {{"grapnel", "status", "now"}, "has no argument \"now\""},
        {{"grapnel", "status", "-x"}, "no option -x"},
        {{"grapnel", "-c"}, "needs a value"},
    };
    struct parsed p;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *argv[7] = {0}, why[400] = "";
        int argc = 0;

        for (; argc < 6 && cases[i].argv[argc]; argc++)
            argv[argc] = cases[i].argv[argc];
        assert_int_equal(options_parse(ctl_commands, argc, argv, &p, why),
                         GR_REFUSE);
        if (!strstr(why, cases[i].says))
            fail_msg("\"%s\" should say \"%s\"", why, cases[i].says);
        parsed_fini(&p);
    }
}

static void help_needs_no_other_argument(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    assert_int_equal(PARSE(&p, why, "grapnel", "trace", "--help"), GR_OK);
    assert_true(p.help);
    parsed_fini(&p);
    assert_int_equal(PARSE(&p, why, "grapnel", "-h"), GR_OK);
    assert_null(p.command);
    assert_true(p.help);
    parsed_fini(&p);
    assert_int_equal(PARSE(&p, why, "grapnel", "--version"), GR_OK);
    assert_true(p.version);
    parsed_fini(&p);
}

/* Every command has an example, and the example is one that parses. */
static void every_example_parses(void **state)
{
    struct parsed p;
    char why[400];

    (void)state;
    for (const struct command *c = ctl_commands; c->name; c++) {
        char *text = gr_strdup(c->examples), *line, *rest = text;

        assert_non_null(strstr(c->examples, c->name));
        while ((line = strsep(&rest, "\n")) && *line) {
            char *argv[16], *word, *next = line;
            int argc = 0;

            while ((word = strsep(&next, " ")) && strcmp(word, "|") != 0 &&
                   strcmp(word, "&&") != 0)
                if (*word)
                    argv[argc++] = word;
            argv[argc] = NULL;
            if (strcmp(argv[argc - 1], "+%F)") == 0)
                argv[--argc] = NULL; /* $(date +%F) is one word to a shell */
            if (options_parse(ctl_commands, argc, argv, &p, why) != GR_OK)
                fail_msg("%s: %s", c->name, why);
            parsed_fini(&p);
        }
        free(text);
    }
}

/* ---- when ---- */

static void a_moment_is_a_time_or_an_age(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1h", 1700000000000 - 3600000},
        {"7d", 1700000000000 - 7 * 86400000LL},
        {"2023-11-14T22:13:20Z", 1700000000000},
        {"2023-11-14T22:13:20.123456Z", 1700000000123},
        {"2023-11-15 05:13:20+07:00", 1700000000000},
        {"2023-11-14T20:43:20-0130", 1700000000000},
        {"2023-11-14T22:13", 1699999980000},
        {"2023-11-14", 1699920000000},
        {"2024-02-29", 1709164800000},
    };
    char why[200];
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (when_parse(cases[i].text, 1700000000000, &ms, why) != GR_OK ||
            ms != cases[i].ms)
            fail_msg("%s: %lld", cases[i].text, (long long)ms);
    }
}

static void an_invalid_moment_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "10",
                                      "-1h",
                                      "2023-02-29",
                                      "1969-12-31",
                                      "2023-13-01",
                                      "2023-11-1",
                                      "2023-11-14T24:00",
                                      "2023-11-14T22:13:20.Z",
                                      "1h2",
                                      "2023-11-14T22:13:20X",
                                      "2023-11-14T22:13:20+7",
                                      "2023-11-14T"};
    char why[200];
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (when_parse(bad[i], 1700000000000, &ms, why) != GR_REFUSE)
            fail_msg("\"%s\" was taken for %lld", bad[i], (long long)ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_be_anywhere),
        cmocka_unit_test(an_error_names_the_option_that_was_given),
        cmocka_unit_test(a_command_may_have_two_words),
        cmocka_unit_test(an_option_may_precede_the_command),
        cmocka_unit_test(a_dash_is_a_word_and_two_end_the_options),
        cmocka_unit_test(an_error_names_the_nearest_word),
        cmocka_unit_test(help_needs_no_other_argument),
        cmocka_unit_test(every_example_parses),
        cmocka_unit_test(a_moment_is_a_time_or_an_age),
        cmocka_unit_test(an_invalid_moment_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
