/* console_commands: what the console answers. */
#include "bounds.h"
#include "commands.h"
#include "series_kinds.h"
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
    TIME("silenced_until",
         "until when the rule notifies nobody; null: it is not silenced",
         .flags = VALUE_NULL),
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

/* ---- silences ---- */

#define ARG_RULE TEXT("name", "of an alert", .flags = VALUE_REQUIRED, .min = 1)
static const struct value silence_args[] = {
    ARG_RULE,
    TIME_MS("for_ms", "how long, such as 2h, at most 90 days",
            .flags = VALUE_REQUIRED | VALUE_AHEAD),
    TEXT("note", "why", .max = 1000),
    {0}};
static const struct value unsilence_args[] = {ARG_RULE, {0}};
static const struct value silence_reply[] = {
    TEXT("name", "of the alert"),
    TIME("silenced_until", "null: it is not silenced", .flags = VALUE_NULL),
    TEXT("note", "why", .flags = VALUE_NULL),
    TEXT("by", "who silenced it", .flags = VALUE_NULL),
    {0}};
static const struct value silence_value = OBJECT("silence", silence_reply, "");
static const struct value silences_args[] = {ARG_LIMIT, {0}};
static const struct value silences_reply[] = {
    LIST("silences", &silence_value, ""), {0}};
