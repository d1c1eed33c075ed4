/* rejects_command: `grapnel rejects` and `rejects show`: requests that ingress refused. */
#include "rejects_command.h"
#include "ask.h"
#include "exchange.h"
#include "show_command.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Appends the rejects of every ingress to `all`. Returns the exit code: if one does not
 * respond, the list would be incomplete. */
static int collect(struct ctl *c, const json_t *args, json_t *all)
{
    struct processes p;
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !code; i++) {
        json_t *reply, *row;
        size_t k;

        if (!process_is(p.names[i], "ingress"))
            continue;
        reply = ask_needed(c, p.names[i], "rejects", json_deep_copy(args),
                           ASK_MS, &code);
        json_array_foreach(json_object_get(reply, "rejects"), k,
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
                   integer_of(reject, "status") == 401;
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

        if (!process_is(p.names[i], "ingress"))
            continue;
        reply = ask(c, p.names[i], "rejects",
                    json_pack("{s:s}", "source", source), ASK_STATUS_MS,
                    &unreachable, why);
        json_array_extend(all, json_object_get(reply, "rejects"));
        json_decref(reply);
    }
    processes_fini(&p);
    list = list_newest(all, "at", SIZE_MAX);
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
        if (process_is(p->names[i], "ingress"))
            all[n++] = (struct question){.process = p->names[i],
                                         .what = "rejects",
                                         .args = json_pack("{s:s}", "id", id)};
    ask_all(c, all, n, ASK_STATUS_MS);
    for (size_t i = 0; i < n; i++) {
        json_array_foreach(json_object_get(all[i].reply, "rejects"), k, row)
        {
            /* An older version of ingress ignores this filter. */
            const char *has = json_string_value(
                json_object_get(row, "delivery_id"));

            if (has && strcmp(has, id) == 0)
                json_array_append(found, row);
        }
        json_decref(all[i].reply);
    }
    free(all);
    list = list_newest(found, "at", SIZE_MAX);
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
    {.head = "CLIENT", .key = "remote"},
    {.head = "REQUEST", .cell = reject_request},
    {.head = "BODY", .key = "body_bytes"},
    {.head = "ID", .key = "id", .kind = COLUMN_OR_DASH},
    {0}};

int run_rejects(struct ctl *c)
{
    const char *source = parsed_value(&c->parsed, "--source");
    json_t *args = json_object(), *all = json_array(), *list;
    int code = put_filters(c, args) ? 0 : EXIT_USAGE;

    if (!code && source && strcmp(source, "-") != 0 &&
        !is_known(c, "sources", "source", source))
        code = EXIT_REFUSED;
    if (!code)
        code = collect(c, args, all);
    if (!code) {
        list = list_newest(all, "at", (size_t)list_limit(c));
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

static void print_reject(struct ctl *c, const json_t *r, struct bytes body)
{
    printf("%s%s%s  refused: %s (%s)\n", colour_on(BOLD, c->colour),
           text_of(r, "id"), colour_off(BOLD, c->colour), text_of(r, "reason"),
           text_of(r, "status"));
    printf("  at         %s %s, by %s\n", time_of(r, "at"), when_zone(),
           text_of(r, "process"));
    printf("  source     %s%s%s\n", text_or_dash(r, "source"),
           *text_of(r, "delivery_id") ? ", delivery " : "",
           text_of(r, "delivery_id"));
    printf("  from       %s\n\n", text_of(r, "remote"));
    printf("%s %s\n", text_of(r, "method"), text_of(r, "path"));
    exchange_headers(json_object_get(r, "headers"), "");
    printf("\n");
    if (json_is_true(json_object_get(r, "has_body")))
        exchange_body(body, "", SIZE_MAX);
    else
        printf("(its body is not stored: it did not arrive completely, it is "
               "older than a day, or newer ones replaced it)\n");
}

static void print_explanation(struct ctl *c, const json_t *r)
{
    const json_t *all = json_object_get(r, "findings"), *f;
    const char *note = text_of(r, "note");
    size_t i;

    printf("%s%s%s  refused: %s (%s)\n", colour_on(BOLD, c->colour),
           text_of(r, "id"), colour_off(BOLD, c->colour), text_of(r, "reason"),
           text_of(r, "status"));
    printf("  at         %s %s, by %s\n", time_of(r, "at"), when_zone(),
           text_of(r, "process"));
    printf("  source     %s\n", text_or_dash(r, "source"));
    json_array_foreach(all, i, f)
    {
        bool certain = json_is_true(json_object_get(f, "certain"));

        printf("\n%s%s%s%s: %s\n", colour_on(certain ? RED : YELLOW, c->colour),
               text_of(f, "mistake"),
               colour_off(certain ? RED : YELLOW, c->colour),
               certain ? "" : " (perhaps)", text_of(f, "text"));
        printf("  %s\n", text_of(f, "fix"));
    }
    if (!json_array_size(all) && !*note)
        printf("\nNo usual mistake explains it (%s signatures compared). "
               "Either the secret is one that Grapnel does\nnot have: copy it "
               "again from the provider; or somebody else sent the request.\n",
               text_of(r, "tried"));
    if (*note)
        printf("\n%s\n", note);
    if (!json_is_true(json_object_get(r, "complete")))
        printf("\nThe body is large, so not all mistakes were tried.\n");
}

int run_rejects_explain(struct ctl *c)
{
    const char *id = c->parsed.args[0];
    struct processes p;
    char why[200] = "";
    bool unreachable = false;
    json_t *r = NULL;
    int code = 0;

    if (!is_utf8("the id", id))
        return EXIT_USAGE;
    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !r && !code; i++) {
        if (!process_is(p.names[i], "ingress"))
            continue;
        r = ask(c, p.names[i], "reject_explain", json_pack("{s:s}", "id", id),
                ASK_MS, &unreachable, why);
        if (unreachable)
            code = complain_away(c, p.names[i], why);
    }
    processes_fini(&p);
    if (!r && !code)
        code = complain(EXIT_REFUSED, "%s",
                        *why ? why : "no ingress process is running");
    if (r && c->json) {
        print_json(r);
        return code;
    }
    if (r)
        print_explanation(c, r);
    json_decref(r);
    return code;
}

int run_rejects_show(struct ctl *c)
{
    const char *id = c->parsed.args[0];
    json_t *args = json_pack("{s:s}", "id", id), *r = NULL;
    struct processes p;
    struct buf raw = {0};
    struct question q = {.what = "reject", .args = args};
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !r && !code; i++) {
        if (!process_is(p.names[i], "ingress"))
            continue;
        buf_fini(&raw);
        q.process = p.names[i];
        r = show_fetch(c, &q, &raw);
        if (q.unreachable)
            code = complain_away(c, p.names[i], q.why);
    }
    if (!r && !code)
        code = complain(EXIT_REFUSED, "%s", q.why);
    if (r && parsed_value(&c->parsed, "--raw"))
        code = exchange_raw((struct bytes){raw.data ? raw.data : "", raw.len});
    else if (r && c->json)
        print_json(json_incref(r));
    else if (r)
        print_reject(c, r, (struct bytes){raw.data ? raw.data : "", raw.len});
    processes_fini(&p);
    buf_fini(&raw);
    json_decref(r);
    json_decref(args);
    return code;
}
