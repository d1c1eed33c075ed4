/* conf: reads a YAML file by tables of keys.
 *
 * One table for each section says what a key is called, what it may hold, its default and
 * its meaning. The same table parses, checks, prints and documents. One run finds every
 * error of a file and reports each with file, line, column and key path, in order; no error
 * ends the reading.
 *
 *   static const struct conf_key log_keys[] = {
 *       {.name = "keep", .type = &conf_as_duration, .fallback = "30d",
 *        .offset = offsetof(struct log_conf, keep_ms), .min = 1, .help = "…"},
 *       {0}};
 *
 * `${VAR}` in a text is replaced by a variable of the environment, `$$` by a dollar.
 * Aliases work; an error in an aliased value has the position of the value.
 *
 * The same tables read JSON of a stranger (conf_read_json): neither the environment nor any
 * file is read for it, and errors have a path, but no position. */
#ifndef YAML_CONF_H
#define YAML_CONF_H

#include "alloc.h"
#include "rc.h"
#include "string_list.h"

enum {
    CONF_FILE_MAX_BYTES = 16 * 1024 * 1024,
    CONF_SECRET_MAX_BYTES = 64 * 1024,
    CONF_JSON_MAX_VALUES = 4096, /* of one JSON document, with its keys */
    CONF_JSON_MAX_DEPTH = 8,
};

struct conf;      /* one reading: a file and all that it includes */
struct conf_file; /* one of its files */
struct conf_key;
struct json_t;
struct yaml_document_s;
struct yaml_node_s;

/* One place in a file. It is on the reader's stack; `parent` gives the path. */
struct conf_value {
    struct conf *conf;
    const struct conf_file *file;
    const struct yaml_node_s *node; /* NULL: the value is missing */
    const struct conf_value *parent;
    const char *key; /* NULL: it is item `index` of its parent */
    size_t index;
};

struct conf_type {
    const char *name; /* the name of the type in the documentation */
    /* Reports what is wrong with conf_error(), or fills `target`, which is zeroed or was
     * filled by the section's init. */
    void (*read)(const struct conf_value *v, const struct conf_key *k,
                 void *target);
    /* Appends " value
     * ", or "
     * " and indented lines. */
    void (*print)(struct buf *out, const struct conf_key *k, const void *target,
                  int indent);
    bool (*unset)(const struct conf_key *k, const void *target);
    /* Set only where print() does not show the whole value; else NULL. */
    bool (*same)(const struct conf_key *k, const void *a, const void *b);
    void (*fini)(const struct conf_key *k, void *target);
};

enum conf_flag {
    CONF_REQUIRED = 1 << 0, /* the key is required */
    CONF_OPTIONAL = 1 << 1, /* a section whose absence has a meaning */
    CONF_SECRET = 1 << 2,   /* may be file:path; is never printed */
    CONF_FILLED = 1 << 3,   /* a list that is present has at least one item */
    CONF_EMPTY_OK = 1 << 4, /* the text may be empty */
    CONF_PUBLIC =
        1
        << 5, /* with CONF_SECRET: others may read its file without a warning */
};

struct conf_section;

struct conf_key {
    const char *name; /* NULL ends a table */
    const struct conf_type *type;
    size_t offset;        /* of the target in the section's struct */
    size_t count_offset;  /* of a list's count, or another second target */
    const char *fallback; /* the default, as a user would write it; or NULL */
    int64_t min, max;     /* of a number; max 0: the type's own limit */
    const struct conf_section *section; /* of conf_as_map and conf_as_maps */
    const char *const *choices;         /* of conf_as_choice; NULL ends it */
    /* Returns what is wrong with this text (a static sentence), or NULL. */
    const char *(*check)(const char *text);
    /* The words of the section's `kind` for which this key has an effect, as bits of their
     * index; 0: all. */
    unsigned with;
    unsigned flags;   /* enum conf_flag */
    const char *form; /* for the documentation, in place of the type's name */
    const char *help;
};

/* A name that is not a key here, and the hint for a user who writes it. */
struct conf_known {
    const char *name, *what;
};

struct conf_section {
    const char *name; /* the word for one item: "endpoint" */
    const char *help;
    size_t size; /* of the struct of one item */
    const struct conf_key *keys;
    const struct conf_known *known; /* may be NULL; ends with no name */
    const char
        *kind; /* the key (a choice) to which conf_key.with refers; or NULL */
    bool part; /* other keys are allowed here and ignored */
    /* Called before the keys are read; may be NULL. */
    void (*init)(void *user, void *target);
    /* Called after them, also if some had errors; may be NULL. */
    void (*check)(const struct conf_value *v, void *target);
};

