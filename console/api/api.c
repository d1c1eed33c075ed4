/* api: takes requests, authorizes them, finds their command and arguments, and asks the processes
 * for them. */
#include "api.h"
#include "api_request.h"
#include "arguments.h"
#include "clock.h"
#include "commands.h"
#include "json_scan.h"
#include "json_text.h"
#include "openapi.h"
#include "sha256.h"
#include "tenant.h"
#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    REPLY_MS = 5 * 1000,  /* a process's reply to one question … */
    LATER_MS = 60 * 1000, /* … when it comes after long work, … */
    BRIEF_MS =
        1500, /* … and when a process that hangs is part of the response */
    GUESS_EVERY_US = 100 * 1000,
    OPEN_MAX = 96, /* of WEB_CONNECTIONS_MAX: others remain free */
};

enum { KEY_MAX_BYTES = 128 };
static const char key_letters[] =
    "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
    "abcdefghijklmnopqrstuvwxyz{|}~";

static const char prefix[] = "/api/v1";

struct api *api_open(struct daemon *daemon, struct live *live)
{
    struct api *a = gr_alloc(sizeof *a);

    a->daemon = daemon;
    a->live = live;
    a->processes = process_client_open(daemon->settings->run_dir);
    a->routes = routes_open();
    a->failures = failures_new();
    a->tokens = token_cache_new();
    a->tenants = tenant_limits_new();
    a->sessions = sessions_open();
    a->portal = portal_grants_open();
    TAILQ_INIT(&a->all);
    TAILQ_INIT(&a->ready);
    return a;
}

void api_close(struct api *a)
{
    if (!a)
        return;
    process_client_close(a->processes);
    routes_close(a->routes);
    failures_free(a->failures);
    token_cache_free(a->tokens);
    tenant_limits_free(a->tenants);
    sessions_close(a->sessions);
    portal_grants_close(a->portal);
    free(a);
}

char *api_own_url(const struct api *a)
{
    const struct settings *s = a->daemon->settings;
    const char *host = s->console.host;
    bool any = strcmp(host, "0.0.0.0") == 0, any6 = strcmp(host, "::") == 0;
    bool six = strchr(host, ':') != NULL;

    return gr_printf("%s://%s%s%s:%d", s->console.tls.key ? "https" : "http",
                     six ? "[" : "",
                     any    ? "127.0.0.1"
                     : any6 ? "::1"
                            : host,
                     six ? "]" : "", s->console.port);
}

int api_fd(const struct api *a)
{
    return process_client_fd(a->processes);
}

/* ---- asking ---- */

static void ask(struct api_request *r, const char *process,
                const struct command_spec *command, json_t *args,
                int timeout_ms, bool waits, bool wants_text)
{
    struct process_question *q = gr_alloc(sizeof *q);

    r->asked = gr_realloc(r->asked, (r->asked_count + 1) * sizeof(*r->asked));
    r->asked[r->asked_count++] = q;
    r->open_count++;
    q->self = r;
    q->wants_text = wants_text;
    process_client_ask(r->api->processes, q, process, command->name, args,
                       command->flags & COMMAND_ACTS ? r->by : NULL, mono_ms(),
                       timeout_ms, waits);
    json_decref(args);
}

static int reply_ms(const struct command_spec *command)
{
    return command->flags & COMMAND_LATER ? LATER_MS : REPLY_MS;
}

void api_ask(struct api_request *r, const char *process,
             const struct command_spec *command, json_t *args)
{
    ask(r, process, command, args, reply_ms(command), false, false);
}

void api_ask_briefly(struct api_request *r, const char *process,
                     const struct command_spec *command)
{
    ask(r, process, command, NULL, BRIEF_MS, false, false);
}

void api_ask_waiting(struct api_request *r, const char *process,
                     const struct command_spec *command, json_t *args,
                     int timeout_ms)
{
    r->waits = true;
    ask(r, process, command, args, timeout_ms, true, false);
}

void api_forget(struct api_request *r)
{
    for (size_t i = 0; i < r->asked_count; i++) {
        process_client_cancel(r->api->processes, r->asked[i]);
        process_question_fini(r->asked[i]);
        free(r->asked[i]);
    }
    free(r->asked);
    r->asked = NULL;
    r->asked_count = r->open_count = 0;
}

