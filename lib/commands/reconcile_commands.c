/* reconcile_commands: what reconcile answers, beside the commands of the archive that ingress has, too. */
#include "commands.h"
#include "tables.h"

static const char *const states[] = {"waiting", "listing",  "asking",
                                     "storing", "fetching", NULL};
static const struct value source_fields[] = {
    TEXT("process", "the process that reads its list"),
    TEXT("source", "its name"),
    CHOICE("state", states, "what it does now; waiting: for the next run"),
    TIME("covered_until", "up to this time, the list was compared"),
    TIME("completed_at",
         "when the last walk through the list was complete; null: none was yet",
         .flags = VALUE_NULL),
    TIME("next_at", "when the next run begins"),
    INTEGER("pages", "pages of the present walk, or of the last one"),
    INTEGER("listed", "events on them, of the time that it reads"),
    INTEGER("found", "those of them that had never arrived"),
    TEXT("error", "why the last run failed; null: it did not",
         .flags = VALUE_NULL),
    {0}};
static const struct value source_value = OBJECT("source", source_fields, "");

static const struct value reconciled_reply[] = {
    TEXT("process", "the process that replies"),
    LIST("sources", &source_value, "in the order of the configuration"),
    {0}};
const struct command_spec command_reconciled = {
    .name = "reconciled",
    .process = "reconcile",
    .help = "The sources with `reconcile`: how far the lists of their "
            "providers were compared, and what was found.",
    .reply = OBJECT("reply", reconciled_reply, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
    .rows = "sources",
};

static const struct value reconcile_args[] = {
    TEXT("source", "the source", .flags = VALUE_REQUIRED, .min = 1),
    TIME_MS("since_ms",
            "read the list from this time on; default: where the last walk "
            "ended"),
    {0}};
static const struct value reconcile_reply[] = {
    TEXT("source", "the source"),
    TIME("since", "as asked for; null: it was not", .flags = VALUE_NULL),
    {0}};
const struct command_spec command_reconcile = {
    .name = "reconcile",
    .process = "reconcile",
    .help = "Reads the list of a source's provider now. With `since_ms`, also "
            "what was compared before.",
    .args = reconcile_args,
    .reply = OBJECT("reply", reconcile_reply, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE | COMMAND_LOCAL,
};

const struct command_spec *const reconcile_commands[] = {
    &command_reconciled, &command_reconcile, NULL};
