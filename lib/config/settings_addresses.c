/* settings_addresses: URLs, addresses to listen at, and networks. */
#include "settings_types.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define HOST_LETTERS                       \
    "abcdefghijklmnopqrstuvwxyz0123456789" \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._"

static bool is_port(const char *text)
{
    const char *why;
    int64_t n;

    return conf_parse_int(text, &n, &why) == GR_OK && n >= 1 && n <= 65535;
}

static bool is_ipv6(const char *text, size_t n)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr a;

    if (n >= sizeof copy)
        return false;
    snprintf(copy, sizeof copy, "%.*s", (int)n, text);
    return inet_pton(AF_INET6, copy, &a) == 1;
}

/* Whether the text after the host is empty, or a port. */
static bool rest_is_port(const char *rest, size_t n)
{
    char port[8];

    if (n == 0)
        return true;
    if (*rest != ':' || n > 6)
        return false;
    snprintf(port, sizeof port, "%.*s", (int)n - 1, rest + 1);
    return is_port(port);
}

static const char *wrong_authority(const char *text, size_t n)
{
    const char *end;
    size_t host;

    if (memchr(text, '@', n))
        return "must not contain a user or a password: use headers";
    if (n && *text == '[') {
        end = memchr(text, ']', n);
        if (!end || !is_ipv6(text + 1, (size_t)(end - text) - 1))
            return "has no valid address between [ and ]";
        host = (size_t)(end - text) + 1;
    } else {
        host = strspn(text, HOST_LETTERS);
        if (host > n)
            host = n;
        if (host == 0)
            return "has no valid host name";
    }
    return rest_is_port(text + host, n - host)
               ? NULL
               : "has no valid host name, or no valid port after it";
}

const char *wrong_publish(const char *text)
{
    const char *rest = text + strlen("tcp://"), *colon;

    if (strncmp(text, "ipc://", 6) == 0)
        return strchr("@*", text[6]) ? "has no path of a file" : NULL;
    if (strncmp(text, "tcp://", 6) != 0)
        return "is not a ZeroMQ address such as tcp://127.0.0.1:7464 or "
               "ipc:///run/grapnel/metrics";
    colon = strrchr(rest, ':');
    if (!colon || colon == rest || !is_port(colon + 1))
        return "has no host, or no port after it";
    if (*rest == '['
            ? colon[-1] != ']' || !is_ipv6(rest + 1, (size_t)(colon - rest) - 2)
            : strncmp(rest, "*:", 2) != 0 &&
                  strspn(rest, HOST_LETTERS) != (size_t)(colon - rest))
        return "has no valid host name";
    return NULL;
}

/* Whether the host of this origin is this machine, so that nobody else reads what is sent to it. */
static bool is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t n = strlen(names[i]);

        if (strncmp(host, names[i], n) == 0 && (!host[n] || host[n] == ':'))
            return true;
    }
    return false;
}

/* Browsers write the host in small letters, and leave out the usual port. An origin is compared as text, and is part
 * of a header. */
const char *wrong_origin(const char *text)
{
    bool https = strncmp(text, "https://", 8) == 0;
    const char *host = text + (https ? 8 : 7), *port;

    if (!https && strncmp(text, "http://", 7) != 0)
        return "is not an origin such as https://app.example.com";
    if (!https && !is_loopback(host))
        return "must begin with https://; http:// is possible only for "
               "localhost, 127.0.0.1 and [::1]";
    if (host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:[]")])
        return "must have only the scheme, a host in small letters and maybe "
               "a port: no path, no / at the end, no *";
    if (wrong_authority(host, strlen(host)))
        return "has no valid host name, or no valid port after it";
    port = strrchr(host, ':');
    if (port && !strchr(port, ']') &&
        (strcmp(port, https ? ":443" : ":80") == 0 || port[1] == '0'))
        return "has the usual port of its scheme, which browsers leave out, "
               "or a port that begins with 0";
    return NULL;
}

const char *wrong_host_name(const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || n > 253 || *text == '.' || strspn(text, HOST_LETTERS) != n)
        return "is not a host name such as metrics.example.com (without scheme "
               "and port)";
    return NULL;
}

