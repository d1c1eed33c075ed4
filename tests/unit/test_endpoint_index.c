/* endpoint_index: the same response as each subscription's own, after any changes, with few
 * of them judged and little memory for each. */
#include "endpoint_index.h"
#include "route.h"
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENDPOINTS = 40, WORDS = 4, ROUNDS = 20000 };

static size_t below(size_t n)
{
    return (size_t)random() % n;
}

/* ---- random subscriptions, in a table of their own and in the index ---- */

static const char *const sources[] = {"plane", "ledger", "p*"};
static const char *const types[] = {"issue.created", "issue.*", "*",
                                    "cycle.created"};
static const char *const spaces[] = {"acme", "ac", "b", "", "ac*", "*"};

static struct string_list any_of(const char *const *words, size_t n)
{
    struct string_list list = {0};
    size_t count = below(2) ? below(WORDS) : 0;

    for (size_t i = 0; i < count; i++)
        string_list_add(&list, words[below(n)]);
    return list;
}

static struct string_list copy_list(const struct string_list *from)
{
    struct string_list list = {0};

    for (size_t i = 0; i < from->count; i++)
        string_list_add(&list, from->items[i]);
    return list;
}

static struct where priority(void)
{
    struct where w = {gr_alloc(sizeof *w.fields), 1};
    const char *why;

    assert_true(expr_parse(&w.fields->field, "json:/p", &why) == GR_OK);
    w.fields->tests = gr_alloc(sizeof *w.fields->tests);
    w.fields->count = 1;
    string_list_add(&w.fields->tests->values, "high");
    return w;
}

static struct own_subscription any_subscription(void)
{
    return (struct own_subscription){any_of(sources, COUNT_OF(sources)),
                                     any_of(types, COUNT_OF(types)),
                                     any_of(spaces, COUNT_OF(spaces)),
                                     below(4) ? (struct where){0} : priority()};
}

static struct subject any_subject(void)
{
    static const char *const bodies[] = {"{\"p\":\"high\"}", "{\"p\":1}", "?"};
    const char *body = bodies[below(COUNT_OF(bodies))];

    return (struct subject){.source = sources[below(2)],
                            .type = below(2) ? "issue.created"
                                             : "cycle.created",
                            .workspace = spaces[below(4)],
                            .body = {body, strlen(body)}};
}

struct expected {
    bool there[ENDPOINTS];
    struct own_subscription is[ENDPOINTS];
};

static void forget(struct expected *want, size_t i)
{
    if (want->there[i])
        own_subscription_fini(&want->is[i]);
    want->there[i] = false;
}

static void change(struct expected *want, struct endpoint_index *all)
{
    size_t i = below(ENDPOINTS);
    struct own_subscription o;

    forget(want, i);
    if (below(3) == 0) {
        endpoint_index_drop(all, i);
        return;
    }
    o = any_subscription();
    want->there[i] = true;
    want->is[i] = (struct own_subscription){
        copy_list(&o.sources), copy_list(&o.types), copy_list(&o.workspaces),
        o.where.count ? priority() : (struct where){0}};
    endpoint_index_put(all, i, &o);
    assert_true(!o.sources.items && !o.types.items && !o.workspaces.items &&
                !o.where.fields);
}

static size_t compare(const struct expected *want, struct endpoint_index *all)
{
    struct subject event = any_subject();
    size_t count, k = 0;
    const size_t *subscribed = endpoint_index_ask(all, &event, &count);

    for (size_t i = 0; i < ENDPOINTS; i++) {
        const struct own_subscription *o = &want->is[i];
        const struct subscription w = {&o->sources, &o->types, &o->workspaces,
                                       &o->where};

        assert_true(want->there[i] == (endpoint_index_get(all, i) != NULL));
        if (!want->there[i] || !subscription_takes(&w, &event, NULL))
            continue;
        assert_true(k < count);
        assert_true(subscribed[k++] == i);
    }
    assert_true(k == count);
    subject_fini(&event);
    return count;
}

static void the_index_decides_like_each_subscription(void **state)
{
    struct endpoint_index *all = endpoint_index_new();
    struct expected want = {0};
    size_t matches = 0;

    (void)state;
    srandom(21);
    for (int i = 0; i < ROUNDS; i++) {
        change(&want, all);
        matches += compare(&want, all);
    }
    assert_true(matches > ROUNDS); /* else it shows nothing */
    for (size_t i = 0; i < ENDPOINTS; i++)
        forget(&want, i);
    endpoint_index_free(all);
}

