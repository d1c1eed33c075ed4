/* dlq: `grapnel dlq` and its commands for single dead letters. bulk_command.c has --all. */
#include "ask.h"
#include "exchange.h"
#include "list.h"
#include "names.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

enum { RETRY_PAGE = 500 };

static const char dlqd[] = "dlqd";

/* ---- list ---- */

static void dead_letter_state(struct table *t, const json_t *dead_letter)
{
    const char *state = text_of(dead_letter, "state");

    table_add(t, strcmp(state, "dead") ? YELLOW : RED, "%s", state);
}

static const struct column columns[] = {
    {.head = "DEAD SINCE (UTC)", .key = "dead_at", .kind = COLUMN_TIME},
    {.head = "ID", .key = "id"},
    {.head = "ENDPOINT", .key = "endpoint", .kind = COLUMN_OR_DASH},
    {.head = "REASON", .key = "reason"},
    {.head = "ATTEMPTS", .key = "attempts"},
    {.head = "RESPONSE", .key = "last_http_status", .kind = COLUMN_OR_DASH},
    {.head = "STATE", .cell = dead_letter_state},
    {.head = "EVENT", .key = "event_id"},
    {0}};

int run_dlq(struct ctl *c)
{
    static const char *const filters[] = {
        "--state", "--endpoint", "--source", "--workspace",
        "--type",  "--reason",   NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (put_filters(c, args))
        code = list_pages(
            c, &(struct page_listing){.process = dlqd,
                                      .ask = "dlq",
                                      .key = "dead_letters",
                                      .args = args,
                                      .filters = filters,
                                      .columns = columns,
                                      .none = "No dead letters found."});
    json_decref(args);
    return code;
}

/* ---- show ---- */

static void print_field(const json_t *l, const char *key, const char *label)
{
    const char *value = text_of(l, key);

    if (*value)
        printf("  %-10s %s\n", label, value);
}

static const struct column history_columns[] = {
    {.head = "AT (UTC)", .key = "at", .kind = COLUMN_TIME},
    {.head = "STATE", .key = "to"},
    {.head = "WHAT", .key = "what"},
    {0}};

static void print_dead_letter(struct ctl *c, const json_t *l)
{
    const char *endpoint = text_of(l, "endpoint");
    const json_t *body = json_object_get(l, "body");
    char *names = provider_names(l);

    printf("%s%s%s  %s\n", colour_on(BOLD, c->colour), text_of(l, "id"),
           colour_off(BOLD, c->colour), text_of(l, "state"));
    printf("  %-10s %s\n", "endpoint",
           *endpoint ? endpoint : "none: refused before routing");
    print_field(l, "reason", "reason");
    print_field(l, "attempts", "attempts");
    printf("  %-10s %s %s\n", "dead since", time_of(l, "dead_at"), when_zone());
    print_field(l, "last_http_status", "response");
    print_field(l, "last_error", "error");
    print_field(l, "last_response", "response");
    print_field(l, "note", "note");
    print_field(l, "event_id", "event");
    printf("  %-10s %s%s\n", "source", text_of(l, "source"), names);
    free(names);
    print_field(l, "type", "type");
    print_field(l, "workspace", "workspace");
    print_field(l, "sequence", "number");
    printf("  %-10s %s %s\n", "received", time_of(l, "received_at"),
           when_zone());
    printf("\nHistory\n");
    print_rows(c, history_columns, json_object_get(l, "history"), 2);
    printf("\nHeaders\n");
    exchange_headers(json_object_get(l, "headers"), "  ");
    if (json_is_string(body)) {
        printf("\nBody\n");
        exchange_body(exchange_bytes(body), "", SIZE_MAX);
    } else {
        printf("\nBody (not text; base64)\n%s\n", text_of(l, "body_b64"));
    }
}

int run_dlq_show(struct ctl *c)
{
    int code = 0;
    json_t *dead_letter = ask_needed(
        c, dlqd, "dlq_show", json_pack("{s:s}", "id", c->parsed.args[0]),
        ASK_MS, &code);

    if (!dead_letter)
        return code;
    if (c->json)
        print_json(json_incref(dead_letter));
    else
        print_dead_letter(c, dead_letter);
    json_decref(dead_letter);
    return 0;
}

/* ---- resolve, discard ---- */

/* Resolves or discards one dead letter, or with --all those that match the filters. */
static int decide(struct ctl *c, const char *what, const char *what_all,
                  const char *done)
{
    const char *note = parsed_value(&c->parsed, "--note");
    bool all = parsed_value(&c->parsed, "--all") != NULL;
    json_t *args, *dead_letter;
    int code = 0;

    if (!note || !*note)
        return complain(EXIT_USAGE,
                        "--note TEXT is missing: it tells others the reason");
    if (all == (c->parsed.arg_count > 0))
        return complain(EXIT_USAGE, "give the id of one dead letter, or --all");
    if (all)
        return run_dlq_all(c, what_all, done);
    if (!is_utf8("--note", note) ||
        !is_utf8("the id of the dead letter", c->parsed.args[0]))
        return EXIT_USAGE;
    args = json_pack("{s:s, s:s, s:s}", "id", c->parsed.args[0], "note", note,
                     "who", user_name());
    dead_letter = ask_needed(c, dlqd, what, args, ASK_MS, &code);
    if (!dead_letter)
        return code;
    if (c->json)
        print_json(json_incref(dead_letter));
    else
        printf("%s  %s\n", text_of(dead_letter, "id"),
               text_of(dead_letter, "state"));
    json_decref(dead_letter);
    return 0;
}

int run_dlq_resolve(struct ctl *c)
{
    return decide(c, "dlq_resolve", "dlq_resolve_all", "resolved");
}

int run_dlq_discard(struct ctl *c)
{
    return decide(c, "dlq_discard", "dlq_discard_all", "discarded");
}

/* ---- retry ---- */

int run_dlq_retry(struct ctl *c)
{
    const char *to = parsed_value(&c->parsed, "--to");
    bool all = parsed_value(&c->parsed, "--all") != NULL;
    json_t *done, *refused, *v;
    int at = 0, code = 0;
    size_t k;

    if (!is_utf8("--to", to))
        return EXIT_USAGE;
    if (!is_endpoint(c, to))
        return EXIT_REFUSED;
    if (all == (c->parsed.arg_count > 0))
        return complain(EXIT_USAGE, "give ids of dead letters, or --all");
    if (all)
        return run_dlq_all(c, "dlq_retry_all", "requeued");
    for (int i = 0; i < c->parsed.arg_count; i++)
        if (!is_utf8("the id of a dead letter", c->parsed.args[i]))
            return EXIT_USAGE;
    done = json_array();
    refused = json_array();
    while (!code && at < c->parsed.arg_count) {
        json_t *ids = json_array(), *reply, *args;

        for (k = 0; k < RETRY_PAGE && at < c->parsed.arg_count; k++)
            json_array_append_new(ids, json_string(c->parsed.args[at++]));
        args = json_pack("{s:o, s:s}", "ids", ids, "who", user_name());
        if (to)
            json_object_set_new(args, "to", json_string(to));
        reply = ask_needed(c, dlqd, "dlq_retry", args, ASK_MS, &code);
        json_array_extend(done, json_object_get(reply, "requeued"));
        json_array_extend(refused, json_object_get(reply, "refused"));
        json_decref(reply);
    }
    if (!code && json_array_size(refused))
        code = EXIT_REFUSED;
    if (c->json) {
        print_json(
            json_pack("{s:O, s:O}", "requeued", done, "refused", refused));
    } else {
        json_array_foreach(done, k, v)
            printf("%s  requeued\n", json_string_value(v));
        json_array_foreach(refused, k, v)
            printf("%s  refused: %s\n", text_of(v, "id"), text_of(v, "why"));
    }
    json_decref(done);
    json_decref(refused);
    return code;
}

/* ---- stats ---- */

static void print_counts(struct ctl *c, const json_t *counts, const char *head)
{
    const char *const heads[] = {head, "DEAD", NULL};
    const char *key;
    struct table t;
    json_t *n;

    if (!json_object_size(counts))
        return;
    printf("\n");
    table_init(&t, heads);
    json_object_foreach((json_t *)counts, key, n)
    {
        table_add(&t, PLAIN, "%s", *key ? key : "(not routed)");
        table_add(&t, PLAIN, "%lld", (long long)json_integer_value(n));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

int run_dlq_stats(struct ctl *c)
{
    static const char *const states[] = {"dead", "requeued", "recovered",
                                         "resolved", "discarded"};
    int code = 0;
    json_t *stats = ask_needed(c, dlqd, "dlq_stats", NULL, ASK_MS, &code);

    if (!stats)
        return code;
    if (c->json) {
        print_json(stats);
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(states); i++)
        printf("%-10s %s\n", states[i], text_of(stats, states[i]));
    print_counts(c, json_object_get(stats, "by_endpoint"), "ENDPOINT");
    print_counts(c, json_object_get(stats, "by_reason"), "REASON");
    print_counts(c, json_object_get(stats, "by_fault"), "FAULT OF");
    json_decref(stats);
    return 0;
}
