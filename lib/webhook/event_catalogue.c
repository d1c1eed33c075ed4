/* event_catalogue: finds the schema of an event type. */
#include "event_catalogue.h"
#include "alloc.h"
#include <stdlib.h>
#include <string.h>

struct known {
    char *name;
    struct json_schema *schema;
};

struct event_catalogue {
    struct known *all; /* sorted by name */
    size_t count;
};

struct event_catalogue *event_catalogue_new(void)
{
    return gr_alloc(sizeof(struct event_catalogue));
}

void event_catalogue_free(struct event_catalogue *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        free(c->all[i].name);
        json_schema_free(c->all[i].schema);
    }
    free(c->all);
    free(c);
}

gr_rc event_catalogue_add(struct event_catalogue *c, const char *name,
                          const char *schema)
{
    struct json_schema_wrong wrong;
    struct known *k;

    if (c->count % 32 == 0)
        c->all = gr_realloc(c->all, (c->count + 32) * sizeof *c->all);
    k = &c->all[c->count++];
    *k = (struct known){.name = gr_strdup(name)};
    if (*schema)
        k->schema = json_schema_new((struct bytes){schema, strlen(schema)},
                                    &wrong);
    return *schema && !k->schema ? GR_REFUSE : GR_OK;
}

static int by_name(const void *left, const void *right)
{
    const struct known *a = left, *b = right;

    return strcmp(a->name, b->name);
}

bool event_catalogue_find(const struct event_catalogue *c, const char *name,
                          const struct json_schema **schema)
{
    const struct known key = {.name = (char *)(uintptr_t)name};
    const struct known *found =
        c->count ? bsearch(&key, c->all, c->count, sizeof key, by_name) : NULL;

    if (found)
        *schema = found->schema;
    return found != NULL;
}
