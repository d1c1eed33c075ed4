/* top_screen: draws lines on a terminal and reads keys, with curses. */
#include "top_screen.h"
#include <curses.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <term.h>
#include <unistd.h>
#undef lines /* a macro of term.h */

enum { ESCAPE_MS = 25 };

static SCREEN *screen;

static gr_rc refuse(char why[200], const char *what)
{
    snprintf(why, 200,
             "top needs a terminal: %s. `grapnel top --once` prints one "
             "screen, with --json a document",
             what);
    return GR_REFUSE;
}

gr_rc screen_open(bool colour, char why[200])
{
    const char *term = getenv("TERM"), *move;
    char what[100];
    int error;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return refuse(why, "standard input and output are not terminals");
    if (!term || !*term)
        return refuse(why, "TERM is not set");
    snprintf(what, sizeof what, "TERM is \"%.40s\", which is unknown", term);
    /* Ask terminfo first: newterm() does not say what a terminal lacks. */
    if (setupterm(term, STDOUT_FILENO, &error) != OK)
        return refuse(why, what);
    move = tigetstr("cup");
    del_curterm(cur_term);
    snprintf(what, sizeof what, "TERM is \"%.40s\", which cannot show a screen",
             term);
    if (!move || move == (char *)-1)
        return refuse(why, what);
    setlocale(LC_CTYPE, "");
    screen = newterm(term, stdout, stdin);
    if (!screen)
        return refuse(why, what);
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    if (colour && has_colors() && start_color() == OK) {
        use_default_colors();
        init_pair(RED, COLOR_RED, -1);
        init_pair(GREEN, COLOR_GREEN, -1);
        init_pair(YELLOW, COLOR_YELLOW, -1);
    }
    return GR_OK;
}

void screen_close(void)
{
    if (!screen)
        return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

void screen_size(int *width, int *height)
{
    getmaxyx(stdscr, *height, *width);
}

void screen_draw(const struct top_page *page)
{
    erase();
    for (size_t i = 0; i < page->count; i++) {
        const struct top_line *l = &page->lines[i];

        attr_t look = l->bar ? A_REVERSE : A_NORMAL;

        /* Without colours, trouble is bold; its line begins with a mark in any case. */
        if (l->colour == BOLD || l->colour == RED)
            look |= A_BOLD;
        if (l->colour >= RED && has_colors() && COLOR_PAIRS > YELLOW)
            look |= (attr_t)COLOR_PAIR(l->colour);
        attrset(look);
        mvaddstr((int)i, 0, l->text);
    }
    attrset(A_NORMAL);
    refresh();
}

int screen_key(void)
{
    int key = getch();

    switch (key) {
    case ERR:
        return KEY_NONE;
    case KEY_UP:
        return KEY_UPWARDS;
    case KEY_DOWN:
        return KEY_DOWNWARDS;
    case KEY_PPAGE:
        return KEY_PAGE_UP;
    case KEY_NPAGE:
        return KEY_PAGE_DOWN;
    case KEY_HOME:
        return KEY_TO_BEGIN;
    default:
        return key >= 0 && key < 256 ? key : KEY_OTHER;
    }
}
