/* send_command: make an event as a provider does, sign it, and post it to ingress. */
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
#include <sys/random.h>

enum {
    RESPONSE_TEXT_MAX_BYTES = 64 * 1024,
    CONNECT_MS = 5000,
    WHOLE_MS = 30000, /* ingress responds 503 by itself after 5 s */
    COUNT_MAX = 1000000,
};

struct sending {
    struct ctl *c;
    const struct source *source;
    struct sample_options options;
    EVP_PKEY *private_key; /* NULL: it signs by the secret */
    char *public_key;      /* of a fresh one; else NULL */
    CURL *curl;
    char *url;
    char *reason;    /* of the first 401; NULL: none, or nobody says it */
    json_t *results; /* of --json */
    int64_t accepted, refused;
};

static void make_uuid(char out[37])
{
    unsigned char b[16];

    if (getrandom(b, sizeof b, 0) != sizeof b)
        die(EXIT_UNAVAILABLE, "cannot get random bytes");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(out, 37,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
             "%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
             b[11], b[12], b[13], b[14], b[15]);
}

/* Ingress as it is reached from here: "any address" is this machine. */
static char *ingress_url(const struct settings *s, const char *path)
{
    const char *host = s->ingress.host;

    if (!*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0)
        host = "127.0.0.1";
    if (strcmp(host, "::") == 0 || strcmp(host, "[::]") == 0)
        host = "::1";
    return gr_printf(strchr(host, ':') && *host != '[' ? "http://[%s]:%d/%s"
                                                       : "http://%s:%d/%s",
                     host, s->ingress.port, path);
}

/* ---- what was asked for must be what it is ---- */

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

/* ---- HTTP ---- */

static size_t on_response(char *data, size_t size, size_t n, void *self)
{
    buf_put(self, data, size * n);
    return size * n; /* more than the bound is cut, not an error */
}

static struct curl_slist *curl_headers(const struct event_sample *sample)
{
    struct bytes packed = {sample->headers.data, sample->headers.len};
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    struct bytes name, value;
    size_t at = 0;

    while (headers_next(packed, &at, &name, &value)) {
        char *line = gr_printf("%.*s: %.*s", (int)name.n, (const char *)name.p,
                               (int)value.n, (const char *)value.p);

        list = curl_slist_append(list, line);
        free(line);
    }
    return list;
}

/* Returns the HTTP status, or 0 with `why`: no response. */
static long post(struct sending *s, const struct event_sample *sample,
                 struct buf *response, char why[CURL_ERROR_SIZE])
{
    struct curl_slist *headers = curl_headers(sample);
    CURL *h = s->curl;
    char *url = gr_printf("%s%s%s", s->url, sample->query.len ? "?" : "",
                          sample->query.len ? sample->query.data : "");
    long status = 0;

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
    curl_slist_free_all(headers);
    free(url);
    return status;
}

/* ---- the response ---- */

/* Ingress says why to an operator, not to the sender. */
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

static json_t *result_json(const struct sending *s, long status,
                           const json_t *response,
                           const struct request_summary *f)
{
    json_t *out = json_pack("{s:i, s:s, s:s, s:s, s:s}", "http_status",
                            (int)status, "url", s->url, "source",
                            s->source->name, "type", f->type.data, "workspace",
                            f->workspace.data);

    if (out && s->public_key)
        json_object_set_new(out, "public_key", json_string(s->public_key));
    if (out && status == 401 && s->reason)
        json_object_set_new(out, "reason", json_string(s->reason));
    if (out)
        json_object_update(out, (json_t *)(uintptr_t)response);
    return out;
}

static void print_result(struct sending *s, long status, const struct buf *text,
                         const struct request_summary *f)
{
    char *safe = harmless(text->len ? text->data : "");

    printf("%s%ld%s %s  ", colour_on(status == 200 ? GREEN : RED, s->c->colour),
           status, colour_off(status == 200 ? GREEN : RED, s->c->colour), safe);
    if (*f->refused)
        printf("(but the sequencer will refuse it: %s)\n", f->refused);
    else
        printf("(%s, workspace %s)\n", f->type.data, f->workspace.data);
    free(safe);
}

static void take_response(struct sending *s, const struct event_sample *sample,
                          long status, const struct buf *text)
{
    json_t *response = json_loadb(text->len ? text->data : "", text->len, 0,
                                  NULL);
    struct request_summary f;

    if (status == 401 && !s->reason)
        s->reason = rejects_reason(s->c, s->source->name);
    request_summary_read(
        &f, s->source,
        (struct bytes){sample->headers.data, sample->headers.len},
        (struct bytes){sample->body.data, sample->body.len});
    if (s->c->json)
        json_array_append_new(s->results, result_json(s, status, response, &f));
    else
        print_result(s, status, text, &f);
    if (status == 200)
        s->accepted++;
    else if (s->refused++ == 0 && status == 401)
        explain_401(s, s->reason);
    request_summary_fini(&f);
    json_decref(response);
}

