/* glob: patterns in which `*` matches any text, also an empty one, and every other
 * character matches itself. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include "rc.h"

/* Whether the pattern matches the text. Case counts. The time is bounded by the product of
 * both lengths. */
bool glob_match(const char *pattern, const char *text);
/* Whether a text exists that both patterns match. The time is bounded by their lengths, or
 * by their product when one of them has no star. */
bool glob_meets(const char *a, const char *b);

#endif