json_t *api_reply(const struct api_request *r, size_t i)
{
    return i < r->asked_count ? r->asked[i]->reply : NULL;
}

static void keep_kind(struct processes *out, const char *kind)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->count; i++) {
        if (process_is(out->names[i], kind))
            out->names[kept++] = out->names[i];
        else
            free(out->names[i]);
    }
    out->count = kept;
}

void api_processes(struct api_request *r, const char *kind,
                   struct processes *out)
{
    processes_in(r->api->daemon->settings->run_dir, out);
    keep_kind(out, kind);
}

bool api_processes_with_data(struct api_request *r, const char *kind,
                             struct processes *out)
{
    const struct settings *s = r->api->daemon->settings;
    char why[200];

    if (processes_with_data(s->run_dir, s->state_dir, out, why) != GR_OK) {
        api_fail(r, WEB_REFUSED, NULL, "%s", why);
        return false;
    }
    keep_kind(out, kind);
    return true;
}

/* ---- responding ---- */

void api_send(struct api_request *r)
{
    r->responded = true;
    r->api->open--;
    web_respond(r->web);
}

bool api_is_tenant(const struct api_request *r)
{
    return r->actor.role == ROLE_WORKSPACE;
}

/* What does not exist and what belongs to others look alike, and errors of processes are for
 * operators. */
static const char *said_to_tenant(enum web_error e, const char *message)
{
    switch (e) {
    case WEB_NOT_FOUND:
        return "there is no such thing in this workspace";
    case WEB_PROCESS_UNAVAILABLE:
    case WEB_PROCESS_TIMEOUT:
    case WEB_PROCESS_FAILED:
    case WEB_DISK_FULL:
        return "the request cannot be answered at the moment, or its change "
               "may have been made without a response: repeat it later, a "
               "change with the same Idempotency-Key";
    default:
        return message;
    }
}

void api_fail(struct api_request *r, enum web_error e, const char *field,
              const char *format, ...)
{
    char message[WEB_MESSAGE_BYTES];
    const char *said = message;
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (api_is_tenant(r))
        said = said_to_tenant(e, message);
    if (said != message)
        field = NULL;
    web_fail(r->web, e, field, "%s", said);
    api_send(r);
}

/* The argument that a reason begins with: "names: …"; NULL: it names none. */
static const char *field_of(const struct api_request *r, const char *why)
{
    static char name[64];
    size_t n = strcspn(why, ".[:");

    for (const struct value *v = r->command ? r->command->args : NULL;
         why[n] && v && v->name; v++) {
        char *is = value_public_name(v);
        bool same = strlen(is) == n && strncmp(is, why, n) == 0;

        if (same)
            snprintf(name, sizeof name, "%s", is);
        free(is);
        if (same)
            return name;
    }
    return NULL;
}

static bool fail_refused(struct api_request *r,
                         const struct process_question *q)
{
    static const struct {
        const char *code;
        enum web_error error;
    } codes[] = {
        {"not_found", WEB_NOT_FOUND},   {"invalid", WEB_INVALID_ARGUMENT},
        {"disk_full", WEB_DISK_FULL},   {"in_progress", WEB_IN_PROGRESS},
        {"key_reused", WEB_KEY_REUSED}, {"busy", WEB_BUSY},
        {"changed", WEB_CHANGED},       {"limited", WEB_RATE_LIMITED},
    };
    enum web_error error = WEB_REFUSED;
    const char *why = q->why;

    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (strcmp(q->code, codes[i].code) == 0)
            error = codes[i].error;
    if (error == WEB_IN_PROGRESS || error == WEB_BUSY)
        web_add_header(r->web, "Retry-After", "1");
    else if (error == WEB_RATE_LIMITED)
        web_add_header(r->web, "Retry-After", "10");
    if (strncmp(why, "args.", strlen("args.")) == 0)
        why += strlen("args.");
    api_fail(r, error, error == WEB_INVALID_ARGUMENT ? field_of(r, why) : NULL,
             "%s", why);
    return false;
}

