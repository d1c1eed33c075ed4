#include "settings_types.h"
#include "bounds.h"
#include "headers.h"
#include "signature.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* Sockets in it are called NAME.control and the supervisor's own gets a
     * number behind; all of it must stay below sun_path's 108. */
    RUN_DIR_MAX_BYTES = 80,
    STATUS_LEAST = 400,
    STATUS_MOST = 599,
};

#define WAIT_MAX_MS (3650 * 24 * 3600 * 1000LL)

static void *second_target(const struct conf_key *k, const void *target)
{
    return (char *)(uintptr_t)target - k->offset + k->count_offset;
}

/* ---- what is wrong with a text ---- */

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

const char *wrong_name(const char *text)
{
    size_t n = strlen(text);

    if (n > NAME_MAX_BYTES)
        return "is too long: a name has at most 63 letters";
    if (strspn(text, NAME_LETTERS "_-") != n || *text == '-' || *text == '_')
        return "is no name: a-z, 0-9, _ and -, beginning with a letter or a "
               "digit";
    return NULL;
}

const char *wrong_name_glob(const char *text)
{
    if (strspn(text, NAME_LETTERS "_-*") != strlen(text))
        return "is no name, nor a pattern of names with *";
    return NULL;
}

const char *wrong_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return "has a line break or another control character";
    return NULL;
}

const char *wrong_method(const char *text)
{
    if (strcmp(text, "POST") == 0 || strcmp(text, "PUT") == 0)
        return NULL;
    return "must be POST or PUT";
}

const char *wrong_run_dir(const char *path)
{
    if (strlen(path) > RUN_DIR_MAX_BYTES)
        return "is too long for sockets to lie in it: 80 letters at most, "
               "with all folders above";
    return NULL;
}

const char *wrong_template(const char *text)
{
    const char *why;

    return signature_template(text, &why) == GR_OK ? NULL : why;
}

/* ---- addresses ---- */

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

/* Behind the host: nothing, or a port. */
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
        return "must not have a user or a password in it (use headers)";
    if (n && *text == '[') {
        end = memchr(text, ']', n);
        if (!end || !is_ipv6(text + 1, (size_t)(end - text) - 1))
            return "has no good address between [ and ]";
        host = (size_t)(end - text) + 1;
    } else {
        host = strspn(text, NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._");
        if (host > n)
            host = n;
        if (host == 0)
            return "has no good host name";
    }
    return rest_is_port(text + host, n - host)
               ? NULL
               : "has no good host name, or no good port behind it";
}

static const char *wrong_url_letters(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127 ||
            strchr("\\\"<>^`{|}", *text))
            return "has a letter that must be %-encoded in a URL";
        else if (*text == '#')
            return "has a fragment (#), which is never sent: leave it out";
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
    return strchr(text, '?') ? "must be without a query: what comes behind the "
                               "? is taken from each request"
                             : wrong_url(text);
}

/* {source} and the like, behind the host: who is called is not for an event to
 * say. */
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
            wrong = "may hold {source} {workspace} {type} {from} {to} {gap} "
                    "and no other braces";
        else
            memset(brace, 'x', strlen(names[n]));
    }
    if (!wrong)
        wrong = wrong_url(plain);
    if (!wrong && text[host]) {
        brace = strstr(plain, "://") + 3;
        if (strcspn(brace, "/?") > host - (size_t)(brace - plain))
            wrong = "may not hold braces in the host";
    }
    free(plain);
    return wrong;
}

