/* settings_endpoints: the sections `endpoint_defaults`, `endpoints` and `routes`, and the kinds
 * of values that endpoints have: headers, certificates, signing secrets, ports. The keys of an
 * endpoint are in endpoint_settings.h. */
#include "headers.h"
#include "settings_types.h"
#include "signature.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ======== headers ======== */

/* Headers that belong to the connection, and those that follow from the request itself. */
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

const char *wrong_header_token(const char *text)
{
    return headers_name_valid(text) ? NULL : "is not a header name";
}

static const char *wrong_header_name(const char *text)
{
    if (!headers_name_valid(text))
        return wrong_header_token(text);
    if (strncasecmp(text, "grapnel-", 8) == 0 ||
        strncasecmp(text, "webhook-", 8) == 0)
        return "cannot be set: Grapnel itself sets the headers grapnel-* and "
               "webhook-*";
    for (size_t i = 0; i < COUNT_OF(fixed_headers); i++)
        if (strcasecmp(fixed_headers[i], text) == 0)
            return "cannot be set: this header belongs to the connection or to "
                   "the event's body";
    return NULL;
}

const char *wrong_forward_header(const char *text)
{
    size_t n = strlen(text);

    if (headers_secret((struct bytes){text, n}) || strcasestr(text, "hmac") ||
        (n >= 4 && strcasecmp(text + n - 4, "-sig") == 0))
        return "cannot be forwarded: it is a signature, token or cookie";
    return wrong_header_name(text);
}

static bool header_is_new(const struct conf_value *v,
                          const struct header_list *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (strcasecmp(all->items[i].name, name) != 0)
            continue;
        conf_error(
            v, "is the same header as %s: names of headers ignore letter case",
            all->items[i].name);
        return false;
    }
    return true;
}

static void add_header(const struct conf_value *v, struct header_list *all)
{
    static const struct conf_key value_key = {
        .name = "value", .flags = CONF_SECRET | CONF_EMPTY_OK};
    const char *wrong = wrong_header_name(v->key);
    char *value = NULL;

    conf_as_string.read(v, &value_key, &value);
    if (!wrong && value)
        wrong = wrong_line(value);
    if (wrong)
        conf_error(v, "%s", wrong);
    if (wrong || !value || !header_is_new(v, all, v->key)) {
        free(value);
        return;
    }
    all->items = gr_realloc(all->items, (all->count + 1) * sizeof *all->items);
    all->items[all->count++] = (struct header){gr_strdup(v->key), value};
}

static void read_headers(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    size_t n = conf_pair_count(v);

    (void)k;
    for (size_t i = 0; i < n; i++) {
        struct conf_value pair = conf_pair(v, i);

        add_header(&pair, target);
    }
}

/* The key is a secret, because many values are tokens. */
static void print_headers(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct header_list *all = target;

    buf_puts(out, "\n");
    for (size_t i = 0; i < all->count; i++) {
        buf_printf(out, "%*s", indent + 2, "");
        conf_put_text(out, all->items[i].name);
        buf_puts(out, ": ");
        conf_put_text(out, k->flags & CONF_SECRET ? "…" : all->items[i].value);
        buf_puts(out, "\n");
    }
}

static bool unset_headers(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct header_list *)target)->count == 0;
}

static bool same_headers(const struct conf_key *k, const void *a, const void *b)
{
    const struct header_list *l = a, *r = b;

    (void)k;
    if (l->count != r->count)
        return false;
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].name, r->items[i].name) != 0 ||
            strcmp(l->items[i].value, r->items[i].value) != 0)
            return false;
    return true;
}

static void fini_headers(const struct conf_key *k, void *target)
{
    struct header_list *all = target;

    (void)k;
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].name);
        free(all->items[i].value);
    }
    free(all->items);
    *all = (struct header_list){0};
}

const struct conf_type conf_as_headers = {
    .name = "map of header to value",
    .read = read_headers,
    .print = print_headers,
    .unset = unset_headers,
    .same = same_headers,
    .fini = fini_headers,
};

/* ======== certificates, signing secrets, ports ======== */

enum {
    SECRET_MIN_BYTES = 24, /* Standard Webhooks */
    SECRET_MAX_BYTES = 64,
};

/* ---- PEM ---- */

static BIO *bio_of(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);

    if (!bio)
        die(EXIT_UNAVAILABLE, "OpenSSL is out of memory");
    return bio;
}

