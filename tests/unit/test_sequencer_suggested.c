/* Tests of what profiles suggest for `order: suggested` and `states: suggested`, with bodies as the providers
 * send them (PROVIDERS.md says which facts were not checked). */
#include "headers.h"
#include "parsed_event.h"
#include "profile.h"
#include "transitions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MS = 1000, SECOND = 1000 * MS };
#define THEN_US 1700000000000000LL /* 2023-11-14T22:13:20Z */

/* `%s` in the body is the earlier or the later time. */
static const struct timed {
    const char *provider, *header, *body, *earlier, *later;
    int64_t apart_us;
} timed[] = {
    {"plane", NULL,
     "{\"event\":\"issue\",\"action\":\"updated\",\"workspace_id\":\"w\","
     "\"data\":{\"id\":\"i\",\"updated_at\":\"%s\"}}",
     "2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:20.000007Z", 7},
    {"github", NULL,
     "{\"action\":\"labeled\",\"pull_request\":{\"id\":1,\"number\":7,"
     "\"updated_at\":\"%s\"},\"repository\":{\"full_name\":\"o/"
     "r\",\"updated_at\":\"2020-01-01T00:00:00Z\"}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z", SECOND},
    {"github", NULL,
     "{\"action\":\"created\",\"issue\":{\"id\":1,\"updated_at\":\"%s\"},"
     "\"comment\":{\"id\":2,\"updated_at\":\"2021-01-01T00:00:00Z\"}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:23Z", 3 * SECOND},
    {"standard-webhooks", NULL,
     "{\"type\":\"user.created\",\"timestamp\":\"%s\",\"data\":{}}",
     "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.007Z", 7 * MS},
    {"standard-webhooks-ed25519", NULL,
     "{\"type\":\"user.created\",\"timestamp\":\"%s\",\"data\":{}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:27Z", 7 * SECOND},
    {"stripe", NULL,
     "{\"id\":\"evt_1\",\"object\":\"event\",\"created\":%s,\"type\":\"charge."
     "succeeded\",\"livemode\":true,\"data\":{\"object\":{\"id\":\"ch_1\","
     "\"object\":\"charge\",\"created\":1,\"status\":\"succeeded\"}}}",
     "1700000000", "1700000001", SECOND},
    {"slack", NULL,
     "{\"type\":\"event_callback\",\"team_id\":\"T1\",\"event_id\":\"Ev1\","
     "\"event_time\":1,\"event\":{\"type\":\"message\",\"event_ts\":\"%s\"}}",
     "1700000000.000000", "1700000000.000200", 200},
    {"shopify", "X-Shopify-Triggered-At",
     "{\"id\":1,\"updated_at\":\"2020-01-01T00:00:00+01:00\"}",
     "2023-11-14T22:13:20.000000000Z", "2023-11-14T22:13:20.123456789Z",
     123456},
    {"shopify", NULL, "{\"id\":1,\"updated_at\":\"%s\"}",
     "2023-11-14T17:13:20-05:00", "2023-11-14T22:13:21+00:00", SECOND},
    {"omise", NULL,
     "{\"object\":\"event\",\"id\":\"evnt_1\",\"key\":\"charge.complete\","
     "\"created_at\":\"%s\",\"data\":{\"object\":\"charge\",\"id\":\"chrg_1\","
     "\"status\":\"successful\",\"created_at\":\"2020-01-01T00:00:00Z\"}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:22Z", 2 * SECOND},
    {"omise", NULL,
     "{\"object\":\"event\",\"id\":\"evnt_1\",\"key\":\"charge.complete\","
     "\"created\":\"%s\",\"data\":{}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:22Z", 2 * SECOND},
    {"linear", NULL,
     "{\"action\":\"update\",\"type\":\"Issue\",\"organizationId\":\"o\","
     "\"createdAt\":\"%s\",\"webhookTimestamp\":1700000999000,\"data\":{\"id\":"
     "\"i\"}}",
     "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.250Z", 250 * MS},
    {"discord", NULL,
     "{\"version\":1,\"application_id\":\"1\",\"type\":1,\"event\":{\"type\":"
     "\"ENTITLEMENT_CREATE\",\"timestamp\":\"%s\",\"data\":{}}}",
     "2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:20.000450Z", 450},
    {"zoom", NULL,
     "{\"event\":\"meeting.started\",\"event_ts\":%s,\"payload\":{\"account_"
     "id\":\"A\",\"object\":{\"id\":\"1\"}}}",
     "1700000000000", "1700000000345", 345 * MS},
    {"hubspot-v3", NULL,
     "{\"eventId\":1,\"subscriptionId\":12,\"portalId\":62515,\"occurredAt\":%"
     "s,\"subscriptionType\":\"contact.creation\",\"attemptNumber\":0}",
     "1700000000000", "1700000000001", MS},
    {"paddle", NULL,
     "{\"event_id\":\"evt_1\",\"event_type\":\"customer.created\",\"occurred_"
     "at\":\"%s\",\"notification_id\":\"ntf_1\",\"data\":{\"id\":\"ctm_1\","
     "\"updated_at\":\"2020-03-15T10:32:37.862Z\"}}",
     "2023-11-14T22:13:20.000000Z", "2023-11-14T22:13:20.286848Z", 286848},
    {"mailgun", NULL,
     "{\"signature\":{\"token\":\"t\",\"timestamp\":\"1\",\"signature\":\"s\"},"
     "\"event-data\":{\"id\":\"1\",\"event\":\"delivered\",\"timestamp\":%s}}",
     "1700000000.5", "1700000000.75", 250 * MS},
    {"sendgrid", NULL,
     "{\"email\":\"a@b.c\",\"event\":\"delivered\",\"sg_event_id\":\"1\","
     "\"timestamp\":%s}",
     "1700000000", "1700000009", 9 * SECOND},
    {"typeform", NULL,
     "{\"event_id\":\"01H\",\"event_type\":\"form_response\",\"form_response\":"
     "{\"form_id\":\"f\",\"submitted_at\":\"%s\"}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z", SECOND},
    {"intercom", NULL,
     "{\"type\":\"notification_event\",\"app_id\":\"x\",\"topic\":"
     "\"conversation.user.created\",\"id\":\"notif_1\",\"created_at\":%s,"
     "\"data\":{\"item\":{}}}",
     "1700000000", "1700000001", SECOND},
    {"zendesk", NULL,
     "{\"type\":\"zen:event-type:organization.created\",\"account_id\":1,"
     "\"id\":\"a\",\"time\":\"%s\",\"detail\":{\"updated_at\":\"2020-07-07T03:"
     "44:13Z\"}}",
     "2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z", SECOND},
    {"bitbucket", NULL,
     "{\"repository\":{\"full_name\":\"a/"
     "b\",\"updated_on\":\"2020-01-01T00:00:00+00:00\"},\"pullrequest\":{"
     "\"id\":1,\"updated_on\":\"%s\"}}",
     "2023-11-14T22:13:20.000000+00:00", "2023-11-14T22:13:20.000100+00:00",
     100},
    {"jira", NULL,
     "{\"timestamp\":%s,\"webhookEvent\":\"jira:issue_updated\",\"issue\":{"
     "\"id\":\"1\"}}",
     "1700000000000", "1700000000002", 2 * MS},
    {"vercel", NULL,
     "{\"id\":\"uev_1\",\"type\":\"deployment.created\",\"createdAt\":%s,"
     "\"payload\":{\"team\":{\"id\":\"team_1\"}}}",
     "1700000000000", "1700000000003", 3 * MS},
    {"square", NULL,
     "{\"merchant_id\":\"m\",\"type\":\"payment.updated\",\"event_id\":\"e\","
     "\"created_at\":\"%s\",\"data\":{\"type\":\"payment\"}}",
     "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.123Z", 123 * MS},
    {"paypal", NULL,
     "{\"id\":\"WH-1\",\"create_time\":\"%s\",\"event_type\":\"PAYMENT.SALE."
     "COMPLETED\",\"resource\":{\"id\":\"8\",\"create_time\":\"2020-02-11T21:"
     "50:00Z\"}}",
     "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.900Z", 900 * MS},
};

