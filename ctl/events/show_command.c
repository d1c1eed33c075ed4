#include "show_command.h"
#include "ask.h"
#include "bounds.h"
#include "encoding.h"
#include "json_text.h"
#include "show_attempt.h"
#include "table.h"
#include "trace_id.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a body, piece by piece ---- */

static bool add_piece(const json_t *reply, struct buf *raw)
{
    const json_t *text = json_object_get(reply, "body_b64");
    size_t n = json_string_length(text);
    uint8_t *piece = gr_alloc(n + 1);
    int bytes = encoding_base64((struct bytes){json_string_value(text), n},
                                piece, n);

    if (bytes > 0)
        buf_put(raw, piece, (size_t)bytes);
    free(piece);
    return bytes > 0;
}

static json_t *ask_piece(struct ctl *c, const char *process, const char *what,
                         const json_t *args, size_t offset, bool *unreachable,
                         char why[200])
{
    json_t *all = json_deep_copy(args);

    json_object_set_new(all, "offset", json_integer((json_int_t)offset));
    return ask(c, process, what, all, ASK_MS, unreachable, why);
}

static void put_whole(json_t *reply, const struct buf *raw)
{
    struct bytes body = {raw->data ? raw->data : "", raw->len};

    json_object_del(reply, "offset");
    json_object_del(reply, "body_b64");
    if (utf8_valid(body))
        json_object_set_new(reply, "body", json_text(body));
    else
        json_object_set_new(reply, "body_b64", encoding_base64_json(body));
}

json_t *show_fetch(struct ctl *c, const char *process, const char *what,
                   json_t *args, struct buf *raw, bool *unreachable,
                   char why[200])
{
    json_t *first = ask_piece(c, process, what, args, 0, unreachable, why);
    bool has_body = json_object_get(first, "body_b64");
    size_t all = (size_t)json_integer_value(
        json_object_get(first, "body_bytes"));
    json_t *piece = json_incref(first);

    buf_init(raw, BODY_MAX_BYTES);
    while (has_body && piece && add_piece(piece, raw) && raw->len < all) {
        json_decref(piece);
        piece = ask_piece(c, process, what, args, raw->len, unreachable, why);
    }
    json_decref(piece);
    if (has_body && raw->len == all) {
        put_whole(first, raw);
    } else if (has_body) { /* it went between two pieces */
        if (piece)
            snprintf(why, 200, "its body could not be read completely");
        json_decref(first);
        first = NULL;
    }
    return first;
}

/* ---- text output ---- */

void show_headers(const json_t *headers, const char *mark)
{
    json_t *pair;
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *value = json_string_value(json_array_get(pair, 1));
        char *line = gr_printf("%s: %s", name ? name : "", value ? value : "");
        char *safe = harmless(line);

        printf("%s%s\n", mark, safe);
        free(safe);
        free(line);
    }
}

static void print_line(const char *p, size_t n, const char *mark)
{
    char *line = gr_strndup(p, n), *safe;

    for (size_t i = 0; i < n; i++) /* a NUL ends nothing here */
        line[i] = p[i] ? p[i] : '?';
    line[n] = 0;
    if (n && line[n - 1] == '\r')
        line[n - 1] = 0;
    for (char *t = line; (t = strchr(t, '\t'));)
        *t = ' ';
    safe = harmless(line);
    printf("%s%s\n", mark, safe);
    free(safe);
    free(line);
}

/* Not in the middle of a dead letter. */
static size_t cut_to(struct bytes body, size_t max)
{
    const unsigned char *p = body.p;

    if (body.n <= max)
        return body.n;
    while (max && (p[max] & 0xc0) == 0x80)
        max--;
    return max;
}

void show_body(struct bytes body, const char *mark, size_t max)
{
    size_t n = cut_to(body, max);
    const char *p = body.p, *end = p + n;

    if (!utf8_valid((struct bytes){p, n})) {
        printf("%s(%zu bytes that are not UTF-8 text)\n", mark, body.n);
        return;
    }
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *to = stop ? stop : end;

        print_line(p, (size_t)(to - p), mark);
        p = stop ? stop + 1 : end;
    }
    if (n < body.n)
        printf("%s… (%zu bytes more)\n", mark, body.n - n);
}

/* Line ends and tabs are harmless, too. */
static bool is_harmless(struct bytes body)
{
    char *text = gr_strndup(body.p, body.n), *safe;
    bool same = utf8_valid(body) && strlen(text) == body.n;

    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    safe = harmless(text);
    same = same && strcmp(safe, text) == 0;
    free(safe);
    free(text);
    return same;
}