static void it_has_the_subscription_as_it_was_put(void **state)
{
    struct endpoint_index *all = endpoint_index_new();
    struct own_subscription o = {.where = priority()};
    const struct own_subscription *got;

    (void)state;
    string_list_add(&o.types, "a.b");
    string_list_add(&o.types, "c.*");
    string_list_add(&o.workspaces, "w1");
    endpoint_index_put(all, 7, &o);
    got = endpoint_index_get(all, 7);
    assert_true(got && got->types.count == 2 && !got->sources.count);
    assert_string_equal(got->types.items[0], "a.b");
    assert_string_equal(got->types.items[1], "c.*");
    assert_string_equal(got->workspaces.items[0], "w1");
    assert_string_equal(got->where.fields->tests->values.items[0], "high");
    assert_null(endpoint_index_get(all, 6));
    assert_null(endpoint_index_get(all, 1000000));
    endpoint_index_drop(all, 1000000);
    endpoint_index_free(all);
    endpoint_index_free(NULL);
}

/* ---- thousands ---- */

enum { CUSTOMERS = 100000, ROOM_BYTES = 250 };

static void put_customer(struct endpoint_index *all, size_t i,
                         const char *workspace)
{
    struct own_subscription o = {0};

    string_list_add(&o.workspaces, workspace);
    string_list_add(&o.types, "invoice.*");
    endpoint_index_put(all, i, &o);
}

/* A read of such a list crashes the test. */
static const struct string_list deadly = {.items = NULL, .count = 1};

static struct string_list *sources_of(struct endpoint_index *all, size_t i)
{
    return (struct string_list *)(uintptr_t)&endpoint_index_get(all, i)
        ->sources;
}

/* 0 under a sanitizer, which brings an allocator of its own. */
static size_t allocated(void)
{
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

static void only_subscriptions_of_its_workspace_are_judged(void **state)
{
    struct endpoint_index *all = endpoint_index_new();
    struct subject event = {.source = "app", .type = "invoice.paid"};
    char workspace[40];
    size_t count, before = allocated(), bytes;

    (void)state;
    for (size_t i = 0; i < CUSTOMERS; i++) {
        snprintf(workspace, sizeof workspace, "customer-%zu", i);
        put_customer(all, i, workspace);
    }
    bytes = allocated() - before;
    print_message("%zu bytes for each of %d endpoints\n", bytes / CUSTOMERS,
                  CUSTOMERS);
    assert_true(bytes / CUSTOMERS < ROOM_BYTES);
    for (size_t i = 0; i < CUSTOMERS; i++)
        *sources_of(all, i) = deadly;
    for (size_t i = 0; i < CUSTOMERS; i++) {
        snprintf(workspace, sizeof workspace, "customer-%zu", i);
        *sources_of(all, i) = (struct string_list){0};
        event.workspace = workspace;
        assert_true(*endpoint_index_ask(all, &event, &count) == i);
        assert_true(count == 1);
        *sources_of(all, i) = deadly;
    }
    event.workspace = "nobody's";
    endpoint_index_ask(all, &event, &count);
    assert_true(count == 0);
    endpoint_index_free(all);
}

/* With a cost that grows with the others, these loops would not end in the test's time. */
static void changes_do_not_depend_on_the_others(void **state)
{
    static const char *const groups[] = {"one", "*"};

    (void)state;
    for (size_t k = 0; k < COUNT_OF(groups); k++) {
        struct endpoint_index *all = endpoint_index_new();
        struct subject event = {
            .source = "app", .type = "invoice.paid", .workspace = "one"};
        size_t count;

        for (size_t i = 0; i < CUSTOMERS; i++)
            put_customer(all, i, groups[k]);
        for (size_t i = 0; i < CUSTOMERS; i++)
            put_customer(all, i, groups[k]);
        endpoint_index_ask(all, &event, &count);
        assert_true(count == CUSTOMERS);
        for (size_t i = 0; i < CUSTOMERS; i++)
            if (i != 5)
                endpoint_index_drop(all, i);
        assert_true(*endpoint_index_ask(all, &event, &count) == 5);
        assert_true(count == 1);
        endpoint_index_free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_decides_like_each_subscription),
        cmocka_unit_test(it_has_the_subscription_as_it_was_put),
        cmocka_unit_test(only_subscriptions_of_its_workspace_are_judged),
        cmocka_unit_test(changes_do_not_depend_on_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
