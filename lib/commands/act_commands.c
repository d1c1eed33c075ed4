/* act_commands: tokens of the HTTP API, and the audit rows of acts. */
#include "bounds.h"
#include "commands.h"
#include "tables.h"

/* ---- audit ---- */

static const struct value about_item = TEXT("id", "an id", .min = 1,
                                            .max = TEXT_MAX_BYTES);
static const struct value audit_args[] = {
    ARGS_TIMES,
    ARG_LIMIT,
    LIST("about", &about_item,
         "only rows with an argument that is one of these texts; an id of an "
         "event (`evt_`) also finds the ids that are made of it, such as those "
         "of its dead letters",
         .min = 1, .max = 8),
    TEXT("before", "the `next` of the page before", .max = 20),
    {0}};
const struct value audit_row[] = {
    TEXT("n", "the number of the row in this process"),
    TIME("at", "when"),
    TEXT("process", "the process that acted"),
    TEXT("actor", "who asked: `user NAME` or `token NAME`"),
    TEXT("role", "the role of the token", .flags = VALUE_NULL),
    TEXT("command", "the command"),
    ANY("args", "its arguments, without secrets, at most 4 KiB"),
    TEXT("outcome", "`done`, `started`, or the error"),
    TEXT("request_id", "that of the HTTP request", .flags = VALUE_NULL),
    {0}};
