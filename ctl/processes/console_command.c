/* console_command: `grapnel console link` and `grapnel portal link`: make links that open pages of the console. */
#include "ask.h"
#include "when.h"

static int show_link(struct ctl *c, const char *command, json_t *args)
{
    json_t *reply;
    int code = 0;

    reply = ask_needed(c, "console", command, args, ASK_MS, &code);
    if (!reply)
        return code;
    if (c->json) {
        print_json(reply);
        return 0;
    }
    printf("%s\n", text_of(reply, "url"));
    fprintf(stderr, "Open it in a browser before %s UTC. It works once.\n",
            time_of(reply, "expires_at"));
    json_decref(reply);
    return 0;
}

int run_console_link(struct ctl *c)
{
    const char *role = parsed_value(&c->parsed, "--role");
    json_t *args = json_object();

    if (role)
        json_object_set_new(args, "role", json_string(role));
    return show_link(c, "console_link", args);
}

int run_portal_link(struct ctl *c)
{
    const char *user = parsed_value(&c->parsed, "--user");
    json_t *args;

    if (!is_utf8("the name of the workspace", c->parsed.args[0]) ||
        (user && !is_utf8("--user", user)))
        return EXIT_USAGE;
    args = json_pack("{s:s}", "workspace", c->parsed.args[0]);
    if (user)
        json_object_set_new(args, "user", json_string(user));
    if (parsed_value(&c->parsed, "--read-only"))
        json_object_set_new(args, "read_only", json_true());
    return show_link(c, "portal_link", args);
}
