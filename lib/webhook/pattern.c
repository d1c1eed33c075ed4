/* pattern: makes a list of states from a regular expression (Thompson's construction), and runs
 * all states that a text can be in side by side. */
#include "pattern.h"
#include "alloc.h"
#include "json_text.h"
#include "sha256.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAST_CHARACTER = 0x10ffff,
    RANGES_MAX = 32 * 1024, /* of all classes of a pattern */
    NO_CHARACTER = -1,
};

enum state_kind {
    CHARACTER, /* x: the character */
    CLASS,     /* x: its number */
    JUMP,      /* x: where to */
    FORK,      /* x and y: where to */
    START,
    END,
    BOUNDARY,
    INSIDE, /* \B */
    MATCH
};

/* Places are relative to the state, so that a list of states can be moved and repeated. */
struct state {
    enum state_kind kind;
    int32_t x, y;
};

struct range {
    uint32_t from, to;
};

/* Ranges `first` and following, in order and apart from each other. */
struct class
{
    size_t first, count;
};

struct pattern {
    struct state *states;
    struct range *ranges;
    struct class *classes;
    size_t state_count, range_count, class_count;
};

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    free(p->states);
    free(p->ranges);
    free(p->classes);
    free(p);
}

size_t pattern_states(const struct pattern *p)
{
    return p->state_count;
}

/* The character at *p, which moves behind it. */
static uint32_t next_character(const unsigned char **p,
                               const unsigned char *end)
{
    const unsigned char *c = *p;
    size_t n = utf8_character(c, (size_t)(end - c));

    *p += n ? n : 1;
    return n == 2 ? (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu)
           : n == 3
               ? (c[0] & 0x0fu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu)
           : n == 4 ? (c[0] & 0x07u) << 18 | (c[1] & 0x3fu) << 12 |
                          (c[2] & 0x3fu) << 6 | (c[3] & 0x3fu)
                    : c[0];
}

/* ==== making it ==== */

struct making {
    struct pattern *p;
    const unsigned char *begin, *at, *end;
    struct pattern_wrong *wrong;
    size_t states_max;
    int depth;
    bool refused;
};

/* `at`: where what is wrong begins. */
GR_PRINTF(3, 4)
static void refuse(struct making *m, const unsigned char *at,
                   const char *format, ...)
{
    va_list args;

    if (m->refused)
        return;
    m->refused = true;
    m->wrong->at = 1;
    for (const unsigned char *c = m->begin; c < at; c++)
        m->wrong->at += (*c & 0xc0) != 0x80;
    va_start(args, format);
    vsnprintf(m->wrong->why, sizeof m->wrong->why, format, args);
    va_end(args);
    m->at = m->end;
}

static int peek(const struct making *m, size_t ahead)
{
    return (size_t)(m->end - m->at) > ahead ? m->at[ahead] : NO_CHARACTER;
}

static bool is_one_of(int c, const char *all)
{
    return c > 0 && strchr(all, c);
}

static bool take(struct making *m, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(m->end - m->at) < n || memcmp(m->at, text, n) != 0)
        return false;
    m->at += n;
    return true;
}

/* Makes space for `count` states before state `at`. `from`: the part that needs them. */
static bool insert(struct making *m, const unsigned char *from, size_t at,
                   size_t count)
{
    struct pattern *p = m->p;

    if (count > m->states_max - p->state_count) {
        refuse(m, from, "all patterns of the schema have more than %d states",
               PATTERN_STATES_MAX);
        return false;
    }
    p->states = gr_realloc(p->states,
                           (p->state_count + count) * sizeof *p->states);
    memmove(p->states + at + count, p->states + at,
            (p->state_count - at) * sizeof *p->states);
    p->state_count += count;
    return true;
}

static void append(struct making *m, enum state_kind kind, int32_t x)
{
    size_t at = m->p->state_count;

    if (insert(m, m->at, at, 1))
        m->p->states[at] = (struct state){kind, x, 0};
}

/* ---- classes ---- */

static void add_range(struct making *m, uint32_t from, uint32_t to)
{
    struct pattern *p = m->p;

    if (p->range_count == RANGES_MAX) {
        refuse(m, m->at, "has more than %d ranges of characters", RANGES_MAX);
        return;
    }
    if (p->range_count % 16 == 0)
        p->ranges = gr_realloc(p->ranges,
                               (p->range_count + 16) * sizeof *p->ranges);
    p->ranges[p->range_count++] = (struct range){from, to};
}

static int by_start(const void *left, const void *right)
{
    const struct range *a = left, *b = right;

    return (a->from > b->from) - (a->from < b->from);
}

