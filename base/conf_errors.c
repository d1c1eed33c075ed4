/* conf_errors: what is wrong, and where it stands. */
#include "conf_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX_BYTES = 1024 };

/* What a file says may hold anything; a line of ours stays one line. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            *s = '?';
}

void conf_add_mistake(struct conf *c, const struct conf_file *f, size_t line,
                      size_t column, char *message)
{
    struct mistake m = {.file_order = f->order,
                        .line = line,
                        .column = column,
                        .nth = c->mistake_count,
                        .message = message};

    make_printable(message);
    c->mistakes = gr_realloc(c->mistakes,
                             (c->mistake_count + 1) * sizeof *c->mistakes);
    c->mistakes[c->mistake_count++] = m;
}

void conf_forget_mistakes(struct conf *c, size_t count)
{
    while (c->mistake_count > count)
        free(c->mistakes[--c->mistake_count].message);
}

static void put_path(struct buf *b, const struct conf_value *v)
{
    if (!v->parent)
        return;
    put_path(b, v->parent);
    if (v->key)
        buf_printf(b, "%s%s", b->len ? "." : "", v->key);
    else
        buf_printf(b, "[%zu]", v->index);
}

static char *path_of(const struct conf_value *v)
{
    struct buf b;

    buf_init(&b, MESSAGE_MAX_BYTES);
    put_path(&b, v);
    b.failed = false; /* a path too long is told as far as it fits */
    return buf_take(&b);
}

/* Where nothing is written, its section is the place to look at. */
static const yaml_node_t *node_or_parent(const struct conf_value *v)
{
    while (!v->node && v->parent)
        v = v->parent;
    return v->node;
}

static void mark_of(const struct conf_value *v, size_t *line, size_t *column)
{
    const yaml_node_t *n = node_or_parent(v);

    *line = n ? n->start_mark.line + 1 : 1;
    *column = n ? n->start_mark.column + 1 : 1;
}

static GR_PRINTF(5, 0) char *sentence(const struct conf_file *f, size_t line,
                                      size_t column, const char *path,
                                      const char *fmt, va_list ap)
{
    char what[MESSAGE_MAX_BYTES];

    vsnprintf(what, sizeof what, fmt, ap);
    return gr_printf("%s:%zu:%zu: %s%s%s", f->name, line, column, path,
                     *path ? ": " : "", what);
}

static GR_PRINTF(2, 0) void error_va(const struct conf_value *v,
                                     const char *fmt, va_list ap)
{
    size_t line, column;
    char *path = path_of(v);

    mark_of(v, &line, &column);
    conf_add_mistake(v->conf, v->file, line, column,
                     sentence(v->file, line, column, path, fmt, ap));
    free(path);
}

void conf_error(const struct conf_value *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_va(v, fmt, ap);
    va_end(ap);
}

void conf_error_key(const struct conf_value *v, const char *name,
                    const char *fmt, ...)
{
    struct conf_value at = conf_child(v, name);
    va_list ap;

    at.node = conf_value_of(v, name);
    va_start(ap, fmt);
    error_va(&at, fmt, ap);
    va_end(ap);
}

void conf_remember(const struct conf_value *v, const char *text)
{
    struct conf *c = v->conf;
    struct place p = {.text = text, .file = v->file, .path = path_of(v)};

    mark_of(v, &p.line, &p.column);
    if (c->place_count == c->place_room) {
        c->place_room = c->place_room ? 2 * c->place_room : 64;
        c->places = gr_realloc(c->places, c->place_room * sizeof *c->places);
    }
    c->places[c->place_count++] = p;
}

static const struct place *place_of(const struct conf *c, const char *text)
{
    for (size_t i = c->place_count; i-- > 0;)
        if (c->places[i].text == text)
            return &c->places[i];
    return NULL;
}

void conf_error_at(struct conf *c, const char *text, const char *fmt, ...)
{
    const struct place *p = place_of(c, text);
    va_list ap;

    if (!p)
        return; /* a copy: its original is told */
    va_start(ap, fmt);
    conf_add_mistake(c, p->file, p->line, p->column,
                     sentence(p->file, p->line, p->column, p->path, fmt, ap));
    va_end(ap);
}

void conf_warn_at(struct conf *c, const char *text, const char *fmt, ...)
{
    const struct place *p = place_of(c, text);
    char what[MESSAGE_MAX_BYTES];
    va_list ap;

    if (!p)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    conf_add_mistake(c, p->file, p->line, p->column,
                     gr_printf("%s:%zu:%zu: %s: warning: %s", p->file->name,
                               p->line, p->column, p->path, what));
    c->mistakes[c->mistake_count - 1].warning = true;
}

void conf_where(const struct conf *c, const char *text, struct buf *out)
{
    const struct place *p = place_of(c, text);

    if (p)
        buf_printf(out, "%s:%zu:%zu", p->file->name, p->line, p->column);
}

/* As the file's own name was given, so that errors name both alike. */
char *conf_beside(const struct conf *c, const char *text)
{
    const struct place *p = place_of(c, text);
    const char *slash = p ? strrchr(p->file->name, '/') : NULL;

    if (!slash || *text == '/')
        return gr_strdup(text);
    return gr_printf("%.*s%s", (int)(slash + 1 - p->file->name), p->file->name,
                     text);
}

static int by_place(const void *left, const void *right)
{
    const struct mistake *a = left, *b = right;

    if (a->file_order != b->file_order)
        return a->file_order < b->file_order ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return a->nth < b->nth ? -1 : a->nth > b->nth;
}

static void sort(struct conf *c)
{
    if (c->mistake_count)
        qsort(c->mistakes, c->mistake_count, sizeof *c->mistakes, by_place);
}

size_t conf_put_mistakes(struct conf *c, struct buf *out)
{
    size_t errors = 0;

    sort(c);
    for (size_t i = 0; i < c->mistake_count; i++) {
        if (c->mistakes[i].warning)
            continue;
        buf_printf(out, "%s\n", c->mistakes[i].message);
        errors++;
    }
    return errors;
}

bool conf_good(const struct conf *c)
{
    for (size_t i = 0; i < c->mistake_count; i++)
        if (!c->mistakes[i].warning)
            return false;
    return true;
}

void conf_warnings(struct conf *c, struct text_list *out)
{
    sort(c);
    for (size_t i = 0; i < c->mistake_count; i++)
        if (c->mistakes[i].warning)
            text_list_add(out, c->mistakes[i].message);
}