/* ---- one event ---- */

static void parse(struct parsed_event *f, const char *provider,
                  const char *header, const char *value, const char *body)
{
    const struct profile *p = profile_find(provider);
    struct source source = *profile_source(p); /* borrowed */
    struct subject s = {.source = "s", .provider = provider};
    struct buf headers;

    source.order = *profile_order(p);
    source.states = *profile_states(p);
    source.name = (char *)"s";
    buf_init(&headers, 4096);
    if (header)
        headers_put(&headers, header, (struct bytes){value, strlen(value)});
    s.headers = (struct bytes){headers.data, headers.len};
    s.body = (struct bytes){body, strlen(body)};
    parsed_event_make(f, &source, &s, NULL, 0);
    subject_fini(&s);
    buf_fini(&headers);
}

static bool position(const struct timed *t, const char *time, int64_t *us)
{
    const char *at = strstr(t->body, "%s");
    struct parsed_event f;
    struct buf body;
    bool has;

    buf_init(&body, 4096);
    buf_put(&body, t->body, at ? (size_t)(at - t->body) : strlen(t->body));
    if (at)
        buf_printf(&body, "%s%s", time, at + 2);
    parse(&f, t->provider, t->header, time, body.data);
    buf_fini(&body);
    if (f.refused)
        fail_msg("%s: %s", t->provider, f.refused);
    has = f.has_position;
    *us = f.position;
    parsed_event_fini(&f);
    return has;
}