/* Puts the ranges from number `first` on in order, and joins those that meet. */
static void put_in_order(struct pattern *p, size_t first)
{
    size_t n = first;

    if (p->range_count > first)
        qsort(p->ranges + first, p->range_count - first, sizeof *p->ranges,
              by_start);
    for (size_t i = first; i < p->range_count; i++) {
        struct range r = p->ranges[i];

        if (n > first && r.from <= p->ranges[n - 1].to + 1) {
            if (r.to > p->ranges[n - 1].to)
                p->ranges[n - 1].to = r.to;
        } else {
            p->ranges[n++] = r;
        }
    }
    p->range_count = n;
}

/* Turns the ranges from number `first` on into those of all other characters. */
static void invert(struct making *m, size_t first)
{
    struct pattern *p = m->p;
    uint32_t from = 0;
    size_t count;

    put_in_order(p, first);
    count = p->range_count;
    for (size_t i = first; i < count && !m->refused; i++) {
        struct range r = p->ranges[i];

        if (r.from > from)
            add_range(m, from, r.from - 1);
        from = r.to + 1;
    }
    if (from <= LAST_CHARACTER)
        add_range(m, from, LAST_CHARACTER);
    memmove(p->ranges + first, p->ranges + count,
            (p->range_count - count) * sizeof *p->ranges);
    p->range_count -= count - first;
}

static const struct range
    digits[] = {{'0', '9'}},
    words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
    spaces[] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},
                {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                {0xfeff, 0xfeff}},
    line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static void add_ranges(struct making *m, const struct range *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_range(m, all[i].from, all[i].to);
}

/* \d \D \w \W \s \S: adds its ranges; false: it is something else. */
static bool take_class_escape(struct making *m)
{
    size_t first = m->p->range_count;
    int c = peek(m, 1);

    if (peek(m, 0) != '\\' || !is_one_of(c, "dDwWsS"))
        return false;
    m->at += 2;
    if (c == 'd' || c == 'D')
        add_ranges(m, digits, COUNT_OF(digits));
    else if (c == 'w' || c == 'W')
        add_ranges(m, words, COUNT_OF(words));
    else
        add_ranges(m, spaces, COUNT_OF(spaces));
    if (c < 'a')
        invert(m, first);
    return true;
}

/* A state for the ranges from number `first` on. */
static void append_class(struct making *m, size_t first)
{
    struct pattern *p = m->p;

    put_in_order(p, first);
    if (p->class_count % 16 == 0)
        p->classes = gr_realloc(p->classes,
                                (p->class_count + 16) * sizeof *p->classes);
    p->classes[p->class_count] = (struct class){first, p->range_count - first};
    append(m, CLASS, (int32_t)p->class_count++);
}

/* ---- single characters ---- */

