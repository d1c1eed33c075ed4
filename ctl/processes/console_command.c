/* console_command: `grapnel console link`: makes a link that signs in to the console's pages. */
#include "ask.h"
#include "when.h"

int run_console_link(struct ctl *c)
{
    const char *role = parsed_value(&c->parsed, "--role");
    json_t *args = json_object(), *reply;
    int code = 0;

    if (role)
        json_object_set_new(args, "role", json_string(role));
    reply = ask_needed(c, "console", "console_link", args, ASK_MS, &code);
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
