/* rejects_command: requests that were refused, from every ingress process. */
#include "rejects_command.h"
#include "ask.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 3339 in UTC sorts as text. Newest first. */
static int by_time(const void *left, const void *right)
{
    const json_t *const *a = left, *const *b = right;

    return strcmp(json_string_value(json_object_get(*b, "at")),
                  json_string_value(json_object_get(*a, "at")));
}

/* The caller's; at most `max` of them. */
static json_t *merged(const json_t *all, size_t max)
{
    size_t n = json_array_size(all);
    const json_t **rows = gr_alloc(n * sizeof *rows);
    json_t *out = json_array();

    for (size_t i = 0; i < n; i++)
        rows[i] = json_array_get(all, i);
    qsort(rows, n, sizeof *rows, by_time);
    for (size_t i = 0; i < n && i < max; i++)
        json_array_append(out, (json_t *)(uintptr_t)rows[i]);
    free(rows);
    return out;
}

/* Each ingress adds its own. 0, or the exit code: every one must be heard, or
 * the list would seem to be whole. */
static int collect(struct ctl *c, const json_t *args, json_t *all)
{
    struct processes p;
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !code; i++) {
        bool unreachable;
        char why[200];
        json_t *reply, *rows;
        json_t *row;
        size_t k;

        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        reply = ask(c, p.names[i], "rejects", json_deep_copy(args), ASK_MS,
                    &unreachable, why);
        rows = json_object_get(reply, "rejects");
        if (unreachable)
            code = complain_away(c, p.names[i], why);
        else if (!reply)
            code = complain(EXIT_REFUSED, "%s: %s", p.names[i], why);
        json_array_foreach(rows, k,
                           row) if (json_is_string(json_object_get(row, "at")))
            json_array_append(all, row);
        json_decref(reply);
    }
    processes_fini(&p);
    return code;
}

static bool is_sent(const json_t *reject)
{
    json_t *header;
    size_t i;

    json_array_foreach(json_object_get(reject, "headers"), i, header)
    {
        const char *name = json_string_value(json_array_get(header, 0));
        const char *value = json_string_value(json_array_get(header, 1));

        if (name && value && strcasecmp(name, "User-Agent") == 0)
            return strcmp(value, SEND_AGENT) == 0 &&
                   json_integer_value(json_object_get(reject, "status")) == 401;
    }
    return false;
}

char *rejects_reason(struct ctl *c, const char *source)
{
    struct processes p;
    json_t *all = json_array(), *list, *reject;
    char *reason = NULL;
    size_t i;

    processes_find(c, &p);
    for (i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply;

        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        reply = ask(c, p.names[i], "rejects",
                    json_pack("{s:s}", "source", source), ASK_STATUS_MS,
                    &unreachable, why);
        json_array_extend(all, json_object_get(reply, "rejects"));
        json_decref(reply);
    }
    processes_fini(&p);
    list = merged(all, json_array_size(all));
    json_array_foreach(list, i, reject)
    {
        if (reason || !is_sent(reject))
            continue;
        reason = gr_strdup(text_of(reject, "reason"));
    }
    json_decref(list);
    json_decref(all);
    return reason;
}

json_t *rejects_with_id(struct ctl *c, const struct processes *p,
                        const char *id)
{
    struct question *all = gr_alloc((p->count + 1) * sizeof *all);
    json_t *found = json_array(), *list, *row;
    size_t n = 0, k;

    for (size_t i = 0; i < p->count; i++)
        if (process_rank(p->names[i]) == process_rank("ingress"))
            all[n++] = (struct question){.process = p->names[i],
                                         .what = "rejects",
                                         .args = json_pack("{s:s}", "id", id)};
    ask_all(c, all, n, ASK_STATUS_MS);
    for (size_t i = 0; i < n; i++) {
        json_array_foreach(json_object_get(all[i].reply, "rejects"), k, row)
        {
            /* An ingress of before knows no such filter. */
            const char *has = json_string_value(
                json_object_get(row, "delivery_id"));

            if (has && strcmp(has, id) == 0)
                json_array_append(found, row);
        }
        json_decref(all[i].reply);
    }
    free(all);
    list = merged(found, json_array_size(found));
    json_decref(found);
    return list;
}

static void reject_request(struct table *t, const json_t *reject)
{
    table_add(t, PLAIN, "%s %s", text_of(reject, "method"),
              text_of(reject, "path"));
}

const struct column rejects_columns[] = {
    {.head = "AT (UTC)", .key = "at", .kind = COLUMN_TIME},
    {.head = "SOURCE", .key = "source", .kind = COLUMN_OR_DASH},
    {.head = "REASON", .key = "reason"},
    {.head = "STATUS", .key = "status"},
    {.head = "REMOTE", .key = "remote"},
    {.head = "REQUEST", .cell = reject_request},
    {.head = "BODY", .key = "body_bytes"},
    {.head = "ID", .key = "id", .kind = COLUMN_OR_DASH},
    {0}};

int run_rejects(struct ctl *c)
{
    const char *source = parsed_value(&c->parsed, "--source");
    static const char *const filters[] = {"--source", "--id", NULL};
    json_t *args = json_object(), *all = json_array(), *list;
    int code = put_filters(c, args, filters) ? 0 : EXIT_USAGE;

    if (!code && source && strcmp(source, "-") != 0 &&
        !is_known(c, "sources", "source", source))
        code = EXIT_REFUSED;
    if (!code)
        code = collect(c, args, all);
    if (!code) {
        list = merged(all, (size_t)list_limit(c));
        print_list(c, rejects_columns, list,
                   parsed_value(&c->parsed, "--id")
                       ? "No refused requests with this id."
                       : "No refused requests.");
        json_decref(list);
    }
    json_decref(all);
    json_decref(args);
    return code;
}