int show_raw(struct bytes body)
{
    if (isatty(STDOUT_FILENO) && !is_harmless(body))
        return complain(EXIT_REFUSED,
                        "the body has control characters or is not text, and "
                        "could control this terminal: write it to a file "
                        "(--raw > FILE), or show it escaped, without --raw");
    fwrite(body.p, 1, body.n, stdout);
    if (fflush(stdout) != 0)
        return complain(EXIT_REFUSED, "it could not be written");
    return 0;
}

/* ---- a request ---- */

/* What the sequencer says the event is; NULL: it does not know it, or can't be
 * asked. */
static json_t *find_event(struct ctl *c, const char *id)
{
    struct processes p;
    json_t *event = NULL;
    bool unreachable;
    char why[200];

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !event; i++)
        if (process_rank(p.names[i]) == process_rank("sequencer"))
            event = ask(c, p.names[i], "trace", json_pack("{s:s}", "id", id),
                        ASK_MS, &unreachable, why);
    processes_fini(&p);
    return event;
}

static const char *string_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* Under which id an ingress has it. One refused for its idempotency key came
 * under the id of the event that had come first with it. */
static json_t *args_for(const json_t *event, const char *id)
{
    const char *request = string_of(event, "request");
    const char *ours = *string_of(event, "id") ? string_of(event, "id") : id;

    if (*request)
        return json_pack("{s:s,s:s}", "id", request, "event", ours);
    if (strstr(string_of(event, "reason"), "idempotency_key_reused"))
        ours = string_of(event, "duplicate_of");
    return json_pack("{s:s}", "id", ours);
}

/* Several ingress processes may have one of this id: duplicates of an idempotency
 * key. Then the one of this event's time. */
static bool is_better(const json_t *reply, const json_t *than,
                      const json_t *event)
{
    const char *at = string_of(event, "received_at");

    return !than || (strcmp(string_of(reply, "received_at"), at) == 0 &&
                     strcmp(string_of(than, "received_at"), at) != 0);
}

/* From the ingress that has it. `as_sent`: of a producer's, what endpoints get of
 * the event with this id; NULL: what came. NULL: *code, and a sentence was printed. */
static json_t *fetch_request(struct ctl *c, const json_t *event, const char *id,
                             const char *as_sent, struct buf *raw, int *code)
{
    json_t *args = args_for(event, id), *best = NULL;
    const char *away = NULL;
    struct processes p;
    char why[200], away_why[200] = "";

    if (as_sent)
        json_object_set_new(args, "as_sent", json_string(as_sent));
    buf_init(raw, BODY_MAX_BYTES);
    processes_find(c, &p);
    for (size_t i = 0; i < p.count; i++) {
        struct buf body;
        json_t *reply;
        bool unreachable;

        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        reply = show_fetch(c, p.names[i], "request", args, &body, &unreachable,
                           why);
        if (unreachable) {
            away = p.names[i];
            memcpy(away_why, why, sizeof why);
        }
        if (reply && is_better(reply, best, event)) {
            struct buf swap = *raw;

            *raw = body;
            body = swap;
            json_decref(best);
            best = json_incref(reply);
        }
        buf_fini(&body);
        json_decref(reply);
    }
    if (!best)
        *code =
            away ? complain_away(c, away, away_why)
                 : complain(
                       EXIT_REFUSED,
                       "no ingress process has the request of %s: it was "
                       "deleted after ingress.archive.keep, or never arrived",
                       id);
    processes_fini(&p);
    json_decref(args);
    return best;
}

static void print_head(struct ctl *c, const json_t *r)
{
    printf("%s%s%s\n", colour_on(BOLD, c->colour), text_of(r, "id"),
           colour_off(BOLD, c->colour));
    printf("  source     %s\n", text_of(r, "source"));
    printf("  received   %s %s from %s by %s\n", time_of(r, "received_at"),
           when_zone(), text_of(r, "remote"), text_of(r, "process"));
    printf("  body       %s bytes\n\n", text_of(r, "body_bytes"));
}

/* "X-Gitlab-Token, query:token": where the request had one. "" : nowhere. The
 * caller's. */
static char *masked_places(const json_t *r)
{
    char *all = gr_strdup("");
    json_t *place;
    size_t i;

    json_array_foreach(json_object_get(r, "masked"), i, place)
    {
        char *safe = harmless(json_string_value(place)), *before = all;

        all = gr_printf("%s%s%s", before, i ? ", " : "", safe);
        free(before);
        free(safe);
    }
    return all;
}

