/* command_document: the reference of all commands in docs/CONTROL.md, made from the
 * declarations. */
#include "commands.h"
#include <inttypes.h>
#include <string.h>

const struct command_list command_lists[] = {
    {"Every process", every_commands},
    {"ingress", ingress_commands},
    {"outbox", outbox_commands},
    {"reconcile", reconcile_commands},
    {"sequencer", sequencer_commands},
    {"deliverer", deliverer_commands},
    {"dlqd", dlqd_commands},
    {"console", console_commands},
    {NULL, api_commands},
    {NULL, NULL},
};

enum {
    SHORT_FIELDS = 7, /* of a command that fits in a row of a table */
    KNOWN_MAX = 200,
    SAME_MIN = 3, /* fields that are worth a reference */
};

/* Records that are documented already, so that a second one only refers to the first. */
struct document {
    struct buf *out;
    const struct command_spec *command; /* that is being written */
    bool arguments;                     /* its arguments, not its reply */
    struct {
        const struct value *fields;
        const struct command_spec *command;
    } known[KNOWN_MAX];
    size_t known_count;
};

/* ---- types ---- */

static const char *const type_words[] = {
    [VALUE_TEXT] = "text",       [VALUE_PATTERN] = "pattern",
    [VALUE_INTEGER] = "integer", [VALUE_NUMBER] = "number",
    [VALUE_BOOL] = "boolean",    [VALUE_TIME] = "time",
    [VALUE_TIME_MS] = "time",    [VALUE_DURATION_MS] = "duration",
    [VALUE_BASE64] = "base64",   [VALUE_OBJECT] = "object",
    [VALUE_ANY] = "any value",
};

static void put_range(struct buf *out, const struct value *v, const char *unit)
{
    if (v->max && v->min == v->max)
        buf_printf(out, ", %" PRId64 "%s", v->max, unit);
    else if (v->max && v->min)
        buf_printf(out, ", %" PRId64 " to %" PRId64 "%s", v->min, v->max, unit);
    else if (v->max)
        buf_printf(out, ", at most %" PRId64 "%s", v->max, unit);
}

static void put_type(struct buf *out, const struct value *v, bool argument)
{
    switch (v->type) {
    case VALUE_CHOICE:
        for (size_t i = 0; v->choices[i]; i++)
            buf_printf(out, "%s`%s`",
                       i == 0              ? ""
                       : v->choices[i + 1] ? ", "
                                           : " or ",
                       v->choices[i]);
        break;
    case VALUE_LIST:
    case VALUE_MAP:
        buf_puts(out, v->type == VALUE_LIST ? "list of " : "map of ");
        put_type(out, v->item, false);
        put_range(out, v, " items");
        break;
    default:
        buf_puts(out, type_words[v->type]);
        if (argument)
            put_range(out, v, v->type == VALUE_INTEGER ? "" : " characters");
        break;
    }
    if (v->type == VALUE_INTEGER && v->otherwise)
        buf_printf(out, ", default %" PRId64, v->otherwise);
    if (v->flags & VALUE_NULL)
        buf_puts(out, ", or null");
    if (v->flags & VALUE_REQUIRED)
        buf_puts(out, ", required");
}

/* ---- rows ---- */

static bool same(const struct value *a, const struct value *b)
{
    return a->type == b->type && a->flags == b->flags &&
           a->fields == b->fields && a->item == b->item &&
           strcmp(a->name, b->name) == 0 && strcmp(a->help, b->help) == 0;
}

/* How many fields a documented record and this one begin with; *command is where it is. */
static size_t documented(const struct document *d, const struct value *fields,
                         const struct command_spec **command)
{
    size_t best = 0;

    for (size_t i = 0; i < d->known_count; i++) {
        const struct value *known = d->known[i].fields;
        size_t n = 0;

        while (known[n].name && fields[n].name && same(&known[n], &fields[n]))
            n++;
        if (n >= SAME_MIN && n > best) {
            best = n;
            *command = d->known[i].command;
        }
    }
    return best;
}

static void put_row(struct document *d, const struct value *v,
                    const char *path);

static void put_fields(struct document *d, const struct value *fields,
                       const char *path)
{
    const struct command_spec *command = NULL;
    size_t n = documented(d, fields, &command);
    bool other = n && strcmp(command->process, d->command->process) != 0;

    if (n)
        buf_printf(d->out, "| `%s%s` … `%s` | | as in `%s`%s%s |\n", path,
                   fields[0].name, fields[n - 1].name, command->name,
                   other ? " of " : "", other ? command->process : "");
    if (d->known_count < KNOWN_MAX) {
        d->known[d->known_count].fields = fields;
        d->known[d->known_count++].command = d->command;
    }
    for (const struct value *f = fields + n; f->name; f++)
        put_row(d, f, path);
}

