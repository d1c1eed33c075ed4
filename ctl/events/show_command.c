/* show_command: `grapnel show`: the request of an event as it came, or one of its attempts. */
#include "show_command.h"
#include "encoding.h"
#include "exchange.h"
#include "json_text.h"
#include "operational.h"
#include "show_attempt.h"
#include "table.h"
#include "trace_command.h"
#include "ulid.h"
#include "when.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static json_t *ask_piece(struct ctl *c, struct question *q, const json_t *args,
                         size_t offset)
{
    q->args = json_deep_copy(args);
    json_object_set_new(q->args, "offset", json_integer((json_int_t)offset));
    ask_all(c, q, 1, ASK_MS);
    return q->reply;
}

json_t *show_fetch(struct ctl *c, struct question *q, struct buf *raw)
{
    json_t *args = q->args, *first = ask_piece(c, q, args, 0);
    bool has_body = json_object_get(first, "body_b64");
    size_t all = (size_t)integer_of(first, "body_bytes");
    json_t *piece = json_incref(first);

    buf_init(raw, BODY_MAX_BYTES);
    while (has_body && piece && add_piece(piece, raw) && raw->len < all) {
        json_decref(piece);
        piece = ask_piece(c, q, args, raw->len);
    }
    if (has_body && raw->len == all) {
        struct bytes body = {raw->data ? raw->data : "", raw->len};

        json_object_del(first, "offset");
        json_object_del(first, "body_b64");
        if (utf8_valid(body))
            json_object_set_new(first, "body", json_text(body));
        else
            json_object_set_new(first, "body_b64", encoding_base64_json(body));
    } else if (has_body) { /* it was deleted between two pieces */
        if (piece)
            snprintf(q->why, sizeof q->why,
                     "the body was deleted while it was read");
        json_decref(first);
        first = NULL;
    }
    json_decref(piece);
    q->args = args;
    q->reply = first;
    return first;
}

static const char *string_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

json_t *show_request_find(struct ctl *c, const struct processes *p,
                          const json_t *event, const char *id,
                          const char *as_sent, struct buf *raw,
                          struct show_absence *absence)
{
    const char *at = string_of(event, "received_at"),
               *request = string_of(event, "request"),
               *ours = *string_of(event, "id") ? string_of(event, "id") : id;
    bool own = strcmp(string_of(event, "source"), OPERATIONAL_SOURCE) == 0;
    json_t *args, *best = NULL;

    *absence = (struct show_absence){.away = ""};
    if (*request)
        args = json_pack("{s:s,s:s}", "id", request, "event", ours);
    else if (strstr(string_of(event, "reason"), "idempotency_key_reused"))
        /* It came with the id of the first event of its key. */
        args = json_pack("{s:s}", "id", string_of(event, "duplicate_of"));
    else
        args = json_pack("{s:s}", "id", ours);
    if (as_sent && !own)
        json_object_set_new(args, "as_sent", json_string(as_sent));
    buf_init(raw, BODY_MAX_BYTES);
    for (size_t i = 0; i < p->count; i++) {
        struct question q = {
            .process = p->names[i], .what = "request", .args = args};
        struct buf body;
        json_t *reply;

        if (!process_is(p->names[i],
                        own ? "sequencer" : PROCESSES_WITH_ARCHIVE))
            continue;
        reply = show_fetch(c, &q, &body);
        if (q.unreachable && !*absence->away) {
            snprintf(absence->away, sizeof absence->away, "%s", q.process);
            memcpy(absence->away_why, q.why, sizeof q.why);
        } else if (question_failed(&q) && !*absence->failed) {
            snprintf(absence->failed, sizeof absence->failed, "%s", q.process);
            memcpy(absence->failed_why, q.why, sizeof q.why);
        }
        /* Duplicates of an idempotency key have one id, also in several ingress
         * processes: take the one that was received with this event. */
        if (reply &&
            (!best || (strcmp(string_of(reply, "received_at"), at) == 0 &&
                       strcmp(string_of(best, "received_at"), at) != 0))) {
            struct buf swap = *raw;

            *raw = body;
            body = swap;
            json_decref(best);
            best = json_incref(reply);
        }
        buf_fini(&body);
        json_decref(reply);
    }
    json_decref(args);
    return best;
}

