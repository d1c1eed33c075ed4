/* glob: matches a text against a pattern. */
#include "glob.h"
#include <string.h>

/* Only the last star needs to be tried again: any text that an earlier star could match
 * instead, the last one can match too. */
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

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* If both patterns have a star, only the texts before the first star and after the last one
 * can exclude each other; the stars of one pattern match whatever the other has in between. */
bool glob_meets(const char *a, const char *b)
{
    const char *a_star = strchr(a, '*'), *b_star = strchr(b, '*');
    size_t a_end, b_end, n;

    if (!a_star)
        return glob_match(b, a);
    if (!b_star)
        return glob_match(a, b);
    if (strncmp(a, b, smaller((size_t)(a_star - a), (size_t)(b_star - b))) != 0)
        return false;
    a_end = strlen(strrchr(a, '*') + 1);
    b_end = strlen(strrchr(b, '*') + 1);
    n = smaller(a_end, b_end);
    return strcmp(a + strlen(a) - n, b + strlen(b) - n) == 0;
}
