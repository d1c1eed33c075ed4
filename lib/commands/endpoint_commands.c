/* endpoint_commands: what the sequencer does with endpoints that are made at run time. Their
 * settings are those of grapnel.yaml (endpoint_settings.h). */
#include "bounds.h"
#include "commands.h"
#include "endpoint_settings.h"
#include "tables.h"

/* ---- the settings: an argument for each row of ENDPOINT_SETTINGS ---- */

enum { PEM_MAX_BYTES = 64 * 1024 };

static const struct value header_value = TEXT(NULL, "its value; null: removed",
                                              .flags = VALUE_NULL);
static const struct value port = INTEGER(NULL, "a port", .min = 1,
                                         .max = 65535);
static const struct value tls_fields[] = {
    TEXT("ca", "the trusted certificate authorities, as PEM",
         .flags = VALUE_NULL, .max = PEM_MAX_BYTES),
    TEXT("certificate", "the client certificate and its chain, as PEM",
         .flags = VALUE_NULL, .max = PEM_MAX_BYTES),
    TEXT("key", "the private key, as PEM", .flags = VALUE_NULL,
         .max = PEM_MAX_BYTES),
    {0}};

#define ARG_string(n, h, f)        TEXT(n, h, .flags = VALUE_NULL | (f)),
#define ARG_url(n, h, f)           ARG_string(n, h, f)
#define ARG_switch(n, h, f)        ARG_string(n, h, f)
#define ARG_either(n, h, f)        ARG_string(n, h, f)
#define ARG_choice(n, h, f)        ARG_string(n, h, f)
#define ARG_duration(n, h, f)      ARG_string(n, h, VALUE_DURATION | (f))
#define ARG_rate(n, h, f)          ARG_string(n, h, f)
#define ARG_policy(n, h, f)        ARG_string(n, h, f)
#define ARG_boolean(n, h, f)       BOOL(n, h, .flags = VALUE_NULL),
#define ARG_int(n, h, f)           INTEGER(n, h, .flags = VALUE_NULL),
#define ARG_strings(n, h, f)       LIST(n, &value_text, h, .flags = VALUE_NULL | (f)),
#define ARG_ports(n, h, f)         LIST(n, &port, h, .flags = VALUE_NULL),
#define ARG_where(n, h, f)         ANY(n, h),
#define ARG_allow_private(n, h, f) ANY(n, h),
#define ARG_headers(n, h, f) \
    MAP(n, &header_value, h, .flags = VALUE_NULL | VALUE_SECRET),
#define ARG_tls(n, h, f) \
    OBJECT(n, tls_fields, h, .flags = VALUE_NULL | VALUE_SECRET),

/* IF_name(x) is x for a member for which NOT_name is not defined, and nothing for the others:
 * NOT_name adds an argument, so that SECOND finds `OMIT` in the place of `KEEP`. */