/* NULL: the reason was printed, and *code is the exit code. */
static json_t *request_of(struct ctl *c, const json_t *event, const char *id,
                          const char *as_sent, struct buf *raw, int *code)
{
    bool own = strcmp(string_of(event, "source"), OPERATIONAL_SOURCE) == 0;
    struct show_absence absence;
    struct processes p;
    json_t *found;

    processes_find(c, &p);
    found = show_request_find(c, &p, event, id, as_sent, raw, &absence);
    processes_fini(&p);
    if (found)
        return found;
    if (*absence.failed)
        *code = complain(EXIT_REFUSED, "%s: %s", absence.failed,
                         absence.failed_why);
    else if (*absence.away)
        *code = complain_away(c, absence.away, absence.away_why);
    else if (own)
        *code = complain(EXIT_REFUSED,
                         "the sequencer does not have the body of %s: it "
                         "keeps those of Grapnel's own events for history.keep",
                         id);
    else
        *code = complain(EXIT_REFUSED,
                         "no ingress process has the request of %s: it was "
                         "deleted after ingress.archive.keep, or never arrived",
                         id);
    return NULL;
}

/* Prints the request in the form that the options ask for. Returns the exit code. */
static int print_request(struct ctl *c, const json_t *r, struct bytes body)
{
    bool headers = parsed_value(&c->parsed, "--headers");
    char *places = join_strings(json_object_get(r, "masked"), SIZE_MAX);
    char *masked = harmless(places); /* "X-Gitlab-Token, query:token" */
    int code = 0;

    if (parsed_value(&c->parsed, "--raw")) {
        code = exchange_raw(body);
        if (!code && *masked)
            complain(0, "not in the body, and not stored: the token in %s",
                     masked);
    } else if (c->json) {
        print_json(json_deep_copy(r));
    } else {
        if (!headers) {
            printf("%s%s%s\n", colour_on(BOLD, c->colour), text_of(r, "id"),
                   colour_off(BOLD, c->colour));
            printf("  source     %s\n", text_of(r, "source"));
            printf("  received   %s %s from %s by %s\n",
                   time_of(r, "received_at"), when_zone(), text_of(r, "remote"),
                   text_of(r, "process"));
            printf("  body       %s bytes\n\n", text_of(r, "body_bytes"));
        }
        exchange_headers(json_object_get(r, "headers"), "");
        if (*masked)
            printf("(the token in %s was masked before the request was "
                   "stored)\n",
                   masked);
        if (!headers) {
            printf("\n");
            exchange_body(body, "", SIZE_MAX);
        }
    }
    free(masked);
    free(places);
    return code;
}

/* The error of options that cannot be combined; NULL: there is none. */
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
    bool attempt = parsed_value(&c->parsed, "--attempt");
    struct buf raw = {0};
    struct question q = {.process = "sequencer", .what = "trace"};
    json_t *event, *r; /* NULL: unknown, or not readable */
    const char *ours;
    char *id;
    int code = 0;

    if (wrong_options(c))
        return complain(EXIT_USAGE, "%s", wrong_options(c));
    id = trace_event_id(c->parsed.args[0]);
    q.args = json_pack("{s:s}", "id", id);
    ask_all(c, &q, 1, ASK_MS);
    event = q.reply;
    ours = *string_of(event, "id") ? string_of(event, "id") : id;
    if (question_failed(&q) && !ulid_is_of_event(id)) {
        code = complain(EXIT_REFUSED, "%s", q.why);
    } else if (json_object_get(event, "matches")) {
        code = trace_print_matches(c, event);
    } else {
        r = request_of(c, event, id, attempt ? ours : NULL, &raw, &code);
        if (attempt) {
            code = show_attempt(c, ours,
                                &(struct sent_from){.event = event,
                                                    .request = r,
                                                    .body = r ? &raw : NULL});
        } else if (r) {
            if (json_object_get(event, "id"))
                json_object_set(r, "id", json_object_get(event, "id"));
            code = print_request(
                c, r, (struct bytes){raw.data ? raw.data : "", raw.len});
        }
        json_decref(r);
        buf_fini(&raw);
    }
    json_decref(event);
    free(id);
    return code;
}
