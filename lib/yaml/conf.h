/* conf: a YAML file, read by tables of keys.
 *
 * One table for each section says what a key is called, what it may hold, its
 * default and its meaning. The same table parses, checks, prints and documents.
 * Every error of a file is found in one run and told with file, line, column
 * and key path, sorted; nothing here stops at the first.
 *
 *   static const struct conf_key log_keys[] = {
 *       {.name = "keep", .type = &conf_as_duration, .fallback = "30d",
 *        .offset = offsetof(struct log_conf, keep_ms), .min = 1, .help = "…"},
 *       {0}};
 *
 * `${VAR}` in a text is taken from the environment, `$$` is a dollar. Aliases
 * work; an error in an aliased value is told where the value stands. */
#ifndef YAML_CONF_H
#define YAML_CONF_H

#include "alloc.h"
#include "rc.h"
#include "string_list.h"

enum {
    CONF_FILE_MAX_BYTES = 16 * 1024 * 1024,
    CONF_SECRET_MAX_BYTES = 64 * 1024,
};

struct conf;      /* one reading: a file and all that it includes */
struct conf_file; /* one of its files */
struct conf_key;
struct yaml_node_s;

/* One place in a file. Lives on the reader's stack; `parent` gives the path. */
struct conf_value {
    struct conf *conf;
    const struct conf_file *file;
    const struct yaml_node_s *node; /* NULL: nothing is written there */
    const struct conf_value *parent;
    const char *key; /* NULL: it is item `index` of its parent */
    size_t index;
};

struct conf_type {
    const char *name; /* as the documentation says it */
    /* Report what is wrong with conf_error(), or fill `target`, which is zeroed
     * or holds what the section's init put there. */
    void (*read)(const struct conf_value *v, const struct conf_key *k,
                 void *target);
    /* Append " value\n", or "\n" and deeper lines. */
    void (*print)(struct buf *out, const struct conf_key *k, const void *target,
                  int indent);
    bool (*unset)(const struct conf_key *k, const void *target);
    /* Only where print() does not show all of the value; else NULL. */
    bool (*same)(const struct conf_key *k, const void *a, const void *b);
    void (*fini)(const struct conf_key *k, void *target);
};

enum conf_flag {
    CONF_REQUIRED = 1 << 0, /* the key must be there */
    CONF_OPTIONAL = 1 << 1, /* a section whose absence means something */
    CONF_SECRET = 1 << 2,   /* may be file:path; never printed */
    CONF_FILLED = 1 << 3,   /* a list that is there has at least one item */
    CONF_EMPTY_OK = 1 << 4, /* a text may be empty */
    CONF_PUBLIC = 1 << 5,   /* with CONF_SECRET: everybody may read its file */
};

struct conf_section;

struct conf_key {
    const char *name; /* NULL ends a table */
    const struct conf_type *type;
    size_t offset;        /* of the target in the section's struct */
    size_t count_offset;  /* of a list's count, or another second target */
    const char *fallback; /* the default, as one would write it; or NULL */
    int64_t min, max;     /* of a number; max 0: no bound of its own */
    const struct conf_section *section; /* of conf_as_map and conf_as_maps */
    const char *const *choices;         /* of conf_as_choice; NULL ends it */
    /* What is wrong with this text (a static sentence), or NULL. */
    const char *(*check)(const char *text);
    /* The words of the section's `kind` with which this key has an effect, as bits
     * of their index; 0: with all. */
    unsigned with;
    unsigned flags;   /* enum conf_flag */
    const char *form; /* for the documentation, instead of the type's name */
    const char *help;
};

/* A name that is no key here, but deserves a better response than "unknown". */
struct conf_known {
    const char *name, *what;
};

struct conf_section {
    const char *name; /* what one of it is called: "endpoint" */
    const char *help;
    size_t size; /* of its struct */
    const struct conf_key *keys;
    const struct conf_known *known; /* may be NULL; ends with no name */
    const char
        *kind; /* the key, a choice, that conf_key.with is about; or NULL */
    bool part; /* other keys are allowed here and are not read */
    /* Before the keys are read; may be NULL. */
    void (*init)(void *user, void *target);
    /* After them, also when some were wrong; may be NULL. */
    void (*check)(const struct conf_value *v, void *target);
};

/* Targets: */
extern const struct conf_type conf_as_string;   /* char * */
extern const struct conf_type conf_as_path;     /* char *, made absolute */
extern const struct conf_type conf_as_strings;  /* struct string_list */
extern const struct conf_type conf_as_boolean;  /* bool */
extern const struct conf_type conf_as_switch;   /* bool, written on or off */
extern const struct conf_type conf_as_int;      /* int64_t */
extern const struct conf_type conf_as_duration; /* int64_t, ms */
extern const struct conf_type conf_as_size;     /* int64_t, bytes */
extern const struct conf_type conf_as_number; /* double; min, max: hundredths */
extern const struct conf_type conf_as_choice; /* an enum, index in choices */
extern const struct conf_type conf_as_either; /* bool: the 2nd of 2 choices */
extern const struct conf_type conf_as_map;    /* the section's struct */
extern const struct conf_type conf_as_maps;   /* T *, with count_offset */

/* ---- one reading ---- */

struct conf *conf_open(void *user);
/* Read a file, or a text that is compiled in, into `target`. Errors are kept.
 * The first file's folder is where relative paths of defaults begin. `named_at`
 * is the text that included it (where to tell that it cannot be read), or
 * NULL. */
