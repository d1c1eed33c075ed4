/* web_tls: the certificate and key with which the console's HTTP server serves HTTPS.
 *
 * They can be replaced at any time: a handshake uses those that are current when it begins, and
 * those before stay in memory until the last connection that may use them has closed. For web.c,
 * from the loop's thread. There is one in a process, because GnuTLS' callback has no argument of
 * ours. Nothing of it is on disk. */
#ifndef CONSOLE_WEB_TLS_H
#define CONSOLE_WEB_TLS_H

#include "endpoint_settings.h"
#include <gnutls/abstract.h>

struct web_pair;

/* Makes this pair current; the strings are PEM and borrowed until the return. false: it cannot be
 * used, `why` says the reason, and nothing has changed. */
bool web_tls_use(const struct tls *pem, char why[200]);
/* After the last connection has closed. */
void web_tls_close(void);

/* A connection begins: returns the current pair, for web_tls_end() when it has closed. */
struct web_pair *web_tls_begin(void);
void web_tls_end(struct web_pair *p);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK2. */
gnutls_certificate_retrieve_function3 web_tls_choose;

#endif
