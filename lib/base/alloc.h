/* alloc: small allocations that cannot fail, and a buffer with a limit.
 *
 * A small allocation ends the process (die()) when memory is exhausted. Data whose size a
 * client chooses goes into a `struct buf`, which has a limit and reports that it is full. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "rc.h"
#include <stdarg.h>

/* Returns zeroed memory, never NULL; the caller frees it with free(). */
void *gr_alloc(size_t n);
void *gr_realloc(void *p, size_t n);
char *gr_strdup(const char *s);
char *gr_strndup(const char *s, size_t n);
/* printf into a new string; the caller frees it. */
char *gr_printf(const char *fmt, ...) GR_PRINTF(1, 2);

/* A growing byte buffer. `failed` is sticky: once something did not fit into
 * `max`, every later put does nothing, so that callers check once, at the end.
 * The byte after the last is always 0, so `data` can be read as a string. */
struct buf {
    char *data;
    size_t len, cap, max;
    bool failed;
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_fini(struct buf *b);
void buf_reset(
    struct buf *b); /* empty again; keeps its memory, and has not failed */
void buf_put(struct buf *b, const void *p, size_t n);
/* Makes it longer by n bytes, for the caller to fill in; NULL: it has failed. */
char *buf_add(struct buf *b, size_t n);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) GR_PRINTF(2, 3);
/* The contents as a string that the caller frees; the buffer is empty afterwards. NULL: it
 * had failed. */
char *buf_take(struct buf *b);

#endif