const char *wrong_peer_address(const char *text)
{
    static const char wrong[] = "is not host:port, such as 10.0.0.2:7470, "
                                "[fd00::2]:7470 or sequencer.internal:7470";
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *host;
    bool named;

    if (!n || !is_port(colon + 1))
        return wrong;
    if (strtol(colon + 1, NULL, 10) > 65533)
        return "uses one of the last two ports, and the next two are needed, "
               "too: choose a lower one";
    if (n > 2 && text[0] == '[' && text[n - 1] == ']')
        return is_ipv6(text + 1, n - 2) ? NULL : wrong;
    host = gr_strndup(text, n);
    named = !wrong_host_name(host);
    free(host);
    return named ? NULL : wrong;
}

static const char *wrong_url_letters(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127 ||
            strchr("\\\"<>^`{|}", *text))
            return "has a character that must be %-encoded in a URL";
        else if (*text == '#')
            return "has a fragment (#), which is never sent: remove it";
    return NULL;
}

const char *wrong_url(const char *text)
{
    const char *wrong = wrong_url_letters(text), *host;

    if (wrong)
        return wrong;
    if (strncasecmp(text, "https://", 8) == 0)
        host = text + 8;
    else if (strncasecmp(text, "http://", 7) == 0)
        host = text + 7;
    else
        return "must begin with https:// or http://";
    return wrong_authority(host, strcspn(host, "/?"));
}

const char *wrong_public_url(const char *text)
{
    return strchr(text, '?')
               ? "must not have a query: Grapnel adds the query of each request"
               : wrong_url(text);
}

/* `.` or `..`, as itself or %-encoded. */
static bool is_dots(const char *p, size_t n)
{
    size_t dots = 0;

    for (; n; dots++) {
        size_t step = *p == '.' ? 1 : 3;

        if (n < step || (step == 3 && strncasecmp(p, "%2e", 3) != 0))
            return false;
        p += step;
        n -= step;
    }
    return dots == 1 || dots == 2;
}

static bool has_dot_segment(const char *url)
{
    const char *path = strstr(url, "://") + 3, *end = path + strcspn(path, "?");

    while (path < end) {
        size_t n = strcspn(path, "/?");

        if (is_dots(path, n))
            return true;
        path += n + 1;
    }
    return false;
}

/* Placeholders such as {source} may only be after the host: an event must not choose the
 * server. */
const char *wrong_url_template(const char *text)
{
    static const char *const names[] = {"{source}", "{workspace}", "{type}",
                                        "{from}",   "{to}",        "{gap}"};
    size_t host = strcspn(text, "{"), n;
    char *plain = gr_strdup(text), *brace;
    const char *wrong = NULL;

    while (!wrong && (brace = strchr(plain, '{')) != NULL) {
        for (n = 0; n < COUNT_OF(names); n++)
            if (strncmp(brace, names[n], strlen(names[n])) == 0)
                break;
        if (n == COUNT_OF(names))
            wrong = "may contain {source} {workspace} {type} {from} {to} {gap} "
                    "and no other braces";
        else
            memset(brace, 'x', strlen(names[n]));
    }
    if (!wrong)
        wrong = wrong_url(plain);
    if (!wrong && has_dot_segment(plain))
        wrong = "must not have . or .. in its path";
    if (!wrong && text[host]) {
        brace = strstr(plain, "://") + 3;
        if (strcspn(brace, "/?") > host - (size_t)(brace - plain))
            wrong = "must not have braces in the host";
    }
    free(plain);
    return wrong;
}

static void read_url(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    conf_as_string.read(v, k, target);
}

/* A query may hold a token. */
static void print_url(struct buf *out, const struct conf_key *k,
                      const void *target, int indent)
{
    const char *url = *(const char *const *)target, *query = strchr(url, '?');
    char *shown = query ? gr_printf("%.*s?…", (int)(query - url), url)
                        : gr_strdup(url);

    (void)k, (void)indent;
    buf_puts(out, " ");
    conf_put_text(out, shown);
    buf_puts(out, "\n");
    free(shown);
}

