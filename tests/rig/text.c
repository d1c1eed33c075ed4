#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

char *text_reserve(struct text *t, size_t more)
{
    if (t->capacity - t->len < more) {
        size_t capacity = t->capacity ? t->capacity : 1024;

        while (capacity - t->len < more)
            capacity *= 2;
        t->at = realloc(t->at, capacity);
        if (!t->at)
            fail("out of memory");
        t->capacity = capacity;
    }
    return t->at + t->len;
}

void text_add(struct text *t, const void *bytes, size_t len)
{
    if (!len)
        return;
    memcpy(text_reserve(t, len), bytes, len);
    t->len += len;
}

void text_str(struct text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void text_fmt(struct text *t, const char *format, ...)
{
    char line[512];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof line)
        fail("a formatted line is too long");
    text_add(t, line, (size_t)len);
}

void text_json(struct text *t, const char *bytes, size_t len)
{
    char *at = text_reserve(t, len * 6 + 2);

    *at++ = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (c == '"' || c == '\\') {
            *at++ = '\\';
            *at++ = (char)c;
        } else if (c < ' ' || c > '~') {
            at += snprintf(at, 7, "\\u%04x", c);
        } else {
            *at++ = (char)c;
        }
    }
    *at++ = '"';
    t->len = (size_t)(at - t->at);
}

void text_base64(struct text *t, const void *bytes, size_t len)
{
    static const char dead_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    char *at = text_reserve(t, (len + 2) / 3 * 4);

    for (; len >= 3; len -= 3, in += 3) {
        *at++ = dead_letters[in[0] >> 2];
        *at++ = dead_letters[(in[0] & 3) << 4 | in[1] >> 4];
        *at++ = dead_letters[(in[1] & 15) << 2 | in[2] >> 6];
        *at++ = dead_letters[in[2] & 63];
    }
    if (len) {
        unsigned second = len == 2 ? in[1] : 0;

        *at++ = dead_letters[in[0] >> 2];
        *at++ = dead_letters[(in[0] & 3) << 4 | second >> 4];
        *at++ = len == 2 ? dead_letters[(second & 15) << 2] : '=';
        *at++ = '=';
    }
    t->len = (size_t)(at - t->at);
}

void text_drop(struct text *t, size_t len)
{
    t->len -= len;
    if (t->len)
        memmove(t->at, t->at + len, t->len);
}

void text_fini(struct text *t)
{
    free(t->at);
    *t = (struct text){0};
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

int64_t mono_us(void)
{
    return clock_us(CLOCK_BOOTTIME);
}

void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