static void read_url(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    conf_as_text.read(v, k, target);
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

static bool unset_pointer(const struct conf_key *k, const void *target)
{
    (void)k;
    return *(const void *const *)target == NULL;
}

static void fini_pointer(const struct conf_key *k, void *target)
{
    void **p = target;

    (void)k;
    free(*p);
    *p = NULL;
}

const struct conf_type settings_as_url = {
    .name = "URL",
    .read = read_url,
    .print = print_url,
    .unset = unset_pointer,
    .fini = fini_pointer,
};

/* "open>paid": two names with one > between them. */
const char *wrong_move(const char *text)
{
    const char *arrow = strchr(text, '>');

    if (wrong_line(text))
        return wrong_line(text);
    if (!arrow || strchr(arrow + 1, '>'))
        return "must be two states with a > between them, like open>paid";
    return arrow == text || !arrow[1] ? "needs a state on both sides of the >"
                                      : NULL;
}

/* ---- address:port ---- */

static bool is_address(const char *text)
{
    struct in_addr a;

    return strcmp(text, "localhost") == 0 || inet_pton(AF_INET, text, &a) == 1;
}

/* The host's part of "host:port" or "[host]:port", or NULL. */
static char *listen_host(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *host;

    if (!colon || !is_port(colon + 1))
        return NULL;
    if (n > 2 && text[0] == '[' && text[n - 1] == ']')
        return is_ipv6(text + 1, n - 2) ? gr_strndup(text + 1, n - 2) : NULL;
    host = gr_strndup(text, n);
    if (is_address(host))
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
    if (*host)
        *(int *)second_target(k, target) = (int)strtol(strrchr(text, ':') + 1,
                                                       NULL, 10);
    else
        conf_error(v,
                   "\"%.60s\" is no address:port like 127.0.0.1:8080 or "
                   "[::1]:8080",
                   text);
    free(text);
}

static void print_listen(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    const char *host = *(const char *const *)target;
    bool six = strchr(host, ':') != NULL;

    (void)indent;
    buf_printf(out, " \"%s%s%s:%d\"\n", six ? "[" : "", host, six ? "]" : "",
               *(const int *)second_target(k, target));
}

const struct conf_type settings_as_listen = {
    .name = "address:port",
    .read = read_listen,
    .print = print_listen,
    .fini = fini_pointer,
};

/* ---- networks ---- */

static bool parse_address(const char *text, struct cidr *c)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET6, text, c->address) == 1) {
        c->prefix_bits = 128;
        return true;
    }
    memcpy(c->address, mapped, sizeof mapped);
    c->prefix_bits = 32; /* until the caller maps it */
    return inet_pton(AF_INET, text, c->address + sizeof mapped) == 1;
}

static bool has_bits_behind(const struct cidr *c)
{
    for (int bit = c->prefix_bits; bit < 128; bit++)
        if (c->address[bit / 8] & (0x80 >> bit % 8))
            return true;
    return false;
}

const char *wrong_network(const char *text, struct cidr *c)
{
    const char *slash = strchr(text, '/'), *why;
    char *address = gr_strndup(text,
                               slash ? (size_t)(slash - text) : strlen(text));
    bool good = parse_address(address, c);
    int64_t bits = c->prefix_bits;

    free(address);
    if (!good)
        return "is no network like 10.0.0.0/8 or fd00::/8";
    if (slash && (conf_parse_int(slash + 1, &bits, &why) != GR_OK ||
                  bits > c->prefix_bits))
        return "has no good number of bits behind the slash";
    c->prefix_bits = (int)bits + (c->prefix_bits == 32 ? 96 : 0);
    return has_bits_behind(c) ? "has an address that is not the network's own "
                                "(10.1.2.3/8 is 10.0.0.0/8)"
                              : NULL;
}

static void add_network(const struct conf_value *v, struct endpoint_settings *e)
{
    char *text = conf_scalar(v, "true, false, or a network");
    const char *wrong;
    struct cidr c;

    if (!text)
        return;
    wrong = wrong_network(text, &c);
    if (wrong) {
        conf_error(v, "\"%.60s\" %s", text, wrong);
    } else {
        e->allow_cidrs = gr_realloc(e->allow_cidrs,
                                    (e->allow_cidr_count + 1) * sizeof c);
        e->allow_cidrs[e->allow_cidr_count++] = c;
    }
    free(text);
}

static void read_private(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    struct endpoint_settings *e = target;
    size_t n;

    (void)k;
    e->allow_private = conf_is_word(v, "true");
    if (e->allow_private || conf_is_word(v, "false"))
        return;
    n = conf_count(v);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_network(&item, e);
    }
}

void network_print(const struct cidr *c, struct buf *out)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool four = c->prefix_bits >= 96 &&
                memcmp(c->address, mapped, sizeof mapped) == 0;
    char text[INET6_ADDRSTRLEN];

    inet_ntop(four ? AF_INET : AF_INET6, c->address + (four ? 12 : 0), text,
              sizeof text);
    buf_printf(out, "\"%s/%d\"", text, c->prefix_bits - (four ? 96 : 0));
}

