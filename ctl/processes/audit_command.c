/* audit_command: `grapnel audit`: what was changed, and by whom, on all processes. */
#include "ask.h"
#include "list.h"
#include <string.h>

enum { PAGE = 1000 };

static void audit_outcome(struct table *t, const json_t *row)
{
    const char *outcome = text_of(row, "outcome");
    bool good = strcmp(outcome, "done") == 0;

    table_add(t,
              good                              ? PLAIN
              : strcmp(outcome, "started") == 0 ? DIM
                                                : YELLOW,
              "%s", outcome);
}

static void audit_args(struct table *t, const json_t *row)
{
    char *text = json_dumps(json_object_get(row, "args"), JSON_COMPACT);

    table_add(t, DIM, "%.100s%s", text ? text : "",
              text && strlen(text) > 100 ? "…" : "");
    free(text);
}

static const struct column columns[] = {
    {.head = "WHEN (UTC)", .key = "at", .kind = COLUMN_TIME},
    {.head = "WHO", .key = "actor"},
    {.head = "COMMAND", .key = "command"},
    {.head = "OUTCOME", .cell = audit_outcome},
    {.head = "PROCESS", .key = "process"},
    {.head = "ARGUMENTS", .cell = audit_args},
    {0}};

/* Appends the newest rows of one process to `all`. false: it does not respond, or refused. */
static bool collect(struct ctl *c, const char *process, const json_t *filters,
                    json_t *all, char why[200])
{
    int64_t missing = list_limit(c);
    json_t *args = json_deep_copy(filters), *reply = NULL, *next, *rows;
    bool unreachable, more = true;

    while (more && missing > 0) {
        json_object_set_new(args, "limit",
                            json_integer(missing < PAGE ? missing : PAGE));
        reply = ask(c, process, "audit", json_incref(args), ASK_MS,
                    &unreachable, why);
        rows = json_object_get(reply, "audit");
        json_array_extend(all, rows);
        missing -= (int64_t)json_array_size(rows);
        next = json_object_get(reply, "next");
        more = json_is_string(next);
        if (more)
            json_object_set(args, "before", next);
        if (!reply)
            break;
        json_decref(reply);
        reply = json_null();
    }
    json_decref(args);
    return reply;
}

int run_audit(struct ctl *c)
{
    json_t *filters = json_object(), *all, *list;
    struct processes p;
    char why[200] = "";
    struct buf away;
    int code = 0;

    if (!put_filters(c, filters)) {
        json_decref(filters);
        return EXIT_USAGE;
    }
    all = json_array();
    buf_init(&away, 64 * 1024);
    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++)
        if (!collect(c, p.names[i], filters, all, why))
            buf_printf(&away, "%s%s (%s)", away.len ? ", " : "", p.names[i],
                       why);
    list = list_newest(all, "at", (size_t)list_limit(c));
    print_list(c, columns, list, "No changes are recorded.");
    if (away.len) {
        fflush(stdout);
        code = complain(EXIT_UNAVAILABLE,
                        "the list is incomplete: these processes did not "
                        "reply: %s",
                        away.data);
    }
    processes_fini(&p);
    buf_fini(&away);
    json_decref(list);
    json_decref(all);
    json_decref(filters);
    return code;
}