const struct command_spec command_silences = {
    .name = "silences",
    .process = "console",
    .help = "Alerts that are silenced, those whose silence ends first at the "
            "top.",
    .args = silences_args,
    .reply = OBJECT("reply", silences_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/silences"}},
    .rows = "silences",
};
const struct command_spec command_alert_silence = {
    .name = "alert_silence",
    .process = "console",
    .help = "Silences an alert: its notifiers are not notified for this time. "
            "If it fires then and still does when the time has passed, they "
            "are notified. An alert that had fired before is notified when it "
            "is resolved. A further silence replaces the one before.",
    .args = silence_args,
    .reply = OBJECT("reply", silence_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/alerts/{name}/silence"}},
};
const struct command_spec command_alert_unsilence = {
    .name = "alert_unsilence",
    .process = "console",
    .help = "Ends the silence of an alert, if there is one.",
    .args = unsilence_args,
    .reply = OBJECT("reply", silence_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"POST", "/alerts/{name}/unsilence"}},
};

/* ---- series ---- */

static const char *const series_units[] = {"per_second", "seconds", "count",
                                           "bytes", NULL};
static const char *const series_names[] = {
#define K(NAME, name, subject, unit, meaning) name,
    SERIES_KINDS(K)
#undef K
        NULL};
static const struct value series_args[] = {
    PATTERN("names",
            "names of series, with commas between them, at most 50; a kind "
            "with a subject has a series for each, such as "
            "`endpoint_delivered:crm`, and * stands for any text",
            .flags = VALUE_REQUIRED, .min = 1, .max = VALUE_TEXT_MAX,
            .choices = series_names),
    TIME_MS("from_ms", "the first value; an hour before `to` if it is absent, "
                       "and at most 30 days ago"),
    TIME_MS("to_ms", "before this time; now, if it is absent"),
    INTEGER("step",
            "seconds of a value, rounded up to a multiple of 10, or of 300 if "
            "`from` is more than a day ago; if absent, so many that there are "
            "at most 720 values",
            .min = 10, .max = 30 * 24 * 3600),
    {0}};
static const struct value series_number = NUMBER(
    "value", "of `step` seconds; null: it is not known", .flags = VALUE_NULL);
static const struct value series_fields[] = {
    TEXT("name", "of the series"),
    CHOICE("unit", series_units,
           "`per_second`: how fast a counter has grown; `count`: a number at "
           "that time"),
    LIST("values", &series_number,
         "the first one is that from `from` on; the mean of what was measured "
         "every 10 seconds, but of a quantile the largest"),
    {0}};
static const struct value series_item = OBJECT("series", series_fields, "");
static const struct value series_reply[] = {
    TIME("from", "when the first value begins"),
    INTEGER("step", "seconds from one value to the next"),
    LIST("series", &series_item,
         "in the order of `names`; a name without * has one even if nothing "
         "is known"),
    {0}};
const struct command_spec command_series = {
    .name = "series",
    .process = "console",
    .help = "Past values for charts: for every 10 seconds of the last day, and "
            "for every 5 minutes of the last 30 days.",
    .args = series_args,
    .reply = OBJECT("reply", series_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/series"}},
};

/* ---- sources ---- */

static const char *const source_kinds[] = {"source", "producer", NULL};
static const struct value reason_fields[] = {
    TEXT("reason", "why they were refused, such as `signature_mismatch`"),
    INTEGER("count", "how many"),
    {0}};
static const struct value reason_value = OBJECT("reason", reason_fields, "");
#define SOURCE_FIELDS                                                          \
    TEXT("name", "its name in the configuration"),                             \
        CHOICE("kind", source_kinds,                                           \
               "`source`: a provider sends to it; `producer`: a service of "   \
               "yours publishes events"),                                      \
        TEXT("provider",                                                       \
             "the name of the provider's profile; null: a "                    \
             "producer has none",                                              \
             .flags = VALUE_NULL),                                             \
        INTEGER("requests",                                                    \
                "events that were accepted and requests that were refused; "   \
                "null: no ingress publishes its numbers",                      \
                .flags = VALUE_NULL),                                          \
        INTEGER("accepted", "accepted events; likewise", .flags = VALUE_NULL), \
        INTEGER("refused", "refused requests; likewise", .flags = VALUE_NULL), \
        LIST("reasons", &reason_value, "of these, most frequent first"),       \
        INTEGER("duplicates",                                                  \
                "of the accepted events, suppressed duplicates; null: the "    \
                "sequencer does not publish its numbers",                      \
                .flags = VALUE_NULL),                                          \
        TIME("last_event_at",                                                  \
             "when the last event was accepted; null: unknown, or before the " \
             "2000 newest events at the start of ingress",                     \
             .flags = VALUE_NULL),                                             \
        TIME("counted_since",                                                  \
             "ingress has counted since then; null: no ingress publishes its " \
             "numbers",                                                        \
             .flags = VALUE_NULL),                                             \
        NUMBER("missing",                                                      \
               "how many events it would usually have sent since its last "    \
               "one; above 20 is unusual, in relation to earlier silences; "   \
               "null: it has not been watched for 14 days",                    \
               .flags = VALUE_NULL)
static const struct value source_row[] = {SOURCE_FIELDS, {0}};
static const struct value source_value = OBJECT("source", source_row, "");
static const struct value sources_reply[] = {
    LIST("sources", &source_value, "in the order of the configuration"), {0}};
const struct command_spec command_sources = {
    .name = "sources",
    .process = "console",
    .help = "Sources and producers, with what ingress and sequencer have "
            "counted since their start.",
    .reply = OBJECT("reply", sources_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/sources"}},
    .rows = "sources",
};

static const struct value source_args[] = {
    TEXT("name", "of the source or producer", .min = 1, .max = NAME_MAX_BYTES,
         .flags = VALUE_REQUIRED),
    {0}};
static const struct value fact_fields[] = {
    TEXT("name", "what it is about, such as `verified`"),
    TEXT("text", "for people; with code between backticks"),
    {0}};
static const struct value fact_value = OBJECT("fact", fact_fields, "");
static const char *const source_states[] = {"unused", "learning", "rare",
                                            "usual",  "unusual",  NULL};
static const struct value hour_rate = NUMBER(
    "rate", "events an hour; null: unknown", .flags = VALUE_NULL);
static const struct value known_refusal_fields[] = {
    TEXT("reason", "why requests were refused"),
    TIME("seen_at", "the last time, or up to an hour before"),
    BOOL("new", "whether the alert for a new kind of refused request fires "
                "because of it"),
    {0}};
static const struct value known_refusal = OBJECT("refusal",
                                                 known_refusal_fields, "");
static const struct value source_usual_fields[] = {
    CHOICE("state", source_states,
           "`unused`: no event was seen; `learning`: it has not been watched "
           "for 14 days, and nothing is judged; `rare`: it sends too rarely, "
           "and its silence is not judged; `usual`; `unusual`: it is silent "
           "for longer than usual"),
    BOOL("watching", "whether the console hears all ingress processes; other "
                     "time is neither silence nor learned"),
    INTEGER("watched_ms", "how long it was watched altogether"),
    TIME("judged_from",
         "when it will have been watched for 14 days, at the earliest; null: "
         "it has been, or it is `unused`",
         .flags = VALUE_NULL),
    NUMBER("rate",
           "usual events an hour in the present hour of the week; null: it is "
           "not judged, or unknown",
           .flags = VALUE_NULL),
    NUMBER("quiet_rate",
           "the same on the quietest day of the week at this time; null: it "
           "is not judged",
           .flags = VALUE_NULL),
    INTEGER("silence_ms",
            "a silence that begins now is usual for so long; null: it is not "
            "judged",
            .flags = VALUE_NULL),
    TEXT("alert",
         "the name of the rule for unusual silence that fires first; null: no "
         "rule watches this source",
         .flags = VALUE_NULL),
    TIME("alert_at",
         "when that fires if no further event comes; null: it does not, or "
         "its condition is met already",
         .flags = VALUE_NULL),
    LIST("hours", &hour_rate,
         "the usual rate of each hour of the week in UTC, from Monday 0:00 "
         "on; empty: it is `unused`"),
    LIST("refusals", &known_refusal,
         "the reasons for which its requests were refused in the last weeks"),
    {0}};
static const struct value source_reply[] = {
    SOURCE_FIELDS,
    OBJECT("usual", source_usual_fields, "what the console has learned"),
    TEXT("url",
         "the URL to give to the provider: `public_url`; null: it is "
         "not set",
         .flags = VALUE_NULL),
    TEXT("local_url", "the same on the machine of ingress"),
    TEXT("path", "its path, at any address of ingress"),
    INTEGER("secrets", "how many secrets, or tokens, it has"),
    TEXT("title", "the provider's name for people", .flags = VALUE_NULL),
    TEXT("secret", "what `secrets` has to be", .flags = VALUE_NULL),
    TEXT("setup", "what to click at the provider; null: no profile says it",
         .flags = VALUE_NULL),
    TEXT("failure", "what the provider does after a response that is not 2xx",
         .flags = VALUE_NULL),
    TEXT("notes", "what users should know about it", .flags = VALUE_NULL),
    LIST("facts", &fact_value,
         "how requests are verified, and how events are read from them"),
    TEXT("no_test", "why a test event cannot be sent; null: it can",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_source = {
    .name = "source",
    .process = "console",
    .help = "Shows one source: its numbers, what is usual for it, how its "
            "requests are verified, and how to set up its provider. Without "
            "secrets.",
    .args = source_args,
    .reply = OBJECT("reply", source_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/sources/{name}"}},
};

static const char *const mix_states[] = {"unused", "learning", "usual",
                                         "unusual", NULL};
static const struct value endpoint_usual_args[] = {
    TEXT("name", "of the endpoint", .min = 1, .max = NAME_MAX_BYTES,
         .flags = VALUE_REQUIRED),
    {0}};
static const struct value share_fields[] = {
    NUMBER("2xx", "the share of responses with a status from 200 to 299"),
    NUMBER("3xx", "from 300 to 399"),
    NUMBER("4xx", "from 400 to 499"),
    NUMBER("5xx", "from 500 to 599"),
    NUMBER("none", "no response"),
    {0}};
static const struct value endpoint_usual_reply[] = {
    TEXT("name", "as asked"),
    CHOICE("state", mix_states,
           "`unused`: the console has seen no response; `learning`: fewer "
           "than 7 days or 200 responses, and nothing is judged; `usual`; "
           "`unusual`: the share of a class of failures has risen"),
    INTEGER("watched_ms", "how long it was watched altogether"),
    TIME("judged_from",
         "when it will have been watched for 7 days, at the earliest; null: "
         "it has been, or it is `unused`",
         .flags = VALUE_NULL),
    INTEGER("responses",
            "how many came before the recent ones; half of them is forgotten "
            "in a week"),
    OBJECT("shares", share_fields, "of these; null: there are none",
           .flags = VALUE_NULL),
    INTEGER("recent_responses", "how many came in the last one to two hours"),
    OBJECT("recent", share_fields, "of these; null: there are none",
           .flags = VALUE_NULL),
    TEXT("alert",
         "the name of the rule for another mix of statuses; null: no rule "
         "watches this endpoint",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_endpoint_usual = {
    .name = "endpoint_usual",
    .process = "console",
    .help = "Shows with which statuses an endpoint usually responds, as the "
            "console has learned it. It does not look whether the endpoint "
            "exists.",
    .args = endpoint_usual_args,
    .reply = OBJECT("reply", endpoint_usual_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/endpoints/{name}/usual"}},
};

static const struct value source_test_reply[] = {
    TEXT("url", "where it was sent"),
    INTEGER("http_status", "of the response of ingress"),
    TEXT("event", "the id of the event; null: it was not accepted",
         .flags = VALUE_NULL),
    TEXT("error", "what ingress responded; null: it was accepted",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_source_test = {
    .name = "source_test",
    .process = "console",
    .help = "Sends one event to ingress as the provider of a source sends it, "
            "signed with the source's first secret. It takes the usual way, "
            "to all endpoints that are subscribed to it. Its request has the "
            "`User-Agent` `grapnel-test/VERSION`. At most 5 at once, and one "
            "every 2 seconds.",
    .args = source_args,
    .reply = OBJECT("reply", source_test_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER | COMMAND_SEVERAL,
    .routes = {{"POST", "/sources/{name}/test"}},
};

/* ---- console_link ---- */

static const char *const link_roles[] = {"viewer", "operator", "admin", NULL};
static const struct value console_link_args[] = {
    CHOICE("role", link_roles, "what it permits; admin, if absent"), {0}};
static const struct value console_link_reply[] = {
    TEXT("url", "to be opened in a browser: shown only here",
         .flags = VALUE_NULL | VALUE_SECRET),
    TIME("expires_at", "when it cannot be used any more"),
    {0}};
const struct command_spec command_console_link = {
    .name = "console_link",
    .process = "console",
    .help = "Makes a link that signs in to the console's pages, once and "
            "within 10 minutes. A restart of the console ends it.",
    .args = console_link_args,
    .reply = OBJECT("reply", console_link_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_ACTS | COMMAND_LOCAL | COMMAND_MEMORY,
};

/* ---- portal_link ---- */

static const struct value portal_link_args[] = {
    TEXT("workspace", "whose endpoints and events it shows",
         .flags = VALUE_REQUIRED, .min = 1, .max = VALUE_TEXT_MAX),
    TEXT("user",
         "who uses it, at most 100 bytes: audit rows and histories show it",
         .min = 1, .max = 100),
    BOOL("read_only", "whether it only shows; false, if absent"),
    {0}};
static const struct value portal_link_reply[] = {
    TEXT("url",
         "to be opened in the browser of that user: shown only here. The "
         "secret is behind the #",
         .flags = VALUE_NULL | VALUE_SECRET),
    TIME("expires_at", "when it cannot be used any more"),
    {0}};
const struct command_spec command_portal_link = {
    .name = "portal_link",
    .process = "console",
    .help = "Makes a link that opens the portal for one workspace, once and "
            "within 10 minutes. A workspace has at most 64 unused links: a "
            "further one ends the oldest. A restart of the console ends all "
            "links.",
    .args = portal_link_args,
    .reply = OBJECT("reply", portal_link_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_MEMORY,
    .routes = {{"POST", "/workspaces/{workspace}/portal-link"}},
};

const struct command_spec *const console_commands[] = {
    &command_console_trace,  &command_alerts,
    &command_alerts_test,    &command_silences,
    &command_alert_silence,  &command_alert_unsilence,
    &command_series,         &command_sources,
    &command_source,         &command_source_test,
    &command_endpoint_usual, &command_console_link,
    &command_portal_link,    NULL};