/* ---- order ---- */

static void each_suggested_order_sees_which_event_is_the_later_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(timed); i++) {
        const struct timed *t = &timed[i];
        int64_t earlier, later;

        assert_true(position(t, t->earlier, &earlier));
        assert_true(position(t, t->later, &later));
        if (earlier / SECOND != THEN_US / SECOND ||
            later - earlier != t->apart_us)
            fail_msg("%s: %lld and %lld", t->provider, (long long)earlier,
                     (long long)later);
    }
}

static void every_suggestion_is_tested(void **state)
{
    (void)state;
    for (size_t i = 0; profile_name(i); i++) {
        bool tested = false;

        for (size_t k = 0; k < COUNT_OF(timed); k++)
            tested |= strcmp(timed[k].provider, profile_name(i)) == 0;
        if (tested != profile_has_order(profile_find(profile_name(i))))
            fail_msg("%s: a suggestion without a test, or the reverse",
                     profile_name(i));
    }
}

static void an_event_without_its_time_is_not_refused(void **state)
{
    static const char *const bodies[] = {
        "{}", "[]",
        "{\"created\":\"soon\",\"timestamp\":{},\"createdAt\":null}", "x=1"};

    (void)state;
    for (size_t i = 0; profile_name(i); i++)
        for (size_t k = 0; k < COUNT_OF(bodies); k++) {
            const struct profile *p = profile_find(profile_name(i));
            struct parsed_event plain, f;
            struct source source = *profile_source(p);
            struct subject s = {.source = "s", .provider = profile_name(i)};

            if (!profile_has_order(p) && !profile_has_states(p))
                continue;
            source.name = (char *)"s";
            s.body = (struct bytes){bodies[k], strlen(bodies[k])};
            parsed_event_make(&plain, &source, &s, NULL, 0);
            subject_fini(&s);
            parse(&f, profile_name(i), NULL, NULL, bodies[k]);
            if (!plain.refused != !f.refused || f.has_position ||
                f.has_transition)
                fail_msg("%s: %s: %s", profile_name(i), bodies[k],
                         f.refused ? f.refused : "has a position");
            parsed_event_fini(&plain);
            parsed_event_fini(&f);
        }
}

/* ---- states ---- */

#define STRIPE(type, object, id, status)                                      \
    "{\"id\":\"evt_1\",\"object\":\"event\",\"created\":1700000000,\"type\":" \
    "\"" type "\",\"data\":{\"object\":{\"id\":\"" id                         \
    "\",\"object\":\"" object "\",\"status\":\"" status "\"}}}"
#define OMISE(key, status)                                             \
    "{\"object\":\"event\",\"id\":\"evnt_1\",\"key\":\"" key           \
    "\",\"data\":{\"object\":\"charge\",\"id\":\"chrg_1\",\"status\":" \
    "\"" status "\"}}"
#define TWILIO(status) \
    "MessageSid=SM1&MessageStatus=" status "&To=%2B1555&AccountSid=AC1"
#define PI(type, status) \
    STRIPE("payment_intent." type, "payment_intent", "pi_1", status)
