/* drill_command: `grapnel drill`: has a deliverer send the requests of a drill, and prints what the
 * receiver does wrong. */
#include "ask.h"
#include "drill.h"
#include "endpoint_document.h"
#include "endpoint_test.h"
#include "table.h"
#include "ulid.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define WORKSPACE "grapnel-drill"

enum { BODY_MAX = 16 * 1024, SECRET_BYTES = 32 };

struct drill {
    struct ctl *c;
    const struct endpoint_settings *e;
    char *deliverer; /* that sends all of it */
    const char *type;
    char *body;     /* NULL: the usual one */
    int64_t series; /* the first one; the second one is the next number */
    char ids[DRILL_REQUESTS_MAX + 1][5 + ULID_BYTES];
    bool unmarked;      /* the receiver refuses the header */
    char *other_secret; /* which the receiver does not have */
    struct drill_response responses[DRILL_REQUESTS_MAX];
};

static char *new_secret(const char *prefix)
{
    unsigned char key[SECRET_BYTES], text[4 * SECRET_BYTES / 3 + 8];

    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        die(EXIT_UNAVAILABLE, "the system has no random numbers");
    EVP_EncodeBlock(text, key, (int)sizeof key);
    return gr_printf("%s%s", prefix, (const char *)text);
}

static void begin(struct drill *d)
{
    const struct string_list *secrets = &d->e->signing_secrets;
    bool own = secrets->count && strncmp(secrets->items[0], "whsk_", 5) == 0;
    struct ulid ulid = {0};
    struct timespec now;
    uint64_t series;

    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i <= DRILL_REQUESTS_MAX; i++) {
        memcpy(d->ids[i], "evt_", 4);
        ulid_next(&ulid, now.tv_sec * 1000 + now.tv_nsec / 1000000,
                  d->ids[i] + 4);
    }
    if (getrandom(&series, sizeof series, 0) != (ssize_t)sizeof series)
        die(EXIT_UNAVAILABLE, "the system has no random numbers");
    d->series = (int64_t)(series >> 2) + 1;
    d->other_secret = new_secret(own ? "whsk_" : "whsec_");
}

static void end(struct drill *d)
{
    OPENSSL_cleanse(d->other_secret, strlen(d->other_secret));
    free(d->other_secret);
    free(d->deliverer);
    free(d->body);
}

/* ---- send ---- */

static json_t *request_of(const struct drill *d, const struct drill_request *q)
{
    int64_t timeout_ms = settings_timeout_ms(d->e, d->e->policy);
    int64_t rate = q->padding * 4000 / timeout_ms; /* in a quarter of it */

    if (!q->bytes_per_s || rate < q->bytes_per_s)
        rate = q->bytes_per_s;
    json_t *out = json_pack(
        "{s:s,s:s,s:s,s:s,s:I,s:i,s:i,s:i,s:b,s:I,s:I,s:I}", "step",
        q->unmarked || d->unmarked ? "" : q->step, "event_id", d->ids[q->event],
        "type", d->type, "workspace", WORKSPACE, "series",
        (json_int_t)(d->series + q->series), "sequence", q->sequence,
        "previous", q->previous, "attempt", q->attempt ? q->attempt : 1,
        "replay", q->replay, "signed_offset_ms",
        (json_int_t)q->signed_offset_ms, "padding", (json_int_t)q->padding,
        "bytes_per_s", (json_int_t)rate);

    if (d->body)
        json_object_set_new(out, "body", json_string(d->body));
    return out;
}

/* The endpoint as this request needs it: with other secrets. */
static json_t *args_of(const struct drill *d, const struct drill_request *q)
{
    struct endpoint_settings e = *d->e;
    struct string_list secrets = {0};
    json_t *args;

    if (q->secrets == DRILL_WRONG || q->secrets == DRILL_SECOND)
        string_list_add(&secrets, d->other_secret);
    for (size_t i = 0;
         q->secrets == DRILL_SECOND && i < d->e->signing_secrets.count; i++)
        string_list_add(&secrets, d->e->signing_secrets.items[i]);
    if (q->secrets != DRILL_RIGHT)
        e.signing_secrets = secrets;
    args = endpoint_test_args(&e, request_of(d, q));
    for (size_t i = 0; i < secrets.count; i++)
        OPENSSL_cleanse(secrets.items[i], strlen(secrets.items[i]));
    string_list_fini(&secrets);
    return args;
}