/* The types, with their targets: */
extern const struct conf_type conf_as_string;   /* char * */
extern const struct conf_type conf_as_path;     /* char *, made absolute */
extern const struct conf_type conf_as_strings;  /* struct string_list */
extern const struct conf_type conf_as_boolean;  /* bool */
extern const struct conf_type conf_as_switch;   /* bool, written as on or off */
extern const struct conf_type conf_as_int;      /* int64_t */
extern const struct conf_type conf_as_duration; /* int64_t, ms */
extern const struct conf_type conf_as_size;     /* int64_t, bytes */
extern const struct conf_type
    conf_as_number; /* double; min and max in hundredths */
extern const struct conf_type conf_as_choice; /* an enum: an index of choices */
/* an enum: an index of choices, plus 1; 0: the key is missing */
extern const struct conf_type conf_as_optional_choice;
extern const struct conf_type
    conf_as_either; /* bool: true for the second of two choices */
extern const struct conf_type conf_as_map;  /* the section's struct */
extern const struct conf_type conf_as_maps; /* T *, with count_offset */

/* ---- one reading ---- */

struct conf *conf_open(void *user);
/* Reads a file, or a compiled-in text, into `target`. Errors are kept. Relative paths in
 * defaults are relative to the folder of the first file. `named_at` is the text that
 * included the file (the position of the error if it cannot be read), or NULL. */
void conf_read_file(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target);
void conf_read_text(struct conf *c, const char *name, const char *text,
                    const struct conf_section *s, void *target);
/* Reads a JSON object into `target`. A text is taken as it is: `$` has no meaning, and a
 * secret `file:path` is an error. The document is bounded (CONF_JSON_MAX_…); the caller
 * bounds its bytes. */
void conf_read_json(struct conf *c, const struct json_t *doc,
                    const struct conf_section *s, void *target);
/* Reads only the keys of `s` (whose `part` is set), whatever is wrong elsewhere in the
 * file: for programs that need a few keys. In a file that is not valid YAML the lines of
 * these keys are still found, unless it is one flow map (JSON). A file that cannot be
 * opened is an error. */
void conf_read_part(struct conf *c, const char *path, const char *named_at,
                    const struct conf_section *s, void *target);
/* The environment variables that were used so far, and those of them that are not set; each
 * name once. */
const struct string_list *conf_variables(const struct conf *c);
const struct string_list *conf_unset_variables(const struct conf *c);
/* Whether no error was found so far (warnings do not count). */
bool conf_good(const struct conf *c);
/* The first error, cut where necessary, as UTF-8: the path of the wrong key ("" for the whole
 * file), and what is wrong. Only of conf_read_json(). false: there is none. */
bool conf_first_error(struct conf *c, char *path, size_t path_size, char *what,
                      size_t what_size);
/* Prints all errors, in the order of the files, unless `errors` is NULL; true: there were
 * none. Frees `c`. */
bool conf_close(struct conf *c, struct buf *errors);
/* Frees and zeroes what the keys of `s` own in `target`. */
void conf_fini(const struct conf_section *s, void *target);

/* ---- for readers and checks ---- */

void *conf_user(const struct conf_value *v);
void conf_error(const struct conf_value *v, const char *fmt, ...)
    GR_PRINTF(2, 3);
/* Reports that the key `name` of this section is wrong or missing. */
void conf_error_key(const struct conf_value *v, const char *name,
                    const char *fmt, ...) GR_PRINTF(3, 4);
/* The same after reading, for checks across sections: `text` is the address of a text that
 * conf_as_string or conf_as_strings have read. */
