/* show_attempt: `grapnel show --attempt`: what was sent to an endpoint, and its response. */
#include "show_attempt.h"
#include "ask.h"
#include "conf.h"
#include "encoding.h"
#include "exchange.h"
#include "headers.h"
#include "hops.h"
#include "json_text.h"
#include "table.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of a response body, in `grapnel trace`. */
enum { RESPONSE_SHOWN_BYTES = 1024 };

void show_responses(const json_t *attempts)
{
    json_t *a;
    size_t i;

    json_array_foreach(attempts, i, a)
    {
        struct bytes body = exchange_bytes(
            json_object_get(json_object_get(a, "response"), "body"));

        if (!body.n)
            continue;
        printf("    Response to attempt %s\n", text_of(a, "n"));
        exchange_body(body, "      ", RESPONSE_SHOWN_BYTES);
    }
}

/* The attempts with this number, of each deliverer that has made one. */
static json_t *collect(struct ctl *c, const char *id, int64_t n,
                       const char *endpoint)
{
    json_t *found = json_array();
    struct processes p;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply, *a;
        size_t k;

        if (!process_is(p.names[i], "deliverer"))
            continue;
        reply = ask(c, p.names[i], "trace", json_pack("{s:s}", "id", id),
                    ASK_STATUS_MS, &unreachable, why);
        if (unreachable)
            complain(0,
                     "%s cannot be reached; its attempts are missing here (%s)",
                     p.names[i], why);
        json_array_foreach(
            json_object_get(reply, "attempts"), k,
            a) if (integer_of(a, "n") == n && *text_of(a, "endpoint") &&
                   (!endpoint || strcmp(text_of(a, "endpoint"), endpoint) == 0))
            json_array_append(found, a);
        json_decref(reply);
    }
    processes_fini(&p);
    return found;
}

/* An integer or a text as text; NULL for another value. */
static json_t *as_text(const json_t *value)
{
    char number[24];

    if (!json_is_integer(value))
        return json_is_string(value) ? json_copy((json_t *)(uintptr_t)value)
                                     : NULL;
    snprintf(number, sizeof number, "%lld",
             (long long)json_integer_value(value));
    return json_string(number);
}

/* The value of one of our own headers, from what the sequencer knows of the event. */
static json_t *event_value(const json_t *event, const char *endpoint,
                           const char *name)
{
    static const char *const fields[][2] = {
        {"grapnel-type", "type"},
        {"grapnel-workspace", "workspace"},
        {"grapnel-time", "received_at"},
        {"grapnel-sequence", "sequence"},
        {"grapnel-clock", "clock"},
        {"grapnel-source-sequence", "source_sequence"},
        {"grapnel-gap", "gap"}};
    json_t *previous = NULL, *d;
    size_t i;

    for (i = 0; i < COUNT_OF(fields); i++)
        if (strcmp(name, fields[i][0]) == 0)
            return as_text(json_object_get(event, fields[i][1]));
    if (strcmp(name, "grapnel-previous") != 0)
        return NULL;
    json_array_foreach(json_object_get(event, "deliveries"), i,
                       d) if (!previous &&
                              strcmp(text_of(d, "endpoint"), endpoint) == 0)
        previous = as_text(json_object_get(d, "previous"));
    return previous || !event ? previous : json_string("0");
}

/* The value of the header of the event's request with this name, after `number` others of that
 * name. */
static json_t *request_value(const json_t *request, const char *name,
                             size_t number)
{
    json_t *pair;
    size_t i;

    json_array_foreach(json_object_get(request, "headers"), i, pair)
    {
        const char *has = json_string_value(json_array_get(pair, 0));

        if (has && strcasecmp(has, name) == 0 && number-- == 0)
            return json_incref(json_array_get(pair, 1));
    }
    return NULL;
}

/* One hop more than the request that brought the event; NULL: that is not known. */
static json_t *hops_value(const json_t *request)
{
    json_t *came = request_value(request, HOPS_HEADER, 0), *value = NULL;
    const char *text = came ? json_string_value(came) : "0";

    if (request && text)
        value = json_sprintf("%ld", strtol(text, NULL, 10) + 1);
    json_decref(came);
    return value;
}