bool api_has_failed(const struct api_request *r, size_t i)
{
    return r->asked[i]->end == QUESTION_REFUSED &&
           strcmp(r->asked[i]->code, "not_found") != 0;
}

bool api_is_absent(const struct api_request *r, size_t i)
{
    const struct process_question *q = r->asked[i];

    return q->end != QUESTION_REPLIED && q->end != QUESTION_REFUSED;
}

bool api_answered(struct api_request *r, size_t i)
{
    const struct process_question *q = r->asked[i];
    bool acts = r->command && r->command->flags & COMMAND_ACTS;

    switch (q->end) {
    case QUESTION_REPLIED:
        return true;
    case QUESTION_UNAVAILABLE:
        if (!*q->why)
            break;
        api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
                 "%s, on another host, cannot be reached: %s", q->name, q->why);
        return false;
    case QUESTION_REFUSED:
        return fail_refused(r, q);
    case QUESTION_BUSY:
        web_add_header(r->web, "Retry-After", "1");
        api_fail(r, WEB_BUSY, NULL, "too many requests wait for %s", q->name);
        return false;
    case QUESTION_LOST:
        api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
                 "%s ended before it replied%s; `grapnel status` shows the "
                 "processes",
                 q->name,
                 acts ? ": it may have made the change; repeat the request "
                        "with the same "
                        "Idempotency-Key"
                      : "");
        return false;
    case QUESTION_TIMEOUT:
        api_fail(r, WEB_PROCESS_TIMEOUT, NULL, "%s did not reply in time%s",
                 q->name,
                 acts ? ": it may still make the change; repeat the request "
                        "with the same "
                        "Idempotency-Key"
                      : "");
        return false;
    case QUESTION_UNHEARD:
        api_fail(r, WEB_PROCESS_TIMEOUT, NULL,
                 "%s did not respond in time, and did not get the request",
                 q->name);
        return false;
    case QUESTION_UNREADABLE:
        api_fail(r, WEB_PROCESS_FAILED, NULL,
                 "the reply of %s is not valid, or larger than 96 MiB",
                 q->name);
        return false;
    default:
        break;
    }
    api_fail(r, WEB_PROCESS_UNAVAILABLE, NULL,
             "%s does not run: start it; `grapnel status` shows the "
             "processes",
             q->name);
    return false;
}

static json_t *page(const struct command_spec *c, const char *owner,
                    json_t *reply)
{
    json_t *items = json_object_get(reply, c->rows);
    char *cursor = cursor_write(json_object_get(reply, "next"), owner);
    json_t *out = json_pack("{s:o,s:o}", "items",
                            items ? json_incref(items) : json_array(),
                            "next_cursor", json_text_of(cursor));

    if (json_object_get(reply, "unreachable"))
        json_object_set(out, "unreachable",
                        json_object_get(reply, "unreachable"));
    free(cursor);
    json_decref(reply);
    return out;
}

static void add_version(struct api_request *r, const json_t *version)
{
    char tag[32];

    if (!json_integer_value(version))
        return;
    snprintf(tag, sizeof tag, "\"%lld\"",
             (long long)json_integer_value(version));
    web_add_header(r->web, "ETag", tag);
}

#ifdef GRAPNEL_DEBUG
static void check_reply(const struct command_spec *c, const json_t *reply)
{
    char why[200];

    if (!command_reply_fits(c, reply, why))
        die(EXIT_SOFTWARE, "the response to %s is not as declared: %s", c->name,
            why);
}
#else
static void check_reply(const struct command_spec *c, const json_t *reply)
{
    (void)c, (void)reply;
}
#endif

void api_respond(struct api_request *r, json_t *reply)
{
    const struct command_spec *c = r->command;
    char *text;

    check_reply(c, reply);
    if (c->rows)
        reply = page(c, r->actor.owner, reply);
    add_version(r, json_object_get(reply, "version"));
    text = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    if (!text) {
        api_fail(r, WEB_INTERNAL, NULL, "the reply cannot be written as JSON");
        return;
    }
    buf_puts(&r->web->text, text);
    buf_puts(&r->web->text, "\n");
    free(text);
    api_send(r);
}

