/* Tests of conf: one table of keys parses, checks, prints and documents. */
#include "conf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct thing {
    char *name;
    int64_t wait_ms, free_bytes, count;
    double share;
    bool on;
    int colour;
    struct string_list words, keys;
};

struct root {
    struct thing thing, *things;
    size_t thing_count;
    char *place;
};

static const char *const colours[] = {"red", "green", NULL};

static const struct conf_section thing_section = {
    .name = "thing",
    .size = sizeof(struct thing),
    .keys =
        (const struct conf_key[]){
            {.name = "name",
             .type = &conf_as_string,
             .offset = offsetof(struct thing, name),
             .flags = CONF_REQUIRED,
             .help = "what it is called"},
            {.name = "wait",
             .type = &conf_as_duration,
             .offset = offsetof(struct thing, wait_ms),
             .min = 1,
             .max = 7 * 24 * 3600 * 1000LL,
             .fallback = "10s"},
            {.name = "room",
             .type = &conf_as_size,
             .offset = offsetof(struct thing, free_bytes),
             .fallback = "1MiB"},
            {.name = "count",
             .type = &conf_as_int,
             .offset = offsetof(struct thing, count),
             .min = 1,
             .max = 100,
             .fallback = "7"},
            {.name = "share",
             .type = &conf_as_number,
             .offset = offsetof(struct thing, share),
             .min = 50,
             .max = 300,
             .fallback = "1.5"},
            {.name = "on",
             .type = &conf_as_boolean,
             .offset = offsetof(struct thing, on),
             .fallback = "true"},
            {.name = "colour",
             .type = &conf_as_choice,
             .offset = offsetof(struct thing, colour),
             .choices = colours,
             .fallback = "green"},
            {.name = "words",
             .type = &conf_as_strings,
             .offset = offsetof(struct thing, words),
             .fallback = "[a, b]"},
            {.name = "keys",
             .type = &conf_as_strings,
             .offset = offsetof(struct thing, keys),
             .flags = CONF_SECRET | CONF_FILLED},
            {0},
        },
    .known = (const struct conf_known[]){{"later", "comes later"}, {0}},
};

static const struct conf_section root_section = {
    .name = "root",
    .keys =
        (const struct conf_key[]){
            {.name = "thing",
             .type = &conf_as_map,
             .offset = offsetof(struct root, thing),
             .section = &thing_section,
             .flags = CONF_OPTIONAL},
            {.name = "things",
             .type = &conf_as_maps,
             .offset = offsetof(struct root, things),
             .count_offset = offsetof(struct root, thing_count),
             .section = &thing_section},
            {.name = "place",
             .type = &conf_as_path,
             .offset = offsetof(struct root, place),
             .fallback = "here"},
            {0},
        },
};

static char folder[] = "/tmp/grapnel-test-conf-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink("f.yaml");
    unlink("key");
    return chdir("/") || rmdir(folder);
}

