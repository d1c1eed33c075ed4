/* lookup: at which places of an array the things of a key are: a hash table. Keys
 * are numbers, a text's is lookup_text(); two things may have the same one, so
 * whoever asks looks whether it is the one that was meant:
 *
 *   for (size_t at = 0; (i = lookup_next(&l, key, &at)) != LOOKUP_END;)
 *       if (strcmp(all[i].name, name) == 0)
 *           return &all[i];
 *
 * Memory only; zeroed memory is an empty one. */
#ifndef BASE_LOOKUP_H
#define BASE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#define LOOKUP_END SIZE_MAX

struct lookup_slot {
    uint64_t key;
    size_t after; /* the place and 1; 0: free */
};

struct lookup {
    struct lookup_slot *slots;
    size_t room, used; /* room: 0, or a power of 2 */
};

uint64_t lookup_text(const char *text);
void lookup_put(struct lookup *l, uint64_t key, size_t place);
/* The next place of this key, or LOOKUP_END; `at` begins at 0. */
size_t lookup_next(const struct lookup *l, uint64_t key, size_t *at);
/* Nothing happens when it is not there. */
void lookup_drop(struct lookup *l, uint64_t key, size_t place);
/* Empty again. */
void lookup_fini(struct lookup *l);

#endif
