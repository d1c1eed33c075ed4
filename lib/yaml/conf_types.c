/* conf_types: the kinds of values: strings, paths, secrets in files, numbers, words, sections.
 * Each reads, prints and frees its target; conf.h lists the targets. */
#include "conf.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

/* ---- strings ---- */

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

const struct conf_type conf_as_string = {
    .name = "string",
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
        if (n && text[n - 1] == '\n')
            text[--n] = 0;
        if (n && text[n - 1] == '\r')
            text[--n] = 0;
        return text;
    }
    got = errno;
    if (fd >= 0)
        close(fd);
    free(text);
    errno = (int)got;
    return NULL;
}

/* Only a warning: an error would stop a pipeline that has worked so far, and the modes of
 * secrets that are mounted into a container can often not be changed. A group may read it
 * (root:grapnel, 0640). */
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
        conf_error(v, "cannot read %s: %s", path,
                   errno == EILSEQ ? "contains a zero byte" : strerror(errno));
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

/* Whether the text is the path of a file, as `file:` would find it. A word without a slash or a dot never is: somebody may make
 * a file of this name later, and the next start must not fail. A header's value may have dots. */
static bool is_path_of_file(const struct conf_value *v,
                            const struct conf_key *k, const char *text)
{
    char *path = absolute(v, text);
    struct stat st;
    bool may_be = strchr(text, '/') ||
                  (!(k->flags & CONF_EMPTY_OK) && strchr(text, '.'));
    bool found = may_be && stat(path, &st) == 0 && S_ISREG(st.st_mode);

    free(path);
    return found;
}

static bool begins_like_path(const char *text)
{
    return *text == '/' || strncmp(text, "./", 2) == 0 ||
           strncmp(text, "../", 3) == 0 || strncmp(text, "~/", 2) == 0;
}

/* The value itself. Where a file could be named, a forgotten `file:` would make the path the
 * secret, which others can guess. The error does not show the text: it may be the secret. */
static char *literal_item(const struct conf_value *v, const struct conf_key *k)
{
    bool may_be_file = k->flags & CONF_SECRET && !conf_is_json(v);
    char *text = conf_string(v);

    if (!text)
        return NULL;
    if (may_be_file && is_path_of_file(v, k, text))
        conf_error(v, "is the path of a file: write `file:PATH`, or the path "
                      "itself would be the value. If this text really is the "
                      "value, put it into a file and name that file");
    else if (text_is_good(v, k, text)) {
        conf_remember(v, text);
        if (may_be_file && !(k->flags & CONF_EMPTY_OK) &&
            begins_like_path(text))
            conf_warn_at(v->conf, text,
                         "looks like the path of a file, but there is no such "
                         "file: write `file:PATH` if a file is meant. If this "
                         "text really is the secret, put it into a file and "
                         "name that file");
        return text;
    }
    free(text);
    return NULL;
}

static char *read_item(const struct conf_value *v, const struct conf_key *k)
{
    char *name, *text;

    /* "file:" has its meaning only if it is written, not if a variable contains it. */
    if (!(k->flags & CONF_SECRET) || v->node->type != YAML_SCALAR_NODE ||
        strncmp((const char *)v->node->data.scalar.value, "file:", 5) != 0)
        return literal_item(v, k);
    if (conf_is_json(v)) {
        conf_error(v, "must be the value itself: a secret of a file "
                      "(file:path) is possible only in grapnel.yaml");
        return NULL;
    }
    name = conf_string(v);
    text = name ? secret_file(v, k, name + strlen("file:")) : NULL;
    free(name);
    return text;
}

/* ---- list of strings ---- */

static void read_strings(const struct conf_value *v, const struct conf_key *k,
                         void *target)
{
    struct string_list *l = target;
    size_t n = conf_count(v);

    string_list_fini(l);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);
        char *text = read_item(&item, k);

        if (text)
            string_list_give(l, text);
    }
    if (n == 0 && conf_is_list(v) && (k->flags & CONF_FILLED))
        conf_error(v, "must not be an empty list%s",
                   k->flags & CONF_REQUIRED ? "" : ": remove the key");
}

