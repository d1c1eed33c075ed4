#include "glob.h"

/* Only the last star is ever tried again: whatever an earlier one could take
 * instead, the last one can take too. */
bool glob_match(const char *pattern, const char *text)
{
    const char *star = NULL, *star_text = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}
