/* Tests of pattern: which texts a regular expression matches, which expressions are refused and
 * where, and that hostile ones end after a number of states that their lengths bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs the above first */
#include <cmocka.h>

#include "alloc.h"
#include "pattern.h"
#include <string.h>

static struct pattern_wrong wrong;

static struct pattern *pattern_of(const char *text)
{
    return pattern_new((struct bytes){text, strlen(text)}, PATTERN_STATES_MAX,
                       &wrong);
}

static bool found(const struct pattern *p, struct bytes text)
{
    int64_t visits = 1000 * 1000 * 1000;
    enum pattern_found is = pattern_find(p, text, &visits);

    assert_int_not_equal(is, PATTERN_TOO_LONG);
    return is == PATTERN_FOUND;
}

/* Texts that match, and those that do not; each list ends with NULL. */
static const struct vector {
    const char *pattern, *good[8], *bad[8];
} vectors[] = {
    {"", {"", "a"}, {NULL}},
    {"a", {"a", "bab"}, {"", "A", "b"}},
    {"^a$", {"a"}, {"ab", "ba", "a\n", ""}},
    {"^$", {""}, {"a"}},
    {"a^b", {NULL}, {"ab", "a^b", "a\nb"}},
    {"ab|cd", {"ab", "cd", "xcdx"}, {"ac", "bd", "ad"}},
    {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
    {"^(?:a|bc|)$", {"a", "bc", ""}, {"b", "abc"}},
    {"^(a|b|c|d)(x|y)$", {"ax", "by", "dx"}, {"a", "ex", "abx"}},
    {"^a*$", {"", "a", "aaa"}, {"b", "aab"}},
    {"^a+$", {"a", "aaa"}, {"", "ab"}},
    {"^a?b$", {"b", "ab"}, {"aab", "a"}},
    {"^(ab){2}$", {"abab"}, {"ab", "ababab", "aabb"}},
    {"^a{2,}$", {"aa", "aaaa"}, {"a", ""}},
    {"^a{2,4}$", {"aa", "aaa", "aaaa"}, {"a", "aaaaa"}},
    {"^a{0,2}b$", {"b", "ab", "aab"}, {"aaab"}},
    {"^a{0}b$", {"b"}, {"ab"}},
    {"^a{1}$", {"a"}, {"aa"}},
    {"^a{0,}$", {"", "aaaa"}, {"b"}},
    {"^(a{2}){3}$", {"aaaaaa"}, {"aaaaa", "aaaaaaa"}},
    {"^(a|b{2}){2,3}$", {"aa", "abb", "bbbbbb", "aabb"}, {"a", "ab", "aaaa"}},
    {"^(?:a*b?)+c$", {"c", "aabac"}, {"ca"}},
    {"^(a*)*$", {"", "aaa"}, {"b"}},
    {"^(a*?)+?b??$", {"", "aab"}, {"ba"}},
    {"^(?:(?:)){3}a$", {"a"}, {""}},
    {"^.$", {"x", "\xc3\xa4", "\xf0\x9f\x98\x80"}, {"", "\n", "\r", "ab"}},
    {"^.$", {NULL}, {"\xe2\x80\xa8", "\xe2\x80\xa9"}},
    {"^\xc3\xa4+$", {"\xc3\xa4\xc3\xa4"}, {"a", "\xc3\xb6"}},
    {"^[a-c]$", {"a", "b", "c"}, {"d", "`", "A", "-"}},
    {"^[^a-c]$", {"d", "\n", "\xc3\xa4"}, {"a", "c", ""}},
    {"^[a-]$", {"a", "-"}, {"b"}},
    {"^[-a]$", {"a", "-"}, {"b"}},
    {"^[+--]$", {"+", ",", "-"}, {".", "*"}},
    {"^[\\w.-]+$", {"a.b-c_9"}, {"a b", "\xc3\xa4"}},
    {"^[\\d-]+$", {"1-2"}, {"a"}},
    {"^[^\\d\\s]$", {"a"}, {"1", " "}},
    {"^[\\D]$", {"a"}, {"1"}},
    {"^[\\W\\d]$", {"-", "7", "\xc3\xa4"}, {"a", "_"}},
    {"^[(*.|?$^{}]+$", {"(*.|?$^{}"}, {"a"}},
    {"^[\\]\\\\\\b]+$", {"]\\\b"}, {"b"}},
    {"[]", {NULL}, {"", "a", "]"}},
    {"^[^]$", {"a", "\n", "]"}, {""}},
    {"^[\xc3\xa4-\xc3\xbc]$", {"\xc3\xb6"}, {"a", "\xc3\xbf"}},
    {"^\\d{3}$", {"123"}, {"12a", "\xd9\xa1\xd9\xa2\xd9\xa3"}},
    {"^\\D$", {"a", "\xd9\xa1"}, {"1"}},
    {"^\\w\\W$", {"a-", "_ "}, {"--", "aa"}},
    {"^\\s$",
     {" ", "\t", "\n", "\v", "\f", "\r", "\xc2\xa0", "\xef\xbb\xbf"},
     {"a", "\x1c", "\xc2\x85"}},
    {"^\\S$", {"a"}, {" ", "\xe3\x80\x80"}},
    {"\\bcat\\b", {"cat", "a cat.", "(cat)"}, {"cats", "_cat", "concat"}},
    {"\\Bat\\B", {"cats", "_at_"}, {"at", "cat", "at "}},
    {"^\\B$", {""}, {"a"}},
    {"^\\t\\n\\v\\f\\r$", {"\t\n\v\f\r"}, {"tnvfr"}},
    {"^\\x41\\u0042\\u{43}$", {"ABC"}, {"abc"}},
    {"^\\ud83d\\ude00$", {"\xf0\x9f\x98\x80"}, {"\xef\xbf\xbd"}},
    {"^[\\u{1f600}-\\u{1f602}]$",
     {"\xf0\x9f\x98\x81"},
     {"\xf0\x9f\x98\x83", "a"}},
    {"^\\cA\\cz$", {"\x01\x1a"}, {"Az", "cAcz"}},
    {"^\\$\\.\\*\\/\\-\\@\\[\\]\\{\\}\\|\\\\$", {"$.*/-@[]{}|\\"}, {"a"}},
    {"^(?<year>\\d{4})-(\\d\\d)$", {"2026-11"}, {"2026-1"}},
    {"^[A-Z]{2}\\d{2}(?: ?[A-Z0-9]{4}){3}$",
     {"GB82 WEST 1234 5698", "GB82WEST12345698"},
     {"GB82 WEST 1234", "gb82 WEST 1234 5698"}},
    {"^#(?:[0-9a-fA-F]{3}){1,2}$", {"#fff", "#A0b1C2"}, {"#ffff", "fff"}},
    {"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
     {"123e4567-e89b-12d3-a456-426614174000"},
     {"123e4567-e89b-12d3-a456-42661417400",
      "123e4567e89b12d3a456426614174000"}},
};

static void texts_match_or_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct pattern *p = pattern_of(v->pattern);

        print_message("%s\n", v->pattern);
        if (!p)
            fail_msg("%zu: %s", wrong.at, wrong.why);
        for (size_t k = 0; k < COUNT_OF(v->good) && v->good[k]; k++)
            if (!found(p, (struct bytes){v->good[k], strlen(v->good[k])}))
                fail_msg("does not match: %s", v->good[k]);
        for (size_t k = 0; k < COUNT_OF(v->bad) && v->bad[k]; k++)
            if (found(p, (struct bytes){v->bad[k], strlen(v->bad[k])}))
                fail_msg("matches: %s", v->bad[k]);
        pattern_free(p);
    }
}