const struct conf_type conf_as_url = {
    .name = "URL",
    .read = read_url,
    .print = print_url,
    .unset = settings_unset_pointer,
    .fini = settings_fini_pointer,
};

/* ---- address:port ---- */

/* The host of "host:port" or "[host]:port", or NULL. */
static char *listen_host(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    struct in_addr a;
    char *host;

    if (!colon || !is_port(colon + 1))
        return NULL;
    if (n > 2 && text[0] == '[' && text[n - 1] == ']')
        return is_ipv6(text + 1, n - 2) ? gr_strndup(text + 1, n - 2) : NULL;
    host = gr_strndup(text, n);
    if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &a) == 1)
        return host;
    free(host);
    return NULL;
}

static void read_listen(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    char *text = conf_scalar(v, "address:port"), **host = target;

    if (!text)
        return;
    free(*host);
    *host = listen_host(text);
    if (*host) {
        conf_remember(v, *host);
        *(int *)settings_count_at(k, target) = (int)strtol(
            strrchr(text, ':') + 1, NULL, 10);
    } else {
        conf_error(v,
                   "\"%.60s\" is not address:port, such as 127.0.0.1:8080 or "
                   "[::1]:8080",
                   text);
    }
    free(text);
}

static void print_listen(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    const char *host = *(const char *const *)target;
    bool six = strchr(host, ':') != NULL;

    (void)indent;
    buf_printf(out, " \"%s%s%s:%d\"\n", six ? "[" : "", host, six ? "]" : "",
               *(const int *)settings_count_at(k, target));
}

const struct conf_type conf_as_listen = {
    .name = "address:port",
    .read = read_listen,
    .print = print_listen,
    .fini = settings_fini_pointer,
};

/* ======== networks: 10.0.0.0/8, fd00::/8; an address alone is the network of that one ======== */

static void add_network(const struct conf_value *v, const char *meant,
                        struct cidr **list, size_t *count)
{
    char *text = conf_scalar(v, meant);
    const char *wrong;
    struct cidr c;

    if (!text)
        return;
    wrong = network_parse(&c, text);
    if (wrong) {
        conf_error(v, "\"%.60s\" %s", text, wrong);
    } else {
        *list = gr_realloc(*list, (*count + 1) * sizeof c);
        (*list)[(*count)++] = c;
    }
    free(text);
}

static void add_networks(const struct conf_value *v, const char *meant,
                         struct cidr **list, size_t *count)
{
    size_t n = conf_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_network(&item, meant, list, count);
    }
}

static void put_networks(struct buf *out, const struct cidr *list, size_t n)
{
    buf_puts(out, " [");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ", \"" : "\"");
        network_put(&list[i], out);
        buf_puts(out, "\"");
    }
    buf_puts(out, "]\n");
}

/* ---- true, false, or networks ---- */

static void read_private(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    struct allow_private *a = target;

    (void)k;
    a->all = conf_is_word(v, "true");
    if (!a->all && !conf_is_word(v, "false"))
        add_networks(v, "true, false, or a network", &a->cidrs, &a->count);
}

static void print_private(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct allow_private *a = target;

    (void)k, (void)indent;
    if (a->count)
        put_networks(out, a->cidrs, a->count);
    else
        buf_puts(out, a->all ? " true\n" : " false\n");
}

static void fini_private(const struct conf_key *k, void *target)
{
    struct allow_private *a = target;

    (void)k;
    free(a->cidrs);
    *a = (struct allow_private){0};
}

const struct conf_type conf_as_allow_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_private,
    .print = print_private,
    .fini = fini_private,
};

/* ---- a list of networks ---- */

static void read_networks(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    add_networks(v, "a network such as 10.0.0.0/8", target,
                 settings_count_at(k, target));
}

static void print_networks(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    (void)indent;
    put_networks(out, *(struct cidr *const *)target,
                 *(const size_t *)settings_count_at(k, target));
}

static void fini_networks(const struct conf_key *k, void *target)
{
    settings_fini_pointer(k, target);
    *(size_t *)settings_count_at(k, target) = 0;
}

const struct conf_type conf_as_networks = {
    .name = "list of networks",
    .read = read_networks,
    .print = print_networks,
    .fini = fini_networks,
};