void conf_error_at(struct conf *c, const char *text, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* The same for what is allowed but probably a mistake. */
void conf_warn_at(struct conf *c, const char *text, const char *fmt, ...)
    GR_PRINTF(3, 4);
/* The warnings so far, in the order of the files, in lines like those of errors. */
void conf_warnings(struct conf *c, struct string_list *out);
/* Whether `path` is one of the files that were read. */
bool conf_has_file(const struct conf *c, const char *path);
/* Whether such a text is the default of its key, so that no file has it. */
bool conf_is_default(const struct conf *c, const char *text);
/* Appends "file:line:column" of such a text. */
void conf_where(const struct conf *c, const char *text, struct buf *out);
/* The path that such a text names, relative to its file; the caller frees it. */
char *conf_beside(const struct conf *c, const char *text);
/* Notes that `text` was read at `v`. */
void conf_remember(const struct conf_value *v, const char *text);

/* Notes that the value at `v` uses this variable of the environment, which is not set. */
void conf_note_variable(const struct conf_value *v, const char *name, bool set);

/* Whether it is from conf_read_json(). */
bool conf_is_json(const struct conf_value *v);
bool conf_has(const struct conf_value *v, const char *key);
bool conf_is_list(const struct conf_value *v);
bool conf_is_map(const struct conf_value *v);
/* Whether it is this word, unquoted. */
bool conf_is_word(const struct conf_value *v, const char *word);
/* The same, quoted or not: for words that YAML does not read as another type. */
bool conf_says(const struct conf_value *v, const char *word);

/* The items of a list; a single text is a list of one. Reports a map as an error. */
size_t conf_count(const struct conf_value *v);
struct conf_value conf_item(const struct conf_value *v, size_t i);
/* The pairs of a map, in the file's order; reports keys that occur twice. */
size_t conf_pair_count(const struct conf_value *v);
struct conf_value conf_pair(const struct conf_value *v, size_t i);
struct conf_value conf_pair_key(const struct conf_value *v, size_t i);

/* The scalar's text with its variables replaced, owned by the caller; NULL after reporting.
 * `meant` completes the message "… is meant". */
char *conf_scalar(const struct conf_value *v, const char *meant);
/* The same for a value that must be a text: what YAML reads as another type is reported
 * with "quote it". */
char *conf_string(const struct conf_value *v);

/* Reads "10s" or "64KiB". GR_REFUSE: *why says what is wrong. */
GR_MUST_CHECK gr_rc conf_parse_duration(const char *text, int64_t *ms,
                                        const char **why);
GR_MUST_CHECK gr_rc conf_parse_size(const char *text, int64_t *bytes,
                                    const char **why);
GR_MUST_CHECK gr_rc conf_parse_int(const char *text, int64_t *n,
                                   const char **why);
void conf_put_duration(struct buf *out, int64_t ms);
void conf_put_size(struct buf *out, int64_t bytes);
/* Appends YAML that reads back as this text: quoted where necessary. */
void conf_put_text(struct buf *out, const char *text);

/* Finds the nearest of the names that were tried, if it is near enough to be a typing
 * mistake. */
struct conf_near {
    const char *text;
    const char *best;
    size_t distance;
};
void conf_near_try(struct conf_near *n, const char *name);
/* Appends " (did you mean …?)" or nothing; returns out. */
const char *conf_near_hint(const struct conf_near *n, char out[100]);

/* The JSON value of what a type's print() wrote after `key:`, to be read with
 * conf_read_json(). NULL: YAML cannot hold it (not UTF-8, a key above 1024 bytes). The caller
 * owns it. */
struct json_t *conf_json_of(struct bytes text);

/* ---- by the same tables ---- */

/* Whether the key has an effect, by the value of the section's `kind`. */
bool conf_has_effect(const struct conf_section *s, const struct conf_key *k,
                     const void *target);

/* The section's keys as YAML; `comments` adds each key's meaning. */
void conf_print(const struct conf_section *s, const void *target,
                struct buf *out, int indent, bool comments);
/* What differs between two structs of this section: a line for each difference, like
 * "endpoints.crm.url", "endpoints.crm added", "endpoints.crm removed". Values are not
 * shown; secrets are compared like all others. */
void conf_diff(const struct conf_section *s, const void *a, const void *b,
               struct string_list *out);
/* The count of a list of sections (conf_as_maps) at `target`. */
size_t conf_maps_count(const struct conf_key *k, const void *target);
/* Appends a Markdown table of the section's keys, and those of deeper sections. */
void conf_document(const struct conf_section *s, const char *path,
                   struct buf *out);

/* Shared by the files of conf only. */
void conf_read_section(const struct conf_value *v, const struct conf_section *s,
                       void *target);
const char *conf_file_folder(const struct conf_value *v);
/* Makes nodes of a JSON value; on failure returns what is wrong (a static sentence), else
 * NULL. Initializes `out` in both cases. */
const char *conf_json_document(const struct json_t *doc,
                               struct yaml_document_s *out);

#endif
