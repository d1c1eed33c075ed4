/* Tests of the files of the console's pages: their size, and that each can be found. */
#include "static_pages.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What a browser fetches when it opens a page for the first time. */
static void test_all_files_together_are_small(void **state)
{
    size_t all = 0;

    (void)state;
    for (const struct page_file *f = page_files; f->name; f++)
        all += f->gzip_bytes;
    assert_in_range(all, 10 * 1024, 300 * 1024);
}

static const struct page_file *named(const char *name)
{
    for (const struct page_file *f = page_files; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static bool has(const struct page_file *f, const char *text)
{
    return memmem(f->plain, f->plain_bytes, text, strlen(text)) != NULL;
}

/* The version has replaced its name, and each module that is needed is named. */
static void check_document(const struct page_file *document)
{
    assert_non_null(document);
    assert_false(has(document, "@VERSION@"));
    assert_false(has(document, "@PRELOADS@"));
    assert_true(has(document, "\"modulepreload\""));
    assert_true(has(document, "/router.js"));
    assert_true(has(document, "/page_event.js"));
    assert_false(has(document, "texts_de")); /* fetched by its readers */
    assert_false(has(document, "style="));
    assert_false(has(document, "<script>"));
}

static void test_files_are_there(void **state)
{
    const struct page_file *main = named("index.html"),
                           *portal = named("portal.html");

    (void)state;
    check_document(main);
    check_document(portal);
    assert_non_null(named("main.js"));
    assert_int_equal(strlen(page_version), 16);
    assert_false(has(main, "/brand.js"));
    assert_true(has(portal, "/brand.js"));
    assert_false(has(portal, "/page_tokens.js"));
    for (const struct page_file *f = page_files; f->name; f++) {
        if (strstr(f->name, ".js") && !strstr(f->name, "texts_"))
            assert_true(has(main, f->name) || has(portal, f->name));
        /* No address of another host. */
        assert_false(has(f, "innerHTML"));
        assert_true(!has(f, "https://") || strstr(f->name, "endpoint_form"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_files_together_are_small),
        cmocka_unit_test(test_files_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
