/* commands: the one table of all commands. The command line, --help, the manual page and the
 * completion of shells are made from it. */
#include "commands.h"
#include "ctl.h"

/* An option that is an argument of the command's request, which has its help. */
#define ARG(name)        \
    {                    \
        name, NULL, NULL \
    }

#define LIST_TIMES ARG("--since"), ARG("--until"), ARG("--limit")

/* What `dlq retry`, `resolve` and `discard` take with --all. */
#define DEAD_LETTER_FILTERS                                                  \
    {"--all", NULL, "all dead letters that match the filters"},              \
        {"--rate", "N", "N per second (100)"}, ARG("--endpoint"),            \
        ARG("--source"), ARG("--workspace"), ARG("--type"), ARG("--reason"), \
        ARG("--since"), ARG("--until"),                                      \
    {                                                                        \
        "--limit", "N", "at most N (all)"                                    \
    }

const struct command ctl_commands[] = {
    {
        .name = "check",
        .args = "",
        .summary = "check the configuration and show its routes",
        .help =
            "Prints every error with file, line and column (exit 78). Without "
            "errors, it shows for\neach source which events go to which "
            "endpoints, and warns of probable mistakes.\nWith `replicate` it "
            "connects to that database: settings that can lose data, and "
            "missing\ntables, are errors; one that does not respond within "
            "seconds is a warning.\n--event shows where "
            "one event goes: its id, type, workspace, idempotency keys "
            "and\nendpoints; for a producer, also whether /v1/events accepts "
            "it (exit 1 if not).\n--running asks the running processes instead "
            "of reading the file here. Each process\nreads it with the "
            "environment of its own start, and says what a reload would change "
            "and\nwhat needs a restart.\n--against compares what the file "
            "makes of the archived requests of a period with what\nhappened to "
            "them. It reads the databases in state_dir, sends nothing, and "
            "does "
            "not disturb\nthe processes. Exits 1 if there is a difference, 69 "
            "if nothing was compared, 74 if a\ndatabase cannot be "
            "read.\n--provider shows what a built-in "
            "profile does, and the same as `provider: custom`.",
        .examples = "  grapnel check\n"
                    "  grapnel check --running && grapnel reload\n"
                    "  grapnel check -c grapnel.yaml --print\n"
                    "  grapnel check --event body.json --source plane --type "
                    "issue.created\n"
                    "  grapnel check --against 7d -c new.yaml\n"
                    "  grapnel check --provider github\n",
        .options =
            {{"--event", "FILE", "the body of an event (-: standard input)"},
             {"--source", "S", "the source or producer that sends it"},
             {"--type", "T",
              "its type, when the provider sends it in a header (Plane)"},
             {"--running", NULL, "let the running processes check it"},
             {"--against", "D",
              "compare with what happened to archived events since then (7d)"},
             {"--examples", "N", "with --against: ids for each difference (3)"},
             {"--print", NULL, "print the effective configuration"},
             {"--provider", "P", "print its profile"}},
        .run = run_check,
    },
    {
        .name = "send",
        .args = "SOURCE",
        .min = 1,
        .max = 1,
        .summary = "send a correctly signed event to ingress",
        .help = "Signs with the source's first secret in the configuration. "
                "Without --file, it makes a\nnew body that looks like one of "
                "the provider's. For a provider that signs with a private\nkey "
                "(such as Discord or PayPal), it signs with a key of your "
                "own. Add the public key,\nwhich it prints when it creates the "
                "key, to the source's secrets.",
        .examples = "  grapnel send plane\n"
                    "  grapnel send plane --type issue.created --workspace "
                    "acme --count 10\n"
                    "  grapnel send ledger --file body.json\n"
                    "  grapnel send discord --private-key test.pem\n",
        .options =
            {{"--file", "F", "the body, unchanged (-: standard input)"},
             {"--type", "T", "the type of the event"},
             {"--workspace", "W", "the workspace of the event"},
             {"--count", "N", "send N events, one after the other (1)"},
             {"--private-key", "F",
              "a private key in PEM; created if the file does not exist"}},
        .run = run_send,
    },
    {
        .name = "status",
        .args = "",
        .summary = "show the state of all processes: up, backlog, disk, counts",
        .help =
            "down: it is not running. silent: it runs, and does not respond: "
            "it hangs, or\nwaits for its disk. waits: it responds, but not "
            "with its state, and says why.",
        .examples = "  grapnel status\n"
                    "  grapnel status --json | jq '.[] | select(.up | not)'\n",
        .run = run_status,
    },
    {
        .name = "health",
        .args = "PROCESS…",
        .min = 1,
        .max = -1,
        .summary = "check within a second whether a process is alive or ready",
        .help =
            "Exits 0 if each process responds. Exits 69 if one does not: it is "
            "not running, it hangs,\nor it waits for its disk. A process with "
            "a full disk is alive, because a restart would\nnot help it. With "
            "--ready, the process must also be able to do its work: ingress "
            "must\naccept events (as /readyz says), and no disk may be full. "
            "Needs only run_dir of the\nconfiguration.",
        .examples = "  grapnel health ingress\n"
                    "  grapnel health --run-dir /run/grapnel deliverer-1\n"
                    "  grapnel health --ready ingress sequencer --json\n",
        .options = {{"--ready", NULL, "it must also be able to do its work"}},
        .run = run_health,
    },
    {
        .name = "trace",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "show the history of an event, from all processes",
        .help = "ID is an event's id (evt_…), the provider's event id or "
                "delivery id, or a dead letter's\nid (dlq_…). If several "
                "events have the same provider id, they are listed (exit 1), "
                "as\nare refused requests with this id. If a process cannot be "
                "reached, its part is missing,\nand the command says so.",
        .examples = "  grapnel trace evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel trace 4c6d9e0a-provider-id --json\n",
        .run = run_trace,
    },
    {
        .name = "explain",
        .args = "[EVENT]",
        .max = 1,
        .summary = "say which endpoints get an event, and why others do not",
        .help =
            "EVENT is the id of a stored event (evt_…). For each endpoint: "
            "delivered, what the delivery\nwaits for, why it is dead, or why "
            "the event was not routed to it. Without EVENT, --source\nand "
            "--type describe an event that might come. Endpoints are judged by "
            "their present\nsettings; for a stored event, `changed_since` "
            "says whether these changed since then.",
        .examples = "  grapnel explain evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm\n"
                    "  grapnel explain --source plane --type issue.created "
                    "--workspace acme\n",
        .options = {{"--endpoint", "GLOB", "only endpoints of this name"},
                    {"--source", "S", "the source of an event that might come"},
                    {"--type", "T", "its type"},
                    {"--workspace", "W", "its workspace (default)"}},
        .run = run_explain,
    },
    {
        .name = "show",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "show the request of an event: headers and body",
        .help =
            "EVENT is an event's id (evt_…), the provider's id, or a dead "
            "letter's id (dlq_…).\nDuplicates, ignored and refused events "
            "have "
            "a request, too; for a request that ingress\nrefused, use `rejects "
            "show`. If the request contained several events, the body of "
            "this\none is shown. Requests are stored for ingress.archive.keep. "
            "Signatures, tokens, secrets\nand cookies are shown as ….\nWith "
            "--attempt, it shows the request to the endpoint, with the method, "
            "URL and headers\nof that time, and the response: status, headers, "
            "and up to 16 KiB of its body. Secrets,\nand values that the "
            "endpoint's configuration adds, are shown as ….",
        .examples =
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A --raw | jq .\n"
            "  grapnel show 4c6d9e0a-provider-id --json | jq .body\n"
            "  grapnel show evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A --attempt 2 "
            "--endpoint crm\n",
        .options = {{"--raw", NULL,
                     "only the body, byte for byte (to a terminal only if it "
                     "is harmless text)"},
                    {"--headers", NULL, "only the headers"},
                    {"--attempt", "N",
                     "show attempt N instead: its request and the response"},
                    {"--endpoint", "E", "with --attempt: of this endpoint"}},
        .run = run_show,
    },
    {
        .name = "evidence",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "export the story of an event as a signed file",
        .help =
            "One JSON file with all that is stored about an event: its request "
            "(credentials hidden as\n`show` hides them), its verification, "
            "each attempt with its response, and operators' acts\nthat name "
            "it. Its last line is an Ed25519 signature of all bytes before "
            "that "
            "line, made\nwith the key pair of `grapnel evidence key`. The "
            "script verify-evidence.py in\n/usr/share/doc/grapnel/examples "
            "verifies it with the public key. A file that exists is "
            "not\noverwritten. If a process with a database in state_dir "
            "cannot be reached, nothing is written\n(exit 69).",
        .examples = "  grapnel evidence evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--output evidence.json\n",
        .options = {{"--output", "FILE",
                     "write this new file (mode 0600) instead of standard "
                     "output"},
                    {"--private-key", "FILE",
                     "the key to sign with (state_dir/evidence.key)"},
                    {"--partial", NULL,
                     "also without what processes cannot give; the file says "
                     "what is missing"}},
        .run = run_evidence,
    },
    {
        .name = "evidence key",
        .args = "",
        .summary = "print the public key of evidence; make the key pair first",
        .help =
            "The first call makes the key pair: state_dir/evidence.key (mode "
            "0600), of which `grapnel\nbackup` makes no copy. Give the public "
            "key to those who verify evidence, before they\nneed it: a "
            "signature proves nothing to somebody who gets the key with the "
            "file.",
        .examples = "  grapnel evidence key\n",
        .options = {{"--private-key", "FILE",
                     "the key pair (state_dir/evidence.key)"}},
        .run = run_evidence_key,
    },
    {
        .name = "events",
        .args = "",
        .summary = "search events",
        .help = "Status is accepted (stored by ingress, not yet processed by "
                "the sequencer), buffered\n(waits for earlier events), routed, "
                "done, duplicate, ignored, refused or expired.\nrouted: "
                "deliveries are open; done: all deliveries have ended, also "
                "as dead letters. --id\ntakes the provider's event id or "
                "delivery id (X-GitHub-Delivery, X-Plane-Delivery …),\nand "
                "shows both.",
        .examples = "  grapnel events --workspace acme --since 1h\n"
                    "  grapnel events --status refused --json\n",
        .request = &command_events,
        .options = {ARG("--workspace"),
                    ARG("--source"),
                    ARG("--type"),
                    ARG("--endpoint"),
                    /* `accepted` is a status that only ingress knows */
                    {"--status", "WORD", "with this status"},
                    ARG("--id"),
                    LIST_TIMES},
        .run = run_events,
    },
    {
        .name = "deliveries",
        .args = "",
        .summary = "search deliveries",
        .help = "Status is waiting, in_flight, retrying, delivered or dead; "
                "open means one of the first\nthree.",
        .examples = "  grapnel deliveries --endpoint crm --status open\n"
                    "  grapnel deliveries --workspace acme --since 1h --json\n",
        .request = &command_deliveries,
        .options = {ARG("--workspace"), ARG("--source"), ARG("--type"),
                    ARG("--endpoint"), ARG("--status"), LIST_TIMES},
        .run = run_deliveries,
    },
    {
        .name = "endpoints",
        .args = "[NAME]",
        .max = 1,
        .summary = "show the state of each endpoint",
        .help = "State is active, held (it worked before and now refuses every "
                "event), paused, disabled,\noff (enabled: false) or removed. "
                "Success and latency are those of the last minutes. A\nhalted "
                "lane waits for a decision about its dead letter.",
        .examples = "  grapnel endpoints\n"
                    "  grapnel endpoints crm --json\n",
        .run = run_endpoints,
    },
    {
        .name = "endpoints stats",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "show attempts, latency and backlog of an endpoint",
        .help = "Attempts that ended in the last hour, or less with --period, "
                "by outcome and HTTP status;\nlatency of attempts with a "
                "response; open deliveries; the circuit breaker. Counts of\n"
                "attempts are in memory: they begin with the start of the "
                "sequencer.",
        .examples = "  grapnel endpoints stats crm\n"
                    "  grapnel endpoints stats crm --period 15m --json | jq "
                    ".latency_ms.p95\n",
        .options = {{"--period", "D", "from 5m to 1h (the default)"}},
        .run = run_endpoints_stats,
    },
    {
        .name = "endpoints plan",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "show the retry plan of an endpoint and who waits on it",
        .help = "The attempts that its retry policy makes, with their waits, "
                "and how many open deliveries\nwait for each of them. "
                "`retry-plan POLICY` shows a policy without a running "
                "sequencer.",
        .examples = "  grapnel endpoints plan crm\n"
                    "  grapnel endpoints plan crm --json | jq .counts\n",
        .run = run_endpoints_plan,
    },
    {
        .name = "endpoints pause",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "stop deliveries to an endpoint until it is resumed",
        .help = "Its deliveries wait, and the wait does not count in their "
                "retry budgets.",
        .examples = "  grapnel endpoints pause crm\n",
        .run = run_endpoints_pause,
    },
    {
        .name = "endpoints resume",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "resume an endpoint that is paused, disabled or held",
        .help = "Each waiting delivery gets at least one more attempt. An "
                "endpoint that still refuses\nevery event is held again after "
                "ten refusals; `guard: off` switches that off.",
        .examples = "  grapnel endpoints resume crm\n",
        .run = run_endpoints_resume,
    },
    {
        .name = "endpoints test",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "send a signed test event to an endpoint, show the exchange",
        .help = "A deliverer sends it with the endpoint's configuration from "
                "this file (address checks,\nTLS, headers, signing secrets), "
                "also while the endpoint is paused or switched off. That\nof "
                "an endpoint made at run time (ep_…) comes from the sequencer. "
                "The event has the type\ngrapnel.test and is not stored. Exits "
                "1 if the response was not 2xx.",
        .examples = "  grapnel endpoints test crm\n"
                    "  grapnel endpoints test crm --json | jq '.response'\n",
        .run = run_endpoints_test,
    },
    {
        .name = "drill",
        .args = "ENDPOINT",
        .min = 1,
        .max = 1,
        .summary = "test a receiver: duplicates, forged requests, order, size",
        .help = "A deliverer sends about twenty requests with the endpoint's "
                "configuration, as `endpoints\ntest` does, and the statuses "
                "and times of the responses say what the receiver does "
                "wrong.\nThe events have a series and the workspace "
                "`grapnel-drill` of their own, the type\ngrapnel.drill and the "
                "header grapnel-drill, and are not stored here. docs/"
                "RECEIVING.md\nexplains each step. Exits 1 if it finds a "
                "defect.",
        .examples = "  grapnel drill crm\n"
                    "  grapnel drill crm --type invoice.paid --body paid.json\n"
                    "  grapnel drill crm --json | jq '.defects'\n",
        .options =
            {{"--type", "T", "the type of its events (grapnel.drill)"},
             {"--body", "FILE",
              "the body of its events, a JSON object of at most 16 KiB"}},
        .run = run_drill,
    },
    {
        .name = "endpoints create",
        .args = "[URL]",
        .max = 1,
        .summary = "make an endpoint at run time, print its id and secret once",
        .help =
            "It gets events from now on, without a reload. Settings are the "
            "keys of an endpoint of the\nconfiguration, except name and "
            "enabled; URL and options replace those of --settings. "
            "It\nneeds `secrets_key` in the configuration. Standard output "
            "has the id and, unless --settings\nbrought signing_secrets, "
            "the new signing secret.",
        .examples =
            "  grapnel endpoints create https://example.com/hook --workspace "
            "acme\n"
            "  grapnel endpoints create https://example.com/hook --type "
            "\"issue.*,cycle.*\"\n"
            "  grapnel endpoints create --settings acme.json --json | jq -r "
            ".secret\n",
        .options =
            {{"--workspace", "W", "only events of this workspace"},
             {"--type", "T",
              "only events of this type or pattern; several with commas"},
             {"--description", "D", "what it is for; for people"},
             {"--settings", "FILE",
              "a JSON object with settings (-: standard input)"}},
        .run = run_endpoints_create,
    },
    {
        .name = "endpoints change",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "change settings of an endpoint made at run time",
        .help = "Settings that FILE does not have stay; null sets a default "
                "again. Attempts in flight end as\nthey began; every later one "
                "has the new settings. With --if-version, it exits 1 and "
                "changes\nnothing if somebody else has changed the endpoint "
                "since.",
        .examples = "  grapnel endpoints change ep_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--settings new.json\n",
        .options = {{"--settings", "FILE",
                     "a JSON object with settings (-: standard input; "
                     "required)"},
                    {"--if-version", "N", "only if it still has this version"}},
        .run = run_endpoints_change,
    },
    {
        .name = "endpoints rotate",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "make a new signing secret for an endpoint, print it once",
        .help =
            "For an endpoint made at run time. Until the overlap ends, each "
            "request to it has a\nsignature by the old secrets, too, so "
            "that the receiver can change over at any time.\nStandard "
            "output has only the secret.",
        .examples = "  grapnel endpoints rotate ep_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel endpoints rotate ep_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--overlap 7d\n",
        .options = {{"--overlap", "D",
                     "how long the old secrets sign, too, or 0s (24h)"}},
        .run = run_endpoints_rotate,
    },
    {
        .name = "endpoints delete",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "delete an endpoint made at run time",
        .help = "Attempts in flight end; its waiting deliveries become dead "
                "letters. Its id is never used\nagain.",
        .examples =
            "  grapnel endpoints delete ep_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .options = {{"--if-version", "N", "only if it still has this version"}},
        .run = run_endpoints_delete,
    },
    {
        .name = "endpoints export",
        .args = "",
        .summary = "print all endpoints made at run time as JSON",
        .help = "A list of objects with id, description and settings, for "
                "`endpoints import`. Without --secrets,\nit has no signing "
                "secrets, and … in the place of values of headers, queries of "
                "URLs, and\nclient keys. With --secrets, keep the file as you "
                "keep a password.",
        .examples =
            "  grapnel endpoints export | jq -r '.[].settings.url'\n"
            "  grapnel endpoints export --secrets | gpg -c -o endpoints.gpg\n",
        .options = {{"--secrets", NULL, "with all secrets"}},
        .run = run_endpoints_export,
    },
    {
        .name = "endpoints import",
        .args = "FILE",
        .min = 1,
        .max = 1,
        .summary = "make the endpoints of an export, with their ids",
        .help =
            "FILE is of `endpoints export` (-: standard input). An endpoint "
            "whose id exists or existed is\nleft as it is; one with wrong "
            "settings does not stop the others. Each new endpoint is "
            "printed\nwith its id and, if FILE has no signing secrets for "
            "it, a new one, which is shown only once.\nExits 1 if one was "
            "not made.",
        .examples =
            "  grapnel endpoints import endpoints.json\n"
            "  grapnel endpoints export --secrets -c old.yaml | grapnel "
            "endpoints import -\n",
        .run = run_endpoints_import,
    },
    {
        .name = "types",
        .args = "",
        .summary = "list the catalogue of event types",
        .help = "What each type means, and the JSON Schemas against which "
                "ingress checks events of\n"
                "producers with check_schema. docs/EVENT_TYPES.md says what a "
                "schema can say.",
        .examples = "  grapnel types\n"
                    "  grapnel types --json | jq -r '.[] | "
                    "select(.has_schema | not) | .name'\n",
        .request = &command_event_types,
        .options = {ARG("--limit")},
        .run = run_types,
    },
    {
        .name = "types show",
        .args = "TYPE",
        .min = 1,
        .max = 1,
        .summary = "show an event type with its example and its schema",
        .help = "",
        .examples = "  grapnel types show invoice.paid\n"
                    "  grapnel types show invoice.paid --json | jq .schema\n",
        .run = run_types_show,
    },
    {
        .name = "types set",
        .args = "TYPE",
        .min = 1,
        .max = 1,
        .summary = "add an event type to the catalogue, or change it",
        .help = "What is not given stays as it is; \"\" removes it. The schema "
                "and the example are those of\n"
                "data. The example has to fit the schema. Each ingress checks "
                "by the new schema about a\n"
                "second later; events that were accepted stay accepted.",
        .examples = "  grapnel types set invoice.paid --schema paid.json "
                    "--description paid\n"
                    "  grapnel types set invoice.paid --example example.json\n"
                    "  grapnel types set invoice.paid --schema \"\"\n",
        .options = {{"--schema", "FILE", "the JSON Schema (-: standard input)"},
                    {"--example", "FILE", "an example (-: standard input)"},
                    {"--description", "TEXT", "what the type means"},
                    {"--if-version", "N", "only if it still has this version"}},
        .run = run_types_set,
    },
    {
        .name = "types delete",
        .args = "TYPE",
        .min = 1,
        .max = 1,
        .summary = "remove an event type from the catalogue",
        .help = "Its events are then those of an unknown type.",
        .examples = "  grapnel types delete invoice.paid\n",
        .options = {{"--if-version", "N", "only if it still has this version"}},
        .run = run_types_delete,
    },
    {
        .name = "types export",
        .args = "",
        .summary = "print the whole catalogue as JSON",
        .help = "A list of objects with name, description, example and schema, "
                "for `types import`, sorted\n"
                "by name, so that it can be kept under version control.",
        .examples = "  grapnel types export | tee event-types.json\n",
        .run = run_types_export,
    },
    {
        .name = "types import",
        .args = "FILE",
        .min = 1,
        .max = 1,
        .summary = "make the catalogue like a file",
        .help = "FILE is of `types export` (-: standard input). Types that "
                "differ are changed, also if\n"
                "FILE lacks their description, example or schema; equal ones "
                "stay as they are. One with a\n"
                "wrong schema does not stop the others. Exits 1 if one was "
                "refused.",
        .examples = "  grapnel types import event-types.json\n"
                    "  grapnel types import event-types.json "
                    "--delete-others\n",
        .options = {{"--delete-others", NULL,
                     "delete the types that FILE does not have"}},
        .run = run_types_import,
    },
    {
        .name = "retry",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "retry a waiting delivery now",
        .help = "Makes the next attempt now; retry budget, number of attempts "
                "and order do not change. If\nthe circuit breaker is open, it "
                "is the next attempt of the endpoint. If the endpoint "
                "is\npaused or disabled, or no deliverer runs, the command "
                "says so, and the attempt follows\nwhen that has ended. In an "
                "ordered lane, the delivery still waits for earlier "
                "events.\nExits 1 if the event has no open delivery.",
        .examples = "  grapnel retry evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel retry evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm\n",
        .request = &command_retry,
        .options = {ARG("--endpoint")},
        .run = run_retry,
    },
    {
        .name = "abandon",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "stop retrying a delivery",
        .help =
            "The delivery becomes a dead letter with the reason abandoned, and "
            "its lane continues,\nalso with `on_dead: halt`. An attempt in "
            "progress may still reach the endpoint; if it\nsucceeds, the dead "
            "letter becomes recovered. `grapnel dlq retry` sends it "
            "again.",
        .examples = "  grapnel abandon evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm --note obsolete\n",
        .request = &command_abandon,
        .options = {ARG("--endpoint"), ARG("--note")},
        .run = run_abandon,
    },
    {
        .name = "resend",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "deliver an event again",
        .help = "Sends the event to every endpoint that got it or is "
                "subscribed to it now, or to the\nnamed one. The event keeps "
                "its id and number, so receivers that skip duplicates "
                "ignore\nit; the header grapnel-replay: 1 says that an earlier "
                "attempt may have arrived. A\ndelivery that still waits for a "
                "retry is tried now, with its present retry budget.",
        .examples = "  grapnel resend evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel resend evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--endpoint crm\n",
        .options = {{"--endpoint", "E",
                     "only to this endpoint, subscribed or not"}},
        .run = run_resend,
    },
    {
        .name = "replay",
        .args = "",
        .summary = "deliver the events of a period again, from the archive",
        .help =
            "Sends the events received since --since, oldest first, at --rate. "
            "They keep their ids\nand numbers, and have the header "
            "grapnel-replay: 1 if an earlier attempt may have\narrived. "
            "Receivers that skip duplicates ignore them; --new-id makes each a "
            "new event\nwith a new number. A delivery that still waits for a "
            "retry is tried now. Duplicates and\nrefused events are left out. "
            "You can interrupt the command; it prints how to continue.",
        .examples = "  grapnel replay --since 2h --dry-run\n"
                    "  grapnel replay --since 2026-11-21T10:00:00Z --until "
                    "2026-11-21T11:00:00Z\n"
                    "  grapnel replay --since 7d --endpoint warehouse --rate "
                    "50\n",
        .options = {{"--since", "WHEN",
                     "received from this time on (required)"},
                    {"--until", "WHEN", "received before this time (now)"},
                    {"--endpoint", "E",
                     "only to this endpoint, and only its subscribed events"},
                    {"--source", "S", "only from this source"},
                    {"--workspace", "W",
                     "only of matching workspaces (* is any text)"},
                    {"--type", "T", "only of this type"},
                    {"--reason", "R",
                     "only events with a dead letter of this reason"},
                    {"--limit", "N", "at most N (all)"},
                    {"--dry-run", NULL, "only count the events"},
                    {"--new-id", NULL, "as new events"},
                    {"--rate", "N", "N per second (500)"}},
        .run = run_replay,
    },
    {
        .name = "release",
        .args = "EVENT",
        .min = 1,
        .max = 1,
        .summary = "deliver an event that was suppressed as a duplicate",
        .help = "Exits 1 if the event is not a suppressed duplicate.",
        .examples = "  grapnel events --status duplicate\n"
                    "  grapnel release evt_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_release,
    },
    {
        .name = "workspaces",
        .args = "[W]",
        .max = 1,
        .summary =
            "show each workspace's last number, open gaps, waiting events",
        .help = "With W, it also shows the number of events of each type.",
        .examples = "  grapnel workspaces\n"
                    "  grapnel workspaces acme --json\n",
        .request = &command_workspaces,
        .options = {ARG("--limit")},
        .run = run_workspaces,
    },
    {
        .name = "workspaces erase",
        .args = "W",
        .min = 1,
        .max = 1,
        .summary = "erase all data of a workspace; this cannot be undone",
        .help =
            "Makes a job that erases what all processes have of the "
            "workspace: bodies, headers,\nnames, attempts, responses, dead "
            "letters, refused requests. Numbers and times stay. Its\nevents "
            "are refused with 410 from then on. `grapnel jobs --json` shows "
            "the progress and, at\nthe end, what still has the data: backups "
            "and logs.",
        .examples = "  grapnel workspaces erase acme\n"
                    "  grapnel jobs\n",
        .run = run_workspaces_erase,
    },
    {
        .name = "gaps",
        .args = "",
        .summary = "show missing numbers of sources",
        .help =
            "Status is open (later events wait), filled (the events arrived), "
            "skipped (the time or\nbuffer limit was reached) or closed (by an "
            "operator). When some events of a gap arrive,\nthe gap is split.",
        .examples = "  grapnel gaps --open\n"
                    "  grapnel gaps --workspace acme --since 24h --json\n",
        .request = &command_gaps,
        .options = {ARG("--open"), ARG("--source"), ARG("--workspace"),
                    LIST_TIMES},
        .run = run_gaps,
    },
    {
        .name = "gaps close",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "stop waiting for missing numbers",
        .help = "Releases the events that wait for the gap. If the missing "
                "events arrive later, they are\ndelivered late.",
        .examples = "  grapnel gaps close gap_12 --note lost\n",
        .request = &command_close_gap,
        .options = {ARG("--note")},
        .run = run_gaps_close,
    },
    {
        .name = "dlq",
        .args = "",
        .summary = "list dead letters: deliveries that failed for good",
        .help = "Lists those that need a decision; with --state all, all of "
                "them. State is dead,\nrequeued, recovered, resolved or "
                "discarded. In endpoint, source, workspace, type and\nreason, "
                "* matches any text.",
        .examples =
            "  grapnel dlq\n"
            "  grapnel dlq --endpoint crm --reason rejected --since 24h\n"
            "  grapnel dlq --state all --json\n",
        .request = &command_dlq,
        .options = {ARG("--state"), ARG("--endpoint"), ARG("--source"),
                    ARG("--workspace"), ARG("--type"), ARG("--reason"),
                    LIST_TIMES},
        .run = run_dlq,
    },
    {
        .name = "dlq show",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "show a dead letter with headers, body and history",
        .help = "",
        .examples = "  grapnel dlq show dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_dlq_show,
    },
    {
        .name = "dlq retry",
        .args = "ID… | --all",
        .max = -1,
        .summary = "deliver dead letters again, with a new retry budget",
        .help = "ID is a dead letter's id (dlq_…), or an event's id (evt_…) "
                "for all of its dead letters.\nOne whose state is not dead is "
                "refused (exit 1); the others are requeued. With --all,\nthe "
                "oldest are first, at --rate. You can interrupt the command; "
                "the same command\ncontinues with the rest. It skips a "
                "delivery that became a dead letter again meanwhile.\nWith "
                "--to, they are sent to another endpoint and become resolved; "
                "a failure there makes\na new dead letter.",
        .examples = "  grapnel dlq retry dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel dlq retry --all --endpoint crm --reason "
                    "budget_time --rate 50\n",
        .request = &command_dlq_retry_all,
        .options = {ARG("--to"), DEAD_LETTER_FILTERS},
        .run = run_dlq_retry,
    },
    {
        .name = "dlq stats",
        .args = "",
        .summary = "count dead letters by state, endpoint, reason and fault",
        .help = "The fault is the endpoint's (it refused, or could not be "
                "reached), the event's (it is\ninvalid, or came too late), or "
                "the pipeline's (Grapnel's, or its operator's).",
        .examples = "  grapnel dlq stats --json\n",
        .run = run_dlq_stats,
    },
    {
        .name = "dlq resolve",
        .args = "ID | --all",
        .max = 1,
        .summary = "mark a dead letter as handled in another way",
        .help = "ID is the dead letter's id, or the event's id if it has only "
                "one dead letter. The dead\nletter is kept with the note, and "
                "a lane that it halted continues. --all takes all that\nmatch "
                "the filters, the oldest first, at --rate. You can interrupt "
                "the command; the same\ncommand continues with the rest.",
        .examples =
            "  grapnel dlq resolve dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
            "--note typed-in\n"
            "  grapnel dlq resolve --all --endpoint crm --until 7d --note "
            "typed-in\n",
        .request = &command_dlq_resolve_all,
        .options = {ARG("--note"), DEAD_LETTER_FILTERS},
        .run = run_dlq_resolve,
    },
    {
        .name = "dlq discard",
        .args = "ID | --all",
        .max = 1,
        .summary = "mark a dead letter as no longer needed",
        .help = "ID is the dead letter's id, or the event's id if it has only "
                "one dead letter. The dead\nletter is kept with the note, and "
                "a lane that it halted continues. --all takes all that\nmatch "
                "the filters, the oldest first, at --rate. You can interrupt "
                "the command; the same\ncommand continues with the rest.",
        .examples =
            "  grapnel dlq discard dlq_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
            "--note test\n"
            "  grapnel dlq discard --all --endpoint crm --until 7d --note "
            "test\n",
        .request = &command_dlq_discard_all,
        .options = {ARG("--note"), DEAD_LETTER_FILTERS},
        .run = run_dlq_discard,
    },
    {
        .name = "rejects",
        .args = "",
        .summary = "list requests that ingress refused, with the reason",
        .help = "Lists the last thousand of each source and ingress process; "
                "`rejects show` prints their\nbodies. Requests to an unknown "
                "source have the source -.",
        .examples = "  grapnel rejects\n"
                    "  grapnel rejects --source plane --limit 10\n"
                    "  grapnel rejects --json | jq -r '.[].reason' | sort | "
                    "uniq -c\n",
        .request = &command_rejects,
        .options = {ARG("--source"), ARG("--id"), LIST_TIMES},
        .run = run_rejects,
    },
    {
        .name = "rejects show",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "show a refused request: headers and body",
        .help = "ID is the id in the list (rej_…). Bodies are kept for a day, "
                "up to 64 MiB in total. A\nrequest that was refused before its "
                "body arrived, or with 5xx, has none. The first 2 KiB\nof the "
                "headers are kept.",
        .examples = "  grapnel rejects show rej_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n"
                    "  grapnel rejects show rej_01JD3S6Q8W0N8M7V1T2X3Y4Z5A "
                    "--raw | jq .\n",
        .options = {{"--raw", NULL,
                     "only the body, byte for byte (to a terminal only if it "
                     "is harmless text)"}},
        .run = run_rejects_show,
    },
    {
        .name = "rejects explain",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "say which usual mistake explains a refused request",
        .help =
            "Compares the signature of the request with what usual mistakes "
            "make of it: the secret of\nanother source, a body that a proxy "
            "changed, another URL or encoding, a wrong clock. No\nsecret is "
            "shown. Requests are kept for a day.",
        .examples =
            "  grapnel rejects explain rej_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_rejects_explain,
    },
    {
        .name = "retry-plan",
        .args = "POLICY",
        .min = 1,
        .max = 1,
        .summary = "show the waits of a retry policy, and when it ends",
        .help = "--simulate and --outage simulate N events whose first attempt "
                "is at the start of an\noutage of the endpoint: how many are "
                "delivered, and the load on the endpoint afterwards.",
        .examples = "  grapnel retry-plan default\n"
                    "  grapnel retry-plan strict --simulate 5000 --outage 30s\n"
                    "  grapnel retry-plan omise --json | jq '.gives_up'\n",
        .options = {{"--simulate", "EVENTS", "the number of events"},
                    {"--outage", "D", "the length of the outage (30s, 2h)"}},
        .run = run_retry_plan,
    },
    {
        .name = "metrics",
        .args = "",
        .summary = "print the metrics of all processes as they are published",
        .help = "Runs until it is interrupted; with --once, it prints each "
                "process once. docs/METRICS.md\nexplains the metrics. With "
                "--json, it prints one line per frame; with --once, one list.",
        .examples = "  grapnel metrics --once | grep backlog\n"
                    "  grapnel metrics --json | jq -c "
                    "'[.process, .metrics]'\n",
        .options = {{"--once", NULL, "print each process once, then exit"}},
        .run = run_metrics,
    },
    {
        .name = "top",
        .args = "",
        .summary = "show rates, latencies, queues, endpoints and alerts, live",
        .help =
            "q quits, h lists the keys, which sort the endpoints by trouble, "
            "rate, latency, waiting\ndeliveries or name. The numbers are the "
            "metrics that the processes publish\n(metrics.interval), through "
            "the console or, without one, from each process. With --once\nor "
            "--json it prints one screen, also without a terminal, as soon as "
            "rates are known (two\nintervals).",
        .examples = "  grapnel top\n"
                    "  grapnel top --once\n"
                    "  grapnel top --json | jq '.endpoints[] | "
                    "select(.trouble)'\n",
        .options = {{"--once", NULL, "print one screen, then exit"}},
        .run = run_top,
    },
    {
        .name = "alerts",
        .args = "",
        .summary = "list firing and past alerts",
        .help = "State pending: the condition is met, but not yet for as long "
                "as `for` of the rule says. firing: its notifiers were "
                "notified. resolved: it has ended. notified: dead letters "
                "that were reported once.",
        .examples = "  grapnel alerts\n"
                    "  grapnel alerts --json | jq '.[] | select(.state == "
                    "\"firing\")'\n",
        .request = &command_alerts,
        .options = {ARG("--limit")},
        .run = run_alerts,
    },
    {
        .name = "alerts test",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "send a test to an alert's notifiers and show the result",
        .help = "NAME is the name of an alert or a notifier. Exits 1 if a "
                "notifier failed.",
        .examples = "  grapnel alerts test dlq-critical\n"
                    "  grapnel alerts test ops\n",
        .run = run_alerts_test,
    },
    {
        .name = "alerts silences",
        .args = "",
        .summary = "list silenced alerts: until when, by whom and why",
        .help = "The silence that ends first is at the top.",
        .examples = "  grapnel alerts silences\n",
        .request = &command_silences,
        .options = {ARG("--limit")},
        .run = run_alerts_silences,
    },
    {
        .name = "alerts silence",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "notify nobody of an alert for a while",
        .help = "The alert is still evaluated and listed. The silence ends by "
                "itself, after at most 90\ndays; if the alert still fires "
                "then, its notifiers are notified. A further silence\n"
                "replaces the one before. Operational events "
                "(grapnel.alert.firing) are not silenced.",
        .examples =
            "  grapnel alerts silence dlq-critical --for 2h\n"
            "  grapnel alerts silence disk_low --for 3d --note migration\n",
        .options = {{"--for", "T",
                     "for this long, such as 2h, or until this time "
                     "(required)"},
                    {"--note", "TEXT", "why"}},
        .run = run_alerts_silence,
    },
    {
        .name = "alerts unsilence",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "end the silence of an alert",
        .help = "Notifiers of the alert are notified now if it fired while it "
                "was silenced and still\nfires.",
        .examples = "  grapnel alerts unsilence dlq-critical\n",
        .run = run_alerts_unsilence,
    },
    {
        .name = "console link",
        .args = "",
        .summary = "make a link that signs in to the console's pages once",
        .help = "Open the link in a browser within 10 minutes. It needs no "
                "token: who may use this command\nmay do everything. A restart "
                "of the console ends the link, and all sessions.",
        .examples = "  grapnel console link\n"
                    "  grapnel console link --role viewer\n",
        .request = &command_console_link,
        .options = {ARG("--role")},
        .run = run_console_link,
    },
    {
        .name = "portal link",
        .args = "WORKSPACE",
        .min = 1,
        .max = 1,
        .summary = "make a link that opens one workspace's pages once",
        .help = "For a user of the customer that has the workspace. Open the "
                "link in a browser within 10 minutes.\nThe page then works "
                "for 15 minutes. A restart of the console ends links and "
                "pages. docs/CONSOLE.md\nsays how to embed the portal in "
                "pages of your own.",
        .examples = "  grapnel portal link acme\n"
                    "  grapnel portal link acme --user anna@acme.example "
                    "--read-only\n",
        .request = &command_portal_link,
        .options = {ARG("--user"),
                    {"--read-only", NULL, "only show, and change nothing"}},
        .run = run_portal_link,
    },
    {
        .name = "listen",
        .args = "[ENDPOINT]",
        .max = 1,
        .summary = "forward events to a service on this machine",
        .help =
            "Makes a temporary endpoint, which gets the events of --source, "
            "--type and --workspace from now on,\nand sends each to "
            "--forward-to, with the headers and the body that a request of "
            "Grapnel has. Each\nrequest and response is shown. A 2xx ends the "
            "delivery; after any other response it is sent again\nby the retry "
            "policy, and without a response in 5 seconds or more. Without "
            "--forward-to, events are\nshown and acknowledged. Ctrl-C deletes "
            "the endpoint: what waits for it is `abandoned`, without\ndead "
            "letters. While this machine sleeps, events wait; after 24 hours "
            "the endpoint is deleted.\nWith ENDPOINT, it takes the "
            "deliveries of that pull endpoint (`transport: pull`), which "
            "stays.\nIt needs no process and no configuration on this machine, "
            "if --console and a token are given.",
        .examples = "  grapnel listen --source stripe --forward-to "
                    "http://localhost:3000/hooks\n"
                    "  grapnel listen --type \"issue.*\" --workspace acme\n"
                    "  grapnel listen jobs --console https://example.com "
                    "--token file:token\n",
        .options = {{"--source", "S",
                     "events of this source; several with commas (all)"},
                    {"--type", "T",
                     "of this type or pattern; several with commas (all)"},
                    {"--workspace", "W",
                     "of this workspace; several with commas (all)"},
                    {"--forward-to", "URL",
                     "send each event there (without: only show it)"},
                    {"--console", "URL",
                     "the address of the console (that of the configuration)"},
                    {"--token", "T",
                     "its token, of the role operator, or file:PATH "
                     "($GRAPNEL_TOKEN)"},
                    {"--ca", "FILE",
                     "the certificate authorities of the console, instead of "
                     "the system's"},
                    {"--bodies", NULL, "show headers and bodies, too"}},
        .run = run_listen,
    },
    {
        .name = "tokens",
        .args = "",
        .summary = "list the tokens of the HTTP API",
        .help = "Newest first, without the tokens themselves: only their "
                "SHA-256 is stored. Tokens that have\nended are listed for 400 "
                "days. Those of console.tokens in the configuration are not "
                "listed.",
        .examples = "  grapnel tokens\n"
                    "  grapnel tokens --json | jq '.[] | select(.state == "
                    "\"active\")'\n",
        .request = &command_tokens,
        .options = {ARG("--limit")},
        .run = run_tokens,
    },
    {
        .name = "tokens create",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "make a token for the HTTP API and print it, once",
        .help = "NAME appears in the audit rows of what is done with the "
                "token. A viewer reads, an operator\ndoes everything but "
                "tokens and secrets, an admin does everything. A token of the "
                "role\nworkspace is for one of your customers: it sees and "
                "changes only what belongs to its\nworkspace. Standard output "
                "has only the token.",
        .examples = "  grapnel tokens create deploys --role operator "
                    "--expires 90d\n"
                    "  grapnel tokens create grafana --role viewer --json | jq "
                    "-r .token\n"
                    "  grapnel tokens create acme --role workspace --workspace "
                    "acme\n",
        .options = {{"--role", "R",
                     "workspace, viewer, operator or admin (required)"},
                    {"--workspace", "W",
                     "with --role workspace: the one that it is for"},
                    {"--expires",
                     "WHEN", "90d (from now), or a time; without it, never"}},
        .run = run_tokens_create,
    },
    {
        .name = "tokens revoke",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "revoke a token of the HTTP API",
        .help = "ID is the token's id in the list (tok_…). A revoked token "
                "stays in the list for 400 days.",
        .examples = "  grapnel tokens revoke tok_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_tokens_revoke,
    },
    {
        .name = "jobs",
        .args = "",
        .summary = "list long work: bulk actions, replays and erasures",
        .help = "Newest first: jobs that wait or run, and the last 200 of each "
                "process that have ended. A\nprocess runs one job at a time. "
                "After a restart a job continues behind the last item "
                "that\nit did.",
        .examples = "  grapnel jobs\n"
                    "  grapnel jobs --json | jq '.[] | select(.state == "
                    "\"running\")'\n",
        .request = &command_jobs,
        .options = {ARG("--limit")},
        .run = run_jobs,
    },
    {
        .name = "jobs cancel",
        .args = "ID",
        .min = 1,
        .max = 1,
        .summary = "end a job between two items",
        .help = "ID is the job's id in the list (job_…). The items that are "
                "done stay done; the last of them\nis printed.",
        .examples = "  grapnel jobs cancel job_01JD3S6Q8W0N8M7V1T2X3Y4Z5A\n",
        .run = run_jobs_cancel,
    },
    {
        .name = "outbox init",
        .args = "[RELAY]",
        .max = 1,
        .summary = "print the SQL that prepares a database for a relay",
        .help = "RELAY is a name of the section `outbox`; with only one it "
                "can be left out. The SQL has the\ntable, if there is none "
                "yet, the index by which new rows are found, the trigger "
                "that tells of\nthem, and what the relay's user may do. It "
                "can be run again.",
        .examples = "  grapnel outbox init orders | psql app\n",
        .run = run_outbox_init,
    },
    {
        .name = "outbox check",
        .args = "[RELAY]",
        .max = 1,
        .summary = "say what a database lacks for its relay",
        .help = "RELAY is a name of the section `outbox`; without it, all are "
                "checked. The command itself\nconnects to the database, as the "
                "configuration says and with the user that runs it, "
                "and\nchanges nothing. It checks the connection, the table, "
                "its columns and their types, privileges,\n`where`, indexes, "
                "the trigger, statuses, and the endpoint and retry policy. "
                "Exits 1 if\nanything is missing; each line says what to do.",
        .examples = "  grapnel outbox check orders\n"
                    "  grapnel outbox check --json | jq '.[] | "
                    "select(.needed)'\n",
        .run = run_outbox_check,
    },
    {
        .name = "outbox status",
        .args = "[RELAY]",
        .max = 1,
        .summary = "show how far relays are behind",
        .help = "Each outbox process replies for its relays: whether the "
                "database can be used, new rows\nthat wait (counted up to "
                "10000) and the age of the oldest, rows taken and written in "
                "a\nsecond of the last minute, outcomes that wait, rows that "
                "the database refused to change, and\nthe time from "
                "`created_at` until a row was taken.",
        .examples = "  grapnel outbox status\n"
                    "  grapnel outbox status orders --json | jq "
                    "'.[].oldest_ms'\n",
        .request = &command_relays,
        .run = run_outbox_status,
    },
    {
        .name = "reconcile",
        .args = "[SOURCE]",
        .max = 1,
        .summary = "compare what has arrived with a provider's list",
        .help = "Without SOURCE: how far the list of each source with "
                "`reconcile` was compared, how many\nevents the present or "
                "the last walk through it has listed, and how many of them "
                "had never\narrived. With SOURCE, its list is read now; with "
                "--since, also what was compared before.\n`grapnel gaps` has "
                "a record of each event that was found.",
        .examples = "  grapnel reconcile\n"
                    "  grapnel reconcile stripe --since 3d\n",
        .request = &command_reconcile,
        .options = {ARG("--since")},
        .run = run_reconcile,
    },
    {
        .name = "audit",
        .args = "",
        .summary = "list what was changed, and by whom",
        .help =
            "Every change on any process by this command or the HTTP API, "
            "newest first, with its\narguments (without secrets) and its "
            "outcome. A change that takes long has two rows: started\nand "
            "its outcome. Each process keeps its rows for 400 days, at most "
            "100,000.",
        .examples = "  grapnel audit --since 24h\n"
                    "  grapnel audit --json | jq '.[] | select(.actor == "
                    "\"token deploys\")'\n",
        .request = &command_audit,
        .options = {LIST_TIMES},
        .run = run_audit,
    },
    {
        .name = "audit verify",
        .args = "",
        .summary = "verify the hash chain over audit rows",
        .help =
            "Each process verifies the hash chain over its audit rows. Rows "
            "that were cut off at the end\nleave no trace; a hash that was "
            "published before shows it. Each process logs its newest\nhash "
            "once an hour, and audit.notify sends it. Exits 1 if a row was "
            "changed, removed or\ninserted, or if no row has a published "
            "hash.",
        .examples = "  grapnel audit verify\n"
                    "  grapnel audit verify --head 8f3a5c\n",
        .options = {{"--head", "HASH",
                     "a published hash, as PROCESS:ROW:HASH or alone; several "
                     "with commas"}},
        .run = run_audit_verify,
    },
    {
        .name = "reload",
        .args = "",
        .summary = "make every process read the configuration again",
        .help = "All processes reload, or none: if one finds errors, every "
                "process keeps its\nconfiguration (exit 78). Each process says "
                "what changed and what needs a restart. A\nprocess keeps the "
                "environment of its start, so a new ${VAR} needs a restart; "
                "file:PATH\ndoes not.",
        .examples = "  grapnel check --running\n"
                    "  grapnel reload\n"
                    "  grapnel reload --json | jq '.[] | {process, changed, "
                    "restart}'\n",
        .run = run_reload,
    },
    {
        .name = "backup",
        .args = "DIR",
        .min = 1,
        .max = 1,
        .summary = "copy every database while the processes run",
        .help = "DIR is created if it does not exist (mode 0700), and must not "
                "contain databases. It gets\na consistent copy of each "
                "process's database, but not the configuration or the "
                "secrets.\nSee `grapnel restore`.",
        .examples = "  grapnel backup /var/backups/grapnel/$(date +%F)\n",
        .run = run_backup,
    },
    {
        .name = "verify",
        .args = "[PROCESS…]",
        .max = -1,
        .summary = "check the databases for damage",
        .help = "Each process checks its own database at low priority while it "
                "works; the command itself\nchecks the file of a process that "
                "is down. The checks are SQLite's quick_check and "
                "the\nchecksums of archived requests, events, tasks and dead "
                "letters. Each process does the\nsame once a day. Exits 1 if "
                "anything is damaged or could not be checked.",
        .examples = "  grapnel verify\n"
                    "  grapnel verify sequencer\n"
                    "  grapnel verify --offline "
                    "/var/backups/grapnel/2026-11-21\n",
        .options = {{"--offline", "DIR",
                     "check the files in this folder, without changing them"}},
        .run = run_verify,
    },
    {
        .name = "version",
        .args = "",
        .summary = "print the version of this command and of the processes",
        .help = "A process keeps the version with which it was started until "
                "its restart. When versions\ndiffer, the command says which, "
                "and what to do. It needs no configuration: without a\nrun_dir "
                "it prints only its own version.",
        .examples = "  grapnel version\n"
                    "  grapnel version --json | jq .mixed\n",
        .run = run_version,
    },
    {
        .name = "restore",
        .args = "DIR [PROCESS…]",
        .min = 1,
        .max = -1,
        .summary = "replace the databases by the copies of a backup",
        .help =
            "Stop the processes first, and run the command as the user that "
            "owns state_dir. DIR is a\nfolder of `grapnel backup`, or a copy "
            "of state_dir that was made while all processes\nwere stopped. "
            "Without PROCESS, it restores all copies in DIR, which must have "
            "at least\none of ingress, sequencer and dlqd.\n\nThe copies are "
            "checked before anything is changed. The replaced files are kept "
            "in\nstate_dir/replaced-TIME. Data that was stored after the "
            "copies were made is lost. The\nsequencer begins a new "
            "grapnel-series, because it gives numbers a second time.\n\nAfter "
            "a snapshot of a whole disk or virtual machine was rolled back, "
            "use state_dir\nitself as DIR: nothing is copied, but the "
            "processes learn that their databases are old.",
        .examples = "  grapnel restore /var/backups/grapnel/2026-11-21\n"
                    "  grapnel restore /var/backups/grapnel/2026-11-21 dlqd\n"
                    "  grapnel restore /var/backups/grapnel/2026-11-21 "
                    "--then-reconcile stripe\n",
        .options = {{"--then-reconcile", "SOURCE",
                     "when the processes start, take from the list of this "
                     "source's provider what the backup lacks; several with "
                     "commas between"}},
        .run = run_restore,
    },
    {
        .name = "keys make",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "make the key pair of a process that has peers on other "
                   "hosts",
        .help = "NAME is the name of the process, such as deliverer-2. Writes "
                "NAME.cert_secret and NAME.cert\n(mode 0600) in the folder "
                "`cluster.keys`, and prints the public key for `cluster.peers` "
                "of\nevery host. Files that exist are not overwritten (exit "
                "1). Make each key on the host of its\nprocess, as the user "
                "that runs it.",
        .examples = "  grapnel keys make deliverer-2\n",
        .options = {{"--keys", "DIR", "the folder of keys (cluster.keys)"}},
        .run = run_keys_make,
    },
    {
        .name = "keys show",
        .args = "NAME",
        .min = 1,
        .max = 1,
        .summary = "print the public key of a process",
        .help = "",
        .examples = "  grapnel keys show deliverer-2\n",
        .options = {{"--keys", "DIR", "the folder of keys (cluster.keys)"}},
        .run = run_keys_show,
    },
    {
        .name = "replicate init",
        .args = "",
        .summary = "print the SQL that prepares the replication database",
        .help = "For the administrator of the database `replicate.database`, "
                "to be run once: it makes a role,\na schema with four tables, "
                "and grants.",
        .examples = "  grapnel replicate init | sudo -u postgres psql "
                    "-v ON_ERROR_STOP=1 -d grapnel\n",
        .run = run_replicate_init,
    },
    {
        .name = "replicate begin",
        .args = "[NAME...]",
        .max = -1,
        .summary = "begin to replicate the databases of this host",
        .help = "The processes must be stopped. Without NAME: each ingress, "
                "sequencer and dlqd that has a\ndatabase here, or that "
                "`cluster.peers` names with this host (`ingress`, `sequencer` "
                "and\n`dlqd` if it names no hosts). Their databases become "
                "the beginning of a log in\n`replicate.database`; when the "
                "processes are started here, they replicate, and make a\n"
                "snapshot for other hosts. On the other hosts nothing is to be "
                "begun: processes that\nstart there without a database "
                "follow. Repeat it after any error.",
        .examples = "  grapnel replicate begin\n"
                    "  grapnel replicate begin ingress-2\n",
        .run = run_replicate_begin,
    },
    {
        .name = "replicate status",
        .args = "",
        .summary = "show who has each database, who could take over, and what "
                   "would be lost now",
        .help = "Reads the replication database, so it works on each host, "
                "whatever runs there. Exits 1 if\na process is active "
                "nowhere, has no standby that is ready, or if the settings of "
                "the database\ncan lose what it has acknowledged; 69 if the "
                "database does not respond.",
        .examples = "  grapnel replicate status\n",
        .run = run_replicate_status,
    },
    {
        .name = "replicate off",
        .args = "NAME...",
        .min = 1,
        .max = -1,
        .summary = "end the replication of databases, which stay with this "
                   "host",
        .help = "Stop the standbys first, then the process on this host, which "
                "must have the newest file:\na standby takes over what is "
                "stopped. Afterwards remove `replicate` from the "
                "configuration,\nor begin again.",
        .examples = "  grapnel replicate off ingress sequencer dlqd\n",
        .options = {{"--standbys-are-stopped", NULL,
                     "the replication database is lost: do not ask it. If a "
                     "standby does run, it may take over what this host goes "
                     "on with, and both serve"}},
        .run = run_replicate_off,
    },
    {
        .name = "handover",
        .args = "NAME HOST",
        .min = 2,
        .max = 2,
        .summary = "give the database of a process to a standby on another "
                   "host, now",
        .help = "The active process finishes its turn and stops; HOST takes "
                "over at once, and the former active\nfollows when its "
                "supervisor has started it again. Nothing is lost, and "
                "clients notice a pause\nof less than a second. HOST must "
                "be ready (`grapnel replicate status`).",
        .examples = "  grapnel handover sequencer hub-2\n",
        .run = run_handover,
    },
    {0}};
