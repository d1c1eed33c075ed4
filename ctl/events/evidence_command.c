/* evidence_command: `grapnel evidence`: asks all processes for what they know of an event, and writes
 * it as one signed file. */
#include "ask.h"
#include "bounds.h"
#include "clock.h"
#include "encoding.h"
#include "evidence.h"
#include "json_text.h"
#include "show_command.h"
#include "table.h"
#include "trace_command.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PEM_MAX_BYTES = 4096,
    ACTS_MAX = 10000, /* of one process */
    /* A byte of a body is six characters at most, and the body may be there twice. */
    FILE_MAX_BYTES = 1000 * 1024 * 1024,
};

/* The option, or the usual place; the caller's. */
static char *key_path(struct ctl *c)
{
    static const char *const keys[] = {"state_dir", NULL};
    const char *given = parsed_value(&c->parsed, "--private-key");

    if (given)
        return gr_strdup(given);
    need_settings(c, keys,
                  "the key is in state_dir: --private-key FILE names another "
                  "one");
    return evidence_key_path(c->settings->state_dir);
}

int run_evidence_key(struct ctl *c)
{
    char *path = key_path(c), why[200];
    EVP_PKEY *key = evidence_key_read(path, why);
    struct buf pem;
    int code = 0;

    if (!key && errno == ENOENT) {
        if (evidence_key_make(path, why) == GR_OK)
            complain(0, "made %s: keep a copy of it elsewhere", path);
        else if (errno != EEXIST) /* another command was first */
            code = complain(EXIT_REFUSED, "%s", why);
        if (!code)
            key = evidence_key_read(path, why);
    }
    if (key) {
        buf_init(&pem, PEM_MAX_BYTES);
        evidence_key_public(key, &pem);
        if (c->json)
            print_json(json_pack("{s:s, s:o}", "file", path, "public_key",
                                 json_text_of(pem.data)));
        else
            printf("%s", pem.data);
        buf_fini(&pem);
    } else if (!code) {
        code = complain(EXIT_REFUSED, "%s", why);
    }
    EVP_PKEY_free(key);
    free(path);
    return code;
}

/* ---- what the processes know ---- */

struct exporting {
    struct ctl *c;
    struct evidence e;
    struct processes processes;
    char *id; /* the event's */
    bool partial;
    int code; /* not 0: the reason was printed, and nothing is written */
};

static void away(struct exporting *x, const char *process, const char *why)
{
    if (x->partial)
        evidence_misses(&x->e, "%s could not be reached (%s).", process, why);
    else if (!x->code)
        x->code = complain_away(x->c, process, why);
}

/* The process runs, and has something that it did not give. */
static void failed(struct exporting *x, const char *process, const char *why)
{
    if (x->partial)
        evidence_misses(&x->e, "%s did not give its part (%s).", process, why);
    else if (!x->code)
        x->code = complain(EXIT_REFUSED, "%s: %s", process, why);
}

static json_t *body_json(const struct buf *raw)
{
    struct bytes body = {raw->data ? raw->data : "", raw->len};

    return utf8_valid(body)
               ? json_pack("{s:o}", "body", json_text(body))
               : json_pack("{s:o}", "body_b64", encoding_base64_json(body));
}

static json_t *find_request(struct exporting *x, const char *as_sent,
                            struct buf *raw)
{
    struct show_absence absence;
    json_t *found = show_request_find(x->c, &x->processes, x->e.event, x->id,
                                      as_sent, raw, &absence);

    if (found)
        return found;
    if (*absence.failed)
        failed(x, absence.failed, absence.failed_why);
    if (*absence.away)
        away(x, absence.away, absence.away_why);
    if (!*absence.failed && !*absence.away)
        evidence_request_deleted(&x->e);
    return NULL;
}

static void take_request(struct exporting *x)
{
    struct buf came = {0}, sent = {0};
    json_t *request = find_request(x, NULL, &came), *as_sent = NULL;

    if (request) {
        as_sent = find_request(x, x->id, &sent);
        evidence_take_request(&x->e, request);
    }
    if (as_sent && (came.len != sent.len ||
                    (came.len && memcmp(came.data, sent.data, came.len) != 0)))
        x->e.sent = body_json(&sent);
    json_decref(as_sent);
    buf_fini(&came);
    buf_fini(&sent);
}

/* A part of a request of several events is known to ingress by the request's id. */
static void take_traces(struct exporting *x)
{
    const struct processes *p = &x->processes;
    const char *request = json_string_value(
        json_object_get(x->e.event, "request"));
    struct question *all = gr_alloc((p->count + 1) * sizeof *all);
    size_t n = 0;

    for (size_t i = 0; i < p->count; i++) {
        bool part = request && process_is(p->names[i], PROCESSES_WITH_ARCHIVE);

        if (process_is(p->names[i], "sequencer console"))
            continue;
        all[n] = (struct question){
            .process = p->names[i],
            .what = "trace",
            .args = json_pack("{s:s}", "id", part ? request : x->id)};
        if (part)
            json_object_set_new(all[n].args, "event", json_string(x->id));
        n++;
    }
    ask_all(x->c, all, n, ASK_MS);
    for (size_t i = 0; i < n; i++) {
        if (all[i].unreachable)
            away(x, all[i].process, all[i].why);
        else if (question_failed(&all[i]))
            failed(x, all[i].process, all[i].why);
        evidence_take_trace(&x->e, all[i].reply);
        json_decref(all[i].reply);
    }
    free(all);
}