static void print_private(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct endpoint_settings *e = target;

    (void)k, (void)indent;
    if (!e->allow_cidr_count) {
        buf_puts(out, e->allow_private ? " true\n" : " false\n");
        return;
    }
    buf_puts(out, " [");
    for (size_t i = 0; i < e->allow_cidr_count; i++) {
        buf_puts(out, i ? ", " : "");
        network_print(&e->allow_cidrs[i], out);
    }
    buf_puts(out, "]\n");
}

static void fini_private(const struct conf_key *k, void *target)
{
    struct endpoint_settings *e = target;

    (void)k;
    free(e->allow_cidrs);
    e->allow_cidrs = NULL;
    e->allow_cidr_count = 0;
}

/* The same of an order's calls for what is missing. */
static void read_order_private(const struct conf_value *v,
                               const struct conf_key *k, void *target)
{
    struct order *o = target;
    struct endpoint_settings e = {0};

    read_private(v, k, &e);
    fini_private(k, &(struct endpoint_settings){.allow_cidrs = o->allow_cidrs});
    o->allow_private = e.allow_private;
    o->allow_cidrs = e.allow_cidrs;
    o->allow_cidr_count = e.allow_cidr_count;
}

static void print_order_private(struct buf *out, const struct conf_key *k,
                                const void *target, int indent)
{
    const struct order *o = target;
    const struct endpoint_settings e = {
        .allow_private = o->allow_private,
        .allow_cidrs = o->allow_cidrs,
        .allow_cidr_count = o->allow_cidr_count};

    print_private(out, k, &e, indent);
}

static void fini_order_private(const struct conf_key *k, void *target)
{
    struct order *o = target;

    (void)k;
    free(o->allow_cidrs);
    o->allow_cidrs = NULL;
    o->allow_cidr_count = 0;
}

const struct conf_type settings_as_order_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_order_private,
    .print = print_order_private,
    .fini = fini_order_private,
};

const struct conf_type settings_as_private = {
    .name = "`true`, `false`, or a list of networks",
    .read = read_private,
    .print = print_private,
    .fini = fini_private,
};

/* ---- headers ---- */

/* Those of one connection, and those that the request's own form decides. */
static const char *const fixed_headers[] = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "host",
    "expect",
    "proxy-authenticate",
    "proxy-authorization",
    "content-length",
    "content-type",
};

static bool is_fixed(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(fixed_headers); i++)
        if (strcasecmp(fixed_headers[i], name) == 0)
            return true;
    return false;
}

const char *wrong_header_token(const char *text)
{
    return headers_name_valid(text) ? NULL : "is no name of a header";
}

const char *wrong_header_name(const char *text)
{
    if (!headers_name_valid(text))
        return wrong_header_token(text);
    if (strncasecmp(text, "grapnel-", 8) == 0 ||
        strncasecmp(text, "webhook-", 8) == 0)
        return "grapnel-* and webhook-* headers are ours to set";
    if (is_fixed(text))
        return "this header belongs to the connection or to the event's body "
               "and cannot be set";
    return NULL;
}

/* Words in the names of headers that carry what must not be handed on. */
static const char *const private_words[] = {
    "authorization", "cookie",  "signature", "token",
    "secret",        "api-key", "hmac",
};

const char *wrong_forward_header(const char *text)
{
    for (size_t i = 0; i < COUNT_OF(private_words); i++)
        if (strcasestr(text, private_words[i]))
            return "a signature, token or cookie is never forwarded";
    return wrong_header_name(text);
}

static bool header_is_new(const struct conf_value *v, const struct header *all,
                          int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++) {
        if (strcasecmp(all[i].name, name) != 0)
            continue;
        conf_error(v, "is the same header as %s (letter case does not count)",
                   all[i].name);
        return false;
    }
    return true;
}

static void add_header(const struct conf_value *v, struct header **all,
                       int64_t *n)
{
    const char *wrong = wrong_header_name(v->key);
    char *value = conf_string(v);

    if (!wrong && value)
        wrong = wrong_line(value);
    if (wrong)
        conf_error(v, "%s", wrong);
    if (wrong || !value || !header_is_new(v, *all, *n, v->key)) {
        free(value);
        return;
    }
    *all = gr_realloc(*all, ((size_t)*n + 1) * sizeof **all);
    (*all)[(*n)++] = (struct header){gr_strdup(v->key), value};
}

