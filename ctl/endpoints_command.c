/* endpoints: how each stands, and whether it is to be tried. */
#include "ask.h"
#include "table.h"
#include "when.h"
#include <string.h>

static const char sequencer[] = "sequencer";

static enum colour state_colour(const char *state)
{
    return strcmp(state, "active") == 0 ? GREEN
           : strcmp(state, "disabled") == 0 || strcmp(state, "held") == 0 ||
                   strcmp(state, "removed") == 0
               ? RED
               : YELLOW;
}

static void add_number(struct table *t, const json_t *e, const char *key,
                       double times, const char *unit)
{
    const json_t *v = json_object_get(e, key);

    if (json_is_number(v))
        table_add(t, PLAIN, "%.4g%s", json_number_value(v) * times, unit);
    else
        table_add(t, PLAIN, "-");
}

static void add_row(struct table *t, const json_t *e)
{
    const char *state = text_of(e, "state"), *home = text_of(e, "home");
    const char *halted = text_of(e, "halted_lanes");
    const char *breaker = text_of(e, "breaker");

    table_add(t, PLAIN, "%s", text_of(e, "name"));
    table_add(t, state_colour(state), "%s", state);
    table_add(t, PLAIN, "%s", *home ? home : "-");
    table_add(t, PLAIN, "%s", text_of(e, "in_flight"));
    table_add(t, PLAIN, "%s%s", text_of(e, "waiting"),
              json_is_true(json_object_get(e, "waiting_more")) ? "+" : "");
    table_add(t, PLAIN, "%s", text_of(e, "retrying"));
    add_number(t, e, "success_rate", 100, " %");
    add_number(t, e, "latency_ms", 1, " ms");
    table_add(t, strcmp(breaker, "open") ? PLAIN : RED, "%s",
              *breaker ? breaker : "-");
    table_add(t, PLAIN, "%s", text_of(e, "ordered"));
    table_add(t, strcmp(halted, "0") ? RED : PLAIN, "%s", halted);
}

static void print_halts(struct ctl *c, const json_t *e)
{
    json_t *h;
    size_t i;

    json_array_foreach(json_object_get(e, "halted"), i, h)
    {
        const char *workspace = text_of(h, "workspace");

        printf("%s%s: halted since %s%s%s by %s%s\n", colour_on(RED, c->colour),
               text_of(e, "name"), time_of(h, "since"),
               *workspace ? " in workspace " : "", workspace,
               text_of(h, "letter_id"), colour_off(RED, c->colour));
    }
}

static void print_endpoints(struct ctl *c, const json_t *list)
{
    static const char *const heads[] = {
        "ENDPOINT", "STATE",   "HOME",    "IN FLIGHT", "WAITING", "RETRYING",
        "SUCCESS",  "LATENCY", "BREAKER", "ORDERED",   "HALTED",  NULL};
    struct table t;
    json_t *e;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(list, i, e) add_row(&t, e);
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
    json_array_foreach(list, i, e)
    {
        const char *reason = text_of(e, "reason");
        const char *failing = text_of(e, "failing_since");

        if (*reason)
            printf("%s: %s since %s %s: %s\n", text_of(e, "name"),
                   text_of(e, "state"), time_of(e, "since"), when_zone(),
                   reason);
        else if (*failing)
            printf("%s: nothing but failures since %s %s\n", text_of(e, "name"),
                   time_of(e, "failing_since"), when_zone());
        print_halts(c, e);
    }
}

/* Ask; NULL: a sentence was printed, and *code says what to exit with. */
/* `who` does it; NULL: it changes nothing. */
static json_t *ask_it(struct ctl *c, const char *what, const char *name,
                      const char *who, int *code)
{
    bool unreachable;
    char why[200];
    json_t *args = name ? json_pack("{s:s}", "name", name) : NULL, *answer;

    if (who)
        json_object_set_new(args, "who", json_string(who));
    answer = ask(c, sequencer, what, args, ASK_MS, &unreachable, why);
    if (!answer)
        *code = unreachable ? complain_away(c, sequencer, why)
                            : complain(EXIT_REFUSED, "%s", why);
    return answer;
}

/* What only its home knows: the grant of this endpoint in the home's status.
 * `homes` keeps what each said. Borrowed; NULL: it can't be asked, or is no more
 * the home. */
static const json_t *grant_of(struct ctl *c, json_t *homes, const json_t *e)
{
    const char *home = json_string_value(json_object_get(e, "home"));
    const char *name = json_string_value(json_object_get(e, "name"));
    json_t *grant;
    size_t i;

    if (!home || !name)
        return NULL;
    if (!json_object_get(homes, home)) {
        bool unreachable;
        char why[200];
        json_t *answer = ask(c, home, "status", NULL, ASK_STATUS_MS,
                             &unreachable, why);

        json_object_set_new(homes, home, answer ? answer : json_null());
    }
    json_array_foreach(json_object_get(json_object_get(homes, home), "grants"),
                       i, grant)
    {
        const char *to = json_string_value(json_object_get(grant, "endpoint"));

        if (to && strcmp(to, name) == 0)
            return grant;
    }
    return NULL;
}

static void ask_homes(struct ctl *c, json_t *list)
{
    static const char *const keys[] = {"breaker", "window", "ramp"};
    json_t *homes = json_object(), *e;
    size_t i;

    json_array_foreach(list, i, e)
    {
        const json_t *grant = grant_of(c, homes, e);

        for (size_t k = 0; k < COUNT_OF(keys); k++) {
            json_t *v = json_object_get(grant, keys[k]);

            json_object_set_new(e, keys[k], v ? json_incref(v) : json_null());
        }
    }
    json_decref(homes);
}

int run_endpoints(struct ctl *c)
{
    const char *name = c->parsed.arg_count ? c->parsed.args[0] : NULL;
    int code = 0;
    json_t *list = ask_it(c, "endpoints", name, NULL, &code);

    if (!list)
        return code;
    ask_homes(c, list);
    if (c->json && name)
        print_json(json_incref(json_array_get(list, 0)));
    else if (c->json)
        print_json(json_incref(list));
    else if (json_array_size(list))
        print_endpoints(c, list);
    else
        printf("No endpoints.\n");
    json_decref(list);
    return 0;
}

static int change(struct ctl *c, const char *what, const char *said)
{
    int code = 0;
    json_t *e = ask_it(c, what, c->parsed.args[0], user_name(), &code);

    if (!e)
        return code;
    if (c->json)
        print_json(json_incref(e));
    else
        printf("%s is %s\n", text_of(e, "name"), said);
    json_decref(e);
    return 0;
}

int run_endpoints_pause(struct ctl *c)
{
    return change(c, "endpoint_pause",
                  "not tried: what is for it waits, without losing time");
}

int run_endpoints_resume(struct ctl *c)
{
    return change(c, "endpoint_resume", "tried again");
}
