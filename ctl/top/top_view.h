/* top_view: lays numbers out as lines of text that fit a window. Pure; top_screen draws the lines. */
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

/* The view that the user has chosen. */
struct top_options {
    int width, height; /* of the window, in characters */
    enum top_sort sort;
    size_t first; /* the first endpoint to show */
    bool keys;    /* the last line lists the keys */
    bool help;
    const char *note; /* beside the title; may be "" */
};

struct top_line {
    char *text; /* at most `width` characters, no control characters */
    enum colour colour;
    bool bar; /* a heading: reversed */
};

struct top_page {
    struct top_line *lines;
    size_t count, capacity;
    size_t first; /* of the options, limited to the last page */
};

/* Makes at most `height` lines; the caller calls top_page_fini(). Sorts the lists of `f`. */
void top_view(struct top_data *f, const struct top_options *w,
              struct top_page *out);
void top_page_fini(struct top_page *p);

/* The order that this key selects. false: it selects none. */
bool top_sort_of(int key, enum top_sort *out);

#endif
