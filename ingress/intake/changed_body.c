/* changed_body: writes a body as it may have been before something on the way changed it. */
#include "changed_body.h"
#include "json_text.h"
#include "sha256.h"
#include <stdio.h>
#include <string.h>

/* ---- white space, line ends, character encoding, forms ---- */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void put_byte(struct buf *out, unsigned char c)
{
    buf_put(out, &c, 1);
}

static void add_newline(struct bytes b, struct buf *out)
{
    buf_put(out, b.p, b.n);
    buf_puts(out, "\n");
}

static void add_cr_lf(struct bytes b, struct buf *out)
{
    buf_put(out, b.p, b.n);
    buf_puts(out, "\r\n");
}

static void drop_blanks_behind(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    while (b.n && blank(p[b.n - 1]))
        b.n--;
    buf_put(out, p, b.n);
}

static void drop_blanks(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    while (b.n && blank(*p))
        p++, b.n--;
    drop_blanks_behind((struct bytes){p, b.n}, out);
}

static void lf_only(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    for (size_t i = 0; i < b.n; i++)
        if (p[i] != '\r' || i + 1 == b.n || p[i + 1] != '\n')
            buf_put(out, p + i, 1);
}

static void cr_lf(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    for (size_t i = 0; i < b.n; i++) {
        if (p[i] == '\n' && (!i || p[i - 1] != '\r'))
            buf_puts(out, "\r");
        buf_put(out, p + i, 1);
    }
}

#define BOM "\xef\xbb\xbf"

static void drop_bom(struct bytes b, struct buf *out)
{
    bool has = b.n >= 3 && memcmp(b.p, BOM, 3) == 0;

    buf_put(out, (const char *)b.p + (has ? 3 : 0), b.n - (has ? 3 : 0));
}

static void add_bom(struct bytes b, struct buf *out)
{
    buf_puts(out, BOM);
    buf_put(out, b.p, b.n);
}

/* From UTF-8 to ISO 8859-1, where each character has one there. */
static void to_latin1(struct bytes b, struct buf *out)
{
    const unsigned char *p = b.p;

    for (size_t i = 0; i < b.n; i++)
        if (p[i] < 0x80)
            put_byte(out, p[i]);
        else if ((p[i] == 0xc2 || p[i] == 0xc3) && i + 1 < b.n)
            put_byte(out, (unsigned char)((p[i] & 3) << 6 | (p[i + 1] & 0x3f))),
                i++;
        else
            put_byte(out, '?');
}

