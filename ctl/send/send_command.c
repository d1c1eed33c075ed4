/* send_command: `grapnel send`: makes an event as a provider does, signs it, and posts it to
 * ingress. */
#include "bounds.h"
#include "clock.h"
#include "conf.h"
#include "ctl.h"
#include "headers.h"
#include "keypair.h"
#include "rejects_command.h"
#include "request_summary.h"
#include "sample.h"
#include "table.h"
#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum {
    RESPONSE_TEXT_MAX_BYTES = 64 * 1024,
    CONNECT_MS = 5000,
    WHOLE_MS = 30000, /* ingress responds 503 after 5 s at the latest */
    COUNT_MAX = 1000000,
};

struct sending {
    struct ctl *c;
    const struct source *source;
    struct sample_options options;
    EVP_PKEY *private_key; /* NULL: it signs with the secret */
    char *public_key;      /* of a key that was just made, or NULL */
    CURL *curl;
    char *url;
    char *reason;    /* of the first 401, or NULL */
    json_t *results; /* for --json */
    int64_t accepted, refused;
};

/* Whether the event has the type and workspace of the options. false: the error was printed. */
static bool is_as_asked(const struct sending *s,
                        const struct event_sample *sample)
{
    const struct sample_options *w = &s->options;
    struct request_summary f;
    bool ok = true;

    request_summary_read(
        &f, s->source,
        (struct bytes){sample->headers.data, sample->headers.len},
        (struct bytes){sample->body.data, sample->body.len});
    if (w->type && strcmp(w->type, f.type.data) != 0) {
        ok = false;
        complain(EXIT_USAGE,
                 "--type %s: the type of this event is %s, set by %s; %s",
                 w->type, f.type.data,
                 w->has_body ? "its body" : "the source's configuration",
                 w->has_body ? "change the file" : "choose one of its form");
    }
    if (w->workspace && strcmp(w->workspace, f.workspace.data) != 0) {
        ok = false;
        complain(EXIT_USAGE,
                 "--workspace %s: the workspace of this event is %s, set by %s",
                 w->workspace, f.workspace.data,
                 w->has_body ? "its body" : "the source's configuration");
    }
    request_summary_fini(&f);
    return ok;
}

static size_t on_response(char *data, size_t size, size_t n, void *self)
{
    buf_put(self, data, size * n);
    return size * n; /* drops what exceeds the limit of the buffer */
}

/* Returns the HTTP status, or 0 with `why`: no response. */
static long post(struct sending *s, const struct event_sample *sample,
                 struct buf *response, char why[CURL_ERROR_SIZE])
{
    struct bytes packed = {sample->headers.data, sample->headers.len}, name,
                 value;
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    CURL *h = s->curl;
    char *url = gr_printf("%s%s%s", s->url, sample->query.len ? "?" : "",
                          sample->query.len ? sample->query.data : "");
    long status = 0;
    size_t at = 0;

    while (headers_next(packed, &at, &name, &value)) {
        char *line = gr_printf("%.*s: %.*s", (int)name.n, (const char *)name.p,
                               (int)value.n, (const char *)value.p);

        headers = curl_slist_append(headers, line);
        free(line);
    }
    *why = 0;
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)WHOLE_MS);
    curl_easy_setopt(h, CURLOPT_USERAGENT, SEND_AGENT);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, sample->body.data);
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)sample->body.len);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_response);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, response);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, why);
    if (curl_easy_perform(h) == CURLE_OK)
        curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_reset(h); /* it must not keep `why`, `response` and the headers */
    curl_slist_free_all(headers);
    free(url);
    return status;
}

/* Ingress reports the reason of a 401 to operators only, not in its response. */
static void explain_401(const struct sending *s, const char *reason)
{
    fflush(stdout);
    if (!reason)
        fprintf(stderr, "The log of ingress has the reason.\n");
    else
        fprintf(stderr, "The reason: %s.\n", reason);
    if (reason && strcmp(reason, "signature_mismatch") != 0)
        return;
    fprintf(stderr,
            "Ingress refuses this signature, which is made with the first "
            "secret of source %s\nin %s. Look at:\n"
            "  - does ingress run with this file? After a change: grapnel "
            "reload\n"
            "  - is the secret from ${…}? Each process keeps the "
            "environment of its start:\n    a changed variable needs a "
            "restart (grapnel check --running)\n",
            s->source->name, s->c->settings->path);
}

