/* Tests of route: which endpoints are subscribed to an event, and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "glob.h"
#include "route.h"
#include "rules.h"
#include <string.h>

static bool is_subscribed(const struct settings *s,
                          const struct endpoint_settings *e, const char *source,
                          const char *type, const char *workspace)
{
    struct subject event = {
        .source = source, .type = type, .workspace = workspace};
    bool yes = route_is_subscribed(s, e, &event, NULL);

    subject_fini(&event);
    return yes;
}

#define LIST(...)                                                 \
    {                                                             \
        .items = (char *[]){__VA_ARGS__},                         \
        .count = sizeof((char *[]){__VA_ARGS__}) / sizeof(char *) \
    }

static void a_star_stands_for_any_text(void **state)
{
    (void)state;
    assert_true(glob_match("*", ""));
    assert_true(glob_match("*", "issue.created"));
    assert_true(glob_match("issue.*", "issue.created"));
    assert_true(glob_match("issue.*", "issue."));
    assert_true(glob_match("*.created", "issue.created"));
    assert_true(glob_match("i*e.*d", "issue.created"));
    assert_true(glob_match("**a**", "bab"));
    assert_true(glob_match("*ab", "aab"));
    assert_true(glob_match("", ""));
}

static void everything_else_stands_for_itself(void **state)
{
    (void)state;
    assert_false(glob_match("", "x"));
    assert_false(glob_match("issue.*", "issue"));
    assert_false(glob_match("issue.*", "Issue.created"));
    assert_false(glob_match("issue?created", "issue.created"));
    assert_false(glob_match("[a-z]", "a"));
    assert_false(glob_match("*x", "xy"));
    assert_false(glob_match("issue.created", "issue.created2"));
}

static void patterns_meet_when_one_text_fits_both(void **state)
{
    static const char *const meet[][2] = {
        {"*", "*"},          {"a", "a"},         {"a*", "*b"},
        {"invoice.*", "*"},  {"*.paid", "inv*"}, {"a*c", "ab*bc"},
        {"a*b", "ab"},       {"*aa", "a*"},      {"*x*", "a*b"},
        {"a*b*c", "ab*c*c"}, {"eu-*", "*-1"},    {"", "*"},
        {"**", ""},          {"a*", "a*b*c*d"}};
    static const char *const never[][2] = {
        {"a", "b"},         {"a*", "b*"},   {"*a", "*b"},     {"a", ""},
        {"invoice.*", "x"}, {"a*b", "a*c"}, {"ab*", "aa*"},   {"*ba", "*aa"},
        {"a*", ""},         {"a*b", "a"},   {"eu-*", "us-*"}, {"*x", "y"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(meet); i++) {
        assert_true(glob_meets(meet[i][0], meet[i][1]));
        assert_true(glob_meets(meet[i][1], meet[i][0]));
    }
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        assert_false(glob_meets(never[i][0], never[i][1]));
        assert_false(glob_meets(never[i][1], never[i][0]));
    }
}

/* The definition of a pattern, as slow as it is simple. */
static bool means(const char *pattern, const char *text)
{
    if (*pattern == '*')
        return means(pattern + 1, text) || (*text && means(pattern, text + 1));
    return *pattern == *text && (!*text || means(pattern + 1, text + 1));
}

static void random_text(char *out, size_t max, const char *letters)
{
    static unsigned seed = 1;
    size_t n;

    seed = seed * 1103515245 + 12345;
    n = (seed >> 16) % (max + 1);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        out[i] = letters[(seed >> 16) % strlen(letters)];
    }
    out[n] = 0;
}

static void a_match_is_what_its_definition_says(void **state)
{
    static const char *const letters[][2] = {
        {"a*", "a"}, {"ab*", "ab"}, {"aab**", "aab"}, {"abc*", "abc"}};
    int matches = 0, others = 0;
    char pattern[10], text[15];

    (void)state;
    for (int i = 0; i < 200000; i++) {
        const char *const *l = letters[i % 4];
        bool is;

        random_text(pattern, sizeof pattern - 1, l[0]);
        random_text(text, sizeof text - 1, l[1]);
        is = means(pattern, text);
        if (glob_match(pattern, text) != is)
            fail_msg("\"%s\" and \"%s\": expected %d", pattern, text, is);
        matches += is;
        others += !is;
    }
    assert_true(matches > 10000 && others > 10000);
}

