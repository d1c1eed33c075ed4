/* json_scan: walks a JSON text along a pointer. */
#include "json_scan.h"
#include "json_text.h"
#include "sha256.h"
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 64,
    INT64_DIGITS = 19,
    /* Together fewer than the 308 digits of the largest double. */
    REAL_MAX_BYTES = 100,
    EXPONENT_MAX_DIGITS = 2,
    NAMES_MAX = 32,
};

struct scan {
    const unsigned char *p, *end;
    int depth;
    bool escaped; /* the last string has a backslash */
    bool unique;  /* equal names in an object end the scan */
};

/* The names of an object that were read. */
struct names {
    size_t count;
    struct bytes items[NAMES_MAX];
};

/* One step of the pointer, searched in the outermost object or list. `step` is as the
 * pointer has it: up to the next slash, with ~0 and ~1. */
struct target {
    const char *step;
    size_t index; /* the index in a list; SIZE_MAX: the step is not a number */
    const unsigned char *from,
        *to; /* where it was found last; NULL: not found */
};

static bool value(struct scan *s, struct target *w);

static bool is_at(const struct scan *s, unsigned char c)
{
    return s->p < s->end && *s->p == c;
}

static bool take(struct scan *s, unsigned char c)
{
    bool is = is_at(s, c);

    s->p += is;
    return is;
}

static void skip_blanks(struct scan *s)
{
    while (s->p < s->end &&
           (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
        s->p++;
}

/* ---- strings ---- */

/* The four digits after \u; -1: they are missing. */
static int code_unit(struct scan *s)
{
    int unit = 0;

    for (int i = 0; i < 4; i++) {
        int digit = s->p < s->end ? hex_digit((char)*s->p) : -1;

        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
        s->p++;
    }
    return unit;
}

/* Reads an escape, after its backslash. */
static bool escape(struct scan *s)
{
    int unit;

    s->escaped = true;
    if (!take(s, 'u'))
        return s->p < s->end && *s->p && strchr("\"\\/bfnrt", *s->p++);
    unit = code_unit(s);
    if (unit >= 0xd800 && unit <= 0xdbff) {
        if (!take(s, '\\') || !take(s, 'u'))
            return false;
        unit = code_unit(s);
        return unit >= 0xdc00 && unit <= 0xdfff;
    }
    return unit >= 0 && !(unit >= 0xdc00 && unit <= 0xdfff);
}

/* How many of the eight bytes at `p` come before the first that is a quote, a backslash, a
 * control character or not ASCII: eight subtractions at once, in which only such a byte
 * sets its highest bit, or borrows one from bytes behind it. */
static size_t plain_bytes(const unsigned char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    uint64_t v, quote, backslash, special;

    memcpy(&v, p, sizeof v);
    v = le64toh(v);
    quote = v ^ (ones * '"');
    backslash = v ^ (ones * '\\');
    special = ((v - ones * ' ') | (quote - ones) | (backslash - ones) | v) &
              highs;
    return special ? (size_t)__builtin_ctzll(special) / 8 : sizeof v;
}

static bool string(struct scan *s)
{
    s->escaped = false;
    if (!take(s, '"'))
        return false;
    for (;;) {
        size_t n = 8;

        while (n == 8 && s->end - s->p >= 8) {
            n = plain_bytes(s->p);
            s->p += n;
        }
        if (s->p == s->end || *s->p < ' ')
            return false;
        if (take(s, '"'))
            return true;
        if (take(s, '\\')) {
            if (!escape(s))
                return false;
            continue;
        }
        n = utf8_character(s->p, (size_t)(s->end - s->p));
        if (!n)
            return false;
        s->p += n;
    }
}

/* ---- numbers and words ---- */

static size_t digits(struct scan *s)
{
    const unsigned char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - from);
}

static bool fits_int64(const unsigned char *p, size_t n, bool minus)
{
    const char *largest = minus ? "9223372036854775808" : "9223372036854775807";

    return n < INT64_DIGITS ||
           (n == INT64_DIGITS && memcmp(p, largest, INT64_DIGITS) <= 0);
}

static bool number(struct scan *s)
{
    const unsigned char *from = s->p, *whole;
    bool minus = take(s, '-'), real = false;
    size_t n;

    whole = s->p;
    n = digits(s);
    if (!n || (*whole == '0' && n > 1))
        return false;
    if (take(s, '.')) {
        real = true;
        if (!digits(s))
            return false;
    }
    if (is_at(s, 'e') || is_at(s, 'E')) {
        size_t exponent;

        real = true;
        s->p++;
        if (!take(s, '+'))
            take(s, '-');
        exponent = digits(s);
        if (!exponent || exponent > EXPONENT_MAX_DIGITS)
            return false;
    }
    return real ? s->p - from <= REAL_MAX_BYTES : fits_int64(whole, n, minus);
}

static bool word(struct scan *s, const char *text)
{
    size_t n = strlen(text);
    bool is = (size_t)(s->end - s->p) >= n && memcmp(s->p, text, n) == 0;

    s->p += is ? n : 0;
    return is;
}

/* ---- objects and lists ---- */

/* Whether a name of an object equals the pointer's step. The name has no escapes, so its
 * bytes are its characters. */
static bool is_step(const struct target *w, const unsigned char *name, size_t n)
{
    const char *step = w->step;

    for (size_t i = 0; i < n; i++, step++) {
        char c = *step;

        if (c == '~')
            c = *++step == '1' ? '/' : '~';
        else if (!c || c == '/')
            return false;
        if ((unsigned char)c != name[i])
            return false;
    }
    return !*step || *step == '/';
}

/* Scans one value, and notes where it is if it `is` the target. */
static bool element(struct scan *s, struct target *w, bool is)
{
    const unsigned char *from;

    skip_blanks(s);
    from = s->p;
    if (!value(s, NULL))
        return false;
    if (is) {
        w->from = from;
        w->to = s->p;
    }
    skip_blanks(s);
    return true;
}

/* false: it has this name already, or too many. */
static bool add_name(struct names *names, struct bytes name)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->items[i].n == name.n &&
            memcmp(names->items[i].p, name.p, name.n) == 0)
            return false;
    if (names->count == NAMES_MAX)
        return false;
    names->items[names->count++] = name;
    return true;
}