static void write_file(const char *name, const char *text, size_t n)
{
    FILE *f = fopen(name, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static bool load_bytes(struct root *r, const char *text, size_t n,
                       struct buf *errors)
{
    struct conf *c = conf_open(NULL);

    write_file("f.yaml", text, n);
    *r = (struct root){0};
    conf_read_file(c, "f.yaml", NULL, &root_section, r);
    return conf_close(c, errors);
}

/* The errors of this text; "" for none. */
static const char *errors_of(const char *text)
{
    static char out[8192];
    struct root r;
    struct buf errors;

    buf_init(&errors, sizeof out - 1);
    out[0] = 0;
    if (!load_bytes(&r, text, strlen(text), &errors))
        snprintf(out, sizeof out, "%s", errors.data);
    conf_fini(&root_section, &r);
    buf_fini(&errors);
    return out;
}

static void expect_error(const char *text, const char *error)
{
    const char *got = errors_of(text);

    if (!strstr(got, error))
        fail_msg("%s\ngives \"%s\"\nnot   \"%s\"", text, got, error);
}

static void absent_keys_have_their_default(void **state)
{
    struct root r;
    struct buf errors;
    char *here = gr_printf("%s/here", folder);

    (void)state;
    buf_init(&errors, 1000);
    assert_true(load_bytes(&r, "things: [{name: x}]", 19, &errors));
    assert_int_equal(r.thing_count, 1);
    assert_string_equal(r.things[0].name, "x");
    assert_int_equal(r.things[0].wait_ms, 10000);
    assert_int_equal(r.things[0].free_bytes, 1 << 20);
    assert_int_equal(r.things[0].count, 7);
    assert_true(r.things[0].share == 1.5);
    assert_true(r.things[0].on);
    assert_int_equal(r.things[0].colour, 1);
    assert_int_equal(r.things[0].words.count, 2);
    assert_null(r.thing.name);
    assert_string_equal(r.place, here);
    conf_fini(&root_section, &r);
    free(here);
}

static void errors_are_reported_in_file_order(void **state)
{
    (void)state;
    assert_string_equal(
        errors_of("place: ''\n"
                  "things:\n"
                  "  - {name: x, wait: 10}\n"
                  "  - {nmae: x, count: 4x}\n"
                  "thing: {name: [x], on: maybe}\n"),
        "f.yaml:1:8: place: must not be empty\n"
        "f.yaml:3:21: things[0].wait: \"10\" needs a unit (ms, s, m, h or d), "
        "such as 10s\n"
        "f.yaml:4:5: things[1].name: is missing: what it is called\n"
        "f.yaml:4:6: things[1].nmae: unknown key (did you mean name?)\n"
        "f.yaml:4:22: things[1].count: \"4x\" has text after the "
        "number\n"
        "f.yaml:5:15: thing.name: must be a string, not a list\n"
        "f.yaml:5:24: thing.on: must be true or false, without "
        "quotes\n");
}

static void unknown_duplicate_and_future_keys_are_errors(void **state)
{
    (void)state;
    expect_error("foo: 1", "foo: unknown key\n");
    expect_error("thigns: []", "unknown key (did you mean things?)");
    expect_error("thing: {name: x, later: 1}", "thing.later: comes later");
    expect_error("place: a\nplace: b",
                 "f.yaml:2:1: place: is set twice (first on line 1)");
    expect_error("[a]: b", "a key must be a string");
    expect_error("thing: {name: x, <<: {on: true}}", "merge keys (<<)");
}

static void ambiguous_yaml_scalars_must_be_quoted(void **state)
{
    static const char *const bitten[] = {
        "yes",   "No",    "on",           "OFF",        "true", "y",
        "08",    "12",    "1.5",          "1e3",        "0x1f", "0o17",
        "-3",    "+1",    ".5",           ".inf",       ".NaN", "1_000",
        "0b101", "10:30", "190:20:30.15", "2024-01-02",
    };
    static const char *const plain[] = {
        "yess", "1.2.3",    "127.0.0.1:80", "a10:30", "x:1",
        "1:99", "12a",      "2024-1-2x",    "+",      "x-1",
        "0b",   "infinity", "0b1f",         "0o19",   "0b10a9",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bitten); i++) {
        char *good = gr_printf("things: [{name: '%s'}]", bitten[i]);
        char *bad = gr_printf("things:\n- name: %s", bitten[i]);

        expect_error(bad, "must be a string: put it in quotes");
        assert_string_equal(errors_of(good), "");
        free(good);
        free(bad);
    }
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        char *good = gr_printf("things:\n- name: %s", plain[i]);

        assert_string_equal(errors_of(good), "");
        free(good);
    }
    expect_error("things: [{name: }]", "has no value");
    expect_error("things: [{name: ~}]", "has no value");
    expect_error("things: [{name: \"a\\0b\"}]", "zero byte");
    expect_error("things: [{name: !!str yes}]", "put it in quotes");
    expect_error("things: [{name: !foo x}]", "tags (!foo) are not supported");
}