/* ---- replies that are passed on ---- */

static json_t *tree_of(struct bytes text)
{
    return json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* control_reply_in() was sure of the text around it. */
static bool has_member(struct bytes reply, const char *name,
                       struct bytes *value)
{
    enum json_scanned is = json_scan_member(reply, name, value);

    assert(is != JSON_SCAN_UNSURE);
    return is == JSON_SCAN_FOUND;
}

static json_t *member_of(struct bytes reply, const char *name)
{
    struct bytes text;

    return has_member(reply, name, &text) ? tree_of(text) : NULL;
}

/* As page(). */
static void put_page(struct api_request *r, struct bytes reply)
{
    struct buf *out = &r->web->text;
    json_t *next = member_of(reply, "next");
    char *cursor = cursor_write(next, r->actor.owner);
    struct bytes rows;

    if (!has_member(reply, r->command->rows, &rows))
        rows = (struct bytes){"[]", 2};
    buf_puts(out, "{\"items\":");
    buf_put(out, rows.p, rows.n);
    if (cursor)
        buf_printf(out, ",\"next_cursor\":\"%s\"}\n", cursor);
    else
        buf_puts(out, ",\"next_cursor\":null}\n");
    free(cursor);
    json_decref(next);
}

static void put_document(struct api_request *r, struct bytes reply)
{
    json_t *version = member_of(reply, "version");

    add_version(r, version);
    json_decref(version);
    buf_put(&r->web->text, reply.p, reply.n);
    buf_puts(&r->web->text, "\n");
}

/* Responds as api_respond(), without a tree of the reply. */
static void pass_on(struct api_request *r, struct process_question *q)
{
    struct bytes reply = {q->reply_text, strlen(q->reply_text)};

#ifdef GRAPNEL_DEBUG
    json_t *whole = tree_of(reply);

    check_reply(r->command, whole);
    json_decref(whole);
#endif
    if (r->command->rows)
        put_page(r, reply);
    else
        put_document(r, reply);
    process_question_fini(q); /* the client may read for long */
    api_send(r);
}

/* ---- commands ---- */

/* Of most commands: asks the process that has it, and passes its reply on. */
static void forward(struct api_request *r)
{
    struct process_question *q;

    if (r->stage++ == 0) {
        ask(r, r->command->process, r->command, json_incref(r->args),
            reply_ms(r->command), false, true);
        return;
    }
    if (!api_answered(r, 0))
        return;
    q = r->asked[0];
    if (q->reply_text)
        pass_on(r, q);
    else
        api_respond(r, json_incref(q->reply));
}

static api_step *step_of(const struct command_spec *c)
{
    static const struct {
        const struct command_spec *command;
        api_step *step;
    } all[] = {
        {&command_endpoint_test, endpoint_test},
        {&command_stats_read, stats_read},
        {&command_event_routing, event_routing_read},
        {&command_event_read, event_read},
        {&command_payload, event_payload},
        {&command_evidence, event_evidence},
        {&command_resend, event_resend},
        {&command_attempt, attempt_read},
        {&command_rejects, reject_list},
        {&command_reject, reject_read},
        {&command_reject_explain, reject_read},
        {&command_audit_list, audit_list},
        {&command_audit_verify_all, audit_verify_all},
        {&command_stream, stream_begin},
        {&command_jobs, job_list},
        {&command_job, job_read},
        {&command_job_cancel, job_cancel},
        {&command_replays, replays_make},
        {&command_processes, process_list},
        {&command_process, process_read},
        {&command_relays, relay_list},
        {&command_pull_take, pull_take},
        {&command_pull_ack, pull_end},
        {&command_pull_retry, pull_end},
        {&command_pull_dead, pull_end},
    };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i].command == c)
            return all[i].step;
    return forward;
}

static void run_command(struct api_request *r)
{
    r->stage = 0;
    r->step = api_is_tenant(r) && r->command->tenant == TENANT_DEAD_LETTERS
                  ? tenant_dead_letters
                  : step_of(r->command);
    r->step(r);
}

/* The endpoint that the request names, if only the sequencer can say whether it exists, and another
 * process acts on the request; or NULL. dlqd knows the endpoints of the file. */
