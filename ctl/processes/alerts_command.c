/* alerts_command: `grapnel alerts`, `alerts test`, `alerts silences`, `alerts silence` and `alerts
 * unsilence`: lists the alerts of the console, has it send a test to notifiers, and silences alerts. */
#include "ask.h"
#include "clock.h"
#include "list.h"
#include "when.h"
#include <string.h>

enum { TEST_MS = 10 * 60 * 1000 };

static void alert_state(struct table *t, const json_t *alert)
{
    bool firing = strcmp(text_of(alert, "state"), "firing") == 0;
    bool pending = strcmp(text_of(alert, "state"), "pending") == 0;
    bool critical = strcmp(text_of(alert, "severity"), "critical") == 0;

    table_add(t,
              firing && critical  ? RED
              : firing || pending ? YELLOW
                                  : DIM,
              "%s", text_of(alert, "state"));
}

static const struct column columns[] = {
    {.head = "STATE", .cell = alert_state},
    {.head = "SEVERITY", .key = "severity"},
    {.head = "ALERT", .key = "name"},
    {.head = "SINCE (UTC)", .key = "since", .kind = COLUMN_TIME},
    {.head = "SILENCED UNTIL", .key = "silenced_until", .kind = COLUMN_TIME},
    {.head = "WHAT", .key = "summary"},
    {0}};
static const struct column silence_columns[] = {
    {.head = "ALERT", .key = "name"},
    {.head = "SILENCED UNTIL", .key = "silenced_until", .kind = COLUMN_TIME},
    {.head = "BY", .key = "by"},
    {.head = "WHY", .key = "note"},
    {0}};

static int list(struct ctl *c, const char *command, const struct column *shown,
                const char *without)
{
    json_t *reply, *args = json_object();
    int code = 0;

    if (!put_filters(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    reply = ask_needed(c, "console", command, args, ASK_MS, &code);
    if (!reply)
        return code;
    print_list(c, shown, json_object_get(reply, command), without);
    json_decref(reply);
    return 0;
}

int run_alerts(struct ctl *c)
{
    return list(c, "alerts", columns,
                "No alert is firing, and none has fired.");
}

int run_alerts_silences(struct ctl *c)
{
    return list(c, "silences", silence_columns, "No alert is silenced.");
}

int run_alerts_test(struct ctl *c)
{
    json_t *args = json_pack("{s:s}", "name", c->parsed.args[0]), *reply, *r;
    int code = 0;
    size_t i;

    reply = ask_needed(c, "console", "alerts_test", args, TEST_MS, &code);
    if (!reply)
        return code;
    json_array_foreach(json_object_get(reply, "results"), i, r)
    {
        bool ok = json_is_true(json_object_get(r, "ok"));

        if (!ok)
            code = EXIT_REFUSED;
        if (!c->json)
            printf("%s  %s%s\n", text_of(r, "notifier"),
                   ok ? "was notified" : "was not notified: ",
                   ok ? "" : text_of(r, "why"));
    }
    if (c->json)
        print_json(json_incref(json_object_get(reply, "results")));
    json_decref(reply);
    return code;
}

static int silence(struct ctl *c, const char *command, json_t *args)
{
    json_t *reply;
    int code = 0;

    reply = ask_needed(c, "console", command, args, ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    if (json_is_string(json_object_get(reply, "silenced_until")))
        printf("%s is silenced until %s.\n", text_of(reply, "name"),
               time_of(reply, "silenced_until"));
    else
        printf("%s is not silenced.\n", text_of(reply, "name"));
    json_decref(reply);
    return 0;
}

int run_alerts_silence(struct ctl *c)
{
    const char *length = parsed_value(&c->parsed, "--for"),
               *note = parsed_value(&c->parsed, "--note");
    char why[200];
    json_t *args;
    int64_t ms;

    if (!length)
        return complain(EXIT_USAGE, "--for is missing: how long, such as 2h");
    if (when_parse_ahead(length, now_ms(), &ms, why) != GR_OK)
        return complain(EXIT_USAGE, "--for: %s", why);
    args = json_pack("{s:s,s:I}", "name", c->parsed.args[0], "for_ms",
                     (json_int_t)ms);
    if (note)
        json_object_set_new(args, "note", json_string(note));
    return silence(c, "alert_silence", args);
}

int run_alerts_unsilence(struct ctl *c)
{
    return silence(c, "alert_unsilence",
                   json_pack("{s:s}", "name", c->parsed.args[0]));
}