/* Returns no password, so that OpenSSL does not ask for one at a terminal. */
static int no_password(char *out, int size, int writing, void *self)
{
    (void)out, (void)size, (void)writing, (void)self;
    return -1;
}

static X509 *certificate_of(const char *text)
{
    BIO *bio = bio_of(text);
    X509 *x = PEM_read_bio_X509(bio, NULL, no_password, NULL);

    BIO_free(bio);
    ERR_clear_error();
    return x;
}

static EVP_PKEY *key_of(const char *text)
{
    BIO *bio = bio_of(text);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);

    BIO_free(bio);
    ERR_clear_error();
    return k;
}

const char *wrong_pem_certificate(const char *text)
{
    X509 *x = certificate_of(text);
    bool good = x != NULL;

    X509_free(x);
    return good ? NULL
                : "is not a certificate in PEM (-----BEGIN CERTIFICATE-----); "
                  "for a file write file:path";
}

const char *wrong_pem_key(const char *text)
{
    EVP_PKEY *k = key_of(text);
    bool good = k != NULL;

    EVP_PKEY_free(k);
    return good ? NULL
                : "is not a private key in PEM without a password; for a file "
                  "write file:path";
}

static bool pem_pair(const char *certificate, const char *key)
{
    X509 *x = certificate_of(certificate);
    EVP_PKEY *k = key_of(key);
    bool good = x && k && X509_check_private_key(x, k) == 1;

    X509_free(x);
    EVP_PKEY_free(k);
    ERR_clear_error();
    return good;
}

/* ---- secrets we sign with ---- */

static bool base64_bytes(const char *text, size_t min, size_t max)
{
    const struct verify base64 = {.secret_encoding = KEY_BASE64};
    struct buf key;
    bool good;

    buf_init(&key, CONF_SECRET_MAX_BYTES);
    good = signature_key(&base64, text, &key) == GR_OK && key.len >= min &&
           key.len <= max;
    buf_fini(&key);
    return good;
}

const char *wrong_signing_secret(const char *text)
{
    if (strncmp(text, "whsk_", 5) == 0)
        return base64_bytes(text + 5, 32, 32) || base64_bytes(text + 5, 64, 64)
                   ? NULL
                   : "must be whsk_ and base64 of an Ed25519 key: 32 bytes, or "
                     "64 with the public key";
    if (strncmp(text, "whpk_", 5) == 0)
        return "is a public key, which is for the receiver; signing needs the "
               "private key, whsk_";
    if (strncmp(text, "whsec_", 6) != 0)
        return "must begin with whsec_ (v1) or whsk_ (v1a)";
    return base64_bytes(text + 6, SECRET_MIN_BYTES, SECRET_MAX_BYTES)
               ? NULL
               : "must be whsec_ and base64 of 24 to 64 bytes (openssl rand "
                 "-base64 32)";
}

/* ---- ports ---- */

static int url_port(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/?");
    const char *colon = memrchr(host, ':', n);

    if (colon && !memchr(colon, ']', n - (size_t)(colon - host)))
        return (int)strtol(colon + 1, NULL, 10);
    return strncasecmp(url, "https", 5) == 0 ? 443 : 80;
}

static bool ports_has(const struct ports *p, int port)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i] == port)
            return true;
    return false;
}

static void add_port(const struct conf_value *v, struct ports *p)
{
    char *text = conf_scalar(v, "a port");
    const char *why;
    int64_t n = 0;

    if (!text)
        return;
    if (conf_parse_int(text, &n, &why) != GR_OK || n < 1 || n > 65535)
        conf_error(v, "\"%.60s\" is not a port: write a number from 1 to 65535",
                   text);
    else if (p->count == PORTS_MAX)
        conf_error(v, "is one port too many: the maximum is %d", PORTS_MAX);
    else
        p->items[p->count++] = (uint16_t)n;
    free(text);
}

static void read_ports(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    struct ports *p = target;
    size_t n = conf_count(v);

    (void)k;
    *p = (struct ports){0};
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        add_port(&item, p);
    }
    if (n == 0 && conf_is_list(v))
        conf_error(v, "must not be an empty list: remove the key");
}

static void print_ports(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    const struct ports *p = target;

    (void)k, (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < p->count; i++)
        buf_printf(out, "%s%d", i ? ", " : "", p->items[i]);
    buf_puts(out, "]\n");
}

static bool unset_ports(const struct conf_key *k, const void *target)
{
    (void)k;
    return ((const struct ports *)target)->count == 0;
}

static void fini_ports(const struct conf_key *k, void *target)
{
    (void)k;
    *(struct ports *)target = (struct ports){0};
}