/* Fills in the values that the deliverer does not store; one that no process stores any more
 * stays null. A header that occurs several times gets its values in their order. */
static void fill_headers(json_t *attempt, const struct sent_from *from)
{
    json_t *headers = json_object_get(json_object_get(attempt, "request"),
                                      "headers"),
           *pair;
    const char *endpoint = json_string_value(
        json_object_get(attempt, "endpoint"));
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        json_t *value;
        size_t number = 0;

        if (!name || !endpoint || !json_is_null(json_array_get(pair, 1)))
            continue;
        for (size_t k = 0; k < i; k++) {
            const char *other = json_string_value(
                json_array_get(json_array_get(headers, k), 0));

            number += other && strcmp(other, name) == 0;
        }
        if (strcmp(name, HOPS_HEADER) == 0)
            value = hops_value(from->request);
        else if (strncmp(name, "grapnel-", 8) == 0)
            value = event_value(from->event, endpoint, name);
        else
            value = request_value(from->request, name, number);
        if (value)
            json_array_set_new(pair, 1, value);
    }
}

static void print_attempt(struct ctl *c, const json_t *a,
                          const struct buf *body)
{
    const json_t *request = json_object_get(a, "request"),
                 *response = json_object_get(a, "response");
    const char *headers = json_string_value(
        json_object_get(response, "headers"));

    printf("%sattempt %s at %s%s, %s %s by %s: %s\n\n",
           colour_on(BOLD, c->colour), text_of(a, "n"), text_of(a, "endpoint"),
           colour_off(BOLD, c->colour), time_of(a, "at"), when_zone(),
           text_of(a, "deliverer"), text_of(a, "outcome"));
    if (json_is_object(request)) {
        printf("> %s %s\n", text_of(request, "method"),
               text_of(request, "url"));
        exchange_headers(json_object_get(request, "headers"), "> ");
    } else {
        printf("> (its method, URL and headers are not stored: nothing was "
               "sent, an older version sent it, or there are too many kinds of "
               "requests)\n");
    }
    printf(">\n");
    if (body)
        exchange_body((struct bytes){body->data ? body->data : "", body->len},
                      "> ", SIZE_MAX);
    else
        printf("> (no ingress process has the body any more)\n");
    printf("\n");
    if (!json_is_object(response)) {
        printf("< (no response: %s)\n", text_of(a, "error"));
        return;
    }
    exchange_header_lines(headers ? headers : "", "< ");
    printf("<\n");
    exchange_body(exchange_bytes(json_object_get(response, "body")), "< ",
                  SIZE_MAX);
}

int show_attempt(struct ctl *c, const char *id, const struct sent_from *from)
{
    const char *text = parsed_value(&c->parsed, "--attempt"), *why;
    const char *endpoint = parsed_value(&c->parsed, "--endpoint");
    struct bytes sent = {"", 0};
    json_t *found, *a;
    int64_t n;
    size_t i;

    if (conf_parse_int(text, &n, &why) != GR_OK || n < 1)
        return complain(EXIT_USAGE,
                        "--attempt: \"%s\" is not a number from 1 on", text);
    found = collect(c, id, n, endpoint);
    if (!json_array_size(found)) {
        json_decref(found);
        return complain(
            EXIT_REFUSED,
            "no deliverer has attempt %lld of %s%s%s; `grapnel trace` lists "
            "the attempts, which are kept for history.keep",
            (long long)n, id, endpoint ? " at " : "", endpoint ? endpoint : "");
    }
    if (from->body && from->body->data)
        sent = (struct bytes){from->body->data, from->body->len};
    json_array_foreach(found, i, a)
    {
        fill_headers(a, from);
        if (!c->json) {
            printf("%s", i ? "\n" : "");
            print_attempt(c, a, from->body);
        } else if (from->body && utf8_valid(sent)) {
            json_object_set_new(a, "sent_body", json_text(sent));
        } else if (from->body) {
            json_object_set_new(a, "sent_body_b64", encoding_base64_json(sent));
        }
    }
    if (c->json)
        print_json(json_incref(found));
    json_decref(found);
    return 0;
}
