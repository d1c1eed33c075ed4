/* conf: one reading of a file and all that it includes: the walk along the tables of keys,
 * the files, and every error with its position. Kinds of values are in conf_types.c,
 * variables and unquoted values in conf_text.c, JSON in conf_json.c, printing in conf_print.c, comparing in
 * conf_diff.c. */
#include "conf.h"
#include "json_text.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

struct conf_file {
    char *name;   /* as errors name it */
    char *folder; /* absolute */
    int order;    /* its place among all files, by which errors are sorted */
    const struct conf_key *fallback_of; /* the text is this key's default */
    yaml_document_t document;
    bool loaded;
    bool json; /* of conf_read_json() */
};

struct position {
    const char
        *text; /* never dereferenced: an address that identifies the value */
    const struct conf_file *file;
    size_t line, column;
    char *path;
};

struct mistake {
    int file_order;
    size_t line, column, nth;
    char *message;
    size_t path_bytes; /* in JSON: the message begins with this path */
    bool warning;      /* the file is accepted in spite of it */
};

struct conf {
    void *user;
    struct conf_file **files;
    size_t file_count;
    struct position *positions;
    size_t position_count, position_capacity;
    struct mistake *mistakes;
    size_t mistake_count;
    struct string_list variables, unset; /* of the environment */
};

/* ---- what a file says at a place ---- */

static struct conf_value child(const struct conf_value *v, const char *name)
{
    return (struct conf_value){
        .conf = v->conf, .file = v->file, .parent = v, .key = name};
}

static bool has_text(const yaml_node_t *n, const char *text)
{
    return n && n->type == YAML_SCALAR_NODE &&
           n->data.scalar.length == strlen(text) &&
           memcmp(n->data.scalar.value, text, n->data.scalar.length) == 0;
}

static yaml_node_t *node_at(const struct conf_value *v, int id)
{
    return yaml_document_get_node((yaml_document_t *)&v->file->document, id);
}

static const yaml_node_pair_t *pair_at(const struct conf_value *v, size_t i)
{
    return v->node->data.mapping.pairs.start + i;
}

static size_t pairs_in(const struct conf_value *v)
{
    if (!v->node || v->node->type != YAML_MAPPING_NODE)
        return 0;
    return (size_t)(v->node->data.mapping.pairs.top -
                    v->node->data.mapping.pairs.start);
}

static const yaml_node_t *value_of(const struct conf_value *v, const char *name)
{
    size_t n = pairs_in(v);

    for (size_t i = 0; i < n; i++)
        if (has_text(node_at(v, pair_at(v, i)->key), name))
            return node_at(v, pair_at(v, i)->value);
    return NULL;
}

bool conf_has(const struct conf_value *v, const char *key)
{
    return value_of(v, key) != NULL;
}

bool conf_is_list(const struct conf_value *v)
{
    return v->node && v->node->type == YAML_SEQUENCE_NODE;
}

bool conf_is_map(const struct conf_value *v)
{
    return v->node && v->node->type == YAML_MAPPING_NODE;
}

