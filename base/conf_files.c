/* conf_files: a file, or a text that is compiled in, made a tree of nodes. */
#include "conf_inside.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEARCHED_LINES = 50 }; /* for what a syntax error comes from */

static struct conf_file *file_new(struct conf *c, const char *name)
{
    struct conf_file *f = gr_alloc(sizeof *f);

    f->name = gr_strdup(name);
    f->order = (int)c->file_count;
    c->files = gr_realloc(c->files, (c->file_count + 1) * sizeof *c->files);
    c->files[c->file_count++] = f;
    return f;
}

void conf_file_free(struct conf_file *f)
{
    if (f->loaded)
        yaml_document_delete(&f->document);
    free(f->name);
    free(f->folder);
    free(f);
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

static size_t lines_before(const char *text, size_t n)
{
    size_t lines = 1;

    for (size_t i = 0; i < n && text[i]; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Does an unquoted value begin at `at` with what YAML takes for something else? */
static bool needs_quotes(const char *at)
{
    return (at[0] == '$' && at[1] == '{') || *at == '*' || *at == '@' ||
           *at == '`' || *at == '%';
}

/* The first such value of the lines from `line` to `last` (from 1), or NULL. */
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

/* "; quote it: \"${X}\"", or "". */
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
    /* Quotes are around the whole value: "Bearer ${X}". */
    while (start > text && !strchr("[{,\n", start[-1]) &&
           (start[-1] != ':' || *start != ' '))
        start--;
    start += strspn(start, " \t-");
    if (end - start > 60)
        end = start + 60;
    snprintf(out, 100, "; quote it: \"%.*s\"", (int)(end - start), start);
}

/* libyaml says where in two ways: by mark, or, for bytes that are no text, by
 * offset. */
static void syntax_mistake(struct conf *c, const struct conf_file *f,
                           const yaml_parser_t *p, const struct buf *text)
{
    bool bytes = p->error == YAML_READER_ERROR;
    size_t line = bytes ? lines_before(text->data, p->problem_offset)
                        : p->problem_mark.line + 1;
    size_t column = bytes ? 1 : p->problem_mark.column + 1;
    const char *context = p->context ? p->context : "";
    size_t first = p->context ? p->context_mark.line + 1 : line;
    char hint[100] = "";

    if (!p->problem) /* no mistake in the file, but no memory to read it */
        die(EXIT_STORAGE, "out of memory");
    if (!bytes)
        put_quote_hint(hint, text->data ? text->data : "",
                       first + SEARCHED_LINES < line ? line : first, line);
    conf_add_mistake(c, f, line, column,
                     gr_printf("%s:%zu:%zu: not YAML: %s%s%s%s", f->name, line,
                               column, context, *context ? ": " : "",
                               p->problem, hint));
}

/* One document is meant: what follows it is no part of the configuration and
 * would be passed over silently. */
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
        conf_add_mistake(c, f, root->start_mark.line + 1, 1,
                         gr_printf("%s:%zu:1: a second document begins here; "
                                   "one is meant",
                                   f->name, root->start_mark.line + 1));
    yaml_document_delete(&next);
    return root == NULL;
}

static bool is_standard_tag(const char *tag)
{
    return strcmp(tag, YAML_STR_TAG) == 0 || strcmp(tag, YAML_SEQ_TAG) == 0 ||
           strcmp(tag, YAML_MAP_TAG) == 0;
}

/* Our tables say what a value is; a tag could only contradict them. */
static void check_tags(struct conf *c, struct conf_file *f)
{
    const yaml_node_t *n = f->document.nodes.start;

    for (; n < f->document.nodes.top; n++)
        if (!is_standard_tag((const char *)n->tag))
            conf_add_mistake(
                c, f, n->start_mark.line + 1, n->start_mark.column + 1,
                gr_printf("%s:%zu:%zu: tags (%.60s) are not supported", f->name,
                          n->start_mark.line + 1, n->start_mark.column + 1,
                          n->tag));
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
        conf_add_mistake(c, f, 0, 0,
                         gr_printf("%s: the file is empty", f->name));
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
        conf_error_at(c, named_at, "%s cannot be read: %s", f->name, why);
    else
        conf_add_mistake(c, f, 0, 0,
                         gr_printf("%s: cannot be read: %s", f->name, why));
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

/* The key that begins at `line`, without quotes; `n` of its bytes. */
static const char *key_of(const char *line, size_t *n)
{
    char quote = *line == '"' || *line == '\'' ? *line++ : 0;

    *n = quote ? strcspn(line, (char[]){quote, '\n', 0})
               : strcspn(line, ": \t\n");
    return line;
}

static bool has_key(const struct conf_section *s, const char *line)
{
    size_t n;
    const char *name = key_of(line, &n);

    for (const struct conf_key *k = s->keys; k->name; k++)
        if (strlen(k->name) == n && memcmp(k->name, name, n) == 0)
            return true;
    return false;
}

/* A key of the file itself, not something that belongs to the key above it. */
static bool begins_key(char c)
{
    return c && !strchr(" \t\r\n#-]}", c);
}

/* One flow map, like JSON: its lines say nothing on their own. */
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

/* Blank every line that does not belong to a key of `s`; the rest keeps its
 * place, so that errors name the right line. */
static void keep_keys(char *text, const struct conf_section *s)
{
    bool keep = false;

    while (*text) {
        size_t n = strcspn(text, "\n");

        if (begins_key(*text))
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
        conf_forget_mistakes(c, before);
        keep_keys(text.data, s);
        parse(c, f, &text);
    }
    if (f->loaded) {
        conf_forget_mistakes(c, before);
        read_root(c, f, s, target);
    }
    buf_fini(&text);
}

struct conf_file *conf_load_text(struct conf *c, const char *name,
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
    assert(good); /* compiled in: ours to get right */
    (void)good;
    return f;
}

void conf_read_text(struct conf *c, const char *name, const char *yaml,
                    const struct conf_section *s, void *target)
{
    read_root(c, conf_load_text(c, name, yaml), s, target);
}

const char *conf_file_folder(const struct conf_value *v)
{
    return v->file->folder;
}
