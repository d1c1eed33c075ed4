/* every_commands: what every process answers. */
#include "commands.h"
#include "tables.h"

#define PROCESS_FIELDS                             \
    TEXT("process", "the name of the process"),    \
        TEXT("version", "its version of Grapnel"), \
        INTEGER("pid", "its number in the operating system")

/* ---- ping ---- */

static const struct value ping_reply[] = {
    PROCESS_FIELDS, TIME("started_at", "when it started"), {0}};
const struct command_spec command_ping = {
    .name = "ping",
    .process = "every",
    .help = "Whether the process responds.",
    .reply = OBJECT("reply", ping_reply, ""),
    .role = ROLE_VIEWER,
};

/* ---- status ---- */

const struct value store_fields[] = {
    TEXT("path", "the file"),
    INTEGER("bytes", "its size, with the write-ahead log"),
    INTEGER("free_bytes", "free space of its disk, and in the file"),
    INTEGER("wal_bytes", "of `bytes`, the write-ahead log"),
    INTEGER("schema_version", "of its tables"),
    NUMBER("commit_ms",
           "how long the last commit took, with fsync; null: there was none",
           .flags = VALUE_NULL),
    NUMBER("checkpoint_ms",
           "how long it took to copy the write-ahead log into the file the "
           "last time; null: it was not done since the start",
           .flags = VALUE_NULL),
    {0}};

static const char *const directions[] = {"out", "in", NULL};
static const struct value link_fields[] = {
    TEXT("peer", "the process at the other end"),
    CHOICE("direction", directions, "whether this process sends or receives"),
    INTEGER("backlog", "out: messages that the peer does not have on disk yet; "
                       "in: messages that this process has taken and not "
                       "acknowledged yet"),
    INTEGER("done", "the number of the last message that is done"),
    INTEGER("lost", "messages that were lost after a restore"),
    INTEGER("set_back", "how often a restored database set the link back"),
    INTEGER("unprocessable", "messages that could not be processed"),
    {0}};
static const struct value link_value = OBJECT("link", link_fields, "");

static const struct value metric_value = NUMBER("value", "");
static const struct value series_fields[] = {
    TEXT("name", "of the metric"),
    MAP("labels", &value_text, "such as the endpoint"),
    NUMBER("value", "of a counter or gauge; else absent",
           .flags = VALUE_ABSENT),
    LIST("counts", &metric_value, "per bucket, of a histogram; else absent",
         .flags = VALUE_ABSENT),
    NUMBER("sum", "of a histogram; else absent", .flags = VALUE_ABSENT),
    {0}};
static const struct value series_value = OBJECT("series", series_fields, "");

static const char *const trouble_states[] = {"held", "disabled", "paused",
                                             "failing", NULL};
static const struct value trouble_fields[] = {
    TEXT("endpoint", "its name"),
    CHOICE("state", trouble_states,
           "of the sequencer `held`, `disabled` or `paused`; of a deliverer "
           "`failing`: its circuit breaker is open"),
    TIME("since", "when that began", .flags = VALUE_NULL),
    TEXT("reason", "why", .flags = VALUE_NULL),
    INTEGER("waiting", "deliveries that wait for it; only of the sequencer",
            .flags = VALUE_ABSENT),
    BOOL("waiting_more",
         "true: there may be more than `waiting`; only of the sequencer",
         .flags = VALUE_ABSENT),
    {0}};
static const struct value trouble_value = OBJECT("trouble", trouble_fields, "");

static const struct value temporary_fields[] = {
    TEXT("endpoint", "its id"),
    TIME("expires_at",
         "when it is deleted if no consumer takes from it until then; null: "
         "it is deleted",
         .flags = VALUE_NULL),
    INTEGER("waiting", "deliveries that wait for it, counted up to 10,000"),
    {0}};
static const struct value temporary_value = OBJECT("endpoint", temporary_fields,
                                                   "");

static const char *const lease_states[] = {"held", "lapsed", NULL};

static const struct value grant_fields[] = {
    TEXT("endpoint", "its name"),
    TEXT("state", "of the grant: `open` while deliveries may begin"),
    BOOL("confirmed", "whether the endpoint's configuration is there"),
    INTEGER("in_flight", "attempts in progress"),
    INTEGER("window", "attempts that may be in progress"),
    INTEGER("queued", "deliveries in memory that wait for an attempt"),
    INTEGER("rows", "deliveries on disk"),
    INTEGER("scheduled_retries", "deliveries that wait for their next attempt"),
    CHOICE("breaker", breaker_states, "the circuit breaker"),
    BOOL("held", "whether the sequencer holds the endpoint"),
    BOOL("ramp", "whether the rate rises step by step after an outage"),
    {0}};
