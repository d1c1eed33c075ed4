/* subscriptions: the same response as route_is_subscribed(), with few of them judged. */
#include "route.h"
#include "subscriptions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENDPOINTS = 7, ROUTES = 4, WORDS = 4, ROUNDS = 1500, ASKED = 8 };

static size_t below(size_t n)
{
    return (size_t)random() % n;
}

/* ---- any settings ---- */

static char *names[] = {"e0", "e1", "e2", "e3", "e4", "e5", "e6", "gone"};
static char *sources[] = {"plane", "ledger", "p*"};
static char *policies[] = {"slow", "quick"};
static char *types[] = {"issue.created", "issue.*", "*", "cycle.created"};
static char *spaces[] = {"acme", "ac", "b", "", "ac*", "*"};

static struct where_test is_high = {.values = {(char *[]){(char *)"high"}, 1}};
static struct where_field priority = {
    .field = {.kind = EXPR_JSON, .text = (char *)"/p"},
    .tests = &is_high,
    .count = 1};

/* Of `n` words any, some perhaps twice; often none. */
static struct string_list any_of(char **words, size_t n)
{
    struct string_list list = {gr_alloc(WORDS * sizeof(char *)),
                               below(2) ? below(WORDS) : 0};

    for (size_t i = 0; i < list.count; i++)
        list.items[i] = words[below(n)];
    return list;
}

static struct where any_where(void)
{
    return below(4) ? (struct where){0} : (struct where){&priority, 1};
}

static struct settings any_settings(struct endpoint_settings *e,
                                    struct route *r)
{
    struct settings s = {.endpoints = e,
                         .endpoint_count = below(ENDPOINTS + 1),
                         .routes = r,
                         .route_count = below(ROUTES + 1)};

    for (size_t i = 0; i < ENDPOINTS; i++)
        e[i] = (struct endpoint_settings){
            .name = names[i],
            .enabled = below(5) > 0,
            .internal = below(9) == 0,
            .sources = any_of(sources, COUNT_OF(sources)),
            .types = any_of(types, COUNT_OF(types)),
            .workspaces = any_of(spaces, COUNT_OF(spaces)),
            .where = any_where()};
    for (size_t i = 0; i < ROUTES; i++)
        r[i] = (struct route){
            .sources = any_of(sources, COUNT_OF(sources)),
            .types = any_of(types, COUNT_OF(types)),
            .workspaces = any_of(spaces, COUNT_OF(spaces)),
            .endpoints = any_of(names, COUNT_OF(names)),
            .where = any_where(),
            .choice = {.policy = below(3) ? NULL : policies[below(2)],
                       .max_attempts = below(3) ? 0 : 3}};
    return s;
}

