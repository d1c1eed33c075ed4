/* conf_inside: one reading, as the files of conf share it and nobody else sees. */
#ifndef BASE_CONF_INSIDE_H
#define BASE_CONF_INSIDE_H

#include "conf.h"
#include <yaml.h>

struct conf_file {
    char *name;   /* as errors say it */
    char *folder; /* absolute */
    int order;    /* of its errors among those of other files */
    const struct conf_key *fallback_of; /* it is this key's default */
    yaml_document_t document;
    bool loaded;
};

struct place {
    const char *text; /* never followed: an address to find the place by */
    const struct conf_file *file;
    size_t line, column;
    char *path;
};

struct mistake {
    int file_order;
    size_t line, column, nth;
    char *message;
    bool warning; /* nothing is refused for it */
};

struct conf {
    void *user;
    struct conf_file **files;
    size_t file_count;
    struct place *places;
    size_t place_count, place_room;
    struct mistake *mistakes;
    size_t mistake_count;
    struct text_list variables, unset; /* of the environment */
};

/* conf_errors.c. Takes `message`; line 0: it is about the whole file. */
void conf_add_mistake(struct conf *c, const struct conf_file *f, size_t line,
                      size_t column, char *message);
/* Drop those that were added after the first `count`. */
void conf_forget_mistakes(struct conf *c, size_t count);
/* The errors, in the order of the files; how many. */
size_t conf_put_mistakes(struct conf *c, struct buf *out);

/* conf_files.c. One of what is compiled in. */
struct conf_file *conf_load_text(struct conf *c, const char *name,
                                 const char *yaml);
void conf_file_free(struct conf_file *f);

/* conf.c. This variable is used; it is not set. */
void conf_note_variable(const struct conf_value *v, const char *name, bool set);
/* A place below `v`, with no node yet. */
struct conf_value conf_child(const struct conf_value *v, const char *name);
/* What stands at this key; NULL: nothing. */
const yaml_node_t *conf_value_of(const struct conf_value *v, const char *name);

#endif
