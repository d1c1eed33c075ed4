/* outbox_command: `grapnel outbox check` and `outbox status`. */
#include "ask.h"
#include "conf.h"
#include "driver.h"
#include "json_text.h"
#include "list.h"
#include "relays.h"
#include <stdio.h>
#include <string.h>

/* The relay that is named, or the only one. NULL: *code is set. */
const struct relay *find_relay(struct ctl *c, int *code)
{
    const struct settings *s = c->settings;
    struct conf_near near = {.text = c->parsed.args[0]};
    char hint[100];

    if (!near.text && s->relay_count == 1)
        return &s->relays[0];
    if (!near.text) {
        *code = complain(EXIT_REFUSED,
                         s->relay_count
                             ? "there are several relays: name one of them"
                             : "there are no relays: add `outbox` to the "
                               "configuration");
        return NULL;
    }
    for (size_t i = 0; i < s->relay_count; i++)
        conf_near_try(&near, s->relays[i].name);
    if (!settings_relay(s, near.text))
        *code = complain(EXIT_REFUSED, "there is no relay \"%s\"%s", near.text,
                         conf_near_hint(&near, hint));
    return settings_relay(s, near.text);
}

/* ---- check ---- */

struct checking {
    struct ctl *c;
    const struct relay *relay;
    json_t *found;
};

static void add_finding(void *self, bool needed, const char *what,
                        const char *fix)
{
    struct checking *k = self;

    json_array_append_new(
        k->found, json_pack("{s:s,s:b,s:o,s:o}", "relay", k->relay->name,
                            "needed", (int)needed, "error", json_text_of(what),
                            "fix", json_text_of(fix)));
}

static bool has_name(const json_t *list, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) if (strcmp(json_string_value(item),
                                                 name) == 0) return true;
    return false;
}

/* What the relay names is in the configuration, or was made at run time. */
static void check_configuration(struct checking *k)
{
    const char *name = k->relay->endpoint;
    json_t *names = name ? known_names(k->c) : NULL;
    char what[200];

    if (!names || has_name(json_object_get(names, "endpoints"), name) ||
        (endpoint_id_valid(name) && is_run_time_endpoint(k->c, name)))
        return;
    snprintf(what, sizeof what, "there is no endpoint \"%.100s\"", name);
    add_finding(k, true, what, "correct `endpoint` of the relay, or add it");
}

static void check_relay(struct checking *k)
{
    size_t before = json_array_size(k->found), i;
    const json_t *f;

    check_configuration(k);
    driver_of(k->relay)->check(k->relay, add_finding, k);
    if (k->c->json)
        return;
    if (json_array_size(k->found) == before)
        printf("%s: nothing is missing\n", k->relay->name);
    json_array_foreach(k->found, i, f) if (i >= before)
        printf("%s: %s%s: %s\n", k->relay->name,
               json_is_true(json_object_get(f, "needed")) ? "" : "advice: ",
               text_of(f, "error"), text_of(f, "fix"));
}

int run_outbox_check(struct ctl *c)
{
    static const char *const keys[] = {"outbox", "retry_policies", NULL};
    struct checking k = {.c = c};
    int code = 0;

    need_settings(c, keys,
                  "outbox check needs only `outbox` and `retry_policies` of "
                  "the configuration");
    if (c->parsed.args[0] || !c->settings->relay_count) {
        k.relay = find_relay(c, &code);
        if (!k.relay)
            return code;
    }
    k.found = json_array();
    if (k.relay) {
        check_relay(&k);
    } else {
        for (size_t i = 0; i < c->settings->relay_count; i++) {
            k.relay = &c->settings->relays[i];
            check_relay(&k);
        }
    }
    code = json_array_size(k.found) ? EXIT_REFUSED : 0;
    if (c->json)
        print_json(json_incref(k.found));
    json_decref(k.found);
    return code;
}

/* ---- status ---- */

static void state_cell(struct table *t, const json_t *row)
{
    bool connected = json_is_true(json_object_get(row, "connected"));

    if (connected)
        table_add(t, GREEN, "connected");
    else
        table_add(t, RED, "%s",
                  *text_of(row, "error") ? text_of(row, "error")
                                         : "not connected yet");
}