static void read_headers(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    size_t n = conf_pair_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value pair = conf_pair(v, i);

        add_header(&pair, target, second_target(k, target));
    }
}

/* What they hold is as likely a token as not. */
static void print_headers(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct header *h = *(struct header *const *)target;
    int64_t n = *(const int64_t *)second_target(k, target);

    buf_puts(out, "\n");
    for (int64_t i = 0; i < n; i++) {
        buf_printf(out, "%*s", indent + 2, "");
        conf_put_text(out, h[i].name);
        buf_puts(out, ": \"…\"\n");
    }
}

static void fini_headers(const struct conf_key *k, void *target)
{
    struct header **h = target;
    int64_t *n = second_target(k, target);

    for (int64_t i = 0; i < *n; i++) {
        free((*h)[i].name);
        free((*h)[i].value);
    }
    *n = 0;
    fini_pointer(k, target);
}

const struct conf_type settings_as_headers = {
    .name = "map of header to value",
    .read = read_headers,
    .print = print_headers,
    .unset = unset_pointer,
    .fini = fini_headers,
};

/* ---- field expressions ---- */

static bool read_one_expr(const struct conf_value *v, struct expr *e)
{
    char *text = conf_string(v);
    const char *why;
    gr_rc rc;

    if (!text)
        return false;
    rc = expr_parse(e, text, &why);
    if (rc != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    free(text);
    return rc == GR_OK;
}

/* What the event's own fields are made of cannot be those fields. */
static bool goes_in_circles(const struct expr *e)
{
    return e->kind == EXPR_ID || e->kind == EXPR_TYPE ||
           e->kind == EXPR_WORKSPACE;
}

static void read_alternative(const struct conf_value *v, struct expr *e)
{
    if (read_one_expr(v, e) && goes_in_circles(e))
        conf_error(v, "must be found in the request, not in id, type or "
                      "workspace");
}

/* One, or a list of which the first that can be had counts. */
static void read_expr(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_is_list(v) ? conf_count(v) : 1;
    struct expr *e = target;

    (void)k;
    if (n == 0)
        conf_error(v, "must not be an empty list: leave it out");
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_is_list(v) ? conf_item(v, i) : *v;

        if (i > 0 && e->kind == EXPR_NONE)
            continue; /* the one before was wrong */
        if (i > 0)
            e = e->other = gr_alloc(sizeof *e);
        read_alternative(&item, e);
    }
}

static void print_one_expr(struct buf *out, const struct expr *e)
{
    struct buf text;

    buf_init(&text, TEXT_MAX_BYTES + 16);
    expr_print(e, &text);
    conf_put_text(out, text.data ? text.data : "");
    buf_fini(&text);
}

static void print_expr(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct expr *e = target;
    bool list = e->other != NULL;

    (void)k, (void)indent;
    buf_puts(out, list ? " [" : " ");
    print_one_expr(out, e);
    for (e = e->other; e; e = e->other) {
        buf_puts(out, ", ");
        print_one_expr(out, e);
    }
    buf_puts(out, list ? "]\n" : "\n");
}

static bool unset_expr(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct expr *)target)->kind == EXPR_NONE;
}

static void fini_expr(const struct conf_key *k, void *target)
{
    (void)k;
    expr_fini(target);
}

const struct conf_type settings_as_expr = {
    .name = "field expression, or list of them",
    .read = read_expr,
    .print = print_expr,
    .unset = unset_expr,
    .fini = fini_expr,
};

/* ---- idempotency keys ---- */

/* A key without any of these is the same for many events, and all of them but
 * the first would be taken for repeats. */
static bool tells_events_apart(const struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        if (key->parts[i].kind == EXPR_HEADER ||
            key->parts[i].kind == EXPR_JSON ||
            key->parts[i].kind == EXPR_FORM ||
            key->parts[i].kind == EXPR_QUERY || key->parts[i].kind == EXPR_ID ||
            key->parts[i].kind == EXPR_BODY_SHA256)
            return true;
    return false;
}

static void free_key(struct dedupe_key *key)
{
    for (size_t i = 0; i < key->count; i++)
        expr_fini(&key->parts[i]);
    free(key->parts);
}

