#include "show_attempt.h"
#include "ask.h"
#include "conf.h"
#include "encoding.h"
#include "headers.h"
#include "json_text.h"
#include "show_command.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of a response, in trace. */
enum { RESPONSE_SHOWN_BYTES = 1024 };

static struct bytes text_bytes(const json_t *text)
{
    return (struct bytes){json_is_string(text) ? json_string_value(text) : "",
                          json_string_length(text)};
}

void show_responses(const json_t *attempts)
{
    json_t *a;
    size_t i;

    json_array_foreach(attempts, i, a)
    {
        struct bytes body = text_bytes(
            json_object_get(json_object_get(a, "response"), "body"));

        if (!body.n)
            continue;
        printf("    Response to attempt %s\n", text_of(a, "n"));
        show_body(body, "      ", RESPONSE_SHOWN_BYTES);
    }
}

/* ---- which ---- */

/* Each deliverer adds those that it has made. */
static json_t *collect(struct ctl *c, const char *id)
{
    json_t *all = json_array();
    struct processes p;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        bool unreachable;
        char why[200];
        json_t *reply;

        if (process_rank(p.names[i]) != process_rank("deliverer"))
            continue;
        reply = ask(c, p.names[i], "trace", json_pack("{s:s}", "id", id),
                    ASK_STATUS_MS, &unreachable, why);
        if (unreachable)
            complain(0,
                     "%s cannot be reached; its attempts are missing here (%s)",
                     p.names[i], why);
        json_array_extend(all, json_object_get(reply, "attempts"));
        json_decref(reply);
    }
    processes_fini(&p);
    return all;
}

/* The caller's. */
static json_t *select_of(const json_t *all, int64_t n, const char *endpoint)
{
    json_t *out = json_array(), *a;
    size_t i;

    json_array_foreach(all, i, a)
    {
        const char *name = json_string_value(json_object_get(a, "endpoint"));

        if (json_integer_value(json_object_get(a, "n")) == n && name &&
            (!endpoint || strcmp(name, endpoint) == 0))
            json_array_append(out, a);
    }
    return out;
}

/* ---- what the deliverer does not keep ---- */

static const json_t *delivery_of(const json_t *event, const char *endpoint)
{
    json_t *d;
    size_t i;

    json_array_foreach(json_object_get(event, "deliveries"), i,
                       d) if (strcmp(text_of(d, "endpoint"), endpoint) ==
                              0) return d;
    return NULL;
}

/* As text; NULL: it has none. */
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

/* Of our own headers, what the sequencer says of the event. */
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
    json_t *previous;

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (strcmp(name, fields[i][0]) == 0)
            return as_text(json_object_get(event, fields[i][1]));
    if (strcmp(name, "grapnel-previous") != 0)
        return NULL;
    previous = as_text(
        json_object_get(delivery_of(event, endpoint), "previous"));
    return previous || !event ? previous : json_string("0");
}

/* Of the event's own headers, that went along, the one of this name and number. */
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

static size_t count_before(const json_t *headers, size_t at, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < at; i++) {
        const char *has = json_string_value(
            json_array_get(json_array_get(headers, i), 0));

        n += has && strcmp(has, name) == 0;
    }
    return n;
}

/* Put into what the deliverer left open; a value that nobody has any more stays null. */
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

        if (!name || !endpoint || !json_is_null(json_array_get(pair, 1)))
            continue;
        value = strncmp(name, "grapnel-", 8) == 0
                    ? event_value(from->event, endpoint, name)
                    : request_value(from->request, name,
                                    count_before(headers, i, name));
        if (value)
            json_array_set_new(pair, 1, value);
    }
}

/* ---- text output ---- */

static void print_header(const json_t *pair)
{
    const char *name = json_string_value(json_array_get(pair, 0)),
               *value = json_string_value(json_array_get(pair, 1));
    char *line = gr_printf("%s: %s", name ? name : "",
                           value ? value
                                 : "(no process stores its value any more)");
    char *safe = harmless(line);

    printf("> %s\n", safe);
    free(safe);
    free(line);
}

static void print_sent(const json_t *attempt, const struct buf *body)
{
    const json_t *request = json_object_get(attempt, "request");
    json_t *pair;
    size_t i;

    if (json_is_object(request)) {
        printf("> %s %s\n", text_of(request, "method"),
               text_of(request, "url"));
        json_array_foreach(json_object_get(request, "headers"), i, pair)
            print_header(pair);
    } else {
        printf("> (its method, URL and headers are not stored: nothing was "
               "sent, an older version sent it, or there are too many kinds of "
               "requests)\n");
    }
    printf(">\n");
    if (body)
        show_body((struct bytes){body->data ? body->data : "", body->len}, "> ",
                  SIZE_MAX);
    else
        printf("> (no ingress process has the body any more)\n");
}

