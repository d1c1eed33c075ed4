/* Tests of the files of the console's pages: their size, that each can be found, and what documents name. */
#include "static_pages.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What a browser fetches when it has opened every page. */
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
    assert_false(has(document, "texts_de")); /* fetched by its readers */
    assert_false(has(document, "style="));
    assert_false(has(document, "<script>"));
}

static bool is_document(const struct page_file *f)
{
    return strstr(f->name, ".html") != NULL;
}

static bool is_named_in_a_document(const char *module)
{
    for (const struct page_file *f = page_files; f->name; f++)
        if (is_document(f) && has(f, module))
            return true;
    return false;
}

static void test_files_are_there(void **state)
{
    const struct page_file *main = named("index.html"),
                           *portal = named("portal.html");

    (void)state;
    assert_non_null(main);
    assert_non_null(portal);
    assert_non_null(named("main.js"));
    assert_int_equal(strlen(page_version), 16);
    assert_false(has(main, "/brand.js"));
    assert_true(has(portal, "/brand.js"));
    assert_false(has(portal, "/page_event.js"));
    assert_false(has(portal, "/page_tokens.js"));
    for (const struct page_file *f = page_files; f->name; f++) {
        if (is_document(f))
            check_document(f);
        if (strstr(f->name, ".js") && !strstr(f->name, "texts_"))
            assert_true(is_named_in_a_document(f->name));
        /* No address of another host. */
        assert_false(has(f, "innerHTML"));
        assert_true(!has(f, "https://") || strstr(f->name, "endpoint_form"));
    }
}

/* Each address of a page has a document that names the modules of this page, directly imported or not, and no
 * others. */
static void test_a_document_names_the_modules_of_its_page(void **state)
{
    int addresses = 0, of_portal = 0;

    (void)state;
    for (const struct page_document *d = page_documents; d->name; d++) {
        const struct page_file *document = named(d->name);
        bool is_portal = strncmp(d->address, "/portal", 7) == 0,
             is_event = strcmp(d->address + (is_portal ? 7 : 0),
                               "/events/:id") == 0;

        assert_non_null(document);
        assert_true(has(document, is_portal ? "/portal.js" : "/main.js"));
        assert_false(has(document, is_portal ? "/main.js" : "/portal.js"));
        assert_true(strcmp(d->address, "/portal") != 0 ||
                    has(document, "/page_events.js"));
        assert_int_equal(has(document, "/page_event.js"), is_event);
        assert_true(!is_event || has(document, "/life.js"));
        addresses++;
        of_portal += is_portal;
    }
    assert_in_range(of_portal, 6, 20);
    assert_in_range(addresses, 20, 100);
    assert_false(has(named("index.html"), "/page_event.js"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_files_together_are_small),
        cmocka_unit_test(test_files_are_there),
        cmocka_unit_test(test_a_document_names_the_modules_of_its_page),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