static int print_raw(const json_t *r, struct bytes body)
{
    char *masked = masked_places(r);
    int code = show_raw(body);

    if (!code && *masked)
        complain(0, "not in the body, and not stored: the token in %s", masked);
    free(masked);
    return code;
}

static int print_request(struct ctl *c, const json_t *r, struct bytes body)
{
    bool headers = parsed_value(&c->parsed, "--headers");
    char *masked;

    if (parsed_value(&c->parsed, "--raw"))
        return print_raw(r, body);
    if (c->json) {
        print_json(json_deep_copy(r));
        return 0;
    }
    if (!headers)
        print_head(c, r);
    show_headers(json_object_get(r, "headers"), "");
    masked = masked_places(r);
    if (*masked)
        printf("(the token in %s was masked before the request was stored)\n",
               masked);
    free(masked);
    if (!headers) {
        printf("\n");
        show_body(body, "", SIZE_MAX);
    }
    return 0;
}

static int show_event(struct ctl *c, const json_t *event, const char *id)
{
    struct buf raw;
    int code = 0;
    json_t *r = fetch_request(c, event, id, NULL, &raw, &code);

    if (r && json_object_get(event, "id"))
        json_object_set(r, "id", json_object_get(event, "id"));
    if (r)
        code = print_request(c, r,
                             (struct bytes){raw.data ? raw.data : "", raw.len});
    json_decref(r);
    buf_fini(&raw);
    return code;
}

static int show_one_attempt(struct ctl *c, const json_t *event, const char *id)
{
    const char *ours = *string_of(event, "id") ? string_of(event, "id") : id;
    struct buf raw;
    int code = 0;
    json_t *r = fetch_request(c, event, id, ours, &raw, &code);

    code = show_attempt(c, ours,
                        &(struct sent_from){.event = event,
                                            .request = r,
                                            .body = r ? &raw : NULL});
    json_decref(r);
    buf_fini(&raw);
    return code;
}

/* What of its options can't be together. */
static const char *wrong_options(const struct ctl *c)
{
    const struct parsed *p = &c->parsed;
    bool attempt = parsed_value(p, "--attempt");
    int forms = (parsed_value(p, "--raw") != NULL) +
                (parsed_value(p, "--headers") != NULL) + c->json;

    if (forms > 1)
        return "--raw, --headers and --json cannot be combined";
    if (attempt && forms && !c->json)
        return "--attempt cannot be combined with --raw or --headers";
    return !attempt && parsed_value(p, "--endpoint")
               ? "--endpoint needs --attempt"
               : NULL;
}

int run_show(struct ctl *c)
{
    char *id = trace_event_id(c->parsed.args[0]);
    json_t *event = NULL;
    int code;

    if (wrong_options(c)) {
        free(id);
        return complain(EXIT_USAGE, "%s", wrong_options(c));
    }
    event = find_event(c, id);
    if (json_object_get(event, "matches"))
        code = trace_print_matches(c, event);
    else if (parsed_value(&c->parsed, "--attempt"))
        code = show_one_attempt(c, event, id);
    else
        code = show_event(c, event, id);
    json_decref(event);
    free(id);
    return code;
}

/* ---- a refused request ---- */

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
    show_headers(json_object_get(r, "headers"), "");
    printf("\n");
    if (json_is_true(json_object_get(r, "has_body")))
        show_body(body, "", SIZE_MAX);
    else
        printf("(its body is not stored: it did not arrive completely, it is "
               "older than a day, or newer ones replaced it)\n");
}

int run_rejects_show(struct ctl *c)
{
    const char *id = c->parsed.args[0];
    json_t *args = json_pack("{s:s}", "id", id), *r = NULL;
    struct processes p;
    struct buf raw = {0};
    char why[200] = "";
    bool unreachable = false;
    int code = 0;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !r && !code; i++) {
        if (process_rank(p.names[i]) != process_rank("ingress"))
            continue;
        buf_fini(&raw);
        r = show_fetch(c, p.names[i], "reject", args, &raw, &unreachable, why);
        if (unreachable)
            code = complain_away(c, p.names[i], why);
    }
    if (!r && !code)
        code = complain(EXIT_REFUSED, "%s", why);
    if (r && parsed_value(&c->parsed, "--raw"))
        code = show_raw((struct bytes){raw.data ? raw.data : "", raw.len});
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