static void add_key(const struct conf_value *v, struct dedupe *d)
{
    size_t n = conf_count(v), good = 0;
    struct dedupe_key key = {.parts = gr_alloc(n * sizeof *key.parts)};

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        good += read_one_expr(&item, &key.parts[key.count]);
        key.count += key.parts[key.count].kind != EXPR_NONE;
    }
    if (good == n && !tells_events_apart(&key)) {
        conf_error(v, "does not tell one event from another: it needs a "
                      "header:, json:, form:, query:, id or body_sha256");
        good = n + 1;
    }
    if (good != n) {
        free_key(&key);
        return;
    }
    d->keys = gr_realloc(d->keys, (d->count + 1) * sizeof *d->keys);
    d->keys[d->count++] = key;
}

static void read_keys(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_key(&item, target);
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list (dedupe: none turns it off)");
}

static void print_keys(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const struct dedupe *d = target;

    (void)k, (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < d->count; i++) {
        buf_puts(out, i ? ", [" : "[");
        for (size_t j = 0; j < d->keys[i].count; j++) {
            buf_puts(out, j ? ", " : "");
            print_one_expr(out, &d->keys[i].parts[j]);
        }
        buf_puts(out, "]");
    }
    buf_puts(out, "]\n");
}

static void fini_keys(const struct conf_key *k, void *target)
{
    struct dedupe *d = target;

    (void)k;
    for (size_t i = 0; i < d->count; i++)
        free_key(&d->keys[i]);
    free(d->keys);
    d->keys = NULL;
    d->count = 0;
}

const struct conf_type settings_as_keys = {
    .name = "list of keys, each a list of field expressions",
    .read = read_keys,
    .print = print_keys,
    .fini = fini_keys,
};

static void read_dedupe(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct dedupe *d = target;

    d->none = conf_is_word(v, "none");
    if (d->none)
        return;
    if (!conf_is_map(v))
        conf_error(v, "is meant to be none, or a map with keys and ttl");
    else
        conf_read_section(v, k->section, target);
}

static void print_dedupe(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    if (((const struct dedupe *)target)->none)
        buf_puts(out, " none\n");
    else
        conf_as_map.print(out, k, target, indent);
}

const struct conf_type settings_as_dedupe = {
    .name = "`none`, or a section",
    .read = read_dedupe,
    .print = print_dedupe,
    .fini = fini_keys,
};

/* ---- retries ---- */

/* On GR_REFUSE `why` says what is wrong. */
static gr_rc parse_wait(const char *text, int64_t *ms, const char **why)
{
    if (conf_parse_duration(text, ms, why) != GR_OK)
        return GR_REFUSE;
    *why = *ms < 1 ? "must be longer than nothing" : "is too long";
    return *ms < 1 || *ms > WAIT_MAX_MS ? GR_REFUSE : GR_OK;
}

static void add_wait(const struct conf_value *v, int64_t **list, int64_t *n)
{
    char *text = conf_scalar(v, "a duration (10s, 24h)");
    const char *why;
    int64_t ms;

    if (!text)
        return;
    if (parse_wait(text, &ms, &why) != GR_OK) {
        conf_error(v, "\"%.60s\" %s", text, why);
    } else {
        *list = gr_realloc(*list, ((size_t)*n + 1) * sizeof **list);
        (*list)[(*n)++] = ms;
    }
    free(text);
}

static void read_durations(const struct conf_value *v, const struct conf_key *k,
                           void *target)
{
    size_t n = conf_count(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_wait(&item, target, second_target(k, target));
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list");
}

static void print_durations(struct buf *out, const struct conf_key *k,
                            const void *target, int indent)
{
    const int64_t *ms = *(int64_t *const *)target;
    int64_t n = *(const int64_t *)second_target(k, target);

    (void)indent;
    buf_puts(out, " [");
    for (int64_t i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : "");
        conf_put_duration(out, ms[i]);
    }
    buf_puts(out, "]\n");
}

static void fini_durations(const struct conf_key *k, void *target)
{
    *(int64_t *)second_target(k, target) = 0;
    fini_pointer(k, target);
}

const struct conf_type settings_as_durations = {
    .name = "list of durations",
    .read = read_durations,
    .print = print_durations,
    .unset = unset_pointer,
    .fini = fini_durations,
};