static void take_response(struct sending *s, const struct event_sample *sample,
                          long status, const struct buf *text)
{
    const char *body = text->len ? text->data : "";
    enum colour colour = status == 200 ? GREEN : RED;
    struct request_summary f;
    json_t *row, *response;
    char *safe;

    if (status == 401 && !s->reason)
        s->reason = rejects_reason(s->c, s->source->name);
    request_summary_read(
        &f, s->source,
        (struct bytes){sample->headers.data, sample->headers.len},
        (struct bytes){sample->body.data, sample->body.len});
    if (s->c->json) {
        row = json_pack("{s:i, s:s, s:s, s:s, s:s}", "http_status", (int)status,
                        "url", s->url, "source", s->source->name, "type",
                        f.type.data, "workspace", f.workspace.data);
        if (s->public_key)
            json_object_set_new(row, "public_key", json_string(s->public_key));
        if (status == 401 && s->reason)
            json_object_set_new(row, "reason", json_string(s->reason));
        response = json_loadb(body, text->len, 0, NULL);
        json_object_update(row, response);
        json_decref(response);
        json_array_append_new(s->results, row);
    } else {
        safe = harmless(body);
        printf("%s%ld%s %s  ", colour_on(colour, s->c->colour), status,
               colour_off(colour, s->c->colour), safe);
        if (*f.refused)
            printf("(but the sequencer will refuse it: %s)\n", f.refused);
        else
            printf("(%s, workspace %s)\n", f.type.data, f.workspace.data);
        free(safe);
    }
    if (status == 200)
        s->accepted++;
    else if (s->refused++ == 0 && status == 401)
        explain_401(s, s->reason);
    request_summary_fini(&f);
}

/* Sends one event. Returns -1 to continue, else the exit code. */
static int send_one(struct sending *s)
{
    char uuid[SAMPLE_UUID_BYTES + 1], why[200], curl_why[CURL_ERROR_SIZE];
    struct event_sample sample;
    struct buf response;
    long status;
    int code = -1;

    sample_uuid(uuid, (struct bytes){0});
    s->options.uuid = uuid;
    s->options.now_ms = now_ms();
    s->options.n++;
    buf_init(&response, RESPONSE_TEXT_MAX_BYTES);
    if (sample_make(&sample, s->source, &s->options, why) != GR_OK ||
        sample_sign(&sample, s->source, s->private_key, why) != GR_OK)
        code = complain(EXIT_REFUSED, "%s", why);
    else if (!is_as_asked(s, &sample))
        code = EXIT_USAGE;
    else if ((status = post(s, &sample, &response, curl_why)) > 0)
        take_response(s, &sample, status, &response);
    else
        code = complain(EXIT_UNAVAILABLE,
                        "ingress at %s cannot be reached: %s. Is it running "
                        "with this configuration? See `grapnel status`",
                        s->url, curl_why);
    buf_fini(&response);
    sample_fini(&sample);
    return code;
}

/* false: the reason was printed. Only hashes of a producer's tokens are stored, so a producer
 * has to publish itself. Only sources were read from the configuration: the names of producers
 * come from the running processes, or from the file if all of it can be read. */
static bool find_source(struct ctl *c, const struct source **source)
{
    const char *name = c->parsed.args[0];
    struct conf_near near = {.text = name};
    json_t *senders = NULL, *known;
    bool producer = false;
    struct buf ignored;
    char hint[100], *url;
    size_t i;

    *source = settings_source(c->settings, name);
    if (*source)
        return true;
    buf_init(&ignored, 64 * 1024);
    if (find_run_dir(c, &ignored))
        senders = json_object_get(known_names(c), "sources");
    buf_fini(&ignored);
    json_array_foreach(senders, i, known)
    {
        producer |= strcmp(json_string_value(known), name) == 0;
        conf_near_try(&near, json_string_value(known));
    }
    if (producer) {
        url = sample_url(c->settings, "v1/events");
        complain(EXIT_REFUSED,
                 "%s is a producer: publish with its token instead:", name);
        fprintf(stderr,
                "  curl -H \"Authorization: Bearer $TOKEN\" %s \\\n"
                "    -d '{\"type\":\"invoice.paid\",\"workspace\":\"acme\","
                "\"data\":{}}'\n",
                url);
        free(url);
        return false;
    }
    for (i = 0; i < c->settings->source_count; i++)
        conf_near_try(&near, c->settings->sources[i].name);
    complain(EXIT_REFUSED, "%s has no source \"%s\"%s", c->settings->path, name,
             conf_near_hint(&near, hint));
    return false;
}

