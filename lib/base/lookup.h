/* lookup: the hash table of this project: finds slots of an array, or objects by their
 * address, by a key. A key is a number; lookup_text() makes one of a text. Two entries may
 * have the same key, so the caller checks which one it found:
 *
 *   for (size_t at = 0; (i = lookup_next(&l, key, &at)) != LOOKUP_END;)
 *       if (strcmp(all[i].name, name) == 0)
 *           return &all[i];
 *
 *   for (size_t at = 0; (object = lookup_get(&l, key, &at));)
 *       if (strcmp(object->name, name) == 0)
 *           return object;
 *
 * In memory only; zeroed memory is an empty table. */
#ifndef BASE_LOOKUP_H
#define BASE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#define LOOKUP_END SIZE_MAX

struct lookup_slot {
    uint64_t key;
    size_t after; /* the slot and 1; 0: free */
};

struct lookup {
    struct lookup_slot *slots;
    size_t capacity, used; /* capacity: 0, or a power of 2 */
};

uint64_t lookup_text(const char *text);
void lookup_put(struct lookup *l, uint64_t key, size_t slot);
/* Returns the next slot of this key, or LOOKUP_END; start with *at = 0. */
size_t lookup_next(const struct lookup *l, uint64_t key, size_t *at);
/* Does nothing when the key and slot are not in it. */
void lookup_drop(struct lookup *l, uint64_t key, size_t slot);
/* The same for objects by their address, which must not change while they are in it. A
 * table holds either slots or addresses. */
void lookup_add(struct lookup *l, uint64_t key, const void *thing);
void *lookup_get(const struct lookup *l, uint64_t key,
                 size_t *at); /* or NULL */
void lookup_remove(struct lookup *l, uint64_t key, const void *thing);
/* Returns all objects, in no order; start with *at = 0. Nothing may be added or removed
 * meanwhile. */
void *lookup_walk(const struct lookup *l, size_t *at);

/* Frees its memory; it is empty again. */
void lookup_fini(struct lookup *l);

#endif