/* The product of these lengths would take minutes. */
static void long_texts_are_no_trap(void **state)
{
    enum { N = 2000000 };
    char *text = gr_alloc(N + 1), *pattern = gr_alloc(N + 1);

    (void)state;
    memset(text, 'a', N);
    text[N] = 0;
    snprintf(pattern, N, "*%.*sb*", N / 2, text);
    assert_false(glob_match(pattern, text));
    snprintf(pattern, N, "*b%.*s*", N / 2, text);
    assert_false(glob_match(pattern, text));
    snprintf(pattern, N, "*%.*s*", N / 2, text);
    assert_true(glob_match(pattern, text));
    memset(pattern, '*', N);
    pattern[N] = 0;
    assert_true(glob_match(pattern, text));
    for (int i = 0; i < N; i += 2)
        pattern[i] = 'a';
    assert_true(glob_match(pattern, text));
    pattern[N - 2] = 'b';
    assert_false(glob_match(pattern, text));
    free(text);
    free(pattern);
}

/* A pattern of many stars must not take for ever. */
static void many_stars_are_no_trap(void **state)
{
    char text[4001], pattern[401];

    (void)state;
    for (int i = 0; i < 4000; i++)
        text[i] = 'a';
    text[4000] = 0;
    for (int i = 0; i < 400; i += 2) {
        pattern[i] = 'a';
        pattern[i + 1] = '*';
    }
    pattern[399] = 'b';
    pattern[400] = 0;
    assert_false(glob_match(pattern, text));
}

static void an_endpoint_without_subscriptions_gets_everything(void **state)
{
    struct endpoint_settings e = {.name = "crm", .enabled = true};
    struct settings s = {.endpoints = &e, .endpoint_count = 1};

    (void)state;
    assert_true(is_subscribed(&s, &e, "plane", "issue.created", "acme"));
    assert_true(is_subscribed(&s, &e, "ledger", "unknown", "default"));
}

static void a_disabled_endpoint_gets_nothing(void **state)
{
    struct endpoint_settings e = {.name = "crm"};
    struct route r = {.endpoints = LIST("crm")};
    struct settings s = {
        .endpoints = &e, .endpoint_count = 1, .routes = &r, .route_count = 1};

    (void)state;
    assert_false(is_subscribed(&s, &e, "plane", "issue.created", "acme"));
}

static void types_sources_and_workspaces_must_all_fit(void **state)
{
    struct endpoint_settings e = {.name = "crm",
                                  .enabled = true,
                                  .types = LIST("issue.*", "cycle.created"),
                                  .sources = LIST("plane"),
                                  .workspaces = LIST("ac*")};
    struct settings s = {.endpoints = &e, .endpoint_count = 1};

    (void)state;
    assert_true(is_subscribed(&s, &e, "plane", "issue.created", "acme"));
    assert_true(is_subscribed(&s, &e, "plane", "cycle.created", "acme"));
    assert_false(is_subscribed(&s, &e, "plane", "cycle.deleted", "acme"));
    assert_false(is_subscribed(&s, &e, "ledger", "issue.created", "acme"));
    assert_false(is_subscribed(&s, &e, "plane", "issue.created", "other"));
}

static void
a_named_endpoint_without_own_subscriptions_gets_what_routes_say(void **st)
{
    struct endpoint_settings e[] = {{.name = "crm", .enabled = true},
                                    {.name = "log", .enabled = true}};
    struct route r[] = {
        {.sources = LIST("plane"),
         .types = LIST("project.*"),
         .endpoints = LIST("crm", "other")},
        {.workspaces = LIST("vip"), .endpoints = LIST("crm")},
    };
    struct settings s = {
        .endpoints = e, .endpoint_count = 2, .routes = r, .route_count = 2};

    (void)st;
    assert_false(route_has_own(&s, &e[0]));
    assert_true(is_subscribed(&s, &e[0], "plane", "project.created", "acme"));
    assert_false(is_subscribed(&s, &e[0], "plane", "issue.created", "acme"));
    assert_true(is_subscribed(&s, &e[0], "x", "issue.created", "vip"));
    assert_true(route_has_own(&s, &e[1]));
    assert_true(is_subscribed(&s, &e[1], "plane", "issue.created", "acme"));
}

