/* tokens_command: `grapnel tokens`, `tokens create` and `tokens revoke`: the tokens of the HTTP
 * API, which the sequencer has. */
#include "ask.h"
#include "clock.h"
#include "list.h"
#include "when.h"
#include <string.h>

static void token_state(struct table *t, const json_t *token)
{
    const char *state = text_of(token, "state");

    table_add(t, strcmp(state, "active") == 0 ? PLAIN : DIM, "%s", state);
}

static void token_time(struct table *t, const json_t *token, const char *key,
                       const char *none)
{
    bool there = json_is_string(json_object_get(token, key));

    table_add(t, PLAIN, "%s", there ? time_of(token, key) : none);
}

static void token_workspace(struct table *t, const json_t *token)
{
    const char *name = text_of(token, "workspace");

    table_add(t, PLAIN, "%s", name && *name ? name : "-");
}

static void token_used(struct table *t, const json_t *token)
{
    token_time(t, token, "last_used_at", "never");
}

static void token_expires(struct table *t, const json_t *token)
{
    token_time(t, token, "expires_at", "never");
}

static const struct column columns[] = {
    {.head = "ID", .key = "id"},
    {.head = "NAME", .key = "name"},
    {.head = "ROLE", .key = "role"},
    {.head = "WORKSPACE", .cell = token_workspace},
    {.head = "STATE", .cell = token_state},
    {.head = "CREATED (UTC)", .key = "created_at", .kind = COLUMN_TIME},
    {.head = "BY", .key = "created_by"},
    {.head = "LAST USED (UTC)", .cell = token_used},
    {.head = "EXPIRES (UTC)", .cell = token_expires},
    {0}};

int run_tokens(struct ctl *c)
{
    json_t *args = json_object();
    struct page_listing l = {
        .process = "sequencer",
        .ask = "tokens",
        .key = "tokens",
        .columns = columns,
        .none = "There are no tokens. `grapnel tokens create` makes one."};
    int code;

    if (!put_limit(c, args)) {
        json_decref(args);
        return EXIT_USAGE;
    }
    l.args = args;
    code = list_pages(c, &l);
    json_decref(args);
    return code;
}

int run_tokens_create(struct ctl *c)
{
    const char *role = parsed_value(&c->parsed, "--role");
    const char *expires = parsed_value(&c->parsed, "--expires");
    json_t *args, *reply;
    char why[200];
    int64_t ms;
    int code = 0;

    if (!role)
        return complain(EXIT_USAGE, "--role is missing: workspace, viewer, "
                                    "operator or admin");
    args = json_pack("{s:s,s:s,s:s*}", "name", c->parsed.args[0], "role", role,
                     "workspace", parsed_value(&c->parsed, "--workspace"));
    if (!args)
        return complain(EXIT_USAGE, "the name, the role or the workspace is "
                                    "not UTF-8");
    if (expires) {
        if (when_parse_ahead(expires, now_ms(), &ms, why) != GR_OK) {
            json_decref(args);
            return complain(EXIT_USAGE, "--expires: %s", why);
        }
        json_object_set_new(args, "expires_ms", json_integer(ms));
    }
    reply = ask_needed(c, "sequencer", "token_create", args, ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s\n", text_of(reply, "token"));
    fprintf(stderr,
            "This token is shown only once. Its id is %s, its role %s%s%s.\n",
            text_of(reply, "id"), text_of(reply, "role"),
            expires ? ", and it expires at " : "",
            expires ? time_of(reply, "expires_at") : "");
    json_decref(reply);
    return 0;
}

int run_tokens_revoke(struct ctl *c)
{
    json_t *args = json_pack("{s:s}", "id", c->parsed.args[0]), *reply;
    int code = 0;

    if (!args)
        return complain(EXIT_USAGE, "the id is not UTF-8");
    reply = ask_needed(c, "sequencer", "token_revoke", args, ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s (%s) is revoked. The console refuses it within a second.\n",
           text_of(reply, "id"), text_of(reply, "name"));
    json_decref(reply);
    return 0;
}
