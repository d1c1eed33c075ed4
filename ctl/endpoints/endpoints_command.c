/* endpoints_command: `grapnel endpoints`, `endpoints stats`, `endpoints pause` and `endpoints
 * resume`. */
#include "ask.h"
#include "conf.h"
#include "list.h"
#include "when.h"
#include <string.h>

enum { PAGE = 1000 }; /* endpoints that are asked for at once */

static void add_state(struct table *t, const json_t *e)
{
    const char *state = text_of(e, "state");
    bool bad = strcmp(state, "disabled") == 0 || strcmp(state, "held") == 0 ||
               strcmp(state, "removed") == 0;

    table_add(t,
              strcmp(state, "active") == 0 ? GREEN
              : bad                        ? RED
                                           : YELLOW,
              "%s", state);
}

static void add_waiting(struct table *t, const json_t *e)
{
    table_add(t, PLAIN, "%s%s", text_of(e, "waiting"),
              json_is_true(json_object_get(e, "waiting_more")) ? "+" : "");
}

static void add_number(struct table *t, const json_t *v, double times,
                       const char *unit)
{
    if (json_is_number(v))
        table_add(t, PLAIN, "%.4g%s", json_number_value(v) * times, unit);
    else
        table_add(t, PLAIN, "-");
}

static void add_success(struct table *t, const json_t *e)
{
    add_number(t, json_object_get(e, "success_rate"), 100, " %");
}

static void add_latency(struct table *t, const json_t *e)
{
    add_number(t, json_object_get(e, "latency_ms"), 1, " ms");
}

static void add_breaker(struct table *t, const json_t *e)
{
    const char *breaker = text_or_dash(e, "breaker");

    table_add(t, strcmp(breaker, "open") ? PLAIN : RED, "%s", breaker);
}

static void add_halted(struct table *t, const json_t *e)
{
    const char *halted = text_of(e, "halted_lanes");

    table_add(t, strcmp(halted, "0") ? RED : PLAIN, "%s", halted);
}

static const struct column columns[] = {
    {.head = "ENDPOINT", .key = "name"},
    {.head = "STATE", .cell = add_state},
    {.head = "OWNER", .key = "owner", .kind = COLUMN_OR_DASH},
    {.head = "IN FLIGHT", .key = "in_flight"},
    {.head = "WAITING", .cell = add_waiting},
    {.head = "RETRYING", .key = "retrying"},
    {.head = "SUCCESS", .cell = add_success},
    {.head = "LATENCY", .cell = add_latency},
    {.head = "BREAKER", .cell = add_breaker},
    {.head = "ORDERED", .key = "ordered"},
    {.head = "HALTED", .cell = add_halted},
    {0}};

static void print_endpoints(struct ctl *c, const json_t *list)
{
    json_t *e, *h;
    size_t i, k;

    print_rows(c, columns, list, 0);
    json_array_foreach(list, i, e)
    {
        const char *reason = text_of(e, "reason");
        const char *failing = text_of(e, "failing_since");

        if (*text_of(e, "expires_at"))
            printf("%s: temporary, of %s; deleted at %s %s if unused\n",
                   text_of(e, "name"), text_of(e, "created_by"),
                   time_of(e, "expires_at"), when_zone());
        if (*reason)
            printf("%s: %s since %s %s: %s\n", text_of(e, "name"),
                   text_of(e, "state"), time_of(e, "since"), when_zone(),
                   reason);
        else if (*failing)
            printf("%s: failing since %s %s\n", text_of(e, "name"),
                   time_of(e, "failing_since"), when_zone());
        json_array_foreach(json_object_get(e, "halted"), k, h)
        {
            const char *workspace = text_of(h, "workspace"),
                       *key = text_of(h, "ordering_key");

            printf("%s%s: halted since %s %s%s%s%s%s by %s%s\n",
                   colour_on(RED, c->colour), text_of(e, "name"),
                   time_of(h, "since"), when_zone(),
                   *workspace ? " in workspace " : "", workspace,
                   *key ? ", ordering key " : "", key,
                   text_of(h, "dead_letter_id"), colour_off(RED, c->colour));
        }
    }
}

