/* listen_command: `grapnel listen`: takes the deliveries of a pull endpoint, forwards each to a URL,
 * and shows each request and response. Without an endpoint, it makes a temporary one, and deletes
 * it at the end. */
#include "api_client.h"
#include "bounds.h"
#include "clock.h"
#include "encoding.h"
#include "exchange.h"
#include "json_text.h"
#include "table.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    TAKE_COUNT = 10,
    WAIT_S = 20,
    LEASE_MS = 60 * 1000,
    FORWARD_MS = 30 * 1000,
    CONNECT_MS = 5000,
    REQUEST_MS = 15 * 1000,
    END_MS = 5000, /* for the last requests, after Ctrl-C */
    AGAIN_MIN_MS = 500,
    AGAIN_MAX_MS = 5000,
    /* Of a delivery that nobody received: doubled with each attempt. */
    RETRY_DELAY_S = 5,
    RETRY_DELAY_MAX_S = 60,
    TRIES = 5,
    GIVE_BACK_MS = 2000,
    EXCHANGE_MAX_BYTES = 64 * 1024,
    SHOWN_BYTES = 1024,
    TOKEN_MAX_BYTES = 4096,
    KEY_BYTES = 33,
};

static volatile sig_atomic_t stop; /* how many signals came */

static void on_signal(int signo)
{
    (void)signo;
    stop++;
    if (stop > 2)
        _exit(130);
}

/* As CLOCK_MONOTONIC, but time in which the machine sleeps counts: leases end meanwhile. */
static int64_t boot_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct listening {
    struct ctl *c;
    struct api_client api;
    CURL *forward; /* NULL: only show */
    const char *url;
    char endpoint[NAME_MAX_BYTES + 1]; /* "": there is none */
    bool temporary;                    /* it is to be deleted */
    char key[KEY_BYTES];               /* of the next take */
    bool sent;                         /* a take with this key */
    bool listens;                      /* a take has succeeded */
    int failures;                      /* takes that failed, in a row */
    bool away;                         /* the console's absence was reported */
    bool bodies;
};

static void new_key(char key[KEY_BYTES])
{
    unsigned char b[16];

    if (getrandom(b, sizeof b, 0) != sizeof b)
        die(EXIT_UNAVAILABLE, "cannot get random bytes");
    for (size_t i = 0; i < sizeof b; i++)
        snprintf(key + 2 * i, 3, "%02x", b[i]);
}

static void next_take(struct listening *l)
{
    new_key(l->key);
    l->sent = false;
}

/* Ends early at a signal. */
static void sleep_ms(int ms)
{
    if (!stop)
        poll(NULL, 0, ms);
}

/* ---- the temporary endpoint ---- */

/* {"sources": ["plane"], …}; the caller's. */
static json_t *wanted_events(const struct ctl *c)
{
    static const char *const lists[][2] = {{"--source", "sources"},
                                           {"--type", "types"},
                                           {"--workspace", "workspaces"}};
    json_t *out = json_pack("{s:o}", "description",
                            json_sprintf("grapnel listen of %s", user_name()));

    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        const char *text = parsed_value(&c->parsed, lists[i][0]);
        json_t *list = text ? json_array() : NULL;

        while (text && *text) {
            size_t n = strcspn(text, ",");
            char *one = gr_strndup(text, n);

            json_array_append_new(list, json_text_of(one));
            free(one);
            text += n + (text[n] == ',');
        }
        if (list)
            json_object_set_new(out, lists[i][1], list);
    }
    return out;
}

/* -1, or the exit code. Goes on after Ctrl-C, with the same key: if a request that had no response
 * made the endpoint, its repetition names it, and it can be deleted. */
static int make_endpoint(struct listening *l)
{
    char key[KEY_BYTES];
    json_t *reply = NULL;
    long status = 0;

    new_key(key);
    for (int i = 0;
         i < TRIES && stop < 2 && !reply && (status == 0 || status >= 500);
         i++) {
        if (i)
            poll(NULL, 0, AGAIN_MIN_MS << i);
        status = api_client_ask(
            &l->api,
            (struct api_call){.method = "POST",
                              .path = gr_strdup("/temporary-endpoints"),
                              .body = wanted_events(l->c),
                              .key = key,
                              .timeout_ms = stop ? END_MS : REQUEST_MS},
            &reply);
        if (!status && stop)
            break;
    }
    if (reply)
        snprintf(l->endpoint, sizeof l->endpoint, "%s", text_of(reply, "name"));
    json_decref(reply);
    if (*l->endpoint)
        return -1;
    return complain(status ? EXIT_REFUSED : EXIT_UNAVAILABLE, "%s", l->api.why);
}

