/* notify: sends notifications by webhook or mail with libcurl, or by a command. */
#include "notify.h"
#include "clock.h"
#include "command.h"
#include "guard.h"
#include "sign.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20, PAYLOAD_MAX_BYTES = 4 * 1024 * 1024 };

/* A notification that is being sent. */
struct job {
    LIST_ENTRY(job) link;
    struct notify_end end;
    bool ended;
    struct command command; /* if the notifier is a program, else: */
    CURL *easy;
    struct curl_slist *headers, *readers;
    struct guard guard; /* owns its networks */
    struct buf payload;
    size_t sent;
    bool blocked;                   /* the guard refused an address: … */
    char address[INET6_ADDRSTRLEN]; /* … this one */
    bool mail;
};
LIST_HEAD(job_list, job);

struct notify {
    CURLM *multi;
    struct job_list jobs;
};

static curl_socket_t on_open(void *self, curlsocktype purpose,
                             struct curl_sockaddr *to)
{
    struct job *j = self;

    (void)purpose;
    if (!guard_allows(&j->guard, &to->addr)) {
        j->blocked = true;
        guard_describe(&to->addr, j->address);
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t ignore(char *p, size_t size, size_t n, void *self)
{
    (void)p, (void)self;
    return size * n;
}

/* ---- webhook ---- */

static void add_header(struct job *j, const char *name, const char *value)
{
    char *line = gr_printf("%s: %s", name, value);
    struct curl_slist *more = curl_slist_append(j->headers, line);

    if (!more)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    j->headers = more;
    free(line);
}

static void sign(struct job *j, const struct notifier *how,
                 const struct message *m)
{
    int64_t now_s = system_ms() / SECOND_MS;
    struct buf secrets, value;
    struct signer signer;
    char stamp[24];

    snprintf(stamp, sizeof stamp, "%lld", (long long)now_s);
    add_header(j, "webhook-id", m->id);
    add_header(j, "webhook-timestamp", stamp);
    buf_init(&secrets, PAYLOAD_MAX_BYTES);
    buf_init(&value, PAYLOAD_MAX_BYTES);
    for (size_t i = 0; i < how->signing_secrets.count; i++)
        buf_printf(&secrets, "%s%s", i ? " " : "",
                   how->signing_secrets.items[i]);
    /* signer_init() accepts the secrets: the reader of the configuration has checked them. */
    if (secrets.len &&
        signer_init(&signer, (struct bytes){secrets.data, secrets.len}) ==
            GR_OK) {
        signer_sign(&signer, m->id, now_s,
                    (struct bytes){j->payload.data, j->payload.len}, &value);
        add_header(j, "webhook-signature", value.data);
    }
    if (secrets.len)
        signer_fini(&signer);
    buf_fini(&secrets);
    buf_fini(&value);
}

static void prepare_webhook(struct job *j, const struct notifier *how,
                            const struct message *m)
{
    CURL *e = j->easy;

    buf_puts(&j->payload, m->body);
    add_header(j, "Content-Type", "application/json");
    add_header(j, "Expect", "");
    sign(j, how, m);
    curl_easy_setopt(e, CURLOPT_URL, how->webhook);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_USERAGENT, "Grapnel/" GRAPNEL_VERSION);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, j->headers);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, j->payload.data);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)j->payload.len);
}

/* ---- mail ---- */

static size_t on_read(char *out, size_t size, size_t n, void *self)
{
    struct job *j = self;
    size_t max = size * n, left = j->payload.len - j->sent;

    if (max > left)
        max = left;
    memcpy(out, j->payload.data + j->sent, max);
    j->sent += max;
    return max;
}

/* RFC 2047: a subject in any language, in encoded words of at most 75 characters. */
static void put_subject(struct buf *out, const char *subject)
{
    enum { PIECE = 42 };
    unsigned char piece[64];
    size_t n = strlen(subject);

    buf_puts(out, "Subject:");
    for (size_t at = 0; at < n;) {
        size_t k = n - at < PIECE ? n - at : PIECE;

        /* Not within a character. */
        while (at + k < n && k > 1 && ((uint8_t)subject[at + k] & 0xc0) == 0x80)
            k--;
        EVP_EncodeBlock(piece, (const unsigned char *)subject + at, (int)k);
        buf_printf(out, "%s =?UTF-8?B?%s?=", at ? "\r\n" : "", piece);
        at += k;
    }
    buf_puts(out, "\r\n");
}

static void prepare_mail(struct job *j, const struct notifier *how,
                         const struct message *m)
{
    time_t now_s = (time_t)(m->now_ms / SECOND_MS);
    const char *at = strchr(how->email.from, '@');
    struct buf *out = &j->payload;
    CURL *e = j->easy;
    char date[64];
    struct tm tm;

    j->mail = true;
    gmtime_r(&now_s, &tm);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S +0000", &tm);
    buf_printf(out, "Date: %s\r\nFrom: Grapnel <%s>\r\nTo: ", date,
               how->email.from);
    for (size_t i = 0; i < how->email.to.count; i++)
        buf_printf(out, "%s<%s>", i ? ",\r\n " : "", how->email.to.items[i]);
    buf_printf(out, "\r\nMessage-ID: <%s%s>\r\n", m->id, at ? at : "@grapnel");
    put_subject(out, m->subject);
    buf_puts(out, "Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
                  "Content-Type: text/plain; charset=utf-8\r\n"
                  "Content-Transfer-Encoding: 8bit\r\n\r\n");
    for (const char *text = m->text; *text; text++)
        if (*text == '\n')
            buf_puts(out, "\r\n");
        else if (*text != '\r')
            buf_put(out, text, 1);
    buf_puts(out, "\r\n");
    for (size_t i = 0; i < how->email.to.count; i++)
        j->readers = curl_slist_append(j->readers, how->email.to.items[i]);
    curl_easy_setopt(e, CURLOPT_URL, how->email.server);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    curl_easy_setopt(e, CURLOPT_MAIL_FROM, how->email.from);
    curl_easy_setopt(e, CURLOPT_MAIL_RCPT, j->readers);
    curl_easy_setopt(
        e, CURLOPT_USE_SSL,
        (long)(how->email.password ? CURLUSESSL_ALL : CURLUSESSL_TRY));
    if (how->email.username)
        curl_easy_setopt(e, CURLOPT_USERNAME, how->email.username);
    if (how->email.password)
        curl_easy_setopt(e, CURLOPT_PASSWORD, how->email.password);
    curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(e, CURLOPT_READDATA, j);
}