static void print_settings(const json_t *e)
{
    static const char *const keys[] = {"description", "workspace"};
    const char *url = text_of(json_object_get(e, "settings"), "url");
    const char *by = text_of(e, "managed_by"), *version = text_of(e, "version");

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (*text_of(e, keys[i]))
            printf("%s: %s\n", keys[i], text_of(e, keys[i]));
    if (*url)
        printf("url: %s\n", url);
    if (*by)
        printf("managed_by: %s%s\n", by,
               strcmp(by, "api") ? " (grapnel.yaml)" : "");
    if (*version)
        printf("version: %s\n", version);
}

/* Asks the sequencer about this endpoint. `who`: the user that changes it, or NULL. NULL: the
 * reason was printed, and *code is the exit code. */
static json_t *ask_it(struct ctl *c, const char *what, const char *name,
                      const char *who, int *code)
{
    if (!is_utf8("the name of the endpoint", name)) {
        *code = EXIT_USAGE;
        return NULL;
    }
    return ask_needed(c, "sequencer", what,
                      json_pack("{s:s,s:s*}", "name", name, "who", who), ASK_MS,
                      code);
}

/* All endpoints; NULL: as above. */
static json_t *ask_pages(struct ctl *c, int *code)
{
    json_t *list = json_array(), *next = NULL, *reply;

    do {
        reply = ask_needed(
            c, "sequencer", "endpoints",
            json_pack("{s:i,s:o*}", "limit", PAGE, "after", next), ASK_MS,
            code);
        json_array_extend(list, json_object_get(reply, "endpoints"));
        next = json_incref(json_object_get(reply, "next"));
        json_decref(reply);
    } while (json_is_string(next));
    json_decref(next);
    if (reply)
        return list;
    json_decref(list);
    return NULL;
}

/* The grant of this endpoint in the status of its owner, which alone knows the breaker.
 * `owners` keeps the reply of each deliverer. Borrowed. NULL: the deliverer does not respond, or
 * is no longer the owner. */
static const json_t *grant_of(struct ctl *c, json_t *owners, const json_t *e)
{
    const char *owner = json_string_value(json_object_get(e, "owner"));
    const char *name = json_string_value(json_object_get(e, "name"));
    json_t *grant;
    size_t i;

    if (!owner || !name)
        return NULL;
    if (!json_object_get(owners, owner)) {
        bool unreachable;
        char why[200];
        json_t *reply = ask(c, owner, "status", NULL, ASK_STATUS_MS,
                            &unreachable, why);

        json_object_set_new(owners, owner, reply ? reply : json_null());
    }
    json_array_foreach(
        json_object_get(json_object_get(owners, owner), "grants"), i, grant)
    {
        const char *to = json_string_value(json_object_get(grant, "endpoint"));

        if (to && strcmp(to, name) == 0)
            return grant;
    }
    return NULL;
}

static void ask_owners(struct ctl *c, json_t *list)
{
    static const char *const keys[] = {"breaker", "window", "ramp"};
    json_t *owners = json_object(), *e;
    size_t i;

    json_array_foreach(list, i, e)
    {
        const json_t *grant = grant_of(c, owners, e);

        for (size_t k = 0; k < COUNT_OF(keys); k++) {
            json_t *v = json_object_get(grant, keys[k]);

            json_object_set_new(e, keys[k], v ? json_incref(v) : json_null());
        }
    }
    json_decref(owners);
}

int run_endpoints(struct ctl *c)
{
    const char *name = c->parsed.arg_count ? c->parsed.args[0] : NULL;
    int code = 0;
    json_t *one = name ? ask_it(c, "endpoint", name, NULL, &code) : NULL,
           *list = !name ? ask_pages(c, &code)
                   : one ? json_pack("[o]", one)
                         : NULL;

    if (!list)
        return code;
    ask_owners(c, list);
    if (c->json && name)
        print_json(json_incref(json_array_get(list, 0)));
    else if (c->json)
        print_json(json_incref(list));
    else if (json_array_size(list))
        print_endpoints(c, list);
    else
        printf("No endpoints.\n");
    if (!c->json && name)
        print_settings(json_array_get(list, 0));
    json_decref(list);
    return 0;
}

/* ---- stats ---- */

static void print_counts(const char *what, const json_t *counts)
{
    const char *key;
    json_t *n;

    printf("%s:", what);
    json_object_foreach((json_t *)(uintptr_t)counts, key, n)
        printf(" %s %lld", key, (long long)json_integer_value(n));
    printf("\n");
}

