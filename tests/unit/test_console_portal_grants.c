/* Tests of the portal's links and tokens: what ends them, how many there are, and what they say of their user. */
#include "portal_grants.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct api_actor of(const char *workspace)
{
    struct api_actor a;

    portal_actor(&a, workspace, "", false);
    return a;
}

static struct portal_grant *find(struct portal_grants *g, const char *token,
                                 int64_t mono_ms)
{
    char digest[TOKEN_DIGEST_BYTES + 1];

    token_digest(token, strlen(token), digest);
    return portal_token_find(g, digest, mono_ms);
}

static void drop_over(struct portal_grants *g, int64_t mono_ms, int expected)
{
    struct portal_grant *over;
    int count = 0;

    while ((over = portal_tokens_over(g, mono_ms))) {
        free(over);
        count++;
    }
    assert_int_equal(count, expected);
}

static void test_a_link_works_once(void **state)
{
    struct portal_grants *g = portal_grants_open();
    char secret[SECRET_BYTES + 1], other[SECRET_BYTES + 1];
    struct api_actor acme, who;

    (void)state;
    portal_actor(&acme, "acme", "anna", true);
    portal_link_make(g, &acme, 1, secret);
    assert_int_equal(strlen(secret), SECRET_BYTES);
    assert_false(portal_link_use(g, "", 1, &who));
    assert_false(portal_link_use(g, "x", 1, &who));
    assert_true(portal_link_use(g, secret, PORTAL_LINK_LIFE_MS, &who));
    assert_int_equal(who.role, ROLE_WORKSPACE);
    assert_true(who.read_only);
    assert_string_equal(who.workspace, "acme");
    assert_string_equal(who.name, "portal anna");
    assert_false(portal_link_use(g, secret, 2, &who));
    portal_link_make(g, &acme, 1, secret);
    portal_link_make(g, &acme, 2, other);
    assert_false(portal_link_use(g, secret, 1 + PORTAL_LINK_LIFE_MS, &who));
    assert_true(portal_link_use(g, other, 1 + PORTAL_LINK_LIFE_MS, &who));
    portal_grants_close(g);
}

static void test_a_token_ends(void **state)
{
    struct portal_grants *g = portal_grants_open();
    char token[PORTAL_TOKEN_BYTES + 1], other[PORTAL_TOKEN_BYTES + 1];
    struct api_actor acme = of("acme");
    struct portal_grant *grant;

    (void)state;
    portal_token_make(g, &acme, 1, token);
    portal_token_make(g, &acme, 2, other);
    assert_int_equal(strlen(token), PORTAL_TOKEN_BYTES);
    assert_true(portal_token_form(token));
    assert_false(portal_token_form("grp_x"));
    assert_string_not_equal(token, other);
    grant = find(g, token, 1);
    assert_non_null(grant);
    assert_null(strstr(grant->digest, token + 5)); /* it is not kept */
    assert_null(find(g, "grpp_", 1));
    assert_non_null(find(g, token, PORTAL_TOKEN_LIFE_MS));
    assert_null(find(g, token, 1 + PORTAL_TOKEN_LIFE_MS));
    drop_over(g, 1 + PORTAL_TOKEN_LIFE_MS, 1);
    /* by its user, who may do so twice */
    grant = find(g, other, 2);
    portal_token_end(g, grant);
    portal_token_end(g, grant);
    assert_null(find(g, other, 2));
    drop_over(g, 2, 1);
    portal_token_make(g, &acme, 3, token); /* not freed: the close does it */
    portal_token_end(g, find(g, token, 3));
    portal_grants_close(g);
}