#define SUB(type, status) \
    STRIPE("customer.subscription." type, "subscription", "sub_1", status)
#define INV(type, status) STRIPE("invoice." type, "invoice", "in_1", status)

/* In order, nothing is found; with the last two swapped, the last one is invalid. */
static const struct story {
    const char *provider;
    const char *bodies[6];
} stories[] = {
    {"stripe",
     {PI("created", "requires_payment_method"),
      PI("requires_action", "requires_action"), PI("processing", "processing"),
      PI("succeeded", "succeeded")}},
    {"stripe",
     {PI("created", "requires_payment_method"),
      PI("payment_failed", "requires_payment_method"),
      PI("amount_capturable_updated", "requires_capture"),
      PI("canceled", "canceled")}},
    {"stripe", {SUB("created", "incomplete"), SUB("updated", "active")}},
    {"stripe",
     {SUB("created", "trialing"), SUB("updated", "active"),
      SUB("updated", "past_due"), SUB("updated", "past_due"),
      SUB("deleted", "canceled")}},
    {"stripe", {INV("created", "draft"), INV("finalized", "open")}},
    {"stripe",
     {INV("finalized", "open"), INV("payment_failed", "open"),
      INV("paid", "paid")}},
    {"omise",
     {OMISE("charge.create", "pending"),
      OMISE("charge.complete", "successful")}},
    {"omise",
     {OMISE("charge.create", "pending"), OMISE("charge.expire", "expired")}},
    {"twilio", {TWILIO("queued"), TWILIO("sent"), TWILIO("delivered")}},
    {"twilio", {TWILIO("sending"), TWILIO("delivered"), TWILIO("read")}},
};

/* From the state of `from` (NULL: none) to that of `to`. */
static bool is_valid(const char *provider, const char *from, const char *to)
{
    const struct state_rules *r = profile_states(profile_find(provider));
    struct parsed_event a, b;
    bool valid;

    parse(&b, provider, NULL, NULL, to);
    assert_null(b.refused);
    assert_true(b.has_transition);
    if (!from) {
        valid = transition_is_valid(r, NULL, b.state.data);
        parsed_event_fini(&b);
        return valid;
    }
    parse(&a, provider, NULL, NULL, from);
    assert_string_equal(a.object.data, b.object.data);
    valid = transition_is_valid(r, a.state.data, b.state.data);
    parsed_event_fini(&a);
    parsed_event_fini(&b);
    return valid;
}

static void states_in_order_are_valid_and_swapped_ones_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(stories); i++) {
        const struct story *s = &stories[i];
        size_t n = 0;

        for (; n < COUNT_OF(s->bodies) && s->bodies[n]; n++) {
            assert_true(is_valid(s->provider, NULL, s->bodies[n]));
            if (n && !is_valid(s->provider, s->bodies[n - 1], s->bodies[n]))
                fail_msg("story %zu: event %zu is invalid", i, n);
        }
        if (is_valid(s->provider, s->bodies[n - 1], s->bodies[n - 2]))
            fail_msg("story %zu: swapped events are not found", i);
    }
}

static void other_events_have_no_transition(void **state)
{
    static const struct {
        const char *provider, *body;
    } others[] = {
        {"stripe", STRIPE("charge.succeeded", "charge", "ch_1", "succeeded")},
        {"stripe", "{\"id\":\"evt_1\",\"type\":\"invoice.upcoming\","
                   "\"created\":1700000000,\"data\":{\"object\":{\"object\":"
                   "\"invoice\",\"status\":\"draft\"}}}"},
        {"omise", OMISE("transfer.create", "pending")},
        {"twilio", "CallSid=CA1&CallStatus=completed&AccountSid=AC1"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        struct parsed_event f;

        parse(&f, others[i].provider, NULL, NULL, others[i].body);
        assert_null(f.refused);
        assert_false(f.has_transition);
        parsed_event_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            each_suggested_order_sees_which_event_is_the_later_one),
        cmocka_unit_test(every_suggestion_is_tested),
        cmocka_unit_test(an_event_without_its_time_is_not_refused),
        cmocka_unit_test(states_in_order_are_valid_and_swapped_ones_are_found),
        cmocka_unit_test(other_events_have_no_transition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
