/* manual: writes the macros of a man page, with every text escaped. */
#include "manual.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 70 };

/* Text that is copied from the page must equal the original: unless escaped, man turns
 * these characters into typographic ones. "…" becomes the escape that every output device
 * can print. */
static const struct {
    const char *plain, *page;
} signs[] = {
    {"-", "\\-"},   {"\\", "\\e"},  {"'", "\\(aq"},          {"`", "\\(ga"},
    {"^", "\\(ha"}, {"~", "\\(ti"}, {"\xe2\x80\xa6", "..."}, {"\xc2\xb5", "u"},
};

static void put(struct buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t k = 0, used = 1;

        while (k < COUNT_OF(signs) &&
               strncmp(text + i, signs[k].plain, strlen(signs[k].plain)) != 0)
            k++;
        if (k < COUNT_OF(signs)) {
            buf_puts(b, signs[k].page);
            used = strlen(signs[k].plain);
        } else {
            buf_put(b, &text[i], 1);
        }
        i += used;
    }
}

/* A line that begins with one of these would be a macro. */
static void begin_line(struct buf *b, const char *text)
{
    if (*text == '.')
        buf_puts(b, "\\&");
}

void manual_begin(struct buf *b, const char *name, int section,
                  const char *summary)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    time_t at = epoch && *epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    struct tm tm;
    char on[16];

    gmtime_r(&at, &tm);
    strftime(on, sizeof on, "%Y-%m-%d", &tm);
    buf_puts(b, ".TH ");
    for (const char *p = name; *p; p++)
        buf_printf(b, "%c", toupper((unsigned char)*p));
    buf_printf(b, " %d \"%s\" \"Grapnel %s\"\n", section, on, GRAPNEL_VERSION);
    manual_section(b, "NAME");
    put(b, name, strlen(name));
    buf_puts(b, " \\- ");
    put(b, summary, strlen(summary));
    buf_puts(b, "\n");
}

void manual_section(struct buf *b, const char *title)
{
    buf_printf(b, ".SH %s\n", title);
}

void manual_subsection(struct buf *b, const char *title)
{
    buf_puts(b, ".SS ");
    put(b, title, strlen(title));
    buf_puts(b, "\n");
}

static void fill(struct buf *b, const char *text)
{
    size_t width = 0;

    while (*(text += strspn(text, " \n"))) {
        size_t n = strcspn(text, " \n");

        if (width && width + 1 + n > LINE_BYTES) {
            buf_puts(b, "\n");
            width = 0;
        } else if (width) {
            buf_puts(b, " ");
            width++;
        }
        if (!width)
            begin_line(b, text);
        put(b, text, n);
        width += n;
        text += n;
    }
    if (width)
        buf_puts(b, "\n");
}

/* A heading begins a new paragraph by itself. */
static void paragraph(struct buf *b)
{
    const char *last = b->data + b->len - 1;

    while (last > b->data && last[-1] != '\n')
        last--;
    if (strncmp(last, ".S", 2) != 0)
        buf_puts(b, ".PP\n");
}

void manual_text(struct buf *b, const char *text)
{
    paragraph(b);
    fill(b, text);
}

void manual_entry(struct buf *b, const char *word, const char *value,
                  const char *text)
{
    buf_puts(b, ".TP\n\\fB");
    put(b, word, strlen(word));
    buf_puts(b, "\\fR");
    if (value) {
        buf_puts(b, " \\fI");
        put(b, value, strlen(value));
        buf_puts(b, "\\fR");
    }
    buf_puts(b, "\n");
    fill(b, text);
}

void manual_lines(struct buf *b, const char *lines)
{
    paragraph(b);
    buf_puts(b, ".nf\n.RS 4\n");
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        size_t skip = strncmp(lines, "  ", 2) == 0 ? 2 : 0;

        begin_line(b, lines + skip);
        put(b, lines + skip, n - skip);
        buf_puts(b, "\n");
        lines += n + (lines[n] == '\n');
    }
    buf_puts(b, ".RE\n.fi\n");
}

void manual_usage(struct buf *b, const char *name, const char *rest)
{
    buf_puts(b, "\\fB");
    put(b, name, strlen(name));
    buf_puts(b, "\\fR ");
    put(b, rest, strlen(rest));
    buf_puts(b, "\n");
}
