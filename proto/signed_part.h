/* signed_part: what of a request its signature covers, as a digest. A request that is
 * sent again has the same one, whatever is changed of what is not signed: headers, the
 * spelling of a form, the port of the URL. Pure; for schemes that sign no time. */
#ifndef PROTO_SIGNED_PART_H
#define PROTO_SIGNED_PART_H

#include "settings.h"

enum { SIGNED_PART_BYTES = 32 }; /* SHA-256 */

/* Requests of this source can be told by what is signed of them: something is, and
 * no time, so that an old one would not be refused. */
bool signed_part_lasts(const struct source *source);
/* Of a request whose signature held. GR_REFUSE: it can't be made of it. */
GR_MUST_CHECK gr_rc signed_part_digest(const struct source *source,
                                       struct subject *subject,
                                       uint8_t out[SIGNED_PART_BYTES]);

#endif
