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

static void test_files_are_there(void **state)
{
    const struct page_file *document = named("index.html");

    (void)state;
    assert_non_null(document);
    assert_non_null(named("main.js"));
    assert_int_equal(strlen(page_version), 16);
    /* The version has replaced its name, and each module is named. */
    assert_null(memmem(document->plain, document->plain_bytes, "@VERSION@", 9));
    assert_null(
        memmem(document->plain, document->plain_bytes, "@PRELOADS@", 10));
    for (const struct page_file *f = page_files; f->name; f++) {
        if (strstr(f->name, ".js"))
            assert_non_null(memmem(document->plain, document->plain_bytes,
                                   f->name, strlen(f->name)));
        /* No script or style in the document, no address of another host. */
        assert_null(memmem(f->plain, f->plain_bytes, "innerHTML", 9));
        assert_null(memmem(f->plain, f->plain_bytes, "https://", 8) &&
                            !strstr(f->name, "endpoint_form")
                        ? f->name
                        : NULL);
    }
    assert_null(memmem(document->plain, document->plain_bytes, "style=", 6));
    assert_null(memmem(document->plain, document->plain_bytes, "<script>", 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_files_together_are_small),
        cmocka_unit_test(test_files_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
