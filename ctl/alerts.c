/* alerts: what fires, what fired; and whether its notifiers can be reached. */
#include "ask.h"
#include "table.h"
#include <string.h>

enum { TEST_MS = 10 * 60 * 1000 };

static enum colour colour_of(const json_t *a)
{
    if (strcmp(text_of(a, "state"), "firing") != 0)
        return strcmp(text_of(a, "state"), "pending") == 0 ? YELLOW : DIM;
    return strcmp(text_of(a, "severity"), "critical") == 0 ? RED : YELLOW;
}

static void print_alerts(struct ctl *c, const json_t *alerts)
{
    static const char *const heads[] = {"STATE",       "SEVERITY", "ALERT",
                                        "SINCE (UTC)", "WHAT",     NULL};
    struct table t;
    json_t *a;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(alerts, i, a)
    {
        table_add(&t, colour_of(a), "%s", text_of(a, "state"));
        table_add(&t, PLAIN, "%s", text_of(a, "severity"));
        table_add(&t, PLAIN, "%s", text_of(a, "name"));
        table_add(&t, PLAIN, "%s", time_of(a, "since"));
        table_add(&t, PLAIN, "%s", text_of(a, "summary"));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

/* NULL: *code is the exit code, and a sentence was printed. */
static json_t *ask_console(struct ctl *c, const char *what, json_t *args,
                           int timeout_ms, int *code)
{
    bool unreachable;
    char why[200];
    json_t *answer = ask(c, "console", what, args, timeout_ms, &unreachable,
                         why);

    if (unreachable)
        *code = complain_away(c, "console", why);
    else if (!answer)
        *code = complain(EXIT_REFUSED, "%s", why);
    return answer;
}

int run_alerts(struct ctl *c)
{
    const char *limit = parsed_value(&c->parsed, "--limit"), *why;
    json_t *answer, *alerts, *args;
    int64_t most = 100;
    int code = 0;

    if (limit && (conf_parse_int(limit, &most, &why) != GR_OK || most < 1 ||
                  most > 1000))
        return complain(EXIT_USAGE, "--limit %s: a number from 1 to 1000",
                        limit);
    args = json_pack("{s:I}", "limit", (json_int_t)most);
    answer = ask_console(c, "alerts", args, ASK_MS, &code);
    if (!answer)
        return code;
    alerts = json_object_get(answer, "alerts");
    if (c->json)
        print_json(json_incref(alerts));
    else if (json_array_size(alerts))
        print_alerts(c, alerts);
    else
        printf("Nothing fires, and nothing has fired.\n");
    json_decref(answer);
    return 0;
}

int run_alerts_test(struct ctl *c)
{
    json_t *args = json_pack("{s:s}", "name", c->parsed.args[0]), *answer, *r;
    int code = 0;
    size_t i;

    answer = ask_console(c, "alerts_test", args, TEST_MS, &code);
    if (!answer)
        return code;
    json_array_foreach(json_object_get(answer, "results"), i, r)
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
        print_json(json_incref(json_object_get(answer, "results")));
    json_decref(answer);
    return code;
}