static void numbers_are_whole_and_within_bounds(void **state)
{
    static const struct {
        const char *value, *error;
    } all[] = {
        {"count: 0", "count: must be at least 1"},
        {"count: 101", "count: must be at most 100"},
        {"count: -1", "must not be negative"},
        {"count: 08", "leading zero"},
        {"count: 1.0", "has text after the number"},
        {"count: '7'", "remove the quotes"},
        {"count: 99999999999999999999", "too large"},
        {"count: x", "is not a number"},
        {"count: [1]", "must be a number, not a list"},
        {"wait: 0s", "wait: must be at least 1ms"},
        {"wait: 8d", "wait: must be at most 7d"},
        {"wait: 10", "needs a unit"},
        {"wait: soon", "\"soon\" is not a duration; write a number and ms"},
        {"room: big", "\"big\" is not a size"},
        {"wait: 10sec", "is not a duration"},
        {"wait: 1h30m", "is not a duration"},
        {"wait: 10:30", "is not a duration"},
        {"wait: 1.5h", "is not a duration"},
        {"wait: -5s", "must not be negative"},
        {"wait: 9223372036854775807d", "is too large"},
        {"wait: 9223372036854775807ms", "is too large"},
        {"wait: 36501d", "is too large"},
        {"room: 1MB", "is not a size"},
        {"room: 1024", "needs a unit"},
        {"room: 9999999TiB", "is too large"},
        {"share: 0.4", "share: must be at least 0.5"},
        {"share: 3.01", "share: must be at most 3"},
        {"share: 1e1", "is not a number like"},
        {"share: nan", "is not a number like"},
        {"share: 1.", "is not a number like"},
        {"on: yes", "must be true or false"},
        {"on: 'true'", "must be true or false"},
        {"colour: rad", "is not one of: red, green (did you mean red?)"},
        {"colour: yes", "\"yes\" is not one of: red, green"},
        {"words: {a: b}", "must be a list, not a map"},
        {"words:", "has no value"},
        {"words: [a, [b]]", "words[1]: must be a string, not a list"},
        {"keys: []", "must not be an empty list: remove the key"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        char *text = gr_printf("thing:\n  name: x\n  %s\n", all[i].value);

        expect_error(text, all[i].error);
        free(text);
    }
}

static void variables_are_expanded_once(void **state)
{
    struct root r;
    struct buf errors;
    static const char good[] =
        "thing: {name: \"a ${GRT_A}$$ ${GRT_YES}\", count: \"${GRT_N}\",\n"
        "  words: '${GRT_A}'}\n";

    (void)state;
    setenv("GRT_A", "${GRT_N}", 1);
    setenv("GRT_N", "12", 1);
    setenv("GRT_YES", "yes", 1);
    buf_init(&errors, 1000);
    assert_true(load_bytes(&r, good, strlen(good), &errors));
    assert_string_equal(r.thing.name, "a ${GRT_N}$ yes");
    assert_int_equal(r.thing.count, 12);
    assert_int_equal(r.thing.words.count, 1); /* one text will do */
    conf_fini(&root_section, &r);
    unsetenv("GRT_A");
    expect_error(good, "thing.name: the environment variable GRT_A is not set");
    expect_error("thing: {name: 'a$b'}", "write $$ for a dollar");
    expect_error("thing: {name: '${'}", "has ${ without a variable name");
    expect_error("thing: {name: '${A'}", "has ${ without a variable name");
    expect_error("thing: {name: '${1A}'}", "has ${ without a variable name");
    expect_error("thing: {name: '${A-x}'}", "has ${ without a variable name");
}

static void secrets_are_read_from_files_and_never_printed(void **state)
{
    struct root r;
    struct buf out;
    static const char good[] = "thing: {name: file:key, keys: 'file:key'}";

    (void)state;
    write_file("key", "s3cret\n\n", 8);
    buf_init(&out, 4000);
    assert_true(load_bytes(&r, good, strlen(good), &out));
    assert_string_equal(r.thing.name, "file:key"); /* no secret, no file */
    assert_string_equal(r.thing.keys.items[0], "s3cret\n");
    conf_print(&root_section, &r, &out, 0, true);
    assert_null(strstr(out.data, "s3cret"));
    assert_non_null(strstr(out.data, "keys: [\"…\"]"));
    buf_fini(&out);
    conf_fini(&root_section, &r);

    expect_error("thing: {name: x, keys: 'file:none'}", "cannot read ");
    expect_error("thing: {name: x, keys: 'file:.'}", "cannot read ");
    write_file("key", "\n", 1);
    expect_error(good, "thing.keys: must not be empty");
    write_file("key", "a\0b", 3);
    expect_error(good, "contains a zero byte");
    assert_null(strstr(errors_of("thing: {name: x, keys: [12345]}"), "12345"));
    write_file("key", "s3cret", 6);
    write_file("a.key", "s3cret", 6);
    expect_error("thing: {name: x, keys: a.key}",
                 "keys: is the path of a file");
    assert_string_equal(errors_of("thing: {name: x, keys: key}"), "");
    expect_error("thing: {name: x, keys: [./key]}", "write `file:PATH`");
    assert_string_equal(errors_of("thing: {name: key}"), "");
    assert_string_equal(errors_of("thing: {name: x, keys: ./none}"), "");
}

static void cyclic_aliases_are_handled(void **state)
{
    (void)state;
    assert_string_equal(errors_of("things:\n"
                                  "  - &a {name: x, words: &w [a, b]}\n"
                                  "  - *a\n"
                                  "  - {name: z, words: *w}\n"),
                        "");
    expect_error("things: &a [*a]", "things[0]: must be a map");
    expect_error("thing: &a {name: *a}", "thing.name: must be a string");
    expect_error("thing: *nowhere", "not YAML");
}

static void a_yaml_syntax_error_has_its_place(void **state)
{
    struct buf deep;

    (void)state;
    expect_error("", "f.yaml: the file is empty");
    expect_error("# nothing\n", "f.yaml: the file is empty");
    expect_error("a: [\n", "f.yaml:2:1: not YAML: ");
    expect_error("a:\n\t- b\n", "f.yaml:2:1: not YAML: ");
    expect_error("place: a\n\nplace: \xff\n", "f.yaml:3:1: not YAML: ");
    expect_error("place: a\n---\nplace: b\n",
                 "a second YAML document begins here");
    expect_error("- a\n", "f.yaml:1:1: must be a map");
    buf_init(&deep, 1 << 20);
    for (int i = 0; i < 50000; i++)
        buf_puts(&deep, "[");
    expect_error(deep.data, "f.yaml:");
    buf_fini(&deep);
}

static void a_file_that_cannot_be_read_is_one_sentence(void **state)
{
    struct root r = {0};
    struct buf errors;
    struct conf *c = conf_open(NULL);

    (void)state;
    buf_init(&errors, 1000);
    conf_read_file(c, "none.yaml", NULL, &root_section, &r);
    assert_false(conf_close(c, &errors));
    assert_string_equal(errors.data, "none.yaml: cannot read the file: No such "
                                     "file or directory\n");
    buf_fini(&errors);
}

static void printed_text_reads_back_the_same(void **state)
{
    static const char text[] =
        "thing: {name: \"a\\\"\\\\ $$ \\t\\x7f: #\", wait: 90s, on: false}\n"
        "things: [{name: 'yes'}, {name: b, words: [], share: 2.25}]\n";
    struct buf first, second, errors;
    struct root r;

    (void)state;
    buf_init(&first, 10000);
    buf_init(&second, 10000);
    buf_init(&errors, 10000);
    assert_true(load_bytes(&r, text, strlen(text), &errors));
    conf_print(&root_section, &r, &first, 0, true);
    conf_fini(&root_section, &r);
    assert_true(load_bytes(&r, first.data, first.len, &errors));
    assert_string_equal(r.thing.name, "a\"\\ $ \t\x7f: #");
    conf_print(&root_section, &r, &second, 0, true);
    assert_string_equal(first.data, second.data);
    conf_fini(&root_section, &r);
    buf_fini(&first);
    buf_fini(&second);
}

static void durations_and_sizes_print_in_their_largest_unit(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } all[] = {{0, "0s"},         {1, "1ms"},       {1500, "1500ms"},
               {60000, "1m"},     {90000, "90s"},   {86400000, "1d"},
               {90000000, "25h"}, {604800000, "7d"}};
    struct buf b;

    (void)state;
    buf_init(&b, 100);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        int64_t back;
        const char *why;

        buf_reset(&b);
        conf_put_duration(&b, all[i].ms);
        assert_string_equal(b.data, all[i].text);
        assert_int_equal(conf_parse_duration(b.data, &back, &why), GR_OK);
        assert_int_equal(back, all[i].ms);
    }
    buf_reset(&b);
    conf_put_size(&b, 3 << 20);
    buf_puts(&b, " ");
    conf_put_size(&b, 0);
    buf_puts(&b, " ");
    conf_put_size(&b, 1025);
    assert_string_equal(b.data, "3MiB 0B 1025B");
    buf_fini(&b);
}

