/* json_text: makes JSON strings of bytes that may not be UTF-8, and steps through a JSON text. */
#include "json_text.h"
#include "alloc.h"
#include "clock.h"
#include <stdlib.h>
#include <string.h>

enum { ESCAPE_BYTES = 6 }; /* of \uXXXX */

size_t utf8_character(const unsigned char *p, size_t n)
{
    static const struct {
        unsigned char from, to, second_from, second_to;
        size_t bytes;
    } forms[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        size_t bytes = forms[i].bytes;

        if (p[0] < forms[i].from || p[0] > forms[i].to)
            continue;
        if (bytes > n || (bytes > 1 && (p[1] < forms[i].second_from ||
                                        p[1] > forms[i].second_to)))
            return 0;
        for (size_t k = 2; k < bytes; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return bytes;
    }
    return 0;
}

/* The number of bytes from the start that are whole characters. */
static size_t good(struct bytes b)
{
    size_t at = 0, bytes;

    while (at < b.n &&
           (bytes = utf8_character((const unsigned char *)b.p + at, b.n - at)))
        at += bytes;
    return at;
}

bool utf8_valid(struct bytes b)
{
    return good(b) == b.n;
}

/* ---- reading ---- */

/* The code unit that \uXXXX at `p` means; -1: there is no such escape. */
static int escaped_unit(const char *p, size_t n)
{
    int unit = 0;

    if (n < ESCAPE_BYTES || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < ESCAPE_BYTES; i++) {
        char c = p[i] >= 'A' && p[i] <= 'F' ? (char)(p[i] | 32) : p[i];

        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return -1;
        unit = unit * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return unit;
}

/* Replaces each half of a surrogate pair by U+FFFD, and returns their number. Valid JSON
 * has backslashes only in strings, so all of the text is searched. */
static size_t mend(char *p, size_t n)
{
    size_t mended = 0, step;

    for (size_t i = 0; i < n; i += step) {
        int unit = escaped_unit(p + i, n - i), next;

        step = unit >= 0 ? ESCAPE_BYTES : p[i] == '\\' ? 2 : 1;
        if (unit < 0xd800 || unit > 0xdfff)
            continue;
        next = escaped_unit(p + i + step, n - i - step);
        if (unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) {
            step *= 2;
            continue;
        }
        memcpy(p + i, "\\ufffd", ESCAPE_BYTES);
        mended++;
    }
    return mended;
}

json_t *json_read(struct bytes text, size_t flags, json_error_t *error)
{
    const char *p = text.n ? text.p : "";
    json_t *value = json_loadb(p, text.n, flags, error);
    char *copy;

    if (value || !text.n || !memchr(p, '\\', text.n))
        return value;
    copy = gr_alloc(text.n);
    memcpy(copy, p, text.n);
    if (mend(copy, text.n))
        value = json_loadb(copy, text.n, flags, error);
    free(copy);
    return value;
}

/* ---- writing ---- */

static json_t *or_die(json_t *j)
{
    if (!j)
        die(EXIT_STORAGE, "out of memory");
    return j;
}

json_t *json_text(struct bytes b)
{
    struct buf out;
    json_t *text;

    buf_init(&out, 3 * b.n + 1);
    while (b.n) {
        size_t n = good(b);

        buf_put(&out, b.p, n);
        b = (struct bytes){(const char *)b.p + n, b.n - n};
        if (!b.n)
            break;
        buf_puts(&out, "\xef\xbf\xbd");
        b = (struct bytes){(const char *)b.p + 1, b.n - 1};
    }
    text = or_die(json_stringn(out.len ? out.data : "", out.len));
    buf_fini(&out);
    return text;
}

json_t *json_text_of(const char *s)
{
    return s ? json_text((struct bytes){s, strlen(s)}) : json_null();
}

json_t *json_text_or_null(const char *s)
{
    return json_text_of(s && *s ? s : NULL);
}

json_t *json_number_or_null(int64_t v)
{
    return v ? json_integer(v) : json_null();
}

json_t *json_time(int64_t wall_ms)
{
    char text[RFC3339_BYTES];

    if (!wall_ms)
        return json_null();
    rfc3339(text, wall_ms);
    return or_die(json_string(text));
}

/* ---- positions in a text ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

const char *json_skip_blanks(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

const char *json_skip_string(const char *p)
{
    for (p++; *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p + 1;
}

const char *json_skip_value(const char *p, struct bytes *value)
{
    const char *from = p, *to;
    int depth = 0;

    while (depth || (*p != ',' && *p != ']' && *p != '}')) {
        if (*p == '"') {
            p = json_skip_string(p);
            continue;
        }
        depth += (*p == '[' || *p == '{') - (*p == ']' || *p == '}');
        p++;
    }
    for (to = p; to > from && is_blank(to[-1]);)
        to--;
    if (value)
        *value = (struct bytes){from, (size_t)(to - from)};
    return p;
}
