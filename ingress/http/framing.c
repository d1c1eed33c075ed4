/* framing: reads the bytes of a chunked body, one state after the other. */
#include "framing.h"
#include "sha256.h"
#include <stdbool.h>

enum { DIGITS_MAX = 16 };

static enum framing_state size(struct framing *f, char c)
{
    int digit = hex_digit(c);

    if (digit >= 0 && f->digits < DIGITS_MAX) {
        f->digits++;
        f->left = f->left << 4 | (uint64_t)digit;
        return FRAMING_SIZE;
    }
    if (!f->digits)
        return FRAMING_BAD;
    return c == ';'    ? FRAMING_EXTENSION
           : c == '\r' ? FRAMING_SIZE_LF
                       : FRAMING_BAD;
}

/* A byte of a line: CR ends the line, and no other control character than a tab is permitted. */
static enum framing_state line(char c, enum framing_state same,
                               enum framing_state end)
{
    if (c == '\r')
        return end;
    return ((unsigned char)c < ' ' && c != '\t') || c == 127 ? FRAMING_BAD
                                                             : same;
}

static enum framing_state next(struct framing *f, char c)
{
    switch (f->state) {
    case FRAMING_SIZE:
        return size(f, c);
    case FRAMING_EXTENSION:
        return line(c, FRAMING_EXTENSION, FRAMING_SIZE_LF);
    case FRAMING_SIZE_LF:
        f->digits = 0;
        return c != '\n' ? FRAMING_BAD
               : f->left ? FRAMING_DATA
                         : FRAMING_TRAILER_NEW;
    case FRAMING_DATA_CR:
        return c == '\r' ? FRAMING_DATA_LF : FRAMING_BAD;
    case FRAMING_DATA_LF:
        return c == '\n' ? FRAMING_SIZE : FRAMING_BAD;
    case FRAMING_TRAILER_NEW:
        if (c == ' ' || c == '\t')
            return FRAMING_BAD; /* a folded line */
        return line(c, FRAMING_TRAILER, FRAMING_LAST_LF);
    case FRAMING_TRAILER:
        return line(c, FRAMING_TRAILER, FRAMING_TRAILER_LF);
    case FRAMING_TRAILER_LF:
        return c == '\n' ? FRAMING_TRAILER_NEW : FRAMING_BAD;
    case FRAMING_LAST_LF:
        return c == '\n' ? FRAMING_END : FRAMING_BAD;
    default:
        return f->state;
    }
}

void framing_read(struct framing *f, const char *p, size_t n)
{
    while (n && f->state < FRAMING_END) {
        size_t some = 1;

        if (f->state == FRAMING_DATA) {
            some = f->left < n ? (size_t)f->left : n;
            f->left -= some;
            if (!f->left)
                f->state = FRAMING_DATA_CR;
        } else {
            f->state = next(f, *p);
        }
        p += some;
        n -= some;
    }
}