static json_t *endpoint_to_check(const struct api_request *r)
{
    const struct command_spec *c = r->command;
    json_t *to = json_object_get(r->args, "to");

    if (c == &command_replays)
        return json_object_get(r->args, "endpoint");
    return (c == &command_dlq_retry || c == &command_dlq_bulk) && to &&
                   endpoint_id_valid(json_string_value(to))
               ? to
               : NULL;
}

static void endpoint_checked(struct api_request *r)
{
    if (!api_answered(r, 0))
        return;
    api_forget(r);
    run_command(r);
}

void api_run(struct api_request *r)
{
    json_t *endpoint = endpoint_to_check(r);

    if (!endpoint) {
        run_command(r);
        return;
    }
    r->step = endpoint_checked;
    api_ask(r, "sequencer", &command_facts,
            json_pack("{s:[],s:O}", "ids", "endpoint", endpoint));
}

/* ---- the beginning of a request ---- */

static bool is_json(const char *type)
{
    size_t n = strcspn(type, "; \t");

    return n == strlen("application/json") &&
           strncasecmp(type, "application/json", n) == 0;
}

bool api_is_read(const struct web_request *w)
{
    return strcmp(w->method, "GET") == 0 || strcmp(w->method, "HEAD") == 0;
}

static bool has_body(const struct web_request *w)
{
    return !api_is_read(w) && strcmp(w->method, "DELETE") != 0;
}

/* A page of another site can make a browser send a request, but cannot hide where it is from. */
bool api_is_cross_site(const struct web_request *w)
{
    int count;
    const char *site = web_header(w, "Sec-Fetch-Site", &count), *host;
    const char *origin;

    if (count > 1 || (count && strcasecmp(site, "same-origin") != 0 &&
                      strcasecmp(site, "none") != 0))
        return true;
    origin = web_header(w, "Origin", &count);
    if (!count)
        return false;
    host = web_header(w, "Host", &(int){0});
    return count > 1 || !host || !web_same_origin(origin, host);
}

bool api_change_is_fine(struct api_request *r)
{
    const struct web_request *w = r->web;
    int count;
    const char *type = web_header(w, "Content-Type", &count);

    if (api_is_cross_site(w)) {
        api_fail(r, WEB_CROSS_SITE, NULL,
                 "this change was sent by a page of another site");
        return false;
    }
    if ((count || w->body.len) && (count != 1 || !is_json(type))) {
        api_fail(r, WEB_UNSUPPORTED_TYPE, NULL,
                 "send Content-Type: application/json");
        return false;
    }
    return true;
}

bool api_refuse_address(struct api_request *r)
{
    int refuse_s = failures_refuse_s(r->api->failures, r->web->remote,
                                     mono_ms());
    char seconds[16];

    if (!refuse_s)
        return false;
    snprintf(seconds, sizeof seconds, "%d", refuse_s);
    web_add_header(r->web, "Retry-After", seconds);
    api_fail(r, WEB_RATE_LIMITED, NULL,
             "too many wrong tokens came from this address: wait %d s",
             refuse_s);
    return true;
}

void api_refuse_token(struct api_request *r)
{
    if (r->session)
        sign_in_lost(r);
    api_fail(r, WEB_UNAUTHORIZED, NULL,
             "the token is unknown, or it was revoked or has expired");
}

void api_refuse_wrong(struct api_request *r)
{
    if (r->session) { /* nobody guessed */
        api_refuse_token(r);
        return;
    }
    if (api_refuse_address(r))
        return;
    failures_add(r->api->failures, r->web->remote, mono_ms());
    api_refuse_token(r);
}

static void refuse_missing(struct api_request *r)
{
    if (api_refuse_address(r))
        return;
    api_fail(r, WEB_UNAUTHORIZED, NULL,
             "send the header Authorization: Bearer TOKEN; `grapnel tokens "
             "create NAME --role viewer` makes a token, or add one to "
             "console.tokens");
}

/* Whether the sequencer may be asked for this token. From an address that sent many wrong ones, which
 * may be the proxy of everybody, only so often for tokens that were never right. */