static void zero_is_a_character(void **state)
{
    struct pattern *p = pattern_of("^a\\0[\\0]$");

    (void)state;
    assert_non_null(p);
    assert_true(found(p, (struct bytes){"a\0\0", 3}));
    assert_false(found(p, (struct bytes){"a", 1}));
    pattern_free(p);
}

/* A pattern, the character at which it is wrong, and a part of the reason. */
static void others_are_refused(void **state)
{
    static const struct {
        const char *pattern;
        size_t at;
        const char *why;
    } all[] = {
        {"(a)\\1", 4, "back references"},
        {"(?<n>a)\\k<n>", 8, "back references"},
        {"a(?=b)", 2, "look-ahead"},
        {"a(?!b)", 2, "look-ahead"},
        {"(?<=a)b", 1, "look-behind"},
        {"(?<!a)b", 1, "look-behind"},
        {"\xc3\xa4(?i:a)", 2, "a group begins"},
        {"(?", 1, "a group begins"},
        {"(?<n", 1, "without >"},
        {"\\p{L}", 1, "\\p is not supported"},
        {"[\\P{L}]", 2, "\\P is not supported"},
        {"(a", 1, "( without )"},
        {"a)", 2, ") without ("},
        {"a|)", 3, ") without ("},
        {"[a", 1, "[ without ]"},
        {"[", 1, "[ without ]"},
        {"[a\\", 3, "ends with"},
        {"a\\", 2, "ends with"},
        {"[z-a]", 2, "ends before"},
        {"[\\d-z]", 2, "both ends"},
        {"[a-\\d]", 2, "both ends"},
        {"*a", 1, "repeats nothing"},
        {"a**", 3, "repeats nothing"},
        {"a|+", 3, "repeats nothing"},
        {"(?)", 1, "a group begins"},
        {"^*", 1, "cannot be repeated"},
        {"\\b{2}", 1, "cannot be repeated"},
        {"a{", 2, "begins no repetition"},
        {"a{,3}", 2, "begins no repetition"},
        {"a{2", 2, "begins no repetition"},
        {"a{3,2}", 2, "below its least"},
        {"{2}", 1, "alone"},
        {"a}", 2, "alone"},
        {"]", 1, "alone"},
        {"\\q", 1, "not an escape"},
        {"\\A", 1, "not an escape"},
        {"\\x4", 1, "not an escape"},
        {"\\00", 1, "not an escape"},
        {"\\\xc3\xa4", 1, "needs none"},
        {"\\u12", 1, "hexadecimal"},
        {"\\u{110000}", 1, "hexadecimal"},
        {"\\u{}", 1, "hexadecimal"},
        {"\\u{1f600", 1, "hexadecimal"},
        {"a{8193}", 2, "states"},
        {"a{99999999999999999999}", 2, "states"},
        {"(a{1000}){1000}", 10, "states"},
        {"(((((a{1,20}){1,20}){1,20}){1,20}){1,20})b", 21, "states"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        print_message("%s\n", all[i].pattern);
        assert_null(pattern_of(all[i].pattern));
        if (!strstr(wrong.why, all[i].why))
            fail_msg("%s", wrong.why);
        assert_int_equal(wrong.at, all[i].at);
    }
}

static struct buf repeated(const char *text, int n)
{
    struct buf all;

    buf_init(&all, 1024 * 1024);
    for (int i = 0; i < n; i++)
        buf_puts(&all, text);
    return all;
}

static void groups_are_bounded(void **state)
{
    struct buf text = repeated("(", PATTERN_DEPTH_MAX + 1);

    (void)state;
    buf_put(&text, "", 1);
    assert_null(pattern_of(text.data));
    assert_non_null(strstr(wrong.why, "inside of each other"));
    assert_int_equal(wrong.at, PATTERN_DEPTH_MAX + 1);
    buf_fini(&text);
}

/* Nothing is repeated a million times a million times. */
static void repetitions_of_nothing_end(void **state)
{
    struct pattern *p = pattern_of(
        "^((((){999999}){999999}|(b{0}){999999}){99}){3}a$");

    (void)state;
    assert_non_null(p);
    assert_true(found(p, (struct bytes){"a", 1}));
    assert_false(found(p, (struct bytes){"b", 1}));
    pattern_free(p);
}

static void the_states_of_several_share_a_bound(void **state)
{
    struct pattern *p = pattern_new((struct bytes){"a{9}", 4}, 10, &wrong);

    (void)state;
    assert_non_null(p);
    assert_int_equal(pattern_states(p), 10);
    pattern_free(p);
    assert_null(pattern_new((struct bytes){"a{9}", 4}, 9, &wrong));
    assert_null(pattern_new((struct bytes){"", 0}, 0, &wrong));
}

/* Each state is entered and left at most once for each character. */
static void hostile_patterns_end(void **state)
{
    static const char *const all[] = {
        "(a+)+$",
        "^(a|aa)+$",
        "^(a|a?)+$",
        "(x+x+)+y",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^!]$",
        "^(?:(?:(?:a?){30}){30})$",
        ".*a.{300}x",
        "(a{0,60}){0,60}b",
    };
    struct buf text = repeated("a", 20 * 1000);

    (void)state;
    buf_puts(&text, "!");
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct pattern *p = pattern_of(all[i]);
        int64_t most = 3 * (int64_t)text.len, visits;

        print_message("%s\n", all[i]);
        assert_non_null(p);
        most *= (int64_t)pattern_states(p);
        visits = most;
        assert_int_equal(
            pattern_find(p, (struct bytes){text.data, text.len}, &visits),
            PATTERN_ABSENT);
        assert_true(visits > 0);
        pattern_free(p);
    }
    buf_fini(&text);
}

static void a_match_ends_when_its_visits_are_used_up(void **state)
{
    struct buf text = repeated("a", 20 * 1000);
    struct pattern *p = pattern_of("(a|aa)+b");
    int64_t visits = 1000;

    (void)state;
    assert_non_null(p);
    assert_int_equal(
        pattern_find(p, (struct bytes){text.data, text.len}, &visits),
        PATTERN_TOO_LONG);
    assert_true(visits < 0 && visits > -100);
    pattern_free(p);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_match_or_not),
        cmocka_unit_test(zero_is_a_character),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(groups_are_bounded),
        cmocka_unit_test(repetitions_of_nothing_end),
        cmocka_unit_test(the_states_of_several_share_a_bound),
        cmocka_unit_test(hostile_patterns_end),
        cmocka_unit_test(a_match_ends_when_its_visits_are_used_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
