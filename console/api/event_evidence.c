/* event_evidence: GET /events/{id}/evidence: the story of an event as one signed file. It asks what `grapnel
 * evidence` asks; a large body is left to that, because this process must not stop for long. */
#include "alloc.h"
#include "api_request.h"
#include "clock.h"
#include "commands.h"
#include "encoding.h"
#include "evidence.h"
#include "json_text.h"
#include "operational.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACTS_MAX = 2000, /* of all processes */
    FILE_MAX_BYTES = 32 * 1024 * 1024,
};

/* What the questions with the same numbers asked. */
enum asked { ASKED_REQUEST, ASKED_SENT, ASKED_TRACE, ASKED_ACTS, ASKED_HEAD };

struct exporting {
    struct evidence e;
    EVP_PKEY *key;
    char *id;
    struct processes processes;
    enum asked *asked;
    size_t asked_count;
    struct buf file;
    size_t sent;
};

static void exporting_free(void *state)
{
    struct exporting *x = state;

    evidence_fini(&x->e);
    EVP_PKEY_free(x->key);
    processes_fini(&x->processes);
    buf_fini(&x->file);
    free(x->asked);
    free(x->id);
    free(x);
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

static void ask(struct api_request *r, const char *process,
                const struct command_spec *command, json_t *args,
                enum asked what)
{
    struct exporting *x = r->state;

    x->asked = gr_realloc(x->asked, (x->asked_count + 1) * sizeof *x->asked);
    x->asked[x->asked_count++] = what;
    api_ask(r, process, command, args);
}

/* false: a process did not reply, or has something that it did not give, and the error was sent: a file is
 * whole or absent. */
static bool all_replied(struct api_request *r)
{
    for (size_t i = 0; i < r->asked_count; i++) {
        const struct process_question *q = r->asked[i];

        if (q->end != QUESTION_REPLIED &&
            (q->end != QUESTION_REFUSED || strcmp(q->code, "not_found") != 0))
            return api_answered(r, i);
    }
    return true;
}

static void forget(struct api_request *r)
{
    struct exporting *x = r->state;

    x->asked_count = 0;
    api_forget(r);
}

/* ---- the request ---- */

static void ask_requests(struct api_request *r)
{
    struct exporting *x = r->state;
    const json_t *event = x->e.event;
    bool own = strcmp(text_of(event, "source"), OPERATIONAL_SOURCE) == 0;
    const char *request = text_of(event, "request"), *id = x->id;
    json_t *args;

    if (strstr(text_of(event, "reason"), "idempotency_key_reused"))
        id = text_of(event, "duplicate_of");
    for (size_t i = 0; i < x->processes.count; i++) {
        const char *name = x->processes.names[i];

        if (!process_is(name, own ? "sequencer" : PROCESSES_WITH_ARCHIVE))
            continue;
        args = json_pack("{s:s}", "id", *request ? request : id);
        if (*request)
            json_object_set_new(args, "event", json_string(x->id));
        ask(r, name, own ? &command_operational_request : &command_request,
            json_incref(args), ASKED_REQUEST);
        if (!own) {
            json_object_set_new(args, "as_sent", json_string(x->id));
            ask(r, name, &command_request, json_incref(args), ASKED_SENT);
        }
        json_decref(args);
    }
}

/* Puts the body into `body`, or leaves it in `body_b64` if it is not UTF-8. false: the reply has only a
 * piece of it. */
static bool put_body(json_t *reply)
{
    const json_t *b64 = json_object_get(reply, "body_b64");
    size_t n = json_string_length(b64);
    uint8_t *raw = gr_alloc(n + 1);
    int bytes = encoding_base64((struct bytes){json_string_value(b64), n}, raw,
                                n);
    struct bytes body = {raw, bytes > 0 ? (size_t)bytes : 0};
    bool whole = json_integer_value(json_object_get(reply, "body_bytes")) ==
                 (json_int_t)body.n;

    json_object_del(reply, "offset");
    if (whole && utf8_valid(body)) {
        json_object_set_new(reply, "body", json_text(body));
        json_object_del(reply, "body_b64");
    }
    free(raw);
    return whole;
}

/* The reply of this kind that was received with the event, else the first; the caller's, or NULL. */
static json_t *best_reply(const struct api_request *r, enum asked what)
{
    const struct exporting *x = r->state;
    json_t *best = NULL;

    for (size_t i = 0; i < r->asked_count; i++)
        if (x->asked[i] == what && api_reply(r, i) &&
            (!best ||
             json_equal(json_object_get(api_reply(r, i), "received_at"),
                        json_object_get(x->e.event, "received_at"))))
            best = api_reply(r, i);
    return json_incref(best);
}

/* false: the error was sent. */
static bool take_request(struct api_request *r)
{
    struct exporting *x = r->state;
    json_t *request = best_reply(r, ASKED_REQUEST),
           *sent = best_reply(r, ASKED_SENT);
    const char *key;

    if ((request && !put_body(request)) || (sent && !put_body(sent))) {
        json_decref(request);
        json_decref(sent);
        api_fail(r, WEB_REFUSED, NULL,
                 "its body is larger than 256 KiB: use `grapnel evidence`");
        return false;
    }
    key = json_object_get(sent, "body") ? "body" : "body_b64";
    if (request && sent &&
        !json_equal(json_object_get(sent, key), json_object_get(request, key)))
        x->e.sent = json_pack("{s:O}", key, json_object_get(sent, key));
    json_decref(sent);
    if (request)
        evidence_take_request(&x->e, request);
    else
        evidence_request_deleted(&x->e);
    return true;
}

/* ---- the other parts ---- */

static json_t *acts_args(const struct exporting *x)
{
    return json_pack("{s:i, s:o}", "limit", 1000, "about",
                     evidence_names(&x->e));
}

static void ask_others(struct api_request *r)
{
    struct exporting *x = r->state;
    const char *request = text_of(x->e.event, "request");

    for (size_t i = 0; i < x->processes.count; i++) {
        const char *name = x->processes.names[i];
        bool archive = process_is(name, PROCESSES_WITH_ARCHIVE);
        const struct command_spec *trace = archive ? &command_request_trace
                                           : process_is(name, "deliverer")
                                               ? &command_attempts
                                           : process_is(name, "dlqd")
                                               ? &command_dead_letter_trace
                                               : NULL;
        json_t *args;

        if (process_is(name, "console"))
            continue;
        if (trace) {
            args = json_pack("{s:s}", "id",
                             archive && *request ? request : x->id);
            if (archive && *request)
                json_object_set_new(args, "event", json_string(x->id));
            ask(r, name, trace, args, ASKED_TRACE);
        }
        ask(r, name, &command_audit, acts_args(x), ASKED_ACTS);
        ask(r, name, &command_audit_head, NULL, ASKED_HEAD);
    }
}

/* Takes the replies, and notes which processes have further acts, for the next questions. */
static void take_others(struct api_request *r, char **further)
{
    struct exporting *x = r->state;

    for (size_t i = 0; i < r->asked_count; i++) {
        json_t *reply = api_reply(r, i), *next;

        if (x->asked[i] == ASKED_TRACE)
            evidence_take_trace(&x->e, reply);
        else if (x->asked[i] == ASKED_HEAD)
            evidence_take_head(&x->e, reply);
        else if (x->asked[i] == ASKED_ACTS)
            evidence_take_acts(&x->e, json_object_get(reply, "audit"));
        next = json_object_get(reply, "next");
        for (size_t k = 0; k < x->processes.count; k++)
            if (x->asked[i] == ASKED_ACTS && json_is_string(next) &&
                strcmp(x->processes.names[k], r->asked[i]->name) == 0)
                further[k] = gr_strdup(json_string_value(next));
    }
}

/* false: there is nothing more to ask. */
static bool ask_further(struct api_request *r, char **further)
{
    struct exporting *x = r->state;
    bool asks = false, enough = json_array_size(x->e.acts) >= ACTS_MAX;

    for (size_t i = 0; i < x->processes.count; i++) {
        json_t *args = further[i] && !enough ? acts_args(x) : NULL;

        if (further[i] && enough)
            evidence_misses(&x->e, "%s has more acts that name the event.",
                            x->processes.names[i]);
        if (args) {
            json_object_set_new(args, "before", json_string(further[i]));
            ask(r, x->processes.names[i], &command_audit, args, ASKED_ACTS);
            asks = true;
        }
        free(further[i]);
    }
    return asks;
}

/* ---- the file ---- */

static int64_t read_stream(void *self, char *to, size_t max)
{
    struct api_request *r = self;
    struct exporting *x = r->state;
    size_t n = x->file.len - x->sent;

    n = n < max ? n : max;
    memcpy(to, x->file.data + x->sent, n);
    x->sent += n;
    return (int64_t)n;
}

static void respond_file(struct api_request *r)
{
    struct exporting *x = r->state;
    struct web_request *w = r->web;
    char *disposition;

    if (evidence_write(&x->e, x->key, r->actor.name, now_ms(), &x->file) !=
        GR_OK) {
        api_fail(r, WEB_REFUSED, NULL,
                 "the event has too many attempts: use `grapnel evidence`");
        return;
    }
    disposition = gr_printf("attachment; filename=\"%s.evidence.json\"", x->id);
    web_add_header(w, "Content-Disposition", disposition);
    web_add_header(w, "Content-Security-Policy", "sandbox");
    free(disposition);
    w->type = "application/octet-stream";
    w->stream = read_stream;
    w->stream_bytes = x->file.len;
    forget(r);
    api_send(r);
}

/* The event is known. false: there is nothing to export, and the error was sent. */
static bool begin(struct api_request *r)
{
    const struct settings *s = r->api->daemon->settings;
    json_t *event = api_reply(r, 0);
    struct exporting *x;
    char *path, why[200];
    EVP_PKEY *key;
    int error;

    if (!api_answered(r, 0))
        return false;
    if (json_object_get(event, "matches")) {
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "several events have this provider id; GET /events?id= lists "
                 "them");
        return false;
    }
    if (evidence_is_erased(event)) {
        api_fail(r, WEB_NOT_FOUND, NULL,
                 "the workspace of the event was erased: there is nothing to "
                 "export");
        return false;
    }
    path = evidence_key_path(s->state_dir);
    key = evidence_key_read(path, why);
    error = errno;
    free(path);
    if (!key) {
        api_fail(r, WEB_REFUSED, NULL,
                 error == ENOENT
                     ? "there is no key pair: `grapnel evidence key` makes it"
                     : "the key that signs evidence cannot be read by the "
                       "console");
        return false;
    }
    x = gr_alloc(sizeof *x);
    evidence_init(&x->e, json_incref(event));
    x->id = gr_strdup(text_of(event, "id"));
    x->key = key;
    buf_init(&x->file, FILE_MAX_BYTES);
    r->state = x;
    r->state_free = exporting_free;
    if (processes_with_data(s->run_dir, s->state_dir, &x->processes, why) !=
        GR_OK) {
        api_fail(r, WEB_REFUSED, NULL, "%s", why);
        return false;
    }
    forget(r);
    return true;
}

void event_evidence(struct api_request *r)
{
    struct exporting *x;
    char **further;
    bool asks;

    if (r->stage == 0) {
        r->stage = 1;
        api_ask(r, "sequencer", &command_event, json_incref(r->args));
        return;
    }
    if (r->stage == 1) {
        if (begin(r)) {
            r->stage = 2;
            ask_requests(r);
        }
        return;
    }
    if (!all_replied(r))
        return;
    if (r->stage == 2) {
        if (!take_request(r))
            return;
        r->stage = 3;
        forget(r);
        ask_others(r);
        return;
    }
    x = r->state;
    further = gr_alloc((x->processes.count + 1) * sizeof *further);
    take_others(r, further);
    forget(r);
    asks = ask_further(r, further);
    free(further);
    if (!asks)
        respond_file(r);
}