void conf_read_file(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target);
void conf_read_text(struct conf *c, const char *name, const char *text,
                    const struct conf_section *s, void *target);
/* Read only the keys of `s` (whose `part` is set), whatever is wrong elsewhere in
 * the file: for programs that need a few keys and not the rest. In a file that
 * is not YAML the lines of these keys are still found, unless it is one flow
 * map (JSON). A file that cannot be opened is an error. */
void conf_read_part(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target);
/* The environment variables that were used so far, and those of them that are not
 * set; each name once. */
const struct string_list *conf_variables(const struct conf *c);
const struct string_list *conf_unset_variables(const struct conf *c);
/* So far no error was found (warnings do not count). */
bool conf_good(const struct conf *c);
/* Print all errors, in the order of the files; true when there were none. */
bool conf_close(struct conf *c, struct buf *errors);
/* Zero and free what the keys of `s` own in `target`. */
void conf_fini(const struct conf_section *s, void *target);

/* ---- for readers and checks ---- */

void *conf_user(const struct conf_value *v);
void conf_error(const struct conf_value *v, const char *fmt, ...)
    GR_PRINTF(2, 3);
/* The key `name` of this section is wrong, or missing. */
void conf_error_key(const struct conf_value *v, const char *name,
                    const char *fmt, ...) GR_PRINTF(3, 4);
/* The same, later, by a text (its address) that conf_as_string or conf_as_strings
 * have read: for checks across sections. */
void conf_error_at(struct conf *c, const char *text, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* Likewise something that is allowed and likely a mistake. */
void conf_warn_at(struct conf *c, const char *text, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* The warnings so far, in the order of the files: lines like those of errors. */
void conf_warnings(struct conf *c, struct string_list *out);
/* `path` is one of the files that were read. */
bool conf_has_file(const struct conf *c, const char *path);
/* "file:line:column" of such a text, into `out`. */
void conf_where(const struct conf *c, const char *text, struct buf *out);
/* The path that such a text names, beside its file; caller frees. */
char *conf_beside(const struct conf *c, const char *text);
/* `text` was read at `v`. */
void conf_remember(const struct conf_value *v, const char *text);

/* The value at `v` uses this variable of the environment; it is not set. */
void conf_note_variable(const struct conf_value *v, const char *name, bool set);

bool conf_has(const struct conf_value *v, const char *key);
bool conf_is_list(const struct conf_value *v);
bool conf_is_map(const struct conf_value *v);
/* It is this word, unquoted. */
bool conf_is_word(const struct conf_value *v, const char *word);
/* The same, quoted or not: for words that YAML does not take for another type. */
bool conf_says(const struct conf_value *v, const char *word);

/* Items of a list; where a list is meant one text will do. Reports a map. */
size_t conf_count(const struct conf_value *v);
struct conf_value conf_item(const struct conf_value *v, size_t i);
/* Pairs of a map, in the file's order; doubled keys are reported. */
size_t conf_pair_count(const struct conf_value *v);
struct conf_value conf_pair(const struct conf_value *v, size_t i);
struct conf_value conf_pair_key(const struct conf_value *v, size_t i);

/* The scalar's text with variables put in, for the caller to free; NULL after
 * reporting. `meant` finishes the sentence "… is meant". */
char *conf_scalar(const struct conf_value *v, const char *meant);
/* The same for what must be a text: what YAML takes for something else is
 * reported with "quote it". */
char *conf_string(const struct conf_value *v);

/* "10s", "64KiB": GR_REFUSE and what is wrong, or the value. */
GR_MUST_CHECK gr_rc conf_parse_duration(const char *text, int64_t *ms,
                                        const char **why);
GR_MUST_CHECK gr_rc conf_parse_size(const char *text, int64_t *bytes,
                                    const char **why);
GR_MUST_CHECK gr_rc conf_parse_int(const char *text, int64_t *n,
                                   const char **why);
void conf_put_duration(struct buf *out, int64_t ms);
void conf_put_size(struct buf *out, int64_t bytes);
/* As YAML that reads back as this text: quoted where it must be. */
void conf_put_text(struct buf *out, const char *text);

/* The nearest of the names tried, if near enough to be a slip of the hand. */
struct conf_near {
    const char *text;
    const char *best;
    size_t distance;
};
void conf_near_try(struct conf_near *n, const char *name);
/* " (did you mean …?)" or "", into `out`; returns out. */
const char *conf_near_hint(const struct conf_near *n, char out[100]);

/* ---- by the same tables ---- */

/* The section's keys as YAML; `comments` puts each key's meaning behind it. */
void conf_print(const struct conf_section *s, const void *target,
                struct buf *out, int indent, bool comments);
/* What differs between two structs of this section: a line for each, like
 * "endpoints.crm.url", "endpoints.crm added", "endpoints.crm removed". Values are
 * not given out; secrets are compared like all others. */
void conf_diff(const struct conf_section *s, const void *a, const void *b,
               struct string_list *out);
/* The count of a list of sections (conf_as_maps) at `target`. */
size_t conf_maps_count(const struct conf_key *k, const void *target);
/* A Markdown table of the section's keys, and those of deeper sections. */
void conf_document(const struct conf_section *s, const char *path,
                   struct buf *out);

/* Their pieces, shared by the files of conf. */
void conf_read_section(const struct conf_value *v, const struct conf_section *s,
                       void *target);
const char *conf_file_folder(const struct conf_value *v);

#endif
