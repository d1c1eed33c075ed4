/* named_url: the URL that a producer's event names for its delivery, and the patterns of a
 * producer's `may_name_urls`. Pure. The configuration checks patterns with it, and ingress the
 * URL; the deliverer then checks the address to which the host resolves (guard.h).
 *
 * A URL is accepted only in the strict form on which all parsers agree: http or https, a host
 * name or an IPv4 address, perhaps a port, a path without dot segments, perhaps a query. A
 * pattern is matched part by part, so that a `*` of the host never reaches into the path. */
#ifndef WEBHOOK_NAMED_URL_H
#define WEBHOOK_NAMED_URL_H

#include "rc.h"

enum { NAMED_URL_MAX_BYTES = 2048 };

/* What is wrong: a static sentence, or NULL. */
const char *named_url_wrong(const char *url);
const char *named_url_wrong_pattern(const char *pattern);
/* Of a URL in which nothing is wrong. */
int named_url_port(const char *url);
/* Neither may be wrong. Scheme and port are equal (a pattern without a port has that of its
 * scheme, `:*` is any), and host and path match as patterns with `*`; the path includes the
 * query. Case counts in the path only. */
bool named_url_matches(const char *pattern, const char *url);

#endif
