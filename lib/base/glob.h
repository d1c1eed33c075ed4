/* glob: patterns in which `*` matches any text, also an empty one, and every other
 * character matches itself. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include "rc.h"

/* Whether the pattern matches the text. Case counts. The time grows with the sum of both
 * lengths, as that of memmem() does. */
bool glob_match(const char *pattern, const char *text);
/* Whether a text exists that both patterns match. The time is bounded by their lengths. */
bool glob_meets(const char *a, const char *b);

#endif
