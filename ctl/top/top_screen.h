/* top_screen: draws lines on a terminal and reads keys. Only this file knows curses. For top.c. */
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
    KEY_OTHER, /* another key, or the size of the window changed */
};

/* GR_REFUSE: the terminal cannot show a screen; `why` says the reason. After GR_OK only this
 * file may use the terminal, until screen_close(). */
GR_MUST_CHECK gr_rc screen_open(bool colour, char why[200]);
void screen_close(void);
void screen_size(int *width, int *height);
void screen_draw(const struct top_page *page);
/* The next key: a character, or an enum screen_key. Never waits. */
int screen_key(void);

#endif
