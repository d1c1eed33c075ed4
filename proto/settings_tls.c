/* What endpoints prove themselves by, and we to them: PEM texts, signing
 * secrets, and the ports that a URL may lead to. */
#include "settings_types.h"
#include "signature.h"
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SECRET_LEAST_BYTES = 24, /* Standard Webhooks */
    SECRET_MOST_BYTES = 64,
};

/* ---- PEM ---- */

static BIO *bio_of(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);

    if (!bio)
        die(EXIT_UNAVAILABLE, "OpenSSL is out of memory");
    return bio;
}

/* Never asks at a terminal. */
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
                : "is no certificate in PEM (-----BEGIN CERTIFICATE-----); "
                  "file:path names a file";
}

const char *wrong_pem_key(const char *text)
{
    EVP_PKEY *k = key_of(text);
    bool good = k != NULL;

    EVP_PKEY_free(k);
    return good ? NULL
                : "is no private key in PEM without a password; file:path "
                  "names a file";
}

bool pem_pair(const char *certificate, const char *key)
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

static bool base64_bytes(const char *text, size_t least, size_t most)
{
    const struct verify base64 = {.secret_encoding = KEY_BASE64};
    struct buf key;
    bool good;

    buf_init(&key, CONF_SECRET_MAX_BYTES);
    good = signature_key(&base64, text, &key) == GR_OK && key.len >= least &&
           key.len <= most;
    buf_fini(&key);
    return good;
}

const char *wrong_signing_secret(const char *text)
{
    if (strncmp(text, "whsk_", 5) == 0)
        return base64_bytes(text + 5, 32, 32) || base64_bytes(text + 5, 64, 64)
                   ? NULL
                   : "must be base64 of an Ed25519 key behind whsk_: 32 bytes, "
                     "or 64 with its public half";
    if (strncmp(text, "whpk_", 5) == 0)
        return "is a public key, for the receiver; we sign with whsk_";
    if (strncmp(text, "whsec_", 6) != 0)
        return "must begin with whsec_ (v1) or whsk_ (v1a)";
    return base64_bytes(text + 6, SECRET_LEAST_BYTES, SECRET_MOST_BYTES)
               ? NULL
               : "must be base64 of 24 to 64 bytes behind whsec_ "
                 "(openssl rand -base64 32)";
}

/* ---- ports ---- */

int url_port(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t n = strcspn(host, "/?");
    const char *colon = memrchr(host, ':', n);

    if (colon && !memchr(colon, ']', n - (size_t)(colon - host)))
        return (int)strtol(colon + 1, NULL, 10);
    return strncasecmp(url, "https", 5) == 0 ? 443 : 80;
}

bool ports_has(const struct ports *p, int port)
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
        conf_error(v, "\"%.60s\" is no port from 1 to 65535", text);
    else if (p->count == PORTS_MAX)
        conf_error(v, "is one too many: at most %d", PORTS_MAX);
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
        conf_error(v, "must not be an empty list: leave it out");
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

const struct conf_type settings_as_ports = {
    .name = "list of ports",
    .read = read_ports,
    .print = print_ports,
    .unset = unset_ports,
    .fini = fini_ports,
};
