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

static void choose_colours(bool colour)
{
    if (!colour || !has_colors() || start_color() != OK)
        return;
    use_default_colors();
    init_pair(RED, COLOR_RED, -1);
    init_pair(GREEN, COLOR_GREEN, -1);
    init_pair(YELLOW, COLOR_YELLOW, -1);
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
    /* Asked first, as newterm() is not so tidy about what it can't do. */
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
    choose_colours(colour);
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

/* Without colours, lines with trouble are bold; they have a mark in any case. */
static attr_t look_of(const struct top_line *l)
{
    attr_t a = l->bar ? A_REVERSE : A_NORMAL;

    if (l->colour == BOLD || l->colour == RED)
        a |= A_BOLD;
    if (l->colour >= RED && has_colors() && COLOR_PAIRS > YELLOW)
        a |= (attr_t)COLOR_PAIR(l->colour);
    return a;
}

void screen_draw(const struct top_page *page)
{
    erase();
    for (size_t i = 0; i < page->count; i++) {
        const struct top_line *l = &page->lines[i];

        attrset(look_of(l));
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