static void read_reply(struct drill_response *r, const json_t *reply)
{
    const json_t *timings = json_object_get(reply, "timings");

    r->asked = true;
    r->status = (int)integer_of(reply, "http_status");
    r->retried = strcmp(text_of(reply, "verdict"), "retried") == 0;
    r->connected = json_is_number(json_object_get(timings, "connect_ms"));
    r->total_ms = json_number_value(json_object_get(timings, "total_ms"));
}

/* Sends one request, or this one and the next at the same time. Returns how many; 0: the error was
 * printed, and *code is the exit code. */
static int send_at(struct drill *d, int i, int *code)
{
    const struct drill_request *q = &drill_requests[i];
    int n = q->with_next ? 2 : 1;
    struct question all[2];

    for (int k = 0; k < n; k++)
        all[k] = (struct question){
            .process = d->deliverer, .what = "test", .args = args_of(d, q + k)};
    ask_all(d->c, all, (size_t)n, endpoint_test_ms(d->e));
    for (int k = 0; k < n; k++) {
        if (all[k].reply)
            read_reply(&d->responses[i + k], all[k].reply);
        else if (!*code)
            *code = all[k].unreachable
                        ? complain_away(d->c, d->deliverer, all[k].why)
                        : complain(EXIT_REFUSED, "refused: %s", all[k].why);
        json_decref(all[k].reply);
    }
    return *code ? 0 : n;
}

static bool is_forged(const struct drill_request *q)
{
    return q->expected == DRILL_REFUSED || q->secrets != DRILL_RIGHT;
}

static int send_all(struct drill *d)
{
    int code = 0, n;

    for (int i = 0; i < drill_count && !code; i += n) {
        n = 1;
        if (is_forged(&drill_requests[i]) && !d->e->signing_secrets.count)
            continue; /* nothing is signed */
        n = send_at(d, i, &code);
        if (!code && i == 0 && drill_unjudged(&d->responses[0]))
            break;
        if (i == drill_marked_first && drill_unjudged(&d->responses[i]))
            d->unmarked = true;
    }
    return code;
}

/* The first deliverer that listens. */
static char *find_deliverer(struct ctl *c)
{
    struct processes p;
    char why[200] = "no deliverer is running", *found = NULL;

    processes_find(c, &p);
    for (size_t i = 0; i < p.count && !found; i++)
        if (process_is(p.names[i], "deliverer") &&
            process_listens(c, p.names[i], why))
            found = gr_strdup(p.names[i]);
    processes_fini(&p);
    if (!found)
        complain_away(c, "deliverer", why);
    return found;
}

/* ---- print ---- */

static json_t *findings_json(const struct drill_finding *all, int count,
                             bool advice)
{
    json_t *out = json_array();

    for (int i = 0; i < count; i++)
        if (all[i].advice == advice)
            json_array_append_new(out,
                                  json_pack("{s:s,s:s,s:s,s:s}", "step",
                                            drill_requests[all[i].request].step,
                                            "defect", all[i].defect, "text",
                                            all[i].text, "fix", all[i].fix));
    return out;
}

static bool is_found(const struct drill_finding *all, int count, int request)
{
    for (int i = 0; i < count; i++)
        if (all[i].request == request && !all[i].advice)
            return true;
    return false;
}

static json_t *document(const struct drill *d, const struct drill_finding *all,
                        int count)
{
    const char *unjudged = drill_unjudged(&d->responses[0]);
    json_t *steps = json_array();
    char series[32];

    for (int i = 0; i < drill_count; i++) {
        const struct drill_response *r = &d->responses[i];

        if (r->asked)
            json_array_append_new(
                steps,
                json_pack(
                    "{s:s,s:s,s:b,s:o,s:f}", "step", drill_requests[i].step,
                    "event_id", d->ids[drill_requests[i].event], "ok",
                    !is_found(all, count, i) && (i || !unjudged), "http_status",
                    r->status ? json_integer(r->status) : json_null(),
                    "total_ms", r->total_ms));
    }
    snprintf(series, sizeof series, "%lld", (long long)d->series);
    return json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:b}", "endpoint",
                     d->c->parsed.args[0], "workspace", WORKSPACE, "series",
                     series, "unjudged",
                     unjudged ? json_string(unjudged) : json_null(), "steps",
                     steps, "defects", findings_json(all, count, false),
                     "advice", findings_json(all, count, true), "signed",
                     d->e->signing_secrets.count > 0);
}