/* One event. The exit code when it must end here, else -1. */
static int send_one(struct sending *s)
{
    char uuid[37], why[200], curl_why[CURL_ERROR_SIZE];
    struct event_sample sample;
    struct buf response;
    long status;
    int code = -1;

    make_uuid(uuid);
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

static int finish(struct sending *s, int code, int64_t count)
{
    if (s->c->json && count == 1) {
        if (json_array_size(s->results))
            print_json(json_incref(json_array_get(s->results, 0)));
    } else if (s->c->json) {
        print_json(json_incref(s->results));
    } else if (count > 1) {
        printf("%lld accepted, %lld refused\n", (long long)s->accepted,
               (long long)s->refused);
        if (s->options.has_body)
            printf("All have the same body, so most may be duplicates.\n");
    }
    if (code >= 0)
        return code;
    return s->refused ? EXIT_REFUSED : 0;
}

static bool read_count(struct ctl *c, int64_t *count)
{
    const char *text = parsed_value(&c->parsed, "--count"), *why;

    *count = 1;
    if (!text || (conf_parse_int(text, count, &why) == GR_OK && *count >= 1 &&
                  *count <= COUNT_MAX))
        return true;
    complain(EXIT_USAGE, "--count: must be a number from 1 to %d, not \"%s\"",
             COUNT_MAX, text);
    return false;
}

/* Of a producer's tokens only hashes are kept, so it has to speak for itself. */
static void show_how_to_publish(const struct ctl *c, const char *name)
{
    char *url = ingress_url(c->settings, "v1/events");

    complain(EXIT_REFUSED,
             "%s is a producer: publish with its token instead:", name);
    fprintf(stderr,
            "  curl -H \"Authorization: Bearer $TOKEN\" %s \\\n"
            "    -d '{\"type\":\"invoice.paid\",\"workspace\":\"acme\","
            "\"data\":{}}'\n",
            url);
    free(url);
}

/* Only sources were read; the names of producers are those of the running
 * processes, or of the file if it can be read whole. */
static bool is_producer(struct ctl *c, const char *name)
{
    json_t *sources, *known;
    struct buf ignored;
    bool among = false;
    size_t i;

    buf_init(&ignored, 64 * 1024);
    sources = find_run_dir(c, &ignored)
                  ? json_object_get(known_names(c), "sources")
                  : NULL;
    buf_fini(&ignored);
    json_array_foreach(sources, i, known)
        among |= strcmp(json_string_value(known), name) == 0;
    return among;
}

/* false: a sentence was printed. */
static bool find_source(struct ctl *c, const struct source **source)
{
    const char *name = c->parsed.args[0];
    struct conf_near near = {.text = name};
    char hint[100];

    *source = settings_source(c->settings, name);
    if (*source)
        return true;
    if (is_producer(c, name)) {
        show_how_to_publish(c, name);
        return false;
    }
    for (size_t i = 0; i < c->settings->source_count; i++)
        conf_near_try(&near, c->settings->sources[i].name);
    complain(EXIT_REFUSED, "%s has no source \"%s\"%s", c->settings->path, name,
             conf_near_hint(&near, hint));
    return false;
}

/* The public half of a key cannot sign: a key pair of our own replaces the
 * provider's. false: a sentence was printed. */
static bool open_key(struct sending *s)
{
    const char *path = parsed_value(&s->c->parsed, "--private-key");
    struct buf half;
    char why[200];
    bool fresh;

    if (!keypair_needed(s->source)) {
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
    char *body = NULL, *path;
    int64_t count;
    int code = -1;

    if (!read_count(c, &count))
        return EXIT_USAGE;
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
                       !keypair_needed(s.source)
                   ? EXIT_USAGE
                   : EXIT_REFUSED;
    }
    s.options.type = parsed_value(&c->parsed, "--type");
    s.options.workspace = parsed_value(&c->parsed, "--workspace");
    path = gr_printf("in/%s", s.source->name);
    s.url = ingress_url(c->settings, path);
    free(path);
    s.results = json_array();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s.curl = curl_easy_init();
    for (int64_t i = 0; i < count && code < 0; i++)
        code = send_one(&s);
    code = finish(&s, code, count);
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