static void print_strings(struct buf *out, const struct conf_key *k,
                          const void *target, int indent)
{
    const struct string_list *l = target;

    (void)indent;
    buf_puts(out, " [");
    for (size_t i = 0; i < l->count; i++) {
        buf_puts(out, i ? ", " : "");
        conf_put_text(out, k->flags & CONF_SECRET ? "…" : l->items[i]);
    }
    buf_puts(out, "]\n");
}

static bool unset_strings(const struct conf_key *k, const void *target)
{
    const struct string_list *l = target;

    return l->count == 0 && !k->fallback;
}

static void fini_strings(const struct conf_key *k, void *target)
{
    (void)k;
    string_list_fini(target);
}

const struct conf_type conf_as_strings = {
    .name = "list of strings",
    .read = read_strings,
    .print = print_strings,
    .unset = unset_strings,
    .fini = fini_strings,
};

/* ---- whole numbers, with and without units ---- */

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit duration_units[] = {
    {"d", 24 * 60 * 60 * 1000LL},
    {"h", 60 * 60 * 1000},
    {"m", 60 * 1000},
    {"s", 1000},
    {"ms", 1},
    {0},
};

static const struct unit size_units[] = {
    {"TiB", 1LL << 40}, {"GiB", 1LL << 30}, {"MiB", 1LL << 20},
    {"KiB", 1LL << 10}, {"B", 1},           {0},
};

static const struct unit no_units[] = {{"", 1}, {0}};

/* Reads digits, and returns where they end. `none` says that there are none. */
static gr_rc parse_digits(const char *text, const char *none, int64_t *n,
                          const char **end, const char **why)
{
    char *behind;

    if (!isdigit((unsigned char)*text)) {
        *why = *text == '-' ? "must not be negative" : none;
        return GR_REFUSE;
    }
    if (text[0] == '0' && isdigit((unsigned char)text[1])) {
        *why = "has a leading zero, which makes it an octal number in YAML: "
               "remove the zero";
        return GR_REFUSE;
    }
    errno = 0;
    *n = strtoll(text, &behind, 10);
    *end = behind;
    *why = errno ? "is too large a number" : NULL;
    return errno ? GR_REFUSE : GR_OK;
}

static gr_rc parse_units(const char *text, const struct unit *units,
                         const char *strange, const char *missing, int64_t *n,
                         const char **why)
{
    const char *unit = text;

    if (parse_digits(text, units == no_units ? missing : strange, n, &unit,
                     why) != GR_OK)
        return GR_REFUSE;
    for (; units->name; units++) {
        if (strcmp(unit, units->name) != 0)
            continue;
        if (!__builtin_mul_overflow(*n, units->factor, n))
            return GR_OK;
        *why = "is too large";
        return GR_REFUSE;
    }
    *why = *unit ? strange : missing;
    return GR_REFUSE;
}

/* A duration that is added to a time must not overflow it. */
#define LONGEST_MS (36500LL * 24 * 60 * 60 * 1000)

gr_rc conf_parse_duration(const char *text, int64_t *ms, const char **why)
{
    if (parse_units(text, duration_units,
                    "is not a duration; write a number and ms, s, m, h or d, "
                    "such as 10s",
                    "needs a unit (ms, s, m, h or d), such as 10s", ms,
                    why) != GR_OK)
        return GR_REFUSE;
    *why = *ms > LONGEST_MS ? "is too large: the maximum is 36500d" : NULL;
    return *why ? GR_REFUSE : GR_OK;
}

gr_rc conf_parse_size(const char *text, int64_t *bytes, const char **why)
{
    return parse_units(text, size_units,
                       "is not a size; write a number and B, KiB, MiB, GiB or "
                       "TiB, such as 1MiB",
                       "needs a unit (B, KiB, MiB, GiB or TiB), such as 1MiB",
                       bytes, why);
}

gr_rc conf_parse_int(const char *text, int64_t *n, const char **why)
{
    return parse_units(text, no_units, "has text after the number",
                       "is not a number", n, why);
}