static void print_steps(struct ctl *c, const json_t *steps)
{
    static const char *const heads[] = {"STEP", "RESULT", "STATUS", "MS", NULL};
    struct table t;
    json_t *s;
    size_t i;

    table_init(&t, heads);
    json_array_foreach(steps, i, s)
    {
        bool ok = json_is_true(json_object_get(s, "ok"));

        table_add(&t, PLAIN, "%s", text_of(s, "step"));
        table_add(&t, ok ? GREEN : RED, "%s", ok ? "ok" : "wrong");
        table_add(&t, PLAIN, "%s", text_or_dash(s, "http_status"));
        table_add(&t, PLAIN, "%.0f",
                  json_number_value(json_object_get(s, "total_ms")));
    }
    table_print(&t, stdout, c->colour, 0);
    table_fini(&t);
}

static void print_findings(struct ctl *c, const json_t *all, enum colour colour)
{
    json_t *f;
    size_t i;

    json_array_foreach(all, i, f)
        printf("\n%s%s%s: %s\n  %s\n", colour_on(colour, c->colour),
               text_of(f, "defect"), colour_off(colour, c->colour),
               text_of(f, "text"), text_of(f, "fix"));
}

static void print_document(struct ctl *c, const json_t *doc)
{
    size_t defects = json_array_size(json_object_get(doc, "defects"));

    print_steps(c, json_object_get(doc, "steps"));
    if (*text_of(doc, "unjudged")) {
        printf("\nThe receiver cannot be judged. %s\n",
               text_of(doc, "unjudged"));
        return;
    }
    print_findings(c, json_object_get(doc, "defects"), RED);
    print_findings(c, json_object_get(doc, "advice"), YELLOW);
    if (!json_is_true(json_object_get(doc, "signed")))
        printf("\nThe endpoint has no `signing_secrets`: forged requests were "
               "not sent, as the receiver cannot recognise them.\n");
    printf("\n%zu defect%s. The events have the workspace " WORKSPACE
           " and the series %s and the next.\n",
           defects, defects == 1 ? "" : "s", text_of(doc, "series"));
}

/* ---- the command ---- */

/* false: the error was printed. */
static bool read_options(struct drill *d)
{
    const char *file = parsed_value(&d->c->parsed, "--body");
    const char *type = parsed_value(&d->c->parsed, "--type");
    size_t n = 0;

    d->type = type ? type : "grapnel.drill";
    if (!is_utf8("--type", d->type))
        return false;
    if (file)
        d->body = read_file(file, BODY_MAX, &n);
    return !file || (d->body && is_utf8("the body", d->body));
}

int run_drill(struct ctl *c)
{
    struct drill d = {.c = c};
    struct endpoint_settings *managed = NULL;
    struct drill_finding findings[DRILL_FINDINGS_MAX];
    int code = EXIT_USAGE, count = 0;
    bool bad;
    json_t *doc;

    if (!read_options(&d)) {
        free(d.body);
        return EXIT_USAGE;
    }
    d.e = tested_endpoint(c, c->parsed.args[0], &managed, &code);
    if (!d.e || !(d.deliverer = find_deliverer(c))) {
        code = d.e ? EXIT_UNAVAILABLE : code;
        endpoint_document_free(managed);
        free(d.body);
        return code;
    }
    begin(&d);
    code = send_all(&d);
    if (!code) {
        if (!drill_unjudged(&d.responses[0]))
            count = drill_judge(
                d.responses, settings_timeout_ms(d.e, d.e->policy), findings);
        doc = document(&d, findings, count);
        bad = *text_of(doc, "unjudged") ||
              json_array_size(json_object_get(doc, "defects"));
        code = bad ? EXIT_REFUSED : 0;
        if (c->json)
            print_json(json_incref(doc));
        else
            print_document(c, doc);
        json_decref(doc);
    }
    end(&d);
    endpoint_document_free(managed);
    return code;
}
