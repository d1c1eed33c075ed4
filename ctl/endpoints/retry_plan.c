/* retry_plan: `grapnel retry-plan`: the waits of a retry policy, its end, and the load that an
 * endpoint gets after an outage. */
#include "clock.h"
#include "conf.h"
#include "ctl.h"
#include "plan.h"
#include "table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENTS_MAX = 1000000,
    ROWS = 24,      /* of a drawing */
    BAR_CELLS = 48, /* its longest bar */
    SHOWN = 40,     /* attempts in the table; --json prints all */
};

static const char *const kinds[] = {[BACKOFF_EXPONENTIAL] = "exponential",
                                    [BACKOFF_FIXED] = "fixed",
                                    [BACKOFF_SCHEDULE] = "schedule"};

/* ---- JSON ---- */

static json_t *plan_json(const struct retry_policy *policy,
                         const struct plan *p)
{
    json_t *attempts = json_array();

    for (size_t i = 0; i < p->count; i++) {
        const struct plan_attempt *a = &p->attempts[i];

        json_array_append_new(
            attempts,
            json_pack("{s:I,s:I,s:I,s:I,s:I}", "n", (json_int_t)i + 1,
                      "wait_ms", (json_int_t)a->wait_ms, "min_ms",
                      (json_int_t)a->min_ms, "max_ms", (json_int_t)a->max_ms,
                      "at_ms", (json_int_t)a->at_ms));
    }
    return json_pack("{s:s,s:s,s:o,s:{s:s,s:I,s:I}}", "policy", policy->name,
                     "backoff", kinds[policy->backoff], "attempts", attempts,
                     "gives_up", "reason",
                     p->cut                            ? "not yet"
                     : p->end == BACKOFF_ATTEMPTS_USED ? "budget_attempts"
                                                       : "budget_time",
                     "attempts", (json_int_t)p->count, "after_ms",
                     (json_int_t)p->attempts[p->count - 1].at_ms);
}

static json_t *load_json(const struct load *l, const struct load *even,
                         int64_t events, int64_t outage_ms)
{
    int64_t parts[ROWS], part_s = load_parts(l, parts, ROWS);
    json_t *drawn = json_array();

    for (int i = 0; i < ROWS; i++)
        json_array_append_new(drawn, json_integer(parts[i]));
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o}", "events",
        (json_int_t)events, "outage_ms", (json_int_t)outage_ms, "delivered",
        (json_int_t)l->delivered, "dead", (json_int_t)l->dead,
        "attempts_in_outage", (json_int_t)l->in_vain, "p50_ms",
        (json_int_t)l->p50_ms, "p95_ms", (json_int_t)l->p95_ms, "last_ms",
        (json_int_t)l->last_ms, "peak_per_s", (json_int_t)l->peak_per_s,
        "peak_per_s_without_jitter", (json_int_t)even->peak_per_s, "part_s",
        (json_int_t)part_s, "load", drawn);
}

/* ---- text output ---- */

