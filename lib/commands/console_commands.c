/* console_commands: what the console answers. */
#include "commands.h"
#include "tables.h"

/* ---- trace ---- */

static const struct value console_trace_args[] = {TEXT("id", "of an event"),
                                                  {0}};
static const struct value console_trace_reply[] = {
    LIST("timeline", &timeline_step, ""), {0}};
const struct command_spec command_console_trace = {
    .name = "trace",
    .process = "console",
    .help = "An empty timeline, because no event passes through the console.",
    .args = console_trace_args,
    .reply = OBJECT("reply", console_trace_reply, ""),
    .role = ROLE_VIEWER,
};

/* ---- alerts ---- */

static const struct value alerts_args[] = {ARG_LIMIT, {0}};
static const char *const severities[] = {"info", "warning", "critical", NULL};
static const char *const alert_states[] = {"pending", "firing", "resolved",
                                           "notified", NULL};
static const struct value alert_fields[] = {
    TEXT("name", "of the rule"),
    CHOICE("severity", severities, "of the rule"),
    TEXT("subject", "what it is about, such as an endpoint",
         .flags = VALUE_NULL),
    CHOICE("state", alert_states,
           "`pending`: the condition is met, but not yet for as long as `for` "
           "says; `firing`: its notifiers were notified; `resolved`: it has "
           "ended; `notified`: dead letters that were reported once"),
    TIME("since", "when the condition was met"),
    TIME("fired_at", "when it fired", .flags = VALUE_NULL),
    TIME("ended_at", "when it ended", .flags = VALUE_NULL),
    NUMBER("value", "that was compared with the limit"),
    TEXT("summary", "what is wrong, for people"),
    {0}};
static const struct value alert_value = OBJECT("alert", alert_fields, "");
static const struct value alerts_reply[] = {
    LIST("alerts", &alert_value, "newest first within each group"), {0}};
const struct command_spec command_alerts = {
    .name = "alerts",
    .process = "console",
    .help = "Alerts: first those that fire or are pending, then those that "
            "have ended.",
    .args = alerts_args,
    .reply = OBJECT("reply", alerts_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/alerts"}},
    .rows = "alerts",
};

/* ---- alerts_test ---- */

static const struct value alerts_test_args[] = {
    TEXT("name", "of an alert or a notifier", .flags = VALUE_REQUIRED), {0}};
static const struct value alerts_result_fields[] = {
    TEXT("notifier", "its name"),
    BOOL("ok", "whether it accepted the test"),
    TEXT("why", "if not, the reason", .flags = VALUE_NULL),
    {0}};
static const struct value alerts_result = OBJECT("result", alerts_result_fields,
                                                 "");
static const struct value alerts_test_reply[] = {
    LIST("results", &alerts_result, "one for each notifier"), {0}};
const struct command_spec command_alerts_test = {
    .name = "alerts_test",
    .process = "console",
    .help = "Sends a test to the notifiers of an alert, or to one notifier.",
    .args = alerts_test_args,
    .reply = OBJECT("reply", alerts_test_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER,
    .routes = {{"POST", "/alerts/{name}/test"}},
};

const struct command_spec *const console_commands[] = {
    &command_console_trace, &command_alerts, &command_alerts_test, NULL};
