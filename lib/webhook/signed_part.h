/* signed_part: a digest of the part of a request that its signature covers. A replay of the
 * request has the same digest, whatever was changed in its unsigned parts: headers, the
 * spelling of a form, the port of the URL. Pure. For schemes that sign no time. */
#ifndef WEBHOOK_SIGNED_PART_H
#define WEBHOOK_SIGNED_PART_H

#include "settings.h"

enum { SIGNED_PART_BYTES = 32 }; /* SHA-256 */

/* The request says when it was signed, and how old that may be is bounded. */
bool verify_judges_time(const struct verify *v);
/* … and that time can't be changed without the secret. */
bool verify_signs_time(const struct verify *v);

/* Requests of this source can be told by what is signed of them: something is, and
 * no time, so that an old one would not be refused. */
bool signed_part_lasts(const struct source *source);
/* Of a request whose signature held. GR_REFUSE: it can't be made of it. */
GR_MUST_CHECK gr_rc signed_part_digest(const struct source *source,
                                       struct subject *subject,
                                       uint8_t out[SIGNED_PART_BYTES]);

#endif