static int delete_endpoint(struct listening *l)
{
    json_t *reply = NULL;
    long status = 0;

    for (int i = 0; i < TRIES && stop < 2; i++) {
        if (i)
            poll(NULL, 0, AGAIN_MIN_MS);
        status = api_client_ask(
            &l->api,
            (struct api_call){
                .method = "DELETE",
                .path = gr_printf("/temporary-endpoints/%s", l->endpoint),
                .if_match = true,
                .timeout_ms = END_MS},
            &reply);
        json_decref(reply);
        if (status == 200 || status == 404)
            return 0;
        if (status && status < 500)
            break;
    }
    return complain(EXIT_REFUSED,
                    "the temporary endpoint %s was not deleted: %s. `grapnel "
                    "endpoints` shows when it ends",
                    l->endpoint,
                    status || *l->api.why ? l->api.why : "aborted");
}

/* ---- forwarding ---- */

/* Headers that belong to one connection. */
static bool is_forwarded(const char *name)
{
    static const char *const not_these[] = {"host", "content-length",
                                            "connection", "transfer-encoding"};

    for (size_t i = 0; i < COUNT_OF(not_these); i++)
        if (strcasecmp(name, not_these[i]) == 0)
            return false;
    return true;
}

static struct curl_slist *headers_of(const json_t *delivery)
{
    struct curl_slist *out = curl_slist_append(NULL, "Expect:");
    json_t *pair;
    size_t i;

    json_array_foreach(json_object_get(delivery, "headers"), i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0));
        const char *value = json_string_value(json_array_get(pair, 1));
        char *line;

        if (!name || !value || !is_forwarded(name) || strpbrk(value, "\r\n"))
            continue;
        line = *value ? gr_printf("%s: %s", name, value)
                      : gr_printf("%s;", name);
        out = curl_slist_append(out, line);
        free(line);
    }
    return out;
}

/* The body, owned by the caller. */
static struct bytes body_of(const json_t *delivery)
{
    const json_t *text = json_object_get(delivery, "body");
    const json_t *coded = json_object_get(delivery, "body_base64");
    size_t n = json_string_length(json_is_string(text) ? text : coded);
    char *out = gr_alloc(n + 1);
    int got = (int)n;

    if (json_is_string(text))
        memcpy(out, json_string_value(text), n);
    else
        got = encoding_base64((struct bytes){json_string_value(coded), n},
                              (uint8_t *)out, n);
    return (struct bytes){out, got < 0 ? 0 : (size_t)got};
}

struct exchange {
    long status; /* 0: no response */
    int64_t ms;
    char why[CURL_ERROR_SIZE];
    struct buf response;
};

/* The event was processed. */
static bool is_good(const struct exchange *x)
{
    return x->status >= 200 && x->status < 300;
}

static void forward(struct listening *l, const json_t *delivery,
                    struct bytes body, struct exchange *x)
{
    struct curl_slist *headers = headers_of(delivery);
    int64_t began = mono_ms();
    CURL *h = l->forward;
    CURLcode code;

    curl_easy_setopt(h, CURLOPT_URL, l->url);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)FORWARD_MS);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, body.p);
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, api_client_collect);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &x->response);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->why);
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, api_client_progress);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA, &stop);
    code = curl_easy_perform(h);
    if (code == CURLE_OK)
        curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &x->status);
    else if (!*x->why)
        snprintf(x->why, sizeof x->why, "%s", curl_easy_strerror(code));
    curl_easy_reset(h); /* it must not keep what ends here */
    curl_slist_free_all(headers);
    x->ms = mono_ms() - began;
}

/* ---- what is shown ---- */

static void show_request(const struct listening *l, const json_t *delivery,
                         struct bytes body)
{
    int64_t attempt = integer_of(delivery, "attempt");

    if (l->c->json)
        return;
    printf("%s  %s%s%s  %s  workspace %s", time_of(delivery, "received_at"),
           colour_on(BOLD, l->c->colour), text_of(delivery, "type"),
           colour_off(BOLD, l->c->colour), text_of(delivery, "event_id"),
           text_of(delivery, "workspace"));
    if (attempt > 1)
        printf("  attempt %lld", (long long)attempt);
    printf("\n");
    if (l->bodies) {
        exchange_headers(json_object_get(delivery, "headers"), "  > ");
        exchange_body(body, "  > ", SHOWN_BYTES);
    }
    fflush(stdout);
}