static void test_a_workspace_ends_only_its_own(void **state)
{
    struct portal_grants *g = portal_grants_open();
    char theirs[PORTAL_TOKEN_BYTES + 1], token[PORTAL_TOKEN_BYTES + 1],
        first[PORTAL_TOKEN_BYTES + 1], link[SECRET_BYTES + 1],
        secret[SECRET_BYTES + 1];
    struct api_actor acme = of("acme"), bravo = of("bravo"), who;

    (void)state;
    portal_token_make(g, &bravo, 1, theirs);
    portal_link_make(g, &bravo, 1, link);
    portal_token_make(g, &acme, 2, first);
    for (int i = 1; i < 3 * PORTAL_TOKENS_OF_WORKSPACE_MAX; i++)
        portal_token_make(g, &acme, 3, token);
    for (int i = 0; i < 3 * PORTAL_LINKS_OF_WORKSPACE_MAX; i++)
        portal_link_make(g, &acme, 3, secret);
    drop_over(g, 4, 2 * PORTAL_TOKENS_OF_WORKSPACE_MAX);
    assert_null(find(g, first, 4));
    assert_non_null(find(g, token, 4));
    assert_non_null(find(g, theirs, 4));
    assert_true(portal_link_use(g, link, 4, &who));
    assert_string_equal(who.workspace, "bravo");
    portal_grants_close(g);
}

static void test_the_number_of_all_is_bounded(void **state)
{
    struct portal_grants *g = portal_grants_open();
    char token[PORTAL_TOKEN_BYTES + 1], first[PORTAL_TOKEN_BYTES + 1],
        link[SECRET_BYTES + 1], secret[SECRET_BYTES + 1], name[16];
    struct api_actor who;

    (void)state;
    who = of("first");
    portal_token_make(g, &who, 1, first);
    portal_link_make(g, &who, 1, link);
    for (int i = 0; i < PORTAL_LINKS_MAX; i++) {
        snprintf(name, sizeof name, "w%d", i);
        who = of(name);
        portal_token_make(g, &who, 2, token);
        portal_link_make(g, &who, 2, secret);
    }
    assert_null(find(g, first, 2));
    assert_non_null(find(g, token, 2));
    drop_over(g, 2, 1 + PORTAL_LINKS_MAX - PORTAL_TOKENS_MAX);
    assert_false(portal_link_use(g, link, 2, &who));
    assert_true(portal_link_use(g, secret, 2, &who));
    portal_grants_close(g);
}

static bool is_acme(void *self, const char *workspace)
{
    (void)self;
    return strcmp(workspace, "acme") == 0;
}

static void test_an_erased_workspace_ends_all_of_it(void **state)
{
    struct portal_grants *g = portal_grants_open();
    char token[PORTAL_TOKEN_BYTES + 1], theirs[PORTAL_TOKEN_BYTES + 1],
        link[SECRET_BYTES + 1];
    struct api_actor acme = of("acme"), other = of("acme2"), who;

    (void)state;
    portal_token_make(g, &acme, 1, token);
    portal_token_make(g, &other, 1, theirs);
    portal_link_make(g, &acme, 1, link);
    portal_end_workspaces(g, is_acme, NULL);
    assert_null(find(g, token, 1));
    assert_non_null(find(g, theirs, 1));
    assert_false(portal_link_use(g, link, 1, &who));
    drop_over(g, 1, 1);
    portal_grants_close(g);
}

/* Of lists and idempotency keys: the same after a renewal, another one for somebody else. */
static void test_owners(void **state)
{
    struct api_actor a, b;

    (void)state;
    portal_actor(&a, "acme", "anna", false);
    portal_actor(&b, "acme", "anna", false);
    assert_string_equal(a.owner, b.owner);
    portal_actor(&b, "acme", "anna", true);
    assert_string_not_equal(a.owner, b.owner);
    portal_actor(&b, "acme anna", "", false);
    assert_string_not_equal(a.owner, b.owner);
    assert_string_equal(b.name, "portal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_works_once),
        cmocka_unit_test(test_a_token_ends),
        cmocka_unit_test(test_a_workspace_ends_only_its_own),
        cmocka_unit_test(test_the_number_of_all_is_bounded),
        cmocka_unit_test(test_an_erased_workspace_ends_all_of_it),
        cmocka_unit_test(test_owners),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