bool conf_is_word(const struct conf_value *v, const char *word)
{
    return has_text(v->node, word) &&
           v->node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

bool conf_says(const struct conf_value *v, const char *word)
{
    return has_text(v->node, word);
}

bool conf_is_json(const struct conf_value *v)
{
    return v->file->json;
}

void *conf_user(const struct conf_value *v)
{
    return v->conf->user;
}

size_t conf_count(const struct conf_value *v)
{
    if (conf_is_list(v))
        return (size_t)(v->node->data.sequence.items.top -
                        v->node->data.sequence.items.start);
    if (conf_is_map(v)) {
        conf_error(v, "must be a list, not %s",
                   v->file->json ? "an object" : "a map");
        return 0;
    }
    if (has_text(v->node, "") &&
        v->node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        conf_error(v, "has no value (an empty list is [])");
        return 0;
    }
    return v->node ? 1 : 0;
}

struct conf_value conf_item(const struct conf_value *v, size_t i)
{
    struct conf_value item = child(v, NULL);

    if (!conf_is_list(v))
        return *v;
    item.index = i;
    item.node = node_at(v, v->node->data.sequence.items.start[i]);
    return item;
}

struct conf_value conf_pair_key(const struct conf_value *v, size_t i)
{
    struct conf_value key = child(v, "?");

    key.node = node_at(v, pair_at(v, i)->key);
    if (key.node->type == YAML_SCALAR_NODE)
        key.key = (const char *)key.node->data.scalar.value;
    return key;
}

struct conf_value conf_pair(const struct conf_value *v, size_t i)
{
    struct conf_value pair = conf_pair_key(v, i);

    pair.node = node_at(v, pair_at(v, i)->value);
    return pair;
}

/* Whether the key at `i` is a text, and the first one of its name. */
static bool key_is_good(const struct conf_value *v, size_t i)
{
    struct conf_value key = conf_pair_key(v, i);

    if (key.node->type != YAML_SCALAR_NODE) {
        conf_error(v, "a key must be a string, not a list or a map");
        return false;
    }
    /* A JSON object has each key once. */
    for (size_t j = 0; j < i && !v->file->json; j++) {
        const yaml_node_t *before = node_at(v, pair_at(v, j)->key);

        if (!has_text(before, key.key))
            continue;
        conf_error(&key, "is set twice (first on line %zu)",
                   before->start_mark.line + 1);
        return false;
    }
    return true;
}

static void not_a_map(const struct conf_value *v)
{
    conf_error(v, "must be %s",
               v->file->json ? "an object" : "a map (key: value)");
}

size_t conf_pair_count(const struct conf_value *v)
{
    size_t n = pairs_in(v), good = 0;

    if (!conf_is_map(v)) {
        not_a_map(v);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        good += key_is_good(v, i);
    return good == n ? n : 0;
}

/* ---- what is wrong, and where ---- */

enum { MESSAGE_MAX_BYTES = 1024 };

static void add_mistake(struct conf *c, const struct conf_file *f, size_t line,
                        size_t column, char *message)
{
    struct mistake m = {.file_order = f->order,
                        .line = line,
                        .column = column,
                        .nth = c->mistake_count,
                        .message = message};

    /* Text of the file must not begin a new line of the output. */
    for (char *s = message; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            *s = '?';
    c->mistakes = gr_realloc(c->mistakes,
                             (c->mistake_count + 1) * sizeof *c->mistakes);
    c->mistakes[c->mistake_count++] = m;
}

static void forget_mistakes(struct conf *c, size_t count)
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
    b.failed = false; /* a path that is too long is cut */
    return buf_take(&b);
}

static void mark_of(const struct conf_value *v, size_t *line, size_t *column)
{
    const yaml_node_t *n;

    while (!v->node && v->parent) /* a missing value has that of its section */
        v = v->parent;
    n = v->node;
    *line = n ? n->start_mark.line + 1 : 1;
    *column = n ? n->start_mark.column + 1 : 1;
}

static GR_PRINTF(5, 0) char *sentence(const struct conf_file *f, size_t line,
                                      size_t column, const char *path,
                                      const char *fmt, va_list ap)
{
    char what[MESSAGE_MAX_BYTES];

    vsnprintf(what, sizeof what, fmt, ap);
    if (f->json)
        return gr_printf("%s%s%s", path, *path ? ": " : "", what);
    return gr_printf("%s:%zu:%zu: %s%s%s", f->name, line, column, path,
                     *path ? ": " : "", what);
}

static GR_PRINTF(2, 0) void error_va(const struct conf_value *v,
                                     const char *fmt, va_list ap)
{
    size_t line, column;
    char *path = path_of(v);

    mark_of(v, &line, &column);
    add_mistake(v->conf, v->file, line, column,
                sentence(v->file, line, column, path, fmt, ap));
    v->conf->mistakes[v->conf->mistake_count - 1].path_bytes = strlen(path);
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
    struct conf_value at = child(v, name);
    va_list ap;

    at.node = value_of(v, name);
    va_start(ap, fmt);
    error_va(&at, fmt, ap);
    va_end(ap);
}

void conf_remember(const struct conf_value *v, const char *text)
{
    struct conf *c = v->conf;
    struct position p = {.text = text, .file = v->file, .path = path_of(v)};

    mark_of(v, &p.line, &p.column);
    if (c->position_count == c->position_capacity) {
        c->position_capacity = c->position_capacity ? 2 * c->position_capacity
                                                    : 64;
        c->positions = gr_realloc(c->positions,
                                  c->position_capacity * sizeof *c->positions);
    }
    c->positions[c->position_count++] = p;
}

static const struct position *position_of(const struct conf *c,
                                          const char *text)
{
    for (size_t i = c->position_count; i-- > 0;)
        if (c->positions[i].text == text)
            return &c->positions[i];
    return NULL;
}

void conf_error_at(struct conf *c, const char *text, const char *fmt, ...)
{
    const struct position *p = position_of(c, text);
    va_list ap;

    if (!p)
        return; /* a copy has the position of its original */
    va_start(ap, fmt);
    add_mistake(c, p->file, p->line, p->column,
                sentence(p->file, p->line, p->column, p->path, fmt, ap));
    c->mistakes[c->mistake_count - 1].path_bytes = strlen(p->path);
    va_end(ap);
}

void conf_warn_at(struct conf *c, const char *text, const char *fmt, ...)
{
    const struct position *p = position_of(c, text);
    char what[MESSAGE_MAX_BYTES];
    va_list ap;

    if (!p)
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    add_mistake(c, p->file, p->line, p->column,
                gr_printf("%s:%zu:%zu: %s: warning: %s", p->file->name, p->line,
                          p->column, p->path, what));
    c->mistakes[c->mistake_count - 1].warning = true;
}

bool conf_is_default(const struct conf *c, const char *text)
{
    const struct position *p = position_of(c, text);

    return p && p->file->fallback_of;
}

void conf_where(const struct conf *c, const char *text, struct buf *out)
{
    const struct position *p = position_of(c, text);

    if (p)
        buf_printf(out, "%s:%zu:%zu", p->file->name, p->line, p->column);
}

/* Named relative to the first file as that was given, so that errors name both alike. */
char *conf_beside(const struct conf *c, const char *text)
{
    const struct position *p = position_of(c, text);
    const char *slash = p ? strrchr(p->file->name, '/') : NULL;

    if (!slash || *text == '/')
        return gr_strdup(text);
    return gr_printf("%.*s%s", (int)(slash + 1 - p->file->name), p->file->name,
                     text);
}

static int by_position(const void *left, const void *right)
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
        qsort(c->mistakes, c->mistake_count, sizeof *c->mistakes, by_position);
}

static size_t put_mistakes(struct conf *c, struct buf *out)
{
    size_t errors = 0;

    sort(c);
    for (size_t i = 0; i < c->mistake_count; i++) {
        if (c->mistakes[i].warning)
            continue;
        if (out)
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

/* Copies as much as fits, and ? for each byte that is not UTF-8: a text may have been cut
 * inside a character. */
static void copy_utf8(char *out, size_t size, const char *text, size_t n)
{
    size_t at = 0;

    while (n) {
        size_t bytes = utf8_character((const unsigned char *)text, n);
        size_t step = bytes ? bytes : 1;

        if (at + step >= size)
            break;
        memcpy(out + at, bytes ? text : "?", step);
        at += step;
        text += step;
        n -= step;
    }
    out[at] = 0;
}

bool conf_first_error(struct conf *c, char *path, size_t path_size, char *what,
                      size_t what_size)
{
    const struct mistake *m;
    size_t start, i = 0;

    sort(c);
    while (i < c->mistake_count && c->mistakes[i].warning)
        i++;
    if (i == c->mistake_count)
        return false;
    m = &c->mistakes[i];
    start = m->path_bytes ? m->path_bytes + strlen(": ") : 0;
    copy_utf8(path, path_size, m->message, m->path_bytes);
    copy_utf8(what, what_size, m->message + start, strlen(m->message + start));
    return true;
}

void conf_warnings(struct conf *c, struct string_list *out)
{
    sort(c);
    for (size_t i = 0; i < c->mistake_count; i++)
        if (c->mistakes[i].warning)
            string_list_add(out, c->mistakes[i].message);
}

/* ---- files: each made a tree of nodes ---- */

enum { SEARCHED_LINES = 50 }; /* to find what caused a syntax error */

static struct conf_file *file_new(struct conf *c, const char *name)
{
    struct conf_file *f = gr_alloc(sizeof *f);

    f->name = gr_strdup(name);
    f->order = (int)c->file_count;
    c->files = gr_realloc(c->files, (c->file_count + 1) * sizeof *c->files);
    c->files[c->file_count++] = f;
    return f;
}

static char *folder_of(const char *path)
{
    char *folder, *out;
    const char *slash = strrchr(path, '/');

    if (!slash)
        folder = gr_strdup(".");
    else
        folder = gr_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    out = realpath(folder, NULL);
    if (!out)
        return folder;
    free(folder);
    return out;
}

static bool read_all(int fd, struct buf *b)
{
    char part[64 * 1024];
    ssize_t n;

    for (;;) {
        n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_put(b, part, (size_t)n);
        if (b->failed) {
            errno = EFBIG;
            return false;
        }
    }
    return n == 0;
}

static bool slurp(const char *path, struct buf *b)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good;
    int error;

    if (fd < 0)
        return false;
    good = read_all(fd, b);
    error = errno;
    close(fd);
    errno = error;
    return good;
}

bool conf_has_file(const struct conf *c, const char *path)
{
    struct stat this, other;

    if (stat(path, &this) != 0)
        return false;
    for (size_t i = 0; i < c->file_count; i++)
        if (stat(c->files[i]->name, &other) == 0 &&
            other.st_dev == this.st_dev && other.st_ino == this.st_ino)
            return true;
    return false;
}

/* Whether an unquoted value begins at `at` that YAML reads as another type. */
static bool needs_quotes(const char *at)
{
    return (at[0] == '$' && at[1] == '{') || *at == '*' || *at == '@' ||
           *at == '`' || *at == '%';
}

/* The first such value in the lines from `line` to `last` (from 1), or NULL. */
static const char *unquoted(const char *text, size_t line, size_t last)
{
    char quote = 0, before = ' ';

    for (size_t at = 1; *text && at <= last; before = *text++) {
        if (*text == '\n')
            at++;
        if (at < line)
            continue;
        if (quote) {
            quote = *text == quote ? 0 : quote;
        } else if (strchr(" \t\n[{,:-", before) && needs_quotes(text)) {
            return text;
        } else if (*text == '$' && text[1] == '{') {
            return text;
        } else if (*text == '#' && strchr(" \t\n", before)) {
            text += strcspn(text, "\n") - 1;
        } else if (*text == '"' || *text == '\'') {
            quote = *text;
        }
    }
    return NULL;
}

/* Appends "; quote it: \"${X}\"", or nothing. */
static void put_quote_hint(char out[100], const char *text, size_t line,
                           size_t last)
{
    const char *at = unquoted(text, line, last), *end = at, *start = at;

    out[0] = 0;
    if (!at)
        return;
    end += strcspn(at, *at == '$' ? "}\r\n" : " ,]}\r\n");
    if (*at == '$' && *end == '}')
        end++;
    /* Quotes must be around the whole value: "Bearer ${X}". */
    while (start > text && !strchr("[{,\n", start[-1]) &&
           (start[-1] != ':' || *start != ' '))
        start--;
    start += strspn(start, " \t-");
    if (end - start > 60)
        end = start + 60;
    snprintf(out, 100, "; quote it: \"%.*s\"", (int)(end - start), start);
}

/* libyaml gives the position as a mark, or, for bytes that are not text, as an offset. */
static void syntax_mistake(struct conf *c, const struct conf_file *f,
                           const yaml_parser_t *p, const struct buf *text)
{
    bool bytes = p->error == YAML_READER_ERROR;
    size_t line = bytes ? 1 : p->problem_mark.line + 1;
    size_t column = bytes ? 1 : p->problem_mark.column + 1;
    const char *context = p->context ? p->context : "";
    size_t first;
    char hint[100] = "";

    for (size_t i = 0; bytes && i < p->problem_offset && text->data[i]; i++)
        line += text->data[i] == '\n';
    first = p->context ? p->context_mark.line + 1 : line;
    if (!p->problem) /* memory was exhausted; the file is not at fault */
        die(EXIT_STORAGE, "out of memory");
    if (!bytes)
        put_quote_hint(hint, text->data ? text->data : "",
                       first + SEARCHED_LINES < line ? line : first, line);
    add_mistake(c, f, line, column,
                gr_printf("%s:%zu:%zu: not YAML: %s%s%s%s", f->name, line,
                          column, context, *context ? ": " : "", p->problem,
                          hint));
}

/* The configuration is one document; a second one would be ignored silently. */
static bool nothing_follows(struct conf *c, const struct conf_file *f,
                            yaml_parser_t *p, const struct buf *text)
{
    yaml_document_t next;
    const yaml_node_t *root;

    if (!yaml_parser_load(p, &next)) {
        syntax_mistake(c, f, p, text);
        return false;
    }
    root = yaml_document_get_root_node(&next);
    if (root)
        add_mistake(c, f, root->start_mark.line + 1, 1,
                    gr_printf("%s:%zu:1: a second YAML document begins "
                              "here; a file has one document",
                              f->name, root->start_mark.line + 1));
    yaml_document_delete(&next);
    return root == NULL;
}

/* The tables define the types, so a tag could only contradict them. */
static void check_tags(struct conf *c, struct conf_file *f)
{
    const yaml_node_t *n = f->document.nodes.start;

    for (; n < f->document.nodes.top; n++) {
        const char *tag = (const char *)n->tag;

        if (strcmp(tag, YAML_STR_TAG) != 0 && strcmp(tag, YAML_SEQ_TAG) != 0 &&
            strcmp(tag, YAML_MAP_TAG) != 0)
            add_mistake(c, f, n->start_mark.line + 1, n->start_mark.column + 1,
                        gr_printf("%s:%zu:%zu: tags (%.60s) are not supported",
                                  f->name, n->start_mark.line + 1,
                                  n->start_mark.column + 1, tag));
    }
}

static bool parse(struct conf *c, struct conf_file *f, const struct buf *text)
{
    yaml_parser_t p;
    bool good = false;

    if (!yaml_parser_initialize(&p))
        die(EXIT_STORAGE, "out of memory");
    yaml_parser_set_input_string(
        &p, (const unsigned char *)(text->data ? text->data : ""), text->len);
    f->loaded = yaml_parser_load(&p, &f->document);
    if (!f->loaded)
        syntax_mistake(c, f, &p, text);
    else if (!yaml_document_get_root_node(&f->document))
        add_mistake(c, f, 0, 0, gr_printf("%s: the file is empty", f->name));
    else
        good = nothing_follows(c, f, &p, text);
    if (good)
        check_tags(c, f);
    yaml_parser_delete(&p);
    return good;
}

static void read_root(struct conf *c, struct conf_file *f,
                      const struct conf_section *s, void *target)
{
    struct conf_value v = {.conf = c, .file = f};

    v.node = yaml_document_get_root_node(&f->document);
    conf_read_section(&v, s, target);
}

static void unreadable(struct conf *c, const struct conf_file *f,
                       const char *named_at)
{
    const char *why = strerror(errno);

    if (named_at)
        conf_error_at(c, named_at, "cannot read %s: %s", f->name, why);
    else
        add_mistake(c, f, 0, 0,
                    gr_printf("%s: cannot read the file: %s", f->name, why));
}

void conf_read_file(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target)
{
    struct conf_file *f = file_new(c, path);
    struct buf text;

    buf_init(&text, CONF_FILE_MAX_BYTES);
    f->folder = folder_of(path);
    if (!slurp(path, &text))
        unreadable(c, f, named_at);
    else if (parse(c, f, &text))
        read_root(c, f, s, target);
    buf_fini(&text);
}

/* ---- a part of a file ---- */

static bool has_key(const struct conf_section *s, const char *line)
{
    char quote = *line == '"' || *line == '\'' ? *line++ : 0;
    size_t n = quote ? strcspn(line, (char[]){quote, '\n', 0})
                     : strcspn(line, ": \t\n");

    for (const struct conf_key *k = s->keys; k->name; k++)
        if (strlen(k->name) == n && memcmp(k->name, line, n) == 0)
            return true;
    return false;
}

/* Whether the file is one flow map, like JSON, in which lines have no meaning. */
static bool is_flow(const char *text)
{
    for (; *text; text += *text != 0) {
        text += strspn(text, " \t\r\n");
        if (*text != '#')
            return *text == '{';
        text += strcspn(text, "\n");
    }
    return false;
}

/* Blanks every line that does not belong to a key of `s`; the others stay where they are,
 * so that errors name the right line. */
static void keep_keys(char *text, const struct conf_section *s)
{
    bool keep = false;

    while (*text) {
        size_t n = strcspn(text, "\n");

        if (!strchr(" \t\r\n#-]}", *text)) /* a key of the top level */
            keep = has_key(s, text);
        if (!keep)
            memset(text, ' ', n);
        text += n + (text[n] == '\n');
    }
}

void conf_read_part(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target)
{
    struct conf_file *f = file_new(c, path);
    size_t before = c->mistake_count;
    struct buf text;

    buf_init(&text, CONF_FILE_MAX_BYTES);
    f->folder = folder_of(path);
    if (!slurp(path, &text)) {
        unreadable(c, f, named_at);
        buf_fini(&text);
        return;
    }
    parse(c, f, &text);
    buf_put(&text, "", 1);
    text.len--;
    if (!f->loaded && !is_flow(text.data)) {
        forget_mistakes(c, before);
        keep_keys(text.data, s);
        parse(c, f, &text);
    }
    if (f->loaded) {
        forget_mistakes(c, before);
        read_root(c, f, s, target);
    }
    buf_fini(&text);
}

static struct conf_file *load_text(struct conf *c, const char *name,
                                   const char *yaml)
{
    struct conf_file *f = file_new(c, name);
    struct buf text;
    bool good;

    buf_init(&text, CONF_FILE_MAX_BYTES);
    buf_puts(&text, yaml);
    f->folder = gr_strdup(c->files[0]->folder ? c->files[0]->folder : "/");
    good = parse(c, f, &text);
    buf_fini(&text);
    assert(good); /* compiled in, so an error in it is a bug */
    (void)good;
    return f;
}

void conf_read_text(struct conf *c, const char *name, const char *yaml,
                    const struct conf_section *s, void *target)
{
    read_root(c, load_text(c, name, yaml), s, target);
}

void conf_read_json(struct conf *c, const struct json_t *doc,
                    const struct conf_section *s, void *target)
{
    struct conf_file *f = file_new(c, "");
    const char *wrong = conf_json_document(doc, &f->document);

    f->folder = gr_strdup("/");
    f->json = f->loaded = true;
    if (wrong)
        add_mistake(c, f, 0, 0, gr_strdup(wrong));
    else
        read_root(c, f, s, target);
}

const char *conf_file_folder(const struct conf_value *v)
{
    return v->file->folder;
}

/* ---- the walk along a table ---- */

static const struct conf_key *key_named(const struct conf_section *s,
                                        const char *name)
{
    for (const struct conf_key *k = s->keys; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

static const char *known_as(const struct conf_section *s, const char *name)
{
    static const struct conf_known none[] = {{0}};

    for (const struct conf_known *k = s->known ? s->known : none; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k->what;
    return strcmp(name, "<<") == 0 ? "merge keys (<<) are not supported" : NULL;
}

static void unknown_key(const struct conf_value *key,
                        const struct conf_section *s)
{
    struct conf_near near = {.text = key->key};
    const char *known = known_as(s, key->key);
    char hint[100];

    for (const struct conf_key *k = s->keys; k->name; k++)
        conf_near_try(&near, k->name);
    if (known)
        conf_error(key, "%s", known);
    else
        conf_error(key, "unknown key%s", conf_near_hint(&near, hint));
}

static void check_keys(const struct conf_value *v, const struct conf_section *s)
{
    size_t n = s->part ? 0 : pairs_in(v);

    for (size_t i = 0; i < n; i++) {
        struct conf_value key = conf_pair_key(v, i);

        if (key_is_good(v, i) && !key_named(s, key.key))
            unknown_key(&key, s);
        if (v->file->json && !conf_good(v->conf))
            break; /* only the first is told; near names are expensive */
    }
}

/* Defaults are read by the same code as the file; each is parsed once. */
static const struct conf_file *fallback_file(struct conf *c,
                                             const struct conf_key *k)
{
    struct conf_file *f;

    for (size_t i = 0; i < c->file_count; i++)
        if (c->files[i]->fallback_of == k)
            return c->files[i];
    f = load_text(c, "default", k->fallback);
    f->fallback_of = k;
    return f;
}

static void read_key(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    struct conf_value at = child(v, k->name);

    at.node = value_of(v, k->name);
    if (at.node) {
        k->type->read(&at, k, target);
    } else if (k->fallback) {
        at.file = fallback_file(v->conf, k);
        at.node = yaml_document_get_root_node(
            (yaml_document_t *)&at.file->document);
        k->type->read(&at, k, target);
    } else if (k->flags & CONF_REQUIRED)
        conf_error(&at, "is missing%s%s", k->help ? ": " : "",
                   k->help ? k->help : "");
    else if (k->type == &conf_as_map && !(k->flags & CONF_OPTIONAL))
        k->type->read(&at, k, target);
}

bool conf_has_effect(const struct conf_section *s, const struct conf_key *k,
                     const void *target)
{
    const struct conf_key *by = s->kind && k->with ? key_named(s, s->kind)
                                                   : NULL;

    return !by || k->with >> *(const int *)(const void *)((const char *)target +
                                                          by->offset) &
                      1;
}

static void check_kind(const struct conf_value *v, const struct conf_section *s,
                       const char *target)
{
    const struct conf_key *by = key_named(s, s->kind);
    int kind = *(const int *)(const void *)(target + by->offset);
    struct buf words;

    buf_init(&words, MESSAGE_MAX_BYTES);
    for (const struct conf_key *k = s->keys; k->name; k++) {
        if (!conf_has(v, k->name) || conf_has_effect(s, k, target))
            continue;
        buf_reset(&words);
        for (int i = 0; by->choices[i]; i++)
            if (k->with >> i & 1)
                buf_printf(&words, "%s%s", words.len ? " or " : "",
                           by->choices[i]);
        conf_error_key(v, k->name,
                       "has no effect with %s: %s; remove it, or set %s: %s",
                       by->name, by->choices[kind], by->name, words.data);
    }
    buf_fini(&words);
}

void conf_read_section(const struct conf_value *v, const struct conf_section *s,
                       void *target)
{
    if (s->init)
        s->init(v->conf->user, target);
    if (v->node && !conf_is_map(v)) {
        not_a_map(v);
        return;
    }
    check_keys(v, s);
    for (const struct conf_key *k = s->keys; k->name; k++)
        read_key(v, k, (char *)target + k->offset);
    if (s->kind)
        check_kind(v, s, target);
    if (s->check)
        s->check(v, target);
}

/* ---- variables ---- */

void conf_note_variable(const struct conf_value *v, const char *name, bool set)
{
    struct conf *c = v->conf;

    if (!string_list_has(&c->variables, name))
        string_list_add(&c->variables, name);
    if (!set && !string_list_has(&c->unset, name))
        string_list_add(&c->unset, name);
}

const struct string_list *conf_variables(const struct conf *c)
{
    return &c->variables;
}

const struct string_list *conf_unset_variables(const struct conf *c)
{
    return &c->unset;
}

/* ---- the whole ---- */

struct conf *conf_open(void *user)
{
    struct conf *c = gr_alloc(sizeof *c);

    c->user = user;
    return c;
}

/* A document that is read again and again should not leave its secrets in freed memory. */
static void wipe(struct conf_file *f)
{
    for (yaml_node_t *n = f->document.nodes.start; n < f->document.nodes.top;
         n++)
        if (n->type == YAML_SCALAR_NODE)
            explicit_bzero(n->data.scalar.value, n->data.scalar.length);
}

static void free_all(struct conf *c)
{
    for (size_t i = 0; i < c->file_count; i++) {
        struct conf_file *f = c->files[i];

        if (f->json)
            wipe(f);
        if (f->loaded)
            yaml_document_delete(&f->document);
        free(f->name);
        free(f->folder);
        free(f);
    }
    for (size_t i = 0; i < c->position_count; i++)
        free(c->positions[i].path);
    for (size_t i = 0; i < c->mistake_count; i++)
        free(c->mistakes[i].message);
    free(c->files);
    free(c->positions);
    free(c->mistakes);
    string_list_fini(&c->variables);
    string_list_fini(&c->unset);
    free(c);
}

bool conf_close(struct conf *c, struct buf *errors)
{
    bool good = put_mistakes(c, errors) == 0;

    free_all(c);
    return good;
}

void conf_fini(const struct conf_section *s, void *target)
{
    for (const struct conf_key *k = s->keys; k->name; k++)
        if (k->type->fini)
            k->type->fini(k, (char *)target + k->offset);
}
