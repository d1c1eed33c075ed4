/* glob: matches a text against a pattern. */
#include "glob.h"
#include <string.h>

/* What is before the first star begins the text, what is after the last one ends it. The parts
 * between stars are found from left to right, each at its first place: a later place would only
 * leave less for the parts that follow. */
bool glob_match(const char *pattern, const char *text)
{
    const char *star = strchr(pattern, '*'), *last, *end;
    size_t front, back, n;

    if (!star)
        return strcmp(pattern, text) == 0;
    front = (size_t)(star - pattern);
    if (strncmp(pattern, text, front) != 0)
        return false;
    text += front;
    last = strrchr(star, '*') + 1;
    n = strlen(text);
    back = strlen(last);
    if (n < back || memcmp(text + n - back, last, back) != 0)
        return false;
    end = text + n - back;
    for (const char *part = star + 1; part < last; part = star + 1) {
        star = strchr(part, '*');
        n = (size_t)(star - part);
        text = memmem(text, (size_t)(end - text), part, n);
        if (!text)
            return false;
        text += n;
    }
    return true;
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
