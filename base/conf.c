/* conf: the walk along a table. Files: conf_files.c; errors: conf_errors.c;
 * values: conf_texts.c, conf_numbers.c, conf_types.c; variables and YAML's
 * bites: conf_text.c; printing: conf_print.c. */
#include "conf_inside.h"
#include <stdlib.h>
#include <string.h>

/* ---- the walk ---- */

struct conf_value conf_child(const struct conf_value *v, const char *name)
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

const yaml_node_t *conf_value_of(const struct conf_value *v, const char *name)
{
    size_t n = pairs_in(v);

    for (size_t i = 0; i < n; i++)
        if (has_text(node_at(v, pair_at(v, i)->key), name))
            return node_at(v, pair_at(v, i)->value);
    return NULL;
}

bool conf_has(const struct conf_value *v, const char *key)
{
    return conf_value_of(v, key) != NULL;
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
        conf_error(v, "a list is meant, not a map");
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
    struct conf_value item = conf_child(v, NULL);

    if (!conf_is_list(v))
        return *v;
    item.index = i;
    item.node = node_at(v, v->node->data.sequence.items.start[i]);
    return item;
}

struct conf_value conf_pair_key(const struct conf_value *v, size_t i)
{
    struct conf_value key = conf_child(v, "?");

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

/* The key at `i` is a text, and the first of its name. */
static bool key_is_good(const struct conf_value *v, size_t i)
{
    struct conf_value key = conf_pair_key(v, i);

    if (key.node->type != YAML_SCALAR_NODE) {
        conf_error(v, "a key must be a text, not a list or a map");
        return false;
    }
    for (size_t j = 0; j < i; j++) {
        const yaml_node_t *before = node_at(v, pair_at(v, j)->key);

        if (!has_text(before, key.key))
            continue;
        conf_error(&key, "is set twice (first in line %zu)",
                   before->start_mark.line + 1);
        return false;
    }
    return true;
}

size_t conf_pair_count(const struct conf_value *v)
{
    size_t n = pairs_in(v), good = 0;

    if (!conf_is_map(v)) {
        conf_error(v, "a map is meant (key: value)");
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        good += key_is_good(v, i);
    return good == n ? n : 0;
}

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
    return strcmp(name, "<<") == 0 ? "merging maps is not supported" : NULL;
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
    }
}

/* Defaults are read by the same code as the file, each parsed once. */
static const struct conf_file *fallback_file(struct conf *c,
                                             const struct conf_key *k)
{
    struct conf_file *f;

    for (size_t i = 0; i < c->file_count; i++)
        if (c->files[i]->fallback_of == k)
            return c->files[i];
    f = conf_load_text(c, "default", k->fallback);
    f->fallback_of = k;
    return f;
}

static void read_fallback(const struct conf_value *v, const struct conf_key *k,
                          void *target)
{
    struct conf_value at = conf_child(v, k->name);

    at.file = fallback_file(v->conf, k);
    at.node = yaml_document_get_root_node(
        (yaml_document_t *)&at.file->document);
    k->type->read(&at, k, target);
}

static void read_key(const struct conf_value *v, const struct conf_key *k,
                     void *target)
{
    struct conf_value at = conf_child(v, k->name);

    at.node = conf_value_of(v, k->name);
    if (at.node)
        k->type->read(&at, k, target);
    else if (k->fallback)
        read_fallback(v, k, target);
    else if (k->flags & CONF_REQUIRED)
        conf_error(&at, "is missing%s%s", k->help ? ": " : "",
                   k->help ? k->help : "");
    else if (k->type == &conf_as_map && !(k->flags & CONF_OPTIONAL))
        k->type->read(&at, k, target);
}

void conf_read_section(const struct conf_value *v, const struct conf_section *s,
                       void *target)
{
    if (s->init)
        s->init(v->conf->user, target);
    if (v->node && !conf_is_map(v)) {
        conf_error(v, "a map is meant (key: value)");
        return;
    }
    check_keys(v, s);
    for (const struct conf_key *k = s->keys; k->name; k++)
        read_key(v, k, (char *)target + k->offset);
    if (s->check)
        s->check(v, target);
}

/* ---- variables ---- */

void conf_note_variable(const struct conf_value *v, const char *name, bool set)
{
    struct conf *c = v->conf;

    if (!text_list_has(&c->variables, name))
        text_list_add(&c->variables, name);
    if (!set && !text_list_has(&c->unset, name))
        text_list_add(&c->unset, name);
}

const struct text_list *conf_variables(const struct conf *c)
{
    return &c->variables;
}

const struct text_list *conf_unset_variables(const struct conf *c)
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

static void free_all(struct conf *c)
{
    for (size_t i = 0; i < c->file_count; i++)
        conf_file_free(c->files[i]);
    for (size_t i = 0; i < c->place_count; i++)
        free(c->places[i].path);
    for (size_t i = 0; i < c->mistake_count; i++)
        free(c->mistakes[i].message);
    free(c->files);
    free(c->places);
    free(c->mistakes);
    text_list_fini(&c->variables);
    text_list_fini(&c->unset);
    free(c);
}

bool conf_close(struct conf *c, struct buf *errors)
{
    bool good = conf_put_mistakes(c, errors) == 0;

    free_all(c);
    return good;
}

void conf_fini(const struct conf_section *s, void *target)
{
    for (const struct conf_key *k = s->keys; k->name; k++)
        if (k->type->fini)
            k->type->fini(k, (char *)target + k->offset);
}
