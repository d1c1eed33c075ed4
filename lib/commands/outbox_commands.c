/* outbox_commands: what outbox answers, beside the commands of the archive that ingress has, too. */
#include "commands.h"
#include "tables.h"

static const struct value relay_fields[] = {
    TEXT("process", "the outbox that runs it"),
    TEXT("relay", "its name in the section `outbox`"),
    BOOL("connected", "whether the last exchange with its database succeeded"),
    TIME("since", "since when that is so, or is not so; null: it was not tried",
         .flags = VALUE_NULL),
    TEXT("error", "the last error; absent: there was none",
         .flags = VALUE_ABSENT),
    INTEGER("waiting",
            "new rows that were not taken yet, counted up to 10000 every 5 s; "
            "null: unknown",
            .flags = VALUE_NULL),
    INTEGER("oldest_ms",
            "the age of the oldest of them, by the clock of the database; "
            "null: there is none, or it is unknown",
            .flags = VALUE_NULL),
    NUMBER("taken_per_s",
           "rows that became events, in the last minute; null: unknown",
           .flags = VALUE_NULL),
    NUMBER("written_per_s",
           "outcomes that were written, in the last minute; null: unknown",
           .flags = VALUE_NULL),
    INTEGER("outcomes_waiting",
            "outcomes that their rows do not have yet, counted up to 10000; "
            "null: unknown",
            .flags = VALUE_NULL),
    INTEGER("set_aside",
            "rows that the database refused to change, so that they are taken "
            "later; null: unknown",
            .flags = VALUE_NULL),
    NUMBER("lag_p50_ms",
           "from `created_at` until the row was taken, in the last minute, by "
           "the clock of the database: the median; null: no rows were taken",
           .flags = VALUE_NULL),
    NUMBER("lag_p99_ms", "the 99th percentile", .flags = VALUE_NULL),
    {0}};
static const struct value relay_value = OBJECT("relay", relay_fields, "");

static const struct value relays_reply[] = {
    TEXT("process", "the process that replies; absent over HTTP",
         .flags = VALUE_ABSENT),
    LIST("relays", &relay_value, "in the order of the configuration"),
    {0}};
const struct command_spec command_relays = {
    .name = "relays",
    .process = "outbox",
    .help = "The relays of outbox tables: whether their database can be used, "
            "and how far they are behind. Over HTTP, those of an outbox that "
            "does not respond are listed with that error.",
    .reply = OBJECT("reply", relays_reply, ""),
    .role = ROLE_VIEWER,
    .routes = {{"GET", "/relays"}},
    .rows = "relays",
};

const struct command_spec *const outbox_commands[] = {&command_relays, NULL};