static const struct conf_type conf_as_ports = {
    .name = "list of ports",
    .read = read_ports,
    .print = print_ports,
    .unset = unset_ports,
    .fini = fini_ports,
};

/* ======== the sections ======== */

const char *const settings_transport_words[] = {
    [TRANSPORT_HTTP] = "http", [TRANSPORT_PULL] = "pull", NULL};
const char *const settings_ordered_words[] = {[LANES_NONE] = "none",
                                              [LANES_WORKSPACE] = "workspace",
                                              [LANES_ALL] = "all",
                                              NULL};
const char *const settings_trace_context_words[] = {
    [TRACE_HEADERS_ALL] = "all",
    [TRACE_HEADERS_PARENT] = "traceparent",
    [TRACE_HEADERS_NONE] = "none",
    NULL};
const char *const settings_retry_choice_words[] = {
    [RETRY_CHOICE_ANY] = "any",
    [RETRY_CHOICE_FEWER] = "fewer",
    [RETRY_CHOICE_NONE] = "none",
    NULL};
static const char *const on_dead_words[] = {"continue", "halt", NULL};
/* PRIORITY_HIGH and what follows */
static const char *const priority_words[] = {"high", "normal", "low", NULL};

/* ---- endpoint_defaults: the shared settings, with their own defaults ---- */

#define DEFAULTS_KEY(F, TO, SCOPE, ...) DEFAULTS_KEY_##SCOPE(__VA_ARGS__)
#define DEFAULTS_KEY_OWN(...)
#define DEFAULTS_KEY_SHARED(KIND, ...) \
    KEY(KIND, endpoint_settings, __VA_ARGS__),

static const struct conf_key defaults_keys[] = {
    ENDPOINT_SETTINGS(DEFAULTS_KEY, ){0}};

const struct conf_section settings_defaults_section = {
    .name = "endpoint_defaults",
    .help = "Defaults for keys that an endpoint does not set.",
    .size = sizeof(struct endpoint_settings),
    .keys = defaults_keys,
};

/* ---- endpoints ---- */

#define INHERIT(F, TO, SCOPE, KIND, MEMBER, ...) INHERIT_##SCOPE(MEMBER)
#define INHERIT_OWN(MEMBER)
#define INHERIT_SHARED(MEMBER) e->MEMBER = s->defaults.MEMBER;

/* endpoint_defaults was read before, because its key is first in the table. */
static void init_endpoint(void *user, void *target)
{
    const struct settings *s = user;
    struct endpoint_settings *e = target;

    ENDPOINT_SETTINGS(INHERIT, )
    e->retry_policy =
        NULL; /* a copy, to which settings_load() can point an error */
}

void settings_check_tls(const struct conf_value *v, void *target)
{
    const struct tls *t = target;

    if (conf_has(v, "certificate") != conf_has(v, "key"))
        conf_error(v, "has only one of certificate and key: set both");
    else if (t->certificate && t->key && !pem_pair(t->certificate, t->key))
        conf_error_key(v, "key", "is not the private key of this certificate");
}

static const struct conf_key tls_keys[] = {
    KEY(string, tls, ca, "ca", NULL,
        "the trusted certificate authorities, instead of the system's",
        .check = wrong_pem_certificate, .flags = CONF_SECRET | CONF_PUBLIC,
        .form = "`file:path`, or PEM"),
    KEY(string, tls, certificate, "certificate", NULL,
        "the client certificate, followed by its chain",
        .check = wrong_pem_certificate, .flags = CONF_SECRET | CONF_PUBLIC,
        .form = "`file:path`, or PEM"),
    KEY(string, tls, key, "key", NULL,
        "the private key of `certificate`, without a password",
        .check = wrong_pem_key, .flags = CONF_SECRET,
        .form = "`file:path`, or PEM"),
    {0},
};

static const struct conf_section tls_section = {
    .name = "tls",
    .help = "For an endpoint with a certificate of a private authority, or one "
            "that requires a client certificate.",
    .check = settings_check_tls,
    .keys = tls_keys,
};

