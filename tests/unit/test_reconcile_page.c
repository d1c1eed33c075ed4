/* Test of page.h: what a page of a provider's list says, and what a hostile one cannot do. */
#include "headers.h"
#include "page.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct source source;
static struct page page;
static char why[PAGE_WHY_BYTES];

static void expr(struct expr *e, const char *text)
{
    const char *wrong;

    assert_int_equal(expr_parse(e, text, &wrong), GR_OK);
}

static int setup(void **state)
{
    (void)state;
    source = (struct source){.name = gr_strdup("s"),
                             .provider = gr_strdup("custom")};
    source.reconcile.every_ms = 1000;
    source.reconcile.url = gr_strdup(
        "https://api.example/v1?a=b&f={from}&t={to}");
    expr(&source.id, "json:/id");
    expr(&source.reconcile.list.time, "json:/at");
    expr(&source.reconcile.list.events, "json:/x/data");
    return 0;
}

static gr_rc read_page(const char *text, const char *position, const char *link)
{
    page_fini(&page);
    return page_read(&page, &source, (struct bytes){text, strlen(text)},
                     position, link, source.reconcile.url, why);
}

static void items(void **state)
{
    (void)state;
    assert_int_equal(
        read_page("{\"x\": {\"data\": [1], \"data\": [ {\"id\": \"a\", \"at\": "
                  "1700000000}, {\"id\": \"b\"}, 7, {\"id\": 5, \"at\": "
                  "\"2023-11-14T22:13:20Z\", \"\\u00e9\": [\"]\\\"}\"]}, "
                  "{\"id\": \"c\", \"at\": 1700000000123}]}}",
                  "", ""),
        GR_OK);
    assert_int_equal(page.count, 3);
    assert_int_equal(page.unusable, 2);
    assert_string_equal(page.items[0].id, "a");
    assert_true(page.items[0].ms == 1700000000000);
    assert_string_equal(page.items[1].id, "5");
    assert_true(page.items[1].ms == 1700000000000);
    assert_true(page.items[2].ms == 1700000000123);
    assert_null(page.next);
    assert_int_equal(read_page("{\"x\": {\"data\": [ ]}}", "", ""), GR_OK);
    assert_int_equal(page.count, 0);
    assert_int_equal(read_page("{\"x\": [{\"data\": []}]}", "", ""), GR_REFUSE);
    assert_int_equal(read_page("{\"x\": \"{\\\"data\\\": []}\"}", "", ""),
                     GR_REFUSE);
    assert_int_equal(read_page("{\"x\": {\"data\": [", "", ""), GR_REFUSE);
    assert_int_equal(read_page("", "", ""), GR_REFUSE);
}

#define ONE "{\"x\": {\"data\": [{\"id\": \"a\", \"at\": 1700000000}]}}"

static void next_page(void **state)
{
    struct provider_list *list = &source.reconcile.list;

    (void)state;
    list->parameter = gr_strdup("after");
    list->paging = LISTING_LAST_ID;
    assert_int_equal(read_page(ONE, "", ""), GR_OK);
    assert_string_equal(page.next, "a");
    assert_int_equal(read_page(ONE, "a", ""), GR_REFUSE); /* names itself */
    list->paging = LISTING_OFFSET;
    assert_int_equal(read_page(ONE, "41", ""), GR_OK);
    assert_string_equal(page.next, "42");
    list->paging = LISTING_LINK;
    assert_int_equal(read_page(ONE, "",
                               "<https://api.example/v1?p=0>; rel=\"prev\", "
                               "<https://api.example/v1?p=2>; rel=\"next\""),
                     GR_OK);
    assert_string_equal(page.next, "https://api.example/v1?p=2");
    assert_int_equal(
        read_page(ONE, "", "<https://api.example.evil/v1>; rel=\"next\""),
        GR_REFUSE);
    assert_int_equal(
        read_page(ONE, "", "<https://api.example@evil/v1>; rel=\"next\""),
        GR_REFUSE);
    assert_int_equal(read_page(ONE, "", "<http://api.example/>; rel=\"next\""),
                     GR_REFUSE);
    assert_int_equal(read_page(ONE, "", "<>; rel=\"next\""), GR_REFUSE);
    assert_int_equal(read_page(ONE, "", "<<<<,,,"), GR_OK);
    assert_null(page.next);
    list->paging = LISTING_ONE_PAGE;
}