/* Opens the key of --private-key, or makes one: the provider's own private key is not known.
 * false: the reason was printed. */
static bool open_key(struct sending *s)
{
    const char *path = parsed_value(&s->c->parsed, "--private-key");
    struct buf half;
    char why[200];
    bool fresh;

    if (!sample_needs_key(s->source)) {
        if (path)
            complain(EXIT_USAGE,
                     "source %s signs with its secret: remove --private-key",
                     s->source->name);
        return !path;
    }
    s->private_key = keypair_open(s->source, path, &fresh, why);
    if (!s->private_key) {
        complain(EXIT_REFUSED, "%s", why);
        return false;
    }
    buf_init(&half, 16 * 1024);
    if (fresh && keypair_public(s->source, s->private_key, &half) == GR_OK)
        fprintf(stderr,
                "Only the provider has its private key, so this event is "
                "signed with a new one%s%s.\nIngress accepts it when this "
                "public key is in the secrets of source %s:\n%s\n",
                path ? ", kept in " : "; --private-key FILE keeps it",
                path ? path : "", s->source->name, half.data);
    if (fresh && half.data)
        s->public_key = gr_strdup(half.data);
    buf_fini(&half);
    return true;
}

int run_send(struct ctl *c)
{
    static const char *const keys[] = {"ingress", "sources", "include", NULL};
    struct sending s = {.c = c};
    const char *file = parsed_value(&c->parsed, "--file");
    const char *times = parsed_value(&c->parsed, "--count"), *why;
    char *body = NULL, *path;
    int64_t count = 1;
    int code = -1;

    if (times && (conf_parse_int(times, &count, &why) != GR_OK || count < 1 ||
                  count > COUNT_MAX))
        return complain(EXIT_USAGE,
                        "--count: \"%s\" is not a number from 1 to %d", times,
                        COUNT_MAX);
    need_settings(
        c, keys,
        "send needs `sources` of the configuration with their secrets, and "
        "`ingress`: run it as a user and in an environment that can read them");
    if (!find_source(c, &s.source))
        return EXIT_REFUSED;
    if (file) {
        size_t n;

        body = read_file(file, SAMPLE_BODY_BYTES, &n);
        if (!body)
            return EXIT_REFUSED;
        s.options.has_body = true;
        s.options.given = (struct bytes){body, n};
    }
    if (!open_key(&s)) {
        free(body);
        return parsed_value(&c->parsed, "--private-key") &&
                       !sample_needs_key(s.source)
                   ? EXIT_USAGE
                   : EXIT_REFUSED;
    }
    s.options.type = parsed_value(&c->parsed, "--type");
    s.options.workspace = parsed_value(&c->parsed, "--workspace");
    path = gr_printf("in/%s", s.source->name);
    s.url = sample_url(c->settings, path);
    free(path);
    s.results = json_array();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s.curl = curl_easy_init();
    for (int64_t i = 0; i < count && code < 0; i++)
        code = send_one(&s);
    if (c->json && count == 1 && json_array_size(s.results))
        print_json(json_incref(json_array_get(s.results, 0)));
    else if (c->json && count > 1)
        print_json(json_incref(s.results));
    else if (!c->json && count > 1)
        printf("%lld accepted, %lld refused\n%s", (long long)s.accepted,
               (long long)s.refused,
               s.options.has_body
                   ? "All have the same body, so most may be duplicates.\n"
                   : "");
    if (code < 0)
        code = s.refused ? EXIT_REFUSED : 0;
    curl_easy_cleanup(s.curl);
    curl_global_cleanup();
    EVP_PKEY_free(s.private_key);
    json_decref(s.results);
    free(s.public_key);
    free(s.reason);
    free(s.url);
    free(body);
    return code;
}