static void check_endpoint(const struct conf_value *v, void *target)
{
    struct endpoint_settings *e = target;
    bool like_an_id = conf_has(v, "name") && e->name &&
                      endpoint_id_valid(e->name);
    int port = e->url && !wrong_url(e->url) ? url_port(e->url) : 0;

    if (like_an_id)
        conf_error_key(v, "name",
                       "has the form of an id (ep_…), which only endpoints "
                       "that are made at run time have");
    if (e->transport == TRANSPORT_PULL) {
        /* They judge an endpoint by its responses; the defaults do not know the transport. */
        e->breaker = e->guard = false;
        if (!conf_has(v, "timeout"))
            e->timeout_ms = PULL_LEASE_MS;
        return;
    }
    if (!conf_has(v, "url"))
        conf_error_key(v, "url", "is missing: the URL, http or https");
    if (port && e->allowed_ports.count && !ports_has(&e->allowed_ports, port))
        conf_error_key(v, "url", "has port %d, which is not in allowed_ports",
                       port);
    if (e->url && (e->tls.ca || e->tls.certificate) &&
        strncasecmp(e->url, "https:", 6) != 0)
        conf_error_key(
            v, "tls",
            "has no effect with an http URL: use https, or remove it");
}

#define ENDPOINT_KEY(F, TO, SCOPE, ...) ENDPOINT_KEY_##SCOPE(__VA_ARGS__)
#define ENDPOINT_KEY_OWN(KIND, ...)     KEY(KIND, endpoint_settings, __VA_ARGS__),
/* Its default is that of endpoint_defaults. */
#define ENDPOINT_KEY_SHARED(KIND, MEMBER, NAME, DEFAULT, ...) \
    KEY(KIND, endpoint_settings, MEMBER, NAME, NULL, __VA_ARGS__),

static const struct conf_key endpoint_keys[] = {
    ENDPOINT_SETTINGS(ENDPOINT_KEY, ){0}};

const struct conf_section settings_endpoint_section = {
    .name = "endpoint",
    .help = "A service of yours that receives events. A key without a value "
            "here is taken from `endpoint_defaults`.",
    .size = sizeof(struct endpoint_settings),
    .kind = "transport",
    .init = init_endpoint,
    .check = check_endpoint,
    .keys = endpoint_keys,
    .known =
        (const struct conf_known[]){
            {"secret", "unknown key (did you mean signing_secrets?)"},
            {"secrets", "unknown key (did you mean signing_secrets?)"},
            {0},
        },
};

static const struct conf_key route_keys[] = {
    KEY(strings, route, sources, "sources", NULL,
        "the sources and producers it is subscribed to. Default: all",
        .check = wrong_name_glob, .flags = CONF_FILLED,
        .form = "list of patterns"),
    KEY(strings, route, types, "types", NULL, "the event types. Default: all",
        .check = wrong_line, .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(strings, route, workspaces, "workspaces", NULL,
        "the workspaces it is subscribed to. Default: all", .check = wrong_line,
        .flags = CONF_FILLED, .form = "list of patterns"),
    KEY(where, route, where, "where", NULL,
        "conditions on headers or JSON fields, which an event has to meet as "
        "well"),
    KEY(strings, route, endpoints, "endpoints", NULL,
        "the endpoints that are subscribed", .check = wrong_name,
        .flags = CONF_REQUIRED | CONF_FILLED, .form = "list of names"),
    KEY(string, route, choice.policy, "retry_policy", NULL,
        "the retry policy of deliveries by this route. Default: the endpoint's",
        .check = wrong_name, .form = "name"),
    KEY(int, route, choice.max_attempts, "max_attempts", NULL,
        "the maximum number of attempts, instead of the retry policy's",
        .min = 1, .max = RETRY_ATTEMPTS_MAX),
    KEY(duration, route, choice.expires_in_ms, "expires_in", NULL,
        "deliveries by this route end as dead letters (`expired`) this long "
        "after the event was received",
        .min = 1, .max = LONG_MS),
    KEY(optional_choice, route, choice.priority, "priority", NULL,
        "which deliveries by this route leave first while others wait for the "
        "same endpoint: of ten, `high` gets seven, `normal` two and `low` one, "
        "and what one of them does not need, the others get "
        "([how](OPERATIONS.md#priorities)). Default: `normal`",
        .choices = priority_words),
    {0},
};

const struct conf_section settings_route_section = {
    .name = "route",
    .help =
        "A subscription of several endpoints, in addition to their own. It may "
        "choose how hard to try, as far as `retry_choice` of the endpoint "
        "allows. Each of `retry_policy`, `max_attempts`, `expires_in` and "
        "`priority` is "
        "taken from the producer's event; if the event does not have it, from "
        "the first route in the file that has it, matches the event and names "
        "the endpoint; else from the endpoint. `retry_choice` does not limit "
        "`expires_in` and `priority`.",
    .size = sizeof(struct route),
    .keys = route_keys,
};
