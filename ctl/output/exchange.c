/* exchange: prints the headers and the body of a request or a response. */
#include "exchange.h"
#include "json_text.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tabs become spaces; a NUL and other control characters become `?`. */
static void print_line(const char *p, size_t n, const char *mark)
{
    char *line = gr_alloc(n + 1), *safe; /* the text may contain NULs */

    for (size_t i = 0; i < n; i++)
        line[i] = p[i] == '\t' ? ' ' : p[i] ? p[i] : '?';
    line[n] = 0;
    if (n && line[n - 1] == '\r')
        line[n - 1] = 0;
    safe = harmless(line);
    printf("%s%s\n", mark, safe);
    free(safe);
    free(line);
}

void exchange_headers(const json_t *headers, const char *mark)
{
    json_t *pair;
    size_t i;

    json_array_foreach(headers, i, pair)
    {
        const char *name = json_string_value(json_array_get(pair, 0)),
                   *value = json_string_value(json_array_get(pair, 1));
        char *line = gr_printf(
            "%s: %s", name ? name : "",
            value ? value : "(no process stores its value any more)");

        print_line(line, strlen(line), mark);
        free(line);
    }
}

void exchange_header_lines(const char *text, const char *mark)
{
    while (*text) {
        size_t n = strcspn(text, "\n");

        if (n > (text[0] == '\r'))
            print_line(text, n, mark);
        text += n + (text[n] == '\n');
    }
}

void exchange_body(struct bytes body, const char *mark, size_t max)
{
    size_t n = body.n < max ? body.n : max;
    const char *p = body.p, *end;

    while (n && n < body.n && ((unsigned char)p[n] & 0xc0) == 0x80)
        n--; /* not in the middle of a character */
    if (!utf8_valid((struct bytes){p, n})) {
        printf("%s(%zu bytes that are not UTF-8 text)\n", mark, body.n);
        return;
    }
    for (end = p + n; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *to = stop ? stop : end;

        print_line(p, (size_t)(to - p), mark);
        p = stop ? stop + 1 : end;
    }
    if (n < body.n)
        printf("%s… (%zu bytes more)\n", mark, body.n - n);
}

struct bytes exchange_bytes(const json_t *text)
{
    return (struct bytes){json_is_string(text) ? json_string_value(text) : "",
                          json_string_length(text)};
}

int exchange_raw(struct bytes body)
{
    if (isatty(STDOUT_FILENO)) {
        char *text = gr_strndup(body.p, body.n), *safe;
        bool clean = utf8_valid(body) && strlen(text) == body.n;

        for (char *p = text; *p; p++)
            if (*p == '\n' || *p == '\t') /* these are harmless, too */
                *p = ' ';
        safe = harmless(text);
        clean = clean && strcmp(safe, text) == 0;
        free(safe);
        free(text);
        if (!clean)
            return complain(EXIT_REFUSED,
                            "the body has control characters or is not text, "
                            "and could control this terminal: write it to a "
                            "file (--raw > FILE), or show it escaped, without "
                            "--raw");
    }
    fwrite(body.p, 1, body.n, stdout);
    if (fflush(stdout) != 0)
        return complain(EXIT_REFUSED, "the body could not be written");
    return 0;
}
