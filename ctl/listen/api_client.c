/* api_client: makes requests to the HTTP API with libcurl, and reads responses and errors. */
#include "api_client.h"
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLY_MAX_BYTES = 128 * 1024 * 1024,
    CONNECT_MS = 5000,
};

void api_client_open(struct api_client *a, const char *console,
                     const char *token, const char *ca,
                     const volatile sig_atomic_t *stop)
{
    size_t n = strlen(console);

    while (n && console[n - 1] == '/')
        n--;
    *a = (struct api_client){.ca = ca, .stop = stop};
    a->base = gr_printf("%.*s/api/v1", (int)n, console);
    a->authorization = gr_printf("Authorization: Bearer %s", token);
    a->curl = curl_easy_init();
    if (!a->curl)
        die(EXIT_UNAVAILABLE, "libcurl is out of memory");
}

void api_client_close(struct api_client *a)
{
    curl_easy_cleanup(a->curl);
    OPENSSL_cleanse(a->authorization, strlen(a->authorization));
    free(a->authorization);
    free(a->base);
}

size_t api_client_collect(char *data, size_t size, size_t n, void *buf)
{
    buf_put(buf, data, size * n);
    return size * n; /* drops what exceeds the limit of the buffer */
}

int api_client_progress(void *stop, curl_off_t a, curl_off_t b, curl_off_t c,
                        curl_off_t d)
{
    const volatile sig_atomic_t *flag = stop;

    (void)a, (void)b, (void)c, (void)d;
    return *flag != 0;
}

/* The message of an error response, or its status. */
static void read_error(struct api_client *a, long status, const json_t *doc)
{
    const json_t *error = json_object_get(doc, "error");
    const char *text = json_string_value(json_object_get(error, "message"));

    snprintf(a->why, sizeof a->why, "%s (%ld)",
             text ? text : "the response is not that of a Grapnel console",
             status);
    text = json_string_value(json_object_get(error, "code"));
    snprintf(a->code, sizeof a->code, "%s", text ? text : "");
}

static struct curl_slist *headers_of(const struct api_client *a,
                                     const struct api_call *call)
{
    struct curl_slist *all = curl_slist_append(NULL, a->authorization);
    char *key;

    all = curl_slist_append(all, "Expect:");
    all = curl_slist_append(all, "Content-Type: application/json");
    if (call->if_match)
        all = curl_slist_append(all, "If-Match: *");
    if (call->key) {
        key = gr_printf("Idempotency-Key: %s", call->key);
        all = curl_slist_append(all, key);
        free(key);
    }
    return all;
}

long api_client_ask(struct api_client *a, struct api_call call, json_t **reply)
{
    static const volatile sig_atomic_t never = 0;
    struct curl_slist *headers = headers_of(a, &call);
    char *url = gr_printf("%s%s", a->base, call.path);
    char *text = call.body ? json_dumps(call.body, JSON_COMPACT) : NULL;
    char curl_why[CURL_ERROR_SIZE] = "";
    CURL *h = a->curl;
    struct buf response;
    json_t *doc = NULL;
    long status = 0;
    CURLcode code;

    buf_init(&response, REPLY_MAX_BYTES);
    curl_easy_setopt(h, CURLOPT_URL, url);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)call.timeout_ms);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, call.method);
    if (text)
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, text);
    if (a->ca)
        curl_easy_setopt(h, CURLOPT_CAINFO, a->ca);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, api_client_collect);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, &response);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, curl_why);
    curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, api_client_progress);
    curl_easy_setopt(h, CURLOPT_XFERINFODATA,
                     call.interruptible ? a->stop : &never);
    code = curl_easy_perform(h);
    if (code == CURLE_OK)
        curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_reset(h); /* it must not keep what ends here */
    a->why[0] = 0;
    a->code[0] = 0;
    if (status)
        doc = json_loadb(response.data ? response.data : "", response.len, 0,
                         NULL);
    if (!status) {
        snprintf(a->why, sizeof a->why, "%s: %s", a->base,
                 *curl_why ? curl_why : curl_easy_strerror(code));
    } else if (status != 200 || !json_is_object(doc)) {
        read_error(a, status, doc);
        json_decref(doc);
        doc = NULL;
        status = status == 200 ? 502 : status;
    }
    *reply = doc;
    buf_fini(&response);
    curl_slist_free_all(headers);
    json_decref(call.body);
    free(call.path);
    free(text);
    free(url);
    return status;
}
