/* event_payload: GET /events/{id}/payload: streams the body of an event from the process
 * that has it, a piece at a time, so that its size does not matter. */
#include "api_request.h"
#include "commands.h"
#include "encoding.h"
#include "operational.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TYPE_MAX_BYTES = 200 };

struct payload {
    char process[NAME_MAX_BYTES + 1]; /* that has it */
    const struct command_spec *command;
    json_t *args;
    uint8_t *piece;
    size_t piece_bytes, sent; /* of the piece */
    uint64_t offset, total;   /* of the next piece, and of all */
    bool failed;
};

static void payload_free(void *state)
{
    struct payload *p = state;

    json_decref(p->args);
    free(p->piece);
    free(p);
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

/* ---- the stream ---- */

static void take_piece(struct payload *p, const json_t *reply)
{
    const json_t *text = json_object_get(reply, "body_b64");
    size_t n = json_string_length(text);
    int bytes;

    free(p->piece);
    p->piece = gr_alloc(n + 1);
    bytes = encoding_base64((struct bytes){json_string_value(text), n},
                            p->piece, n);
    p->sent = 0;
    p->piece_bytes = bytes > 0 ? (size_t)bytes : 0;
    p->offset += p->piece_bytes;
    p->failed = !p->piece_bytes || p->offset > p->total;
}

static void next_piece(struct api_request *r)
{
    struct payload *p = r->state;

    if (api_reply(r, 0))
        take_piece(p, api_reply(r, 0));
    else
        p->failed = true; /* it was deleted, or its process has ended */
    api_forget(r);
    web_continue(r->web);
}

static int64_t read_stream(void *self, char *to, size_t max)
{
    struct api_request *r = self;
    struct payload *p = r->state;
    size_t n = p->piece_bytes - p->sent;

    if (p->failed)
        return -1;
    if (!n && !r->open_count) {
        json_t *args = json_copy(p->args);

        json_object_set_new(args, "offset",
                            json_integer((json_int_t)p->offset));
        r->step = next_piece;
        api_ask(r, p->process, p->command, args);
    }
    if (!n)
        return 0;
    n = n < max ? n : max;
    memcpy(to, p->piece + p->sent, n);
    p->sent += n;
    return (int64_t)n;
}

/* ---- the head of the response ---- */

/* The type that the sender gave, if it can be the value of a header. */
static void add_type(struct web_request *w, const json_t *headers)
{
    json_t *pair;
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0)),
                   *value = json_string_value(json_array_get(pair, 1));
        bool plain = value && strlen(value) <= TYPE_MAX_BYTES;

        if (!name || strcasecmp(name, "Content-Type") != 0)
            continue;
        for (const char *c = value; plain && *c; c++)
            plain = *c >= ' ' && *c <= '~';
        if (plain && *value)
            web_add_header(w, "Grapnel-Content-Type", value);
        return;
    }
}

/* Nothing that a stranger sent is rendered by a browser. */
static void respond_stream(struct api_request *r, size_t from,
                           const struct command_spec *command, json_t *args)
{
    struct web_request *w = r->web;
    struct payload *p = gr_alloc(sizeof *p);
    json_t *reply = api_reply(r, from);
    char name[64] = "", *disposition;

    r->state = p;
    r->state_free = payload_free;
    memcpy(p->process, r->asked[from]->name, sizeof p->process);
    p->command = command;
    p->args = json_incref(args);
    p->total = (uint64_t)json_integer_value(
        json_object_get(reply, "body_bytes"));
    if (p->total)
        take_piece(p, reply);
    add_type(w, json_object_get(reply, "headers"));
    for (const char *c = text_of(r->args, "id"); *c && strlen(name) < 60; c++)
        if (strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                   "wxyz_",
                   *c))
            strncat(name, c, 1);
    disposition = gr_printf("attachment; filename=\"%s.bin\"", name);
    web_add_header(w, "Content-Disposition", disposition);
    web_add_header(w, "Content-Security-Policy", "sandbox");
    free(disposition);
    w->type = "application/octet-stream";
    w->stream = read_stream;
    w->stream_bytes = p->total;
    api_forget(r);
    api_send(r);
}