static void a_typo_is_near_and_another_word_is_not(void **state)
{
    static const struct {
        const char *text, *best;
    } all[] = {
        {"retry_polcy", "retry_policy"},
        {"Retry_Policy", "retry_policy"},
        {"retry-policy", "retry_policy"},
        {"retrypolicy", "retry_policy"},
        {"ulr", "url"},
        {"a", NULL},
        {"colour", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct conf_near n = {.text = all[i].text};

        conf_near_try(&n, "url");
        conf_near_try(&n, "retry_policy");
        if (all[i].best)
            assert_string_equal(n.best, all[i].best);
        else
            assert_null(n.best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_have_their_default),
        cmocka_unit_test(errors_are_reported_in_file_order),
        cmocka_unit_test(unknown_duplicate_and_future_keys_are_errors),
        cmocka_unit_test(ambiguous_yaml_scalars_must_be_quoted),
        cmocka_unit_test(numbers_are_whole_and_within_bounds),
        cmocka_unit_test(variables_are_expanded_once),
        cmocka_unit_test(secrets_are_read_from_files_and_never_printed),
        cmocka_unit_test(cyclic_aliases_are_handled),
        cmocka_unit_test(a_yaml_syntax_error_has_its_place),
        cmocka_unit_test(a_file_that_cannot_be_read_is_one_sentence),
        cmocka_unit_test(printed_text_reads_back_the_same),
        cmocka_unit_test(durations_and_sizes_print_in_their_largest_unit),
        cmocka_unit_test(a_typo_is_near_and_another_word_is_not),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