/* Only a page that says so is the last one; not one that cannot be understood. */
static void unreadable_next_page(void **state)
{
    struct provider_list *list = &source.reconcile.list;
    char *text = gr_alloc(8192);

    (void)state;
    list->paging = LISTING_LAST_ID;
    expr(&list->more, "json:/more");
    assert_int_equal(read_page(ONE, "", ""), GR_OK);
    assert_null(page.next);
    assert_int_equal(
        read_page("{\"x\": {\"data\": []}, \"more\": null}", "", ""), GR_OK);
    assert_int_equal(read_page("{\"x\": {\"data\": []}, \"more\": {}}", "", ""),
                     GR_REFUSE);
    assert_non_null(strstr(why, "list.more"));
    assert_int_equal(
        read_page("{\"x\": {\"data\": [7]}, \"more\": true}", "", ""),
        GR_REFUSE);
    assert_non_null(strstr(why, "no usable event"));
    expr_fini(&list->more);
    list->more = (struct expr){0};
    assert_int_equal(read_page("{\"x\": {\"data\": [7]}}", "", ""), GR_REFUSE);
    list->paging = LISTING_CURSOR;
    expr(&list->cursor, "json:/next");
    assert_int_equal(read_page(ONE, "", ""), GR_OK);
    assert_null(page.next);
    assert_int_equal(
        read_page("{\"x\": {\"data\": [7]}, \"next\": false}", "", ""), GR_OK);
    assert_null(page.next);
    assert_int_equal(
        read_page("{\"x\": {\"data\": [7]}, \"next\": [1]}", "", ""),
        GR_REFUSE);
    sprintf(text, "{\"x\": {\"data\": [7]}, \"next\": \"%05000d\"}", 1);
    assert_int_equal(read_page(text, "", ""), GR_REFUSE);
    assert_non_null(strstr(why, "list.cursor"));
    list->paging = LISTING_ONE_PAGE;
    free(text);
}

/* After a reload that removed it. */
static void no_event_url(void **state)
{
    struct listed item = {.text = {"{\"k\": 1}", 8}};

    (void)state;
    expr(&source.reconcile.list.key, "json:/k");
    assert_null(page_event_url(&source, &item));
}

static void urls(void **state)
{
    char *url = page_url(&source, 1700000000000, 1700000060000, "a b&c"),
         *header;

    (void)state;
    assert_string_equal(url, "https://api.example/v1?a=b&f=1700000000&t="
                             "1700000060&after=a%20b%26c");
    free(url);
    source.reconcile.list.times = LISTING_RFC3339;
    url = page_url(&source, 1700000000000, 1700000060000, "");
    assert_string_equal(url, "https://api.example/v1?a=b&f=2023-11-14T22:13:20Z"
                             "&t=2023-11-14T22:14:20Z");
    free(url);
    source.reconcile.list.auth = LISTING_BASIC;
    header = page_credentials(&source, "key");
    assert_string_equal(header, "Authorization: Basic a2V5Og==");
    free(header);
}

static void one_event(void **state)
{
    static const char text[] =
        "{\"request\": {\"headers\": {\"X-Kind\": \"made\", \"Authorization\": "
        "\"no\", \"X-Hub-Signature\": \"no\", \"Content-Type\": \"x\", \"a "
        "b\": "
        "\"no\", \"N\": 5, \"Y\": \"a\\r\\nb\"}, \"payload\": {\"id\": 1.10} "
        "}}";
    struct bytes body, value;
    struct buf headers;
    int count = 0;
    size_t at = 0;
    struct bytes name;

    (void)state;
    buf_init(&headers, 1024);
    expr(&source.reconcile.list.headers, "json:/request/headers");
    expr(&source.reconcile.list.body, "json:/request/payload");
    assert_int_equal(page_event(&source, (struct bytes){text, strlen(text)},
                                &headers, &body, why),
                     GR_OK);
    assert_int_equal(body.n, strlen("{\"id\": 1.10}"));
    assert_memory_equal(body.p, "{\"id\": 1.10}", body.n);
    while (headers_next((struct bytes){headers.data, headers.len}, &at, &name,
                        &value))
        count++;
    assert_int_equal(count, 2);
    assert_true(headers_get((struct bytes){headers.data, headers.len}, "x-kind",
                            &value, NULL));
    assert_int_equal(
        page_event(&source, (struct bytes){"{}", 2}, &headers, &body, why),
        GR_REFUSE);
    buf_fini(&headers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(items),
                                       cmocka_unit_test(next_page),
                                       cmocka_unit_test(unreadable_next_page),
                                       cmocka_unit_test(no_event_url),
                                       cmocka_unit_test(urls),
                                       cmocka_unit_test(one_event)};

    return cmocka_run_group_tests(tests, setup, NULL);
}
