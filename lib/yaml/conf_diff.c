/* conf_diff: finds the keys that differ between two structs that the same table filled. */
#include "conf.h"
#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX_BYTES = 4 * 1024 * 1024 };

struct diff {
    struct buf a, b; /* the two values as text */
    struct string_list *out;
};

static void diff_section(struct diff *d, const struct conf_section *s,
                         const void *a, const void *b, const char *path);

static void add(struct diff *d, const char *path, const char *what)
{
    char *line = gr_printf("%s%s", path, what);

    string_list_add(d->out, line);
    free(line);
}

/* Includes secrets: it is only compared, never shown. */
static void put_value(struct buf *out, const struct conf_key *k,
                      const void *target)
{
    struct conf_key open = *k;

    open.flags &= ~(unsigned)CONF_SECRET;
    buf_reset(out);
    if (!k->type->unset || !k->type->unset(k, target))
        k->type->print(out, &open, target, 0);
}

static void diff_value(struct diff *d, const struct conf_key *k, const void *a,
                       const void *b, const char *path)
{
    bool same;

    if (k->type->same) {
        same = k->type->same(k, a, b);
    } else {
        put_value(&d->a, k, a);
        put_value(&d->b, k, b);
        same = d->a.len == d->b.len &&
               (!d->a.len || memcmp(d->a.data, d->b.data, d->a.len) == 0);
    }
    if (!same)
        add(d, path, "");
}

/* ---- lists of sections: items are known by their name ---- */

static const char *name_of(const struct conf_section *s, const char *item)
{
    for (const struct conf_key *k = s->keys; k->name; k++)
        if (strcmp(k->name, "name") == 0)
            return *(const char *const *)(item + k->offset);
    return NULL;
}

struct items {
    const struct conf_section *section;
    const char *first;
    size_t count;
};

static const char *item_at(const struct items *l, size_t i)
{
    return l->first + i * l->section->size;
}

/* Where `list` has the item that is number `i` of `other`; or its count. Items mostly keep
 * their order, so the search begins where the last one ended. */
static size_t find(const struct items *list, size_t from,
                   const struct items *other, size_t i)
{
    const char *name = name_of(other->section, item_at(other, i));

    if (!name)
        return i < list->count ? i : list->count;
    for (size_t n = 0; n < list->count; n++) {
        size_t at = (from + n) % list->count;
        const char *here = name_of(list->section, item_at(list, at));

        if (here && strcmp(here, name) == 0)
            return at;
    }
    return list->count;
}

static char *item_path(const char *path, const struct items *l, size_t i)
{
    const char *name = name_of(l->section, item_at(l, i));

    return name ? gr_printf("%s.%s", path, name)
                : gr_printf("%s[%zu]", path, i);
}

static void diff_items(struct diff *d, const struct conf_key *k,
                       const struct items *a, const struct items *b,
                       const char *path)
{
    size_t from = 0;

    for (size_t i = 0; i < b->count; i++) {
        size_t at = find(a, from, b, i);
        char *item = item_path(path, b, i);

        if (at == a->count)
            add(d, item, " added");
        else
            diff_section(d, k->section, item_at(a, at), item_at(b, i), item);
        from = at + 1;
        free(item);
    }
    from = 0;
    for (size_t i = 0; i < a->count; i++) {
        size_t at = find(b, from, a, i);

        if (at == b->count) {
            char *item = item_path(path, a, i);

            add(d, item, " removed");
            free(item);
        }
        from = at + 1;
    }
}

/* ---- sections ---- */

static void diff_section(struct diff *d, const struct conf_section *s,
                         const void *a, const void *b, const char *path)
{
    for (const struct conf_key *k = s->keys; k->name; k++) {
        const void *left = (const char *)a + k->offset;
        const void *right = (const char *)b + k->offset;
        char *below = *path ? gr_printf("%s.%s", path, k->name)
                            : gr_strdup(k->name);

        if (k->type == &conf_as_maps)
            diff_items(d, k,
                       &(struct items){k->section, *(const char *const *)left,
                                       conf_maps_count(k, left)},
                       &(struct items){k->section, *(const char *const *)right,
                                       conf_maps_count(k, right)},
                       below);
        else if (k->section && k->type->print == conf_as_map.print)
            diff_section(d, k->section, left, right, below);
        else
            diff_value(d, k, left, right, below);
        free(below);
    }
}

void conf_diff(const struct conf_section *s, const void *a, const void *b,
               struct string_list *out)
{
    struct diff d = {.out = out};

    buf_init(&d.a, VALUE_MAX_BYTES);
    buf_init(&d.b, VALUE_MAX_BYTES);
    diff_section(&d, s, a, b, "");
    buf_fini(&d.a);
    buf_fini(&d.b);
}
