/* command_document: the reference of all commands in docs/CONTROL.md, made from the
 * declarations. */
#include "commands.h"
#include <inttypes.h>
#include <string.h>

const struct command_list command_lists[] = {
    {"Every process", every_commands},
    {"ingress", ingress_commands},
    {"sequencer", sequencer_commands},
    {"deliverer", deliverer_commands},
    {"dlqd", dlqd_commands},
    {"console", console_commands},
    {NULL, api_commands},
    {NULL, NULL},
};

static const char *const role_names[] = {[ROLE_VIEWER] = "viewer",
                                         [ROLE_OPERATOR] = "operator",
                                         [ROLE_ADMIN] = "admin"};

static void put_type(struct buf *out, const struct value *v)
{
    if (v->type == VALUE_CHOICE) {
        buf_puts(out, "one of");
        for (size_t i = 0; v->choices[i]; i++)
            buf_printf(out, "%s `%s`", i ? "," : "", v->choices[i]);
    } else if (v->type == VALUE_LIST || v->type == VALUE_MAP) {
        buf_printf(out, "%s of: ",
                   v->type == VALUE_LIST ? "list" : "object with values");
        put_type(out, v->item);
    } else {
        buf_puts(out, value_type_name(v));
    }
    if (v->type == VALUE_INTEGER && v->max)
        buf_printf(out, " from %" PRId64 " to %" PRId64, v->min, v->max);
    if (v->type == VALUE_LIST && v->max)
        buf_printf(out, ", %" PRId64 " to %" PRId64 " items", v->min, v->max);
    if (v->type == VALUE_INTEGER && v->otherwise)
        buf_printf(out, " (%" PRId64 ")", v->otherwise);
    if (v->flags & VALUE_NULL)
        buf_puts(out, ", or null");
}

/* One row, then the rows of its fields, named path.field or path[].field. */
static void put_rows(struct buf *out, const struct value *v, const char *path)
{
    char *name = gr_printf("%s%s%s", path, *path && *v->name ? "." : "",
                           v->name);
    const struct value *inner = v;
    char *deeper;

    if (*v->name) {
        buf_printf(out, "| `%s` | ", name);
        put_type(out, v);
        buf_printf(out, " | %s%s |\n",
                   v->flags & VALUE_REQUIRED ? "required: " : "", v->help);
    }
    deeper = gr_strdup(name);
    while (inner->type == VALUE_LIST || inner->type == VALUE_MAP) {
        char *more = gr_printf("%s%s", deeper,
                               inner->type == VALUE_LIST ? "[]" : "{}");

        free(deeper);
        deeper = more;
        inner = inner->item;
    }
    if (inner->type == VALUE_OBJECT)
        for (const struct value *f = inner->fields; f && f->name; f++)
            put_rows(out, f, deeper);
    free(deeper);
    free(name);
}

static void put_reply(struct buf *out, const struct value *reply)
{
    struct value top = *reply;

    top.name = "";
    if (reply->type != VALUE_OBJECT) {
        buf_puts(out, "\nThe reply is a ");
        put_type(out, &top);
        buf_puts(out, ".\n");
    }
    buf_puts(out, "\n| reply | type | |\n|---|---|---|\n");
    put_rows(out, &top, "");
}

static void put_command(struct buf *out, const struct command_spec *c)
{
    buf_printf(out, "\n### %s: %s\n\n%s", c->process, c->name, c->help);
    if (c->flags & COMMAND_LATER)
        buf_puts(out, " It replies at the end; one at a time.");
    for (size_t i = 0; i < COUNT_OF(c->routes) && c->routes[i].path; i++)
        buf_printf(out, "%s`%s %s`", i ? ", " : " HTTP: ", c->routes[i].method,
                   c->routes[i].path);
    if (c->routes[0].path)
        buf_printf(out, ", for the role %s.", role_names[c->role]);
    buf_puts(out, "\n");
    if (c->args) {
        buf_puts(out, "\n| argument | type | |\n|---|---|---|\n");
        for (const struct value *v = c->args; v->name; v++)
            put_rows(out, v, "");
    }
    put_reply(out, &c->reply);
    if (c->or_reply) {
        buf_puts(out, "\nOr:\n");
        put_reply(out, c->or_reply);
    }
}

void commands_document(struct buf *out)
{
    for (size_t i = 0; command_lists[i].title; i++) {
        buf_printf(out, "\n## %s\n", command_lists[i].title);
        for (const struct command_spec *const *c = command_lists[i].commands;
             *c; c++)
            put_command(out, *c);
    }
}
