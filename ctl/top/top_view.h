/* top_view: numbers as lines of text that fit a window. Pure; the code that draws them
 * does not know what they mean. */
#ifndef CTL_TOP_VIEW_H
#define CTL_TOP_VIEW_H

#include "table.h"
#include "top_data.h"

enum top_sort {
    SORT_TROUBLE,
    SORT_RATE,
    SORT_LATENCY,
    SORT_WAITING,
    SORT_NAME,
    SORT_COUNT,
};

/* What the user asked to see. */
struct top_options {
    int width, height; /* of the window, in characters */
    enum top_sort sort;
    size_t first; /* endpoints that were scrolled past */
    bool keys;    /* a last line that tells the keys */
    bool help;
    const char *note; /* "", or what to say beside the title */
};

struct top_line {
    char *text; /* at most `width` characters, no control characters */
    enum colour colour;
    bool bar; /* a heading: reversed */
};

struct top_page {
    struct top_line *lines;
    size_t count, capacity;
    size_t first; /* the one asked for, as far as it could be followed */
};

/* At most `height` lines. top_page_fini() after. Sorts f's lists. */
void top_view(struct top_data *f, const struct top_options *w,
              struct top_page *out);
void top_page_fini(struct top_page *p);

/* The order that this key asks for. false: none. */
bool top_sort_of(int key, enum top_sort *out);

#endif
