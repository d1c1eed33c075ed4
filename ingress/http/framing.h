/* framing: is a chunked body framed as RFC 9112 (section 7.1) requires? Pure.
 *
 * libmicrohttpd 0.9.75 decodes chunks, and takes a bare LF where a line ends with
 * CR LF. A proxy in front that reads the same bytes in another way would see other
 * borders between requests. So its bytes are read here too, as they came. */
#ifndef INGRESS_FRAMING_H
#define INGRESS_FRAMING_H

#include <stddef.h>
#include <stdint.h>

enum framing_state {
    FRAMING_SIZE,        /* a chunk's size begins, or goes on */
    FRAMING_EXTENSION,   /* behind its ";" */
    FRAMING_SIZE_LF,     /* behind the CR of its line */
    FRAMING_DATA,        /* `left` bytes of the chunk */
    FRAMING_DATA_CR,     /* behind them */
    FRAMING_DATA_LF,     /* behind that */
    FRAMING_TRAILER_NEW, /* a trailer begins, or the last line */
    FRAMING_TRAILER,     /* in a trailer */
    FRAMING_TRAILER_LF,  /* behind its CR */
    FRAMING_LAST_LF,     /* behind the CR of the last line */
    FRAMING_END,         /* the body has ended */
    FRAMING_BAD,
};

/* Zeroed, it is before the first byte. */
struct framing {
    enum framing_state state;
    uint64_t left;
    int digits; /* of the size, so far */
};

/* The next bytes. Those behind FRAMING_END belong to the next request, and what is
 * behind an error is not looked at. */
void framing_read(struct framing *f, const char *p, size_t n);

#endif
