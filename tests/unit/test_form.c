/* Tests of form: names and values of form bodies and queries, valid or not. */
#include "form.h"
#include "headers.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct buf out;

/* A copy that is exactly as long, so that ASan sees a step too far. */
static struct bytes exact(const char *text)
{
    static char *copy;
    size_t n = strlen(text);

    free(copy);
    copy = n ? malloc(n) : NULL;
    if (n)
        memcpy(copy, text, n);
    return (struct bytes){copy, n};
}

static int get(const char *form, const char *name)
{
    int count;

    buf_reset(&out);
    buf_put(&out, "", 0);
    count = form_get(exact(form), name, &out);
    return count;
}

static const char *sorted(const char *form)
{
    buf_reset(&out);
    buf_put(&out, "", 0);
    assert_int_equal(form_sorted(exact(form), &out), GR_OK);
    return out.data;
}

static void a_field_is_found_and_decoded(void **state)
{
    (void)state;
    assert_int_equal(get("a=1&b=2", "b"), 1);
    assert_string_equal(out.data, "2");
    assert_int_equal(get("a=x+y%20z%2Bq", "a"), 1);
    assert_string_equal(out.data, "x y z+q");
    assert_int_equal(get("caf%C3%A9=%E2%99%a5", "caf\xc3\xa9"), 1);
    assert_string_equal(out.data, "\xe2\x99\xa5");
    assert_int_equal(get("a%5Bb%5d=1=2", "a[b]"), 1);
    assert_string_equal(out.data, "1=2");
    assert_int_equal(get("ab=1", "a"), 0);
    assert_int_equal(get("a=1", "ab"), 0);
    assert_int_equal(get("", "a"), 0);
    assert_int_equal(get("&&a&", "a"), 1);
    assert_int_equal(out.len, 0);
    assert_int_equal(get("a=1&a=2", "a"), 2);
    assert_string_equal(out.data, "1");
}

static void invalid_percent_codes_are_literal(void **state)
{
    (void)state;
    assert_int_equal(get("a=100%", "a"), 1);
    assert_string_equal(out.data, "100%");
    assert_int_equal(get("a=%4", "a"), 1);
    assert_string_equal(out.data, "%4");
    assert_int_equal(get("a=%zz%41", "a"), 1);
    assert_string_equal(out.data, "%zzA");
    assert_int_equal(get("a=%00b", "a"), 1);
    assert_int_equal(out.len, 2);
    assert_memory_equal(out.data, "\0b", 2);
}

static void form_fields_are_sorted_and_unique(void **state)
{
    (void)state;
    assert_string_equal(sorted(""), "");
    assert_string_equal(sorted("b=2&a=1"), "a1b2");
    assert_string_equal(sorted("a=2&a=1&a=2"), "a1a2");
    assert_string_equal(sorted("A=1&a=2&B=3"), "A1B3a2");
    assert_string_equal(sorted("ab=&a=b"), "abab");
    assert_string_equal(sorted("To=%2B1&From=%2B2"), "From+2To+1");
    assert_string_equal(sorted("a&b="), "ab");
}

static void a_form_of_too_many_fields_is_refused(void **state)
{
    size_t n = 2 * (FORM_FIELDS_MAX + 1);
    char *many = malloc(n + 1);

    (void)state;
    for (size_t i = 0; i < n; i++)
        many[i] = i % 2 ? '&' : 'a';
    many[n] = 0;
    buf_reset(&out);
    assert_int_equal(form_sorted(exact(many), &out), GR_REFUSE);
    many[n - 2] = 0;
    buf_reset(&out);
    assert_int_equal(form_sorted(exact(many), &out), GR_OK);
    assert_string_equal(out.data, "a");
    free(many);
}

static void only_a_form_is_a_form(void **state)
{
    struct buf headers;

    (void)state;
    buf_init(&headers, 1000);
    assert_true(form_is((struct bytes){"", 0}));
    headers_put(&headers, "content-type",
                exact("Application/X-WWW-Form-Urlencoded; charset=utf-8"));
    assert_true(form_is((struct bytes){headers.data, headers.len}));
    buf_reset(&headers);
    headers_put(&headers, "Content-Type", exact("application/json"));
    assert_false(form_is((struct bytes){headers.data, headers.len}));
    buf_fini(&headers);
    exact("");
}

static bool hides(const void *arg, struct bytes name, struct bytes value)
{
    const char *which = arg;

    return (name.n == strlen(which) && memcmp(name.p, which, name.n) == 0) ||
           (value.n == 4 && memcmp(value.p, "hush", 4) == 0);
}

static void hidden_as(const char *form, const char *name, const char *want)
{
    buf_reset(&out);
    buf_put(&out, "", 0);
    form_hide(exact(form), hides, name, "~", &out);
    assert_int_equal(out.len, strlen(want));
    assert_memory_equal(out.data ? out.data : "", want, out.len);
}

static void only_the_values_of_some_fields_are_hidden(void **state)
{
    (void)state;
    hidden_as("", "a", "");
    hidden_as("a=1", "a", "a=~");
    hidden_as("a=1&b=%20+2&a=&a&&=x&", "a", "a=~&b=%20+2&a=&a&&=x&");
    hidden_as("%61=1%2", "a", "%61=~");
    hidden_as("b=h%75sh&c=hushed&a=1=2&", "a", "b=~&c=hushed&a=~&");
    hidden_as("b", "b", "b");
    exact("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_found_and_decoded),
        cmocka_unit_test(invalid_percent_codes_are_literal),
        cmocka_unit_test(form_fields_are_sorted_and_unique),
        cmocka_unit_test(a_form_of_too_many_fields_is_refused),
        cmocka_unit_test(only_a_form_is_a_form),
        cmocka_unit_test(only_the_values_of_some_fields_are_hidden),
    };
    int failed;

    buf_init(&out, 1 << 20);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_fini(&out);
    return failed;
}