static int retry_delay_s(const json_t *delivery)
{
    int64_t attempt = integer_of(delivery, "attempt");
    int s = RETRY_DELAY_S;

    while (--attempt > 0 && s < RETRY_DELAY_MAX_S)
        s *= 2;
    return s < RETRY_DELAY_MAX_S ? s : RETRY_DELAY_MAX_S;
}

static void show_response(const struct listening *l, const json_t *delivery,
                          const struct exchange *x)
{
    struct bytes body = {x->response.data ? x->response.data : "",
                         x->response.len};
    bool good = is_good(x);
    char *why = harmless(x->why);

    if (l->c->json) {
        json_t *line = json_pack(
            "{s:O,s:O,s:O,s:O,s:o,s:o,s:I,s:o}", "event_id",
            json_object_get(delivery, "event_id"), "type",
            json_object_get(delivery, "type"), "workspace",
            json_object_get(delivery, "workspace"), "attempt",
            json_object_get(delivery, "attempt"), "http_status",
            json_number_or_null(x->status), "error",
            json_text_or_null(x->status ? "" : why), "duration_ms",
            (json_int_t)x->ms, "response", json_text(body));
        char *text = json_dumps(line, JSON_COMPACT);

        printf("%s\n", text);
        json_decref(line);
        free(text);
    } else if (!l->forward) {
        printf("  shown\n");
    } else if (x->status) {
        printf("  %s%ld%s  POST %s  %lld ms%s\n",
               colour_on(good ? GREEN : RED, l->c->colour), x->status,
               colour_off(good ? GREEN : RED, l->c->colour), l->url,
               (long long)x->ms, good ? "" : "; again by the retry policy");
        if (l->bodies)
            exchange_body(body, "  < ", SHOWN_BYTES);
    } else {
        printf("  %sno response%s  POST %s  %s; again in %d s\n",
               colour_on(RED, l->c->colour), colour_off(RED, l->c->colour),
               l->url, why, retry_delay_s(delivery));
    }
    free(why);
    fflush(stdout);
}

/* ---- takes ---- */

/* "ack" or "retry", for one delivery; tried for as long as its lease may run. delay_s -1: as the
 * retry policy says. */
static void end_delivery(struct listening *l, const char *how, const char *take,
                         const char *event, int delay_s, const char *note)
{
    json_t *reply = NULL;
    long status = 0;

    for (int i = 0; i < TRIES; i++) {
        json_t *body = json_pack("{s:s,s:[s]}", "take", take, "deliveries",
                                 event);

        if (i)
            poll(NULL, 0, AGAIN_MIN_MS << i);
        if (delay_s >= 0)
            json_object_set_new(body, "delay", json_sprintf("%ds", delay_s));
        if (note)
            json_object_set_new(body, "note", json_text_of(note));
        status = api_client_ask(
            &l->api,
            (struct api_call){
                .method = "POST",
                .path = gr_printf("/pull/%s/%s", l->endpoint, how),
                .body = body,
                .timeout_ms = stop ? END_MS : REQUEST_MS},
            &reply);
        json_decref(reply);
        if ((status && status < 500) || stop)
            break;
    }
    if (status != 200)
        complain(0, "%s: it was not acknowledged, and may come again: %s",
                 event, l->api.why);
}

static void process(struct listening *l, const char *take,
                    const json_t *delivery, bool in_time)
{
    const char *event = json_string_value(
        json_object_get(delivery, "event_id"));
    struct exchange x = {.status = 0};
    char note[150];
    struct bytes body;

    if (stop || !in_time) { /* it comes again */
        end_delivery(l, "retry", take, event, 0, NULL);
        return;
    }
    body = body_of(delivery);
    buf_init(&x.response, EXCHANGE_MAX_BYTES);
    show_request(l, delivery, body);
    if (l->forward)
        forward(l, delivery, body, &x);
    if (!stop || x.status)
        show_response(l, delivery, &x);
    if (is_good(&x) || !l->forward) {
        end_delivery(l, "ack", take, event, -1, NULL);
    } else if (x.status) {
        snprintf(note, sizeof note, "responded %ld", x.status);
        end_delivery(l, "retry", take, event, -1, note);
    } else {
        snprintf(note, sizeof note, "%.140s", *x.why ? x.why : "no response");
        end_delivery(l, "retry", take, event,
                     stop ? 0 : retry_delay_s(delivery), note);
    }
    buf_fini(&x.response);
    free((char *)(uintptr_t)body.p);
}