/* ---- finding it ---- */

/* The arguments of `request`, from the sequencer's reply, or without it. */
static json_t *request_args(const struct api_request *r)
{
    const json_t *event = api_reply(r, 0);
    const char *id = *text_of(event, "id") ? text_of(event, "id")
                                           : text_of(r->args, "id");

    if (*text_of(event, "request"))
        return json_pack("{s:s,s:s}", "id", text_of(event, "request"), "event",
                         id);
    if (strstr(text_of(event, "reason"), "idempotency_key_reused") &&
        *text_of(event, "duplicate_of"))
        /* It came with the id of the first event of its key. */
        return json_pack("{s:s}", "id", text_of(event, "duplicate_of"));
    return json_pack("{s:s}", "id", id);
}

struct payload_search {
    json_t *args;
    const struct command_spec *command;
    char *received_at; /* as the sequencer has it; or "" */
};

static void search_free(void *state)
{
    struct payload_search *s = state;

    json_decref(s->args);
    free(s->received_at);
    free(s);
}

/* The sequencer has Grapnel's own events. */
static void ask_archives(struct api_request *r)
{
    bool own = strcmp(text_of(api_reply(r, 0), "source"), OPERATIONAL_SOURCE) ==
               0;
    struct payload_search *s = gr_alloc(sizeof *s);
    struct processes p;

    s->args = request_args(r);
    s->command = own ? &command_operational_request : &command_request;
    s->received_at = gr_strdup(text_of(api_reply(r, 0), "received_at"));
    r->state = s;
    r->state_free = search_free;
    api_forget(r);
    api_processes(r,
                  s->command == &command_request ? PROCESSES_WITH_ARCHIVE
                                                 : s->command->process,
                  &p);
    for (size_t i = 0; i < p.count; i++)
        api_ask(r, p.names[i], s->command, json_incref(s->args));
    processes_fini(&p);
}

/* Duplicates of an idempotency key have one id, also in several ingress processes: the one that
 * was received with this event is preferred. */
static void choose(struct api_request *r)
{
    struct payload_search *s = r->state;
    size_t best = r->asked_count;

    for (size_t i = 0; i < r->asked_count; i++)
        if (api_reply(r, i) && (best == r->asked_count ||
                                strcmp(text_of(api_reply(r, i), "received_at"),
                                       s->received_at) == 0))
            best = i;
    if (best < r->asked_count) {
        respond_stream(r, best, s->command, s->args);
        search_free(s);
        return;
    }
    for (size_t i = 0; i < r->asked_count; i++)
        if (r->asked[i]->end != QUESTION_REFUSED) {
            api_answered(r, i); /* that one may have it */
            return;
        }
    api_fail(r, WEB_NOT_FOUND, NULL,
             "no %s has the request of this event: it was deleted after %s, or "
             "never arrived",
             s->command->process,
             s->command == &command_request ? "ingress.archive.keep"
                                            : "history.keep");
}

/* The id by which ingress knows it is that of another event, which may belong to another
 * workspace. */
static bool has_id_of_other(struct api_request *r)
{
    if (!strstr(text_of(api_reply(r, 0), "reason"), "idempotency_key_reused"))
        return false;
    api_fail(r, WEB_NOT_FOUND, NULL, "its request has the id of another event");
    return true;
}

void event_payload(struct api_request *r)
{
    if (r->stage++ == 0)
        api_ask(r, "sequencer", &command_event, json_incref(r->args));
    else if (r->stage == 2 && json_object_get(api_reply(r, 0), "matches"))
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "several events have this provider id; GET /events?id= "
                 "lists them");
    else if (r->stage == 2 && api_has_failed(r, 0))
        (void)api_answered(r, 0); /* it says why */
    else if (r->stage == 2 && api_is_tenant(r) &&
             (!api_answered(r, 0) || has_id_of_other(r)))
        ; /* responded */
    else if (r->stage == 2)
        ask_archives(r);
    else
        choose(r);
}
