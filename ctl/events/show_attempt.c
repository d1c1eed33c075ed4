/* show_attempt: `grapnel show --attempt`: what was sent to an endpoint, and its response. */
#include "show_attempt.h"
#include "ask.h"
#include "conf.h"
#include "encoding.h"
#include "exchange.h"
#include "json_text.h"
#include "sent_headers.h"
#include "table.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>

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
    json_t *found = json_array(),
           *args = json_pack("{s:s,s:I,s:s*}", "id", id, "n", (json_int_t)n,
                             "endpoint", endpoint);
    struct processes p;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply;

        if (!process_is(p.names[i], "deliverer"))
            continue;
        reply = ask(c, p.names[i], "trace", json_incref(args), ASK_STATUS_MS,
                    &unreachable, why);
        if (unreachable)
            complain(0,
                     "%s cannot be reached; its attempts are missing here (%s)",
                     p.names[i], why);
        json_array_extend(found, json_object_get(reply, "attempts"));
        json_decref(reply);
    }
    json_decref(args);
    processes_fini(&p);
    return found;
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
        sent_headers_fill(a, from->event, from->request);
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