/* The same request as long as the key is the same. The first take does not wait for deliveries: it
 * tells whether there can be any. */
static long ask_take(struct listening *l, bool interruptible, int timeout_ms,
                     json_t **reply)
{
    return api_client_ask(
        &l->api,
        (struct api_call){
            .method = "POST",
            .path = gr_printf("/pull/%s/take", l->endpoint),
            .body = json_pack("{s:i,s:o,s:o}", "max", TAKE_COUNT, "wait",
                              json_sprintf("%ds", l->listens ? WAIT_S : 0),
                              "lease", json_sprintf("%ds", LEASE_MS / 1000)),
            .key = l->key,
            .timeout_ms = timeout_ms,
            .interruptible = interruptible},
        reply);
}

/* After Ctrl-C interrupted a take: if it was made all the same, its deliveries need not wait for the
 * end of the lease. A repetition gets the same take at once, or 409 if it still waits; then the
 * console notices that nobody does. */
static void give_back(struct listening *l)
{
    json_t *reply = NULL, *delivery;
    size_t i;

    ask_take(l, false, GIVE_BACK_MS, &reply);
    json_array_foreach(json_object_get(reply, "deliveries"), i, delivery)
        end_delivery(l, "retry", text_of(reply, "take"),
                     text_of(delivery, "event_id"), 0, NULL);
    json_decref(reply);
}

/* Whether a repetition of the first take would be refused, too, until somebody changes the
 * endpoint. */
static bool is_final(const struct listening *l, long status, bool repeated)
{
    if (l->listens)
        return false;
    return status == 400 ||
           (status == 409 && !repeated && strcmp(l->api.code, "refused") == 0);
}

static void begin(struct listening *l)
{
    l->listens = true;
    if (!l->c->json)
        fprintf(stderr, "Listening to the %sendpoint %s%s%s. Ctrl-C ends it.\n",
                l->temporary ? "temporary " : "", l->endpoint,
                l->forward ? ", forwarding to " : "", l->forward ? l->url : "");
}

/* -1: continue, or the exit code. */
static int take(struct listening *l, int *wait_ms)
{
    int64_t asked_ms = boot_ms();
    json_t *reply = NULL, *delivery;
    const char *id;
    bool repeated = l->sent;
    long status = ask_take(l, true, WAIT_S * 1000 + REQUEST_MS, &reply);
    size_t i;

    l->sent = true;
    *wait_ms = 0;
    if (stop && status != 200) {
        if (!status)
            give_back(l);
        return -1;
    }
    if (status == 401 || status == 403 || is_final(l, status, repeated))
        return complain(EXIT_REFUSED, "%s", l->api.why);
    if (status == 404) {
        if (!l->temporary)
            return complain(EXIT_REFUSED, "%s", l->api.why);
        l->temporary = false;
        return complain(EXIT_REFUSED,
                        "the temporary endpoint %s has ended: it was deleted, "
                        "or was not used for too long",
                        l->endpoint);
    }
    if (status == 409) /* the take of this key may have ended: the next one */
        next_take(l);
    if (status != 200) {
        *wait_ms = AGAIN_MIN_MS;
        if (!l->away && (status != 409 || l->failures++ > 0)) {
            complain(0, "%s; trying again", l->api.why);
            l->away = true;
        }
        return -1;
    }
    l->failures = 0;
    if (l->away)
        complain(0, "the console responds again");
    l->away = false;
    if (!l->listens)
        begin(l);
    next_take(l);
    id = json_string_value(json_object_get(reply, "take"));
    json_array_foreach(json_object_get(reply, "deliveries"), i, delivery)
        process(l, id, delivery,
                boot_ms() - asked_ms <
                    WAIT_S * 1000 + LEASE_MS - FORWARD_MS - REQUEST_MS);
    json_decref(reply);
    return -1;
}

/* ---- the command ---- */