static const struct value grant_value = OBJECT("grant", grant_fields, "");

static const char *const replica_roles[] = {"active", NULL};
static const struct value snapshot_fields[] = {
    INTEGER("turn",
            "at which it was made; -1: there is none, or it is not "
            "known yet",
            .min = -1),
    TIME("made_at", "when this start has made it; null: it has not",
         .flags = VALUE_NULL),
    INTEGER("parts", "of the one that is being made: parts that were written "
                     "or read back"),
    INTEGER("all_parts", "so many that will be; 0: none is being made"),
    TEXT("error", "why the last step did not succeed; else empty"),
    {0}};
static const struct value replica_fields[] = {
    TEXT("host", "the name of this host"),
    CHOICE("role", replica_roles, "a standby does not respond"),
    INTEGER("epoch", "how often a start has become the owner, since "
                     "replication began"),
    INTEGER("turn", "the last change of the database that the replication "
                    "database has"),
    BOOL("turn_open", "true: the next one waits to be there"),
    INTEGER("may_send_ms", "for how long the process may respond and send "
                           "without another acknowledgement; 0: it waits"),
    INTEGER("append_us",
            "how long the last change took to be there, in "
            "microseconds; -1: there was none",
            .min = -1),
    INTEGER("peers", "how many other processes of the pipeline it reaches, of "
                     "those it exchanges messages with"),
    INTEGER("alone_ms", "for how long it has reached none; 0: it reaches some"),
    TIME("failing_since",
         "since when the replication database acknowledges "
         "nothing; null: it does",
         .flags = VALUE_NULL),
    TEXT("error", "why it did not acknowledge the last time; else empty"),
    OBJECT("snapshot", snapshot_fields,
           "the newest one in the replication database, from which a new host "
           "becomes a standby"),
    {0}};

const struct value status_reply[] = {
    PROCESS_FIELDS,
    TEXT("kind", "its program: `ingress`, `sequencer`, `deliverer`, `dlqd` or "
                 "`console`"),
    TIME("started_at", "when it started"),
    INTEGER("uptime_ms", "since then, by the wall clock", .min = INT64_MIN),
    OBJECT("store", store_fields, "its database"),
    OBJECT("replication", replica_fields, "only with `replicate`",
           .flags = VALUE_ABSENT),
    LIST("links", &link_value, "its durable links to other processes"),
    MAP("metrics", &metric_value,
        "the value of each metric ([METRICS.md](METRICS.md))"),
    MAP("rates", &metric_value, "of each counter, per second"),
    LIST("series", &series_value, "metrics with labels, and histograms"),
    LIST("troubles", &trouble_value,
         "endpoints in trouble; only of the sequencer and deliverers",
         .max = 100, .flags = VALUE_ABSENT),
    INTEGER("troubles_more", "how many further endpoints there are; likewise",
            .flags = VALUE_ABSENT),
    LIST("temporary", &temporary_value,
         "temporary endpoints; only of the sequencer", .max = 100,
         .flags = VALUE_ABSENT),
    CHOICE("lease", lease_states, "only of deliverers", .flags = VALUE_ABSENT),
    LIST("grants", &grant_value,
         "endpoints that this deliverer owns; only of deliverers", .max = 100,
         .flags = VALUE_ABSENT),
    INTEGER("in_flight", "attempts in progress; only of deliverers",
            .flags = VALUE_ABSENT),
    INTEGER("scheduled_retries",
            "deliveries that wait for their next attempt; only of deliverers",
            .flags = VALUE_ABSENT),
    {0}};
const struct command_spec command_status = {
    .name = "status",
    .process = "every",
    .help = "The state of this process: its database, its links, its metrics, "
            "and endpoints in trouble.",
    .reply = OBJECT("reply", status_reply, ""),
    .role = ROLE_VIEWER,
};

/* ---- health ---- */

static const struct value health_reply[] = {
    PROCESS_FIELDS,
    BOOL("ready", "true: it can do its work"),
    TEXT("state", "what it does, or what prevents it, in a few words"),
    INTEGER("waiting", "messages that other processes do not have yet"),
    TEXT("kind", "its program, such as `deliverer`"),
    TIME("started_at", "when it started"),
    OBJECT("store", store_fields, "its database"),
    LIST("problems", &value_text, "what is wrong, in sentences"),
    {0}};
