/* settings_manual: grapnel.yaml(5), from the document that the tables of keys
 * write (docs/CONFIGURATION.md). Pure. It knows of Markdown just what stands there:
 * headings, paragraphs, bullets, tables, blocks of YAML. */
#include "manual.h"
#include "settings.h"
#include <stdlib.h>
#include <string.h>

enum { DOCUMENT_MAX_BYTES = 1024 * 1024, CELLS = 4 };

struct reader {
    struct buf *out;
    char *at;        /* the next line */
    struct buf text; /* a paragraph or a bullet, as far as it was read */
    bool bullet;
    int row;   /* of a table: 0 its heads, 1 the line below them */
    bool each; /* its third column says for what there is one of it */
};

/* Without backquotes, and a link without its address. In place. */
static char *plain(char *text)
{
    char *to = text;

    for (const char *p = text; *p; p++) {
        const char *link = *p == '[' ? strstr(p, "](") : NULL;

        if (*p == '`' || (link && link == p + strcspn(p, "]")))
            continue;
        if (*p == ']' && p[1] == '(')
            p += strcspn(p, ")");
        else
            *to++ = *p;
        if (!*p)
            break;
    }
    *to = 0;
    return text;
}

static void end_text(struct reader *r)
{
    if (r->text.len) {
        if (r->bullet)
            manual_entry(r->out, "*", NULL, plain(r->text.data));
        else
            manual_text(r->out, plain(r->text.data));
    }
    buf_reset(&r->text);
    r->bullet = false;
}

/* "| a | b |" into its cells. */
static int split(char *line, char *cells[CELLS])
{
    int n = 0;

    for (char *at = line + strlen("| "), *end; n < CELLS; at = end + 3) {
        cells[n++] = at;
        end = strstr(at, " | ");
        if (!end) {
            at[strcspn(at, "|")] = 0;
            break;
        }
        *end = 0;
    }
    return n;
}

/* The first cell is the key, the last says what it means. */
static void put_row(struct reader *r, char *line)
{
    char *cells[CELLS], *value = NULL, *text;
    int n;

    end_text(r);
    if (r->row == 0)
        r->each = strstr(line, "| each |");
    if (r->row++ < 2)
        return;
    n = split(line, cells);
    if (n > 1 && *plain(cells[1]))
        value = cells[1];
    text = n == CELLS && *plain(cells[2])
               ? gr_printf("%s (%s%s)", plain(cells[3]),
                           r->each                           ? "for each "
                           : strcmp(cells[2], "needed") == 0 ? ""
                                                             : "default ",
                           cells[2])
               : gr_strdup(plain(cells[n - 1]));
    manual_entry(r->out, plain(cells[0]), value, text);
    free(text);
}

/* Up to the fence that ends it. */
static void put_block(struct reader *r)
{
    char *end = strstr(r->at, "```");

    end_text(r);
    if (!end)
        return;
    *end = 0;
    manual_lines(r->out, r->at);
    r->at = end + strcspn(end + 1, "\n") + 1;
    r->at += *r->at == '\n';
}

static void put_line(struct reader *r, char *line)
{
    if (*line == '|') {
        put_row(r, line);
        return;
    }
    r->row = 0;
    if (strncmp(line, "```", 3) == 0) {
        put_block(r);
    } else if (strncmp(line, "## ", 3) == 0) {
        end_text(r);
        manual_subsection(r->out, plain(line + 3));
    } else if (!*line || *line == '#' || strncmp(line, "<!--", 4) == 0) {
        end_text(r);
    } else {
        if (strncmp(line, "- ", 2) == 0) {
            end_text(r);
            r->bullet = true;
            line += 2;
        }
        buf_printf(&r->text, "%s ", line);
    }
}

static void put_document(struct buf *out, char *document)
{
    struct reader r = {.out = out, .at = document};

    buf_init(&r.text, DOCUMENT_MAX_BYTES);
    while (*r.at) {
        char *line = r.at;
        size_t n = strcspn(line, "\n");

        r.at += n + (line[n] == '\n');
        line[n] = 0;
        put_line(&r, line);
    }
    end_text(&r);
    buf_fini(&r.text);
}

void settings_manual(struct buf *out)
{
    struct buf document;

    buf_init(&document, DOCUMENT_MAX_BYTES);
    settings_document(&document);
    manual_begin(out, "grapnel.yaml", 5, "configuration of a webhook pipeline");
    manual_section(out, "DESCRIPTION");
    put_document(out, document.data);
    manual_section(out, "SEE ALSO");
    manual_text(out, "grapnel(1): grapnel check, grapnel check --print");
    buf_fini(&document);
}
