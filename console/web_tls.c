/* web_tls: loads pairs of a certificate chain and a key into GnuTLS, and keeps replaced ones as
 * long as a connection may use them. */
#include "web_tls.h"
#include "alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum { CHAIN_MAX = 10 };

struct web_pair {
    TAILQ_ENTRY(web_pair) link;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
    int connections; /* that began while it was current */
};

/* The oldest first; the last is current. A connection may use the pair with which it began and any
 * later one. */
static TAILQ_HEAD(web_pairs, web_pair) pairs = TAILQ_HEAD_INITIALIZER(pairs);

static void pair_free(struct web_pair *p)
{
    for (unsigned i = 0; i < p->count; i++)
        gnutls_pcert_deinit(&p->chain[i]);
    if (p->key)
        gnutls_privkey_deinit(p->key);
    free(p);
}

bool web_tls_use(const struct tls *pem, char why[200])
{
    struct web_pair *p = gr_alloc(sizeof *p);
    gnutls_datum_t chain = {(unsigned char *)pem->certificate,
                            (unsigned)strlen(pem->certificate)},
                   key = {(unsigned char *)pem->key,
                          (unsigned)strlen(pem->key)};
    const char *what = "certificate";
    unsigned count = CHAIN_MAX;
    int rc = gnutls_pcert_list_import_x509_raw(p->chain, &count, &chain,
                                               GNUTLS_X509_FMT_PEM, 0);

    if (rc == 0) {
        p->count = count;
        what = "key";
        rc = gnutls_privkey_init(&p->key);
    }
    if (rc == 0)
        rc = gnutls_privkey_import_x509_raw(p->key, &key, GNUTLS_X509_FMT_PEM,
                                            NULL, 0);
    if (rc == 0) {
        TAILQ_INSERT_TAIL(&pairs, p, link);
        web_tls_end(NULL);
        return true;
    }
    snprintf(why, 200, "console.tls.%s: GnuTLS cannot use it: %s", what,
             gnutls_strerror(rc));
    pair_free(p);
    return false;
}

void web_tls_close(void)
{
    struct web_pair *p;

    while ((p = TAILQ_FIRST(&pairs))) {
        TAILQ_REMOVE(&pairs, p, link);
        pair_free(p);
    }
}

struct web_pair *web_tls_begin(void)
{
    struct web_pair *p = TAILQ_LAST(&pairs, web_pairs);

    if (p)
        p->connections++;
    return p;
}

void web_tls_end(struct web_pair *p)
{
    if (p)
        p->connections--;
    while ((p = TAILQ_FIRST(&pairs)) && TAILQ_NEXT(p, link) &&
           !p->connections) {
        TAILQ_REMOVE(&pairs, p, link);
        pair_free(p);
    }
}

int web_tls_choose(gnutls_session_t session,
                   const struct gnutls_cert_retr_st *info,
                   gnutls_pcert_st **chain, unsigned *count,
                   gnutls_ocsp_data_st **ocsp, unsigned *ocsp_count,
                   gnutls_privkey_t *key, unsigned *flags)
{
    struct web_pair *p = TAILQ_LAST(&pairs, web_pairs);

    (void)session, (void)info;
    *chain = p->chain;
    *count = p->count;
    *ocsp = NULL;
    *ocsp_count = 0;
    *key = p->key;
    *flags = 0; /* they stay ours */
    return 0;
}
