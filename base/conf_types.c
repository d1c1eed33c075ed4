/* conf_types: values that are words or sections; texts and numbers have files of
 * their own. Each type reads, prints and frees its target; conf.h lists the
 * targets. */
#include "conf.h"
#include <stdlib.h>
#include <string.h>

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
        conf_error(v, "true or false is meant (these words, unquoted)");
}

static void print_bool(struct buf *out, const struct conf_key *k,
                       const void *target, int indent)
{
    (void)k, (void)indent;
    buf_puts(out, *(const bool *)target ? " true\n" : " false\n");
}

const struct conf_type conf_as_bool = {
    .name = "true or false",
    .read = read_bool,
    .print = print_bool,
};

static void read_switch(const struct conf_value *v, const struct conf_key *k,
                        void *target)
{
    (void)k;
    if (conf_is_word(v, "on") || conf_is_word(v, "true"))
        *(bool *)target = true;
    else if (conf_is_word(v, "off") || conf_is_word(v, "false"))
        *(bool *)target = false;
    else
        conf_error(v, "is neither on nor off; write one of these words, "
                      "unquoted");
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
    conf_error(v, "\"%.60s\" is none of: %s%s", text, all.data,
               conf_near_hint(&near, hint));
    buf_fini(&all);
}

/* The index of the word that stands here, or -1 after reporting. */
static int chosen(const struct conf_value *v, const struct conf_key *k)
{
    char *text = conf_string(v);
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

/* Absent: what it needs is not there, or nothing of it is. */
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

/* The list's count lies at another offset of the same struct. */
static size_t *count_of(const struct conf_key *k, const void *target)
{
    return (size_t *)((char *)(uintptr_t)target - k->offset + k->count_offset);
}

size_t conf_maps_count(const struct conf_key *k, const void *target)
{
    return *count_of(k, target);
}

/* Adds: a file that is included brings more of them. */
static void read_maps(const struct conf_value *v, const struct conf_key *k,
                      void *target)
{
    char **items = target;
    size_t *count = count_of(k, target), size = k->section->size, n;

    if (!conf_is_list(v)) {
        conf_error(v, "a list is meant (each %s begins with a dash)",
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
