/* top_screen: lines on a terminal, keys from it. Only this file knows curses. */
#ifndef CTL_TOP_SCREEN_H
#define CTL_TOP_SCREEN_H

#include "top_view.h"

enum screen_key {
    KEY_NONE = -1, /* nothing was pressed */
    KEY_UPWARDS = 256,
    KEY_DOWNWARDS,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_TO_BEGIN,
    KEY_OTHER, /* one that means nothing here; also: the window's size changed */
};

/* GR_REFUSE: this is no terminal that can be drawn on: `why`. After GR_OK the
 * terminal is ours until screen_close(). */
GR_MUST_CHECK gr_rc screen_open(bool colour, char why[200]);
void screen_close(void);
void screen_size(int *width, int *height);
void screen_draw(const struct top_page *page);
/* Never waits. Characters as they are. */
int screen_key(void);

#endif
