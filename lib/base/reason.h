/* reason: why something failed, in one line. */
#ifndef BASE_REASON_H
#define BASE_REASON_H

#include "rc.h"

/* Writes "what: message", or `what` if `message` is "", to `why`, which has this many bytes. A longer one is
 * cut; line breaks of a server's message become spaces. Returns GR_REFUSE. */
gr_rc reason_put(char *why, size_t bytes, const char *what,
                 const char *message);

#endif