static void put_utf8(struct buf *out, uint32_t c)
{
    if (c < 0x80) {
        put_byte(out, (unsigned char)c);
    } else if (c < 0x800) {
        put_byte(out, (unsigned char)(0xc0 | c >> 6));
        put_byte(out, (unsigned char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        put_byte(out, (unsigned char)(0xe0 | c >> 12));
        put_byte(out, (unsigned char)(0x80 | (c >> 6 & 0x3f)));
        put_byte(out, (unsigned char)(0x80 | (c & 0x3f)));
    } else {
        put_byte(out, (unsigned char)(0xf0 | c >> 18));
        put_byte(out, (unsigned char)(0x80 | (c >> 12 & 0x3f)));
        put_byte(out, (unsigned char)(0x80 | (c >> 6 & 0x3f)));
        put_byte(out, (unsigned char)(0x80 | (c & 0x3f)));
    }
}

static void from_latin1(struct bytes b, struct buf *out)
{
    const unsigned char *p = b.p;

    for (size_t i = 0; i < b.n; i++)
        put_utf8(out, p[i]);
}

static void spaces_as_hex(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    for (size_t i = 0; i < b.n; i++)
        if (p[i] == '+')
            buf_puts(out, "%20");
        else
            buf_put(out, p + i, 1);
}

static void spaces_as_plus(struct bytes b, struct buf *out)
{
    const char *p = b.p;

    for (size_t i = 0; i < b.n; i++)
        if (b.n - i >= 3 && memcmp(p + i, "%20", 3) == 0)
            buf_puts(out, "+"), i += 2;
        else
            buf_put(out, p + i, 1);
}

static void hex_in(struct bytes b, struct buf *out, bool upper)
{
    const char *p = b.p;
    int left = 0;

    for (size_t i = 0; i < b.n; i++) {
        char c = p[i];

        if (left && upper && c >= 'a' && c <= 'f')
            c = (char)(c - 'a' + 'A');
        else if (left && !upper && c >= 'A' && c <= 'F')
            c = (char)(c - 'A' + 'a');
        left = c == '%' ? 2 : left ? left - 1 : 0;
        buf_put(out, &c, 1);
    }
}

static void upper_hex(struct bytes b, struct buf *out)
{
    hex_in(b, out, true);
}

static void lower_hex(struct bytes b, struct buf *out)
{
    hex_in(b, out, false);
}

/* ---- JSON ---- */

enum { DEPTH_MAX = 64 };

enum spacing { SPACING_KEPT, COMPACT, SPACED, BY_2, BY_4, BY_TAB };

enum writing {
    WRITING_KEPT = 0,
    ASCII = 1,   /* \u00e9 */
    UTF8 = 2,    /* é */
    SLASH = 4,   /* \/ */
    UNSLASH = 8, /* / */
    HTML = 16,   /* \u003c for < > & */
    UNHTML = 32,
};

/* The code at `\uXXXX`; -1: it is not one. */
static int escape_at(const char *p, size_t n)
{
    int code = 0;

    if (n < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(p[i]);

        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static void put_escape(struct buf *out, uint32_t c)
{
    if (c >= 0x10000) {
        buf_printf(out, "\\u%04x\\u%04x", 0xd800 + (c - 0x10000) / 0x400,
                   0xdc00 + (c - 0x10000) % 0x400);
        return;
    }
    buf_printf(out, "\\u%04x", c);
}

static uint32_t decoded(const unsigned char *p, size_t n)
{
    if (n == 2)
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    if (n == 3)
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 |
               (p[2] & 0x3f);
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
           (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* One escape of a string. Returns its length. */
static size_t rewrite_escape(const char *p, size_t n, unsigned how,
                             struct buf *out)
{
    int code = escape_at(p, n), low;

    if (n >= 2 && p[1] == '/' && how & UNSLASH) {
        buf_puts(out, "/");
        return 2;
    }
    if (code >= 0x80 && how & UTF8) {
        low = code >= 0xd800 && code < 0xdc00 ? escape_at(p + 6, n - 6) : -1;
        if (low >= 0xdc00 && low < 0xe000) {
            put_utf8(out, 0x10000 + (uint32_t)(code - 0xd800) * 0x400 +
                              (uint32_t)(low - 0xdc00));
            return 12;
        }
        if (code < 0xd800 || code >= 0xe000) {
            put_utf8(out, (uint32_t)code);
            return 6;
        }
    }
    if ((code == '<' || code == '>' || code == '&') && how & UNHTML) {
        put_byte(out, (unsigned char)code);
        return 6;
    }
    buf_put(out, p, n < 2 ? n : 2);
    return n < 2 ? n : 2;
}

/* One character or escape of a string. Returns its length. */
static size_t rewrite(const char *p, size_t n, unsigned how, struct buf *out)
{
    size_t long_n;

    if (*p == '\\')
        return rewrite_escape(p, n, how, out);
    long_n = (unsigned char)*p >= 0x80
                 ? utf8_character((const unsigned char *)p, n)
                 : 0;
    if (long_n > 1 && how & ASCII) {
        put_escape(out, decoded((const unsigned char *)p, long_n));
        return long_n;
    }
    if (*p == '/' && how & SLASH)
        buf_puts(out, "\\/");
    else if ((*p == '<' || *p == '>' || *p == '&') && how & HTML)
        put_escape(out, (unsigned char)*p);
    else
        buf_put(out, p, 1);
    return 1;
}

static size_t put_string(const char *p, size_t n, unsigned how, struct buf *out)
{
    size_t i = 1;

    buf_puts(out, "\"");
    while (i < n && p[i] != '"')
        i += rewrite(p + i, n - i, how, out);
    if (i < n)
        buf_puts(out, "\"");
    return i < n ? i + 1 : n;
}

static void put_line(struct buf *out, enum spacing spacing, int depth)
{
    if (spacing < BY_2)
        return;
    buf_puts(out, "\n");
    for (int i = 0; i < depth; i++)
        buf_puts(out, spacing == BY_2 ? "  " : spacing == BY_4 ? "    " : "\t");
}

/* A text that is not JSON becomes another text, which no signature fits either. */
static void write_json(struct bytes b, enum spacing spacing, unsigned how,
                       struct buf *out)
{
    const char *p = b.p;
    int depth = 0;

    for (size_t i = 0; i < b.n && !out->failed;) {
        char c = p[i];
        size_t next = i + 1;

        if (c == '"') {
            i += put_string(p + i, b.n - i, how, out);
            continue;
        }
        i++;
        if (spacing == SPACING_KEPT) {
            buf_put(out, &c, 1);
            continue;
        }
        while (next < b.n && blank(p[next]))
            next++;
        if (blank(c))
            continue;
        if ((c == '}' || c == ']') && depth > 0)
            put_line(out, spacing, --depth);
        buf_put(out, &c, 1);
        if (c == '{' || c == '[') {
            if (next < b.n && p[next] == (c == '{' ? '}' : ']')) {
                buf_put(out, p + next, 1);
                i = next + 1;
            } else if (++depth > DEPTH_MAX) {
                buf_reset(out);
                return;
            } else {
                put_line(out, spacing, depth);
            }
        } else if (c == ',') {
            buf_puts(out, spacing == SPACED ? " " : "");
            put_line(out, spacing, depth);
        } else if (c == ':') {
            buf_puts(out, spacing == COMPACT ? "" : " ");
        }
    }
}

/* ---- all of them ---- */

typedef void change_fn(struct bytes b, struct buf *out);

static const struct simple {
    change_fn *fn;
    enum reject_mistake mistake;
    const char *text;
} simple[] = {
    {add_newline, MISTAKE_BODY_SPACES, "has a newline at its end"},
    {drop_blanks_behind, MISTAKE_BODY_SPACES,
     "does not have the white space at its end"},
    {drop_blanks, MISTAKE_BODY_SPACES,
     "does not have the white space around it"},
    {add_cr_lf, MISTAKE_BODY_SPACES, "has CR LF at its end"},
    {lf_only, MISTAKE_BODY_SPACES, "has LF where this one has CR LF"},
    {cr_lf, MISTAKE_BODY_SPACES, "has CR LF where this one has LF"},
    {drop_bom, MISTAKE_BODY_CHARSET, "does not begin with a byte order mark"},
    {add_bom, MISTAKE_BODY_CHARSET, "begins with a byte order mark"},
    {to_latin1, MISTAKE_BODY_CHARSET, "is in ISO 8859-1, not in UTF-8"},
    {from_latin1, MISTAKE_BODY_CHARSET, "is in UTF-8, not in ISO 8859-1"},
    {spaces_as_hex, MISTAKE_BODY_FORM, "has `%20` where this one has `+`"},
    {spaces_as_plus, MISTAKE_BODY_FORM, "has `+` where this one has `%20`"},
    {upper_hex, MISTAKE_BODY_FORM, "has `%2F` in capital letters"},
    {lower_hex, MISTAKE_BODY_FORM, "has `%2f` in small letters"},
};

static const char *const spacings[] = {
    [SPACING_KEPT] = "has the same white space",
    [COMPACT] = "is JSON without white space",
    [SPACED] = "is JSON with a space after each comma and colon",
    [BY_2] = "is JSON with an indentation of 2 spaces",
    [BY_4] = "is JSON with an indentation of 4 spaces",
    [BY_TAB] = "is JSON with an indentation by tabs",
};

static const struct {
    unsigned how;
    const char *text; /* of a body whose white space is the same */
} writings[] = {
    {WRITING_KEPT, ""},
    {ASCII, "has `\\u00e9` where this one has é"},
    {UTF8, "has é where this one has `\\u00e9`"},
    {SLASH, "has `\\/` where this one has `/`"},
    {UNSLASH, "has `/` where this one has `\\/`"},
    {HTML, "has `\\u003c` where this one has `<`"},
    {UNHTML, "has `<` where this one has `\\u003c`"},
    {ASCII | SLASH, "has `\\u00e9` and `\\/` where this one has é and `/`"},
    {UTF8 | UNSLASH, "has é and `/` where this one has `\\u00e9` and `\\/`"},
};

/* In the order of how usual they are: all spacings with the same strings first. */
static const char *changed_json(int i, struct bytes body, struct buf *out)
{
    enum spacing spacing = (enum spacing)(i / 2 % (int)COUNT_OF(spacings));
    size_t writing = (size_t)(i / 2) / COUNT_OF(spacings);
    bool newline = i % 2;

    if (writing == COUNT_OF(writings))
        return NULL;
    if (spacing == SPACING_KEPT && writing == 0)
        return "";
    write_json(body, spacing, writings[writing].how, out);
    if (newline)
        buf_puts(out, "\n");
    return spacing == SPACING_KEPT ? writings[writing].text : spacings[spacing];
}

static bool looks_json(struct bytes b)
{
    const char *p = b.p;

    while (b.n && blank(*p))
        p++, b.n--;
    return b.n && (*p == '{' || *p == '[');
}

const char *changed_body(int i, struct bytes body, struct buf *out,
                         enum reject_mistake *mistake)
{
    const char *text;

    buf_reset(out);
    if (!body.n)
        return NULL;
    if (i < (int)COUNT_OF(simple)) {
        simple[i].fn(body, out);
        *mistake = simple[i].mistake;
        text = simple[i].text;
    } else {
        *mistake = MISTAKE_BODY_JSON;
        text = looks_json(body)
                   ? changed_json(i - (int)COUNT_OF(simple), body, out)
                   : NULL;
    }
    if (!text)
        return NULL;
    if (out->failed || !out->len ||
        (out->len == body.n && memcmp(out->data, body.p, body.n) == 0))
        return "";
    return text;
}