static void print_number(const json_t *n, double times, const char *unit)
{
    if (json_is_number(n))
        printf("%.4g%s", json_number_value(n) * times, unit);
    else
        printf("-");
}

static void print_stats(const json_t *e)
{
    static const char *const quantiles[] = {"p50", "p95", "p99"};
    static const struct {
        const char *key, *what;
    } times[] = {{"oldest_waiting_at", "oldest waiting since"},
                 {"last_success_at", "last success"},
                 {"last_failure_at", "last failure"},
                 {"failing_since", "failing since"}};
    const json_t *latency = json_object_get(e, "latency_ms");

    printf("%s: %s, breaker %s\n", text_of(e, "name"), text_of(e, "state"),
           text_or_dash(e, "breaker"));
    printf("attempts since %s %s: %s, success ", time_of(e, "from"),
           when_zone(), text_of(e, "attempts"));
    print_number(json_object_get(e, "success_rate"), 100, " %");
    printf("\n");
    print_counts("outcomes", json_object_get(e, "outcomes"));
    print_counts("statuses", json_object_get(e, "statuses"));
    printf("latency:");
    for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
        printf(" %s ", quantiles[i]);
        print_number(json_object_get(latency, quantiles[i]), 1, " ms");
    }
    printf("\nin flight %s, waiting %s%s, retrying %s\n",
           text_of(e, "in_flight"), text_of(e, "waiting"),
           json_is_true(json_object_get(e, "waiting_more")) ? "+" : "",
           text_of(e, "retrying"));
    for (size_t i = 0; i < COUNT_OF(times); i++)
        if (json_is_string(json_object_get(e, times[i].key)))
            printf("%s %s %s\n", times[i].what, time_of(e, times[i].key),
                   when_zone());
}

/* The owner alone knows the breaker. */
static void ask_throttle(struct ctl *c, json_t *e)
{
    static const char *const keys[] = {"breaker", "window"};
    const char *owner = json_string_value(json_object_get(e, "owner"));
    json_t *reply = NULL, *v;
    bool unreachable;
    char why[200];

    if (owner)
        reply = ask(c, owner, "throttle",
                    json_pack("{s:O}", "endpoint", json_object_get(e, "name")),
                    ASK_STATUS_MS, &unreachable, why);
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        v = json_object_get(reply, keys[i]);
        json_object_set_new(e, keys[i], v ? json_incref(v) : json_null());
    }
    json_decref(reply);
}

int run_endpoints_stats(struct ctl *c)
{
    const char *name = c->parsed.args[0],
               *period = parsed_value(&c->parsed, "--period"), *why;
    json_t *args, *e;
    int64_t ms = 0;
    int code = 0;

    if (!is_utf8("the name of the endpoint", name))
        return EXIT_USAGE;
    if (period && conf_parse_duration(period, &ms, &why) != GR_OK)
        return complain(EXIT_USAGE, "--period: %s", why);
    args = json_pack("{s:s}", "name", name);
    if (period)
        json_object_set_new(args, "period_ms", json_integer(ms));
    e = ask_needed(c, "sequencer", "endpoint_stats", args, ASK_MS, &code);
    if (!e)
        return code;
    ask_throttle(c, e);
    if (c->json)
        print_json(json_incref(e));
    else
        print_stats(e);
    json_decref(e);
    return 0;
}

/* ---- changes ---- */

static int change(struct ctl *c, const char *what, const char *said)
{
    int code = 0;
    json_t *e = ask_it(c, what, c->parsed.args[0], user_name(), &code);

    if (!e)
        return code;
    if (c->json)
        print_json(json_incref(e));
    else
        printf("%s is %s: %s\n", text_of(e, "name"), text_of(e, "state"), said);
    json_decref(e);
    return 0;
}

int run_endpoints_pause(struct ctl *c)
{
    return change(c, "endpoint_pause",
                  "its deliveries wait, and the wait does not count in their "
                  "retry budgets");
}

int run_endpoints_resume(struct ctl *c)
{
    int code = 0;
    json_t *e = ask_it(c, "endpoint", c->parsed.args[0], NULL, &code);
    bool stopped = *text_of(e, "since");

    json_decref(e);
    if (!e)
        return code;
    return change(c, "endpoint_resume",
                  stopped ? "its deliveries are tried again"
                          : "it was not paused, disabled or held");
}