static bool member(struct scan *s, struct target *w, struct names *names)
{
    struct bytes name;
    bool is;

    skip_blanks(s);
    name.p = s->p + 1;
    if (!string(s) || s->escaped)
        return false;
    name.n = (size_t)(s->p - 1 - (const unsigned char *)name.p);
    if (s->unique && !add_name(names, name))
        return false;
    is = w && is_step(w, name.p, name.n);
    skip_blanks(s);
    return take(s, ':') && element(s, w, is);
}

static bool object(struct scan *s, struct target *w)
{
    struct names names;

    names.count = 0;
    skip_blanks(s);
    if (take(s, '}'))
        return true;
    do {
        if (!member(s, w, &names))
            return false;
    } while (take(s, ','));
    return take(s, '}');
}

static bool list(struct scan *s, struct target *w)
{
    size_t i = 0;

    skip_blanks(s);
    if (take(s, ']'))
        return true;
    do {
        if (!element(s, w, w && i++ == w->index))
            return false;
    } while (take(s, ','));
    return take(s, ']');
}

static bool value(struct scan *s, struct target *w)
{
    bool good;

    if (s->p == s->end || s->depth == DEPTH_MAX)
        return false;
    s->depth++;
    switch (*s->p) {
    case '{':
        s->p++;
        good = object(s, w);
        break;
    case '[':
        s->p++;
        good = list(s, w);
        break;
    case '"':
        good = string(s);
        break;
    case 't':
        good = word(s, "true");
        break;
    case 'f':
        good = word(s, "false");
        break;
    case 'n':
        good = word(s, "null");
        break;
    default:
        good = number(s);
    }
    s->depth--;
    return good;
}

/* ---- pointers ---- */

/* The number in a step: 0, or digits that do not begin with 0, up to the next slash. */
static size_t step_index(const char *step)
{
    size_t n = strspn(step, "0123456789");
    unsigned long index;

    if (!n || (step[n] && step[n] != '/') || (*step == '0' && n > 1))
        return SIZE_MAX;
    index = strtoul(step, NULL, 10);
    return index;
}

/* Whether the scan is sure that its text is one value; `w` has what was found in it. */
static bool whole(struct scan *s, struct target *w, struct bytes *all)
{
    const unsigned char *from;

    skip_blanks(s);
    from = s->p;
    if (!value(s, w))
        return false;
    *all = (struct bytes){from, (size_t)(s->p - from)};
    skip_blanks(s);
    return s->p == s->end;
}

enum json_scanned json_scan(struct bytes text, const char *pointer,
                            struct bytes *found, size_t *read_bytes)
{
    const unsigned char *from = text.n ? text.p : (const void *)"";
    const unsigned char *to = from + text.n;

    do {
        struct scan s = {.p = from, .end = to};
        struct target w = {.from = NULL};
        if (*pointer) {
            w.step = pointer + 1;
            w.index = step_index(w.step);
            pointer += 1 + strcspn(w.step, "/");
        }
        *read_bytes += (size_t)(to - from);
        if (!whole(&s, w.step ? &w : NULL, found))
            return JSON_SCAN_UNSURE;
        if (w.step && !w.from)
            return JSON_SCAN_ABSENT;
        if (w.step)
            *found = (struct bytes){w.from, (size_t)(w.to - w.from)};
        from = found->p;
        to = from + found->n;
    } while (*pointer);
    return JSON_SCAN_FOUND;
}

enum json_scanned json_scan_member(struct bytes text, const char *name,
                                   struct bytes *found)
{
    const unsigned char *from = text.n ? text.p : (const void *)"";
    struct scan s = {.p = from, .end = from + text.n, .unique = true};
    struct target w = {.step = name, .index = SIZE_MAX};
    struct bytes all;

    if (!whole(&s, &w, &all))
        return JSON_SCAN_UNSURE;
    if (!w.from)
        return JSON_SCAN_ABSENT;
    *found = (struct bytes){w.from, (size_t)(w.to - w.from)};
    return JSON_SCAN_FOUND;
}