static void put_units(struct buf *out, const struct unit *units, int64_t n)
{
    while (units[1].name && (n == 0 || n % units->factor))
        units++;
    buf_printf(out, "%" PRId64 "%s", n / units->factor, units->name);
}

void conf_put_duration(struct buf *out, int64_t ms)
{
    /* 0 is written as 0s, because seconds are the usual unit. */
    if (ms == 0)
        buf_puts(out, "0s");
    else
        put_units(out, duration_units, ms);
}

void conf_put_size(struct buf *out, int64_t bytes)
{
    put_units(out, size_units, bytes);
}

static void put_int(struct buf *out, int64_t n)
{
    buf_printf(out, "%" PRId64, n);
}

/* A kind of integer: how it is parsed and printed. */
struct whole {
    gr_rc (*parse)(const char *text, int64_t *n, const char **why);
    void (*put)(struct buf *out, int64_t n);
    const char *meant;
};

static void bound_mistake(const struct conf_value *v, const struct whole *w,
                          const char *side, int64_t bound)
{
    struct buf b;

    buf_init(&b, 64);
    w->put(&b, bound);
    conf_error(v, "must be at %s %s", side, b.data);
    buf_fini(&b);
}

/* A quoted number is a text, unless the quotes were necessary for a variable. */
static bool is_quoted(const struct conf_value *v)
{
    return v->node->type == YAML_SCALAR_NODE &&
           v->node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE &&
           !strstr((const char *)v->node->data.scalar.value, "${");
}

static void read_whole(const struct conf_value *v, const struct conf_key *k,
                       const struct whole *w, int64_t *out)
{
    char *text = conf_scalar(v, w->meant);
    const char *why;
    int64_t n;

    if (!text)
        return;
    if (w->parse(text, &n, &why) != GR_OK)
        conf_error(v, "\"%.60s\" %s", text, why);
    else if (n < k->min)
        bound_mistake(v, w, "least", k->min);
    else if (k->max && n > k->max)
        bound_mistake(v, w, "most", k->max);
    else
        *out = n;
    free(text);
}

static void print_whole(struct buf *out, const struct whole *w, int64_t n)
{
    buf_puts(out, " ");
    w->put(out, n);
    buf_puts(out, "\n");
}

/* A value below the minimum cannot have been read, so it was not set. */
static bool unset_whole(const struct conf_key *k, const void *target)
{
    return *(const int64_t *)target < k->min;
}

static const struct whole as_int = {conf_parse_int, put_int, "a number"};
static const struct whole as_duration = {conf_parse_duration, conf_put_duration,
                                         "a duration (10s, 24h)"};
static const struct whole as_size = {conf_parse_size, conf_put_size,
                                     "a size (64KiB, 1MiB)"};

static void read_int(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    if (v->node && is_quoted(v))
        conf_error(v, "must be a number, not a string: remove the quotes");
    else
        read_whole(v, k, &as_int, target);
}

static void print_int(struct buf *out, const struct conf_key *k,
                      const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_int, *(const int64_t *)target);
}

static void read_duration(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    read_whole(v, k, &as_duration, target);
}

static void print_duration(struct buf *out, const struct conf_key *k,
                           const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_duration, *(const int64_t *)target);
}

static void read_size(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    read_whole(v, k, &as_size, target);
}

static void print_size(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    (void)k, (void)indent;
    print_whole(out, &as_size, *(const int64_t *)target);
}

const struct conf_type conf_as_int = {
    .name = "number",
    .read = read_int,
    .print = print_int,
    .unset = unset_whole,
};

const struct conf_type conf_as_duration = {
    .name = "duration",
    .read = read_duration,
    .print = print_duration,
    .unset = unset_whole,
};

const struct conf_type conf_as_size = {
    .name = "size",
    .read = read_size,
    .print = print_size,
    .unset = unset_whole,
};

/* ---- numbers with a fraction ---- */

static bool is_decimal(const char *s)
{
    size_t whole = strspn(s, "0123456789"), part;

    if (whole == 0 || whole > 15 || (whole > 1 && *s == '0'))
        return false;
    if (s[whole] == 0)
        return true;
    part = strspn(s + whole + 1, "0123456789");
    return s[whole] == '.' && part > 0 && s[whole + 1 + part] == 0;
}

