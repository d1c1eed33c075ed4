/* string_list: adds to, searches and frees a list of strings. */
#include "string_list.h"
#include "alloc.h"
#include <stdlib.h>
#include <string.h>

void string_list_fini(struct string_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i]);
    free(l->items);
    *l = (struct string_list){0};
}

void string_list_give(struct string_list *l, char *text)
{
    l->items = gr_realloc(l->items, (l->count + 1) * sizeof *l->items);
    l->items[l->count++] = text;
}

void string_list_add(struct string_list *l, const char *text)
{
    string_list_give(l, gr_strdup(text));
}

bool string_list_has(const struct string_list *l, const char *text)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i], text) == 0)
            return true;
    return false;
}
