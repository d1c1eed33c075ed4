/* alloc: allocations that end the process when memory is exhausted, and the bounded buffer. */
#include "alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST_BYTES = 256 };

static void *or_die(void *p)
{
    if (!p)
        die(EXIT_STORAGE, "out of memory");
    return p;
}

void *gr_alloc(size_t n)
{
    return or_die(calloc(1, n ? n : 1));
}

void *gr_realloc(void *p, size_t n)
{
    return or_die(realloc(p, n ? n : 1));
}

char *gr_strdup(const char *s)
{
    return or_die(strdup(s));
}

char *gr_strndup(const char *s, size_t n)
{
    return or_die(strndup(s, n));
}

char *gr_printf(const char *fmt, ...)
{
    va_list ap;
    char *out = NULL;

    va_start(ap, fmt);
    if (vasprintf(&out, fmt, ap) < 0)
        out = NULL;
    va_end(ap);
    return or_die(out);
}

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max = max_bytes};
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

static bool make_space(struct buf *b, size_t n)
{
    if (b->failed || n > b->max || b->len > b->max - n) {
        b->failed = true;
        return false;
    }
    if (b->len + n + 1 > b->cap) {
        size_t cap = b->cap ? b->cap : BUF_FIRST_BYTES;

        while (cap < b->len + n + 1)
            cap *= 2;
        b->data = gr_realloc(b->data, cap);
        b->cap = cap;
    }
    return true;
}

char *buf_add(struct buf *b, size_t n)
{
    char *added;

    if (!make_space(b, n))
        return NULL;
    added = b->data + b->len;
    b->len += n;
    b->data[b->len] = 0;
    return added;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
    char *to = buf_add(b, n);

    if (to && n)
        memcpy(to, p, n);
}

void buf_puts(struct buf *b, const char *s)
{
    buf_put(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    char line[BUF_FIRST_BYTES], *text = line;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof line) {
        va_start(ap, fmt);
        n = vasprintf(&text, fmt, ap);
        va_end(ap);
    }
    or_die(n < 0 ? NULL : text);
    buf_put(b, text, (size_t)n);
    if (text != line)
        free(text);
}

char *buf_take(struct buf *b)
{
    char *out;

    if (b->failed)
        return NULL;
    buf_put(b, "", 0); /* an empty buffer is an empty string */
    out = b->data;
    *b = (struct buf){.max = b->max};
    return out;
}