static void routes_add_to_own_subscriptions(void **state)
{
    struct endpoint_settings e = {
        .name = "crm", .enabled = true, .types = LIST("issue.*")};
    struct route r = {.types = LIST("project.*"), .endpoints = LIST("crm")};
    struct settings s = {
        .endpoints = &e, .endpoint_count = 1, .routes = &r, .route_count = 1};

    (void)state;
    assert_true(is_subscribed(&s, &e, "plane", "issue.created", "acme"));
    assert_true(is_subscribed(&s, &e, "plane", "project.created", "acme"));
    assert_false(is_subscribed(&s, &e, "plane", "cycle.created", "acme"));
}

static void each_decision_has_a_reason(void **state)
{
    static char *low[] = {"low"};
    struct where_test is_low = {.values = {low, 1}};
    struct where_field field = {
        .field = {.kind = EXPR_HEADER, .text = (char *)"X-P"},
        .tests = &is_low,
        .count = 1};
    struct endpoint_settings e = {
        .name = "crm", .enabled = true, .types = LIST("issue.*")};
    struct route r[] = {
        {.sources = LIST("ledger"), .endpoints = LIST("crm")},
        {.endpoints = LIST("crm"), .where = {&field, 1}},
    };
    struct settings s = {
        .endpoints = &e, .endpoint_count = 1, .routes = r, .route_count = 2};
    struct subject event = {
        .source = "plane", .type = "cycle.created", .workspace = "acme"};
    struct buf why;

    (void)state;
    buf_init(&why, 1000);
    assert_false(route_is_subscribed(&s, &e, &event, &why));
    buf_put(&why, "", 1);
    assert_string_equal(why.data,
                        "not subscribed to type cycle.created; route "
                        "1: not subscribed to source plane; route 2: condition "
                        "header:X-P is low not met: the field is missing");
    buf_reset(&why);
    event.source = "ledger";
    assert_true(route_is_subscribed(&s, &e, &event, &why));
    buf_put(&why, "", 1);
    assert_string_equal(why.data, "by route 1");
    buf_fini(&why);
}

static void operational_events_go_where_their_source_is_named(void **state)
{
    struct endpoint_settings all = {.name = "all", .enabled = true};
    struct endpoint_settings star = {
        .name = "star", .enabled = true, .sources = LIST("*", "grap*")};
    struct endpoint_settings ops = {
        .name = "ops", .enabled = true, .sources = LIST("plane", "grapnel")};
    struct endpoint_settings routed = {.name = "routed", .enabled = true};
    struct route r = {.sources = LIST("grapnel"), .endpoints = LIST("routed")};
    struct endpoint_settings list[] = {all, star, ops, routed};
    struct settings s = {
        .endpoints = list, .endpoint_count = 4, .routes = &r, .route_count = 1};
    const bool want[] = {false, false, true, true};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(is_subscribed(&s, &list[i], "grapnel",
                                       "grapnel.gap.opened", "acme"),
                         want[i]);
    assert_true(is_subscribed(&s, &list[1], "grappler", "t", "acme"));
}

static const struct where no_where;

/* The result of rules_judge(), and its sentence in `said`. */
static enum rule_result judged(const struct subscription *w, struct subject *s,
                               struct rule rules[RULES], char said[300])
{
    enum rule_result result;
    struct buf why;

    buf_init(&why, 299);
    result = rules_judge(w, s, rules, &why);
    assert_false(why.failed);
    memcpy(said, why.data ? why.data : "", why.len);
    said[why.len] = 0;
    buf_fini(&why);
    subject_fini(s);
    return result;
}

static void rules_say_which_of_them_decides(void **state)
{
    const struct string_list any = {0}, types = LIST("issue.*", "x"),
                             acme = LIST("acme");
    struct subscription w = {&any, &types, &acme, &no_where};
    struct subject s = {
        .source = "plane", .type = "issue.made", .workspace = "acme"};
    struct rule rules[RULES];
    char said[300];

    (void)state;
    assert_int_equal(judged(&w, &s, rules, said), RULE_MET);
    assert_string_equal(said, "any source, type issue.made matches issue.*, "
                              "workspace acme is named");
    assert_string_equal(rules[1].pattern, "issue.*");
    assert_null(rules[0].pattern);
    s.type = "order.made";
    s.workspace = "other";
    assert_int_equal(judged(&w, &s, rules, said), RULE_NOT_MET);
    assert_string_equal(said, "type order.made does not match issue.* or x, "
                              "workspace other does not match acme");
    assert_int_equal(rules[0].result, RULE_MET);
    assert_int_equal(rules[1].result, RULE_NOT_MET);
    /* Operational events have to be asked for by name. */
    w = (struct subscription){&any, &any, &any, &no_where};
    s.source = "grapnel";
    assert_int_equal(judged(&w, &s, rules, said), RULE_NOT_MET);
    assert_string_equal(said, "source grapnel has to be named in `sources`");
}