/* A row, then the rows of its fields, named path.field or path[].field. */
static void put_row(struct document *d, const struct value *v, const char *path)
{
    struct buf deeper;
    const struct value *inner = v;

    buf_printf(d->out, "| `%s%s` | ", path, v->name);
    put_type(d->out, v, d->arguments);
    buf_printf(d->out, " | %s |\n", v->help);
    buf_init(&deeper, 4096);
    buf_printf(&deeper, "%s%s", path, v->name);
    for (; inner->type == VALUE_LIST || inner->type == VALUE_MAP;
         inner = inner->item)
        buf_puts(&deeper, inner->type == VALUE_LIST ? "[]" : "{}");
    buf_puts(&deeper, ".");
    if (inner->type == VALUE_OBJECT && inner->fields)
        put_fields(d, inner->fields, deeper.data);
    buf_fini(&deeper);
}

static void put_table(struct document *d, const struct value *fields,
                      const char *path, const char *title)
{
    buf_printf(d->out, "\n| %s | | |\n|---|---|---|\n", title);
    put_fields(d, fields, path);
}

static void put_reply(struct document *d, const struct value *reply,
                      const char *title)
{
    if (reply->type == VALUE_OBJECT) {
        put_table(d, reply->fields, "", title);
    } else if (reply->type == VALUE_LIST && reply->item->type == VALUE_OBJECT) {
        put_table(d, reply->item->fields, "[].", title);
    } else {
        buf_puts(d->out, "\nThe reply: ");
        put_type(d->out, reply, false);
        buf_printf(d->out, "%s%s.\n", *reply->help ? ": " : "", reply->help);
    }
}

/* ---- commands ---- */

/* How many fields it has; nested ones make it long. */
static int fields_count(const struct value *fields)
{
    int n = 0;

    for (const struct value *f = fields; f && f->name; f++) {
        const struct value *item = f;

        while (item->type == VALUE_LIST || item->type == VALUE_MAP)
            item = item->item;
        n += item->type == VALUE_OBJECT ? SHORT_FIELDS + 1 : 1;
    }
    return n;
}

static bool is_short(const struct command_spec *c)
{
    return !c->or_reply && c->reply.type == VALUE_OBJECT &&
           fields_count(c->args) + fields_count(c->reply.fields) <=
               SHORT_FIELDS;
}

static void put_help(struct buf *out, const struct command_spec *c)
{
    buf_puts(out, c->help);
    if (c->flags & COMMAND_LATER)
        buf_printf(out, " The reply comes when that has ended; %s at a time.",
                   c->flags & COMMAND_SEVERAL ? "several" : "one");
    for (size_t i = 0; i < COUNT_OF(c->routes) && c->routes[i].path; i++)
        buf_printf(out, "%s`%s %s`", i ? ", " : " HTTP: ", c->routes[i].method,
                   c->routes[i].path);
    if (c->routes[0].path)
        buf_printf(out, " (%s%s).", role_name(c->role),
                   c->tenant ? ", workspace" : "");
}

static void put_cell(struct buf *out, const struct value *fields,
                     bool arguments)
{
    for (const struct value *f = fields; f && f->name; f++) {
        buf_printf(out, "%s`%s` (", f == fields ? "" : "<br>", f->name);
        put_type(out, f, arguments);
        buf_printf(out, ")%s%s", *f->help ? ": " : "", f->help);
    }
}

static void put_short(struct document *d,
                      const struct command_spec *const *commands)
{
    bool any = false;

    for (; *commands; commands++) {
        const struct command_spec *c = *commands;

        if (!is_short(c))
            continue;
        if (!any)
            buf_puts(d->out, "\n| command | | arguments | reply |\n"
                             "|---|---|---|---|\n");
        any = true;
        buf_printf(d->out, "| `%s` | ", c->name);
        put_help(d->out, c);
        buf_puts(d->out, " | ");
        put_cell(d->out, c->args, true);
        buf_puts(d->out, " | ");
        put_cell(d->out, c->reply.fields, false);
        buf_puts(d->out, " |\n");
    }
}

static void put_long(struct document *d, const struct command_spec *c)
{
    buf_printf(d->out, "\n### %s\n\n", c->name);
    put_help(d->out, c);
    buf_puts(d->out, "\n");
    d->arguments = true;
    if (c->args)
        put_table(d, c->args, "", "argument");
    d->arguments = false;
    put_reply(d, &c->reply, "reply");
    if (c->or_reply) {
        if (*c->or_reply->help)
            buf_printf(d->out, "\nOr, %s:\n", c->or_reply->help);
        else
            buf_puts(d->out, "\nOr:\n");
        put_reply(d, c->or_reply, "reply");
    }
}

void commands_document(struct buf *out)
{
    struct document d = {.out = out};

    for (size_t i = 0; command_lists[i].title; i++) {
        const struct command_spec *const *all = command_lists[i].commands;

        buf_printf(out, "\n## %s\n", command_lists[i].title);
        put_short(&d, all);
        for (; *all; all++) {
            d.command = *all;
            if (!is_short(*all))
                put_long(&d, *all);
        }
    }
}