static void waiting_cell(struct table *t, const json_t *row)
{
    const json_t *n = json_object_get(row, "waiting");

    if (!json_is_integer(n))
        table_add(t, PLAIN, "-");
    else
        table_add(t, PLAIN, "%lld%s", (long long)json_integer_value(n),
                  json_integer_value(n) >= DRIVER_COUNT_MAX ? " or more" : "");
}

static void add_number(struct table *t, const json_t *row, const char *key,
                       const char *unit)
{
    const json_t *n = json_object_get(row, key);

    if (json_is_number(n))
        table_add(t, PLAIN, "%.1f%s", json_number_value(n), unit);
    else
        table_add(t, PLAIN, "-");
}

static void oldest_cell(struct table *t, const json_t *row)
{
    char text[32];

    if (json_is_integer(json_object_get(row, "oldest_ms")))
        table_add(t, PLAIN, "%s", human_ms(integer_of(row, "oldest_ms"), text));
    else
        table_add(t, PLAIN, "-");
}

static void taken_cell(struct table *t, const json_t *row)
{
    add_number(t, row, "taken_per_s", "/s");
}

static void written_cell(struct table *t, const json_t *row)
{
    add_number(t, row, "written_per_s", "/s");
}

static void outcomes_cell(struct table *t, const json_t *row)
{
    table_add(t, PLAIN, "%lld", (long long)integer_of(row, "outcomes_waiting"));
}

static void aside_cell(struct table *t, const json_t *row)
{
    json_int_t n = integer_of(row, "set_aside");

    table_add(t, n ? YELLOW : PLAIN, "%lld", (long long)n);
}

static void lag_cell(struct table *t, const json_t *row)
{
    const json_t *p50 = json_object_get(row, "lag_p50_ms"),
                 *p99 = json_object_get(row, "lag_p99_ms");

    if (json_is_number(p50) && json_is_number(p99))
        table_add(t, PLAIN, "%.1f / %.1f ms", json_number_value(p50),
                  json_number_value(p99));
    else
        table_add(t, PLAIN, "-");
}

static const struct column columns[] = {
    {.head = "RELAY", .key = "relay"},
    {.head = "PROCESS", .key = "process"},
    {.head = "NEW ROWS", .cell = waiting_cell},
    {.head = "OLDEST", .cell = oldest_cell},
    {.head = "TAKEN", .cell = taken_cell},
    {.head = "WRITTEN", .cell = written_cell},
    {.head = "OUTCOMES", .cell = outcomes_cell},
    {.head = "SET ASIDE", .cell = aside_cell},
    {.head = "LAG P50 / P99", .cell = lag_cell},
    {.head = "SINCE (UTC)", .key = "since", .kind = COLUMN_TIME},
    {.head = "DATABASE", .cell = state_cell},
    {0}};

/* Adds the relays of a process, or the one that is named. */
static void add_relays(struct ctl *c, json_t *all, json_t *reply)
{
    const char *name = c->parsed.args[0];
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(reply, "relays"), i, row)
    {
        if (!name || strcmp(text_of(row, "relay"), name) == 0)
            json_array_append(all, row);
    }
}

int run_outbox_status(struct ctl *c)
{
    json_t *all = json_array(), *reply;
    struct processes p;
    bool unreachable, any = false;
    char why[200];
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        if (!process_is(p.names[i], "outbox"))
            continue;
        any = true;
        reply = ask(c, p.names[i], "relays", NULL, ASK_STATUS_MS, &unreachable,
                    why);
        if (!reply)
            code = complain_away(c, p.names[i], why);
        add_relays(c, all, reply);
        json_decref(reply);
    }
    processes_fini(&p);
    if (!any)
        code = complain_away(c, "outbox", "not running");
    else if (!code && c->parsed.args[0] && !json_array_size(all))
        code = complain(EXIT_REFUSED, "no outbox process has a relay \"%s\"",
                        c->parsed.args[0]);
    if (!code || json_array_size(all))
        print_list(c, columns, all, "There are no relays.");
    json_decref(all);
    return code;
}
