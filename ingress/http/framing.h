/* framing: checks that a chunked body is framed as RFC 9112 (section 7.1) requires. Pure.
 *
 * libmicrohttpd 0.9.75 decodes chunks and accepts a bare LF where a line must end with CR LF. A
 * proxy before it that reads the same bytes in another way would see other borders between
 * requests. So http.c reads the bytes here too, as they came. */
#ifndef INGRESS_FRAMING_H
#define INGRESS_FRAMING_H

#include <stddef.h>
#include <stdint.h>

enum framing_state {
    FRAMING_SIZE,        /* in the size of a chunk */
    FRAMING_EXTENSION,   /* after its ";" */
    FRAMING_SIZE_LF,     /* after the CR of its line */
    FRAMING_DATA,        /* in the data: `left` bytes follow */
    FRAMING_DATA_CR,     /* after the data */
    FRAMING_DATA_LF,     /* after its CR */
    FRAMING_TRAILER_NEW, /* a trailer or the last line begins */
    FRAMING_TRAILER,     /* in a trailer */
    FRAMING_TRAILER_LF,  /* after the CR of a trailer */
    FRAMING_LAST_LF,     /* after the CR of the last line */
    FRAMING_END,         /* the body has ended */
    FRAMING_BAD,
};

/* Zeroed: before the first byte. */
struct framing {
    enum framing_state state;
    uint64_t left;
    int digits; /* of the size, so far */
};

/* The next bytes. Bytes after FRAMING_END belong to the next request; bytes after an error are
 * ignored. */
void framing_read(struct framing *f, const char *p, size_t n);

#endif