/* The acts of one process that name the event, and the newest hash of its audit chain. */
static void take_acts(struct exporting *x, const char *process)
{
    json_t *args = json_pack("{s:i, s:o}", "limit", 1000, "about",
                             evidence_names(&x->e)),
           *reply;
    bool unreachable, replied = true, more = true;
    char why[200];
    size_t count = 0;

    while (replied && more && count < ACTS_MAX) {
        reply = ask(x->c, process, "audit", json_deep_copy(args), ASK_MS,
                    &unreachable, why);
        replied = reply != NULL;
        evidence_take_acts(&x->e, json_object_get(reply, "audit"));
        count += json_array_size(json_object_get(reply, "audit"));
        more = json_is_string(json_object_get(reply, "next"));
        if (more)
            json_object_set(args, "before", json_object_get(reply, "next"));
        json_decref(reply);
    }
    json_decref(args);
    if (replied && more)
        evidence_misses(&x->e, "%s has more acts that name the event.",
                        process);
    reply = replied ? ask(x->c, process, "audit_head", NULL, ASK_MS,
                          &unreachable, why)
                    : NULL;
    evidence_take_head(&x->e, reply);
    if (!reply && unreachable)
        away(x, process, why);
    else if (!reply)
        failed(x, process, why);
    json_decref(reply);
}

/* All that ever stored something: a process that was stopped in order has no socket. */
static void find_processes(struct exporting *x)
{
    static const char *const keys[] = {"state_dir", NULL};
    char why[200];

    if (!x->c->settings)
        need_settings(x->c, keys,
                      "evidence needs only `state_dir` of the configuration, "
                      "whose databases say which processes exist");
    need_run_dir(x->c);
    if (processes_with_data(x->c->run_dir, x->c->settings->state_dir,
                            &x->processes, why) != GR_OK)
        x->code = complain(EXIT_REFUSED, "%s", why);
}

static void collect(struct exporting *x)
{
    find_processes(x);
    if (!x->code)
        take_request(x);
    if (!x->code)
        take_traces(x);
    for (size_t i = 0; i < x->processes.count && !x->code; i++)
        /* The console acts on no event. */
        if (!process_is(x->processes.names[i], "console"))
            take_acts(x, x->processes.names[i]);
}

/* ---- the file ---- */

static int write_file(struct exporting *x, EVP_PKEY *key)
{
    const char *path = parsed_value(&x->c->parsed, "--output");
    char *by = gr_printf("user %s", user_name()), why[200];
    struct buf out;
    int code = 0;

    buf_init(&out, FILE_MAX_BYTES);
    if (evidence_write(&x->e, key, by, now_ms(), &out) != GR_OK)
        code = complain(EXIT_REFUSED, "the event is too large for one file");
    else if (path && evidence_file_make(path, (struct bytes){out.data, out.len},
                                        why) != GR_OK)
        code = complain(EXIT_REFUSED, "%s", why);
    else if (!path && (fwrite(out.data, 1, out.len, stdout) != out.len ||
                       fflush(stdout)))
        code = complain(EXIT_REFUSED, "standard output: %s", strerror(errno));
    else if (path && !x->c->json)
        printf("%s: %zu bytes, %zu attempts, %zu acts\n", path, out.len,
               json_array_size(x->e.attempts), json_array_size(x->e.acts));
    buf_fini(&out);
    free(by);
    return code;
}

/* Takes `event` over. */
static int export_event(struct ctl *c, json_t *event, EVP_PKEY *key)
{
    struct exporting x = {.c = c,
                          .partial = parsed_value(&c->parsed, "--partial")};
    json_t *sentence;
    size_t i;

    evidence_init(&x.e, event);
    x.id = gr_strdup(text_of(event, "id"));
    collect(&x);
    if (!x.code)
        x.code = write_file(&x, key);
    fflush(stdout);
    json_array_foreach(x.e.missing, i, sentence) if (!x.code)
        complain(0, "missing: %s", json_string_value(sentence));
    evidence_fini(&x.e);
    processes_fini(&x.processes);
    free(x.id);
    return x.code;
}

int run_evidence(struct ctl *c)
{
    char *path = key_path(c), *id = trace_event_id(c->parsed.args[0]), why[200];
    EVP_PKEY *key = evidence_key_read(path, why);
    json_t *event = NULL;
    int code = 0;

    if (!key && errno == ENOENT)
        code = complain(EXIT_REFUSED,
                        "there is no key pair (%s): make it with `grapnel "
                        "evidence key`, and give the public key to those who "
                        "will verify evidence",
                        path);
    else if (!key)
        code = complain(EXIT_REFUSED, "%s", why);
    if (!code)
        event = ask_needed(c, "sequencer", "trace",
                           json_pack("{s:s}", "id", id), ASK_MS, &code);
    if (event && json_object_get(event, "matches")) {
        code = trace_print_matches(c, event);
    } else if (event && evidence_is_erased(event)) {
        code = complain(EXIT_REFUSED,
                        "the workspace of %s was erased: there is nothing to "
                        "export",
                        text_of(event, "id"));
    } else if (event) {
        code = export_event(c, json_incref(event), key);
    }
    json_decref(event);
    EVP_PKEY_free(key);
    free(path);
    free(id);
    return code;
}
