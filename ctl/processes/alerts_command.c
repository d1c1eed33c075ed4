/* alerts_command: `grapnel alerts` and `alerts test`: lists the alerts of the console, and has it
 * send a test to notifiers. */
#include "ask.h"
#include "list.h"
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
    {.head = "WHAT", .key = "summary"},
    {0}};

int run_alerts(struct ctl *c)
{
    json_t *reply, *alerts, *args = json_object();
    int code = 0;

    if (!put_filters(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    reply = ask_needed(c, "console", "alerts", args, ASK_MS, &code);
    if (!reply)
        return code;
    alerts = json_object_get(reply, "alerts");
    print_list(c, columns, alerts, "No alert is firing, and none has fired.");
    json_decref(reply);
    return 0;
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