static void forget(struct endpoint_settings *e, struct route *r)
{
    for (size_t i = 0; i < ENDPOINTS; i++) {
        free(e[i].sources.items);
        free(e[i].types.items);
        free(e[i].workspaces.items);
    }
    for (size_t i = 0; i < ROUTES; i++) {
        free(r[i].sources.items);
        free(r[i].types.items);
        free(r[i].workspaces.items);
        free(r[i].endpoints.items);
    }
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

/* Backwards: that is their order in the response. */
static void number(size_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        numbers[i] = 2 * (n - 1 - i);
}

/* Which routes choose for this endpoint. */
static void compare_choice(const struct settings *s, struct subscriptions *all,
                           size_t i, struct subject *event)
{
    struct chosen_by want = route_chosen_by(s, s->endpoints[i].name, event);
    const struct chosen_by *got = subscriptions_chosen_by(
        all, 2 * (s->endpoint_count - 1 - i));

    assert_true((got ? got->policy : NULL) == want.policy);
    assert_true((got ? got->max_attempts : NULL) == want.max_attempts);
}

static size_t compare(const struct settings *s, struct subscriptions *all)
{
    struct subject event = any_subject();
    size_t count, k = 0;
    const size_t *subscribed = subscriptions_ask(all, &event, &count);

    for (size_t i = s->endpoint_count; i-- > 0;) {
        const struct endpoint_settings *e = &s->endpoints[i];

        if (e->internal || !route_is_subscribed(s, e, &event, NULL))
            continue;
        assert_true(k < count);
        assert_true(subscribed[k++] == 2 * (s->endpoint_count - 1 - i));
        compare_choice(s, all, i, &event);
    }
    assert_true(k == count);
    subject_fini(&event);
    return count;
}

static void the_index_decides_like_each_endpoint(void **state)
{
    size_t matches = 0;

    (void)state;
    srandom(20);
    for (int i = 0; i < ROUNDS; i++) {
        struct endpoint_settings e[ENDPOINTS];
        struct route r[ROUTES];
        size_t numbers[ENDPOINTS];
        struct settings s = any_settings(e, r);
        struct subscriptions *all;

        number(numbers, s.endpoint_count);
        all = subscriptions_new(&s, numbers, 2 * ENDPOINTS);
        for (int k = 0; k < ASKED; k++)
            matches += compare(&s, all);
        subscriptions_free(all);
        forget(e, r);
    }
    assert_true(matches > ROUNDS * ASKED / 4); /* else it shows nothing */
}

/* ---- thousands ---- */

enum { CUSTOMERS = 3000 };

/* A read of such a list crashes the test. */
static const struct string_list deadly = {.items = NULL, .count = 1};

static char strings[CUSTOMERS][16];
static char *items[CUSTOMERS + 1]; /* their names, and one of them again */
static struct endpoint_settings e[CUSTOMERS];
static size_t numbers[CUSTOMERS];

static void make_customers(void)
{
    for (size_t i = 0; i < CUSTOMERS; i++) {
        snprintf(strings[i], sizeof strings[i], "c%zu", i);
        items[i] = strings[i];
        numbers[i] = i;
        e[i] = (struct endpoint_settings){.name = items[i], .enabled = true};
    }
    items[CUSTOMERS] = strings[5];
}

static void only_subscriptions_of_its_workspace_are_judged(void **state)
{
    struct settings s = {.endpoints = e, .endpoint_count = CUSTOMERS};
    struct subject event = {.source = "app", .type = "t"};
    struct subscriptions *all;
    size_t count;

    (void)state;
    make_customers();
    for (size_t i = 0; i < CUSTOMERS; i++)
        e[i].workspaces = (struct string_list){&items[i], 1};
    all = subscriptions_new(&s, numbers, CUSTOMERS);
    for (size_t i = 0; i < CUSTOMERS; i++)
        e[i].sources = deadly;
    for (size_t i = 0; i < CUSTOMERS; i++) {
        e[i].sources = (struct string_list){0};
        event.workspace = items[i];
        assert_true(*subscriptions_ask(all, &event, &count) == i);
        assert_true(count == 1);
        e[i].sources = deadly;
    }
    event.workspace = "nobody's";
    subscriptions_ask(all, &event, &count);
    assert_true(count == 0);
    subscriptions_free(all);
}

/* What it names, and what they say themselves, was looked at before. */
static void a_route_is_judged_once_for_all_that_it_names(void **state)
{
    struct route r = {.endpoints = {items, CUSTOMERS + 1}};
    struct settings s = {.endpoints = e,
                         .endpoint_count = CUSTOMERS,
                         .routes = &r,
                         .route_count = 1};
    struct subject event = {.source = "app", .type = "t", .workspace = "w"};
    struct subscriptions *all;
    const size_t *subscribed;
    size_t count;

    (void)state;
    make_customers();
    all = subscriptions_new(&s, numbers, CUSTOMERS);
    r.endpoints = deadly;
    for (size_t i = 0; i < CUSTOMERS; i++)
        e[i].sources = deadly;
    subscribed = subscriptions_ask(all, &event, &count);
    assert_true(count == CUSTOMERS);
    for (size_t i = 0; i < CUSTOMERS; i++)
        assert_true(subscribed[i] == i);
    subscriptions_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_decides_like_each_endpoint),
        cmocka_unit_test(only_subscriptions_of_its_workspace_are_judged),
        cmocka_unit_test(a_route_is_judged_once_for_all_that_it_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
