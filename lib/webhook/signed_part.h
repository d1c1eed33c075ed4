/* signed_part: a digest of the part of a request that its signature covers. A replay of the
 * request has the same digest, even if its unsigned parts were changed: headers, the
 * spelling of a form, the port of the URL. Pure. It is for schemes that do not sign a time. */
#ifndef WEBHOOK_SIGNED_PART_H
#define WEBHOOK_SIGNED_PART_H

#include "settings.h"

enum { SIGNED_PART_BYTES = 32 }; /* SHA-256 */

/* Whether the request says when it was signed, and its age is limited. */
bool verify_judges_time(const struct verify *v);
/* … and the time cannot be changed without the secret. */
bool verify_signs_time(const struct verify *v);

/* Whether replays of this source can be recognised by the signed part: there is one, and it
 * has no time by which an old request would be refused. */
bool signed_part_lasts(const struct source *source);
/* Call it for a request whose signature is valid. GR_REFUSE: the request lacks a part of
 * it. */
GR_MUST_CHECK gr_rc signed_part_digest(const struct source *source,
                                       struct subject *subject,
                                       uint8_t out[SIGNED_PART_BYTES]);

#endif