/* Makes the easy handle of a webhook or a mail, ready for the multi handle. */
static void prepare(struct job *j, const struct notifier *how,
                    const struct message *m)
{
    const struct allow_private *allow = &how->allow_private;
    size_t bytes = allow->count * sizeof *allow->cidrs;
    CURL *e = j->easy = curl_easy_init();

    if (!e)
        die(EXIT_UNAVAILABLE, "libcurl has no memory");
    j->guard.allow = *allow;
    j->guard.allow.cidrs = gr_alloc(bytes + 1);
    if (bytes)
        memcpy(j->guard.allow.cidrs, allow->cidrs, bytes);
    /* No proxy: the guard would see its address instead of the receiver's. */
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)how->timeout_ms);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, j);
    buf_init(&j->payload, PAYLOAD_MAX_BYTES);
    if (how->webhook)
        prepare_webhook(j, how, m);
    else
        prepare_mail(j, how, m);
}

static void end(struct job *j, CURLcode code)
{
    long status = 0;

    curl_easy_getinfo(j->easy, CURLINFO_RESPONSE_CODE, &status);
    j->ended = true;
    j->end.ok = code == CURLE_OK && (j->mail || status / 100 == 2);
    if (j->blocked)
        snprintf(j->end.why, sizeof j->end.why,
                 "blocked: %s is a private address; to permit it, set "
                 "`allow_private: true` at the notifier",
                 j->address);
    else if (code != CURLE_OK)
        snprintf(j->end.why, sizeof j->end.why, "%s%s",
                 curl_easy_strerror(code), j->mail && status ? " (SMTP)" : "");
    else if (!j->end.ok)
        snprintf(j->end.why, sizeof j->end.why, "it responded %ld", status);
}

/* ---- all of them ---- */

struct notify *notify_open(void)
{
    struct notify *n = gr_alloc(sizeof *n);

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 ||
        !(n->multi = curl_multi_init()))
        die(EXIT_UNAVAILABLE, "libcurl cannot start");
    return n;
}

static void free_job(struct notify *n, struct job *j)
{
    LIST_REMOVE(j, link);
    if (j->easy) {
        curl_multi_remove_handle(n->multi, j->easy);
        curl_easy_cleanup(j->easy);
    }
    curl_slist_free_all(j->headers);
    curl_slist_free_all(j->readers);
    guard_fini(&j->guard);
    buf_fini(&j->payload);
    free(j);
}

void notify_close(struct notify *n)
{
    struct job *j;

    if (!n)
        return;
    while ((j = LIST_FIRST(&n->jobs))) {
        if (!j->ended)
            command_kill(&j->command);
        free_job(n, j);
    }
    curl_multi_cleanup(n->multi);
    curl_global_cleanup();
    free(n);
}

bool notify_busy(const struct notify *n, const char *notifier)
{
    struct job *j;

    LIST_FOREACH(j, &n->jobs, link)
    if (strcmp(j->end.notifier, notifier) == 0)
        return true;
    return false;
}

void notify_begin(struct notify *n, const struct notifier *how,
                  const struct message *m)
{
    struct job *j = gr_alloc(sizeof *j);

    j->end.n = m->n;
    snprintf(j->end.notifier, sizeof j->end.notifier, "%s", how->name);
    LIST_INSERT_HEAD(&n->jobs, j, link);
    if (how->exec.count) {
        j->ended = !command_start(&j->command, how, m, j->end.why);
        return;
    }
    prepare(j, how, m);
    if (curl_multi_add_handle(n->multi, j->easy) != CURLM_OK)
        end(j, CURLE_OUT_OF_MEMORY);
}

int notify_run(struct notify *n, int64_t mono_now_ms)
{
    int running, left;
    struct job *j;
    CURLMsg *msg;

    if (LIST_EMPTY(&n->jobs))
        return -1;
    curl_multi_perform(n->multi, &running);
    while ((msg = curl_multi_info_read(n->multi, &left)))
        if (msg->msg == CURLMSG_DONE)
            LIST_FOREACH(j, &n->jobs, link)
    if (j->easy == msg->easy_handle)
        end(j, msg->data.result);
    LIST_FOREACH(j, &n->jobs, link)
    if (!j->easy && !j->ended)
        j->ended = command_ended(&j->command, mono_now_ms, &j->end.ok,
                                 j->end.why);
    return LOOK_MS;
}

bool notify_ended(struct notify *n, struct notify_end *out)
{
    struct job *j;

    LIST_FOREACH(j, &n->jobs, link)
    {
        if (!j->ended)
            continue;
        *out = j->end;
        free_job(n, j);
        return true;
    }
    return false;
}
