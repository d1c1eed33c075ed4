/* dlq: dead letters, of every dlqd. */
#include "ask.h"
#include "list.h"
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
    {.head = "TRIES", .key = "attempts"},
    {.head = "RESPONSE", .key = "last_http_status", .kind = COLUMN_OR_DASH},
    {.head = "STATE", .cell = dead_letter_state},
    {.head = "EVENT", .key = "event_id"},
    {0}};

static bool is_state(const char *state)
{
    static const char *const states[] = {"dead",     "requeued",  "recovered",
                                         "resolved", "discarded", "all"};

    for (size_t i = 0; state && i < COUNT_OF(states); i++)
        if (strcmp(state, states[i]) == 0)
            return true;
    if (state)
        complain(EXIT_USAGE,
                 "--state: \"%s\" is not a state; it is dead, requeued, "
                 "recovered, resolved, discarded or all",
                 state);
    return !state;
}

int run_dlq(struct ctl *c)
{
    static const char *const filters[] = {
        "--state", "--endpoint", "--source", "--workspace",
        "--type",  "--reason",   NULL};
    json_t *args = json_object();
    int code = EXIT_USAGE;

    if (is_state(parsed_value(&c->parsed, "--state")) &&
        put_filters(c, args, filters))
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

static void print_headers(const json_t *headers)
{
    json_t *pair;
    size_t i;

    printf("\nHeaders\n");
    json_array_foreach(headers, i, pair)
    {
        char *name = harmless(json_string_value(json_array_get(pair, 0)));
        char *value = harmless(json_string_value(json_array_get(pair, 1)));

        printf("  %s: %s\n", name, value);
        free(name);
        free(value);
    }
}

static const struct column history_columns[] = {
    {.head = "AT (UTC)", .key = "at", .kind = COLUMN_TIME},
    {.head = "STATE", .key = "to"},
    {.head = "WHAT", .key = "what"},
    {0}};

/* Line ends stay, for a body is often laid out; the rest is made harmless. */
static void print_body(const json_t *l)
{
    const json_t *body = json_object_get(l, "body");
    size_t n = json_string_length(body);
    char *text, *line, *rest;

    if (!json_is_string(body)) {
        printf("\nBody (not text; base64)\n%s\n", text_of(l, "body_b64"));
        return;
    }
    printf("\nBody\n");
    text = gr_alloc(n + 1); /* a NUL ends nothing here */
    for (size_t i = 0; i < n; i++)
        text[i] = json_string_value(body)[i] ? json_string_value(body)[i] : '?';
    rest = text;
    while ((line = strsep(&rest, "\n")) && (rest || *line)) {
        char *safe = harmless(line);

        printf("%s\n", safe);
        free(safe);
    }
    free(text);
}

static void print_source(const json_t *l)
{
    char *names = provider_names(l);

    printf("  %-10s %s%s\n", "source", text_of(l, "source"), names);
    free(names);
}

static void print_dead_letter(struct ctl *c, const json_t *l)
{
    const char *endpoint = text_of(l, "endpoint");

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
    print_source(l);
    print_field(l, "type", "type");
    print_field(l, "workspace", "workspace");
    print_field(l, "sequence", "number");
    printf("  %-10s %s %s\n", "received", time_of(l, "received_at"),
           when_zone());
    printf("\nHistory\n");
    print_rows(c, history_columns, json_object_get(l, "history"), 2);
    print_headers(json_object_get(l, "headers"));
    print_body(l);
}

int run_dlq_show(struct ctl *c)
{
    bool unreachable;
    char why[200];
    json_t *dead_letter = ask(c, dlqd, "dlq_show",
                              json_pack("{s:s}", "id", c->parsed.args[0]),
                              ASK_MS, &unreachable, why);

    if (unreachable)
        return complain_away(c, dlqd, why);
    if (!dead_letter)
        return complain(EXIT_REFUSED, "%s", why);
    if (c->json)
        print_json(json_incref(dead_letter));
    else
        print_dead_letter(c, dead_letter);
    json_decref(dead_letter);
    return 0;
}

/* ---- resolve, discard ---- */

static int decide(struct ctl *c, const char *what,
                  int (*decide_all)(struct ctl *c))
{
    const char *note = parsed_value(&c->parsed, "--note");
    bool all = parsed_value(&c->parsed, "--all") != NULL;
    json_t *args, *dead_letter;
    bool unreachable;
    char why[200];

    if (!note || !*note)
        return complain(EXIT_USAGE,
                        "--note TEXT is missing: it tells others the reason");
    if (all == (c->parsed.arg_count > 0))
        return complain(EXIT_USAGE, "give the id of one dead letter, or --all");
    if (all)
        return decide_all(c);
    args = json_pack("{s:s, s:s, s:s}", "id", c->parsed.args[0], "note", note,
                     "who", user_name());
    if (!args)
        return complain(EXIT_USAGE, "--note is not UTF-8");
    dead_letter = ask(c, dlqd, what, args, ASK_MS, &unreachable, why);
    if (unreachable)
        return complain_away(c, dlqd, why);
    if (!dead_letter)
        return complain(EXIT_REFUSED, "%s", why);
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
    return decide(c, "dlq_resolve", run_dlq_resolve_all);
}

int run_dlq_discard(struct ctl *c)
{
    return decide(c, "dlq_discard", run_dlq_discard_all);
}

/* ---- retry ---- */

static void print_retried(const json_t *done, const json_t *refused)
{
    json_t *v;
    size_t i;

    json_array_foreach(done, i, v)
        printf("%s  requeued\n", json_string_value(v));
    json_array_foreach(refused, i, v)
        printf("%s  refused: %s\n", text_of(v, "id"), text_of(v, "why"));
}

/* One page of ids. Exit code, or -1: go on. */
static int retry_page(struct ctl *c, json_t *ids, json_t *done, json_t *refused)
{
    bool unreachable;
    char why[200];
    const char *to = parsed_value(&c->parsed, "--to");
    json_t *args = json_pack("{s:o, s:s}", "ids", ids, "who", user_name());
    json_t *reply;

    if (to)
        json_object_set_new(args, "to", json_string(to));
    reply = ask(c, dlqd, "dlq_retry", args, ASK_MS, &unreachable, why);

    if (unreachable)
        return complain_away(c, dlqd, why);
    if (!reply)
        return complain(EXIT_REFUSED, "%s", why);
    json_array_extend(done, json_object_get(reply, "requeued"));
    json_array_extend(refused, json_object_get(reply, "refused"));
    json_decref(reply);
    return -1;
}

int run_dlq_retry(struct ctl *c)
{
    json_t *done, *refused;
    int code = -1;

    if (!is_endpoint(c, parsed_value(&c->parsed, "--to")))
        return EXIT_REFUSED;
    if (parsed_value(&c->parsed, "--all"))
        return c->parsed.arg_count
                   ? complain(EXIT_USAGE, "give ids of dead letters, or --all")
                   : run_dlq_retry_all(c);
    if (!c->parsed.arg_count)
        return complain(EXIT_USAGE, "give ids of dead letters, or --all");
    done = json_array();
    refused = json_array();
    for (int i = 0; code < 0 && i < c->parsed.arg_count;) {
        json_t *ids = json_array();

        for (int k = 0; k < RETRY_PAGE && i < c->parsed.arg_count; k++, i++)
            json_array_append_new(ids, json_string(c->parsed.args[i]));
        code = retry_page(c, ids, done, refused);
    }
    if (code < 0)
        code = json_array_size(refused) ? EXIT_REFUSED : 0;
    if (c->json)
        print_json(
            json_pack("{s:O, s:O}", "requeued", done, "refused", refused));
    else
        print_retried(done, refused);
    json_decref(done);
    json_decref(refused);
    return code;
}