static bool parse_percent(const char *text, double *part)
{
    char *end;
    double n = strtod(text, &end);

    if (!isdigit((unsigned char)*text) || strcmp(end, "%") != 0 ||
        strspn(text, "0123456789.") != strlen(text) - 1)
        return false;
    *part = n / 100;
    return n > 0 && n <= 100;
}

static void read_jitter(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    struct retry_policy *p = target;
    char *text = conf_scalar(v, "none, full, or a part like 15%");

    (void)k;
    if (!text)
        return;
    p->jitter_full = strcmp(text, "full") == 0;
    p->jitter_part = 0;
    if (!p->jitter_full && strcmp(text, "none") != 0 &&
        !parse_percent(text, &p->jitter_part))
        conf_error(v, "\"%.60s\" is not none, full, or a part like 15%%", text);
    free(text);
}

static void print_jitter(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    const struct retry_policy *p = target;

    (void)k, (void)indent;
    if (p->jitter_part > 0)
        buf_printf(out, " %.15g%%\n", p->jitter_part * 100);
    else
        buf_puts(out, p->jitter_full ? " full\n" : " none\n");
}

const struct conf_type settings_as_jitter = {
    .name = "`none`, `full`, or a part like `15%`",
    .read = read_jitter,
    .print = print_jitter,
};

static bool has_status(const struct retry_on *r, int status)
{
    return r->status[status / 8] >> status % 8 & 1;
}

static void add_range(struct retry_on *r, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        r->status[i / 8] |= (uint8_t)(1 << i % 8);
}

static bool parse_status(const char *text, size_t n, int64_t *status)
{
    char digits[4];

    if (n != 3 || strspn(text, "0123456789") < 3)
        return false;
    snprintf(digits, sizeof digits, "%.3s", text);
    *status = strtol(digits, NULL, 10);
    return *status >= STATUS_LEAST && *status <= STATUS_MOST;
}

/* 408, 500-504, 4xx. */
static bool parse_range(const char *text, int64_t *first, int64_t *last)
{
    size_t n = strcspn(text, "-");

    if ((*text == '4' || *text == '5') && strcmp(text + 1, "xx") == 0) {
        *first = (*text - '0') * 100;
        *last = *first + 99;
        return true;
    }
    if (!parse_status(text, n, first))
        return false;
    *last = *first;
    if (!text[n])
        return true;
    return parse_status(text + n + 1, strlen(text + n + 1), last) &&
           *last >= *first;
}

static void add_outcome(const struct conf_value *v, struct retry_on *r)
{
    char *text = conf_scalar(v, "network or a status");
    int64_t first, last;

    if (!text)
        return;
    if (strcmp(text, "network") == 0)
        r->network = true;
    else if (parse_range(text, &first, &last))
        add_range(r, first, last);
    else
        conf_error(v,
                   "\"%.60s\" is not network, 4xx, 5xx, a status from 400 "
                   "to 599, or a range of them like 500-504",
                   text);
    free(text);
}

static void read_retry_on(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    size_t n = conf_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_outcome(&item, target);
    }
}

static void put_range(struct buf *out, int first, int last)
{
    const char *comma = out->data[out->len - 1] == '[' ? "" : ", ";

    if (first % 100 == 0 && last == first + 99)
        buf_printf(out, "%s%dxx", comma, first / 100);
    else if (first == last)
        buf_printf(out, "%s%d", comma, first);
    else
        buf_printf(out, "%s%d-%d", comma, first, last);
}

static void print_retry_on(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    const struct retry_on *r = target;
    int last;

    (void)k, (void)indent;
    buf_puts(out, " [");
    buf_puts(out, r->network ? "network" : "");
    for (int i = STATUS_LEAST; i <= STATUS_MOST; i = last + 1) {
        last = i;
        if (!has_status(r, i))
            continue;
        /* A range ends with its hundred, so that 4xx and 5xx stay apart. */
        while ((last + 1) % 100 && has_status(r, last + 1))
            last++;
        put_range(out, i, last);
    }
    buf_puts(out, "]\n");
}

const struct conf_type settings_as_retry_on = {
    .name = "list of `network`, `4xx`, `5xx`, statuses and ranges `500-504`",
    .read = read_retry_on,
    .print = print_retry_on,
};
