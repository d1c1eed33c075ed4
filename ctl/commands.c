/* commands: the one table of what `grapnel` can do. The command line is read by
 * it, --help, the man page and what shells complete are made from it. */
#include "ctl.h"

#define LIST_TIMES                                                    \
    {"--since", "WHEN", "from then on: 24h (so long ago) or a time"}, \
        {"--until", "WHEN", "before then"},                           \
    {                                                                 \
        "--limit", "N", "at most so many, newest first (100)"         \
    }

/* What `dlq retry`, `resolve` and `discard` take with --all. */
#define LETTER_FILTERS                                          \
    {"--all", NULL, "every dead letter that the filters take"}, \
        {"--rate", "N", "so many a second (100)"},              \
        {"--endpoint", "E", "for this endpoint"},               \
        {"--source", "S", "from this source"},                  \
        {"--workspace", "W", "of this workspace"},              \
        {"--type", "T", "of this type"},                        \
        {"--reason", "R", "dead for this reason"},              \
        {"--since", "WHEN", "dead from then on"},               \
        {"--until", "WHEN", "dead before then"},                \
    {                                                           \
        "--limit", "N", "at most so many (all)"                 \
    }

const struct command ctl_commands[] = {
    {
        .name = "check",
        .args = "",
        .summary = "validate the configuration, and say what will happen",
        .help =
            "Every error is printed, with file, line and column (exit 78). "
            "Without errors it says\nfor each source which events go to which "
            "endpoints, and warns of what is likely a\nmistake. --event: what "
            "becomes of this event: its id, type, workspace, the keys by\n"
            "which a duplicate is known, its endpoints; of a producer, also "
            "whether /v1/events\naccepts it (exit 1 if not). --running asks "
            "the "
            "running processes\ninstead of reading the file here: each reads "
            "it with the environment of its own start,\nand says what a "
            "reload would change and what needs a restart. --provider: what "
            "a\nbuilt-in profile does, and the same as `provider: custom`.",
        .examples = "  grapnel check\n"
                    "  grapnel check --running && grapnel reload\n"
                    "  grapnel check -c grapnel.yaml --print\n"
                    "  grapnel check --event body.json --source plane --type "
                    "issue.created\n"
                    "  grapnel check --provider github\n",
        .options = {{"--event", "FILE", "a body (- for standard input)"},
                    {"--source", "S", "the source or producer that sends it"},
                    {"--type", "T",
                     "its type, where a header carries it (Plane)"},
                    {"--running", NULL,
                     "ask the running processes what they make of it"},
                    {"--print", NULL, "print the effective configuration"},
                    {"--provider", "P", "print what its profile does"}},
        .run = run_check,
    },
    {
        .name = "send",
        .args = "SOURCE",
        .least = 1,
        .most = 1,
        .summary = "post a correctly signed event to ingress",
        .help =
            "The secret is the source's first one in the configuration. "
            "Without --file the body looks\nlike one of the provider's, new "
            "each time. For a provider that signs by a private key\n"
            "(Discord, SendGrid, PayPal …) it signs by a key of your own; the "
            "public half, which is\nprinted when the key is made, must be in "
            "the source's secrets.",
        .examples = "  grapnel send plane\n"
                    "  grapnel send plane --type issue.created --workspace "
                    "acme --count 10\n"
                    "  grapnel send ledger --file body.json\n"
                    "  grapnel send discord --private-key test.pem\n",
        .options = {{"--file", "F",
                     "the body, as it is (- for standard input)"},
                    {"--type", "T", "the event's type"},
                    {"--workspace", "W", "its workspace"},
                    {"--count", "N", "so many, one after the other (1)"},
                    {"--private-key", "F",
                     "PEM; made, and kept there, if there is no such file"}},
        .run = run_send,
    },
    {
        .name = "status",
        .args = "",
        .summary = "how every process is: up, backlog, disk, counts",
        .help = "",
        .examples = "  grapnel status\n"
                    "  grapnel status --json | jq '.[] | select(.up | not)'\n",
        .run = run_status,
    },
    {
        .name = "health",
        .args = "PROCESS…",
        .least = 1,
        .most = -1,
        .summary = "is a process alive, or ready, within a second: for probes",
        .help =
            "Exits 0 if each responds, 69 if not: it is not running, or it "
            "hangs, or it waits for its\ndisk. A restart mends nothing else, "
            "so a process whose disk is full is alive. With --ready\nit must "
            "be able to do its work, too: ingress must accept events, as "
            "/readyz says, and no disk\nmay be full. Needs run_dir and nothing "
            "else of the configuration.",
        .examples = "  grapnel health ingress\n"
                    "  grapnel health --run-dir /run/grapnel deliverer-1\n"
                    "  grapnel health --ready ingress sequencer --json\n",
        .options = {{"--ready", NULL, "it must be able to do its work"}},
        .run = run_health,
    },
    {
        .name = "trace",
        .args = "ID",
        .least = 1,
        .most = 1,
        .summary = "an event's whole history, from every process",
        .help =
            "ID is ours (evt_…), the provider's, of the event or of its "
            "delivery, or a dead letter's (dlq_…).\nIf several events have the "
            "same provider id, they are listed (exit 1). Requests "
            "that\ningress refused are listed, too. A process that can't be "
            "asked is named, and its part\nis missing.",
        .examples = "  grapnel trace evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel trace 4c6d9e0a-provider-id --json\n",
        .run = run_trace,
    },
    {
        .name = "show",
        .args = "EVENT",
        .least = 1,
        .most = 1,
        .summary = "the request that brought an event: headers and body",
        .help =
            "EVENT is ours (evt_…), the provider's, or a dead letter's "
            "(dlq_…); duplicates, ignored and\nrefused events have one, too. "
            "If the request held several events, the body of this one\nis "
            "shown. It is there as long as the archive keeps it "
            "(ingress.archive.keep). Headers\nthat hold a signature, a token, "
            "a secret or a cookie are shown as …. For requests that\nwere "
            "refused: rejects show.\nWith --attempt, the body is made of that "
            "request. Method, URL and headers are those of that\ntime, kept "
            "with an attempt that failed and rebuilt for one that delivered; "
            "secrets and\nwhat the endpoint's configuration adds are shown as "
            "…. Of the response: status, headers,\nand up to 16 KiB of its "
            "body.",
        .examples =
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A --raw | jq .\n"
            "  grapnel show 4c6d9e0a-provider-id --json | jq .body\n"
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A --attempt 2 "
            "--endpoint crm\n",
        .options = {{"--raw", NULL,
                     "only the body, byte for byte (not to a terminal unless "
                     "it is harmless)"},
                    {"--headers", NULL, "only the headers"},
                    {"--attempt", "N",
                     "instead, what attempt N sent, and what came back"},
                    {"--endpoint", "E", "with --attempt: only at this one"}},
        .run = run_show,
    },
    {
        .name = "events",
        .args = "",
        .summary = "search what came in",
        .help = "Status is accepted (only ingress has it so far), buffered, "
                "routed, done, duplicate,\nignored, refused or expired. The "
                "provider's id is that of the event, or of the delivery\n"
                "that it came by (X-GitHub-Delivery, X-Plane-Delivery …); "
                "with --id both are shown.",
        .examples = "  grapnel events --workspace acme --since 1h\n"
                    "  grapnel events --status refused --json\n",
        .options = {{"--workspace", "W", "of this workspace"},
                    {"--source", "S", "of this source"},
                    {"--type", "T", "of this type"},
                    {"--endpoint", "E", "routed to this endpoint"},
                    {"--status", "S", "in this status"},
                    {"--id", "ID", "with this id of the provider's"},
                    LIST_TIMES},
        .run = run_events,
    },
    {
        .name = "deliveries",
        .args = "",
        .summary = "search what is delivered, or on its way",
        .help = "Status is waiting, in_flight, retrying, delivered, dead; or "
                "open, for the first three.",
        .examples = "  grapnel deliveries --endpoint crm --status open\n"
                    "  grapnel deliveries --workspace acme --since 1h --json\n",
        .options = {{"--workspace", "W", "of this workspace"},
                    {"--source", "S", "from this source"},
                    {"--type", "T", "of this type"},
                    {"--endpoint", "E", "to this endpoint"},
                    {"--status", "S", "in this status"},
                    LIST_TIMES},
        .run = run_deliveries,
    },
    {
        .name = "endpoints",
        .args = "[NAME]",
        .most = 1,
        .summary = "the state of each endpoint",
        .help = "State is active, held (it worked, and refuses every event "
                "now), paused, disabled, off\n(enabled: false) or removed. "
                "Success and latency are of the last minutes. A halted\nlane "
                "waits for a decision about its dead letter.",
        .examples = "  grapnel endpoints\n"
                    "  grapnel endpoints crm --json\n",
        .run = run_endpoints,
    },
    {
        .name = "endpoints pause",
        .args = "NAME",
        .least = 1,
        .most = 1,
        .summary = "try nothing there until it is resumed",
        .help = "Its deliveries wait meanwhile, and no retry budget runs out.",
        .examples = "  grapnel endpoints pause crm\n",
        .run = run_endpoints_pause,
    },
    {
        .name = "endpoints resume",
        .args = "NAME",
        .least = 1,
        .most = 1,
        .summary = "try again one that is paused, disabled or held",
        .help = "Each delivery that waits gets at least one more try. One that "
                "is held and still refuses\neverything is held again after "
                "ten refusals; `guard: off` turns that off.",
        .examples = "  grapnel endpoints resume crm\n",
        .run = run_endpoints_resume,
    },
    {
        .name = "endpoints test",
        .args = "NAME",
        .least = 1,
        .most = 1,
        .summary = "send a signed test event to an endpoint, and show it all",
        .help = "A deliverer sends it, by the endpoint's configuration in this "
                "file: with its address\nguard, TLS, headers and signing "
                "secrets, also while it is paused or not enabled. The\nevent "
                "is of type grapnel.test and is in no history. Exit 1: the "
                "response was not 2xx.",
        .examples = "  grapnel endpoints test crm\n"
                    "  grapnel endpoints test crm --json | jq '.response'\n",
        .run = run_endpoints_test,
    },
    {
        .name = "retry",
        .args = "EVENT",
        .least = 1,
        .most = 1,
        .summary = "try a delivery that waits for its retry now",
        .help =
            "Its budget, attempts and order stay as they are: this is its next "
            "attempt, earlier. With an\nopen circuit it is the next probe; "
            "while its endpoint is paused or disabled, or no\ndeliverer runs, "
            "the command says so, and it is tried when that has ended. In "
            "an ordered\nlane it never overtakes an earlier event. Exits 1 "
            "when the "
            "event has no open delivery.",
        .examples = "  grapnel retry evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel retry evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm\n",
        .options = {{"--endpoint", "E", "only the delivery to this one"}},
        .run = run_retry,
    },
    {
        .name = "abandon",
        .args = "EVENT",
        .least = 1,
        .most = 1,
        .summary = "give up a delivery that is still being tried",
        .help =
            "It becomes a dead letter with the reason abandoned, and its "
            "lane goes on, also with\n`on_dead: halt`. An attempt that is "
            "under way may still reach the endpoint; if it\nsucceeds, "
            "the dead letter becomes recovered. `grapnel dlq retry` sends it "
            "again.",
        .examples = "  grapnel abandon evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm --note obsolete\n",
        .options = {{"--endpoint", "E", "the delivery to this one (needed)"},
                    {"--note", "TEXT", "why (needed)"}},
        .run = run_abandon,
    },
    {
        .name = "resend",
        .args = "EVENT",
        .least = 1,
        .most = 1,
        .summary = "deliver an event again",
        .help =
            "To every endpoint that had it or is subscribed to it today, or "
            "to the one that is named. It keeps\nits id and number; receivers "
            "that "
            "deduplicate skip it. It carries grapnel-replay: 1 where an\n"
            "earlier attempt may have arrived. A delivery that still waits for "
            "a retry is tried now\ninstead, with the budget that it has.",
        .examples = "  grapnel resend evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel resend evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm\n",
        .options = {{"--endpoint", "E", "only to this one, subscribed or not"}},
        .run = run_resend,
    },
    {
        .name = "replay",
        .args = "",
        .summary = "deliver again, from the archive, the events of a time",
        .help =
            "What was received from --since on, oldest first, at --rate. "
            "Events keep their ids and\nnumbers and carry grapnel-replay: 1 "
            "where an earlier attempt may have arrived;\nreceivers that "
            "deduplicate skip them: --new-id is for that, and "
            "makes each a new event\nwith a new number. A delivery that still "
            "waits for a retry is tried now. Suppressed\nduplicates and "
            "refused events are left out. It may be interrupted; it says how "
            "to go on.",
        .examples = "  grapnel replay --since 2h --dry-run\n"
                    "  grapnel replay --since 2026-11-21T10:00:00Z --until "
                    "2026-11-21T11:00:00Z\n"
                    "  grapnel replay --since 7d --endpoint warehouse --rate "
                    "50\n",
        .options = {{"--since", "WHEN", "received from then on (needed)"},
                    {"--until", "WHEN", "received before then (now)"},
                    {"--endpoint", "E",
                     "only to this one, and only what it is subscribed to"},
                    {"--source", "S", "only from this source"},
                    {"--workspace", "W", "only of these (* for any text)"},
                    {"--type", "T", "only of this type"},
                    {"--reason", "R", "only what is dead for this reason"},
                    {"--limit", "N", "at most so many (all)"},
                    {"--dry-run", NULL, "only count them"},
                    {"--new-id", NULL, "as new events"},
                    {"--rate", "N", "so many a second (500)"}},
        .run = run_replay,
    },
    {
        .name = "release",
        .args = "EVENT",
        .least = 1,
        .most = 1,
        .summary = "deliver a suppressed duplicate",
        .help = "It is routed as if it were not a duplicate. Exits 1 if the "
                "event is not a suppressed\nduplicate.",
        .examples = "  grapnel events --status duplicate\n"
                    "  grapnel release evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_release,
    },
    {
        .name = "workspaces",
        .args = "[W]",
        .most = 1,
        .summary = "each workspace's number, open gaps, what is held back",
        .help = "With W also how many events of each type it had so far.",
        .examples = "  grapnel workspaces\n"
                    "  grapnel workspaces acme --json\n",
        .options = {{"--limit", "N", "at most so many (100)"}},
        .run = run_workspaces,
    },
    {
        .name = "gaps",
        .args = "",
        .summary = "numbers of sources that are or were missing",
        .help = "Status is open (waited for), filled (they came after all), "
                "skipped (time or buffer was\nover) or closed (by a person). "
                "When a part of a gap comes, it is split.",
        .examples = "  grapnel gaps --open\n"
                    "  grapnel gaps --workspace acme --since 24h --json\n",
        .options = {{"--open", NULL, "only those that are waited for"},
                    {"--source", "S", "of this source"},
                    {"--workspace", "W", "of this workspace"},
                    LIST_TIMES},
        .run = run_gaps,
    },
    {
        .name = "gaps close",
        .args = "ID",
        .least = 1,
        .most = 1,
        .summary = "stop waiting for missing numbers",
        .help =
            "The events that the gap holds back are released; the missing ones "
            "are delivered late if\nthey arrive.",
        .examples = "  grapnel gaps close gap_12 --note lost\n",
        .options = {{"--note", "TEXT", "why (needed)"}},
        .run = run_gaps_close,
    },
    {
        .name = "dlq",
        .args = "",
        .summary = "dead letters: events that could not be delivered",
        .help = "Those that need a decision; --state all for all. In endpoint, "
                "source, workspace, type\nand reason a * stands for any text.",
        .examples =
            "  grapnel dlq\n"
            "  grapnel dlq --endpoint crm --reason rejected --since 24h\n"
            "  grapnel dlq --state all --json\n",
        .options =
            {{"--state", "S",
              "dead (default), requeued, recovered, resolved, discarded, all"},
             {"--endpoint", "E", "for this endpoint"},
             {"--source", "S", "from this source"},
             {"--workspace", "W", "of this workspace"},
             {"--type", "T", "of this type"},
             {"--reason", "R", "dead for this reason"},
             LIST_TIMES},
        .run = run_dlq,
    },
    {
        .name = "dlq show",
        .args = "ID",
        .least = 1,
        .most = 1,
        .summary = "one dead letter with headers, body and history",
        .help = "",
        .examples = "  grapnel dlq show dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_dlq_show,
    },
    {
        .name = "dlq retry",
        .args = "ID… | --all",
        .most = -1,
        .summary = "deliver dead letters again, each with a new budget",
        .help =
            "ID is a dead letter's (dlq_…), or an event's (evt_…) for all "
            "of its dead letters.\nOne that is not dead is refused (exit 1; "
            "the others are requeued all the same).\nWith --all the oldest "
            "are first, at --rate; it may be interrupted at any time, and "
            "the\nsame command continues with the rest. One that is "
            "dead-lettered again meanwhile is left\nalone. With --to they "
            "are sent to another endpoint, and are resolved by that; one "
            "that\nfails there is a new dead letter.",
        .examples = "  grapnel dlq retry dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel dlq retry --all --endpoint crm --reason "
                    "budget_time --rate 50\n",
        .options = {{"--to", "E", "to this endpoint instead"}, LETTER_FILTERS},
        .run = run_dlq_retry,
    },
    {
        .name = "dlq stats",
        .args = "",
        .summary = "dead letters by state, endpoint, reason and fault",
        .help =
            "A fault is the endpoint's (it refused, or could not be "
            "reached), the event's (it can't\nbe used, or came too late), or "
            "the pipeline's (Grapnel's, or its operator's).",
        .examples = "  grapnel dlq stats --json\n",
        .run = run_dlq_stats,
    },
    {
        .name = "dlq resolve",
        .args = "ID | --all",
        .most = 1,
        .summary = "mark a dead letter as dealt with in another way",
        .help = "ID is the dead letter's, or its event's if that has one only. "
                "It is kept with the\nnote, and a lane that it halts goes on. "
                "With --all and filters every dead letter that\nthey take, the "
                "oldest first, at --rate; it may be interrupted, and the same "
                "command\ngoes on with the rest.",
        .examples =
            "  grapnel dlq resolve dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
            "--note typed-in\n"
            "  grapnel dlq resolve --all --endpoint crm --until 7d --note "
            "typed-in\n",
        .options = {{"--note", "T", "what was done (needed)"}, LETTER_FILTERS},
        .run = run_dlq_resolve,
    },
    {
        .name = "dlq discard",
        .args = "ID | --all",
        .most = 1,
        .summary = "mark a dead letter as no longer needed",
        .help = "ID is the dead letter's, or its event's if that has one only. "
                "It is kept with the\nnote, and a lane that it halts goes on. "
                "With --all and filters every dead letter that\nthey take, the "
                "oldest first, at --rate; it may be interrupted, and the same "
                "command\ngoes on with the rest.",
        .examples =
            "  grapnel dlq discard dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
            "--note test\n"
            "  grapnel dlq discard --all --endpoint crm --until 7d --note "
            "test\n",
        .options = {{"--note", "T", "why (needed)"}, LETTER_FILTERS},
        .run = run_dlq_discard,
    },
    {
        .name = "rejects",
        .args = "",
        .summary = "requests that ingress refused, and why",
        .help = "The last thousand of each source and ingress process; rejects "
                "show has their bodies.\nRequests that named no source of the "
                "configuration are those of source -.",
        .examples = "  grapnel rejects\n"
                    "  grapnel rejects --source plane --limit 10\n"
                    "  grapnel rejects --json | jq -r '.[].reason' | sort | "
                    "uniq -c\n",
        .options = {{"--source", "S", "of this source or producer"},
                    {"--id", "ID",
                     "that a header names as the provider's delivery"},
                    LIST_TIMES},
        .run = run_rejects,
    },
    {
        .name = "rejects show",
        .args = "ID",
        .least = 1,
        .most = 1,
        .summary = "one refused request: headers and body",
        .help = "ID is that of the list (rej_…). Bodies are kept for a day, 64 "
                "MiB at most in all. One\nthat was refused before its body "
                "had come, or with 5xx, has none. Of the headers the\nfirst 2 "
                "KiB are kept.",
        .examples = "  grapnel rejects show rej_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel rejects show rej_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--raw | jq .\n",
        .options = {{"--raw", NULL,
                     "only the body, byte for byte (not to a terminal unless "
                     "it is harmless)"}},
        .run = run_rejects_show,
    },
    {
        .name = "retry-plan",
        .args = "POLICY",
        .least = 1,
        .most = 1,
        .summary = "the waits of a retry policy, and when it gives up",
        .help = "With --simulate: so many events are first tried as an outage "
                "of the endpoint begins;\nwhat comes of them, and what load "
                "the endpoint sees when it is back.",
        .examples = "  grapnel retry-plan default\n"
                    "  grapnel retry-plan strict --simulate 5000 --outage 30s\n"
                    "  grapnel retry-plan omise --json | jq '.gives_up'\n",
        .options = {{"--simulate", "EVENTS", "how many fail together"},
                    {"--outage", "D", "for how long (30s, 2h)"}},
        .run = run_retry_plan,
    },
    {
        .name = "metrics",
        .args = "",
        .summary = "what every process counts, as it publishes it",
        .help = "Until it is interrupted; with --once, each process one time. "
                "Every number is explained\nin docs/METRICS.md. With --json a "
                "line for each frame; with --once one list of them.",
        .examples = "  grapnel metrics --once | grep backlog\n"
                    "  grapnel metrics --json | jq -c "
                    "'[.process, .metrics]'\n",
        .options = {{"--once", NULL, "each process one time, then end"}},
        .run = run_metrics,
    },
    {
        .name = "top",
        .args = "",
        .summary = "rates, latencies, depths, endpoints, gaps, alerts, live",
        .help =
            "q quits, h lists the keys: endpoints by trouble, rate, latency, "
            "what waits, or name.\nNumbers come from what each process "
            "publishes (metrics.interval), by the console's\naddress or, "
            "without one, from each; the rest from control sockets. With "
            "--once, or\n--json, one look, on no terminal; it waits until "
            "rates are known (two intervals).",
        .examples = "  grapnel top\n"
                    "  grapnel top --once\n"
                    "  grapnel top --json | jq '.endpoints[] | "
                    "select(.trouble)'\n",
        .options = {{"--once", NULL, "print one look, then end"}},
        .run = run_top,
    },
    {
        .name = "alerts",
        .args = "",
        .summary = "what fires now, and what fired before",
        .help = "Pending: it is so, but not yet for as long as the rule says.",
        .examples = "  grapnel alerts\n"
                    "  grapnel alerts --json | jq '.[] | select(.state == "
                    "\"firing\")'\n",
        .options = {{"--limit", "N", "at most so many (100)"}},
        .run = run_alerts,
    },
    {
        .name = "alerts test",
        .args = "NAME",
        .least = 1,
        .most = 1,
        .summary = "tell an alert's notifiers a test, and wait for the outcome",
        .help = "NAME is an alert's or a notifier's. Exit 1 when one could not "
                "be told.",
        .examples = "  grapnel alerts test dlq-critical\n"
                    "  grapnel alerts test ops\n",
        .run = run_alerts_test,
    },
    {
        .name = "reload",
        .args = "",
        .summary = "every process reads the configuration again",
        .help = "All of them or none: if one has errors (exit 78), every "
                "process keeps what it has. Each\nsays what changed and what "
                "needs a restart. A process keeps the environment of its\n"
                "start, so a new ${VAR} needs a restart; file:PATH does not.",
        .examples = "  grapnel check --running\n"
                    "  grapnel reload\n"
                    "  grapnel reload --json | jq '.[] | {process, changed, "
                    "restart}'\n",
        .run = run_reload,
    },
    {
        .name = "backup",
        .args = "DIR",
        .least = 1,
        .most = 1,
        .summary = "a consistent copy of every database, while running",
        .help = "DIR is made if need be (0700) and must hold no database yet. "
                "It gets a copy of each\nprocess's database; the configuration "
                "and the files of secrets are not in it.\nSee grapnel restore.",
        .examples = "  grapnel backup /var/backups/grapnel/$(date +%F)\n",
        .run = run_backup,
    },
    {
        .name = "verify",
        .args = "[PROCESS…]",
        .most = -1,
        .summary = "look through the databases for damage",
        .help = "Each process looks through its own database at low priority "
                "while it works; the file of\none that is down is read here. "
                "SQLite's quick_check, and a checksum of each archived\n"
                "request, event, task and dead letter. Processes do the same "
                "once a day.\nExits 1 when anything is damaged, or could not "
                "be looked through.",
        .examples = "  grapnel verify\n"
                    "  grapnel verify sequencer\n"
                    "  grapnel verify --offline "
                    "/var/backups/grapnel/2026-11-21\n",
        .options = {{"--offline", "DIR",
                     "the files of this folder, read only; no process is "
                     "asked"}},
        .run = run_verify,
    },
    {
        .name = "version",
        .args = "",
        .summary = "the version of this command and of every process that runs",
        .help = "Processes keep the version with which they were started until "
                "they are restarted. When\nversions differ it says which ones, "
                "and what to do. Needs no configuration: without a\nrun_dir "
                "only this command's own version is printed.",
        .examples = "  grapnel version\n"
                    "  grapnel version --json | jq .mixed\n",
        .run = run_version,
    },
    {
        .name = "restore",
        .args = "DIR [PROCESS…]",
        .least = 1,
        .most = -1,
        .summary = "put the copies of a backup in the place of the databases",
        .help = "DIR is a folder of grapnel backup, or a copy of state_dir "
                "that was made while all\nprocesses were stopped. Without a "
                "PROCESS all copies in DIR are restored; there must be\none of "
                "ingress, sequencer and dlqd at least. The processes must be "
                "stopped. Run it\nas the user that owns state_dir.\n\n"
                "The copies are checked before anything is changed. What they "
                "replace is kept in\nstate_dir/replaced-TIME. What was stored "
                "after the copies were made is lost; the\nsequencer begins a "
                "new grapnel-series, as it gives numbers a second time.\n\n"
                "After a snapshot of a whole disk or virtual machine was "
                "rolled back, DIR is state_dir\nitself: nothing is copied, "
                "but the processes learn that their databases are old.",
        .examples = "  grapnel restore /var/backups/grapnel/2026-11-21\n"
                    "  grapnel restore /var/backups/grapnel/2026-11-21 dlqd\n",
        .run = run_restore,
    },
    {0}};
