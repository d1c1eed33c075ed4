/* reason: why something failed, in one line. */
#include "reason.h"
#include <stdio.h>
#include <string.h>

gr_rc reason_put(char *why, size_t bytes, const char *what, const char *message)
{
    size_t n;

    snprintf(why, bytes, "%s%s%s", what, *message ? ": " : "", message);
    for (char *p = why; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    n = strlen(why);
    while (n && why[n - 1] == ' ')
        why[--n] = 0;
    return GR_REFUSE;
}
