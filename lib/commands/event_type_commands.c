/* event_type_commands: the catalogue of event types, which the sequencer stores. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

enum { TYPE_MAX_BYTES = 255, DESCRIPTION_MAX_BYTES = 1024 };

#define ARG_TYPE                                                              \
    TEXT("name", "the type, such as `invoice.paid`", .flags = VALUE_REQUIRED, \
         .min = 1, .max = TYPE_MAX_BYTES)
#define CONTENTS                                                              \
    TEXT("description", "what it means; for people", .flags = VALUE_NULL,     \
         .max = DESCRIPTION_MAX_BYTES),                                       \
        ANY("example", "an example of `data`, at most 16 KiB. It has to fit " \
                       "the schema"),                                         \
        ANY("schema", "the JSON Schema of `data`, at most 32 KiB; "           \
                      "docs/EVENT_TYPES.md lists the keywords")
#define ARG_VERSION                                                         \
    INTEGER("version",                                                      \
            "only if it still has this `version`; HTTP takes it from "      \
            "`If-Match`, which has the `ETag` of the response that showed " \
            "it, or `*`",                                                   \
            .flags = VALUE_IF_MATCH, .max = INT64_MAX)

static const struct value type_fields[] = {
    TEXT("name", "the type"),
    INTEGER("version", "changes with each change; never used twice"),
    TEXT("description", "what it means", .flags = VALUE_NULL),
    ANY("example", "an example of `data`; null: there is none"),
    ANY("schema", "the JSON Schema of `data`; null: there is none"),
    TIME("created_at", "when it was made"),
    TIME("changed_at", "when it was last changed"),
    TEXT("changed_by", "who changed it last"),
    {0}};

/* ---- list, read ---- */

static const struct value list_args[] = {ARG_LIMIT,
                                         TEXT("after",
                                              "the `next` of the page before",
                                              .min = 1, .max = TYPE_MAX_BYTES),
                                         {0}};
static const struct value item_fields[] = {
    TEXT("name", "the type"),
    INTEGER("version", "that of the type"),
    TEXT("description", "what it means", .flags = VALUE_NULL),
    BOOL("has_schema", "whether it has a schema"),
    TIME("created_at", "when it was made"),
    TIME("changed_at", "when it was last changed"),
    {0}};
static const struct value item = OBJECT("event_type", item_fields, "one type");
static const struct value list_fields[] = {
    LIST("event_types", &item, "the types, sorted by name"),
    TEXT("next", "ask for the next page with this; null: this is the last page",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_event_types = {
    .name = "event_types",
    .process = "sequencer",
    .help = "Lists the catalogue of event types by name.",
    .args = list_args,
    .reply = OBJECT("reply", list_fields, ""),
    .role = ROLE_VIEWER,
    .tenant = TENANT_SHARED,
    .routes = {{"GET", "/event-types"}},
    .rows = "event_types",
};

static const struct value read_args[] = {ARG_TYPE, {0}};
const struct command_spec command_event_type = {
    .name = "event_type",
    .process = "sequencer",
    .help = "Shows one event type of the catalogue.",
    .args = read_args,
    .reply = OBJECT("reply", type_fields, "the type"),
    .role = ROLE_VIEWER,
    .tenant = TENANT_SHARED,
    .routes = {{"GET", "/event-types/{name}"}},
};

/* ---- create, change, delete ---- */

static const struct value create_args[] = {ARG_TYPE, CONTENTS, {0}};
const struct command_spec command_event_type_create = {
    .name = "event_type_create",
    .process = "sequencer",
    .help = "Adds an event type to the catalogue. Each ingress knows it about "
            "a second later, and checks events of producers with "
            "`check_schema: true` against its schema.",
    .args = create_args,
    .reply = OBJECT("reply", type_fields, "the type"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/event-types"}},
};

static const struct value change_args[] = {
    ARG_TYPE, ARG_VERSION, CONTENTS, {0}};
const struct command_spec command_event_type_change = {
    .name = "event_type_change",
    .process = "sequencer",
    .help = "Changes an event type of the catalogue. What is not given stays; "
            "null removes it. Events that were accepted stay accepted.",
    .args = change_args,
    .reply = OBJECT("reply", type_fields, "the type"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"PATCH", "/event-types/{name}"}},
};

static const struct value delete_args[] = {ARG_TYPE, ARG_VERSION, {0}};
static const struct value delete_fields[] = {TEXT("name", "the type"), {0}};
const struct command_spec command_event_type_delete = {
    .name = "event_type_delete",
    .process = "sequencer",
    .help = "Removes an event type from the catalogue. Its events are then "
            "those of an unknown type.",
    .args = delete_args,
    .reply = OBJECT("reply", delete_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"DELETE", "/event-types/{name}"}},
};

/* ---- for ingress ---- */

static const struct value catalogue_args[] = {
    TEXT("digest", "of the caller's copy; empty: it has none",
         .flags = VALUE_REQUIRED, .max = 64),
    {0}};
static const struct value entry_fields[] = {
    TEXT("name", "the type"),
    TEXT("schema", "its schema, as JSON in a text; empty: it has none"),
    {0}};
static const struct value entry = OBJECT("event_type", entry_fields,
                                         "one type");
static const struct value catalogue_fields[] = {
    TEXT("digest", "of the catalogue"),
    LIST("event_types", &entry,
         "all types, sorted by name; null: the copy is the same",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_event_catalogue = {
    .name = "event_catalogue",
    .process = "sequencer",
    .help = "The catalogue of event types as ingress needs it, unless the "
            "caller's copy is the same. For ingress.",
    .args = catalogue_args,
    .reply = OBJECT("reply", catalogue_fields, ""),
    .role = ROLE_VIEWER,
    .flags = COMMAND_LOCAL,
};
