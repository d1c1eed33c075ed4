/* string_list: a list of strings that owns them. For configuration: short lists, where a linear
 * search is fast enough. All zero is an empty list. */
#ifndef BASE_STRING_LIST_H
#define BASE_STRING_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct string_list {
    char **items;
    size_t count;
};

void string_list_fini(struct string_list *l);
void string_list_add(struct string_list *l, const char *text); /* adds a copy */
void string_list_give(struct string_list *l, char *text); /* takes ownership */
bool string_list_has(const struct string_list *l, const char *text);

#endif