static void read_number(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    char *text = conf_scalar(v, "a number");
    double n;

    if (!text)
        return;
    n = strtod(text, NULL);
    if (is_quoted(v))
        conf_error(v, "must be a number, not a string: remove the quotes");
    else if (!is_decimal(text))
        conf_error(v, "\"%.60s\" is not a number like 2 or 1.5", text);
    else if (n < (double)k->min / 100)
        conf_error(v, "must be at least %g", (double)k->min / 100);
    else if (k->max && n > (double)k->max / 100)
        conf_error(v, "must be at most %g", (double)k->max / 100);
    else
        *(double *)target = n;
    free(text);
}

static void print_number(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)k, (void)indent;
    buf_printf(out, " %.15g\n", *(const double *)target);
}

static bool unset_number(const struct conf_key *k, const void *target)
{
    return *(const double *)target < (double)k->min / 100;
}

const struct conf_type conf_as_number = {
    .name = "number, such as `2` or `1.5`",
    .read = read_number,
    .print = print_number,
    .unset = unset_number,
};

/* ---- truth ---- */

static void read_bool(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    (void)k;
    if (conf_is_word(v, "true"))
        *(bool *)target = true;
    else if (conf_is_word(v, "false"))
        *(bool *)target = false;
    else
        conf_error(v, "must be true or false, without quotes");
}

static void print_bool(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, *(const bool *)target ? " true\n" : " false\n");
}

const struct conf_type conf_as_boolean = {
    .name = "true or false",
    .read = read_bool,
    .print = print_bool,
};

static void read_switch(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    /* YAML reads an unquoted on as true; in JSON it is a string. */
    bool (*is)(const struct conf_value *v,
               const char *word) = conf_is_json(v) ? conf_says : conf_is_word;

    (void)k;
    if (is(v, "on") || conf_is_word(v, "true"))
        *(bool *)target = true;
    else if (is(v, "off") || conf_is_word(v, "false"))
        *(bool *)target = false;
    else
        conf_error(v, conf_is_json(v) ? "must be \"on\" or \"off\""
                                      : "must be on or off, without quotes");
}

static void print_switch(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, *(const bool *)target ? " on\n" : " off\n");
}

const struct conf_type conf_as_switch = {
    .name = "on or off",
    .read = read_switch,
    .print = print_switch,
};

/* ---- one of some words ---- */

static void no_such_choice(const struct conf_value *v, const struct conf_key *k,
                           const char *text)
{
    struct conf_near near = {.text = text};
    struct buf all;
    char hint[100];

    buf_init(&all, 512);
    for (const char *const *word = k->choices; *word; word++) {
        conf_near_try(&near, *word);
        buf_printf(&all, "%s%s", all.len ? ", " : "", *word);
    }
    conf_error(v, "\"%.60s\" is not one of: %s%s", text, all.data,
               conf_near_hint(&near, hint));
    buf_fini(&all);
}

/* The index of the word, or -1 after reporting an error. */
static int chosen(const struct conf_value *v, const struct conf_key *k)
{
    /* No word is of another type in YAML: for `yes` the words that are possible help more than
     * quotes. */
    char *text = conf_is_json(v) ? conf_string(v) : conf_scalar(v, "a string");
    int i = 0;

    if (!text)
        return -1;
    while (k->choices[i] && strcmp(k->choices[i], text) != 0)
        i++;
    if (!k->choices[i]) {
        i = -1;
        if (k->check && k->check(text))
            conf_error(v, "%s", k->check(text));
        else
            no_such_choice(v, k, text);
    }
    free(text);
    return i;
}

static void read_choice(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    int i = chosen(v, k);

    if (i >= 0)
        *(int *)target = i;
}

static void print_choice(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)indent;
    buf_printf(out, " %s\n", k->choices[*(const int *)target]);
}

const struct conf_type conf_as_choice = {
    .name = "word",
    .read = read_choice,
    .print = print_choice,
};