static void a_condition_without_a_body_is_neither_met_nor_not(void **state)
{
    const struct string_list any = {0}, types = LIST("issue.*");
    struct where_test exists = {.kind = TEST_EXISTS, .values = LIST("true")};
    struct where_field field = {
        .field = {.kind = EXPR_JSON}, .tests = &exists, .count = 1};
    struct where where = {.fields = &field, .count = 1};
    struct subscription w = {&any, &types, &any, &where};
    struct subject s = {.source = "plane",
                        .type = "issue.made",
                        .workspace = "acme",
                        .gone = true};
    struct rule rules[RULES];
    char said[300], name[] = "/a";

    (void)state;
    field.field.text = name;
    assert_int_equal(judged(&w, &s, rules, said), RULE_UNKNOWN);
    assert_non_null(strstr(said, "it depends on the condition json:/a exists"));
    s.type = "order.made"; /* whatever the body is */
    assert_int_equal(judged(&w, &s, rules, said), RULE_NOT_MET);
    assert_int_equal(rules[3].result, RULE_UNKNOWN);
    s.type = "issue.made";
    s.gone = false;
    s.body = (struct bytes){"{\"a\":1}", 7};
    assert_int_equal(judged(&w, &s, rules, said), RULE_MET);
    s = (struct subject){.source = "plane",
                         .type = "issue.made",
                         .workspace = "acme",
                         .body = {"{}", 2}};
    assert_int_equal(judged(&w, &s, rules, said), RULE_NOT_MET);
    assert_int_equal(rules[3].result, RULE_NOT_MET);
}

/* It decides as routing does. */
static void rules_agree_with_the_routing(void **state)
{
    static const char *const texts[] = {"", "issue.made", "grapnel", "a"};
    const struct string_list lists[] = {
        {0}, LIST("issue.*"), LIST("*"), LIST("grapnel", "a")};
    struct rule rules[RULES];
    char said[300];

    (void)state;
    for (int n = 0; n < 4 * 4 * 4 * 4 * 4 * 4; n++) {
        struct subscription w = {&lists[n & 3], &lists[n >> 2 & 3],
                                 &lists[n >> 4 & 3], &no_where};
        struct subject s = {.source = texts[n >> 6 & 3],
                            .type = texts[n >> 8 & 3],
                            .workspace = texts[n >> 10 & 3]};
        bool takes = subscription_takes(&w, &s, NULL);

        assert_int_equal(judged(&w, &s, rules, said),
                         takes ? RULE_MET : RULE_NOT_MET);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_stands_for_any_text),
        cmocka_unit_test(everything_else_stands_for_itself),
        cmocka_unit_test(patterns_meet_when_one_text_fits_both),
        cmocka_unit_test(a_match_is_what_its_definition_says),
        cmocka_unit_test(many_stars_are_no_trap),
        cmocka_unit_test(long_texts_are_no_trap),
        cmocka_unit_test(an_endpoint_without_subscriptions_gets_everything),
        cmocka_unit_test(a_disabled_endpoint_gets_nothing),
        cmocka_unit_test(types_sources_and_workspaces_must_all_fit),
        cmocka_unit_test(
            a_named_endpoint_without_own_subscriptions_gets_what_routes_say),
        cmocka_unit_test(routes_add_to_own_subscriptions),
        cmocka_unit_test(each_decision_has_a_reason),
        cmocka_unit_test(operational_events_go_where_their_source_is_named),
        cmocka_unit_test(rules_say_which_of_them_decides),
        cmocka_unit_test(a_condition_without_a_body_is_neither_met_nor_not),
        cmocka_unit_test(rules_agree_with_the_routing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