static void print_plan(struct ctl *c, const struct retry_policy *policy,
                       const struct plan *p)
{
    static const char *const heads[] = {"ATTEMPT", "WAIT", "WITH JITTER",
                                        "AFTER THE FIRST", NULL};
    char wait[32], min[32], max[32], at[32], budget[32];
    struct table t;

    table_init(&t, heads);
    for (size_t i = 0; i < p->count && i < SHOWN; i++) {
        const struct plan_attempt *a = &p->attempts[i];

        table_add(&t, PLAIN, "%zu", i + 1);
        table_add(&t, PLAIN, "%s", i ? human_ms(a->wait_ms, wait) : "at once");
        if (a->min_ms == a->max_ms)
            table_add(&t, DIM, "none");
        else
            table_add(&t, DIM, "%s to %s", human_ms(a->min_ms, min),
                      human_ms(a->max_ms, max));
        table_add(&t, PLAIN, "%s", i ? human_ms(a->at_ms, at) : "");
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
    if (p->count > SHOWN)
        printf("… and %zu more\n", p->count - SHOWN);
    human_ms(p->attempts[p->count - 1].at_ms, at);
    if (p->cut)
        printf("The retries do not end: there were %zu attempts in %s.\n",
               p->count, at);
    else if (p->end == BACKOFF_ATTEMPTS_USED)
        printf("Dead letter after attempt %zu, %s after the first "
               "(budget_attempts).\n",
               p->count, at);
    else
        printf("Dead letter after attempt %zu, %s after the first, because the "
               "next would be after %s\n(budget_time).\n",
               p->count, at, human_ms(policy->max_duration_ms, budget));
}

static void print_load(struct ctl *c, const struct load *l,
                       const struct load *even, int64_t events,
                       int64_t outage_ms)
{
    int64_t parts[ROWS], part_s = load_parts(l, parts, ROWS), max = 0;
    char a[32], b[32], d[32];

    for (int i = 0; i < ROWS; i++)
        max = parts[i] > max ? parts[i] : max;
    printf("\n%s%" PRId64 " events, and an outage of %s%s\n",
           colour_on(BOLD, c->colour), events, human_ms(outage_ms, a),
           colour_off(BOLD, c->colour));
    printf("failed %" PRId64 " attempts; dead %" PRId64 "; delivered %" PRId64
           "\n",
           l->in_vain, l->dead, l->delivered);
    if (!l->delivered)
        return;
    printf("after the recovery: half within %s, 95 of 100 within %s, the last "
           "after %s\n",
           human_ms(l->p50_ms, a), human_ms(l->p95_ms, b),
           human_ms(l->last_ms, d));
    printf("at most %" PRId64 " in one second; without jitter it would be "
           "%" PRId64 "\n\n",
           l->peak_per_s, even->peak_per_s);
    for (int i = 0; i < ROWS && i * part_s * SECOND_MS <= l->last_ms; i++) {
        printf("%10s  ", human_ms(i * part_s * SECOND_MS, a));
        for (int64_t k = 0;
             max > 0 && k < (parts[i] * BAR_CELLS + max - 1) / max; k++)
            printf("█");
        printf(" %" PRId64 "\n", parts[i]);
    }
    printf(
        "\nThis shows the timers alone. In practice, the first success makes "
        "Grapnel deliver the waiting\nevents at once, at a growing rate.\n");
}

/* ---- run ---- */

/* --simulate and --outage. false: the error was printed. */
static bool simulation_options(struct ctl *c, int64_t *events,
                               int64_t *outage_ms)
{
    const char *simulate = parsed_value(&c->parsed, "--simulate");
    const char *outage = parsed_value(&c->parsed, "--outage"), *why = "";

    *events = *outage_ms = 0;
    if (!simulate != !outage) {
        complain(EXIT_USAGE,
                 "--simulate EVENTS and --outage D need each other");
        return false;
    }
    if (!simulate)
        return true;
    if (conf_parse_int(simulate, events, &why) != GR_OK || *events < 1 ||
        *events > EVENTS_MAX) {
        complain(EXIT_USAGE, "--simulate: \"%s\" is not a number from 1 to %d",
                 simulate, EVENTS_MAX);
        return false;
    }
    if (conf_parse_duration(outage, outage_ms, &why) != GR_OK ||
        *outage_ms < 1 || *outage_ms > 366 * DAY_MS) {
        complain(EXIT_USAGE, "--outage: \"%s\" %s", outage,
                 *why ? why : "is not a duration from 1ms to 366d");
        return false;
    }
    return true;
}

int run_retry_plan(struct ctl *c)
{
    static const char *const keys[] = {"retry_policies", "include", NULL};
    struct conf_near near = {.text = c->parsed.args[0]};
    const struct retry_policy *policy = NULL;
    struct retry_policy even_policy;
    char hint[100];
    int64_t events, outage_ms;
    struct load load = {0}, even = {0};
    struct plan plan;
    json_t *doc;

    if (!simulation_options(c, &events, &outage_ms))
        return EXIT_USAGE;
    need_settings(
        c, keys, "retry-plan needs only `retry_policies` of the configuration");
    for (size_t i = 0; i < c->settings->policy_count && !policy; i++) {
        const struct retry_policy *one = &c->settings->policies[i];

        if (strcmp(one->name, near.text) == 0)
            policy = one;
        conf_near_try(&near, one->name);
    }
    if (!policy)
        return complain(EXIT_REFUSED, "there is no retry policy \"%s\"%s",
                        near.text, conf_near_hint(&near, hint));
    plan_make(&plan, policy, PLAN_ATTEMPTS_MAX);
    even_policy = *policy;
    even_policy.jitter.full = false;
    even_policy.jitter.part = 0;
    load_make(&load, policy, events, outage_ms);
    load_make(&even, &even_policy, events, outage_ms);
    if (c->json) {
        doc = plan_json(policy, &plan);
        json_object_set_new(doc, "simulation",
                            events ? load_json(&load, &even, events, outage_ms)
                                   : json_null());
        print_json(doc);
    } else {
        print_plan(c, policy, &plan);
        if (events)
            print_load(c, &load, &even, events, outage_ms);
    }
    plan_fini(&plan);
    load_fini(&load);
    load_fini(&even);
    return 0;
}