#define SECOND_(a, b, ...) b
#define SECOND(...)        SECOND_(__VA_ARGS__)
#define CALL_(which, ...)  which##_(__VA_ARGS__)
#define CALL(which, ...)   CALL_(which, __VA_ARGS__)
#define OMIT_(KIND, ...)
#define KEEP_(KIND, NAME, HELP, FLAGS) ARG_##KIND(NAME, HELP, FLAGS)
#define NOT_name                       ~, OMIT
#define NOT_enabled                    ~, OMIT
#define FLAG_signing_secrets           ~, VALUE_SECRET
#define ARG(F, TO, SCOPE, KIND, MEMBER, NAME, DEFAULT, HELP, ...) \
    CALL(SECOND(NOT_##MEMBER, KEEP, ~), KIND, NAME, HELP,         \
         SECOND(FLAG_##MEMBER, 0, ~))

#define SETTINGS                                                           \
    ENDPOINT_SETTINGS(ARG, )                                               \
    TEXT("description", "what it is for; for people", .flags = VALUE_NULL, \
         .max = 256)

#define ARG_NAME                                                              \
    TEXT("name", "the id of the endpoint", .flags = VALUE_REQUIRED, .min = 1, \
         .max = NAME_MAX_BYTES)
#define ARG_VERSION                                                         \
    INTEGER("version",                                                      \
            "only if it still has this `version`; HTTP takes it from "      \
            "`If-Match`, which has the `ETag` of the response that showed " \
            "it, or `*`",                                                   \
            .flags = VALUE_IF_MATCH, .max = INT64_MAX)

/* ---- create ---- */

static const struct value create_args[] = {
    TEXT("id", "its id, of an export; otherwise a new one is made", .min = 1,
         .max = NAME_MAX_BYTES, .flags = VALUE_LOCAL),
    ARG_TENANT,
    SETTINGS,
    {0}};

const struct command_spec command_endpoint_create = {
    .name = "endpoint_create",
    .process = "sequencer",
    .help = "Makes an endpoint, which gets events from now on. The settings "
            "are those of an endpoint in grapnel.yaml, with the same defaults "
            "(docs/CONFIGURATION.md); null is the same as none. Without "
            "`signing_secrets` a secret is made, which only this reply shows.",
    .args = create_args,
    .reply = OBJECT("reply", endpoint_changed_fields, "the endpoint"),
    .role = ROLE_ADMIN,
    .tenant = TENANT_CREATES,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/endpoints"}},
};

/* ---- change ---- */

static const struct value change_args[] = {
    ARG_NAME, ARG_VERSION, ARG_TENANT, SETTINGS, {0}};

const struct command_spec command_endpoint_change = {
    .name = "endpoint_change",
    .process = "sequencer",
    .help = "Changes settings of an endpoint that was made at run time. What "
            "is not given stays; null sets a default again (RFC 7396). "
            "Attempts in flight end as they began; every later one has the new "
            "settings. `workspaces` cannot become another one alone while "
            "deliveries wait.",
    .args = change_args,
    .reply = OBJECT("reply", endpoint_changed_fields, "the endpoint"),
    .role = ROLE_ADMIN,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"PATCH", "/endpoints/{name}"}},
};

/* ---- rotate ---- */

static const struct value rotate_args[] = {
    ARG_NAME,
    TEXT("overlap",
         "how long requests are also signed with the old secrets, such as "
         "`24h` (the default), or `0s`",
         .max = 40, .flags = VALUE_DURATION),
    {0}};

const struct command_spec command_endpoint_rotate = {
    .name = "endpoint_rotate",
    .process = "sequencer",
    .help = "Makes a new signing secret for an endpoint that was made at run "
            "time; only this reply shows it. Until the overlap ends each "
            "request has a signature by the old ones, too.",
    .args = rotate_args,
    .reply = OBJECT("reply", endpoint_rotated_fields, "the endpoint"),
    .role = ROLE_ADMIN,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/endpoints/{name}/rotate-secret"}},
};

/* ---- delete ---- */

static const struct value delete_args[] = {ARG_NAME, ARG_VERSION, {0}};
static const struct value deleted_fields[] = {
    TEXT("name", "the id of the endpoint"),
    INTEGER("effective_from",
            "the number of the first event that has no delivery to it"),
    INTEGER("waiting", "deliveries that waited, counted up to 10,000: they "
                       "become dead letters (`endpoint_removed`), or "
                       "`abandoned` if the endpoint was temporary"),
    {0}};

const struct command_spec command_endpoint_delete = {
    .name = "endpoint_delete",
    .process = "sequencer",
    .help = "Deletes an endpoint that was made at run time. Attempts in flight "
            "end; its waiting deliveries become dead letters. Its id is never "
            "used again.",
    .args = delete_args,
    .reply = OBJECT("reply", deleted_fields, ""),
    .role = ROLE_ADMIN,
    .tenant = TENANT_ENDPOINT,
    .flags = COMMAND_ACTS,
    .routes = {{"DELETE", "/endpoints/{name}"}},
};

/* ---- temporary ---- */

static const struct value temporary_args[] = {
    LIST("sources", &value_text, "only events of these sources", .min = 1,
         .max = 100),
    LIST("types", &value_text, "only events of these types, or patterns",
         .min = 1, .max = 100),
    LIST("workspaces", &value_text,
         "only events of these workspaces, or patterns", .min = 1, .max = 100),
    TEXT("description", "what it is for; for people", .min = 1, .max = 256),
    {0}};
const struct command_spec command_temporary_create = {
    .name = "temporary_create",
    .process = "sequencer",
    .help = "Makes a temporary pull endpoint, which gets events from now on. "
            "It is deleted when no consumer has taken from it for "
            "`temporary_endpoints.ttl` (24h). Its deliveries that do not end "
            "as delivered end as `abandoned`: without dead letters, "
            "operational events and alerts. 429 if there are "
            "`temporary_endpoints.max` of them.",
    .args = temporary_args,
    .reply = OBJECT("reply", endpoint_changed_fields, "the endpoint"),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/temporary-endpoints"}},
};

static const struct value temporary_deleted_fields[] = {
    TEXT("name", "the id of the endpoint"),
    INTEGER("effective_from",
            "the number of the first event that has no delivery to it"),
    INTEGER("waiting", "deliveries that waited, counted up to 10,000: they "
                       "become `abandoned` (`endpoint_removed`)"),
    {0}};
const struct command_spec command_temporary_delete = {
    .name = "temporary_delete",
    .process = "sequencer",
    .help = "Deletes a temporary endpoint. Deliveries that consumers have may "
            "still be acknowledged until their lease ends; those that wait "
            "become `abandoned`.",
    .args = delete_args,
    .reply = OBJECT("reply", temporary_deleted_fields, ""),
    .role = ROLE_OPERATOR,
    .flags = COMMAND_ACTS,
    .routes = {{"DELETE", "/temporary-endpoints/{name}"}},
};

/* ---- export ---- */

static const struct value secrets_args[] = {ARG_NAME, {0}};
static const struct value secrets_fields[] = {
    TEXT("name", "the id of the endpoint"),
    ANY("settings", "its settings, with secrets"),
    TEXT("description", "what it is for"),
    {0}};

const struct command_spec command_endpoint_secrets = {
    .name = "endpoint_secrets",
    .process = "sequencer",
    .help = "Shows the settings of an endpoint that was made at run time, with "
            "its secrets, for `grapnel endpoints export --secrets` and "
            "`grapnel endpoints test`.",
    .args = secrets_args,
    .reply = OBJECT("reply", secrets_fields, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};
