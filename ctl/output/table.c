/* table: prints aligned columns with colours, and makes text harmless for a terminal. */
#include "table.h"
#include "clock.h"
#include "when.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { JOINED_MAX_BYTES = 1024 * 1024 };

static const char *const codes[] = {
    [BOLD] = "\033[1m",   [DIM] = "\033[2m",     [RED] = "\033[31m",
    [GREEN] = "\033[32m", [YELLOW] = "\033[33m",
};

const char *colour_on(enum colour c, bool colour)
{
    return colour && c != PLAIN ? codes[c] : "";
}

const char *colour_off(enum colour c, bool colour)
{
    return colour && c != PLAIN ? "\033[0m" : "";
}

/* The bytes of a mark that changes the direction of the text after it (U+061C, U+200E, U+200F,
 * U+202A to U+202E, U+2066 to U+2069); 0: there is no such mark at `p`. */
static int turns(const unsigned char *p)
{
    if (p[0] == 0xd8 && p[1] == 0x9c)
        return 2;
    if (p[0] == 0xe2 && p[1] == 0x80 &&
        (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae)))
        return 3;
    if (p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9)
        return 3;
    return 0;
}

char *harmless(const char *text)
{
    char *out = gr_strdup(text);

    for (unsigned char *p = (unsigned char *)out; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        if (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) /* U+0080 to U+009F */
            p[0] = p[1] = '?';
        memset(p, '?', (size_t)turns(p));
    }
    return out;
}

char *join_strings(const json_t *strings, size_t max)
{
    size_t n = json_array_size(strings), i;
    struct buf b;
    json_t *t;

    buf_init(&b, JOINED_MAX_BYTES);
    json_array_foreach(strings, i, t) if (i < max)
        buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(t));
    if (n > max)
        buf_printf(&b, " and %zu more", n - max);
    if (!b.failed)
        return buf_take(&b);
    buf_fini(&b);
    return gr_strdup("…");
}

size_t text_width(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void add(struct table *t, enum colour colour, char *text)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 64;
        t->cells = gr_realloc(t->cells, t->capacity * sizeof *t->cells);
        t->colours = gr_realloc(t->colours, t->capacity * sizeof *t->colours);
    }
    t->cells[t->count] = text;
    t->colours[t->count++] = colour;
}

void table_init(struct table *t, const char *const *heads)
{
    *t = (struct table){0};
    for (; heads[t->columns]; t->columns++) {
        const char *head = heads[t->columns], *zone = strstr(head, "(UTC)");

        add(t, BOLD,
            zone ? gr_printf("%.*s(%s)", (int)(zone - head), head, when_zone())
                 : gr_strdup(head));
    }
}

void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->colours);
    *t = (struct table){0};
}

void table_add(struct table *t, enum colour colour, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        die(EXIT_STORAGE, "out of memory");
    va_end(ap);
    add(t, colour, harmless(text));
    free(text);
}

void table_print(const struct table *t, FILE *to, bool colour, int indent)
{
    size_t width[TABLE_COLUMNS_MAX] = {0}, columns = (size_t)t->columns;

    for (size_t i = 0; i < t->count; i++)
        if (text_width(t->cells[i]) > width[i % columns])
            width[i % columns] = text_width(t->cells[i]);
    for (size_t i = 0; i < t->count; i++) {
        bool last = i % columns == columns - 1;
        size_t fill = last ? 0
                           : width[i % columns] - text_width(t->cells[i]) + 2;

        if (i % columns == 0)
            fprintf(to, "%*s", indent, "");
        fprintf(to, "%s%s%s%*s%s", colour_on(t->colours[i], colour),
                t->cells[i], colour_off(t->colours[i], colour), (int)fill, "",
                last ? "\n" : "");
    }
}

const char *human_bytes(int64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1024 && unit + 1 < COUNT_OF(units); unit++)
        value /= 1024;
    snprintf(out, 32, unit && value < 10 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return out;
}

/* The two largest units, or milliseconds. */
const char *human_ms(int64_t ms, char out[32])
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {
        {DAY_MS, "d"}, {HOUR_MS, "h"}, {MINUTE_MS, "m"}, {SECOND_MS, "s"}};

    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (ms < units[i].ms)
            continue;
        if (i + 1 < COUNT_OF(units) && ms % units[i].ms >= units[i + 1].ms)
            snprintf(out, 32, "%" PRId64 "%s %" PRId64 "%s", ms / units[i].ms,
                     units[i].name, ms % units[i].ms / units[i + 1].ms,
                     units[i + 1].name);
        else
            snprintf(out, 32, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
        return out;
    }
    snprintf(out, 32, "%" PRId64 "ms", ms);
    return out;
}