/* `count` hexadecimal digits at m->at + ahead, or -1. */
static int32_t hexadecimal(const struct making *m, size_t ahead, size_t count)
{
    int32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        int c = peek(m, ahead + i);
        int digit = c == NO_CHARACTER ? -1 : hex_digit((char)c);

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* \uHHHH, two of them for a surrogate pair, \u{H…}: m->at is behind the `u`. */
static uint32_t take_unicode(struct making *m, const unsigned char *from)
{
    int32_t c = hexadecimal(m, 0, 4), low;

    if (take(m, "{")) {
        size_t n = 0;

        while (n < 6 && hexadecimal(m, n, 1) >= 0)
            n++;
        c = n ? hexadecimal(m, 0, n) : -1;
        m->at += n;
        if (!take(m, "}") || c > LAST_CHARACTER)
            c = -1;
    } else if (c >= 0) {
        m->at += 4;
        low = peek(m, 0) == '\\' && peek(m, 1) == 'u' ? hexadecimal(m, 2, 4)
                                                      : -1;
        if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            m->at += 6;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (c < 0)
        refuse(m, from, "\\u needs four hexadecimal digits, or {} with some");
    return c < 0 ? 0 : (uint32_t)c;
}

/* An escape that means one character; m->at is at the backslash. */
static uint32_t take_escape(struct making *m, bool in_class)
{
    static const char letters[] = "tnvfr", values[] = "\t\n\v\f\r";
    const unsigned char *from = m->at++;
    int c = peek(m, 0), next = peek(m, 1);
    int32_t byte;

    if (c == NO_CHARACTER) {
        refuse(m, from, "ends with \\; write \\\\ for the character");
        return 0;
    }
    m->at++;
    if (is_one_of(c, letters))
        return (unsigned char)values[strchr(letters, c) - letters];
    if (c == 'b' && in_class)
        return '\b';
    if (c == '0' && !(next >= '0' && next <= '9'))
        return 0;
    if (c == 'c' &&
        ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) {
        m->at++;
        return (uint32_t)next % 32;
    }
    if (c == 'x' && (byte = hexadecimal(m, 0, 2)) >= 0) {
        m->at += 2;
        return (uint32_t)byte;
    }
    if (c == 'u')
        return take_unicode(m, from);
    /* Punctuation, also where ECMA-262 asks for none: \@ and \- are usual. */
    if (c < 0x80 && c > ' ' && c != 0x7f && !(c >= '0' && c <= '9') &&
        !((c | 32) >= 'a' && (c | 32) <= 'z'))
        return (uint32_t)c;
    if ((c >= '1' && c <= '9') || c == 'k')
        refuse(m, from,
               "back references are not supported: a match may take "
               "unbounded time");
    else if (c == 'p' || c == 'P')
        refuse(m, from,
               "\\%c is not supported; write the characters as a class", c);
    else if (c > ' ' && c < 0x7f)
        refuse(m, from, "\\%c is not an escape of ECMA-262", c);
    else
        refuse(m, from, "\\ before a character that needs none");
    return 0;
}

/* [a-z\d]; m->at is behind the `[`. */
static void take_class(struct making *m, const unsigned char *from)
{
    bool inverted = take(m, "^");
    size_t first = m->p->range_count;

    while (!take(m, "]") && !m->refused) {
        const unsigned char *low_at = m->at;
        bool several = take_class_escape(m);
        uint32_t low = 0, high = 0;

        if (m->at == m->end) {
            refuse(m, from, "[ without ]");
            return;
        }
        if (!several)
            low = high = peek(m, 0) == '\\' ? take_escape(m, true)
                                            : next_character(&m->at, m->end);
        if (peek(m, 0) == '-' && peek(m, 1) != ']' &&
            peek(m, 1) != NO_CHARACTER) {
            m->at++;
            if (several || take_class_escape(m)) {
                refuse(m, low_at,
                       "a range needs a character at both ends; write \\- for "
                       "the character");
                return;
            }
            high = peek(m, 0) == '\\' ? take_escape(m, true)
                                      : next_character(&m->at, m->end);
            if (low > high)
                refuse(m, low_at, "a range that ends before it begins");
        }
        if (!several && !m->refused)
            add_range(m, low, high);
    }
    if (inverted)
        invert(m, first);
    append_class(m, first);
}

/* ---- repetitions ---- */

enum { UNLIMITED = -1, COUNT_MAX = 1000 * 1000 };

static int64_t take_count(struct making *m)
{
    int64_t count = UNLIMITED;

    for (int c; (c = peek(m, 0)) >= '0' && c <= '9'; m->at++) {
        count = (count == UNLIMITED ? 0 : count) * 10 + (c - '0');
        if (count > COUNT_MAX)
            count = COUNT_MAX;
    }
    return count;
}

/* * + ? {n} {n,} {n,m}, lazy or not: false: there is none. */
static bool take_quantifier(struct making *m, int64_t *least, int64_t *most)
{
    const unsigned char *from = m->at;

    *most = UNLIMITED;
    if (take(m, "*")) {
        *least = 0;
    } else if (take(m, "+")) {
        *least = 1;
    } else if (take(m, "?")) {
        *least = 0;
        *most = 1;
    } else if (take(m, "{")) {
        *least = *most = take_count(m);
        if (*least != UNLIMITED && take(m, ","))
            *most = take_count(m);
        if (*least == UNLIMITED || !take(m, "}")) {
            refuse(m, from,
                   "{ begins no repetition such as {2,5}; write \\{ for the "
                   "character");
            return false;
        }
        if (*most != UNLIMITED && *most < *least)
            refuse(m, from, "a repetition whose most is below its least");
    } else {
        return false;
    }
    take(m, "?"); /* which part matches does not matter */
    return !m->refused;
}

/* Repeats the states from number `from` on. */
static void repeat(struct making *m, const unsigned char *quantifier,
                   size_t from, int64_t least, int64_t most)
{
    size_t n = m->p->state_count - from, to = from;
    int64_t optional = most == UNLIMITED ? least == 0 : most - least;
    int64_t total = (int64_t)n * (least + optional) + optional +
                    (most == UNLIMITED);
    struct state *s;

    if (!n)
        return;
    if (total > (int64_t)m->states_max)
        total = (int64_t)m->states_max + 1;
    if (total > (int64_t)n && !insert(m, quantifier, from, (size_t)total - n))
        return;
    s = m->p->states;
    if (!total) {
        m->p->state_count = from;
        return;
    }
    /* The one copy there is comes last, where no other is written before the end. */
    for (int64_t i = 0; i < least + optional; i++) {
        if (i >= least) {
            int64_t rest = (least + optional - i) * ((int64_t)n + 1) +
                           (most == UNLIMITED);

            s[to++] = (struct state){FORK, 1, (int32_t)rest};
        }
        memmove(s + to, s + m->p->state_count - n, n * sizeof *s);
        to += n;
    }
    if (most == UNLIMITED) /* back to the fork, or to the last copy */
        s[to] = least ? (struct state){FORK, -(int32_t)n, 1}
                      : (struct state){JUMP, -(int32_t)n - 1, 0};
}

/* ---- the grammar ---- */

static void take_alternatives(struct making *m);

/* m->at is behind the `(`. */
static void take_group(struct making *m, const unsigned char *from)
{
    if (take(m, "?=") || take(m, "?!") || take(m, "?<=") || take(m, "?<!")) {
        refuse(m, from,
               "look-ahead and look-behind are not supported; write what the "
               "whole text is");
    } else if (take(m, "?<")) { /* its name has no effect */
        while (m->at < m->end && *m->at != '>')
            m->at++;
        if (!take(m, ">"))
            refuse(m, from, "(?< without >");
    } else if (take(m, "?") && !take(m, ":")) {
        refuse(m, from, "a group begins with (, (?: or (?<name>");
    }
    if (m->depth == PATTERN_DEPTH_MAX) {
        refuse(m, from, "has more than %d groups inside of each other",
               PATTERN_DEPTH_MAX);
        return;
    }
    m->depth++;
    take_alternatives(m);
    m->depth--;
    if (!m->refused && !take(m, ")"))
        refuse(m, from, "( without )");
}

/* ^ $ \b \B; false: it is something else. */
static bool take_assertion(struct making *m)
{
    const unsigned char *from = m->at;
    enum state_kind kind = take(m, "^")     ? START
                           : take(m, "$")   ? END
                           : take(m, "\\b") ? BOUNDARY
                           : take(m, "\\B") ? INSIDE
                                            : MATCH;

    if (kind == MATCH)
        return false;
    append(m, kind, 0);
    if (is_one_of(peek(m, 0), "*+?{"))
        refuse(m, from, "a position cannot be repeated");
    return true;
}

static void take_atom(struct making *m)
{
    const unsigned char *from = m->at;
    size_t first = m->p->range_count;
    int c = peek(m, 0);

    if (take(m, "(")) {
        take_group(m, from);
    } else if (take(m, "[")) {
        take_class(m, from);
    } else if (take(m, ".")) {
        add_ranges(m, line_ends, COUNT_OF(line_ends));
        invert(m, first);
        append_class(m, first);
    } else if (take_class_escape(m)) {
        append_class(m, first);
    } else if (c == '\\') {
        append(m, CHARACTER, (int32_t)take_escape(m, false));
    } else if (c == '*' || c == '+' || c == '?') {
        refuse(m, from, "%c repeats nothing; write \\%c for the character", c,
               c);
    } else if (c == '{' || c == '}' || c == ']') {
        refuse(m, from, "%c alone has no meaning; write \\%c for the character",
               c, c);
    } else {
        append(m, CHARACTER, (int32_t)next_character(&m->at, m->end));
    }
}

static void take_sequence(struct making *m)
{
    while (m->at < m->end && *m->at != '|' && *m->at != ')') {
        const unsigned char *quantifier;
        size_t first = m->p->state_count;
        int64_t least, most;

        if (take_assertion(m))
            continue;
        take_atom(m);
        quantifier = m->at;
        if (take_quantifier(m, &least, &most))
            repeat(m, quantifier, first, least, most);
    }
}

static void take_alternatives(struct making *m)
{
    size_t first = m->p->state_count, n;

    take_sequence(m);
    while (take(m, "|") && insert(m, m->at, first, 1)) {
        n = m->p->state_count - first;
        m->p->states[first] = (struct state){FORK, 1, (int32_t)n + 1};
        append(m, JUMP, 0);
        n = m->p->state_count;
        take_sequence(m);
        if (!m->refused)
            m->p->states[n - 1].x = (int32_t)(m->p->state_count - n) + 1;
    }
}

struct pattern *pattern_new(struct bytes text, size_t states_max,
                            struct pattern_wrong *wrong)
{
    struct making m = {
        .p = gr_alloc(sizeof *m.p),
        .begin = (const unsigned char *)text.p,
        .at = (const unsigned char *)text.p,
        .end = (const unsigned char *)text.p + text.n,
        .wrong = wrong,
        .states_max = states_max < PATTERN_STATES_MAX ? states_max
                                                      : PATTERN_STATES_MAX,
    };

    *m.p = (struct pattern){0};
    *wrong = (struct pattern_wrong){0};
    take_alternatives(&m);
    if (peek(&m, 0) == ')')
        refuse(&m, m.at, ") without (; write \\) for the character");
    append(&m, MATCH, 0);
    if (!m.refused)
        return m.p;
    pattern_free(m.p);
    return NULL;
}

/* ==== matching ==== */

/* The states that the text can be in, before one character. */
struct set {
    int32_t *states;
    size_t count;
};

struct matching {
    const struct pattern *p;
    uint32_t *entered; /* by state: the number of the last character */
    uint32_t character;
    int32_t *waiting; /* states to enter */
    uint32_t before, after;
    bool at_start, at_end;
    int64_t visits;
};

static bool is_word(uint32_t c)
{
    return (c >= '0' && c <= '9') || c == '_' ||
           ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static bool holds(const struct matching *m, enum state_kind kind)
{
    bool boundary = (!m->at_start && is_word(m->before)) !=
                    (!m->at_end && is_word(m->after));

    return kind == START      ? m->at_start
           : kind == END      ? m->at_end
           : kind == BOUNDARY ? boundary
                              : !boundary;
}

/* Enters the state and those that follow without a character. Each is entered once for each
 * character, so `waiting` never has more than all of them. true: the pattern matches. */
static bool enter(struct matching *m, struct set *to, int32_t state)
{
    size_t waiting = 1;

    m->waiting[0] = state;
    while (waiting) {
        const struct state *s;

        state = m->waiting[--waiting];
        while (m->entered[state] != m->character) {
            m->entered[state] = m->character;
            m->visits--;
            s = &m->p->states[state];
            if (s->kind == MATCH)
                return true;
            if (s->kind == CHARACTER || s->kind == CLASS) {
                to->states[to->count++] = state;
            } else if (s->kind == JUMP) {
                state += s->x;
            } else if (s->kind == FORK) {
                m->waiting[waiting++] = state + s->y;
                state += s->x;
            } else if (holds(m, s->kind)) {
                state++;
            }
        }
    }
    return false;
}

static bool in_class(const struct pattern *p, int32_t number, uint32_t c)
{
    const struct class *class = &p->classes[number];
    size_t low = class->first, high = low + class->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (c > p->ranges[middle].to)
            low = middle + 1;
        else if (c < p->ranges[middle].from)
            high = middle;
        else
            return true;
    }
    return false;
}

static enum pattern_found run(struct matching *m, struct bytes text,
                              struct set *now, struct set *next)
{
    const unsigned char *at = (const unsigned char *)text.p, *end = at + text.n;
    const struct state *states = m->p->states;
    bool anchored = states[0].kind == START;

    m->at_start = true;
    m->at_end = at == end;
    m->character = 1;
    if (!m->at_end)
        m->after = next_character(&at, end);
    if (enter(m, now, 0))
        return PATTERN_FOUND;
    while (!m->at_end && !(anchored && !now->count)) {
        struct set *last = now;
        uint32_t c = m->after;

        m->before = c;
        m->at_start = false;
        m->at_end = at == end;
        if (!m->at_end)
            m->after = next_character(&at, end);
        m->character++;
        next->count = 0;
        for (size_t i = 0; i < now->count; i++) {
            const struct state *s = &states[now->states[i]];

            m->visits--;
            if ((s->kind == CHARACTER ? (uint32_t)s->x == c
                                      : in_class(m->p, s->x, c)) &&
                enter(m, next, now->states[i] + 1))
                return PATTERN_FOUND;
        }
        if (!anchored && enter(m, next, 0))
            return PATTERN_FOUND;
        if (m->visits-- < 0)
            return PATTERN_TOO_LONG;
        now = next;
        next = last;
    }
    return PATTERN_ABSENT;
}

enum pattern_found pattern_find(const struct pattern *p, struct bytes text,
                                int64_t *visits)
{
    size_t n = p->state_count;
    int32_t *memory = gr_alloc(4 * n * sizeof *memory);
    struct matching m = {.p = p,
                         .entered = (uint32_t *)memory,
                         .waiting = memory + n,
                         .visits = *visits - (int64_t)n / 4}; /* zeroing it */
    struct set now = {.states = memory + 2 * n},
               next = {.states = memory + 3 * n};
    enum pattern_found found = run(&m, text, &now, &next);

    free(memory);
    *visits = m.visits;
    return found;
}