static void read_optional_choice(const struct conf_value *v,
                                 const struct conf_key *k, void *target)
{
    int i = chosen(v, k);

    if (i >= 0)
        *(int *)target = i + 1;
}

static void print_optional_choice(struct buf *out, const struct conf_key *k,
                                  const void *target, int indent)
{
    (void)indent;
    buf_printf(out, " %s\n", k->choices[*(const int *)target - 1]);
}

static bool unset_optional_choice(const struct conf_key *k, const void *target)
{
    (void)k;
    return !*(const int *)target;
}

const struct conf_type conf_as_optional_choice = {
    .name = "word",
    .read = read_optional_choice,
    .print = print_optional_choice,
    .unset = unset_optional_choice,
};

static void read_either(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    int i = chosen(v, k);

    if (i >= 0)
        *(bool *)target = i == 1;
}

static void print_either(struct buf *out, const struct conf_key *k,
                         const void *target, int indent)
{
    (void)indent;
    buf_printf(out, " %s\n", k->choices[*(const bool *)target]);
}

const struct conf_type conf_as_either = {
    .name = "word",
    .read = read_either,
    .print = print_either,
};

/* ---- sections ---- */

static void read_map(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    conf_read_section(v, k->section, target);
}

static void print_map(struct buf *out, const struct conf_key *k,
                      const void *target, int indent)
{
    buf_puts(out, "\n");
    conf_print(k->section, target, out, indent + 2, false);
}

/* Absent: a required key is missing, or all keys are. */
static bool unset_map(const struct conf_key *k, const void *target)
{
    bool any = false;

    if (!(k->flags & CONF_OPTIONAL))
        return false;
    for (const struct conf_key *in = k->section->keys; in->name; in++) {
        bool set = !in->type->unset ||
                   !in->type->unset(in, (const char *)target + in->offset);

        if (!set && (in->flags & CONF_REQUIRED))
            return true;
        any = any || set;
    }
    return !any;
}

static void fini_map(const struct conf_key *k, void *target)
{
    conf_fini(k->section, target);
}

const struct conf_type conf_as_map = {
    .name = "section",
    .read = read_map,
    .print = print_map,
    .unset = unset_map,
    .fini = fini_map,
};

/* The list's count is at another offset of the same struct. */
static size_t *count_of(const struct conf_key *k, const void *target)
{
    return (size_t *)((char *)(uintptr_t)target - k->offset + k->count_offset);
}

size_t conf_maps_count(const struct conf_key *k, const void *target)
{
    return *count_of(k, target);
}

/* Adds to the list, because an included file may have more items. */
static void read_maps(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char **items = target;
    size_t *count = count_of(k, target), size = k->section->size, n;

    if (!conf_is_list(v)) {
        conf_error(v, "must be a list (each %s begins with a dash)",
                   k->section->name);
        return;
    }
    n = conf_count(v);
    *items = gr_realloc(*items, (*count + n) * size);
    memset(*items + *count * size, 0, n * size);
    for (size_t i = 0; i < n; i++) {
        struct conf_value item = conf_item(v, i);

        conf_read_section(&item, k->section, *items + *count * size);
        ++*count;
    }
}

static void print_maps(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    const char *items = *(char *const *)target;
    size_t n = *count_of(k, target);

    buf_puts(out, "\n");
    for (size_t i = 0; i < n; i++) {
        size_t at = out->len + (size_t)indent + 2;

        conf_print(k->section, items + i * k->section->size, out, indent + 4,
                   false);
        if (!out->failed && at < out->len)
            out->data[at] = '-';
    }
}

static bool unset_maps(const struct conf_key *k, const void *target)
{
    return *count_of(k, target) == 0;
}

static void fini_maps(const struct conf_key *k, void *target)
{
    char **items = target;
    size_t *count = count_of(k, target);

    for (size_t i = 0; i < *count; i++)
        conf_fini(k->section, *items + i * k->section->size);
    free(*items);
    *items = NULL;
    *count = 0;
}

const struct conf_type conf_as_maps = {
    .name = "list of sections",
    .read = read_maps,
    .print = print_maps,
    .unset = unset_maps,
    .fini = fini_maps,
};
