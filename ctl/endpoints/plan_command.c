/* plan_command: `grapnel endpoints plan`: the retry plan of an endpoint, and what waits on it. */
#include "ask.h"
#include "clock.h"
#include "table.h"
#include <string.h>

enum { SHOWN = 40 }; /* attempts; --json prints all of the reply */

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* How many open deliveries have had so many attempts. */
static json_int_t waiting(const json_t *plan, json_int_t attempts)
{
    json_t *c;
    size_t i;

    json_array_foreach(json_object_get(plan, "counts"), i,
                       c) if (number(c, "attempts") ==
                              attempts) return number(c, "deliveries");
    return 0;
}

static void print_plan(struct ctl *c, const json_t *plan)
{
    static const char *const heads[] = {"ATTEMPT",         "WAIT",
                                        "WITH JITTER",     "AFTER THE FIRST",
                                        "DELIVERIES WAIT", NULL};
    const json_t *attempts = json_object_get(plan, "attempts");
    const char *end = text_of(plan, "gives_up");
    char wait[32], min[32], max[32], at[32];
    json_int_t beyond = 0;
    struct table t;
    json_t *a, *k;
    size_t i;

    printf("%s: %s, retry policy %s (%s); retried: %s\n", text_of(plan, "name"),
           text_of(plan, "state"), text_of(plan, "policy"),
           text_of(plan, "backoff"), text_of(plan, "retry_on"));
    table_init(&t, heads);
    json_array_foreach(attempts, i, a)
    {
        if (i == SHOWN)
            break;
        table_add(&t, PLAIN, "%zu", i + 1);
        table_add(&t, PLAIN, "%s",
                  i ? human_ms(number(a, "wait_ms"), wait) : "at once");
        if (number(a, "min_ms") == number(a, "max_ms"))
            table_add(&t, DIM, "none");
        else
            table_add(&t, DIM, "%s to %s", human_ms(number(a, "min_ms"), min),
                      human_ms(number(a, "max_ms"), max));
        table_add(&t, PLAIN, "%s", i ? human_ms(number(a, "at_ms"), at) : "");
        table_add(&t, PLAIN, "%lld", (long long)waiting(plan, (json_int_t)i));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
    json_array_foreach(json_object_get(plan, "counts"), i,
                       k) if (number(k, "attempts") >= SHOWN ||
                              number(k, "attempts") >=
                                  (json_int_t)json_array_size(attempts))
        beyond += number(k, "deliveries");
    if (beyond)
        printf("%lld wait for later attempts\n", (long long)beyond);
    if (json_is_true(json_object_get(plan, "counts_more")))
        printf("There may be more open deliveries than those.\n");
    if (json_array_size(attempts) > SHOWN)
        printf("… and %zu more attempts\n", json_array_size(attempts) - SHOWN);
    if (*end)
        printf("Dead letter after attempt %zu (%s).\n",
               json_array_size(attempts), end);
}

int run_endpoints_plan(struct ctl *c)
{
    const char *name = c->parsed.args[0];
    int code = 0;
    json_t *plan;

    if (!is_utf8("the name of the endpoint", name))
        return EXIT_USAGE;
    plan = ask_needed(c, "sequencer", "endpoint_plan",
                      json_pack("{s:s}", "name", name), ASK_MS, &code);
    if (!plan)
        return code;
    if (c->json)
        print_json(json_incref(plan));
    else
        print_plan(c, plan);
    json_decref(plan);
    return 0;
}
