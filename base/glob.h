/* glob: patterns in which `*` stands for any text, the empty one too, and
 * every other character for itself. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include "rc.h"

/* Case counts. Time is bounded by the product of both lengths. */
bool glob_match(const char *pattern, const char *text);

#endif