const struct command_spec command_health = {
    .name = "health",
    .process = "every",
    .help = "Whether the process can do its work, for probes. While the disk "
            "is full, the reply can be that error.",
    .reply = OBJECT("reply", health_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_READS,
};

/* ---- names ---- */

static const struct value names_reply[] = {
    LIST("endpoints", &value_text, ""),
    LIST("sources", &value_text, "and producers"),
    LIST("policies", &value_text, ""),
    LIST("alerts", &value_text, ""),
    LIST("notifiers", &value_text, ""),
    INTEGER("metrics_interval_ms", "how often it publishes its metrics"),
    TEXT("metrics_publish", "where, if a key sets that", .flags = VALUE_NULL),
    {0}};
const struct command_spec command_names = {
    .name = "names",
    .process = "every",
    .help = "The names in the configuration of this process, and how it "
            "publishes its metrics.",
    .reply = OBJECT("reply", names_reply, ""),
    .role = ROLE_VIEWER,
};

/* ---- check, reload ---- */

static const struct value check_reply[] = {
    TEXT("file", "the configuration"),
    BOOL("reloaded", "whether it is in effect now"),
    LIST("errors", &value_text, "lines as of `grapnel check`"),
    LIST("warnings", &value_text, "lines as of `grapnel check`"),
    LIST("unset", &value_text,
         "environment variables that the file uses and the process lacks"),
    LIST("changed", &value_text,
         "keys that take effect at once: `endpoints.crm.url`, "
         "`endpoints.crm added`"),
    LIST("restart", &value_text, "keys that take effect at a restart"),
    LIST("variables", &value_text, "all variables that the file uses"),
    {0}};
const struct command_spec command_check = {
    .name = "check",
    .process = "every",
    .help = "The effect that a reload would have, with the environment of this "
            "process.",
    .reply = OBJECT("reply", check_reply, ""),
    .role = ROLE_VIEWER,
};

const struct command_spec command_reload = {
    .name = "reload",
    .process = "every",
    .help = "Reads the configuration again. If there are `errors`, the process "
            "keeps its configuration, and `reloaded` is false.",
    .reply = OBJECT("reply", check_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE | COMMAND_MEMORY,
};

/* ---- backup ---- */

static const struct value backup_args[] = {
    TEXT("path", "a new file, as an absolute path", .flags = VALUE_REQUIRED),
    {0}};
static const struct value backup_reply[] = {
    TEXT("path", "the new file"), INTEGER("bytes", "its size"), {0}};
static const struct value handover_args[] = {
    TEXT("host", "the host that gets it, which follows and is ready",
         .flags = VALUE_REQUIRED, .min = 1, .max = 63),
    {0}};
static const struct value handover_reply[] = {
    TEXT("host", "the host that gets it"), {0}};
const struct command_spec command_handover = {
    .name = "handover",
    .process = "every",
    .help = "Gives the replicated database to a standby on another host: the "
            "process stops, and HOST takes over at once. Refused if the "
            "database is not replicated, or HOST is not ready.",
    .args = handover_args,
    .reply = OBJECT("reply", handover_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_MEMORY | COMMAND_LOCAL,
};

const struct command_spec command_backup = {
    .name = "backup",
    .process = "every",
    .help = "Makes a consistent copy of the database, while the process works "
            "on. The copy is stamped with its time: the first start from it "
            "begins a new `grapnel-series` and logs what is lost.",
    .args = backup_args,
    .reply = OBJECT("reply", backup_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_LATER | COMMAND_LOCAL,
};

/* ---- verify ---- */

static const struct value damage_fields[] = {
    TEXT("table", "its table"),
    TEXT("id", "of the event, or null where the structure is damaged",
         .flags = VALUE_NULL),
    TEXT("what", "what is wrong"),
    {0}};
static const struct value damage_value = OBJECT("row", damage_fields, "");
static const struct value verify_reply[] = {
    TEXT("file", "the database"),
    BOOL("ok", "whether nothing is damaged"),
    INTEGER("tables", "how many were checked"),
    INTEGER("rows", "whose checksums were checked"),
    INTEGER("damaged_count", "damaged rows and structures"),
    LIST("damaged", &damage_value, "of these", .max = 1000),
    LIST("skipped", &value_text,
         "tables whose structure was not checked to the end, because the "
         "process had to write"),
    {0}};
const struct command_spec command_verify = {
    .name = "verify",
    .process = "every",
    .help = "Checks the database at low priority: SQLite's `quick_check`, and "
            "the checksums of rows. Not during a `backup`.",
    .reply = OBJECT("reply", verify_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LATER | COMMAND_LOCAL,
};

/* ---- jobs ---- */

static const char *const job_states[] = {"waiting", "running",   "done",
                                         "failed",  "cancelled", NULL};
const struct value job_fields[] = {
    TEXT("id", "`job_…`"),
    TEXT("kind", "what it does, such as `dead_letters_retry`"),
    TEXT("process", "the process that does it"),
    CHOICE("state", job_states, "a process runs one at a time"),
    ANY("args", "what was asked for, with the upper bound that was fixed "
                "when the job was made"),
    TEXT("who", "who asked for it"),
    TIME("created_at", "when it was made"),
    TIME("started_at", "when it began; null: it waits", .flags = VALUE_NULL),
    TIME("ended_at", "when it ended; null: it has not", .flags = VALUE_NULL),
    INTEGER("total", "how many items there are; null: that is not known (yet)",
            .flags = VALUE_NULL),
    INTEGER("done", "items that it has changed"),
    INTEGER("failed", "items that it could not change"),
    INTEGER("skipped", "items that it has left out"),
    TEXT("last_item",
         "the last item; all before it are done, those behind it are not",
         .flags = VALUE_NULL),
    TEXT("last_error", "the last error of an item, or why it failed or waits",
         .flags = VALUE_NULL),
    ANY("result", "an object: what the kind of job adds"),
    {0}};
static const struct value job_item = OBJECT("", job_fields, "a job");

static const struct value jobs_args[] = {
    ARG_LIMIT, TEXT("before", "the `next` of the page before", .max = 40), {0}};
static const struct value jobs_reply[] = {
    LIST("jobs", &job_item, "the jobs"),
    TEXT("next", "the `before` of the next page; null: there is none",
         .flags = VALUE_NULL),
    LIST("unreachable", &value_text,
         "in HTTP: processes whose jobs are missing, as they did not respond",
         .flags = VALUE_ABSENT),
    {0}};
const struct command_spec command_jobs = {
    .name = "jobs",
    .process = "every",
    .help = "Long work, newest first: jobs that wait or run, and the last 200 "
            "that have ended.",
    .args = jobs_args,
    .reply = OBJECT("reply", jobs_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/jobs"}},
    .rows = "jobs",
};

static const struct value job_args[] = {
    TEXT("id", "`job_…`", .min = 1, .max = 64, .flags = VALUE_REQUIRED), {0}};
const struct command_spec command_job = {
    .name = "job",
    .process = "every",
    .help = "One job and its progress.",
    .args = job_args,
    .reply = OBJECT("reply", job_fields, "the job"),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/jobs/{id}"}},
};

const struct command_spec command_job_cancel = {
    .name = "job_cancel",
    .process = "every",
    .help = "Ends a job between two items. The items that it has changed stay "
            "changed; the reply says how many, and which was the last.",
    .args = job_args,
    .reply = OBJECT("reply", job_fields, "the job"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/jobs/{id}/cancel"}},
};

/* ---- erase ---- */

static const char *const erase_phases[] = {"refuse", "handed", "events",
                                           "rest",   "scrub",  NULL};
static const struct value erase_args[] = {
    CHOICE("phase", erase_phases,
           "refuse: take no more events; handed: done when the sequencer has "
           "all that were taken; events: erase these events; rest: erase what "
           "is found by the name; scrub: overwrite unused pages",
           .flags = VALUE_REQUIRED),
    TEXT("hash", "of the name, as in the file `erasures`", .min = 64, .max = 64,
         .flags = VALUE_REQUIRED),
    TEXT("workspace", "the name, where it is still known", .min = 1),
    TEXT("key",
         "for a process on another host than the sequencer's: the key of the "
         "hash, for its own file `erasures`",
         .min = 64, .max = 64),
    LIST("ids", &value_id, "of events", .max = 500),
    INTEGER("position", "the `position` of the last reply of this phase"),
    {0}};
static const struct value erase_reply[] = {
    BOOL("done", "false: ask again, with `position`"),
    INTEGER("position", "where the next request continues"),
    INTEGER("changed", "rows that were erased"),
    TEXT("waits_for",
         "what has to happen elsewhere before it goes on; null: nothing",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_erase = {
    .name = "erase",
    .process = "every",
    .help = "A part of the erasure of a workspace, for the job of the "
            "sequencer. `workspace_erase` makes that.",
    .args = erase_args,
    .reply = OBJECT("reply", erase_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};

const struct command_spec *const every_commands[] = {&command_ping,
                                                     &command_status,
                                                     &command_health,
                                                     &command_names,
                                                     &command_check,
                                                     &command_reload,
                                                     &command_backup,
                                                     &command_verify,
                                                     &command_audit,
                                                     &command_audit_verify,
                                                     &command_audit_head,
                                                     &command_jobs,
                                                     &command_job,
                                                     &command_job_cancel,
                                                     &command_erase,
                                                     &command_handover,
                                                     NULL};