static bool may_ask(struct api_request *r)
{
    int64_t now_us = mono_us();

    if (r->session || token_cache_knew(r->api->tokens, r->digest) ||
        !failures_refuse_s(r->api->failures, r->web->remote, mono_ms()))
        return true;
    if (!bucket_has(&r->api->guesses, SECOND_MS * 1000, now_us))
        return false;
    bucket_take(&r->api->guesses, GUESS_EVERY_US, now_us);
    return true;
}

static void token_checked(struct api_request *r)
{
    bool known;

    if (!api_answered(r, 0))
        return;
    known = token_of_store(api_reply(r, 0), &r->actor);
    token_cache_add(r->api->tokens, r->digest, known ? &r->actor : NULL,
                    mono_ms());
    api_forget(r);
    if (known)
        r->authorized(r);
    else
        api_refuse_wrong(r);
}

void api_find_actor(struct api_request *r)
{
    bool known = false;

    if (digest_find(&r->api->daemon->settings->console.tokens, r->digest,
                    &r->actor)) {
        r->authorized(r);
    } else if (r->of_store &&
               !token_cache_get(r->api->tokens, r->digest, mono_ms(), &r->actor,
                                &known) &&
               may_ask(r)) {
        r->step = token_checked;
        api_ask(r, "sequencer", &command_token_check,
                json_pack("{s:s}", "sha256", r->digest));
    } else if (known) {
        r->authorized(r);
    } else {
        api_refuse_wrong(r);
    }
}

/* Whether the request has a header Authorization, with which it then goes on. */
static bool has_bearer(struct api_request *r)
{
    int count;
    const char *header = web_header(r->web, "Authorization", &count),
               *token = count == 1 ? bearer_token(header) : NULL;

    if (token) {
        token_digest(token, strlen(token), r->digest);
        r->of_store = token_is_of_store(token);
        if (!portal_authorize(r, token))
            api_find_actor(r);
    } else if (count) {
        refuse_missing(r);
    }
    return count > 0;
}

void api_authorize_bearer(struct api_request *r)
{
    if (!has_bearer(r))
        refuse_missing(r);
}

/* A header is preferred to a cookie: its sender has chosen it for this request. */
void api_authorize(struct api_request *r)
{
    enum sign_in_result session;

    if (has_bearer(r))
        return;
    session = sign_in_find_session(r);
    if (session == SIGN_IN_NO_SESSION)
        refuse_missing(r);
    else if (session == SIGN_IN_SESSION && *r->digest)
        api_find_actor(r);
    else if (session == SIGN_IN_SESSION)
        r->authorized(r);
}

static bool find_route(struct api_request *r)
{
    const struct web_request *w = r->web;

    routes_match(r->api->routes, w->method,
                 strncmp(w->path, prefix, strlen(prefix)) == 0
                     ? w->path + strlen(prefix)
                     : "",
                 &r->route);
    r->command = r->route.command;
    if (r->command)
        return true;
    if (!r->route.known) {
        api_fail(r, WEB_NO_ROUTE, NULL,
                 "there is no such path; /api/docs lists all");
        return false;
    }
    web_add_header(r->web, "Allow", r->route.methods);
    api_fail(r, WEB_METHOD_NOT_ALLOWED, NULL, "this path accepts %s",
             r->route.methods);
    return false;
}

/* The header If-Match, as the version that the command declares: "7", or * for any. */
static bool read_if_match(struct api_request *r)
{
    const struct value *v = r->command->args;
    const char *text;
    char *end;
    long long version;
    int count;

    while (v && v->name && !(v->flags & VALUE_IF_MATCH))
        v++;
    if (!v || !v->name)
        return true;
    text = web_header(r->web, "If-Match", &count);
    if (!count) {
        api_fail(r, WEB_PRECONDITION_REQUIRED, "If-Match",
                 "send If-Match with the ETag of the response that showed it, "
                 "so that nobody's change is lost; * is any version");
        return false;
    }
    if (count == 1 && strcmp(text, "*") == 0)
        return true;
    errno = 0;
    version = *text == '"' ? strtoll(text + 1, &end, 10) : 0;
    if (count == 1 && version > 0 && !errno && strcmp(end, "\"") == 0) {
        json_object_set_new(r->args, v->name, json_integer(version));
        return true;
    }
    api_fail(r, WEB_CHANGED, "If-Match",
             "If-Match is not an ETag of this API; send one, such as \"7\", "
             "or *");
    return false;
}