static const struct value audit_item = OBJECT("", audit_row, "a row");
static const struct value audit_reply[] = {
    LIST("audit", &audit_item, "the rows"),
    TEXT("next", "the `before` of the next page; null: there is none",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_audit = {
    .name = "audit",
    .process = "every",
    .help = "What was changed on this process, and by whom, newest first. An "
            "act that replies later has a second row, `started`.",
    .args = audit_args,
    .reply = OBJECT("reply", audit_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
    .rows = "audit",
};

/* ---- audit_verify ---- */

static const struct value head_hash = TEXT("hash", "64 hexadecimal digits",
                                           .min = 64, .max = 64);
static const struct value verify_args[] = {
    INTEGER("after", "the `next` of the page before"),
    LIST("heads", &head_hash, "published hashes to look for", .max = 20),
    {0}};
static const struct value found_fields[] = {TEXT("hash", "the published hash"),
                                            INTEGER("n", "the row that has it"),
                                            {0}};
static const struct value found_item = OBJECT("", found_fields, "");
static const struct value restore_fields[] = {
    INTEGER("n", "the row"),
    TIME("at", "when the restored process started"),
    {0}};
const struct value audit_restore = OBJECT("", restore_fields, "");
static const char *const finding_kinds[] = {
    "changed", "missing",       "unlinked", "unknown_key",
    "anchor",  "before_anchor", NULL};
static const struct value finding_fields[] = {
    INTEGER("from", "the first row that it is about", .min = INT64_MIN),
    INTEGER("to", "the last one", .min = INT64_MIN),
    CHOICE("what", finding_kinds,
           "changed: the content differs from what was written, or was "
           "inserted; missing: the rows were removed; unlinked: the hash does "
           "not follow from the row before, so rows were swapped, inserted or "
           "removed; unknown_key: the rows have hashes of another key; "
           "anchor: the record of where the chain begins was changed or "
           "removed; before_anchor: rows were inserted before the beginning "
           "of the chain"),
    TEXT("key", "the id of the key of unknown_key", .flags = VALUE_NULL),
    {0}};
const struct value audit_finding = OBJECT("", finding_fields, "");
static const struct value audit_verify_reply[] = {
    INTEGER("rows", "how many rows of this page were verified"),
    AUDIT_PAGE_FIELDS(0),
    INTEGER("next", "the `after` of the next page; null: this is the last one",
            .flags = VALUE_NULL, .min = INT64_MIN),
    LIST("found", &found_item, "which of `heads` are in this page"),
    LIST("restores", &audit_restore,
         "restores in this page: hashes that were published before a restore "
         "may be of rows that it replaced",
         .max = 100),
    LIST("findings", &audit_finding, "what is wrong in this page", .max = 100),
    INTEGER("findings_more", "further findings"),
    {0}};
const struct command_spec command_audit_verify = {
    .name = "audit_verify",
    .process = "every",
    .help = "Verifies a page of the hash chain over the audit rows of this "
            "process, oldest first.",
    .args = verify_args,
    .reply = OBJECT("reply", audit_verify_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};

static const struct value audit_head_reply[] = {
    TEXT("head",
         "the newest hash as PROCESS:ROW:HASH; null: there is no row yet",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_audit_head = {
    .name = "audit_head",
    .process = "every",
    .help = "The newest hash of the chain over the audit rows of this process.",
    .reply = OBJECT("reply", audit_head_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};

/* ---- tokens ---- */

static const char *const roles[] = {"workspace", "viewer", "operator", "admin",
                                    NULL};
static const char *const states[] = {"active", "expired", "revoked", NULL};

#define TOKEN_FIELDS                                                  \
    TEXT("id", "tok_…"), TEXT("name", "its name"),                    \
        CHOICE("role", roles, "what it may do"),                      \
        TEXT("workspace",                                             \
             "of the role workspace: the only one that it is for",    \
             .flags = VALUE_NULL),                                    \
        CHOICE("state", states, "whether it can be used"),            \
        TIME("created_at", "when it was made"),                       \
        TEXT("created_by", "who made it"),                            \
        TIME("last_used_at",                                          \
             "its last use, to the minute; null: it was not "         \
             "used",                                                  \
             .flags = VALUE_NULL),                                    \
        TIME("expires_at", "from when on it is refused; null: never", \
             .flags = VALUE_NULL),                                    \
        TIME("revoked_at", "when it was revoked", .flags = VALUE_NULL)

static const struct value token_fields[] = {TOKEN_FIELDS, {0}};
static const struct value token_item = OBJECT("", token_fields, "a token");

static const struct value tokens_args[] = {
    ARG_LIMIT, TEXT("before", "the `next` of the page before", .max = 40), {0}};
static const struct value tokens_reply[] = {
    LIST("tokens", &token_item, "the tokens"),
    TEXT("next", "the `before` of the next page; null: there is none",
         .flags = VALUE_NULL),
    {0}};
const struct command_spec command_tokens = {
    .name = "tokens",
    .process = "sequencer",
    .help = "The tokens of the HTTP API, newest first, without their secrets.",
    .args = tokens_args,
    .reply = OBJECT("reply", tokens_reply, ""),
    .role = ROLE_ADMIN,
    .routes = {{"GET", "/tokens"}},
    .rows = "tokens",
};

static const struct value token_create_args[] = {
    TEXT("name",
         "letters, digits and . _ -; no other token that is not "
         "revoked has it",
         .min = 1, .max = 64, .flags = VALUE_REQUIRED),
    CHOICE("role", roles, "what it may do", .flags = VALUE_REQUIRED),
    TEXT("workspace",
         "with the role workspace, and only then: the one that it is for, "
         "compared as bytes",
         .min = 1, .max = TOKEN_WORKSPACE_MAX_BYTES),
    TIME_MS("expires_ms", "when it expires; absent: never",
            .flags = VALUE_AHEAD),
    {0}};
static const struct value token_create_reply[] = {
    TOKEN_FIELDS,
    TEXT("token",
         "the token: shown only here, and null in the reply to a "
         "repeated request",
         .flags = VALUE_NULL | VALUE_SECRET),
    {0}};
const struct command_spec command_token_create = {
    .name = "token_create",
    .process = "sequencer",
    .help = "Makes a token. Only its SHA-256 is stored.",
    .args = token_create_args,
    .reply = OBJECT("reply", token_create_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_ACTS,
    .routes = {{"POST", "/tokens"}},
};

static const struct value token_revoke_args[] = {
    TEXT("id", "of the token", .min = 1, .max = 64, .flags = VALUE_REQUIRED),
    {0}};
const struct command_spec command_token_revoke = {
    .name = "token_revoke",
    .process = "sequencer",
    .help = "Ends a token. The console refuses it within a second.",
    .args = token_revoke_args,
    .reply = OBJECT("reply", token_fields, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_ACTS | COMMAND_REPEATABLE,
    .routes = {{"DELETE", "/tokens/{id}"}},
};

static const struct value token_check_args[] = {
    TEXT("sha256", "of the token, 64 hexadecimal digits", .min = 64, .max = 64,
         .flags = VALUE_REQUIRED),
    {0}};
static const struct value token_check_reply[] = {
    OBJECT("token", token_fields, "the token; null: none can be used",
           .flags = VALUE_NULL),
    {0}};
const struct command_spec command_token_check = {
    .name = "token_check",
    .process = "sequencer",
    .help = "The token with this SHA-256, if it is active, and notes its use. "
            "For the console.",
    .args = token_check_args,
    .reply = OBJECT("reply", token_check_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};

/* ---- tenant_check ---- */

static const struct value tenant_check_args[] = {
    TEXT("workspace", "of the token", .min = 1, .max = TEXT_MAX_BYTES,
         .flags = VALUE_REQUIRED),
    TEXT("event", "an `evt_` id", .min = 1, .max = 200),
    LIST("endpoints", &value_text, "names of endpoints", .max = 1000),
    {0}};
static const struct value tenant_check_reply[] = {
    BOOL("event", "whether the event belongs to the workspace; true: there is "
                  "no `event` in the request"),
    LIST("endpoints", &value_text,
         "those that were made at run time for this workspace alone, also if "
         "they were deleted"),
    {0}};
const struct command_spec command_tenant_check = {
    .name = "tenant_check",
    .process = "sequencer",
    .help = "Whether an event and endpoints belong to a workspace. For the "
            "console, before it does something for the token of a workspace.",
    .args = tenant_check_args,
    .reply = OBJECT("reply", tenant_check_reply, ""),
    .role = ROLE_ADMIN,
    .flags = COMMAND_LOCAL,
};
