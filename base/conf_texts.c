/* conf_texts: values that are texts, paths, secrets in files, lists of texts. */
#include "conf.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

/* ---- texts ---- */

static void fini_text(const struct conf_key *k, void *target)
{
    char **text = target;

    (void)k;
    free(*text);
    *text = NULL;
}

static bool text_is_good(const struct conf_value *v, const struct conf_key *k,
                         const char *text)
{
    const char *wrong = NULL;

    if (!*text && !(k->flags & CONF_EMPTY_OK))
        wrong = "must not be empty";
    else if (k->check)
        wrong = k->check(text);
    if (wrong)
        conf_error(v, "%s", wrong);
    return !wrong;
}

static char *checked_text(const struct conf_value *v, const struct conf_key *k)
{
    char *text = conf_string(v);

    if (text && !text_is_good(v, k, text)) {
        free(text);
        text = NULL;
    }
    if (text)
        conf_remember(v, text);
    return text;
}

static char *read_item(const struct conf_value *v, const struct conf_key *k);

static void read_text(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char **out = target;

    free(*out);
    *out = read_item(v, k);
}

static void print_text(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const char *const *text = target;

    (void)indent;
    buf_puts(out, " ");
    conf_put_text(out, k->flags & CONF_SECRET ? "…" : *text);
    buf_puts(out, "\n");
}

static bool unset_text(const struct conf_key *k, const void *target)
{
    (void)k;
    return *(const char *const *)target == NULL;
}

const struct conf_type conf_as_text = {
    .name = "text",
    .read = read_text,
    .print = print_text,
    .unset = unset_text,
    .fini = fini_text,
};

/* ---- paths ---- */

static char *absolute(const struct conf_value *v, const char *path)
{
    if (*path == '/')
        return gr_strdup(path);
    return gr_printf("%s/%s", conf_file_folder(v), path);
}

static void read_path(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char **out = target, *text = conf_string(v), *whole;

    free(*out);
    *out = NULL;
    if (!text)
        return;
    whole = absolute(v, text);
    if (*text && text_is_good(v, k, whole)) {
        conf_remember(v, whole);
        *out = whole;
        whole = NULL;
    } else if (!*text) {
        conf_error(v, "must not be empty");
    }
    free(whole);
    free(text);
}

const struct conf_type conf_as_path = {
    .name = "path",
    .read = read_path,
    .print = print_text,
    .unset = unset_text,
    .fini = fini_text,
};

/* ---- secrets in files ---- */

static void drop_newline(char *s)
{
    size_t n = strlen(s);

    if (n && s[n - 1] == '\n')
        s[--n] = 0;
    if (n && s[n - 1] == '\r')
        s[--n] = 0;
}

/* The contents of a small file, or NULL with errno (EILSEQ: a zero byte in
 * it, EFBIG: too large). */
static char *file_text(const char *path)
{
    char *text = gr_alloc(CONF_SECRET_MAX_BYTES + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = -1;

    if (fd >= 0)
        while ((got = read(fd, text + n, CONF_SECRET_MAX_BYTES + 1 - n)) > 0)
            n += (size_t)got;
    if (got == 0 && n > CONF_SECRET_MAX_BYTES)
        errno = EFBIG;
    else if (got == 0 && strlen(text) != n)
        errno = EILSEQ;
    else if (got == 0) {
        close(fd);
        drop_newline(text);
        return text;
    }
    got = errno;
    if (fd >= 0)
        close(fd);
    free(text);
    errno = (int)got;
    return NULL;
}

/* Only a warning: as an error it would stop a pipeline for what it has done since long, and
 * where secrets are mounted into a container their modes are often not ours to choose. A
 * group may read it (root:grapnel, 0640). */
static void warn_of_mode(const struct conf_value *v, const char *path,
                         const char *text)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_mode & (S_IROTH | S_IWOTH)))
        conf_warn_at(v->conf, text,
                     "every user of this machine may %s %s (mode %04o): run "
                     "`chmod o-rwx %s`",
                     st.st_mode & S_IWOTH ? "write" : "read", path,
                     (unsigned)st.st_mode & 07777, path);
}

static char *secret_file(const struct conf_value *v, const struct conf_key *k,
                         const char *name)
{
    char *path = absolute(v, name), *text = file_text(path);

    if (!text)
        conf_error(v, "%s cannot be read: %s", path,
                   errno == EILSEQ ? "has a zero byte" : strerror(errno));
    else if (!text_is_good(v, k, text)) {
        free(text);
        text = NULL;
    }
    if (text) {
        conf_remember(v, text);
        if (!(k->flags & CONF_PUBLIC))
            warn_of_mode(v, path, text);
    }
    free(path);
    return text;
}

/* "file:" counts as it is written, not when a variable brings it. */
static bool names_file(const struct conf_value *v, const struct conf_key *k)
{
    return (k->flags & CONF_SECRET) && v->node->type == YAML_SCALAR_NODE &&
           strncmp((const char *)v->node->data.scalar.value, "file:", 5) == 0;
}

static char *read_item(const struct conf_value *v, const struct conf_key *k)
{
    char *name, *text;

    if (!names_file(v, k))
        return checked_text(v, k);
    name = conf_string(v);
    text = name ? secret_file(v, k, name + strlen("file:")) : NULL;
    free(name);
    return text;
}

/* ---- lists of texts ---- */

void text_list_fini(struct text_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (struct text_list){0};
}

static void give_text(struct text_list *l, char *text)
{
    l->items = gr_realloc(l->items, (l->count + 1) * sizeof *l->items);
    l->items[l->count++] = text;
}

void text_list_add(struct text_list *l, const char *text)
{
    give_text(l, gr_strdup(text));
}

bool text_list_has(const struct text_list *l, const char *text)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i], text) == 0)
            return true;
    return false;
}

static void read_texts(const struct conf_value *v, const struct conf_key *k,
                       void *target)
{
    struct text_list *l = target;
    size_t n = conf_count(v);

    text_list_fini(l);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);
        char *text = read_item(&item, k);

        if (text)
            give_text(l, text);
    }
    if (n == 0 && conf_is_list(v) && (k->flags & CONF_FILLED))
        conf_error(v, "must not be an empty list%s",
                   k->flags & CONF_REQUIRED ? "" : ": leave it out");
}

static void print_texts(struct buf *out, const struct conf_key *k,
                        const void *target, int indent)
{
    const struct text_list *l = target;

    (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < l->count; i++) {
        buf_puts(out, i ? ", " : "");
        conf_put_text(out, k->flags & CONF_SECRET ? "…" : l->items[i]);
    }
    buf_puts(out, "]\n");
}

static bool unset_texts(const struct conf_key *k, const void *target)
{
    const struct text_list *l = target;

    return l->count == 0 && !k->fallback;
}

static void fini_texts(const struct conf_key *k, void *target)
{
    (void)k;
    text_list_fini(target);
}

const struct conf_type conf_as_texts = {
    .name = "list of texts",
    .read = read_texts,
    .print = print_texts,
    .unset = unset_texts,
    .fini = fini_texts,
};