static bool read_arguments(struct api_request *r)
{
    struct web_request *w = r->web;
    struct arguments_wrong wrong;

    r->args = arguments_read(
        &r->route, r->actor.owner, w->query, has_body(w),
        (struct bytes){w->body.data ? w->body.data : "", w->body.len},
        r->api->daemon->loop.now_ms, &wrong);
    if (!r->args) {
        api_fail(r, wrong.body ? WEB_INVALID_BODY : WEB_INVALID_ARGUMENT,
                 *wrong.field ? wrong.field : NULL, "%s", wrong.why);
        return false;
    }
    if (!read_if_match(r))
        return false;
    if (command_arg(r->command, "who"))
        json_object_set_new(r->args, "who", json_string(r->actor.name));
    return true;
}

/* Who asks for a change, and under which key: a repeat with the same token, method, path and key
 * gets the same reply. false: the key is wrong. */
static bool set_by(struct api_request *r)
{
    const struct web_request *w = r->web;
    char key[TOKEN_DIGEST_BYTES + 1], digest[TOKEN_DIGEST_BYTES + 1], *all;
    const char *text;
    int count;

    r->by = json_pack("{s:s,s:s,s:s}", "actor", r->actor.name, "role",
                      role_name(r->actor.role), "request_id", w->id);
    text = web_header(w, "Idempotency-Key", &count);
    if (!count)
        return true;
    if (count > 1 || !*text || strlen(text) > KEY_MAX_BYTES ||
        text[strspn(text, key_letters)]) {
        api_fail(r, WEB_INVALID_ARGUMENT, "Idempotency-Key",
                 "Idempotency-Key: send one with 1 to %d visible ASCII "
                 "characters",
                 KEY_MAX_BYTES);
        return false;
    }
    all = gr_printf("%s %s %s", w->method, w->path, text);
    token_digest(all, strlen(all), key);
    free(all);
    token_digest(w->body.data ? w->body.data : "", w->body.len, digest);
    json_object_set_new(r->by, "owner", json_string(r->actor.owner));
    json_object_set_new(r->by, "key", json_string(key));
    json_object_set_new(r->by, "digest", json_string(digest));
    return true;
}

/* ---- the description, which is public: it is the same everywhere ---- */

static const char document_path[] = "/api/v1/openapi.json";
static const char page_path[] = "/api/docs";

static const struct openapi_error errors[] = {
#define ERROR(NAME, status, code, help) {status, code, help},
    WEB_ERRORS(ERROR)
#undef ERROR
        {0},
};

/* Only the style of the page itself is allowed: its digest is in the policy. */
static void add_page_policy(struct web_request *w)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_BYTES * 2];
    char *policy;

    sha256((struct bytes){openapi_page_style, strlen(openapi_page_style)},
           digest);
    EVP_EncodeBlock((unsigned char *)text, digest, sizeof digest);
    policy = gr_printf("default-src 'none'; style-src 'sha256-%s'; base-uri "
                       "'none'; form-action 'none'; frame-ancestors 'none'",
                       text);
    web_add_header(w, "Content-Security-Policy", policy);
    free(policy);
}

static bool is_description(struct api_request *r)
{
    struct web_request *w = r->web;
    bool page = strcmp(w->path, page_path) == 0;
    json_t *document;
    char *text;

    if (!page && strcmp(w->path, document_path) != 0)
        return false;
    if (!api_is_read(w)) {
        web_add_header(w, "Allow", "GET, HEAD");
        api_fail(r, WEB_METHOD_NOT_ALLOWED, NULL,
                 "this path accepts GET and HEAD");
        return true;
    }
    if (page) {
        w->type = "text/html; charset=utf-8";
        add_page_policy(w);
        openapi_page(&w->text, errors);
    } else {
        document = openapi_document(errors);
        text = json_dumps(document, JSON_COMPACT);
        buf_puts(&w->text, text);
        free(text);
        json_decref(document);
    }
    api_send(r);
    return true;
}