/* The address of this machine's console; the caller's. */
static char *own_console(const struct settings *s)
{
    const char *host = s->console.host;

    if (!*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "*") == 0)
        host = "127.0.0.1";
    if (strcmp(host, "::") == 0 || strcmp(host, "[::]") == 0)
        host = "::1";
    return gr_printf(
        strchr(host, ':') && *host != '[' ? "%s://[%s]:%d" : "%s://%s:%d",
        s->console.tls.certificate ? "https" : "http", host, s->console.port);
}

/* --token, $GRAPNEL_TOKEN, or one of this machine's configuration; the caller's. NULL: the error
 * was printed. */
static char *token_of(struct ctl *c)
{
    const char *text = parsed_value(&c->parsed, "--token");
    char *out;
    size_t n = 0;

    text = text ? text : getenv("GRAPNEL_TOKEN");
    if (!text && c->settings && c->settings->console.tokens.count)
        return gr_strdup(c->settings->console.tokens.items[0]);
    if (!text) {
        complain(EXIT_USAGE,
                 "a token is needed, of the role operator: --token file:PATH, "
                 "or the variable GRAPNEL_TOKEN; `grapnel tokens create NAME "
                 "--role operator` makes one");
        return NULL;
    }
    if (strncmp(text, "file:", 5) != 0)
        return gr_strdup(text);
    out = read_file(text + 5, TOKEN_MAX_BYTES, &n);
    if (out)
        out[strcspn(out, " \t\r\n")] = 0;
    return out;
}

static int listen_on(struct listening *l)
{
    int wait_ms = 0, again_ms = AGAIN_MIN_MS, deleted,
        code = l->temporary ? make_endpoint(l) : -1;

    if (code >= 0)
        return code;
    next_take(l);
    while (!stop && code < 0) {
        code = take(l, &wait_ms);
        again_ms = !wait_ms                      ? AGAIN_MIN_MS
                   : 2 * again_ms > AGAIN_MAX_MS ? AGAIN_MAX_MS
                                                 : 2 * again_ms;
        if (wait_ms)
            sleep_ms(again_ms);
        if (ferror(stdout) && code < 0)
            code = complain(EXIT_STORAGE, "cannot write to standard output");
    }
    deleted = l->temporary ? delete_endpoint(l) : 0;
    return code > 0 ? code : deleted;
}

static bool is_url(const char *text)
{
    return strncmp(text, "http://", 7) == 0 ||
           strncmp(text, "https://", 8) == 0;
}

int run_listen(struct ctl *c)
{
    static const char *const keys[] = {"console", "include", NULL};
    const char *console = parsed_value(&c->parsed, "--console");
    struct listening l = {.c = c,
                          .temporary = c->parsed.arg_count == 0,
                          .url = parsed_value(&c->parsed, "--forward-to"),
                          .bodies = parsed_value(&c->parsed, "--bodies")};
    struct sigaction act = {.sa_handler = on_signal};
    char *token, *own = NULL;
    int code = EXIT_USAGE;

    if (!l.temporary && is_url(c->parsed.args[0]))
        return complain(EXIT_USAGE,
                        "%s is a URL, and not the name of an endpoint: did you "
                        "mean --forward-to %s?",
                        c->parsed.args[0], c->parsed.args[0]);
    if (!l.temporary && (parsed_value(&c->parsed, "--source") ||
                         parsed_value(&c->parsed, "--type") ||
                         parsed_value(&c->parsed, "--workspace")))
        return complain(EXIT_USAGE,
                        "--source, --type and --workspace are for a temporary "
                        "endpoint: leave out %s, whose subscription is its own",
                        c->parsed.args[0]);
    if (!l.temporary)
        snprintf(l.endpoint, sizeof l.endpoint, "%s", c->parsed.args[0]);
    if (!console) {
        need_settings(c, keys,
                      "the address of the console is there; --console names "
                      "another one");
        console = own = own_console(c->settings);
    }
    token = token_of(c);
    if (token) {
        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        sigaction(SIGHUP, &act, NULL);
        signal(SIGPIPE, SIG_IGN); /* it deletes its endpoint, too */
        curl_global_init(CURL_GLOBAL_DEFAULT);
        api_client_open(&l.api, console, token,
                        parsed_value(&c->parsed, "--ca"), &stop);
        l.forward = l.url ? curl_easy_init() : NULL;
        code = listen_on(&l);
        curl_easy_cleanup(l.forward);
        api_client_close(&l.api);
        curl_global_cleanup();
        explicit_bzero(token, strlen(token));
    }
    free(token);
    free(own);
    return code;
}