/* Set-Cookie and the like are the endpoint's secrets. */
static void print_response_headers(const char *text)
{
    char *copy = gr_strdup(text), *rest = copy, *line;

    while ((line = strsep(&rest, "\n"))) {
        size_t n = strcspn(line, ":");
        char *safe;

        line[strcspn(line, "\r")] = 0;
        if (line[n] && headers_secret((struct bytes){line, n}))
            line[n] = 0;
        safe = harmless(line);
        if (*safe)
            printf("< %s%s\n", safe,
                   headers_secret((struct bytes){line, n}) ? ": …" : "");
        free(safe);
    }
    free(copy);
}

static void print_received(const json_t *attempt)
{
    const json_t *response = json_object_get(attempt, "response");
    const char *headers = json_string_value(
        json_object_get(response, "headers"));

    if (!json_is_object(response)) {
        printf("< (no response: %s)\n", text_of(attempt, "error"));
        return;
    }
    print_response_headers(headers ? headers : "");
    printf("<\n");
    show_body(text_bytes(json_object_get(response, "body")), "< ", SIZE_MAX);
}

static void print_attempt(struct ctl *c, const json_t *a,
                          const struct buf *body)
{
    printf("%sattempt %s at %s%s, %s UTC by %s: %s\n\n",
           colour_on(BOLD, c->colour), text_of(a, "n"), text_of(a, "endpoint"),
           colour_off(BOLD, c->colour), time_of(a, "at"),
           text_of(a, "deliverer"), text_of(a, "outcome"));
    print_sent(a, body);
    printf("\n");
    print_received(a);
}

/* ---- the command ---- */

/* Of secrets in the response's headers, as of those that are printed. */
static void hide_cookies(json_t *attempt)
{
    json_t *response = json_object_get(attempt, "response");
    const char *text = json_string_value(json_object_get(response, "headers"));
    char *copy = gr_strdup(text ? text : ""), *rest = copy, *line;
    struct buf out;

    if (text) {
        buf_init(&out, 2 * strlen(text) + 64);
        while ((line = strsep(&rest, "\n"))) {
            size_t n = strcspn(line, ":");
            bool secret = line[n] && headers_secret((struct bytes){line, n});

            buf_put(&out, line, secret ? n : strlen(line));
            buf_puts(&out, secret ? ": …\r" : "");
            buf_puts(&out, rest ? "\n" : "");
        }
        json_object_set_new(response, "headers",
                            json_text((struct bytes){out.data, out.len}));
        buf_fini(&out);
    }
    free(copy);
}

static json_t *documents(json_t *found, const struct buf *body)
{
    json_t *a;
    size_t i;

    json_array_foreach(found, i, a)
    {
        struct bytes sent = {body && body->data ? body->data : "",
                             body ? body->len : 0};

        hide_cookies(a);
        if (body && utf8_valid(sent))
            json_object_set_new(a, "sent_body", json_text(sent));
        else if (body)
            json_object_set_new(a, "sent_body_b64", encoding_base64_json(sent));
    }
    return json_incref(found);
}

int show_attempt(struct ctl *c, const char *id, const struct sent_from *from)
{
    const char *text = parsed_value(&c->parsed, "--attempt"), *why;
    const char *endpoint = parsed_value(&c->parsed, "--endpoint");
    json_t *all, *found, *a;
    int64_t n;
    size_t i;
    int code = 0;

    if (conf_parse_int(text, &n, &why) != GR_OK || n < 1)
        return complain(EXIT_USAGE,
                        "--attempt: \"%s\" is not a number from 1 on", text);
    all = collect(c, id);
    found = select_of(all, n, endpoint);
    json_array_foreach(found, i, a) fill_headers(a, from);
    if (!json_array_size(found))
        code = complain(
            EXIT_REFUSED,
            "no deliverer has attempt %lld of %s%s%s; `grapnel trace` lists "
            "the attempts, which are kept for history.keep",
            (long long)n, id, endpoint ? " at " : "", endpoint ? endpoint : "");
    else if (c->json)
        print_json(documents(found, from->body));
    else
        json_array_foreach(found, i, a)
        {
            printf("%s", i ? "\n" : "");
            print_attempt(c, a, from->body);
        }
    json_decref(found);
    json_decref(all);
    return code;
}