/* The actor is known: finds the command and its arguments, and starts it. */
static void start(struct api_request *r)
{
    bool acts;

    if ((api_is_tenant(r) && !tenant_may_ask(r)) || !find_route(r))
        return;
    acts = r->command->flags & COMMAND_ACTS;
    if (api_is_tenant(r)) {
        if (!tenant_permits(r))
            return;
    } else if (r->actor.role < r->command->role) {
        api_fail(r, WEB_ROLE, NULL,
                 "this needs a token with the role %s; this one has %s",
                 role_name(r->command->role), role_name(r->actor.role));
        return;
    }
    if ((acts && !api_change_is_fine(r)) || !read_arguments(r) ||
        (acts && !set_by(r)))
        return;
    if (api_is_tenant(r))
        tenant_begin(r);
    else
        api_run(r);
}

bool api_has(const char *path)
{
    size_t n = strlen(prefix);

    return (strncmp(path, prefix, n) == 0 && (path[n] == '/' || !path[n])) ||
           strcmp(path, page_path) == 0 || sign_in_has(path) ||
           portal_has(path);
}

void api_begin(struct api *a, struct web_request *w)
{
    struct api_request *r = gr_alloc(sizeof *r);

    r->api = a;
    r->web = w;
    w->self = r;
    TAILQ_INSERT_TAIL(&a->all, r, link);
    a->open++;
    if (a->open > OPEN_MAX) {
        web_add_header(w, "Retry-After", "1");
        api_fail(r, WEB_BUSY, NULL, "too many requests wait for processes");
        return;
    }
    r->authorized = start;
    if (sign_in_has(w->path))
        sign_in_begin(r);
    else if (portal_has(w->path))
        portal_begin(r);
    else if (!is_description(r))
        api_authorize(r);
}

void api_end(struct api *a, struct web_request *w)
{
    struct api_request *r = w->self;

    api_forget(r);
    waiting_leave(r);
    if (r->ready)
        TAILQ_REMOVE(&a->ready, r, ready_link);
    if (!r->responded)
        a->open--;
    TAILQ_REMOVE(&a->all, r, link);
    if (r->state_free)
        r->state_free(r->state);
    route_match_fini(&r->route);
    json_decref(r->args);
    json_decref(r->by);
    free(r);
}

void api_again_in(struct api_request *r, int ms)
{
    r->again_ms = mono_ms() + ms;
}

static void make_ready(struct api_request *r)
{
    r->ready = true;
    TAILQ_INSERT_TAIL(&r->api->ready, r, ready_link);
}

/* Those of api_again_in(). Returns how long until the next; -1: there is none. */
static int take_due(struct api *a)
{
    struct api_request *r;
    int64_t now = mono_ms();
    int wait_ms = -1;

    TAILQ_FOREACH(r, &a->all, link)
    {
        if (!r->again_ms || r->responded)
            continue;
        if (r->again_ms > now) {
            wait_ms = loop_sooner(wait_ms, (int)(r->again_ms - now));
            continue;
        }
        r->again_ms = 0;
        if (!r->ready)
            make_ready(r);
    }
    return wait_ms;
}

int api_work(struct api *a)
{
    int wait_ms = loop_sooner(process_client_run(a->processes, mono_ms()),
                              waiting_work(a));
    struct process_question *q;
    struct api_request *r;

    while ((q = process_client_ended(a->processes))) {
        if (waiting_take(q))
            continue;
        r = q->self;
        if (--r->open_count == 0 && !r->ready)
            make_ready(r);
    }
    wait_ms = loop_sooner(wait_ms, take_due(a));
    wait_ms = loop_sooner(wait_ms, sign_in_work(a));
    wait_ms = loop_sooner(wait_ms, portal_work(a));
    while ((r = TAILQ_FIRST(&a->ready))) {
        TAILQ_REMOVE(&a->ready, r, ready_link);
        r->ready = false;
        r->step(r);
        wait_ms = 0; /* its response, or its next question */
    }
    return wait_ms;
}
